//! The kernels that guests run: Debian's own, unpacked into a cache.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fmt, fs};

use anyhow::{Context as _, Result, bail};
use lockscope_vm::Kernel as BootKernel;

use super::archive::Archive;
use crate::shell::run;

/// A kernel series and the Debian release whose kernel stands for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) flavour: Flavour,
    suite: &'static str,
}

/// What changes how locks wait, at one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// As servers run it.
    Generic,
    /// PREEMPT_RT: most spinlocks sleep.
    Rt,
    /// A paravirtual guest of Xen: spinlocks wait in `__pv_queued_spin_lock_slowpath`.
    Xen,
}

pub(crate) const SERIES: [Series; 6] = [
    Series::generic("5.10", "bullseye"),
    Series::generic("6.1", "bookworm"),
    Series::generic("6.12", "trixie"),
    Series::generic("7.x", "sid"),
    Series { name: "6.12-rt", flavour: Flavour::Rt, suite: "trixie" },
    Series { name: "xen", flavour: Flavour::Xen, suite: "bookworm" },
];

/// The hypervisor of the Xen series, from the same release.
const XEN_PACKAGE: &str = "xen-hypervisor-4.17-amd64";

impl Flavour {
    const ALL: [(&str, Self); 3] =
        [("generic", Self::Generic), ("rt", Self::Rt), ("xen", Self::Xen)];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, flavour)| flavour)
    }

    /// The package that depends on the newest kernel.
    fn meta_package(self) -> &'static str {
        match self {
            Self::Generic | Self::Xen => "linux-image-amd64",
            Self::Rt => "linux-image-rt-amd64",
        }
    }
}

impl Series {
    const fn generic(name: &'static str, suite: &'static str) -> Self {
        Self { name, flavour: Flavour::Generic, suite }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        SERIES.into_iter().find(|series| series.name == name)
    }
}

/// Major and minor version of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl Version {
    /// Reads `6.12` or the beginning of `6.12.117+deb13-amd64`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        Some(Self(parts.next()?.ok()?, parts.next()?.ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// An unpacked kernel.
pub(crate) struct Kernel {
    pub(crate) series: Series,
    pub(crate) version: Version,
    /// Its files.
    pub(crate) boot: BootKernel,
}

/// Takes the kernel from the cache, or from Debian's archive when it is not there or to be renewed.
pub(crate) fn fetch(series: Series, renew: bool) -> Result<Kernel> {
    let cache = cache_dir()?;
    let dir = cache.join(series.name);
    if renew || !dir.exists() {
        download(series, &cache, &dir).with_context(|| {
            format!("cannot fetch a {} kernel of Debian {}", series.name, series.suite)
        })?;
    }
    open(series, &dir).with_context(|| {
        format!(
            "the cached kernel in {} is damaged; remove that directory and repeat",
            dir.display()
        )
    })
}

/// Outside the target directory, so that it outlives `cargo clean` and serves every checkout.
fn cache_dir() -> Result<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("LOCKSCOPE_VM_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("lockscope/kernels")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/lockscope/kernels")))
        .context("no cache directory: set LOCKSCOPE_VM_CACHE or HOME")
}

/// Builds the kernel's directory beside its place and moves it there when it is complete.
fn download(series: Series, cache: &Path, dir: &Path) -> Result<()> {
    let partial = cache.join(format!(".{}.{}", series.name, std::process::id()));
    let old = partial.join("old");
    fs::create_dir_all(&partial).with_context(|| format!("cannot create {}", partial.display()))?;
    let result = unpack_into(series, &partial).and_then(|unpacked| {
        if dir.exists() {
            fs::rename(dir, &old).context("cannot move the old kernel away")?;
        }
        fs::rename(unpacked, dir).context("cannot move the new kernel into the cache")
    });
    fs::remove_dir_all(&partial).with_context(|| format!("cannot remove {}", partial.display()))?;
    result
}

fn unpack_into(series: Series, dir: &Path) -> Result<PathBuf> {
    let archive = Archive::open(series.suite, &dir.join("apt"))?;
    let meta_package = series.flavour.meta_package();
    let image = archive
        .dependencies(meta_package)?
        .into_iter()
        .find(|name| name.starts_with("linux-image-"))
        .with_context(|| format!("{meta_package} names no kernel package"))?;
    // Newer releases split the package into the image and its modules.
    let mut packages = archive.dependencies(&image)?;
    packages.retain(|name| name.starts_with("linux-binary-") || name.starts_with("linux-modules-"));
    packages.push(image);
    if series.flavour == Flavour::Xen {
        packages.push(XEN_PACKAGE.to_owned());
    }
    let root = dir.join("root");
    archive.unpack(&packages, &root)?;
    let modules = find_modules(&root)?;
    let (Some(release), Some(base)) = (modules.file_name(), modules.ancestors().nth(3)) else {
        bail!("unexpected module directory {}", modules.display());
    };
    run(Command::new("depmod").arg("-b").arg(base).arg(release))?;
    if series.flavour == Flavour::Xen {
        // QEMU boots it uncompressed only.
        run(Command::new("gunzip").arg(find_xen(&root, ".gz")?))?;
    }
    Ok(root)
}

fn open(series: Series, root: &Path) -> Result<Kernel> {
    let modules = find_modules(root)?;
    let release = modules.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version =
        Version::parse(&release).with_context(|| format!("strange release `{release}`"))?;
    let image = [root.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")]
        .into_iter()
        .find(|path| path.exists())
        .context("the package has no vmlinuz")?;
    let hypervisor = match series.flavour {
        Flavour::Xen => Some(find_xen(root, "amd64")?),
        Flavour::Generic | Flavour::Rt => None,
    };
    let boot = BootKernel { hypervisor, ..BootKernel::open(&image, Some(&modules))? };
    Ok(Kernel { series, version, boot })
}

/// `boot/xen-VERSION-amd64`, or that with `.gz`.
fn find_xen(root: &Path, ending: &str) -> Result<PathBuf> {
    let is_xen = |name: &str| name.starts_with("xen-") && name.ends_with(ending);
    let files = fs::read_dir(root.join("boot")).into_iter().flatten().flatten();
    files
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_xen))
        .with_context(|| format!("{XEN_PACKAGE} has no boot/xen-…-{ending}"))
}

/// `lib/modules/V` or `usr/lib/modules/V` under an unpacked package.
fn find_modules(root: &Path) -> Result<PathBuf> {
    let mut releases = ["lib/modules", "usr/lib/modules"]
        .iter()
        .filter_map(|dir| fs::read_dir(root.join(dir)).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    releases.next().with_context(|| format!("no kernel modules under {}", root.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_order_by_number() {
        assert_eq!(Version::parse("6.12.117+deb13-amd64"), Some(Version(6, 12)));
        assert_eq!(Version::parse("5.10"), Some(Version(5, 10)));
        assert_eq!(Version::parse("six"), None);
        assert_eq!(Version::parse("6"), None);
        assert!(Version(5, 10) < Version(6, 1) && Version(6, 1) < Version(6, 12));
    }
}
