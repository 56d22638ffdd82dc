#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Tests under valgrind's memcheck: invalid accesses, values that nobody set, and memory that was
# lost fail. Without an argument those that need no device, with "device" a choice of those that
# need one, since they are slow in a VM without KVM: all kinds of notified puts, slots, pending
# queue, flush, destruction, errors, events; and through UCP endpoints, requests, counters,
# failures, closing, and detaching.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

command -v valgrind >/dev/null || tap_skip_all "valgrind is not installed"

tests=(
    test_repertoire.all_kinds_with_few_credits_and_slots
    test_slots.held_until_released
    test_imm_handler.unset_notifications_wait_in_order
    test_imm_handler.destroys_its_own_endpoint
    test_imm_handler.endpoint_destroyed_while_notifications_wait
    test_imm_error.bad_rkey_no_notification
    test_imm_error.device_refuses_post_endpoint_fails_once
    test_imm_error.error_handler_destroys_the_endpoint
    test_pending_failure.purged_by_the_error_handler
    test_flush.cancel_twice
    test_ep_destroy.outstanding_completions_are_canceled_once
    test_event.notified_put_wakes
)

ucp_tests=(
    all/test_ucp_put.all_lengths_memh/address
    test_ucp_request.freed_while_in_progress
    test_ucp_counter.after_detach_can_be_read_and_destroyed
    test_ucp_handler.closes_the_endpoint
    test_ucp_handler.detaching_gives_the_slots_back
    test_ucp_many.worker_destroyed_without_detaching
    test_ucp_order.force_close_cancels_what_is_queued
    all/test_ucp_fail.put_that_fails_ends_in_an_error_and_notifies_nobody/address
)

# Emulated, which needs no device
emulated_tests=(
    all/test_ucp_put.all_lengths/address
    test_ucp_request.iov_of_all_shapes
    test_ucp_handler.detaching_leaves_what_was_issued
    test_ucp_emul.waits_for_a_peer_that_is_not_attached
    test_ucp_emul.close_ends_what_waits_for_a_peer
    test_ucp_emul.arrivals_between_two_attachments_are_kept
    test_ucp_emul.sender_that_detaches_and_attaches_again
    test_ucp_emul.id_stays_that_of_the_peers
    test_ucp_emul_fail.force_close_ends_what_waits_for_a_peer
    test_ucp_emul_fail.failure_ends_what_waits_for_a_peer
)

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# PROGRAM NUMBER-OF-TESTS OPTION...: their number is 0 if it does not matter
memcheck() {
    local name=$1 count=$2

    shift 2
    "$build/libtool" --mode=execute valgrind --quiet --keep-debuginfo=yes --num-callers=24 \
        --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite --suppressions="$here/valgrind.supp" \
        --gen-suppressions=all "$build/test/gtest/$name" "$@" 2>&1 | tee "$log"
    tap_is "$name: exit status" "${PIPESTATUS[0]}" 0
    [ "$count" = 0 ] || tap_is "$name: tests that passed" \
        "$(grep -c '^\[       OK \].* ms)$' "$log")" "$count"
}

case ${1-} in
'')
    memcheck gtest_unit 0
    memcheck test_dlopen 0
    WIMM_TEST_TLS=tcp memcheck gtest_ucp ${#emulated_tests[@]} \
        --gtest_filter="$(IFS=:; echo "${emulated_tests[*]}")"
    ;;
device)
    memcheck gtest_uct ${#tests[@]} --gtest_filter="$(IFS=:; echo "${tests[*]}")"
    memcheck gtest_ucp ${#ucp_tests[@]} --gtest_filter="$(IFS=:; echo "${ucp_tests[*]}")"
    ;;
*)
    echo "usage: test_valgrind.sh [device]" >&2
    exit 2
    ;;
esac

tap_done
