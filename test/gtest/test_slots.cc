/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <stdexcept>


static const unsigned slots = 16;


/* Notification slots: what bounds the receiver's queue */
class test_slots : public imm_test {
  protected:
    void open_pair_with_slots(unsigned count            = slots,
                              const config_list &config = config_list())
    {
        config_list all = { { "NUM_SLOTS", std::to_string(count) } };

        all.insert(all.end(), config.begin(), config.end());
        open_pair(all);
    }

    /* Until the sender has no slot left. @return How many. */
    unsigned fill(unsigned index = 0)
    {
        unsigned count = 0;

        wait_for([&]() {
            while (notify(sender(), index, count) == UCS_OK) {
                ++count;
            }
            return ep_attr(sender(), index).slots == 0;
        });
        return count;
    }

    /* Send notifications, and let them arrive */
    void send(imm_sink &sink, unsigned count, unsigned index = 0)
    {
        const size_t end = sink.count() + count;

        for (unsigned i = 0; i < count; ++i) {
            ASSERT_OK(retry([&]() { return notify(sender(), index, i); }));
        }
        ASSERT_TRUE(wait_for([&]() { return sink.count() >= end; }));
        ASSERT_EQ(end, sink.count());
    }

    void release(unsigned count, unsigned index = 0)
    {
        ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(index), count));
    }

    void expect_release_refused(unsigned count, unsigned held)
    {
        expect_error("cannot release " + std::to_string(count) +
                     " notification slots");
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      uct_wimm_ep_slot_release(receiver().ep(), count));
        EXPECT_FALSE(logged(UCS_LOG_LEVEL_ERROR,
                            ": " + std::to_string(held) + " are held")
                             .empty());
    }

    uint64_t slot_returns()
    {
        return ep_attr(receiver()).counters.slot_returns;
    }

    bool wait_slots(unsigned count, unsigned index = 0)
    {
        return wait_for(
                [&]() { return ep_attr(sender(), index).slots == count; });
    }

    /* Fewer than half may be kept until there are more */
    bool wait_most_slots(unsigned index = 0)
    {
        return wait_for([&]() {
            return ep_attr(sender(), index).slots > (slots - (slots / 2));
        });
    }

    /* Nothing more comes back */
    void expect_slots(unsigned count)
    {
        progress_rounds();
        EXPECT_EQ(count, ep_attr(sender()).slots);
    }
};


TEST_F(test_slots, held_until_released)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    EXPECT_EQ(slots, ep_attr(sender()).num_slots);
    sink.result = UCS_INPROGRESS;
    EXPECT_EQ(slots, fill());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == slots; }));
    progress_rounds();
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, slots));

    /* One is enough for a peer that has none */
    release(1);
    ASSERT_TRUE(wait_slots(1));
    ASSERT_OK(notify(sender(), 0, slots));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, slots));

    ASSERT_TRUE(wait_for([&]() { return sink.count() == (slots + 1); }));
    release(slots);
    ASSERT_TRUE(wait_slots(slots));
    check_rx_accounting();
}

TEST_F(test_slots, returned_half_at_a_time)
{
    /* No grants, which fewer would go with */
    open_pair_with_slots(slots, { { "RC_FC_ENABLE", "n" } });
    imm_sink sink(receiver());

    for (unsigned round = 1; round <= 5; ++round) {
        send(sink, (slots / 2) - 1);
        expect_slots(slots - (slots / 2) + 1);
        EXPECT_EQ(round - 1, slot_returns());
        send(sink, 1);
        ASSERT_TRUE(wait_slots(slots));
        EXPECT_EQ(round, slot_returns());
    }
}

TEST_F(test_slots, released_ones_are_returned_half_at_a_time)
{
    /* No grants, which fewer would go with */
    open_pair_with_slots(slots, { { "RC_FC_ENABLE", "n" } });
    imm_sink sink(receiver());

    sink.result = UCS_INPROGRESS;
    send(sink, slots - 1);
    for (unsigned i = 1; i < (slots / 2); ++i) {
        release(1);
    }
    expect_slots(1);
    release(1);
    ASSERT_TRUE(wait_slots((slots / 2) + 1));
    EXPECT_EQ(1u, slot_returns());

    /* All at once in one message */
    send(sink, 1);
    release(slots / 2);
    ASSERT_TRUE(wait_slots(slots));
    EXPECT_EQ(2u, slot_returns());
}

TEST_F(test_slots, returned_below_half_when_the_peer_has_none_left)
{
    /* No grants, which fewer would go with */
    open_pair_with_slots(slots, { { "RC_FC_ENABLE", "n" } });
    imm_sink sink(receiver());

    /* Consumed first, held later: the last one to arrive shows it */
    send(sink, 2);
    sink.result = UCS_INPROGRESS;
    send(sink, slots - 3);
    expect_slots(1);
    EXPECT_EQ(0u, slot_returns());
    send(sink, 1);
    ASSERT_TRUE(wait_slots(2));
    EXPECT_EQ(1u, slot_returns());

    /* The other way round */
    send(sink, 1);
    sink.result = UCS_OK;
    send(sink, 1);
    ASSERT_TRUE(wait_slots(1));
    EXPECT_EQ(2u, slot_returns());
}

TEST_F(test_slots, not_returned_by_the_receiver_that_still_waits_for_a_handler)
{
    open_pair_with_slots();
    imm_sink sink(receiver(), false);

    /* What waits is as good as held, and what was consumed before comes back */
    sink.start();
    send(sink, 2);
    sink.pause();
    EXPECT_EQ(slots - 2, fill());
    ASSERT_TRUE(wait_slots(2));
    EXPECT_EQ(2u, fill());
    expect_slots(0);
    sink.start();
    ASSERT_TRUE(wait_slots(slots));
    EXPECT_EQ(slots + 2u, sink.count());
}

TEST_F(test_slots, release_more_than_held_is_refused)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    expect_release_refused(1, 0);
    send(sink, 2);
    sink.result = UCS_INPROGRESS;
    send(sink, 3);
    expect_release_refused(4, 3);
    expect_release_refused(UINT_MAX, 3);

    /* Nothing was freed */
    expect_slots(slots - 5);
    release(3);
    sink.result = UCS_OK;
    send(sink, (slots / 2) - 5);
    ASSERT_TRUE(wait_slots(slots));
    expect_release_refused(2, 0);
}

TEST_F(test_slots, release_of_none)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    release(0);
    send(sink, 1);
    release(0);
    sink.result = UCS_INPROGRESS;
    send(sink, slots / 2);
    release(0);
    expect_slots((slots / 2) - 1);
    EXPECT_EQ(0u, slot_returns());
    expect_release_refused(slots, slots / 2);
}

TEST_F(test_slots, release_from_inside_the_handler)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    /* Itself, and says so */
    sink.on_imm = [&](const imm_sink::notification &) { release(1); };
    sink.result = UCS_INPROGRESS;
    send(sink, slots / 2);
    ASSERT_TRUE(wait_slots(slots));

    /* Itself, and returns UCS_OK: not twice */
    sink.result = UCS_OK;
    send(sink, (slots / 2) - 1);
    expect_slots(slots - (slots / 2) + 1);
    send(sink, 1);
    ASSERT_TRUE(wait_slots(slots));
    expect_release_refused(1, 0);

    /* More than there are, itself included */
    sink.on_imm = [&](const imm_sink::notification &) {
        expect_release_refused(2, 1);
    };
    send(sink, 1);
}

TEST_F(test_slots, released_one_behind_as_a_queue_does)
{
    const unsigned count = 10 * slots;

    open_pair_with_slots();
    imm_sink sink(receiver());
    unsigned held = 0;

    sink.result = UCS_INPROGRESS;
    sink.on_imm = [&](const imm_sink::notification &) {
        if (++held > (slots / 4)) {
            release(1);
            --held;
        }
    };
    send(sink, count);
    release(held);
    ASSERT_TRUE(wait_most_slots());
    expect_release_refused(1, 0);
    EXPECT_EQ(count, ep_attr(receiver()).counters.delivered);
    EXPECT_LE(slot_returns(), (count / (slots / 2)) + 1);
}

TEST_F(test_slots, any_other_result_consumes)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    for (ucs_status_t result : { UCS_OK, static_cast<ucs_status_t>(7) }) {
        sink.result = result;
        send(sink, slots / 2);
        ASSERT_TRUE(wait_slots(slots));
    }
    expect_release_refused(1, 0);
}

TEST_F(test_slots, error_of_the_handler_fails_the_endpoint)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    /* The second is lost: nothing comes after it, also of what is there already */
    sink.on_imm = [&](const imm_sink::notification &n) {
        sink.result = (n.imm == 1) ? UCS_ERR_NO_MEMORY : UCS_OK;
    };
    for (uint32_t imm = 0; imm < 4; ++imm) {
        ASSERT_OK(notify(sender(), 0, imm));
    }
    expect_error("endpoint failed: Out of memory");
    allow_error("completion with error");
    wait_sent(sender());
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    EXPECT_STATUS(UCS_ERR_NO_MEMORY, receiver().errors[0].status);
    progress_rounds();
    EXPECT_EQ(2u, sink.count());
}

TEST_F(test_slots, handler_destroys_the_endpoint_and_keeps_the_slot)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    sink.result = UCS_INPROGRESS;
    send(sink, 3);
    sink.on_imm = [&](const imm_sink::notification &n) {
        receiver().destroy_ep(n.ep_index);
    };
    ASSERT_OK(notify(sender(), 0, 3));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 4; }));
    sender().destroy_ep(0);

    /* A new one has all of them, and nothing is held */
    sink.on_imm = nullptr;
    sink.result = UCS_OK;
    entity::connect(sender(), 0, receiver(), 0);
    EXPECT_EQ(slots, ep_attr(sender()).slots);
    expect_release_refused(1, 0);
    send(sink, 2 * slots);
    ASSERT_TRUE(wait_most_slots());
    check_rx_accounting();
}

TEST_F(test_slots, handler_destroys_the_endpoint_while_all_wait)
{
    open_pair_with_slots();
    imm_sink sink(receiver(), false);

    EXPECT_EQ(slots, fill());
    flush(sender());
    progress_rounds();
    sink.result = UCS_INPROGRESS;
    sink.on_imm = [&](const imm_sink::notification &n) {
        if (n.imm == 2) {
            receiver().destroy_ep(n.ep_index);
        }
    };
    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 3; }));
    progress_rounds();
    EXPECT_EQ(3u, sink.count());
    check_rx_accounting();
}

TEST_F(test_slots, release_on_a_failed_endpoint)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    sink.result = UCS_INPROGRESS;
    send(sink, slots);
    expect_error("unknown control message");
    ASSERT_EQ(0, rc_state::raw_send(sender(), 0, IBV_WR_SEND_WITH_IMM,
                                    0xf0000000));
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));

    EXPECT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots - 1));
    expect_release_refused(2, 1);
    EXPECT_OK(uct_wimm_ep_slot_release(receiver().ep(), 1));
    progress_rounds();
    EXPECT_EQ(0u, slot_returns());
    receiver().destroy_ep(0);
    check_tx_accounting(receiver());
}

TEST_F(test_slots, one)
{
    open_pair_with_slots(1);
    imm_sink sink(receiver());

    for (unsigned i = 0; i < 50; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, i));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == (i + 1); }));
        EXPECT_EQ(i, sink.got.back().imm);
    }
    EXPECT_TRUE(wait_slots(1));
    EXPECT_EQ(50u, slot_returns());
}

TEST_F(test_slots, one_in_both_directions)
{
    const uint32_t count = 50;

    open_pair_with_slots(1, { { "RC_FC_WND_SIZE", "1" } });
    imm_sink left(sender());
    imm_sink right(receiver());
    uint32_t left_sent = 0, right_sent = 0;

    ASSERT_TRUE(wait_for([&]() {
        left_sent += (left_sent < count) &&
                     (notify(sender(), 0, left_sent) == UCS_OK);
        right_sent += (right_sent < count) &&
                      (notify(receiver(), 0, right_sent) == UCS_OK);
        return (left.count() == count) && (right.count() == count);
    }));
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, left.got[i].imm);
        ASSERT_EQ(i, right.got[i].imm);
    }
}

TEST_F(test_slots, most_that_there_can_be)
{
    const unsigned count = 8191;

    open_pair_with_slots(count);
    imm_sink sink(receiver());

    EXPECT_EQ(count, ep_attr(sender()).num_slots);
    sink.result = UCS_INPROGRESS;
    EXPECT_EQ(count, fill());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, count));
    expect_release_refused(count + 1, count);
    release(count);
    ASSERT_TRUE(wait_slots(count));
    EXPECT_EQ(1u, slot_returns());
    check_rx_accounting();
}

TEST_F(test_slots, none_or_too_many_are_refused)
{
    for (const char *count : { "0", "8192", "4294967295" }) {
        expect_error("UCX_WIMM_NUM_SLOTS is " + std::string(count) +
                     ", it has to be 1 to 8191");
        EXPECT_THROW(open({ { "NUM_SLOTS", count } }), std::runtime_error);
    }
}

TEST_F(test_slots, each_side_gives_its_own_number)
{
    open({ { "NUM_SLOTS", "3" } });
    open({ { "NUM_SLOTS", "7" } });
    entity::connect(sender(), 0, receiver(), 0);
    imm_sink left(sender()), right(receiver());
    uct_wimm_iface_attr_t attr = {};

    EXPECT_EQ(7u, ep_attr(sender()).slots);
    EXPECT_EQ(3u, ep_attr(receiver()).slots);
    attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS;
    ASSERT_OK(uct_wimm_iface_query(sender().iface(), &attr));
    EXPECT_EQ(3u, attr.num_slots);

    left.result  = UCS_INPROGRESS;
    right.result = UCS_INPROGRESS;
    EXPECT_EQ(7u, fill());
    unsigned count = 0;
    while (notify(receiver(), 0, count) == UCS_OK) {
        ++count;
    }
    EXPECT_EQ(3u, count);
    ASSERT_TRUE(wait_for(
            [&]() { return (left.count() == 3) && (right.count() == 7); }));
}

TEST_F(test_slots, endpoints_have_their_own)
{
    const unsigned num_eps = 4;

    open_pair_with_slots();
    for (unsigned i = 1; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    imm_sink sink(receiver());

    /* One holds all of its slots, for the others that is nothing */
    expect_error("cannot release 1 notification slots", num_eps - 1);
    sink.result = UCS_INPROGRESS;
    EXPECT_EQ(slots, fill());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == slots; }));
    sink.result = UCS_OK;
    for (unsigned i = 1; i < num_eps; ++i) {
        send(sink, 3 * slots, i);
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 0));
        ASSERT_TRUE(wait_most_slots(i));
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      uct_wimm_ep_slot_release(receiver().ep(i), 1));
    }
    release(slots);
    ASSERT_TRUE(wait_slots(slots));
}

TEST_F(test_slots, active_messages_and_puts_need_none)
{
    const uint64_t count = 100;

    open_pair_with_slots(1);
    mapped_buffer dst(8, receiver());
    imm_sink sink(receiver());
    uint64_t got = 0;

    receiver().set_am_handler(1, [&](void *data, size_t, unsigned) {
        EXPECT_EQ(got, u64_at(data));
        ++got;
        return UCS_OK;
    });
    sink.result = UCS_INPROGRESS;
    EXPECT_EQ(1u, fill());
    for (uint64_t i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(sender().ep(), 1, i, NULL, 0);
        }));
        ASSERT_OK(retry([&]() {
            return uct_ep_put_short(sender().ep(), &i, sizeof(i), dst.addr(),
                                    dst.rkey());
        }));
    }
    flush(sender());
    ASSERT_TRUE(wait_for([&]() { return got == count; }));
    EXPECT_EQ(count - 1, dst.u64());
    EXPECT_EQ(1u, sink.count());
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 0));
}

/* Without receive credits, slots are what is left to hold a peer back */
class test_slots_fc_off : public test_slots {
  protected:
    void check(const char *sender_fc, const char *receiver_fc)
    {
        const std::string count = std::to_string(slots);

        open({ { "NUM_SLOTS", count }, { "FC_ENABLE", sender_fc } });
        open({ { "NUM_SLOTS", count }, { "FC_ENABLE", receiver_fc } });
        entity::connect(sender(), 0, receiver(), 0);
        imm_sink sink(receiver());

        EXPECT_FALSE(ep_attr(sender()).flow_control);
        sink.result = UCS_INPROGRESS;
        for (unsigned round = 0; round < 5; ++round) {
            EXPECT_EQ(slots, fill());
            ASSERT_TRUE(wait_for(
                    [&]() { return sink.count() == ((round + 1) * slots); }));
            expect_slots(0);
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 0));
            release(slots);
            ASSERT_TRUE(wait_slots(slots));
        }
        EXPECT_EQ(5u, slot_returns());
        check_rx_accounting();
    }
};


TEST_F(test_slots_fc_off, both_sides)
{
    check("n", "n");
}

TEST_F(test_slots_fc_off, sender)
{
    check("n", "y");
}

TEST_F(test_slots_fc_off, receiver)
{
    check("y", "n");
}

TEST_F(test_slots, all_wait_for_a_handler_on_several_endpoints)
{
    const unsigned num_eps = 3;
    unsigned ams           = 0;

    open_pair_with_slots();
    for (unsigned i = 1; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    imm_sink sink(receiver(), false);

    receiver().set_am_handler(1, [&](void *, size_t, unsigned) {
        ++ams;
        return UCS_OK;
    });
    for (unsigned i = 0; i < num_eps; ++i) {
        EXPECT_EQ(slots, fill(i));
    }
    for (unsigned i = 0; i < num_eps; ++i) {
        flush(sender(), i);
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(sender().ep(i), 1, 0, NULL, 0);
        }));
    }
    ASSERT_TRUE(wait_for([&]() { return ams == num_eps; }));
    progress_rounds();
    EXPECT_EQ(0u, sink.count());
    for (unsigned i = 0; i < num_eps; ++i) {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), i, 0));
    }

    /* All are delivered, in order for each endpoint, and all slots are back */
    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (num_eps * slots); }));
    std::vector<unsigned> next(num_eps);
    for (const imm_sink::notification &n : sink.got) {
        ASSERT_EQ(next.at(n.ep_index), n.imm);
        ++next[n.ep_index];
    }
    for (unsigned i = 0; i < num_eps; ++i) {
        ASSERT_TRUE(wait_slots(slots, i));
    }
    send(sink, 2 * slots);
    check_rx_accounting();
}

TEST_F(test_slots, returned_without_a_credit_after_the_next_grant)
{
    const uint64_t count = 20;

    /* The receiver has used up its credits when it wants to return slots */
    open_pair_with_slots(4, { { "RC_FC_WND_SIZE", "2" } });
    imm_sink sink(receiver());
    uint64_t sent = 0, got = 0;

    sender().set_am_handler(1, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    sink.result = UCS_INPROGRESS;
    EXPECT_EQ(4u, fill());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 4; }));
    while (uct_ep_am_short(receiver().ep(), 1, sent, NULL, 0) == UCS_OK) {
        ++sent;
    }
    EXPECT_EQ(0u, ep_attr(receiver()).credits);
    release(4);
    for (unsigned i = 0; i < 200; ++i) {
        receiver().progress();
    }
    EXPECT_EQ(0u, slot_returns());

    /* It gets one, and does not lose it to the active messages that wait */
    while (sent < count) {
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(receiver().ep(), 1, sent, NULL, 0);
        }));
        ++sent;
    }
    ASSERT_TRUE(wait_slots(4));
    ASSERT_TRUE(wait_for([&]() { return got == sent; }));
    EXPECT_EQ(1u, slot_returns());
}

TEST_F(test_slots, stalls_are_counted)
{
    open_pair_with_slots(1);
    imm_sink sink(receiver());

    sink.result = UCS_INPROGRESS;
    ASSERT_OK(notify(sender(), 0, 0));
    for (uint64_t i = 1; i <= 3; ++i) {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 0));
        EXPECT_EQ(i, ep_attr(sender()).counters.slot_stalls);
    }
    EXPECT_EQ(0u, ep_attr(sender()).counters.credit_stalls);
    EXPECT_EQ(1u, ep_attr(sender()).counters.posted);
    EXPECT_EQ(3u, counters(sender()).slot_stalls);
}
