//! The kernel to boot: its image, and its modules if it has any.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

// The header of an x86 boot image: Documentation/arch/x86/boot.rst of the kernel's source.
const MAGIC_AT: usize = 0x202;
const MAGIC: &[u8] = b"HdrS";
/// Where the version's place is told, counted from [`VERSION_BASE`].
const VERSION_POINTER_AT: usize = 0x20e;
const VERSION_BASE: usize = 0x200;
/// Beyond any version's place.
const HEADER_BYTES: u64 = 0x200 + 0x1_0000 + 0x100;

/// A kernel to boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// A bzImage.
    pub image: PathBuf,
    /// What `uname -r` will say.
    pub release: String,
    /// The directory that `modules.dep` is in.
    pub modules: Option<PathBuf>,
    /// What boots the kernel instead of the machine, if anything does (a multiboot image of Xen).
    pub hypervisor: Option<PathBuf>,
    /// What its command line has beside a guest's own arguments; may be empty.
    pub arguments: String,
}

/// Files that are no kernel's.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The image cannot be read.
    #[error("cannot read the kernel {path}: {source}", path = .path.display())]
    Read {
        /// As given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The image of an uncompressed kernel.
    #[error(
        "{path} is an ELF file, which this machine's QEMU does not boot; give arch/x86/boot/bzImage of the same build",
        path = .0.display()
    )]
    Elf(PathBuf),
    /// Anything else.
    #[error(
        "{path} is no kernel for x86 (it has no boot header); give a bzImage, as `make bzImage` leaves it in arch/x86/boot",
        path = .0.display()
    )]
    NoKernel(PathBuf),
    /// No `modules.dep` where it should be.
    #[error(
        "{path} has no modules of {release}: there is no modules.dep in it nor in {release} or lib/modules/{release} under it; `make modules_install INSTALL_MOD_PATH=DIR` makes DIR/lib/modules/{release}",
        path = .path.display()
    )]
    NoModules {
        /// As given.
        path: PathBuf,
        /// The kernel's.
        release: String,
    },
    /// Modules of another kernel.
    #[error(
        "the kernel {image} is {release} and {modules} has modules of another; give the modules of the same build",
        image = .image.display(), modules = .modules.display()
    )]
    OtherModules {
        /// The kernel.
        image: PathBuf,
        /// Its release.
        release: String,
        /// The directory.
        modules: PathBuf,
    },
}

impl Kernel {
    /// Looks at the files. `modules` is a `lib/modules/RELEASE` directory, or the directory above
    /// that modules were installed into.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn open(image: &Path, modules: Option<&Path>) -> Result<Self, KernelError> {
        let release = read_release(image)?;
        let modules = modules.map(|dir| find_modules(dir, image, &release)).transpose()?;
        let (image, arguments) = (image.to_owned(), String::new());
        Ok(Self { image, release, modules, hypervisor: None, arguments })
    }
}

fn read_release(image: &Path) -> Result<String, KernelError> {
    let mut header = Vec::new();
    let read = File::open(image).and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut header));
    read.map_err(|source| KernelError::Read { path: image.to_owned(), source })?;
    if header.starts_with(b"\x7fELF") {
        return Err(KernelError::Elf(image.to_owned()));
    }
    release(&header).ok_or_else(|| KernelError::NoKernel(image.to_owned()))
}

/// The first word of the version in a boot image's header.
fn release(header: &[u8]) -> Option<String> {
    if header.get(MAGIC_AT..MAGIC_AT + MAGIC.len())? != MAGIC {
        return None;
    }
    let pointer = header.get(VERSION_POINTER_AT..VERSION_POINTER_AT + 2)?;
    let at = VERSION_BASE + usize::from(u16::from_le_bytes(pointer.try_into().ok()?));
    let version = header.get(at..)?.split(|byte| *byte == 0).next()?;
    let word = std::str::from_utf8(version).ok()?.split_whitespace().next()?;
    Some(word.to_owned())
}

fn find_modules(dir: &Path, image: &Path, release: &str) -> Result<PathBuf, KernelError> {
    let missing = || KernelError::NoModules { path: dir.to_owned(), release: release.to_owned() };
    let places = [dir.to_owned(), dir.join(release), dir.join("lib/modules").join(release)];
    let found = places.into_iter().find(|place| place.join("modules.dep").is_file());
    let found = found.ok_or_else(missing)?.canonicalize().map_err(|_| missing())?;
    if found.file_name().is_none_or(|name| name != release) {
        return Err(KernelError::OtherModules {
            image: image.to_owned(),
            release: release.to_owned(),
            modules: found,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The header that a build of this version has.
    fn header(version: &str) -> Vec<u8> {
        let mut bytes = vec![0; 0x400];
        bytes[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(MAGIC);
        bytes[VERSION_POINTER_AT..VERSION_POINTER_AT + 2].copy_from_slice(&0x180u16.to_le_bytes());
        bytes[0x380..0x380 + version.len()].copy_from_slice(version.as_bytes());
        bytes
    }

    #[test]
    fn the_release_is_in_the_image() {
        let found = release(&header("6.14.0-rc3+ (me@box) #7 SMP"));
        assert_eq!(found.as_deref(), Some("6.14.0-rc3+"));
        assert_eq!(release(&header("")), None);
        assert_eq!(release(&[0; 0x400]), None);
        assert_eq!(release(b"#!/bin/sh"), None);
    }

    #[test]
    fn what_is_no_kernel_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let open = |content: &[u8]| {
            let image = directory.path().join("image");
            fs::write(&image, content).unwrap();
            Kernel::open(&image, None)
        };
        assert_eq!(open(&header("6.1.0 x")).unwrap().release, "6.1.0");
        assert!(matches!(open(b"\x7fELF..."), Err(KernelError::Elf(_))));
        assert!(matches!(open(b"text"), Err(KernelError::NoKernel(_))));
        let nowhere = Kernel::open(Path::new("/nonexistent/bzImage"), None).unwrap_err();
        assert!(nowhere.to_string().contains("/nonexistent/bzImage"), "{nowhere}");
    }

    #[test]
    fn modules_are_those_of_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("image");
        fs::write(&image, header("6.1.0 x")).unwrap();
        for release in ["6.1.0", "6.2.0"] {
            let dir = root.path().join("lib/modules").join(release);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("modules.dep"), "").unwrap();
        }
        let modules = root.path().join("lib/modules");
        let right = modules.join("6.1.0").canonicalize().unwrap();
        for dir in [root.path(), &modules, &right] {
            let kernel = Kernel::open(&image, Some(dir)).unwrap();
            assert_eq!(kernel.modules.as_deref(), Some(right.as_path()), "{}", dir.display());
        }
        let other = Kernel::open(&image, Some(&modules.join("6.2.0"))).unwrap_err().to_string();
        assert!(other.contains("is 6.1.0") && other.contains("6.2.0"), "{other}");
        let none = Kernel::open(&image, Some(Path::new("/proc"))).unwrap_err().to_string();
        assert!(none.contains("modules_install"), "{none}");
    }
}
