//! Where tasks slept that was no kernel lock, and who woke them.

use super::page::Page;
use super::table::time;
use crate::analyse::units::{duration, percent, plural};
use crate::model::{OffCpu, OffCpuStack, Run, SideOffCpu, Waker};

const SIDES: [&str; 4] = ["server", "background", "client", "other"];
/// Places named of a side.
const PLACES: usize = 4;
/// And from this share of the time on.
const WORTH_NAMING: f64 = 0.01;
/// Frames of a sleeper's stack, and of a waker's.
const FRAMES: usize = 9;
const WAKER_FRAMES: usize = 4;
const WAKERS: usize = 2;

pub(super) fn render(run: &Run, page: &mut Page) {
    let Some(off_cpu) = &run.off_cpu else { return };
    page.heading("Off CPU", &remark(off_cpu));
    for name in SIDES {
        if let Some(side) = off_cpu.sides.get(name) {
            page.labelled(name, &summary(side));
            let places = side.stacks.iter().filter(|stack| stack.share >= WORTH_NAMING);
            for stack in places.take(PLACES) {
                place(off_cpu, stack, page);
            }
        }
    }
}

fn remark(off_cpu: &OffCpu) -> String {
    let mut text =
        "sleeps that are no kernel lock, estimated from a few tasks at a time".to_owned();
    if off_cpu.lost_count > 0 {
        text += &format!("; {} cut short by lost records", plural(off_cpu.lost_count, "window"));
    }
    if off_cpu.lost_wakings_count > 0 {
        text += &format!("; {} lost", plural(off_cpu.lost_wakings_count, "waking"));
    }
    if off_cpu.unwoken_count > 0 {
        let times = plural(off_cpu.unwoken_count, "time");
        text += &format!("; wakers could not be watched {times}");
    }
    if off_cpu.failed_count > 0 {
        text += &format!("; {} could not be watched", plural(off_cpu.failed_count, "task"));
    }
    text
}

fn summary(side: &SideOffCpu) -> String {
    let asleep: f64 = side.stacks.iter().map(|stack| stack.share).sum();
    let lock = match side.lock_share > 0.0 {
        true => format!("; {} more in kernel locks", percent(side.lock_share)),
        false => String::new(),
    };
    format!(
        "asleep {} of the time{lock}; {} of one task, {} in all",
        percent(asleep),
        plural(side.windows_count, "window"),
        duration(side.observed_ns as f64)
    )
}

fn place(off_cpu: &OffCpu, stack: &OffCpuStack, page: &mut Page) {
    let lead = format!("    {:>6}  ", percent(stack.share).replace(' ', ""));
    let text = format!(
        "{}, mean {}: {}",
        plural(stack.sleeps_count, "sleep"),
        time(stack.mean_ns as f64),
        frames(off_cpu, &stack.frames, FRAMES)
    );
    page.hanging(&lead, 12, &text);
    let wakers = stack.wakers.iter().take(WAKERS).map(|waker| woken(off_cpu, waker));
    let wakers: Vec<String> = wakers.collect();
    if !wakers.is_empty() {
        page.hanging("            woken by ", 14, &wakers.join("; "));
    }
}

fn woken(off_cpu: &OffCpu, waker: &Waker) -> String {
    let stack = frames(off_cpu, &waker.frames, WAKER_FRAMES);
    format!("{} ({}) in {stack}", waker.command, plural(waker.count, "time"))
}

/// `pipe_read <- vfs_read <- ...`, without the scheduler's own frames.
fn frames(off_cpu: &OffCpu, numbers: &[u32], most: usize) -> String {
    let frames = numbers.iter().filter_map(|number| off_cpu.frames.get(*number as usize));
    let names = frames.map(|frame| match frame.unknown {
        Some(_) => format!("[{}]", frame.object.trim_matches(['[', ']'])),
        None => frame.symbol.clone(),
    });
    let is_waking = |name: &String| {
        ["perf_", "__perf_", "__traceiter_", "trace_event_"].iter().any(|own| name.starts_with(own))
    };
    // Every system call begins the same way.
    let is_entry = |name: &String| name.starts_with("entry_SYSCALL") || name == "do_syscall_64";
    let names = names.skip_while(is_waking).filter(|name| !is_entry(name));
    let names: Vec<String> = names.take(most).collect();
    names.join(" <- ")
}
