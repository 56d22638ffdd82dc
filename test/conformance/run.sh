#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Runs UCX's UCT tests as build.sh built them, those of one transport: run.sh TRANSPORT PROGRAM LOG. A test that crashes
# or hangs ends the program; it goes on with the next one then. compare.sh says what the log means. Needs an RDMA device
# with an active port, and 12 GiB of memory:
#     contrib/vm/wimm-vm --memory 12000 --timeout 2400 -- \
#         test/conformance/run.sh wimm build/conformance/gtest_wimm build/conformance/wimm.log

set -u

if [ $# != 3 ] || [ ! -x "$2" ]; then
    echo "usage: run.sh TRANSPORT PROGRAM LOG" >&2
    exit 2
fi
transport=$1
program=$(readlink -f "$2")
log=$(readlink -f "$3")

# Longest time for one test, in seconds: the longest takes 200 in a VM without KVM
limit=600
max_crashes=10

unset "${!UCX_@}" "${!GTEST_@}" LD_PRELOAD LD_LIBRARY_PATH
export UCX_HANDLE_ERRORS=none
# Soft-RoCE loses UD messages without it
[ ! -e /sys/class/infiniband/rxe0 ] || export UCX_UD_VERBS_ETH_DGID_CHECK=n

# The tests in the output of the program as they began, and "NAME done" as they ended
progress() {
    awk '/\[ RUN      \] / {sub(/.*\[ RUN      \] /, ""); print $1}
         /\[  *(OK|FAILED|SKIPPED) *\] .* \([0-9]+ ms\)$/ {
             sub(/.*\[  *(OK|FAILED|SKIPPED) *\] /, ""); sub(/,? .*/, ""); print $1, "done"}'
}

: > "$log" || exit 2
cd /tmp || exit 2
exclude=''
crashes=0
while :; do
    size=$(stat -c %s "$log")
    "$program" -t $limit --gtest_color=no --gtest_filter="$transport/*$exclude" >> "$log" 2>&1 < /dev/null
    status=$?
    events=$(tail -c +$((size + 1)) "$log" | progress)
    crashed=$(awk '{current = $2 == "done" ? "" : $1} END {print current}' <<< "$events")
    [ -n "$crashed" ] || break

    printf '\n[ CRASHED  ] %s: status %d\n' "$crashed" $status >> "$log"
    crashes=$((crashes + 1))
    if [ $crashes = $max_crashes ]; then
        echo "run.sh: $crashes tests crashed, the others are not tried" | tee -a "$log" >&2
        break
    fi
    exclude=${exclude:--}$(awk '{print $1}' <<< "$events" | sort -u | sed 's/$/:/' | tr -d '\n')
done
printf '[ ENDED    ] status %d\n' "$status" >> "$log"
