#!/bin/bash
# Under PREEMPT_RT, mutexes and most spinlocks are rt-mutexes, and are shown as such.
# flavours: rt
# timeout: 900
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --reference rt-mutex rt-spinlock rt-hold
