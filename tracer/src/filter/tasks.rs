//! Which tasks are traced: by process, thread, name and control group.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::FilterError;
use super::container::Container;
use super::near::did_you_mean;
use crate::kernel::task;

/// The kernel cuts a task's name to this many bytes (TASK_COMM_LEN less its NUL).
const COMM_BYTES: usize = 15;

/// What a task must be. Values of one option are alternatives, the options are all to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    pub(super) pids: Vec<u32>,
    pub(super) tids: Vec<u32>,
    pub(super) comms: Vec<String>,
    /// Paths below the hierarchy's root, as `/proc/PID/cgroup` writes them.
    pub(super) cgroups: Vec<String>,
    pub(super) containers: Vec<Container>,
}

impl TaskFilter {
    /// Whether every task passes.
    pub fn is_empty(&self) -> bool {
        *self == TaskFilter::default()
    }

    /// Whether a container narrows it: servers in it are then meant too.
    pub fn names_container(&self) -> bool {
        !self.containers.is_empty()
    }

    /// Whether a task passes now. One that is gone passes only where its numbers decide.
    pub fn passes(&self, tid: u32, tgid: u32) -> bool {
        let any = |list: &[u32], value| list.is_empty() || list.contains(&value);
        any(&self.pids, tgid)
            && any(&self.tids, tid)
            && (self.comms.is_empty() || comm(tid).is_some_and(|comm| self.has_comm(&comm)))
            && (self.cgroups.is_empty() || self.has_cgroup(tid))
            && (self.containers.is_empty() || self.containers.iter().any(|one| one.has(tid)))
    }

    fn has_comm(&self, comm: &str) -> bool {
        self.comms.iter().any(|wanted| wanted == comm)
    }

    fn has_cgroup(&self, tid: u32) -> bool {
        let membership = task::read_text(format!("/proc/{tid}/cgroup")).unwrap_or_default();
        membership.lines().filter_map(path_of_line).any(|path| {
            self.cgroups.iter().any(|group| is_below(Path::new(path), Path::new(group)))
        })
    }

    /// The tasks of the machine that pass, as (tid, tgid). Those that end meanwhile are left out.
    pub fn tasks(&self) -> Vec<(u32, u32)> {
        let threads = |tgid| task::tids(tgid).into_iter().flatten().map(move |tid| (tid, tgid));
        task::pids().flat_map(threads).filter(|(tid, tgid)| self.passes(*tid, *tgid)).collect()
    }

    /// Refuses what names nothing.
    pub(super) fn check(&self) -> Result<(), FilterError> {
        for pid in &self.pids {
            let tgid = status_number(*pid, "Tgid:").ok_or(FilterError::NoProcess(*pid))?;
            if tgid != *pid {
                return Err(FilterError::IsThread { tid: *pid, pid: tgid });
            }
        }
        for tid in &self.tids {
            status_number(*tid, "Tgid:").ok_or(FilterError::NoThread(*tid))?;
        }
        Ok(())
    }

    /// Refuses names that no task has now: call it when those that are waited for exist.
    ///
    /// # Errors
    /// [`FilterError::NoComm`] with similar names.
    pub fn check_names(&self) -> Result<(), FilterError> {
        let running = if self.comms.is_empty() { BTreeSet::new() } else { running_comms() };
        for wanted in &self.comms {
            if !running.contains(wanted) {
                let near = did_you_mean(wanted, running.iter().map(String::as_str));
                return Err(FilterError::NoComm { comm: wanted.clone(), near });
            }
        }
        Ok(())
    }
}

/// A name as the kernel keeps it.
pub(super) fn cut_comm(comm: &str) -> String {
    let mut end = comm.len().min(COMM_BYTES);
    while !comm.is_char_boundary(end) {
        end -= 1;
    }
    comm[..end].to_owned()
}

fn comm(tid: u32) -> Option<String> {
    task::thread_comm(tid, tid)
}

fn running_comms() -> BTreeSet<String> {
    TaskFilter::default().tasks().into_iter().filter_map(|(tid, _)| comm(tid)).collect()
}

fn status_number(tid: u32, field: &str) -> Option<u32> {
    let status = task::read_text(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}

/// `4:memory:/path` or `0::/path`.
fn path_of_line(line: &str) -> Option<&str> {
    line.splitn(3, ':').nth(2)
}

fn is_below(path: &Path, group: &Path) -> bool {
    path.starts_with(group)
}

/// The group as `/proc/PID/cgroup` writes it, from a path below a mounted hierarchy or from the
/// hierarchy's root (`/system.slice/postgresql.service`, with or without the leading slash).
pub(super) fn find_cgroup(given: &str) -> Result<String, FilterError> {
    let mounts = cgroup_mounts();
    let given_path = Path::new(given);
    for mount in &mounts {
        let below = given_path.strip_prefix(mount).or_else(|_| given_path.strip_prefix("/"));
        let below = below.unwrap_or(given_path);
        if mount.join(below).join("cgroup.procs").exists() {
            return Ok(format!("/{}", below.display()));
        }
    }
    let known = mounts.iter().flat_map(|mount| groups_below(mount)).collect::<BTreeSet<_>>();
    let near = did_you_mean(given, known.iter().map(String::as_str));
    Err(FilterError::NoCgroup { cgroup: given.to_owned(), near })
}

fn cgroup_mounts() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        matches!(kind, "cgroup" | "cgroup2").then(|| PathBuf::from(point))
    };
    text.lines().filter_map(mount).collect()
}

/// The groups of the two upper levels, which is where services and containers are.
fn groups_below(mount: &Path) -> Vec<String> {
    let directories = |path: &Path| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let upper = directories(mount);
    let lower: Vec<PathBuf> = upper.iter().flat_map(|path| directories(path)).collect();
    let name = |path: &PathBuf| Some(format!("/{}", path.strip_prefix(mount).ok()?.display()));
    upper.iter().chain(&lower).filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> (u32, u32) {
        (nix::unistd::gettid().as_raw().cast_unsigned(), std::process::id())
    }

    #[test]
    fn options_are_anded_and_values_of_one_are_alternatives() {
        let (tid, pid) = own();
        let filter = TaskFilter { pids: vec![1, pid], ..TaskFilter::default() };
        assert!(filter.passes(tid, pid));
        let filter = TaskFilter { tids: vec![tid + 100_000], ..filter };
        assert!(!filter.passes(tid, pid), "both must hold");
        let filter = TaskFilter { comms: vec![comm(tid).unwrap()], ..TaskFilter::default() };
        assert!(filter.passes(tid, pid));
        assert!(TaskFilter::default().is_empty() && !filter.is_empty());
    }

    #[test]
    fn the_machine_s_tasks_hold_this_one() {
        let (tid, pid) = own();
        assert!(TaskFilter::default().tasks().contains(&(tid, pid)));
        let only = TaskFilter { tids: vec![tid], ..TaskFilter::default() };
        assert_eq!(only.tasks(), [(tid, pid)]);
    }

    #[test]
    fn a_group_holds_those_below_it_but_no_namesake() {
        assert!(is_below(Path::new("/a/b/c"), Path::new("/a/b")));
        assert!(is_below(Path::new("/a/b"), Path::new("/a/b")));
        assert!(!is_below(Path::new("/a/bc"), Path::new("/a/b")));
        assert_eq!(path_of_line("4:memory:/x:y"), Some("/x:y"));
    }

    #[test]
    fn names_are_cut_as_the_kernel_cuts_them() {
        assert_eq!(cut_comm("background-worker-7"), "background-work");
        assert_eq!(cut_comm("ééééééééé"), "ééééééé");
    }

    #[test]
    fn what_names_nothing_is_refused() {
        let check = |filter: TaskFilter| filter.check().unwrap_err().to_string();
        let gone = check(TaskFilter { pids: vec![1 << 23], ..TaskFilter::default() });
        assert!(gone.contains("8388608"), "{gone}");
        let own_comm = comm(std::process::id()).unwrap();
        let typo = format!("{}x", &own_comm[..own_comm.len().min(14)]);
        let filter = TaskFilter { comms: vec![typo], ..TaskFilter::default() };
        let error = filter.check_names().unwrap_err().to_string();
        assert!(error.contains(&own_comm), "{error}");
        assert!(find_cgroup("/no/such/group").is_err());
    }
}
