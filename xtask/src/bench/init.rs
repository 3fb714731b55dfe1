//! Making pgbench's tables, beside `pgbench -i`.

use anyhow::Result;
use clap::Args;

use super::child::{Finished, finish, pinned};
use super::lockscope::Lockscope;
use super::machine;
use super::pairs::{Spread, alternate};
use super::server::Server;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Scale of the tables
    #[arg(long, default_value = "20")]
    scale: u32,
    /// Alternating pairs
    #[arg(long, default_value = "5")]
    pairs: usize,
}

pub(super) fn run(options: &Options) -> Result<()> {
    println!("{}", machine::describe());
    for (layout, cpus) in [("one CPU for both", "0"), ("two CPUs", "0,1")] {
        let server = Server::start(cpus)?;
        let lockscope = Lockscope::new(&server);
        let scale = options.scale.to_string();
        let connection =
            ["-h", &server.dir().display().to_string(), "-U", Server::USER].map(str::to_owned);
        let theirs = || {
            let mut command = pinned(cpus, server.program("pgbench"));
            finish(command.args(["-i", "-q", "-s", &scale]).args(&connection).arg(Server::USER))
        };
        let ours = || {
            let mut command = lockscope.command(&["init", "-q", "-s", &scale]);
            finish(command.args(&connection).args(["-d", Server::USER]))
        };
        // The first of them makes the files that the others write again.
        theirs()?;
        let pairs = alternate(options.pairs, ours, theirs)?;
        let ratio = |what: fn(&Finished) -> f64| {
            Spread::of(pairs.iter().map(|(ours, theirs)| what(ours) / what(theirs)))
        };
        let seconds = Spread::of(pairs.iter().map(|(_, theirs)| theirs.wall.as_secs_f64()));
        let rows = [
            ("pgbench -i, seconds", seconds),
            ("lockscope init / pgbench -i: time", ratio(|run| run.wall.as_secs_f64())),
            ("the same: client CPU", ratio(|run| run.cpu_ns as f64)),
        ];
        println!("\n{layout}; scale {scale}; {} pairs", options.pairs);
        for (name, spread) in rows {
            if let Some(spread) = spread {
                println!("{name}: {spread}");
            }
        }
    }
    Ok(())
}
