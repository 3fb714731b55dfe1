//! `lockscope workloads`: what can be run without writing a script.

use clap::Args;

use crate::cli::SysbenchArgs;
use crate::load::workload::{self, FUNCTION, Schema, Workload};

/// `lockscope workloads`.
#[derive(Debug, Args)]
pub struct WorkloadsArgs {
    /// Show this one only.
    #[arg(value_name = "NAME", value_parser = str::parse::<&'static Workload>)]
    pub name: Option<&'static Workload>,
    /// The scripts of sysbench's workloads depend on them.
    #[command(flatten)]
    pub sysbench: SysbenchArgs,
}

/// The list, or one workload.
pub fn run(args: &WorkloadsArgs) -> String {
    let options = args.sysbench.options();
    let shown: Vec<String> = workload::all()
        .filter(|workload| args.name.is_none_or(|name| name.name == workload.name))
        .map(|workload| describe(workload.with_sysbench_options(&options)))
        .collect();
    shown.join("\n")
}

fn describe(workload: &Workload) -> String {
    let protocol = match workload.fixed_protocol {
        Some(protocol) => format!("{protocol}, fixed by the name"),
        None => format!("{}, or as -M says", workload.usual_protocol),
    };
    let mut text = format!(
        "{}\n  stresses  {}\n  protocol  {protocol}\n  tables    {}\n",
        workload.name,
        workload.stresses,
        tables(workload)
    );
    if !workload.server_settings.is_empty() {
        let settings: Vec<String> = workload
            .server_settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        text.push_str(&format!("  server    {} on a throw-away one\n", settings.join(", ")));
    }
    text.push_str("  script\n");
    text.push_str(&indented(workload.script));
    if workload.schema == Schema::PgbenchWithFunction {
        text.push_str("  function\n");
        text.push_str(&indented(FUNCTION));
    }
    text
}

fn tables(workload: &Workload) -> String {
    match workload.schema {
        Schema::Sysbench(tables) if tables.count == 1 => format!("sbtest1, {} rows", tables.size),
        Schema::Sysbench(tables) => {
            format!("sbtest1 to sbtest{}, {} rows each", tables.count, tables.size)
        }
        Schema::Pgbench | Schema::PgbenchWithFunction => {
            format!("pgbench's, scale {} unless -s says otherwise", workload.usual_scale)
        }
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::workload::SysbenchOptions;

    #[test]
    fn every_workload_is_shown_with_what_it_runs() {
        for workload in workload::all() {
            let text = describe(workload);
            assert!(text.starts_with(workload.name), "{text}");
            assert!(!workload.stresses.is_empty(), "{text}");
            let statement = workload.script.lines().find(|line| !line.starts_with('\\')).unwrap();
            assert!(text.contains(statement), "{text}");
        }
    }

    #[test]
    fn options_change_the_script() {
        let mut options = SysbenchOptions::default();
        options.tables.size = 77;
        let workload = "oltp_point_select".parse::<&'static Workload>().unwrap();
        let text = describe(workload.with_sysbench_options(&options));
        assert!(text.contains("(1, 77)") && text.contains("sbtest1, 77 rows\n"), "{text}");
        options.tables.count = 3;
        let text = describe(workload.with_sysbench_options(&options));
        assert!(text.contains("sbtest1 to sbtest3, 77 rows each"), "{text}");
    }
}
