//! sysbench's options, with its names and defaults.

use clap::Args;

use super::values::{at_least_one, positive_number};
use crate::load::workload::{Distribution, SysbenchOptions, SysbenchTables};

/// The tables and values of the workloads oltp_*.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workloads oltp_*, as in sysbench")]
pub struct SysbenchArgs {
    /// Number of tables.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub tables: u32,
    /// Rows of each table.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=2_000_000_000))]
    pub table_size: u32,
    /// Rows of a range select.
    #[arg(long, value_name = "N", default_value = "100", value_parser = at_least_one)]
    pub range_size: u32,
    /// How ids are chosen.
    #[arg(long, value_name = "TYPE", value_enum, default_value_t)]
    pub rand_type: Distribution,
    /// Exponent of the zipfian distribution.
    #[arg(long, value_name = "X", default_value = "0.8", value_parser = positive_number)]
    pub rand_zipfian_exp: f64,
}

impl SysbenchArgs {
    /// The same for the code that makes scripts and tables.
    pub fn options(&self) -> SysbenchOptions {
        SysbenchOptions {
            tables: SysbenchTables { count: self.tables, size: self.table_size },
            range_size: self.range_size,
            distribution: self.rand_type,
            zipfian_exponent: self.rand_zipfian_exp,
        }
    }
}
