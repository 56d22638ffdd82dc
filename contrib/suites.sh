# shellcheck shell=bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Runs suites of tests, two at a time where there is room, and counts the tests in
# their output. To be sourced after common.sh by a script that sets
#
#   self             itself: "bash $self --run NAME" runs a suite
#   logs             folder of their logs
#   suites           the names of all, in the order of the summary
#   suites_first     those that run before all others, one after another
#   suite_seconds    by name: about how long it takes; the longest start first
#   suite_limit      longest time for one, in seconds; longer_limit: of others, by name
#   suite_grace      seconds that it then has to end by itself
#   suite_memory     by name: MiB that it may need; suite_memory_else: the others
#   suite_slots      by name: as how many it counts of those that run at a time, if not one

# ---------------------------------------------------------------- counting

gtest_line='^\[  (     OK|FAILED |SKIPPED) \] .* \([0-9]+ ms\)$'
gtest_ok='^\[       OK \] .* \([0-9]+ ms\)$'
gtest_failed='^\[  FAILED  \] .* \([0-9]+ ms\)$'
gtest_skipped='^\[  SKIPPED \] .* \([0-9]+ ms\)$'
tap_line='^(not )?ok [0-9]+'
tap_failed='^not ok [0-9]+'
tap_skipped='^ok [0-9]+ .*# SKIP'
tap_none='^1\.\.0 # SKIP'
# Tests of others that nobody expects to pass here: they are not counted
as_recorded='^# [0-9]+ skipped and [0-9]+ failed, as recorded for rc_verbs$'
stress_time='^# stress: [0-9]+ notified puts'
faults_survived='^# faults: [0-9]+ runs: '

passed=0
failed=0
skipped=0
suites_ran=()
suites_start=$SECONDS
declare -A suite_pid=() suite_start=() suite_timing=() suite_notes=()
suites_sum=0

lines() { # LOG PATTERN: how many
    grep -c -a -E -- "$2" "$1"
}

add_note() { # NAME TEXT
    suite_notes[$1]+=$2$'\n'
}

note() { # NAME PREFIX LOG PATTERN: each line that matches
    local line

    while IFS= read -r line; do
        add_note "$1" "$2$1: ${line#\# }"
    done < <(grep -a -E -- "$4" "$3")
}

# googletest gives the reason of a skip before the line that counts it
skip_reasons() { # NAME LOG
    local line

    while IFS= read -r line; do
        add_note "$1" "skipped: $1: $line"
    done < <(awk '
                 want            {reason = $0; want = 0}
                 / Skipped$/     {want = 1}
                 $0 ~ "^\\[  SKIPPED \\] .* \\([0-9]+ ms\\)$" {
                     sub(/^\[  SKIPPED \] /, ""); print $0 ": " reason
                 }' "$2")
    note "$1" "skipped: " "$2" "$tap_skipped|$tap_none"
}

# suite_begin NAME: in a session of its own, by which all that it starts is found
suite_begin() {
    local name=$1 limit=${longer_limit[$1]-$suite_limit}

    say "$name"
    suite_start[$name]=$SECONDS
    # Commands in the background ignore ^C; what the suites start shall not
    env --default-signal=INT,QUIT setsid timeout -k "$suite_grace" "$limit" \
        bash "$self" --run "$name" >"$logs/$name.log" 2>&1 </dev/null &
    suite_pid[$name]=$!
}

# suite_finish NAME STATUS: count the tests in its output, of googletest or in TAP. A
# suite that fails without a failed test, that ran no test, or that ended before
# its plan did, counts as one failure.
suite_finish() {
    local name=$1 status=$2 log=$logs/$1.log p f s tap plan
    local seconds=$((SECONDS - suite_start[$1]))

    # What it left behind when its time was over
    pkill -KILL -s "${suite_pid[$name]}"
    unset "suite_pid[$name]"

    s=$(($(lines "$log" "$gtest_skipped") + $(lines "$log" "$tap_skipped") +
         $(lines "$log" "$tap_none")))
    f=$(($(lines "$log" "$gtest_failed") + $(lines "$log" "$tap_failed")))
    tap=$(lines "$log" "$tap_line")
    p=$(($(lines "$log" "$gtest_ok") + tap - $(lines "$log" "$tap_failed") -
         $(lines "$log" "$tap_skipped")))
    plan=$(awk '/^1\.\.[0-9]+/ {split($1, part, "[.][.]"); sum += part[2]}
                END {print sum + 0}' "$log")
    note "$name" "FAILED: " "$log" "$gtest_failed|$tap_failed"
    skip_reasons "$name" "$log"
    note "$name" "" "$log" "$as_recorded|$stress_time|$faults_survived"

    if [ "$status" != 0 ] && [ $f = 0 ]; then
        f=1
        add_note "$name" "FAILED: $name: it ended with status $status, see $log"
    elif [ "$tap" != "$plan" ]; then
        f=$((f + 1))
        add_note "$name" "FAILED: $name: $tap tests of a plan of $plan, see $log"
    elif [ $((p + f + s)) = 0 ]; then
        f=1
        add_note "$name" "FAILED: $name: it ran no test, see $log"
    fi
    [ $f = 0 ] || tail -n 40 "$log"

    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    suites_ran+=("$name")
    suites_sum=$((suites_sum + seconds))
    suite_timing[$name]=$(printf '%5d s  %-12s %4d passed, %d failed, %d skipped' \
        $seconds "$name" $p $f $s)
    echo "   ${suite_timing[$name]}"
}

# ---------------------------------------------------------------- two at a time

# MiB that programs can have
suites_available_memory() {
    awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo
}

# Which of $waiting comes next: the first that fits beside those that run, by their number
# and by the memory that they may need. There is always one if none runs. Sets next, or not.
suites_next() { # JOBS MEMORY
    local name slots=$1 left=$2

    next=
    for name in "${!suite_pid[@]}"; do
        slots=$((slots - ${suite_slots[$name]-1}))
        left=$((left - ${suite_memory[$name]-$suite_memory_else}))
    done
    for name in "${waiting[@]}"; do
        if [ ${#suite_pid[@]} = 0 ] ||
           { [ "${suite_slots[$name]-1}" -le "$slots" ] &&
             [ "${suite_memory[$name]-$suite_memory_else}" -le "$left" ]; }; then
            next=$name
            return
        fi
    done
}

# suites_wait: for the first that ends
suites_wait() {
    local name ended=

    # Quiet, because bash reports commands that were killed
    wait -n -p ended "${suite_pid[@]}" 2>/dev/null
    set -- $?
    for name in "${!suite_pid[@]}"; do
        if [ "${suite_pid[$name]}" = "${ended-}" ]; then
            suite_finish "$name" "$1"
            return
        fi
    done

    # "wait -n" has forgotten one that was killed while another command ran; "wait" has not
    for name in "${!suite_pid[@]}"; do
        if ! kill -0 "${suite_pid[$name]}" 2>/dev/null; then
            wait "${suite_pid[$name]}" 2>/dev/null
            suite_finish "$name" $?
            return
        fi
    done
}

# suites_run JOBS NAME...: at most so many at a time
suites_run() {
    local jobs=$1 name next memory waiting=() left

    shift
    for name in "${suites_first[@]}"; do
        if [[ " $* " = *" $name "* ]]; then
            suite_begin "$name"
            suites_wait
        fi
    done
    for name; do
        [[ " ${suites_first[*]} " = *" $name "* ]] || waiting+=("$name")
    done
    if [ "$jobs" -gt 1 ] && [ ${#waiting[@]} -gt 1 ]; then
        mapfile -t waiting < <(for name in "${waiting[@]}"; do
            echo "${suite_seconds[$name]-60} $name"
        done | sort -s -r -n -k 1,1 | cut -d ' ' -f 2)
    fi

    memory=$(suites_available_memory)
    while [ ${#waiting[@]} -gt 0 ] || [ ${#suite_pid[@]} -gt 0 ]; do
        if [ ${#waiting[@]} -gt 0 ]; then
            suites_next "$jobs" "$memory"
            if [ -n "$next" ]; then
                left=()
                for name in "${waiting[@]}"; do
                    [ "$name" = "$next" ] || left+=("$name")
                done
                waiting=("${left[@]}")
                suite_begin "$next"
                continue
            fi
        fi
        suites_wait
    done
}

# The last lines. Fails if a test did.
suites_report() {
    local name wall=$((SECONDS - suites_start))

    echo
    say "where the time went"
    for name in "${suites[@]}"; do
        [ -z "${suite_timing[$name]-}" ] || echo "${suite_timing[$name]}"
    done
    say "$wall s in all, $suites_sum s in ${#suites_ran[@]} suites"
    for name in "${suites[@]}"; do
        printf '%s' "${suite_notes[$name]-}"
    done
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

suites_alive() {
    local name

    for name in "${!suite_pid[@]}"; do
        ! pgrep -s "${suite_pid[$name]}" >/dev/null || return 0
    done
    return 1
}

# Instead of common.sh's: ends all that runs. A VM's programs end with wimm-vm.
# shellcheck disable=SC2317 # called by traps
wimm_on_signal() {
    local name end=$((SECONDS + suite_grace))

    trap '' INT TERM HUP
    for name in "${!suite_pid[@]}"; do
        pkill -TERM -s "${suite_pid[$name]}"
    done
    while suites_alive && [ $SECONDS -lt $end ]; do
        sleep 0.1
    done
    for name in "${!suite_pid[@]}"; do
        pkill -KILL -s "${suite_pid[$name]}"
    done
    exit $((128 + $1))
}
