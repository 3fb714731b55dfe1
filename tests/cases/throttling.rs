//! CPU bandwidth limits: who waits because its control group has used up its share is told as throttled,
//! for as long as the kernel says, and nobody else is.

use std::fs;
use std::path::{Path, PathBuf};

use lockscope_tests::command::{binary, lockscope, skip};
use lockscope_tests::stress::allowed_cpus;
use lockscope_tests::traced::{Run, Turn};
use serde_json::Value;

/// Of each period the group may compute a fifth.
const QUOTA_US: u64 = 20_000;
const PERIOD_US: u64 = 100_000;
/// The kernel's count ends with the period. By lockscope's, a task is throttled until it has a CPU again,
/// which a group of the largest weight has soon: mean wait allowed, against half of the CPU's time.
const WAIT_FOR_CPU_NS: u64 = 20_000_000;

#[test]
fn time_throttled_is_the_limited_group_s_and_as_long_as_the_kernel_says() {
    let case = "time_throttled_is_the_limited_group_s_and_as_long_as_the_kernel_says";
    let Some(turn) = Turn::take(case) else { return };
    let Some(group) = Group::limited() else {
        return skip(case, "no control group with a CPU limit can be made here");
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str| directory.path().join(name);
    let hog = format!(
        "{} --seconds 3 --threads 1 --path {}",
        binary("", "stress-cpu").display(),
        directory.path().display()
    );
    // On one CPU: the kernel adds up what the group is throttled on each.
    let cpu = allowed_cpus().expect("CPUs")[0];
    // The limited one does not end while it is throttled: the kernel's count is complete then.
    let script = format!(
        "set -e; cd {directory}
        {hog} >free.json &
        taskset -c {cpu} sh -c 'echo $$ >{group}/cgroup.procs && exec {hog}' >limited.json
        cat {group}/cpu.stat >after
        wait",
        directory = directory.path().display(),
        group = group.path.display(),
    );
    let done = turn.finish(|| {
        let output = file("run.json");
        let words = ["attach", "--all", "--quiet", "-o", output.to_str().expect("a name")];
        let mut command = lockscope(&[&words[..], &["--", "sh", "-c", &script]].concat());
        // Groups are root's.
        command.env_remove("SUDO_UID").env_remove("SUDO_GID").env_remove("SUDO_USER");
        command
    });
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let read = |name: &str| fs::read_to_string(file(name)).expect("written");
    let run = Run(serde_json::from_str(&read("run.json")).expect("JSON"));
    let told = |name: &str| serde_json::from_str::<Value>(&read(name)).expect("JSON");
    let (limited, free) = (told("limited.json"), told("free.json"));
    let stat = group.stat(&read("after"));

    let throttled = throttled_ns(&run, &limited["pid"]);
    assert!(stat.count > 0 && throttled > 0, "{stat:?}, {throttled} ns");
    let slack = stat.throttled_ns / 20;
    let waits = stat.count * WAIT_FOR_CPU_NS;
    assert!(throttled + slack >= stat.throttled_ns, "{throttled} ns, by the kernel {stat:?}");
    assert!(throttled <= stat.throttled_ns + slack + waits, "{throttled} ns, the kernel {stat:?}");
    if run.warnings().contains(&"cpu-limit") {
        return skip(case, "this test is in a limited group itself: nobody here is free of limits");
    }
    assert_eq!(throttled_ns(&run, &free["pid"]), 0);
}

/// Of all tasks of a process, which was the shell before.
fn throttled_ns(run: &Run, pid: &Value) -> u64 {
    let tasks = run.list("backends").into_iter().filter(|task| task["pid"] == *pid);
    let states: Vec<&Value> = tasks.map(|task| &task["states_ns"]).collect();
    let sum = |name: &str| states.iter().filter_map(|states| states[name].as_u64()).sum::<u64>();
    assert!(sum("cpu") > 0, "{pid}: {states:?}");
    sum("runq.throttled")
}

/// A control group of either version; removed when dropped.
struct Group {
    path: PathBuf,
    is_v2: bool,
}

/// What the kernel says of it.
#[derive(Debug)]
struct Stat {
    /// Periods in which it was throttled.
    count: u64,
    throttled_ns: u64,
}

impl Group {
    /// `None` where there is no hierarchy with the CPU controller, or it is withheld.
    fn limited() -> Option<Group> {
        let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
        roots.into_iter().find_map(|root| Group::limited_below(Path::new(root)))
    }

    fn limited_below(root: &Path) -> Option<Group> {
        let path = root.join(format!("lockscope-test-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let is_v2 = path.join("cpu.max").exists();
        let group = Group { path, is_v2 };
        let settings = match is_v2 {
            true => {
                [("cpu.max", format!("{QUOTA_US} {PERIOD_US}")), ("cpu.weight", "10000".to_owned())]
            }
            false => {
                [("cpu.cfs_quota_us", QUOTA_US.to_string()), ("cpu.shares", (1 << 18).to_string())]
            }
        };
        let write = |(name, value)| {
            fs::OpenOptions::new()
                .write(true)
                .open(group.path.join(name))
                .and_then(|mut file| std::io::Write::write_all(&mut file, String::as_bytes(&value)))
        };
        settings.into_iter().try_for_each(write).ok()?;
        Some(group)
    }

    fn stat(&self, text: &str) -> Stat {
        let number = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let throttled_ns = match self.is_v2 {
            true => number("throttled_usec ").map(|time| time * 1000),
            false => number("throttled_time "),
        };
        let count = number("nr_throttled ");
        Stat { count: count.expect(text), throttled_ns: throttled_ns.expect(text) }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.path) {
            eprintln!("{} is left: {error}", self.path.display());
        }
    }
}
