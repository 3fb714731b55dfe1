//! Which hooks a run uses, and how.

pub mod capability;
mod obstacle;
pub mod plan;

pub use capability::{Capability, Method};
pub use plan::{AttachPlan, PlanError, PlanOptions, PlannedProbe, plan};
