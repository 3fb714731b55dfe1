//! Prints the table of `docs/kernel-support.md`; `cargo xtask kernel-support` puts it there.
//!
//! The arguments are files with the features that `lockscope doctor --json` printed, a column each.

use std::fs;

use anyhow::{Context as _, Result};
use lockscope::kernel::Features;
use lockscope::probe::support_table;

fn main() -> Result<()> {
    let recordings = std::env::args_os().skip(1).map(|file| {
        let name = file.display();
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_str(&text).with_context(|| format!("{name} holds no features"))
    });
    print!("{}", support_table(&recordings.collect::<Result<Vec<Features>>>()?)?);
    Ok(())
}
