#!/bin/bash
# The function probes work as fentry/fexit when told so.
# kernels: 6.1..
# timeout: 120
. "$WORKSPACE/tests/vm/lib/locks.sh"

stress mmap
contends osq 500 --probe osq=fentry
[ "$(run_json "$RESULTS_DIR/run.json" method osq)" = fentry ]
