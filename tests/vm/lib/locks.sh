# Sourced by the lock cases: a load whose contended lock is known, counted by bpftrace and by
# lockscope. The load starts when the counter is attached: emulated CPUs are slow enough without it.
. "$WORKSPACE/tests/vm/lib/common.sh"

LOAD_SECONDS=3
# lockscope sees the load from its start to its end, less the slices in which it turns itself off,
# and beside a benchmark: fewer events than bpftrace sees alone.
SHARE_OF_REFERENCE=10

# The bpftrace program that counts a class in @n, independent of lockscope.
reference_program() {
    case $1 in
    osq) echo 'kprobe:osq_lock { @n = count(); }' ;;
    mutex_owner) echo 'kprobe:mutex_spin_on_owner { @n = count(); }' ;;
    rwsem_owner) echo 'kprobe:rwsem_spin_on_owner { @n = count(); }' ;;
    qspinlock) echo 'kprobe:native_queued_spin_lock_slowpath { @n = count(); }' ;;
    rq) rq_program ;;
    plug) echo 'tracepoint:block:block_unplug { @n = count(); }' ;;
    *) fail "no reference for $1" ;;
    esac
}

# A contended slow path whose lock lies in a CPU's `struct rq`, which is less than 4 KiB.
rq_program() {
    echo 'BEGIN { $offsets = kaddr("__per_cpu_offset"); $runqueues = (uint64)kaddr("runqueues");'
    local cpu inside=""
    for ((cpu = 0; cpu < $(nproc); cpu++)); do
        echo "@rq[$cpu] = *(uint64 *)(\$offsets + 8 * $cpu) + \$runqueues;"
        inside+="${inside:+ || }(arg0 - @rq[$cpu]) < 4096"
    done
    echo "} kprobe:native_queued_spin_lock_slowpath { if ($inside) { @n = count(); } }"
    echo 'END { clear(@rq); }'
}

# How often bpftrace sees the class while a stressor runs: reference_count CLASS STRESSOR...
reference_count() {
    local program
    program=$(reference_program "$1")
    shift
    bpftrace -e "$program" -c "$(stressor "$@")" >"$RESULTS_DIR/reference.txt" 2>&1 || {
        cat "$RESULTS_DIR/reference.txt" >&2
        return 1
    }
    local count
    count=$(sed -n 's/^@n: //p' "$RESULTS_DIR/reference.txt")
    echo "${count:-0}"
}

# The command line of a stressor: stressor NAME [OPTION...]
stressor() {
    local name=$1
    shift
    echo "$STRESSORS_DIR/stress-$name --seconds $LOAD_SECONDS $*"
}

# Traces the machine beside a small benchmark, and runs the stressor once tracing has begun; the
# report's `other` side has it. traced_run "STRESSOR..." [OPTION of lockscope...]
traced_run() {
    local load=$1 log="$RESULTS_DIR/lockscope.log"
    shift
    shared_postgres
    "$LOCKSCOPE_BIN" run --workload select-prepared --dsn "$DSN" --no-init --no-vacuum -c 1 \
        -T $((LOAD_SECONDS + 3)) --warmup 0 --json "$@" >"$RESULTS_DIR/run.json" 2>"$log" &
    local lockscope=$!
    until grep -q '^progress' "$log"; do
        kill -0 "$lockscope" 2>/dev/null || fail "lockscope ended before it began: $(cat "$log")"
        sleep 0.1
    done
    $(stressor $load)
    wait "$lockscope" || fail "lockscope failed: $(cat "$log")"
}

# A stressor contends in this class, for bpftrace and for lockscope:
# contends CLASS MINIMUM "STRESSOR..." [OPTION of lockscope...]
contends() {
    local class=$1 minimum=$2 load=$3 count
    shift 3
    count=$(reference_count "$class" $load) || fail "bpftrace cannot count $class"
    at_least "bpftrace, $class" "$count" "$minimum"
    traced_run "$load" "$@"
    count=$(run_json "$RESULTS_DIR/run.json" count "$class") || fail "the run has no locks"
    at_least "lockscope, $class" "$count" $((minimum / SHARE_OF_REFERENCE))
}

# The lock that a stressor contends for is called NAME and was recognised by HOW (a pattern):
# named CLASS NAME HOW. After traced_run.
named() {
    local how
    how=$(run_json "$RESULTS_DIR/run.json" found-by "$1" "$2") || fail "no $1 is called $2"
    echo "$1 $2: by $how"
    [[ $how == $3 ]] || fail "$2 was recognised by $how, expected $3"
}

# The stressor's tids are among the holders of NAME: held_by NAME, or held_mostly_by NAME for the first.
held_by() {
    run_json "$RESULTS_DIR/run.json" held-by "$1" "$RESULTS_DIR/load.json"
}

held_mostly_by() {
    run_json "$RESULTS_DIR/run.json" held-mostly-by "$1" "$RESULTS_DIR/load.json"
}
