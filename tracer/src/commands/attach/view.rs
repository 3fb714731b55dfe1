//! `--dsn`: Postgres's own view beside the trace.

use std::time::Duration;

use super::AttachError;
use super::roles::Roles;
use super::server::Server;
use crate::analyse::view::{Sight, activity, join};
use crate::attach::ProcessTable;
use crate::cli::AttachArgs;
use crate::load::server::{Control, Sights, View, Viewing};
use crate::load::{ServerOptions, Target};
use crate::model::{Activity, PostgresView, Run, Warning};
use crate::signals::Interrupt;

/// The session, if one is wanted.
pub(super) fn open(args: &AttachArgs) -> Result<Option<View>, AttachError> {
    let Some(dsn) = &args.dsn else { return Ok(None) };
    let options = ServerOptions { dsn: Some(dsn.clone()), ..ServerOptions::default() };
    let target = Target::resolve(&options)?;
    // A signal ends the trace, and what Postgres says is read after that.
    let control = Control::connect(&target, &Interrupt::default())?;
    Ok(Some(View::open(control)?))
}

/// The session's backend is no part of the trace.
pub(super) fn leave_out(view: Option<&View>, roles: &mut Roles) {
    let Some(view) = view else { return };
    let processes = ProcessTable::read();
    let here = |server: &Server| {
        processes.children_by_own_pid(server.running.postmaster).get(&view.pid).copied()
    };
    let backends: Vec<u32> = roles.servers().iter().filter_map(here).collect();
    backends.into_iter().for_each(|pid| roles.leave_out(pid));
}

pub(super) fn start(view: Option<View>, period: Duration) -> Option<Viewing> {
    view.map(|view| view.start(period))
}

/// Puts into the run what was seen.
pub(super) fn add(run: &mut Run, view: &View, sights: &Sights, period: Duration, roles: &Roles) {
    let here = |own: u32| roles.pid_of_inner(own).unwrap_or(own);
    let seen: Vec<Sight> = sights
        .seen
        .iter()
        .map(|((pid, kind, event, query_id), seen_count)| {
            let wait_event = kind.as_ref().zip(event.as_ref());
            let activity = Activity {
                wait_event: wait_event.map(|(kind, event)| format!("{kind}/{event}")),
                query_id: query_id.map(|id| id.to_string()),
                seen_count: *seen_count,
            };
            (here(*pid), activity)
        })
        .collect();
    let (statements, no_statements) = match view.statements() {
        Ok(statements) => (statements, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    run.environment.postgres = Some(view.postgres.clone());
    run.warnings.extend(sights.failed.as_ref().map(|(count, why)| failed(*count, why)));
    run.postgres_view = Some(PostgresView {
        period_ns: u64::try_from(period.as_nanos()).unwrap_or(u64::MAX),
        looks_count: sights.looks_count,
        activity: activity(&seen),
        statements,
        no_statements,
        locks: join(&run.locks, &seen),
    });
}

fn failed(count: u64, why: &str) -> Warning {
    Warning {
        code: "view-incomplete".to_owned(),
        text: format!("{count} looks at pg_stat_activity failed, the last one: {why}"),
        remedy: Some("see whether the server was restarted, or the session was ended".to_owned()),
    }
}
