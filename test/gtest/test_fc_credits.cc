/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/fc_test.h"
#include "common/pending_req.h"


/* Where credits go, what that costs, and that none of it ends in a deadlock */
class test_fc_credits : public fc_test {
  protected:
    /* One endpoint sends, the others do nothing */
    void send_on(flow &f, unsigned index, unsigned count)
    {
        const uint32_t end = f.sent(index) + count;

        ASSERT_TRUE(wait_for([&]() {
            while ((f.sent(index) < end) && (f.post(index) == UCS_OK)) {
            }
            return f.got(index) == end;
        }));
    }

    uint64_t grants(unsigned index)
    {
        return ep_attr(receiver(), index).counters.grants;
    }

    /* Idle endpoints hold full windows, then there are more, of which the last
     * one sends */
    void reclaim_for_one(unsigned num_idle, unsigned num_eps,
                         const config_list &config = config_list())
    {
        const unsigned count = 300, active = num_eps - 1;

        open_sides(num_idle, 256, 0, config);
        flow f(sender(), receiver(), num_idle, ONLY_IMM);
        for (unsigned i = 0; i < num_idle; ++i) {
            fill_window(f, i);
        }

        connect_sides(num_idle, num_eps);
        f.grow(num_eps);
        send_on(f, active, count);

        /* Each grant is for half of the share, once it has that. Before, one
         * message at a time asks for it. */
        const fc_state::iface_state state = fc_state::iface(receiver());
        const unsigned per_grant          = state.target - (state.target / 2);

        EXPECT_LE(grants(active), (count / per_grant) + (2 * num_eps));
        EXPECT_LE(state.shared_used, state.pool);
        for (unsigned i = 0; i < num_idle; ++i) {
            EXPECT_LE(fc_state::rx_credits(receiver(), i), state.target);
            EXPECT_GE(fc_state::rx_credits(receiver(), i), 1);
        }
        EXPECT_EQ(0u, num_rnr());

        /* They still work, with what they have left */
        exchange({ &f }, f.sent(0) + 20);
        EXPECT_EQ(0u, num_rnr());
        check_rx_accounting();
    }

    static uint64_t ctrl_sent(const entity &a, const entity &b)
    {
        return counters(a).ctrl_sent + counters(b).ctrl_sent;
    }
};


TEST_F(test_fc_credits, idle_endpoints_give_back_for_many_more)
{
    reclaim_for_one(4, 16);
}

TEST_F(test_fc_credits, idle_endpoints_give_back_for_one_more)
{
    /* None of them has much more than its share */
    reclaim_for_one(8, 9);
}

TEST_F(test_fc_credits, idle_endpoints_give_back_what_came_with_slots)
{
    /* So few that no grant goes alone */
    reclaim_for_one(4, 16, { { "NUM_SLOTS", "4" } });
}

TEST_F(test_fc_credits, not_asked_of_a_peer_that_may_not_be_connected_yet)
{
    const unsigned num_eps = 17, count = 20;

    /* One that holds more than its share will be */
    open_sides(0, 256);
    sender().create_ep(0);
    receiver().create_ep(0);
    receiver().connect_to(0, sender(), 0);
    const int initial = fc_state::rx_credits(receiver(), 0);

    connect_sides(1, num_eps);
    const int target = fc_state::iface(receiver()).target;
    ASSERT_GT(initial, target);
    flow f(sender(), receiver(), num_eps, ONLY_IMM);
    const auto send_on_others = [&]() {
        for (unsigned i = 1; i < num_eps; ++i) {
            send_on(f, i, count);
        }
    };

    send_on_others();
    EXPECT_EQ(initial, fc_state::rx_credits(receiver(), 0));
    EXPECT_EQ(0u, fc_state::ctrl_waiting(receiver(), 0));
    EXPECT_EQ(0u, ep_attr(receiver(), 0).counters.ctrl_sent);

    /* Now it is, and something came from it */
    sender().connect_to(0, receiver(), 0);
    ASSERT_OK(f.post(0));
    send_on_others();
    ASSERT_TRUE(wait_for([&]() {
        return f.is_done() && (fc_state::rx_credits(receiver(), 0) <= target);
    }));
    EXPECT_GT(ep_attr(receiver(), 0).counters.ctrl_sent, 0u);
    EXPECT_EQ(0u, num_rnr());
    check_rx_accounting();
}

TEST_F(test_fc_credits, idle_peer_that_does_not_answer)
{
    open_sides(0, 256);
    entity &third = open();

    /* It holds all there is, and makes no progress from then on */
    entity::connect(third, 0, receiver(), 1);
    receiver().set_am_handler(am_id,
                              [](void *, size_t, unsigned) { return UCS_OK; });
    ASSERT_TRUE(wait_for([&]() {
        const fc_state::iface_state state = fc_state::iface(receiver());

        return (state.shared_used == state.pool) ||
               (uct_ep_am_short(third.ep(), am_id, 0, NULL, 0) != UCS_OK);
    }));
    ASSERT_EQ(fc_state::iface(receiver()).pool,
              fc_state::iface(receiver()).shared_used);

    entity::connect(sender(), 0, receiver(), 0);
    flow f(sender(), receiver(), 1, ONLY_IMM);

    /* One at a time, but it goes on */
    const ucs_time_t expire = ucs_get_time() + ucs_time_from_sec(30);
    while (f.got() < 100) {
        ASSERT_LT(ucs_get_time(), expire);
        if (f.sent() < 100) {
            f.post(0);
        }
        sender().progress();
        receiver().progress();
    }
    const uint64_t slow = grants(0);
    EXPECT_GE(slow, 99u);
    EXPECT_EQ(1u, ep_attr(receiver(), 1).counters.ctrl_sent -
                          ep_attr(receiver(), 1).counters.grants);

    /* Now it answers */
    ASSERT_TRUE(wait_for([&]() {
        return fc_state::iface(receiver()).shared_used <
               fc_state::iface(receiver()).pool;
    }));
    send_on(f, 0, 200);
    EXPECT_LT(grants(0) - slow, slow / 2);
    EXPECT_EQ(0u, num_rnr());
    receiver().remove_am_handler(am_id);
}

TEST_F(test_fc_credits, one_grant_until_the_peer_has_read_it)
{
    const unsigned wnd_size = 16;

    /* A second one could find no receive: there is one for a grant. Messages are
     * looked at one by one. */
    open_sides(1, 0, wnd_size, { { "IB_RX_MAX_POLL", "1" } });
    flow f(sender(), receiver(), 1, ONLY_IMM);
    const unsigned first = f.post_all();

    EXPECT_EQ(wnd_size, first);
    progress_one(receiver(), [&]() { return f.got() >= first; });
    for (unsigned i = 0; i < 50; ++i) {
        receiver().progress();
    }
    EXPECT_EQ(1u, grants(0));

    /* It reads the grant, and one message shows that */
    ASSERT_TRUE(wait_for([&]() { return f.post(0) == UCS_OK; }));
    ASSERT_TRUE(wait_for([&]() { return grants(0) == 2; }));
    send_on(f, 0, 100);
    EXPECT_EQ(0u, num_rnr());
}

TEST_F(test_fc_credits, books_after_25_rounds_of_endpoints_not_drained)
{
    const unsigned num_eps = 2;

    open_sides(0, 256);
    const fc_state::iface_state start[] = { fc_state::iface(sender()),
                                            fc_state::iface(receiver()) };

    /* Those of a destroyed endpoint still get to the handler */
    for (const auto &e : m_entities) {
        e->set_am_handler(am_id,
                          [](void *, size_t, unsigned) { return UCS_OK; });
    }

    for (unsigned round = 0; round < 25; ++round) {
        connect_sides(0, num_eps);
        flow there(sender(), receiver(), num_eps, ONLY_IMM);
        flow back(receiver(), sender(), num_eps, ONLY_IMM);

        /* In some rounds grants are on their way, too */
        uct_ep_am_short(sender().ep(), am_id, 0, NULL, 0);
        there.post_all();
        back.post_all();
        progress_rounds(round);
        there.post_all();
        uct_ep_am_short(receiver().ep(), am_id, 0, NULL, 0);
        sender().destroy_eps();
        receiver().destroy_eps();
    }

    ASSERT_TRUE(wait_for([&]() {
        return (fc_state::iface(sender()).num_eps == 0) &&
               (fc_state::iface(receiver()).num_eps == 0);
    }));
    EXPECT_EQ(start[0], fc_state::iface(sender()));
    EXPECT_EQ(start[1], fc_state::iface(receiver()));
    EXPECT_EQ(0u, num_rnr());
    check_rx_accounting();
    check_tx_accounting(sender());
    check_tx_accounting(receiver());
}

TEST_F(test_fc_credits, books_while_there_are_endpoints)
{
    const unsigned num_eps = 5;

    open_sides(num_eps, 256);
    flow there(sender(), receiver(), num_eps, MIXED);
    flow back(receiver(), sender(), num_eps, MIXED);

    for (unsigned round = 1; round <= 5; ++round) {
        exchange({ &there, &back }, 30 * round);

        /* What each may send is what the other one counts, once all grants and
         * returns of slots have arrived */
        EXPECT_TRUE(wait_for([&]() {
            bool same = true;

            for (unsigned i = 0; i < num_eps; ++i) {
                same = same &&
                       (fc_state::rx_credits(receiver(), i) ==
                        static_cast<int>(ep_attr(sender(), i).credits)) &&
                       (fc_state::rx_credits(sender(), i) ==
                        static_cast<int>(ep_attr(receiver(), i).credits));
            }
            return same;
        }));
        int sum = 0;
        for (unsigned i = 0; i < num_eps; ++i) {
            sum += fc_state::rx_credits(receiver(), i) - 1;
        }
        EXPECT_EQ(sum, fc_state::iface(receiver()).shared_used);
    }
}

/* One endpoint on each side, with UCX's receive queue, too */
class test_fc_ratio : public test_fc_credits {
  protected:
    void SetUp() override
    {
        test_fc_credits::SetUp();
        for (unsigned i = 0; i < 2; ++i) {
            m_entities.emplace_back(
                    new entity(config_list(), entity::open_params()));
        }
        connect_sides(0, 1);
    }

    /* All that was sent by one side came from these */
    void check(unsigned sent, unsigned received)
    {
        const unsigned delivered = sent + received;
        uint64_t ctrl;

        /* Until also the last one has arrived */
        ASSERT_TRUE(wait_for([&]() {
            ctrl = ctrl_sent(sender(), receiver());
            return (counters(sender()).ctrl_received +
                    counters(receiver()).ctrl_received) == ctrl;
        }));
        EXPECT_GT(ctrl, 0u);
        EXPECT_LE(16 * ctrl, delivered);

        /* Counted apart */
        EXPECT_EQ(sent, counters(sender()).posted);
        EXPECT_EQ(sent, counters(receiver()).delivered);
        EXPECT_EQ(received, counters(receiver()).posted);
        EXPECT_EQ(received, counters(sender()).delivered);
        for (const auto &e : m_entities) {
            /* Some grants go along with slots */
            EXPECT_GE(counters(*e).grants + counters(*e).slot_returns,
                      counters(*e).ctrl_sent);
            EXPECT_LE(std::max(counters(*e).grants, counters(*e).slot_returns),
                      counters(*e).ctrl_sent);
        }
        EXPECT_EQ(0u, num_rnr());
        RecordProperty("immediates_per_control_message",
                       static_cast<int>(delivered / ctrl));
    }

    static const unsigned count = 3000;
};


TEST_F(test_fc_ratio, one_way)
{
    flow f(sender(), receiver(), 1, ONLY_IMM);

    send_on(f, 0, count);
    check(count, 0);
    EXPECT_EQ(0u, counters(sender()).ctrl_sent);
}

/* Both are due at the same time with default settings */
TEST_F(test_fc_ratio, slots_and_credits_come_in_one_message)
{
    flow f(sender(), receiver(), 1, ONLY_IMM);

    for (unsigned i = 0; i < count; ++i) {
        send_on(f, 0, 1);
    }
    check(count, 0);

    const uint64_t ctrl = counters(receiver()).ctrl_sent;
    /* The initial credits are fewer: the first grant comes alone */
    EXPECT_EQ(ctrl, counters(receiver()).slot_returns + 1);
    EXPECT_EQ(ctrl, counters(receiver()).grants);
    EXPECT_LE(ctrl, (count / 250) + 1);
}

TEST_F(test_fc_ratio, one_at_a_time)
{
    flow f(sender(), receiver(), 1, ONLY_IMM);

    for (unsigned i = 0; i < count; ++i) {
        send_on(f, 0, 1);
    }
    check(count, 0);
}

TEST_F(test_fc_ratio, both_ways)
{
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_IMM);

    exchange({ &there, &back }, count);
    check(count, count);
}

TEST_F(test_fc_credits, flood_from_the_peer_leaves_resources_for_own_messages)
{
    const unsigned num_eps = 16, count = 60 * num_eps;

    /* Every message that arrives is answered by a grant. Polls are short, so that
     * there is always something that arrived. */
    open_sides(num_eps, 0, 1,
               { { "RC_TX_CQ_LEN", "128" },
                 { "IB_RX_MAX_POLL", "4" },
                 { "IB_TX_MAX_POLL", "4" } });
    flow there(sender(), receiver(), num_eps, MIXED);
    flow back(receiver(), sender(), num_eps, MIXED);

    /* Until one has got its messages through. They poll in turns, and neither is
     * the better one. */
    ASSERT_TRUE(wait_for([&]() {
        there.post_all();
        back.post_all();
        return (there.total() >= count) || (back.total() >= count);
    }));
    EXPECT_GE(there.total(), count / 4);
    EXPECT_GE(back.total(), count / 4);
    exchange({ &there, &back });
    EXPECT_EQ(0u, num_rnr());
}


static const unsigned held_slots = 32;


/* A peer that consumes no notification for good */
class test_fc_held
    : public fc_test,
      public ::testing::WithParamInterface<::testing::tuple<unsigned, bool>> {
  protected:
    unsigned wnd_size() const
    {
        return ::testing::get<0>(GetParam());
    }

    /* Or it has no handler */
    bool handler_holds() const
    {
        return ::testing::get<1>(GetParam());
    }

    void hold(flow &f)
    {
        if (handler_holds()) {
            f.sink().result = UCS_INPROGRESS;
        } else {
            f.sink().pause();
        }
    }

    void send_until_no_slot(flow &f)
    {
        ASSERT_TRUE(wait_for([&]() {
            f.post_all();
            return f.sent() == held_slots;
        }));
        progress_rounds();
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, f.post(0));
        EXPECT_EQ(0u, ep_attr(f.from()).slots);
    }
};


TEST_P(test_fc_held, am_both_ways_all_the_same)
{
    const unsigned count = 100 + (2 * wnd_size());

    open_sides(1, 0, wnd_size(),
               { { "NUM_SLOTS", std::to_string(held_slots) } });
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_IMM);
    flow am_there(sender(), receiver(), 1, ONLY_AM);
    flow am_back(receiver(), sender(), 1, ONLY_AM);

    hold(there);
    hold(back);
    send_until_no_slot(there);
    send_until_no_slot(back);
    exchange({ &am_there, &am_back }, count);
    EXPECT_EQ(0u, ep_attr(sender()).slots);
    EXPECT_EQ(0u, ep_attr(receiver()).slots);
    EXPECT_EQ(0u, num_rnr());

    /* It was not for good: nothing is lost */
    if (handler_holds()) {
        EXPECT_EQ(held_slots, there.got());
        EXPECT_OK(uct_wimm_ep_slot_release(receiver().ep(), held_slots));
        EXPECT_OK(uct_wimm_ep_slot_release(sender().ep(), held_slots));
        there.sink().result = UCS_OK;
        back.sink().result  = UCS_OK;
    } else {
        EXPECT_EQ(0u, there.got());
        there.sink().start();
        back.sink().start();
    }
    exchange({ &there, &back }, 3 * held_slots);
    check_rx_accounting();
}

INSTANTIATE_TEST_SUITE_P(windows, test_fc_held,
                         ::testing::Combine(::testing::Values(1, 2, 512),
                                            ::testing::Bool()));


/* The smallest windows and the fewest slots there can be */
class test_fc_deadlock : public fc_test,
                         public ::testing::WithParamInterface<unsigned> {
  protected:
    void open_smallest()
    {
        open_sides(1, 0, 1, { { "NUM_SLOTS", std::to_string(GetParam()) } });
    }

    static const unsigned count = 100;
};


TEST_P(test_fc_deadlock, only_imm_both_ways)
{
    open_smallest();
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_IMM);

    exchange({ &there, &back }, count);
    EXPECT_EQ(0u, num_rnr());
}

TEST_P(test_fc_deadlock, imm_and_am_both_ways)
{
    open_smallest();
    flow there(sender(), receiver(), 1, MIXED);
    flow back(receiver(), sender(), 1, MIXED);

    exchange({ &there, &back }, count);
    EXPECT_EQ(0u, num_rnr());
}

TEST_P(test_fc_deadlock, imm_against_am)
{
    open_smallest();
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_AM);

    exchange({ &there, &back }, count);
    EXPECT_EQ(0u, num_rnr());
}

TEST_P(test_fc_deadlock, queued_imm_both_ways)
{
    open_smallest();
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_IMM);
    std::vector<std::unique_ptr<pending_req>> reqs;

    there.post_all();
    back.post_all();
    for (unsigned i = 0; i < (2 * count); ++i) {
        flow *f = (i % 2) ? &there : &back;

        reqs.emplace_back(new pending_req([f]() { return f->post(0); }));
        ASSERT_OK(uct_wimm_ep_imm_pending_add(f->from().ep(), &reqs[i]->uct));
    }
    ASSERT_TRUE(wait_for(
            [&]() { return (there.got() > count) && (back.got() > count); }));
    EXPECT_EQ(0u, num_rnr());
}

TEST_P(test_fc_deadlock, imm_against_queued_am)
{
    const unsigned num_reqs = 5 * count;

    open_smallest();
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_AM);
    std::vector<std::unique_ptr<pending_req>> reqs;

    /* There is always one more message than there are credits. A return of slots
     * needs one, too, and comes first. */
    back.post_all();
    for (unsigned i = 0; i < num_reqs; ++i) {
        reqs.emplace_back(new pending_req([&]() { return back.post(0); }));
        ASSERT_OK(uct_ep_pending_add(receiver().ep(), &reqs[i]->uct, 0));
    }
    ASSERT_TRUE(wait_for([&]() {
        there.post_all(count);
        return there.got() == count;
    }));
    EXPECT_LT(back.sent(), num_reqs);
    EXPECT_GT(back.sent(), count / 4);
    ASSERT_TRUE(wait_for([&]() { return back.got() == (num_reqs + 1); }));
    EXPECT_EQ(0u, num_rnr());
}

TEST_P(test_fc_deadlock, both_without_credits_have_slots_to_return)
{
    open_smallest();
    flow there(sender(), receiver(), 1, ONLY_IMM);
    flow back(receiver(), sender(), 1, ONLY_IMM);

    /* The receiver consumes what it gets. It has no credit to say so, for it has
     * used its own, and the sender does nothing. */
    EXPECT_OK(there.post(0));
    EXPECT_OK(back.post(0));
    progress_one(receiver(), [&]() { return there.got() != 0; });
    for (unsigned i = 0; i < 200; ++i) {
        receiver().progress();
    }
    EXPECT_EQ(0u, ep_attr(receiver()).credits);
    EXPECT_TRUE(fc_state::ctrl_waiting(receiver()) &
                UCS_BIT(UCT_WIMM_CTRL_SLOTS));

    /* Now it is the other one's turn */
    progress_one(sender(), [&]() { return back.got() != 0; });
    exchange({ &there, &back }, count);
    EXPECT_EQ(0u, num_rnr());
}

INSTANTIATE_TEST_SUITE_P(slots, test_fc_deadlock, ::testing::Values(1, 2));


/* UCX_WIMM_FC_ENABLE=n: of the sender, of the receiver */
class test_fc_off
    : public fc_test,
      public ::testing::WithParamInterface<::testing::tuple<bool, bool>> {
  protected:
    static config_list config(bool off)
    {
        return { { "RC_FC_ENABLE", off ? "n" : "y" } };
    }

    void SetUp() override
    {
        fc_test::SetUp();
        open(config(::testing::get<0>(GetParam())));
        open(config(::testing::get<1>(GetParam())));
        connect_sides(0, 2);
    }

    /* One side does nothing until the other has met RNR */
    void stall_until_rnr(flow &f)
    {
        const uint64_t start    = num_rnr();
        const ucs_time_t expire = ucs_get_time() + ucs_time_from_sec(30);

        while (num_rnr() == start) {
            ASSERT_LT(ucs_get_time(), expire);
            f.post_all();
            f.from().progress();
        }
    }
};


TEST_P(test_fc_off, nothing_is_lost)
{
    flow there(sender(), receiver(), 2, MIXED);
    flow back(receiver(), sender(), 2, MIXED);

    exchange({ &there, &back }, 300);
    for (const auto &e : m_entities) {
        for (unsigned i = 0; i < 2; ++i) {
            EXPECT_FALSE(ep_attr(*e, i).flow_control);
            EXPECT_EQ(0u, ep_attr(*e, i).counters.grants);
            EXPECT_EQ(0u, ep_attr(*e, i).counters.credit_stalls);
        }
        EXPECT_EQ(0, fc_state::iface(*e).shared_used);
    }

    stall_until_rnr(there);
    exchange({ &there, &back });
    stall_until_rnr(back);
    exchange({ &there, &back }, there.sent());
    check_rx_accounting();
    EXPECT_TRUE(sender().errors.empty());
    EXPECT_TRUE(receiver().errors.empty());
}

TEST_P(test_fc_off, window_that_only_counts_down_does_not_run_out)
{
    flow there(sender(), receiver(), 2, ONLY_AM);
    flow back(receiver(), sender(), 2, ONLY_AM);

    /* As after tens of thousands of active messages, which count down. More are
     * not posted before one completes. */
    const int length = rc_state::sq_length(sender());
    for (const auto &e : m_entities) {
        ASSERT_EQ(length, rc_state::sq_length(*e));
        rc_state::ep(*e)->super.fc.fc_wnd = length + 1;
    }
    exchange({ &there, &back }, 2 * length);
}

TEST_P(test_fc_off, slots_bound_immediates_all_the_same)
{
    uct_wimm_iface_attr_t attr = {};

    attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS;
    ASSERT_OK(uct_wimm_iface_query(receiver().iface(), &attr));

    flow there(sender(), receiver(), 2, ONLY_IMM);
    there.sink().pause();
    ASSERT_TRUE(wait_for([&]() {
        there.post_all();
        return (ep_attr(sender(), 0).slots == 0) &&
               (ep_attr(sender(), 1).slots == 0);
    }));
    progress_rounds();
    EXPECT_EQ(0u, there.post_all());
    EXPECT_EQ(attr.num_slots, there.sent(0));
    EXPECT_EQ(attr.num_slots, there.sent(1));
    there.sink().start();
    exchange({ &there }, 2 * attr.num_slots);
    check_rx_accounting();
}

TEST_P(test_fc_off, beside_an_endpoint_with_it)
{
    const unsigned off_sides = ::testing::get<0>(GetParam()) +
                               ::testing::get<1>(GetParam());
    entity &third = open(config(false));
    entity &other = ::testing::get<0>(GetParam()) ? receiver() : sender();

    /* With the side that has it, if there is one */
    entity::connect(third, 7, other, 7);
    EXPECT_EQ(off_sides < 2, ep_attr(third, 7).flow_control != 0);
    EXPECT_EQ(off_sides < 2, ep_attr(other, 7).flow_control != 0);

    flow f(sender(), receiver(), 2, ONLY_AM);
    imm_sink sink(other);
    for (uint32_t i = 0; i < 200; ++i) {
        ASSERT_OK(retry([&]() { return notify(third, 7, i); }));
        f.post_all(i);
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 200; }));
    exchange({ &f }, 200);
    EXPECT_EQ(199u, sink.got[199].imm);
}

INSTANTIATE_TEST_SUITE_P(sides, test_fc_off,
                         ::testing::Values(::testing::make_tuple(true, false),
                                           ::testing::make_tuple(false, true),
                                           ::testing::make_tuple(true, true)));
