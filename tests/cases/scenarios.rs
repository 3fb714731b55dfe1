//! The scenarios of `docs/scenarios.md`, in short: what each command's outcome must show whatever the machine
//! is busy with. How much it is worth, `cargo xtask bench contention` tells.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockscope_tests::command::{Finished, Running, binary, finish, lockscope, skip};
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;
use tempfile::TempDir;

/// Naming a profile's functions takes longer than these runs.
const BRIEF: [&str; 6] = ["--warmup", "0", "--interval", "0.2", "--quiet", "--no-profile"];
/// The backends' lock that the neighbour holds.
const CONTENDED: &str = "inode.i_rwsem";

/// `ab`, and the directory of its runs: one of its own each time, for one that holds runs is refused.
fn rounds(turn: &Turn, directory: &Path, words: &[&str]) -> (Finished, PathBuf) {
    let tries = Cell::new(0);
    let runs = || directory.join(format!("runs-{}", tries.get()));
    let done = turn.finish(|| {
        tries.set(tries.get() + 1);
        let output = runs().display().to_string();
        lockscope(&[&["ab", "--cool-down", "0", "-o", &output], words].concat())
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    (done, runs())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn saved(path: &Path) -> Run {
    Run(json(&fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))))
}

fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// A neighbour that lists a directory slowly, which one a link says.
fn neighbour(link: &Path) -> Running {
    let mut command = Command::new(binary("", "stress-list"));
    command.args(["--seconds", "600", "--path"]).arg(link);
    Running::start(&mut command).expect("it starts")
}

#[test]
fn a_lock_that_a_neighbour_contends_for_is_named_and_its_removal_bounded() {
    let case = "a_lock_that_a_neighbour_contends_for_is_named_and_its_removal_bounded";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[("work_mem", "64kB")]).expect("a server");
    let directory = TempDir::new().expect("a directory");
    let place = |name: &str| directory.path().join(name);
    fs::create_dir(place("own")).expect("a directory");
    symlink(place("own"), place("held")).expect("a link");
    // Its rows do not fit into work_mem: they go to a file in pgsql_tmp.
    fs::write(place("spill.sql"), "select count(*) from generate_series(1, 3000);")
        .expect("a file");
    // Postgres makes that directory when it first needs it.
    let spill = finish(server.client("psql").arg("-Xqf").arg(place("spill.sql"))).expect("it ends");
    assert_eq!(spill.code, Some(0), "{}", spill.stderr);
    let mut neighbour = neighbour(&place("held"));

    let hold = |what: &Path| format!("ln -sfn {} {}", what.display(), place("held").display());
    let (own, shared) = (hold(&place("own")), hold(&server.data().join("base/pgsql_tmp")));
    let (script, dsn) = (place("spill.sql").display().to_string(), server.dsn());
    let words = ["--a", "c=4", "--b", "c=4", "--setup-a", &own, "--setup-b", &shared];
    let load = ["--", "-f", &script, "-T", "2", "--no-init", "--no-vacuum", "--dsn", &dsn];
    let more = ["--rounds", "2", "--control-rounds", "0", "--json"];
    let words = [&words[..], &more, &load, &BRIEF].concat();
    let (done, runs) = rounds(&turn, directory.path(), &words);
    assert!(!neighbour.has_ended().expect("known"), "the neighbour: {}", neighbour.said());

    let comparison = json(&done.stdout);
    let latency = &comparison["decompositions"][0];
    assert_eq!(latency["name"], "mean_latency");
    let parts = latency["parts"].as_array().expect("parts");
    let with_lock = parts.iter().filter(|part| part["lock"].is_object());
    let of = |part: &&Value| number(part, "/difference_ns");
    let most = with_lock.max_by(|left, right| of(left).total_cmp(&of(right))).expect("a lock");
    let name = most["lock"]["name"].as_str().expect("a name");
    assert!(name.starts_with(CONTENDED) && of(&most) > 0.0, "{most}");

    for file in ["b1.lockscope", "b2.lockscope"] {
        the_bounds_follow_from_the_ledger(&saved(&runs.join(file)).0);
    }
    let file = |name: &str| runs.join(name).display().to_string();
    let explained = lockscope(&["explain", &file("a1.lockscope"), &file("b1.lockscope")]).output();
    let text = String::from_utf8(explained.expect("it ends").stdout).expect("text");
    assert!(text.contains(CONTENDED), "{text}");
}

/// By hand, with the rules of `docs/metrics.md`.
fn the_bounds_follow_from_the_ledger(run: &Value) {
    let (lock, bounds) = (&run["removal"]["lock"], &run["removal"]["bounds"]);
    let name = lock["name"].as_str().unwrap_or_else(|| panic!("no lock: {}", run["removal"]));
    assert!(name.starts_with(CONTENDED), "{lock}");
    let near = |left: f64, right: f64| {
        assert!((left / right - 1.0).abs() < 1e-6, "{left}, by hand {right}: {}", run["removal"]);
    };

    // Its part of each class's time in the ledger is its share of the class's waits.
    let server = &run["ledger"]["server"];
    let state =
        |kind: &str, class: &str| server["per_transaction_ns"][kind][class].as_f64().unwrap_or(0.0);
    let locks = run["locks"].as_array().expect("locks");
    let in_lock = |class: &str| {
        let same = locks.iter().filter(|lock| {
            (&lock["side"], &lock["class"], &lock["name"])
                == (&"server".into(), &class.into(), &name.into())
        });
        let waits_ns: f64 = same.map(|lock| number(lock, "/total_ns")).sum();
        let share = waits_ns / number(&server["waits_ns"], &format!("/{class}"));
        share * (state("spin", class) + state("lock_sleep", class))
    };
    let classes = lock["classes"].as_array().expect("classes");
    let wait_ns: f64 = classes.iter().filter_map(Value::as_str).map(in_lock).sum();
    near(number(lock, "/spin_ns") + number(lock, "/sleep_ns"), wait_ns);

    let (clients, now) = (number(run, "/workload/clients"), number(run, "/throughput/tps"));
    let cycle_ns = 1e9 * clients / now;
    let other_waits_ns = number(bounds, "/other_waits_ns");
    let ceilings = bounds["ceilings"].as_array().expect("ceilings");
    let ceiling = |resource: &str| {
        let found = ceilings.iter().find(|ceiling| ceiling["resource"] == resource);
        number(found.unwrap_or_else(|| panic!("no {resource}: {bounds}")), "/tps")
    };
    near(ceiling("transaction"), 1e9 * clients / (cycle_ns - wait_ns - other_waits_ns));
    let cpus = number(run, "/environment/cpu/count");
    near(ceiling("cpus"), 1e9 * cpus / number(bounds, "/cpu_ns"));
    let capacity = ceiling("cpus").min(ceiling("client_threads"));
    let (low, rest, high) = (
        number(bounds, "/tps_low"),
        number(bounds, "/tps_rest_as_now"),
        number(bounds, "/tps_high"),
    );
    near(low, now);
    near(rest, (1e9 * clients / (cycle_ns - wait_ns)).min(capacity).max(now));
    near(high, ceiling("transaction").min(capacity).max(now));
    assert!(low <= rest && rest <= high, "{bounds}");
}

#[test]
fn two_servers_are_compared() {
    let Some(turn) = Turn::take("two_servers_are_compared") else { return };
    let servers = [("work_mem", "4MB"), ("work_mem", "8MB")]
        .map(|setting| Postgres::start(&[setting]).expect("a server"));
    servers.iter().for_each(|server| server.make_tables().expect("tables"));
    let directory = TempDir::new().expect("a directory");
    let [a, b] = [0, 1].map(|index| format!("dsn=\"{}\"", servers[index].dsn()));
    let load = ["--", "-S", "-M", "prepared", "-c", "2", "-T", "1", "--no-vacuum"];
    let words = ["--a", &a, "--b", &b, "--rounds", "2", "--control-rounds", "0", "--json"];
    let (done, runs) = rounds(&turn, directory.path(), &[&words[..], &load, &BRIEF].concat());

    let comparison = json(&done.stdout);
    assert_eq!(
        (&comparison["unit"], &comparison["base"]["runs_count"]),
        (&"pair".into(), &2.into())
    );
    let differences = comparison["environment"].as_array().expect("differences");
    let work_mem = differences.iter().find(|one| one["base"] == "4MB").expect("the setting");
    assert!(work_mem["new"] == "8MB" && work_mem["may_explain"] == true, "{work_mem}");
    for (side, server) in ["a", "b"].iter().zip(&servers) {
        for round in [1, 2] {
            let run = saved(&runs.join(format!("{side}{round}.lockscope")));
            let data = server.data().display().to_string();
            assert_eq!(run.0["environment"]["postgres"]["data_directory"], data.as_str());
            assert!(run.count("/throughput/traced_transactions_count") > 0, "{}", run.0);
        }
    }
    assert!(!done.stdout.contains(Postgres::PASSWORD));
}

#[test]
fn the_quick_test_answers() {
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let directory = TempDir::new().expect("a directory");
    let (runs, dsn) = (directory.path().join("runs"), server.dsn());
    let words = ["ab", "--quick", "--rounds", "2", "--cool-down", "0", "-o"];
    let load = ["--", "-T", "1", "--warmup", "0", "--interval", "0.2", "--no-vacuum"];
    let output = runs.display().to_string();
    let words = [&words[..], &[&output], &load, &["--dsn", &dsn]].concat();
    let done = finish(&mut lockscope(&words)).expect("it ends");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let answers = ["affected: ", "not affected: ", "cannot tell: "];
    let last = done.stdout.lines().last().unwrap_or_default();
    assert!(answers.iter().any(|answer| last.starts_with(answer)), "{}", done.stdout);
    let counts = fs::read_dir(&runs).expect("directories").count();
    assert_eq!((counts, done.stdout.matches("tps simple").count()), (2, 2), "{}", done.stdout);
    assert!(!done.stdout.contains("tps simple 0 "), "{}", done.stdout);
}

#[test]
fn two_servers_and_two_protocols_are_four_curves() {
    let Some(turn) = Turn::take("two_servers_and_two_protocols_are_four_curves") else { return };
    let servers = [(); 2].map(|()| Postgres::start(&[]).expect("a server"));
    servers.iter().for_each(|server| server.make_tables().expect("tables"));
    let host = |server: &Postgres| server.data().parent().expect("above").display().to_string();
    let hosts = format!("host={},{}", host(&servers[0]), host(&servers[1]));
    let grid = ["--vary", &hosts, "--vary", "protocol=simple,prepared", "--clients", "1,2"];
    let load = ["-S", "-U", Postgres::USER, "-d", "postgres", "-T", "1", "--no-vacuum", "--json"];
    let more = ["--no-control"];
    let done = turn.finish(|| {
        let mut command =
            lockscope(&[&["sweep"], &grid[..], &load[..], &BRIEF[..], &more[..]].concat());
        command.env("PGPASSWORD", Postgres::PASSWORD);
        command
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let sweep = json(&done.stdout);
    conforms(&sweep);
    let curves = sweep["curves"].as_array().expect("curves");
    let values: Vec<(&str, &str)> = curves
        .iter()
        .map(|curve| &curve["values"])
        .filter_map(|values| Some((values["host"].as_str()?, values["protocol"].as_str()?)))
        .collect();
    let (one, other) = (host(&servers[0]), host(&servers[1]));
    let expected = [(&one, "simple"), (&one, "prepared"), (&other, "simple"), (&other, "prepared")];
    assert_eq!(values, expected.map(|(host, protocol)| (host.as_str(), protocol)));
    for step in curves.iter().flat_map(|curve| curve["steps"].as_array().expect("steps")) {
        assert!(number(step, "/tps/value") > 0.0 && step["verdict"]["text"].is_string(), "{step}");
    }
}

fn conforms(sweep: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sweep.schema.json");
    let schema = json(&fs::read_to_string(path).expect("the schema"));
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(sweep).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn sysbench_s_locks_and_the_server_s_are_told_apart() {
    let case = "sysbench_s_locks_and_the_server_s_are_told_apart";
    if Command::new("sysbench").arg("--version").output().is_err() {
        return skip(case, "sysbench is not installed; `cargo xtask setup` installs it");
    }
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    let host = server.data().parent().expect("above").display().to_string();
    let connection = [
        "sysbench".to_owned(),
        "oltp_read_only".to_owned(),
        "--db-driver=pgsql".to_owned(),
        "--table-size=500".to_owned(),
        format!("--pgsql-host={host}"),
        format!("--pgsql-user={}", Postgres::USER),
        format!("--pgsql-password={}", Postgres::PASSWORD),
        "--pgsql-db=postgres".to_owned(),
    ];
    let sysbench = |words: &[&'static str]| -> Vec<String> {
        connection.iter().cloned().chain(words.iter().map(|word| (*word).to_owned())).collect()
    };
    let prepare = sysbench(&["prepare"]);
    let prepared = finish(Command::new(&prepare[0]).args(&prepare[1..])).expect("it ends");
    assert_eq!(prepared.code, Some(0), "{}", prepared.stderr);

    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("run");
    let run = sysbench(&["--threads=56", "--time=3", "run"]);
    let data = server.data();
    let done = turn.finish(|| {
        let mut command = lockscope(&["attach", "--quiet", "--postgres"]);
        command.arg(&data).arg("-o").arg(&file).arg("--").args(&run);
        command
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let run = saved(&file);
    let line = done.stdout.lines().find(|line| line.trim_start().starts_with("transactions:"));
    let own = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    assert_eq!(Some(run.count("/throughput/transactions_count")), own, "{}", done.stdout);
    for side in ["server", "client"] {
        let spins = run.0["ledger"][side]["states_ns"].as_object().expect("states");
        assert!(spins.keys().any(|state| state.starts_with("spin.")), "{side}: {spins:?}");
        let locks = run.list("locks").into_iter().filter(|lock| lock["side"] == side);
        assert!(locks.count() > 0, "{side}: {}", run.0["locks"]);
    }
    // How many clients wait in the closed loop, only sysbench knows.
    assert_eq!(run.0["removal"]["no_estimate"]["code"], "other_load");
    assert!(done.stderr.contains("server") && done.stderr.contains("client"), "{}", done.stderr);
}

#[test]
fn a_sweep_of_plpgsql_blames_no_kernel_lock() {
    let Some(turn) = Turn::take("a_sweep_of_plpgsql_blames_no_kernel_lock") else { return };
    let directory = TempDir::new().expect("a directory");
    let output = directory.path().display().to_string();
    let words = ["--workload", "plpgsql", "--clients", "1,2,4,8,16", "-T", "1", "--no-control"];
    let done =
        turn.finish(|| lockscope(&[&["sweep"], &words[..], &BRIEF[..], &["-o", &output]].concat()));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let sweep = saved(&directory.path().join("sweep.json")).0;
    conforms(&sweep);
    let steps = sweep["curves"][0]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 5);
    for step in steps {
        let told = step["verdict"]["text"].as_str().expect("a verdict");
        assert!(told.starts_with("not a kernel lock"), "{}: {told}", step["value"]);
    }
    assert!(done.stdout.contains("not a kernel lock"), "{}", done.stdout);
    let file = |clients: u32| directory.path().join(format!("client-{clients}.lockscope"));
    let mut explain = lockscope(&["explain", "--json"]);
    let explained = finish(explain.arg(file(1)).arg(file(16))).expect("it ends");
    assert_eq!(explained.code, Some(0), "{}", explained.stderr);
    let explanation = json(&explained.stdout);
    let tried = explanation["signatures"].as_array().expect("signatures");
    for found in tried.iter().filter(|signature| signature["confidence"].is_string()) {
        assert_ne!(found["class"], "kernel_lock", "{found}");
    }
}
