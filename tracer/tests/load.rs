//! The load against real servers: what is counted must be what the server saw.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

mod common;

use std::fs;

use common::{
    Cluster, Finished, count, entries, eventually, finish, lockscope, open_directory, processes_in,
    run,
};
use lockscope::load::server::{EmbeddedOptions, EmbeddedServer};
use lockscope::signals::Interrupt;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn every_transaction_of_a_writing_load_is_in_the_history() {
    let cluster = Cluster::start();
    for (options, scale) in [
        ("--workload tpcb-like", 1),
        ("--workload tpcb-like -M extended", 1),
        ("--workload tpcb-like -M prepared -s 2", 2),
        ("-N -M prepared", 2),
    ] {
        let json = cluster.run(&format!("{options} -c 3 -j 2 -t 50")).json();
        assert_eq!(count(&json, "transactions_count"), 150);
        assert_eq!(cluster.value("select count(*) from pgbench_history"), "150");
        assert_eq!(json["workload"]["scale"], scale);
    }
    // tpcb-like keeps the books balanced.
    cluster.run("--workload tpcb-like --force-init -c 3 -t 50").json();
    let sums = cluster.value(
        "select (select sum(delta) from pgbench_history) = (select sum(abalance) from pgbench_accounts) \
         and (select sum(abalance) from pgbench_accounts) = (select sum(tbalance) from pgbench_tellers) \
         and (select sum(tbalance) from pgbench_tellers) = (select sum(bbalance) from pgbench_branches)",
    );
    assert_eq!(sums, "t");
}

#[test]
fn a_timed_run_counts_what_ended_in_its_time() {
    let cluster = Cluster::start();
    let json = cluster.run("--workload tpcb-like -c 4 -T 1 --warmup 0 --interval 0.2").json();
    let history: u64 = cluster.value("select count(*) from pgbench_history").parse().unwrap();
    let measured = count(&json, "transactions_count");
    // Those that ended after the time are in the history alone.
    assert!(0 < measured && measured <= history, "{history} {measured}");
    let intervals = json["intervals"].as_array().unwrap();
    assert_eq!(intervals.len(), 5);
    let sum: f64 = intervals
        .iter()
        .map(|i| i["tps"].as_f64().unwrap() * i["duration_ns"].as_f64().unwrap() / 1e9)
        .sum();
    assert_eq!(sum.round() as u64, measured);
    let latency = &json["latency_ns"];
    assert!(latency["p50"].as_u64().unwrap() <= latency["p99"].as_u64().unwrap());
    assert!(latency["p99"].as_u64().unwrap() <= latency["max"].as_u64().unwrap());
    assert!(json["own_cost"]["load_cpu_ns_per_transaction"].as_u64().unwrap() > 0);
}

#[test]
fn the_server_counts_as_many_selects() {
    let cluster = Cluster::start();
    cluster.run("-S -t 1").json();
    let commits = || -> u64 {
        cluster.value("select pg_stat_force_next_flush()");
        let sql = "select xact_commit from pg_stat_database where datname = 'postgres'";
        cluster.value(sql).parse().unwrap()
    };
    for workload in ["select-prepared", "select-extended", "select-simple"] {
        let before = commits();
        let json = cluster.run(&format!("--workload {workload} -c 4 -j 2 -t 500")).json();
        assert_eq!(count(&json, "transactions_count"), 2000);
        // Statistics arrive as backends end; set-up makes a few transactions of its own.
        eventually("the server has counted the selects", || commits() >= before + 2000);
        assert!(commits() < before + 2100);
    }
}

/// Statements that a command made the server log, with numbers and spacing blanked, and without
/// how a COPY was sent.
fn logged(cluster: &Cluster, action: impl FnOnce()) -> Vec<String> {
    let before = cluster.log().len();
    action();
    let log = cluster.log().split_off(before);
    let statements = log.lines().filter_map(|line| {
        let (_, statement) = line.split_once("LOG:  ")?;
        let blank = statement.replace(|c: char| c.is_ascii_digit() || c == '-', "");
        let blank = blank.split_whitespace().collect::<Vec<_>>().join(" ");
        let blank = blank.replace("execute s: copy", "statement: copy");
        (blank.starts_with("statement: ") || blank.starts_with("execute ")).then_some(blank)
    });
    statements.collect()
}

#[test]
fn the_server_sees_pgbench_s_statements() {
    let cluster = Cluster::with_settings(&["log_statement=all"], &|_| {});
    // How the two small tables are filled differs between pgbench's versions; questions change nothing.
    let is_part = |statement: &String| {
        let small = ["pgbench_branches", "pgbench_tellers"];
        let fills = ["statement: copy ", "statement: insert into "];
        !fills
            .iter()
            .any(|fill| small.iter().any(|table| statement.starts_with(&format!("{fill}{table}"))))
            && !statement.starts_with("execute s: select")
    };
    let theirs = logged(&cluster, || cluster.pgbench(&["-i", "-q"]));
    let theirs: Vec<_> = theirs.into_iter().filter(is_part).collect();
    cluster
        .value("drop table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers");
    let own = logged(&cluster, || drop(cluster.run("-S -t 1").json()));
    let own: Vec<_> = own
        .into_iter()
        .skip_while(|statement| !statement.contains("drop table"))
        .take_while(|statement| !statement.contains("SELECT abalance"))
        .filter(|statement| !statement.contains("comment on"))
        .filter(is_part)
        .collect();
    // Tables appear together with their mark: what pgbench does without a transaction ends in a commit.
    let commit = own.iter().position(|statement| statement == "statement: commit");
    let own: Vec<_> =
        own.iter().enumerate().filter(|(i, _)| Some(*i) != commit).map(|(_, s)| s).collect();
    assert_eq!(own, theirs.iter().collect::<Vec<_>>());

    for (builtin, option) in
        [("tpcb-like", "--workload tpcb-like"), ("simple-update", "-N"), ("select-only", "-S")]
    {
        for protocol in ["simple", "extended", "prepared"] {
            let script = |statements: Vec<String>| {
                let verbs = ["BEGIN", "UPDATE", "SELECT", "INSERT", "END"];
                let is_script =
                    |s: &String| verbs.iter().any(|verb| s.contains(&format!(": {verb}")));
                statements.into_iter().filter(is_script).collect::<Vec<_>>()
            };
            let theirs = script(logged(&cluster, || {
                cluster.pgbench(&["-n", "-b", builtin, "-M", protocol, "-t", "2"]);
            }));
            let own = script(logged(&cluster, || {
                cluster.run(&format!("-n {option} -M {protocol} -t 2")).json();
            }));
            assert!(!own.is_empty());
            assert_eq!(own, theirs, "{builtin} {protocol}");
        }
    }
}

#[test]
fn the_same_seed_writes_the_same_history() {
    let cluster = Cluster::start();
    let history = |seed: u32| {
        cluster.run(&format!("--workload tpcb-like -t 20 --random-seed {seed}")).json();
        cluster.value("select string_agg(format('%s %s %s %s', tid, bid, aid, delta), ';' order by mtime) from pgbench_history")
    };
    let first = history(5);
    assert_eq!(history(5), first);
    assert_ne!(history(6), first);
}

#[test]
fn serialization_failures_are_failed_transactions_and_the_clients_go_on() {
    let cluster = Cluster::with_settings(&["default_transaction_isolation=serializable"], &|_| {});
    let json = cluster.run("--workload tpcb-like -c 8 -t 50").json();
    let failed = count(&json, "failed_count");
    assert!(failed > 0);
    assert_eq!(count(&json, "aborted_clients_count"), 0);
    assert_eq!(count(&json, "transactions_count") + failed, 400);
    let history = cluster.value("select count(*) from pgbench_history");
    assert_eq!(history, count(&json, "transactions_count").to_string());
}

#[test]
fn lockscope_s_tables_are_kept_and_those_of_others_never_dropped() {
    let cluster = Cluster::start();
    let created = || cluster.value("select oid from pg_class where relname = 'pgbench_accounts'");
    cluster.run("-S -t 1 -s 1").json();
    let first = created();
    cluster.run("-S -t 1").json();
    assert_eq!(created(), first, "tables of the same scale are used again");
    let json = cluster.run("-S -t 1 -s 2").json();
    assert_eq!(json["workload"]["scale"], 2);
    assert_ne!(created(), first, "another scale makes them anew");

    cluster.pgbench(&["-i", "-q"]);
    let theirs = created();
    cluster.run("--workload tpcb-like -t 1").json();
    cluster.run("--workload tpcb-like -t 1 -s 1").json();
    assert_eq!(cluster.value("select count(*) from pgbench_history"), "2", "the history is kept");
    cluster.run("-S -t 1 -s 2").refused(&["scale 1, not 2", "--force-init"]);
    assert_eq!(created(), theirs);
    let finished = cluster.run("-S -t 1 -s 2 --no-init");
    finished.warned("scale-ignored");
    assert_eq!(finished.json()["workload"]["scale"], 1);
    cluster.run("-S -t 1 -s 2 --force-init").json();
    assert_ne!(created(), theirs);
}

#[test]
fn the_embedded_server_is_made_used_and_removed() {
    let parent = open_directory();
    let options = format!(
        "-S -c 2 -T 1 --warmup 0 --pin-client 0 --pin-server 0 --data-dir {}",
        parent.path().display()
    );
    let json = run(&options).json();
    assert!(count(&json, "transactions_count") > 0);
    assert_eq!(json["environment"]["postgres"]["embedded"], true);
    assert_eq!(json["environment"]["postgres"]["settings"]["fsync"], "on");
    assert_eq!(json["environment"]["postgres"]["settings"]["listen_addresses"], "");
    assert_eq!(json["workload"]["pin_client"], "0");
    assert_eq!(json["workload"]["pin_server"], "0");
    assert!(entries(parent.path()).is_empty());
    assert!(processes_in(parent.path()).is_empty());
}

#[test]
fn many_clients_raise_max_connections_of_the_embedded_server() {
    let parent = open_directory();
    let json = run(&format!("-S -c 120 -t 3 --data-dir {}", parent.path().display())).json();
    assert_eq!(json["environment"]["postgres"]["settings"]["max_connections"], "130");
    assert_eq!(count(&json, "transactions_count"), 360);
}

/// Starts a long embedded run in `parent` and waits until it measures.
fn start_long_run(parent: &std::path::Path, directories: usize) -> std::process::Child {
    let options = format!("-S -c 4 -T 60 --warmup 0 --data-dir {}", parent.display());
    let child = lockscope(&options).spawn().unwrap();
    let name = |pid: u32| format!("lockscope-pg-{pid}-");
    // Set-up has two sessions at most; four are the clients'.
    eventually("the run has client backends", || {
        assert!(entries(parent).len() <= directories);
        let own: Vec<_> = entries(parent)
            .into_iter()
            .filter(|path| path.to_string_lossy().contains(&name(child.id())))
            .collect();
        let processes = own.iter().flat_map(|path| processes_in(path));
        let is_session = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|title| title.contains("[local]"))
        };
        processes.filter(is_session).count() >= 4
    });
    child
}

fn interrupt(child: std::process::Child, signal: Signal) -> Finished {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    finish(child)
}

#[test]
fn an_interrupted_run_reports_what_it_measured_and_cleans_up() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let parent = open_directory();
        let child = start_long_run(parent.path(), 1);
        std::thread::sleep(std::time::Duration::from_millis(500));
        let finished = interrupt(child, signal);
        let json = finished.json();
        finished.warned("interrupted");
        assert_eq!(json["interrupted"], true);
        assert!(count(&json, "transactions_count") > 0);
        assert!(json["workload"]["duration_ns"].as_u64().unwrap() < 60_000_000_000);
        assert!(entries(parent.path()).is_empty());
        assert!(processes_in(parent.path()).is_empty());
    }
}

#[test]
fn a_killed_run_s_server_goes_at_the_next_start_and_a_living_one_s_stays() {
    let parent = open_directory();
    let killed = start_long_run(parent.path(), 1);
    assert_eq!(interrupt(killed, Signal::SIGKILL).code, None);
    assert_eq!(entries(parent.path()).len(), 1);
    assert!(!processes_in(parent.path()).is_empty());

    let living = start_long_run(parent.path(), 2);
    assert_eq!(entries(parent.path()).len(), 1, "the abandoned one is gone, the new one is there");
    let second = run(&format!("-S -t 10 --data-dir {}", parent.path().display()));
    assert_eq!(count(&second.json(), "transactions_count"), 10);
    let json = interrupt(living, Signal::SIGINT).json();
    assert_eq!(count(&json, "aborted_clients_count"), 0, "the second did not disturb the first");
    assert!(entries(parent.path()).is_empty());
    assert!(processes_in(parent.path()).is_empty());
}

#[test]
fn a_panic_takes_the_embedded_server_with_it() {
    let parent = open_directory();
    let options = EmbeddedOptions { parent: Some(parent.path().to_owned()), ..Default::default() };
    let panicked = std::panic::catch_unwind(|| {
        let server = EmbeddedServer::start(&options, &Interrupt::default()).unwrap();
        assert!(processes_in(parent.path()).contains(&server.postmaster_pid()));
        panic!("on purpose");
    });
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(entries(parent.path()).is_empty());
    assert!(processes_in(parent.path()).is_empty());
}

#[test]
fn the_run_is_saved_whole() {
    let cluster = Cluster::start();
    let directory = open_directory();
    let path = directory.path().join("run.lockscope");
    let json = cluster.run(&format!("-S -t 10 -o {}", path.display())).json();
    let saved: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(saved, json);
    assert_eq!(entries(directory.path()), [path]);
}
