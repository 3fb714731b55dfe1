//! Runs and comparisons as JSON.

use crate::model::{Comparison, Run, to_json};

/// The run in the shape of `docs/run.schema.json`: indented, with a line end.
pub fn render(run: &Run) -> String {
    format!("{:#}\n", to_json(run))
}

/// The comparison in the shape of `docs/comparison.schema.json`.
pub fn render_comparison(comparison: &Comparison) -> String {
    format!("{:#}\n", to_json(comparison))
}
