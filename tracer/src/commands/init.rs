//! `lockscope init`: pgbench's tables, made on request.

mod progress;

use std::time::{Duration, Instant};

use progress::Display;

use super::Exit;
use super::output::say;
use crate::cli::{InitArgs, NotSysbench};
use crate::load::init::{InitError, Step, initialize};
use crate::load::server::{Control, ControlError, Tables, create_function, in_turn, sysbench};
use crate::load::workload::Schema;
use crate::load::{Target, TargetError};
use crate::signals::Interrupt;

/// Tables that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InitCommandError {
    /// Signals cannot be asked for.
    #[error("cannot prepare to make the tables: {0}")]
    Io(#[from] std::io::Error),
    /// sysbench's options without its tables.
    #[error(transparent)]
    NotSysbench(#[from] NotSysbench),
    /// pgbench's options with sysbench's tables.
    #[error("{0} is for pgbench's tables; sysbench's have --tables and --table-size")]
    NotPgbench(&'static str),
    /// A method without anything to cut.
    #[error("--partition-method needs --partitions of more than 0")]
    NoPartitions,
    /// The address of the server.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The connection.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A step.
    #[error(transparent)]
    Init(#[from] InitError),
}

/// Makes the tables that the options describe.
pub fn run(args: &InitArgs) -> Result<Exit, InitCommandError> {
    args.sysbench.check(args.workload)?;
    if let (Schema::Sysbench(_), Some(option)) = (args.schema(), args.pgbench_option()) {
        return Err(InitCommandError::NotPgbench(option));
    }
    if args.partition_method.is_some() && args.partitions.unwrap_or(0) == 0 {
        return Err(InitCommandError::NoPartitions);
    }
    let interrupt = Interrupt::install()?;
    let target = Target::resolve(&args.connection.options())?;
    let control = Control::connect(&target, &interrupt)?;
    let began = Instant::now();
    let mut display = Display::new(args.quiet);
    if let Schema::Sysbench(tables) = args.schema() {
        in_turn(&control, || {
            sysbench::create(&control, tables, None, &mut |progress| display.show(progress))
        })?;
        display.finish();
        say(&format!("done in {:.2} s.", began.elapsed().as_secs_f64()));
        return Ok(Exit::Done);
    }

    let steps = in_turn(&control, || {
        // Whoever asks for tables owns them: a later run must not make them anew by itself.
        Tables::give_away(&control)?;
        let steps = initialize(&control, &args.options(), &mut |progress| display.show(progress))?;
        Ok::<_, InitCommandError>(steps)
    })?;
    if args.schema() == Schema::PgbenchWithFunction {
        create_function(&control)?;
    }
    display.finish();
    say(&summary(began.elapsed(), &steps));
    Ok(Exit::Done)
}

/// In pgbench's words.
fn summary(elapsed: Duration, steps: &[(Step, Duration)]) -> String {
    let parts: Vec<String> = steps
        .iter()
        .map(|(step, duration)| format!("{} {:.2} s", step.name(), duration.as_secs_f64()))
        .collect();
    format!("done in {:.2} s ({}).", elapsed.as_secs_f64(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_reads_like_pgbench_s() {
        let steps =
            [(Step::Drop, Duration::from_millis(20)), (Step::Generate, Duration::from_secs(2))];
        assert_eq!(
            summary(Duration::from_millis(2040), &steps),
            "done in 2.04 s (drop tables 0.02 s, client-side generate 2.00 s)."
        );
    }
}
