#!/bin/bash
# Writers of one open file spin on the owner of its position mutex.
# kernels: 6.1..
# timeout: 180
. "$WORKSPACE/tests/vm/lib/locks.sh"

contends mutex_owner 20 mutex
