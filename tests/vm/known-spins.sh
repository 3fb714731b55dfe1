#!/bin/bash
# The same on kernels that tell of no lock but those that tasks spin for in functions of their own.
# kernels: ..6.0
# timeout: 900
. "$WORKSPACE/tests/vm/lib/common.sh"

known_loads --reference rwsem mmap qspinlock rq
