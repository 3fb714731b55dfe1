//! What the run was measured on, read from /proc and /sys.
//!
//! What cannot be read stays absent: nothing here fails, nothing is guessed.

mod cgroup;
mod config;
mod cpu;
mod hypervisor;
mod kernel;
mod memory;
mod mounts;
mod storage;
mod tree;

use std::fs;
use std::path::Path;

pub use cpu::StealClock;
use tree::Tree;

use crate::model::Environment;

/// The machine, the kernel, this process's limits, and the storage under a data directory.
/// `postgres` and `cpu.steal_ns` are left to whoever asks the server and watches the clock.
pub fn describe(data_directory: Option<&Path>) -> Environment {
    // Links are followed here, where they mean what they say.
    let directory =
        data_directory.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    describe_tree(&Tree::at("/"), directory.as_deref())
}

fn describe_tree(tree: &Tree, data_directory: Option<&Path>) -> Environment {
    Environment {
        kernel: kernel::describe(tree),
        cpu: cpu::describe(tree),
        hypervisor: hypervisor::name(tree),
        memory: memory::describe(tree),
        postgres: None,
        storage: data_directory.map(|path| storage::layers(tree, path)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_tree_gives_absent_values() {
        let root = tempfile::tempdir().unwrap();
        let found = describe_tree(&Tree::at(root.path()), Some(Path::new("/data")));
        assert_eq!(found, Environment::default());
    }

    #[test]
    fn this_machine_is_described() {
        let directory = tempfile::tempdir().unwrap();
        let found = describe(Some(directory.path()));
        assert!(!found.kernel.release.is_empty());
        assert!(found.cpu.count >= 1);
        assert!(found.memory.total_bytes > 0);
        assert_eq!(found.storage[0].kind, "filesystem");
    }
}
