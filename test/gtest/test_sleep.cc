/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <atomic>
#include <cerrno>
#include <random>
#include <thread>


/* Longest sleep: nobody sleeps as long, unless a wake-up was lost */
static const int never_ms = 10000;


/* Programs that sleep until something comes: all that one side may wait for wakes
 * it, whatever the other does and whenever it comes */
class test_sleep : public imm_test {
  protected:
    /* What the two sides of a game know of each other */
    struct game {
        unsigned rounds;  /* At least as many, */
        unsigned sleeps;  /* and until they have slept as often together */
        double max_delay; /* Seconds before each other look */
        ucs_time_t deadline         = ucs_get_time() + ucs_time_from_sec(60);
        std::atomic<unsigned> slept = { 0 }; /* Nothing was there yet */
        std::atomic<bool> is_last_round = { false };
    };

    /* One of two sides, each with a thread of its own, that answer each other and
     * sleep until there is an answer */
    class player {
      public:
        player(entity &e, unsigned events, unsigned seed)
            : m_entity(e), m_sink(e), m_events(events), m_random(seed)
        {
        }

        /* The one that is first asks, and tells the last round; the other answers */
        void run(game &g, bool is_first)
        {
            bool is_last = false;

            for (unsigned i = 0; !is_last; ++i) {
                const ucs_time_t begin = ucs_get_time();

                if (is_first) {
                    if (((i + 1 >= g.rounds) && (g.slept >= g.sleeps)) ||
                        (begin >= g.deadline)) {
                        g.is_last_round = true;
                    }
                    post();
                }

                /* What comes is to come at any moment: before, between and after
                 * the steps of falling asleep */
                ++m_expected;
                delay((i % 2) ? g.max_delay : 0);
                wait(g);
                rtt = std::min(rtt, ucs_time_to_sec(ucs_get_time() - begin));
                is_last = g.is_last_round;

                /* Also if it is lost here: the other one is to go on */
                if (!is_first) {
                    post();
                }
            }
        }

        double rtt = 1;
        bool lost  = false;

      private:
        void post()
        {
            ucs_status_t status;

            do {
                status = notify(m_entity, 0, m_expected);
                m_entity.progress();
            } while (status == UCS_ERR_NO_RESOURCE);
            EXPECT_OK(status);
        }

        void delay(double max_seconds)
        {
            std::uniform_real_distribution<> seconds(0, max_seconds);
            const ucs_time_t end = ucs_get_time() +
                                   ucs_time_from_sec(seconds(m_random));

            while (ucs_get_time() < end) {
            }
        }

        void wait(game &g)
        {
            for (;;) {
                while (m_entity.progress() != 0) {
                }
                if ((m_sink.count() >= m_expected) || lost) {
                    break;
                }
                if (arm() && !m_entity.wakes(0)) {
                    ++g.slept;
                    if (!m_entity.wakes(never_ms)) {
                        lost            = true;
                        g.is_last_round = true;
                    }
                }
            }
        }

        bool arm()
        {
            const ucs_status_t status = uct_iface_event_arm(m_entity.iface(),
                                                            m_events);

            EXPECT_TRUE((status == UCS_OK) || (status == UCS_ERR_BUSY))
                    << status_str(status);
            return status == UCS_OK;
        }

        entity &m_entity;
        imm_sink m_sink;
        unsigned m_events;
        unsigned m_expected = 0;
        std::mt19937 m_random;
    };

    /* @return How often they have slept */
    static unsigned play(player &first, player &second, unsigned rounds,
                         unsigned sleeps, double max_delay)
    {
        game g;

        g.rounds    = rounds;
        g.sleeps    = sleeps;
        g.max_delay = max_delay;
        std::thread thread([&]() { second.run(g, false); });

        first.run(g, true);
        thread.join();
        return g.slept;
    }

    void sleep_often(unsigned events, const char *fc_enable)
    {
        const unsigned sleeps = 600;
        unsigned slept;

        open_pair({ { "RC_FC_ENABLE", fc_enable } });
        player first(sender(), events, 1), second(receiver(), events, 2);

        /* How long an answer takes, at best */
        play(first, second, 20, 0, 0);
        slept = play(first, second, 300, sleeps, 2 * first.rtt);
        EXPECT_FALSE(first.lost || second.lost) << "a wake-up was lost";
        EXPECT_GE(slept, sleeps);
    }

    /* Something happens when the side has looked for the last time, and has not
     * armed the queue yet. Arming has to tell, or the side has to wake. For queues
     * that were never armed: the device may still be armed by an earlier time. */
    void happens_before_arm(uct_ib_dir_t dir, unsigned events,
                            const std::function<void()> &func)
    {
        entity &e       = receiver();
        bool happened   = false;
        const auto *cqs = rc_state::iface(e)->super.cq;

        EXPECT_EQ(0u, e.progress());
        verbs_fault fault(e, verbs_fault::REQ_NOTIFY_CQ, [&](const void *cq) {
            if (!happened && (cq == cqs[dir])) {
                happened = true;
                func();
            }
            return 0;
        });
        const ucs_status_t status = uct_iface_event_arm(e.iface(), events);

        EXPECT_TRUE(happened);
        EXPECT_TRUE((status == UCS_ERR_BUSY) || e.wakes(1000))
                << status_str(status);
    }

    /* Until there is no more credit or slot for it. @return How many. */
    unsigned send_all(entity &from)
    {
        unsigned count = 0;

        while (notify(from, 0, count) == UCS_OK) {
            ++count;
        }
        return count;
    }
};


TEST_F(test_sleep, often_until_received)
{
    sleep_often(UCT_EVENT_RECV, "y");
}

TEST_F(test_sleep, often_until_received_without_flow_control)
{
    sleep_often(UCT_EVENT_RECV, "n");
}

TEST_F(test_sleep, often_until_received_or_sent)
{
    sleep_often(UCT_EVENT_RECV | UCT_EVENT_SEND_COMP, "y");
}

TEST_F(test_sleep, often_until_received_or_sent_without_flow_control)
{
    sleep_often(UCT_EVENT_RECV | UCT_EVENT_SEND_COMP, "n");
}

TEST_F(test_sleep, notification_comes_right_before_arm)
{
    for (unsigned more : { 0, int(UCT_EVENT_SEND_COMP) }) {
        open_pair();
        imm_sink sink(receiver());

        happens_before_arm(UCT_IB_DIR_RX, UCT_EVENT_RECV | more, [&]() {
            ASSERT_OK(notify(sender(), 0, 1));
            wait_sent(sender());
        });
        ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
        check_rx_accounting();
        sink.pause();
        m_entities.clear();
    }
}

TEST_F(test_sleep, more_come_right_before_arm_order_is_kept)
{
    const uint32_t count = 100;

    open_pair({ { "RC_FC_ENABLE", "n" } });
    imm_sink sink(receiver());
    std::vector<uint64_t> order;

    /* What is found when the queue is armed does not change places with the rest */
    receiver().set_am_handler(0, [&](void *data, size_t, unsigned) {
        order.push_back(u64_at(data));
        return UCS_OK;
    });
    sink.on_imm = [&](const imm_sink::notification &n) {
        order.push_back(n.imm);
    };
    happens_before_arm(UCT_IB_DIR_RX, UCT_EVENT_RECV, [&]() {
        for (uint32_t i = 0; i < count; ++i) {
            ASSERT_OK(((i % 3) == 1) ?
                              uct_ep_am_short(sender().ep(), 0, i, NULL, 0) :
                              notify(sender(), 0, i));
        }
        wait_sent(sender());
    });

    /* Armed twice without progress between */
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    ASSERT_TRUE(wait_for([&]() { return order.size() == count; }));
    for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, order[i]);
    }
    check_rx_accounting();
}

TEST_F(test_sleep, send_completes_right_before_arm)
{
    open_pair({ { "RC_FC_ENABLE", "n" } }); /* No message comes back */
    mapped_buffer src(64, receiver());
    mapped_buffer dst(64, sender());
    completion comp;

    happens_before_arm(UCT_IB_DIR_TX, UCT_EVENT_SEND_COMP, [&]() {
        imm_sink sink(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      put_imm_zcopy(receiver(), 0, src, 64, dst, 0, 1, &comp));
        progress_one(sender(), [&]() { return sink.count() > 0; });
        wait_sent(sender()); /* As long as the acknowledgement takes */
    });
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_OK(comp.status());
    check_tx_accounting(receiver());
}

TEST_F(test_sleep, sender_wakes_by_the_grant_of_credits)
{
    const unsigned all_events[] = { UCT_EVENT_RECV, UCT_EVENT_SEND_COMP,
                                    UCT_EVENT_RECV | UCT_EVENT_SEND_COMP };

    open_pair();
    imm_sink sink(receiver());
    unsigned sent = 0;

    for (unsigned events : all_events) {
        const uint64_t grants = counters(receiver()).grants;

        sent += send_all(sender());
        wait_sent(sender());
        EXPECT_EQ(0u, ep_attr(sender()).credits);
        EXPECT_GT(ep_attr(sender()).slots, 0u);
        sender().arm(events);
        EXPECT_FALSE(sender().wakes(0));

        progress_one(receiver(),
                     [&]() { return counters(receiver()).grants > grants; });
        ASSERT_TRUE(sender().wakes(never_ms));
        sender().progress();
        EXPECT_GT(ep_attr(sender()).credits, 0u);
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == sent; }));
}

TEST_F(test_sleep, sender_wakes_by_the_return_of_slots)
{
    struct request {
        uct_pending_req_t uct;
        uct_ep_h ep;
        bool posted;
    };
    const unsigned slots = 8;

    for (const char *fc_enable : { "y", "n" }) {
        for (unsigned events : { UCT_EVENT_RECV, UCT_EVENT_SEND_COMP }) {
            const config_list config = { { "NUM_SLOTS", std::to_string(slots) },
                                         { "RC_FC_ENABLE", fc_enable } };
            open_pair(config);
            imm_sink sink(receiver());
            request req = {};

            ASSERT_EQ(slots, send_all(sender()));
            req.ep       = sender().ep();
            req.uct.func = [](uct_pending_req_t *self) {
                request *r          = reinterpret_cast<request *>(self);
                ucs_status_t status = uct_wimm_ep_notify(r->ep, slots);

                r->posted = (status == UCS_OK);
                return status;
            };
            ASSERT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &req.uct));
            sender().arm(events);
            EXPECT_FALSE(sender().wakes(0));

            progress_one(receiver(), [&]() {
                return counters(receiver()).slot_returns > 0;
            });
            ASSERT_TRUE(sender().wakes(never_ms));
            sender().progress();
            EXPECT_TRUE(req.posted);
            ASSERT_TRUE(wait_for([&]() { return sink.count() == slots + 1; }));
            sink.pause();
            m_entities.clear();
        }
    }
}

TEST_F(test_sleep, arm_sends_the_slots_released_since_the_last_progress)
{
    const unsigned slots = 8;

    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    imm_sink sink(receiver());

    sink.result = UCS_INPROGRESS;
    ASSERT_EQ(slots, send_all(sender()));
    progress_one(receiver(), [&]() { return sink.count() == slots; });
    receiver().arm(UCT_EVENT_RECV);
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots));

    /* From here on the receiver sleeps */
    ASSERT_OK(uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    progress_one(sender(), [&]() { return ep_attr(sender()).slots == slots; });
}

TEST_F(test_sleep, full_send_queue_holds_slots_back_until_a_send_completes)
{
    const unsigned slots = 16, rx_len = 64, tx_len = 16;

    /* Each send has a completion, and no message is sent that the peer has no
     * receive for, but for those in the queue */
    open({ { "RC_FC_ENABLE", "n" },
           { "NUM_SLOTS", std::to_string(slots) },
           { "IB_RX_QUEUE_LEN", std::to_string(rx_len) } });
    open({ { "RC_FC_ENABLE", "n" },
           { "NUM_SLOTS", std::to_string(slots) },
           { "IB_TX_QUEUE_LEN", std::to_string(tx_len) },
           { "RC_TX_CQ_MODERATION", "0" } });
    entity::connect(sender(), 0, receiver(), 0);
    imm_sink sink(receiver());
    unsigned posted = 0, got = 0;

    sender().set_am_handler(0, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    sink.result = UCS_INPROGRESS;
    ASSERT_EQ(slots, send_all(sender()));
    wait_sent(sender());
    progress_one(receiver(), [&]() {
        if (uct_ep_am_short(receiver().ep(), 0, posted, NULL, 0) == UCS_OK) {
            ++posted;
        }
        return (posted == (rx_len + tx_len)) && (sink.count() == slots);
    });
    ASSERT_EQ(0, rc_state::sq_available(receiver()));

    /* The slots cannot be returned now. Nothing will be received. */
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots));
    receiver().arm(UCT_EVENT_RECV);
    EXPECT_FALSE(receiver().wakes(0));
    EXPECT_EQ(0u, ep_attr(sender()).slots);

    progress_one(sender(), [&]() { return got >= rx_len; });
    ASSERT_TRUE(receiver().wakes(never_ms));
    ASSERT_TRUE(wait_for([&]() {
        return (ep_attr(sender()).slots == slots) && (got == posted);
    }));
    check_tx_accounting(receiver());
}

TEST_F(test_sleep, no_credit_holds_slots_back_until_the_grant)
{
    const unsigned slots = 8;

    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    imm_sink sink(receiver());
    unsigned posted = 0, got = 0;

    sender().set_am_handler(0, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    sink.result = UCS_INPROGRESS;
    ASSERT_EQ(slots, send_all(sender()));
    progress_one(receiver(), [&]() { return sink.count() == slots; });
    while (uct_ep_am_short(receiver().ep(), 0, posted, NULL, 0) == UCS_OK) {
        ++posted;
    }
    wait_sent(receiver());
    EXPECT_EQ(0u, ep_attr(receiver()).credits);

    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots));
    receiver().arm(UCT_EVENT_RECV);
    EXPECT_FALSE(receiver().wakes(0));
    progress_one(sender(), [&]() { return counters(sender()).grants > 0; });
    ASSERT_TRUE(receiver().wakes(never_ms));
    ASSERT_TRUE(wait_for([&]() {
        return (ep_attr(sender()).slots == slots) && (got == posted);
    }));
}

TEST_F(test_sleep, arm_is_busy_while_nothing_can_be_received)
{
    const unsigned rx_len = 64;

    /* The device refuses receives until none is left */
    open_pair({ { "RC_FC_ENABLE", "n" },
                { "IB_RX_QUEUE_LEN", std::to_string(rx_len) } });
    imm_sink sink(receiver());

    expect_error("ibv_post_srq_recv() on");
    {
        verbs_fault fault(receiver(), verbs_fault::POST_SRQ_RECV,
                          [](const void *) { return ENOMEM; });

        for (uint32_t i = 0; i < rx_len; ++i) {
            ASSERT_OK(notify(sender(), 0, i));
        }
        ASSERT_TRUE(wait_for([&]() { return sink.count() == rx_len; }));
        progress_rounds();
        EXPECT_STATUS(UCS_ERR_BUSY,
                      uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    }

    /* Without another call of progress */
    ASSERT_OK(uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    ASSERT_OK(notify(sender(), 0, rx_len));
    ASSERT_TRUE(receiver().wakes(never_ms));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (rx_len + 1); }));
    check_rx_accounting();
}

TEST_F(test_sleep, descriptors_released_since_the_last_progress_are_posted)
{
    const unsigned rx_len = 64;

    /* There are no more of them than receives, and the user has all */
    open_pair({ { "RC_FC_ENABLE", "n" },
                { "IB_RX_QUEUE_LEN", std::to_string(rx_len) },
                { "IB_RX_MAX_BUFS", std::to_string(rx_len) },
                { "IB_RX_BUFS_GROW", std::to_string(rx_len) } });
    std::vector<void *> kept;

    allow_log(UCS_LOG_LEVEL_WARN, "is empty");
    receiver().set_am_handler(0, [&](void *data, size_t, unsigned) {
        kept.push_back(data);
        return UCS_INPROGRESS;
    });
    for (uint64_t i = 0; i < rx_len; ++i) {
        ASSERT_OK(uct_ep_am_short(sender().ep(), 0, i, NULL, 0));
    }
    ASSERT_TRUE(wait_for([&]() { return kept.size() == rx_len; }));
    progress_rounds();
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    for (void *desc : kept) {
        uct_iface_release_desc(desc);
    }
    receiver().remove_am_handler(0);

    imm_sink sink(receiver());
    ASSERT_OK(uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(receiver().wakes(never_ms));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
}

TEST_F(test_sleep, failed_put_wakes_the_sender)
{
    open_pair();
    const uint64_t data = 1;

    sender().arm(UCT_EVENT_SEND_COMP);
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    ASSERT_TRUE(sender().wakes(never_ms));
    ASSERT_TRUE(wait_for([&]() { return sender().errors.size() == 1; }));
}

TEST_F(test_sleep, arm_is_busy_when_a_queue_turns_out_to_be_at_fault)
{
    expect_error("endpoint failed: Input/output error", 2);
    for (uct_ib_dir_t dir : { UCT_IB_DIR_RX, UCT_IB_DIR_TX }) {
        const std::string name = (dir == UCT_IB_DIR_RX) ? "rx" : "tx";

        open_pair();

        sender().arm(UCT_EVENT_SEND_COMP);
        expect_error("ibv_poll_cq(" + name + ")");
        {
            const auto *cqs = rc_state::iface(sender())->super.cq;
            verbs_fault fault(sender(), verbs_fault::POLL_CQ,
                              [&](const void *cq) {
                                  return (cq == cqs[dir]) ? -1 : 0;
                              });

            EXPECT_STATUS(UCS_ERR_BUSY,
                          uct_iface_event_arm(sender().iface(),
                                              UCT_EVENT_SEND_COMP));
        }
        sender().progress();
        EXPECT_EQ(1u, sender().errors.size());
        m_entities.clear();
    }
}

TEST_F(test_sleep, endpoint_destroyed_after_arm_found_something_of_it)
{
    open_pair();
    mapped_buffer src(64, receiver());
    mapped_buffer dst(64, sender());
    imm_sink sink(receiver());
    completion comp;

    happens_before_arm(UCT_IB_DIR_RX, UCT_EVENT_RECV, [&]() {
        ASSERT_OK(notify(sender(), 0, 1));
        wait_sent(sender());
    });
    receiver().destroy_ep(0);
    sender().destroy_ep(0);
    progress_rounds();
    EXPECT_EQ(0u, sink.count());
    check_rx_accounting();

    allow_log(UCS_LOG_LEVEL_WARN, "destroying");
    entity::connect(sender(), 0, receiver(), 0);
    happens_before_arm(UCT_IB_DIR_TX, UCT_EVENT_SEND_COMP, [&]() {
        ASSERT_STATUS(UCS_INPROGRESS,
                      put_imm_zcopy(receiver(), 0, src, 64, dst, 0, 1, &comp));
        wait_sent(sender());
    });
    receiver().destroy_ep(0);
    EXPECT_EQ(1, comp.called);
    sender().destroy_ep(0);
    for (const auto &e : m_entities) {
        check_tx_accounting(*e);
    }
    check_rx_accounting();
}


/* The keys UCX_WIMM_RX_EVENT_MOD_COUNT and _PERIOD */
class test_event_mod : public test_sleep {
  protected:
    struct call {
        struct ibv_cq *cq;
        struct ibv_modify_cq_attr attr;
    };

    /* Open a side on a device that has it */
    entity &open_with_device(const config_list &config)
    {
        entity::open_params params;

        m_calls.clear();
        params.on_md_open = [](uct_md_h md) {
            verbs_get_ctx(rc_state::context(md))->modify_cq = modify_cq;
        };
        return open(config, params);
    }

    static std::vector<call> m_calls;

  private:
    static int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
    {
        m_calls.push_back({ cq, *attr });
        return 0;
    }
};

std::vector<test_event_mod::call> test_event_mod::m_calls;


TEST_F(test_event_mod, given_to_the_device)
{
    const struct {
        const char *count, *period;
        unsigned cq_count, cq_period; /* Microseconds */
    } cases[] = {
        { "16", "10us", 16, 10 },   { "16", "0", 16, 0 },
        { "0", "10us", 0, 10 },     { "65535", "65535us", 65535, 65535 },
        { "1", "0.000001", 1, 1 },  { "2", "2ms", 2, 2000 },
        { "3", "0.251ms", 3, 251 }, /* 250.99.. as a number of seconds */
    };

    for (const auto &c : cases) {
        const entity &e = open_with_device(
                { { "RX_EVENT_MOD_COUNT", c.count },
                  { "RX_EVENT_MOD_PERIOD", c.period } });

        ASSERT_EQ(1u, m_calls.size());
        EXPECT_EQ(rc_state::iface(e)->super.cq[UCT_IB_DIR_RX], m_calls[0].cq);
        EXPECT_EQ(unsigned(IBV_CQ_ATTR_MODERATE), m_calls[0].attr.attr_mask);
        EXPECT_EQ(c.cq_count, m_calls[0].attr.moderate.cq_count);
        EXPECT_EQ(c.cq_period, m_calls[0].attr.moderate.cq_period);
    }
}

TEST_F(test_event_mod, unset_the_device_is_left_alone)
{
    open_with_device(config_list());
    open_with_device({ { "RX_EVENT_MOD_COUNT", "0" },
                       { "RX_EVENT_MOD_PERIOD", "0us" } });
    EXPECT_TRUE(m_calls.empty());
}

TEST_F(test_event_mod, device_without_it_one_line_and_all_works)
{
    /* One that UCX shows if it is not told otherwise: somebody asked for it */
    expect_log(UCS_LOG_LEVEL_WARN, "UCX_WIMM_RX_EVENT_MOD_COUNT", 1);
    open({ { "RX_EVENT_MOD_COUNT", "16" }, { "RX_EVENT_MOD_PERIOD", "10us" } });
    open();
    entity::connect(sender(), 0, receiver(), 0);
    imm_sink sink(sender());

    for (uint32_t i = 0; i < 3; ++i) {
        sender().arm(UCT_EVENT_RECV);
        ASSERT_OK(notify(receiver(), 0, i));
        ASSERT_TRUE(sender().wakes(never_ms));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == (i + 1); }));
    }
}

TEST_F(test_event_mod, out_of_range_is_refused)
{
    const config_list configs = {
        { "RX_EVENT_MOD_COUNT", "65536" }, { "RX_EVENT_MOD_PERIOD", "65536us" },
        { "RX_EVENT_MOD_PERIOD", "1s" },   { "RX_EVENT_MOD_PERIOD", "-1us" },
        { "RX_EVENT_MOD_PERIOD", "nan" },  { "RX_EVENT_MOD_PERIOD", "inf" }
    };

    expect_error("UCX_WIMM_RX_EVENT_MOD", configs.size());
    for (const auto &key : configs) {
        EXPECT_THROW(open({ key }), std::runtime_error) << key.second;
    }
}
