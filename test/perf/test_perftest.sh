#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# wimm_perftest. Without an argument what needs no device: help, wrong arguments, no device. With
# "device" every test in every mode, what is written of it, and what happens when a side is
# missing, killed, or no wimm_perftest; with the two devices of wimm-vm --net pair across the
# wire, and only parts of it if they are named (killed, for instance).

# Parts are called by their names
# shellcheck disable=SC2317
set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/perftest.sh
. "$top/test/lib/perftest.sh"

# What there is to measure: transport, and work requests that one operation takes at least
methods=(raw_write_imm raw_write_imm_mod raw_write uct_put_imm uct_am_short ucp_put_imm
         put_fence_am put_flush_am put_flag put_atomic am put)
cat >"$tmp/methods" <<'LINES'
raw_write_imm     verbs    1
raw_write_imm_mod verbs    1
raw_write         verbs    1
uct_put_imm       wimm     1
uct_am_short      rc_verbs 1
ucp_put_imm       wimm     1
put_fence_am      rc_verbs 2
put_flush_am      rc_verbs 2
put_flag          rc_verbs 2
put_atomic        rc_verbs 2
am                rc_verbs 1
put               rc_verbs 1
LINES

columns=test,transport,device,size,iterations,rounds,window,endpoints,unit,mean,p50,p90,p99,p99.9
columns+=,bandwidth_mb_s,rate_op_s,ratio,work_requests,doorbells,receives,send_completions
columns+=,receive_completions,packets,control_messages,rnr_naks,server_cpu_us,endpoint_bytes

# ---------------------------------------------------------------- without a device

test_help() {
    run_perftest help -h
    tap_is "-h: exit status" "$(status_of help)" 0
    tap_is "-h: the usage" "$(head -n 1 "$tmp/help.out" | cut -d ' ' -f 1-2)" "usage: wimm_perftest"
    tap_is "-h: nothing on stderr" "$(cat "$tmp/help.err")" ""
    tap_is "-h: fits in 80 columns" "$(grep -E '^.{81}' "$tmp/help.out")" ""
    tap_is "-h: lists all tests" \
        "$(sed -n '/^A TEST is/,$s/^  \([a-z_]*\)  *.*/\1/p' "$tmp/help.out" | xargs)" "${methods[*]}"
    tap_is "-h: tells all options" \
        "$(grep -o -E '^  (-[a-zA-Z], )?--?[a-zA-Z-]+' "$tmp/help.out" | tr -d ' ' | tr ',' '\n' |
           LC_ALL=C sort -u | xargs)" \
        "--compare --fork --rounds --same-tls -D -N -T -V -W -c -d -e -h -l -n -o -p -q -r -s -t -w -x"
    run_perftest help2 --help
    tap_run "--help: the same" cmp "$tmp/help.out" "$tmp/help2.out"
    run_perftest version -V
    tap_is "-V: exit status" "$(status_of version)" 0
    tap_run "-V: the version" grep -q -x -E 'wimm_perftest [0-9]+\.[0-9]+\.[0-9]+.*' "$tmp/version.out"
}

# SENTENCE OPTION...: refused with status 2
refuses() {
    run_perftest wrong "${@:2}"
    fails_with wrong "'${*:2}'" 2 "$1"
    [ ! -s "$tmp/wrong.out" ] || tap_not_ok "'${*:2}': nothing on stdout" "$(cat "$tmp/wrong.out")"
}

test_wrong_arguments() {
    local options sentence too_many

    # OPTIONS | what the sentence has
    while IFS='|' read -r options sentence; do
        # shellcheck disable=SC2086
        refuses "${sentence# }" $options
    done <<'LINES'
-z                                | -z is no option
--nothing                         | --nothing is no option
--fork=3                          | --fork takes no value
-l -n                             | -n takes a value
-l -n 0                           | -n takes a number from 1 to 1000000000, not '0'
-l -n 5x                          | not '5x'
-l -n -5                          | not '-5'
-l -n 99999999999999999999999     | not '99999999999999999999999'
-l -w -1                          | -w takes a number from 0 to
-l -W 0                           | -W takes a number from 1 to 255, not '0'
-l -W 256                         | -W takes a number from 1 to 255, not '256'
-l -r 101                         | -r takes a number from 1 to 100, not '101'
-l -n 5 -r 6                      | fewer operations (-n 5) than rounds (-r 6)
-l -e 1025                        | -e takes a number from 1 to 1024, not '1025'
-l -e 4 -t put                    | put polls for its last operation: -e has to be 1
-l -e 4 -t raw_write_mr           | raw_write polls for its last operation
-l -e 2 --compare am,put_flag     | put_flag polls for its last operation
-l -e 2 -t put_atomic_bw          | put_atomic polls for its last operation
-p 0                              | -p takes a number from 1 to 65535, not '0'
-p 65536                          | not '65536'
-T 0                              | -T takes seconds, more than 0
-T 1e3                            | not '1e3'
-T nan                            | not 'nan'
-l -s 8:4                         | the smaller size first, not '8:4'
-l -s 8:64:x1                     | -s takes SIZE, FROM:TO, FROM:TO:xN
-l -s 8:64:+0                     | not '8:64:+0'
-l -s 2g                          | sizes up to 1g, not '2g'
-l -s 8kb                         | not '8kb'
-l -s -1                          | not '-1'
-l -s 0 -t put                    | put takes sizes from 1, not 0
-l -s 0 -t put                    | put takes sizes from 1, not 0
-l -t nothing                     | there is no test 'nothing': -h lists the tests
-l -t put_imm_lat                 | there is no test 'put_imm_lat'
-l -t ucp_put_imm_rate            | there is no test 'ucp_put_imm_rate'
-l -t put,am                      | -t takes one test, not 'put,am'
-l --compare put                  | --compare takes from 2 to 16 tests, not 1
-l --compare put,,am              | there is no test ''
-l --compare put_lat,am_bw        | 'am_bw' is _bw and the first one is _lat
-l --compare put,am -t put        | exclude each other
-l --fork                         | -l and --fork exclude each other
-l -x wimm --same-tls             | -x and --same-tls exclude each other
-l -x RC                          | -x takes the name of a transport of UCX like rc_verbs, not 'RC'
-l -x a,b                         | not 'a,b'
-l -D fast                        | -D takes short, bcopy or zcopy, not 'fast'
-l -c 100000                      | not '100000'
-l -c 1-0                         | not '1-0'
-l -c 0,                          | not '0,'
-l -o xml FILE                    | -o takes csv or json, and then a file, not 'xml'
-l -o csv                         | -o csv takes a file, too
-l -o json -q                     | -o json takes a file, too
-l host                           | -l has both sides here, and takes no HOST 'host'
--fork host                       | --fork has both sides here
one two                           | one HOST only, not 'one' and 'two'
-t put                            | -t is the client's: give it there
-n 5                              | -n is the client's
-o csv FILE                       | -o is the client's
-l -d /dev                        | -d takes a device like rxe0:1, not '/dev'
-l -d rxe0:                       | not 'rxe0:'
-l -d no_such_device              | there is no port 1 of an RDMA device 'no_such_device'
-l -d no_such_device:7            | there is no port 7 of an RDMA device 'no_such_device'
LINES
    refuses "HOST is empty" ''
    refuses "-d takes a device" -l -d ''
    refuses "-s takes SIZE" -l -s ''
    refuses "not ''" -l -x ''
    refuses "-o csv takes a file" -l -o csv ''
    too_many=$(tests_of lat "${methods[@]}"),$(tests_of lat "${methods[@]}")
    refuses "from 2 to 16 tests, not 24" -l --compare "$too_many"
}

test_no_device() {
    local mode options

    if has_device; then
        tap_skip "no device" "this machine has one"
        return
    fi

    mkdir "$tmp/none"
    echo before >"$tmp/none/results"
    for mode in -l --fork localhost ''; do
        options=()
        [ -z "$mode" ] || options=("$mode" -o csv "$tmp/none/results")
        run_perftest none "${options[@]}"
        fails_with none "no device, '$mode'" 1 "no RDMA device with an active port on this machine"
    done
    tap_is "no device: the file of results is as it was" "$(cat "$tmp/none/results")" before
    tap_is "no device: no other file" "$(ls "$tmp/none")" results
}

# DIR: of a script that has ended
nothing_is_left() {
    local tmp=$1

    [ -n "$tmp" ] && [ ! -e "$tmp" ] && no_processes
}

# SIGNAL PID: a script that uses perftest.sh ends by it (0: its group, as timeout does), or by itself,
# when one process is running and another one may be about to start
script_ends() {
    # No pipe: what is left would keep it open
    # shellcheck disable=SC2016 # that shell's
    timeout 60 bash -c '
        top=$0
        . "$top/test/lib/tap.sh" && . "$top/test/lib/build_tree.sh" && . "$top/test/lib/perftest.sh"
        perftest=sleep
        runs_it() {
            [ "/proc/$(cat "$tmp/one.pid" 2>/dev/null)/exe" -ef "$(type -P sleep)" ]
        }
        start one 50
        tap_until 30 runs_it || exit 1
        start two 50
        echo "$tmp"
        [ $# = 0 ] || kill -s "$1" "${2:-$$}"' "$top" "$@" >"$tmp/dir"
    tap_run "script ends (${*:-by itself}): nothing of it is left" tap_until 5 nothing_is_left "$(cat "$tmp/dir")"
}

test_scripts_end() {
    script_ends
    script_ends TERM
    script_ends INT
    script_ends TERM 0
}

# ---------------------------------------------------------------- results

# NAME FILE ITERATIONS SIZES TESTS [TRANSPORT [WINDOW [ENDPOINTS]]]: the lines of a CSV, in their
# order, with what must be true of them on any machine. TRANSPORT is that of stock methods.
check_csv() {
    local awk_options=(-v iters="$3" -v sizes="$4" -v tests="$5" -v stock="${6:-rc_verbs}"
                       -v window="${7:-64}" -v endpoints="${8:-1}" -v columns="$columns")

    tap_is "$1" "$(awk "${awk_options[@]}" '
        function wrong(what) {
            printf "line %d: %s\n%s\n", FNR, what, $0
        }
        function f(name) {
            return $column[name]
        }
        FNR == NR {
            tl[$1] = ($2 == "rc_verbs") ? stock : $2
            requests[$1] = $3
            next
        }
        FNR == 1 {
            if ($0 != columns) wrong("the header is not " columns)
            for (i = 1; i <= NF; ++i) column[$i] = i
            num_tests = split(tests, test, ",")
            num_sizes = split(sizes, size, " ")
            next
        }
        {
            index_ = (FNR - 2) % num_tests + 1
            method = f("test")
            kind = substr(method, match(method, /_(lat|mr|bw)$/) + 1)
            sub(/_(lat|mr|bw)$/, "", method)
            if (index_ == 1) first = f("mean")

            if (f("test") != test[index_]) wrong("is not of " test[index_])
            if (f("size") != size[int((FNR - 2) / num_tests) + 1]) wrong("another size")
            if (f("transport") != tl[method]) wrong("transport is not " tl[method])
            if (f("iterations") != iters) wrong("iterations are not " iters)
            if (f("window") != ((kind == "lat") ? "" : window)) wrong("another window")
            if (f("endpoints") != endpoints) wrong("another number of endpoints")
            if ((endpoints > 1) != (f("endpoint_bytes") + 0 > 0)) wrong("memory of endpoints")
            if (!(f("mean") > 0)) wrong("no mean")
            if (!(f("p50") > 0 && f("p50") + 0 <= f("p90") + 0 && f("p90") + 0 <= f("p99") + 0 &&
                  f("p99") + 0 <= f("p99.9") + 0))
                wrong("percentiles do not rise")
            if (f("unit") == "usec") {
                error = f("rate_op_s") * f("mean") / 1e6 - 1
                if (error < -1e-6 || error > 1e-6) wrong("rate is not one in a mean")
                error = f("bandwidth_mb_s") * 1048576 - f("rate_op_s") * f("size")
                if (error < -1 || error > 1) wrong("bandwidth is not that of the rate")
            }
            if ((num_tests == 1) != (f("ratio") == "")) wrong("ratio")
            error = (num_tests == 1) ? 0 : f("ratio") * first / f("mean") - 1
            if (error < -1e-6 || error > 1e-6) wrong("ratio is not that of means")
            if (index_ == 1 && num_tests > 1 && f("ratio") != 1) wrong("the ratio of the first")
            if (f("work_requests") + 1e-6 < requests[method]) wrong("too few work requests")
            if (f("doorbells") > f("work_requests")) wrong("more doorbells than work requests")
            if (f("rnr_naks") + 0 > 0) wrong("RNR NAKs")
            if (method == "put" && f("receive_completions") != 0) wrong("who has notified?")
        }
        END {
            if (num_tests == 0 || FNR != 1 + num_tests * num_sizes)
                printf "%d lines, not %d and a header\n", FNR, num_tests * num_sizes
        }' "$tmp/methods" FS=, "$2" 2>&1)" ""
}

# NAME WHAT ITERATIONS SIZES TESTS ...: as for check_csv; of what has written CSV to stdout
ran_csv() {
    ran "$1" "$2"
    check_csv "$2: results" "$tmp/$1.out" "${@:3}"
}

check_json() { # FILE TESTS
    if ! command -v python3 >/dev/null; then
        tap_is "JSON: lines of results" "$(grep -c '^    {"test": ".*}' "$1")" "$2"
        return
    fi
    tap_run "JSON: parsed, with all fields of CSV" python3 -c '
import json, sys
data = json.load(open(sys.argv[1]))
assert data["tool"] == "wimm_perftest" and data["version"], "tool, version"
assert data["unit"] in ("usec", "kinstr"), "unit"
assert len(data["results"]) == int(sys.argv[2]), "number of results"
for row in data["results"]:
    assert list(row) == sys.argv[3].split(","), "fields"
    assert isinstance(row["mean"], float) and row["mean"] > 0, "mean"
    assert row["window"] is None and isinstance(row["size"], int), "types"
' "$1" "$2" "$columns"
}

# ---------------------------------------------------------------- on a device

# The sides of two processes, and "HOST" of the server

# Most of the time is spent on waiting for the kernel to create and destroy what is measured, so
# three of these run at the same time; not more, as each of them polls
test_methods() {
    local kind lat any_size=()

    lat=$(tests_of lat "${methods[@]}")
    for kind in "${methods[@]}"; do
        [ "$kind" = uct_am_short ] || any_size+=("$kind")
    done
    start local_lat -l -q -n 40 --compare "$lat" -o csv -
    start local_mr -l -q -n 40 --compare "$(tests_of mr "${methods[@]}")" -o csv -
    start local_bw -l -q -n 20 --compare "$(tests_of bw "${any_size[@]}")" -o csv -
    wait
    ran_csv local_lat "-l, latencies" 40 8 "$lat"
    ran_csv local_mr "-l, rates" 40 8 "$(tests_of mr "${methods[@]}")"
    ran_csv local_bw "-l, bandwidths" 20 65536 "$(tests_of bw "${any_size[@]}")"

    mkdir "$tmp/new"
    ln -s ../client.csv "$tmp/new/link"
    start_server server "${server_device[@]}"
    run_perftest client "${client_device[@]}" -p "$port" -n 20 --compare "$lat" -o csv "$tmp/new/link" 127.0.0.1
    wait
    ran server "server"
    ran client "client"
    check_csv "client: results" "$tmp/client.csv" 20 8 "$lat"
    tap_run "client: a link to what was no file is still one" test -L "$tmp/new/link"
    tap_is "client: the table has the tests in order" \
        "$(sed -n 's/^| \([a-z_]*\)_lat  *| [a-z].*/\1/p' "$tmp/client.out" | xargs)" "${methods[*]}"
    tap_is "client: the first ratio of the table" \
        "$(sed -n 's/^| raw_write_imm_lat .*| *\([0-9.]*\) |$/\1/p' "$tmp/client.out" | head -n 1)" 1.000
    tap_run "client: the table of counts" grep -q '^per operation, both sides:$' "$tmp/client.out"

    echo before >"$tmp/results"
    chmod 640 "$tmp/results"
    ln -s results "$tmp/link"
    run_perftest fork --fork -n 20 --compare put_flush_am,raw_write_imm,ucp_put_imm -o csv "$tmp/link"
    ran fork "--fork"
    check_csv "--fork: results, instead of what was in the file" "$tmp/results" 20 8 \
        put_flush_am_lat,raw_write_imm_lat,ucp_put_imm_lat
    tap_run "--fork: a table, too" grep -q '^| ucp_put_imm_lat  *| wimm ' "$tmp/fork.out"
    tap_run "--fork: a link to the file is still one" test -L "$tmp/link"
    tap_is "--fork: the mode of the file" "$(stat -c %a "$tmp/results")" 640
    tap_is "no other file" "$(cd "$tmp" && ls -d -- *.tmp.* 2>/dev/null)" ""
}

test_outputs() {
    local files=$tmp/outputs

    # UCX warns of a setting that nobody has read
    mkdir "$files"
    UCX_NOTHING=y run_perftest unused --fork -n 20 -t put -o json -
    tap_is "-o json -: exit status" "$(status_of unused)" 0
    tap_has "-o json -: UCX's messages on stderr" "$(messages unused)" UCX_NOTHING
    check_json "$tmp/unused.out" 1

    # One round, of less than a chunk: progress is by time, and the measured part is most of it
    run_perftest told -l -n 100 -s 1m -N -t raw_write_imm -o csv -
    tap_is "progress: exit status, messages" "$(status_of told), $(messages told)" "0, "
    if awk -F , 'NR == 2 {exit !($10 * $5 * 2 > 1.5e6)}' "$tmp/told.out"; then
        tap_run "progress: told within a run of seconds" grep -q -x '# [0-9]* % done' "$tmp/told.err"
    else
        tap_skip "progress: told within a run of seconds" "this machine is too fast"
    fi

    # A pipe that nobody reads from
    echo before >"$files/results"
    mkfifo "$tmp/pipe"
    exec 3<>"$tmp/pipe"
    exec 4>"$tmp/pipe" 3>&-
    tap_is "closed pipe: status" \
        "$("$perftest" -l -q -n 20 -t raw_write_imm -o csv "$files/results" 2>&1 >&4; echo $?)" 141
    exec 4>&-
    tap_is "closed pipe: the file of results is as it was" "$(cat "$files/results")" before
    tap_is "closed pipe: no other file" "$(ls "$files")" results
}

test_options() {
    local way most

    for way in short bcopy zcopy; do
        start "$way" -l -t uct_put_imm -n 20 -D "$way" -o csv -
    done
    wait
    start sizes -l -n 20 --compare uct_put_imm,raw_write_imm,uct_am_short -s 8:64:x8 -o json "$tmp/sizes.json"
    start range -l -n 20 --compare raw_write_imm_mod,uct_put_imm -s 8:64k:x8 -o csv -
    start empty -l -n 20 --compare ucp_put_imm,uct_put_imm,raw_write_imm -s 0:2k:+1k -o csv -
    wait
    start one -l -n 20 --compare ucp_put_imm_mr,raw_write_imm_mr -W 1 -o csv -
    start most -l -n 300 --compare ucp_put_imm_mr,raw_write_mr -W 255 -o csv -
    start eps -l -n 20 --compare uct_put_imm_mr,ucp_put_imm_mr,am_mr,raw_write_imm_mr,raw_write_imm_mod_mr -e 4 -o csv -
    wait
    start same -l -n 20 --compare put_fence_am,uct_am_short,ucp_put_imm --same-tls -o csv -
    start name -l -n 20 -t am -x wimm -c 0 -N
    start long -l -q -n 20 -t uct_put_imm -D short -s 64k
    start over -l -q -n 20 -t uct_am_short -s 64k
    start shm -l -n 20 -t put -x posix -o csv -
    wait
    run_perftest eps2 --fork -n 20 --compare uct_put_imm,ucp_put_imm -e 4 -r 2 -o csv -

    for way in short bcopy zcopy; do
        ran_csv "$way" "-D $way" 20 8 uct_put_imm_lat
    done
    tap_is "-D short of what is too long: status" "$(status_of long)" 1
    tap_has "-D short of what is too long: says so" "$(messages long)" "a short put takes at most"
    ran sizes "-o json"
    check_json "$tmp/sizes.json" 6
    ran_csv range "-s 8:64k:x8" 20 "8 64 512 4096 32768" raw_write_imm_mod_lat,uct_put_imm_lat
    ran_csv empty "-s 0:2k:+1k" 20 "0 1024 2048" ucp_put_imm_lat,uct_put_imm_lat,raw_write_imm_lat
    ran_csv one "-W 1" 20 8 ucp_put_imm_mr,raw_write_imm_mr rc_verbs 1
    ran_csv most "-W 255" 300 8 ucp_put_imm_mr,raw_write_mr rc_verbs 255
    ran_csv eps "-e 4" 20 8 "$(tests_of mr uct_put_imm ucp_put_imm am raw_write_imm raw_write_imm_mod)" rc_verbs 64 4
    ran_csv eps2 "--fork -e 4" 20 8 uct_put_imm_lat,ucp_put_imm_lat rc_verbs '' 4
    ran_csv same "--same-tls" 20 8 put_fence_am_lat,uct_am_short_lat,ucp_put_imm_lat wimm
    ran name "-x wimm"
    # What does without libibverbs is not known; nor which messages of stock UCX are flow control
    tap_is "-x posix: no counts" "$(tail -n 1 "$tmp/shm.out" | cut -d , -f 18-22,24)" ,,,,,
    tap_is "rc_verbs: no messages of flow control" "$(grep ^am_mr "$tmp/eps.out" | cut -d , -f 24)" ""
    tap_run "wimm: messages of flow control" test -n "$(grep ^ucp_put_imm_mr "$tmp/eps.out" | cut -d , -f 24)"
    tap_run "-x wimm: the table names the transport" grep -q '^| am_lat  *| wimm ' "$tmp/name.out"
    # The most that a short active message takes, as the sentence has it, and one byte more
    most=$(messages over | sed -n 's/.* takes at most \([0-9]*\) bytes .*/\1/p')
    start most_am -l -n 20 -N -t uct_am_short -s "$most"
    start over_am -l -n 20 -N -t uct_am_short -s $((most + 1))
    wait
    ran most_am "uct_am_short of $most bytes"
    fails_with over_am "uct_am_short of one byte more" 1 "takes at most $most bytes"
    tap_is "-N: no second table" "$(grep -c 'per operation' "$tmp/name.out")" 0
}

# ---------------------------------------------------------------- what can go wrong

has_begun() {
    grep -q '% done$' "$tmp/$1.err" || grep -q '^| ucp_put_imm_mr ' "$tmp/$1.out" || has_ended "$1"
}

# NAME: it begins to measure, and goes on
is_running() {
    tap_until 60 has_begun "$1" && ! has_ended "$1"
}

# NAME WHAT: ends within seconds by itself, with a sentence
ends_with_other() {
    tap_run "$2: ends" tap_until 30 has_ended "$1"
    fails_with "$1" "$2" 1 "the other side has ended"
}

# NAME: nothing if it has ended
pid_of() {
    has_ended "$1" || cat "$tmp/$1.pid"
}

# NAME: the server of --fork
child_of() {
    local pid

    pid=$(pid_of "$1")
    xargs <"/proc/$pid/task/$pid/children"
}

test_killed() {
    # Rounds, so that a slow machine soon says how far it is, and sizes, so that a fast one is not done
    local long=(-t ucp_put_imm_mr -n 100000 -r 100 -s 8:1m:+8 -w 1 -T 100)

    mkdir "$tmp/files"
    echo before >"$tmp/files/results"
    start_server server "${server_device[@]}"
    start client "${client_device[@]}" -p "$port" "${long[@]}" -o csv "$tmp/files/results" 127.0.0.1
    tap_run "two processes: in the middle" is_running client
    kill -9 "$(pid_of server)"
    ends_with_other client "server killed"
    start_server server2 "${server_device[@]}"
    start client2 "${client_device[@]}" -p "$port" "${long[@]}" 127.0.0.1
    tap_run "two processes again: in the middle" is_running client2
    kill -9 "$(pid_of client2)"
    ends_with_other server2 "client killed"
    tap_is "server killed: the file of results is as it was" "$(cat "$tmp/files/results")" before
    tap_is "server killed: no other file" "$(ls "$tmp/files")" results

    start forked --fork "${long[@]}" -o json "$tmp/files/results"
    tap_run "--fork: in the middle" is_running forked
    kill -9 "$(child_of forked)"
    ends_with_other forked "--fork, server killed"

    start forked --fork "${long[@]}" -o json "$tmp/files/results"
    tap_run "--fork again: in the middle" is_running forked
    tap_run "there is a temporary file now" test -e "$tmp/files/results.tmp.$(pid_of forked)"
    kill -TERM "$(pid_of forked)"
    tap_run "--fork, ended: ends" tap_until 30 has_ended forked
    tap_is "--fork, ended: by the signal" "$(status_of forked)" 143
    tap_is "--fork, ended: the file of results is as it was" "$(cat "$tmp/files/results")" before
    tap_is "--fork, ended: no other file" "$(ls "$tmp/files")" results
    tap_run "no process is left behind" tap_until 30 no_processes
}

# shellcheck disable=SC2016
test_wrong_peers() {
    local first nobody magic='\x02\x00\x50\x77'

    # NAME, and the sentence; what is sent is binary
    start_server letters "${server_device[@]}"
    nobody=$port
    head -c 4000 /dev/zero | tr '\0' x 2>/dev/null >"/dev/tcp/127.0.0.1/$port"
    start_server short "${server_device[@]}"
    printf '\x01' >"/dev/tcp/127.0.0.1/$port"
    start_server zeros "${server_device[@]}"
    { printf '%b' "$magic"; head -c 8000 /dev/zero; } 2>/dev/null >"/dev/tcp/127.0.0.1/$port"
    start_server ones "${server_device[@]}"
    { printf '%b' "$magic"; head -c 8000 /dev/zero | tr '\0' '\377'; } 2>/dev/null >"/dev/tcp/127.0.0.1/$port"
    start_server silent "${server_device[@]}" -T 1
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    # Its client is stopped in the middle of a stream that this server sees the end of only
    start_server blind "${server_device[@]}" -T 5
    start halts -p "$port" "${client_device[@]}" -n 10000000 -N -t raw_write_mr 127.0.0.1
    tap_run "stopped client: in the middle" is_running halts
    kill -STOP "$(pid_of halts)"
    start_server half "${server_device[@]}" -T 5
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf '%b' "$magic" >&4
    start_server stopped "${server_device[@]}"
    kill -STOP "$(pid_of stopped)"
    start waits -p "$port" "${client_device[@]}" -q -T 1 -n 20 -t raw_write_imm 127.0.0.1
    start_server first "${server_device[@]}"
    first=$port
    start second -p "$first" "${server_device[@]}"
    # Nobody listens on the port of a server that has ended
    tap_run "client that is none: the server ends" tap_until 60 has_ended letters
    start alone -p "$nobody" -T 1 127.0.0.1
    start nowhere -T 1 no..host
    tap_run "nobody is there: ends" tap_until 60 has_ended alone
    tap_run "no such host: ends" tap_until 60 has_ended nowhere
    tap_run "silent client: the server ends" tap_until 60 has_ended silent
    tap_run "silent after a beginning: the server ends" tap_until 60 has_ended half
    exec 3>&- 4>&-
    tap_run "silent server: the client ends" tap_until 60 has_ended waits
    kill -9 "$(pid_of stopped)"
    tap_run "stopped client: the server ends" tap_until 60 has_ended blind
    kill -9 "$(pid_of halts)"
    tap_run "second server: ends" tap_until 60 has_ended second
    # The first one still serves, and says nothing that was not asked for
    run_perftest last -p "$first" "${client_device[@]}" -q -n 20 -t raw_write_imm 127.0.0.1
    wait

    fails_with letters "client that is none" 1 "the client is not a wimm_perftest of this version"
    fails_with short "client that goes away" 1 "the other side has ended"
    fails_with zeros "client that asks for zeros" 1 "the client asks for what this version does not know"
    fails_with ones "client that asks for ones" 1 "the client asks for what this version does not know"
    fails_with silent "silent client" 1 "the client has asked for nothing in 1 s"
    fails_with blind "stopped client" 1 "raw_write over verbs: nothing has arrived for 5 s"
    fails_with half "silent after a beginning" 1 "nothing has come from the other side for 5 s"
    fails_with waits "silent server" 1 "nothing has come from the other side for 1 s"
    fails_with second "second server" 1 "cannot wait on port $first: Address already in use (-p takes another one)"
    fails_with alone "nobody is there" 1 "no server answers on 127.0.0.1, port $nobody"
    fails_with nowhere "no such host" 1 "no address of host 'no..host'"
    ran last "-q"
    ran first "server of -q"
    tap_run "no process is left behind at the end" tap_until 30 no_processes
}

# ---------------------------------------------------------------- which of these

case ${1-} in
device)
    has_device || tap_skip_all "there is no RDMA device with an active port"
    set_devices
    shift
    [ $# -gt 0 ] || set -- methods outputs options killed wrong_peers
    for part; do
        "test_$part"
        tap_comment "$part: $SECONDS s since the beginning"
    done
    ;;
*)
    test_help
    test_wrong_arguments
    test_no_device
    test_scripts_end
    tap_run "no process is left behind" no_processes
    ;;
esac
tap_done
