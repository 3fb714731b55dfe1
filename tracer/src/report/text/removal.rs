//! What removing the dominant lock would buy, as bounds.

use super::page::Page;
use crate::analyse::units::{count, duration, percent, signed_percent};
use crate::model::{RemovalBounds, RemovedLock, Run};

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(removal) = &run.removal else { return };
    match (&removal.lock, &removal.bounds, &removal.no_estimate) {
        (Some(lock), Some(bounds), _) => {
            page.heading(
                "What removing the dominant lock would buy",
                "bounds, no forecast; docs/metrics.md has the rules",
            );
            self::bounds(run, lock, bounds, page);
        }
        // Where locks take little, the findings have said so.
        (_, _, Some(reason)) if reason.code != "no_dominant_lock" && has_lock_time(run) => {
            page.heading("What removing the dominant lock would buy", "");
            page.labelled("no estimate", &format!("{}.", reason.text));
        }
        _ => {}
    }
}

fn has_lock_time(run: &Run) -> bool {
    run.ledger.server.as_ref().is_some_and(|server| server.per_transaction_ns.lock_ns() > 0.0)
}

fn bounds(run: &Run, lock: &RemovedLock, bounds: &RemovalBounds, page: &mut Page) {
    page.labelled("lock", &described(lock, bounds));
    let now = bounds.tps_low;
    let tps = |value: f64| {
        let gain = signed_percent(if now > 0.0 { value / now - 1.0 } else { 0.0 });
        format!("{} tps ({gain})", count(value.round() as u64))
    };
    page.labelled(
        "at least",
        &format!(
            "{} tps, as now: what waited for it may wait for the next thing instead.",
            count(now.round() as u64)
        ),
    );
    page.labelled(
        "rest as now",
        &format!(
            "{}, if all else in a transaction takes as long as now, as far as the CPUs allow.",
            tps(bounds.tps_rest_as_now)
        ),
    );
    page.labelled(
        "at most",
        &format!("{}, limited by {}.", tps(bounds.tps_high), limit(run, bounds)),
    );
    page.labelled(
        "assumed",
        "each client begins its next transaction when its last has ended, CPU time that is not spinning \
         stays as it is (also what the lock's cache misses take of it), and nothing gets slower.",
    );
}

fn described(lock: &RemovedLock, bounds: &RemovalBounds) -> String {
    let place = match &lock.caller {
        Some(caller) if !lock.name.contains(caller.as_str()) => format!(" <- {caller}"),
        _ => String::new(),
    };
    let parts: Vec<String> = [(lock.spin_ns, "spinning"), (lock.sleep_ns, "asleep")]
        .into_iter()
        .filter(|(ns, _)| *ns > 0.0)
        .map(|(ns, how)| format!("{} {how}", duration(ns)))
        .collect();
    format!(
        "{}{place} ({}): of the {} that a client takes from one transaction to the next, the server \
         spends {} in it, {}.",
        lock.name,
        lock.classes.join(", "),
        duration(bounds.cycle_ns),
        parts.join(" and "),
        percent(lock.wait_ns() / bounds.cycle_ns.max(1.0)),
    )
}

fn limit(run: &Run, bounds: &RemovalBounds) -> String {
    let cpu = duration(bounds.cpu_ns);
    match bounds.limited_by.as_str() {
        "transaction" => format!(
            "the transaction itself: with it {} of other waits go, for CPUs, locks and client threads",
            duration(bounds.other_waits_ns)
        ),
        "cpus" => format!("the CPUs: besides the spinning a transaction needs {cpu} of them"),
        "server_cpus" => "the CPUs that the server is pinned to".to_owned(),
        "client_cpus" => "the CPUs that the load generator is pinned to".to_owned(),
        _ => format!(
            "the load generator's threads ({}): with more (-j) the server could give more",
            run.workload.jobs
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NoEstimate, PerTransaction, Removal, SideLedger};
    use crate::report::text::TextOptions;

    fn text(removal: Removal) -> String {
        let account = PerTransaction {
            spin: [("osq".to_owned(), 280_000.0)].into(),
            ..PerTransaction::default()
        };
        let mut run = Run { removal: Some(removal), ..Run::new() };
        run.ledger.server =
            Some(SideLedger { per_transaction_ns: account, ..SideLedger::default() });
        let mut page = Page::new(TextOptions::default());
        render(&run, &mut page);
        page.finish()
    }

    #[test]
    fn the_bounds_stand_beside_what_limits_them() {
        let lock = RemovedLock {
            name: "pipe_inode_info.mutex".to_owned(),
            caller: Some("pipe_write".to_owned()),
            classes: vec!["mutex".to_owned(), "osq".to_owned()],
            spin_ns: 280_000.0,
            sleep_ns: 30_000.0,
        };
        let bounds = RemovalBounds {
            tps_low: 16_442.0,
            tps_rest_as_now: 28_500.0,
            tps_high: 28_500.0,
            limited_by: "cpus".to_owned(),
            cycle_ns: 486_000.0,
            cpu_ns: 70_200.0,
            ..RemovalBounds::default()
        };
        let removal = Removal { lock: Some(lock), bounds: Some(bounds), no_estimate: None };
        insta::assert_snapshot!("bounds", text(removal));
    }

    #[test]
    fn where_there_is_none_it_says_why_unless_locks_are_no_matter() {
        let none = |code: &str| {
            let reason = NoEstimate { code: code.to_owned(), text: "because".to_owned() };
            text(Removal { no_estimate: Some(reason), ..Removal::default() })
        };
        assert!(none("open_loop").contains("no estimate because."), "{}", none("open_loop"));
        assert_eq!(none("no_dominant_lock"), "");
    }
}
