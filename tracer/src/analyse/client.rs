//! What a benchmark says of itself against what the server's replies told: whether they agree, and
//! if not, why.

use super::units::{duration, percent, plural};
use crate::model::{ClientInterval, ClientReport, Run, Warning};

/// From this difference on the two do not agree.
const TOLERATED: f64 = 0.05;
/// A reason explains a difference if it leaves no more than this.
const EXPLAINED: f64 = 0.02;

/// What the report itself does not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The trace holds all of the benchmark: lockscope has started it.
    pub whole: bool,
    /// Other processes that are connected to the server.
    pub others: u64,
}

/// Puts the reasons of a difference into the client's report; a difference without one is a warning.
pub fn compare(run: &mut Run, circumstances: Circumstances) -> Option<Warning> {
    // At depth `locks` no transaction is told from another.
    let is_told = run.depth == "ledger";
    let report = run.client_report.as_mut().filter(|_| is_told)?;
    let difference = difference(report, circumstances)?;
    if difference == 0.0 {
        return None;
    }
    report.explanation = reason(report, circumstances, difference);
    let is_open = difference.abs() > TOLERATED && report.explanation.is_none();
    is_open.then(|| disagreement(report, difference))
}

/// How many more transactions the replies told than the benchmark counts, as a share of its count.
pub fn difference(report: &ClientReport, circumstances: Circumstances) -> Option<f64> {
    let counted = report.transactions_count.filter(|_| circumstances.whole);
    match counted {
        Some(0) | None => median_difference(&report.intervals),
        Some(count) => Some(report.told_count as f64 / count as f64 - 1.0),
    }
}

fn median_difference(intervals: &[ClientInterval]) -> Option<f64> {
    let with_load = intervals.iter().filter(|interval| interval.tps > 0.0);
    let mut ratios: Vec<f64> = with_load.map(|i| i.told_tps / i.tps - 1.0).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

fn reason(report: &ClientReport, circumstances: Circumstances, difference: f64) -> Option<String> {
    several_commits(difference)
        .or_else(|| failures(report, circumstances))
        .or_else(|| other_clients(circumstances, difference))
}

/// pgbench counts its script's executions, sysbench its events: either may hold several transactions.
fn several_commits(difference: f64) -> Option<String> {
    let times = (difference + 1.0).round();
    let fits = times >= 2.0 && ((difference + 1.0) / times - 1.0).abs() < EXPLAINED;
    fits.then(|| {
        format!(
            "each of its transactions is {times} of the server's: its script ends that many \
             (statements outside BEGIN and END are one each)"
        )
    })
}

/// A failed try ends in a reply too.
fn failures(report: &ClientReport, circumstances: Circumstances) -> Option<String> {
    let count = report.transactions_count.filter(|_| circumstances.whole)?;
    let failed = report.failed_count.unwrap_or(0);
    let retries = report.retries_count.unwrap_or(0);
    let tries = count + failed + retries;
    let left = report.told_count as f64 / tries.max(1) as f64 - 1.0;
    (failed + retries > 0 && left.abs() < EXPLAINED).then(|| {
        format!(
            "the server's replies tell failed tries too: {failed} failed, {}",
            plural(retries, "retry")
        )
    })
}

fn other_clients(circumstances: Circumstances, difference: f64) -> Option<String> {
    (circumstances.others > 0 && circumstances.whole && difference > 0.0).then(|| {
        format!(
            "{} more connected to the server, and the replies tell their transactions too",
            plural(circumstances.others, "process")
        )
    })
}

fn disagreement(report: &ClientReport, difference: f64) -> Warning {
    let who = report.program.as_deref().unwrap_or("the benchmark");
    let (code, remedy) = match report.told_count {
        0 => (
            "client-elsewhere",
            "name the server that it uses with --postgres PORT|DIR|PID, and run lockscope on that \
             server's machine",
        ),
        _ => (
            "client-differs",
            "see whether it has connections to another server or through a pooler, or uses TLS with \
             a Postgres whose memory is not known (docs/limitations.md)",
        ),
    };
    Warning {
        code: code.to_owned(),
        text: format!(
            "the server's replies tell {} {} transactions than {who} counts, and lockscope knows no \
             reason",
            percent(difference.abs()),
            if difference > 0.0 { "more" } else { "fewer" },
        ),
        remedy: Some(remedy.to_owned()),
    }
}

/// What the benchmark's rate leaves out, in words.
pub fn left_out(report: &ClientReport) -> Option<String> {
    report
        .connecting_ns
        .filter(|ns| *ns > 0)
        .map(|ns| format!("without {} of connecting", duration(ns as f64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Circumstances = Circumstances { whole: true, others: 0 };

    fn run(report: ClientReport) -> Run {
        Run { client_report: Some(report), depth: "ledger".to_owned(), ..Run::new() }
    }

    fn counted(count: u64, told_count: u64) -> ClientReport {
        ClientReport { transactions_count: Some(count), told_count, ..ClientReport::default() }
    }

    fn judged(
        report: ClientReport,
        circumstances: Circumstances,
    ) -> (Option<String>, Option<Warning>) {
        let mut run = run(report);
        let warning = compare(&mut run, circumstances);
        (run.client_report.unwrap().explanation, warning)
    }

    #[test]
    fn those_that_agree_need_no_word() {
        assert_eq!(judged(counted(400, 400), WHOLE), (None, None));
        assert_eq!(judged(counted(1000, 990), WHOLE), (None, None));
    }

    #[test]
    fn known_reasons_are_told_and_are_no_warning() {
        let (why, warning) = judged(counted(400, 1200), WHOLE);
        assert!(why.unwrap().contains("is 3 of the server's") && warning.is_none());
        let report =
            ClientReport { failed_count: Some(90), retries_count: Some(30), ..counted(400, 520) };
        let (why, warning) = judged(report, WHOLE);
        assert!(why.unwrap().contains("90 failed, 30 retries") && warning.is_none());
        let (why, warning) = judged(counted(400, 520), Circumstances { others: 1, ..WHOLE });
        assert!(why.unwrap().contains("1 process more") && warning.is_none());
    }

    #[test]
    fn a_difference_without_a_reason_is_a_warning() {
        let (why, warning) = judged(counted(400, 300), WHOLE);
        let warning = warning.unwrap();
        assert_eq!((why, warning.code.as_str()), (None, "client-differs"));
        assert!(warning.text.contains("25.0 % fewer"), "{}", warning.text);
        let (_, warning) = judged(counted(400, 0), WHOLE);
        assert_eq!(warning.unwrap().code, "client-elsewhere");
    }

    #[test]
    fn of_a_part_the_intervals_decide() {
        let interval =
            |tps, told_tps| ClientInterval { tps, told_tps, ..ClientInterval::default() };
        let report = ClientReport {
            intervals: vec![interval(100.0, 99.0), interval(100.0, 101.0), interval(0.0, 5.0)],
            ..counted(10_000, 200)
        };
        assert_eq!(judged(report.clone(), Circumstances::default()).1, None);
        let report = ClientReport { intervals: vec![interval(100.0, 50.0)], ..report };
        assert_eq!(judged(report, Circumstances::default()).1.unwrap().code, "client-differs");
    }
}
