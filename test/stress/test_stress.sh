#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Notified puts over a wire that loses, duplicates and reorders packets (tc netem): gtest_pair
# posts 200,000 of all sizes on several endpoints in both directions, and checks that each
# arrives once, in order, with its data. WIMM_STRESS_COUNT is another number. Runs in the VM,
# where the wire is one that netem sees: contrib/vm/wimm-vm --net pair -- test_stress.sh

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/pair.sh
. "$top/test/lib/pair.sh"

export WIMM_STRESS_COUNT=${WIMM_STRESS_COUNT:-200000}
limit=600
percent=1

# A packet that is not delayed overtakes those that are
for dev in veth0 veth1; do
    tap_run "netem on $dev" tc qdisc add dev $dev root netem limit 10000 delay 20us \
        loss $percent% duplicate $percent% reorder $percent%
done

timeout $((limit + 60)) \
    "$build/test/gtest/gtest_pair" --gtest_filter='test_stress.*' > "$out" 2>&1
tap_is "$WIMM_STRESS_COUNT notified puts: each once, in order, with its data" $? 0
tap_comment "$(grep '^stress: ' "$out")"
[ "$tap_failures" = 0 ] || tap_comment "$(grep -v '^stress: ' "$out" | head -n 40)"
tap_is "as many arrived" "$(sed -n 's/^stress: \([0-9]*\) notified puts.*/\1/p' "$out")" \
    "$WIMM_STRESS_COUNT"
seconds=$(sed -n 's/^stress: .* in \([0-9]*\)[.0-9]* s;.*/\1/p' "$out")
tap_run "in less than $limit s" test "$seconds" -lt $limit

counter() { # DEVICE NAME
    cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

# NAME COUNT OF: at least half of what netem was asked for
happened() {
    tap_comment "$2 of $3 packets were $1"
    tap_run "packets were $1" test "$2" -gt $(($3 * percent / 200))
}

for dev in 0 1; do
    # netem counts what it reorders as requeued. What it sends beyond what came, less what it
    # dropped, are duplicates.
    read -r passed dropped requeued < <(tc -s qdisc show dev veth$dev | sed -n -E \
        's/^ Sent [0-9]+ bytes ([0-9]+) pkt \(dropped ([0-9]+),.* requeues ([0-9]+)\).*/\1 \2 \3/p')
    sent=$(counter rxe$dev sent_pkts)
    happened "lost (veth$dev)" "$dropped" "$sent"
    happened "duplicated (veth$dev)" $((passed + dropped - sent)) "$sent"
    happened "reordered (veth$dev)" "$requeued" "$sent"
    recovery=''
    for name in duplicate_request out_of_seq_request completer_retry_err; do
        recovery+=" $name $(counter rxe$dev $name)"
    done
    tap_comment "rxe$dev:$recovery"
    tap_is "no receive was missing (RNR, rxe$dev)" \
        "$(counter rxe$dev rcvd_rnr_err) $(counter rxe$dev send_rnr_err)" "0 0"
done

tap_done
