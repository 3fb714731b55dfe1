//! What to measure next where no signature says it: from what is missing, then from the verdict.

use crate::model::{Confidence, Experiment, Explanation, Run};

/// The experiments, the most telling first.
pub(super) fn next(explanation: &Explanation, run: &Run) -> Vec<Experiment> {
    let mut experiments = missing(run);
    let sure = explanation.matches().any(|found| found.confidence > Some(Confidence::Low));
    if !sure && !run.depth.is_empty() {
        experiments.extend(by_verdict(run));
        experiments.extend(to_compare(explanation));
    }
    experiments
}

fn experiment(text: &str, command: &str) -> Experiment {
    let command = (!command.is_empty()).then(|| command.to_owned());
    Experiment { text: text.to_owned(), command }
}

/// What was not measured, and what would measure it.
fn missing(run: &Run) -> Vec<Experiment> {
    if run.depth.is_empty() {
        let command = "sudo lockscope run OPTIONS -o traced.lockscope";
        let text = "The run is a load alone: trace it to learn where its time goes; the options of `lockscope load` are the same.";
        return vec![experiment(text, command)];
    }
    let mut found = Vec::new();
    if run.depth == "locks" {
        let text = "Depth locks leaves CPU time, run queue, I/O and Postgres's waits in one: measure at depth ledger.";
        found.push(experiment(
            text,
            "sudo lockscope run --depth ledger OPTIONS -o ledger.lockscope",
        ));
    }
    if run.profile.is_none() {
        let text = "There is no profile, so functions that are hot without a lock cannot be seen; `lockscope doctor` says what it takes.";
        found.push(experiment(text, "lockscope doctor"));
    }
    found
}

/// The proof that the verdict lacks.
fn by_verdict(run: &Run) -> Vec<Experiment> {
    let kind = run.verdict.as_ref().map_or("unknown", |verdict| verdict.kind.as_str());
    match kind {
        "kernel_lock" => vec![
            experiment(
                "Whether the lock is what limits: with fewer clients its waits must shrink faster than the throughput.",
                "sudo lockscope sweep --clients 1,2,4,8,16,32 OPTIONS",
            ),
            experiment(
                "Who holds it: a stack for every wait names holders and callers.",
                "sudo lockscope run --sample-every 1 OPTIONS -o holders.lockscope",
            ),
        ],
        "user_spin" => vec![
            experiment(
                "Which of Postgres's locks: its wait events by name.",
                "sudo lockscope attach --postgres PORT --dsn DSN",
            ),
            experiment(
                "Who calls the spinning function: a flame graph of the profile.",
                "lockscope report RUN --format flamegraph > run.svg",
            ),
        ],
        "postgres_lock" => vec![experiment(
            "Which rows or relations the backends wait for.",
            "psql -c 'SELECT locktype, relation::regclass, mode, count(*) FROM pg_locks WHERE NOT granted GROUP BY 1, 2, 3'",
        )],
        "preemption" => vec![
            experiment(
                "Whether it is too few CPUs or their placement: keep server and client on CPUs of their own.",
                "sudo lockscope ab --b pin-server=CPUS,pin-client=CPUS -- OPTIONS",
            ),
            experiment(
                "At how many clients the waiting for a CPU begins.",
                "sudo lockscope sweep --clients 1,2,4,8,16,32 OPTIONS",
            ),
        ],
        "shared_atomics" => vec![experiment(
            "Whether CPUs fight for one cache line, and for which.",
            "perf c2c record -a -- sleep 10 && perf c2c report",
        )],
        "cache_misses" => vec![experiment(
            "Whether the misses grow with the clients (shared data) or with the scale (too much data).",
            "sudo lockscope sweep --vary scale=1,10,100 OPTIONS",
        )],
        "io" => vec![
            experiment("Whether the device is busy or only its latency counts.", "iostat -x 1"),
            experiment(
                "Where backends sleep for it: the section `Off CPU` of the report.",
                "lockscope report RUN",
            ),
        ],
        "client_bound" => vec![experiment(
            "Whether the load generator is the limit: give it more threads.",
            "sudo lockscope run -j JOBS OPTIONS",
        )],
        "network" => vec![experiment(
            "Whether the way between client and server is it: the same over a Unix socket on the server's machine.",
            "sudo lockscope run -h /var/run/postgresql OPTIONS",
        )],
        "cpu" => vec![experiment(
            "What the CPU time is spent on, with callers.",
            "lockscope report RUN --format flamegraph > run.svg",
        )],
        _ => vec![experiment(
            "Nothing takes enough to be blamed: measure longer, where it is slow, and compare with where it is not.",
            "sudo lockscope run -T 60 OPTIONS -o new.lockscope",
        )],
    }
}

fn to_compare(explanation: &Explanation) -> Vec<Experiment> {
    let Some(base) = &explanation.base else {
        return vec![experiment(
            "A base tells what changed: the same load on the kernel, server or setting that was faster.",
            "lockscope explain base.lockscope RUN",
        )];
    };
    if base.runs_count + explanation.subject.runs_count == 2 {
        return vec![experiment(
            "One run a side cannot tell how much runs differ: measure in rounds, in turns.",
            "sudo lockscope ab --rounds 5 --a BASE --b NEW -- OPTIONS",
        )];
    }
    vec![experiment(
        "Which change it is: where the kernels differ, bisect between them (docs/bisect.md); else undo what differs one by one, and judge each time.",
        "lockscope compare --fail-if 'tps < -5%' base*.lockscope -- new*.lockscope",
    )]
}
