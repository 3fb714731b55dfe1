//! From what the kernel offers to attached programs: plan (pure), loader, tracer.

pub mod capability;
mod error;
mod loader;
mod obstacle;
pub mod plan;
mod programs;
mod tracer;

pub use capability::{Capability, Method};
pub use error::TraceError;
pub use loader::{Limits, Offsets};
pub use plan::{AttachPlan, PlanError, PlanOptions, PlannedProbe, plan};
pub use programs::{Hook, ProgramSpec, programs};
pub use tracer::{PerCpuAddresses, ProgramCost, StatsWindow, Tracer, now_ns};
