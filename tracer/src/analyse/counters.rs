//! From readings of counters to the model's.

use std::collections::{BTreeMap, HashMap};

use crate::counters::{Counted, EventSum, OwnCounters};
use crate::model::{Counters, CpuSpeed, EventCount, MissingEvent, SideCounters};

/// Sums up by side; `side_of` tells a task's.
pub fn counters(
    counted: &Counted,
    own: &HashMap<u32, OwnCounters>,
    side_of: impl Fn(u32) -> &'static str,
    speeds: (&CpuSpeed, &CpuSpeed),
) -> Counters {
    let mut sides: BTreeMap<String, SideCounters> = BTreeMap::new();
    for (tid, counters) in own {
        add(sides.entry(side_of(*tid).to_owned()).or_default(), counters);
    }
    for (side, readings) in &counted.sides {
        let side = sides.entry((*side).to_owned()).or_default();
        side.counted_ns = readings.task_clock_ns;
        let events = readings.events.iter();
        side.events = events
            .map(|(event, sum)| (event.name().to_owned(), event_count(sum, readings.task_clock_ns)))
            .collect();
    }
    let missing = counted.missing.iter().map(|(event, reason)| MissingEvent {
        name: event.name().to_owned(),
        reason: reason.clone(),
    });
    Counters {
        sides,
        missing: missing.collect(),
        failed_count: counted.failed_count,
        speed_at_begin: speeds.0.clone(),
        speed_at_end: speeds.1.clone(),
    }
}

fn add(side: &mut SideCounters, own: &OwnCounters) {
    side.tasks_count += 1;
    side.task_clock_ns += own.task_clock_ns;
    side.context_switches_count += own.voluntary_count + own.involuntary_count;
    side.involuntary_switches_count += own.involuntary_count;
    side.minor_faults_count += own.minor_faults_count;
    side.major_faults_count += own.major_faults_count;
    if let Some(migrations) = own.migrations_count {
        *side.migrations_count.get_or_insert(0) += migrations;
    }
}

fn event_count(sum: &EventSum, counted_ns: u64) -> EventCount {
    EventCount {
        count: sum.count,
        per_cpu_ns: sum.count as f64 / counted_ns.max(1) as f64,
        running_share: sum.running_ns as f64 / sum.enabled_ns.max(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{HardwareEvent, Reading, SideReadings};

    /// Readings recorded as a PMU gives them: two groups that took turns, a third event refused.
    #[test]
    fn recorded_readings_become_rates() {
        let reading = |event, count| Reading {
            event,
            count,
            enabled_ns: 100_000_000,
            running_ns: 50_000_000,
        };
        let mut server = SideReadings::default();
        server.add(
            100_000_000,
            &[
                reading(HardwareEvent::Cycles, 150_000_000),
                reading(HardwareEvent::Instructions, 117_000_000),
                reading(HardwareEvent::L1dLoads, 40_000_000),
                reading(HardwareEvent::L1dLoadMisses, 2_160_000),
            ],
        );
        let counted = Counted {
            sides: BTreeMap::from([("server", server)]),
            missing: vec![(HardwareEvent::StalledFrontend, "not here".to_owned())],
            failed_count: 0,
        };
        let task = OwnCounters {
            task_clock_ns: 900,
            voluntary_count: 4,
            involuntary_count: 3,
            migrations_count: Some(2),
            ..OwnCounters::default()
        };
        let own = HashMap::from([(1, task), (2, task), (9, OwnCounters::default())]);
        let side_of = |tid| if tid < 5 { "server" } else { "client" };
        let speed = CpuSpeed::default();
        let counters = counters(&counted, &own, side_of, (&speed, &speed));
        let server = &counters.sides["server"];
        assert_eq!(
            (server.tasks_count, server.task_clock_ns, server.counted_ns),
            (2, 1800, 100_000_000)
        );
        assert_eq!((server.context_switches_count, server.involuntary_switches_count), (14, 6));
        assert_eq!(server.migrations_count, Some(4));
        assert_eq!(counters.sides["client"].migrations_count, None);
        assert_eq!(server.instructions_per_cycle(), Some(0.78));
        assert_eq!(server.ratio("L1-dcache-load-misses", "L1-dcache-loads"), Some(0.054));
        assert_eq!(server.events["cycles"].per_cpu_ns, 3.0);
        assert_eq!(server.events["cycles"].running_share, 0.5);
        assert_eq!(counters.missing[0].name, "stalled-cycles-frontend");
    }
}
