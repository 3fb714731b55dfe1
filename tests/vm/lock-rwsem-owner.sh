#!/bin/bash
# Threads that create files in one directory spin on the owner of its rwsem.
# kernels: 6.1..
# timeout: 120
. "$WORKSPACE/tests/vm/lib/locks.sh"

stress rwsem
contends rwsem_owner 100
