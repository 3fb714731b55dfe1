//! `cargo xtask kernel-support`: what `lockscope doctor` says on each kernel, recorded for the tests
//! and told in `docs/kernel-support.md`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::Value;

use crate::setup::{self, Part};
use crate::shell::{capture, cargo, target_dir, workspace_root};
use crate::vm;

const PAGE: &str = "docs/kernel-support.md";
const RECORDINGS: &str = "tracer/src/probe/fixtures";
/// A kernel that is no Debian's, recorded where it runs.
const OTHER_RECORDINGS: [&str; 1] = ["host-6.18"];
const BEGIN: &str = "<!-- begin: written by cargo xtask kernel-support -->\n";
const END: &str = "<!-- end -->\n";

#[derive(Args)]
pub(crate) struct Options {
    /// Kernel series to record anew
    #[arg(long = "kernel", value_delimiter = ',', default_value = "all")]
    kernels: Vec<String>,
    /// Boot nothing: write the table from what is recorded already
    #[arg(long, conflicts_with = "kernels")]
    no_record: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    setup::ensure(&[Part::Build])?;
    if !options.no_record {
        let line = "\"$LOCKSCOPE_BIN\" doctor --json >\"$RESULTS_DIR/doctor.json\"";
        vm::run(&vm::Options::for_command(&options.kernels, line))?;
        for series in vm::series_names(&options.kernels)? {
            record(series)?;
        }
    }
    let names = vm::series_names(&["all".to_owned()])?;
    let files = names.iter().map(|name| recording(&format!("debian-{name}")));
    let files: Vec<PathBuf> = files.chain(OTHER_RECORDINGS.map(recording)).collect();
    let mut example = cargo();
    example.args(["run", "--quiet", "--package", "lockscope", "--example", "kernel-support", "--"]);
    write_table(&capture(example.args(files))?)
}

fn recording(name: &str) -> PathBuf {
    workspace_root().join(RECORDINGS).join(format!("{name}.json"))
}

/// Keeps the features out of what doctor said in the guest.
fn record(series: &str) -> Result<()> {
    let said = target_dir().join("vm").join(series).join("share/command/doctor.json");
    let text = fs::read_to_string(&said)
        .with_context(|| format!("{series}: doctor left no {}", said.display()))?;
    let diagnosis: Value =
        serde_json::from_str(&text).with_context(|| format!("{series}: doctor printed no JSON"))?;
    let features = diagnosis.get("features").context("doctor printed no features")?;
    let file = recording(&format!("debian-{series}"));
    fs::write(&file, format!("{features:#}\n"))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn write_table(table: &str) -> Result<()> {
    let path = workspace_root().join(PAGE);
    let page = fs::read_to_string(&path).context("cannot read the page")?;
    fs::write(&path, replaced(&page, table)?).context("cannot write the page")?;
    println!("{} has the table", Path::new(PAGE).display());
    Ok(())
}

/// The page with what is between the marks replaced.
fn replaced(page: &str, table: &str) -> Result<String> {
    let marks = || format!("{PAGE} has lost its marks `{}` and `{}`", BEGIN.trim(), END.trim());
    let (before, rest) = page.split_once(BEGIN).with_context(marks)?;
    let (_, after) = rest.split_once(END).with_context(marks)?;
    Ok(format!("{before}{BEGIN}{}\n{END}{after}", table.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("head\n{BEGIN}old\nolder\n{END}tail\n");
        let expected = format!("head\n{BEGIN}| new |\n{END}tail\n");
        assert_eq!(replaced(&page, "| new |\n\n").expect("a page"), expected);
        assert!(replaced("no marks", "").is_err());
    }

    #[test]
    fn the_page_has_its_marks() {
        let page = fs::read_to_string(workspace_root().join(PAGE)).expect("a page");
        assert!(replaced(&page, "").is_ok());
    }
}
