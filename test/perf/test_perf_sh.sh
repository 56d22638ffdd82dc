#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# contrib/perf/perf.sh: its options, and that all that it makes is made. The figures are not
# looked at, and everything is measured a few times only.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"

perf=$top/contrib/perf/perf.sh
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
columns=method,variant,test,transport,device,size,iterations,rounds,window,endpoints,unit,mean

# refuses SENTENCE OPTION...: one line, status 2, and nothing is built or measured
refuses() {
    local sentence=$1 status=0

    shift
    timeout 20 "$perf" "$@" >"$out/stdout" 2>"$out/stderr" || status=$?
    tap_is "$*: status, and lines" \
        "$status, $(wc -l <"$out/stdout"), $(wc -l <"$out/stderr")" "2, 0, 1"
    tap_has "$*: says what is wrong" "$(cat "$out/stderr")" "$sentence"
}

refuses "unknown option '--fast'" --fast
refuses "unknown option '-q'" -q
refuses "there is no measurement 'size'" size
refuses "there is no measurement 'now'" --quick latency now
refuses "--output takes a folder" --output
refuses "--output takes a folder" --output=
refuses "cannot write to the folder '/dev/null/perf'" --output /dev/null/perf

for option in --help -h; do
    status=0
    timeout 20 "$perf" $option >"$out/stdout" 2>"$out/stderr" || status=$?
    tap_is "$option: status, and errors" "$status, $(wc -l <"$out/stderr")" "0, 0"
    tap_is "$option: the usage" "$(head -n 1 "$out/stdout")" \
        "usage: contrib/perf/perf.sh [OPTIONS] [MEASUREMENT...]"
done

# ---------------------------------------------------------------- a folder without results

status=0
"$perf" --plot --output "$out/none" latency >"$out/stdout" 2>"$out/stderr" || status=$?
tap_is "--plot without results: status" $status 1
tap_has "--plot without results: says so" "$(cat "$out/stderr")" "latency.csv: no results"
status=0
"$perf" --plot --output "$out/none" >"$out/stdout" 2>"$out/stderr" || status=$?
tap_is "--plot without any results: status, and lines" \
    "$status, $(wc -l <"$out/stdout"), $(wc -l <"$out/stderr")" "1, 0, 1"
tap_has "--plot without any results: says so" "$(cat "$out/stderr")" \
    "there are no results in $(cd "$out" && pwd -P)/none"

# ---------------------------------------------------------------- all of it

# shellcheck disable=SC2317 # called by tap_run
files_are_there() { # FILE...
    local file status=0

    for file; do
        [ -s "$out/results/$file" ] || { echo "there is no $file, or it is empty"; status=1; }
    done
    return "$status"
}

# Each row has as many columns as the header, and a mean, none of them twice
# shellcheck disable=SC2317 # called by tap_run
rows_are_whole() { # FILE
    awk -F, 'NR == 1 {n = NF; for (i = 1; i <= NF; ++i) if ($i == "mean") mean = i}
             NF != n || (NR > 1 && !($mean > 0)) || seen[$0]++ {print; bad = 1}
             END {exit bad || NR < 2}' "$out/results/$1"
}

# What is left of an earlier run is not taken for a result
mkdir -p "$out/results"
for name in csv about; do
    echo old >"$out/results/latency.$name"
done

status=0
timeout 900 "$perf" --quick --output "$out/results" >"$out/stdout" 2>"$out/stderr" || status=$?
tap_is "--quick: status" $status 0
[ $status = 0 ] || tap_comment "$(tail -n 20 "$out/stdout" "$out/stderr")"
for name in latency window endpoints bandwidth switch; do
    tap_has "$name.csv: the header" "$(head -n 1 "$out/results/$name.csv")" "$columns,"
    tap_run "$name.csv: its rows" rows_are_whole $name.csv
    tap_is "$name.about: what it was measured on, and the command" \
        "$(sed '1s/.*, wimm [0-9]\+\.[0-9]\+\.[0-9].*/where/' "$out/results/$name.about")" \
        "where
contrib/perf/perf.sh --quick"
done
tap_is "ratio.csv: the header" "$(head -n 1 "$out/results/ratio.csv")" method,reference,size,ratio
tap_has "ratio.csv: one of the method to itself" "$(cat "$out/results/ratio.csv")" \
    put_fence_am,put_fence_am,8,1
tap_run "overhead.csv: both notified puts, at both sizes" \
    sh -c "test \$(grep -c '^uc[tp]_put_imm,raw_write_imm,' '$out/results/overhead.csv') = 4"
for name in latency ratio overhead window endpoints memory bandwidth switch; do
    tap_run "plots of $name" files_are_there $name.png $name.svg
    tap_is "$name.png is one" "$(od -An -c -N 4 "$out/results/$name.png" | tr -d ' ')" '211PNG'
    tap_run "$name.svg is complete" grep -q '^</svg>$' "$out/results/$name.svg"
done
tap_run "nothing else is left" sh -c "! ls -A '$out/results' | grep -E '^\.|tmp'"

tap_run "the table is there" files_are_there table.md
tap_is "it comes last on stdout" \
    "$(tail -n "$(wc -l <"$out/results/table.md")" "$out/stdout")" "$(cat "$out/results/table.md")"
tap_has "it has sizes" "$(cat "$out/results/table.md")" "| method | transport | 8 B | 1 KiB |"
tap_has "it says how it was made" "$(cat "$out/results/table.md")" "perf.sh --quick"
tap_has "it says what it was measured on" "$(tr '\n' ' ' <"$out/results/table.md")" \
    "$(head -n 1 "$out/results/latency.about"). "
# shellcheck disable=SC2016 # Markdown's backticks
tap_is "its rows" "$(grep -c -E '^\| `[a-z_]+` \| [a-z_]+ \| [0-9.]+ \([0-9.]+\) \|' \
    "$out/results/table.md")" 4

# ---------------------------------------------------------------- the same plots again

rm "$out/results/ratio.svg"
tap_run "--plot" "$perf" --plot --output "$out/results"
tap_run "--plot: makes the plots" files_are_there ratio.svg table.md

# Each of them is about its own results, wherever and whenever the others were measured
printf '%s\n' "another machine" "another command" >"$out/results/latency.about"
tap_run "--plot of two" "$perf" --plot --output "$out/results" latency window
for name in latency ratio overhead; do
    tap_has "$name.svg: what it was measured on" "$(cat "$out/results/$name.svg")" "another machine"
done
tap_run "window.svg: what it was measured on" \
    grep -q -F "$(head -n 1 "$out/results/window.about")" "$out/results/window.svg"
tap_has "the table: what it was measured on" "$(cat "$out/results/table.md")" "another machine."
# shellcheck disable=SC2016 # Markdown's backticks
tap_has "the table: the command" "$(cat "$out/results/table.md")" 'Made by `another command`.'
"$perf" --plot --output "$out/results" window >"$out/stdout" 2>&1
tap_is "--plot of another one: no table" "$(grep -c '^|' "$out/stdout")" 0
rm "$out/results/latency.about"
tap_run "--plot of results that came alone" "$perf" --plot --output "$out/results" latency
tap_is "the table: no command" "$(grep -c 'Made by' "$out/results/table.md")" 0

# With a part of them
rm "$out/results"/{latency,switch}.csv "$out/results"/window.svg
tap_run "--plot of those that are there" "$perf" --plot --output "$out/results"
tap_run "--plot of those that are there: makes the plots" files_are_there window.svg
status=0
"$perf" --plot --output "$out/results" window switch >"$out/stdout" 2>"$out/stderr" || status=$?
tap_is "--plot of one that is not: status" $status 1
tap_has "--plot of one that is not: says so" "$(cat "$out/stderr")" "switch.csv: no results"

# ---------------------------------------------------------------- what the documents show

drawn() { # FILE: but for the version of gnuplot
    grep -v 'Produced by GNUPLOT' "$1" | cksum
}

cp -r "$top/docs/perf" "$out/docs"
rm -f "$out/docs/table.md" "$out/docs"/*.svg
tap_run "--plot of docs/perf" "$perf" --plot --output "$out/docs"
tap_run "docs/perf: the table is that of the results" cmp "$out/docs/table.md" "$top/docs/perf/table.md"
tap_is "README has this table" \
    "$(sed -n '/^<!-- docs.perf.table.md -->$/,/^<!-- end -->$/p' "$top/README.md" | sed '1d;$d')" \
    "$(cat "$top/docs/perf/table.md")"
for plot in "$top"/docs/perf/*.svg; do
    plot=${plot##*/}
    tap_is "docs/perf/$plot is that of the results" "$(drawn "$out/docs/$plot")" \
        "$(drawn "$top/docs/perf/$plot")"
done
while read -r plot; do
    tap_run "$plot, which is shown, is there" test -s "$top/docs/perf/$plot"
done < <(sed -n 's/^!\[.*](\(docs\/\)\{0,1\}perf\/\(.*\.svg\))$/\2/p' "$top/README.md" "$top/docs/performance.md")
tap_done
