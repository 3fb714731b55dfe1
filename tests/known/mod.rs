//! Known-answer loads: stressors that run one after the other while lockscope, and if wanted an
//! independent counter, watch; then each is judged by what it is known to do.

mod expected;
mod judge;
mod perf;
mod reference;
mod session;

pub use expected::{LOADS, Load, Lock, Who};
pub use judge::judge;
pub use perf::{Perf, Totals};
pub use reference::{Counts, Reference};
pub use session::{Plan, Seen, watch};
