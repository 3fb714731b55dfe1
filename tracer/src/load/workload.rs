//! The built-in workloads, as data: pgbench's scripts, word for word.

use std::fmt;
use std::str::FromStr;

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

/// One line of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `\set variable random(low, high)`, where `high` may count per unit of scale.
    Random {
        /// The variable's name.
        variable: &'static str,
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: High,
    },
    /// A statement; `:name` stands for a variable.
    Sql(&'static str),
}

/// Upper end of a random range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum High {
    /// The value itself.
    Fixed(i64),
    /// The value times the scale factor.
    PerScale(i64),
}

impl High {
    /// The largest value at `scale`.
    pub fn at(self, scale: u32) -> i64 {
        match self {
            Self::Fixed(value) => value,
            Self::PerScale(value) => value * i64::from(scale),
        }
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
    /// What a transaction does.
    pub script: &'static [Command],
}

const AID: Command = Command::Random { variable: "aid", low: 1, high: High::PerScale(100_000) };
const BID: Command = Command::Random { variable: "bid", low: 1, high: High::PerScale(1) };
const TID: Command = Command::Random { variable: "tid", low: 1, high: High::PerScale(10) };
const DELTA: Command = Command::Random { variable: "delta", low: -5000, high: High::Fixed(5000) };

const UPDATE_ACCOUNTS: Command =
    Command::Sql("UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;");
const SELECT_ACCOUNTS: Command =
    Command::Sql("SELECT abalance FROM pgbench_accounts WHERE aid = :aid;");
const INSERT_HISTORY: Command = Command::Sql(
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);",
);

const SELECT_ONLY: &[Command] = &[AID, SELECT_ACCOUNTS];
const SIMPLE_UPDATE: &[Command] = &[
    AID,
    BID,
    TID,
    DELTA,
    Command::Sql("BEGIN;"),
    UPDATE_ACCOUNTS,
    SELECT_ACCOUNTS,
    INSERT_HISTORY,
    Command::Sql("END;"),
];
const TPCB_LIKE: &[Command] = &[
    AID,
    BID,
    TID,
    DELTA,
    Command::Sql("BEGIN;"),
    UPDATE_ACCOUNTS,
    SELECT_ACCOUNTS,
    Command::Sql("UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;"),
    Command::Sql("UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;"),
    INSERT_HISTORY,
    Command::Sql("END;"),
];

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
