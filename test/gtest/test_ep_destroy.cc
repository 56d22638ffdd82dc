/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <malloc.h>


/* Endpoints that go away, and what they leave behind */
class test_ep_destroy : public imm_test {
  protected:
    void wait_drained()
    {
        for (const auto &e : m_entities) {
            check_tx_accounting(*e);
        }
    }

    ucs_status_t send_am(unsigned index)
    {
        return uct_ep_am_short(sender().ep(index), 1, 0, NULL, 0);
    }

    void ignore_ams()
    {
        receiver().set_am_handler(1, [](void *, size_t, unsigned) {
            return UCS_OK;
        });
    }
};


TEST_F(test_ep_destroy, thousand_cycles_leave_nothing)
{
    const unsigned cycles = 1000, max_dead = 200;

    /* However fast it is, there are receives for those that are drained */
    for (unsigned i = 0; i < 2; ++i) {
        open({ { "QP_DRAIN_TIMEOUT", "20ms" }, { "IB_RX_QUEUE_LEN", "4096" } });
    }
    imm_sink sink(receiver());
    mapped_buffer dst(64, receiver());
    const int num_qps = rc_state::device_num_qps();

    ASSERT_GE(num_qps, 0);
    ignore_ams();
    for (uint64_t i = 0; i < cycles; ++i) {
        entity::connect(sender(), 0, receiver(), 0);
        ASSERT_OK(retry([&]() { return send_am(0); }));
        ASSERT_OK(retry([&]() {
            return put_imm(sender(), 0, &i, sizeof(i), dst, 0, i);
        }));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == (i + 1); }));
        ASSERT_EQ(i, sink.got[i].imm);

        /* In either order, and with something left unsignaled */
        ASSERT_OK(retry([&]() { return send_am(0); }));
        if (i % 2) {
            sender().destroy_ep(0);
            receiver().destroy_ep(0);
        } else {
            receiver().destroy_ep(0);
            sender().destroy_ep(0);
        }
        ASSERT_TRUE(wait_for([&]() {
            return (rc_state::num_dead_qps(sender()) < max_dead) &&
                   (rc_state::num_dead_qps(receiver()) < max_dead);
        }));
    }
    wait_drained();
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
    check_rx_accounting();
}

TEST_F(test_ep_destroy, never_connected)
{
    open();
    const int num_qps = rc_state::device_num_qps();

    for (unsigned i = 0; i < 20; ++i) {
        sender().create_ep(i);
    }
    EXPECT_EQ(num_qps + 20, rc_state::device_num_qps());
    sender().destroy_eps();
    wait_drained();
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
}

TEST_F(test_ep_destroy, without_any_operation)
{
    open_pair();
    sender().destroy_ep(0);
    receiver().destroy_ep(0);
    wait_drained();
}

TEST_F(test_ep_destroy, unsignaled_sends_outstanding)
{
    open_pair();
    ignore_ams();
    for (unsigned i = 0; i < 10; ++i) {
        ASSERT_OK(send_am(0));
    }
    EXPECT_GT(rc_state::ep(sender())->super.txqp.unsignaled, 0);
    sender().destroy_ep(0);
    check_tx_accounting(sender());
    receiver().destroy_ep(0);
    wait_drained();
}

TEST_F(test_ep_destroy, full_send_queue)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    ignore_ams();
    while (send_am(0) == UCS_OK) {
    }
    sender().destroy_ep(0);
    check_tx_accounting(sender());
    receiver().destroy_ep(0);
    wait_drained();
}

TEST_F(test_ep_destroy, full_send_queue_of_notified_puts_to_a_dead_peer)
{
    open_pair();
    receiver().destroy_ep(0);
    wait_drained();
    while (notify(sender(), 0, 1) == UCS_OK) {
    }
    sender().destroy_ep(0);
    wait_drained();
    EXPECT_TRUE(sender().errors.empty());
}

TEST_F(test_ep_destroy, no_credits_of_the_completion_queue_left)
{
    const unsigned num_eps = 4;

    open({ { "RC_TX_CQ_LEN", "64" }, { "RC_FC_ENABLE", "n" } });
    open({ { "RC_FC_ENABLE", "n" } });
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    ignore_ams();

    /* Nothing is left for a request that has a completion */
    unsigned refused = 0;
    for (unsigned i = 0; refused < num_eps; i = (i + 1) % num_eps) {
        refused = (send_am(i) == UCS_OK) ? 0 : (refused + 1);
    }
    sender().destroy_eps();
    wait_drained();

    /* And the credits are of use to others */
    entity::connect(sender(), 10, receiver(), 10);
    imm_sink sink(receiver());
    for (uint32_t i = 0; i < 200; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 10, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 200; }));
}

TEST_F(test_ep_destroy, pending_of_another_endpoint_runs_on_returned_credits)
{
    struct pending {
        uct_pending_req_t uct;
        uct_ep_h ep;
        bool sent;
    };

    open({ { "RC_TX_CQ_LEN", "32" }, { "RC_FC_ENABLE", "n" } });
    open({ { "RC_FC_ENABLE", "n" } });
    entity::connect(sender(), 0, receiver(), 0);
    entity::connect(sender(), 1, receiver(), 1);
    ignore_ams();

    pending req  = {};
    req.ep       = sender().ep(1);
    req.uct.func = [](uct_pending_req_t *self) {
        pending *p          = reinterpret_cast<pending *>(self);
        ucs_status_t status = uct_ep_am_short(p->ep, 1, 0, NULL, 0);

        p->sent = (status == UCS_OK);
        return status;
    };

    while (send_am(0) == UCS_OK) {
    }
    ASSERT_STATUS(UCS_ERR_NO_RESOURCE, send_am(1));
    ASSERT_OK(uct_ep_pending_add(sender().ep(1), &req.uct, 0));
    sender().destroy_ep(0);
    ASSERT_TRUE(wait_for([&]() { return req.sent; }));
    flush(sender(), 1);
    wait_drained();
}

TEST_F(test_ep_destroy, outstanding_completions_are_canceled_once)
{
    const size_t size = 512 * 1024;

    open_pair();
    mapped_buffer src(size, sender());
    mapped_buffer dst(size, receiver());
    const uct_iov_t iov = src.iov(size);
    completion comps[4];

    /* UCX says so for each that is lost */
    allow_log(UCS_LOG_LEVEL_WARN, "destroying");
    for (completion &comp : comps) {
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                       dst.rkey(), &comp.uct));
    }
    sender().destroy_ep(0);
    for (completion &comp : comps) {
        EXPECT_EQ(1, comp.called);
        EXPECT_STATUS(UCS_ERR_CANCELED, comp.status());
    }
    wait_drained();
    for (completion &comp : comps) {
        EXPECT_EQ(1, comp.called);
    }
}

TEST_F(test_ep_destroy, failed_endpoint)
{
    open_pair();
    const uint64_t data = 1;

    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    sender().destroy_ep(0);
    receiver().destroy_ep(0);
    wait_drained();
    check_rx_accounting();
}

TEST_F(test_ep_destroy, after_flush_cancel)
{
    open_pair();
    completion comp;

    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    sender().destroy_ep(0);
    check_tx_accounting(sender());
    receiver().destroy_ep(0);
    wait_drained();
}

TEST_F(test_ep_destroy, interface_closed_with_queue_pairs_draining)
{
    const int num_qps = rc_state::device_num_qps();

    for (unsigned round = 0; round < 3; ++round) {
        open_pair({ { "QP_DRAIN_TIMEOUT", "100s" } });
        ignore_ams();
        for (unsigned i = 1; i < 10; ++i) {
            entity::connect(sender(), i, receiver(), i);
            ASSERT_OK(send_am(i));
            ASSERT_OK(retry([&]() { return notify(sender(), i, i); }));
        }
        sender().destroy_eps();
        receiver().destroy_eps();
        progress_rounds(round * 100);
        EXPECT_EQ(10u, rc_state::num_dead_qps(sender()));
        m_entities.clear();
    }
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
}

TEST_F(test_ep_destroy, drain_timeout_zero)
{
    open_pair({ { "QP_DRAIN_TIMEOUT", "0" } });
    ignore_ams();
    imm_sink sink(receiver());

    for (uint32_t i = 0; i < 50; ++i) {
        for (unsigned j = 0; j < 10; ++j) {
            ASSERT_OK(retry([&]() { return send_am(0); }));
        }
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
        sender().destroy_ep(0);
        receiver().destroy_ep(0);
        entity::connect(sender(), 0, receiver(), 0);
    }
    sink.got.clear();
    ASSERT_OK(notify(sender(), 0, 1234));
    ASSERT_TRUE(wait_for([&]() {
        return !sink.got.empty() && (sink.got.back().imm == 1234);
    }));
    flush(sender());
    wait_drained();
    check_rx_accounting();
}

/* As UCP does with the last endpoint: progress of the worker is all there is */
TEST_F(test_ep_destroy, progress_of_the_interface_is_disabled)
{
    const unsigned flags = UCT_PROGRESS_SEND | UCT_PROGRESS_RECV;

    open_pair({ { "QP_DRAIN_TIMEOUT", "1ms" } });
    ignore_ams();
    imm_sink sink(receiver());

    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_OK(retry([&]() { return send_am(0); }));
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
        const size_t count = sink.count();
        if (i % 2) {
            uct_iface_progress_disable(receiver().iface(), flags);
        }
        sender().destroy_ep(0);
        receiver().destroy_ep(0);
        uct_iface_progress_disable(sender().iface(), flags);
        uct_iface_progress_disable(receiver().iface(), flags);
        ASSERT_TRUE(wait_for([&]() {
            return (rc_state::num_dead_qps(sender()) == 0) &&
                   (rc_state::num_dead_qps(receiver()) == 0);
        }));
        EXPECT_EQ(count, sink.count());

        uct_iface_progress_enable(sender().iface(), flags);
        uct_iface_progress_enable(receiver().iface(), flags);
        check_rx_accounting();
        wait_drained();
        entity::connect(sender(), 0, receiver(), 0);
    }

    /* With an endpoint, what arrives is not taken: disabled is disabled */
    entity::connect(sender(), 1, receiver(), 1);
    flush(receiver(), 1);
    uct_iface_progress_disable(receiver().iface(), flags);
    receiver().destroy_ep(0);
    const size_t before = sink.count();
    ASSERT_OK(retry([&]() { return notify(sender(), 1, 7); }));
    wait_sent(sender(), 1);
    progress_rounds();
    EXPECT_EQ(before, sink.count());
    uct_iface_progress_enable(receiver().iface(), flags);
    EXPECT_TRUE(wait_for([&]() { return sink.count() == before + 1; }));
    sender().destroy_ep(0);
    wait_drained();

    /* And it is closed meanwhile */
    receiver().destroy_ep(1);
    uct_iface_progress_disable(receiver().iface(), flags);
}

TEST_F(test_ep_destroy, drain_timeout_is_kept)
{
    open_pair({ { "QP_DRAIN_TIMEOUT", "200ms" } });
    const int num_qps      = rc_state::device_num_qps();
    const ucs_time_t begin = ucs_get_time();

    ASSERT_OK(notify(sender(), 0, 1));
    sender().destroy_ep(0);

    /* As with a device that never reports the last receive */
    rc_state::for_each_dead_qp(sender(),
                               [](uct_rc_iface_qp_cleanup_ctx_t *ctx) {
                                   ctx->super.cb = [](void *) { return 0u; };
                               });
    ASSERT_TRUE(
            wait_for([&]() { return rc_state::num_dead_qps(sender()) == 0; }));

    const double seconds = ucs_time_to_sec(ucs_get_time() - begin);
    EXPECT_GE(seconds, 0.2);
    EXPECT_LT(seconds, 5);
    EXPECT_EQ(num_qps - 1, rc_state::device_num_qps());
}

TEST_F(test_ep_destroy, drain_timeout_leaves_no_completions_behind)
{
    const unsigned timeout_ms = 500;

    open_pair({ { "IB_RX_QUEUE_LEN", "4096" },
                { "QP_DRAIN_TIMEOUT", std::to_string(timeout_ms) + "ms" },
                { "RC_TX_CQ_MODERATION", "0" } });
    ignore_ams();
    const int cq_len     = rc_state::cq_available(sender());
    const unsigned count = 3 * rc_state::tx_max_poll(sender());

    for (unsigned i = 0; i < count; ++i) {
        ASSERT_OK(send_am(0));
    }
    sender().destroy_ep(0);
    const ucs_time_t end = ucs_get_time() +
                           ucs_time_from_msec(timeout_ms + 100);

    /* A program that is busy with something else */
    while (ucs_get_time() < end) {
        receiver().progress();
    }

    /* Room in the completion queue is given back for what was taken from it */
    sender().progress();
    EXPECT_EQ(cq_len - int(count - rc_state::tx_max_poll(sender())),
              rc_state::cq_available(sender()));
    EXPECT_EQ(1u, rc_state::num_dead_qps(sender()));
    wait_drained();
    EXPECT_EQ(0u, rc_state::num_dead_qps(sender()));
    EXPECT_EQ(cq_len, rc_state::cq_available(sender()));
}

TEST_F(test_ep_destroy, drain_timeout_also_for_who_is_never_idle)
{
    open_pair({ { "QP_DRAIN_TIMEOUT", "10ms" } });
    entity::connect(sender(), 1, receiver(), 1);
    const ucs_time_t begin = ucs_get_time();

    sender().set_am_handler(1, [](void *, size_t, unsigned) { return UCS_OK; });
    if (!rc_state::is_soft_roce()) {
        GTEST_SKIP() << "an acknowledgement does not tell that the message is in"
                        " the completion queue";
    }

    sender().destroy_ep(0);
    while (rc_state::num_dead_qps(sender()) > 0) {
        const double seconds = ucs_time_to_sec(ucs_get_time() - begin);

        /* Something has arrived whenever it looks */
        ASSERT_LT(seconds, 30);
        ASSERT_OK(uct_ep_am_short(receiver().ep(1), 1, 0, NULL, 0));
        wait_sent(receiver(), 1);
        sender().progress();
    }
    EXPECT_GE(ucs_time_to_sec(ucs_get_time() - begin), 0.1);
}

TEST_F(test_ep_destroy, drain_ends_when_the_device_reports_the_last_receive)
{
    const unsigned num_eps = 5;

    open_pair({ { "QP_DRAIN_TIMEOUT", "1000s" } });
    const int num_qps = rc_state::device_num_qps();

    ignore_ams();
    for (unsigned i = 1; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
        ASSERT_OK(notify(sender(), i, i));
        ASSERT_OK(send_am(i));
    }
    sender().destroy_eps();
    ASSERT_EQ(num_eps, rc_state::num_dead_qps(sender()));

    /* As UCX's progress does on LAST_WQE_REACHED; more than once is harmless */
    for (unsigned i = 0; i < 2; ++i) {
        rc_state::for_each_dead_qp(sender(),
                                   [](uct_rc_iface_qp_cleanup_ctx_t *ctx) {
                                       ctx->super.cb(&ctx->super);
                                   });
    }
    check_tx_accounting(sender());
    EXPECT_EQ(num_qps + static_cast<int>(num_eps) - 2,
              rc_state::device_num_qps());
}

TEST_F(test_ep_destroy, interface_closed_after_the_last_receive_was_reported)
{
    const int num_qps = rc_state::device_num_qps();

    open_pair({ { "QP_DRAIN_TIMEOUT", "1000s" } });
    ASSERT_OK(notify(sender(), 0, 1));
    sender().destroy_ep(0);
    receiver().destroy_ep(0);
    ASSERT_EQ(1u, rc_state::num_dead_qps(sender()));
    for (const auto &e : m_entities) {
        rc_state::for_each_dead_qp(*e, [](uct_rc_iface_qp_cleanup_ctx_t *ctx) {
            ctx->super.cb(&ctx->super);
        });
    }
    m_entities.clear();
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
}

TEST_F(test_ep_destroy, right_after_a_completion_callback)
{
    struct destroyer {
        uct_completion_t uct;
        entity *e;
        bool called;
    };

    open_pair();
    destroyer comp  = {};
    comp.uct.count  = 1;
    comp.uct.status = UCS_OK;
    comp.e          = &sender();
    comp.uct.func   = [](uct_completion_t *self) {
        destroyer *d = reinterpret_cast<destroyer *>(self);

        d->called = true;
    };

    /* Not from within the callback: UCX does not allow that */
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(), 0, &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return comp.called; }));
    sender().destroy_ep(0);
    check_tx_accounting(sender());
    receiver().destroy_ep(0);
    wait_drained();
}

TEST_F(test_ep_destroy, hundreds_at_once)
{
    const unsigned num_eps   = 200;
    const config_list config = { { "IB_RX_QUEUE_LEN", "1024" } };

    open(config);
    open(config);
    const int num_qps = rc_state::device_num_qps();
    imm_sink sink(receiver());

    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
        ASSERT_OK(retry([&]() { return notify(sender(), i, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == num_eps; }));
    sender().destroy_eps();
    receiver().destroy_eps();
    EXPECT_EQ(num_eps, rc_state::num_dead_qps(sender()));
    wait_drained();
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
    check_rx_accounting();
}


/* Endpoints that cannot be created */
class test_ep_create : public imm_test {
  protected:
    /* What is allocated by malloc(), in bytes; always 0 with a sanitizer */
    static size_t allocated()
    {
#if __GLIBC_PREREQ(2, 33)
        return mallinfo2().uordblks;
#else
        return mallinfo().uordblks;
#endif
    }

    /* Try it a number of times. Each is to end at the nth call of a verb. */
    void create(qp_fault::verb_t verb, unsigned nth)
    {
        const unsigned count = 100;
        unsigned calls       = 0;
        uct_ep_params_t params;
        uct_ep_h ep;

        qp_fault fault(verb, [&]() { return ++calls == nth; });

        params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
        params.iface      = sender().iface();
        for (unsigned i = 0; i < count; ++i) {
            if (i == 10) {
                m_allocated = allocated(); /* What comes once is there now */
            }
            calls = 0;
            ASSERT_NE(UCS_OK, uct_ep_create(&params, &ep));
            ASSERT_EQ(nth, calls);
        }
        EXPECT_LT(allocated(), m_allocated + 30 * (count - 10));
    }

    /* Nothing is left, and the interface is as it was */
    void check()
    {
        EXPECT_EQ(m_num_qps, rc_state::device_num_qps());
        EXPECT_EQ(0u, rc_state::num_dead_qps(sender()));
        EXPECT_TRUE(ucs_list_is_empty(&rc_state::iface(sender())->ep_list));
        check_tx_accounting(sender());

        open();
        entity::connect(sender(), 0, receiver(), 0);
        imm_sink sink(receiver());
        ASSERT_OK(notify(sender(), 0, 1));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
        flush(sender());
    }

    void SetUp() override
    {
        imm_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        open();
        m_num_qps = rc_state::device_num_qps();

        /* Lines that the fixture keeps would count as allocated */
        log_level(UCS_LOG_LEVEL_FATAL);
    }

    int m_num_qps      = 0;
    size_t m_allocated = 0;
};


TEST_F(test_ep_create, queue_pair_cannot_be_created)
{
    create(qp_fault::CREATE_QP, 1);
    check();
}

TEST_F(test_ep_create, queue_pair_cannot_be_initialized)
{
    create(qp_fault::MODIFY_QP, 1);
    check();
}

TEST_F(test_ep_create, queue_pair_cannot_be_connected)
{
    for (unsigned nth : { 1, 2 }) {
        unsigned calls = 0;

        open();
        sender().create_ep(0);
        receiver().create_ep(0);

        std::vector<uint8_t> dev_addr(receiver().attr().device_addr_len);
        std::vector<uint8_t> ep_addr(receiver().attr().ep_addr_len);
        auto *dev = reinterpret_cast<uct_device_addr_t *>(dev_addr.data());
        auto *adr = reinterpret_cast<uct_ep_addr_t *>(ep_addr.data());

        ASSERT_OK(uct_iface_get_device_address(receiver().iface(), dev));
        ASSERT_OK(uct_ep_get_address(receiver().ep(), adr));
        {
            qp_fault fault(qp_fault::MODIFY_QP,
                           [&]() { return ++calls == nth; });

            EXPECT_NE(UCS_OK, uct_ep_connect_to_ep(sender().ep(), dev, adr));
        }
        EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, notify(sender(), 0, 1));
        sender().destroy_ep(0);
        receiver().destroy_ep(0);
        for (const auto &e : m_entities) {
            check_tx_accounting(*e);
        }
        close(receiver());
    }
    check();
}
