//! sysbench's lines, of versions 1.0 and 1.1 (`sb_logger.c`, `db_driver.c`, `sysbench.c`).

use winnow::combinator::{delimited, preceded, terminated};
use winnow::prelude::*;
use winnow::token::{rest, take_while};

use super::numbers::{Parsed, count, number, spaces, valued};
use super::{Fact, Progress, Said};

pub(super) fn read(line: &str) -> Option<Vec<Said>> {
    if let Some(progress) = progress(line) {
        return Some(vec![Said::Progress(progress)]);
    }
    if let Ok(version) = preceded("sysbench ", terminated(version, rest)).parse(line) {
        return Some(vec![Said::Fact(Fact::Program(format!("sysbench {version}")))]);
    }
    let transactions = with_rate("transactions:").parse(line);
    if let Ok((transactions, tps)) = transactions {
        return Some(vec![
            Said::Fact(Fact::Transactions(transactions)),
            Said::Fact(Fact::Tps(tps)),
        ]);
    }
    if let Ok((errors, _)) = with_rate("ignored errors:").parse(line) {
        return Some(vec![Said::Fact(Fact::Failed(errors))]);
    }
    let mut average = (spaces, preceded("avg:", preceded(spaces, number)));
    let (_, ms) = average.parse(line.trim_end()).ok()?;
    Some(vec![Said::Fact(Fact::LatencyMs(ms))])
}

/// `[ 2s ] thds: 56 tps: 1234.50 qps: … lat (ms,95%): 61.08 err/s: 1.50 reconn/s: 0.00`
fn progress(line: &str) -> Option<Progress> {
    let mut text = line;
    let mut clock = delimited("[", delimited(spaces, number, "s"), (spaces, "]"));
    let at_s = clock.parse_next(&mut text).ok()?;
    let latency = text.split_once("lat (ms,").and_then(|(_, rest)| valued(rest, "%):", ""));
    Some(Progress {
        at_s,
        tps: valued(text, " tps:", "")?,
        latency_ms: latency,
        failed_count: None,
        errors_per_s: valued(text, "err/s:", ""),
    })
}

/// `    transactions:                        2061   (206.01 per sec.)`
fn with_rate(key: &'static str) -> impl FnMut(&mut &str) -> Parsed<(u64, f64)> {
    move |line| {
        let count = preceded((spaces, key, spaces), count).parse_next(line)?;
        let rate = delimited((spaces, "("), number, (" per sec.)", spaces)).parse_next(line)?;
        Ok((count, rate))
    }
}

fn version(line: &mut &str) -> Parsed<String> {
    let first = |c: char| c.is_ascii_digit();
    let version = (take_while(1.., first), ".", take_while(0.., |c: char| !c.is_whitespace()));
    version.take().map(|text: &str| text.to_owned()).parse_next(line)
}
