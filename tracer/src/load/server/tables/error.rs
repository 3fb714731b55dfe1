//! Why tables cannot be used as asked.

/// The tables are not usable as asked.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TablesError {
    /// `--no-init` and something is missing.
    #[error(
        "{} and --no-init forbids making what is missing; leave --no-init away, or run `lockscope init` first",
        verb(.0, "is missing", "are missing")
    )]
    Missing(Vec<String>),
    /// Some tables of somebody else are in the way.
    #[error(
        "{} and {} not made by a run of lockscope, while {}; --force-init drops what is there and makes all anew",
        verb(.existing, "exists", "exist"),
        if .existing.len() == 1 { "was" } else { "were" },
        verb(.missing, "is missing", "are missing")
    )]
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
    /// Something else has the name of a table.
    #[error(
        "{name} is a {kind}, which lockscope does not drop to make a table in its place; \
         drop it yourself (drop {kind} {name}), or use another database or schema"
    )]
    NoTable {
        /// Its name.
        name: String,
        /// What it is, as DROP calls it.
        kind: &'static str,
    },
}

fn verb(names: &[String], one: &str, many: &str) -> String {
    format!("{} {}", names.join(", "), if names.len() == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_exists_and_several_exist() {
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let incomplete = |existing: &[&str], missing: &[&str]| {
            let (existing, missing) = (names(existing), names(missing));
            TablesError::Incomplete { existing, missing }.to_string()
        };
        let one = incomplete(&["a"], &["b", "c"]);
        assert!(one.starts_with("a exists and was not made by"), "{one}");
        assert!(one.contains("while b, c are missing"), "{one}");
        let two = incomplete(&["a", "b"], &["c"]);
        assert!(two.starts_with("a, b exist and were not"), "{two}");
        assert!(two.contains("while c is missing"), "{two}");
        assert!(TablesError::Missing(names(&["a"])).to_string().starts_with("a is missing and"));
    }
}
