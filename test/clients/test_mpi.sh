#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The distribution's Open MPI over wimm: an MPI and an OpenSHMEM program, which check each byte that they get, with two
# and with four processes. Needs an RDMA device; with the two of the VM every other process is on the second one:
# contrib/vm/wimm-vm --net pair --cpus 3 -- test_mpi.sh

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/clients/lib.sh
. "$here/lib.sh"
trap 'rm -rf "$tmp"' EXIT

mpi_check=$build/test/clients/mpi_check
shmem_check=$build/test/clients/shmem_check
[ -x "$mpi_check" ] || tap_skip_all "$mpi_check is not there: Open MPI was not installed at configure, or make check was not run"
command -v mpirun >/dev/null || tap_skip_all "mpirun is not installed"

# The VM's user is root
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# shmem_check's memory, registered as a whole
export SHMEM_SYMMETRIC_SIZE=64M
# More processes than CPUs
placement=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
components=(--mca pml ucx --mca osc ucx --mca spml ucx --mca atomic ucx)
# Open MPI takes UCX for these transports and devices only; its lists do not know wimm, nor Soft-RoCE
allowed=(--mca opal_common_ucx_tls any --mca opal_common_ucx_devices any)

# Longest time of one mpirun: one needs 20 to 60 s in a VM without KVM, more on a busy machine
limit=500
[ -z "${WIMM_CHECK_LONG-}" ] || limit=1200

sent() { # by all devices, in packets
    cat /sys/class/infiniband/*/ports/1/hw_counters/sent_pkts 2>/dev/null | awk '{sum += $1} END {print sum + 0}'
}

# TAG LAUNCHER PROCESSES OPTIONS... -- COMMAND...: output in $tmp/TAG.out, the exit status in $status
launch() {
    local tag=$1 launcher=$2 processes=$3 i device
    local -a options=() command=()
    shift 3
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    for ((i = 0; i < processes; ++i)); do
        device=$client_dev
        [ $((i % 2)) = 0 ] || device=$server_dev
        [ $i = 0 ] || command+=(:)
        command+=(-n 1 -x "UCX_NET_DEVICES=$device:1" "$@")
    done
    timeout -k 10 $limit "$launcher" "${placement[@]}" "${components[@]}" "${options[@]}" "${command[@]}" \
        > "$tmp/$tag.out" 2>&1
    status=$?
}

# TAG LAUNCHER PROCESSES PARTS PROGRAM ARGUMENT...: it finds nothing wrong, and wimm has carried all of it
checked() {
    local tag=$1 launcher=$2 processes=$3 parts=$4 before wire bytes packets start=$SECONDS
    shift 4
    before=$(sent)
    [ -z "$netdev" ] || wire=$(packets)
    UCX_LOG_LEVEL=info launch "$tag" "$launcher" "$processes" "${allowed[@]}" -- "$run" "$@"
    packets=$(($(sent) - before))

    tap_comment "$tag: $((SECONDS - start)) s, $packets packets"
    grep -E " operations, |bytes between them" "$tmp/$tag.out" | sed "s/^/# $tag: /"
    tap_is "$tag: exit status" $status 0
    tap_is "$tag: parts without anything wrong" "$(grep -c ' operations, .* 0 wrong, ' "$tmp/$tag.out")" "$parts"
    tap_is "$tag: processes with the module" "$(grep -c 'transport wimm .* is registered' "$tmp/$tag.out")" "$processes"
    tap_is "$tag: endpoints are wimm's alone" "$(lanes "$tmp/$tag.out")" wimm/
    tap_is "$tag: nothing else was said" "$(grep -v -E \
        ' UCX  INFO |^[a-z ]+ [0-9]+ operations, |^[0-9]+ (ranks|PEs): [0-9]+ bytes' "$tmp/$tag.out" | head -n 20)" ""

    # No packet has more than 4096 bytes of data
    bytes=$(sed -n 's/^[0-9]* [A-Za-z]*: \([0-9]*\) bytes between them.*/\1/p' "$tmp/$tag.out")
    if [ ! -r "/sys/class/infiniband/$client_dev/ports/1/hw_counters/sent_pkts" ]; then
        tap_skip "$tag: the devices sent the data" "they do not count packets as Soft-RoCE does"
    elif [ "${bytes:-0}" -gt 0 ] && [ "$packets" -ge $((bytes / 4096)) ]; then
        tap_ok "$tag: the devices sent the data"
    else
        tap_not_ok "$tag: the devices sent the data" "$packets packets for ${bytes:-no} bytes"
    fi
    # Of four processes, two share a device
    [ -z "$netdev" ] || [ "$processes" != 2 ] || crossed "$tag" $((${bytes:-0} / 4096 / 2)) $(($(packets) - wire))
}

mpi_parts=$(grep -c '^    part("' "$here/mpi_check.c")
shmem_parts=$(grep -c '^    part("' "$here/shmem_check.c")

if [ -n "${WIMM_CHECK_LONG-}" ]; then
    checked mpi_2 mpirun 2 "$mpi_parts" "$mpi_check" 8388608 200
    checked mpi_4 mpirun 4 "$mpi_parts" "$mpi_check" 8388608 50
else
    checked mpi_2 mpirun 2 "$mpi_parts" "$mpi_check" 8388608 10
    checked mpi_4 mpirun 4 "$mpi_parts" "$mpi_check" 1048576 5
fi
if [ ! -x "$shmem_check" ] || ! command -v oshrun >/dev/null; then
    tap_skip "OpenSHMEM" "this Open MPI has none"
elif [ -n "${WIMM_CHECK_LONG-}" ]; then
    checked shmem_2 oshrun 2 "$shmem_parts" "$shmem_check" 8388608 200
    checked shmem_4 oshrun 4 "$shmem_parts" "$shmem_check" 8388608 50
else
    checked shmem_2 oshrun 2 "$shmem_parts" "$shmem_check" 1048576 10
    checked shmem_4 oshrun 4 "$shmem_parts" "$shmem_check" 65536 3
fi

# ---------------------------------------------------------------- controls

# What README says about the two options
launch refused mpirun 2 -- "$run" "$mpi_check" 65536 1
tap_run "without the options of README: exit status is not 0" test $status -ne 0
tap_has "without the options of README: Open MPI says so" "$(cat "$tmp/refused.out")" "PML ucx cannot be selected"

# Nothing else carries the data where UCX_TLS names wimm
UCX_TLS=wimm,ud_verbs:aux UCX_UD_VERBS_ETH_DGID_CHECK=n launch without mpirun 2 "${allowed[@]}" -- "$mpi_check" 65536 1
tap_run "without the module: exit status is not 0" test $status -ne 0
tap_has "without the module: UCX says so" "$(cat "$tmp/without.out")" "transport 'wimm' is not available"

tap_done
