//! Renderers of a run, one a file. They read [`crate::model::Run`] and nothing else.

pub mod folded;
pub mod json;
pub mod plot;
pub mod text;
