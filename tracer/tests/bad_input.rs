//! What goes wrong before, while and after a run: a clear message and the right exit code each.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

mod common;

use std::fs;
use std::process::{Command, Stdio};

use common::{
    Cluster, count, entries, finish, lockscope, open_directory, prepare, processes_in, run,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[test]
fn wrong_options_are_refused_before_anything_is_done() {
    let parent = open_directory();
    let refused = |options: &str, words: &[&str]| {
        run(&format!("--data-dir {} {options}", parent.path().display())).refused(words);
        assert!(entries(parent.path()).is_empty(), "{options}");
    };
    refused("--workload tpcc", &["unknown workload `tpcc`", "select-prepared", "simple-update"]);
    refused("-c 0", &["at least 1"]);
    refused("-T 0", &["more than 0"]);
    refused("--workload select-prepared -M simple", &["-S -M simple"]);
    refused("--pin-client 4000", &["beyond what this system can have"]);
    refused("--pin-client 900", &["CPU 900 is not available"]);
    refused("-o /nonexistent/run", &["cannot write /nonexistent/run"]);
    refused("-h /tmp", &["--data-dir"]);
}

#[test]
fn pinning_a_foreign_server_is_refused() {
    run("-h /tmp --pin-server 0").refused(&["taskset"]);
}

#[test]
fn a_service_name_is_refused() {
    let child = lockscope("-S -t 1").env("PGSERVICE", "x").spawn().unwrap();
    finish(child).refused(&["PGSERVICE", "--dsn"]);
}

#[test]
fn an_unreachable_server_is_named() {
    let nowhere = "-S -t 1 -h /nonexistent -p 5999";
    run(nowhere).refused(&["cannot reach", "/nonexistent/.s.PGSQL.5999", "is it running"]);

    run("-S -t 1 --dsn postgres://127.0.0.1:1/x").refused(&["cannot reach", "127.0.0.1 port 1"]);
}

/// A server on a socket that asks for passwords by `method`; user `bench` has the password `secret`.
fn asking(method: &str, encryption: &str) -> Cluster {
    let cluster =
        Cluster::with_settings(&[&format!("password_encryption={encryption}")], &|data| {
            let rules = format!("local all postgres trust\nlocal all all {method}\n");
            fs::write(data.join("pg_hba.conf"), rules).unwrap();
        });
    cluster.value(
        "create role bench login password 'secret' in role pg_read_all_data, pg_write_all_data",
    );
    cluster.pgbench(&["-i", "-q"]);
    cluster
}

#[test]
fn every_password_method_works_and_a_wrong_password_is_told() {
    for (method, encryption) in
        [("scram-sha-256", "scram-sha-256"), ("md5", "md5"), ("password", "scram-sha-256")]
    {
        let cluster = asking(method, encryption);
        let command = |options: &str| {
            let mut command = lockscope("-S -c 2 -t 5");
            command.args(["-h", cluster.host(), "-d", "postgres", "-U", "bench"]);
            command.args(options.split_whitespace());
            command
        };
        let good = command("").env("PGPASSWORD", "secret").spawn().unwrap();
        assert_eq!(count(&finish(good).json(), "transactions_count"), 10);

        let wrong = finish(command("").env("PGPASSWORD", "hunter2").spawn().unwrap());
        wrong.refused(&["`bench`", "password authentication failed", "~/.pgpass"]);
        assert!(!wrong.stderr.contains("hunter2"));

        let none = command("").env("PGPASSFILE", "/nonexistent").spawn().unwrap();
        finish(none).refused(&["`bench`", "password", "PGPASSWORD"]);

        let home = open_directory();
        let file = home.path().join("pgpass");
        fs::write(&file, format!("{}:*:postgres:bench:secret\n", cluster.host())).unwrap();
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        finish(command("").env("PGPASSFILE", &file).spawn().unwrap()).json();

        let dsn = format!("host={} dbname=postgres user=bench password=secret", cluster.host());
        let mut command = lockscope("-S -t 5 --dsn");
        let finished = finish(command.arg(&dsn).spawn().unwrap());
        assert!(finished.json()["command"].to_string().contains("password=***"));
        assert!(!finished.stdout.contains("secret") && !finished.stderr.contains("secret"));
    }
}

#[test]
fn tls_is_used_and_verified_as_asked() {
    let keys = open_directory();
    let key = |name: &str| keys.path().join(name).display().to_string();
    let openssl = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-keyout", &key("key"), "-out", &key("crt")])
        .stderr(Stdio::null())
        .status();
    assert!(openssl.unwrap().success());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = [format!("port={port}"), "ssl=on".into(), "listen_addresses=127.0.0.1".into()];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let cluster = Cluster::with_settings(&settings, &|data| {
        let owner = fs::metadata(data).unwrap();
        for (from, to) in [("key", "server.key"), ("crt", "server.crt")] {
            let to = data.join(to);
            fs::copy(key(from), &to).unwrap();
            fs::set_permissions(&to, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
            use std::os::unix::fs::MetadataExt as _;
            std::os::unix::fs::chown(&to, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        fs::write(data.join("pg_hba.conf"), "hostssl all all all trust\n").unwrap();
    });
    let run = |dsn: &str| {
        let dsn = format!("{dsn} port={port} user=postgres dbname=postgres");
        let mut command = lockscope("-c 3 -S -T 1 --warmup 0 --dsn");
        finish(command.arg(dsn).env("HOME", "/nonexistent").spawn().unwrap())
    };
    let root = key("crt");
    for options in [
        "host=localhost".to_owned(),
        "host=localhost sslmode=require".to_owned(),
        // Without TLS first, which this server refuses.
        "host=localhost sslmode=allow".to_owned(),
        format!("host=127.0.0.1 sslmode=verify-ca sslrootcert={root}"),
        format!("host=localhost sslmode=verify-full sslrootcert={root}"),
    ] {
        let json = run(&options).json();
        assert!(count(&json, "transactions_count") > 0, "{options}");
        assert_eq!(count(&json, "aborted_clients_count"), 0, "{options}");
    }
    run(&format!("host=127.0.0.1 sslmode=verify-full sslrootcert={root}"))
        .refused(&["certificate"]);
    run("host=localhost sslmode=verify-full").refused(&["sslrootcert"]);
    run("host=localhost sslmode=disable").refused(&["pg_hba.conf"]);
    drop(cluster);
}

#[test]
fn too_few_connections_are_counted_before_the_run() {
    let cluster = Cluster::with_settings(&["max_connections=20"], &|_| {});
    cluster.value("create role bench login");
    let mut command = lockscope("-S -c 18 -t 1 -U bench -d postgres");
    let finished = finish(command.args(["-h", cluster.host()]).spawn().unwrap());
    finished.refused(&[
        "-c 18 and",
        "need 19",
        "17 free",
        "max_connections is 20",
        "3 are reserved",
    ]);
    cluster.run("-S -c 19 -t 1").json();
}

#[test]
fn too_few_open_files_are_counted() {
    let cluster = Cluster::with_settings(&["max_connections=2000"], &|_| {});
    let run = cluster.command("-S -c 1500 -t 1");
    let mut command = Command::new("prlimit");
    command.arg("--nofile=1024:1024").arg(run.get_program()).args(run.get_args());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().unwrap()).refused(&["-c 1500 needs", "may open 1024", "ulimit -n 1756"]);
}

#[test]
fn missing_tables_are_named() {
    let cluster = Cluster::start();
    cluster.run("-S -t 1 --no-init").refused(&["pgbench_accounts", "pgbench_history", "--no-init"]);
    cluster.value("create table pgbench_tellers(x int)");
    cluster.run("-S -t 1").refused(&["pgbench_tellers exist", "pgbench_accounts", "--force-init"]);
}

#[test]
fn clients_that_the_server_refuses_give_up_and_the_reason_is_told() {
    let cluster = Cluster::start();
    cluster.run("-S -t 1").json();
    cluster.value("drop table pgbench_tellers; create table pgbench_tellers(wrong int)");
    cluster.value("comment on table pgbench_tellers is 'lockscope: scale 1'");
    let finished = cluster.run("--workload tpcb-like -c 2 -t 5 -n");
    finished.refused(&["2 of 2 clients gave up", "42703"]);
}

#[test]
fn some_clients_gone_is_exit_3_with_the_rest_measured() {
    let cluster = Cluster::start();
    let child = cluster.command("-S -c 4 -T 3 --warmup 0").spawn().unwrap();
    common::eventually("the clients are there", || {
        cluster.value("select count(*) from pg_stat_activity where application_name = 'lockscope'")
            == "4"
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    cluster.value(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'lockscope' limit 1",
    );
    let finished = finish(child);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    finished.warned("clients-aborted");
    let json = finished.any_json();
    assert_eq!(count(&json, "aborted_clients_count"), 1);
    assert_eq!(json["interrupted"], false);
    assert_eq!(json["workload"]["duration_ns"], 3_000_000_000u64);
}

#[test]
fn a_transaction_that_does_not_end_is_given_up() {
    let cluster = Cluster::start();
    cluster.run("-S -t 1").json();
    let lock = "begin; update pgbench_branches set bbalance = 0; select pg_sleep(120)";
    let mut locker =
        cluster.psql(lock).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    common::eventually("the row is locked", || {
        let sql = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        cluster.value(sql) == "1"
    });
    let finished = cluster.run("--workload tpcb-like -c 2 -T 1 --warmup 0 -n --no-init");
    drop(cluster);
    locker.wait().unwrap();
    // The measured part ran to its end: that nothing ended in it is a result.
    assert_eq!(finished.code, Some(3), "{finished:?}");
    assert_eq!(count(&finished.any_json(), "transactions_count"), 0);
    finished.warned("no-transactions");
    for words in ["2 of 2 clients gave up", "had not ended 5 s after"] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

#[test]
fn a_server_that_dies_ends_the_run_with_what_was_measured() {
    let cluster = Cluster::start();
    let child = cluster.command("-S -c 4 -T 60 --warmup 0").spawn().unwrap();
    common::eventually("the clients are there", || {
        cluster.value("select count(*) from pg_stat_activity where application_name = 'lockscope'")
            == "4"
    });
    std::thread::sleep(std::time::Duration::from_millis(500));
    cluster.signal(Signal::SIGINT);
    let finished = finish(child);
    assert_eq!(finished.code, Some(3), "{finished:?}");
    finished.warned("clients-aborted");
    let json = finished.any_json();
    assert_eq!(json["interrupted"], true);
    assert_eq!(count(&json, "aborted_clients_count"), 4);
    assert!(count(&json, "transactions_count") > 0);
    assert!(json["workload"]["duration_ns"].as_u64().unwrap() < 60_000_000_000);
}

#[test]
fn an_interrupt_before_the_measured_part_reports_nothing_and_cleans_up() {
    let parent = open_directory();
    let options = format!("-S -s 50 --data-dir {}", parent.path().display());
    let child = lockscope(&options).spawn().unwrap();
    common::eventually("the embedded server is there", || !processes_in(parent.path()).is_empty());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    finish(child).refused(&["interrupted"]);
    assert!(entries(parent.path()).is_empty());
    assert!(processes_in(parent.path()).is_empty());
}

#[test]
fn a_full_disk_costs_the_file_but_not_the_report() {
    let cluster = Cluster::start();
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("run");
    let limited = Command::new("prlimit").arg("--version").output().is_ok();
    assert!(limited, "prlimit (util-linux) is missing");
    // What no file may be larger than stands for a full disk.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec prlimit --fsize=512 \"$@\"", "sh"]);
    let arguments = format!("-S -t 5 -o {}", path.display());
    let lockscope = cluster.command(&arguments);
    command.arg(lockscope.get_program()).args(lockscope.get_args());
    let finished = finish(prepare(&mut command).spawn().unwrap());
    finished.refused(&["cannot write", "File too large"]);
    assert_eq!(count(&finished.any_json(), "transactions_count"), 5);
    assert!(!path.exists());
}

#[test]
fn a_device_that_is_full_is_refused_before_the_run() {
    let finished = run("-S -t 5 -o /dev/full");
    finished.refused(&["cannot write /dev/full", "No space left"]);
    assert_eq!(finished.stdout, "");
}
