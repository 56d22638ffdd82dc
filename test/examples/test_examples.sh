#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The examples that show a pattern, as somebody runs them who reads their output: what they say at
# the end, which way the notified puts went, what happens when a writer is killed or data is
# changed, wrong options, and that nothing is left behind. Without an argument emulated, over TCP
# and over what UCX chooses; with "device" native on an RDMA device,
# and over what UCX chooses there.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

unset "${!UCX_@}" "${!WIMM_EXAMPLE_@}" LD_PRELOAD
examples=(wimm_log_append wimm_kv_slots wimm_param_shards)

# A program gives up earlier than this script does
limit=100
out=$(mktemp) || exit 1
parent_pid=''
trap 'kill -9 $parent_pid 2>/dev/null; rm -f "$out"' EXIT

# The end of each, with the default options: all that is in it is the same in every run
log_end='log: 200 records replayed in order, 60607 bytes checked, 0 wrong, 0 gaps, 0 duplicates'
kv_end='kv: 3 clients, 42 values written, 63 lookups answered, 6 refused as not ready, 0 wrong'
params_end='params: 6 iterations, 136 shards summed, 8 late and dropped, 0 wrong'

# ---------------------------------------------------------------- running one

# PROGRAM OPTION...: leaves the output in $out and the status in $status
run_example() {
    local program=$1

    shift
    timeout -k 5 $((limit + 20)) "$build/examples/$program" -t $limit "$@" >"$out" 2>&1
    status=$?
}

# The last line without the name of the process that says it
last_line() {
    tail -n 1 "$out" | sed 's/^[a-z]* *//'
}

lines_with() { # PATTERN
    grep -c -E -- "$1" "$out"
}

# NAME: what UCX warns of, and what is told about processes that ended otherwise. When a writer is
# killed UCX has nothing to say, either.
no_warnings() {
    tap_is "$1: no warning and no error" \
        "$(grep -E ' (DIAG|WARN|ERROR|FATAL) |Assertion|ended by signal' "$out" | head -n 5)" ""
}

# NAME STATUS LAST-LINE
ends_with() {
    local detail=''

    [ "$status" = "$2" ] && [ "$(last_line)" = "$3" ] || detail=$(tail -n 20 "$out")
    tap_is "$1: exit status" "$status" "$2"
    tap_is "$1: what it says at the end" "$(last_line)" "$3"
    [ -z "$detail" ] || tap_comment "$detail"
    no_warnings "$1"
}

# NAME MORE-OR-FEWER COUNT PATTERN: so many lines of the output match
says() {
    tap_is "$1" "$(lines_with "$3")" "$2"
}

# ---------------------------------------------------------------- what they do

# NAME: the log, without a kill
test_log() {
    run_example wimm_log_append
    ends_with "$1, log" 0 "$log_end, $way"
    says "$1, log: both sides know how" 1 "^writer 1 .* $way: "

    # A small ring: the writer has to wait for space, and starts at the beginning often
    run_example wimm_log_append -n 60 -s 1000 -c 2000 -v
    tap_is "$1, log with a small ring: exit status" $status 0
    says "$1, log with a small ring: each record is shown" 60 '^reader +record [0-9]+: [0-9]+ bytes at'
    tap_run "$1, log with a small ring: it is used again and again" \
        test "$(lines_with 'the start again$')" -gt 5
}

# NAME AFTER: the writer is killed when so many records were replayed
test_kill() {
    local name="$1, log: writer killed after record $2" stop next

    run_example wimm_log_append -k "$2"
    ends_with "$name" 0 "$log_end, $way"
    says "$name: was killed" 1 '^ +writer 1 is killed, writer 2 is started$'
    stop=$(sed -n 's/^reader .*writer 1 ended after record \([0-9]*\);.*/\1/p' "$out")
    next=$(sed -n -e 's/^writer 2 .*appends records \([0-9]*\) to 199$/\1/p' \
               -e 's/^writer 2 .*the reader has all records.*/200/p' "$out")
    tap_is "$name: the next one goes on where it ended" "$next" $((${stop:--2} + 1))
    tap_run "$name: at or after the record that it was to be" \
        test "${stop:--1}" -ge $(($2 - 1))
}

# NAME: those of the whole table, and with the fewest of all
test_kv() {
    run_example wimm_kv_slots
    ends_with "$1, kv" 0 "$kv_end, $way"
    says "$1, kv: each client was refused before anything was written" 3 \
        'looks up slot [0-9]+, which nobody has written: not ready$'
    says "$1, kv: and once more, for what its neighbour has not written" 3 \
        'has looked up .* is not ready$'
    says "$1, kv: it says how" 1 "^server +$way: "
    tap_run "$1, kv: all are refused before one has written" awk '
        /which nobody has written/ {++refused}
        /lookup of each client/    {told = 1}
        /has written all but/      {if (!told) bad = 1}
        END {exit bad || refused != 3 || !told}' "$out"

    run_example wimm_kv_slots -c 1 -s 2
    ends_with "$1, kv with one client" 0 \
        "kv: 1 clients, 2 values written, 3 lookups answered, 2 refused as not ready, 0 wrong, $way"
}

# NAME
test_params() {
    run_example wimm_param_shards
    ends_with "$1, params" 0 "$params_end, $way"
    says "$1, params: an iteration is taken without the late worker" 1 \
        '^server +iteration 3: 16 of 24 shards are there, taken without worker 2$'
    says "$1, params: all others with all shards" 5 \
        '^server +iteration [124-6]: 24 of 24 shards are there, taken$'
    says "$1, params: what is late is dropped" 1 '^server +drops what worker 2 pushed too late for iteration 3'
    says "$1, params: it says how" 1 "^server +$way: "

    # In the last iteration nothing comes after what is late
    run_example wimm_param_shards -w 2 -s 4 -i 3 -l 3 -v
    ends_with "$1, params with the last iteration late" 0 \
        "params: 3 iterations, 20 shards summed, 4 late and dropped, 0 wrong, $way"
    says "$1, params with the last iteration late: each shard of it" 4 '^server +drops what worker 1 .*: shard [0-3]$'
    run_example wimm_param_shards -w 1 -s 1 -i 2 -l 0
    ends_with "$1, params with nobody late" 0 \
        "params: 2 iterations, 2 shards summed, 0 late and dropped, 0 wrong, $way"
}

# NAME: a byte is changed by the sender, and everybody who gets it says which
test_corrupt() {
    export WIMM_EXAMPLE_CORRUPT=17
    run_example wimm_log_append
    ends_with "$1, log with a wrong byte" 1 "${log_end/0 wrong/1 wrong}, $way"
    says "$1, log with a wrong byte: which record" 1 '^reader +record 17: byte 82 of 164 is '

    WIMM_EXAMPLE_CORRUPT=9
    run_example wimm_kv_slots
    ends_with "$1, kv with a wrong byte" 1 "${kv_end/0 wrong/2 wrong}, $way"
    says "$1, kv with a wrong byte: which slot, by its client and the neighbour" 2 \
        '^client [01] +slot 9, version 2: byte '

    WIMM_EXAMPLE_CORRUPT=3
    run_example wimm_param_shards
    ends_with "$1, params with a wrong word" 1 "${params_end/0 wrong/1 wrong}, $way"
    says "$1, params with a wrong word: which shard, by all" 4 \
        '^(server|worker [0-2]) +iteration 1: shard 3 is wrong: word 0 is '
    unset WIMM_EXAMPLE_CORRUPT
}

# ---------------------------------------------------------------- options, and the end of the parent

# STATUS SENTENCE PROGRAM OPTION...: one sentence
refuses() {
    local sentence=$2

    status=0
    timeout 20 "$build/examples/$3" "${@:4}" >"$out" 2>&1 || status=$?
    tap_is "${*:3}: status, and one line" "$status, $(lines_with .)" "$1, 1"
    tap_has "${*:3}: says what is wrong" "$(cat "$out")" "$sentence"
}

test_options() {
    local program

    for program in "${examples[@]}"; do
        status=0
        timeout 20 "$build/examples/$program" -h >"$out" 2>&1 || status=$?
        tap_is "$program -h: exit status" $status 0
        tap_is "$program -h: the usage" "$(head -n 1 "$out")" "usage: $program [OPTIONS]"
        refuses 2 "-t takes a number from 1 to 100000, not '0'" "$program" -t 0
        refuses 2 "-t takes a number from 1 to 100000, not '1s'" "$program" -t 1s
        refuses 2 "'x'" "$program" -x
        refuses 2 "takes no argument 'now'" "$program" now
    done

    refuses 2 "-n takes a number from 1 to" wimm_log_append -n -1
    refuses 2 "-s takes a number from 1 to 16383, not '16384'" wimm_log_append -s 16384
    refuses 2 "room for two of the longest records" wimm_log_append -s 1000 -c 1999
    refuses 2 "cannot be killed after record 200 (-k) of 200 (-n)" wimm_log_append -k 200
    refuses 2 "not with -E" wimm_log_append -k 5 -E
    refuses 2 "-c takes a number from 1 to" wimm_kv_slots -c 0
    refuses 2 "-s takes a number from 2 to" wimm_kv_slots -s 1
    refuses 2 "-w takes a number from 1 to" wimm_param_shards -w 17
    refuses 2 "no worker can be late in iteration 7 (-l) of 6 (-i)" wimm_param_shards -l 7
    refuses 2 "the only worker cannot be late" wimm_param_shards -w 1
}

# shellcheck disable=SC2317 # called by tap_until
have_ended() { # PID...
    local pid state

    for pid; do
        # A zombie has ended, and waits for its new parent
        read -r _ _ state _ 2>/dev/null <"/proc/$pid/stat" || continue
        [ "$state" = Z ] || return 1
    done
}

# shellcheck disable=SC2317 # called by tap_until
find_children() { # NUMBER
    local -a found

    mapfile -t found < <(tr ' ' '\n' <"/proc/$parent_pid/task/$parent_pid/children" | grep .)
    children=("${found[@]}")
    [ ${#children[@]} = "$1" ] && grep -q . "$out"
}

# PROGRAM NUMBER-OF-CHILDREN OPTION...: the parent is killed in the middle of something long
test_parent_killed() {
    local program=$1 number=$2
    local -a children=()

    shift 2
    "$build/examples/$program" -t $limit "$@" >"$out" 2>&1 &
    parent_pid=$!
    tap_until 30 find_children "$number"
    tap_is "$program: processes that were started" ${#children[@]} "$number"
    kill -9 $parent_pid
    wait $parent_pid 2>/dev/null
    parent_pid=''
    tap_run "$program: all end with their parent" tap_until 20 have_ended "${children[@]}"
}

test_processes() {
    test_parent_killed wimm_log_append 2 -n 100000000
    test_parent_killed wimm_kv_slots 33 -c 32 -s 128
    test_parent_killed wimm_param_shards 4 -i 60000

    # Nobody waits longer than it is told to
    status=0
    timeout 30 "$build/examples/wimm_log_append" -n 100000000 -t 1 >"$out" 2>&1 || status=$?
    tap_is "the time is over: exit status" $status 1
    tap_run "the time is over: a sentence" grep -q 'not done after 1 s (-t): giving up' "$out"
}

# ---------------------------------------------------------------- which of these

# NAME LAST-RECORD-BEFORE-A-KILL...
test_all() {
    local name=$1 record

    shift
    test_log "$name"
    for record; do
        test_kill "$name" "$record"
    done
    test_kv "$name"
    test_params "$name"
}

if [ "${1-}" = device ]; then
    grep -q -s ACTIVE /sys/class/infiniband/*/ports/*/state ||
        tap_skip_all "there is no RDMA device with an active port"
    # As wimm-run does, but for the module: the library brings it
    settings=$("$run" --print 2>&1 | grep '^UCX_') || { echo "Bail out! wimm-run --print fails"; exit 1; }
    while IFS= read -r setting; do
        export "${setting?}"
    done <<<"$settings"
    way=native
    test_all native 1 80 199
    test_corrupt native

    # Without being told, UCX takes the device, but not this transport
    unset UCX_TLS UCX_WIMM_PREFER
    way=emulated
    test_kill "what UCX chooses" 100
    tap_done
fi

way=emulated
UCX_TLS=tcp test_all tcp 1 2 25 50 75 100 125 150 198 199
UCX_TLS=tcp test_corrupt tcp
if ! grep -q -s . /sys/class/infiniband/*/ports/*/state; then
    test_all "what UCX chooses" 100
fi

# Shared memory notices no dead peer: it is said, and works without
UCX_TLS=sm run_example wimm_kv_slots
tap_is "sm, kv: exit status" $status 1
tap_run "sm, kv: says what to do" grep -q 'UCX_TLS cannot notice a dead peer, try -E$' "$out"
UCX_TLS=sm run_example wimm_kv_slots -E
ends_with "sm, kv -E" 0 "$kv_end, $way"
UCX_TLS=sm run_example wimm_log_append -E
ends_with "sm, log -E" 0 "$log_end, $way"
UCX_TLS=sm run_example wimm_param_shards -E
ends_with "sm, params -E" 0 "$params_end, $way"

test_options
UCX_TLS=tcp test_processes
tap_done
