//! Wrong usage ends at once with exit code 2 and a message that says what to do.

use lockscope_tests::command::{finish, lockscope};

/// Every one of `expected` is said on standard error, nothing on standard output.
fn refused(arguments: &str, expected: &[&str]) {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let done = finish(&mut lockscope(&words)).expect("it ends");
    assert_eq!(done.code, Some(2), "`{arguments}`: {}", done.stderr);
    assert_eq!(done.stdout, "", "`{arguments}`");
    for text in expected {
        assert!(
            done.stderr.contains(text),
            "`{arguments}` does not say `{text}`:\n{}",
            done.stderr
        );
    }
    assert!(!done.stderr.contains("panicked"), "`{arguments}`:\n{}", done.stderr);
}

#[test]
fn an_unknown_workload_is_answered_with_the_known_ones() {
    let known =
        ["select-prepared", "select-simple", "select-extended", "tpcb-like", "simple-update"];
    refused("run --workload select-perpared", &[&["select-perpared"], &known[..]].concat());
}

#[test]
fn nothing_to_run_is_refused() {
    refused("run --workload select-prepared -c 0", &["--client", "at least 1"]);
    refused("run --workload select-prepared -T 0", &["--time", "more than 0"]);
    refused("run --workload select-prepared -t 0", &["--transactions", "at least 1"]);
    refused("run --workload select-prepared -j 0", &["--jobs", "at least 1"]);
}

#[test]
fn a_negative_number_is_answered_with_what_it_must_be() {
    for command in ["run", "load"] {
        refused(&format!("{command} -c -1"), &["--client", "at least 1"]);
        refused(&format!("{command} -T -1"), &["--time", "must not be negative"]);
        refused(&format!("{command} --warmup NaN"), &["--warmup", "a number of seconds"]);
    }
    refused("init -s -1", &["--scale", "at least 1"]);
    refused("load --pin-client 0-999999999", &["CPU 999999999", "beyond"]);
}

#[test]
fn a_script_without_a_command_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "-- nothing\n").expect("written");
    let path = file.path().to_str().expect("a plain path");
    refused(&format!("load -f {path}"), &[&format!("script `{path}` has no command")]);
}

#[test]
fn an_unreachable_server_is_named() {
    refused(
        "run --no-trace --dsn host=/no/such/place",
        &["/no/such/place/.s.PGSQL.5432", "is it running"],
    );
    refused(
        "run --no-trace --dsn postgresql://127.0.0.1:1/x",
        &["127.0.0.1 port 1", "is it running"],
    );
}

#[test]
fn an_unwritable_output_is_found_before_the_run() {
    // No server answers there: the order shows that the output is looked at first.
    refused(
        "run --no-trace --dsn host=/no/such/place -o /no/such/directory/run.lockscope",
        &[
            "cannot write /no/such/directory/run.lockscope: No such file or directory (os error 2)\n",
        ],
    );
    refused("load --dsn host=/no/such/place -o /dev/full", &["cannot write /dev/full: No space"]);
}

#[test]
fn two_connection_strings_are_refused_and_neither_is_shown() {
    let words = ["load", "--dsn", "host=/x password=geheim", "-d", "host=/y password=geheim"];
    let done = finish(&mut lockscope(&words)).expect("it ends");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("two connection strings"), "{}", done.stderr);
    assert!(!done.stderr.contains("geheim"), "{}", done.stderr);
}

#[test]
fn a_bad_connection_string_is_refused_without_its_password() {
    let done =
        finish(&mut lockscope(&["run", "--no-trace", "--dsn", "host=x password=geheim nonsense"]))
            .expect("it ends");
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(!done.stderr.contains("geheim"), "{}", done.stderr);
}

#[test]
fn a_file_that_is_no_run_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("not-a-run.lockscope");
    std::fs::write(&file, "hello").expect("written");
    let path = file.to_str().expect("a plain path");
    refused(&format!("report {path}"), &[path]);
    refused("report /no/such/run.lockscope", &["/no/such/run.lockscope"]);
}

/// A saved run with intervals.
const SAVED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tracer/tests/fixtures/vm-6.1-contended.lockscope");

#[test]
fn what_cannot_be_compared_is_refused() {
    refused("compare", &["RUN"]);
    refused("compare a.lockscope", &["nothing to be compared with", "--"]);
    refused("compare a b c", &["3 runs", "which are new"]);
    refused(&format!("compare {SAVED} /no/such/run.lockscope"), &["/no/such/run.lockscope"]);
    refused(&format!("compare {SAVED} {SAVED} --fail-if tps<"), &["no condition", "tps < -5%"]);
    refused(&format!("compare {SAVED} {SAVED} --fail-if tsp<-5%"), &["tsp", "did you mean tps?"]);
    refused(&format!("compare {SAVED} {SAVED} --confidence 100"), &["below 100"]);
    refused(&format!("compare {SAVED} {SAVED} -o /no/such/dir/x"), &["/no/such/dir/x"]);
}

/// 0 good, 1 bad, 125 cannot judge: what `git bisect run` takes.
#[test]
fn conditions_end_with_the_exit_codes_of_a_bisection() {
    let code = |runs: &[&str], condition: &str| {
        let arguments = [&["compare", "--fail-if", condition], runs].concat();
        let done = finish(&mut lockscope(&arguments)).expect("it ends");
        (done.code, done.stdout + &done.stderr)
    };
    for (condition, expected) in
        [("tps < -90%", 0), ("tps > 0.001", 1), ("tps > 0.001 @50", 1), ("latency.p50 < -5%", 125)]
    {
        let (code, said) = code(&[SAVED, SAVED], condition);
        assert_eq!(code, Some(expected), "{condition}: {said}");
    }
    let (code, said) = code(&[SAVED, "/no/such/run"], "tps < -5%");
    assert!(code == Some(125) && said.contains("cannot judge"), "{said}");
}

#[test]
fn rounds_of_wrong_sides_are_refused_before_anything_runs() {
    refused("ab", &["--b"]);
    refused("ab --b protcol=simple", &["--b", "--protocol"]);
    refused("ab --b =", &["--b", "NAME=VALUE"]);
    refused("ab --b output=x", &["--b", "-o DIR"]);
    refused("ab --b c=2 -o /proc/none", &["/proc/none", "choose another"]);
    refused("ab --b c=2 --rounds 0", &["--rounds", "at least 1"]);
    refused("ab --quick --b c=2", &["--quick", "cannot be used with"]);
}

#[test]
fn a_standard_error_that_takes_nothing_costs_nothing() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let refused = lockscope(&["report", "/nonexistent"]).stderr(full()).status().expect("it ends");
    assert_eq!(refused.code(), Some(2));
    let words = ["run", "--no-trace", "-S", "-T", "1", "--warmup", "0", "--progress", "0.2"];
    let done = lockscope(&words).stderr(full()).output().expect("it ends");
    assert_eq!(done.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&done.stdout).contains("\ntps = "), "the report is lost");
}
