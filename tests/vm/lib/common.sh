# Sourced by the cases: how they end, and a server that the cases of one guest share.
# The runner gives WORKSPACE, LOCKSCOPE_BIN, STRESSORS_DIR, SCRATCH_DISK and RESULTS_DIR.
set -euo pipefail

fail() {
    echo "$*"
    exit 1
}

skip() {
    echo "$*"
    exit 77
}

# at_least WHAT NUMBER MINIMUM
at_least() {
    echo "$1: $2 (at least $3)"
    [ "$2" -ge "$3" ] || fail "$1: $2, expected at least $3"
}

# run_json FILE QUERY...: one number or word of a run's JSON.
run_json() {
    "$STRESSORS_DIR/run-json" "$@"
}

# The server that the cases of one guest share, made by the first that asks; sets DSN.
shared_postgres() {
    local dir=/tmp/shared-postgres
    DSN="host=$dir user=postgres dbname=postgres"
    [ -e "$dir/ready" ] && return
    local bin
    bin=$(dirname "$(ls /usr/lib/postgresql/*/bin/initdb | sort -V | tail -n 1)")
    mkdir "$dir"
    chown postgres: "$dir"
    as_postgres "$bin/initdb" --no-sync --auth=trust --pgdata="$dir/data" >"$dir/initdb.log"
    as_postgres "$bin/pg_ctl" start --wait --silent --pgdata="$dir/data" --log="$dir/server.log" \
        --options="-c unix_socket_directories=$dir -c listen_addresses= -c fsync=off"
    as_postgres "$bin/pgbench" -h "$dir" -i -q postgres >"$dir/pgbench.log" 2>&1
    touch "$dir/ready"
}

as_postgres() {
    setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
}

# Runs loads whose answer is known and judges what lockscope says of them:
# known_loads [OPTION...] LOAD...
known_loads() {
    shared_postgres
    "$STRESSORS_DIR/known-loads" --dsn "$DSN" --results "$RESULTS_DIR" "$@"
}

# The scratch disk with a file system that can be frozen, on /mnt/frozen.
frozen_disk() {
    mkfs.ext4 -q -F "$SCRATCH_DISK"
    mkdir -p /mnt/frozen
    mount -t ext4 "$SCRATCH_DISK" /mnt/frozen
}
