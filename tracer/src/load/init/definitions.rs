//! The definitions of pgbench's tables, word for word as `pgbench -i` writes them.

use super::options::{InitOptions, PartitionMethod, Partitions};

/// The four tables, as DROP and TRUNCATE list them.
pub(super) const TABLES: &str =
    "pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";

/// From here on account numbers need 64 bits.
const BIG_SCALE: u32 = 20_000;

/// From here on a partitioned table cannot be unlogged, its partitions can.
const NO_UNLOGGED_PARENTS_VERSION: u32 = 180_000;

/// The statements that create the tables on a server of version `server_version`
/// (`server_version_num`).
pub(super) fn create_tables(options: &InitOptions, server_version: u32) -> Vec<String> {
    let aid = if options.scale >= BIG_SCALE { "bigint" } else { "int" };
    let tables = [
        (
            "pgbench_history",
            format!("tid int,bid int,aid {aid},delta int,mtime timestamp,filler char(22)"),
        ),
        ("pgbench_tellers", "tid int not null,bid int,tbalance int,filler char(84)".to_owned()),
        ("pgbench_accounts", format!("aid {aid} not null,bid int,abalance int,filler char(84)")),
        ("pgbench_branches", "bid int not null,bbalance int,filler char(88)".to_owned()),
    ];
    let mut statements = Vec::new();
    for (table, columns) in tables {
        let partitions = options.partitions.filter(|_| table == "pgbench_accounts");
        let may_be_unlogged = partitions.is_none() || server_version < NO_UNLOGGED_PARENTS_VERSION;
        let unlogged = if options.unlogged && may_be_unlogged { " unlogged" } else { "" };
        let storage = match (partitions, table) {
            (Some(partitions), _) => format!(" partition by {} (aid)", partitions.method.keyword()),
            // pgbench leaves the history's fill factor alone.
            (None, "pgbench_history") => String::new(),
            (None, _) => format!(" with (fillfactor={})", options.fillfactor),
        };
        let tablespace = clause(" tablespace", options.tablespace.as_deref());
        statements.push(format!("create{unlogged} table {table}({columns}){storage}{tablespace}"));
    }
    statements
        .extend(options.partitions.into_iter().flat_map(|all| create_partitions(options, all)));
    statements
}

fn create_partitions(options: &InitOptions, all: Partitions) -> Vec<String> {
    let unlogged = if options.unlogged { " unlogged" } else { "" };
    let size = options.account_count().div_ceil(u64::from(all.count));
    (0..all.count)
        .map(|part| {
            let values = match all.method {
                PartitionMethod::Range => range(part, all.count, size),
                PartitionMethod::Hash => format!("with (modulus {}, remainder {part})", all.count),
            };
            format!(
                "create{unlogged} table pgbench_accounts_{} partition of pgbench_accounts for values {values} with (fillfactor={})",
                part + 1,
                options.fillfactor
            )
        })
        .collect()
}

/// The first and the last partition are open at their ends.
fn range(part: u32, count: u32, size: u64) -> String {
    let bound = |part: u32| u64::from(part) * size + 1;
    let from = if part == 0 { "minvalue".to_owned() } else { bound(part).to_string() };
    let to = if part + 1 == count { "maxvalue".to_owned() } else { bound(part + 1).to_string() };
    format!("from ({from}) to ({to})")
}

/// The statements that make the primary keys.
pub(super) fn primary_keys(options: &InitOptions) -> Vec<String> {
    let tablespace = clause(" using index tablespace", options.index_tablespace.as_deref());
    [("pgbench_branches", "bid"), ("pgbench_tellers", "tid"), ("pgbench_accounts", "aid")]
        .map(|(table, key)| format!("alter table {table} add primary key ({key}){tablespace}"))
        .into()
}

/// The statements that make the foreign keys.
pub(super) fn foreign_keys() -> Vec<String> {
    [
        ("pgbench_tellers", "bid", "pgbench_branches"),
        ("pgbench_accounts", "bid", "pgbench_branches"),
        ("pgbench_history", "bid", "pgbench_branches"),
        ("pgbench_history", "tid", "pgbench_tellers"),
        ("pgbench_history", "aid", "pgbench_accounts"),
    ]
    .map(|(table, key, referenced)| {
        format!("alter table {table} add constraint {table}_{key}_fkey foreign key ({key}) references {referenced}")
    })
    .into()
}

/// The statements that vacuum the tables.
pub(super) fn vacuum() -> Vec<String> {
    ["pgbench_branches", "pgbench_tellers", "pgbench_accounts", "pgbench_history"]
        .map(|table| format!("vacuum analyze {table}"))
        .into()
}

/// `keyword "name"`, or nothing.
fn clause(keyword: &str, name: Option<&str>) -> String {
    name.map(|name| format!("{keyword} \"{}\"", name.replace('"', "\"\""))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_scales_have_large_account_numbers() {
        let at = |scale| create_tables(&InitOptions::with_scale(scale), 150_000);
        assert!(at(BIG_SCALE - 1)[2].contains("aid int "));
        assert!(at(BIG_SCALE)[0].contains("aid bigint"));
    }

    #[test]
    fn ranges_meet_and_are_open_at_the_ends() {
        let partitions = Some(Partitions { count: 3, method: PartitionMethod::Range });
        let options = InitOptions { partitions, ..InitOptions::with_scale(1) };
        let statements = create_tables(&options, 150_000);
        assert!(statements[2].ends_with("partition by range (aid)"), "{}", statements[2]);
        let bounds =
            ["from (minvalue) to (33335)", "from (33335) to (66669)", "from (66669) to (maxvalue)"];
        for (statement, bounds) in statements[4..].iter().zip(bounds) {
            assert!(statement.contains(bounds), "{statement}");
        }
    }

    #[test]
    fn only_older_servers_have_unlogged_partitioned_tables() {
        let partitions = Some(Partitions { count: 1, method: PartitionMethod::Hash });
        let options = InitOptions { partitions, unlogged: true, ..InitOptions::with_scale(1) };
        assert!(create_tables(&options, 170_000)[2].starts_with("create unlogged table"));
        let newer = create_tables(&options, 180_000);
        assert!(newer[2].starts_with("create table pgbench_accounts("), "{}", newer[2]);
        assert!(newer[4].starts_with("create unlogged table pgbench_accounts_1"), "{}", newer[4]);
    }

    #[test]
    fn names_of_tablespaces_are_quoted() {
        let name = Some("a\"b".to_owned());
        let options = InitOptions {
            tablespace: name.clone(),
            index_tablespace: name,
            ..InitOptions::with_scale(1)
        };
        assert!(create_tables(&options, 150_000)[0].ends_with(" tablespace \"a\"\"b\""));
        assert!(primary_keys(&options)[0].ends_with(" using index tablespace \"a\"\"b\""));
    }
}
