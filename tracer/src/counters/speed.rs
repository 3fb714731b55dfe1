//! How fast the CPUs are let run: frequency, governor, boost.

use std::fs;
use std::path::Path;

use crate::model::CpuSpeed;

const CPUS: &str = "/sys/devices/system/cpu";

/// Now; what the machine does not tell is absent.
pub fn speed() -> CpuSpeed {
    speed_of(Path::new(CPUS), &fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

fn speed_of(cpus: &Path, info: &str) -> CpuSpeed {
    let read = |path: &str| Some(fs::read_to_string(cpus.join(path)).ok()?.trim().to_owned());
    let scaling = |cpu: usize| -> Option<u64> {
        read(&format!("cpu{cpu}/cpufreq/scaling_cur_freq"))?.parse().ok()
    };
    let mut khz: Vec<u64> = (0..).map_while(scaling).collect();
    if khz.is_empty() {
        khz = info.lines().filter_map(told_khz).collect();
    }
    let no_turbo = read("intel_pstate/no_turbo").map(|value| value == "0");
    CpuSpeed {
        governor: read("cpu0/cpufreq/scaling_governor"),
        boost: no_turbo.or_else(|| read("cpufreq/boost").map(|value| value == "1")),
        lowest_khz: khz.iter().min().copied(),
        highest_khz: khz.iter().max().copied(),
    }
}

/// `cpu MHz : 2599.998`.
fn told_khz(line: &str) -> Option<u64> {
    let (key, value) = line.split_once(':')?;
    let mhz: f64 = (key.trim() == "cpu MHz").then(|| value.trim().parse().ok())??;
    Some((mhz * 1e3).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpufreq_is_believed_before_cpuinfo() {
        let directory = tempfile::tempdir().unwrap();
        let info = "cpu MHz\t\t: 2500.5\nmodel name : x\ncpu MHz : 2400\n";
        let speed = speed_of(directory.path(), info);
        assert_eq!((speed.lowest_khz, speed.highest_khz), (Some(2_400_000), Some(2_500_500)));
        assert_eq!((speed.governor, speed.boost), (None, None));
        for (path, text) in [
            ("cpu0/cpufreq/scaling_cur_freq", "800000\n"),
            ("cpu1/cpufreq/scaling_cur_freq", "3100000\n"),
            ("cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("cpufreq/boost", "1\n"),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let speed = speed_of(directory.path(), info);
        assert_eq!((speed.lowest_khz, speed.highest_khz), (Some(800_000), Some(3_100_000)));
        assert_eq!((speed.governor.as_deref(), speed.boost), (Some("powersave"), Some(true)));
        fs::create_dir_all(directory.path().join("intel_pstate")).unwrap();
        fs::write(directory.path().join("intel_pstate/no_turbo"), "1\n").unwrap();
        assert_eq!(speed_of(directory.path(), info).boost, Some(false));
    }
}
