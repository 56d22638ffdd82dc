#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# How often an operation crosses the wire before the receiver knows of it: wimm_perftest in two
# processes, from device to device, with a long delay in each direction (tc netem). Latency counted
# in delays is 1.0 for what needs no answer, and 3.0 where the sender waits for one. Runs in
# wimm-vm --exact --net pair: there the clock counts the guest's instructions, so that neither what
# else the machine does nor how slow it is becomes part of the figures.
#
# That VM has one CPU, on which both processes poll: the kernel has them take turns of 4 ms, one of
# its ticks. What arrives an odd number of turns after it was sent finds the receiver at its turn,
# and its answer in the same time later the sender: therefore the delay is 5 of them. Now and then
# one arrives at the very end of a turn, and waits for the next but one; the median does not see it.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/perftest.sh
. "$top/test/lib/perftest.sh"

[ "${WIMM_VM-} ${WIMM_VM_EXACT-}" = "pair y" ] ||
    tap_skip_all "the wire is delayed in the VM only: wimm-vm --exact --net pair"
# Time by that clock, in microseconds
unset WIMM_VM_EXACT

rounds=20
[ -z "${WIMM_CHECK_LONG-}" ] || rounds=100
delay_ms=20
wires=(veth0 veth1)

# METHOD TRANSPORT DELAYS. Behind a fence a message leaves at once: one queue pair keeps the order.
# A flush ends with the acknowledgement of the put, and only then the message leaves.
cat >"$tmp/expected" <<'LINES'
ucp_put_imm  wimm     1.0
put_fence_am rc_verbs 1.0
put_flush_am rc_verbs 3.0
LINES
mapfile -t methods < <(awk '{print $1}' "$tmp/expected")

# shellcheck disable=SC2317 # called by trap
undelay() {
    local dev

    for dev in "${wires[@]}"; do
        tc qdisc del dev "$dev" root
    done 2>/dev/null
}
trap 'undelay; clean_up' EXIT

# NAME: all methods, one after the other, from device to device; results in $tmp/NAME.csv
measure() {
    start_server "$1_server" "${server_device[@]}"
    run_perftest "$1" "${client_device[@]}" -p $port -q -N -n "$rounds" -w 2 -r 1 \
        --compare "$(tests_of lat "${methods[@]}")" -o csv "$tmp/$1.csv" 127.0.0.1
    wait
    ran "$1_server" "$1: server"
    ran "$1" "$1: client"
}

# NAME: "METHOD TRANSPORT DELAYS ROUNDS" of each line of results; the median, rounded
delays() {
    awk -F , -v delay=$((delay_ms * 1000)) '
        NR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i; next}
        $column["unit"] == "usec" {
            sub(/_lat$/, "", $1)
            printf "%s %s %.1f %d\n", $1, $column["transport"], $column["p50"] / delay, $column["iterations"]
        }' "$tmp/$1.csv"
}

# NAME
show() {
    awk -F , -v name="$1" -v delay=$((delay_ms * 1000)) '
        NR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i; next}
        {printf "# %s: %-16s median %6.2f ms of %d rounds, %.3f delays of %d ms\n", name, $1,
                $column["p50"] / 1000, $column["iterations"], $column["p50"] / delay, delay / 1000}
        ' "$tmp/$1.csv"
}

# NAME METHOD TRANSPORT DELAYS
check() {
    tap_is "$1: $2, in delays of $delay_ms ms, and rounds" "$(delays "$1" | grep "^$2 ")" "$2 $3 $4 $rounds"
}

set_devices

# Without the delay a round takes each side a turn, whatever is sent
measure direct
show direct
for method in "${methods[@]}"; do
    tap_run "direct: $method, less than half a delay" awk -v delays="$(delays direct | grep "^$method ")" \
        'BEGIN {exit !(split(delays, field, " ") == 4 && field[3] < 0.5)}'
done

for dev in "${wires[@]}"; do
    tap_run "netem on $dev" tc qdisc add dev "$dev" root netem limit 10000 delay ${delay_ms}ms
done
measure delayed
show delayed
while read -r method transport count; do
    check delayed "$method" "$transport" "$count"
done <"$tmp/expected"

tap_done
