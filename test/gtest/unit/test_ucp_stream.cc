/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "recv_test.h"

#include <cstdint>


typedef std::vector<int> ints;
typedef std::vector<uint32_t> imms;


/* The stream: handler and queue */
class test_ucp_stream : public recv_test {};


TEST_F(test_ucp_stream, queue_keeps_order_and_content)
{
    fake_peer a(wimm(), ep(0), 1, &m_slots), b(wimm(), NULL, 2, &m_slots);

    EXPECT_STATUS(UCS_INPROGRESS, notify(a, 0xffffffff, 0));
    EXPECT_STATUS(UCS_INPROGRESS, notify(b, 0x80000000, SIZE_MAX));
    EXPECT_STATUS(UCS_INPROGRESS, notify(a, 0, 1));
    EXPECT_EQ(3u, wimm()->stream.length);
    EXPECT_EQ(records({ { UCS_OK, 0xffffffff, 0, ep(0) },
                        { UCS_OK, 0x80000000, SIZE_MAX, NULL },
                        { UCS_OK, 0, 1, ep(0) } }),
              to_records(poll()));
    EXPECT_EQ(0u, wimm()->stream.length);
    EXPECT_TRUE(poll().empty());
}

TEST_F(test_ucp_stream, poll_takes_no_more_than_there_is_room_for)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    unsigned count = 77;

    for (uint32_t imm = 0; imm < 5; ++imm) {
        notify(peer, imm);
    }
    EXPECT_OK(ucp_wimm_poll(wimm(), NULL, 0, &count));
    EXPECT_EQ(0u, count);
    EXPECT_EQ(2u, poll(2).size());
    EXPECT_EQ(3u, wimm()->stream.length);
    EXPECT_EQ(imms({ 2, 3, 4 }), queued());
}

TEST_F(test_ucp_stream, poll_gives_each_slot_back_in_order)
{
    fake_peer a(wimm(), NULL, 1, &m_slots), b(wimm(), NULL, 2, &m_slots);

    notify(a, 0);
    notify(b, 0);
    notify(b, 0);
    notify(a, 0);
    EXPECT_EQ(3u, a.super.refcount);
    EXPECT_TRUE(m_slots.empty());
    poll(3);
    EXPECT_EQ(ints({ 1, 2, 2 }), m_slots);
    EXPECT_EQ(2u, a.super.refcount);
    EXPECT_EQ(1u, b.super.refcount);
    poll(3);
    EXPECT_EQ(ints({ 1, 2, 2, 1 }), m_slots);
}

TEST_F(test_ucp_stream, records_outlive_their_connection)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);

    notify(peer, 1);
    notify(peer, 2);
    ep_closed(ep(0));
    peer.disconnect();
    EXPECT_EQ(0u, peer.num_released);
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL } }), to_records(poll(1)));
    EXPECT_EQ(0u, peer.num_released);
    poll(1);
    EXPECT_EQ(1u, peer.num_released);
    EXPECT_EQ(ints({ 1, 1 }), m_slots); /* What is left decides about it */
}

TEST_F(test_ucp_stream, endpoint_is_that_of_the_time_of_the_poll)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    for (uint32_t imm = 1; imm <= 3; ++imm) {
        notify(peer, imm);
    }
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL } }), to_records(poll(1)));
    peer.set_ep(ep(1)); /* The program has made one */
    EXPECT_EQ(records({ { UCS_OK, 2, 0, ep(1) } }), to_records(poll(1)));

    /* It has closed that, and nobody has told us yet */
    m_worker.on_update = [&] { ep_closed(ep(1)); };
    EXPECT_EQ(records({ { UCS_OK, 3, 0, NULL } }), to_records(poll(1)));
}

TEST_F(test_ucp_stream, queue_is_bounded_by_slots_only)
{
    static const uint32_t num = 100000;
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    uint32_t next = 0;

    for (uint32_t imm = 0; imm < num; ++imm) {
        ASSERT_STATUS(UCS_INPROGRESS, notify(peer, imm));
    }
    EXPECT_EQ(num, wimm()->stream.length);
    while (next < num) {
        for (const auto &n : poll()) {
            ASSERT_EQ(next++, n.imm);
        }
    }
    EXPECT_EQ(num, m_slots.size());
}

TEST_F(test_ucp_stream, handler_consumes_whatever_it_returns)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);
    records seen;
    ucs_status_t result;

    set_handler([&](const ucp_wimm_notification_t &n) {
        EXPECT_EQ(1, wimm()->stream.in_handler);
        seen.push_back(n);
        return result;
    });
    result = UCS_OK;
    EXPECT_OK(notify(peer, 1, 10));
    result = UCS_ERR_NO_RESOURCE;
    EXPECT_OK(notify(peer, 2, 20));
    EXPECT_EQ(records({ { UCS_OK, 1, 10, ep(0) }, { UCS_OK, 2, 20, ep(0) } }),
              seen);
    EXPECT_EQ(0, wimm()->stream.in_handler);
    EXPECT_TRUE(queued().empty());
    EXPECT_TRUE(m_slots.empty()); /* The caller gives it back */
    EXPECT_EQ(1u, peer.super.refcount);
}

TEST_F(test_ucp_stream, handler_leaves_some_to_the_queue)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    set_handler([&](const ucp_wimm_notification_t &n) {
        return (n.imm % 2) ? UCS_INPROGRESS : UCS_OK;
    });
    for (uint32_t imm = 0; imm < 6; ++imm) {
        EXPECT_STATUS((imm % 2) ? UCS_INPROGRESS : UCS_OK, notify(peer, imm));
    }
    EXPECT_EQ(imms({ 1, 3, 5 }), queued());
    EXPECT_EQ(3u, m_slots.size());
}

TEST_F(test_ucp_stream, new_handler_gets_nothing_of_the_queue)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    imms seen;

    notify(peer, 1);
    set_handler([&](const ucp_wimm_notification_t &n) {
        seen.push_back(n.imm);
        return UCS_OK;
    });
    notify(peer, 2);
    set_handler(nullptr);
    notify(peer, 3);
    EXPECT_EQ(imms({ 2 }), seen);
    EXPECT_EQ(imms({ 1, 3 }), queued());
}

TEST_F(test_ucp_stream, counter_comes_first_unless_it_lets_pass)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    ucp_wimm_counter_h takes  = match(1, ~0u);
    ucp_wimm_counter_h passes = match(0, 0, 1, UCP_WIMM_COUNTER_FLAG_PASS);
    imms seen;

    set_handler([&](const ucp_wimm_notification_t &n) {
        /* It has been counted already */
        EXPECT_EQ(seen.size() + 2, read(passes));
        seen.push_back(n.imm);
        return (n.imm == 3) ? UCS_INPROGRESS : UCS_OK;
    });
    EXPECT_OK(notify(peer, 1));
    EXPECT_OK(notify(peer, 2));
    EXPECT_STATUS(UCS_INPROGRESS, notify(peer, 3));
    EXPECT_EQ(1u, read(takes));
    EXPECT_EQ(3u, read(passes));
    EXPECT_EQ(imms({ 2, 3 }), seen);
    EXPECT_EQ(imms({ 3 }), queued());

    EXPECT_EQ(3u, wimm()->stats.notifications);
    EXPECT_EQ(1u, wimm()->stats.counted);
    EXPECT_EQ(1u, wimm()->stats.handled);
    EXPECT_EQ(1u, wimm()->stats.queued);
}

TEST_F(test_ucp_stream, handler_sets_another_one)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    imms first, second;

    set_handler([&](const ucp_wimm_notification_t &n) {
        first.push_back(n.imm);
        set_handler([&](const ucp_wimm_notification_t &n) {
            second.push_back(n.imm);
            return UCS_OK;
        });
        return UCS_OK;
    });
    notify(peer, 1);
    notify(peer, 2);
    EXPECT_EQ(imms({ 1 }), first);
    EXPECT_EQ(imms({ 2 }), second);
}

TEST_F(test_ucp_stream, handler_removes_itself_and_leaves_the_record)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    set_handler([&](const ucp_wimm_notification_t &) {
        set_handler(nullptr);
        return UCS_INPROGRESS;
    });
    notify(peer, 1);
    notify(peer, 2);
    EXPECT_EQ(imms({ 1, 2 }), queued());
}

TEST_F(test_ucp_stream, handler_polls)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    imms seen;

    notify(peer, 1);
    notify(peer, 2);
    set_handler([&](const ucp_wimm_notification_t &) {
        seen = queued(); /* Its own record is not among them yet */
        return UCS_INPROGRESS;
    });
    notify(peer, 3);
    EXPECT_EQ(imms({ 1, 2 }), seen);
    EXPECT_EQ(imms({ 3 }), queued());
}

TEST_F(test_ucp_stream, handler_in_a_handler)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    imms seen;

    set_handler([&](const ucp_wimm_notification_t &n) {
        seen.push_back(n.imm);
        EXPECT_EQ(static_cast<int>(n.imm), wimm()->stream.in_handler);
        if (n.imm < 3) {
            EXPECT_OK(notify(peer, n.imm + 1));
        }
        EXPECT_EQ(static_cast<int>(n.imm), wimm()->stream.in_handler);
        return UCS_OK;
    });
    EXPECT_OK(notify(peer, 1));
    EXPECT_EQ(imms({ 1, 2, 3 }), seen);
    EXPECT_EQ(0, wimm()->stream.in_handler);
}

TEST_F(test_ucp_stream, handler_makes_and_destroys_counters)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    ucp_wimm_counter_h old = match(0, 0, 1, UCP_WIMM_COUNTER_FLAG_PASS);
    ucp_wimm_counter_h c   = nullptr;

    set_handler([&](const ucp_wimm_notification_t &) {
        destroy(old);
        c = match(0, 0);
        return UCS_OK;
    });
    notify(peer, 1);
    EXPECT_EQ(0u, read(c)); /* What comes from now on */
    notify(peer, 2);
    EXPECT_EQ(1u, read(c));
}

TEST_F(test_ucp_stream, failure_goes_to_counters_and_the_handler)
{
    ucp_wimm_counter_h c = counter(NULL); /* Takes every notification */
    records seen;

    set_handler([&](const ucp_wimm_notification_t &n) {
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(c));
        seen.push_back(n);
        return UCS_OK;
    });
    fail(ep(2), UCS_ERR_CONNECTION_RESET);
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, ep(2) } }), seen);
    EXPECT_TRUE(poll().empty());
    EXPECT_EQ(1u, wimm()->stats.failures);
    EXPECT_EQ(0u, wimm()->stats.notifications);
}

TEST_F(test_ucp_stream, failure_is_a_record_in_the_queue_without_a_slot)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);

    notify(peer, 5, 6);
    fail(ep(0), UCS_ERR_ENDPOINT_TIMEOUT);
    set_handler([](const ucp_wimm_notification_t &) { return UCS_INPROGRESS; });
    fail(NULL, UCS_ERR_REJECTED);
    EXPECT_EQ(records({ { UCS_OK, 5, 6, ep(0) },
                        { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) },
                        { UCS_ERR_REJECTED, 0, 0, NULL } }),
              to_records(poll()));
    EXPECT_EQ(1u, m_slots.size());
}

TEST_F(test_ucp_stream, records_of_a_closed_endpoint_do_not_have_it)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);

    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    fail(ep(1), UCS_ERR_ENDPOINT_TIMEOUT);
    notify(peer, 7);
    ep_closed(ep(0));
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, NULL },
                        { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(1) },
                        { UCS_OK, 7, 0, NULL } }),
              to_records(poll()));
}

TEST_F(test_ucp_stream, endpoint_closed_just_before_the_poll)
{
    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    m_worker.on_update = [&] { ep_closed(ep(0)); };
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, NULL } }),
              to_records(poll()));
}

TEST_F(test_ucp_stream, no_memory_for_a_notification)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    ucp_wimm_counter_h c = match(0, 0, 1, UCP_WIMM_COUNTER_FLAG_PASS);

    expect_error("Failed to allocate memory pool"); /* By UCS */
    expect_error("no memory for a notification");
    {
        alloc_nth fault(1);
        EXPECT_STATUS(UCS_ERR_NO_MEMORY, notify(peer, 1));
    }
    EXPECT_EQ(1u, peer.super.refcount);
    EXPECT_EQ(0u, wimm()->stream.length);
    EXPECT_EQ(0u, wimm()->stats.queued);
    EXPECT_EQ(1u, read(c));

    /* There is some again */
    EXPECT_STATUS(UCS_INPROGRESS, notify(peer, 2));
    EXPECT_EQ(imms({ 2 }), queued());
    EXPECT_EQ(1u, m_slots.size());
}

TEST_F(test_ucp_stream, no_memory_for_a_failure)
{
    ucp_wimm_counter_h c = counter(NULL);

    bound(ep(0));                                   /* It is known */
    expect_error("Failed to allocate memory pool"); /* By UCS */
    expect_error("no memory to report that an endpoint");
    {
        alloc_nth fault(1);
        fail(ep(0), UCS_ERR_ENDPOINT_TIMEOUT);
    }
    EXPECT_TRUE(poll().empty());
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_stream, memory_of_records_is_used_again)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    notify(peer, 0);
    queued();
    alloc_nth none(0);
    for (uint32_t imm = 0; imm < 10000; ++imm) {
        notify(peer, imm);
        ASSERT_EQ(imms({ imm }), queued());
    }
    EXPECT_EQ(0u, alloc_nth::count());
}

TEST_F(test_ucp_stream, detaching_drops_the_queue_and_returns_its_slots)
{
    fake_peer a(wimm(), NULL, 1, &m_slots), b(wimm(), NULL, 2, &m_slots);

    notify(a, 1);
    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    notify(b, 2);
    b.disconnect();
    detach();
    EXPECT_EQ(ints({ 1, 2 }), m_slots);
    EXPECT_EQ(1u, a.super.refcount);
    EXPECT_EQ(1u, b.num_released);
}

TEST_F(test_ucp_stream, arm_is_busy_while_something_waits)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    EXPECT_OK(ucp_wimm_arm(wimm()));

    notify(peer, 1);
    notify(peer, 2);
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    poll(1);
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    poll(1);
    EXPECT_OK(ucp_wimm_arm(wimm()));

    /* A failure in the queue is something, too */
    fail(NULL, UCS_ERR_CONNECTION_RESET);
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    poll();
    EXPECT_OK(ucp_wimm_arm(wimm()));

    /* And one that progress is going to report, which it finds itself */
    ep(0);
    m_worker.on_update = [&] { ucp_fails(0); };
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_stream, what_cannot_be_is_refused)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    ucp_wimm_notification_t n;
    unsigned count = 77;

    notify(peer, 1);
    expect_error("ucp_wimm_poll() has nowhere to write to", 2);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_poll(wimm(), NULL, 1, &count));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_poll(wimm(), &n, 1, NULL));
    expect_error("ucp_wimm_poll: the handle is NULL");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_poll(NULL, &n, 1, &count));
    expect_error("ucp_wimm_arm: the handle is NULL");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_arm(NULL));
    expect_error("ucp_wimm_set_handler: the handle is NULL");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_set_handler(NULL, NULL, NULL));
    EXPECT_EQ(imms({ 1 }), queued());

    detach();
    expect_error("the handle is detached", 3);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_poll(wimm(), &n, 1, &count));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_arm(wimm()));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_set_handler(wimm(), NULL, NULL));
    EXPECT_EQ(77u, count);
}
