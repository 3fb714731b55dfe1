//! The load generator beside pgbench, and beside sysbench where the workload is sysbench's.
//!
//! Each program runs for a second and then for a second more than asked for. The first run is the
//! warm-up, and what it did and used is subtracted from the second's: connecting, parsing and cold
//! caches of new backends cost both programs something, and are not what is compared.

use std::fmt;

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::lockscope::Lockscope;
use super::pairs::{Spread, alternate};
use super::server::Server;
use super::{Rounds, machine, pgbench, prepare_on, sysbench};

const WARMUP_SECONDS: u32 = 1;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Numbers of clients to compare at with everything on one CPU; none: `--clients=`
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    clients: Vec<String>,
    /// The same on two CPUs, against pgbench's better number of threads
    #[arg(long, value_delimiter = ',', default_value = "2,8,32,128")]
    clients_on_two: Vec<String>,
    /// The two CPUs
    #[arg(long, default_value = "0,1")]
    cpus: String,
    /// What to run
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "select-prepared,select-simple,tpcb-like,oltp-read-only"
    )]
    workload: Vec<Workload>,
    /// lockscope's drivers
    #[arg(long, value_delimiter = ',', default_value = "uring,epoll")]
    io: Vec<String>,
}

/// What both programs can run.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Workload {
    SelectPrepared,
    SelectSimple,
    TpcbLike,
    /// Beside sysbench, with a thread a client
    OltpReadOnly,
}

impl Workload {
    fn rival(self) -> &'static str {
        match self {
            Self::OltpReadOnly => "sysbench",
            _ => "pgbench",
        }
    }

    /// The options of either program.
    fn options(self) -> [&'static str; 2] {
        match self {
            Self::SelectPrepared => ["-S", "-Mprepared"],
            Self::SelectSimple => ["-S", "-Msimple"],
            // The default script; the option is only there to have as many.
            Self::TpcbLike => ["-Mprepared", "--random-seed=rand"],
            Self::OltpReadOnly => ["--workload=oltp_read_only", sysbench::RANDOM],
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SelectPrepared => "select-prepared",
            Self::SelectSimple => "select-simple",
            Self::TpcbLike => "tpcb-like, prepared",
            Self::OltpReadOnly => "oltp_read_only",
        })
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy)]
struct Case<'a> {
    workload: Workload,
    clients: u32,
    /// pgbench's threads and lockscope's.
    jobs: (u32, u32),
    io: &'a str,
    seconds: u32,
}

/// What a program reached in the measured time.
#[derive(Debug, Clone, Copy)]
struct Reached {
    tps: f64,
    /// Of the whole process, from the system.
    cpu_ns: f64,
    /// Of the worker threads, as lockscope's report says.
    worker_cpu_ns: Option<f64>,
}

pub(super) fn run(options: &Options) -> Result<()> {
    println!("{}", machine::describe());
    println!("client CPU: of the whole process (wait4); in brackets lockscope's own report of its");
    println!(
        "workers', which the process exceeds by its main thread. Ratios: lockscope / its rival."
    );
    compare(options, &options.rounds.cpu.to_string(), &options.clients, 1)?;
    compare(options, &options.cpus, &options.clients_on_two, 2)
}

/// All comparisons on one set of CPUs.
fn compare(options: &Options, cpus: &str, clients: &[String], threads: u32) -> Result<()> {
    let clients = clients.iter().filter(|clients| !clients.is_empty());
    let clients: Vec<u32> = clients.map(|clients| clients.parse()).collect::<Result<_, _>>()?;
    if clients.is_empty() {
        return Ok(());
    }
    println!();
    let rounds = options.rounds;
    let (server, lockscope) = prepare_on(cpus, rounds)?;
    for workload in &options.workload {
        if workload.rival() == "sysbench" {
            sysbench::fill(&server)?;
        }
        for clients in &clients {
            let jobs = best_jobs(&server, *workload, *clients, threads)?;
            for io in &options.io {
                let jobs = (jobs, threads.min(*clients));
                let (workload, clients, seconds) = (*workload, *clients, rounds.seconds);
                let case = Case { workload, clients, jobs, io, seconds };
                let pairs = alternate(
                    rounds.pairs,
                    || rival_reached(&server, case),
                    || lockscope_reached(&lockscope, case),
                )?;
                print(case, &pairs);
            }
        }
    }
    Ok(())
}

/// The number of threads with which pgbench is faster.
fn best_jobs(server: &Server, workload: Workload, clients: u32, threads: u32) -> Result<u32> {
    let mut best = (1, 0.0);
    for jobs in 1..=threads.min(clients) {
        if threads == 1 || workload.rival() != "pgbench" {
            break;
        }
        let case = Case { workload, clients, jobs: (jobs, 1), io: "", seconds: 2 };
        let reached = rival_reached(server, case)?.tps;
        if reached > best.1 {
            best = (jobs, reached);
        }
    }
    Ok(best.0)
}

fn rival_reached(server: &Server, case: Case<'_>) -> Result<Reached> {
    let run = |seconds: u32| {
        if case.workload.rival() == "sysbench" {
            return sysbench::run(server, case.clients, seconds);
        }
        let [one, two] = case.workload.options();
        let (clients, jobs) = (format!("-c{}", case.clients), format!("-j{}", case.jobs.0));
        pgbench::run(server, &[one, two, &clients, &jobs, &format!("-T{seconds}")])
    };
    let (short, long) = (run(WARMUP_SECONDS)?, run(WARMUP_SECONDS + case.seconds)?);
    let transactions = long.transactions.saturating_sub(short.transactions) as f64;
    Ok(Reached {
        tps: transactions / f64::from(case.seconds),
        cpu_ns: long.cpu_ns.saturating_sub(short.cpu_ns) as f64 / transactions,
        worker_cpu_ns: None,
    })
}

fn lockscope_reached(lockscope: &Lockscope, case: Case<'_>) -> Result<Reached> {
    let run = |seconds: u32| {
        let [one, two] = case.workload.options();
        let (clients, jobs) = (format!("-c{}", case.clients), format!("-j{}", case.jobs.1));
        lockscope.load(&[one, two, &clients, &jobs, "--io", case.io, &format!("-T{seconds}")])
    };
    let (short, long) = (run(WARMUP_SECONDS)?, run(WARMUP_SECONDS + case.seconds)?);
    let count = "/throughput/transactions_count";
    let transactions = long.require(count)? - short.require(count)?;
    Ok(Reached {
        tps: transactions / f64::from(case.seconds),
        cpu_ns: long.cpu_ns.saturating_sub(short.cpu_ns) as f64 / transactions,
        worker_cpu_ns: long.number("/own_cost/load_cpu_ns_per_transaction"),
    })
}

fn print(case: Case<'_>, pairs: &[(Reached, Reached)]) {
    let Case { workload, clients, jobs: (theirs, own), io, .. } = case;
    let rival = workload.rival();
    let theirs = if rival == "sysbench" { clients } else { theirs };
    println!();
    println!(
        "{workload}, {clients} clients, {io}; threads: {rival} {theirs}, lockscope {own}; {}",
        machine::other_load()
    );
    println!(
        "  {rival:>8} tps  lockscope tps  ratio | CPU ns/tx: {rival:>8}  lockscope (worker)  ratio"
    );
    for (pgbench, lockscope) in pairs {
        println!(
            "  {:>12.0}  {:>13.0}  {:.3} | {:>19.0}  {:>9.0} ({:>6.0})  {:.3}",
            pgbench.tps,
            lockscope.tps,
            lockscope.tps / pgbench.tps,
            pgbench.cpu_ns,
            lockscope.cpu_ns,
            lockscope.worker_cpu_ns.unwrap_or(f64::NAN),
            lockscope.cpu_ns / pgbench.cpu_ns,
        );
    }
    let spread = |of: fn(&(Reached, Reached)) -> f64| Spread::of(pairs.iter().map(of));
    let rows = [
        ("tps ratio", spread(|(a, b)| b.tps / a.tps)),
        ("CPU ratio, whole process", spread(|(a, b)| b.cpu_ns / a.cpu_ns)),
        ("CPU ratio, worker", spread(|(a, b)| b.worker_cpu_ns.unwrap_or(f64::NAN) / a.cpu_ns)),
    ];
    for (name, spread) in rows {
        if let Some(spread) = spread {
            println!("  {name}: median {spread}");
        }
    }
}
