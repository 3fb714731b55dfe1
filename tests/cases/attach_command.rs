//! `lockscope attach -- COMMAND`: the command is traced from its first instruction to its end, and
//! nothing of it changes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lockscope_tests::command::{Finished, Running, lockscope, wait_until};
use lockscope_tests::contained::Contained;
use lockscope_tests::postgres::Postgres;
use lockscope_tests::traced::{Run, Turn};
use nix::sys::signal::Signal;
use tempfile::TempDir;

/// `attach … -- command`, with the variables that `client` has for its server.
fn attach(options: &[&str], client: &Command, words: &[&str]) -> Command {
    let program = client.get_program().to_str().expect("plain");
    let mut command =
        lockscope(&[&["attach", "--quiet"], options, &["--", program], words].concat());
    for (name, value) in client.get_envs() {
        command.env(name, value.expect("set"));
    }
    command
}

/// Runs a client of the server's, and loads the run that was saved.
fn traced(turn: &Turn, server: &Postgres, client: &Command, words: &[&str]) -> (Finished, Run) {
    traced_at(turn, server.postmaster_pid().expect("a pid"), client, words)
}

/// The same by the postmaster's pid.
fn traced_at(turn: &Turn, postmaster: u32, client: &Command, words: &[&str]) -> (Finished, Run) {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("run").display().to_string();
    let postmaster = postmaster.to_string();
    let options = ["--postgres", &postmaster, "-o", &file];
    let done = turn.finish(|| attach(&options, client, words));
    assert_eq!(done.code, Some(0), "{words:?}: {}", done.stderr);
    let saved = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}: {}", done.stderr));
    (done, Run(serde_json::from_str(&saved).expect("JSON")))
}

/// pgbench's own count, from its report on standard output.
fn processed(done: &Finished) -> u64 {
    let key = "number of transactions actually processed: ";
    let line = done.stdout.lines().find_map(|line| line.strip_prefix(key));
    let count = line.unwrap_or_else(|| panic!("no report: {}", done.stdout));
    count.split('/').next().unwrap_or_default().parse().expect("a number")
}

fn script(directory: &Path, text: &str) -> String {
    let path = directory.join("script.sql");
    fs::write(&path, text).expect("a file");
    path.display().to_string()
}

#[test]
fn pgbench_s_transactions_are_counted_to_the_last_one() {
    let case = "pgbench_s_transactions_are_counted_to_the_last_one";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    server.make_tables().expect("tables");
    let directory = TempDir::new().expect("a directory");
    let pipeline = script(
        directory.path(),
        "\\startpipeline\nbegin;\nselect 1;\nselect 2;\nend;\n\\endpipeline\n",
    );
    let load = ["-c", "2", "-j", "2", "-t", "150"];
    for mode in [
        &["-n", "-S", "-M", "simple"][..],
        // Vacuums first, in the session that looks at the tables.
        &["-N", "-M", "extended"],
        &["-n", "-b", "tpcb-like", "-M", "prepared"],
        &["-n", "-M", "prepared", "-f", &pipeline],
        &["-n", "-S", "-C"],
    ] {
        let words = [mode, &load].concat();
        let traced = traced(&turn, &server, &server.client("pgbench"), &words);
        counted_exactly(&format!("{mode:?}"), traced);
    }
}

/// pgbench by TCP; a port that nobody has.
const TCP: [(&str, &str); 2] = [("listen_addresses", "127.0.0.1"), ("port", "6434")];

/// That all 300 transactions of pgbench's are in every count, whatever `mode` it runs in.
fn counted_exactly(what: &str, (done, run): (Finished, Run)) {
    assert_eq!(processed(&done), 300, "{what}");
    assert_eq!(run.count("/throughput/transactions_count"), 300, "{what}");
    assert_eq!(run.count("/client_report/transactions_count"), 300, "{what}");
    assert_eq!(run.backends_transactions(), 300, "{what}");
    let told = run.count("/ledger/server/transactions_count");
    assert_eq!(told, 300, "{what}: {} {}", run.0["losses"], run.0["ledger"]["server"]);
    for warning in ["client-differs", "late-clients", "client-elsewhere"] {
        assert!(!run.warnings().contains(&warning), "{what}: {warning}");
    }
    let clients = run.list("backends").into_iter().filter(|task| task["side"] == "client");
    assert!(clients.clone().count() >= 2, "{what}: its threads join: {}", run.0["backends"]);
    assert!(clients.clone().all(|task| task["role"] == "pgbench"), "{what}");
}

#[test]
fn transactions_over_tcp_are_counted_to_the_last_one() {
    let case = "transactions_over_tcp_are_counted_to_the_last_one";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&TCP).expect("a server");
    server.make_tables().expect("tables");
    let load = ["-h", "127.0.0.1", "-c", "2", "-j", "2", "-t", "150"];
    for mode in [&["-n", "-S", "-M", "prepared"][..], &["-N"], &["-n", "-S", "-C"]] {
        let words = [mode, &load].concat();
        let traced = traced(&turn, &server, &server.client("pgbench"), &words);
        counted_exactly(&format!("{mode:?}"), traced);
    }
}

#[test]
fn transactions_of_a_server_in_a_pid_namespace_are_counted_to_the_last_one() {
    let case = "transactions_of_a_server_in_a_pid_namespace_are_counted_to_the_last_one";
    let Some(turn) = Turn::take(case) else { return };
    let contained = Contained::start(&TCP).expect("a server");
    let server = contained.server();
    assert_eq!(server.postmaster_pid().expect("a pid"), 1, "as it sees itself");
    server.make_tables().expect("tables");
    let load = ["-n", "-S", "-c", "2", "-j", "2", "-t", "150"];
    for way in [&[][..], &["-C"], &["-h", "127.0.0.1"], &["-h", "127.0.0.1", "-C"]] {
        let words = [&load, way].concat();
        let client = server.client("pgbench");
        let (done, run) = traced_at(&turn, contained.postmaster_pid(), &client, &words);
        let inside = |task: &&serde_json::Value| task["inner_pid"].as_u64() == Some(1);
        let postmaster = run.list("backends").into_iter().find(inside);
        let pid = postmaster.and_then(|task| task["pid"].as_u64());
        assert_eq!(pid, Some(u64::from(contained.postmaster_pid())), "{way:?}");
        counted_exactly(&format!("{way:?}"), (done, run));
    }
}

#[test]
fn a_script_that_commits_twice_is_told_as_such() {
    let Some(turn) = Turn::take("a_script_that_commits_twice_is_told_as_such") else { return };
    let server = Postgres::start(&[]).expect("a server");
    let directory = TempDir::new().expect("a directory");
    let twice = script(directory.path(), "select 1;\nselect 2;\n");
    let words = ["-n", "-f", &twice, "-t", "100"];
    let (done, run) = traced(&turn, &server, &server.client("pgbench"), &words);
    assert_eq!(processed(&done), 100);
    assert_eq!(run.count("/throughput/transactions_count"), 200);
    assert!(done.stderr.contains("each of its transactions is 2"), "{}", done.stderr);
    assert!(!run.warnings().contains(&"client-differs"));
}

#[test]
fn applications_are_counted_too() {
    let Some(turn) = Turn::take("applications_are_counted_too") else { return };
    let server = Postgres::start(&[]).expect("a server");
    let words = ["-X", "-c", "select 1", "-c", "begin; select 2; commit", "-c", "select 3"];
    let (done, run) = traced(&turn, &server, &server.client("psql"), &words);
    assert!(done.stdout.contains("(1 row)"), "{}", done.stdout);
    assert_eq!(run.count("/throughput/transactions_count"), 3);

    // Debian's Python has the driver.
    let python = "import psycopg2\nc = psycopg2.connect('')\nu = c.cursor()\n\
                  for i in range(40):\n u.execute('select %s', (i,))\n c.commit()";
    let mut client = Command::new("/usr/bin/python3");
    for (name, value) in server.client("psql").get_envs() {
        client.env(name, value.expect("set"));
    }
    let (_, run) = traced(&turn, &server, &client, &["-c", python]);
    // The driver asks nothing at its start with a server of today; BEGIN travels alone.
    assert_eq!(run.count("/throughput/transactions_count"), 40);
    let roles: Vec<_> = run.list("backends").into_iter().map(|task| &task["role"]).collect();
    assert!(roles.iter().any(|role| *role == "python3"), "{roles:?}");
}

#[test]
fn sysbench_s_events_are_counted_to_the_last_one() {
    let case = "sysbench_s_events_are_counted_to_the_last_one";
    let Some(turn) = Turn::take(case) else { return };
    let server = Postgres::start(&[]).expect("a server");
    let connection = server.client("psql");
    let mut client = Command::new("sysbench");
    for (name, value) in connection.get_envs() {
        client.env(name, value.expect("set"));
    }
    let option = |option: &str, name: &str| {
        let value = connection.get_envs().find(|(key, _)| *key == name).and_then(|(_, v)| v);
        format!("--pgsql-{option}={}", value.and_then(|value| value.to_str()).expect("set"))
    };
    let mut words: Vec<String> =
        ["oltp_read_only", "--db-driver=pgsql", "--table-size=500"].map(str::to_owned).to_vec();
    for (name, variable) in [
        ("host", "PGHOST"),
        ("port", "PGPORT"),
        ("user", "PGUSER"),
        ("password", "PGPASSWORD"),
        ("db", "PGDATABASE"),
    ] {
        words.push(option(name, variable));
    }
    let run = |more: &[&str]| {
        let words: Vec<&str> =
            words.iter().map(String::as_str).chain(more.iter().copied()).collect();
        traced(&turn, &server, &client, &words)
    };
    run(&["prepare"]);
    let (_, run) = run(&["--threads=56", "--events=560", "--time=0", "run"]);
    assert_eq!(run.count("/client_report/transactions_count"), 560);
    assert_eq!(run.count("/throughput/transactions_count"), 560);
    let threads = run.list("backends").into_iter().filter(|task| task["role"] == "sysbench");
    assert!(threads.count() >= 56, "{}", run.0["backends"]);
    // The password is in the command line, and must not be in the report's.
    assert!(!run.0.to_string().contains(Postgres::PASSWORD));
}

#[test]
fn streams_and_exit_codes_are_the_command_s() {
    let Some(turn) = Turn::take("streams_and_exit_codes_are_the_command_s") else { return };
    let shell = Command::new("/bin/sh");
    let end = |script: &str| turn.finish(|| attach(&["--all"], &shell, &["-c", script]));
    let done = end("echo out; echo err >&2; exit 7");
    assert_eq!((done.code, done.stdout.as_str()), (Some(7), "out\n"), "{}", done.stderr);
    assert!(done.stderr.starts_with("err\n") && done.stderr.contains("lockscope "));
    assert_eq!(end("kill -KILL $$").code, Some(128 + 9));
    let missing = turn.finish(|| attach(&["--all"], &Command::new("/no/such/program"), &[]));
    assert_eq!(missing.code, Some(125), "{}", missing.stderr);
    assert!(missing.stderr.contains("cannot start `/no/such/program`"), "{}", missing.stderr);
    // What lockscope refuses is never mistaken for the command's own code.
    for options in [&["--postgres", "/no/such/place"][..], &["--no-such-option"]] {
        let done = turn.finish(|| attach(options, &shell, &["-c", "exit 0"]));
        assert_eq!(done.code, Some(125), "{options:?}: {}", done.stderr);
    }
}

#[test]
fn a_signal_is_passed_on_and_the_report_is_written() {
    let case = "a_signal_is_passed_on_and_the_report_is_written";
    let Some(_turn) = Turn::take(case) else { return };
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("run").display().to_string();
    let shell = Command::new("/bin/sh");
    let script = "trap 'exit 33' TERM; echo ready >&2; while :; do sleep 0.05; done";
    let mut command = attach(&["--all", "-o", &file], &shell, &["-c", script]);
    let running = Running::start(&mut command).expect("it starts");
    wait_until(Duration::from_secs(60), || running.said().contains("ready")).expect("it runs");
    running.signal(Signal::SIGTERM).expect("it is there");
    let done = running.wait().expect("it ends");
    assert_eq!(done.code, Some(33), "{}", done.stderr);
    let saved = fs::read_to_string(&file).expect("the run is saved");
    let run = Run(serde_json::from_str(&saved).expect("JSON"));
    assert_eq!(run.0["interrupted"], true);
    assert!(done.stderr.contains("INTERRUPTED"), "{}", done.stderr);
}

#[test]
fn it_runs_as_the_user_who_called_sudo() {
    let Some(turn) = Turn::take("it_runs_as_the_user_who_called_sudo") else { return };
    let user = lockscope_tests::postgres::unprivileged_user().expect("a user");
    let shell = Command::new("/bin/sh");
    let done = turn.finish(|| {
        let mut command = attach(&["--all"], &shell, &["-c", "id -u; id -g; echo $USER $HOME"]);
        command.env("SUDO_UID", user.uid.to_string()).env("SUDO_GID", user.gid.to_string());
        command
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let home = user.dir.display();
    assert_eq!(done.stdout, format!("{}\n{}\n{} {home}\n", user.uid, user.gid, user.name));
}
