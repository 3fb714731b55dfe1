//! The stack of nested waits. Every index is masked where it is used: the verifier must see it.

use tracer_ebpf::{Frame, WAIT_DEPTH, WaitStack};

const MASK: u32 = WAIT_DEPTH as u32 - 1;

#[inline(always)]
fn frame_at(stack: &mut WaitStack, index: u32) -> &mut Frame {
    // SAFETY: the mask keeps the index below WAIT_DEPTH; `black_box` keeps the compiler from
    // proving the mask away, which would leave the verifier without a bound.
    unsafe { stack.frames.get_unchecked_mut((core::hint::black_box(index) & MASK) as usize) }
}

/// The innermost open wait.
#[inline(always)]
pub(crate) fn top(stack: &mut WaitStack) -> Option<&mut Frame> {
    let depth = stack.depth;
    if depth == 0 { None } else { Some(frame_at(stack, depth - 1)) }
}

/// Opens a wait; false when the stack is full.
#[inline(always)]
pub(crate) fn push(stack: &mut WaitStack, frame: Frame) -> bool {
    let depth = stack.depth;
    if depth >= WAIT_DEPTH as u32 {
        return false;
    }
    *frame_at(stack, depth) = frame;
    stack.depth = depth + 1;
    true
}

/// Position of the innermost wait that `hook` opened, for this lock unless `lock` is 0.
#[inline(always)]
pub(crate) fn find(stack: &mut WaitStack, hook: u8, lock: u64) -> Option<u32> {
    let mut index = stack.depth;
    for _ in 0..WAIT_DEPTH {
        if index == 0 {
            return None;
        }
        index -= 1;
        let frame = frame_at(stack, index);
        if frame.hook == hook && (lock == 0 || frame.lock == lock) {
            // Found at any depth, it is the same to the verifier.
            return Some(core::hint::black_box(index) & MASK);
        }
    }
    None
}

/// Takes the wait at `index` off, and whatever is still open above it.
///
/// Returns the frame and how many were above: waits whose own end was never seen.
#[inline(always)]
pub(crate) fn pop_at(stack: &mut WaitStack, index: u32) -> (Frame, u32) {
    let above = stack.depth - index - 1;
    let frame = *frame_at(stack, index);
    stack.depth = index;
    (frame, above)
}

/// The wait that encloses the innermost one.
#[inline(always)]
pub(crate) fn below_top(stack: &mut WaitStack) -> Option<&mut Frame> {
    let depth = stack.depth;
    if depth < 2 { None } else { Some(frame_at(stack, depth - 2)) }
}
