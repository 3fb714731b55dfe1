//! The built-in workloads: pgbench's scripts, word for word, sysbench's, and lockscope's own.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::script::ScriptSource;

mod function;
mod sysbench;

pub use function::FUNCTION;
pub(in crate::load) use sysbench::{C_PATTERN, PAD_PATTERN};
pub use sysbench::{Distribution, SysbenchOptions, SysbenchTables};

/// How a statement travels to the server; the letters are pgbench's `-M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Protocol {
    /// One Query message with the values in its text.
    Simple,
    /// Parse, Bind, Describe, Execute and Sync for every execution.
    Extended,
    /// Parse once per connection, then Bind, Describe, Execute and Sync.
    Prepared,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        })
    }
}

/// What a workload needs in the database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schema {
    /// pgbench's tables.
    #[default]
    Pgbench,
    /// pgbench's tables, and the function of the `plpgsql` workload.
    PgbenchWithFunction,
    /// sysbench's tables.
    Sysbench(SysbenchTables),
}

/// A named script.
#[derive(Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The protocol, where the name fixes it.
    pub fixed_protocol: Option<Protocol>,
    /// The protocol when nobody asks for one.
    pub usual_protocol: Protocol,
    /// Whether the script writes.
    pub writes: bool,
    /// The script, in pgbench's language.
    pub script: &'static str,
    /// What must be there.
    pub schema: Schema,
    /// Scale of new tables when nobody asks for one.
    pub usual_scale: u32,
    /// Settings of a throw-away server that differ from Postgres's defaults.
    pub server_settings: &'static [(&'static str, &'static str)],
    /// SQLSTATEs of failures that concurrent clients cannot avoid; such a transaction counts as failed
    /// and its client goes on.
    pub tolerated: &'static [&'static str],
    /// What it puts under stress, for the list of workloads.
    pub stresses: &'static str,
}

const SELECT_ONLY: &str = "\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
";

const SIMPLE_UPDATE_SCRIPT: &str = "\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

const TPCB_LIKE_SCRIPT: &str = "\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

/// What the workloads of pgbench have in common.
const PGBENCH: Workload = Workload {
    name: "",
    fixed_protocol: None,
    usual_protocol: Protocol::Simple,
    writes: false,
    script: "",
    schema: Schema::Pgbench,
    usual_scale: 1,
    server_settings: &[],
    tolerated: &[],
    stresses: "",
};

const fn select_only(name: &'static str, protocol: Protocol, stresses: &'static str) -> Workload {
    Workload { name, fixed_protocol: Some(protocol), script: SELECT_ONLY, stresses, ..PGBENCH }
}

static SELECT_PREPARED: Workload = select_only(
    "select-prepared",
    Protocol::Prepared,
    "sockets, wake-ups and the scheduler: as little as possible happens in the server",
);
static SELECT_SIMPLE: Workload = select_only(
    "select-simple",
    Protocol::Simple,
    "the same with parsing and planning in every transaction; compare with select-prepared",
);
static SELECT_EXTENDED: Workload = select_only(
    "select-extended",
    Protocol::Extended,
    "the same with a Parse message in every transaction",
);
static TPCB_LIKE: Workload = Workload {
    name: "tpcb-like",
    writes: true,
    script: TPCB_LIKE_SCRIPT,
    stresses: "WAL and its flushes; with fewer branches (-s) than clients (-c), row locks on pgbench_branches",
    ..PGBENCH
};
static SIMPLE_UPDATE: Workload = Workload {
    name: "simple-update",
    writes: true,
    script: SIMPLE_UPDATE_SCRIPT,
    stresses: "WAL and its flushes, without the hot rows of tpcb-like",
    ..PGBENCH
};
static BUFFERED_WRITE: Workload = Workload {
    name: "buffered-write",
    writes: true,
    script: TPCB_LIKE_SCRIPT,
    usual_scale: 50,
    server_settings: &[("checkpoint_timeout", "30s"), ("max_wal_size", "256MB")],
    stresses: "file system, block layer and disk: tpcb-like with more data than shared_buffers and, on a throw-away server, frequent checkpoints; choose the disk with --data-dir",
    ..PGBENCH
};
static PLPGSQL: Workload = Workload {
    name: "plpgsql",
    usual_protocol: Protocol::Prepared,
    script: function::SCRIPT,
    schema: Schema::PgbenchWithFunction,
    stresses: "the CPU and its caches inside the backend: a function that loops over cheap expressions and single-row selects; hardly any kernel work",
    ..PGBENCH
};

/// Every built-in workload.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    static SYSBENCH: LazyLock<Vec<Workload>> = LazyLock::new(sysbench::workloads);
    [
        &SELECT_PREPARED,
        &SELECT_SIMPLE,
        &SELECT_EXTENDED,
        &TPCB_LIKE,
        &SIMPLE_UPDATE,
        &BUFFERED_WRITE,
        &PLPGSQL,
    ]
    .into_iter()
    .chain(SYSBENCH.iter())
}

impl Workload {
    /// pgbench's default script.
    pub const TPCB_LIKE: &'static Self = &TPCB_LIKE;
    /// pgbench's `-N`.
    pub const SIMPLE_UPDATE: &'static Self = &SIMPLE_UPDATE;

    /// pgbench's `-S` with `-M protocol`.
    pub fn select(protocol: Protocol) -> &'static Self {
        match protocol {
            Protocol::Prepared => &SELECT_PREPARED,
            Protocol::Simple => &SELECT_SIMPLE,
            Protocol::Extended => &SELECT_EXTENDED,
        }
    }

    /// Its script, with this weight among others.
    pub fn source(&self, weight: u32) -> ScriptSource {
        ScriptSource { name: self.name.to_owned(), weight, text: self.script.to_owned() }
    }

    /// The protocol to use when the user asked for `requested` (`-M`), else the usual one.
    pub fn protocol(&self, requested: Option<Protocol>) -> Result<Protocol, ProtocolFixed> {
        match (self.fixed_protocol, requested) {
            (None, requested) => Ok(requested.unwrap_or(self.usual_protocol)),
            (Some(fixed), Some(requested)) if fixed != requested => {
                Err(ProtocolFixed { workload: self.name, fixed, requested })
            }
            (Some(fixed), _) => Ok(fixed),
        }
    }
}

/// `-M` contradicts the workload's name.
#[derive(Debug, thiserror::Error)]
#[error(
    "workload `{workload}` uses the {fixed} protocol by its name, but -M asks for {requested}; \
     leave -M away, or use `-S -M {requested}`"
)]
pub struct ProtocolFixed {
    workload: &'static str,
    fixed: Protocol,
    requested: Protocol,
}

/// No such workload.
#[derive(Debug, thiserror::Error)]
#[error("unknown workload `{0}`; known are {known}", known = known_names())]
pub struct UnknownWorkload(String);

fn known_names() -> String {
    all().map(|workload| workload.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for &'static Workload {
    type Err = UnknownWorkload;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        all().find(|workload| workload.name == name).ok_or_else(|| UnknownWorkload(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_list_the_known() {
        let error = <&Workload>::from_str("tpcc").unwrap_err().to_string();
        for workload in all() {
            assert!(error.contains(workload.name), "{error}");
        }
    }

    #[test]
    fn every_script_parses() {
        for workload in all() {
            let options = super::super::script::ParseOptions::default();
            super::super::script::parse(workload.script, workload.name, options).unwrap();
        }
    }

    #[test]
    fn select_finds_the_workload_of_its_protocol() {
        for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
            let workload = Workload::select(protocol);
            assert_eq!(workload.fixed_protocol, Some(protocol));
            assert_eq!(workload.name, format!("select-{protocol}"));
        }
    }

    #[test]
    fn a_name_that_fixes_the_protocol_refuses_another() {
        let workload = Workload::select(Protocol::Prepared);
        assert_eq!(workload.protocol(None).unwrap(), Protocol::Prepared);
        assert_eq!(workload.protocol(Some(Protocol::Prepared)).unwrap(), Protocol::Prepared);
        let error = workload.protocol(Some(Protocol::Simple)).unwrap_err().to_string();
        assert!(error.contains("-S -M simple"), "{error}");
    }

    #[test]
    fn the_others_follow_pgbench_s_default_or_the_request() {
        let workload = <&Workload>::from_str("tpcb-like").unwrap();
        assert_eq!(workload.protocol(None).unwrap(), Protocol::Simple);
        assert_eq!(workload.protocol(Some(Protocol::Extended)).unwrap(), Protocol::Extended);
    }
}
