//! The run as JSON, in the shape of `docs/run.schema.json`.

use crate::model::{Run, to_json};

/// Indented JSON with a line end.
pub fn render(run: &Run) -> String {
    format!("{:#}\n", to_json(run))
}
