//! What perf events told beside the programs, in the model's words.

use std::collections::HashMap;

use crate::analyse::counters::counters;
use crate::analyse::off_cpu::off_cpu;
use crate::analyse::profile::profile;
use crate::model::{Run, Warning};
use crate::session::Findings;

/// Adds it; what could not be had becomes a warning.
pub(super) fn add(run: &mut Run, findings: &Findings) {
    let watched = &findings.watched;
    let sides = sides(findings);
    let own = std::process::id();
    let side_of = |pid: u32, tid: u32| {
        let other = if pid == own { "lockscope" } else { "untraced" };
        sides.get(&tid).copied().unwrap_or(other)
    };
    let sampled = watched.profile.as_ref();
    run.profile = sampled.map(|samples| profile(samples, &watched.kernel_names, side_of));
    let sleeps = sampled.and_then(|samples| Some((samples, samples.sleeps.as_ref()?)));
    run.off_cpu = sleeps.map(|(samples, sleeps)| off_cpu(sleeps, samples, &watched.kernel_names));
    let side_of = |tid| sides.get(&tid).copied().unwrap_or("other");
    let speeds = (&watched.speeds[0], &watched.speeds[1]);
    let counted = watched.counted.as_ref();
    run.counters = counted.map(|counted| counters(counted, &watched.own, side_of, speeds));
    run.warnings.extend(watched.troubles.iter().map(|text| Warning {
        code: "perf-events".to_owned(),
        text: text.clone(),
        remedy: Some("leave it away with --no-profile, or see docs/profile.md".to_owned()),
    }));
}

/// The side of each traced task; of those with the same tid, the last.
fn sides(findings: &Findings) -> HashMap<u32, &'static str> {
    let mut tasks: Vec<_> = findings.accounts.iter().collect();
    tasks.sort_by_key(|(key, _)| key.since_ns);
    tasks.into_iter().map(|(key, task)| (key.tid, task.group.name())).collect()
}
