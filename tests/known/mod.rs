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

use anyhow::{Result, bail};

/// How often a load is run until its threads have met often enough.
const TRIES: u32 = 4;

/// Watches the loads and judges them; those whose threads met too seldom once more, each time for
/// twice as long.
///
/// # Errors
/// Every answer that is wrong, or when threads do not meet.
pub fn prove(plan: &Plan) -> Result<()> {
    let mut plan = plan.clone();
    for _ in 0..TRIES {
        plan.loads = judge(&watch(&plan)?)?;
        if plan.loads.is_empty() {
            return Ok(());
        }
        plan.seconds *= 2.0;
    }
    let names: Vec<&str> = plan.loads.iter().map(|load| load.name).collect();
    bail!("the threads of {} met too seldom in {TRIES} runs", names.join(", "))
}
