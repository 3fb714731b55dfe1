//! One release binary with the eBPF object inside, and its installation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::setup::{self, Part};
use crate::shell::{capture, cargo, run, target_dir};

/// The libraries of glibc itself, plus the vdso and the loader: every Linux machine has them.
const GLIBC_LIBRARIES: [&str; 9] = [
    "linux-vdso.so",
    "ld-linux",
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "libpthread.so",
    "libdl.so",
    "librt.so",
    "libresolv.so",
];

/// Builds `target/dist/lockscope` and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    setup::ensure(&[Part::Build])?;
    run(cargo().args(["build", "--release", "--package", "lockscope"]))?;
    let dist = target_dir().join("dist");
    fs::create_dir_all(&dist).with_context(|| format!("cannot create {}", dist.display()))?;
    let binary = dist.join("lockscope");
    fs::copy(target_dir().join("release/lockscope"), &binary)
        .with_context(|| format!("cannot write {}", binary.display()))?;
    // Line tables are for this machine; the symbols stay, for backtraces that name functions.
    run(Command::new("strip").arg("--strip-debug").arg(&binary))?;
    let libraries = foreign_libraries(&capture(Command::new("ldd").arg(&binary))?);
    if !libraries.is_empty() {
        bail!("{} needs more than glibc: {}", binary.display(), libraries.join(", "));
    }
    let bytes = fs::metadata(&binary).context("cannot read the binary's size")?.len();
    let (whole, tenth) = (bytes >> 20, ((bytes & 0xf_ffff) * 10) >> 20);
    println!("{}: {whole}.{tenth} MiB, needs only glibc", binary.display());
    Ok(binary)
}

/// Builds the binary and copies it to `prefix/bin`.
pub(crate) fn install(prefix: &Path) -> Result<()> {
    let binary = build()?;
    let dir = prefix.join("bin");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let target = dir.join("lockscope");
    // A running lockscope keeps its old file: the new one is renamed over it, never written into it.
    let partial = dir.join(format!(".lockscope.{}", std::process::id()));
    fs::copy(&binary, &partial).and_then(|_| fs::rename(&partial, &target)).with_context(|| {
        format!("cannot write {}; is `--prefix` right, or is root needed?", target.display())
    })?;
    println!("installed {}", target.display());
    Ok(())
}

/// What `ldd` lists beyond glibc.
fn foreign_libraries(ldd: &str) -> Vec<String> {
    let names = ldd.lines().filter_map(|line| line.split_whitespace().next());
    names
        .map(|name| name.rsplit('/').next().unwrap_or(name))
        .filter(|name| !GLIBC_LIBRARIES.iter().any(|known| name.starts_with(known)))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::foreign_libraries;

    #[test]
    fn only_libraries_beyond_glibc_are_foreign() {
        let ldd = "\tlinux-vdso.so.1 (0x0)\n\tlibgcc_s.so.1 => /lib/libgcc_s.so.1 (0x0)\n\
                   \tlibssl.so.3 => /lib/libssl.so.3 (0x0)\n\t/lib64/ld-linux-x86-64.so.2 (0x0)\n";
        assert_eq!(foreign_libraries(ldd), ["libssl.so.3"]);
        assert!(foreign_libraries("\tlibc.so.6 => /lib/libc.so.6 (0x0)\n").is_empty());
    }
}
