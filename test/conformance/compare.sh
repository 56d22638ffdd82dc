#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# What a run of UCX's UCT tests shows: compare.sh TRANSPORT LOG [REFERENCE [EXPECTED]]. Prints a table of the suites,
# "ok" for each test that passed, "not ok" for each that should have had another result. REFERENCE are the results of
# rc_verbs, EXPECTED the explained exceptions; default: rc_verbs.txt and expected.txt here.
#     compare.sh --results TRANSPORT LOG     prints the results: this is how rc_verbs.txt was made

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"

results() { # TRANSPORT LOG
    awk -v transport="$1" -f "$here/results.awk" "$2"
}

if [ "${1-}" = --results ]; then
    if [ $# != 3 ] || [ ! -r "$3" ]; then
        echo "usage: compare.sh --results TRANSPORT LOG" >&2
        exit 2
    fi
    results "$2" "$3"
    exit
fi

transport=${1-} log=${2-} reference=${3-$here/rc_verbs.txt} expected=${4-$here/expected.txt}
for file in "$log" "$reference" "$expected"; do
    [ -r "$file" ] || { echo "Bail out! compare.sh cannot read '$file'"; exit 2; }
done

# NAME: the beginning of what the test said
words() {
    awk -v name="$transport/$1" '/\[ RUN      \] /           {on = index($0, "] " name " ")}
                                 on && count++ < 15
                                 on && /\([0-9]+ ms\)$/ {exit}' "$log"
}

while IFS=$'\t' read -r verdict name why; do
    case $verdict in
    ok)       tap_ok "$transport: $name" ;;
    "not ok") tap_not_ok "$transport: $name: $why" "$(words "$name")" ;;
    *)        printf '%s\n' "$verdict" ;;
    esac
done < <(results "$transport" "$log" | awk -f "$here/compare.awk" "$expected" "$reference" -)
[ "$tap_failures" = 0 ] || tap_comment "the whole output: $log"
tap_done
