#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Instructions in user space alone, as callgrind counts them, of an operation at both sides:
# notified puts compared with the loop on libibverbs. In wimm-vm --exact --net single, where what
# has been posted has arrived at the first poll, so that no number of empty polls is counted.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/perftest.sh
. "$top/test/lib/perftest.sh"

[ "${WIMM_VM_EXACT-}" = y ] ||
    tap_skip_all "instructions are counted in the VM only: wimm-vm --exact --net single"
command -v valgrind >/dev/null || tap_skip_all "valgrind is not installed"

# A process of its own for libibverbs: UCX has a thread, with which glibc's write(), Soft-RoCE's
# doorbell, takes more instructions
raw_methods=(raw_write_imm raw_write_imm_mod)
ucx_methods=(uct_put_imm uct_am_short ucp_put_imm am)

# METHOD REFERENCE FACTOR: METHOD takes at most so much of what REFERENCE does. That is what is
# reached, with 2 % more for another compiler or libibverbs; the goals were 1.5 and 2.0.
cat >"$tmp/bounds" <<'LINES'
uct_put_imm raw_write_imm 1.39
ucp_put_imm raw_write_imm 1.82
LINES

# Long enough for what happens every so many operations only: rounds repeat
iters=1024
rounds=2
program=$perftest

# What perf_run.c has become at the hands of the compiler: a name that begins like that
loop=$("$build/libtool" --mode=execute nm "$program" | awk '$3 ~ /^perf_run_chunk($|[.])/ {print $3}')
[ "$(wc -w <<<"$loop")" = 1 ] ||
    { echo "Bail out! $program has no function perf_run_chunk of its own: '$loop'"; exit 1; }

# From libtool on, instead of the program
perftest=$build/libtool

# NAME METHOD...: counts in the loop only, so what comes before and behind need not be subtracted,
# and writes a profile of each time it has run: of all methods to warm up, then of all in each round.
# Symbols are resolved before, not at the first call.
profile() {
    local name=$1 files

    shift
    LD_BIND_NOW=1 run_perftest "$name" --mode=execute valgrind --tool=callgrind --quiet \
        --log-file="$tmp/$name.log" --compress-strings=no --compress-pos=no \
        --toggle-collect="$loop" --dump-after="$loop" --callgrind-out-file="$tmp/$name.profile" \
        "$program" -l -q -N --compare "$(tests_of lat "$@")" -w 64 -n $((iters * rounds)) \
        -r $rounds -o csv -
    ran "$name" "$name"
    files=("$tmp/$name.profile".*)
    tap_is "$name: profiles" ${#files[@]} $(($# * (rounds + 1)))
}

# FILE: instructions per operation, all and those that are not this program's own. A line of cost
# behind "calls=" is that of the function called. Left out is what all methods have alike: the loop,
# its bookkeeping, and the time; the methods' own functions stand for an application's.
per_operation() {
    awk -v ops=$((2 * iters)) '
        /^fl=/ {own = /\/tools\/perf\/(perf_run|perf_report|wimm_perftest)[.]c$/; next}
        /^fn=/ {time = /^fn=clock_gettime/; next}
        /^calls=/ {getline; next}
        /^[0-9]/ {all += $2; if (!own && !time) rest += $2}
        /^(summary|totals):/ {total = $2}
        END {
            if (all != total) printf "%d instructions of %d: ", all, total
            printf "%.1f %.1f\n", all / ops, rest / ops
        }' "$1"
}

# NAME METHOD...: into the table: METHOD ROUND ALL REST
tabulate() {
    local name=$1 round i method

    shift
    i=$#
    for ((round = 1; round <= rounds; ++round)); do
        for method; do
            i=$((i + 1))
            [ ! -s "$tmp/$name.profile.$i" ] ||
                echo "$method $round $(per_operation "$tmp/$name.profile.$i")"
        done
    done
}

check_repeats() { # METHOD
    tap_is "$1: rounds repeat" "$(awk -v method="$1" -v rounds=$rounds '
        $1 == method {
            ++count
            if (NF != 4 || $4 <= 0 || $3 < $4) print
            if (count == 1) {first = $4} else if ($4 / first > 1.002 || $4 / first < 0.998) print first, $4
        }
        END {if (count != rounds) print count + 0, "rounds"}' "$tmp/table")" ""
}

check_bounds() {
    local method reference factor result

    while read -r method reference factor; do
        result=$(awk -v a="$method" -v b="$reference" -v factor="$factor" '
            $1 == a {mean = $4}
            $1 == b {other = $4}
            END {
                if (!mean || !other) {print "no figures"; exit}
                printf "%s: %.1f of %.1f, ratio %.3f", (mean / other <= factor) ? "yes" : "no", mean, other,
                       mean / other
            }' "$tmp/table")
        tap_is "$method: at most $factor of $reference" "${result%%:*} ${result#*: }" \
            "yes ${result#*: }"
    done <"$tmp/bounds"
}

print_table() {
    tap_comment "user instructions of an operation of 8 bytes, sender and receiver; without those of" \
        "wimm_perftest's loop; ratios, without and with them, to ${raw_methods[0]} and ${raw_methods[1]}"
    tap_comment "$(awk -v b="${raw_methods[0]}" -v c="${raw_methods[1]}" '
        !($1 in all) {order[++count] = $1}
        {all[$1] = $3; rest[$1] = $4}
        END {
            if (!rest[b] || !rest[c]) exit
            for (i = 1; i <= count; ++i) {
                m = order[i]
                printf "%-18s %8.1f %8.1f   %.3f (%.3f)   %.3f (%.3f)\n", m, all[m], rest[m], rest[m] / rest[b],
                       all[m] / all[b], rest[m] / rest[c], all[m] / all[c]
            }
        }' "$tmp/table")"
}

profile raw "${raw_methods[@]}"
profile ucx "${ucx_methods[@]}"
{
    tabulate raw "${raw_methods[@]}"
    tabulate ucx "${ucx_methods[@]}"
} >"$tmp/table"
print_table
for method in "${raw_methods[@]}" "${ucx_methods[@]}"; do
    check_repeats "$method"
done
check_bounds
tap_done
