#!/bin/bash
# Tasks that are killed, or whose process is replaced, in the middle of their waits: what is traced
# after that is still theirs, and every wait is accounted for.
# kernels: 6.1..
# timeout: 400
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --seconds 4 mortal
