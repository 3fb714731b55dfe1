#!/bin/bash
# The one task that holds a mutex for long is found, and its holds are the longest.
# kernels: 6.1..
# timeout: 300
. "$WORKSPACE/tests/vm/lib/names.sh"
holder_is_named() {
    named mutex file.f_pos_lock "@(slab filp|caller)" &&
        held_mostly_by file.f_pos_lock
}
seen_as name-holder holder_is_named
