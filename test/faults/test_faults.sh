#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Notified puts between two processes, over UCT and over UCP, that survive what is done to
# the wire, to the link, to their peer, to memory and to queues: gtest_faults. Its runs share
# 100,000 puts, WIMM_FAULTS_COUNT is another number; each has at least 1,000. Runs in the VM:
# contrib/vm/wimm-vm --net pair --cpus 3 -- test_faults.sh

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/pair.sh
. "$top/test/lib/pair.sh"

export WIMM_FAULTS_COUNT=${WIMM_FAULTS_COUNT:-100000}
export UCX_UD_VERBS_ETH_DGID_CHECK=n # Soft-RoCE: UCX's receiver sees another address than it expects

# As it runs: what it has done is seen if the machine ends it
"$build/test/gtest/gtest_faults" 2>&1 | tee "$out"
tap_is "gtest_faults: exit status" "${PIPESTATUS[0]}" 0
tap_comment "$(grep -a '^faults: [0-9]* runs: ' "$out")"

# NAME of a run, and how many puts were delivered
mapfile -t runs < <(sed -n -E 's/^faults: ([a-z0-9_/]+): .* ([0-9]+) delivered,.*/\1 \2/p' "$out")
tap_is "each test says what it survived" "${#runs[@]}" "$(grep -a -c '^\[ RUN ' "$out")"
few=
sum=0
for run in "${runs[@]}"; do
    [ "${run#* }" -ge 1000 ] || few+=" $run"
    sum=$((sum + ${run#* }))
done
tap_is "each delivered 1,000 or more" "$few" ""
tap_run "all delivered $WIMM_FAULTS_COUNT or more" test "$sum" -ge "$WIMM_FAULTS_COUNT"
tap_has "nothing else happened" "$(grep -a '^faults: [0-9]* runs: ' "$out")" \
    "0 duplicates, 0 out of order, 0 corrupt, 0 false, 0 leaked, 0 aborted"

tap_done
