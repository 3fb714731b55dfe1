//! Which spinlock the kernel runs: under some hypervisors the contended path is a test-and-set
//! loop inside the caller, which no tracepoint and no function probe sees.

use serde::{Deserialize, Serialize};

/// How a contended spinlock waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spinlocks {
    /// Queued spinlocks, spinning natively.
    Queued,
    /// Queued spinlocks whose waiters halt (`__pv_queued_spin_lock_slowpath`).
    Paravirtual,
    /// A test-and-set loop: contention is invisible.
    TestAndSet,
}

/// What was found, and how sure that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpinlockFinding {
    /// The kind.
    pub kind: Spinlocks,
    /// False when it was concluded from indications only.
    pub certain: bool,
    /// What it was concluded from.
    pub reason: String,
}

/// What the conclusion is drawn from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpinlockFacts<'a> {
    /// x86 is the only architecture with the test-and-set path.
    pub x86: bool,
    /// The processor says that it runs under a hypervisor.
    pub hypervisor: Option<&'a str>,
    /// KVM offers to wake a halted CPU (`KVM_FEATURE_PV_UNHALT`); absent when not KVM.
    pub kvm_unhalt: Option<bool>,
    /// KVM promises that virtual CPUs are never preempted (`KVM_HINTS_REALTIME`).
    pub kvm_realtime: bool,
    /// `CONFIG_PARAVIRT_SPINLOCKS`, absent when the configuration is unknown.
    pub paravirt_spinlocks: Option<bool>,
    /// The kernel command line.
    pub cmdline: &'a str,
    /// The kernel log, as far as it is still there.
    pub kernel_log: &'a str,
}

/// Draws the conclusion.
pub fn conclude(facts: &SpinlockFacts<'_>) -> SpinlockFinding {
    let finding =
        |kind, certain, reason: &str| SpinlockFinding { kind, certain, reason: reason.to_owned() };
    if !facts.x86 {
        return finding(Spinlocks::Queued, true, "this architecture has no test-and-set path");
    }
    let Some(hypervisor) = facts.hypervisor else {
        return finding(Spinlocks::Queued, true, "no hypervisor");
    };
    // The kernel's own word comes first. It prints one such line at boot.
    let said = facts.kernel_log.lines().find(|line| line.contains("PV spinlocks "));
    match said {
        Some(line) if line.contains("enabled") => {
            return finding(Spinlocks::Paravirtual, true, "kernel log: PV spinlocks enabled");
        }
        Some(line) if line.contains("no host support") => {
            return finding(
                Spinlocks::TestAndSet,
                true,
                "kernel log: PV spinlocks disabled, no host support",
            );
        }
        Some(_) => {
            return finding(
                Spinlocks::Queued,
                false,
                "kernel log: PV spinlocks disabled by a hint or an option",
            );
        }
        None => {}
    }
    if facts.paravirt_spinlocks == Some(false) {
        return finding(
            Spinlocks::TestAndSet,
            false,
            &format!("{hypervisor}, and the kernel has CONFIG_PARAVIRT_SPINLOCKS off"),
        );
    }
    if facts.cmdline.split_whitespace().any(|word| word == "nopvspin") || facts.kvm_realtime {
        return finding(
            Spinlocks::Queued,
            false,
            "nopvspin, or the host promises dedicated CPUs: waiters spin natively",
        );
    }
    match (facts.kvm_unhalt, hypervisor) {
        (Some(true), _) => finding(
            Spinlocks::Paravirtual,
            facts.paravirt_spinlocks == Some(true),
            "kvm offers to wake halted CPUs",
        ),
        (Some(false), _) => finding(
            Spinlocks::TestAndSet,
            facts.paravirt_spinlocks.is_some(),
            "kvm does not offer to wake halted CPUs (no PV_UNHALT)",
        ),
        (None, "xen" | "hyperv") => {
            finding(Spinlocks::Paravirtual, false, "this hypervisor usually supports them")
        }
        (None, _) => finding(
            Spinlocks::TestAndSet,
            false,
            &format!("the kernel has no paravirtual spinlocks for {hypervisor}"),
        ),
    }
}

/// Name of the hypervisor and, under KVM, its features, as the processor states them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HypervisorLeaves {
    /// `kvm`, `xen`, `hyperv`, `vmware`, `tcg`, or the raw signature.
    pub name: Option<String>,
    /// `KVM_FEATURE_PV_UNHALT`.
    pub kvm_unhalt: Option<bool>,
    /// `KVM_HINTS_REALTIME`.
    pub kvm_realtime: bool,
}

/// Asks the processor. Nothing on architectures without the instruction.
#[cfg(target_arch = "x86_64")]
pub fn hypervisor_leaves() -> HypervisorLeaves {
    use std::arch::x86_64::__cpuid;

    const SIGNATURE: u32 = 0x4000_0000;
    const KVM_FEATURES: u32 = 0x4000_0001;
    if __cpuid(1).ecx >> 31 == 0 {
        return HypervisorLeaves::default();
    }
    let leaf = __cpuid(SIGNATURE);
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
    let name = hypervisor_name(&String::from_utf8_lossy(&bytes));
    if name != "kvm" {
        return HypervisorLeaves { name: Some(name), ..HypervisorLeaves::default() };
    }
    let features = __cpuid(KVM_FEATURES);
    HypervisorLeaves {
        name: Some(name),
        kvm_unhalt: Some(features.eax >> 7 & 1 == 1),
        kvm_realtime: features.edx & 1 == 1,
    }
}

/// Asks the processor. Nothing on architectures without the instruction.
#[cfg(not(target_arch = "x86_64"))]
pub fn hypervisor_leaves() -> HypervisorLeaves {
    HypervisorLeaves::default()
}

#[cfg(any(target_arch = "x86_64", test))]
fn hypervisor_name(signature: &str) -> String {
    match signature.trim_end_matches('\0') {
        "KVMKVMKVM" => "kvm",
        "XenVMMXenVMM" => "xen",
        "Microsoft Hv" => "hyperv",
        "VMwareVMware" => "vmware",
        "TCGTCGTCGTCG" => "tcg",
        "" => "unknown",
        other => return other.to_owned(),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kvm() -> SpinlockFacts<'static> {
        SpinlockFacts {
            x86: true,
            hypervisor: Some("kvm"),
            kvm_unhalt: Some(true),
            paravirt_spinlocks: Some(true),
            ..SpinlockFacts::default()
        }
    }

    #[test]
    fn bare_metal_and_other_architectures_queue() {
        let metal = SpinlockFacts { hypervisor: None, kvm_unhalt: None, ..kvm() };
        assert_eq!(conclude(&metal).kind, Spinlocks::Queued);
        assert_eq!(conclude(&SpinlockFacts { x86: false, ..kvm() }).kind, Spinlocks::Queued);
    }

    #[test]
    fn kvm_depends_on_what_host_and_kernel_support() {
        assert_eq!(conclude(&kvm()).kind, Spinlocks::Paravirtual);
        assert!(conclude(&kvm()).certain);
        let host_lacks = SpinlockFacts { kvm_unhalt: Some(false), ..kvm() };
        assert_eq!(conclude(&host_lacks).kind, Spinlocks::TestAndSet);
        let kernel_lacks = SpinlockFacts { paravirt_spinlocks: Some(false), ..kvm() };
        assert_eq!(conclude(&kernel_lacks).kind, Spinlocks::TestAndSet);
        assert!(!conclude(&kernel_lacks).certain);
        let dedicated = SpinlockFacts { kvm_realtime: true, ..kvm() };
        assert_eq!(conclude(&dedicated).kind, Spinlocks::Queued);
    }

    #[test]
    fn the_kernel_log_outranks_indications() {
        let log = "x\nkvm-guest: PV spinlocks disabled, no host support\ny";
        let finding = conclude(&SpinlockFacts { kernel_log: log, ..kvm() });
        assert_eq!((finding.kind, finding.certain), (Spinlocks::TestAndSet, true));
    }

    #[test]
    fn an_emulator_has_no_paravirtual_locks() {
        let facts = SpinlockFacts { hypervisor: Some("tcg"), kvm_unhalt: None, ..kvm() };
        let finding = conclude(&facts);
        assert_eq!((finding.kind, finding.certain), (Spinlocks::TestAndSet, false));
    }

    #[test]
    fn names_the_hypervisor_by_its_signature() {
        assert_eq!(hypervisor_name("KVMKVMKVM\0\0\0"), "kvm");
        assert_eq!(hypervisor_name("bhyve bhyve "), "bhyve bhyve ");
    }
}
