//! From what the kernel offers to attached programs: plan (pure), loader, tracer.

pub mod capability;
mod error;
mod facts;
mod learn;
mod loader;
mod memory;
pub mod notes;
mod obstacle;
pub mod options;
pub mod plan;
mod programs;
mod search;
mod support;
mod tracer;

pub use capability::{Capability, Method};
pub use error::TraceError;
pub use loader::{Limits, Offsets};
pub use memory::{IdentityNeeds, Memory};
pub use notes::notes;
pub use options::{Choice, Depth, PlanOptions, Prefer, ProbeArgs, ProbeChoice};
pub use plan::{AttachPlan, PlanError, PlannedProbe, choices, plan};
pub use programs::{Hook, ProgramSpec, programs};
pub use support::support_table;
pub use tracer::{PerCpuAddresses, ProgramCost, StatsWindow, TracedTask, Tracer};
