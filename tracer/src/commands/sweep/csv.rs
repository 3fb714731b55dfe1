//! A sweep as rows: one a step.

use std::collections::BTreeSet;

use crate::model::{Curve, Step, Sweep};

/// A heading and a row a step. The columns of states are nanoseconds per transaction.
pub(super) fn rows(sweep: &Sweep) -> Result<Vec<u8>, ::csv::Error> {
    let steps =
        || sweep.curves.iter().flat_map(|curve| curve.steps.iter().map(move |step| (curve, step)));
    let others: BTreeSet<&str> =
        sweep.curves.iter().flat_map(|curve| curve.values.keys().map(String::as_str)).collect();
    let states: BTreeSet<&str> =
        steps().flat_map(|(_, step)| step.states_ns.keys().map(String::as_str)).collect();
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let fixed = ["clients", "tps", "tps_low", "tps_high", "latency_mean_ns", "latency_p99_ns"];
    let ends = ["top_lock", "top_lock_ns", "file", "failure"];
    // The values along may be client counts themselves.
    let along = (sweep.along != "client").then_some(sweep.along.as_str());
    let head = others.iter().copied().chain(along).chain(fixed);
    writer.write_record(head.chain(states.iter().copied()).chain(ends))?;
    for (curve, step) in steps() {
        let named = others.iter().map(|name| other(curve, name));
        let along = along.map(|_| step.value.clone());
        let states = states.iter().map(|state| number(step.states_ns.get(*state).copied()));
        let row = named.chain(along).chain(measured(step)).chain(states).chain(last(step));
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

fn other(curve: &Curve, name: &str) -> String {
    curve.values.get(name).cloned().unwrap_or_default()
}

fn measured(step: &Step) -> [String; 6] {
    let is_measured = step.failure.is_none();
    [
        if is_measured { step.clients.to_string() } else { String::new() },
        number(is_measured.then_some(step.tps.value)),
        number(step.tps.low),
        number(step.tps.high),
        step.latency_mean_ns.map(|ns| ns.to_string()).unwrap_or_default(),
        step.latency_p99_ns.map(|ns| ns.to_string()).unwrap_or_default(),
    ]
}

fn last(step: &Step) -> [String; 4] {
    let words = |text: &Option<String>| text.clone().unwrap_or_default();
    [words(&step.top_lock), number(step.top_lock_ns), step.file.clone(), words(&step.failure)]
}

fn number(value: Option<f64>) -> String {
    value.map(|value| format!("{value:.1}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::model::Estimate;

    #[test]
    fn a_step_is_a_row_and_what_was_not_measured_is_empty() {
        let good = Step {
            value: "4".to_owned(),
            clients: 4,
            tps: Estimate { value: 1234.56, low: Some(1200.0), high: None },
            states_ns: BTreeMap::from([("cpu".to_owned(), 7.0)]),
            ..Step::default()
        };
        let bad = Step {
            value: "8".to_owned(),
            failure: Some("refused, \"again\"".to_owned()),
            ..Step::default()
        };
        let curve = Curve {
            values: BTreeMap::from([("protocol".to_owned(), "simple".to_owned())]),
            steps: vec![good, bad],
            ..Curve::default()
        };
        let sweep = Sweep { along: "scale".to_owned(), curves: vec![curve], ..Sweep::default() };
        let text = String::from_utf8(rows(&sweep).unwrap()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "protocol,scale,clients,tps,tps_low,tps_high,latency_mean_ns,latency_p99_ns,cpu,top_lock,top_lock_ns,file,failure",
                "simple,4,4,1234.6,1200.0,,,,7.0,,,,",
                "simple,8,,,,,,,,,,,\"refused, \"\"again\"\"\"",
            ]
        );
    }
}
