//! A bisection over kernels, as docs/bisect.md shows it: `git bisect run` boots each commit's kernel,
//! measures in it and judges.
//!
//! The regression is a count, not a time: on 6.1 a task hands its plugged requests to a disk without a
//! scheduler past the tracepoint `block:block_unplug`, on 6.12 every flush passes it.
//! `plug.server.unplugs` is 0 a transaction on the one side, and at least 1 on the other.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lockscope_tests::command::{binary, lockscope};
use lockscope_tests::guests::{Kernel, kernels};
use serde_json::Value;

/// Short runs on one server, in one boot, once a seed.
const MEASURE: &str = "sweep -c 1 -T 1 --interval 0.5 --warmup 0 \
                       --workload oltp_update_index --tables 1 --table-size 100 --no-vacuum \
                       --depth locks --no-control --no-profile --no-counters --quiet";
const CONDITION: &str = "plug.server.unplugs > +0.5";

/// One step: the commit's kernel measured and judged. What is not a verdict is skipped.
fn step(directory: &Path, kernels: &[Kernel; 2]) -> String {
    let [good, bad] = kernels;
    let lockscope = binary("LOCKSCOPE_BIN", "lockscope");
    format!(
        r#"#!/bin/sh
# The build of this commit, which here is one that Debian has made.
case $(cat kernel) in
    good) kernel={good_image} modules={good_modules} ;;
    bad) kernel={bad_image} modules={bad_modules} ;;
    *) kernel=$PWD/kernel modules= ;;
esac
rm -rf new
{lockscope} vm --kernel "$kernel" ${{modules:+--modules "$modules"}} --accel tcg --smp 2 --disk 512 \
    -- {MEASURE} --vary random-seed=1,2 -o new
measured=$?
if [ $measured = 0 ]; then
    {lockscope} compare --fail-if '{CONDITION}' \
        {directory}/base/random-seed-*.lockscope -- new/random-seed-*.lockscope
    code=$?
else
    code=125
fi
echo "$(cat kernel) $measured $code" >>{directory}/steps
exit $code
"#,
        good_image = good.image.display(),
        good_modules = good.modules.display(),
        bad_image = bad.image.display(),
        bad_modules = bad.modules.display(),
        lockscope = lockscope.display(),
        directory = directory.display(),
    )
}

fn git(repository: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("git");
    command.current_dir(repository).args(words);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@example");
    }
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().expect("git runs");
    let [out, err] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "git {words:?}: {out}\n{err}");
    output
}

/// A history whose commits each name a kernel; returns their hashes.
fn history(repository: &Path, kernels: &[&str]) -> Vec<String> {
    fs::create_dir(repository).expect("a directory");
    git(repository, &["init", "--quiet"]);
    let commit = |(index, kernel): (usize, &&str)| {
        fs::write(repository.join("kernel"), kernel).expect("written");
        fs::write(repository.join("change"), index.to_string()).expect("written");
        git(repository, &["add", "."]);
        git(repository, &["commit", "--quiet", "-m", &format!("change {index}")]);
        let hash = git(repository, &["rev-parse", "HEAD"]).stdout;
        String::from_utf8_lossy(&hash).trim().to_owned()
    };
    kernels.iter().enumerate().map(commit).collect()
}

/// The runs of the good kernel that all steps are compared with.
fn measure_base(kernel: &Kernel, base: &Path) {
    let mut words: Vec<&str> = MEASURE.split_whitespace().collect();
    words.extend(["--vary", "random-seed=1,2,3", "-o", base.to_str().expect("plain")]);
    let output = kernel.run(&["--smp", "2", "--disk", "512"], &words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("emulated") && said.contains("step 3 of 3"), "{said}");
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("random-seed"), "the report comes back: {report}");
    let run = base.join("random-seed-1.lockscope");
    let run = lockscope(&["report", run.to_str().expect("plain"), "--format", "json"]).output();
    let run: Value = serde_json::from_slice(&run.expect("it runs").stdout).expect("a run");
    let release = &run["environment"]["kernel"]["release"];
    assert!(release.as_str().is_some_and(|release| release.starts_with("6.1.")), "{release}");
}

#[test]
fn a_bisection_over_kernels_finds_the_first_bad_one() {
    let Some(kernels) = kernels("a_bisection_over_kernels_finds_the_first_bad_one") else { return };
    let place = tempfile::tempdir().expect("a directory");
    measure_base(&kernels[0], &place.path().join("base"));

    let script = place.path().join("step.sh");
    fs::write(&script, step(place.path(), &kernels)).expect("written");
    let repository = place.path().join("linux");
    let hashes = history(&repository, &["good", "good", "none", "good", "bad", "bad"]);
    git(&repository, &["bisect", "start", &hashes[5], &hashes[0]]);
    let found = git(&repository, &["bisect", "run", "sh", script.to_str().expect("plain")]);
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(found.contains(&format!("{} is the first bad commit", hashes[4])), "{found}");

    let steps = fs::read_to_string(place.path().join("steps")).expect("steps");
    let mut steps: Vec<&str> = steps.lines().collect();
    steps.sort_unstable();
    assert_eq!(steps, ["bad 0 1", "good 0 0", "none 125 125"]);
}
