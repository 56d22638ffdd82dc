#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# What notified puts are on the wire. gtest_pair posts them in the VM between two devices and
# says what it posted, tcpdump captures the veth between them, tshark decodes, and compare.awk
# compares: an n-byte put is max(1, ceil(n/MTU)) packets, RETH in the first, ImmDt in the last;
# besides, there are acknowledgements and the counted control messages, nothing else.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"

# MTUs of the network device: RoCE's are powers of 2 that fit with their headers, 4096 and 1024
mtus=(9000 1500)

# ---------------------------------------------------------------- in the VM

# DIR PROGRAM: capture one run for each MTU
guest() {
    local mtu pcap tcpdump_pid status

    for mtu in "${mtus[@]}"; do
        ip link set veth0 mtu "$mtu"
        ip link set veth1 mtu "$mtu"

        # Headers are enough, but for the packet that ends the capture
        pcap=/tmp/$mtu.pcap
        tcpdump -i veth0 -n -s 128 -B 32768 -U -w "$pcap" 2> "$1/$mtu.tcpdump" &
        tcpdump_pid=$!
        tap_until 60 grep -q 'listening on' "$1/$mtu.tcpdump" || {
            echo "tcpdump does not start" > "$1/$mtu.status"
            continue
        }
        WIMM_TEST_DEVICE=rxe0 WIMM_TEST_PEER_DEVICE=rxe1 "$2" --gtest_filter='test_wire.*' \
            > "$1/$mtu.program" 2>&1
        status=$?
        tap_until 60 sh -c "tail -c 1000 $pcap | grep -q -a 'end of the capture'" ||
            status="$status, but the capture does not end"
        kill -INT $tcpdump_pid
        wait $tcpdump_pid
        cp "$pcap" "$1/"
        echo "$status" > "$1/$mtu.status"
    done
}

if [ "${1-}" = --guest ]; then
    guest "$2" "$3"
    exit
fi

# ---------------------------------------------------------------- on the host

# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

program=$build/test/gtest/gtest_pair
[ -x "$program" ] || { echo "Bail out! $program is not there: make check TESTS="; exit 1; }
command -v qemu-system-x86_64 >/dev/null ||
    tap_skip_all "qemu-system-x86 is not installed: packets are captured in a VM"
for tool in tcpdump tshark; do
    command -v $tool >/dev/null || tap_skip_all "$tool is not installed"
done
dir=$(mktemp -d "$build/test-wire.XXXXXX") || exit 1
vm=''
trap '[ -z "$vm" ] || { kill "$vm"; wait "$vm"; }; rm -rf "$dir"' EXIT
trap 'exit 143' TERM INT HUP

# A line for each packet, with an empty field for what it does not have. The immediate is shown
# as its bytes.
decode() { # PCAP
    local field options=()

    for field in frame.protocols ip.dst udp.dstport udp.length infiniband.bth.opcode \
                 infiniband.bth.destqp infiniband.bth.psn infiniband.bth.padcnt \
                 infiniband.reth.dmalen infiniband.immdt infiniband.aeth.syndrome.opcode; do
        options+=(-e $field)
    done
    tshark -n -r "$1" -T fields -E occurrence=f -E separator='|' "${options[@]}"
}

case $build/ in
"$top"/*) work=$top ;;
*)        work=$build ;;
esac
"$top/contrib/vm/wimm-vm" --net pair --cpus 3 --timeout 300 --work "$work" -- \
    "$here/test_wire.sh" --guest "$dir" "$program" > "$dir/vm" 2>&1 &
vm=$!
wait $vm
status=$?
vm=''
tap_is "captured in the VM: exit status" $status 0
if [ "$tap_failures" != 0 ]; then
    tap_comment "$(tail -n 40 "$dir/vm"; grep -h -v '^wire: ' "$dir"/*.program | tail -n 40)"
    tap_done
fi

roce_mtus=''
for mtu in "${mtus[@]}"; do
    status=$(cat "$dir/$mtu.status")
    tap_is "device MTU $mtu: exit status of the program" "$status" 0
    [ "$status" = 0 ] || tap_comment "$(grep -v '^wire: ' "$dir/$mtu.program" | head -n 40)"
    tap_has "device MTU $mtu: tcpdump has seen all" "$(cat "$dir/$mtu.tcpdump")" \
        "0 packets dropped by kernel"
    roce=$(sed -n 's/^wire: mtu //p' "$dir/$mtu.program" | sort -u)
    roce_mtus+=" $roce"
    decode "$dir/$mtu.pcap" > "$dir/$mtu.decoded" 2> "$dir/$mtu.tshark" ||
        tap_not_ok "decoded by tshark" "$(cat "$dir/$mtu.tshark")"
    while IFS= read -r line; do
        case $line in
        "ok "*)
            tap_ok "MTU $roce: ${line#ok }"
            ;;
        "not ok "*)
            line=${line#not ok }
            tap_not_ok "MTU $roce: ${line%% # *}" "${line#* # }"
            ;;
        *)
            tap_not_ok "MTU $roce: comparison" "$line"
            ;;
        esac
    done < <(awk -f "$here/compare.awk" "$dir/$mtu.program" FS='|' "$dir/$mtu.decoded" 2>&1)
done
tap_is "as many RoCE MTUs were tried" "$(xargs -n 1 <<< "$roce_mtus" | sort -u | wc -l)" \
    ${#mtus[@]}

tap_done
