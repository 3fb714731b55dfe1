//! Where to run it, and in which tables.

use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::values::{at_least_one, database, secret};
use crate::load::{Database, Secret, ServerOptions};

/// Which server, as whom.
#[derive(Debug, Args)]
pub struct ConnectionArgs {
    /// Connection string: key=value pairs or a URL. What it says goes before -h, -p, -U and -d.
    #[arg(long, value_name = "DSN", value_parser = secret)]
    pub dsn: Option<Secret>,
    /// Host name, or directory of the server's socket; several between commas are tried in order.
    #[arg(short, long)]
    pub host: Option<String>,
    /// Port, or a port for each host.
    #[arg(short, long, action = ArgAction::Set, value_delimiter = ',')]
    pub port: Vec<u16>,
    /// User name.
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<String>,
    /// Database, or a connection string as --dsn takes it.
    #[arg(short, long, value_name = "NAME", value_parser = database)]
    pub dbname: Option<Database>,
    /// The same, as pgbench takes it.
    #[arg(value_name = "DBNAME", value_parser = database, conflicts_with = "dbname")]
    pub database: Option<Database>,
}

/// Where to run it. Without any of these and without PG* variables lockscope makes a throw-away
/// server.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server (without these and PG* variables: a throw-away one)")]
pub struct ServerArgs {
    /// The server to use.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Directory to make the throw-away server in [default: the temporary directory].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// The tables.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tables")]
pub struct TableArgs {
    /// Scale factor [default: that of the tables, 1 for new ones].
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub scale: Option<u32>,
    /// Use the tables that are there, make none. Scripts of your own (-f alone) then need none.
    #[arg(long, conflicts_with = "force_init")]
    pub no_init: bool,
    /// Make the tables anew, even if those that are there are not lockscope's.
    #[arg(long)]
    pub force_init: bool,
    /// Do not vacuum before the run.
    #[arg(short, long)]
    pub no_vacuum: bool,
    /// Vacuum and analyze all tables before the run.
    #[arg(short, long)]
    pub vacuum_all: bool,
}

impl ServerArgs {
    /// The same for the connection code.
    pub fn options(&self) -> ServerOptions {
        self.connection.options()
    }
}

impl ConnectionArgs {
    /// The same for the connection code.
    pub fn options(&self) -> ServerOptions {
        ServerOptions {
            dsn: self.dsn.clone(),
            host: self.host.clone(),
            ports: self.port.clone(),
            user: self.username.clone(),
            database: self.dbname.clone().or_else(|| self.database.clone()),
        }
    }
}
