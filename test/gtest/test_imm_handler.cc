/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <algorithm>


/* The receiving side: handler set, unset, and what it may do */
class test_imm_handler : public imm_test {
  protected:
    /* Send count notifications, as resources allow, without waiting */
    void send(unsigned count, uint32_t first = 0, unsigned index = 0)
    {
        for (uint32_t i = 0; i < count; ++i) {
            ASSERT_OK(retry(
                    [&]() { return notify(sender(), index, first + i); }));
        }
    }

    static void check_order(const imm_sink &sink)
    {
        for (size_t i = 0; i < sink.count(); ++i) {
            ASSERT_EQ(i, sink.got[i].imm);
        }
    }
};


TEST_F(test_imm_handler, unset_notifications_wait_in_order)
{
    open_pair();
    imm_sink sink(receiver(), false);

    send(100);
    flush(sender());
    progress_rounds();
    EXPECT_EQ(0u, sink.count());

    sink.start();
    EXPECT_EQ(0u, sink.count()); /* Only progress delivers */
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 100; }));
    check_order(sink);
    check_rx_accounting();
}

TEST_F(test_imm_handler, waiting_ones_keep_imm_and_length)
{
    open_pair();
    const unsigned max = sender().attr().cap.put.max_short;
    mapped_buffer dst(max, receiver());
    const std::vector<uint8_t> data = pattern(5, max);
    imm_sink sink(receiver(), false);

    ASSERT_OK(put_imm(sender(), 0, data.data(), max, dst, 0, 0xffffffffu));
    ASSERT_OK(put_imm(sender(), 0, data.data(), 0, dst, 0, 0x80000000u));
    flush(sender());
    progress_rounds();

    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    EXPECT_EQ(0xffffffffu, sink.got[0].imm);
    EXPECT_EQ(max, sink.got[0].length);
    EXPECT_EQ(0x80000000u, sink.got[1].imm);
    EXPECT_EQ(0u, sink.got[1].length);
    dst.check(5, max);
}

TEST_F(test_imm_handler, later_ones_do_not_overtake_waiting_ones)
{
    open_pair();
    imm_sink sink(receiver(), false);

    send(50);
    flush(sender());
    progress_rounds();

    /* More is on the wire when the handler is set */
    send(50, 50);
    sink.start();
    send(50, 100);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 150; }));
    check_order(sink);
    check_rx_accounting();
}

TEST_F(test_imm_handler, slots_bound_what_waits_none_lost)
{
    const unsigned count = 300, slots = 64;

    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    imm_sink sink(receiver(), false);
    uint32_t sent = 0;

    /* The peer takes them from the wire, but there is no handler */
    progress_rounds();
    while (notify(sender(), 0, sent) == UCS_OK) {
        ++sent;
        progress();
    }
    EXPECT_EQ(slots, sent);
    progress_rounds();
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, sent));
    EXPECT_EQ(0u, sink.count());
    flush(sender());
    check_rx_accounting();

    sink.start();
    send(count - sent, sent);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    check_order(sink);
    flush(sender());
    check_rx_accounting();
}

TEST_F(test_imm_handler, active_messages_pass_while_notifications_wait)
{
    const unsigned held = 56, count = 100;

    /* Fewer wait than there are receives: those that are left go round, down to
     * the last one */
    open_pair({ { "IB_RX_QUEUE_LEN", "64" } });
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver(), false);
    unsigned got = 0;

    receiver().set_am_handler(3, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });

    send(held);
    flush(sender());
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(sender().ep(1), 3, i, NULL, 0);
        }));
    }
    ASSERT_TRUE(wait_for([&]() { return got == count; }, 10));

    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == held; }));
    check_order(sink);
    check_rx_accounting();
}

TEST_F(test_imm_handler, removed_in_mid_stream_and_set_again)
{
    const unsigned count = 400;

    open_pair();
    imm_sink sink(receiver());
    unsigned removed = 0;

    /* The handler removes itself every 7 notifications */
    sink.on_imm = [&](const imm_sink::notification &n) {
        if ((n.imm % 7) == 6) {
            sink.pause();
            ++removed;
        }
    };

    uint32_t sent = 0;
    ASSERT_TRUE(wait_for([&]() {
        if ((sent < count) && (notify(sender(), 0, sent) == UCS_OK)) {
            ++sent;
        }
        if ((sent % 20) == 0) {
            sink.start();
        }
        return sink.count() == count;
    }));
    check_order(sink);
    EXPECT_EQ(count / 7, removed);
    sink.start();
    check_rx_accounting();
}

TEST_F(test_imm_handler, removed_while_delivering_what_waited)
{
    open_pair();
    imm_sink sink(receiver(), false);

    send(20);
    flush(sender());
    progress_rounds();

    sink.on_imm = [&](const imm_sink::notification &) { sink.pause(); };
    for (unsigned i = 1; i <= 20; ++i) {
        sink.start();
        progress_rounds(20);
        ASSERT_EQ(i, sink.count());
    }
    check_order(sink);
}

TEST_F(test_imm_handler, replaced_by_another)
{
    open_pair();
    imm_sink first(receiver());

    send(10);
    ASSERT_TRUE(wait_for([&]() { return first.count() == 10; }));

    imm_sink second(receiver());
    send(10, 10);
    ASSERT_TRUE(wait_for([&]() { return second.count() == 10; }));
    EXPECT_EQ(10u, first.count());
    EXPECT_EQ(10u, second.got[0].imm);
}

TEST_F(test_imm_handler, set_by_an_active_message_handler)
{
    open_pair();
    imm_sink sink(receiver(), false);

    /* Both may be in one batch of completions */
    receiver().set_am_handler(1, [&](void *, size_t, unsigned) {
        sink.start();
        return UCS_OK;
    });
    send(5);
    ASSERT_OK(uct_ep_am_short(sender().ep(), 1, 0, NULL, 0));
    send(5, 5);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 10; }));
    check_order(sink);
    check_rx_accounting();
}

TEST_F(test_imm_handler, answers_with_notified_put)
{
    const unsigned count = 200;

    open_pair();
    mapped_buffer left(8, sender());
    mapped_buffer right(8, receiver());
    imm_sink left_sink(sender());
    imm_sink right_sink(receiver());

    right_sink.on_imm = [&](const imm_sink::notification &n) {
        const uint64_t data = n.imm + 100;

        EXPECT_OK(uct_wimm_ep_put_imm_short(n.ep, &data, sizeof(data),
                                            left.addr(), left.rkey(), n.imm));
    };
    left_sink.on_imm = [&](const imm_sink::notification &n) {
        EXPECT_EQ(n.imm + 100, left.u64());
        if ((n.imm + 1) < count) {
            EXPECT_OK(notify(sender(), 0, n.imm + 1));
        }
    };

    ASSERT_OK(notify(sender(), 0, 0));
    ASSERT_TRUE(wait_for([&]() { return left_sink.count() == count; }));
    check_order(left_sink);
}

TEST_F(test_imm_handler, answers_with_active_message)
{
    const unsigned count = 100;

    open_pair();
    imm_sink sink(receiver());
    std::vector<uint64_t> got;

    sender().set_am_handler(2, [&](void *data, size_t, unsigned) {
        got.push_back(u64_at(data));
        return UCS_OK;
    });
    sink.on_imm = [&](const imm_sink::notification &n) {
        ASSERT_OK(uct_ep_am_short(n.ep, 2, n.imm, NULL, 0));
    };

    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_OK(notify(sender(), 0, i));
        ASSERT_TRUE(wait_for([&]() { return got.size() == (i + 1); }));
        ASSERT_EQ(i, got[i]);
    }
}

TEST_F(test_imm_handler, called_from_no_other_call)
{
    open_pair();
    mapped_buffer dst(8, sender());
    imm_sink sink(receiver());
    uct_wimm_iface_attr_t attr = {};
    const uint64_t data        = 1;
    completion comp;

    /* It has arrived, and nobody has looked */
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(), 0, &comp.uct));
    for (unsigned i = 0; (i < 10000000) && !comp.done(); ++i) {
        sender().progress();
    }
    ASSERT_TRUE(comp.done());

    uct_ep_h ep     = receiver().ep();
    attr.field_mask = UINT64_MAX;
    ASSERT_OK(
            uct_ep_put_short(ep, &data, sizeof(data), dst.addr(), dst.rkey()));
    ASSERT_OK(notify(receiver(), 0, 2));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep, 0, NULL));
    ASSERT_STATUS(UCS_INPROGRESS, uct_iface_flush(receiver().iface(), 0, NULL));
    ASSERT_OK(uct_ep_fence(ep, 0));
    ASSERT_OK(uct_wimm_ep_slot_release(ep, 0));
    ASSERT_OK(uct_wimm_iface_query(receiver().iface(), &attr));
    uct_ep_pending_purge(ep, NULL, NULL);
    uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV);
    sink.start();
    EXPECT_EQ(0u, sink.count());

    receiver().progress();
    EXPECT_EQ(1u, sink.count());
}

TEST_F(test_imm_handler, flushes_endpoint_and_interface)
{
    const unsigned count = 50;
    completion comps[count];
    unsigned in_progress = 0;

    open_pair();
    mapped_buffer dst(count * sizeof(uint64_t), sender());
    imm_sink sink(receiver());

    sink.on_imm = [&](const imm_sink::notification &n) {
        const uint64_t data = n.imm + 1;

        EXPECT_OK(uct_ep_put_short(n.ep, &data, sizeof(data),
                                   dst.addr(n.imm * sizeof(data)), dst.rkey()));
        EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(n.ep, 0, &comps[n.imm].uct));
        EXPECT_STATUS(UCS_INPROGRESS,
                      uct_iface_flush(receiver().iface(), 0, NULL));
        ++in_progress;
    };
    send(count);
    ASSERT_TRUE(wait_for([&]() { return in_progress == count; }));
    ASSERT_TRUE(wait_for([&]() { return comps[count - 1].done(); }));
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(1, comps[i].called);
        EXPECT_EQ(i + 1, dst.u64(i));
    }
    check_tx_accounting(receiver());
}

TEST_F(test_imm_handler, destroys_its_own_endpoint)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver());

    sink.on_imm = [&](const imm_sink::notification &n) {
        if (n.imm == 3) {
            receiver().destroy_ep(0);
        }
    };

    /* What the peer still sent on it is dropped, the other endpoint goes on.
     * The peer's later ones may fail, since nobody answers them. */
    send(8);
    send(8, 100, 1);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (4 + 8); }));
    progress_rounds();
    EXPECT_EQ(12u, sink.count());
    sender().destroy_ep(0);
    send(100, 200, 1);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 112; }));
    check_rx_accounting();
}

TEST_F(test_imm_handler, destroys_another_endpoint)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver());
    bool destroyed = false;

    sink.on_imm = [&](const imm_sink::notification &n) {
        EXPECT_FALSE(destroyed && (n.ep_index != 0));
        if (n.imm == 0) {
            receiver().destroy_ep(1);
            destroyed = true;
        }
    };

    send(4, 100, 1);
    send(4);
    send(4, 104, 1);
    ASSERT_TRUE(wait_for(
            [&]() { return !sink.got.empty() && (sink.got.back().imm == 3); }));
    sender().destroy_ep(1);
    send(100, 4);
    ASSERT_TRUE(wait_for([&]() { return sink.got.back().imm == 103; }));
    check_rx_accounting();
}

TEST_F(test_imm_handler, destroys_its_endpoint_while_delivering_what_waited)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver(), false);

    for (uint32_t i = 0; i < 10; ++i) {
        send(1, i, i % 2);
    }
    flush(sender());
    flush(sender(), 1);
    progress_rounds();

    sink.on_imm = [&](const imm_sink::notification &n) {
        if (n.imm == 2) {
            receiver().destroy_ep(0);
        }
    };
    sink.start();
    ASSERT_TRUE(wait_for(
            [&]() { return !sink.got.empty() && sink.got.back().imm == 9; }));

    /* 0 1 2 3 5 7 9 */
    EXPECT_EQ(7u, sink.count());
    check_rx_accounting();
}

TEST_F(test_imm_handler, endpoint_destroyed_while_notifications_wait)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver(), false);

    send(40);
    send(40, 1000, 1);
    flush(sender());
    flush(sender(), 1);
    progress_rounds();

    receiver().destroy_ep(0);
    check_rx_accounting();
    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 40; }));
    EXPECT_EQ(1000u, sink.got[0].imm);
    progress_rounds();
    EXPECT_EQ(40u, sink.count());
    check_rx_accounting();
}

TEST_F(test_imm_handler, all_endpoints_destroyed_while_notifications_wait)
{
    open_pair({ { "IB_RX_QUEUE_LEN", "64" } });
    imm_sink sink(receiver(), false);

    /* A full queue of them, more than once: each receive comes back */
    for (unsigned round = 0; round < 4; ++round) {
        send(60);
        flush(sender());
        progress_rounds();
        receiver().destroy_ep(0);
        sender().destroy_ep(0);
        entity::connect(sender(), 0, receiver(), 0);
    }

    sink.start();
    send(200);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 200; }));
    check_order(sink);
    check_rx_accounting();
}

TEST_F(test_imm_handler, interface_closed_while_notifications_wait)
{
    open_pair();
    {
        imm_sink sink(receiver(), false);

        send(30);
        flush(sender());
        progress_rounds();
        sink.start();
    }

    /* With a handler, and not delivered; then without: TearDown closes */
    send(30, 30);
    flush(sender());
    progress_rounds();
}

TEST_F(test_imm_handler, slow_handler_does_not_hold_receives)
{
    open_pair({ { "IB_RX_QUEUE_LEN", "64" } });
    imm_sink sink(receiver());
    unsigned in_handler_max = 0;

    /* Refilled before the handler runs: less than a batch is missing */
    sink.on_imm = [&](const imm_sink::notification &) {
        in_handler_max = std::max(in_handler_max,
                                  rc_state::rx_available(receiver()));
    };
    send(500);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 500; }));
    EXPECT_LT(in_handler_max, rc_state::rx_batch(receiver()));
}

TEST_F(test_imm_handler, receives_are_posted_before_what_waited_is_delivered)
{
    const unsigned count = 10;

    open_pair();
    imm_sink sink(receiver(), false);
    unsigned posts = 0;
    pack_arg none  = {};

    send(count);
    flush(sender());
    progress_rounds();

    /* As many messages as receives are posted at a time, arrived and not taken */
    receiver().set_am_handler(0,
                              [](void *, size_t, unsigned) { return UCS_OK; });
    for (unsigned i = 0; i < rc_state::rx_batch(receiver()); ++i) {
        ASSERT_EQ(0, uct_ep_am_bcopy(sender().ep(), 0, pack_cb, &none, 0));
    }
    wait_sent(sender());

    sink.on_imm = [&](const imm_sink::notification &) { EXPECT_GT(posts, 0u); };
    verbs_fault view(receiver(), verbs_fault::POST_SRQ_RECV, [&](const void *) {
        ++posts;
        return 0;
    });
    sink.start();
    receiver().progress();
    EXPECT_EQ(count, sink.count());
}

TEST_F(test_imm_handler, removed_after_each_one_the_queue_bounds_what_waits)
{
    const unsigned count = 2000, queue_len = 64;

    /* A peer that sends as fast as it can, a handler that takes one at a time:
     * what the others hold is missing in the receive queue, the peer waits */
    open_pair({ { "IB_RX_QUEUE_LEN", std::to_string(queue_len) },
                { "IB_TX_QUEUE_LEN", "256" } });
    imm_sink sink(receiver(), false);
    uint32_t sent  = 0;
    int max_excess = 0;

    sink.on_imm = [&](const imm_sink::notification &) { sink.pause(); };
    ASSERT_TRUE(wait_for([&]() {
        while ((sent < count) && (notify(sender(), 0, sent) == UCS_OK)) {
            ++sent;
        }
        sink.start();
        max_excess = std::max(max_excess, rx_excess(receiver()));
        return sink.count() == count;
    }));
    check_order(sink);

    /* Those of one poll at most were on their way when the handler went */
    EXPECT_LT(max_excess, static_cast<int>(rc_state::rx_max_poll(receiver())));
    EXPECT_TRUE(sender().errors.empty());
    sink.pause();
    flush(sender());
    check_rx_accounting();
}

TEST_F(test_imm_handler, active_message_does_not_overtake_what_waits)
{
    open_pair();
    imm_sink sink(receiver(), false);
    std::vector<uint64_t> order;

    receiver().set_am_handler(4, [&](void *data, size_t, unsigned) {
        order.push_back(u64_at(data));
        return UCS_OK;
    });
    sink.on_imm = [&](const imm_sink::notification &n) {
        order.push_back(n.imm);
    };

    for (uint64_t round = 0; round < 20; ++round) {
        const uint64_t first = 6 * round;

        /* These wait; what follows is in the completion queue, and not seen
         * yet, when the handler is set */
        send(3, first);
        flush(sender());
        progress_rounds(50);
        ASSERT_EQ(first, order.size());
        ASSERT_OK(uct_ep_am_short(sender().ep(), 4, first + 3, NULL, 0));
        ASSERT_OK(notify(sender(), 0, first + 4));
        ASSERT_OK(uct_ep_am_short(sender().ep(), 4, first + 5, NULL, 0));

        completion comp;
        ucs_status_t status = uct_ep_flush(sender().ep(), 0, &comp.uct);
        ASSERT_STATUS(UCS_INPROGRESS, status);
        for (unsigned i = 0; (i < 10000000) && !comp.done(); ++i) {
            sender().progress();
        }
        ASSERT_TRUE(comp.done());

        sink.start();
        ASSERT_TRUE(wait_for([&]() { return order.size() == (first + 6); }));
        sink.pause();
    }
    for (uint64_t i = 0; i < order.size(); ++i) {
        ASSERT_EQ(i, order[i]);
    }
    check_rx_accounting();
}

TEST_F(test_imm_handler, active_messages_get_through_while_one_at_a_time_waits)
{
    const unsigned count = 300;

    open_pair({ { "IB_RX_QUEUE_LEN", "64" } });
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver(), false);
    uint32_t sent = 0, ams = 0;
    unsigned got = 0;

    receiver().set_am_handler(4, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    sink.on_imm = [&](const imm_sink::notification &) { sink.pause(); };
    ASSERT_TRUE(wait_for([&]() {
        while ((sent < count) && (notify(sender(), 0, sent) == UCS_OK)) {
            ++sent;
        }
        if ((ams < count) &&
            (uct_ep_am_short(sender().ep(1), 4, ams, NULL, 0) == UCS_OK)) {
            ++ams;
        }
        sink.start();
        return (sink.count() == count) && (got == count);
    }));
    check_order(sink);
    check_rx_accounting();
}
