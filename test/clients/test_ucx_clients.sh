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
# shellcheck source=test/clients/lib.sh
. "$here/lib.sh"
for program in ucx_perftest io_demo; do
    command -v $program >/dev/null || tap_skip_all "$program is not installed"
done

# The module alone, without the other settings of wimm-run
preload=$("$run" --print 2>&1 | grep -E '^(LD_PRELOAD|UCX_PLUGIN_PATH)=') || { echo "Bail out! wimm-run --print fails"; exit 1; }
export UCX_LOG_LEVEL=info UCX_HANDLE_ERRORS=none
server_pid='' client_pid=''
trap 'kill $server_pid $client_pid 2>/dev/null; rm -rf "$tmp"' EXIT

# Longest time for one pair of processes: they need up to 80 s in a VM without KVM, more on a busy machine
limit=500
[ -z "${WIMM_CHECK_LONG-}" ] || limit=1500

# ---------------------------------------------------------------- pairs of processes

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
    local tag=$1 batch=$2 status start=$SECONDS
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
    tap_comment "$tag: $(wc -l < "$batch") tests in $((SECONDS - start)) s"
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
        tap_is "$1: the $side's endpoints are wimm's alone" "$(lanes "$tmp/$1.$side")" wimm/
    done
}

# ---------------------------------------------------------------- ucx_perftest: each test, in sizes

# NUMBER SIZES PREFIX OPTIONS: adds lines to the batch on stdout, one for each size; without --long, NUMBER of them, which
# are others for each call, so that all tests together have all sizes
turn=0
each_size() {
    local number=$1 sizes=$2 name=$3 options=$4 i size count
    # shellcheck disable=SC2206 # words
    sizes=($sizes)
    [ -z "${WIMM_CHECK_LONG-}" ] || number=${#sizes[@]}
    [ "$number" -le ${#sizes[@]} ] || number=${#sizes[@]}
    for ((i = 0; i < number; ++i)); do
        size=${sizes[(turn + i * ${#sizes[@]} / number) % ${#sizes[@]}]}
        count=20
        [ "$size" -le 65536 ] || count=2
        [ "$size" -le 1048576 ] || count=1
        echo "${name}_$size $options -s $size -n $count -w 1"
    done
    turn=$((turn + 1))
}

small='1 8 64' medium='1 8 64 1024 8192' between='8 64 1024 8192 65536 1048576'
all="1 $between 8388608"

uct_tests() {
    local test layout
    for test in put_lat put_bw; do
        each_size 2 "$small 80" ${test}_short "-t $test -D short"
        each_size 2 "$medium" ${test}_bcopy "-t $test -D bcopy"
        each_size 3 "$all" ${test}_zcopy "-t $test -D zcopy"
    done
    each_size 2 "$medium" get_bcopy "-t get -D bcopy"
    # It has no zcopy for what fits into a completion
    each_size 3 "1024 8192 65536 1048576 8388608" get_zcopy "-t get -D zcopy"
    # Without the test's own header of 8 bytes no message is shorter
    for test in am_lat am_bw; do
        for layout in short shortiov; do
            each_size 1 "8 64" ${test}_$layout "-t $test -D $layout"
        done
        for layout in bcopy zcopy; do
            each_size 1 "8 64 1024 8192" ${test}_$layout "-t $test -D $layout"
        done
    done
    # What the device can: no swap, and none of 4 bytes
    for test in add_lat add_mr fadd cswap; do
        each_size 1 8 $test "-t $test"
    done
    # Long enough for flow control and a full queue
    echo "put_bw_short_often -t put_bw -D short -s 8 -n 1000"
    echo "am_bw_short_often -t am_bw -D short -s 16 -n 1000"
}

# SIZES TEST: these, and one of those between; with --long, all
sizes_and_one() {
    local size
    if [ -n "${WIMM_CHECK_LONG-}" ]; then
        each_size 1 "$all" "$2" "-t $2"
    else
        for size in $1; do
            each_size 1 "$size" "$2" "-t $2"
        done
        each_size 1 "$between" "$2" "-t $2"
    fi
}

ucp_tests() {
    local test variants=$between
    [ -z "${WIMM_CHECK_LONG-}" ] || variants=$all
    # Of each kind of operation the smallest and the largest
    for test in tag_lat tag_sync_lat stream_lat ucp_am_lat ucp_put_lat; do
        sizes_and_one 1 $test
    done
    for test in tag_bw stream_bw ucp_am_bw ucp_put_bw; do
        sizes_and_one 8388608 $test
    done
    sizes_and_one "1 8388608" ucp_get
    sizes_and_one 1048576 tag_sync_bw
    for test in ucp_add ucp_fadd ucp_swap ucp_cswap; do
        each_size 2 "4 8" $test "-t $test"
    done
    each_size 1 "$variants" tag_lat_wild "-t tag_lat -C"
    each_size 1 "$variants" tag_lat_unexpected "-t tag_lat -U"
    each_size 1 "$variants" tag_bw_wild "-t tag_bw -C"
    each_size 1 "$variants" stream_lat_data "-t stream_lat -r recv_data"
    each_size 1 "$variants" stream_bw_data "-t stream_bw -r recv_data"
    each_size 1 "$variants" ucp_am_lat_header "-t ucp_am_lat -H 64"
    each_size 1 "$variants" ucp_am_bw_header "-t ucp_am_bw -H 64"
    each_size 1 "$variants" ucp_put_bw_registered "-t ucp_put_bw -z"
    each_size 1 "$variants" tag_bw_iov "-t tag_bw -D iov"
    each_size 1 "$variants" tag_lat_wakeup "-t tag_lat -I -E sleep"
    each_size 1 "$variants" tag_lat_errors "-t tag_lat -e"
    # Also where the size is another one each time: 600000 is no multiple of a packet
    echo "tag_lat_rndv -t tag_lat -s 600000 -n 5 -w 1"
    echo "tag_bw_often -t tag_bw -s 1024 -n 300"
    echo "ucp_put_bw_often -t ucp_put_bw -s 2048 -n 300"
}

# Several threads, each with a worker of its own. They share a CPU, so that a round trip waits for the scheduler.
ucp_threads() {
    local test count
    for test in tag_lat tag_bw stream_bw ucp_put_lat ucp_put_bw ucp_get ucp_am_bw ucp_fadd; do
        count=10
        [[ $test != *_lat ]] || [ -n "${WIMM_CHECK_LONG-}" ] || count=3
        echo "${test}_2_threads -t $test -T 2 -M multi -s 8 -n $count -w 1"
    done
    echo "tag_bw_2_threads_large -t tag_bw -T 2 -M serialized -s 65536 -n 5 -w 1"
}

uct_tests > "$tmp/uct"
# Both sides are on one device: the server takes the client's options, and with them the name of its device
perftest uct "$tmp/uct" "$preload" ucx_perftest -d "$client_dev:1" -x wimm -n 30 -w 3 -- \
    "$preload" ucx_perftest -d "$client_dev:1" -x wimm -n 30 -w 3
report uct "$tmp/uct"

# TAG: across the wire where there is one
ucp_perftest() {
    local before
    [ -z "$netdev" ] || before=$(packets)
    perftest "$1" "$tmp/$1" UCX_NET_DEVICES="$server_dev:1" "$run" ucx_perftest -n 20 -w 2 -- \
        UCX_NET_DEVICES="$client_dev:1" "$run" ucx_perftest -n 20 -w 2
    report "$1" "$tmp/$1"
    only_wimm "$1"
    [ -z "$netdev" ] || crossed "$1" "$2" $(($(packets) - before))
}
ucp_tests > "$tmp/ucp"
ucp_perftest ucp 1000
ucp_threads > "$tmp/ucp_threads"
ucp_perftest ucp_threads 100

# ---------------------------------------------------------------- io_demo: a listener, and wimm alone

# FILE: the reads and the writes that the client has reported, in all
reported() {
    awk '/ total min:/ {
             for (op = 1; op <= 2; ++op) {
                 line = $0
                 if (sub(op == 1 ? /.* read [0-9.e+-]+ MBs / : /.* write [0-9.e+-]+ MBs /, "", line)) {
                     sub(/^[^|]* total:/, "", line)
                     sum[op] += line + 0
                 }
             }
         }
         END {print sum[1] + 0, sum[2] + 0}' "$1"
}

# TAG CONNECTIONS ITERATIONS VAR=VALUE OPTION...: both sides have to know the largest size. -q checks the data.
io_demo() {
    local tag=$1 connections=$2 iterations=$3 variable=$4 status start=$SECONDS reads writes i
    local -a servers=()
    shift 4
    for ((i = 0; i < connections; ++i)); do
        servers+=("$server_ip")
    done
    [ -z "$netdev" ] || before=$(packets)
    timeout $limit env "$preload" "$variable" UCX_TLS=wimm io_demo -q -d 8:70000 "$@" > "$tmp/$tag.server" 2>&1 &
    server_pid=$!
    tap_until $limit grep -q 'started listener' "$tmp/$tag.server" || tap_comment "$tag: the server does not listen"
    timeout $limit env "$preload" "$variable" UCX_TLS=wimm io_demo -q -d 8:70000 -i "$iterations" -c 1 -o read,write "$@" \
        "${client_source[@]}" "${servers[@]}" > "$tmp/$tag.client" 2>&1 &
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
    read -r reads writes < <(reported "$tmp/$tag.client")
    tap_comment "$tag: $reads reads and $writes writes on $connections connection(s) in $((SECONDS - start)) s"
    tap_run "$tag: $iterations are reported, of both kinds" \
        test "$reads" -gt 0 -a "$writes" -gt 0 -a $((reads + writes)) -ge "$iterations"
    quiet "$tag"
    only_wimm "$tag"
}
# By default each connection has a lane on every device. Where there are two, that is one to the peer and one that stays
# on its device, which carries the large messages; so a second time with the one that the address belongs to.
if [ -n "$server_ip" ]; then
    often=600
    [ -z "${WIMM_CHECK_LONG-}" ] || often=15000
    io_demo io_demo_tag 1 100 UCX_CM_USE_ALL_DEVICES=y
    io_demo io_demo_am 1 $often UCX_CM_USE_ALL_DEVICES=n -A
    [ -z "$netdev" ] || crossed io_demo_am 500 $(($(packets) - before))
    io_demo io_demo_two 2 $often UCX_CM_USE_ALL_DEVICES=n
    [ -z "$netdev" ] || crossed io_demo_two 500 $(($(packets) - before))
else
    tap_skip io_demo "$client_netdev has no IPv4 address to listen on"
fi

# ---------------------------------------------------------------- a control: without the module

grep -E '^(put_lat_short|am_lat_bcopy)_' "$tmp/uct" | head -n 2 > "$tmp/control"
perftest control "$tmp/control" ucx_perftest -d "$client_dev:1" -x rc_verbs -n 30 -w 3 -- \
    ucx_perftest -d "$client_dev:1" -x rc_verbs -n 30 -w 3
report control "$tmp/control"
tap_run "control: the module is not there" test -z "$(grep -h 'transport wimm' "$tmp"/control.*)"

tap_done
