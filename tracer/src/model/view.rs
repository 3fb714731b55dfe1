//! Postgres's own view of an attached trace.

use serde::{Deserialize, Serialize};

/// What `pg_stat_activity` and `pg_stat_statements` told meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PostgresView {
    /// Time between two looks at `pg_stat_activity`.
    pub period_ns: u64,
    /// How often it was looked at.
    pub looks_count: u64,
    /// Active client sessions, by wait event and statement, most seen first.
    pub activity: Vec<Activity>,
    /// The statements that took most time, by `pg_stat_statements`.
    pub statements: Vec<Statement>,
    /// Why there are no statements; absent where there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_statements: Option<String>,
    /// The contended kernel locks, with what Postgres says of those that waited for them.
    pub locks: Vec<LockInView>,
}

/// Sessions that were seen doing the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// `LWLock/WALWrite`; absent when Postgres waited for nothing that it knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_event: Option<String>,
    /// As in `pg_stat_statements`; absent where Postgres computes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query_id: Option<String>,
    /// How often: sessions times looks.
    pub seen_count: u64,
}

/// A statement in the time of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// Its number, as text: JSON's numbers do not hold 64 bits.
    pub query_id: String,
    /// Its text, normalised by Postgres.
    pub query: String,
    /// Executions.
    pub calls_count: u64,
    /// Their time.
    pub total_ns: u64,
}

/// A kernel lock and what Postgres says of its waiters: by backend, not by wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockInView {
    /// The lock's class and name, as in `locks`.
    pub class: String,
    /// See `class`.
    pub name: String,
    /// What its waiting backends were seen doing most.
    pub activity: Activity,
    /// How often those backends were seen active in all.
    pub seen_count: u64,
}

impl Statement {
    /// What came since `earlier`. Statistics that were reset begin anew.
    pub fn since(self, earlier: &Statement) -> Statement {
        if self.calls_count < earlier.calls_count {
            return self;
        }
        Statement {
            calls_count: self.calls_count - earlier.calls_count,
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            ..self
        }
    }
}
