//! The trace itself: follows the time, the newcomers and the command until one of them ends it.

use std::time::Duration;

use lockscope_ebpf::Side;

use super::AttachError;
use super::client::Client;
use super::outcome::{Outcome, report};
use super::roles::Roles;
use super::view;
use crate::analyse::units;
use crate::attach::pump::Event;
use crate::cli::AttachArgs;
use crate::clock::monotonic_ns;
use crate::commands::Exit;
use crate::commands::output::{OutputFile, say};
use crate::filter::Filter;
use crate::kernel::environment::StealClock;
use crate::load::server::{View, Viewing};
use crate::model::{Interval, Warning};
use crate::session::Session;
use crate::signals::Interrupt;

/// Longest sleep between two looks at the samples.
const TICK_NS: u64 = 100_000_000;
/// A server that is started again is waited for this long.
const PATIENCE_NS: u64 = 5_000_000_000;

/// An attached trace.
pub(super) struct Trace<'a> {
    args: &'a AttachArgs,
    filter: Filter,
    session: Session,
    roles: Roles,
    warnings: Vec<Warning>,
    /// Clients' threads that were found after the trace had begun.
    late_clients_count: u64,
    /// How often a server was started again.
    restarts_count: u64,
    intervals: Vec<Interval>,
    start_ns: u64,
    interval_began_ns: u64,
    /// When nobody was left to trace.
    gone_since_ns: Option<u64>,
}

/// What ended it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Time,
    Signal,
    Command { at_ns: u64 },
    Target { at_ns: u64 },
}

impl<'a> Trace<'a> {
    pub(super) fn new(
        args: &'a AttachArgs,
        filter: Filter,
        session: Session,
        roles: Roles,
        warnings: Vec<Warning>,
    ) -> Trace<'a> {
        Trace {
            args,
            filter,
            session,
            roles,
            warnings,
            late_clients_count: 0,
            restarts_count: 0,
            intervals: Vec::new(),
            start_ns: 0,
            interval_began_ns: 0,
            gone_since_ns: None,
        }
    }

    pub(super) fn follow(
        mut self,
        interrupt: &Interrupt,
        client: Client,
        view: Option<View>,
        output: Option<OutputFile>,
    ) -> Result<Exit, AttachError> {
        let steal = StealClock::start();
        // Nobody's transactions are counted here, so the cost of tracing cannot be told from them.
        self.start_ns = self.session.begin(&self.roles, None, false)?;
        self.interval_began_ns = self.start_ns;
        let started_at = since(self.start_ns).to_string();
        let viewing = view::start(view, self.args.view_interval);
        let mut client = client.release(self.start_ns)?;
        let end = self.until_end(interrupt, &mut client)?;
        self.session.stop(&self.roles)?;
        let stopped_ns = monotonic_ns();
        let steal_ns = steal.elapsed_ns();
        let viewed = viewing.and_then(Viewing::end);
        // The command goes on when the time is over; its end is waited for, its code is the result.
        let exit = client.wait()?;
        if matches!(end, End::Command { .. }) {
            client.hear_rest();
        }
        let end_ns = match end {
            End::Command { at_ns } => at_ns,
            _ => stopped_ns,
        };
        let mut warnings = self.warnings;
        if let End::Target { at_ns } = end {
            warnings.push(target_ended(at_ns - self.start_ns));
        }
        warnings.extend(late_clients(self.late_clients_count));
        warnings.extend(restarted(self.restarts_count));
        let ended_early = end == End::Signal || matches!(end, End::Target { .. });
        let by_user = !self.args.client.is_empty() && interrupt.is_set();
        let outcome = Outcome {
            args: self.args,
            started_at,
            start_ns: self.start_ns,
            duration_ns: end_ns.saturating_sub(self.start_ns),
            steal_ns,
            interrupted: by_user || (self.args.time.is_some() && ended_early),
            intervals: self.intervals,
            warnings,
            viewed,
            filter: self.filter,
            roles: self.roles,
        };
        let findings = self.session.finish()?;
        report(outcome, &findings, &client, output)?;
        Ok(exit)
    }

    fn until_end(
        &mut self,
        interrupt: &Interrupt,
        client: &mut Client,
    ) -> Result<End, AttachError> {
        let interval_ns = nanoseconds(self.args.output.series.interval);
        let time = self.args.time.map(nanoseconds);
        let end_ns = time.map_or(u64::MAX, |time| self.start_ns.saturating_add(time));
        let mut next_ns = self.start_ns + interval_ns;
        loop {
            if monotonic_ns() >= end_ns {
                return Ok(End::Time);
            }
            // A command gets the signal too, and the trace goes on to its end.
            if interrupt.is_set() && self.args.client.is_empty() {
                return Ok(End::Signal);
            }
            let until_ns = next_ns.min(end_ns).min(self.session.next_tick_ns());
            let rest_ns = until_ns.saturating_sub(monotonic_ns()).min(TICK_NS);
            match client.next(Duration::from_nanos(rest_ns)) {
                Some(Event::Ended { at_ns }) => return Ok(End::Command { at_ns }),
                Some(Event::Line { text, at_ns, .. }) => {
                    let session = &self.session;
                    client.hear(&text, at_ns, || session.told_count())?;
                }
                None => {}
            }
            self.session.tick(&self.roles)?;
            let now_ns = monotonic_ns();
            if now_ns >= next_ns {
                self.end_interval(now_ns)?;
                next_ns += interval_ns;
                if let Some(at_ns) = self.is_over(now_ns) {
                    return Ok(End::Target { at_ns });
                }
            }
        }
    }

    /// Takes in the tasks that have come, and says how it goes.
    fn end_interval(&mut self, now_ns: u64) -> Result<(), AttachError> {
        self.restarts_count += self.roles.find_restarted() as u64;
        let newcomers = self.roles.newcomers(&self.filter)?;
        let clients = newcomers.iter().filter(|task| task.side == Side::Client);
        self.late_clients_count += clients.count() as u64;
        self.session.trace_tasks(newcomers)?;
        let interval = self.session.end_interval(&self.roles)?;
        self.intervals.push(Interval {
            start_ns: self.interval_began_ns - self.start_ns,
            duration_ns: now_ns - self.interval_began_ns,
            ..Interval::default()
        });
        self.interval_began_ns = now_ns;
        // A command's own words are on standard error.
        if !self.args.output.series.quiet && self.args.client.is_empty() {
            let top = interval.top.map_or_else(String::new, |(class, ns)| {
                format!(", most in {}: {}", class.name(), units::duration(ns as f64))
            });
            say(&format!(
                "attached: {:.1} s, spin {}{top}",
                (now_ns - self.start_ns) as f64 / 1e9,
                units::duration(interval.spin_ns as f64)
            ));
        }
        Ok(())
    }

    /// Since when nobody is left, if nobody comes back.
    fn is_over(&mut self, now_ns: u64) -> Option<u64> {
        if self.args.all || !self.args.client.is_empty() {
            return None;
        }
        if !self.roles.are_gone() {
            self.gone_since_ns = None;
            return None;
        }
        let since_ns = *self.gone_since_ns.get_or_insert(now_ns);
        let patience_ns = if self.roles.may_come_back() { PATIENCE_NS } else { 0 };
        (now_ns - since_ns >= patience_ns).then_some(since_ns)
    }
}

/// The time of day at an instant of CLOCK_MONOTONIC that has just been.
fn since(start_ns: u64) -> jiff::Timestamp {
    let ago = Duration::from_nanos(monotonic_ns().saturating_sub(start_ns));
    jiff::Timestamp::now() - ago
}

fn target_ended(after_ns: u64) -> Warning {
    Warning {
        code: "target-ended".to_owned(),
        text: format!(
            "nobody was left to trace after {}, give or take an interval",
            units::duration(after_ns as f64)
        ),
        remedy: Some("the numbers are those up to then".to_owned()),
    }
}

fn late_clients(count: u64) -> Option<Warning> {
    (count > 0).then(|| Warning {
        code: "late-clients".to_owned(),
        text: format!(
            "{} of the clients connected after tracing began and joined at the end of an interval: \
             what they did before is in no number, so the client's time per transaction is too low",
            units::plural(count, "thread")
        ),
        remedy: Some(
            "attach when the benchmark's clients are connected, use a shorter --interval, or let \
             lockscope start the benchmark (-- pgbench …)"
                .to_owned(),
        ),
    })
}

fn restarted(count: u64) -> Option<Warning> {
    (count > 0).then(|| Warning {
        code: "server-restarted".to_owned(),
        text: format!(
            "the server was started again ({}); its new processes joined at the end of an interval, \
             and what they did before is in no number",
            units::plural(count, "time")
        ),
        remedy: Some("measure again while the server stays up".to_owned()),
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
