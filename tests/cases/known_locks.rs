//! Loads whose contended lock is known beforehand are shown with that lock, and those without any
//! are not. They are traced beside the benchmark with `--also-pid`.

use lockscope_tests::command::{Running, binary, skip, wait_until};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::stress::allowed_cpus;
use lockscope_tests::traced::{BRIEF, Run, Turn};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

const THREADS: usize = 2;
/// Runs within which a lock must be met.
const RUNS: u32 = 20;

/// A stressor under way.
struct Stressor {
    running: Running,
}

impl Stressor {
    fn start(name: &str) -> Self {
        let mut command = Command::new(binary("", &format!("stress-{name}")));
        command.args(["--seconds", "100", "--threads", &THREADS.to_string(), "--path", "/dev/shm"]);
        let running = Running::start(&mut command).expect("started");
        let stressor = Self { running };
        wait_until(Duration::from_secs(30), || stressor.tids().len() > THREADS).expect("threads");
        stressor
    }

    fn tids(&self) -> BTreeSet<u64> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.running.pid()));
        let entries = entries.into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// The run beside which it worked.
    fn traced(&self, turn: &Turn, server: &Postgres) -> Run {
        let pid = self.running.pid().to_string();
        let dsn = server.dsn();
        let more = ["--json", "--no-vacuum", "--dsn", &dsn, "--also-pid", &pid];
        let done = turn.run(&[&BRIEF[..], &more].concat());
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        Run::of(&done).expect("JSON")
    }

    /// A run in which the lock was met. Whether its threads meet at all within a second is up to the
    /// scheduler: several runs may be needed, and the last one is judged.
    fn traced_until(&self, turn: &Turn, server: &Postgres, met: impl Fn(&Run) -> bool) -> Run {
        let mut run = self.traced(turn, server);
        for _ in 1..RUNS {
            if met(&run) {
                break;
            }
            run = self.traced(turn, server);
        }
        run
    }

    /// Nanoseconds in a state, by the stressor's rows of the run.
    fn state_ns(&self, run: &Run, state: &str) -> u64 {
        self.rows(run).iter().filter_map(|row| row["states_ns"][state].as_u64()).sum()
    }

    fn rows<'run>(&self, run: &'run Run) -> Vec<&'run Value> {
        let pid = self.running.pid();
        let rows: Vec<_> =
            run.list("backends").into_iter().filter(|row| row["pid"] == pid).collect();
        assert!(rows.len() > THREADS, "{rows:?}");
        rows
    }

    /// The locks of a class for which the stressor's threads waited.
    fn locks<'run>(&self, run: &'run Run, class: &str) -> Vec<&'run Value> {
        let tids = self.tids();
        let waits = |lock: &&Value| {
            let sampled = lock["tids"].as_array().into_iter().flatten().filter_map(Value::as_u64);
            lock["class"] == class && sampled.into_iter().any(|tid| tids.contains(&tid))
        };
        run.list("locks").into_iter().filter(waits).collect()
    }
}

/// One server for all, which is made before anything contends with it for the CPUs.
#[test]
fn known_loads_show_their_locks() {
    let case = "known_loads_show_their_locks";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let run = computing_waits_for_no_lock(&turn, &server);
    if run.warnings().contains(&"test-and-set-spinlocks") {
        return skip(case, "test-and-set spinlocks tell nobody that they are contended");
    }
    let cpus = allowed_cpus().expect("CPUs");
    if cpus.len() < 2 {
        return skip(case, "one CPU has nobody to contend with");
    }
    a_spinlock_is_named_by_its_caller(&turn, &server);
    a_run_queue_is_named_by_its_cpu(&turn, &server, cpus[0]);
    wake_ups_contend_on_run_queues(&turn, &server);
}

fn a_spinlock_is_named_by_its_caller(turn: &Turn, server: &Postgres) {
    let stressor = Stressor::start("qspinlock");
    let known = |lock: &&Value| {
        lock["name"] == "files_struct.file_lock" || lock["name"] == "futex_hash_bucket.lock"
    };
    let run = stressor.traced_until(turn, server, |run| {
        stressor.locks(run, "qspinlock").into_iter().any(|lock| known(&lock))
    });
    assert!(stressor.state_ns(&run, "spin.qspinlock") > 0, "{}", run.0["backends"]);
    let locks = stressor.locks(&run, "qspinlock");
    let named = locks.iter().copied().find(known).unwrap_or_else(|| panic!("{locks:?}"));
    // The task's own lock is known by its address, a bucket by who wants it.
    let found_by = if named["name"] == "files_struct.file_lock" { "task" } else { "caller" };
    assert_eq!(named["found_by"], found_by, "{named}");
    assert!(named["stack"].as_array().is_some_and(|stack| !stack.is_empty()), "{named}");
}

fn a_run_queue_is_named_by_its_cpu(turn: &Turn, server: &Postgres, cpu: usize) {
    let stressor = Stressor::start("rq");
    // All its victims run on the first CPU.
    let name = format!("rq[{cpu}].lock");
    let run = stressor.traced_until(turn, server, |run| {
        stressor.locks(run, "rq").first().is_some_and(|top| top["name"] == name.as_str())
            && stressor.state_ns(run, "spin.rq") > stressor.state_ns(run, "spin.qspinlock")
    });
    let locks = stressor.locks(&run, "rq");
    let top = locks.first().unwrap_or_else(|| panic!("no rq wait: {}", run.0["locks"]));
    assert_eq!((&top["name"], &top["found_by"]), (&Value::from(name), &Value::from("rq")));
    assert!(stressor.state_ns(&run, "spin.rq") > stressor.state_ns(&run, "spin.qspinlock"));
}

fn wake_ups_contend_on_run_queues(turn: &Turn, server: &Postgres) {
    let stressor = Stressor::start("wake");
    let run = stressor.traced_until(turn, server, |run| stressor.state_ns(run, "spin.rq") > 0);
    assert!(stressor.state_ns(&run, "spin.rq") > 0, "{:?}", stressor.rows(&run));
}

fn is_lock(state: &str) -> bool {
    state.starts_with("spin.") || state.starts_with("lock_sleep.")
}

fn computing_waits_for_no_lock(turn: &Turn, server: &Postgres) -> Run {
    let stressor = Stressor::start("cpu");
    // Being scheduled takes the run queue's lock, whatever a task does; once in a while something
    // else of the kernel's happens to it.
    let only_rq = |row: &Value| {
        row["states_ns"]
            .as_object()
            .is_some_and(|states| states.keys().all(|state| !is_lock(state) || state == "spin.rq"))
    };
    let run =
        stressor.traced_until(turn, server, |run| stressor.rows(run).into_iter().all(only_rq));
    for row in stressor.rows(&run) {
        assert!(only_rq(row), "{row}");
        assert_eq!(row["lock_sleep_ns"], 0, "{row}");
    }
    run
}
