//! pgbench's lines, from version 9.6 on (`pgbench.c`, printProgressReport and printResults).

use winnow::combinator::{alt, opt, preceded, terminated};
use winnow::prelude::*;
use winnow::token::{rest, take_until, take_while};

use super::numbers::{Parsed, count, number};
use super::{Fact, Progress, Said};

pub(super) fn read(line: &str) -> Option<Vec<Said>> {
    if let Ok(progress) = progress.parse(line) {
        return Some(vec![Said::Progress(progress)]);
    }
    let facts = facts.parse(line).ok()?;
    Some(facts.into_iter().map(Said::Fact).collect())
}

/// `progress: 1.0 s, 9412.0 tps, lat 0.424 ms stddev 0.071, 0 failed, …`
fn progress(line: &mut &str) -> Parsed<Progress> {
    let at_s = preceded("progress: ", number).parse_next(line)?;
    let tps = terminated(preceded(" s, ", number), " tps").parse_next(line)?;
    let latency_ms = opt(terminated(preceded(", lat ", number), " ms")).parse_next(line)?;
    let mut failed_count = None;
    for part in rest.parse_next(line)?.split(", ").map(str::trim) {
        if let Ok(failed) = terminated(count, " failed").parse(part) {
            failed_count = Some(failed);
        }
    }
    let latency_ms = latency_ms.filter(|ms| ms.is_finite());
    Ok(Progress { at_s, tps, latency_ms, failed_count, errors_per_s: None })
}

fn facts(line: &mut &str) -> Parsed<Vec<Fact>> {
    alt((
        preceded("pgbench (", version).map(|version| vec![Fact::Program(version)]),
        terminated(preceded("number of transactions actually processed: ", count), rest)
            .map(|count| vec![Fact::Transactions(count)]),
        terminated(preceded("number of failed transactions: ", count), rest)
            .map(|count| vec![Fact::Failed(count)]),
        preceded("total number of retries: ", count).map(|count| vec![Fact::Retries(count)]),
        terminated(preceded("latency average = ", number), (" ms", rest))
            .map(|ms| vec![Fact::LatencyMs(ms)]),
        terminated(preceded("initial connection time = ", number), " ms")
            .map(|ms| vec![Fact::ConnectingMs(ms)]),
        preceded("tps = ", (number, rest)).map(|(tps, remark)| rate(tps, remark)),
    ))
    .parse_next(line)
}

/// `15.8 (Debian …))` or `15.8)`.
fn version(line: &mut &str) -> Parsed<String> {
    let mut version = take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '.');
    let version = version.parse_next(line)?;
    (take_until(0.., ")"), rest).parse_next(line)?;
    Ok(format!("pgbench {version}"))
}

fn rate(tps: f64, remark: &str) -> Vec<Fact> {
    match remark.contains("including") {
        true => vec![Fact::Tps(tps), Fact::RateHoldsConnecting],
        false => vec![Fact::Tps(tps)],
    }
}
