# Sourced by the cases about the names and holders of locks.
. "$WORKSPACE/tests/vm/lib/common.sh"

LOAD_SECONDS=3

# How often a stressor may run until its lock is seen: its threads meet by chance, and what a guest
# sees of that is a matter of its turns on the machine's CPUs.
TRIES=4

# seen_as STRESSOR CHECK: runs a traced stressor until CHECK, a function, is content.
seen_as() {
    local try
    for try in $(seq "$TRIES"); do
        traced_run "$1"
        "$2" && return
        echo "$1: not seen in run $try of $TRIES"
    done
    fail "$1: its lock was not seen as expected"
}

# Traces the machine beside a small benchmark, and runs a stressor once tracing has begun; its line is
# in load.json, the run in run.json.
traced_run() {
    local log="$RESULTS_DIR/lockscope.log"
    shared_postgres
    "$LOCKSCOPE_BIN" run --workload select-prepared --dsn "$DSN" --no-init --no-vacuum -c 1 \
        -T $((LOAD_SECONDS + 4)) --warmup 0 --no-control --no-profile --no-counters --json >"$RESULTS_DIR/run.json" 2>"$log" &
    local lockscope=$!
    until grep -q '^progress' "$log"; do
        kill -0 "$lockscope" 2>/dev/null || fail "lockscope ended before it began: $(cat "$log")"
        sleep 0.1
    done
    "$STRESSORS_DIR/stress-$1" --seconds "$LOAD_SECONDS" >"$RESULTS_DIR/load.json"
    cat "$RESULTS_DIR/load.json"
    wait "$lockscope" || fail "lockscope failed: $(cat "$log")"
}

# The lock that a stressor contends for is called NAME and was recognised by HOW (a pattern):
# named CLASS NAME HOW.
named() {
    local how
    how=$(run_json "$RESULTS_DIR/run.json" found-by "$1" "$2") || return
    echo "$1 $2: by $how"
    [[ $how == $3 ]] && return
    echo "$2 was recognised by $how, expected $3"
    return 1
}

# The stressor's tids are among the holders of NAME: held_by NAME, or held_mostly_by NAME for the first.
held_by() {
    run_json "$RESULTS_DIR/run.json" held-by "$1" "$RESULTS_DIR/load.json"
}

held_mostly_by() {
    run_json "$RESULTS_DIR/run.json" held-mostly-by "$1" "$RESULTS_DIR/load.json"
}
