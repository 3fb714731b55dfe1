//! pgbench's tables, made as `pgbench -i` makes them, step by step.

mod definitions;
mod generate;
mod options;

use std::time::{Duration, Instant};

pub use options::{InitOptions, PartitionMethod, Partitions, Step, Steps, StepsError};

use self::options::letters;
use super::server::{Control, ControlError};

/// What is being done, for a progress display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitProgress {
    /// A step begins; its name.
    Step(&'static str),
    /// Rows sent so far to the largest table, of how many.
    Rows(u64, u64),
}

/// A step that did not end well, and what it left.
#[derive(Debug, thiserror::Error)]
#[error("{source}\n{state}")]
pub struct InitError {
    state: String,
    source: ControlError,
}

impl InitError {
    /// What happened, without what it left.
    pub fn into_source(self) -> ControlError {
        self.source
    }
}

/// Does the steps of `options` in their order; tells how long each took.
///
/// The tables are dropped only where a step says so, and nothing but pgbench's four is touched.
pub fn initialize(
    control: &Control,
    options: &InitOptions,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<Vec<(Step, Duration)>, InitError> {
    let steps = options.steps.as_slice();
    let mut done = Vec::new();
    for (index, &step) in steps.iter().enumerate() {
        let began = Instant::now();
        on_progress(InitProgress::Step(step.name()));
        let mut statements_done = 0;
        take(control, options, step, &mut statements_done, on_progress).map_err(|source| {
            let state = state_after_failure(steps, index, statements_done);
            InitError { state, source }
        })?;
        done.push((step, began.elapsed()));
    }
    Ok(done)
}

fn take(
    control: &Control,
    options: &InitOptions,
    step: Step,
    statements_done: &mut usize,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), ControlError> {
    let (what, statements) = match step {
        Step::Generate => return generate::on_client(control, options, on_progress),
        Step::GenerateOnServer => return generate::on_server(control, options),
        Step::Drop => {
            let drop = format!("drop table if exists {}", definitions::TABLES);
            ("dropping the old tables", vec![drop])
        }
        Step::Create => {
            let version = control.server_version()?;
            ("creating the tables", definitions::create_tables(options, version))
        }
        Step::Vacuum => ("vacuuming the tables", definitions::vacuum()),
        Step::PrimaryKeys => ("creating the primary keys", definitions::primary_keys(options)),
        Step::ForeignKeys => ("creating the foreign keys", definitions::foreign_keys()),
    };
    for statement in statements {
        control.execute(what, &statement)?;
        *statements_done += 1;
    }
    Ok(())
}

/// What is there after the step at `index` failed, and how to go on.
fn state_after_failure(steps: &[Step], index: usize, statements_done: usize) -> String {
    let names =
        |steps: &[Step]| steps.iter().map(|step| step.name()).collect::<Vec<_>>().join(", ");
    let failed = steps[index];
    let is_half_done = statements_done > 0;
    let mut state = match index {
        0 => "No step was completed".to_owned(),
        _ => format!("Completed: {}", names(&steps[..index])),
    };
    state.push_str(&format!("; {}: ", failed.name()));
    state.push_str(match failed {
        Step::Generate | Step::GenerateOnServer => "rolled back, the rows are as they were before",
        _ if is_half_done => "done in part",
        _ => "nothing done",
    });
    if let Some(rest @ [_, ..]) = steps.get(index + 1..) {
        state.push_str(&format!("; not begun: {}", names(rest)));
    }
    // Tables and keys that are there already cannot be made a second time.
    let can_resume = !is_half_done || failed == Step::Vacuum;
    if index > 0 && can_resume {
        state.push_str(&format!(". `-I {}` goes on from here", letters(&steps[index..])));
    }
    state.push_str(". The default steps (dtgvp) make everything anew.");
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_is_there_and_how_to_go_on() {
        let steps: Steps = "dtgvp".parse().unwrap();
        let steps = steps.as_slice();
        let rows = state_after_failure(steps, 2, 0);
        assert!(rows.starts_with("Completed: drop tables, create tables; "), "{rows}");
        assert!(rows.contains("client-side generate: rolled back"), "{rows}");
        assert!(rows.contains("not begun: vacuum, primary keys. `-I gvp` goes on"), "{rows}");
        let half = state_after_failure(steps, 1, 2);
        assert!(half.contains("create tables: done in part; not begun: client"), "{half}");
        assert!(!half.contains("goes on"), "{half}");
        let first = state_after_failure(steps, 0, 0);
        assert!(first.starts_with("No step was completed; drop tables: nothing done"), "{first}");
    }
}
