#!/bin/bash
# As a guest of Xen, spinlocks wait in their paravirtual slow path: that one is probed, and its waits
# are counted as often as the tracepoint tells of them.
# flavours: xen
# timeout: 300
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --option=--probe --option=qspinlock=on xen-qspinlock
grep -q '__pv_queued_spin_lock_slowpath' "$RESULTS_DIR/run.json" || fail "no stack is paravirtual"
method=$(run_json "$RESULTS_DIR/run.json" method qspinlock)
[ "$method" = fentry ] || fail "the slow path is attached by $method"
