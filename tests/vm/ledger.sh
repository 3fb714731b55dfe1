#!/bin/bash
# Every state of the ledger is told by the kernel's scheduler, whichever way its hooks are attached, and
# the states of all tasks add up to their wall time.
# timeout: 480
. "$WORKSPACE/tests/vm/lib/common.sh"

for method in tp_btf raw_tracepoint tracepoint; do
    run="$RESULTS_DIR/$method.json"
    "$LOCKSCOPE_BIN" run --workload select-prepared -c 4 -T 3 --warmup 1 --no-profile --no-counters --json \
        --probe "scheduling=$method" >"$run"
    echo "$method: $(run_json "$run" method scheduling)"
    for side in server client; do
        echo "$side: balance $(run_json "$run" near "/ledger/$side/balance" 1 0.01)"
        echo "$side: cpu $(run_json "$run" positive "/ledger/$side/states_ns/cpu") ns"
    done
    echo "server: idle $(run_json "$run" positive /ledger/server/states_ns/idle) ns"
done
exit 0
