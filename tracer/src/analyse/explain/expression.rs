//! The metric of a condition: a name, perhaps with `*`, or several that add up.
//!
//! ```text
//! expression = pattern { " + " pattern }
//! ```
//! What several names match is counted once. Times and counts per transaction add up, and so do shares of
//! functions themselves of one side. Of shares that overlap, or are of different sides, the largest counts.
//! What is neither, as percentiles and ratios, is refused.

use std::collections::BTreeMap;

use super::combine::{Combined, combined};
use super::pattern::matches;
use super::sides::Whole;
use crate::analyse::compare::{Quantity, known_names};
use crate::filter::did_you_mean;
use crate::model::Run;

/// Sides of a profile.
const PROFILE_SIDES: [&str; 7] =
    ["server", "background", "client", "other", "untraced", "lockscope", "all"];
/// Names that the metrics of this room have beside those of `--fail-if`.
const OF_THE_LOAD: [&str; 3] = ["workload.clients", "workload.jobs", "workload.clients_per_cpu"];
const COUNTERS: [&str; 3] = ["l1d_miss_share", "llc_miss_share", "involuntary_share"];

/// A metric as a signature asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) text: String,
    patterns: Vec<String>,
    family: Family,
    combined: Combined,
}

/// What the names of a family have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// Nanoseconds of a side or a lock: absent locks took none.
    Locks,
    /// Functions on a CPU.
    Profile { children: bool },
    /// Functions asleep.
    Sleeps,
    /// Every other name is known beforehand.
    Named,
}

impl Expression {
    /// # Errors
    /// Says what is wrong, and what may have been meant.
    pub(super) fn parse(text: &str) -> Result<Expression, String> {
        let patterns: Vec<String> = text.split(" + ").map(|part| part.trim().to_owned()).collect();
        let families = patterns.iter().map(|pattern| family(pattern));
        let families = families.collect::<Result<Vec<Family>, String>>()?;
        let (family, first) = (families[0], kind(&patterns[0]));
        if families.iter().any(|other| *other != family)
            || patterns.iter().any(|pattern| kind(pattern) != first)
        {
            return Err(format!("`{text}` adds up metrics of different kinds"));
        }
        let combined = combined(&patterns, family, &named())
            .map_err(|reason| format!("`{text}` stands for {reason}"))?;
        Ok(Expression { text: text.to_owned(), patterns, family, combined })
    }

    /// The only metric that it can be, if it is one.
    pub(super) fn single(&self) -> Option<&str> {
        match self.patterns.as_slice() {
            [only] if !only.contains('*') => Some(only),
            _ => None,
        }
    }

    /// Whether its values are shares of something.
    pub(super) fn is_share(&self) -> bool {
        let share = |pattern: &String| pattern.ends_with("_share") || pattern == "failed";
        matches!(self.family, Family::Profile { .. } | Family::Sleeps)
            || self.patterns.iter().all(share)
    }

    /// Whether its values are times.
    pub(super) fn is_time(&self) -> bool {
        let is_time = |pattern: &String| match kind(pattern) {
            "server" | "client" | "lock" | "latency" => true,
            _ => {
                ["load.cpu", "plug.flush_ns_per_transaction"].contains(&pattern.as_str())
                    || (kind(pattern) == "counters" && pattern.ends_with(".task-clock"))
            }
        };
        self.patterns.iter().all(is_time)
    }

    /// What its values are parts of, where that is one thing.
    pub(super) fn whole(&self) -> Option<Whole> {
        let of = |pattern: &String| {
            let mut words = pattern.split('.');
            let kind = words.next();
            match if kind == Some("lock") { words.next() } else { kind } {
                Some("server") => Some(Whole::Latency),
                Some("client") => Some(Whole::ClientTime),
                _ => None,
            }
        };
        let first = of(&self.patterns[0])?;
        self.patterns.iter().all(|pattern| of(pattern) == Some(first)).then_some(first)
    }

    /// The value in a run.
    ///
    /// # Errors
    /// Says why it was not measured.
    pub(super) fn measure(
        &self,
        run: &Run,
        metrics: &BTreeMap<String, Quantity>,
    ) -> Result<Quantity, String> {
        let is_named = |name: &str| self.patterns.iter().any(|pattern| matches(pattern, name));
        let found: Vec<&Quantity> =
            metrics.iter().filter(|(name, _)| is_named(name)).map(|(_, found)| found).collect();
        let Some(first) = found.first() else { return self.absent(run) };
        let values = found.iter().map(|quantity| quantity.value);
        let value: f64 = match self.combined {
            Combined::Sum => values.sum(),
            Combined::Largest => values.fold(0.0, f64::max),
        };
        Ok(Quantity { value, ..**first })
    }

    /// 0 where it would have been seen, or why it would not.
    fn absent(&self, run: &Run) -> Result<Quantity, String> {
        if run.depth.is_empty() && run.profile.is_none() && run.counters.is_none() {
            let of_the_load = ["tps", "failed", "latency", "load", "workload"];
            if !of_the_load.contains(&kind(&self.patterns[0])) {
                return Err("nothing was traced: the run is a load alone".to_owned());
            }
        }
        let zero = |unit, of_latency| Quantity { value: 0.0, unit, of_latency };
        let side = self.patterns[0].split('.').nth(1).unwrap_or_default();
        match self.family {
            Family::Locks if run.throughput.traced_transactions_count == 0 => {
                Err("no transaction ended while locks were traced".to_owned())
            }
            Family::Locks => Ok(zero("ns", true)),
            Family::Profile { .. } => {
                let profile = run.profile.as_ref();
                let profile = profile
                    .ok_or("no profile was taken: trace without --no-profile, see `doctor`")?;
                let is_of = |of: &str| of == side || side == "all" || side == "*";
                match profile.stacks.iter().any(|stack| is_of(&stack.side)) {
                    true => Ok(zero("share", false)),
                    false => Err(format!("the profile has no sample of side {side}")),
                }
            }
            Family::Sleeps => {
                let sides = run.off_cpu.as_ref().map(|off_cpu| &off_cpu.sides);
                let sides =
                    sides.ok_or("where tasks sleep was not watched: trace without --no-profile")?;
                match sides.keys().any(|of| of == side || side == "*") {
                    true => Ok(zero("share", false)),
                    false => Err(format!("no sleep of side {side} was watched")),
                }
            }
            Family::Named => Err(self.why_not_measured(run)),
        }
    }

    fn why_not_measured(&self, run: &Run) -> String {
        let name = self.patterns[0].as_str();
        let is_state = kind(name) == "server" || kind(name) == "client";
        if is_state && run.depth == "locks" {
            return "depth locks does not split it: measure at --depth ledger".to_owned();
        }
        if kind(name) == "plug" {
            return "block plugs were not traced: `lockscope doctor` says why".to_owned();
        }
        if kind(name) != "counters" {
            return "it was not measured".to_owned();
        }
        let events: &[&str] = match name.rsplit('.').next().unwrap_or_default() {
            "l1d_miss_share" => &["L1-dcache-loads", "L1-dcache-load-misses"],
            "llc_miss_share" => &["LLC-loads", "LLC-load-misses"],
            "ipc" => &["instructions", "cycles"],
            "instructions" => &["instructions"],
            _ => &[],
        };
        let missing = run.counters.iter().flat_map(|counters| &counters.missing);
        let mut missing = missing.filter(|missing| events.contains(&missing.name.as_str()));
        match missing.next() {
            Some(missing) => format!("{} was not counted: {}", missing.name, missing.reason),
            None => "it was not counted: trace without --no-counters, see `doctor`".to_owned(),
        }
    }
}

/// `server` of `server.spin.osq`.
pub(super) fn kind(pattern: &str) -> &str {
    pattern.split('.').next().unwrap_or_default()
}

fn family(pattern: &str) -> Result<Family, String> {
    let parts: Vec<&str> = pattern.splitn(4, '.').collect();
    match parts.as_slice() {
        ["lock", "server" | "client" | "other" | "*", rest, ..] if !rest.is_empty() => {
            Ok(Family::Locks)
        }
        ["profile", side, kind @ ("self" | "children"), function]
            if PROFILE_SIDES.contains(side) && !function.is_empty() =>
        {
            Ok(Family::Profile { children: *kind == "children" })
        }
        ["offcpu", "server" | "client" | "other" | "*", function, ..] if !function.is_empty() => {
            Ok(Family::Sleeps)
        }
        ["server" | "client", "wait", class] if !class.is_empty() => Ok(Family::Named),
        _ => {
            let known = named();
            if known.iter().any(|name| matches(pattern, name)) {
                return Ok(Family::Named);
            }
            let near = did_you_mean(pattern, known.iter().map(String::as_str));
            let near = if near.is_empty() { ";".to_owned() } else { near };
            Err(format!("no metric is called `{pattern}`{near} docs/signatures.md lists all"))
        }
    }
}

/// Names that are known beforehand, and examples of the others.
fn named() -> Vec<String> {
    let mut names = known_names();
    names.extend(OF_THE_LOAD.map(str::to_owned));
    for side in ["server", "background", "client", "other"] {
        names.extend(COUNTERS.map(|name| format!("counters.{side}.{name}")));
    }
    for owner in ["server", "client", "kworker", "other"] {
        let counts =
            ["unplugs", "requests", "implicit_unplugs", "flush_calls", "requests_per_flush"];
        names.extend(counts.map(|name| format!("plug.{owner}.{name}")));
    }
    let families = [
        "lock.server.CLASS NAME <- CALLER",
        "profile.server.self.FUNCTION",
        "profile.server.children.FUNCTION",
        "offcpu.server.FUNCTION",
        "server.wait.CLASS",
    ];
    names.extend(families.map(str::to_owned));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Profile;

    fn parse(text: &str) -> Result<Expression, String> {
        Expression::parse(text)
    }

    #[test]
    fn names_that_no_run_can_have_are_refused_with_what_is_near() {
        for (text, near) in [
            ("plug.flushes_per_transacton", "plug.flushes_per_transaction"),
            ("profile.server.own.s_lock", "profile.server.self.FUNCTION"),
            ("sever.cpu", "server.cpu"),
            ("counters.server.icp", "counters.server.ipc"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(text) && error.contains(near), "{error}");
        }
        assert!(parse("zzz").unwrap_err().contains("docs/signatures.md"));
        assert!(parse("tps + server.cpu").unwrap_err().contains("different kinds"));
        let mixed = "profile.all.self.a + profile.all.children.a";
        assert!(parse(mixed).unwrap_err().contains("different kinds"));
    }

    #[test]
    fn a_time_is_a_part_of_its_own_side_s() {
        let whole = |text: &str| parse(text).unwrap().whole();
        assert_eq!(whole("server.spin.*"), Some(Whole::Latency));
        assert_eq!(whole("lock.server.* *j_state_lock*"), Some(Whole::Latency));
        assert_eq!(whole("client.lock"), Some(Whole::ClientTime));
        assert_eq!(whole("lock.client.* *cid_lock*"), Some(Whole::ClientTime));
        for text in ["lock.other.rq *", "lock.*.rq *", "load.cpu", "tps", "latency.p99"] {
            assert_eq!(whole(text), None, "{text}");
        }
        let times = ["server.io + server.wait.IO", "latency.p99", "load.cpu", "lock.*.rq *"];
        assert!(times.iter().all(|text| parse(text).unwrap().is_time()));
        let others = ["tps", "failed", "counters.server.ipc", "plug.requests_per_flush"];
        assert!(others.iter().all(|text| !parse(text).unwrap().is_time()));
    }

    #[test]
    fn values_add_up_but_for_functions_within_each_other_or_of_several_sides() {
        let names = [
            "server.spin.osq",
            "server.spin.rq",
            "profile.all.children.a1",
            "profile.all.children.a2",
            "profile.client.self.a1",
            "profile.server.self.a1",
            "profile.server.self.a2",
        ];
        let quantity = |value| Quantity { value, unit: "ns", of_latency: true };
        let metrics = names
            .iter()
            .zip(1..)
            .map(|(name, value)| ((*name).to_owned(), quantity(f64::from(value))));
        let metrics = metrics.collect();
        let run = Run::new();
        let value = |text: &str| parse(text).unwrap().measure(&run, &metrics).unwrap().value;
        assert_eq!(value("server.spin.*"), 3.0);
        assert_eq!(value("server.spin.* + server.spin.osq"), 3.0, "once");
        assert_eq!(value("profile.all.children.a*"), 4.0);
        assert_eq!(value("profile.server.self.a*"), 13.0);
        assert_eq!(value("profile.server.self.a* + profile.client.self.a1"), 7.0, "two wholes");
    }

    #[test]
    fn absent_is_0_only_where_it_would_have_been_seen() {
        let mut run = Run::new();
        let measure = |text: &str, run: &Run| {
            let measured = parse(text).unwrap().measure(run, &super::super::metrics::of_run(run));
            measured.map(|quantity| quantity.value)
        };
        let locks = "lock.server.* *j_state_lock*";
        assert!(measure(locks, &run).unwrap_err().contains("load alone"));
        run.depth = "locks".to_owned();
        assert!(measure(locks, &run).unwrap_err().contains("no transaction"));
        run.throughput.traced_transactions_count = 1;
        assert_eq!(measure(locks, &run), Ok(0.0));
        assert!(measure("server.io", &run).unwrap_err().contains("--depth ledger"));
        let hot = "profile.server.self.s_lock";
        assert!(measure(hot, &run).unwrap_err().contains("--no-profile"));
        run.profile = Some(Profile::default());
        assert!(measure(hot, &run).unwrap_err().contains("no sample of side server"));
        assert!(measure("plug.requests_per_flush", &run).unwrap_err().contains("doctor"));
    }
}
