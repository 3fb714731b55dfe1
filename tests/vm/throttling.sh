#!/bin/bash
# In a control group with a CPU limit (version 2) a task that computes is throttled for at least as long as
# the kernel says, and one beside it never.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/common.sh"

groups=/tmp/groups
mkdir -p "$groups"
mount -t cgroup2 none "$groups"
echo +cpu >"$groups/cgroup.subtree_control"
group="$groups/limited"
mkdir "$group"
echo "20000 100000" >"$group/cpu.max"

# On one CPU: the kernel adds up what the group is throttled on each.
cat >"$RESULTS_DIR/load.sh" <<END
hog="$STRESSORS_DIR/stress-cpu --seconds 5 --threads 1 --path /tmp"
\$hog >"$RESULTS_DIR/free.json" &
taskset -c 0 sh -c "echo \\\$\\\$ >$group/cgroup.procs && exec \$hog" >"$RESULTS_DIR/limited.json"
cat "$group/cpu.stat" >"$RESULTS_DIR/cpu.stat"
wait
END
run="$RESULTS_DIR/run.json"
"$LOCKSCOPE_BIN" attach --all --no-profile --no-counters --quiet -o "$run" -- sh "$RESULTS_DIR/load.sh"
kernel_ns=$(($(sed -n 's/^throttled_usec //p' "$RESULTS_DIR/cpu.stat") * 1000))
throttled_ns=$(run_json "$run" state "$RESULTS_DIR/limited.json" runq.throttled)
at_least "the kernel's throttled time" "$kernel_ns" 1
at_least "throttled" "$throttled_ns" $((kernel_ns / 100 * 95))
free_ns=$(run_json "$run" state "$RESULTS_DIR/free.json" runq.throttled)
[ "$free_ns" = 0 ] || fail "a task without a limit was throttled for $free_ns ns"
