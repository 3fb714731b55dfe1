//! Formatting, lints and documentation, each with warnings as errors.

use anyhow::Result;

use crate::shell::{cargo, run, target_dir};

/// The eBPF programs are `no_std` without an unwinder. For lints the host's compiler is good enough.
const BPF_LINT_FLAGS: &str = "-Cpanic=abort\x1f-Dwarnings\x1f--cfg\x1fbpf_target_arch=\"x86_64\"";

pub(crate) fn run_all() -> Result<()> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    // aya's macros use an unstable attribute, hence the bootstrap switch; a target directory of its
    // own keeps the changed flags from rebuilding everything else.
    run(cargo()
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", BPF_LINT_FLAGS)
        .env("CARGO_TARGET_DIR", target_dir().join("lint-bpf"))
        .args([
            "clippy",
            "--package",
            "tracer-ebpf",
            "--features",
            "bpf",
            "--bin",
            "lockscope-bpf",
        ]))?;
    run(cargo().env("RUSTDOCFLAGS", "-Dwarnings").args(["doc", "--workspace", "--no-deps"]))
}
