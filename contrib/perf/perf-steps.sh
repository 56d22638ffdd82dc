#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The part of perf.sh that measures, on the device or in the VM:
#     perf-steps.sh BUILD-FOLDER full|quick MEASUREMENT...
# Results go to stdout, a line each: the measurement, the method, what is special about
# it, and the columns of wimm_perftest's CSV. Everything else goes to stderr.

set -u
build=${1:?the build folder}
amount=${2:?full or quick}
shift 2
perftest=$build/src/tools/wimm_perftest
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failures=0
measurement=
with_header=

# Instructions are counted in one process; time is taken in two, each on a CPU
sides=--fork
[ "${WIMM_VM_EXACT-}" != y ] || sides=-l

# Receives with which each of 256 endpoints has 64 credits
long_queue=17408

all_methods="raw_write_imm raw_write_imm_mod raw_write uct_put_imm uct_am_short
    ucp_put_imm put_fence_am put_flush_am put_flag put_atomic am put"

# As many operations as what happens every 16th or 512th time needs to count; for time,
# which varies, as many as wimm_perftest thinks right
operations() { # SIZE
    local n

    [ $sides = -l ] || [ "$amount" = quick ] || return 0

    case $1 in
    *m|128k|256k|512k) n=16 ;;
    *k)                n=256; [ "$1" != 1k ] || n=4096 ;;
    *)                 n=4096 ;;
    esac
    [ "$amount" = full ] || n=$((n > 64 ? 64 : n))
    echo "-n $n"
}

# One opening in about eight costs up to 2 % more instructions in the kernel for as long as it
# lasts. Where that would show, which is where little is copied, the lower of two is taken.
openings() { # SIZE
    local largest=${1#*:}

    case ${largest%%:*} in
    1k)    ;;
    *k|*m) echo 1; return ;;
    esac
    if [ $sides = -l ] && [ "$amount" = full ]; then echo 2; else echo 1; fi
}

# UCX knows settings of a transport only where it is used
export UCX_WARN_UNUSED_ENV_VARS=n

# run METHOD KIND VARIANT SIZES OPTION...: measure it at SIZES, which are what -s takes,
# separated by blanks. A size that the method does not take on this device ends its
# curve; anything else that goes wrong is told, and does not stop the others.
run() {
    local method=$1 kind=$2 variant=$3 sizes=$4 size status i

    shift 4
    for size in $sizes; do
        printf '   %s: %s_%s%s, size %s%s\n' "$measurement" "$method" "$kind" \
            "${variant:+ ($variant)}" "$size" "${*:+, $*}" >&2
        : >"$scratch/out"
        for ((i = $(openings "$size"); i > 0; --i)); do
            status=0
            # shellcheck disable=SC2046 # may be no option
            "$perftest" $sides -q -t "${method}_$kind" -s "$size" \
                $(operations "${size%%:*}") "$@" -o csv - \
                >>"$scratch/out" 2>"$scratch/err" || { status=$?; break; }
        done
        # Sizes in the order in which they came
        awk -F , -v prefix="$measurement" -v method="$method" -v variant="$variant" \
            -v header="$with_header" -v row="${method}_$kind," -v OFS=, '
            /^test,/ {
                for (i = 1; i <= NF; ++i) column[$i] = i
                if (header) print prefix, "method", "variant", $0
                header = ""
            }
            index($0, row) == 1 {
                size = $column["size"]; mean = $column["mean"]
                if (!(size in lowest)) order[++count] = size
                if (!(size in lowest) || mean < lowest[size]) {
                    lowest[size] = mean
                    line[size] = $0
                }
            }
            END {for (i = 1; i <= count; ++i) print prefix, method, variant, line[order[i]]}
            ' "$scratch/out"
        ! grep -q '^test,' "$scratch/out" || with_header=
        if [ $status != 0 ] && ! grep -q 'takes at most' "$scratch/err"; then
            failures=$((failures + 1))
            printf 'perf: FAILED: %s: %s_%s%s, size %s%s: status %s: %s\n' \
                "$measurement" "$method" "$kind" "${variant:+ ($variant)}" "$size" \
                "${*:+, $*}" $status "$(tail -n 1 "$scratch/err")" >&2
        fi
    done
}

measure_latency() {
    local method sizes="8 64:1k:x4 4k:64k:x4 256k:1m:x4 8m" methods=$all_methods

    if [ "$amount" = quick ]; then
        sizes="8:1k:x128"
        methods="raw_write_imm uct_put_imm ucp_put_imm put_fence_am"
    fi
    for method in $methods; do
        if [ "$method" = uct_am_short ]; then
            # About all that fits into a work request
            run $method lat "" "8 64" -N
        else
            run $method lat "" "$sizes" -N
        fi
    done
}

measure_window() {
    local method window windows="1 2 4 8 16 32 64 128"
    local methods="raw_write_imm_mod uct_put_imm ucp_put_imm put_fence_am am put"

    if [ "$amount" = quick ]; then
        windows="1 64"
        methods="raw_write_imm_mod"
    fi
    for method in $methods; do
        for window in $windows; do
            run "$method" mr "" 8 -W "$window" -N
        done
    done
}

measure_endpoints() {
    local method number numbers="1 4 16 64 256" queue
    local methods="raw_write_imm uct_put_imm ucp_put_imm uct_am_short"

    if [ "$amount" = quick ]; then
        numbers="4"
        methods="raw_write_imm uct_put_imm"
    fi
    for queue in "" $long_queue; do
        [ -z "$queue" ] ||
            export UCX_WIMM_RX_QUEUE_LEN=$queue UCX_RC_VERBS_RX_QUEUE_LEN=$queue
        for method in $methods; do
            # It has a queue of its own
            [ -z "$queue" ] || [ "$method" != raw_write_imm ] || continue
            for number in $numbers; do
                # So that each uses all of its credits, twice
                # shellcheck disable=SC2046 # may be no option
                run "$method" mr "${queue:-default}" 8 -e "$number" -N \
                    $([ $sides != -l ] || [ "$amount" = quick ] || [ "$number" -lt 64 ] ||
                        echo "-n $((number * 64 * 2))")
            done
        done
    done
    unset UCX_WIMM_RX_QUEUE_LEN UCX_RC_VERBS_RX_QUEUE_LEN
}

measure_bandwidth() {
    local method sizes="64k 256k:1m:x4 8m"
    local methods="raw_write_imm uct_put_imm ucp_put_imm put"

    if [ "$amount" = quick ]; then
        sizes="64k:128k"
        methods="raw_write_imm"
    fi
    for method in $methods; do
        run "$method" bw "" "$sizes" -N
    done
}

# Ways to give the data to UCT, each as far as it goes: short is what fits into a work
# request, bcopy what fits into one of UCX's buffers
measure_switch() {
    local short="8:64:x2 80 96" bcopy="8:64:x2 80 128:1k:x2 2k:8k:x2"
    local zcopy="8:64:x2 80 128:1k:x2 2k:64k:x2"

    if [ "$amount" = quick ]; then
        short="8" bcopy="8:1k:x128" zcopy="8:1k:x128"
    fi
    run uct_put_imm lat short "$short" -D short -N
    run uct_put_imm lat bcopy "$bcopy" -D bcopy -N
    run uct_put_imm lat zcopy "$zcopy" -D zcopy -N
}

for measurement; do
    with_header=y
    "measure_$measurement"
done
[ $failures = 0 ]
