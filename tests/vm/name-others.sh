#!/bin/bash
# Locks of a pipe, of a process's signals and of a unix socket have their names.
# kernels: 6.1..
# timeout: 600
. "$WORKSPACE/tests/vm/lib/names.sh"
pipe_is_named() {
    named mutex pipe_inode_info.mutex caller &&
        held_by pipe_inode_info.mutex
}
seen_as name-pipe pipe_is_named

signal_is_named() {
    named qspinlock sighand_struct.siglock "task sighand_struct"
}
seen_as name-signal signal_is_named

socket_is_named() {
    named mutex unix_sock.iolock "*"
}
seen_as name-socket socket_is_named
