# shellcheck shell=bash disable=SC2034,SC2154 # for the scripts that source this file
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# For tests of other people's programs on an RDMA device: source it after top is set to the source tree. It skips all if
# there is no device with an active port 1. client_dev and client_ip are the first one and the address of its network
# device client_netdev; server_dev and server_ip are the other one's where there are two and a wire between them, and
# netdev is the client's end of it, or nothing. Names in tmp are those of a run, TAG.SIDE.

# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

for state in /sys/class/infiniband/*/ports/1/state; do
    grep -q ACTIVE "$state" 2>/dev/null && break
    state=''
done
[ -n "$state" ] || tap_skip_all "there is no RDMA device with an active port 1"
client_dev=$(basename "${state%/ports/1/state}")
read -r client_netdev < "${state%/state}/gid_attrs/ndevs/0" || client_netdev=lo
client_ip=$(ip -4 -o addr show dev "$client_netdev" | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)
server_dev=$client_dev server_ip=$client_ip client_source=() netdev=''
if [ "${WIMM_VM-}" = pair ]; then
    server_dev=rxe1 server_ip=10.0.0.2 client_source=(-I "$client_ip") netdev=$client_netdev
fi

unset "${!UCX_@}" LD_PRELOAD
tmp=$(mktemp -d) || exit 1

packets() { # sent by the client's end of the wire; nothing else is on it
    cat "/sys/class/net/$netdev/statistics/tx_packets"
}

# FILE...: the transports of all lanes of UCP's endpoints, as they are described there
lanes() {
    grep -h 'ep_cfg\[' "$@" | grep -o -E '[a-z_]+\([a-z0-9_]+/' | sed 's/.*(//' | sort -u | xargs
}

# TAG COUNT NUMBER: on two devices the data really goes over the wire
crossed() {
    [ -n "$netdev" ] || return
    if [ "$3" -ge "$2" ]; then
        tap_ok "$1: crossed the wire"
    else
        tap_not_ok "$1: crossed the wire" "only $3 packets left $netdev"
    fi
}
