#!/bin/bash
# Blocks written back to a disk one by one, and 32 at a time: the plug table has every request, and as
# many batches as there were.
# kernels: 6.1..
# timeout: 400
. "$WORKSPACE/tests/vm/lib/common.sh"

# Before 6.12, requests that go past a scheduler flush the plug without the tracepoint.
echo mq-deadline >"/sys/block/${SCRATCH_DISK#/dev/}/queue/scheduler"
for load in plug-1 plug-32; do
    known_loads "$load"
done
