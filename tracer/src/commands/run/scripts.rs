//! The scripts of a run: read, and parsed before anything is touched.

use super::RunError;
use crate::cli::{BUILTINS, Chosen, LoadArgs, Shown};
use crate::load::script::{ParseOptions, Script, ScriptSource, SourceError, parse};
use crate::load::workload::{Protocol, SysbenchOptions, Workload};

/// A script of the run.
#[derive(Clone, Debug)]
pub(super) struct RunScript {
    /// As the user names it.
    pub(super) name: String,
    /// As pgbench's report names it.
    pub(super) description: String,
    pub(super) weight: u32,
    pub(super) script: Script,
    /// Absent where the script is the user's own.
    pub(super) workload: Option<&'static Workload>,
}

/// All scripts of the run, and how their statements travel.
#[derive(Clone, Debug)]
pub(super) struct RunScripts {
    pub(super) list: Vec<RunScript>,
    pub(super) protocol: Protocol,
}

impl RunScripts {
    pub(super) fn read(args: &LoadArgs) -> Result<Self, RunError> {
        let default = [Chosen::Builtin { name: "tpcb-like", weight: 1 }];
        let chosen = &args.scripts.chosen;
        let chosen = if chosen.is_empty() { &default[..] } else { chosen };
        let protocol = match chosen {
            [Chosen::Workload(workload)] => workload.protocol(args.protocol)?,
            _ => args.protocol.unwrap_or(Protocol::Simple),
        };
        let options = ParseOptions { allow_shell: args.allow_shell };
        let sysbench = args.sysbench.options();
        let read = |chosen: &Chosen| RunScript::read(chosen, options, &sysbench);
        let scripts = Self { list: chosen.iter().map(read).collect::<Result<_, _>>()?, protocol };
        args.sysbench.check(scripts.workload())?;
        Ok(scripts)
    }

    /// How the run is called in reports.
    pub(super) fn name(&self) -> String {
        if let [script] = &self.list[..] {
            // The protocol is part of what people compare.
            return match script.name.as_str() {
                "select-only" => format!("select-{}", self.protocol),
                name => name.to_owned(),
            };
        }
        let names = self.list.iter().map(|script| match script.weight {
            1 => script.name.clone(),
            weight => format!("{}@{weight}", script.name),
        });
        names.collect::<Vec<_>>().join("+")
    }

    /// A workload among them, which says what tables and settings all of them get.
    pub(super) fn workload(&self) -> Option<&'static Workload> {
        self.list.iter().find_map(|script| script.workload)
    }

    /// Whether any that is not the user's own writes.
    pub(super) fn write(&self) -> bool {
        self.list.iter().any(|script| script.workload.is_some_and(|workload| workload.writes))
    }
}

impl RunScript {
    fn read(
        chosen: &Chosen,
        options: ParseOptions,
        sysbench: &SysbenchOptions,
    ) -> Result<Self, RunError> {
        let (source, description, workload) = match chosen {
            Chosen::File(file) => {
                (ScriptSource::read(&file.name, file.weight)?, file.name.clone(), None)
            }
            Chosen::Builtin { name, weight } => {
                let workload = of_builtin(name);
                let name = (*name).to_owned();
                let source = ScriptSource { name: name.clone(), ..workload.source(*weight) };
                (source, description(&name), Some(workload))
            }
            Chosen::Workload(workload) => {
                let workload = workload.with_sysbench_options(sysbench);
                let name = match workload.name.strip_prefix("select-") {
                    Some(_) => "select-only",
                    None => workload.name,
                };
                (workload.source(1), description(name), Some(workload))
            }
        };
        let script = parse(&source.text, &source.name, options)?;
        if script.commands.is_empty() {
            return Err(SourceError::Empty(source.name).into());
        }
        let ScriptSource { name, weight, .. } = source;
        Ok(Self { name, description, weight, script, workload })
    }
}

/// A built-in script (`--show-script`), or the list of them, as pgbench prints it.
pub(super) fn text_of(shown: Shown) -> String {
    match shown {
        Shown::Script(name) => {
            format!("-- {name}: {}\n{}\n", description(name), of_builtin(name).script)
        }
        Shown::List => {
            let lines = BUILTINS.map(|(name, words)| format!("  {name:>13}: {words}\n"));
            format!("Available builtin scripts:\n{}", lines.concat())
        }
    }
}

fn of_builtin(name: &str) -> &'static Workload {
    match name {
        "select-only" => Workload::select(Protocol::Simple),
        "simple-update" => Workload::SIMPLE_UPDATE,
        _ => Workload::TPCB_LIKE,
    }
}

fn description(name: &str) -> String {
    let builtin = BUILTINS.iter().find(|(known, _)| *known == name);
    builtin.map_or_else(|| format!("<workload: {name}>"), |(_, words)| (*words).to_owned())
}
