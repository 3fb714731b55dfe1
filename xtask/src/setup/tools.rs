//! Programs that one package each provides.

use std::path::Path;

use anyhow::{Result, bail};

use super::{Part, apt, say};
use crate::shell::find_program;

struct Tool {
    part: Part,
    program: &'static str,
    /// The packages that have it, by distribution; the first that apt knows is installed.
    packages: &'static [&'static str],
}

const TOOLS: &[Tool] = &[
    tool(Part::Build, "cc", &["gcc"]),
    tool(Part::HostTests, "sysbench", &["sysbench"]),
    tool(Part::HostTests, "python3-psycopg2", &["python3-psycopg2"]),
    tool(Part::HostTests, "bpftool", &["bpftool", "linux-tools-generic"]),
    tool(Part::Vm, "qemu-system-x86_64", &["qemu-system-x86"]),
    tool(Part::Vm, "busybox", &["busybox-static"]),
    tool(Part::Vm, "cpio", &["cpio"]),
    tool(Part::Vm, "xz", &["xz-utils"]),
    tool(Part::Vm, "zstd", &["zstd"]),
    tool(Part::Vm, "depmod", &["kmod"]),
    tool(Part::Vm, "mkfs.ext4", &["e2fsprogs"]),
    tool(Part::Vm, "mkfs.xfs", &["xfsprogs"]),
    tool(Part::Vm, "dmsetup", &["dmsetup"]),
    tool(Part::Vm, "git", &["git"]),
    tool(Part::Vm, "bpftrace", &["bpftrace"]),
    tool(Part::Vm, "perf", &["linux-perf", "linux-tools-generic"]),
];

const fn tool(part: Part, program: &'static str, packages: &'static [&'static str]) -> Tool {
    Tool { part, program, packages }
}

/// Makes sure that every program of these parts is there.
pub(super) fn ensure(parts: &[Part]) -> Result<()> {
    let missing: Vec<&Tool> =
        TOOLS.iter().filter(|tool| parts.contains(&tool.part) && !is_present(tool)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let programs: Vec<&str> = missing.iter().map(|tool| tool.program).collect();
    if !apt::is_available() {
        bail!(
            "missing: {}; install them with {}'s package manager",
            programs.join(" "),
            apt::distribution()
        );
    }
    let packages = resolve(&missing)?;
    say(&format!("missing: {}: installing {}", programs.join(" "), packages.join(" ")));
    apt::install_missing(&packages)
}

fn is_present(tool: &Tool) -> bool {
    match tool.program {
        // A module of Debian's Python, no program.
        "python3-psycopg2" => Path::new("/usr/lib/python3/dist-packages/psycopg2").exists(),
        // The initramfs has no libraries.
        "busybox" => find_program("busybox").is_some_and(|path| lockscope_vm::is_static(&path)),
        program => find_program(program).is_some(),
    }
}

/// Picks for each tool the package this distribution has, refreshing the lists when one is unknown.
fn resolve(tools: &[&Tool]) -> Result<Vec<String>> {
    let known = |tool: &&Tool| {
        tool.packages
            .iter()
            .find(|&&package| apt::candidate(package).is_some())
            .map(|p| (*p).to_owned())
    };
    if let Some(packages) = tools.iter().map(known).collect() {
        return Ok(packages);
    }
    apt::update()?;
    let (found, unknown): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| known(tool).is_some());
    if unknown.is_empty() {
        return Ok(found.iter().filter_map(known).collect());
    }
    let names: Vec<&str> = unknown.iter().map(|tool| tool.program).collect();
    bail!(
        "apt has no package for {}; install it by hand or add a source that has it",
        names.join(", ")
    )
}
