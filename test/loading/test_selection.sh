#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Which transport UCX chooses, with the module loaded and without it. Merely loading it changes nothing for a program
# that does not name wimm; UCX_WIMM_PREFER=y wins ties. Needs an RDMA device: contrib/vm/wimm-vm -- test_selection.sh

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

grep -q -s ACTIVE /sys/class/infiniband/*/ports/*/state || tap_skip_all "there is no RDMA device with an active port"
soft_roce=
[ ! -e /sys/class/infiniband/rxe0 ] || soft_roce=yes

unset "${!UCX_@}" LD_PRELOAD
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export HOME=$tmp

# The endpoints are real, and Soft-RoCE loses UD messages without it. wimm-run has to know that by itself.
[ -z "$soft_roce" ] || export UCX_UD_VERBS_ETH_DGID_CHECK=n

# FILE VAR=VALUE... -- UCX_INFO-OPTION...: several run at a time, because each takes seconds in a VM
info() {
    local file=$tmp/$1 running
    local -a variables=()
    shift
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    running=$(jobs -rp | wc -l)
    [ "$running" -lt "$(nproc)" ] || wait -n
    timeout 60 env "${variables[@]}" ucx_info "$@" > "$file" 2>&1 &
}

# The module alone, without the other settings of wimm-run
preload=$("$run" --print 2>&1 | grep -E '^(LD_PRELOAD|UCX_PLUGIN_PATH)=') || { echo "Bail out! wimm-run --print fails"; exit 1; }
prefer=UCX_WIMM_PREFER=y
endpoint=(-e -u atrsm -D net -P inter)

# The setting of UCX_TLS, and what has to be chosen without the module, with it, and with it preferred
settings=(
    "unset                      rc_verbs  rc_verbs  wimm"
    "all                        rc_verbs  rc_verbs  wimm"
    "ib                         rc_verbs  rc_verbs  rc_verbs"
    "rc                         rc_verbs  rc_verbs  rc_verbs"
    "^wimm                      rc_verbs  rc_verbs  rc_verbs"
    "wimm,rc                    rc_verbs  rc_verbs  wimm"
    "wimm,ud_verbs:aux          none      wimm      wimm"
)

number=0
for line in "${settings[@]}"; do
    read -r tls _ <<< "$line"
    number=$((number + 1))
    tls=UCX_TLS=$tls
    [ "$tls" != UCX_TLS=unset ] || tls=WIMM_TEST=unset
    info "$number.without" "$tls" -- "${endpoint[@]}"
    info "$number.with" "$tls" "$preload" -- "${endpoint[@]}"
    info "$number.prefer" "$tls" "$preload" "$prefer" -- "${endpoint[@]}"
done
info devices.without WIMM_TEST= -- -d
info devices.with "$preload" -- -d
info config.without WIMM_TEST= -- -c -a
info config.with "$preload" -- -c -a
info local.without WIMM_TEST= -- -e -u rm -P intra
info local.with "$preload" -- -e -u rm -P intra
info local.prefer "$preload" "$prefer" -- -e -u rm -P intra
wait

# The transports of an endpoint's lanes
lanes() { # FILE
    local found
    found=$(sed -n 's|^# *lane\[[0-9]*\]: *[0-9]*:\([a-z0-9_]*\)/.*|\1|p' "$tmp/$1" | sort -u | xargs)
    echo "${found:-none}"
}

# NAME FILE FILE: without process ids and times, the numbers that UCX gives to its devices and transports, and without
# its warning about the name of a transport that is not there
same() {
    if [ ! -s "$tmp/$2" ]; then
        tap_not_ok "$1" "ucx_info printed nothing"
        return
    fi
    tap_is "$1" "$(diff <(settled "$2") <(settled "$3") | head -n 20)" ""
}

settled() { # FILE
    sed -e "/transport 'wimm' is not available/d" -e 's/^\[[^]]*\] \[[^]]*\] *//' \
        -e 's/\(lane\[[0-9]*\]:\) *[0-9]*:/\1 /' "$tmp/$1"
}

# Where UCX has a transport of its own for the device, that one takes rc_verbs' place and does not tie with wimm
own=rc_verbs
! grep -q 'Transport: rc_mlx5' "$tmp/devices.without" || own=rc_mlx5

number=0
for line in "${settings[@]//rc_verbs/$own}"; do
    read -r tls without with preferred <<< "$line"
    number=$((number + 1))
    tap_is "UCX_TLS $tls: $without without the module" "$(lanes $number.without)" "$without"
    tap_is "UCX_TLS $tls: $with with the module" "$(lanes $number.with)" "$with"
    if [ $own = rc_verbs ]; then
        tap_is "UCX_TLS $tls: $preferred when it is preferred" "$(lanes $number.prefer)" "$preferred"
    else
        tap_skip "UCX_TLS $tls: when wimm is preferred" "$own does not score the same as wimm"
    fi
    [ "${tls#wimm}" != "$tls" ] ||
        same "UCX_TLS $tls: the endpoint is the same with the module, to the last threshold" \
            $number.without $number.with
    tap_is "UCX_TLS $tls: no warning and no error with the module" "$(grep -E 'WARN|ERROR' "$tmp/$number.with")" ""
done

tap_is "the module adds one transport per device" "$(grep -c 'Transport: wimm' "$tmp/devices.with")" \
    "$(grep -c 'Transport: rc_verbs' "$tmp/devices.without")"
# Each transport's part begins with "# Transport: NAME"
awk '/^# *Transport: / {skip = ($3 == "wimm")}
     /^# *(Memory domain|Connection manager): / {skip = 0}
     !skip && !/^#? *$/' "$tmp/devices.with" > "$tmp/devices.others"
grep -v -E '^#? *$' "$tmp/devices.without" > "$tmp/devices.before"
same "and changes none of the devices and transports" devices.before devices.others

# In another order, that of the constructors
grep -v '^UCX_WIMM_' "$tmp/config.with" | sort > "$tmp/config.others"
sort "$tmp/config.without" > "$tmp/config.before"
same "the configuration has keys of UCX_WIMM_ in addition, and no other" config.before config.others
tap_is "UCX_WIMM_PREFER is off by default" "$(grep '^UCX_WIMM_PREFER=' "$tmp/config.with")" UCX_WIMM_PREFER=n

same "on one node: the endpoint is the same with the module" local.without local.with
[ $own != rc_verbs ] || tap_is "on one node, when it is preferred: it takes rc_verbs' place, and not shared memory's" \
    "$(lanes local.prefer)" "$(lanes local.without | sed 's/rc_verbs \(.*\)/\1 wimm/')"

# wimm-run chooses it by itself, and knows what Soft-RoCE needs
unset UCX_UD_VERBS_ETH_DGID_CHECK
output=$("$run" --print 2>&1)
tap_is "wimm-run sets what Soft-RoCE needs where it is" \
    "$(printf '%s\n' "$output" | grep '^UCX_UD_VERBS')" "${soft_roce:+UCX_UD_VERBS_ETH_DGID_CHECK=n}"
timeout 60 "$run" ucx_info "${endpoint[@]}" > "$tmp/run" 2>&1
tap_is "wimm-run chooses wimm" "$(lanes run)" wimm

tap_done
