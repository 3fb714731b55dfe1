//! sysbench's OLTP workloads, as version 1.0.20 runs them against Postgres: the same statements in
//! the same order.

use std::fmt::Write as _;

use super::{PGBENCH, Protocol, Schema, Workload};

/// sysbench's tables `sbtest1` to `sbtestN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysbenchTables {
    /// How many (`--tables`).
    pub count: u32,
    /// Rows of each (`--table-size`).
    pub size: u32,
}

/// How ids are chosen (`--rand-type`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Three of four in the middle hundredth; sysbench 1.0's default.
    #[default]
    Special,
    /// A power law.
    Zipfian,
}

/// sysbench's options, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SysbenchOptions {
    /// The tables.
    pub tables: SysbenchTables,
    /// Rows of a range select (`--range-size`).
    pub range_size: u32,
    /// How ids are chosen.
    pub distribution: Distribution,
    /// Of the power law (`--rand-zipfian-exp`).
    pub zipfian_exponent: f64,
}

impl Default for SysbenchOptions {
    fn default() -> Self {
        Self {
            tables: SysbenchTables { count: 1, size: 10_000 },
            range_size: 100,
            distribution: Distribution::default(),
            zipfian_exponent: 0.8,
        }
    }
}

/// The patterns of sysbench's texts.
pub(in crate::load) const C_PATTERN: &str = "###########-###########-###########-###########-###########-###########-###########-###########-###########-###########";
pub(in crate::load) const PAD_PATTERN: &str =
    "###########-###########-###########-###########-###########";

/// Statements on one table, chosen anew for each group.
#[derive(Clone, Copy)]
enum Group {
    Points(u32),
    Range(&'static str),
    IndexUpdate,
    NonIndexUpdate,
    DeleteInsert,
}

const READS: [Group; 5] = [
    Group::Points(10),
    Group::Range("SELECT c FROM sbtest{n} WHERE id BETWEEN :id AND :last"),
    Group::Range("SELECT SUM(k) FROM sbtest{n} WHERE id BETWEEN :id AND :last"),
    Group::Range("SELECT c FROM sbtest{n} WHERE id BETWEEN :id AND :last ORDER BY c"),
    Group::Range("SELECT DISTINCT c FROM sbtest{n} WHERE id BETWEEN :id AND :last ORDER BY c"),
];
const WRITES: [Group; 3] = [Group::IndexUpdate, Group::NonIndexUpdate, Group::DeleteInsert];

/// The four workloads with sysbench's default options.
pub(super) fn workloads() -> Vec<Workload> {
    let names = ["oltp_point_select", "oltp_read_only", "oltp_read_write", "oltp_update_index"];
    names.map(|name| workload(name, &SysbenchOptions::default())).into()
}

impl Workload {
    /// The same with other options, where it is one of sysbench's.
    pub fn with_sysbench_options(&'static self, options: &SysbenchOptions) -> &'static Self {
        match self.schema {
            Schema::Sysbench(_) if *options != SysbenchOptions::default() => {
                // Made once a process, from its command line.
                Box::leak(Box::new(workload(self.name, options)))
            }
            _ => self,
        }
    }
}

fn workload(name: &'static str, options: &SysbenchOptions) -> Workload {
    let (groups, in_transaction, stresses): (Vec<Group>, bool, &str) = match name {
        "oltp_read_only" => (
            READS.into(),
            true,
            "the CPU in sorts and index scans, with many short statements in each transaction",
        ),
        "oltp_read_write" => (
            READS.into_iter().chain(WRITES).collect(),
            true,
            "the same with WAL, index changes and row locks in the middle of the tables",
        ),
        "oltp_update_index" => (
            vec![Group::IndexUpdate],
            false,
            "WAL flushes and a secondary index, one statement at a time",
        ),
        _ => (
            vec![Group::Points(1)],
            false,
            "sockets, wake-ups and the scheduler, as select-prepared",
        ),
    };
    Workload {
        name,
        usual_protocol: Protocol::Prepared,
        writes: groups.iter().any(|group| !matches!(group, Group::Points(_) | Group::Range(_))),
        script: Box::leak(script(&groups, in_transaction, options).into_boxed_str()),
        schema: Schema::Sysbench(options.tables),
        // Two clients that delete and insert the same row: sysbench ignores the loser's error too.
        tolerated: &["23505"],
        stresses,
        ..PGBENCH
    }
}

fn script(groups: &[Group], in_transaction: bool, options: &SysbenchOptions) -> String {
    let mut script = String::new();
    if in_transaction {
        script.push_str("BEGIN;\n");
    }
    for group in groups {
        add_group(&mut script, *group, options);
    }
    if in_transaction {
        script.push_str("COMMIT;\n");
    }
    script
}

/// A table's name is no parameter: each table has statements of its own, and a branch chooses.
fn add_group(script: &mut String, group: Group, options: &SysbenchOptions) {
    let count = options.tables.count;
    if count == 1 {
        return add_statements(script, group, 1, options);
    }
    add(script, &format!("\\set table random(1, {count})"));
    for table in 1..=count {
        let word = if table == 1 { "if" } else { "elif" };
        add(script, &format!("\\{word} :table = {table}"));
        add_statements(script, group, table, options);
    }
    add(script, "\\endif");
}

fn add_statements(script: &mut String, group: Group, table: u32, options: &SysbenchOptions) {
    let draw = |variable: &str| format!("\\set {variable} {}", distribution(options));
    match group {
        Group::Points(count) => {
            for _ in 0..count {
                add(script, &draw("id"));
                add(script, &format!("SELECT c FROM sbtest{table} WHERE id=:id;"));
            }
        }
        Group::Range(sql) => {
            add(script, &draw("id"));
            add(script, &format!("\\set last :id + {}", options.range_size.saturating_sub(1)));
            add(script, &format!("{};", sql.replace("{n}", &table.to_string())));
        }
        Group::IndexUpdate => {
            add(script, &draw("id"));
            add(script, &format!("UPDATE sbtest{table} SET k=k+1 WHERE id=:id;"));
        }
        Group::NonIndexUpdate => {
            add(script, &format!("\\setpattern c {C_PATTERN}"));
            add(script, &draw("id"));
            add(script, &format!("UPDATE sbtest{table} SET c=:c WHERE id=:id;"));
        }
        Group::DeleteInsert => {
            add(script, &draw("id"));
            add(script, &draw("k"));
            add(script, &format!("\\setpattern c {C_PATTERN}"));
            add(script, &format!("\\setpattern pad {PAD_PATTERN}"));
            add(script, &format!("DELETE FROM sbtest{table} WHERE id=:id;"));
            add(
                script,
                &format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (:id, :k, :c, :pad);"),
            );
        }
    }
}

fn distribution(options: &SysbenchOptions) -> String {
    let size = options.tables.size;
    match options.distribution {
        Distribution::Uniform => format!("random(1, {size})"),
        Distribution::Special => format!("sysbench_special(1, {size})"),
        Distribution::Zipfian => {
            format!("sysbench_zipfian(1, {size}, {:?})", options.zipfian_exponent)
        }
    }
}

fn add(script: &mut String, line: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(script, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(name: &'static str, options: &SysbenchOptions) -> Vec<String> {
        let script = workload(name, options).script;
        script.lines().filter(|line| !line.starts_with('\\')).map(str::to_owned).collect()
    }

    #[test]
    fn transactions_have_as_many_statements_as_sysbench_s() {
        let options = SysbenchOptions::default();
        for (name, count) in [
            ("oltp_point_select", 1),
            ("oltp_read_only", 16),
            ("oltp_read_write", 20),
            ("oltp_update_index", 1),
        ] {
            assert_eq!(statements(name, &options).len(), count, "{name}");
        }
        let write = statements("oltp_read_write", &options);
        assert_eq!((write[0].as_str(), write[19].as_str()), ("BEGIN;", "COMMIT;"));
        assert!(write[17].starts_with("DELETE") && write[18].starts_with("INSERT"), "{write:?}");
    }

    #[test]
    fn options_are_in_the_script() {
        let options = SysbenchOptions {
            tables: SysbenchTables { count: 2, size: 500 },
            range_size: 7,
            distribution: Distribution::Zipfian,
            zipfian_exponent: 1.0,
        };
        let script = workload("oltp_read_only", &options).script;
        assert!(script.contains("\\set table random(1, 2)\n\\if :table = 1\n"), "{script}");
        assert!(script.contains("\\set id sysbench_zipfian(1, 500, 1.0)\n\\set last :id + 6\n"));
        assert!(script.contains("SUM(k) FROM sbtest2 WHERE"), "{script}");
    }
}
