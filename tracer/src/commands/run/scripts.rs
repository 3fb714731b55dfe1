//! The scripts of a run: read, and parsed before anything is touched.

use super::RunError;
use crate::cli::{BUILTINS, Chosen, LoadArgs};
use crate::load::script::{ParseOptions, Script, ScriptSource, parse};
use crate::load::workload::{Protocol, Workload};

/// A script of the run.
#[derive(Clone, Debug)]
pub(super) struct RunScript {
    /// As the user names it.
    pub(super) name: String,
    /// As pgbench's report names it.
    pub(super) description: String,
    pub(super) weight: u32,
    pub(super) script: Script,
    /// Of lockscope or pgbench: it needs pgbench's tables.
    pub(super) is_builtin: bool,
    pub(super) writes: bool,
}

/// All scripts of the run, and how their statements travel.
#[derive(Clone, Debug)]
pub(super) struct RunScripts {
    pub(super) list: Vec<RunScript>,
    pub(super) protocol: Protocol,
    /// What the built-in ones need of server and tables.
    pub(super) needs: &'static Workload,
}

impl RunScripts {
    pub(super) fn read(args: &LoadArgs) -> Result<Self, RunError> {
        let default = [Chosen::Builtin { name: "tpcb-like", weight: 1 }];
        let chosen = &args.scripts.chosen;
        let chosen = if chosen.is_empty() { &default[..] } else { chosen };
        let workload = args.workload();
        args.sysbench.check(workload)?;
        let protocol = match workload {
            Some(workload) => workload.protocol(args.protocol)?,
            None => args.protocol.unwrap_or(Protocol::Simple),
        };
        let options = ParseOptions { allow_shell: args.allow_shell };
        let read = |chosen: &Chosen| match workload {
            Some(workload) => RunScript::read(&Chosen::Workload(workload), options),
            None => RunScript::read(chosen, options),
        };
        let list = chosen.iter().map(read).collect::<Result<_, _>>()?;
        // pgbench's built-in scripts all need the same.
        Ok(Self { list, protocol, needs: workload.unwrap_or(Workload::TPCB_LIKE) })
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

    /// Whether any needs pgbench's tables.
    pub(super) fn need_tables(&self) -> bool {
        self.list.iter().any(|script| script.is_builtin)
    }

    /// Whether any built-in writes.
    pub(super) fn write(&self) -> bool {
        self.list.iter().any(|script| script.writes)
    }
}

impl RunScript {
    fn read(chosen: &Chosen, options: ParseOptions) -> Result<Self, RunError> {
        let (source, description, is_builtin, writes) = match chosen {
            Chosen::File(file) => {
                let source = ScriptSource::read(&file.name, file.weight)?;
                (source, file.name.clone(), false, false)
            }
            Chosen::Builtin { name, weight } => {
                let workload = of_builtin(name);
                let mut source = workload.source(*weight);
                source.name = (*name).to_owned();
                (source, description(name), true, workload.writes)
            }
            Chosen::Workload(workload) => {
                let name = if workload.name.starts_with("select-") {
                    "select-only"
                } else {
                    workload.name
                };
                (workload.source(1), description(name), true, workload.writes)
            }
        };
        let script = parse(&source.text, &source.name, options)?;
        let ScriptSource { name, weight, .. } = source;
        Ok(Self { name, description, weight, script, is_builtin, writes })
    }
}

/// The text of a built-in script (`--show-script`).
pub(super) fn text_of(name: &'static str) -> String {
    format!("-- {name}: {}\n{}\n", description(name), of_builtin(name).script)
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
