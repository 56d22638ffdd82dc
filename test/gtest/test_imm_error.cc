/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <cerrno>
#include <set>


/* A notified put that cannot be posted, or that fails later */
class test_imm_error : public imm_test {
  protected:
    void expect_failed_once(entity &e, uct_ep_h ep)
    {
        ASSERT_TRUE(wait_for([&]() { return !e.errors.empty(); }));
        progress_rounds();
        ASSERT_EQ(1u, e.errors.size());
        EXPECT_EQ(ep, e.errors[0].ep);
    }

    /* The pair of endpoints with this index works in both directions */
    void check_works(unsigned index)
    {
        imm_sink left(sender());
        imm_sink right(receiver());

        ASSERT_OK(retry([&]() { return notify(sender(), index, 1); }));
        ASSERT_OK(retry([&]() { return notify(receiver(), index, 2); }));
        ASSERT_TRUE(wait_for(
                [&]() { return (left.count() > 0) && (right.count() > 0); }));
        EXPECT_EQ(static_cast<int>(index), left.got[0].ep_index);
        EXPECT_EQ(static_cast<int>(index), right.got[0].ep_index);
    }
};


TEST_F(test_imm_error, endpoint_not_connected)
{
    open();
    sender().create_ep(0);
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, notify(sender(), 0, 1));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, notify(sender(), 0, 1));
    progress_rounds();
    EXPECT_TRUE(sender().errors.empty());
}

TEST_F(test_imm_error, bad_rkey_no_notification)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver());
    const uint64_t data = 1;
    uct_ep_h ep         = sender().ep();

    ASSERT_OK(uct_wimm_ep_put_imm_short(ep, &data, sizeof(data), 0x1000,
                                        0xdeadbeef, 1));
    expect_failed_once(sender(), ep);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, sender().errors[0].status);
    EXPECT_LE(receiver().errors.size(), 1u);
    EXPECT_EQ(0u, sink.count());

    sink.pause();
    check_works(1);
    check_rx_accounting();
}

TEST_F(test_imm_error, address_out_of_range_no_notification)
{
    open_pair();
    imm_sink sink(receiver());
    mapped_buffer dst(4096, receiver());
    const uint64_t data = 1;

    ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst, 4096 - 4, 1));
    expect_failed_once(sender(), sender().ep());
    EXPECT_EQ(0u, sink.count());
    EXPECT_EQ(0u, dst.u64(511));
}

TEST_F(test_imm_error, memory_without_remote_write_access)
{
    open_pair();
    imm_sink sink(receiver());
    mapped_buffer dst(4096, receiver());
    const uint64_t data = 1;

    /* Past UCX, which registers with all rights whatever is asked for */
    struct ibv_mr *mr = ibv_reg_mr(
            uct_ib_iface_md(&rc_state::iface(receiver())->super)->pd, dst.ptr(),
            dst.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    ASSERT_TRUE(mr != nullptr);
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        dst.addr(), mr->rkey, 1));
    expect_failed_once(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, sender().errors[0].status);
    EXPECT_EQ(0u, sink.count());
    EXPECT_EQ(0u, dst.u64());
    EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(test_imm_error, earlier_ones_are_delivered_later_ones_are_not)
{
    open_pair();
    imm_sink sink(receiver());
    const uint64_t data = 1;

    for (uint32_t i = 0; i < 5; ++i) {
        ASSERT_OK(notify(sender(), 0, i));
    }
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 5));
    for (uint32_t i = 6; i < 10; ++i) {
        ASSERT_OK(notify(sender(), 0, i));
    }
    expect_failed_once(sender(), sender().ep());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 5; }));
    progress_rounds();
    EXPECT_EQ(5u, sink.count());
    check_rx_accounting();
}

TEST_F(test_imm_error, after_failure_connection_reset)
{
    open_pair();
    const uint64_t data = 1;

    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 2));
}

TEST_F(test_imm_error, after_flush_cancel_connection_reset)
{
    open_pair({ { "RC_RETRY_COUNT", "3" } });
    completion comp;

    ASSERT_OK(notify(sender(), 0, 1));
    ucs_status_t status = uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                                       &comp.uct);
    ASSERT_STATUS(UCS_INPROGRESS, status);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 2));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_TRUE(sender().errors.empty());
}

TEST_F(test_imm_error, device_refuses_post_endpoint_fails_once)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver());
    const struct ibv_qp *qp = rc_state::qp(sender());

    expect_error("ibv_post_send() on qp");
    expect_error("endpoint failed: Input/output error");
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [&](const void *obj) {
                              return (obj == qp) ? ENOMEM : 0;
                          });

        EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 0, 1));
        EXPECT_TRUE(sender().errors.empty()); /* Not from within the call */
        ASSERT_OK(notify(sender(), 1, 2));
    }

    expect_failed_once(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_IO_ERROR, sender().errors[0].status);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 3));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(2u, sink.got[0].imm);
    sink.pause();
    check_works(1);
}

TEST_F(test_imm_error, device_refuses_post_the_next_one_is_not_tried)
{
    open_pair();
    unsigned posts = 0;

    /* One line and one call of the error handler, whatever the program does
     * until it knows */
    expect_error("ibv_post_send() on qp");
    expect_error("endpoint failed: Input/output error");
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND, [&](const void *) {
            ++posts;
            return ENOMEM;
        });

        EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 0, 1));
        for (uint32_t i = 2; i < 5; ++i) {
            EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, i));
        }
        EXPECT_EQ(1u, posts);
    }
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 5));
    EXPECT_TRUE(sender().errors.empty());
    expect_failed_once(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_IO_ERROR, sender().errors[0].status);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 6));
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

TEST_F(test_imm_error, device_refuses_post_with_others_outstanding)
{
    open_pair();
    imm_sink sink(receiver());
    unsigned posts = 0;

    expect_error("ibv_post_send() on qp");
    allow_error("endpoint failed: Input/output error");
    allow_error("send completion with error: ");
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND, [&](const void *) {
            return (++posts == 11) ? ENOMEM : 0;
        });

        for (uint32_t i = 0; i < 10; ++i) {
            ASSERT_OK(notify(sender(), 0, i));
        }
        EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 0, 10));
    }
    expect_failed_once(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_IO_ERROR, sender().errors[0].status);
    for (size_t i = 0; i < sink.count(); ++i) {
        EXPECT_EQ(i, sink.got[i].imm);
    }
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

TEST_F(test_imm_error, device_refuses_post_endpoint_destroyed_at_once)
{
    open_pair();

    expect_error("ibv_post_send() on qp");
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [](const void *) { return ENOMEM; });

        EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 0, 1));
        sender().destroy_ep(0);
    }
    progress_rounds();
    EXPECT_TRUE(sender().errors.empty());
    check_tx_accounting(sender());
}

TEST_F(test_imm_error, other_operations_before_the_failure_is_reported)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    const uint64_t data = 1;
    completion comp;

    /* UCX's own operations are used on the endpoint until the program knows */
    expect_error("ibv_post_send() on qp");
    allow_error("endpoint failed: Input/output error");
    allow_error("send completion with error: ");
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [](const void *) { return ENOMEM; });

        EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 0, 1));
    }
    EXPECT_OK(uct_ep_am_short(sender().ep(), 0, 1, NULL, 0));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET,
                  uct_ep_put_short(sender().ep(), &data, sizeof(data),
                                   dst.addr(), dst.rkey()));
    EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(), 0, &comp.uct));
    expect_failed_once(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_IO_ERROR, sender().errors[0].status);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_NE(UCS_OK, comp.status());
    EXPECT_EQ(0u, dst.u64());
}

TEST_F(test_imm_error, flush_cancel_after_device_refused_post)
{
    open_pair();
    completion comp;

    receiver().set_am_handler(0,
                              [](void *, size_t, unsigned) { return UCS_OK; });

    /* What UCP does with an endpoint that failed */
    expect_error("ibv_post_send() on qp");
    expect_error("endpoint failed: Input/output error");
    EXPECT_OK(uct_ep_am_short(sender().ep(), 0, 1, NULL, 0));
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [](const void *) { return ENOMEM; });

        EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 0, 1));
    }
    expect_failed_once(sender(), sender().ep());

    ucs_status_t status = uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                                       &comp.uct);
    if (status == UCS_INPROGRESS) {
        ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    } else {
        EXPECT_OK(status);
    }
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

TEST_F(test_imm_error, without_error_handler_nothing_aborts)
{
    open_pair(config_list(), no_error_handler());
    const uint64_t data = 1;

    expect_error("send completion with error: remote access error");
    allow_error("receive completion with error");
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    ASSERT_TRUE(wait_for([&]() {
        return notify(sender(), 0, 2) == UCS_ERR_CONNECTION_RESET;
    }));
    EXPECT_TRUE(sender().errors.empty());
}

TEST_F(test_imm_error, error_handler_destroys_the_endpoint)
{
    open_pair();
    const uint64_t data = 1;

    sender().on_error = [&](uct_ep_h ep, ucs_status_t) {
        sender().destroy_ep(sender().ep_index(ep));
        return UCS_OK;
    };
    for (uint32_t i = 0; i < 5; ++i) {
        ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                            0x1000, 0xdeadbeef, 1));
    }
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    check_tx_accounting(sender());
}

TEST_F(test_imm_error, error_handler_destroys_another_failed_endpoint)
{
    const unsigned num_eps = 4;

    open();
    open();
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }

    /* All fail in one round of progress; the first report destroys the others */
    expect_error("ibv_post_send() on qp", num_eps);
    expect_error("endpoint failed: Input/output error");
    sender().on_error = [&](uct_ep_h, ucs_status_t) {
        sender().destroy_eps();
        return UCS_OK;
    };
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [](const void *) { return ENOMEM; });

        for (unsigned i = 0; i < num_eps; ++i) {
            EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), i, 1));
        }
    }
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    check_tx_accounting(sender());
}

TEST_F(test_imm_error, device_refuses_receives_for_a_while)
{
    open_pair({ { "IB_RX_QUEUE_LEN", "64" } });
    imm_sink sink(receiver());
    uint32_t sent = 0;

    expect_error("ibv_post_srq_recv() on");
    {
        verbs_fault fault(receiver(), verbs_fault::POST_SRQ_RECV,
                          [](const void *) { return ENOMEM; });

        for (; sent < 40; ++sent) {
            ASSERT_OK(retry([&]() { return notify(sender(), 0, sent); }));
        }
        ASSERT_TRUE(wait_for([&]() { return sink.count() == sent; }));
    }

    for (; sent < 500; ++sent) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, sent); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == sent; }));
    for (uint32_t i = 0; i < sent; ++i) {
        ASSERT_EQ(i, sink.got[i].imm);
    }
    check_rx_accounting();
    EXPECT_TRUE(receiver().errors.empty());
}


/* A completion queue that cannot be polled any more: nothing is known of any
 * endpoint of the interface */
class test_poll_error : public test_imm_error {
  protected:
    void SetUp() override
    {
        test_imm_error::SetUp();
        if (IsSkipped()) {
            return;
        }
        open_pair();
        for (unsigned i = 1; i < num_eps; ++i) {
            entity::connect(sender(), i, receiver(), i);
        }
    }

    /* Progress with such queues of the sender, some of which get no work */
    void fail(bool rx, bool tx)
    {
        const auto *ib_iface = &rc_state::iface(sender())->super;
        unsigned polls       = 0;
        verbs_fault fault(sender(), verbs_fault::POLL_CQ, [&](const void *cq) {
            if ((rx && (cq == ib_iface->cq[UCT_IB_DIR_RX])) ||
                (tx && (cq == ib_iface->cq[UCT_IB_DIR_TX]))) {
                ++polls;
                errno = EIO;
                return -1;
            }
            return 0;
        });

        allow_error("endpoint failed");
        ASSERT_OK(notify(sender(), 0, 1));
        ASSERT_TRUE(
                wait_for([&]() { return sender().errors.size() >= num_eps; }));
        progress_rounds(1000);
        EXPECT_GT(polls, 0u);
        check_errors();
    }

    void check_errors()
    {
        std::set<uct_ep_h> eps;

        EXPECT_EQ(num_eps, sender().errors.size());
        for (const entity::ep_error &error : sender().errors) {
            EXPECT_STATUS(UCS_ERR_IO_ERROR, error.status);
            eps.insert(error.ep);
        }
        EXPECT_EQ(num_eps, eps.size());
        EXPECT_LE(logged(UCS_LOG_LEVEL_ERROR, "endpoint failed").size(),
                  size_t(num_eps));
    }

    static const unsigned num_eps = 3;
};

const unsigned test_poll_error::num_eps;


TEST_F(test_poll_error, of_sends)
{
    expect_error("ibv_poll_cq(tx)");
    fail(false, true);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 2, 2));
}

TEST_F(test_poll_error, of_receives)
{
    expect_error("ibv_poll_cq(rx)");
    fail(true, false);
    sender().destroy_eps();
    check_tx_accounting(sender());
}

TEST_F(test_poll_error, of_both)
{
    expect_error("ibv_poll_cq(rx)");
    expect_error("ibv_poll_cq(tx)");
    fail(true, true);
}

TEST_F(test_poll_error, endpoints_destroyed_by_the_error_handler)
{
    expect_error("ibv_poll_cq(tx)");
    sender().on_error = [&](uct_ep_h ep, ucs_status_t) {
        sender().destroy_ep(sender().ep_index(ep));
        return UCS_OK;
    };
    fail(false, true);
}
