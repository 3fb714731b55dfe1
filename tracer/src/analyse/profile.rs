//! From samples to the model's profile: places become functions, tasks become sides.

use std::collections::HashMap;

use crate::model::{Profile, ProfileFrame, ProfileStack};
use crate::profile::{Place, Samples};
use crate::symbolize::{KernelNames, NoName, UserSymbolizer};

/// A run keeps this many stacks whole.
const MOST_STACKS: usize = 20_000;

/// Names every place and sums up by side. `side_of` tells a task's (pid, tid).
pub fn profile(
    samples: &Samples,
    kernel: &KernelNames,
    side_of: impl Fn(u32, u32) -> &'static str,
) -> Profile {
    let mut user = UserSymbolizer::new(&samples.objects);
    let mut frames = Frames::default();
    let numbers: Vec<u32> = samples
        .places
        .iter()
        .map(|place| frames.number(frame(*place, kernel, &mut user)))
        .collect();
    let mut sums: HashMap<(&'static str, String, Vec<u32>), (u64, u64)> = HashMap::new();
    for sample in &samples.samples {
        let stack = sample.stack.iter().map(|place| numbers[*place as usize]).collect();
        let key = (side_of(sample.pid, sample.tid), sample.command.clone(), stack);
        let sum = sums.entry(key).or_default();
        sum.0 += sample.count;
        sum.1 += sample.weight;
    }
    let stack = |((side, command, frames), (samples_count, weight)): (_, (u64, u64))| {
        let side: &'static str = side;
        ProfileStack { side: side.to_owned(), command, samples_count, weight, frames }
    };
    let mut stacks: Vec<ProfileStack> = sums.into_iter().map(stack).collect();
    sort(&mut stacks);
    let shortened_count = shorten(&mut stacks, MOST_STACKS);
    Profile {
        event: samples.trigger.name().to_owned(),
        no_cycles: samples.no_cycles.clone(),
        frequency_hz: samples.frequency_hz,
        samples_count: stacks.iter().map(|stack| stack.samples_count).sum(),
        lost_count: samples.lost_count,
        throttled_count: samples.throttled_count,
        shortened_count,
        frames: frames.list,
        stacks,
    }
}

/// Most weight first; the rest of the order only has to be the same every time.
fn sort(stacks: &mut [ProfileStack]) {
    stacks.sort_by(|left, right| {
        let order = right.weight.cmp(&left.weight);
        let order = order.then_with(|| left.side.cmp(&right.side));
        order
            .then_with(|| left.command.cmp(&right.command))
            .then_with(|| left.frames.cmp(&right.frames))
    });
}

/// Keeps the heaviest stacks whole, and of the others the innermost frame. Returns the samples of those.
fn shorten(stacks: &mut Vec<ProfileStack>, most: usize) -> u64 {
    if stacks.len() <= most {
        return 0;
    }
    let rare = stacks.split_off(most);
    let shortened_count = rare.iter().map(|stack| stack.samples_count).sum();
    let mut sums: HashMap<(String, String, Vec<u32>), (u64, u64)> = HashMap::new();
    for mut stack in rare {
        stack.frames.truncate(1);
        let sum = sums.entry((stack.side, stack.command, stack.frames)).or_default();
        sum.0 += stack.samples_count;
        sum.1 += stack.weight;
    }
    stacks.extend(sums.into_iter().map(|((side, command, frames), (samples_count, weight))| {
        ProfileStack { side, command, samples_count, weight, frames }
    }));
    sort(stacks);
    shortened_count
}

pub(super) fn frame(
    place: Place,
    kernel: &KernelNames,
    user: &mut UserSymbolizer<'_>,
) -> ProfileFrame {
    let of_user = |object: &str, found: Result<String, NoName>| match found {
        Ok(symbol) => ProfileFrame { symbol, object: object.to_owned(), unknown: None },
        Err(why) => unknown(object, why.name()),
    };
    match place {
        Place::Kernel(address) => match kernel.get(&address) {
            Some(symbol) => {
                let object =
                    if symbol.name.starts_with("bpf_prog_") { "[bpf]" } else { "[kernel]" };
                ProfileFrame {
                    symbol: symbol.name.clone(),
                    object: object.to_owned(),
                    unknown: None,
                }
            }
            None => unknown("[kernel]", "no_kallsyms"),
        },
        Place::File { object, offset } => {
            let found = user.in_file(object, offset);
            of_user(user.object_name(object), found)
        }
        Place::Vdso(offset) => of_user("[vdso]", user.in_vdso(offset)),
        Place::Nameless { pid, address } => of_user("[jit]", user.in_jit(pid, address)),
        Place::Gone => of_user("?", Err(NoName::Gone)),
        Place::NotMapped => of_user("?", Err(NoName::NotMapped)),
    }
}

fn unknown(object: &str, why: &str) -> ProfileFrame {
    ProfileFrame {
        symbol: "[unknown]".to_owned(),
        object: object.to_owned(),
        unknown: Some(why.to_owned()),
    }
}

/// Frames by number: many addresses are one function.
#[derive(Default)]
pub(super) struct Frames {
    pub(super) list: Vec<ProfileFrame>,
    numbers: HashMap<ProfileFrame, u32>,
}

impl Frames {
    pub(super) fn number(&mut self, frame: ProfileFrame) -> u32 {
        let next = self.list.len() as u32;
        *self.numbers.entry(frame).or_insert_with_key(|frame| {
            self.list.push(frame.clone());
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{StackSamples, Trigger};

    fn samples(stacks: &[(u32, &[u32], u64)]) -> Samples {
        let stack = |(tid, stack, count): &(u32, &[u32], u64)| StackSamples {
            pid: *tid,
            tid: *tid,
            command: "postgres".to_owned(),
            stack: stack.to_vec(),
            count: *count,
            weight: 10 * count,
        };
        Samples {
            trigger: Trigger::CpuClock,
            no_cycles: Some("none here".to_owned()),
            frequency_hz: 199,
            places: vec![Place::Gone, Place::NotMapped, Place::Kernel(1)],
            objects: Vec::new(),
            samples: stacks.iter().map(stack).collect(),
            lost_count: 2,
            throttled_count: 1,
            sleeps: None,
        }
    }

    fn built(stacks: &[(u32, &[u32], u64)]) -> Profile {
        let side = |_, tid| if tid < 10 { "server" } else { "other" };
        profile(&samples(stacks), &KernelNames::new(), side)
    }

    #[test]
    fn tasks_of_a_side_are_summed_and_unknowns_say_why() {
        let built = built(&[(1, &[2, 0], 3), (2, &[2, 0], 4), (11, &[2, 0], 1), (1, &[1], 20)]);
        assert_eq!(
            (built.samples_count, built.lost_count, built.event.as_str()),
            (28, 2, "cpu-clock")
        );
        let sums: Vec<_> =
            built.stacks.iter().map(|s| (s.side.as_str(), s.samples_count, s.weight)).collect();
        assert_eq!(sums, [("server", 20, 200), ("server", 7, 70), ("other", 1, 10)]);
        let why = |stack: usize, frame: usize| {
            built.frames[built.stacks[stack].frames[frame] as usize].unknown.as_deref()
        };
        assert_eq!(
            [why(0, 0), why(1, 0), why(1, 1)],
            [Some("not_mapped"), Some("no_kallsyms"), Some("process_gone")]
        );
    }

    #[test]
    fn rare_stacks_keep_their_innermost_frame_and_every_sample() {
        let mut profile = built(&[(1, &[2, 0], 9), (1, &[2, 1], 1), (1, &[2, 1, 0], 2)]);
        assert_eq!(shorten(&mut profile.stacks, 1), 3);
        assert_eq!(profile.stacks.iter().map(|s| s.samples_count).collect::<Vec<_>>(), [9, 3]);
        assert_eq!(profile.stacks[1].frames.len(), 1);
    }
}
