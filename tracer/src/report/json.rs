//! Runs, comparisons and sweeps as JSON.

use crate::model::{Comparison, Run, Sweep, to_json};

/// The run in the shape of `docs/run.schema.json`: indented, with a line end.
pub fn render(run: &Run) -> String {
    format!("{:#}\n", to_json(run))
}

/// The comparison in the shape of `docs/comparison.schema.json`.
pub fn render_comparison(comparison: &Comparison) -> String {
    format!("{:#}\n", to_json(comparison))
}

/// The sweep in the shape of `docs/sweep.schema.json`.
pub fn render_sweep(sweep: &Sweep) -> String {
    format!("{:#}\n", to_json(sweep))
}
