//! What became of each case, and how it is shown.

use std::fs;
use std::path::Path;

use super::case::Case;

/// The exit status by which a case says that it cannot be judged here.
const SKIP_STATUS: i32 = 77;
/// `timeout`'s own exit statuses: ended, and ended the hard way.
const TIMEOUT_STATUSES: [i32; 2] = [124, 137];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Skip(String),
    Fail(String),
    /// The case is not about this kernel.
    NotApplicable,
}

impl Verdict {
    /// Reads what the guest left in the share. A case without an exit status has failed.
    pub(super) fn read(share: &Path, case: &Case) -> Self {
        let status = fs::read_to_string(share.join(format!("{}.status", case.name)));
        let Some(status) = status.ok().and_then(|text| text.trim().parse::<i32>().ok()) else {
            return Self::Fail("no verdict: the guest ended first".to_owned());
        };
        match status {
            0 => Self::Pass,
            SKIP_STATUS => Self::Skip(last_line(&read_log(share, case))),
            status if TIMEOUT_STATUSES.contains(&status) => {
                Self::Fail(format!("not done after {} s", case.timeout.as_secs()))
            }
            status => Self::Fail(format!("exit status {status}")),
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Pass => "PASS",
            Self::Skip(_) => "SKIP",
            Self::Fail(_) => "FAIL",
            Self::NotApplicable => "-",
        }
    }

    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Skip(reason) | Self::Fail(reason) => reason,
            Self::Pass | Self::NotApplicable => "",
        }
    }
}

fn read_log(share: &Path, case: &Case) -> String {
    let log = fs::read(share.join(format!("{}.log", case.name))).unwrap_or_default();
    String::from_utf8_lossy(&log).into_owned()
}

fn last_line(log: &str) -> String {
    let last = log.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("no reason given").trim().to_owned()
}

/// The end of a case's output, indented, for the terminal.
pub(super) fn log_tail(share: &Path, case: &Case, count: usize) -> String {
    let log = read_log(share, case);
    let lines: Vec<&str> = log.lines().collect();
    let tail = &lines[lines.len().saturating_sub(count)..];
    tail.iter().map(|line| format!("      | {line}\n")).collect()
}

/// The verdicts of one kernel, in the order of the cases.
pub(super) struct Column {
    pub(super) kernel: String,
    pub(super) verdicts: Vec<Verdict>,
}

/// Cases down, kernels across.
pub(super) fn matrix(cases: &[Case], columns: &[Column]) -> String {
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or(0);
    let mut text = format!("{:width$}", "");
    for column in columns {
        text.push_str(&format!("  {:>6}", column.kernel));
    }
    text.push('\n');
    for (index, case) in cases.iter().enumerate() {
        text.push_str(&format!("{:width$}", case.name));
        for column in columns {
            text.push_str(&format!("  {:>6}", column.verdicts[index].word()));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    fn verdict(status: Option<&str>, log: &str) -> Verdict {
        let share = tempfile::tempdir().expect("a directory");
        let case = Case::new("x", PathBuf::new(), Duration::from_secs(9));
        if let Some(status) = status {
            fs::write(share.path().join("x.status"), status).expect("written");
        }
        fs::write(share.path().join("x.log"), log).expect("written");
        Verdict::read(share.path(), &case)
    }

    #[test]
    fn exit_statuses_decide() {
        assert_eq!(verdict(Some("0\n"), "noise"), Verdict::Pass);
        assert_eq!(verdict(Some("77\n"), "a\nno KVM\n\n"), Verdict::Skip("no KVM".to_owned()));
        assert_eq!(verdict(Some("1\n"), ""), Verdict::Fail("exit status 1".to_owned()));
        assert_eq!(verdict(Some("124\n"), ""), Verdict::Fail("not done after 9 s".to_owned()));
    }

    #[test]
    fn silence_is_a_failure() {
        for status in [None, Some(""), Some("x")] {
            assert!(matches!(verdict(status, "PASS"), Verdict::Fail(_)), "{status:?}");
        }
    }

    #[test]
    fn the_matrix_has_a_row_for_each_case() {
        let cases = ["osq", "rwsem"].map(|name| Case::new(name, PathBuf::new(), Duration::ZERO));
        let columns = [
            Column {
                kernel: "5.10".to_owned(),
                verdicts: vec![Verdict::NotApplicable, Verdict::Pass],
            },
            Column {
                kernel: "6.12".to_owned(),
                verdicts: vec![Verdict::Fail(String::new()), Verdict::Skip(String::new())],
            },
        ];
        let expected = "         5.10    6.12\nosq         -    FAIL\nrwsem    PASS    SKIP\n";
        assert_eq!(matrix(&cases, &columns), expected);
    }
}
