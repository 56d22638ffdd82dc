# shellcheck shell=bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Running wimm_perftest: for the scripts that source this file, with tap.sh and build_tree.sh, after
# top is set to the source tree. What a run named NAME leaves is in $tmp: NAME.out, NAME.err, NAME.pid
# of the process, and NAME.status when it has ended.

# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

unset "${!UCX_@}" LD_PRELOAD
perftest=$build/src/tools/wimm_perftest
[ -x "$perftest" ] || { echo "Bail out! $perftest is not there: make"; exit 1; }

# Longest time of one process; each of them gives up earlier
limit=150
# With --exact, time jumps to the next timer whenever the VM waits for a file: only wimm-vm's own
# limit is one of time
[ "${WIMM_VM_EXACT-}" != y ] || limit=0
tmp=$(mktemp -d) || exit 1

# What this script has started and is still running: that has its folder in its environment
processes() {
    grep -l -s -z -x -F "WIMM_TEST_RUN=$tmp" /proc/[0-9]*/environ | sed 's,^/proc/,,; s,/.*,,'
}

# shellcheck disable=SC2317 # called by tap_until
no_processes() {
    [ -z "$(processes)" ]
}

# Kills, again until the subshells of start() have ended: one may be about to start its process
# shellcheck disable=SC2317 # called by tap_until
all_ended() {
    # shellcheck disable=SC2046 # several
    kill -9 $(processes) 2>/dev/null
    [ -z "$(jobs -r -p)" ]
}

# shellcheck disable=SC2317 # called by traps
clean_up() {
    # A subshell that has just begun still has the script's traps
    [ $BASHPID = $$ ] || return
    trap '' HUP INT TERM
    tap_until 10 all_ended
    rm -rf "$tmp"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# KIND METHOD...: "METHOD_KIND,METHOD_KIND"
tests_of() {
    local kind=$1 list

    shift
    list=$(printf "%s_$kind," "$@")
    echo "${list%,}"
}

# NAME OPTION...: in the background
start() {
    local name=$1

    shift
    rm -f "$tmp/$name".{out,err,pid,status}
    (
        # A signal to the script's group is for clean_up, which waits for this to end
        trap : HUP INT TERM
        status=0
        # shellcheck disable=SC2016 # that shell's
        WIMM_TEST_RUN=$tmp timeout -k 5 $limit bash -c 'echo $$ >"$0" && exec "$@"' "$tmp/$name.pid" "$perftest" "$@" \
            >"$tmp/$name.out" 2>"$tmp/$name.err" || status=$?
        echo $status >"$tmp/$name.status"
    ) 2>/dev/null & # bash says there which one was killed
}

# NAME OPTION...: to its end
run_perftest() {
    start "$@"
    wait $!
}

# shellcheck disable=SC2317 # called by tap_until
listens() { # NAME
    grep -q '^waiting for the client' "$tmp/$1.out" 2>/dev/null || [ -e "$tmp/$1.status" ]
}

port=$((20000 + $$ % 10000))

# NAME OPTION...: a server on the next port, which waits for its client
start_server() {
    port=$((port + 1))
    start "$1" -p $port "${@:2}"
    tap_until 60 listens "$1"
}

# NAME: the exit status of what has ended, or nothing
status_of() {
    cat "$tmp/$1.status" 2>/dev/null
}

# shellcheck disable=SC2317 # called by tap_until
has_ended() {
    [ -e "$tmp/$1.status" ]
}

# What it says, but for how far it is
messages() {
    grep -v '^# [0-9]* % done$' "$tmp/$1.err"
}

# NAME WHAT: it has ended well, and has nothing to say
ran() {
    tap_is "$2: exit status, messages" "$(status_of "$1"), $(messages "$1")" "0, "
}

# NAME WHAT STATUS SENTENCE: it has failed in this way, and says so in one line
fails_with() {
    tap_is "$2: status, and one line" "$(status_of "$1"), $(messages "$1" | grep -c .)" "$3, 1"
    tap_has "$2: says what is wrong" "$(messages "$1")" "$4"
}

has_device() {
    grep -q -s ACTIVE /sys/class/infiniband/*/ports/*/state
}

# Which device each side uses: across the wire if there is one
set_devices() {
    client_device=() server_device=()
    if [ "${WIMM_VM-}" = pair ]; then
        client_device=(-d rxe0) server_device=(-d rxe1:1)
    fi
}
