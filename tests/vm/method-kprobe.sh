#!/bin/bash
# The function probes work as kprobe when told so.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

traced_run mmap --probe osq=kprobe --probe rwsem-owner=kprobe
for capability in osq rwsem-owner; do
    method=$(run_json "$RESULTS_DIR/run.json" method "$capability")
    [ "$method" = kprobe ] || fail "$capability was traced by $method, not kprobe"
done
at_least osq "$(run_json "$RESULTS_DIR/run.json" count osq)" 50
at_least rwsem_owner "$(run_json "$RESULTS_DIR/run.json" count rwsem_owner)" 50
