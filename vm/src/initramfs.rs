//! The guest's first file system: busybox, an init script and the modules that reach the host's root.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::modules::{WANTED, load_order};
use super::program::{is_static, need_program};
use super::{Kernel, VmError};

const INIT: &str = include_str!("init.sh");

/// Writes the archive to `dir` and returns its path.
///
/// # Errors
/// A program is missing or fails, or a file cannot be read or written.
pub fn build(kernel: &Kernel, dir: &Path) -> Result<PathBuf, VmError> {
    let tree = dir.join("initramfs");
    if tree.exists() {
        fs::remove_dir_all(&tree).map_err(VmError::io("remove the old initramfs"))?;
    }
    for sub in ["bin", "modules"] {
        fs::create_dir_all(tree.join(sub)).map_err(VmError::io("create the initramfs"))?;
    }
    let busybox = need_program("busybox", "busybox-static")?;
    if !is_static(&busybox) {
        return Err(VmError::BusyboxNotStatic(busybox));
    }
    fs::copy(busybox, tree.join("bin/busybox")).map_err(VmError::io("copy busybox"))?;
    let init = tree.join("init");
    fs::write(&init, INIT).map_err(VmError::io("write the guest's init"))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755))
        .map_err(VmError::io("make the guest's init executable"))?;
    place_modules(kernel, &tree.join("modules"))?;
    pack(&tree, &dir.join("initramfs.cpio"))
}

/// Puts the modules there, the list of their files, and a mark where the guest finds all others.
fn place_modules(kernel: &Kernel, dir: &Path) -> Result<(), VmError> {
    let mut order = String::new();
    if let Some(modules) = &kernel.modules {
        let index = modules.join("modules.dep");
        let text =
            fs::read_to_string(&index).map_err(VmError::io(format!("read {}", index.display())))?;
        for file in load_order(&text, &WANTED) {
            let name = format!("{}.ko", stem(file));
            unpack(&modules.join(file), &dir.join(&name))?;
            order.push_str(&name);
            order.push('\n');
        }
        fs::write(dir.join("shared"), "").map_err(VmError::io("mark the modules"))?;
    }
    fs::write(dir.join("order"), order).map_err(VmError::io("write the order of the modules"))
}

fn stem(file: &str) -> &str {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split('.').next().unwrap_or(base)
}

fn unpack(module: &Path, target: &Path) -> Result<(), VmError> {
    let (program, package) = match module.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => ("xz", "xz-utils"),
        Some("zst") => ("zstd", "zstd"),
        Some("gz") => ("gzip", "gzip"),
        _ => {
            let what = format!("copy the module {}", module.display());
            return fs::copy(module, target).map(drop).map_err(VmError::io(what));
        }
    };
    let output =
        File::create(target).map_err(VmError::io(format!("create {}", target.display())))?;
    let status = Command::new(need_program(program, package)?)
        .args(["-q", "-d", "-c"])
        .arg(module)
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .map_err(VmError::io(format!("start {program}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(VmError::Tool { program, status, on: module.to_owned() }),
    }
}

fn pack(tree: &Path, archive: &Path) -> Result<PathBuf, VmError> {
    need_program("cpio", "cpio")?;
    let output =
        File::create(archive).map_err(VmError::io(format!("create {}", archive.display())))?;
    let status = Command::new("sh")
        .args(["-c", "find . | cpio --quiet -o -H newc -R 0:0"])
        .current_dir(tree)
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .map_err(VmError::io("start cpio"))?;
    match status.success() {
        true => Ok(archive.to_path_buf()),
        false => Err(VmError::Tool { program: "cpio", status, on: tree.to_owned() }),
    }
}
