#!/bin/bash
# The main job with its defaults: an embedded server, more clients than CPUs, tracing, a report with
# transactions, their backends and contended spinlocks, a run queue's being one of them.
# timeout: 240
. "$WORKSPACE/tests/vm/lib/common.sh"

# The host's own runs show in /tmp too.
export TMPDIR=/tmp/guest
mkdir -m 1777 "$TMPDIR"
"$LOCKSCOPE_BIN" run --workload select-prepared -c 32 -T 6 --json -o "$RESULTS_DIR/run.lockscope" \
    >"$RESULTS_DIR/run.json"
at_least transactions "$(run_json "$RESULTS_DIR/run.json" transactions)" 300
at_least backends "$(run_json "$RESULTS_DIR/run.json" length /backends)" 32
at_least "spinlock waits" "$(run_json "$RESULTS_DIR/run.json" count qspinlock rq)" 5
"$LOCKSCOPE_BIN" report "$RESULTS_DIR/run.lockscope"
left=$(ls -d "$TMPDIR"/lockscope-pg-* 2>/dev/null) && fail "the server's directory was left: $left"
exit 0
