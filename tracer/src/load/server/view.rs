//! Postgres's own view of what its backends do, sampled at a low rate in a session that only reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::control::{Control, ControlError};
use crate::model::{Postgres, Statement};

/// The session changes nothing, waits for nobody's lock for long, and says whose it is.
const SESSION: &str = "set default_transaction_read_only = on; set statement_timeout = '5s'; \
                       set lock_timeout = '1s'; set application_name = 'lockscope'";
/// Stands in the session's own statements, so that they can be left out.
const MARK: &str = "/* lockscope looks */";
/// Statements that are told.
const STATEMENTS: usize = 20;
/// How often the end is looked for.
const POLL: Duration = Duration::from_millis(20);

/// What a backend was seen doing: pid (its own), wait event's type and name, query id.
pub type Seen = (u32, Option<String>, Option<String>, Option<i64>);

/// A session that looks.
#[derive(Debug)]
pub struct View {
    control: Control,
    /// Its backend's own pid.
    pub pid: u32,
    /// The server that it is in.
    pub postgres: Postgres,
    /// `query_id` is in `pg_stat_activity` since 14.
    has_query_ids: bool,
    /// The statements when it began to look.
    before: Result<BTreeMap<i64, Statement>, String>,
}

/// It looks once in a while, until it is ended.
#[derive(Debug)]
pub struct Viewing {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(View, Sights)>,
}

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sights {
    /// How often it looked.
    pub looks_count: u64,
    /// How often looking failed, and the last reason.
    pub failed: Option<(u64, String)>,
    /// How often each was seen.
    pub seen: BTreeMap<Seen, u64>,
}

impl View {
    /// Prepares the session.
    ///
    /// # Errors
    /// The server refuses.
    pub fn open(control: Control) -> Result<View, ControlError> {
        control.execute("preparing the session that only reads", SESSION)?;
        let rows = control.query("asking for the session's pid", "select pg_backend_pid()", &[])?;
        let pid = rows.first().map_or(0, |row| row.get::<_, i32>(0)).cast_unsigned();
        let postgres = control.describe_server()?;
        let has_query_ids = control.server_version()? >= 140_000;
        let before = Err("nobody has looked yet".to_owned());
        Ok(View { control, pid, postgres, has_query_ids, before })
    }

    /// Begins to look every `period`; what `pg_stat_statements` holds by now is of before.
    pub fn start(mut self, period: Duration) -> Viewing {
        self.before = statements(&self.control);
        let stop = Arc::new(AtomicBool::new(false));
        let wanted = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut sights = Sights::default();
            let mut next = Instant::now();
            while !wanted.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    self.look(&mut sights);
                    next += period;
                }
                thread::sleep(POLL);
            }
            (self, sights)
        });
        Viewing { stop, thread }
    }

    /// Who is connected, by the name that applications give themselves, most sessions first.
    ///
    /// # Errors
    /// The server refuses.
    pub fn applications(&self) -> Result<Vec<(String, u64)>, ControlError> {
        let rows = self.control.query(
            "looking for applications in pg_stat_activity",
            "select coalesce(nullif(application_name, ''), '(no name)'), count(*) \
             from pg_stat_activity \
             where backend_type = 'client backend' and pid <> pg_backend_pid() \
             group by 1 order by 2 desc, 1 limit 20",
            &[],
        )?;
        let count = |row: &tokio_postgres::Row| u64::try_from(row.get::<_, i64>(1)).unwrap_or(0);
        Ok(rows.iter().map(|row| (row.get(0), count(row))).collect())
    }

    fn look(&self, sights: &mut Sights) {
        let query_id = if self.has_query_ids { "query_id" } else { "null::bigint" };
        let sql = format!(
            "select {MARK} pid, wait_event_type, wait_event, {query_id} from pg_stat_activity \
             where state = 'active' and backend_type = 'client backend' and pid <> pg_backend_pid()"
        );
        match self.control.query("looking at pg_stat_activity", &sql, &[]) {
            Ok(rows) => {
                sights.looks_count += 1;
                for row in rows {
                    let pid = row.get::<_, i32>(0).cast_unsigned();
                    let seen = (pid, row.get(1), row.get(2), row.get(3));
                    *sights.seen.entry(seen).or_default() += 1;
                }
            }
            Err(error) => {
                let count = sights.failed.as_ref().map_or(0, |(count, _)| *count);
                sights.failed = Some((count + 1, error.to_string()));
            }
        }
    }

    /// What the statements took since the begin, most time first; or why that is not known.
    ///
    /// # Errors
    /// The words of the reason.
    pub fn statements(&self) -> Result<Vec<Statement>, String> {
        let before = self.before.as_ref().map_err(Clone::clone)?;
        let now = statements(&self.control)?;
        let mut since: Vec<Statement> = now
            .into_iter()
            .map(|(id, statement)| match before.get(&id) {
                Some(earlier) => statement.since(earlier),
                None => statement,
            })
            .filter(|statement| statement.calls_count > 0)
            .collect();
        since.sort_by_key(|statement| std::cmp::Reverse(statement.total_ns));
        since.truncate(STATEMENTS);
        Ok(since)
    }
}

impl Viewing {
    /// Looks no more.
    pub fn end(self) -> Option<(View, Sights)> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok()
    }
}

/// Of this session's database and all others, by query id; or why there are none.
fn statements(control: &Control) -> Result<BTreeMap<i64, Statement>, String> {
    let sql = format!(
        "select {MARK} n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace \
         where e.extname = 'pg_stat_statements'"
    );
    let found = control.query("looking for pg_stat_statements", &sql, &[]);
    let found = found.map_err(|error| error.to_string())?;
    let Some(schema) = found.first().map(|row| row.get::<_, String>(0)) else {
        return Err("the extension pg_stat_statements is not in this database".to_owned());
    };
    // Names of schemas hold what they like.
    let schema = schema.replace('"', "\"\"");
    let sql = format!(
        "select {MARK} queryid, min(query), sum(calls)::bigint, (sum(total_exec_time) * 1e6)::bigint \
         from \"{schema}\".pg_stat_statements where queryid is not null \
         and strpos(query, $1) = 0 group by queryid"
    );
    let rows = control.query("reading pg_stat_statements", &sql, &[&MARK]);
    let rows = rows.map_err(|error| error.to_string())?;
    let statement = |row: &tokio_postgres::Row| {
        let count = |index| u64::try_from(row.get::<_, i64>(index)).unwrap_or(0);
        let id: i64 = row.get(0);
        let text: Option<String> = row.get(1);
        let statement = Statement {
            query_id: id.to_string(),
            query: text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" "),
            calls_count: count(2),
            total_ns: count(3),
        };
        (id, statement)
    };
    Ok(rows.iter().map(statement).collect())
}
