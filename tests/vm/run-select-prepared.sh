#!/bin/bash
# The main job with its defaults: an embedded server, four clients, tracing, a report with
# transactions and, where several clients run on several CPUs, contended spinlocks.
# timeout: 180
. "$WORKSPACE/tests/vm/lib/common.sh"

run() {
    "$LOCKSCOPE_BIN" run --workload select-prepared -c 4 -T 5 "$@"
}

run --json -o "$RESULTS_DIR/run.lockscope" >"$RESULTS_DIR/run.json"
at_least transactions "$(run_json "$RESULTS_DIR/run.json" transactions)" 500
at_least "backends" "$(run_json "$RESULTS_DIR/run.json" length /backends)" 4
at_least "qspinlock waits" "$(run_json "$RESULTS_DIR/run.json" count qspinlock)" 1
"$LOCKSCOPE_BIN" report "$RESULTS_DIR/run.lockscope"
! pgrep -x postgres || [ -e /tmp/shared-postgres/ready ] || fail "a server was left behind"
