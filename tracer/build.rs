//! Compiles the eBPF object and puts its path into `LOCKSCOPE_BPF_OBJECT` for `include_bytes`.
//!
//! The object needs a compiler that can build `core` from source. In order of preference:
//! 1. `LOCKSCOPE_BPF_OBJECT`: an object built elsewhere is taken as it is;
//! 2. `LOCKSCOPE_BPF_TOOLCHAIN`: a rustup toolchain by name;
//! 3. a rustup `nightly` that has the rust-src component;
//! 4. the rustup toolchain `lockscope-bpf`, which `cargo xtask setup` links.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};
use aya_build::{Package, Toolchain};

/// The toolchain name that `cargo xtask setup` links to a distribution's rustc with its source.
const LINKED_TOOLCHAIN: &str = "lockscope-bpf";

fn main() -> Result<()> {
    for variable in ["LOCKSCOPE_BPF_OBJECT", "LOCKSCOPE_BPF_TOOLCHAIN"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let object = out_dir.join("lockscope.bpf.o");
    match env::var_os("LOCKSCOPE_BPF_OBJECT") {
        Some(prebuilt) => {
            println!("cargo:rerun-if-changed={}", Path::new(&prebuilt).display());
            fs::copy(&prebuilt, &object).with_context(|| {
                format!("LOCKSCOPE_BPF_OBJECT: cannot read {}", Path::new(&prebuilt).display())
            })?;
        }
        None => {
            build_object()?;
            fs::copy(out_dir.join("lockscope-bpf"), &object)
                .context("the eBPF build left no object")?;
        }
    }
    println!("cargo:rustc-env=LOCKSCOPE_BPF_OBJECT={}", object.display());
    Ok(())
}

fn build_object() -> Result<()> {
    let toolchain = find_toolchain()?;
    // SAFETY: a build script is single-threaded here.
    unsafe { env::set_var("RUSTC_BOOTSTRAP", "1") };
    let manifest_dir = env::var("CARGO_MANIFEST_DIR")?;
    let root_dir = format!("{manifest_dir}/../tracer-ebpf");
    let features = &["bpf"];
    let package =
        Package { name: "tracer-ebpf", root_dir: &root_dir, no_default_features: false, features };
    aya_build::build_ebpf([package], Toolchain::Custom(&toolchain)).with_context(|| {
        format!("building the eBPF object with toolchain `{toolchain}` failed; `cargo xtask setup` checks and repairs the toolchain")
    })
}

fn find_toolchain() -> Result<String> {
    if let Ok(name) = env::var("LOCKSCOPE_BPF_TOOLCHAIN") {
        return Ok(name);
    }
    for name in ["nightly", LINKED_TOOLCHAIN] {
        if has_rust_src(name) {
            return Ok(name.to_owned());
        }
    }
    bail!(
        "no toolchain can build `core` for BPF: neither rustup's nightly with rust-src nor `{LINKED_TOOLCHAIN}` is there. \
         Run `cargo xtask setup`, or set LOCKSCOPE_BPF_OBJECT to a ready object."
    )
}

fn has_rust_src(toolchain: &str) -> bool {
    let output =
        Command::new("rustup").args(["run", toolchain, "rustc", "--print", "sysroot"]).output();
    let Ok(output) = output else { return false };
    let sysroot = String::from_utf8_lossy(&output.stdout);
    output.status.success()
        && Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core").exists()
}
