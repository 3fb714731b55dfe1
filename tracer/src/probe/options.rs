//! What the user asks of the attach plan: `--probe` and `--prefer`, shared by every command that
//! traces.

use std::collections::BTreeMap;
use std::str::FromStr;

use clap::Args;

use super::capability::{Capability, Method, suggest};
use super::plan::PlanError;

/// How to attach.
#[derive(Args, Clone, Debug, Default)]
pub struct ProbeArgs {
    /// How much to trace: `ledger` splits all of a transaction's time, `locks` only the time that
    /// locks took, with fewer events.
    #[arg(long, value_enum, default_value_t)]
    pub depth: Depth,
    /// Attach a capability by a method, or turn it on or off (repeatable): `osq=kprobe`,
    /// `rq-acquire=on`, `plug-calls=off`. `lockscope doctor` lists the capabilities.
    #[arg(long = "probe", value_name = "CAPABILITY=METHOD|on|off")]
    pub probes: Vec<ProbeChoice>,
    /// The way of attaching to functions that is tried first.
    #[arg(long, value_enum, default_value_t)]
    pub prefer: Prefer,
}

impl ProbeArgs {
    /// What the plan takes.
    pub fn options(&self) -> PlanOptions {
        let options = PlanOptions::new(self.probes.iter().copied(), self.prefer);
        PlanOptions { depth: self.depth, ..options }
    }
}

/// How much of a transaction's time is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Depth {
    /// Waits and spins of locks, block plugs; the rest stays one sum.
    Locks,
    /// Also who has a CPU, who waits for one, who sleeps and why.
    #[default]
    Ledger,
}

/// What was asked for one capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The best way there is, none if there is none.
    #[default]
    Auto,
    /// Not at all.
    Off,
    /// The best way there is; an error if there is none.
    On,
    /// This way; an error if it does not work.
    Method(Method),
}

/// One `--probe CAPABILITY=METHOD|on|off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeChoice {
    /// Which.
    pub capability: Capability,
    /// How.
    pub choice: Choice,
}

impl FromStr for ProbeChoice {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let (capability, choice) =
            text.split_once('=').ok_or_else(|| PlanError::Form(text.into()))?;
        Ok(ProbeChoice { capability: capability.parse()?, choice: choice.parse()? })
    }
}

impl FromStr for Choice {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        match text {
            "on" => return Ok(Choice::On),
            "off" => return Ok(Choice::Off),
            _ => {}
        }
        // Accept the spelling of capabilities too: tp-btf.
        let name = text.replace('-', "_");
        let method = Method::ATTACHING.into_iter().find(|method| method.name() == name);
        method.map(Choice::Method).ok_or_else(|| {
            let known: Vec<_> =
                ["on", "off"].into_iter().chain(Method::ATTACHING.map(Method::name)).collect();
            PlanError::UnknownMethod { given: text.into(), suggestion: suggest(text, &known) }
        })
    }
}

/// Which way of attaching to a function is tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Prefer {
    /// BPF trampolines: cheaper.
    #[default]
    Fentry,
    /// Kprobes.
    Kprobe,
}

/// What the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// By capability; the others are [`Choice::Auto`].
    pub choices: BTreeMap<Capability, Choice>,
    /// For functions.
    pub prefer: Prefer,
    /// How much is traced unless `choices` says otherwise.
    pub depth: Depth,
}

impl PlanOptions {
    /// From the command line; the last word on a capability counts.
    pub fn new(choices: impl IntoIterator<Item = ProbeChoice>, prefer: Prefer) -> Self {
        let choices = choices.into_iter().map(|probe| (probe.capability, probe.choice)).collect();
        PlanOptions { choices, prefer, depth: Depth::default() }
    }

    pub(super) fn choice(&self, capability: Capability) -> Choice {
        self.choices.get(&capability).copied().unwrap_or_default()
    }
}
