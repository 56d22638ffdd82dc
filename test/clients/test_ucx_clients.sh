#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# UCX's own programs, as the distribution has them, over wimm between two processes: ucx_perftest at the UCT and the UCP
# level, and io_demo, which connects by a listener and checks its data. Needs an RDMA device with an active port and an
# IP address; with the two of the VM they talk across the wire: contrib/vm/wimm-vm --net pair -- test_ucx_clients.sh

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

# The first device with an active port, and the IP address of its network device
for state in /sys/class/infiniband/*/ports/1/state; do
    grep -q ACTIVE "$state" 2>/dev/null && break
    state=''
done
[ -n "$state" ] || tap_skip_all "there is no RDMA device with an active port 1"
client_dev=$(basename "${state%/ports/1/state}")
read -r client_netdev < "${state%/state}/gid_attrs/ndevs/0" || client_netdev=lo
client_ip=$(ip -4 -o addr show dev "$client_netdev" | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)
for program in ucx_perftest io_demo; do
    command -v $program >/dev/null || tap_skip_all "$program is not installed"
done

unset "${!UCX_@}" LD_PRELOAD
# The module alone, without the other settings of wimm-run
preload=$("$run" --print 2>&1 | grep -E '^(LD_PRELOAD|UCX_PLUGIN_PATH)=') || { echo "Bail out! wimm-run --print fails"; exit 1; }
export UCX_LOG_LEVEL=info UCX_HANDLE_ERRORS=none
tmp=$(mktemp -d) || exit 1
server_pid='' client_pid=''
trap 'kill $server_pid $client_pid 2>/dev/null; rm -rf "$tmp"' EXIT

# Longest time for one pair of processes: they need about 20 s in a VM without KVM, more on a busy machine
limit=150

server_dev=$client_dev server_ip=$client_ip client_source=() netdev=''
if [ "${WIMM_VM-}" = pair ]; then
    server_dev=rxe1 server_ip=10.0.0.2 client_source=(-I "$client_ip") netdev=$client_netdev
fi

# ---------------------------------------------------------------- pairs of processes

packets() { # sent by the client's device; nothing else is on that wire
    cat "/sys/class/net/$netdev/statistics/tx_packets"
}

# shellcheck disable=SC2317 # called by tap_until
listens() { # PORT
    grep -q "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") [0-9A-F]*:0000 0A " /proc/net/tcp /proc/net/tcp6
}

port=13337
statuses=''

client_cpu=$(($(nproc) > 1))

# TAG BATCH SERVER-WORDS -- CLIENT-WORDS: runs a batch of ucx_perftest tests. The output is in $tmp/TAG.server and .client,
# the exit statuses in $statuses.
perftest() {
    local tag=$1 batch=$2 status
    local -a server=() client=()
    shift 2
    while [ "$1" != -- ]; do
        server+=("$1")
        shift
    done
    shift
    client=("$@")
    port=$((port + 1))

    # Bound to a CPU each: it warns otherwise
    timeout $limit env "${server[@]}" -c 0 -p $port -b "$batch" > "$tmp/$tag.server" 2>&1 &
    server_pid=$!
    tap_until $limit listens $port || tap_comment "$tag: the server does not listen"
    timeout $limit env "${client[@]}" 127.0.0.1 -c $client_cpu -p $port -b "$batch" > "$tmp/$tag.client" 2>&1 &
    client_pid=$!
    wait $client_pid
    status=$?
    # Without its client a server waits for nothing any more
    [ $status -eq 0 ] || kill $server_pid 2>/dev/null
    wait $server_pid
    statuses="client $status, server $?"
    server_pid='' client_pid=''
}

# TAG BATCH: one test for each line of the batch, ok if the client shows its result
report() {
    local tag=$1 name finished
    finished=" $(awk '/^\+[a-z0-9_]+-*\+/ {sub(/^\+/, ""); sub(/-*\+.*/, ""); name = $0}
                      /^Final:/           {print name}' "$tmp/$tag.client" | xargs) "
    while read -r name _; do
        case $finished in
        *" $name "*) tap_ok "$tag: $name" ;;
        *)           tap_not_ok "$tag: $name" "no result; the client's last words:
$(tail -n 5 "$tmp/$tag.client")" ;;
        esac
    done < "$2"
    tap_is "$tag: exit status" "$statuses" "client 0, server 0"
    quiet "$tag"
}

# TAG: neither side has warned
quiet() {
    tap_is "$1: no warning and no error" "$(grep -h -E ' (DIAG|WARN|ERROR|FATAL) |Assertion' \
        "$tmp/$1.server" "$tmp/$1.client" | head -n 5)" ""
}

# TAG: UCP's endpoints, as both sides describe them, have no lane but of wimm
only_wimm() {
    local side
    for side in server client; do
        tap_is "$1: the $side's endpoints are wimm's alone" \
            "$(grep 'ep_cfg\[' "$tmp/$1.$side" | grep -o -E '[a-z_]+\([a-z0-9_]+/' | sed 's/.*(//' | sort -u | xargs)" wimm/
    done
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

# ---------------------------------------------------------------- UCT

cat > "$tmp/uct" <<'LINES'
put_lat_short       -t put_lat  -D short  -s 8
put_lat_short_80    -t put_lat  -D short  -s 80
put_lat_bcopy       -t put_lat  -D bcopy  -s 4096
put_lat_zcopy       -t put_lat  -D zcopy  -s 65536
put_bw_short        -t put_bw   -D short  -s 8     -n 1000
put_bw_bcopy        -t put_bw   -D bcopy  -s 2048  -n 300
put_bw_zcopy        -t put_bw   -D zcopy  -s 65536
get_bcopy           -t get      -D bcopy  -s 1024
get_zcopy           -t get      -D zcopy  -s 65536
am_lat_short        -t am_lat   -D short  -s 8
am_lat_bcopy        -t am_lat   -D bcopy  -s 4096
am_lat_zcopy        -t am_lat   -D zcopy  -s 4096
am_bw_short         -t am_bw    -D short  -s 16    -n 1000
add_lat             -t add_lat  -s 8
add_mr              -t add_mr   -s 8
fadd                -t fadd     -s 8
cswap               -t cswap    -s 8
LINES
# Both sides are on one device: the server takes the client's options, and with them the name of its device
perftest uct "$tmp/uct" "$preload" ucx_perftest -d "$client_dev:1" -x wimm -n 30 -w 3 -- \
    "$preload" ucx_perftest -d "$client_dev:1" -x wimm -n 30 -w 3
report uct "$tmp/uct"

# ---------------------------------------------------------------- UCP

cat > "$tmp/ucp" <<'LINES'
put_lat             -t ucp_put_lat   -s 8
put_lat_64k         -t ucp_put_lat   -s 65536 -n 10
put_bw              -t ucp_put_bw    -s 2048 -n 300
get                 -t ucp_get       -s 8
get_64k             -t ucp_get       -s 65536 -n 10
tag_lat             -t tag_lat       -s 8
tag_lat_rndv        -t tag_lat       -s 600000 -n 5 -w 1
tag_bw              -t tag_bw        -s 1024 -n 300
tag_sync_lat        -t tag_sync_lat  -s 64
stream_lat          -t stream_lat    -s 1024
am_lat              -t ucp_am_lat    -s 8
am_lat_64k          -t ucp_am_lat    -s 65536 -n 10
am_bw               -t ucp_am_bw     -s 512 -n 300
add                 -t ucp_add       -s 8
fadd                -t ucp_fadd      -s 8
fadd_4              -t ucp_fadd      -s 4
swap                -t ucp_swap      -s 8
cswap               -t ucp_cswap     -s 8
LINES
[ -z "$netdev" ] || before=$(packets)
perftest ucp "$tmp/ucp" UCX_NET_DEVICES="$server_dev:1" "$run" ucx_perftest -n 20 -w 2 -- \
    UCX_NET_DEVICES="$client_dev:1" "$run" ucx_perftest -n 20 -w 2
report ucp "$tmp/ucp"
only_wimm ucp
[ -z "$netdev" ] || crossed ucp 1000 $(($(packets) - before))

# ---------------------------------------------------------------- io_demo: a listener, and wimm alone

# TAG VAR=VALUE OPTION...: both sides have to know the largest size. -q checks the data.
io_demo() {
    local tag=$1 variable=$2 status
    shift 2
    [ -z "$netdev" ] || before=$(packets)
    timeout $limit env "$preload" "$variable" UCX_TLS=wimm io_demo -q -d 8:70000 "$@" > "$tmp/$tag.server" 2>&1 &
    server_pid=$!
    tap_until $limit grep -q 'started listener' "$tmp/$tag.server" || tap_comment "$tag: the server does not listen"
    timeout $limit env "$preload" "$variable" UCX_TLS=wimm io_demo -q -d 8:70000 -i 100 -c 1 -o read,write "$@" "${client_source[@]}" \
        "$server_ip" > "$tmp/$tag.client" 2>&1 &
    client_pid=$!
    wait $client_pid
    status=$?
    tap_is "$tag: the server lives" "$(kill $server_pid 2>&1)" ""
    wait $server_pid
    server_pid='' client_pid=''
    if [ $status -eq 0 ]; then
        tap_ok "$tag: read and write"
    else
        tap_not_ok "$tag: read and write" "exit status $status; the last words:
$(tail -n 5 "$tmp/$tag.client" "$tmp/$tag.server")"
    fi
    tap_run "$tag: 100 iterations are reported" grep -q -E 'read [1-9][0-9.]* MBs.*write [1-9][0-9.]* MBs' "$tmp/$tag.client"
    quiet "$tag"
    only_wimm "$tag"
}
# By default each connection has a lane on every device. Where there are two, that is one to the peer and one that stays
# on its device, which carries the large messages; so a second time with the one that the address belongs to.
if [ -n "$server_ip" ]; then
    io_demo io_demo_tag UCX_CM_USE_ALL_DEVICES=y
    io_demo io_demo_am UCX_CM_USE_ALL_DEVICES=n -A
    [ -z "$netdev" ] || crossed io_demo_am 500 $(($(packets) - before))
else
    tap_skip io_demo "$client_netdev has no IPv4 address to listen on"
fi

# ---------------------------------------------------------------- a control: without the module

grep -E '^(put_lat_short|am_lat_bcopy) ' "$tmp/uct" > "$tmp/control"
perftest control "$tmp/control" ucx_perftest -d "$client_dev:1" -x rc_verbs -n 30 -w 3 -- \
    ucx_perftest -d "$client_dev:1" -x rc_verbs -n 30 -w 3
report control "$tmp/control"
tap_run "control: the module is not there" test -z "$(grep -h 'transport wimm' "$tmp"/control.*)"

tap_done
