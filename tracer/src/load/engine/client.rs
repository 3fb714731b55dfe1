//! One client as a state machine without I/O: bytes in, requests and outcomes out.
//!
//! [`Client::choose`] and [`Client::begin`] start a transaction, [`Client::receive`] and
//! [`Client::wake`] carry it on; each says in a [`Progress`] what the worker has to do next.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use super::abort::{AbortReason, ServerError};
use super::frames::FrameWalker;
use super::record::Outcome;
use super::reply::{IDLE, Reply};
use super::script::{Operation, Scripts, SleepTime};
use super::template::{without_sync, write_sync};
use crate::load::script::{
    ClientStreams, EvaluationError, Expression, Place, Random, Scope, TimeUnit, Value, Variables,
    write_pattern,
};
use crate::load::workload::Protocol;

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The reply is not complete.
    Waiting,
    /// Send [`Client::request`].
    Send,
    /// Call [`Client::wake`] when this has passed.
    Sleep(Duration),
    /// The transaction ended.
    Over(End),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) outcome: Outcome,
    /// Attempts, the first included.
    pub(super) tries_count: u32,
    /// Without it, the next transaction must not begin before others had their turn.
    pub(super) sent_anything: bool,
}

/// A command of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommandIndex {
    /// Of the script among all.
    pub(super) script: usize,
    /// Of the command in its script.
    pub(super) command: usize,
}

/// What a client asks and tells its worker on the way. All of it costs nothing for `()`.
pub(super) trait Host {
    /// Whether time allows another try of a transaction that failed.
    fn may_retry(&mut self) -> bool {
        true
    }
    /// A command begins.
    fn begun(&mut self, _at: CommandIndex) {}
    /// A command ends; those of a pipeline do when they are written, its end when it is answered.
    fn ended(&mut self, _at: CommandIndex) {}
    /// The server refused something of this command.
    fn error(&mut self, _at: CommandIndex, _error: &ServerError) {}
    /// The transaction failed in this command, and is tried again or not.
    fn failed(&mut self, _at: CommandIndex, _retried: bool) {}
}

impl Host for () {}

/// What the client is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// The statements of this pipeline are being prepared.
    Preparing,
    Running,
    Sleeping,
    /// After this failure.
    RollingBack(Outcome),
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    scripts: Arc<Scripts>,
    machine: Machine,
}

/// The state of one client, apart from the scripts that it shares.
#[derive(Debug)]
struct Machine {
    streams: ClientStreams,
    /// The functions' stream as it was when the transaction began.
    first_functions: Random,
    variables: Variables,
    walker: FrameWalker,
    reply: Reply,
    /// ReadyForQuery messages that the request will be answered with.
    awaited_count: u32,
    state: State,
    script: usize,
    /// The next step of the script.
    next: usize,
    /// The command of the step before.
    command: usize,
    /// The statement whose reply becomes variables.
    results_of: Option<usize>,
    /// Requests are collected and not sent.
    in_pipeline: bool,
    request: Vec<u8>,
    /// By statement, whether the connection knows it.
    prepared: Vec<bool>,
    /// Statements whose Parse is in the request, and the ReadyForQuery messages before its reply.
    parsing: Vec<(u32, usize)>,
    tries_count: u32,
    sent_anything: bool,
}

impl Client {
    /// `variables`: as [`Scripts::variables`] makes them.
    pub(super) fn new(scripts: Arc<Scripts>, streams: ClientStreams, variables: Variables) -> Self {
        let machine = Machine {
            first_functions: streams.functions.clone(),
            streams,
            variables,
            walker: FrameWalker::default(),
            reply: Reply::of_new_connection(),
            awaited_count: 0,
            state: State::Idle,
            script: 0,
            next: 0,
            command: 0,
            results_of: None,
            in_pipeline: false,
            request: Vec::with_capacity(512),
            prepared: vec![false; scripts.statements.len()],
            parsing: Vec::new(),
            tries_count: 0,
            sent_anything: false,
        };
        Self { scripts, machine }
    }

    /// Chooses the script of the next transaction, by weight, and is its index.
    pub(super) fn choose(&mut self) -> usize {
        if self.scripts.programs.len() > 1 {
            let ticket = self.machine.streams.choice.up_to(self.scripts.total_weight - 1);
            self.machine.script = self.scripts.at_weight(ticket);
        }
        self.machine.script
    }

    /// Starts a transaction of the chosen script.
    pub(super) fn begin(&mut self, host: &mut impl Host) -> Result<Progress, AbortReason> {
        self.check_finished()?;
        self.machine.first_functions = self.machine.streams.functions.clone();
        self.machine.tries_count = 1;
        self.machine.sent_anything = false;
        self.machine.restart(&self.scripts, host)
    }

    /// The bytes to send.
    pub(super) fn request(&self) -> &[u8] {
        &self.machine.request
    }

    /// Takes what the server sent.
    #[inline]
    pub(super) fn receive(
        &mut self,
        chunk: &[u8],
        host: &mut impl Host,
    ) -> Result<Progress, AbortReason> {
        self.machine.receive(&self.scripts, chunk, host)
    }

    /// Goes on after a sleep.
    pub(super) fn wake(&mut self, host: &mut impl Host) -> Result<Progress, AbortReason> {
        self.machine.state = State::Running;
        host.ended(self.machine.at());
        self.machine.advance(&self.scripts, host)
    }

    /// After a transaction: gives up where the script left a transaction block open.
    pub(super) fn check_finished(&self) -> Result<(), AbortReason> {
        match self.machine.reply.status {
            IDLE => Ok(()),
            _ => {
                let problem = "without completing the last transaction; COMMIT or END is missing";
                Err(self.machine.unfinished(&self.scripts, problem))
            }
        }
    }

    /// The connection is another one, which knows no statements.
    pub(super) fn reconnected(&mut self) {
        self.machine.prepared.fill(false);
        self.machine.walker = FrameWalker::default();
        self.machine.reply = Reply::of_new_connection();
    }
}

impl Machine {
    fn over(&mut self, outcome: Outcome) -> Progress {
        self.state = State::Idle;
        Progress::Over(End {
            outcome,
            tries_count: self.tries_count,
            sent_anything: self.sent_anything,
        })
    }

    fn restart(
        &mut self,
        scripts: &Scripts,
        host: &mut impl Host,
    ) -> Result<Progress, AbortReason> {
        self.state = State::Running;
        self.next = 0;
        self.in_pipeline = false;
        self.request.clear();
        self.advance(scripts, host)
    }

    /// Runs the script up to its next request, its next sleep or its end.
    fn advance(
        &mut self,
        scripts: &Scripts,
        host: &mut impl Host,
    ) -> Result<Progress, AbortReason> {
        let steps = &scripts.programs[self.script].steps;
        while let Some(step) = steps.get(self.next) {
            self.next += 1;
            self.command = step.command;
            if let Operation::Jump(target) = step.operation {
                self.next = target;
                continue;
            }
            host.begun(self.at());
            match &step.operation {
                Operation::Set { variable, expression } => {
                    let value = self.evaluate(scripts, expression)?;
                    self.variables.set(*variable, value);
                }
                Operation::SetPattern { variable, pattern } => {
                    let mut text = Vec::with_capacity(pattern.len());
                    write_pattern(pattern, &mut self.streams.functions, &mut text);
                    self.variables.set_text(*variable, &text);
                }
                Operation::Sql(statement) => {
                    if self.write_statement(scripts, *statement)? {
                        return Ok(self.send(1));
                    }
                }
                Operation::Branch { condition, otherwise } => {
                    if !self.evaluate(scripts, condition)?.is_true() {
                        self.next = *otherwise;
                    }
                }
                Operation::Jump(_) => {}
                Operation::Sleep(time, unit) => {
                    self.state = State::Sleeping;
                    return Ok(Progress::Sleep(self.sleep_time(scripts, *time, *unit)?));
                }
                Operation::Shell(command) => {
                    let ran = command.run(&mut self.variables);
                    ran.map_err(|problem| self.meta_failure(scripts, problem))?;
                }
                Operation::StartPipeline(statements) => {
                    if let Some(progress) = self.start_pipeline(scripts, statements)? {
                        return Ok(progress);
                    }
                }
                Operation::SyncPipeline => self.sync_pipeline(scripts)?,
                Operation::EndPipeline => {
                    self.sync_pipeline(scripts)?;
                    self.in_pipeline = false;
                    return Ok(self.send(0));
                }
            }
            host.ended(self.at());
        }
        if self.in_pipeline {
            return Err(self.unfinished(scripts, "with a pipeline open; \\endpipeline is missing"));
        }
        Ok(self.over(Outcome::Committed))
    }

    fn send(&mut self, more_ready_count: u32) -> Progress {
        self.awaited_count += more_ready_count;
        self.sent_anything = true;
        Progress::Send
    }

    fn at(&self) -> CommandIndex {
        CommandIndex { script: self.script, command: self.command }
    }
}

mod replies;
mod steps;
#[cfg(test)]
mod tests;
