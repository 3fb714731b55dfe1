//! The guest's first file system: busybox, an init script and the modules that reach the host's root.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::kernels::Kernel;
use crate::shell::find_program;

const INIT: &str = include_str!("init.sh");

/// In loading order: each needs only those before it. Kernels lack those they have built in or do
/// not know.
const MODULES: [&str; 12] = [
    "virtio",
    "virtio_ring",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "netfs",
    "fscache",
    "9pnet",
    "9pnet_virtio",
    "9p",
    "overlay",
    "virtio_blk",
];

/// Writes the archive to `dir` and returns its path.
pub(super) fn build(kernel: &Kernel, dir: &Path) -> Result<PathBuf> {
    let tree = dir.join("initramfs");
    if tree.exists() {
        fs::remove_dir_all(&tree).context("cannot remove the old initramfs")?;
    }
    for sub in ["bin", "modules"] {
        fs::create_dir_all(tree.join(sub)).context("cannot create the initramfs")?;
    }
    let busybox =
        find_program("busybox").context("busybox is missing; `cargo xtask setup` installs it")?;
    fs::copy(busybox, tree.join("bin/busybox")).context("cannot copy busybox")?;
    let init = tree.join("init");
    fs::write(&init, INIT).context("cannot write init")?;
    make_executable(&init)?;
    copy_modules(kernel, &tree.join("modules"))?;
    pack(&tree, &dir.join("initramfs.cpio"))
}

fn copy_modules(kernel: &Kernel, dir: &Path) -> Result<()> {
    let index = fs::read_to_string(kernel.modules.join("modules.dep"))
        .context("cannot read modules.dep")?;
    let mut order = String::new();
    for name in MODULES {
        let Some(file) = find_module(&index, name) else { continue };
        let target = dir.join(format!("{name}.ko"));
        decompress(&kernel.modules.join(file), &target)?;
        order.push_str(&format!("{name}.ko\n"));
    }
    fs::write(dir.join("order"), order).context("cannot write the module order")
}

/// The file of a module, from the left sides of `modules.dep`. Files spell `_` and `-` as they like.
fn find_module<'a>(index: &'a str, name: &str) -> Option<&'a str> {
    index.lines().filter_map(|line| line.split(':').next()).find(|file| {
        let base = file.rsplit('/').next().unwrap_or(file);
        base.split('.').next().is_some_and(|stem| stem.replace('-', "_") == name)
    })
}

fn decompress(module: &Path, target: &Path) -> Result<()> {
    let tool = match module.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        _ => {
            fs::copy(module, target)
                .with_context(|| format!("cannot copy {}", module.display()))?;
            return Ok(());
        }
    };
    let output =
        File::create(target).with_context(|| format!("cannot create {}", target.display()))?;
    let status = Command::new(tool)
        .args(["-q", "-d", "-c"])
        .arg(module)
        .stdout(output)
        .status()
        .with_context(|| format!("cannot start {tool}; `cargo xtask setup` installs it"))?;
    if !status.success() {
        bail!("{tool} cannot decompress {}", module.display());
    }
    Ok(())
}

fn pack(tree: &Path, archive: &Path) -> Result<PathBuf> {
    let output =
        File::create(archive).with_context(|| format!("cannot create {}", archive.display()))?;
    let status = Command::new("sh")
        .args(["-c", "find . | cpio --quiet -o -H newc -R 0:0"])
        .current_dir(tree)
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .context("cannot start cpio")?;
    if !status.success() {
        bail!("cpio failed: {status}");
    }
    Ok(archive.to_path_buf())
}

pub(super) fn make_executable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", path.display()))
}

#[cfg(test)]
mod tests {
    use super::find_module;

    #[test]
    fn modules_are_found_whatever_their_spelling_and_compression() {
        let index = "kernel/drivers/virtio/virtio-ring.ko.xz:\nkernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko\n";
        assert_eq!(
            find_module(index, "virtio_ring"),
            Some("kernel/drivers/virtio/virtio-ring.ko.xz")
        );
        assert_eq!(find_module(index, "9p"), Some("kernel/fs/9p/9p.ko"));
        assert_eq!(find_module(index, "9pnet"), None);
    }
}
