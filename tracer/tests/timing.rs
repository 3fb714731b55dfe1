//! When transactions begin, and how runs end: rates, limits, reconnects, interrupts.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

mod common;

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use common::{Cluster, count, eventually, finish, load};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

fn interrupt(child: &Child) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
}

fn counts(json: &Value) -> impl Fn(&str) -> u64 {
    |name| json["load"]["total"][name].as_u64().unwrap()
}

#[test]
fn both_drivers_run_the_load_and_say_so() {
    let cluster = Cluster::start();
    for io in ["epoll", "uring"] {
        for protocol in ["simple", "extended", "prepared"] {
            let options = format!("--io {io} -M {protocol} -c 5 -j 2 -t 40");
            let json = cluster.load(&options).json();
            assert_eq!(count(&json, "transactions_count"), 200, "{options}");
            assert_eq!(json["load"]["io"], io);
            assert_eq!(cluster.value("select count(*) from pgbench_history"), "200");
        }
    }
    let json = cluster.load("-S -t 1 -C").json();
    assert_eq!(json["load"]["io"], "epoll");
    assert!(json["load"]["io_reason"].as_str().unwrap().contains("-C"), "{json}");
    cluster.load("-S -t 1 -C --io uring").refused(&["--io uring", "-C"]);
}

#[test]
fn a_rate_is_kept_and_late_slots_are_skipped() {
    let cluster = Cluster::start();
    let json = cluster.load("-S -c 4 -j 2 -T 4 -R 200").json();
    let done = count(&json, "transactions_count");
    assert!((500..1100).contains(&done), "{done}");
    let lag = json["load"]["total"]["lag_mean_ns"].as_f64().unwrap();
    assert!(lag <= json["load"]["total"]["latency_mean_ns"].as_f64().unwrap());

    // One client cannot keep up with 20 transactions a second of 200 ms each; -L skips the rest.
    cluster.value(
        "create function slow() returns trigger language plpgsql as \
         'begin perform pg_sleep(0.2); return new; end'; \
         create trigger slow before insert on pgbench_history for each row execute function slow()",
    );
    let json = cluster.load("-N -n -c 1 -T 3 -R 20 -L 250").json();
    let count = counts(&json);
    let (done, skipped) = (count("transactions_count"), count("skipped_count"));
    assert!(skipped > done && done > 3, "{done} {skipped}");
    assert!(count("late_count") <= done);
}

#[test]
fn every_transaction_has_its_connection_if_asked_for() {
    let cluster = Cluster::with_settings(&["log_connections=on"], &|_| {});
    cluster.load("-S -t 1").json();
    let before = cluster.log().matches("connection authorized").count();
    let json = cluster.load("-S -n --no-init -C -c 3 -j 2 -t 7 -M prepared").json();
    assert_eq!(count(&json, "transactions_count"), 21);
    // Set-up has one of its own.
    let connections = cluster.log().matches("connection authorized").count() - before;
    assert!((21..=23).contains(&connections), "{connections}");
    assert!(json["load"]["connection_mean_ns"].as_u64().unwrap() > 0);
}

/// A client waits for a row that another session holds.
fn blocked(cluster: &Cluster) -> (Child, Child) {
    cluster.load("-S -t 1 -s 1").json();
    let hold = "begin; update pgbench_branches set bbalance = 0; select pg_sleep(60)";
    let holder = cluster.psql(hold).spawn().unwrap();
    let load = cluster.load_command("-c 3 -T 60 -n --no-init").spawn().unwrap();
    eventually("clients wait for the row", || {
        let sql = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        cluster.value(sql) != "0"
    });
    (holder, load)
}

#[test]
fn an_interrupt_ends_blocked_clients_at_once_and_reports() {
    let cluster = Cluster::start();
    let (mut holder, load) = blocked(&cluster);
    let began = Instant::now();
    interrupt(&load);
    let finished = finish(load);
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    finished.warned("interrupted");
    finished.warned("cancelled-at-end");
    assert_eq!(count(&finished.json(), "aborted_clients_count"), 0);
    assert!(finished.stderr.contains("asking the server to cancel"), "{}", finished.stderr);
    assert!(cluster.log().contains("canceling statement due to user request"));
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn clients_that_are_blocked_at_the_end_of_the_time_are_cancelled_and_told() {
    let cluster = Cluster::start();
    cluster.load("-S -t 1 -s 1").json();
    let hold = "begin; update pgbench_branches set bbalance = 0; select pg_sleep(60)";
    let mut holder = cluster.psql(hold).spawn().unwrap();
    eventually("the row is held", || {
        cluster.value("select count(*) from pg_stat_activity where query like '%pg_sleep%'") != "1"
    });
    let finished = cluster.load("-c 2 -T 1 -n --no-init");
    assert_eq!(finished.code, Some(3), "{finished:?}");
    finished.warned("no-transactions");
    assert_eq!(count(&finished.any_json(), "aborted_clients_count"), 2);
    assert!(finished.stderr.contains("waiting for 2 clients"), "{}", finished.stderr);
    assert!(finished.stderr.contains("5 s after the end"), "{}", finished.stderr);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn the_first_client_to_give_up_ends_the_run_if_asked_for() {
    let cluster = Cluster::start();
    cluster.load("-S -t 1").json();
    let load = cluster.load_command("-S -c 3 -T 60 --exit-on-abort").spawn().unwrap();
    let terminate = "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity \
                     where application_name = 'lockscope' and query like 'SELECT abalance%' limit 1) x";
    eventually("a client is running", || cluster.value(terminate) == "1");
    let finished = finish(load);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert!(finished.stderr.contains("57P01"), "{}", finished.stderr);
    assert_eq!(count(&finished.any_json(), "aborted_clients_count"), 1);
}

#[test]
fn a_server_that_goes_away_is_told_by_its_own_words() {
    let mut cluster = Cluster::start();
    cluster.load("-S -t 1").json();
    for options in ["--io epoll", "--io uring", "-C"] {
        let options = format!("-S -n --no-init -c 3 -T 60 {options}");
        let load = cluster.load_command(&options).spawn().unwrap();
        let sql = "select count(*) from pg_stat_activity where query like 'SELECT abalance%'";
        eventually("clients are running", || cluster.value(sql) != "0");
        std::thread::sleep(Duration::from_millis(300));
        cluster.restart();
        let finished = finish(load);
        assert_eq!(finished.code, Some(3), "{options}: {finished:?}");
        let told = ["57P01", "cannot connect", "57P03"];
        assert!(told.iter().any(|word| finished.stderr.contains(word)), "{}", finished.stderr);
        let json = finished.any_json();
        assert_eq!(count(&json, "aborted_clients_count"), 3);
        assert!(count(&json, "transactions_count") > 0);
    }
}

#[test]
fn progress_lines_come_for_every_period_and_the_last_too() {
    let cluster = Cluster::start();
    let finished = cluster.load("-S -T 2 -P 0.5 --warmup 1");
    let lines = |label: &str| -> Vec<String> {
        let lines = finished.stderr.lines().filter(|line| line.starts_with(label));
        lines.map(|line| line.split(',').next().unwrap().to_owned()).collect()
    };
    assert_eq!(lines("progress").last().unwrap(), "progress: 2.0 s", "{}", finished.stderr);
    assert!(lines("progress").len() >= 3 && !lines("warm-up").is_empty());
    let quiet = cluster.load("-S -t 10 -q");
    assert_eq!(quiet.stderr, "");
}

#[test]
fn options_that_contradict_each_other_are_refused_with_the_reason() {
    let refused =
        |options: &str, words: &[&str]| finish(load(options).spawn().unwrap()).refused(words);
    refused("-t 5 -T 5", &["cannot be used with"]);
    refused("-l --aggregate-interval 5 -T 2", &["--aggregate-interval 5", "longer than the run"]);
    refused("-l --aggregate-interval 2 -T 5", &["not a multiple"]);
    refused("--sampling-rate 0.5", &["--log"]);
    refused("-l --sampling-rate 0.5 --aggregate-interval 1", &["cannot be used with"]);
    refused("-R 10 --think-time 1", &["cannot be used with"]);
    refused("-P 0.01", &["at least 0.1"]);
}

/// pgbench's own report, without its numbers.
fn form(text: &str) -> Vec<String> {
    let blank = |line: &str| {
        let line: String = line.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let begin = text.lines().position(|line| line.starts_with("transaction type")).unwrap();
    let end = text.lines().position(|line| line.starts_with("tps = ")).unwrap();
    assert!(end > begin);
    // What follows are the scripts and their commands, and in lockscope's report more.
    let of_scripts = |line: &&str| {
        [" - ", "SQL script", "statement lat", "  "].iter().any(|start| line.starts_with(start))
    };
    let scripts = text.lines().skip(end + 1).take_while(of_scripts);
    let head = text.lines().skip(begin).take(end + 1 - begin);
    head.chain(scripts).map(blank).collect()
}

#[test]
fn the_report_has_pgbench_s_lines_in_pgbench_s_order() {
    let cluster = Cluster::start();
    cluster.pgbench(&["-i", "-q", "-s", "2"]);
    for options in [
        "-S -n -c 2 -j 2 -T 1 -P 1",
        "-S -n -c 2 -t 20 -P 1",
        "-S -n -c 2 -T 1 -R 100 -L 20",
        "-S -n -c 2 -t 20 -L 20",
        "-S -n -C -c 2 -t 5 -P 1",
        "-N -n -M prepared -t 5 -P 1",
        "-n -c 2 -t 10 -P 1 -r -M prepared",
        "-n -c 2 -t 20 -P 1 --max-tries 3 --failures-detailed",
    ] {
        let theirs = cluster.pgbench_output(options);
        let mut own = Command::new(env!("CARGO_BIN_EXE_lockscope"));
        own.arg("load").args(options.split_whitespace()).args(["--no-init", "-d", "postgres"]);
        let own = finish(
            common::prepare(own.args(["-h", cluster.host(), "-U", "postgres"])).spawn().unwrap(),
        );
        assert_eq!(own.code, Some(0), "{own:?}");
        assert_eq!(form(&own.stdout), form(&theirs), "{options}");
    }
}

#[test]
fn several_scripts_are_told_apart() {
    let cluster = Cluster::start();
    cluster.pgbench(&["-i", "-q"]);
    let options = "-n -c 4 -j 2 -t 60 -b tpcb@2 -S -r -P 1 -M prepared";
    let theirs = cluster.pgbench_output(options);
    let own = common::prepare(
        Command::new(env!("CARGO_BIN_EXE_lockscope"))
            .arg("load")
            .args(options.split_whitespace())
            .args(["--no-init", "-d", "postgres", "-h", cluster.host(), "-U", "postgres"]),
    )
    .spawn()
    .unwrap();
    let own = finish(own);
    assert_eq!(form(&own.stdout), form(&theirs), "{}", own.stdout);

    let json = cluster.load(&format!("{options} --no-init")).json();
    let scripts = json["load"]["scripts"].as_array().unwrap();
    let done: Vec<u64> =
        scripts.iter().map(|s| s["counts"]["transactions_count"].as_u64().unwrap()).collect();
    assert_eq!(done.iter().sum::<u64>(), 240);
    assert!(done[0] > done[1] && done[1] > 0, "{done:?}");
    for (script, done) in scripts.iter().zip(done) {
        for command in script["commands"].as_array().unwrap() {
            assert_eq!(command["count"].as_u64(), Some(done), "{command}");
        }
    }
}

/// Runs a script of its own, whose text may hold anything.
fn script(cluster: &Cluster, text: &str, options: &str) -> common::Finished {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    cluster.load(&format!("-f {} {options}", file.path().display()))
}

#[test]
fn failures_are_told_by_sqlstate_and_clients_survive_them_if_asked_for() {
    let cluster = Cluster::start();
    let divide = "select 1 / (:client_id - 1);";
    let aborted = script(&cluster, divide, "-c 2 -t 5");
    assert_eq!(aborted.code, Some(3), "{aborted:?}");
    assert!(aborted.stderr.contains("22012"), "{}", aborted.stderr);
    let finished = script(&cluster, divide, "-c 2 -t 5 --continue-on-error --verbose-errors -r");
    let json = finished.json();
    assert_eq!(counts(&json)("transactions_count"), 5);
    assert_eq!(json["load"]["total"]["failures"]["22012"], 5);
    assert_eq!(json["load"]["scripts"][0]["commands"][0]["failed_count"], 5);
    assert_eq!(finished.stderr.matches("client 1 got an error in command 0").count(), 5);
}

#[test]
fn transactions_that_cannot_be_serialized_are_tried_again() {
    let cluster = Cluster::with_settings(&["default_transaction_isolation=serializable"], &|_| {});
    let finished = cluster.load("-c 6 -t 20 --max-tries 100 -r");
    let json = finished.json();
    let count = counts(&json);
    assert_eq!(count("transactions_count"), 120);
    assert!(count("retries_count") >= count("retried_count") && count("retried_count") > 0);
    let commands = json["load"]["scripts"][0]["commands"].as_array().unwrap();
    let retries: u64 = commands.iter().map(|c| c["retries_count"].as_u64().unwrap()).sum();
    assert_eq!(retries, count("retries_count"));
    cluster.load("-t 1 --max-tries 0").refused(&["--max-tries 0", "-L", "-T"]);
}

#[test]
fn scripts_sleep_without_holding_up_other_clients() {
    let cluster = Cluster::start();
    for io in ["epoll", "uring"] {
        let options = format!("-c 20 -j 1 -t 2 --io {io}");
        let json = script(&cluster, "\\sleep 300 ms\nselect 1;", &options).json();
        assert_eq!(count(&json, "transactions_count"), 40);
        let seconds = json["workload"]["duration_ns"].as_f64().unwrap() / 1e9;
        // One after another they would take 12 s.
        assert!((0.6..6.0).contains(&seconds), "{seconds}");
        assert!(json["latency_ns"]["p50"].as_u64().unwrap() >= 290_000_000);
    }
    // Scripts without a statement never wait for the server, and end all the same.
    let json = script(&cluster, "\\set x 1", "-c 3 -T 1").json();
    assert!(count(&json, "transactions_count") > 10);
}

#[test]
fn a_script_that_is_wrong_is_refused_before_anything_is_touched() {
    let cluster = Cluster::start();
    script(&cluster, "\\set x 1 +", "-t 1").refused(&[":1", "^"]);
    cluster.load("-f /nonexistent.sql").refused(&["/nonexistent.sql"]);
    script(&cluster, "\\shell true", "-t 1").refused(&["--allow-shell"]);
    let shown = finish(load("--show-script tpcb").spawn().unwrap());
    assert!(shown.stdout.contains("INSERT INTO pgbench_history"), "{shown:?}");
}
