#!/bin/bash
# Loads whose contended lock is known: lockscope sees its class, its name and its waiters, and as many
# waits as bpftrace counts for the same processes at the same time. Every wait that began has ended, or
# is known not to have.
# kernels: 6.1..
# timeout: 900
. "$WORKSPACE/tests/vm/lib/common.sh"

frozen_disk
known_loads --reference mutex rwsem mmap qspinlock rq rwlock hold-rwsem hold-mutex freeze
