#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Set up, build, run every test. The last line is
#     N passed, N failed, N skipped

set -u
# shellcheck source=contrib/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
    cat <<END
usage: contrib/check.sh [OPTIONS] [SUITE...]

Installs what is missing as contrib/setup.sh does, builds with gcc and clang, and
runs every test, or only the suites that are named. Tests that need an RDMA
device run on this machine's, or in the Soft-RoCE VM. The output of each suite is
kept in build-gcc/check/. The last line counts tests; the exit status is 0 only if
none failed and all could run.

Options
  --list    print the names of the suites
  --help    this text
END
}

# demo.sh has build/ to itself: these have other options
gcc_build=$WIMM_TOP/build-gcc
clang_build=$WIMM_TOP/build-clang
asan_build=$WIMM_TOP/build-asan
logs=$WIMM_TOP/build-gcc/check
passed=0
failed=0
skipped=0
notes=()
timing=()

# count LOG: the tests in the output of a suite, of googletest or in TAP. Sets
# p, f, s and adds the reasons of skips to the notes.
count() {
    local line

    p=$(grep -c -E '^\[       OK \]|^ok [0-9]+' "$1")
    f=$(grep -c -E '^\[  FAILED  \] [^ ]+ \(|^not ok [0-9]+' "$1")
    s=$(grep -c -E '^\[  SKIPPED \] [^ ]+ \(|^ok [0-9]+ .*# SKIP' "$1")
    p=$((p - $(grep -c -E '^ok [0-9]+ .*# SKIP' "$1")))
    while IFS= read -r line; do
        notes+=("skipped: $2: $line")
    done < <(grep -E '^\[  SKIPPED \] [^ ]+ \(|^ok [0-9]+ .*# SKIP' "$1")
    while IFS= read -r line; do
        notes+=("FAILED: $2: $line")
    done < <(grep -E '^\[  FAILED  \] [^ ]+ \(|^not ok [0-9]+' "$1")
}

# suite NAME COMMAND...: run and count. A suite that fails without a failed
# test, or that ran no test, counts as one failure.
suite() {
    local name=$1 log=$logs/$1.log start=$SECONDS status p f s

    shift
    say "$name"
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    count "$log" "$name"
    if [ $status != 0 ] && [ "$f" = 0 ]; then
        f=1
        notes+=("FAILED: $name: ended with status $status, see $log")
    elif [ $((p + f + s)) = 0 ]; then
        f=1
        notes+=("FAILED: $name: it ran no test, see $log")
    fi
    [ "$f" = 0 ] || tail -n 40 "$log"
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + s))
    timing+=("$(printf '%5d s  %-14s %4d passed %d failed %d skipped' \
                $((SECONDS - start)) "$name" "$p" "$f" "$s")")
    echo "   ${timing[-1]}"
}

# tap NUMBER NAME COMMAND...: a command as one test
tap() {
    local number=$1 name=$2

    shift 2
    if "$@"; then
        echo "ok $number - $name"
    else
        echo "not ok $number - $name"
        return 1
    fi
}

check_format() {
    local files status=0

    mapfile -t files < <(cd "$WIMM_TOP" && git ls-files '*.c' '*.h' '*.cc')
    (cd "$WIMM_TOP" && tap 1 "clang-format" \
        clang-format --dry-run -Werror "${files[@]}") || status=1
    mapfile -t files < <(cd "$WIMM_TOP" && git ls-files '*.sh' .ci/run \
                             contrib/vm/wimm-vm)
    (cd "$WIMM_TOP" && tap 2 "scripts parse" bash -n "${files[@]}") || status=1
    (cd "$WIMM_TOP" && tap 3 "no source file is over 900 lines" \
        sh -c 'git ls-files "*.c" "*.h" "*.cc" | xargs wc -l |
               awk "\$2 != \"total\" && \$1 > 900 {print; bad = 1}
                    END {exit bad}"') || status=1
    return $status
}

check_build() {
    local status=0

    # The tests are not optimized: they take much longer to compile than to run
    tap 1 "gcc" wimm_build "$gcc_build" --enable-werror "CXXFLAGS=-g -O0" ||
        status=1
    tap 2 "clang" wimm_build "$clang_build" --enable-werror CC=clang \
        CXX=clang++ "CXXFLAGS=-O0" || status=1
    tap 3 "tests with gcc" make -s -C "$gcc_build" -j"$WIMM_JOBS" V=0 \
        check TESTS= || status=1
    tap 4 "tests with clang" make -s -C "$clang_build" -j"$WIMM_JOBS" V=0 \
        check TESTS= || status=1
    return $status
}

check_sanitizers() {
    local status=0

    tap 1 "build with asan and ubsan" wimm_build "$asan_build" \
        --enable-werror --enable-asan --enable-ubsan "CXXFLAGS=-g -O0" ||
        return 1
    tap 2 "tests with asan and ubsan" make -s -C "$asan_build" \
        -j"$WIMM_JOBS" V=0 check TESTS= || return 1
    ASAN_OPTIONS=detect_leaks=0 "$asan_build/test/gtest/gtest_unit" || status=1
    return $status
}

check_distcheck() {
    tap 1 "make distcheck" make -s -C "$gcc_build" -j"$WIMM_JOBS" V=0 distcheck
}

in_build() {
    WIMM_BUILD_DIR=$gcc_build "$@"
}

# make check: what needs no device. Counts the tests inside of its programs.
unit() {
    local dir=$gcc_build/test/gtest trs name number=0 status=0

    make -s -C "$dir" V=0 check >"$logs/make-check.log" 2>&1 || status=1
    for trs in "$dir"/*.trs; do
        name=$(basename "$trs" .trs)
        cat "$dir/$name.log"
        # A program that prints no tests of its own counts as one
        if ! grep -q -E '^\[       OK \]|^\[  FAILED  \]|^(not )?ok [0-9]' \
                "$dir/$name.log"; then
            number=$((number + 1))
            tap $number "$name" grep -q '^:test-result: PASS' "$trs" ||
                status=1
        fi
    done
    [ $status = 0 ] || tail -n 20 "$logs/make-check.log"
    return $status
}

uct() {
    wimm_on_device single 600 "$gcc_build/test/gtest/gtest_uct"
}

selection() {
    in_build wimm_on_device single 300 \
        "$WIMM_TOP/test/loading/test_selection.sh"
}

clients() {
    in_build wimm_on_device pair 400 "$WIMM_TOP/test/clients/test_ucx_clients.sh"
}

vm() {
    if wimm_need_vm; then
        "$WIMM_TOP/test/vm/test_wimm_vm.sh"
    else
        echo "ok 1 - wimm-vm # SKIP this machine has an RDMA device"
    fi
}

demo() {
    "$WIMM_TOP/contrib/demo.sh" | tee "$logs/demo.out"
    tap 1 "demo.sh ends with the table" sh -c \
        "tail -n 12 '$logs/demo.out' | grep -q 'notified put, ping-pong'"
}

suites=(format build unit wimm_run configure distcheck sanitizers vm uct
        selection clients demo)

chosen=()
while [ $# -gt 0 ]; do
    case $1 in
    --list)    printf '%s\n' "${suites[@]}"; exit 0 ;;
    --help|-h) usage; exit 0 ;;
    -*)        die "unknown option '$1' (see --help)" ;;
    *)
        [[ " ${suites[*]} " = *" $1 "* ]] ||
            die "there is no suite '$1' (see --list)"
        chosen+=("$1")
        ;;
    esac
    shift
done

start=$SECONDS
"$WIMM_TOP/contrib/setup.sh" || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
mkdir -p "$logs"

[ ${#chosen[@]} -gt 0 ] || chosen=("${suites[@]}")
for name in "${chosen[@]}"; do
    case $name in
    format)     suite format check_format ;;
    build)      suite build check_build ;;
    unit)       suite unit unit ;;
    wimm_run)   suite wimm_run in_build "$WIMM_TOP/test/loading/test_wimm_run.sh" ;;
    configure)  suite configure in_build "$WIMM_TOP/test/build/test_configure.sh" ;;
    distcheck)  suite distcheck check_distcheck ;;
    sanitizers) suite sanitizers check_sanitizers ;;
    *)          suite "$name" "$name" ;;
    esac
done

echo
say "where the time went"
printf '%s\n' "${timing[@]}"
say "$((SECONDS - start)) s in all"
[ ${#notes[@]} = 0 ] || printf '%s\n' "${notes[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
