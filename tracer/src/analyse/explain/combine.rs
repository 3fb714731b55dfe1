//! What several metrics are together: only what adds up may be added up.

use super::expression::{Family, kind};
use super::pattern::matches;

/// How several values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combined {
    /// They are parts that do not overlap.
    Sum,
    /// They overlap, or are of different wholes.
    Largest,
}

/// How the metrics that `patterns` stand for become one; `known` are the names that a run can have.
///
/// # Errors
/// Says of what they are, where they must not become one.
pub(super) fn combined(
    patterns: &[String],
    family: Family,
    known: &[String],
) -> Result<Combined, String> {
    match family {
        Family::Locks => Ok(Combined::Sum),
        Family::Sleeps | Family::Profile { children: true } => Ok(Combined::Largest),
        Family::Profile { children: false } => {
            let mut sides = patterns.iter().map(|pattern| pattern.split('.').nth(1));
            let first = sides.next().flatten();
            let are_of_one = sides.all(|side| side == first);
            Ok(if are_of_one { Combined::Sum } else { Combined::Largest })
        }
        Family::Named => named(patterns, known),
    }
}

fn named(patterns: &[String], known: &[String]) -> Result<Combined, String> {
    if let [only] = patterns
        && !only.contains('*')
    {
        return Ok(Combined::Sum);
    }
    let is_of_a_pattern = |name: &&String| patterns.iter().any(|pattern| matches(pattern, name));
    let stands_for: Vec<&str> = known.iter().filter(is_of_a_pattern).map(String::as_str).collect();
    match kind(&patterns[0]) {
        side @ ("server" | "client") => {
            let all = format!("{side}.lock");
            match stands_for.contains(&all.as_str()) {
                true => {
                    Err(format!("`{all}` and for its parts, or others: name what is to be added"))
                }
                false => Ok(Combined::Sum),
            }
        }
        "counters" | "plug" => {
            let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
            let what = last(&patterns[0]);
            let alike = patterns.iter().all(|pattern| last(pattern) == what);
            match alike && !what.contains('*') && is_count(&what) {
                true => Ok(Combined::Sum),
                false => Err(no_sum(&stands_for)),
            }
        }
        _ if stands_for.len() == 1 => Ok(Combined::Sum),
        _ => Err(no_sum(&stands_for)),
    }
}

/// Whether it is a number per transaction of its own, not a ratio of two.
fn is_count(name: &str) -> bool {
    name != "ipc" && !name.ends_with("_share") && !name.contains("_per_")
}

fn no_sum(names: &[&str]) -> String {
    let first: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > first.len() { ", …" } else { "" };
    format!("{}{more}, which do not add up: name one", first.join(", "))
}

#[cfg(test)]
mod tests {
    use crate::analyse::explain::expression::Expression;

    #[test]
    fn only_what_adds_up_is_added_up() {
        for text in [
            "server.spin.*",
            "server.runq.* + server.io",
            "server.wait.IO + server.wait.LWLock",
            "server.lock",
            "lock.server.rwsem *",
            "counters.*.context-switches",
            "counters.server.task-clock + counters.client.task-clock",
            "plug.*.requests",
            "latency.mea*",
        ] {
            assert!(Expression::parse(text).is_ok(), "{text}");
        }
        for (text, named) in [
            ("latency.*", "latency.mean"),
            ("latency.p50 + latency.p99", "latency.p99"),
            ("counters.*.ipc", "counters.client.ipc"),
            ("counters.server.*_share", "l1d_miss_share"),
            ("counters.server.*", "counters.server.task-clock"),
            ("plug.*", "plug.requests_per_flush"),
            ("plug.server.unplugs + plug.server.requests", "plug.server.requests"),
            ("workload.*", "workload.clients"),
            ("server.*", "server.lock"),
            ("server.lock + server.spin.osq", "server.lock"),
        ] {
            let error = Expression::parse(text).unwrap_err();
            assert!(error.contains(text) && error.contains(named), "{text}: {error}");
        }
    }
}
