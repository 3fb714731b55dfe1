//! What is there of pgbench's tables.

use super::{Control, ControlError, MARK, TABLES, filled_mark};

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Existing {
    pub(super) tables: Vec<String>,
    /// All of them carry lockscope's mark.
    pub(super) ours: bool,
    /// All of them were filled to the end; known for ours only.
    pub(super) filled: bool,
    /// Number of branches; absent without the table.
    pub(super) scale: Option<u32>,
    /// One that is no table, and what it is.
    pub(super) no_table: Option<(String, &'static str)>,
}

pub(super) fn look(control: &Control) -> Result<Existing, ControlError> {
    let names: Vec<&str> = TABLES.to_vec();
    let rows = control.query(
        "looking for pgbench's tables",
        "select name, obj_description(oid, 'pg_class'), relkind::text \
         from unnest($1::text[]) as name join pg_class on oid = to_regclass(name)",
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
    let no_table = rows.iter().find_map(|row| Some((row.get(0), kind(row.get(2))?)));
    Ok(Existing {
        ours: !marks.is_empty() && marks.iter().all(|mark| mark.starts_with(MARK)),
        filled: marks.iter().all(|mark| scale.is_some_and(|scale| *mark == filled_mark(scale))),
        tables,
        scale,
        no_table,
    })
}

/// What a `relkind` that is no table's stands for, as DROP calls it.
pub(in crate::load::server) fn kind(relkind: &str) -> Option<&'static str> {
    match relkind {
        "r" | "p" => None,
        "v" => Some("view"),
        "m" => Some("materialized view"),
        "f" => Some("foreign table"),
        "S" => Some("sequence"),
        "i" | "I" => Some("index"),
        _ => Some("type"),
    }
}
