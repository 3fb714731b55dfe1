//! What perf events tell beside the programs. None of it is needed for the rest: what cannot be had is
//! told, and the measurement goes on.

use std::fs;

use crate::load::cpus::CpuList;
use crate::profile::{Place, Profiler, Samples};
use crate::symbolize::{KernelNames, KernelSymbolizer};

/// Perf events under way.
#[derive(Default)]
pub(super) struct Watch {
    profiler: Option<Profiler>,
    troubles: Vec<String>,
}

/// What they told.
#[derive(Debug, Default)]
pub struct Watched {
    /// Who was on a CPU.
    pub profile: Option<Samples>,
    /// Functions of the kernel, and of the programs, that are met in it.
    pub kernel_names: KernelNames,
    /// What could not be had, and why.
    pub troubles: Vec<String>,
}

impl Watch {
    /// Opens what is wanted, not yet counting.
    pub(super) fn open(sampling_hz: Option<u64>) -> Watch {
        let mut watch = Watch::default();
        let Some(hz) = sampling_hz else { return watch };
        match open_profiler(hz) {
            Ok(profiler) => watch.profiler = Some(profiler),
            Err(why) => watch.trouble("profile", &why),
        }
        watch
    }

    fn trouble(&mut self, what: &str, why: &str) {
        self.troubles.push(format!("no {what}: {why}"));
    }

    pub(super) fn begin(&mut self) {
        if let Some(profiler) = &mut self.profiler
            && let Err(error) = profiler.begin()
        {
            self.profiler = None;
            self.trouble("profile", &format!("the perf events cannot be enabled: {error}"));
        }
    }

    pub(super) fn tick(&mut self) {
        if let Some(profiler) = &mut self.profiler {
            profiler.drain();
        }
    }

    pub(super) fn stop(&mut self) {
        if let Some(profiler) = &mut self.profiler
            && let Err(error) = profiler.stop()
        {
            self.trouble("end of the profile", &error.to_string());
        }
    }

    /// Looks up the kernel's names now: those of the programs go with them.
    pub(super) fn finish(self) -> Watched {
        let profile = self.profiler.map(Profiler::finish);
        let mut kernel_names = KernelNames::new();
        let mut symbols = KernelSymbolizer::new();
        for place in profile.iter().flat_map(|samples| &samples.places) {
            if let Place::Kernel(address) = place
                && let Some(symbol) = symbols.resolve(*address)
            {
                kernel_names.insert(*address, symbol.clone());
            }
        }
        Watched { profile, kernel_names, troubles: self.troubles }
    }
}

fn open_profiler(hz: u64) -> Result<Profiler, String> {
    let path = "/sys/devices/system/cpu/online";
    let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let cpus: CpuList = text.trim().parse().map_err(|error| format!("{path}: {error}"))?;
    Profiler::open(hz, &cpus.iter().collect::<Vec<_>>()).map_err(|error| error.to_string())
}
