//! Samples of single waits with their kernel stack, through the ring buffer.
//!
//! A stack walk costs microseconds, so long waits are always taken and of the short ones one in N,
//! with its weight. The stack goes into the record itself: a stack map would lose the hot stacks.

use aya_ebpf::EbpfContext;
use aya_ebpf::helpers::generated::bpf_get_stack;
use tracer_ebpf::{Frame, Loss, STACK_DEPTH, WaitSample};

use crate::config;
use crate::context::Event;
use crate::maps::SAMPLES;

#[inline(always)]
pub(crate) fn maybe<C: EbpfContext>(
    ctx: &C,
    event: &Event,
    side: u8,
    frame: &Frame,
    ended_ns: u64,
    wait_ns: u64,
) {
    let weight = weight(event, wait_ns);
    if weight == 0 {
        return;
    }
    let Some(mut entry) = SAMPLES.reserve::<WaitSample>(0) else {
        event.lose(Loss::RingFull);
        return;
    };
    let sample = entry.as_mut_ptr();
    // SAFETY: the reserved record is large enough and ours until it is submitted; every field is
    // written, the unused frames excepted, which `stack_len` excludes.
    unsafe {
        (*sample).end_ns = ended_ns;
        (*sample).wait_ns = wait_ns;
        (*sample).lock = frame.lock;
        (*sample).tid = event.tid;
        (*sample).tgid = event.tgid;
        (*sample).weight = weight;
        (*sample).class = frame.class;
        (*sample).side = side;
        (*sample).pad = 0;
        let bytes = bpf_get_stack(
            ctx.as_ptr(),
            (&raw mut (*sample).stack).cast(),
            (STACK_DEPTH * 8) as u32,
            0,
        );
        if bytes < 0 {
            (*sample).stack_len = 0;
            event.lose(Loss::StackError);
        } else {
            (*sample).stack_len = (bytes / 8) as u8;
        }
    }
    entry.submit(0);
}

/// How many waits a sample of this one stands for; 0 = take none.
#[inline(always)]
fn weight(event: &Event, wait_ns: u64) -> u32 {
    if wait_ns >= config::sample_threshold_ns() {
        return 1;
    }
    let every = config::sample_every();
    if every == 0 {
        return 0;
    }
    let tick = event.cpu().sample_tick.wrapping_add(1);
    if tick < every {
        event.cpu().sample_tick = tick;
        return 0;
    }
    event.cpu().sample_tick = 0;
    every
}
