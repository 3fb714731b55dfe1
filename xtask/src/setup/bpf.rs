//! The compiler and linker of the eBPF object.
//!
//! `tracer/build.rs` needs a rustup toolchain that has the source of `core`: rustup's nightly with
//! rust-src, or a distribution's rustc with its source, linked under a name of our own. bpf-linker
//! reads that compiler's bitcode, so it is built against the same LLVM.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::llvm::{Agreement, LlvmVersion};
use super::{apt, say};
use crate::shell::{capture, find_program, run};

/// The toolchain name that `tracer/build.rs` looks for after `nightly`.
const LINKED_TOOLCHAIN: &str = "lockscope-bpf";
/// A distribution's compiler, its cargo and the source of `core`; the first new enough one is taken.
const RUST_PACKAGES: [[&str; 3]; 2] =
    [["rustc-web", "cargo-web", "rust-web-src"], ["rustc", "cargo", "rust-src"]];
const LINKER_VERSION: &str = "0.13.0";
/// The LLVM majors that this bpf-linker has a cargo feature for.
const LINKER_LLVM_MAJORS: std::ops::RangeInclusive<u32> = 21..=23;

struct Toolchain {
    name: String,
    llvm: LlvmVersion,
}

/// Makes sure that the eBPF object can be built.
pub(super) fn ensure() -> Result<()> {
    if let Some(object) = env::var_os("LOCKSCOPE_BPF_OBJECT") {
        say(&format!("LOCKSCOPE_BPF_OBJECT names {}: no BPF toolchain needed", object.display()));
        return Ok(());
    }
    let toolchain = match find_toolchain() {
        Some(toolchain) => toolchain,
        None => install_toolchain()?,
    };
    ensure_linker(&toolchain)
}

fn find_toolchain() -> Option<Toolchain> {
    match env::var("LOCKSCOPE_BPF_TOOLCHAIN") {
        Ok(name) => probe_toolchain(&name),
        Err(_) => ["nightly", LINKED_TOOLCHAIN].iter().find_map(|name| probe_toolchain(name)),
    }
}

/// The toolchain under this name, when it has the source of `core`.
fn probe_toolchain(name: &str) -> Option<Toolchain> {
    let rustc = |args: &[&str]| {
        capture(Command::new("rustup").args(["run", name, "rustc"]).args(args)).ok()
    };
    let sysroot = rustc(&["--print", "sysroot"])?;
    let has_source = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core").exists();
    if !has_source {
        return None;
    }
    let llvm = LlvmVersion::of_rustc(&rustc(&["-vV"])?)?;
    Some(Toolchain { name: name.to_owned(), llvm })
}

fn install_toolchain() -> Result<Toolchain> {
    if let Ok(name) = env::var("LOCKSCOPE_BPF_TOOLCHAIN") {
        bail!(
            "LOCKSCOPE_BPF_TOOLCHAIN={name}: rustup has no such toolchain with the rust-src component"
        );
    }
    if find_program("rustup").is_none() {
        bail!(
            "rustup is not in PATH; the eBPF build chooses its compiler through it. Install rustup and repeat"
        );
    }
    let name = match distribution_rust()? {
        Some(packages) => {
            say(&format!("no compiler for the eBPF object: installing {}", packages.join(" ")));
            apt::install_missing(&packages)?;
            run(Command::new("rustup").args(["toolchain", "link", LINKED_TOOLCHAIN, "/usr"]))?;
            LINKED_TOOLCHAIN
        }
        None => {
            say("no compiler for the eBPF object: installing rustup's nightly with rust-src");
            let words =
                ["toolchain", "install", "nightly", "--profile=minimal", "--component=rust-src"];
            run(Command::new("rustup").args(words)).context(
                "neither the distribution nor rustup could provide a compiler with the source of `core`",
            )?;
            "nightly"
        }
    };
    probe_toolchain(name).with_context(|| {
        format!("toolchain `{name}` was installed but has no source of `core` under its sysroot")
    })
}

/// The distribution's compiler, when it is new enough for the workspace.
fn distribution_rust() -> Result<Option<Vec<String>>> {
    if !apt::is_available() {
        return Ok(None);
    }
    let choose = || {
        RUST_PACKAGES
            .iter()
            .find(|packages| {
                apt::candidate(packages[0]).is_some_and(|version| is_new_enough(&version))
            })
            .map(|packages| packages.iter().map(|&name| name.to_owned()).collect())
    };
    if let Some(packages) = choose() {
        return Ok(Some(packages));
    }
    apt::update()?;
    Ok(choose())
}

fn is_new_enough(version: &str) -> bool {
    let minor = |text: &str| text.split('.').nth(1).and_then(|part| part.parse::<u32>().ok());
    version.starts_with("1.") && minor(version) >= minor(env!("CARGO_PKG_RUST_VERSION"))
}

fn ensure_linker(toolchain: &Toolchain) -> Result<()> {
    let rustc = format!("rustc of toolchain `{}` uses LLVM {}", toolchain.name, toolchain.llvm);
    if let Some(linker) = linker_llvm() {
        match toolchain.llvm.agreement(&linker) {
            Agreement::Same => return Ok(()),
            Agreement::PatchDiffers => {
                say(&format!(
                    "warning: {rustc}, bpf-linker uses {linker}. Patch versions usually link; if the \
                     eBPF build fails with a bitcode error, bring both to one version"
                ));
                return Ok(());
            }
            Agreement::Differs => {
                say(&format!(
                    "{rustc}, but bpf-linker uses {linker}: they must match, rebuilding it"
                ));
            }
        }
    }
    install_linker(toolchain.llvm.major())?;
    let linker = linker_llvm().context(
        "bpf-linker was built but is not in PATH or not linked to libLLVM; is cargo's bin directory in PATH?",
    )?;
    if toolchain.llvm.agreement(&linker) == Agreement::Differs {
        bail!(
            "{rustc}, but the bpf-linker in PATH uses {linker}; remove that bpf-linker and repeat"
        );
    }
    Ok(())
}

/// The LLVM that the installed bpf-linker is linked to.
fn linker_llvm() -> Option<LlvmVersion> {
    let linker = find_program("bpf-linker")?;
    let from_name = LlvmVersion::of_ldd(&capture(Command::new("ldd").arg(linker)).ok()?)?;
    // The library's name lacks the patch version; its llvm-config knows it.
    let config = format!("/usr/lib/llvm-{}/bin/llvm-config", from_name.major());
    let exact = capture(Command::new(config).arg("--version")).ok();
    Some(exact.and_then(|text| LlvmVersion::parse(text.trim())).unwrap_or(from_name))
}

fn install_linker(major: u32) -> Result<()> {
    if !LINKER_LLVM_MAJORS.contains(&major) {
        bail!(
            "the compiler uses LLVM {major}, but bpf-linker {LINKER_VERSION} supports {} to {}",
            LINKER_LLVM_MAJORS.start(),
            LINKER_LLVM_MAJORS.end()
        );
    }
    let prefix = format!("/usr/lib/llvm-{major}");
    let packages: Vec<String> =
        ["llvm-N", "llvm-N-dev", "libpolly-N-dev", "libzstd-dev", "zlib1g-dev", "g++"]
            .iter()
            .map(|name| name.replace('N', &major.to_string()))
            .collect();
    say(&format!(
        "building bpf-linker {LINKER_VERSION} against LLVM {major}, which needs {}",
        packages.join(" ")
    ));
    apt::install_missing(&packages)?;
    // LLVM_PREFIX too: without it the build script believes the first llvm-config in PATH.
    run(Command::new("cargo")
        .env("LLVM_PREFIX", &prefix)
        .env(format!("LLVM_SYS_{major}1_PREFIX"), &prefix)
        .args(["install", &format!("bpf-linker@{LINKER_VERSION}"), "--locked", "--force"])
        .args(["--no-default-features", "--features", &format!("llvm-{major}")]))
}

#[cfg(test)]
mod tests {
    use super::is_new_enough;

    #[test]
    fn only_compilers_that_can_build_the_workspace_are_taken() {
        assert!(is_new_enough("1.96.0+dfsg1-1~deb12u2"));
        assert!(!is_new_enough("1.63.0+dfsg1-2"));
        assert!(!is_new_enough("0.96.0"));
        assert!(!is_new_enough(""));
    }
}
