#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# What repeats to the last digit in wimm-vm --exact --net single: work requests, completions and
# packets of an operation, and its instructions compared with those of other ways.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"
# shellcheck source=test/lib/perftest.sh
. "$top/test/lib/perftest.sh"

[ "${WIMM_VM_EXACT-}" = y ] ||
    tap_skip_all "instructions are counted in the VM only: wimm-vm --exact --net single"

# METHOD KIND SIZE REFERENCE FACTOR: the mean of METHOD is at most so much of REFERENCE's
cat >"$tmp/bounds" <<'LINES'
ucp_put_imm lat 8 put_fence_am      0.56
ucp_put_imm lat 8 put_flush_am      0.55
uct_put_imm lat 8 raw_write_imm     1.03
ucp_put_imm lat 8 raw_write_imm     1.07
uct_put_imm mr  8 raw_write_imm_mod 1.03
ucp_put_imm mr  8 raw_write_imm_mod 1.07
LINES
slack=1.02
exact_sizes=(8 1024 65536)
mtu=4096

# KIND SIZE: what is measured at once, and how often, as arguments
exact_tests() {
    local -a list

    mapfile -t list < <({
        printf '%s\n' raw_write_imm uct_put_imm ucp_put_imm
        awk -v kind="$1" -v size="$2" '$2 == kind && $3 == size {print $4; print $1}' "$tmp/bounds"
    } | awk '!seen[$0]++')
    echo "--compare $(tests_of "$1" "${list[@]}") -s $2 -n $((
        $2 <= 1024 ? 1024 : $2 <= 65536 ? 64 : 16))"
}

# METHOD KIND SIZE FILE: one work request and one receive completion, besides those of messages of
# flow control; and few of those. One acknowledgement for each message: all other packets carry
# data, but for one of each message of flow control. Numbers in CSV have 9 digits. When its timer
# ends, about once in a second, Soft-RoCE repeats the message that is under way, if there is one:
# where a message takes long that is seen.
check_counts() {
    tap_is "$1 $2, $3 bytes: work requests, completions, packets" "$(awk -F , -v test="$1_$2" \
        -v put="$1" -v size="$3" -v mtu=$mtu '
        function expect(what, value, min, max) {
            if (value < min - 1e-6 || value > max + 1e-6)
                printf "%s: %.9g, not from %.9g to %.9g\n", what, value, min, max
        }
        NR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i}
        $1 == test {
            ++found
            controls = $column["control_messages"]
            requests = $column["work_requests"]
            packets = int((size + mtu - 1) / mtu)
            expect("work requests", requests - controls, 1, 1)
            expect("receive completions", $column["receive_completions"] - controls, 1, 1)
            expect("messages of flow control", controls, 0, 1 / 16)
            repeated = (packets > 1) ? 2 * (packets + 1) / $column["iterations"] : 0
            expect("packets of data", $column["packets"] - requests - controls, packets,
                   packets + repeated)
            expect("RNR NAKs", $column["rnr_naks"], 0, 0)
            if (put ~ /put_imm$/ && size <= 1024)
                expect("send completions", $column["send_completions"], 0, 1 / 16)
            if ($column["unit"] != "kinstr") expect("instructions", 0, 1, 1)
        }
        END {if (found != 1) printf "%d lines of %s\n", found, test}' "$4")" ""
}

# KIND SIZE FILE: all bounds of this kind and size
check_bounds() {
    local method kind size reference factor result

    while read -r method kind size reference factor; do
        [ "$kind $size" = "$1 $2" ] || continue
        result=$(awk -F , -v a="${method}_$kind" -v b="${reference}_$kind" -v factor="$factor" -v slack=$slack '
            NR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i}
            $1 == a {mean = $column["mean"]}
            $1 == b {other = $column["mean"]}
            END {
                if (!mean || !other) {print "no figures"; exit}
                printf "%s: %.3f of %.3f thousand instructions, ratio %.4f, at most %s",
                       (mean / other <= factor * slack) ? "yes" : "no", mean, other, mean / other, factor
            }' "$3")
        tap_comment "$method $kind $size $reference: $result"
        tap_is "$method $kind, $size bytes: at most $factor of $reference" \
            "${result%%:*} ${result#*: }" "yes ${result#*: }"
    done <"$tmp/bounds"
}

# NAME FILE...: means repeat. One opening in about eight costs some instructions more in the kernel
# for as long as it lasts, so two of them have to agree, the lowest.
check_repeats() {
    local name=$1

    shift
    tap_is "$name" "$(awk -F , '
        FNR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i; next}
        {
            mean = $column["mean"]
            if (!($1 in lowest) || mean < lowest[$1]) {
                if ($1 in lowest) second[$1] = lowest[$1]
                lowest[$1] = mean
            } else if (!($1 in second) || mean < second[$1]) {
                second[$1] = mean
            }
        }
        END {
            for (test in lowest) {
                ++count
                if (second[test] == 0 || second[test] / lowest[test] - 1 > 0.001)
                    printf "%s: %s, %s at the least\n", test, lowest[test], second[test]
            }
            if (!count) print "no figures"
        }' "$@")" ""
}

test_exact() {
    local size kind method sizes round files=()

    for round in 1 2 3 4; do
        run_perftest repeat$round -l -q --compare raw_write_imm,uct_put_imm -n 1024 -N -o csv -
        ran repeat$round "lat, 8 bytes, round $round"
        files+=("$tmp/repeat$round.out")
    done
    check_repeats "lat, 8 bytes: means repeat" "${files[@]}"

    sizes=$({ printf '%s\n' "${exact_sizes[@]}"; awk '{print $3}' "$tmp/bounds"; } | sort -n -u)
    for size in $sizes; do
        for kind in lat mr; do
            # shellcheck disable=SC2046
            run_perftest "exact_${kind}_$size" -l -q $(exact_tests $kind "$size") -o csv -
            ran "exact_${kind}_$size" "$kind, $size bytes"
            for method in raw_write_imm uct_put_imm ucp_put_imm; do
                check_counts $method $kind "$size" "$tmp/exact_${kind}_$size.out"
            done
            check_bounds $kind "$size" "$tmp/exact_${kind}_$size.out"
        done
    done
}

test_exact
tap_done
