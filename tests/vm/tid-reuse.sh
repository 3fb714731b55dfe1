#!/bin/bash
# More backends come and go than there are pids: every one still has an account of its own, or is
# counted as a loss.
# kernels: 6.1..
# timeout: 400
. "$WORKSPACE/tests/vm/lib/common.sh"

CONNECTIONS=300
shared_postgres
log="$RESULTS_DIR/lockscope.log"
"$LOCKSCOPE_BIN" run -S -M prepared --dsn "$DSN" --no-init --no-vacuum -c 1 -T 600 --warmup 0 --no-profile --no-counters \
    --no-control --json --progress 0.5 >"$RESULTS_DIR/run.json" 2>"$log" &
lockscope=$!
until grep -q '^progress' "$log"; do
    kill -0 "$lockscope" 2>/dev/null || fail "lockscope ended before it began: $(cat "$log")"
    sleep 0.1
done
# The least that the kernel accepts leaves some hundred for new tasks.
trap 'echo 32768 >/proc/sys/kernel/pid_max' EXIT
echo 400 >/proc/sys/kernel/pid_max
bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/pgbench | sort -V | tail -n 1)")
"$bin/pgbench" -h /tmp/shared-postgres -U postgres -n -S -C -c 1 -t "$CONNECTIONS" postgres
kill -INT "$lockscope"
wait "$lockscope" || fail "lockscope failed: $(cat "$log")"

run="$RESULTS_DIR/run.json"
reused=$(run_json "$run" loss tid_reused)
accounts=$(run_json "$run" tasks server)
distinct=$(run_json "$run" tids server)
echo "$accounts accounts with $distinct tids, $reused tids reused before their account was read"
at_least accounts $((accounts + reused)) "$CONNECTIONS"
[ "$distinct" -lt "$accounts" ] || fail "no tid was used twice: the case shows nothing"
[ "$(run_json "$run" loss tasks_full)" = 0 ] || fail "there was no room for a task"
