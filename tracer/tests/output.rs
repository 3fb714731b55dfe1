//! Reports on a standard output that takes none of them, and options that are refused.

#![expect(clippy::unwrap_used, reason = "helpers outside of test functions unwrap, too")]

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use lockscope::model::{Run, save};

/// Through a shell, which alone can close an output.
fn shell(line: &str, directory: &Path) -> Output {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]).env("lockscope", env!("CARGO_BIN_EXE_lockscope"));
    command.current_dir(directory).output().unwrap()
}

/// Everything that prints and needs neither root nor a server.
const PRINTING: [&str; 8] = [
    "--help",
    "--version",
    "run --help",
    "workloads",
    "load --show-script list",
    "doctor --json",
    "report run.lockscope",
    "explain run.lockscope",
];

fn directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    save(&Run::new(), &directory.path().join("run.lockscope")).unwrap();
    directory
}

#[test]
fn an_output_that_takes_nothing_is_an_error() {
    let directory = directory();
    for words in PRINTING {
        for (place, said) in [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left")] {
            let done = shell(&format!("$lockscope {words} {place}"), directory.path());
            let stderr = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(2), "{words} {place}: {stderr}");
            assert!(stderr.contains("cannot write standard output"), "{words} {place}: {stderr}");
            assert!(stderr.contains(said), "{words} {place}: {stderr}");
        }
    }
}

#[test]
fn an_output_that_takes_nothing_does_not_cost_the_file() {
    let directory = directory();
    for place in [">&-", "> /dev/full"] {
        let saved = directory.path().join("saved.json");
        let line = format!("$lockscope explain run.lockscope -o saved.json {place}");
        assert_eq!(shell(&line, directory.path()).status.code(), Some(2), "{place}");
        let text = std::fs::read_to_string(&saved).unwrap();
        assert!(text.contains("\"signatures\""), "{place}: {text}");
        std::fs::remove_file(saved).unwrap();
    }
}

#[test]
fn a_reader_that_goes_away_and_a_place_for_nothing_are_none() {
    let directory = directory();
    for words in PRINTING {
        // What a diagnosis finds is its exit code.
        let good =
            |code: Option<i32>| code == Some(0) || (words.starts_with("doctor") && code == Some(2));
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockscope"));
        command.args(words.split(' ')).current_dir(directory.path()).stderr(Stdio::piped());
        let mut child = command.stdout(writer).spawn().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(good(child.wait().unwrap().code()), "{words}: {said}");
        assert_eq!(said, "", "{words}");
        // Opened to be read as well, as Rust's runtime opens it in the place of a closed output.
        for null in
            [File::options().read(true).write(true).open("/dev/null"), File::create("/dev/null")]
        {
            let done = command.stdout(null.unwrap()).output().unwrap();
            assert!(good(done.status.code()), "{words}: {}", String::from_utf8_lossy(&done.stderr));
        }
    }
}

fn refused(words: &[&str], said: &[&str]) {
    let done = Command::new(env!("CARGO_BIN_EXE_lockscope")).args(words).output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{words:?}: {stderr}");
    assert!(done.stdout.is_empty(), "{words:?}");
    for said in said {
        assert!(stderr.contains(said), "{words:?} does not say `{said}`: {stderr}");
    }
}

#[test]
fn tasks_are_listed_by_the_commands_whose_reports_have_them() {
    for words in [
        &["explain", "a", "--all-backends"][..],
        &["compare", "a", "b", "--all-backends"],
        &["sweep", "--clients", "1", "-S", "--all-backends"],
        &["ab", "--b", "protocol=simple", "--all-backends", "--", "-S"],
        &["ab", "--b", "protocol=simple", "--", "-S", "--all-backends"],
        &["load", "-S", "--all-backends"],
    ] {
        refused(words, &["--all-backends"]);
    }
    // Known to these: it is the file, the server or the pid that is not.
    refused(&["report", "/no/such.lockscope", "--all-backends"], &["/no/such.lockscope"]);
    refused(&["run", "-S", "--all-backends", "-c", "0"], &["at least 1"]);
    refused(&["attach", "--all", "--all-backends", "-T", "0"], &["more than 0"]);
}

#[test]
fn numbers_that_nothing_can_hold_are_refused() {
    let nines = "99999999999999999999";
    for (words, said) in [
        (&["load", "-S", "-c", nines][..], "whole number"),
        (&["load", "-S", "-t", nines], "99999999999999999999"),
        (&["load", "-S", "-T", "1e300"], "at most"),
        (&["load", "-S", "-R", "1e400"], "finite"),
        (&["compare", "a", "b", "--fail-if", "tps < 1e999"], "is no condition"),
        (&["compare", "a", "b", "--fail-if", "latency.p99 > 1e308s"], "is no condition"),
        (&["compare", "a", "b", "--confidence", nines], "at least 50"),
        (&["report", "a", "--width", nines], "--width"),
    ] {
        refused(words, &[said]);
    }
}
