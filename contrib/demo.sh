#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# One command from a clone to a notified put: install, build, run, show.

set -u
# shellcheck source=contrib/common.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh" || exit 1

usage() {
    cat <<END
usage: contrib/demo.sh [--no-rdma] [--help]

Installs what is missing (apt, as root or through sudo), builds wimm in build/,
and shows it at work: stock ucx_perftest over the transport wimm, then notified
puts between two processes, and an example. A table of the results comes last.

It runs on this machine's RDMA device if there is one with an active port, and
in a small Soft-RoCE VM otherwise. Its figures are those of an emulated CPU then:
they show that it works, not how fast it is.

A second run installs, fetches and builds nothing again.

Options
  --no-rdma  on this machine, without a device and without the VM: notified puts
             are emulated, over what UCX has here. Takes seconds once it is built.
  --help     this text
END
}

no_rdma=
while [ $# -gt 0 ]; do
    case $1 in
    --no-rdma) no_rdma=$1 ;;
    --help|-h) usage; exit 0 ;;
    *)         die "unknown option '$1' (see --help)" ;;
    esac
    shift
done

start=$SECONDS
cd "$WIMM_TOP" || exit 1
wimm_lock
# Not as a job: sudo may have to ask for a password
setup=--no-tests
[ -z "$no_rdma" ] || setup=--build-only
"$WIMM_TOP/contrib/setup.sh" $setup || exit 1
wimm_job wimm_build "$WIMM_TOP/build" || die "the build failed"
wimm_unlock

if [ -n "$no_rdma" ]; then
    say "without RDMA: notified puts are emulated"
elif wimm_need_vm; then
    say "no RDMA device here: starting a VM with two Soft-RoCE devices"
else
    say "using the RDMA device $(wimm_host_device) of this machine"
fi
steps=("$WIMM_TOP/contrib/demo-steps.sh" "$WIMM_TOP/build")
if [ -n "$no_rdma" ]; then
    wimm_job timeout -k 10 300 "${steps[@]}" "$no_rdma"
else
    wimm_job wimm_on_device pair 300 "${steps[@]}"
fi
status=$?
[ $status = 0 ] || die "the demo failed with status $status"
say "done in $((SECONDS - start)) s"
