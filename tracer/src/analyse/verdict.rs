//! The verdict: is it a kernel lock, and if not, what. A pure function of the run.
//!
//! Every explanation that the numbers allow has a share of the time that it takes. The largest that
//! passes its threshold is the verdict; what passes none is `unknown`.

mod candidates;
mod shares;

use candidates::{Candidate, candidates};
use shares::Shares;

use super::units::percent;
use crate::model::{Evidence, Run, RunVerdict};

/// What the run's time was lost to; `None` where nothing was traced.
pub fn verdict(run: &Run) -> Option<RunVerdict> {
    let shares = Shares::of(run)?;
    let locks = shares.locks();
    let found = candidates(run, &shares).into_iter().filter(|found| found.share >= found.threshold);
    let Some(best) = found.max_by(|left, right| left.share.total_cmp(&right.share)) else {
        return Some(unknown(&shares, locks));
    };
    let not = if best.kind == "kernel_lock" { "" } else { "not a kernel lock: " };
    let text = format!("{not}{}", best.text);
    let Candidate { kind, mut evidence, .. } = best;
    if kind != "kernel_lock" {
        evidence.push(lock_evidence(&shares, locks));
    }
    Some(RunVerdict { kind: kind.to_owned(), text, evidence })
}

fn unknown(shares: &Shares, locks: f64) -> RunVerdict {
    let why = match shares.splits_all {
        true => "nothing else takes enough of the time to be blamed",
        false => "depth locks does not split the rest: trace at depth ledger",
    };
    RunVerdict {
        kind: "unknown".to_owned(),
        text: format!("unknown: kernel locks take {} of {}, and {why}", percent(locks), shares.of),
        evidence: vec![lock_evidence(shares, locks)],
    }
}

fn lock_evidence(shares: &Shares, locks: f64) -> Evidence {
    evidence(
        "kernel_lock_share",
        locks,
        format!("kernel locks {} of {}", percent(locks), shares.of),
    )
}

fn evidence(name: &str, value: f64, text: String) -> Evidence {
    Evidence { name: name.to_owned(), value, text }
}

#[cfg(test)]
mod tests;
