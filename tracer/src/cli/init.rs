//! Which tables to make.

use clap::Args;

use super::server::ConnectionArgs;
use super::sysbench::SysbenchArgs;
use super::values::at_least_one;
use crate::load::init::{InitOptions, PartitionMethod, Partitions, Steps};
use crate::load::workload::{Schema, Workload};

/// `lockscope init`: the options of `pgbench -i`, with the same letters and meaning.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables", mut_args = super::values::allow_negative)]
pub struct InitArgs {
    /// Make what this workload needs: for oltp_* sysbench's tables, as sysbench prepare does; for
    /// plpgsql its function too.
    #[arg(long, value_name = "NAME", value_parser = str::parse::<&'static Workload>)]
    pub workload: Option<&'static Workload>,
    /// Steps to take, in the order given: d drops old tables, t creates tables, g makes the rows
    /// here and sends them by COPY, G lets the server make them, v vacuums, p adds primary keys, f
    /// foreign keys [default: dtgvp].
    #[arg(short = 'I', long, value_name = "dtgGvpf")]
    pub init_steps: Option<Steps>,
    /// Scale factor: 100,000 accounts, 10 tellers and 1 branch each [default: 1, or what the workload
    /// asks for].
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub scale: Option<u32>,
    /// Fill factor in percent [default: 100].
    #[arg(short = 'F', long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(10..=100))]
    pub fillfactor: Option<u32>,
    /// Cut pgbench_accounts into this many partitions; 0 for none [default: 0].
    #[arg(long, value_name = "N")]
    pub partitions: Option<u32>,
    /// How to cut it [default: range].
    #[arg(long, value_name = "METHOD")]
    pub partition_method: Option<PartitionMethod>,
    /// Add foreign keys between the tables.
    #[arg(long)]
    pub foreign_keys: bool,
    /// Make unlogged tables.
    #[arg(long)]
    pub unlogged_tables: bool,
    /// Tablespace of the tables.
    #[arg(long, value_name = "NAME")]
    pub tablespace: Option<String>,
    /// Tablespace of the primary keys.
    #[arg(long, value_name = "NAME")]
    pub index_tablespace: Option<String>,
    /// No vacuum: step v is left out.
    #[arg(short, long)]
    pub no_vacuum: bool,
    /// Progress every 5 seconds only.
    #[arg(short, long)]
    pub quiet: bool,
    /// sysbench's tables.
    #[command(flatten)]
    pub sysbench: SysbenchArgs,
    /// The server.
    #[command(
        flatten,
        next_help_heading = "Server (what is not named: PG* variables, then libpq's defaults)"
    )]
    pub connection: ConnectionArgs,
}

impl InitArgs {
    /// An option of pgbench's tables that is given, if any.
    pub fn pgbench_option(&self) -> Option<&'static str> {
        let given = [
            ("-I", self.init_steps.is_some()),
            ("-s", self.scale.is_some()),
            ("-F", self.fillfactor.is_some()),
            ("--partitions", self.partitions.is_some()),
            ("--partition-method", self.partition_method.is_some()),
            ("--foreign-keys", self.foreign_keys),
            ("--unlogged-tables", self.unlogged_tables),
            ("--tablespace", self.tablespace.is_some()),
            ("--index-tablespace", self.index_tablespace.is_some()),
            ("-n", self.no_vacuum),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// What to make.
    pub fn schema(&self) -> Schema {
        let options = self.sysbench.options();
        self.workload
            .map_or(Schema::Pgbench, |workload| workload.with_sysbench_options(&options).schema)
    }

    /// The same for the code that makes the tables.
    pub fn options(&self) -> InitOptions {
        let mut steps = self.init_steps.clone().unwrap_or_default();
        if self.no_vacuum {
            steps = steps.without_vacuum();
        }
        if self.foreign_keys {
            steps = steps.with_foreign_keys();
        }
        let method = self.partition_method.unwrap_or_default();
        InitOptions {
            steps,
            scale: self.scale.or(self.workload.map(|workload| workload.usual_scale)).unwrap_or(1),
            fillfactor: self.fillfactor.unwrap_or(100),
            partitions: self
                .partitions
                .filter(|count| *count > 0)
                .map(|count| Partitions { count, method }),
            unlogged: self.unlogged_tables,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
        }
    }
}
