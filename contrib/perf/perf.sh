#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# One command that compares ways to notify a peer: builds, measures with
# wimm_perftest, and writes CSV, plots and a table.

set -u
# shellcheck source=contrib/common.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../common.sh" || exit 1

perf=$WIMM_TOP/contrib/perf
build=$WIMM_TOP/build
measurements=(latency window endpoints bandwidth switch)

usage() {
    cat <<END
usage: contrib/perf/perf.sh [OPTIONS] [MEASUREMENT...]

Installs what is missing (apt, as root or through sudo; gnuplot is part of it),
builds wimm in build/, and measures with wimm_perftest:

  latency    all methods over size; ratios of them come from it, too
  window     a stream of small operations over the number of those in flight
  endpoints  the same over the number of endpoints, and the memory of each
  bandwidth  streams of large operations
  switch     notified puts of UCT by short, bcopy and zcopy, over size

all of them, or those that are named. For each there are a CSV file, what it was
measured on and the command (.about), and plots (PNG and SVG) in the output folder, and
for the latency the table table.md, which comes last on stdout, too.

With an RDMA device that has an active port it measures time, in two processes.
Otherwise it counts guest instructions, user and kernel, in a VM with Soft-RoCE, with
both sides in one process: that repeats exactly, and says nothing about the
microseconds of a device. WIMM_FORCE_VM=y does so in any case. All of it takes about
20 minutes then.

Options
  --quick       a few methods, sizes and operations: whether it works
  --output DIR  where the files go (build/perf)
  --plot        measure nothing: only plot what the output folder has, or what is named
  --help        this text

The exit status is 0 if all was measured and plotted, 1 if something was not, which is
named, and 2 for a wrong option.
END
}

wrong_option() {
    printf 'perf.sh: %s (see --help)\n' "$*" >&2
    exit 2
}

amount=full
output=$build/perf
plot_only=no
chosen=()
command=contrib/perf/perf.sh # Without where the files go
while [ $# -gt 0 ]; do
    case $1 in
    --quick)    amount=quick
                command+=" $1" ;;
    --plot)     plot_only=yes ;;
    --output)   [ -n "${2-}" ] || wrong_option "--output takes a folder"
                output=$2
                shift ;;
    --output=*) output=${1#*=}
                [ -n "$output" ] || wrong_option "--output takes a folder" ;;
    --help|-h)  usage; exit 0 ;;
    -*)         wrong_option "unknown option '$1'" ;;
    *)          [[ " ${measurements[*]} " = *" $1 "* ]] ||
                    wrong_option "there is no measurement '$1'"
                chosen+=("$1")
                command+=" $1" ;;
    esac
    shift
done
if ! mkdir -p "$output" 2>/dev/null || [ ! -w "$output" ]; then
    wrong_option "cannot write to the folder '$output'"
fi
output=$(cd "$output" && pwd -P)
if [ ${#chosen[@]} = 0 ]; then
    for name in "${measurements[@]}"; do
        [ $plot_only = yes ] && [ ! -f "$output/$name.csv" ] || chosen+=("$name")
    done
    [ ${#chosen[@]} -gt 0 ] || die "there are no results in $output"
fi
raw=$output/.raw
trap 'rm -f "$raw"' EXIT
failed=()
has_table=no
unknown="No record of what it was measured on"
# The caller's settings are for the caller's programs
unset "${!UCX_@}"

# What of an earlier run would be taken for this one's
forget() { # MEASUREMENT
    rm -f "$output/$1".{csv,about,png,svg}
    [ "$1" != latency ] ||
        rm -f "$output"/{ratio,overhead}.{csv,png,svg} "$output/table.md"
    [ "$1" != endpoints ] || rm -f "$output"/memory.{png,svg}
}

# measure MEASUREMENT...: in one VM, or on the device. What came before a failure stays.
measure() {
    local steps=("$perf/perf-steps.sh" "$build" "$amount" "$@") name

    if wimm_need_vm; then
        wimm_job "$WIMM_TOP/contrib/vm/wimm-vm" --exact --timeout 2400 \
            --memory "${WIMM_VM_MEMORY:-4096}" -- "${steps[@]}" >"$raw"
    else
        wimm_job timeout -k 10 2400 "${steps[@]}" >"$raw"
    fi || failed+=("measuring $*")
    for name; do
        sed -n "s/^$name,//p" "$raw" >"$output/$name.csv"
        if [ -s "$output/$name.csv" ]; then
            { describe "$output/$name.csv"; echo "$command"; } >"$output/$name.about"
        else
            rm -f "$output/$name.csv"
        fi
    done
}

# What it was measured on, for the table and below the titles of plots
describe() {
    local version commit unit device

    version=$(sed -n 's/^PACKAGE_VERSION = //p' "$build/Makefile")
    commit=$(git -C "$WIMM_TOP" -c safe.directory="$WIMM_TOP" describe --always --dirty \
                 --exclude='*' 2>/dev/null)
    if [ "$(field unit "$1")" = kinstr ]; then
        device="Soft-RoCE in a VM"
        unit="guest instructions (user + kernel), both sides in one process"
    else
        device=$(field device "$1")
        [ ! -e "/sys/class/infiniband/${device%:*}/parent" ] ||
            device="Soft-RoCE, $device"
        unit="time, two processes"
    fi
    echo "$device: $unit, wimm $version${commit:+ ($commit)}"
}

# about MEASUREMENT LINE: 1, what it was measured on; 2, the command. Nothing if the CSV came alone.
about() {
    sed -n "$2p" "$output/$1.about" 2>/dev/null
}

# field NAME FILE: of the first result
field() {
    awk -F, -v name="$1" '
        NR == 1 {for (i = 1; i <= NF; ++i) if ($i == name) column = i}
        NR == 2 {print $column; exit}' "$2"
}

# plot NAME CSV MEASUREMENT: with the script that has its name, of results or what came of them
plot() {
    local name=$1 csv=$2.csv where terminal ending

    where=$(about "$3" 1)
    for ending in png svg; do
        terminal="svg size 1100,600 dynamic enhanced font 'DejaVu Sans,14'"
        [ $ending = svg ] ||
            terminal="pngcairo size 1100,600 enhanced font 'DejaVu Sans,11'"
        if ! (cd "$output" && gnuplot \
                -e "set terminal $terminal background rgb 'white'" \
                -e "set output '$name.$ending.tmp'; set loadpath '$perf'" \
                -e "csv = '$csv'; unit = '$(field unit "$output/$csv")'" \
                -e "where = '${where:-$unknown}'" "$perf/$name.gp") 2>"$raw" ||
           [ ! -s "$output/$name.$ending.tmp" ]; then
            cat "$raw" >&2
            rm -f "$output/$name.$ending.tmp"
            failed+=("the plot $name.$ending")
            continue
        fi
        mv "$output/$name.$ending.tmp" "$output/$name.$ending"
    done
}

# Ratios of what latency.csv has, to another method at the same size
ratios() { # REFERENCE METHOD-PATTERN
    awk -F, -v OFS=, -v reference="$1" -v pattern="$2" '
        NR == 1 {
            for (i = 1; i <= NF; ++i) column[$i] = i
            print "method", "reference", "size", "ratio"
            next
        }
        {
            size = $column["size"]; mean = $column["mean"]
            if ($1 == reference) base[size] = mean
            if ($1 ~ pattern) {
                ++n; method[n] = $1; at[n] = size; cost[n] = mean
            }
        }
        END {
            for (i = 1; i <= n; ++i)
                if (at[i] in base)
                    print method[i], reference, at[i], cost[i] / base[at[i]]
        }' "$output/latency.csv"
}

# Rows: methods; columns: sizes
table() {
    local unit="µs" what made_by

    [ "$(field unit "$output/latency.csv")" != kinstr ] || unit="thousand instructions"
    what=$(about latency 1)
    made_by=$(about latency 2)
    fmt -w 88 <<END
What one notification costs, one direction, mean, in $unit; in parentheses the ratio to
\`put_fence_am\` of the same size. ${what:-$unknown}.
END
    printf '%s\n' "${made_by:+Made by \`$made_by\`.
}"
    awk -F, '
        function named(size) {
            if (size >= 1048576) return size / 1048576 " MiB"
            return (size >= 1024) ? size / 1024 " KiB" : size " B"
        }
        NR == 1 {for (i = 1; i <= NF; ++i) column[$i] = i; next}
        {
            size = $column["size"]
            if (!($1 in tl)) order[++n] = $1
            tl[$1] = $column["transport"]
            mean[$1, size] = $column["mean"]
            seen[size] = 1
        }
        END {
            num = split("8 64 1024 4096 65536 1048576", sizes, " ")
            head = "| method | transport |"; line = "|---|---|"
            for (i = 1; i <= num; ++i)
                if (sizes[i] in seen) {
                    head = head " " named(sizes[i]) " |"; line = line "---:|"
                }
            print head; print line
            for (m = 1; m <= n; ++m) {
                row = "| `" order[m] "` | " tl[order[m]] " |"
                for (i = 1; i <= num; ++i) {
                    if (!(sizes[i] in seen)) continue
                    key = order[m] SUBSEP sizes[i]
                    base = mean["put_fence_am", sizes[i]]
                    if (!(key in mean) || mean[key] == "") row = row " |"
                    else if (base > 0)
                        row = row sprintf(" %.2f (%.3f) |", mean[key], mean[key] / base)
                    else row = row sprintf(" %.2f |", mean[key])
                }
                print row
            }
        }' "$output/latency.csv"
}

# Plots, and what is calculated for them, of one measurement
present() {
    if [ ! -f "$output/$1.csv" ] || [ "$(wc -l <"$output/$1.csv")" -lt 2 ]; then
        failed+=("$1.csv: no results")
        return
    fi
    plot "$1" "$1" "$1"
    case $1 in
    latency)
        ratios put_fence_am . >"$output/ratio.csv"
        ratios raw_write_imm '^uc[tp]_put_imm$' >"$output/overhead.csv"
        for name in ratio overhead; do
            plot $name $name latency
        done
        table >"$output/table.md"
        has_table=yes ;;
    endpoints)
        plot memory endpoints endpoints ;;
    esac
}

start=$SECONDS
cd "$WIMM_TOP" || exit 1
if [ $plot_only = no ]; then
    wimm_lock
    # Not as a job: sudo may have to ask for a password
    "$WIMM_TOP/contrib/setup.sh" --no-tests --perf || exit 1
    wimm_job wimm_build "$build" || die "the build failed"
    wimm_unlock
fi
command -v gnuplot >/dev/null ||
    die "there is no gnuplot: install Debian's package gnuplot-nox, or run" \
        "contrib/setup.sh --perf"

if [ $plot_only = no ]; then
    for name in "${chosen[@]}"; do
        forget "$name"
    done
    if wimm_need_vm; then
        say "no RDMA device here: counting instructions in a VM with Soft-RoCE"
    else
        say "measuring time on the RDMA device $(wimm_host_device)"
    fi
    if [ $amount = quick ]; then
        measure "${chosen[@]}"
    else
        # Each in a VM of its own: what goes wrong in one does not touch the others
        for name in "${chosen[@]}"; do
            say "$name"
            measure "$name"
        done
    fi
fi

say "plotting"
for name in "${chosen[@]}"; do
    present "$name"
done
say "$((SECONDS - start)) s, results are in $output"
if [ $has_table = yes ]; then
    echo
    cat "$output/table.md"
fi
if [ ${#failed[@]} -gt 0 ]; then
    printf 'perf.sh: failed: %s\n' "${failed[@]}" >&2
    exit 1
fi
