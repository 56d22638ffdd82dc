#!/bin/sh
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# A module that was built for another UCX: a program that has it loaded works
# as without it, and one line says why there is no wimm.
#
# Environment (set by make check): WIMM_SKEW_DIR, UCX_INFO, UCX_VERSION, srcdir

. "${srcdir:-.}/../lib/tap.sh"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
unset UCX_LOG_LEVEL UCX_TLS UCX_LOG_FILE

"$UCX_INFO" -d > "$tmp/plain" 2>&1
tap_is "ucx_info runs without a module" $? 0

# check NAME LIBRARY NUMBER NUMBER
check() {
    tap_run "$1: the module was built" test -f "$2"

    LD_PRELOAD=$2 "$UCX_INFO" -d > "$tmp/out" 2> "$tmp/err"
    tap_is "$1: ucx_info runs" $? 0

    warnings=$(grep -c 'WARN' "$tmp/out")
    tap_is "$1: one warning" "$warnings" 1
    warning=$(grep 'WARN' "$tmp/out")
    tap_has "$1: the warning says what is missing" "$warning" \
        "transport wimm is not available"
    tap_has "$1: the warning says what it was built for" "$warning" "$3"
    tap_has "$1: the warning says what is loaded" "$warning" "$4"

    tap_is "$1: nothing on stderr" "$(cat "$tmp/err")" ""
    grep -v 'WARN' "$tmp/out" > "$tmp/rest"
    tap_run "$1: all else is as without the module" \
        cmp "$tmp/plain" "$tmp/rest"
    tap_is "$1: no transport wimm" \
        "$(grep -c 'Transport: wimm' "$tmp/out")" 0

    # The tables of the configuration would be read by every UCX program
    LD_PRELOAD=$2 "$UCX_INFO" -c > "$tmp/config" 2>&1
    tap_is "$1: no keys of wimm" "$(grep -c '^UCX_WIMM_' "$tmp/config")" 0
}

check "other configuration" "$WIMM_SKEW_DIR/libuct_ib_wimm_skew.so" \
    "built for a UCX $UCX_VERSION" " bytes, in the UCX that is loaded it has "
case $warning in
*" uct_base_iface_t has "[1-9]*" bytes"*" it has "[1-9]*)
    tap_ok "other configuration: both sizes and the class are named" ;;
*)
    tap_not_ok "other configuration: both sizes and the class are named" \
        "$warning" ;;
esac

check "other version" "$WIMM_SKEW_DIR/libuct_ib_wimm_version.so" \
    "built for UCX 0.9.1 " "UCX $UCX_VERSION is loaded"

tap_done
