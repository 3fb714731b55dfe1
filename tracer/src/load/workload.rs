//! The built-in workloads: pgbench's scripts, word for word.

use std::fmt;
use std::str::FromStr;

use super::script::ScriptSource;

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

/// A named script.
#[derive(Debug, PartialEq, Eq)]
pub struct Workload {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The protocol, where the name fixes it.
    pub fixed_protocol: Option<Protocol>,
    /// Whether the script writes.
    pub writes: bool,
    /// pgbench's text.
    pub script: &'static str,
}

const SELECT_ONLY: &str = "\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
";

const SIMPLE_UPDATE: &str = "\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

const TPCB_LIKE: &str = "\\set aid random(1, 100000 * :scale)
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

/// Every built-in workload.
pub const WORKLOADS: &[Workload] = &[
    select_only("select-prepared", Protocol::Prepared),
    select_only("select-simple", Protocol::Simple),
    select_only("select-extended", Protocol::Extended),
    Workload { name: "tpcb-like", fixed_protocol: None, writes: true, script: TPCB_LIKE },
    Workload { name: "simple-update", fixed_protocol: None, writes: true, script: SIMPLE_UPDATE },
];

const fn select_only(name: &'static str, protocol: Protocol) -> Workload {
    Workload { name, fixed_protocol: Some(protocol), writes: false, script: SELECT_ONLY }
}

impl Workload {
    /// pgbench's default script.
    pub const TPCB_LIKE: &'static Self = &WORKLOADS[3];
    /// pgbench's `-N`.
    pub const SIMPLE_UPDATE: &'static Self = &WORKLOADS[4];

    /// pgbench's `-S` with `-M protocol`.
    pub fn select(protocol: Protocol) -> &'static Self {
        match protocol {
            Protocol::Prepared => &WORKLOADS[0],
            Protocol::Simple => &WORKLOADS[1],
            Protocol::Extended => &WORKLOADS[2],
        }
    }

    /// Its script, with this weight among others.
    pub fn source(&self, weight: u32) -> ScriptSource {
        ScriptSource { name: self.name.to_owned(), weight, text: self.script.to_owned() }
    }

    /// The protocol to use when the user asked for `requested` (`-M`), pgbench's default otherwise.
    pub fn protocol(&self, requested: Option<Protocol>) -> Result<Protocol, ProtocolFixed> {
        match (self.fixed_protocol, requested) {
            (None, requested) => Ok(requested.unwrap_or(Protocol::Simple)),
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
    WORKLOADS.iter().map(|workload| workload.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for &'static Workload {
    type Err = UnknownWorkload;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        WORKLOADS
            .iter()
            .find(|workload| workload.name == name)
            .ok_or_else(|| UnknownWorkload(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_list_the_known() {
        let error = <&Workload>::from_str("tpcc").unwrap_err().to_string();
        for workload in WORKLOADS {
            assert!(error.contains(workload.name), "{error}");
        }
    }

    #[test]
    fn every_script_parses() {
        for workload in WORKLOADS {
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
