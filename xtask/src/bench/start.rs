//! How long it takes to start, and to show a saved run.

use anyhow::{Context as _, Result};

use super::child::finish;
use super::lockscope::Lockscope;
use super::pairs::Spread;

/// From exec to the end of a run of one transaction: an upper bound of the time to the first one,
/// for it also holds detaching and the report.
pub(super) fn print(lockscope: &Lockscope, repetitions: usize) -> Result<()> {
    let one = |options: &[&str]| -> Result<f64> {
        let options = [&["-t", "1"], options].concat();
        Ok(lockscope.select_prepared(1, &options)?.wall.as_secs_f64() * 1e3)
    };
    let mut rows = (Vec::new(), Vec::new(), Vec::new());
    let saved = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
    let path = saved.path().display().to_string();
    // Something worth showing; and nothing below is the first of its kind.
    lockscope.select_prepared(8, &["-T", "3", "--warmup", "0", "-o", &path])?;
    for _ in 0..repetitions {
        rows.0.push(one(&["--no-trace"])?);
        rows.1.push(one(&[])?);
        let report = finish(&mut lockscope.command(&["report", &path]))?;
        rows.2.push(report.wall.as_secs_f64() * 1e3);
    }
    let attaching = rows.1.iter().zip(&rows.0).map(|(traced, untraced)| traced - untraced);
    let rows = [
        ("exec to the end of a run of 1 transaction, untraced", Spread::of(rows.0.clone())),
        ("the same, traced", Spread::of(rows.1.clone())),
        ("difference: attach, detach, names of what was seen", Spread::of(attaching)),
        ("text report of a saved run", Spread::of(rows.2)),
    ];
    println!();
    for (name, spread) in rows {
        if let Some(spread) = spread {
            println!("{name}: median {spread:.0} ms");
        }
    }
    Ok(())
}
