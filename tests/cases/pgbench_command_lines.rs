//! A command line that pgbench takes does the same with `lockscope load` and `lockscope init`; one that
//! it refuses is refused.

use std::fs;
use std::process::Command;

use lockscope_tests::command::{Finished, finish, lockscope};
use lockscope_tests::postgres::Postgres;
use tempfile::TempDir;

fn ours(server: &Postgres, command: &str, words: &[&str]) -> Finished {
    let mut run = lockscope(&[command]);
    server_of(server, &mut run);
    finish(run.args(words)).expect("it ends")
}

fn theirs(server: &Postgres, words: &[&str]) -> Finished {
    finish(server.client("pgbench").args(words)).expect("it ends")
}

/// The same variables as pgbench gets.
fn server_of(server: &Postgres, command: &mut Command) {
    let like = server.client("pgbench");
    for (name, value) in like.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
}

fn processed(done: &Finished) -> String {
    let line = done.stdout.lines().find(|line| line.starts_with("number of transactions actually"));
    line.unwrap_or_default().to_owned()
}

#[test]
fn both_run() {
    let server = Postgres::start(&[]).expect("a server");
    assert_eq!(theirs(&server, &["-i", "-q"]).code, Some(0));
    let client = server.client("pgbench");
    let host = client.get_envs().find(|(name, _)| *name == "PGHOST");
    let host = host.and_then(|(_, value)| value?.to_str().map(str::to_owned)).expect("a host");
    let string = format!("host={host} dbname=postgres user=tester");
    let url = format!("postgresql:///postgres?host={host}&user=tester");
    let lines: [&[&str]; 11] = [
        &["-S", "-t", "3", "postgres"],
        &["-S", "-t", "3", &string],
        &["-S", "-t", "3", &url],
        // The connection string goes before the options.
        &["-S", "-t", "3", "-h", "/nowhere", "-U", "nobody", &string],
        &["-S", "-t", "1", "-t", "3", "-c", "4", "-c", "1", "-M", "simple", "-M", "prepared"],
        &["-S", "-t", "3", "-p", "1", "-p", "5432", "-n", "-n"],
        &["-b", "se", "-t", "3", "-P", "5", "--progress-timestamp"],
        &["-D", "a=1", "-D", "a=2", "-D", "b=3", "-N", "-S", "-t", "3"],
        &["-S", "-c", "3", "-j", "2", "-t", "5", "--exit-on-abort"],
        &["-t", "2", "-v", "-C"],
        &["-S", "-t", "3", "--max-tries", "2", "--failures-detailed", "-L", "1000"],
    ];
    for words in lines {
        let (theirs, ours) = (theirs(&server, words), ours(&server, "load", words));
        // Some came later than the pgbench that is installed.
        if theirs.stderr.contains("unrecognized option") {
            assert_eq!(ours.code, Some(0), "{words:?}: {}", ours.stderr);
            continue;
        }
        assert_eq!((theirs.code, ours.code), (Some(0), Some(0)), "{words:?}: {}", ours.stderr);
        assert_eq!(processed(&theirs), processed(&ours), "{words:?}");
    }
}

#[test]
fn a_script_of_one_s_own_needs_no_tables_of_pgbench_s() {
    let server = Postgres::start(&[]).expect("a server");
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("own.sql");
    let script =
        "create temp table if not exists own (scale int);\ninsert into own values (:scale);\n";
    fs::write(&path, script).expect("a file");
    let file = path.to_str().expect("plain");
    for words in [
        &["-n", "-f", file, "-t", "3"][..],
        &["-n", "-f", file, "-t", "3", "-s", "7"],
        // Vacuums what is there: nothing, which pgbench only complains of.
        &["-v", "-f", file, "-t", "3"],
    ] {
        let theirs = theirs(&server, words);
        assert_eq!(theirs.code, Some(0), "{words:?}: {}", theirs.stderr);
        for more in [&[][..], &["--no-init"]] {
            let ours = ours(&server, "load", &[words, more].concat());
            assert_eq!(ours.code, Some(0), "{words:?} {more:?}: {}", ours.stderr);
            assert_eq!(processed(&theirs), processed(&ours), "{words:?} {more:?}");
        }
        // A server of lockscope's own has no tables either, where it may not make any.
        let own = finish(&mut lockscope(&[&["load", "--no-init"], words].concat()));
        let own = own.expect("it ends");
        assert_eq!(own.code, Some(0), "{words:?}: {}", own.stderr);
        assert_eq!(processed(&theirs), processed(&own), "{words:?}");
    }
    // A built-in script beside it does.
    let words = ["-n", "-f", file, "-b", "select-only", "-t", "3"];
    assert_eq!(theirs(&server, &words).code, Some(1));
    let ours = ours(&server, "load", &[&words[..], &["--no-init"]].concat());
    assert_eq!(ours.code, Some(2), "{}", ours.stderr);
    assert!(ours.stderr.contains("pgbench_branches"), "{}", ours.stderr);
}

#[test]
fn both_refuse() {
    let server = Postgres::start(&[]).expect("a server");
    let lines: [&[&str]; 9] = [
        &["-c", "-1"],
        &["-t", "0"],
        &["-t", "1", "-T", "1"],
        &["--progress-timestamp", "-P", "0"],
        &["-M", "binary"],
        &["-b", "nothing"],
        &["-S", "-f", "/nonexistent.sql"],
        &["-l", "--sampling-rate", "0.5", "--aggregate-interval", "1", "-T", "2"],
        &["-R", "0"],
    ];
    for words in lines {
        let (theirs, ours) = (theirs(&server, words), ours(&server, "load", words));
        assert_eq!(theirs.code, Some(1), "{words:?}: {}", theirs.stderr);
        assert_eq!(ours.code, Some(2), "{words:?}: {}", ours.stderr);
    }
    let method = ["--partition-method", "hash"];
    assert_eq!(theirs(&server, &[&["-i"], &method[..]].concat()).code, Some(1));
    let done = ours(&server, "init", &[&method[..], &["--partitions", "0"]].concat());
    assert_eq!(done.code, Some(2), "{}", done.stderr);
}

#[test]
fn progress_may_tell_the_time_of_the_day() {
    let words = ["-S", "-T", "2", "-P", "1", "--progress-timestamp"];
    let server = Postgres::start(&[]).expect("a server");
    assert_eq!(theirs(&server, &["-i", "-q"]).code, Some(0));
    for done in [theirs(&server, &words), ours(&server, "load", &words)] {
        let times = done.stderr.lines().filter_map(|line| line.strip_prefix("progress: "));
        let times: Vec<&str> = times.filter_map(|rest| Some(rest.split_once(" s, ")?.0)).collect();
        assert!(!times.is_empty(), "{}", done.stderr);
        for time in times {
            let (seconds, milliseconds) = time.split_once('.').expect("a fraction");
            assert_eq!((seconds.len(), milliseconds.len()), (10, 3), "{time}");
        }
    }
}

#[test]
fn the_built_in_scripts_are_listed() {
    let server = Postgres::start(&[]).expect("a server");
    let list = theirs(&server, &["-b", "list"]);
    for words in [["-b", "list"], ["--show-script", "list"]] {
        let done = ours(&server, "load", &words);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        // pgbench's goes to standard error.
        assert_eq!(done.stdout.trim(), list.stderr.trim());
    }
}

#[test]
fn no_partitions_is_none() {
    let server = Postgres::start(&[]).expect("a server");
    let done = ours(&server, "init", &["-q", "--partitions", "0"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let mut psql = server.client("psql");
    let kind = "select relkind from pg_class where relname = 'pgbench_accounts'";
    let done = finish(psql.args(["-X", "-A", "-t", "-c", kind])).expect("it ends");
    assert_eq!(done.stdout.trim(), "r");
}
