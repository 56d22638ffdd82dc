#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Tests contrib/vm/wimm-vm by what it promises in its --help. Boots about ten small VMs, one after the other.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
. "$here/../lib/tap.sh"

wimm_vm=$top/contrib/vm/wimm-vm
cache=${WIMM_CACHE_DIR:-$top/.cache}

command -v qemu-system-x86_64 >/dev/null || tap_skip_all "qemu-system-x86 is not installed"

mkdir -p "$cache"
dir=$(mktemp -d "$cache/test-vm.XXXXXX") || exit 1
tmp=$dir/tmp
mkdir "$tmp"
cd "$dir" || exit 1
trap 'rm -rf "$dir"' EXIT

vm() {
    TMPDIR=$tmp "$wimm_vm" --work "$dir" --timeout 120 "$@"
}

# Replaces a background subshell by wimm-vm, so that $! is its process; SIGINT is ignored there unless it is reset
exec_vm() {
    exec env --default-signal=INT TMPDIR="$tmp" "$wimm_vm" --work "$dir" --timeout 120 "$@"
}

# Processes of a run are known by the TMPDIR that it was given
leftovers() {
    grep -lazx "TMPDIR=$tmp" /proc/[0-9]*/environ 2>/dev/null | while IFS=/ read -r _ _ pid _; do
        # It may end meanwhile
        echo "process $pid: $(tr '\0' ' ' < "/proc/$pid/cmdline")"
    done 2>/dev/null
    find "$tmp" -mindepth 1
    find "$cache/vm" -maxdepth 1 -name 'tmp.*'
}

nothing_left() {
    [[ -z $(leftovers) ]]
}

qemu_runs() {
    leftovers | grep -q qemu-system
}

# ---------------------------------------------------------------- without a VM

# NAME PART OPTION...: a call that has to fail with 125 and one sentence that contains PART
refused() {
    local name=$1 part=$2 output status
    shift 2
    output=$(vm "$@" 2>&1 >/dev/null)
    status=$?
    if [[ $status == 125 && $output == "wimm-vm: "*"$part"* && $output != *$'\n'* ]] && nothing_left; then
        tap_ok "$name"
    else
        tap_not_ok "$name" "status $status: $output; left: $(leftovers)"
    fi
}

test_options() {
    refused "unknown option" "--nonsense" --nonsense -- true
    refused "missing value at the end" "--net" --net
    refused "missing value before the command" "--timeout" --timeout -- true
    refused "unknown network" "single pair none" --net triple -- true
    refused "non-numeric time limit" "'soon'" --timeout soon -- true
    refused "time limit 0" "'0'" --timeout 0 -- true
    refused "non-numeric memory" "'4G'" --memory=4G -- true
    refused "no CPU" "'0'" --cpus 0 -- true
    refused "MTU out of range" "'100000'" --mtu 100000 -- true
    refused "unknown accelerator" "auto kvm tcg" --accel warp -- true
    refused "variable without value" "VAR=VALUE" --env NAME -- true
    refused "impossible variable name" "VAR=VALUE" --env 1A=b -- true
    refused "work tree that does not exist" "/nonexistent" --work /nonexistent -- true
    refused "work tree that cannot be shared" "'/'" --work / -- true
    refused "no command" "no command"
    refused "no command after --" "no command" --net pair --
    refused "command without --" "--" true
    refused "--exact with two CPUs" "one CPU" --exact --cpus 2 -- true
    refused "--exact with KVM" "KVM" --exact --accel kvm -- true
    refused "--prepare with a command" "--prepare" --prepare -- true
    tap_has "--help explains --net pair" "$("$wimm_vm" --help)" "--net pair"
}

test_missing_tools() {
    local output
    mkdir "$dir/bin"
    ln -sft "$dir/bin" /bin/* /usr/bin/*
    rm "$dir/bin/qemu-system-x86_64" "$dir/bin/cpio"
    # wimm-vm adds the system's sbin folders, where neither is
    output=$(PATH=$dir/bin TMPDIR=$tmp /bin/bash "$wimm_vm" -- true 2>&1)
    tap_is "missing tools: status and packages" "$? $output" \
        "125 wimm-vm: tools are missing; as root: apt-get install qemu-system-x86 cpio"
}

# ---------------------------------------------------------------- the image

prepare() { # LOG
    PATH=$dir/fake:$PATH WIMM_CACHE_DIR=$dir/cache TMPDIR=$tmp "$wimm_vm" --accel tcg --prepare >"$1" 2>&1
}

build_under_way() {
    compgen -G "$dir/cache/vm/tmp.*/tree/lib/modules" >/dev/null
}

test_prepare() {
    local first second before start
    mkdir -p "$dir/cache/vm" "$dir/fake"
    cp "$cache"/vm/linux-image-*.deb "$dir/cache/vm/"
    printf '#!/bin/sh\necho "$*" >> "%s/fetched"\nexit 1\n' "$dir" > "$dir/fake/apt-get"
    cp "$dir/fake/apt-get" "$dir/fake/apt-cache"
    chmod +x "$dir"/fake/*

    (export PATH=$dir/fake:$PATH WIMM_CACHE_DIR=$dir/cache; exec_vm --accel tcg --prepare) 2>/dev/null &
    first=$!
    tap_run "a build is under way" tap_until 60 build_under_way
    { kill -KILL $first; wait $first; } 2>/dev/null
    tap_run "a build that was killed leaves no image" test ! -e "$dir/cache/vm/image"

    prepare first.log & first=$!
    prepare second.log & second=$!
    wait $first
    first=$?
    wait $second
    tap_is "two builds at once" "$first $?" "0 0"
    tap_is "one of them built" "$(cat first.log second.log | grep -c building)" 1
    tap_run "the image is there" test -x "$dir/cache/vm/image/vm-tool"
    tap_is "nothing half-built is left" "$(compgen -G "$dir/cache/vm/tmp.*")" ""

    before=$(ls -lAR --time-style=full-iso "$dir/cache")
    start=$(date +%s%N)
    prepare third.log
    tap_is "--prepare again" "$? $(cat third.log)" "0 "
    tap_run "it is quick" test $((($(date +%s%N) - start) / 1000000)) -lt 2000
    tap_is "it changes nothing" "$(ls -lAR --time-style=full-iso "$dir/cache")" "$before"
    tap_run "with a package in the cache nothing is fetched" test ! -e "$dir/fetched"

    rm "$dir"/cache/vm/linux-image-*.deb
    prepare fourth.log
    tap_is "without package and without apt's lists: status" "$?" 125
    tap_has "without package and without apt's lists: advice" "$(cat fourth.log)" "apt-get update"
    rm -rf "$dir/cache"
}

# ---------------------------------------------------------------- one device: most of what there is to see

test_single() {
    local pid line args=("a b" "" "it's" '"q"' $'new\nline\n' '$HOME' '*' '\' $'\377\001' -- -x)
    local probe=/usr/share/wimm-vm-test.$$
    cat > guest.sh <<'SCRIPT'
probe=$1
shift
echo "line one"
echo "error line" >&2
n=0
until [ -e go ] || [ $((n += 1)) -gt 600 ]; do sleep 0.1; done
[ -e go ] && echo "line two"
printf '<%s>' "$@" > args
printf '%s' "$ODD" > odd
env > environment
pwd > directory
{ echo changed > "$probe"; cat "$probe"; } > root 2>&1
ls -A /tmp > tmp-listing
{ ulimit -l; ulimit -n; } > limits
rdma link > link
ibv_devinfo > devinfo 2>&1
rdma resource > resource
{ rdma statistic && ls /dev/infiniband; } > statistic
echo "BUG: only a test" > /dev/kmsg
sleep 1000 &
exit 37
SCRIPT
    mkfifo out
    (
        export UCX_WIMM_TEST="from the caller" LD_LIBRARY_PATH=/odd/path LD_PRELOAD=libm.so.6 NOT_PASSED=1
        exec_vm --env ODD=$'two\nlines \'\377' --env UCX_OVER=1 -- sh guest.sh "$probe" "${args[@]}"
    ) > out 2> err &
    pid=$!
    exec 5< out
    read -r -t 120 line <&5
    tap_is "a line arrives while the command runs" "$line" "line one"
    touch go
    tap_is "the rest of stdout" "$(cat <&5)" "line two"
    exec 5<&-
    wait $pid
    tap_is "exit status, and a child that holds stdout" $? 37
    tap_is "nothing is left" "$(leftovers)" ""
    tap_is "stderr is apart, with the guest kernel's complaint" "$(sed 's/\[.*\] //' err)" \
        "error line"$'\n'"wimm-vm: guest kernel: BUG: only a test"
    tap_run "arguments arrive as they are" cmp args <(printf '<%s>' "${args[@]}")
    tap_run "--env arrives as it is" cmp odd <(printf 'two\nlines \x27\377')
    tap_has "caller's UCX_* variable" "$(cat environment)" "UCX_WIMM_TEST=from the caller"
    tap_has "caller's LD_LIBRARY_PATH" "$(cat environment)" "LD_LIBRARY_PATH=/odd/path"
    tap_is "no other of the caller's variables" "$(grep -aE 'LD_PRELOAD|NOT_PASSED|TMPDIR' environment)" ""
    tap_has "WIMM_VM" "$(cat environment)" "WIMM_VM=single"
    tap_is "current directory" "$(cat directory)" "$dir"
    tap_is "a write elsewhere succeeds in the guest" "$(cat root)" changed
    tap_run "and does not reach the host" test ! -e "$probe"
    # But for the way to the work tree, if that is below /tmp
    tap_is "/tmp is empty" "$(cat tmp-listing)" "$(case $top in /tmp/*) top=${top#/tmp/}; echo "${top%%/*}" ;; esac)"
    tap_is "limits" "$(paste -sd ' ' limits)" "unlimited 65536"
    tap_is "one device, active" "$(grep -o 'rxe.* state ACTIVE' link)" "rxe0/1 state ACTIVE"
    if command -v ibv_devinfo >/dev/null; then
        tap_is "ibv_devinfo" "$(grep -oE 'rxe[0-9]|PORT_[A-Z]*' devinfo | paste -sd ' ')" "rxe0 PORT_ACTIVE"
    else
        tap_skip "ibv_devinfo" "ibverbs-utils is not installed"
    fi
    tap_has "rdma resource" "$(cat resource)" rxe0
    tap_has "rdma statistic" "$(cat statistic)" "sent_pkts"
    tap_has "the devices of rdmacm and umad" "$(paste -sd ' ' statistic)" "rdma_cm umad0"
}

# ---------------------------------------------------------------- output

# The reader takes the last part only when the command has ended: what is under way then must not be lost with the VM
test_large_output() {
    local pid
    head -c 10000000 /dev/urandom > data
    mkfifo large
    (exec_vm --net none -- sh -c 'tail -c 3000000 data >&2; cat data; : > ended; kill -SEGV $$') > large 2> copy-err &
    pid=$!
    exec 5< large
    head -c 8500000 <&5 > copy
    tap_run "the command ends before its output is read" tap_until 120 test -e ended
    # More than the second that the guest waits for processes left behind
    sleep 1.5
    cat <&5 >> copy
    exec 5<&-
    wait $pid
    tap_is "death by a signal" $? 139
    tap_run "10 MB of stdout, byte for byte" cmp data copy
    tap_run "3 MB of stderr, byte for byte" cmp <(tail -c 3000000 data) copy-err
}

test_closed_reader() {
    (exec_vm --net none -- yes; ) 2>err > >(head -n 1 > one-line)
    tap_is "a reader that goes away ends the run" "$? $(cat one-line) $(cat err)" "141 y "
    tap_is "nothing is left then" "$(leftovers)" ""
}

# ---------------------------------------------------------------- the end

test_timeout() {
    local start=$SECONDS
    vm --timeout 3 -- sleep 1000 2> err
    tap_is "--timeout: status" $? 124
    tap_has "--timeout: message" "$(cat err)" "3 s"
    tap_run "--timeout: in time" test $((SECONDS - start)) -lt 10
    tap_is "--timeout: nothing left" "$(leftovers)" ""
}

test_signal() { # SIGNAL STATUS COMMAND-RUNS
    local pid line
    mkfifo "fifo-$1"
    (exec_vm --net none -- sh -c 'echo up; sleep 1000') > "fifo-$1" 2> err &
    pid=$!
    exec 5< "fifo-$1"
    if [[ $3 == yes ]]; then
        read -r -t 120 line <&5
        tap_is "$1: the command runs" "$line" up
    else
        tap_run "$1: the VM boots" tap_until 60 qemu_runs
    fi
    kill -s "$1" $pid
    { wait $pid; } 2>/dev/null
    tap_is "$1: status" $? "$2"
    [[ $1 != KILL ]] || tap_until 10 nothing_left
    tap_is "$1: nothing left" "$(leftovers)" ""
    exec 5<&-
}

test_death() {
    vm --net none -- sh -c 'echo c > /proc/sysrq-trigger; sleep 1000' \
        > out-death 2> err-death
    tap_is "the VM dies: status" $? 125
    tap_has "the VM dies: message" "$(cat err-death)" "wimm-vm: the VM died"
    tap_has "the VM dies: its panic" "$(cat err-death)" "wimm-vm: guest kernel:"
    tap_is "the VM dies: nothing left" "$(leftovers)" ""
}

test_exact() {
    local output
    output=$(vm --exact --net none -- nproc 2>&1)
    tap_is "--exact, with one CPU" "$? $output" "0 1"
}

# ---------------------------------------------------------------- two devices

test_pair() {
    local tool
    # tcpdump ends by itself at the 40th packet: there are at least as many sends, and each gets an answer
    cat > pair.sh <<'SCRIPT'
gid() { # DEVICE ADDRESS: index of the address among the device's GIDs
    grep -lx "0000:0000:0000:0000:0000:ffff:$2" /sys/class/infiniband/$1/ports/1/gids/* | sed 's,.*/,,'
}
soon() {
    n=0
    until "$@"; do [ $((n += 1)) -lt 100 ] || return 1; sleep 0.1; done
}
echo "$WIMM_VM" > pair-env
rdma link > pair-link
ip route get 10.0.0.2 from 10.0.0.1 > pair-route
ip route get 10.0.0.1 from 10.0.0.2 >> pair-route
timeout 60 tcpdump -Z root -i veth0 -c 40 -w /tmp/capture udp port 4791 2> /tmp/tcpdump & tcpdump=$!
soon grep -q listening /tmp/tcpdump
ibv_rc_pingpong -d rxe1 -g "$(gid rxe1 0a00:0002)" -n 20 > /dev/null & server=$!
soon grep -qh ":4853 .* 0A " /proc/net/tcp /proc/net/tcp6 # listens on port 18515
ibv_rc_pingpong -d rxe0 -g "$(gid rxe0 0a00:0001)" -n 20 127.0.0.1 > pair-ping 2>&1
wait $server
wait $tcpdump
tcpdump -nr /tmp/capture > pair-packets 2>/dev/null
tc qdisc add dev veth0 root netem loss 1% && tc qdisc show dev veth0 > pair-netem
SCRIPT
    for tool in tcpdump:tcpdump ibv_rc_pingpong:ibverbs-utils tc:iproute2; do
        command -v "${tool%:*}" >/dev/null || {
            tap_skip "--net pair" "${tool#*:} is not installed"
            return
        }
    done
    vm --net pair -- sh pair.sh
    tap_is "--net pair: status" $? 0
    tap_is "--net pair: WIMM_VM" "$(cat pair-env)" pair
    tap_is "--net pair: two devices, active" "$(grep -o 'rxe.* state ACTIVE' pair-link | paste -sd ' ')" \
        "rxe0/1 state ACTIVE rxe1/1 state ACTIVE"
    tap_has "--net pair: RDMA between them" "$(cat pair-ping)" "20 iters"
    tap_run "--net pair: tcpdump sees it there" grep -q '10.0.0.1.* > 10.0.0.2.4791' pair-packets
    tap_run "--net pair: and back" grep -q '10.0.0.2.* > 10.0.0.1.4791' pair-packets
    tap_is "--net pair: other traffic takes the wire, too" "$(grep -o 'dev [a-z0-9]*' pair-route | paste -sd ' ')" \
        "dev veth0 dev veth1"
    tap_has "--net pair: netem" "$(cat pair-netem)" "netem"
    tap_has "--net pair: netem's loss" "$(cat pair-netem)" "loss 1%"
}

test_options
test_missing_tools
tap_run "the image is prepared" env TMPDIR="$tmp" "$wimm_vm" --prepare
test_prepare
test_single
test_large_output
test_closed_reader
test_timeout
test_signal INT 130 yes
test_signal TERM 143 no
test_signal KILL 137 yes
test_death
test_exact
test_pair
tap_is "nothing is left of any run" "$(leftovers)" ""
tap_done
