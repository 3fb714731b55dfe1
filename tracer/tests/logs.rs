//! Transaction logs beside those that the installed pgbench writes.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

mod common;

use std::fs;
use std::path::Path;

use common::{Cluster, count, entries, open_directory};

/// Names of log files without their process id, and their lines.
fn logs(directory: &Path) -> Vec<(String, Vec<Vec<String>>)> {
    let mut logs: Vec<_> = entries(directory)
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let (prefix, rest) = name.split_once('.').unwrap();
            let worker = rest.split_once('.').map(|(_, worker)| format!(".{worker}"));
            let text = fs::read_to_string(&path).unwrap();
            let fields = |line: &str| line.split(' ').map(str::to_owned).collect();
            let lines = text.lines().map(fields).collect();
            fs::remove_file(&path).unwrap();
            (format!("{prefix}{}", worker.unwrap_or_default()), lines)
        })
        .collect();
    logs.sort();
    logs
}

#[test]
fn files_and_columns_are_those_of_pgbench() {
    let cluster = Cluster::start();
    cluster.pgbench(&["-i", "-q"]);
    let directory = open_directory();
    let prefix = directory.path().join("log").display().to_string();
    for options in [
        "-S -n -c 3 -j 2 -t 20",
        "-N -n -c 2 -j 1 -t 10 -M prepared",
        "-S -n -c 2 -j 2 -t 20 -R 400",
        "-S -n -c 2 -j 1 -T 2 -R 200 -L 50",
        "-S -n -c 2 -j 1 -T 3 --aggregate-interval 1",
        "-S -n -c 2 -j 1 -T 2 --aggregate-interval 1 -R 200 -L 50",
    ] {
        let options = format!("{options} -l --log-prefix {prefix}");
        cluster.pgbench_output(&options);
        let theirs = logs(directory.path());
        let json = cluster.load(&format!("{options} --no-init")).json();
        let own = logs(directory.path());
        let names = |logs: &[(String, Vec<Vec<String>>)]| {
            logs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&own), names(&theirs), "{options}");
        let aggregated = options.contains("--aggregate");
        let mut logged = 0;
        for ((_, own), (_, theirs)) in own.iter().zip(&theirs) {
            let columns = theirs[0].len();
            assert!(own.iter().all(|line| line.len() == columns), "{options}: {own:?}");
            assert!(
                own.iter()
                    .flatten()
                    .all(|field| field.parse::<u64>().is_ok() || field == "skipped")
            );
            if !aggregated {
                // The clients of a worker are the same, and each counts its transactions from 1.
                let clients = |lines: &[Vec<String>]| {
                    lines
                        .iter()
                        .map(|line| line[0].clone())
                        .collect::<std::collections::BTreeSet<_>>()
                };
                assert_eq!(clients(own), clients(theirs), "{options}");
                for client in clients(own) {
                    let numbers: Vec<u64> = own
                        .iter()
                        .filter(|line| line[0] == client)
                        .map(|line| line[1].parse().unwrap())
                        .collect();
                    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
                }
                logged += own.iter().filter(|line| line[2] != "skipped").count() as u64;
            }
        }
        if !aggregated {
            assert_eq!(logged, count(&json, "transactions_count"), "{options}");
        }
    }
}

#[test]
fn a_full_disk_costs_the_log_and_nothing_else() {
    let cluster = Cluster::start();
    let directory = open_directory();
    // The second worker's log is a device that is always full; the name needs the process id.
    let script = format!(
        "ln -s /dev/full {0}/log.$$; exec {1} load -S -c 2 -j 1 -t 3000 --json -l --log-prefix {0}/log -h {2} -U postgres -d postgres",
        directory.path().display(),
        env!("CARGO_BIN_EXE_lockscope"),
        cluster.host()
    );
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]);
    let finished = common::finish(common::prepare(&mut shell).spawn().unwrap());
    assert_eq!(count(&finished.json(), "transactions_count"), 6000);
    finished.warned("log-incomplete");
    assert!(finished.stderr.contains("No space left on device"), "{}", finished.stderr);
}

#[test]
fn a_log_that_cannot_be_made_is_refused_before_the_run() {
    let cluster = Cluster::start();
    cluster
        .load("-S -t 1 -l --log-prefix /nonexistent/log")
        .refused(&["/nonexistent/log.", "--log-prefix"]);
}
