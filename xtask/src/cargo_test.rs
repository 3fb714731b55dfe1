//! Running `cargo test` and reading what it reports.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context as _, Result};

use crate::shell::display;
use crate::tally::Tally;

/// Begins the line by which a test says on standard error that it cannot be judged here:
/// `lockscope-skip: NAME: REASON`. Such a test returns normally, so cargo counts it as passed.
const SKIP_MARKER: &str = "lockscope-skip: ";

/// Runs the command, shows its output as it comes and counts the tests in it.
///
/// A command that fails without a failed test (it did not compile, a test aborted) is a failure
/// itself, and so is one in which no test ran at all.
pub(crate) fn run(what: &str, command: &mut Command) -> Result<Tally> {
    eprintln!("+ {}", display(command));
    run_into(what, command, io::stdout(), io::stderr())
}

fn run_into(
    what: &str,
    command: &mut Command,
    stdout: impl Write + Send + 'static,
    stderr: impl Write + Send + 'static,
) -> Result<Tally> {
    let line = display(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{line}`"))?;
    let stdout = child.stdout.take().map(|pipe| follow(pipe, stdout));
    let stderr = child.stderr.take().map(|pipe| follow(pipe, stderr));
    let status = child.wait().with_context(|| format!("cannot wait for `{line}`"))?;
    let mut lines = Vec::new();
    for reader in [stdout, stderr].into_iter().flatten() {
        lines.extend(reader.join().unwrap_or_default());
    }
    let mut tally = count(what, &lines);
    if !status.success() && tally.failed.is_empty() {
        tally.failed.push(format!("{what}: `{line}` ended with {status}"));
    } else if tally == Tally::default() {
        tally.failed.push(format!("{what}: `{line}` ran no test"));
    }
    Ok(tally)
}

/// Copies a stream through and keeps its lines.
fn follow(
    from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
) -> thread::JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut lines = Vec::new();
        let mut reader = BufReader::new(from);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            // A closed terminal must not lose the count.
            let _ = to.write_all(&line);
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
            line.clear();
        }
        lines
    })
}

fn count(what: &str, lines: &[String]) -> Tally {
    let mut tally = Tally::default();
    let mut failed_count = 0;
    let mut skips_that_passed = 0;
    for line in lines {
        if let Some(result) = line.strip_prefix("test result: ") {
            tally.passed += number_before(result, "passed");
            failed_count += number_before(result, "failed");
        } else if let Some(name) = test_line(line, "FAILED") {
            tally.failed.push(format!("{what} {name}"));
        } else if let Some(name) = test_line(line, "ignored") {
            tally.skipped.push((format!("{what} {name}"), "ignored".to_owned()));
        } else if let Some((_, skip)) = line.split_once(SKIP_MARKER) {
            let (name, reason) = skip.split_once(": ").unwrap_or((skip, "no reason given"));
            tally.skipped.push((format!("{what} {name}"), reason.to_owned()));
            skips_that_passed += 1;
        }
    }
    tally.passed = tally.passed.saturating_sub(skips_that_passed);
    // Output written past the harness can break a test's line, never the result's.
    for index in tally.failed.len()..failed_count {
        tally.failed.push(format!("{what}: failed test {index}"));
    }
    tally
}

/// The name in `test NAME ... OUTCOME`.
fn test_line<'a>(line: &'a str, outcome: &str) -> Option<&'a str> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    rest.starts_with(outcome).then_some(name)
}

/// `3` in `ok. 3 passed; 0 failed; ...`.
fn number_before(result: &str, word: &str) -> usize {
    let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let place = words.iter().position(|candidate| *candidate == word);
    place.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Tally {
        count("unit", &text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn results_of_all_binaries_are_summed() {
        let tally = counted(
            "test a ... ok\ntest b::c ... FAILED\ntest d ... ignored, needs a disk\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(tally.passed, 13);
        assert_eq!(tally.failed, ["unit b::c"]);
        assert_eq!(tally.skipped, [("unit d".to_owned(), "ignored".to_owned())]);
    }

    #[test]
    fn a_skip_is_not_a_pass() {
        let tally =
            counted("lockscope-skip: traces: no root\ntest result: ok. 2 passed; 0 failed;\n");
        assert_eq!((tally.passed, tally.failed.len()), (1, 0));
        assert_eq!(tally.skipped, [("unit traces".to_owned(), "no root".to_owned())]);
    }

    #[test]
    fn failures_count_even_when_their_lines_are_broken() {
        let tally = counted("test a ... noise FAILED\ntest result: FAILED. 0 passed; 2 failed;\n");
        assert_eq!(tally.failed.len(), 2);
    }

    #[test]
    fn a_run_without_tests_or_with_a_bad_end_fails() {
        for script in
            ["exit 0", "exit 101", "echo 'test result: ok. 1 passed; 0 failed;'; exit 101"]
        {
            let tally =
                run_into("x", Command::new("sh").args(["-c", script]), io::sink(), io::sink())
                    .expect("sh starts");
            assert_eq!(tally.failed.len(), 1, "{script}");
        }
    }
}
