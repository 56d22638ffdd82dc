#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Test Anything Protocol for shell tests: source this file, call the functions below, end with tap_done.
#
#   tap_ok NAME                       passed
#   tap_not_ok NAME [DETAIL]          failed; the detail follows as comment lines
#   tap_skip NAME REASON              not tried
#   tap_is NAME GOT EXPECTED          passed if both strings are equal
#   tap_has NAME TEXT PART            passed if TEXT contains PART
#   tap_run NAME COMMAND [ARG...]     passed if the command succeeds; else its output is shown
#   tap_until SECONDS COMMAND [ARG...]  not a test: repeats the command until it succeeds; fails when the time is over
#   tap_skip_all REASON               instead of any test: nothing here can be tried
#   tap_done                          prints the plan and exits, with 1 if any test failed or none ran

tap_count=0
tap_failures=0

tap_comment() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

tap_ok() {
    tap_count=$((tap_count + 1))
    printf 'ok %d - %s\n' "$tap_count" "$1"
}

tap_not_ok() {
    tap_count=$((tap_count + 1))
    tap_failures=$((tap_failures + 1))
    printf 'not ok %d - %s\n' "$tap_count" "$1"
    [ -z "${2-}" ] || tap_comment "$2"
}

tap_skip() {
    tap_count=$((tap_count + 1))
    printf 'ok %d - %s # SKIP %s\n' "$tap_count" "$1" "$2"
}

tap_is() {
    if [ "$2" = "$3" ]; then
        tap_ok "$1"
    else
        tap_not_ok "$1" "got:      $2
expected: $3"
    fi
}

tap_has() {
    case $2 in
    *"$3"*) tap_ok "$1" ;;
    *)      tap_not_ok "$1" "got: $2
which lacks: $3" ;;
    esac
}

tap_run() {
    tap_name=$1
    shift
    if tap_output=$("$@" 2>&1); then
        tap_ok "$tap_name"
    else
        tap_not_ok "$tap_name" "status $? of: $*
$tap_output"
    fi
}

tap_until() {
    tap_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$tap_end" ] || return 1
        sleep 0.05
    done
}

tap_skip_all() {
    printf '1..0 # SKIP %s\n' "$1"
    exit 0
}

tap_done() {
    printf '1..%d\n' "$tap_count"
    [ "$tap_failures" -eq 0 ] || tap_comment "$tap_failures of $tap_count failed"
    [ "$tap_failures" -eq 0 ] && [ "$tap_count" -gt 0 ]
    exit
}
