//! sysbench's options, with its names and defaults.

use clap::Args;

use super::values::{at_least_one, positive_number};
use crate::load::workload::{Distribution, Schema, SysbenchOptions, SysbenchTables, Workload};

/// The tables and values of the workloads oltp_*.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workloads oltp_*, as in sysbench")]
pub struct SysbenchArgs {
    /// Number of tables [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tables: Option<u32>,
    /// Rows of each table [default: 10000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub table_size: Option<u32>,
    /// Rows of a range select [default: 100].
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub range_size: Option<u32>,
    /// How ids are chosen [default: special].
    #[arg(long, value_name = "TYPE")]
    pub rand_type: Option<Distribution>,
    /// Exponent of the zipfian distribution [default: 0.8].
    #[arg(long, value_name = "X", value_parser = positive_number)]
    pub rand_zipfian_exp: Option<f64>,
}

/// An option of sysbench's without one of its workloads.
#[derive(Debug, thiserror::Error)]
#[error("{0} is for the workloads oltp_*; name one with --workload, or leave {0} away")]
pub struct NotSysbench(&'static str);

impl SysbenchArgs {
    /// The same for the code that makes scripts and tables.
    pub fn options(&self) -> SysbenchOptions {
        let usual = SysbenchOptions::default();
        SysbenchOptions {
            tables: SysbenchTables {
                count: self.tables.unwrap_or(usual.tables.count),
                size: self.table_size.unwrap_or(usual.tables.size),
            },
            range_size: self.range_size.unwrap_or(usual.range_size),
            distribution: self.rand_type.unwrap_or(usual.distribution),
            zipfian_exponent: self.rand_zipfian_exp.unwrap_or(usual.zipfian_exponent),
        }
    }

    /// Refuses the options where `workload` has no use for them.
    pub fn check(&self, workload: Option<&Workload>) -> Result<(), NotSysbench> {
        if workload.is_some_and(|workload| matches!(workload.schema, Schema::Sysbench(_))) {
            return Ok(());
        }
        let given = [
            ("--tables", self.tables.is_some()),
            ("--table-size", self.table_size.is_some()),
            ("--range-size", self.range_size.is_some()),
            ("--rand-type", self.rand_type.is_some()),
            ("--rand-zipfian-exp", self.rand_zipfian_exp.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => Err(NotSysbench(name)),
            None => Ok(()),
        }
    }
}
