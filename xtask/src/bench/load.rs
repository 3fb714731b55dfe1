//! The load generator beside pgbench.
//!
//! Each program runs for a second and then for a second more than asked for. The first run is the
//! warm-up, and what it did and used is subtracted from the second's: connecting, parsing and cold
//! caches of new backends cost both programs something, and are not what is compared.

use anyhow::Result;
use clap::Args;

use super::lockscope::Lockscope;
use super::pairs::{Spread, alternate};
use super::server::Server;
use super::{Rounds, machine, pgbench, prepare};

const WARMUP_SECONDS: u32 = 1;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Numbers of clients to compare at
    #[arg(long, value_delimiter = ',', default_value = "1,8,32")]
    clients: Vec<u32>,
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
    let rounds = options.rounds;
    let (server, lockscope) = prepare(rounds)?;
    println!("client CPU: of the whole process (wait4); in brackets lockscope's own report of its");
    println!(
        "worker's, which the process exceeds by its main thread. Ratios: lockscope / pgbench."
    );
    for clients in &options.clients {
        let pairs = alternate(
            rounds.pairs,
            || pgbench_reached(&server, *clients, rounds.seconds),
            || lockscope_reached(&lockscope, *clients, rounds.seconds),
        )?;
        print(*clients, &pairs);
    }
    Ok(())
}

fn pgbench_reached(server: &Server, clients: u32, seconds: u32) -> Result<Reached> {
    let short = pgbench::select_prepared(server, clients, WARMUP_SECONDS)?;
    let long = pgbench::select_prepared(server, clients, WARMUP_SECONDS + seconds)?;
    let transactions = long.transactions.saturating_sub(short.transactions) as f64;
    Ok(Reached {
        tps: transactions / f64::from(seconds),
        cpu_ns: long.cpu_ns.saturating_sub(short.cpu_ns) as f64 / transactions,
        worker_cpu_ns: None,
    })
}

fn lockscope_reached(lockscope: &Lockscope, clients: u32, seconds: u32) -> Result<Reached> {
    let run = |seconds: u32| {
        let time = seconds.to_string();
        lockscope.select_prepared(clients, &["--no-trace", "--warmup", "0", "-T", &time])
    };
    let (short, long) = (run(WARMUP_SECONDS)?, run(WARMUP_SECONDS + seconds)?);
    let count = "/throughput/transactions_count";
    let transactions = long.require(count)? - short.require(count)?;
    Ok(Reached {
        tps: transactions / f64::from(seconds),
        cpu_ns: long.cpu_ns.saturating_sub(short.cpu_ns) as f64 / transactions,
        worker_cpu_ns: long.number("/own_cost/load_cpu_ns_per_transaction"),
    })
}

fn print(clients: u32, pairs: &[(Reached, Reached)]) {
    println!();
    println!("{clients} clients; {}", machine::other_load());
    println!("  pgbench tps  lockscope tps  ratio | CPU ns/tx: pgbench  lockscope (worker)  ratio");
    for (pgbench, lockscope) in pairs {
        println!(
            "  {:>11.0}  {:>13.0}  {:.3} | {:>18.0}  {:>9.0} ({:>6.0})  {:.3}",
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
