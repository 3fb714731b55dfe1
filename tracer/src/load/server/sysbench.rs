//! sysbench's tables: what is there, what to do about it, and making them as `sysbench prepare` does.

use std::pin::pin;

use bytes::Bytes;
use futures_util::SinkExt as _;

use super::control::{Control, ControlError};
use super::tables::{MARK, TableOptions, TablesError, kind};
use super::turn::in_turn;
use crate::load::init::InitProgress;
use crate::load::script::{Random, sysbench::special, write_pattern};
use crate::load::workload::{C_PATTERN, PAD_PATTERN, SysbenchTables};

const COPY_CHUNK_BYTES: usize = 128 * 1024;

/// A table as it is.
struct Existing {
    name: String,
    mark: String,
    /// What it is, if no table.
    kind: Option<&'static str>,
}

/// What to do.
enum Action {
    Use { ours: bool },
    Create,
}

/// Uses or makes the tables; whether they are lockscope's own.
pub(super) fn prepare(
    control: &Control,
    wanted: SysbenchTables,
    options: TableOptions,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<bool, super::SetupError> {
    if options.scale.is_some() {
        return Err(TablesError::NoScale.into());
    }
    if let Action::Use { ours } = decide(control, wanted, options)? {
        return Ok(ours);
    }
    in_turn(control, || match decide(control, wanted, options)? {
        // Another run has made them meanwhile.
        Action::Use { ours } => Ok(ours),
        Action::Create => {
            create(control, wanted, Some(&filled_mark(wanted)), on_progress)?;
            Ok(true)
        }
    })
}

fn decide(
    control: &Control,
    wanted: SysbenchTables,
    options: TableOptions,
) -> Result<Action, super::SetupError> {
    let existing = look(control, wanted)?;
    let missing: Vec<String> =
        names(wanted).filter(|name| !existing.iter().any(|table| table.name == *name)).collect();
    let ours = !existing.is_empty() && existing.iter().all(|table| table.mark.starts_with(MARK));
    let complete =
        missing.is_empty() && existing.iter().all(|table| table.mark == filled_mark(wanted));
    if options.no_init && !missing.is_empty() {
        return Err(TablesError::Missing(missing).into());
    }
    let may_make = options.force_init || (!options.no_init && (existing.is_empty() || ours));
    let create = may_make && (options.force_init || !complete);
    if (create || !missing.is_empty())
        && let Some((name, kind)) =
            existing.iter().find_map(|table| Some((&table.name, table.kind?)))
    {
        return Err(TablesError::NoTable { name: name.clone(), kind }.into());
    }
    if create {
        return Ok(Action::Create);
    }
    if !missing.is_empty() {
        let existing = existing.into_iter().map(|table| table.name).collect();
        return Err(TablesError::Incomplete { existing, missing }.into());
    }
    if !complete {
        check_size(control, wanted)?;
    }
    Ok(Action::Use { ours })
}

/// Drops, creates, fills and indexes the tables. They carry `mark` as their comment.
pub fn create(
    control: &Control,
    wanted: SysbenchTables,
    mark: Option<&str>,
    on_progress: &mut dyn FnMut(InitProgress),
) -> Result<(), ControlError> {
    let mut random = Random::new(fastrand::u64(..));
    let total = u64::from(wanted.count) * u64::from(wanted.size);
    for (index, table) in names(wanted).enumerate() {
        let rows_before = index as u64 * u64::from(wanted.size);
        // Each table comes whole or not at all; the words say how far it went.
        let what = format!("making {table}, table {} of {}", index + 1, wanted.count);
        control.execute(&what, "begin")?;
        control.execute(&what, &format!("drop table if exists {table}"))?;
        control.execute(&what, &definition(&table))?;
        fill(control, &what, &table, wanted.size, &mut random, &mut |rows| {
            on_progress(InitProgress::Rows(rows_before + rows, total));
        })?;
        control.execute(&what, &format!("create index k_{} on {table}(k)", index + 1))?;
        if let Some(mark) = mark {
            control.execute(&what, &format!("comment on table {table} is '{mark}'"))?;
        }
        control.execute(&what, "commit")?;
        control.execute(&what, &format!("vacuum analyze {table}"))?;
    }
    Ok(())
}

pub(super) fn names(wanted: SysbenchTables) -> impl Iterator<Item = String> {
    (1..=wanted.count).map(|number| format!("sbtest{number}"))
}

fn filled_mark(wanted: SysbenchTables) -> String {
    format!("{MARK}: {} rows", wanted.size)
}

/// sysbench's definition.
fn definition(table: &str) -> String {
    format!(
        "create table {table}(id serial, k integer default '0' not null, c char(120) default '' not null, pad char(60) default '' not null, primary key (id))"
    )
}

fn look(control: &Control, wanted: SysbenchTables) -> Result<Vec<Existing>, ControlError> {
    let names: Vec<String> = names(wanted).collect();
    let rows = control.query(
        "looking for sysbench's tables",
        "select name, coalesce(obj_description(oid, 'pg_class'), ''), relkind::text \
         from unnest($1::text[]) as name join pg_class on oid = to_regclass(name)",
        &[&names],
    )?;
    let table = |row: &tokio_postgres::Row| Existing {
        name: row.get(0),
        mark: row.get(1),
        kind: kind(row.get(2)),
    };
    Ok(rows.iter().map(table).collect())
}

/// Somebody else's tables may be larger than asked for, not smaller: ids would miss.
fn check_size(control: &Control, wanted: SysbenchTables) -> Result<(), super::SetupError> {
    for table in names(wanted) {
        let sql = format!("select coalesce(max(id), 0)::bigint from {table}");
        let rows = control.query("reading the size of sysbench's tables", &sql, &[])?;
        let size = rows.first().map_or(0, |row| row.get::<_, i64>(0));
        if size < i64::from(wanted.size) {
            return Err(TablesError::TooSmall { table, size, wanted: wanted.size }.into());
        }
    }
    Ok(())
}

fn fill(
    control: &Control,
    what: &str,
    table: &str,
    size: u32,
    random: &mut Random,
    on_rows: &mut dyn FnMut(u64),
) -> Result<(), ControlError> {
    let statement = format!("copy {table}(k, c, pad) from stdin with (freeze on)");
    control.run(what, async {
        let mut sink = pin!(control.client().copy_in::<_, Bytes>(&statement).await?);
        let mut chunk = Vec::with_capacity(COPY_CHUNK_BYTES + 256);
        for row in 1..=size {
            let k = special(random, 1, i64::from(size));
            chunk.extend_from_slice(itoa::Buffer::new().format(k).as_bytes());
            chunk.push(b'\t');
            write_pattern(C_PATTERN.as_bytes(), random, &mut chunk);
            chunk.push(b'\t');
            write_pattern(PAD_PATTERN.as_bytes(), random, &mut chunk);
            chunk.push(b'\n');
            if chunk.len() >= COPY_CHUNK_BYTES || row == size {
                let full =
                    std::mem::replace(&mut chunk, Vec::with_capacity(COPY_CHUNK_BYTES + 256));
                sink.send(Bytes::from(full)).await?;
                on_rows(u64::from(row));
            }
        }
        sink.finish().await?;
        Ok(())
    })
}
