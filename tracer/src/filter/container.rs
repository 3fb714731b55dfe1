//! A container: by the id that Docker, Podman or containerd gave it and that its control groups are
//! named after, or by the number of its pid namespace.

use std::collections::BTreeSet;
use std::fs;

use super::FilterError;
use super::near::did_you_mean;
use crate::kernel::task::pids;

/// Ids are SHA-256 sums, or as random as one.
const ID_LEN: usize = 64;
/// People know containers by this much of the id.
const SHORT_LEN: usize = 12;
/// The first pid namespace has this number (`PROC_PID_INIT_INO`), all others have higher ones.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// What its tasks have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// This id in the name of one of their control groups.
    Id(String),
    /// This pid namespace.
    PidNamespace(u64),
}

impl Container {
    /// The one that is meant by the begin of an id, or by a namespace's number as `lsns -t pid` and
    /// `readlink /proc/PID/ns/pid` tell it.
    pub(super) fn find(given: &str) -> Result<Container, FilterError> {
        let number = given.strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']'));
        let number: Option<u64> = number.unwrap_or(given).parse().ok();
        if let Some(number) = number.filter(|number| *number >= FIRST_NAMESPACE)
            && pids().any(|pid| pid_namespace(pid) == Some(number))
        {
            return Ok(Container::PidNamespace(number));
        }
        let ids: BTreeSet<String> = pids().flat_map(container_ids).collect();
        choose(given, &ids).map(Container::Id)
    }

    pub(super) fn has(&self, tid: u32) -> bool {
        match self {
            Container::Id(id) => container_ids(tid).contains(id),
            Container::PidNamespace(number) => pid_namespace(tid) == Some(*number),
        }
    }
}

fn choose(given: &str, ids: &BTreeSet<String>) -> Result<String, FilterError> {
    let is_meant = |id: &&String| given.len() >= 4 && id.starts_with(given);
    let meant: Vec<&String> = ids.iter().filter(is_meant).collect();
    match meant[..] {
        [only] => Ok(only.clone()),
        [] => {
            let known: Vec<&str> = ids.iter().map(|id| &id[..SHORT_LEN]).collect();
            let near = match known.is_empty() {
                true => "; no process here is in one".to_owned(),
                false => match did_you_mean(given, known.iter().copied()) {
                    near if near.is_empty() => format!("; there are {}", known.join(", ")),
                    near => near,
                },
            };
            Err(FilterError::NoContainer { container: given.to_owned(), near })
        }
        _ => Err(FilterError::ManyContainers {
            container: given.to_owned(),
            found: meant.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", "),
        }),
    }
}

fn pid_namespace(tid: u32) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{tid}/ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// The ids in the names of a task's control groups.
fn container_ids(tid: u32) -> Vec<String> {
    let groups = fs::read_to_string(format!("/proc/{tid}/cgroup")).unwrap_or_default();
    groups.lines().flat_map(ids_in).collect()
}

/// `…/docker/ID`, `…/docker-ID.scope`, `…/libpod-ID.scope/container`, `…/cri-containerd-ID.scope`.
fn ids_in(line: &str) -> Vec<String> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric());
    let is_id = |word: &&str| {
        word.len() == ID_LEN && word.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
    };
    words.filter(is_id).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3f4a9c0d1e2b3a4f5d6c7b8a99887766554433221100ffeeddccbbaa00112233";
    const OTHER: &str = "3f4b9c0d1e2b3a4f5d6c7b8a99887766554433221100ffeeddccbbaa00112233";

    #[test]
    fn the_engines_ways_to_name_a_group_are_understood() {
        for path in [
            format!("12:memory:/docker/{ID}"),
            format!("0::/system.slice/docker-{ID}.scope"),
            format!("0::/machine.slice/libpod-{ID}.scope/container"),
            format!("0::/kubepods.slice/kubepods-pod1234.slice/cri-containerd-{ID}.scope"),
            format!("4:cpu:/kubepods/burstable/pod77/{ID}"),
        ] {
            assert_eq!(ids_in(&path), [ID], "{path}");
        }
        assert!(ids_in("0::/user.slice/user-1000.slice/session-3.scope").is_empty());
    }

    #[test]
    fn the_begin_of_an_id_is_enough_where_it_is_one_s_alone() {
        let ids = BTreeSet::from([ID.to_owned(), OTHER.to_owned()]);
        assert_eq!(choose("3f4a9c0d1e2b", &ids).unwrap(), ID);
        let error = |given| choose(given, &ids).unwrap_err().to_string();
        // Three letters are too few to mean anything.
        assert!(error("3f4").contains("no such container"));
        assert!(error("beefbeefbeef").contains("3f4a9c0d1e2b"), "{}", error("beefbeefbeef"));
        let three =
            BTreeSet::from([ID.to_owned(), OTHER.replace("3f4b", "3f4a").replace("9c0d", "9c0e")]);
        assert!(choose("3f4a", &three).unwrap_err().to_string().contains("several"));
    }

    #[test]
    fn a_pid_namespace_goes_by_its_number() {
        let own = pid_namespace(std::process::id()).unwrap();
        let found = Container::find(&own.to_string()).unwrap();
        assert_eq!(found, Container::find(&format!("pid:[{own}]")).unwrap());
        assert!(found.has(std::process::id()));
        assert!(Container::find("4294967295").is_err());
    }
}
