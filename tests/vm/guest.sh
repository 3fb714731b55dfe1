#!/bin/bash
# The guest is what the other cases rely on: several CPUs, tracing, symbols, a disk to use up.
# flavours: generic, rt, xen
# timeout: 20
set -euo pipefail

[ "$(nproc)" -ge 2 ]
[ "$(id -u)" -eq 0 ]
[ -d /sys/kernel/tracing/events/block/block_plug ]
[ -e /sys/kernel/btf/vmlinux ]
grep -q ' native_queued_spin_lock_slowpath$' /proc/kallsyms
! grep -q '^0\+ . native_queued_spin_lock_slowpath$' /proc/kallsyms
[ -b "$SCRATCH_DISK" ]
[ -e /dev/shm ] && [ -e /dev/pts ]
touch /tmp/writable && rm /tmp/writable
ip address show lo | grep -q 'inet 127.0.0.1'
