//! The directory through which host and guest talk.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::case::Case;
use crate::shell::{quote, target_dir, workspace_root};

/// Lays out the directory that the guest reads its orders from and leaves its results in.
pub(super) fn prepare(share: &Path, cases: &[&Case], lockscope: &Path, stream: bool) -> Result<()> {
    if share.exists() {
        fs::remove_dir_all(share).context("cannot remove the results of the last run")?;
    }
    fs::create_dir_all(share).context("cannot create the guest's share")?;
    let list: String = cases
        .iter()
        .map(|case| {
            format!("{} {} {}\n", case.name, case.timeout.as_secs(), case.program.display())
        })
        .collect();
    let assign = |name: &str, value: &Path| format!("export {name}={}\n", quote(value.as_os_str()));
    let settings = [
        assign("WORKSPACE", &workspace_root()),
        assign("LOCKSCOPE_BIN", lockscope),
        assign("STRESSORS_DIR", &target_dir().join("debug")),
        assign("SCRATCH_DISK", Path::new("/dev/vda")),
        format!("STREAM={}\n", if stream { "yes" } else { "" }),
    ];
    for (name, text) in [
        ("cases", list),
        ("settings", settings.concat()),
        ("guest.sh", include_str!("guest.sh").to_owned()),
        ("prepare.sh", lockscope_vm::PREPARE_SCRIPT.to_owned()),
    ] {
        fs::write(share.join(name), text)
            .with_context(|| format!("cannot write the guest's {name}"))?;
    }
    Ok(())
}
