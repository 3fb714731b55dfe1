//! pgbench's tables: what is there, what to do about it, and making them as `pgbench -i` does.

use super::control::{Control, ControlError};
use super::sysbench;
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

/// The tables are not usable as asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TablesError {
    /// `--no-init` and something is missing.
    #[error("the tables {names} are missing and --no-init forbids making them; leave --no-init away, or run `lockscope init` first", names = .0.join(", "))]
    Missing(Vec<String>),
    /// Some tables of somebody else are in the way.
    #[error("{} exist and were not made by a run of lockscope, while {} are missing; --force-init drops them and makes all anew", .existing.join(", "), .missing.join(", "))]
    Incomplete {
        /// There.
        existing: Vec<String>,
        /// Not there.
        missing: Vec<String>,
    },
    /// Somebody else's tables have another scale.
    #[error(
        "pgbench's tables are there with scale {existing}, not {wanted}, and were not made by a run of lockscope; use -s {existing}, or --force-init to drop them and make them anew"
    )]
    OtherScale {
        /// Theirs.
        existing: u32,
        /// `-s`.
        wanted: u32,
    },
    /// `-s` with tables that have no scale.
    #[error(
        "-s is the scale of pgbench's tables; the size of sysbench's is set by --tables and --table-size"
    )]
    NoScale,
    /// Somebody else's sysbench tables are smaller than asked for.
    #[error(
        "{table} has ids up to {size} only, {wanted} are needed, and it was not made by a run of lockscope; use --table-size {size}, or --force-init to drop the tables and make them anew"
    )]
    TooSmall {
        /// The table.
        table: String,
        /// Its highest id.
        size: i64,
        /// `--table-size`.
        wanted: u32,
    },
    /// The function is missing and must not be made.
    #[error(
        "the function lockscope_loop is missing and --no-init forbids making it; leave --no-init away once"
    )]
    NoFunction,
    /// Tables without a branch have no scale.
    #[error(
        "pgbench_branches is empty: the tables were never filled; run `lockscope init`, or use --force-init to make them anew"
    )]
    Empty,
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Existing {
    tables: Vec<String>,
    /// All of them carry lockscope's mark.
    ours: bool,
    /// All of them were filled to the end; known for ours only.
    filled: bool,
    /// Number of branches; absent without the table.
    scale: Option<u32>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Use { scale: u32 },
    Create { scale: u32 },
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
            Action::Create { scale } => {
                create(control, scale, on_progress)?;
                Self { scale, ours: true, schema }
            }
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

    /// `-v`: all tables vacuumed and analyzed.
    pub fn vacuum_all(&self, control: &Control) -> Result<(), ControlError> {
        let tables: Vec<String> = match self.schema {
            Schema::Sysbench(tables) => sysbench::names(tables).collect(),
            Schema::Pgbench | Schema::PgbenchWithFunction => TABLES.map(str::to_owned).into(),
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
    initialize(control, &options, on_progress).map_err(InitError::into_source)?;
    mark(control, &format!("'{MARK}: being filled'"))?;
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

fn look(control: &Control) -> Result<Existing, ControlError> {
    let names: Vec<&str> = TABLES.to_vec();
    let rows = control.query(
        "looking for pgbench's tables",
        "select name, obj_description(to_regclass(name), 'pg_class') \
         from unnest($1::text[]) as name where to_regclass(name) is not null",
        &[&names],
    )?;
    let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let marks: Vec<String> =
        rows.iter().map(|row| row.get::<_, Option<String>>(1).unwrap_or_default()).collect();
    let scale = if tables.iter().any(|table| table == "pgbench_branches") {
        let sql = "select count(*) from pgbench_branches";
        let rows = control.query("reading the scale of the tables", sql, &[])?;
        rows.first().and_then(|row| u32::try_from(row.get::<_, i64>(0)).ok())
    } else {
        None
    };
    Ok(Existing {
        ours: !marks.is_empty() && marks.iter().all(|mark| mark.starts_with(MARK)),
        filled: marks.iter().all(|mark| scale.is_some_and(|scale| *mark == filled_mark(scale))),
        tables,
        scale,
    })
}

fn decide(existing: &Existing, options: TableOptions) -> Result<Action, TablesError> {
    let create = Action::Create { scale: options.scale.unwrap_or(options.usual_scale.max(1)) };
    let missing: Vec<String> = TABLES
        .iter()
        .filter(|table| !existing.tables.iter().any(|existing| existing == *table))
        .map(ToString::to_string)
        .collect();
    if options.force_init {
        return Ok(create);
    }
    if options.no_init {
        return match existing.scale {
            _ if !missing.is_empty() => Err(TablesError::Missing(missing)),
            None | Some(0) => Err(TablesError::Empty),
            Some(scale) => Ok(Action::Use { scale }),
        };
    }
    if existing.tables.is_empty() {
        return Ok(create);
    }
    if existing.ours {
        return Ok(match existing.scale {
            Some(scale)
                if existing.filled
                    && missing.is_empty()
                    && options.scale.is_none_or(|wanted| wanted == scale) =>
            {
                Action::Use { scale }
            }
            _ => create,
        });
    }
    if !missing.is_empty() {
        return Err(TablesError::Incomplete { existing: existing.tables.clone(), missing });
    }
    match (existing.scale, options.scale) {
        (None | Some(0), _) => Err(TablesError::Empty),
        (Some(existing), Some(wanted)) if existing != wanted => {
            Err(TablesError::OtherScale { existing, wanted })
        }
        (Some(scale), _) => Ok(Action::Use { scale }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(scale: u32) -> Existing {
        let tables = TABLES.iter().map(ToString::to_string).collect();
        Existing { tables, ours: false, filled: false, scale: Some(scale) }
    }

    fn ours(scale: u32) -> Existing {
        Existing { ours: true, filled: true, ..all(scale) }
    }

    fn partial(is_ours: bool) -> Existing {
        Existing { tables: vec!["pgbench_history".into()], ours: is_ours, ..Default::default() }
    }

    fn want(scale: u32) -> TableOptions {
        TableOptions { scale: Some(scale), ..Default::default() }
    }

    const DEFAULT: TableOptions = TableOptions {
        schema: Schema::Pgbench,
        usual_scale: 1,
        scale: None,
        no_init: false,
        force_init: false,
    };
    const NO_INIT: TableOptions = TableOptions { no_init: true, ..DEFAULT };
    const FORCE: TableOptions = TableOptions { force_init: true, ..DEFAULT };

    #[test]
    fn nothing_there_means_making_them() {
        let nothing = Existing::default();
        assert_eq!(decide(&nothing, want(3)), Ok(Action::Create { scale: 3 }));
        assert_eq!(decide(&nothing, TableOptions::default()), Ok(Action::Create { scale: 1 }));
        let error = decide(&nothing, NO_INIT).unwrap_err().to_string();
        assert!(TABLES.iter().all(|table| error.contains(table)), "{error}");
    }

    #[test]
    fn ours_are_used_again_or_made_anew() {
        assert_eq!(decide(&ours(2), TableOptions::default()), Ok(Action::Use { scale: 2 }));
        assert_eq!(decide(&ours(2), want(2)), Ok(Action::Use { scale: 2 }));
        assert_eq!(decide(&ours(2), want(5)), Ok(Action::Create { scale: 5 }));
        let unfilled = Existing { filled: false, ..ours(2) };
        assert_eq!(decide(&unfilled, want(2)), Ok(Action::Create { scale: 2 }));
        assert_eq!(decide(&partial(true), want(2)), Ok(Action::Create { scale: 2 }));
    }

    #[test]
    fn those_of_others_are_never_dropped_unasked() {
        assert_eq!(decide(&all(2), TableOptions::default()), Ok(Action::Use { scale: 2 }));
        assert_eq!(decide(&all(2), want(2)), Ok(Action::Use { scale: 2 }));
        let other = TablesError::OtherScale { existing: 2, wanted: 5 };
        assert_eq!(decide(&all(2), want(5)), Err(other));
        assert!(matches!(decide(&partial(false), want(1)), Err(TablesError::Incomplete { .. })));
        assert_eq!(decide(&all(0), TableOptions::default()), Err(TablesError::Empty));
        assert_eq!(decide(&all(2), FORCE), Ok(Action::Create { scale: 1 }));
    }

    #[test]
    fn no_init_takes_the_scale_that_is_there() {
        let options = TableOptions { scale: Some(9), ..NO_INIT };
        assert_eq!(decide(&all(2), options), Ok(Action::Use { scale: 2 }));
    }
}
