//! The profile's functions as metrics: their own time per transaction, and their share of the side's.

use std::collections::BTreeMap;

use super::counters::SIDES;
use super::sources::{Kind, Measured, whole};
use crate::analyse::profile_table::{SideProfile, side_profile};
use crate::model::{ProfileFrame, Run, SideLedger};

/// Functions that are told of: those behind have few samples.
pub(super) const FUNCTIONS: usize = 100;

/// Whether a metric is a function's: any function may be absent in two runs.
pub(super) fn is_function(metric: &str) -> bool {
    let of_side =
        |group: &str| SIDES.iter().any(|side| metric.starts_with(&format!("{group}.{side}.")));
    of_side("profile") || of_side("overhead")
}

pub(super) fn has_profile(run: &Run) -> bool {
    run.profile.is_some()
}

/// Time on a CPU per transaction in the function itself; none where the side's time is not known.
pub(super) fn functions(run: &Run) -> Vec<Measured> {
    let row = |side: &'static str| {
        let on_cpu_ns = on_cpu_per_transaction(run, side)?;
        Some(rows(run, side, "profile", Kind::TIME, on_cpu_ns))
    };
    SIDES.into_iter().filter_map(row).flatten().collect()
}

/// perf's overhead: the function's share of the samples of its side.
pub(super) fn overheads(run: &Run) -> Vec<Measured> {
    SIDES.into_iter().flat_map(|side| rows(run, side, "overhead", Kind::SHARE, 1.0)).collect()
}

fn rows(run: &Run, side: &'static str, group: &str, kind: Kind, whole_side: f64) -> Vec<Measured> {
    let profile = run.profile.as_ref().and_then(|profile| side_profile(profile, side));
    let shares = profile.as_ref().map(own_shares).unwrap_or_default();
    let row = |(function, share): (String, f64)| {
        whole(
            format!("{group}.{side}.{function}"),
            format!("{side} {function}"),
            kind,
            share * whole_side,
        )
    };
    shares.into_iter().map(row).collect()
}

/// Own share by function, whatever the command.
fn own_shares(profile: &SideProfile<'_>) -> BTreeMap<String, f64> {
    let mut shares = BTreeMap::new();
    for row in profile.rows.iter().filter(|row| row.own_share > 0.0) {
        *shares.entry(name(row.frame)).or_insert(0.0) += row.own_share;
    }
    shares
}

/// What has no name goes by its file.
fn name(frame: &ProfileFrame) -> String {
    match frame.unknown {
        Some(_) => format!("{} {}", frame.symbol, frame.object),
        None => frame.symbol.clone(),
    }
}

/// By the ledger, or where that does not split the time by the kernel's count.
fn on_cpu_per_transaction(run: &Run, side: &str) -> Option<f64> {
    let ledger = if side == "server" { &run.ledger.server } else { &run.ledger.client };
    let each = |ns: u64, count: u64| (count > 0).then(|| ns as f64 / count as f64);
    let in_ledger = ledger.as_ref().and_then(SideLedger::on_cpu_ns);
    let traced = in_ledger.and_then(|ns| each(ns, run.throughput.traced_transactions_count));
    let counted = || {
        let side = run.counters.as_ref()?.sides.get(side)?;
        let ns = Some(side.task_clock_ns).filter(|_| side.tasks_count > 0)?;
        each(ns, run.throughput.transactions_count)
    };
    traced.or_else(counted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Profile, ProfileStack};

    fn run() -> Run {
        let frame = |symbol: &str, unknown: Option<&str>| ProfileFrame {
            symbol: symbol.to_owned(),
            object: "libc.so".to_owned(),
            unknown: unknown.map(str::to_owned),
        };
        let stack = |command: &str, weight, frame| ProfileStack {
            side: "server".to_owned(),
            command: command.to_owned(),
            samples_count: weight,
            weight,
            frames: vec![frame, 0],
        };
        let frames =
            vec![frame("main", None), frame("memcpy", None), frame("[unknown]", Some("x"))];
        let stacks = vec![stack("a", 50, 1), stack("b", 30, 1), stack("a", 20, 2)];
        let mut run = Run::new();
        run.profile = Some(Profile { frames, stacks, ..Profile::default() });
        run
    }

    fn values(rows: Vec<Measured>) -> Vec<(String, f64)> {
        rows.into_iter().map(|row| (row.metric, row.value)).collect()
    }

    #[test]
    fn functions_have_their_own_share_and_the_side_s_time() {
        let mut run = run();
        let expected = [("[unknown] libc.so", 0.2), ("memcpy", 0.8)];
        let named = |group: &str, factor: f64| {
            expected.map(|(name, share)| (format!("{group}.server.{name}"), share * factor))
        };
        assert_eq!(values(overheads(&run)), named("overhead", 1.0));
        assert!(functions(&run).is_empty(), "no time is known");
        run.throughput.traced_transactions_count = 10;
        let states = [("cpu", 600), ("spin.osq", 300), ("between_cpu", 100), ("io", 5000)];
        run.ledger.server = Some(SideLedger {
            states_ns: states.map(|(state, ns)| (state.to_owned(), ns)).into(),
            ..SideLedger::default()
        });
        assert_eq!(values(functions(&run)), named("profile", 100.0));
    }
}
