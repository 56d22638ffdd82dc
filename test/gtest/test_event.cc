/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"


/* A receiver that sleeps on the event descriptor of its interface */
class test_event : public uct_test {};


TEST_F(test_event, active_message_wakes)
{
    open_pair();
    unsigned got = 0;

    receiver().set_am_handler(0, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    for (unsigned i = 0; i < 5; ++i) {
        receiver().arm(UCT_EVENT_RECV);
        ASSERT_OK(uct_ep_am_short(sender().ep(), 0, i, NULL, 0));
        ASSERT_TRUE(receiver().wakes(10000));
        ASSERT_TRUE(wait_for([&]() { return got == (i + 1); }));
    }
}

TEST_F(test_event, nothing_no_wake)
{
    open_pair();
    receiver().arm(UCT_EVENT_RECV | UCT_EVENT_SEND_COMP);
    EXPECT_FALSE(receiver().wakes(50));
}

TEST_F(test_event, notified_put_wakes)
{
    WIMM_ONLY();
    open_pair();
    imm_sink sink(receiver());

    for (unsigned i = 0; i < 5; ++i) {
        receiver().arm(UCT_EVENT_RECV);
        ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0, i));
        ASSERT_TRUE(receiver().wakes(10000));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == (i + 1); }));
    }
}

TEST_F(test_event, plain_put_does_not_wake)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    const uint64_t data = 1;

    receiver().arm(UCT_EVENT_RECV);
    ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data), dst.addr(),
                               dst.rkey()));
    EXPECT_FALSE(receiver().wakes(50));
    flush(sender());
}

TEST_F(test_event, send_completion_wakes)
{
    open_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    const uct_iov_t iov = src.iov(64);
    completion comp;

    sender().arm(UCT_EVENT_SEND_COMP);
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                   dst.rkey(), &comp.uct));
    ASSERT_TRUE(sender().wakes(10000));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
}

TEST_F(test_event, arrived_after_arm_is_not_lost)
{
    WIMM_ONLY();
    open_pair();
    imm_sink sink(receiver());

    /* No progress between the arrival and the second call: it has to say that
     * there is something, or wake */
    receiver().arm(UCT_EVENT_RECV);
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0, 1));
    completion comp;
    ucs_status_t status = uct_ep_flush(sender().ep(), 0, &comp.uct);
    while ((status == UCS_INPROGRESS) && !comp.done()) {
        sender().progress();
    }
    status = uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV);
    EXPECT_TRUE((status == UCS_ERR_BUSY) || receiver().wakes(1000))
            << status_str(status);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
}

TEST_F(test_event, arm_is_busy_while_notifications_can_be_delivered)
{
    WIMM_ONLY();
    open_pair();
    imm_sink sink(receiver(), false);

    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0, 1));
    flush(sender());
    progress_rounds();

    /* Without a handler nothing can be delivered: sleeping is right */
    receiver().arm(UCT_EVENT_RECV);

    sink.start();
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    EXPECT_GT(receiver().progress(), 0u);
    EXPECT_EQ(1u, sink.count());
    receiver().arm(UCT_EVENT_RECV);
}

TEST_F(test_event, arm_is_busy_while_queue_pairs_are_drained)
{
    WIMM_ONLY();
    open_pair({ { "QP_DRAIN_TIMEOUT", "300ms" } });

    /* There may be no event for it, and a program that slept on would keep the
     * queue pair for good */
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0, 1));
    sender().destroy_ep(0);
    ASSERT_EQ(1u, rc_state::num_dead_qps(sender()));
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(sender().iface(), UCT_EVENT_RECV));
    sender().arm(UCT_EVENT_RECV | UCT_EVENT_SEND_COMP);
    EXPECT_EQ(0u, rc_state::num_dead_qps(sender()));
    check_tx_accounting(sender());
}

TEST_F(test_event, arm_is_busy_while_a_failure_is_not_reported)
{
    WIMM_ONLY();
    open_pair();

    expect_error("ibv_post_send() on qp");
    expect_error("endpoint failed");
    {
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [](const void *) { return ENOMEM; });

        EXPECT_STATUS(UCS_ERR_IO_ERROR,
                      uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0,
                                                1));
    }
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(sender().iface(), UCT_EVENT_SEND_COMP));
    EXPECT_TRUE(sender().errors.empty());
    sender().arm(UCT_EVENT_SEND_COMP);
    EXPECT_EQ(1u, sender().errors.size());
}
