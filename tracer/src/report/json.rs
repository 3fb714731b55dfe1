//! Runs, comparisons, explanations and sweeps as JSON.

use crate::model::{Comparison, Explanation, Run, Sweep, to_json};

/// The run in the shape of `docs/run.schema.json`: indented, with a line end.
pub fn render(run: &Run) -> String {
    format!("{:#}\n", to_json(run))
}

/// The comparison in the shape of `docs/comparison.schema.json`.
pub fn render_comparison(comparison: &Comparison) -> String {
    format!("{:#}\n", to_json(comparison))
}

/// The explanation in the shape of `docs/explanation.schema.json`.
pub fn render_explanation(explanation: &Explanation) -> String {
    format!("{:#}\n", to_json(explanation))
}

/// The sweep in the shape of `docs/sweep.schema.json`.
pub fn render_sweep(sweep: &Sweep) -> String {
    format!("{:#}\n", to_json(sweep))
}
