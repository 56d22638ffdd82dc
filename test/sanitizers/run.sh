#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# usage: run.sh asan|tsan PROGRAM [OPTION...]
#
# Runs a program of tests, of a tree that was built with these sanitizers: asan, which is with
# leaks and ubsan, or tsan. First the tests that have to fail: one that finds nothing there, for
# what the suppressions say or because the machine lets it not, finds nothing elsewhere.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

sanitizer=$1 name=$2
program=$build/test/gtest/$name
shift 2

# Each has its own, so that no failed test is taken for it
export ASAN_OPTIONS=detect_leaks=1
export LSAN_OPTIONS=suppressions=$here/lsan.supp:exitcode=23
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=suppressions=$here/tsan.supp:exitcode=66:second_deadlock_stack=1
# UCX would put its own functions into mmap() and its kin, which tsan has replaced: it crashes
[ "$sanitizer" != tsan ] || export UCX_MEM_MMAP_HOOK_MODE=none

# CANARY TEXT: that test ends badly, and this is said
finds() {
    local output status

    output=$("$program" --gtest_also_run_disabled_tests \
        --gtest_filter="DISABLED_test_canary.$1" 2>&1)
    status=$?
    # Not as they are: check.sh counts tests by such lines
    output=${output//\[/(}
    if [ $status = 0 ]; then
        tap_not_ok "$name: $1 is found" "exit status 0; $output"
    else
        tap_has "$name: $1 is found" "$output" "$2"
    fi
}

case $sanitizer in
asan)
    finds leak "LeakSanitizer: detected memory leaks"
    finds undefined "signed integer overflow"
    ;;
tsan)
    finds race "ThreadSanitizer: data race"
    ;;
esac

"$program" "$@"
tap_is "$name: exit status" $? 0
tap_done
