#!/bin/bash
# Doctor names a method or a reason for every capability, and the programs of the plan load.
# flavours: generic, rt, xen
# timeout: 60
. "$WORKSPACE/tests/vm/lib/common.sh"

"$LOCKSCOPE_BIN" doctor
"$LOCKSCOPE_BIN" doctor --json >"$RESULTS_DIR/doctor.json"
[ -s "$RESULTS_DIR/doctor.json" ]
