#!/bin/bash
# Locks of a pipe, of a process's signals and of a unix socket have their names.
# kernels: 6.1..
# timeout: 600
. "$WORKSPACE/tests/vm/lib/names.sh"

traced_run name-pipe
named mutex pipe_inode_info.mutex caller
held_by pipe_inode_info.mutex
traced_run name-signal
named qspinlock sighand_struct.siglock "task sighand_struct"
traced_run name-socket
named mutex unix_sock.iolock "*"
