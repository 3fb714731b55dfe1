//! A workload made ready to run: variables by index, requests by template.

use std::io;

use super::template::{Template, prepare_request};
use crate::load::workload::{Command, Protocol, Workload};

/// A compiled workload; all clients of a run share it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(super) steps: Vec<Step>,
    pub(super) variable_count: usize,
    /// Requests that every connection sends once before the run, each answered by ReadyForQuery.
    pub(crate) preparations: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(super) enum Step {
    Random { variable: usize, low: i64, high: i64 },
    Request(Template),
}

impl Script {
    /// Compiles `workload` for `protocol` and `scale`.
    pub(crate) fn compile(workload: &Workload, protocol: Protocol, scale: u32) -> io::Result<Self> {
        let mut names: Vec<&str> = Vec::new();
        let mut steps = Vec::new();
        let mut preparations = Vec::new();
        let mut statement_count = 0;
        for command in workload.script {
            match *command {
                Command::Random { variable, low, high } => {
                    names.push(variable);
                    let variable = names.len() - 1;
                    steps.push(Step::Random { variable, low, high: high.at(scale) });
                }
                Command::Sql(sql) => {
                    let index = |name: &str| names.iter().position(|known| *known == name);
                    let statement_name = format!("P_{statement_count}");
                    statement_count += 1;
                    let template = Template::new(sql, protocol, &statement_name, index)?;
                    steps.push(Step::Request(template));
                    if protocol == Protocol::Prepared {
                        preparations.push(prepare_request(sql, &statement_name, index)?);
                    }
                }
            }
        }
        Ok(Self { steps, variable_count: names.len(), preparations })
    }
}
