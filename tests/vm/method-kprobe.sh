#!/bin/bash
# The function probes count the same as kprobes as they do by default.
# kernels: 6.1..
# timeout: 400
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --reference --option=--prefer --option=kprobe mmap
for capability in osq rwsem-owner; do
    method=$(run_json "$RESULTS_DIR/run.json" method "$capability")
    [ "$method" = kprobe ] || fail "$capability was traced by $method, not kprobe"
done
