//! What is read of the running kernel, once: its types and the symbols that somebody looks for. Both are
//! megabytes, and stay the same while it runs.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::thread;

use super::btf::{Btf, BtfError};
use super::features;
use super::layout::MEMORY_SYMBOLS;
use super::percpu::RunQueueLayout;
use super::symbols::{self, Listing};

/// What was read.
pub struct Running {
    /// Its type information.
    pub btf: Result<Btf, BtfError>,
    /// Of the symbols in `wanted_symbols`, those that it has; empty where kallsyms cannot be read.
    pub symbols: Listing,
}

/// The running kernel, read at the first call.
pub fn running() -> &'static Running {
    static RUNNING: OnceLock<Running> = OnceLock::new();
    RUNNING.get_or_init(|| {
        thread::scope(|scope| {
            // The kernel puts each line together as it is read: that takes longest.
            let symbols = scope.spawn(|| symbols::list(&wanted_symbols()).unwrap_or_default());
            let btf = Btf::of_running_kernel();
            let symbols = symbols.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Running { btf, symbols }
        })
    })
}

/// Everything that is looked for in kallsyms before the programs are attached.
fn wanted_symbols() -> Vec<String> {
    let variables = RunQueueLayout::SYMBOLS.iter().chain(&MEMORY_SYMBOLS);
    let wanted = features::wanted_symbols().into_iter().chain(variables.map(ToString::to_string));
    wanted.collect::<BTreeSet<_>>().into_iter().collect()
}
