# shellcheck shell=bash disable=SC2154 # for the scripts that source this file
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# For tests on a wire that netem disturbs: source it after top is set to the source tree. Skips
# all but in wimm-vm --net pair, names its devices to the tests, and sets out, a file for what they say.

# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

[ "${WIMM_VM-}" = pair ] ||
    tap_skip_all "netem does not see packets of RDMA devices, but for those of wimm-vm --net pair"

export WIMM_TEST_DEVICE=rxe0 WIMM_TEST_PEER_DEVICE=rxe1
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT
