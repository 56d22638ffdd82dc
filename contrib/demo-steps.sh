#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The part of demo.sh that shows: demo-steps.sh BUILD-FOLDER [--no-rdma]

set -u
build=${1:?the build folder}
no_rdma=${2-}
wimm_run=$build/src/tools/wimm-run
examples=$build/examples
pingpong=$examples/uct_wimm_pingpong
ucp_pingpong=$examples/ucp_wimm_pingpong
# The caller's settings are for the caller's programs
unset "${!UCX_@}"
scratch=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$scratch"' EXIT
rows=()

fail() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# wait_listen PORT PID: until the process listens, or has ended
wait_listen() {
    local hex

    hex=$(printf ':%04X ' "$1")
    while ! awk '$4 == "0A" {print $2 " "}' /proc/net/tcp | grep -q "$hex"; do
        kill -0 "$2" 2>/dev/null || return 1
        sleep 0.05
    done
}

# both NAME PORT SERVER-COMMAND -- CLIENT-COMMAND: run the two sides; the
# client's output is left in $scratch/client
both() {
    local name=$1 port=$2 server=() pid

    shift 2
    while [ "$1" != -- ]; do
        server+=("$1")
        shift
    done
    shift
    timeout 60 "${server[@]}" >"$scratch/server" 2>&1 &
    pid=$!
    wait_listen "$port" $pid || { cat "$scratch/server"; fail "$name: the server ended"; }
    timeout 60 "$@" >"$scratch/client" 2>&1 || {
        cat "$scratch/client" "$scratch/server"
        fail "$name: the client failed"
    }
    wait $pid || { cat "$scratch/server"; fail "$name: the server failed"; }
}

row() {
    local line

    line=$(printf '  %-34s %9s  %s' "$1" "$2" "$3")
    rows+=("$line")
    echo "$line"
}

# Last line of numbers of ucx_perftest -f: iterations, median, average, overall,
# average and overall bandwidth, average and overall message rate
perftest_field() {
    awk -v n="$1" '$1 ~ /^[0-9]+$/ && NF >= 8 {v = $n} END {print v}' \
        "$scratch/client"
}

uct_perftest() {
    local test=$1 size=$2

    # At this level the server of ucx_perftest takes the client's device name:
    # both sides are on one device
    echo "-- stock ucx_perftest, UCT: $test, transport wimm on $client_dev"
    both "$test" 13337 \
        "$wimm_run" ucx_perftest -- \
        "$wimm_run" ucx_perftest -d "$client_dev" -x wimm -t "$test" \
            -s "$size" -n 500 -w 50 -f 127.0.0.1
    row "UCT $test (ucx_perftest)" "$size B" \
        "$(perftest_field 2) us median, wimm/$client_dev to itself"
}

# ucp_perftest TEST SIZE FIELD UNIT
ucp_perftest() {
    local test=$1 size=$2 lanes

    echo "-- stock ucx_perftest, UCP: $test, UCX_TLS=wimm,ud_verbs:aux," \
         "$client_dev to $server_dev"
    both "$test" 13337 \
        env "UCX_NET_DEVICES=$server_dev" "$wimm_run" ucx_perftest -- \
        env "UCX_NET_DEVICES=$client_dev" UCX_LOG_LEVEL=info "$wimm_run" \
            ucx_perftest -t "$test" -s "$size" -n 200 -w 20 -f 127.0.0.1
    lanes=$(grep -o 'rma(wimm/[^ )]*)' "$scratch/client" | head -n 1)
    [ -n "$lanes" ] || { cat "$scratch/client"; fail "$test did not run over wimm"; }
    row "UCP $test (ucx_perftest)" "$size B" "$(perftest_field "$3") $4, $lanes"
}

# pingpong_row WHAT SIZE: of what $scratch/client says
pingpong_row() {
    row "$1" "$2" \
        "$(sed -n 's/^half round trip: median \([0-9.]*\) us.*/\1/p' \
            "$scratch/client") us median, $(sed -n \
            's/^\([0-9]*\) notifications.*/\1/p' "$scratch/client") notified, 0 bad"
}

# The log: a line each, and what its last line says for the table
example() {
    local name=$1 size=$2 way=$3

    shift 3
    timeout 120 "$@" >"$scratch/client" 2>&1 || {
        cat "$scratch/client"
        fail "$name ended with an error"
    }
    sed 's/^/   /' "$scratch/client"
    grep -q ", $way\$" "$scratch/client" || fail "$name did not run $way"
    row "$name" "$size" \
        "$(sed -n '$s/^.*: \(.* 0 wrong\).*/\1/p' "$scratch/client")"
}

table() {
    echo
    echo "  what                                    size  result"
    echo "  ---------------------------------- ---------  --------------------------"
    printf '%s\n' "${rows[@]}"
}

# Whatever UCX takes on this machine if there is no RDMA
if [ -n "$no_rdma" ]; then
    export UCX_TLS=tcp,sm,self UCX_NET_DEVICES=lo
    way="emulated by UCX's puts and active messages, over what it takes of $UCX_TLS"
    echo "-- notified puts between two processes, $way: ucp_wimm_pingpong"
    for size in 8 65536; do
        both "ping-pong" 18516 \
            "$ucp_pingpong" -s $size -- "$ucp_pingpong" -s $size 127.0.0.1
        sed 's/^/   /' "$scratch/client"
        grep -q ' arrived, 0 bad, emulated' "$scratch/client" ||
            fail "ping-pong: wrong data, or not emulated"
        pingpong_row "notified put, ping-pong" "$size B"
    done
    echo "-- a replicated log, whose writer is killed: wimm_log_append -k 50"
    example "wimm_log_append" "<= 600 B" emulated "$examples/wimm_log_append" -k 50
    table
    echo "  ($way)"
    echo
    exit 0
fi

# Devices of the two sides: both ends of the wire, or one device twice
devices() {
    local state

    for state in /sys/class/infiniband/*/ports/*/state; do
        grep -q ACTIVE "$state" 2>/dev/null || continue
        state=${state#/sys/class/infiniband/}
        echo "${state%%/*}:$(echo "$state" | cut -d / -f 3)"
    done
}
mapfile -t list < <(devices)
[ ${#list[@]} -gt 0 ] || fail "no RDMA device with an active port"
server_dev=${list[0]}
client_dev=${list[1]:-${list[0]}}
[ -n "${WIMM_VM-}" ] || client_dev=$server_dev

uct_perftest put_lat 8
ucp_perftest ucp_put_lat 8 2 "us median"
ucp_perftest ucp_put_bw 65536 5 "MB/s"

echo "-- notified puts between two processes: uct_wimm_pingpong," \
     "$client_dev and $server_dev"
both "ping-pong" 18515 \
    "$wimm_run" "$pingpong" -d "$server_dev" -- \
    "$wimm_run" "$pingpong" -d "$client_dev" 127.0.0.1
sed 's/^/   /' "$scratch/client"
grep -q ' arrived, 0 bad' "$scratch/client" || fail "ping-pong: wrong data"
pingpong_row "notified put, ping-pong" "8 B"

# Linked with libucp_wimm, so it needs no wimm-run
dgid_check=$(UCX_TLS=wimm "$wimm_run" --print true | grep -o 'UCX_UD_VERBS_ETH_DGID_CHECK=.')
ucp_pingpong() {
    local size=$1

    echo "-- notified puts through UCP: ucp_wimm_pingpong, UCX_TLS=wimm,ud_verbs:aux," \
         "$client_dev to $server_dev"
    both "ping-pong through UCP" 18516 \
        env UCX_TLS=wimm,ud_verbs:aux ${dgid_check:+"$dgid_check"} \
            "UCX_NET_DEVICES=$server_dev" "$ucp_pingpong" -s "$size" -- \
        env UCX_TLS=wimm,ud_verbs:aux ${dgid_check:+"$dgid_check"} \
            "UCX_NET_DEVICES=$client_dev" "$ucp_pingpong" -s "$size" 127.0.0.1
    sed 's/^/   /' "$scratch/client"
    grep -q ' arrived, 0 bad, by RDMA WRITE WITH IMMEDIATE' "$scratch/client" ||
        fail "ping-pong through UCP: wrong data, or not over wimm"
    pingpong_row "UCP notified put, ping-pong" "$size B"
}
ucp_pingpong 8
ucp_pingpong 65536

echo "-- a replicated log, whose writer is killed: wimm_log_append -k 50," \
     "UCX_TLS=wimm,ud_verbs:aux, $server_dev"
example "wimm_log_append" "<= 600 B" native \
    env UCX_TLS=wimm,ud_verbs:aux ${dgid_check:+"$dgid_check"} \
        "UCX_NET_DEVICES=$server_dev" "$examples/wimm_log_append" -k 50

table
[ -z "${WIMM_VM-}" ] ||
    echo "  (an emulated CPU and Soft-RoCE: it works, but these are no speeds; near" \
         "4000 us is the guest's clock tick)"
echo
