//! Which hooks a run uses, and how.

pub mod capability;
pub mod notes;
mod obstacle;
pub mod options;
pub mod plan;

pub use capability::{Capability, Method};
pub use notes::notes;
pub use options::{Choice, PlanOptions, Prefer, ProbeArgs, ProbeChoice};
pub use plan::{AttachPlan, PlanError, PlannedProbe, plan};
