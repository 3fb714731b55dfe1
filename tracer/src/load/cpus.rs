//! CPU lists as the kernel writes them (`0,2-3`), and pinning to them.

use std::fmt;
use std::io;
use std::str::FromStr;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// A set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

/// Not a CPU list.
#[derive(Debug, thiserror::Error)]
pub enum CpuListError {
    /// The text is not a list.
    #[error("`{0}` is not a CPU list; write numbers and ranges, as in 0,2-3")]
    Syntax(String),
    /// More CPUs than a set of the kernel holds.
    #[error("CPU {0} is beyond what this system can have; its CPUs are numbered from 0 to at most {most}", most = CpuSet::count() - 1)]
    Beyond(usize),
    /// No such CPU, or this process may not use it.
    #[error("CPU {0} is not available to this process; available are {1}")]
    Unavailable(usize, CpuList),
}

impl CpuList {
    /// Number of CPUs.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether a CPU is one of them.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// The CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().copied()
    }

    /// The CPUs that the calling thread may use.
    pub fn available() -> io::Result<Self> {
        let set = sched_getaffinity(Pid::from_raw(0))?;
        Ok(Self((0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect()))
    }

    /// Refuses CPUs that are not in `available`.
    pub fn check(&self, available: &Self) -> Result<(), CpuListError> {
        match self.0.iter().find(|cpu| !available.0.contains(cpu)) {
            Some(cpu) => Err(CpuListError::Unavailable(*cpu, available.clone())),
            None => Ok(()),
        }
    }

    /// Pins the calling thread; threads and processes that it starts inherit the list.
    pub fn pin_this_thread(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in &self.0 {
            set.set(*cpu)?;
        }
        Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let error = || CpuListError::Syntax(text.to_owned());
        let mut cpus = Vec::new();
        for item in text.split(',') {
            let (low, high) = item.split_once('-').unwrap_or((item, item));
            let low: usize = low.trim().parse().map_err(|_| error())?;
            let high: usize = high.trim().parse().map_err(|_| error())?;
            if low > high {
                return Err(error());
            }
            if high >= CpuSet::count() {
                return Err(CpuListError::Beyond(high));
            }
            cpus.extend(low..=high);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(Self(cpus))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for run in self.0.chunk_by(|one, next| one + 1 == *next) {
            match run {
                [one] => write!(f, "{separator}{one}")?,
                [first, .., last] => write!(f, "{separator}{first}-{last}")?,
                [] => {}
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        let list: CpuList = "3,0-1,1".parse().unwrap();
        assert_eq!(list, CpuList(vec![0, 1, 3]));
        assert_eq!(list.to_string(), "0-1,3");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "a", "2-1", "0,", "-1", "0-99999999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named() {
        let error = CpuList(vec![0, 900]).check(&CpuList(vec![0, 1])).unwrap_err().to_string();
        assert!(error.contains("CPU 900") && error.contains("0-1"), "{error}");
    }

    #[test]
    fn pinning_holds_for_the_thread() {
        let first = CpuList(CpuList::available().unwrap().0[..1].to_vec());
        let pinned = first.clone();
        let seen = std::thread::spawn(move || {
            pinned.pin_this_thread().unwrap();
            CpuList::available().unwrap()
        });
        assert_eq!(seen.join().unwrap(), first);
    }

    proptest! {
        #[test]
        fn display_is_read_back(cpus in prop::collection::btree_set(0usize..200, 1..40)) {
            let list = CpuList(cpus.into_iter().collect());
            prop_assert_eq!(list.to_string().parse::<CpuList>().unwrap(), list);
        }

        #[test]
        fn any_text_is_read_without_panic(text in "[0-9,-]{0,12}") {
            let _ = text.parse::<CpuList>();
        }
    }
}
