#!/bin/bash
# The position mutex of an open file is recognised, by its slab cache where the kernel has not merged that
# with others (6.12+), and held by the writers.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/names.sh"
mutex_is_named() {
    named mutex file.f_pos_lock "@(slab filp|caller)" &&
        held_by file.f_pos_lock
}
seen_as mutex mutex_is_named
