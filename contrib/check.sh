#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Set up, build, run every test. The last line is
#     N passed, N failed, N skipped

set -u
self=$(readlink -f "${BASH_SOURCE[0]}")
# shellcheck source=contrib/common.sh
. "$(dirname "$self")/common.sh" || exit 1
# shellcheck source=contrib/suites.sh
. "$WIMM_TOP/contrib/suites.sh" || exit 1
# shellcheck source=test/lib/tap.sh
. "$WIMM_TOP/test/lib/tap.sh" || exit 1

usage() {
    cat <<END
usage: contrib/check.sh [OPTIONS] [SUITE...]

Installs what is missing as contrib/setup.sh --perf does, builds with gcc and
clang, and runs every test, or only the suites that are named. Tests that need
an RDMA device run on this machine's, or in the Soft-RoCE VM (always there with
WIMM_FORCE_VM=y). The output of each suite is kept in build-gcc/check-logs/. The
last line counts tests; the exit status is 0 only if none failed and all could
run.

Two suites run at a time on two or more CPUs, when the memory suffices for both.

Options
  --jobs N  run at most N suites at a time; 1: in the order of the list
  --list    print the names of the suites
  --long    with the sanitizers, also run the transport tests that do the same very
            often or in many sizes; UCX's tests on rc_verbs, to compare them with
            what was recorded; between two devices also by the connection manager
            tcp; and longer runs of faults, measurements, other people's programs
  --help    this text
END
}

# build/ is that of demo.sh and perf.sh: these have other options
gcc_build=$WIMM_TOP/build-gcc
asan_build=$WIMM_TOP/build-asan
tsan_build=$WIMM_TOP/build-tsan
logs=$gcc_build/check-logs

suites=(format build unit scheduler wimm_run configure distcheck sanitizers threads valgrind
        vm uct ucp emulated examples perf selection clients wire stress faults conformance
        demo)

# shellcheck disable=SC2034 # all of these are for suites.sh
suites_first=(format build unit) # they build what the others use

# Seconds on two cores, one after another
# shellcheck disable=SC2034
declare -A suite_seconds=([perf]=900 [sanitizers]=800 [conformance]=350 [ucp]=250
    [faults]=450 [clients]=280 [valgrind]=230 [uct]=213 [threads]=200 [distcheck]=170
    [examples]=88 [stress]=82 [vm]=75 [configure]=52 [demo]=47 [scheduler]=35
    [selection]=39 [wire]=18 [emulated]=13 [wimm_run]=3)

# MiB: wimm-vm's default with what qemu takes itself; twelve GiB of it for UCX's tests
suite_memory_else=5500
# shellcheck disable=SC2034
declare -A suite_memory=([conformance]=13500 [distcheck]=1500 [configure]=1500
    [emulated]=500 [scheduler]=500 [wimm_run]=500)

# Two processes that poll in a VM, and its network, keep two CPUs busy
# shellcheck disable=SC2034
declare -A suite_slots=([clients]=2 [demo]=2 [faults]=2 [stress]=2)

# Longest time for one suite, in seconds: about ten times what it takes, but those of
# the longest have limits inside
suite_limit=1200
suite_grace=20
declare -A longer_limit=([clients]=6200 [conformance]=6000 [faults]=6000 [perf]=4200
    [sanitizers]=2400)

# Transport tests that do many times, or in many sizes, what others do, too
often_tests='*thousand*:*hundreds*:*often*:sizes/*'

# ---------------------------------------------------------------- the suites

# Files of the project that match: those that git knows, or those that are there
# if this is no checkout
files() {
    if [ -e "$WIMM_TOP/.git" ]; then
        git -C "$WIMM_TOP" -c safe.directory="$WIMM_TOP" ls-files -- "$@"
    else
        (cd "$WIMM_TOP" && ls -d -- "$@")
    fi
}

scripts_parse() {
    local file status=0

    for file; do
        bash -n "$file" || status=1
    done
    return $status
}

short_enough() {
    wc -l -- "$@" | awk '$2 != "total" && $1 > 900 {print; bad = 1} END {exit bad}'
}

suite_format() {
    local code scripts

    cd "$WIMM_TOP" || exit 1
    mapfile -t code < <(files '*.c' '*.h' '*.inl' '*.cc')
    mapfile -t scripts < <(files '*.sh' .ci/run contrib/vm/wimm-vm \
                               contrib/vm/guest-init contrib/vm/guest-run \
                               src/tools/wimm-run.in)
    tap_run "there are files to check" \
        test ${#code[@]} -gt 10 -a ${#scripts[@]} -gt 10
    tap_run "clang-format" clang-format --dry-run -Werror "${code[@]}"
    tap_run "scripts parse" scripts_parse "${scripts[@]}"
    tap_run "no source file is over 900 lines" short_enough "${code[@]}"
    tap_done
}

# The tests are not optimized, and have lines but no variables for a debugger: they take much
# longer to compile than to run
tests_flags="CXXFLAGS=-g1 -O0"

# FOLDER TARGET...
compile_tests() {
    local dir=$1

    shift
    make -s --no-print-directory -C "$dir" -j"$WIMM_JOBS" V=0 "$@"
}

suite_build() {
    tap_run "gcc" wimm_build "$gcc_build" --enable-werror "$tests_flags"
    tap_run "tests with gcc" compile_tests "$gcc_build" check TESTS=
    tap_done
}

# make check: what needs no device. Counts the tests inside of its programs, and a
# program that prints none as one.
suite_unit() {
    local dir=$gcc_build/test/gtest trs name count=0

    rm -f "$dir"/*.trs
    make -s -C "$dir" V=0 check >"$logs/make-check.log" 2>&1
    for trs in "$dir"/*.trs; do
        [ -f "$trs" ] || continue
        name=$(basename "$trs" .trs)
        count=$((count + 1))
        cat "$dir/$name.log"
        grep -q -a -E "$gtest_line|$tap_line" "$dir/$name.log" ||
            tap_run "$name" grep -q '^:test-result: PASS' "$trs"
    done
    tap_run "make check ran its programs, and all passed" sh -c \
        "test $count -gt 0 && ! grep -L '^:test-result: PASS' '$dir'/*.trs | grep ."
    tap_done
}

suite_scheduler() {
    "$WIMM_TOP/test/build/test_suites.sh"
}

suite_wimm_run() {
    "$WIMM_TOP/test/loading/test_wimm_run.sh"
}

suite_configure() {
    "$WIMM_TOP/test/build/test_configure.sh"
}

# What is in the distribution, all of it with the other compiler
suite_distcheck() {
    tap_run "make distcheck, with clang" make -s -C "$gcc_build" -j"$WIMM_JOBS" V=0 distcheck \
        DISTCHECK_CONFIGURE_FLAGS="--enable-werror CC=clang CXX=clang++ CXXFLAGS=-O0"
    tap_done
}

suite_sanitizers() {
    local filter="-$often_tests" tests=$WIMM_TOP/test/sanitizers/run.sh

    export WIMM_BUILD_DIR=$asan_build
    tap_run "build with asan and ubsan" wimm_build "$asan_build" \
        --enable-werror --enable-asan --enable-ubsan "$tests_flags"
    tap_run "tests with asan and ubsan" compile_tests "$asan_build/test/gtest" gtest_unit gtest_uct gtest_ucp

    "$tests" asan gtest_unit
    tap_is "unit tests: exit status" $? 0
    [ -z "${WIMM_CHECK_LONG-}" ] || filter='-none'
    WIMM_VM_CPUS=1 wimm_on_device single 1500 "$tests" asan gtest_uct --gtest_filter="$filter"
    tap_is "transport tests: exit status" $? 0
    WIMM_TEST_TLS=tcp timeout -k 10 300 "$tests" asan gtest_ucp \
        --gtest_filter="$(emulated_filter tcp)"
    tap_is "emulated UCP tests: exit status" $? 0
    # Without those of UCP's own operations, which the transport tests have, too
    WIMM_VM_CPUS=1 wimm_on_device single 900 "$tests" asan gtest_ucp \
        --gtest_filter="$filter:*several_messages*:*test_ucp_fixture*"
    tap_is "UCP tests: exit status" $? 0
    tap_done
}

# Tests with threads of their own, emulated and on a device
suite_threads() {
    local tests=$WIMM_TOP/test/sanitizers/run.sh

    export WIMM_BUILD_DIR=$tsan_build
    tap_run "build with tsan" wimm_build "$tsan_build" --enable-werror --enable-tsan "$tests_flags"
    tap_run "tests with tsan" compile_tests "$tsan_build/test/gtest" gtest_unit gtest_ucp

    "$tests" tsan gtest_unit --gtest_filter='test_ucp_wait.*'
    tap_is "unit tests: exit status" $? 0
    WIMM_TEST_TLS=tcp timeout -k 10 300 "$tests" tsan gtest_ucp \
        --gtest_filter='*test_ucp_threads*'
    tap_is "emulated UCP tests: exit status" $? 0
    wimm_on_device single 600 "$tests" tsan gtest_ucp --gtest_filter='*test_ucp_threads*'
    tap_is "UCP tests: exit status" $? 0
    tap_done
}

suite_valgrind() {
    local status=0

    "$WIMM_TOP/test/valgrind/test_valgrind.sh" || status=1
    WIMM_VM_CPUS=1 wimm_on_device single 900 "$WIMM_TOP/test/valgrind/test_valgrind.sh" device ||
        status=1
    return $status
}

suite_vm() {
    wimm_need_vm || tap_skip_all "this machine has an RDMA device"
    "$WIMM_TOP/test/vm/test_wimm_vm.sh"
}

suite_uct() {
    WIMM_VM_CPUS=1 wimm_on_device single 900 "$gcc_build/test/gtest/gtest_uct"
}

suite_selection() {
    wimm_on_device single 600 "$WIMM_TOP/test/loading/test_selection.sh"
}

suite_examples() {
    local tests=$WIMM_TOP/test/examples/test_examples.sh

    "$tests"
    tap_is "emulated: exit status" $? 0
    wimm_on_device single 900 "$tests" device
    tap_is "on a device: exit status" $? 0
    tap_done
}

# Function on any device; figures where they are exact. The limits in here, with the one of
# perf.sh in its test, are 3900 s: less than that of the suite, so that it is said what was cut.
suite_perf() {
    local tests=$WIMM_TOP/test/perf

    "$tests/test_perftest.sh"
    tap_is "without a device: exit status" $? 0
    wimm_on_device pair 900 "$tests/test_perftest.sh" device
    tap_is "on a device: exit status" $? 0
    if wimm_need_vm; then
        "$WIMM_TOP/contrib/vm/wimm-vm" --exact --net single --timeout 1200 -- "$tests/test_exact.sh"
        tap_is "exact figures: exit status" $? 0
        "$WIMM_TOP/contrib/vm/wimm-vm" --exact --net single --timeout 300 -- \
            "$tests/test_user_instructions.sh"
        tap_is "user instructions: exit status" $? 0
        "$WIMM_TOP/contrib/vm/wimm-vm" --exact --net pair --timeout 600 -- "$tests/test_delay.sh"
        tap_is "over a long wire: exit status" $? 0
    else
        tap_skip "exact figures" "instructions are counted in the VM only"
        tap_skip "user instructions" "instructions are counted in the VM only"
        tap_skip "over a long wire" "netem delays no packets of an RDMA device"
    fi
    "$tests/test_perf_sh.sh"
    tap_is "perf.sh: exit status" $? 0
    tap_done
}

suite_clients() {
    local tests=$WIMM_TOP/test/clients seconds=1500

    [ -z "${WIMM_CHECK_LONG-}" ] || seconds=3000
    wimm_on_device pair $seconds "$tests/test_ucx_clients.sh"
    tap_is "UCX's programs: exit status" $? 0
    tap_run "programs for Open MPI are built" test -x "$gcc_build/test/clients/mpi_check" -a -x "$gcc_build/test/clients/shmem_check"
    wimm_on_device pair $seconds "$tests/test_mpi.sh"
    tap_is "Open MPI: exit status" $? 0
    tap_done
}

# UCX's UCT tests on one transport. The longest of them needs 12 GiB.
conformance_run() {
    local dir=$gcc_build/conformance

    tap_run "UCX's tests for $1 are built" \
        "$WIMM_TOP/test/conformance/build.sh" "$1"
    rm -f "$dir/$1.log"
    WIMM_VM_MEMORY=12000 WIMM_VM_CPUS=1 wimm_on_device single 2400 \
        "$WIMM_TOP/test/conformance/run.sh" "$1" "$dir/gtest_$1" "$dir/$1.log"
    tap_is "UCX's tests ran on $1: exit status" $? 0
}

# Then what connects in the several ways, with packets that cross a wire
suite_ucp() {
    local connection filter='-*several_messages*'

    WIMM_VM_CPUS=1 wimm_on_device single 900 "$gcc_build/test/gtest/gtest_ucp"
    tap_is "on one device: exit status" $? 0
    if wimm_need_vm; then
        # The second with --long: all/* have it on one device
        for connection in rdmacm ${WIMM_CHECK_LONG:+tcp}; do
            WIMM_TEST_DEVICE=rxe0 WIMM_TEST_PEER_DEVICE=rxe1 \
                WIMM_TEST_CONNECTION=$connection WIMM_VM_CPUS=1 wimm_on_device pair 900 \
                "$gcc_build/test/gtest/gtest_ucp" --gtest_filter="$filter"
            tap_is "between two devices, by $connection: exit status" $? 0
            filter='-all/*' # Those connect in each way by themselves
        done
    fi
    tap_done
}

# What of gtest_ucp runs without the transport: all but the list
emulated_filter() { # TRANSPORT
    awk -v tl="$1" '($1 == "all") || ($1 == tl) {filter = filter ":" $2}
                    END {sub(/^:/, "-", filter); print filter}' \
        "$WIMM_TOP/test/gtest/ucp/emulated.txt"
}

# Without a device, and without the VM
suite_emulated() {
    local tl

    for tl in tcp sm self; do
        WIMM_TEST_TLS=$tl timeout -k 10 300 "$gcc_build/test/gtest/gtest_ucp" \
            --gtest_filter="$(emulated_filter $tl)"
        tap_is "over $tl: exit status" $? 0
    done
    tap_done
}

# What rc_verbs passes, wimm has to pass. What rc_verbs does was recorded in the VM;
# on another device it has to be tried.
suite_conformance() {
    local dir=$gcc_build/conformance tests=$WIMM_TOP/test/conformance
    local reference=$tests/rc_verbs.txt

    "$tests/test_runner.sh"
    tap_is "test_runner.sh: exit status" $? 0

    if ! wimm_need_vm; then
        conformance_run rc_verbs
        reference=$dir/rc_verbs.txt
        "$tests/compare.sh" --results rc_verbs "$dir/rc_verbs.log" >"$reference"
    elif [ -n "${WIMM_CHECK_LONG-}" ]; then
        conformance_run rc_verbs
        "$tests/compare.sh" rc_verbs "$dir/rc_verbs.log"
        tap_is "rc_verbs does what was recorded" $? 0
    fi

    conformance_run wimm
    "$tests/compare.sh" wimm "$dir/wimm.log" "$reference"
    tap_is "wimm does what rc_verbs does" $? 0
    tap_done
}

suite_wire() {
    wimm_need_vm || tap_skip_all "no program sees the packets of an RDMA device"
    "$WIMM_TOP/test/wire/test_wire.sh"
}

suite_stress() {
    wimm_on_device pair 900 "$WIMM_TOP/test/stress/test_stress.sh"
}

# A tenth of what --long does
suite_faults() {
    export WIMM_FAULTS_COUNT=100000
    [ -z "${WIMM_CHECK_LONG-}" ] || WIMM_FAULTS_COUNT=1000000
    wimm_on_device pair 5900 "$WIMM_TOP/test/faults/test_faults.sh"
}

suite_demo() {
    local status table

    "$WIMM_TOP/contrib/demo.sh" 2>&1 | tee "$logs/demo.out"
    status=${PIPESTATUS[0]}
    table=$(sed -n '/^  what  *size  result$/,$p' "$logs/demo.out")
    tap_is "demo.sh: exit status" "$status" 0
    tap_has "demo.sh ends with the table" "$table" "notified put, ping-pong"
    tap_has "an example is in it" "$table" "records replayed in order"

    "$WIMM_TOP/contrib/demo.sh" --no-rdma 2>&1 | tee "$logs/demo-no-rdma.out"
    status=${PIPESTATUS[0]}
    table=$(sed -n '/^  what  *size  result$/,$p' "$logs/demo-no-rdma.out")
    tap_is "demo.sh --no-rdma: exit status" "$status" 0
    tap_has "it ends with the table" "$table" "records replayed in order"
    tap_has "it says how" "$table" "emulated by UCX's puts and active messages"
    tap_done
}

# ---------------------------------------------------------------- main

# A third would have no CPU
jobs=$((WIMM_JOBS < 2 ? WIMM_JOBS : 2))
chosen=()
while [ $# -gt 0 ]; do
    case $1 in
    --list)    printf '%s\n' "${suites[@]}"; exit 0 ;;
    --long)    export WIMM_CHECK_LONG=y ;;
    --help|-h) usage; exit 0 ;;
    --jobs)
        [[ ${2-} =~ ^[1-9][0-9]?$ ]] || die "--jobs takes a number from 1 to 99"
        jobs=$2
        shift
        ;;
    --run)
        # One suite, in a process of its own
        export WIMM_BUILD_DIR=$gcc_build
        "suite_${2:?}"
        exit
        ;;
    -*)        die "unknown option '$1' (see --help)" ;;
    *)
        [[ " ${suites[*]} " = *" $1 "* ]] ||
            die "there is no suite '$1' (see --list)"
        [[ " ${chosen[*]} " = *" $1 "* ]] || chosen+=("$1")
        ;;
    esac
    shift
done
[ ${#chosen[@]} -gt 0 ] || chosen=("${suites[@]}")

# The caller's settings are for the caller's programs
unset "${!UCX_@}" "${!GTEST_@}"

wimm_lock
# Not as a job: sudo may have to ask for a password
"$WIMM_TOP/contrib/setup.sh" --perf || {
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}
mkdir -p "$logs"

suites_run "$jobs" "${chosen[@]}"
suites_report
