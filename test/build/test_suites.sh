#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# contrib/suites.sh, by which check.sh runs its suites: with suites made for this. What passed, failed and was skipped
# is counted, two run at the same time where memory allows, and nothing stays after a signal. Needs no device.
# shellcheck disable=SC2016 # $ is for the script that is written

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/logs" "$tmp/cache"
export WIMM_CACHE_DIR=$tmp/cache

# The two of a meeting end well only if the other one runs at the same time
cat >"$tmp/check" <<END
set -u
self=$tmp/check
. "$top/contrib/common.sh"
. "$top/contrib/suites.sh"
. "$top/test/lib/tap.sh"
logs=$tmp/logs
END
cat >>"$tmp/check" <<'END'
cd "$logs/.." || exit 1
suites=(good mixed google status killed plan nothing late one other alone1 alone2 reported dies wide stays)
suites_first=(good)
suite_limit=60
suite_grace=2
declare -A longer_limit=([late]=5) suite_seconds=([other]=100) suite_memory=([good]=1) suite_slots=([wide]=2)
suite_memory_else=1000
suites_available_memory() { echo "$MEMORY"; }
suite_good() { tap_ok "first"; tap_ok "second"; tap_done; }
suite_mixed() { tap_ok "works"; tap_not_ok "breaks"; tap_skip "cannot" "no device"; tap_done; }
suite_google() {
    printf '%s\n' '[       OK ] a.b (1 ms)' '[  FAILED  ] a.c (2 ms)' 'c.cc:7: Skipped' 'why not' '[  SKIPPED ] a.d (0 ms)'
    return 1
}
suite_status() { tap_ok "works"; echo 1..1; return 3; }
suite_killed() { tap_ok "works"; kill -KILL $$; }
suite_plan() { tap_ok "works"; echo 1..2; }
suite_nothing() { :; }
suite_late() { tap_ok "works"; echo 1..1; timeout 100 sleep 90; }
suite_one() { touch one; tap_run "the other" tap_until 20 test -e other; tap_done; }
suite_other() { touch other; tap_run "the one" tap_until 20 test -e one; tap_done; }
suite_alone1() { tap_ok "works"; tap_done; }
suite_alone2() { tap_ok "works"; tap_done; }
suite_wide() { tap_ok "works"; tap_done; }
suite_reported() { tap_run "the other" tap_until 20 test -e dies; tap_not_ok "breaks"; tap_done; }
suite_dies() { tap_ok "works"; echo 1..1; touch dies; tap_until 20 test -e in_tail; kill -KILL $$; }
is_gone() { ! grep -q '^State:.[^Z]' "/proc/$1/status" 2>/dev/null; }
tail() { # Of the log of one that failed
    if [ -n "${suite_pid[dies]-}" ]; then
        touch in_tail
        tap_until 20 is_gone "${suite_pid[dies]}"
    fi
    command tail "$@"
}
suite_stays() { timeout 100 sleep 90 & echo $! >stays; wait; }
if [ "$1" = --run ]; then
    "suite_$2"
    exit
fi
suites_run "$@"
suites_report
END

# run JOBS MEMORY NAME...: $out, $status and the last line, $counts
run() {
    local jobs=$1 memory=$2

    shift 2
    rm -rf "$tmp/one" "$tmp/other" "$tmp/dies" "$tmp/in_tail"
    out=$(MEMORY=$memory bash "$tmp/check" "$jobs" "$@" 2>&1)
    status=$?
    counts=$(printf '%s\n' "$out" | tail -n 1)
}

# SUITE COUNTS STATUS [NOTE]
counted() {
    run 2 100000 "$1"
    tap_is "$1: counts" "$counts" "$2"
    tap_is "$1: exit status" $status "$3"
    [ -z "${4-}" ] || tap_has "$1: says so" "$out" "$4"
}

counted good "2 passed, 0 failed, 0 skipped" 0
counted mixed "1 passed, 1 failed, 1 skipped" 1 "FAILED: mixed: not ok 2 - breaks"
tap_has "mixed: the end of its log is shown" "$out" "ok 3 - cannot # SKIP no device"
counted google "1 passed, 1 failed, 1 skipped" 1 "skipped: google: a.d (0 ms): why not"
counted status "1 passed, 1 failed, 0 skipped" 1 "it ended with status 3"
counted killed "1 passed, 1 failed, 0 skipped" 1 "it ended with status 137"
counted plan "1 passed, 1 failed, 0 skipped" 1 "1 tests of a plan of 2"
counted nothing "0 passed, 1 failed, 0 skipped" 1 "it ran no test"

started() {
    printf '%s\n' "$out" | sed -n 's/^== \([a-z0-9]*\)$/\1/p' | paste -s -d ' '
}

run 2 100000 one other good mixed
tap_is "two run at the same time" "$counts" "5 passed, 1 failed, 1 skipped"
tap_is "what builds is first, then the longest" "$(started)" "good other one mixed"
tap_is "the summary is in the order of the list" \
    "$(printf '%s\n' "$out" | sed -n '/^== where/,$s/^ *[0-9]* s  \([a-z]*\) .*/\1/p' | paste -s -d ' ')" \
    "good mixed one other"
# What began and what ended, as it was said
events() {
    printf '%s\n' "$out" | sed -n -e '/^== where/q' -e 's/^== \([a-z0-9]*\)$/+\1/p' \
        -e 's/^ *[0-9]* s  \([a-z0-9]*\) .*/-\1/p' | paste -s -d ' '
}

run 2 2000 alone1 alone2
tap_is "two begin if the memory is enough for both" "$(events | cut -d ' ' -f 1,2)" "+alone1 +alone2"
run 2 1999 alone1 alone2 good
tap_is "one at a time if it is not" "$(events)" "+good -good +alone1 -alone1 +alone2 -alone2"
run 2 10 alone1 alone2
tap_is "and if it is not for any" "$(events)" "+alone1 -alone1 +alone2 -alone2"
run 2 100000 alone1 wide alone2
tap_is "one that needs both begins when nothing runs" "$(started), $(events | sed 's/.*\(+wide\)/\1/')" \
    "alone1 alone2 wide, +wide -wide"
run 1 100000 wide alone1
tap_is "or at once if it is the first" "$(events)" "+wide -wide +alone1 -alone1"
run 1 100000 alone1 other alone2
tap_is "--jobs 1 keeps the order" "$(started)" "alone1 other alone2"

# Whose end the shell hears of while it waits for another command
run 2 100000 reported dies
tap_is "killed while another one is reported: both are counted" "$counts" "2 passed, 2 failed, 0 skipped"
tap_has "and how it ended" "$out" "dies: it ended with status 137"

# What a suite started in a process group of its own ends with it
leftovers() {
    grep -lazx "WIMM_CACHE_DIR=$tmp/cache" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" && echo
    done | grep -E '^(timeout|sleep)'
}
counted late "1 passed, 1 failed, 0 skipped" 1 "it ended with status 137"
tap_is "late: nothing is left" "$(leftovers)" ""

for signal in TERM INT HUP; do
    rm -rf "$tmp/stays" "$tmp/one"
    MEMORY=100000 env --default-signal=INT bash "$tmp/check" 2 stays one >"$tmp/out" 2>&1 &
    pid=$!
    tap_until 20 test -s "$tmp/stays" -a -e "$tmp/one"
    tap_run "$signal: it runs" kill -0 "$(cat "$tmp/stays")"
    kill -$signal $pid
    wait $pid
    tap_is "$signal: exit status" $? $((128 + $(kill -l $signal)))
    tap_is "$signal: nothing is left" "$(leftovers)" ""
done

tap_done
