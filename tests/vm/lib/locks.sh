# Sourced by the lock cases: one load, counted by bpftrace and by lockscope.
. "$WORKSPACE/tests/vm/lib/common.sh"

SECONDS_COUNTED=3

# The bpftrace probe that counts a class, independent of lockscope.
reference_probe() {
    case $1 in
    osq) echo 'kprobe:osq_lock { @n++; }' ;;
    mutex_owner) echo 'kprobe:mutex_spin_on_owner { @n++; }' ;;
    rwsem_owner) echo 'kprobe:rwsem_spin_on_owner { @n++; }' ;;
    qspinlock) echo 'kprobe:native_queued_spin_lock_slowpath { @n++; }' ;;
    rq) rq_probe ;;
    plug) echo 'tracepoint:block:block_unplug { @n++; }' ;;
    *) fail "no reference for $1" ;;
    esac
}

# A contended slow path whose lock lies in a CPU's `struct rq`, which is less than 4 KiB.
rq_probe() {
    echo 'BEGIN { $offsets = kaddr("__per_cpu_offset"); $runqueues = kaddr("runqueues");'
    local cpu inside=""
    for ((cpu = 0; cpu < $(nproc); cpu++)); do
        echo "@rq[$cpu] = *(uint64 *)(\$offsets + 8 * $cpu) + \$runqueues;"
        inside+="${inside:+ || }(arg0 - @rq[$cpu]) < 4096"
    done
    echo "} kprobe:native_queued_spin_lock_slowpath { if ($inside) { @n++; } }"
    echo 'END { clear(@rq); }'
}

# How often bpftrace sees the class within SECONDS_COUNTED.
reference_count() {
    local program
    program="BEGIN { @n = 0; } $(reference_probe "$1") interval:s:$SECONDS_COUNTED { exit(); }"
    bpftrace -e "$program" >"$RESULTS_DIR/reference.txt" || fail "bpftrace cannot count $1"
    sed -n 's/^@n: //p' "$RESULTS_DIR/reference.txt"
}

# Traces the load under way while a small benchmark runs: traced_run JSON [OPTION...]
traced_run() {
    local json=$1
    shift
    shared_postgres
    "$LOCKSCOPE_BIN" run --workload select-prepared --dsn "$DSN" --no-init -c 1 -T "$SECONDS_COUNTED" \
        --quiet --json --also-pid "$STRESS_PID" "$@" >"$json"
}

# The load under way contends in this class, for bpftrace and for lockscope:
# contends CLASS MINIMUM [OPTION of lockscope...]
contends() {
    local class=$1 minimum=$2
    shift 2
    at_least "bpftrace, $class" "$(reference_count "$class")" "$minimum"
    traced_run "$RESULTS_DIR/run.json" "$@"
    at_least "lockscope, $class" "$(run_json "$RESULTS_DIR/run.json" count "$class")" "$minimum"
}
