//! `lockscope ab --quick`: does this machine lose throughput with prepared statements under contention?
//!
//! Prepared statements save the server work, so they are faster, unless what they save makes the backends
//! meet in a contended lock. That shows when every CPU has a client, or two.

use super::{AbError, Rounds, Target, leave_out_halves};
use crate::analyse::compare::{Options, compare, rounds_needed};
use crate::analyse::units::{plural, rate, signed_percent};
use crate::cli::{AbArgs, side_args};
use crate::commands::Exit;
use crate::commands::output::{print_report, say};
use crate::load::cpus::CpuList;
use crate::model::{Comparison, Verdict};

pub(super) const ROUNDS: u32 = 3;
/// Clients a CPU.
const CLIENTS: [u32; 2] = [1, 2];
/// What both sides run, unless the user says otherwise.
const COMMON: [&str; 5] = ["-S", "-T", "5", "--quiet", "--no-trace"];

/// What the comparisons say together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Affected,
    NotAffected,
    CannotTell,
}

pub(super) fn run(args: &AbArgs, rounds: &Rounds<'_>) -> Result<Exit, AbError> {
    let cpus = u32::try_from(CpuList::available()?.count()).unwrap_or(1);
    rounds.make_directory()?;
    let mut comparisons = Vec::new();
    for clients in CLIENTS.map(|each| each * cpus) {
        let directory = rounds.directory.join(format!("clients-{clients}"));
        let rounds = Rounds { directory: &directory, control_count: 0, ..*rounds };
        rounds.make_directory()?;
        let side = |letter: char, protocol: &str| {
            let common = COMMON.into_iter().map(std::ffi::OsString::from);
            let common: Vec<_> = common.chain(args.common.iter().cloned()).collect();
            side_args(letter, &format!("protocol={protocol},client={clients}"), &common)
        };
        let mut targets = [
            Target::new('a', side('a', "simple")?, args.setup_a.clone()),
            Target::new('b', side('b', "prepared")?, args.setup_b.clone()),
        ];
        rounds.measure(&mut targets)?;
        leave_out_halves(&mut targets);
        let [simple, prepared] = &targets;
        if simple.traced.runs.is_empty() || prepared.traced.runs.is_empty() {
            break;
        }
        let compared = compare(&simple.traced, &prepared.traced, &Options::from(args))?;
        comparisons.push((clients, compared));
        if rounds.interrupt.is_set() {
            break;
        }
    }
    if comparisons.is_empty() {
        return Err(AbError::TooEarly(rounds.interrupt.name()));
    }
    let verdicts: Vec<Verdict> = comparisons.iter().map(|(_, c)| verdict(c)).collect();
    let answer = answer(&verdicts, CLIENTS.len());
    print_report(&report(&comparisons, answer))?;
    say(
        "lockscope: `lockscope compare` shows two of the runs in full; `lockscope ab` with tracing tells the lock",
    );
    Ok(Exit::Done)
}

/// Of the throughput with prepared statements beside that with simple ones.
fn verdict(comparison: &Comparison) -> Verdict {
    let mut rows = comparison.groups.iter().flat_map(|group| &group.rows);
    let row = rows.find(|row| row.metric == "tps");
    row.and_then(|row| row.verdict).unwrap_or(Verdict::CannotTell)
}

/// Slower anywhere is affected; faster everywhere is not. As fast is neither: what they save has gone
/// somewhere.
fn answer(verdicts: &[Verdict], wanted: usize) -> Answer {
    if verdicts.contains(&Verdict::Slower) {
        return Answer::Affected;
    }
    let all_faster = verdicts.iter().all(|verdict| *verdict == Verdict::Faster);
    if all_faster && verdicts.len() == wanted { Answer::NotAffected } else { Answer::CannotTell }
}

fn report(comparisons: &[(u32, Comparison)], answer: Answer) -> String {
    let mut text = "Prepared statements beside simple ones, select-only\n".to_owned();
    for (clients, comparison) in comparisons {
        let mut rows = comparison.groups.iter().flat_map(|group| &group.rows);
        let Some(row) = rows.find(|row| row.metric == "tps") else { continue };
        let mean = |value: Option<crate::model::Value>| rate(value.map_or(0.0, |value| value.mean));
        let change = row.change.unwrap_or_default();
        let interval = match (change.ratio_low, change.ratio_high) {
            (Some(low), Some(high)) => {
                format!(" ({} to {})", signed_percent(low - 1.0), signed_percent(high - 1.0))
            }
            _ => String::new(),
        };
        let more = row
            .more_rounds
            .map_or_else(String::new, |rounds| format!(" (needs {})", rounds_needed(rounds)));
        text += &format!(
            "  {:<12} tps simple {} -> prepared {}, {}{interval}: {}{more}\n",
            plural(u64::from(*clients), "client"),
            mean(row.base),
            mean(row.new),
            signed_percent(change.ratio.unwrap_or(1.0) - 1.0),
            verdict(comparison).words(),
        );
    }
    text += match answer {
        Answer::Affected => {
            "affected: prepared statements are slower here, which only contention explains\n"
        }
        Answer::NotAffected => "not affected: prepared statements are faster, as they should be\n",
        Answer::CannotTell => "cannot tell: give more rounds (--rounds)\n",
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slower_anywhere_is_affected_and_only_faster_everywhere_is_not() {
        use Verdict::*;
        assert_eq!(answer(&[Faster, Slower], 2), Answer::Affected);
        assert_eq!(answer(&[Faster, Faster], 2), Answer::NotAffected);
        assert_eq!(answer(&[Faster], 2), Answer::CannotTell, "interrupted");
        assert_eq!(answer(&[Faster, NoDifferenceFound], 2), Answer::CannotTell);
        assert_eq!(answer(&[CannotTell, Faster], 2), Answer::CannotTell);
    }
}
