//! The profile by function: how much of a side's time on a CPU each took, by itself and with what it
//! called. A pure function of the model.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::model::{Profile, ProfileFrame};

/// The sides, in the order in which they are told.
pub const SIDES: [&str; 6] = ["server", "background", "client", "other", "untraced", "lockscope"];

/// A side's part of the profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SideProfile<'a> {
    /// `server`, …
    pub side: &'static str,
    /// Its samples.
    pub samples_count: u64,
    /// Its share of all that was sampled, 0..1.
    pub share: f64,
    /// Of its time, what was spent in the kernel, 0..1.
    pub kernel_share: f64,
    /// Of its time, what has no name, by reason, 0..1.
    pub unknown_shares: BTreeMap<&'a str, f64>,
    /// Of its time outside the kernel, what was seen without callers, 0..1: no frame pointers.
    pub stackless_share: f64,
    /// By function, most of its own time first.
    pub rows: Vec<ProfileRow<'a>>,
}

/// A function's row.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRow<'a> {
    /// The tasks' name, without the number that threads of one kind differ by.
    pub command: &'a str,
    /// The function.
    pub frame: &'a ProfileFrame,
    /// Its own time, as a share of the side's, 0..1.
    pub own_share: f64,
    /// With what it called.
    pub children_share: f64,
    /// Samples in the function itself.
    pub samples_count: u64,
}

/// Every side that has samples.
pub fn sides(profile: &Profile) -> Vec<SideProfile<'_>> {
    SIDES.iter().filter_map(|side| side_profile(profile, side)).collect()
}

/// One side's, if it has samples.
pub fn side_profile<'a>(profile: &'a Profile, side: &'static str) -> Option<SideProfile<'a>> {
    let all: u64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    let stacks = || profile.stacks.iter().filter(|stack| stack.side == side);
    let total: u64 = stacks().map(|stack| stack.weight).sum();
    if total == 0 {
        return None;
    }
    let of_total = |weight: u64| weight as f64 / total as f64;
    let mut rows: HashMap<(&str, u32), (u64, u64, u64)> = HashMap::new();
    let mut found =
        SideProfile { side, share: total as f64 / all as f64, ..SideProfile::default() };
    let (mut user, mut stackless) = (0, 0);
    for stack in stacks() {
        found.samples_count += stack.samples_count;
        let command = without_number(&stack.command);
        let mut seen = HashSet::new();
        for frame in stack.frames.iter().filter(|frame| seen.insert(**frame)) {
            rows.entry((command, *frame)).or_default().1 += stack.weight;
        }
        let Some(innermost) = stack.frames.first() else { continue };
        let row = rows.entry((command, *innermost)).or_default();
        row.0 += stack.weight;
        row.2 += stack.samples_count;
        let Some(frame) = profile.frames.get(*innermost as usize) else { continue };
        if frame.is_kernel() {
            found.kernel_share += of_total(stack.weight);
        } else {
            user += stack.weight;
            stackless += if stack.frames.len() == 1 { stack.weight } else { 0 };
        }
        if let Some(why) = &frame.unknown {
            *found.unknown_shares.entry(why).or_default() += of_total(stack.weight);
        }
    }
    found.stackless_share = stackless as f64 / user.max(1) as f64;
    let row = |((command, frame), (own, with_children, samples_count)): ((_, u32), _)| {
        Some(ProfileRow {
            command,
            frame: profile.frames.get(frame as usize)?,
            own_share: of_total(own),
            children_share: of_total(with_children),
            samples_count,
        })
    };
    found.rows = rows.into_iter().filter_map(row).collect();
    found.rows.sort_by(|left, right| {
        let order = right.own_share.total_cmp(&left.own_share);
        let order = order.then_with(|| right.children_share.total_cmp(&left.children_share));
        order.then_with(|| left.frame.symbol.cmp(&right.frame.symbol))
    });
    Some(found)
}

/// Threads of one kind differ by a number at the end.
fn without_number(command: &str) -> &str {
    command.trim_end_matches(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::ProfileStack;

    fn frame(symbol: &str, object: &str) -> ProfileFrame {
        ProfileFrame { symbol: symbol.into(), object: object.into(), unknown: None }
    }

    fn stack(side: &str, weight: u64, frames: &[u32]) -> ProfileStack {
        let (side, command) = (side.to_owned(), "postgres".to_owned());
        ProfileStack { side, command, samples_count: weight, weight, frames: frames.to_vec() }
    }

    fn profile(stacks: Vec<ProfileStack>) -> Profile {
        let frames = vec![
            frame("vfs_read", "[kernel]"),
            frame("ExecProcNode", "postgres"),
            frame("PostgresMain", "postgres"),
            ProfileFrame { unknown: Some("no_symbol".into()), ..frame("[unknown]", "libx.so") },
        ];
        Profile { frames, stacks, ..Profile::default() }
    }

    #[test]
    fn own_time_and_that_with_children() {
        let profile = profile(vec![
            stack("server", 60, &[0, 2]),
            // Recursion counts once.
            stack("server", 30, &[1, 1, 2]),
            stack("server", 10, &[3]),
            stack("other", 100, &[0]),
        ]);
        let server = side_profile(&profile, "server").unwrap();
        assert_eq!((server.samples_count, server.share, server.kernel_share), (100, 0.5, 0.6));
        assert_eq!(server.unknown_shares, BTreeMap::from([("no_symbol", 0.1)]));
        assert_eq!(server.stackless_share, 0.25);
        let rows: Vec<_> = server
            .rows
            .iter()
            .map(|row| (row.frame.symbol.as_str(), row.own_share, row.children_share))
            .collect();
        let expected = [
            ("vfs_read", 0.6, 0.6),
            ("ExecProcNode", 0.3, 0.3),
            ("[unknown]", 0.1, 0.1),
            ("PostgresMain", 0.0, 0.9),
        ];
        assert_eq!(rows, expected);
        assert_eq!(
            sides(&profile).iter().map(|side| side.side).collect::<Vec<_>>(),
            ["server", "other"]
        );
        assert_eq!(side_profile(&profile, "client"), None);
    }

    proptest! {
        /// Own shares of a side add up to one, and none is more than its share with children.
        #[test]
        fn own_shares_add_up(
            stacks in prop::collection::vec((1_u64..1000, prop::collection::vec(0_u32..4, 1..6)), 1..20)
        ) {
            let stacks = stacks.iter().map(|(weight, frames)| stack("server", *weight, frames));
            let profile = profile(stacks.collect());
            let server = side_profile(&profile, "server").unwrap();
            let own: f64 = server.rows.iter().map(|row| row.own_share).sum();
            prop_assert!((own - 1.0).abs() < 1e-9);
            for row in &server.rows {
                prop_assert!(row.own_share <= row.children_share + 1e-9);
                prop_assert!(row.children_share <= 1.0 + 1e-9);
            }
        }
    }
}
