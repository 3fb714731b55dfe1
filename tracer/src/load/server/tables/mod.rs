//! pgbench's tables: what is there, what to do about it, and making them as `pgbench -i` does.

mod decide;
mod error;
mod existing;

pub use error::TablesError;

use self::decide::{Action, decide};
pub(super) use self::existing::kind;
use self::existing::look;
use super::control::{Control, ControlError};
use super::sysbench;
use super::turn::in_turn;
use crate::load::init::{InitError, InitOptions, InitProgress, Steps, initialize};
use crate::load::workload::{FUNCTION, Schema};

/// In the order in which pgbench makes them.
const TABLES: [&str; 4] =
    ["pgbench_history", "pgbench_tellers", "pgbench_accounts", "pgbench_branches"];
/// How lockscope's tables are told from others: by the comment on them.
pub(super) const MARK: &str = "lockscope";

/// What the user wants of the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// What the workload needs.
    pub schema: Schema,
    /// Scale of new tables where `scale` is absent; 0 means 1.
    pub usual_scale: u32,
    /// `-s`.
    pub scale: Option<u32>,
    /// `--no-init`: only use what is there.
    pub no_init: bool,
    /// `--force-init`: make the tables anew, whoever made those that are there.
    pub force_init: bool,
}

/// The tables of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// Scale factor.
    pub scale: u32,
    /// Made by lockscope, now or earlier.
    pub ours: bool,
    /// Which they are.
    schema: Schema,
}

impl Tables {
    /// None are needed; scripts see this scale.
    pub fn none(scale: u32) -> Self {
        Self { scale, ours: false, schema: Schema::Pgbench }
    }

    /// Uses or makes the tables. A scale that `options` asked for and the tables do not have, where
    /// that is allowed, is visible in the result.
    pub fn prepare(
        control: &Control,
        options: TableOptions,
        on_progress: &mut dyn FnMut(InitProgress),
    ) -> Result<Self, super::SetupError> {
        let schema = options.schema;
        if let Schema::Sysbench(wanted) = schema {
            let ours = sysbench::prepare(control, wanted, options, on_progress)?;
            return Ok(Self { scale: 1, ours, schema });
        }
        let existing = look(control)?;
        let tables = match decide(&existing, options)? {
            Action::Use { scale } => Self { scale, ours: existing.ours, schema },
            Action::Create { .. } => in_turn(control, || {
                // Another run may have made them meanwhile.
                let existing = look(control)?;
                match decide(&existing, options)? {
                    Action::Use { scale } => Ok(Self { scale, ours: existing.ours, schema }),
                    Action::Create { scale } => {
                        create(control, scale, on_progress)?;
                        Ok(Self { scale, ours: true, schema })
                    }
                }
            })
            .map_err(|error: super::SetupError| error)?,
        };
        if schema == Schema::PgbenchWithFunction {
            prepare_function(control, options.no_init)?;
        }
        Ok(tables)
    }

    /// Takes lockscope's mark off: from now on the tables are the user's own.
    pub fn give_away(control: &Control) -> Result<(), ControlError> {
        let existing = look(control)?;
        if existing.ours { unmark(control, &existing.tables) } else { Ok(()) }
    }

    /// What pgbench does before a run, and sysbench does not: short tables vacuumed, the history emptied. The history of
    /// tables that lockscope did not make is kept.
    pub fn vacuum_before_run(&self, control: &Control) -> Result<(), ControlError> {
        if matches!(self.schema, Schema::Sysbench(_)) {
            return Ok(());
        }
        control.execute("vacuuming pgbench_branches", "vacuum pgbench_branches")?;
        control.execute("vacuuming pgbench_tellers", "vacuum pgbench_tellers")?;
        if self.ours {
            control.execute("truncating pgbench_history", "truncate pgbench_history")?;
        }
        Ok(())
    }

    /// `-v`: all tables that are there, vacuumed and analyzed.
    pub fn vacuum_all(&self, control: &Control) -> Result<(), ControlError> {
        let tables: Vec<String> = match self.schema {
            Schema::Sysbench(tables) => sysbench::names(tables).collect(),
            Schema::Pgbench | Schema::PgbenchWithFunction => look(control)?.tables,
        };
        tables.iter().try_for_each(|table| {
            control.execute(&format!("vacuuming {table}"), &format!("vacuum analyze {table}"))
        })
    }
}

/// Makes pgbench's tables and marks them as lockscope's, complete only at the end.
fn create(
    control: &Control,
    scale: u32,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), ControlError> {
    let mut options = InitOptions::with_scale(scale);
    let (definitions, contents) = Steps::default().around_create();
    options.steps = definitions;
    // In one transaction: nobody may see them without the mark.
    control.execute("creating the tables", "begin")?;
    initialize(control, &options, on_progress).map_err(InitError::into_source)?;
    mark(control, &format!("'{MARK}: being filled'"))?;
    control.execute("creating the tables", "commit")?;
    options.steps = contents;
    initialize(control, &options, on_progress).map_err(InitError::into_source)?;
    mark(control, &format!("'{}'", filled_mark(scale)))
}

/// The comment on tables of lockscope's that are complete.
fn filled_mark(scale: u32) -> String {
    format!("{MARK}: scale {scale}")
}

fn unmark(control: &Control, tables: &[String]) -> Result<(), ControlError> {
    tables.iter().try_for_each(|table| {
        let statement = format!("comment on table {table} is null");
        control.execute("taking lockscope's mark off", &statement)
    })
}

fn mark(control: &Control, text: &str) -> Result<(), ControlError> {
    TABLES.iter().try_for_each(|table| {
        let statement = format!("comment on table {table} is {text}");
        control.execute("marking the tables", &statement)
    })
}

/// Makes the function of the `plpgsql` workload.
pub fn create_function(control: &Control) -> Result<(), ControlError> {
    control.execute("creating the function lockscope_loop", FUNCTION)
}

/// Makes it, or sees that it is there.
fn prepare_function(control: &Control, no_init: bool) -> Result<(), super::SetupError> {
    if !no_init {
        return Ok(create_function(control)?);
    }
    let sql = "select to_regprocedure('lockscope_loop(bigint, int)') is not null";
    let rows = control.query("looking for the function lockscope_loop", sql, &[])?;
    let is_there = rows.first().is_some_and(|row| row.get(0));
    if is_there { Ok(()) } else { Err(TablesError::NoFunction.into()) }
}
