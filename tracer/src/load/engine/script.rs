//! Scripts made ready to run: variables by index, requests by template, conditions as jumps.

use std::io;
use std::sync::Arc;

use super::commands::CommandSums;
use super::shell::ShellCommand;
use super::template::{PARAMETERS_MAX, SqlText, Template, parse_message};
use crate::load::script::{
    Action, Amount, Definitions, Expression, Names, Place, Results, Script, TimeUnit, Variables,
};
use crate::load::workload::Protocol;

/// What becomes of failed transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureRules {
    /// How often a transaction is tried (`--max-tries`); 0: as long as time allows.
    pub max_tries: u32,
    /// Whether clients survive other errors than serialization failures and deadlocks.
    pub continue_on_error: bool,
    /// SQLSTATEs that clients survive in any case: what the workload cannot avoid.
    pub tolerated: &'static [&'static str],
}

impl Default for FailureRules {
    fn default() -> Self {
        Self { max_tries: 1, continue_on_error: false, tolerated: &[] }
    }
}

/// Scripts that cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Bind takes more, but pgbench's limit keeps scripts portable.
    #[error(
        "{place}: the statement has more than {PARAMETERS_MAX} variables, which only -M simple takes: {title}"
    )]
    Parameters {
        /// The statement.
        place: Place,
        /// Its first line.
        title: String,
    },
    /// There is nothing to choose from.
    #[error(
        "the weights of the scripts add up to 0; give at least one script a weight (-f FILE@1)"
    )]
    NoWeight,
    /// Too long for the protocol.
    #[error("{place}: the statement cannot be sent: {source}")]
    Encode {
        /// The statement.
        place: Place,
        /// Why.
        source: io::Error,
    },
}

/// All scripts of a run, compiled; its clients share them.
#[derive(Debug)]
pub(crate) struct Scripts {
    pub(super) programs: Vec<Program>,
    pub(super) statements: Vec<Statement>,
    pub(super) total_weight: u64,
    pub(super) names: Arc<Names>,
    pub(super) protocol: Protocol,
    pub(super) rules: FailureRules,
}

/// One script.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) script: Script,
    weight: u64,
    pub(super) steps: Vec<Step>,
}

/// A statement of any script.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) template: Template,
    pub(super) results: Option<Results>,
    /// Parse, where statements are prepared.
    pub(super) parse: Vec<u8>,
}

/// What a client does for a command, or for part of it.
#[derive(Debug)]
pub(super) struct Step {
    /// Index of the command in its script.
    pub(super) command: usize,
    pub(super) operation: Operation,
}

#[derive(Debug)]
pub(super) enum Operation {
    /// Index of the statement.
    Sql(usize),
    Set {
        variable: usize,
        expression: Expression<usize>,
    },
    SetPattern {
        variable: usize,
        pattern: Vec<u8>,
    },
    /// Goes on with the next step where the condition is true, with the step of this index else.
    Branch {
        condition: Expression<usize>,
        otherwise: usize,
    },
    Jump(usize),
    Sleep(SleepTime, TimeUnit),
    Shell(ShellCommand),
    /// The statements up to the end of the pipeline, which are prepared before it.
    StartPipeline(Vec<usize>),
    SyncPipeline,
    EndPipeline,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SleepTime {
    Fixed(i64),
    Variable(usize),
}

impl Scripts {
    /// Compiles scripts, each with its weight.
    pub(crate) fn compile(
        scripts: Vec<(Script, u32)>,
        protocol: Protocol,
        rules: FailureRules,
    ) -> Result<Self, CompileError> {
        let total_weight = scripts.iter().map(|(_, weight)| u64::from(*weight)).sum();
        if total_weight == 0 {
            return Err(CompileError::NoWeight);
        }
        let mut names = Names::default();
        let mut statements = Vec::new();
        let mut programs = Vec::new();
        for (script, weight) in scripts {
            let mut compiler = Compiler {
                names: &mut names,
                statements: &mut statements,
                protocol,
                steps: Vec::new(),
                open: Vec::new(),
                pipeline: None,
            };
            for (command, source) in script.commands.iter().enumerate() {
                compiler.add(command, &source.action, &source.place, &source.title)?;
            }
            let steps = compiler.steps;
            programs.push(Program { script, weight: u64::from(weight), steps });
        }
        Ok(Self { programs, statements, total_weight, names: Arc::new(names), protocol, rules })
    }

    /// Sums of every command, all zero.
    pub(crate) fn command_sums(&self) -> CommandSums {
        CommandSums::new(self.programs.iter().map(|program| program.script.commands.len()))
    }

    /// A client's variables before its first transaction.
    pub(crate) fn variables(&self, client: u32, definitions: &Definitions) -> Variables {
        let mut variables = Variables::new(Arc::clone(&self.names));
        definitions.define(client, &mut variables);
        variables
    }

    /// The script at `ticket`, which is less than the total weight.
    pub(super) fn at_weight(&self, mut ticket: u64) -> usize {
        for (index, program) in self.programs.iter().enumerate() {
            if ticket < program.weight {
                return index;
            }
            ticket -= program.weight;
        }
        self.programs.len() - 1
    }
}

/// Compiles one script.
struct Compiler<'a> {
    names: &'a mut Names,
    statements: &'a mut Vec<Statement>,
    protocol: Protocol,
    steps: Vec<Step>,
    open: Vec<OpenCondition>,
    /// The step that starts the pipeline whose end has not come yet.
    pipeline: Option<usize>,
}

/// An `\if` whose `\endif` has not come yet.
#[derive(Default)]
struct OpenCondition {
    /// The branch whose false way is not known yet.
    branch: Option<usize>,
    /// Jumps to the end.
    ends: Vec<usize>,
}

impl Compiler<'_> {
    fn add(
        &mut self,
        command: usize,
        action: &Action,
        place: &Place,
        title: &str,
    ) -> Result<(), CompileError> {
        let operation = match action {
            Action::Sql { text, results } => {
                Operation::Sql(self.statement(text, results.as_ref(), place, title)?)
            }
            Action::Set { variable, expression } => Operation::Set {
                variable: self.names.index(variable),
                expression: self.resolve(expression),
            },
            Action::SetPattern { variable, pattern } => Operation::SetPattern {
                variable: self.names.index(variable),
                pattern: pattern.clone().into_bytes(),
            },
            Action::If(condition) => {
                self.open.push(OpenCondition { branch: Some(self.steps.len()), ends: Vec::new() });
                self.branch(condition)
            }
            Action::Elif(condition) => {
                self.close_branch(command);
                if let Some(open) = self.open.last_mut() {
                    open.branch = Some(self.steps.len());
                }
                self.branch(condition)
            }
            Action::Else => {
                self.close_branch(command);
                return Ok(());
            }
            Action::Endif => {
                self.close_condition();
                return Ok(());
            }
            Action::Sleep(Amount::Fixed(value), unit) => {
                Operation::Sleep(SleepTime::Fixed(*value), *unit)
            }
            Action::Sleep(Amount::Variable(name), unit) => {
                Operation::Sleep(SleepTime::Variable(self.names.index(name)), *unit)
            }
            Action::Shell(words) => Operation::Shell(ShellCommand::new(words, None, self.names)),
            Action::SetShell { variable, words } => {
                Operation::Shell(ShellCommand::new(words, Some(variable), self.names))
            }
            Action::StartPipeline => {
                self.pipeline = Some(self.steps.len());
                Operation::StartPipeline(Vec::new())
            }
            Action::SyncPipeline => Operation::SyncPipeline,
            Action::EndPipeline => {
                self.pipeline = None;
                Operation::EndPipeline
            }
        };
        self.steps.push(Step { command, operation });
        Ok(())
    }

    fn resolve(&mut self, expression: &Expression<String>) -> Expression<usize> {
        expression.map(&mut |name| self.names.index(name))
    }

    fn branch(&mut self, condition: &Expression<String>) -> Operation {
        Operation::Branch { condition: self.resolve(condition), otherwise: 0 }
    }

    /// The branch that was true jumps to the end; the false way of its condition continues here.
    fn close_branch(&mut self, command: usize) {
        let jump = self.steps.len();
        self.steps.push(Step { command, operation: Operation::Jump(0) });
        let next = self.steps.len();
        if let Some(open) = self.open.last_mut() {
            open.ends.push(jump);
            if let Some(branch) = open.branch.take() {
                self.patch(branch, next);
            }
        }
    }

    fn close_condition(&mut self) {
        let next = self.steps.len();
        let Some(open) = self.open.pop() else { return };
        for step in open.ends.into_iter().chain(open.branch) {
            self.patch(step, next);
        }
    }

    fn patch(&mut self, step: usize, target: usize) {
        if let Operation::Branch { otherwise: to, .. } | Operation::Jump(to) =
            &mut self.steps[step].operation
        {
            *to = target;
        }
    }

    fn statement(
        &mut self,
        sql: &str,
        results: Option<&Results>,
        place: &Place,
        title: &str,
    ) -> Result<usize, CompileError> {
        let index = self.statements.len();
        let text = SqlText::parse(sql, self.names);
        if self.protocol != Protocol::Simple && text.variables.len() > PARAMETERS_MAX {
            return Err(CompileError::Parameters { place: place.clone(), title: title.to_owned() });
        }
        // pgbench's names, so that server logs can be compared.
        let name = format!("P_{index}");
        let encoded = Template::new(&text, self.protocol, &name).and_then(|template| {
            let parse = match self.protocol {
                Protocol::Prepared => parse_message(&text, &name)?,
                Protocol::Simple | Protocol::Extended => Vec::new(),
            };
            Ok(Statement { template, results: results.cloned(), parse })
        });
        let encoded =
            encoded.map_err(|source| CompileError::Encode { place: place.clone(), source })?;
        self.statements.push(encoded);
        if let Some(start) = self.pipeline
            && let Operation::StartPipeline(statements) = &mut self.steps[start].operation
        {
            statements.push(index);
        }
        Ok(index)
    }
}
