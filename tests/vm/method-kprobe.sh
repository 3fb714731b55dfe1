#!/bin/bash
# The function probes work as kprobe/kretprobe when told so.
# kernels: 6.1..
# timeout: 120
. "$WORKSPACE/tests/vm/lib/locks.sh"

stress mmap
contends osq 500 --probe osq=kprobe
[ "$(run_json "$RESULTS_DIR/run.json" method osq)" = kprobe ]
