//! Which hypervisor this machine runs on, if any.

use super::tree::Tree;

/// `kvm`, `xen`, `hyperv`, `vmware`, `qemu`, …; `unknown` where the CPU says that there is one and
/// nothing says which; `None` where nothing hints at one.
pub(super) fn name(tree: &Tree) -> Option<String> {
    let found = from_sysfs(tree).or_else(|| from_clocksources(tree)).or_else(|| from_dmi(tree));
    let flagged = || cpu_says_so(tree).then(|| "unknown".to_owned());
    found.or_else(flagged)
}

fn from_sysfs(tree: &Tree) -> Option<String> {
    tree.read("sys/hypervisor/type").filter(|name| !name.is_empty())
}

/// Paravirtual clocks exist only under their own hypervisor.
fn from_clocksources(tree: &Tree) -> Option<String> {
    let clocks = tree.read("sys/devices/system/clocksource/clocksource0/available_clocksource")?;
    [("kvm-clock", "kvm"), ("hyperv_clocksource", "hyperv"), ("xen", "xen"), ("vmware", "vmware")]
        .iter()
        .find(|(clock, _)| clocks.split_whitespace().any(|name| name.starts_with(clock)))
        .map(|(_, name)| (*name).to_owned())
}

/// Vendors that sell no hardware. Clouds are not among them: they rent out bare metal, too.
fn from_dmi(tree: &Tree) -> Option<String> {
    let vendor = tree.read("sys/class/dmi/id/sys_vendor")?;
    let product = tree.read("sys/class/dmi/id/product_name").unwrap_or_default();
    let name = match vendor.as_str() {
        "QEMU" => "qemu",
        "VMware, Inc." => "vmware",
        "innotek GmbH" => "virtualbox",
        "Xen" => "xen",
        "Microsoft Corporation" if product == "Virtual Machine" => "hyperv",
        _ if product == "KVM" => "kvm",
        _ => return None,
    };
    Some(name.to_owned())
}

fn cpu_says_so(tree: &Tree) -> bool {
    let info = tree.read("proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_whitespace().any(|flag| flag == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::super::tree::Fixture;
    use super::*;

    const CLOCKS: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";
    const VENDOR: &str = "sys/class/dmi/id/sys_vendor";

    fn name_of(files: &[(&str, &str)]) -> Option<String> {
        name(&Fixture::new(files).tree())
    }

    #[test]
    fn each_source_names_it() {
        assert_eq!(name_of(&[("sys/hypervisor/type", "xen\n")]).as_deref(), Some("xen"));
        assert_eq!(name_of(&[(CLOCKS, "tsc kvm-clock \n")]).as_deref(), Some("kvm"));
        assert_eq!(name_of(&[(VENDOR, "QEMU\n")]).as_deref(), Some("qemu"));
        let flags = "processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n";
        assert_eq!(name_of(&[("proc/cpuinfo", flags)]).as_deref(), Some("unknown"));
    }

    #[test]
    fn hardware_is_not_called_virtual() {
        let files = [(CLOCKS, "tsc hpet acpi_pm\n"), (VENDOR, "Amazon EC2\n")];
        assert_eq!(name_of(&files), None);
    }
}
