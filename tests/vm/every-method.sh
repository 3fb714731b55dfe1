#!/bin/bash
# Whatever way a program can be attached on this kernel, it loads and the run works; and a run attaches
# what doctor said that it would.
# timeout: 900
. "$WORKSPACE/tests/vm/lib/common.sh"

# A short traced run: traced NAME [OPTION...]
traced() {
    local json="$RESULTS_DIR/$1.json"
    shift
    "$LOCKSCOPE_BIN" run -S -M prepared --dsn "$DSN" --no-init -c 1 -t 20 --no-profile --no-counters --quiet --json "$@" >"$json"
    at_least transactions "$(run_json "$json" transactions)" 20
}

shared_postgres
"$LOCKSCOPE_BIN" doctor --json >"$RESULTS_DIR/doctor.json"
traced default
for capability in $(run_json "$RESULTS_DIR/doctor.json" capabilities); do
    said=$(run_json "$RESULTS_DIR/doctor.json" method "$capability")
    used=$(run_json "$RESULTS_DIR/default.json" method "$capability")
    [ "$said" = "$used" ] || fail "$capability: doctor said $said, the run used $used"
done

# Each method with every capability that it can serve here.
for method in tp_btf raw_tracepoint tracepoint fentry kprobe; do
    options=()
    for capability in $(run_json "$RESULTS_DIR/doctor.json" choices "$method"); do
        options+=(--probe "$capability=$method")
    done
    echo "$method: ${options[*]}"
    [ ${#options[@]} -gt 0 ] || fail "$method serves nothing"
    traced "$method" "${options[@]}"
    for option in "${options[@]}"; do
        [ "$option" = --probe ] && continue
        used=$(run_json "$RESULTS_DIR/$method.json" method "${option%=*}")
        [ "$used" = "$method" ] || fail "$option was asked for, $used was used"
    done
done
