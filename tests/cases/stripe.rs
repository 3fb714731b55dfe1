//! A buffered write load on XFS over a stripe of six disks, on both sides of a change of block plugs:
//! Linux 6.12 gave each bio a plug of its own (9a42891c35d5), which each device below flushes.
//!
//! The regression is a count: how often backends call `__blk_flush_plug` a transaction.

use std::path::Path;

use lockscope_tests::command::{Finished, finish, lockscope};
use lockscope_tests::guests::{Kernel, kernel_after, kernels};
use serde_json::Value;

const MACHINE: [&str; 6] = ["--disk", "256", "--stripe", "6", "--fs", "xfs"];
const LOAD: &str = "run --workload buffered-write -s 1 -c 8 -T 5 --warmup 1 --depth locks \
                    --no-control --no-profile --no-counters --quiet";
const SIGNATURE: &str = "block-plug-per-bio";

/// Runs the load on this kernel, and saves what it measured.
fn measure(kernel: &Kernel, run: &Path) {
    let mut words: Vec<&str> = LOAD.split_whitespace().collect();
    words.extend(["-o", run.to_str().expect("plain")]);
    // No limit but those of `lockscope vm`: other guests may run beside this one.
    let output = kernel.run(&MACHINE, &words).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8_lossy(&output.stdout);
    for layer in ["xfs", "striped", "vda", "vdf"] {
        assert!(report.contains(layer), "no {layer} under the data directory in {report}");
    }
}

fn read(command: &str, base: &Path, new: &Path) -> Value {
    let [base, new] = [base, new].map(|path| path.to_str().expect("plain"));
    let Finished { code, stdout, stderr } =
        finish(&mut lockscope(&[command, "--json", base, new])).expect("it ends");
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).expect("JSON")
}

/// A backend's flush calls per transaction, as `compare` has them for both sides.
fn flush_calls(base: &Path, new: &Path) -> [f64; 2] {
    let comparison = read("compare", base, new);
    let groups = comparison["groups"].as_array().expect("groups");
    let mut rows = groups.iter().flat_map(|group| group["rows"].as_array().expect("rows"));
    let row = rows
        .find(|row| row["metric"] == "plug.server.flush_calls")
        .unwrap_or_else(|| panic!("flush calls are compared: {comparison:#}"));
    ["base", "new"].map(|side| row[side]["mean"].as_f64().expect("a number"))
}

/// With which confidence the new side is taken for the regression; `none` when it is not.
fn confidence(base: &Path, new: &Path) -> String {
    let explanation = read("explain", base, new);
    let signatures = explanation["signatures"].as_array().expect("signatures");
    let found = signatures.iter().find(|signature| signature["id"] == SIGNATURE);
    let word = found.and_then(|signature| signature["confidence"].as_str());
    word.unwrap_or("none").to_owned()
}

#[test]
fn the_block_plug_regression_on_a_stripe_is_named() {
    let case = "the_block_plug_regression_on_a_stripe_is_named";
    let Some([before, broken]) = kernels(case) else { return };
    let place = tempfile::tempdir().expect("a directory");
    let [base, new, after] =
        ["base", "new", "after"].map(|name| place.path().join(format!("{name}.lockscope")));
    measure(&before, &base);
    measure(&broken, &new);

    let [few, many] = flush_calls(&base, &new);
    assert!(few < 0.5 && many > 2.0, "{few} flush calls a transaction, then {many}");
    // How sure that is depends on times as well.
    assert_ne!(confidence(&base, &new), "none");
    assert_eq!(confidence(&new, &base), "none", "the kernel before it is none of it");
    let account = read("explain", &base, &new)["account"].to_string();
    assert!(account.contains("plug.server.flush_calls"), "{account}");

    if let Some(kernel) = kernel_after() {
        measure(&kernel, &after);
        let [many, few] = flush_calls(&new, &after);
        assert!(few < 1.0 && many > 2.0, "{many} flush calls a transaction, then {few}");
        assert_eq!(confidence(&new, &after), "none");
    }
}
