//! The whole run as plain text, for a terminal and for an e-mail.

mod backends;
mod by_latency;
mod client;
mod compare;
mod counters;
mod explain;
mod findings;
mod footer;
mod header;
mod histogram;
mod holders;
mod ledger;
mod load;
mod locks;
mod machine;
mod off_cpu;
mod page;
mod pgbench;
mod plug;
mod profile;
mod removal;
mod series;
mod servers;
mod sweep;
mod table;
mod totals;
mod verdict;
mod view;

pub use compare::render_comparison;
pub use explain::render_explanation;
use page::Page;
pub use sweep::render_sweep;

use crate::model::Run;

/// How the text is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns that a line may take; at least [`TextOptions::MIN_WIDTH`].
    pub width: usize,
    /// Whether characters outside ASCII may be used.
    pub utf8: bool,
    /// Whether escape sequences may be used.
    pub color: bool,
    /// Whether every backend is listed.
    pub all_backends: bool,
}

impl TextOptions {
    /// The narrowest layout.
    pub const MIN_WIDTH: usize = 72;
}

impl Default for TextOptions {
    fn default() -> TextOptions {
        TextOptions { width: 100, utf8: false, color: false, all_backends: false }
    }
}

/// The report. No line is wider than asked for; without `utf8` it is plain ASCII.
pub fn render(run: &Run, options: &TextOptions) -> String {
    let mut page = Page::new(*options);
    if run.depth.is_empty() && run.load.is_some() {
        return untraced(run, page);
    }
    header::render(run, &mut page);
    load::render(run, &mut page);
    client::render(run, &mut page);
    machine::render(run, &mut page);
    findings::render(run, &mut page);
    ledger::render(run, &mut page);
    by_latency::render(run, &mut page);
    removal::render(run, &mut page);
    servers::render(run, &mut page);
    locks::render(run, &mut page);
    view::render(run, &mut page);
    series::render(run, &mut page);
    backends::render(run, &mut page);
    plug::render(run, &mut page);
    profile::render(run, &mut page);
    off_cpu::render(run, &mut page);
    counters::render(run, &mut page);
    footer::render(run, &mut page);
    page.finish()
}

/// A load without tracing is told as pgbench tells it, and then what pgbench does not tell.
fn untraced(run: &Run, mut page: Page) -> String {
    header::title_and_command(run, &mut page);
    pgbench::render(run, &mut page);
    load::render(run, &mut page);
    machine::render(run, &mut page);
    footer::warnings(run, &mut page);
    page.finish()
}
