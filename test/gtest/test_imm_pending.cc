/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_pending_test.h"


/* The list of requests that wait for a slot: when they are called, and what else
 * waits for them */
class test_imm_pending : public imm_pending_test {};


TEST_F(test_imm_pending, add_is_busy_when_it_can_be_posted)
{
    open_pair();
    receive();
    pending_req &req = notifier(1);

    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_wimm_ep_imm_pending_add(sender().ep(), &req.uct));
    progress_rounds();
    EXPECT_EQ(0u, req.called);
    EXPECT_EQ(0u, m_sink->count());
    check_works(1);
}

TEST_F(test_imm_pending, add_is_busy_when_posting_tells_why_not)
{
    open_pair();
    receive();
    sender().create_ep(1);
    mapped_buffer dst(8, receiver());
    pending_req &req = notifier(1);

    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_wimm_ep_imm_pending_add(sender().ep(1), &req.uct));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, notify(sender(), 1, 1));

    ASSERT_OK(put(dst, 1));
    completion comp;
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp, UCT_FLUSH_FLAG_CANCEL));
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_wimm_ep_imm_pending_add(sender().ep(), &req.uct));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_EQ(0u, req.called);
}

TEST_F(test_imm_pending, called_in_order_as_slots_come_back)
{
    open_without_slots();
    for (uint32_t imm : sequence(1, 10)) {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, imm));
        queue(imm);
    }
    progress_rounds();
    for (const auto &req : m_reqs) {
        EXPECT_EQ(0u, req->called);
    }
    EXPECT_EQ(0u, m_sink->count());

    for (unsigned i = 1; i <= 3; ++i) {
        release(1);
        EXPECT_EQ(i - 1, m_sink->count()); /* Only progress sends it */
        ASSERT_TRUE(wait_arrived(i));
        progress_rounds();
        EXPECT_EQ(sequence(1, i), arrived());
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 0));
    }

    release(slots);
    ASSERT_TRUE(wait_arrived(3 + slots));
    m_sink->result = UCS_OK;
    release(slots);
    ASSERT_TRUE(wait_arrived(10));
    EXPECT_EQ(sequence(1, 10), arrived());
    for (const auto &req : m_reqs) {
        EXPECT_EQ(1u, req->called);
    }
    check_works(11);
}

TEST_F(test_imm_pending, new_ones_wait_behind_those_in_the_list)
{
    open_without_slots();
    queue(1);
    queue(2);

    /* A slot is there, and the list goes first */
    release(1);
    ASSERT_TRUE(wait_for([&]() {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 99));
        return m_sink->count() == 1;
    }));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 99));
    queue(3);
    m_sink->result = UCS_OK;
    release(slots);
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
}

TEST_F(test_imm_pending, active_messages_and_plain_puts_go_ahead)
{
    const unsigned count = 50;

    open_without_slots();
    mapped_buffer dst(8, receiver());
    queue(1);
    for (uint64_t i = 1; i <= count; ++i) {
        ASSERT_OK(retry([&]() { return am(i); }));
        ASSERT_OK(retry([&]() { return put(dst, i); }));
    }
    ASSERT_TRUE(wait_for(
            [&]() { return (m_ams.size() == count) && (dst.u64() == count); }));
    EXPECT_EQ(0u, m_sink->count());

    release(1);
    ASSERT_TRUE(wait_arrived(1));
}

TEST_F(test_imm_pending, flush_completes_after_the_list)
{
    open_without_slots();
    mapped_buffer dst(8, receiver());
    completion comp;

    pending_req &req = request([&]() {
        const uint64_t data = 5;

        return put_imm(sender(), 0, &data, sizeof(data), dst, 0, 1);
    });
    add(req);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));

    /* What is posted after the flush does not wait for it */
    ASSERT_OK(am(1));
    ASSERT_TRUE(wait_for([&]() { return m_ams.size() == 1; }));
    progress_rounds();
    EXPECT_FALSE(comp.done());
    EXPECT_EQ(0u, dst.u64());

    release(1);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_OK(comp.status());
    EXPECT_EQ(5u, dst.u64());
    progress_rounds();
    EXPECT_EQ(1, comp.called);
    release(1);
    check_works(2);
}

TEST_F(test_imm_pending, flushes_between_requests_complete_one_by_one)
{
    const unsigned count = 6;
    completion comps[2 * count];

    open_without_slots();
    for (uint32_t i = 0; i < count; ++i) {
        queue(i + 1);
        ASSERT_STATUS(UCS_INPROGRESS, flush_start(comps[2 * i]));
        ASSERT_STATUS(UCS_INPROGRESS, flush_start(comps[2 * i + 1]));
    }

    for (uint32_t i = 0; i < count; ++i) {
        release(1);
        ASSERT_TRUE(wait_for([&]() { return comps[2 * i + 1].done(); }));
        EXPECT_EQ(i + 1, m_reqs[i]->called + i);
        progress_rounds();
        for (uint32_t j = 0; j < count; ++j) {
            EXPECT_EQ((j <= i) ? 1 : 0, comps[2 * j].called);
            EXPECT_EQ((j <= i) ? 1 : 0, comps[2 * j + 1].called);
        }
    }
    EXPECT_EQ(sequence(1, count), arrived());
}

TEST_F(test_imm_pending, flush_without_completion_is_in_progress_until_empty)
{
    open_without_slots();
    queue(1);
    queue(2);
    for (unsigned left = 2; left > 0; --left) {
        progress_rounds();
        EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(), 0, NULL));
        EXPECT_STATUS(UCS_INPROGRESS,
                      uct_iface_flush(sender().iface(), 0, NULL));
        release(1);
        ASSERT_TRUE(wait_arrived(3 - left));
    }
    EXPECT_TRUE(wait_for(
            [&]() { return uct_ep_flush(sender().ep(), 0, NULL) == UCS_OK; }));
    EXPECT_OK(uct_iface_flush(sender().iface(), 0, NULL));
}

TEST_F(test_imm_pending, flush_without_a_list_needs_no_slot)
{
    open_without_slots();
    mapped_buffer dst(8, receiver());

    ASSERT_OK(put(dst, 7));
    flush(sender());
    EXPECT_EQ(7u, dst.u64());
    EXPECT_OK(uct_iface_flush(sender().iface(), 0, NULL));
}

TEST_F(test_imm_pending, other_endpoints_go_on)
{
    open_without_slots(config_list(), 2);
    mapped_buffer dst(8, receiver());
    queue(100);

    for (uint32_t i = 0; i < slots; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 1, i); }));
    }
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 1, slots));
    ASSERT_OK(retry([&]() { return am(1, 1); }));
    ASSERT_OK(put(dst, 2, 1));
    flush(sender(), 1);
    ASSERT_TRUE(wait_for([&]() {
        return (m_ams.size() == 1) && (m_sink->count() == slots);
    }));
    EXPECT_EQ(2u, dst.u64());

    /* The slots of one are of no use to the other */
    release(slots, 1);
    ASSERT_TRUE(
            wait_for([&]() { return ep_attr(sender(), 1).slots == slots; }));
    EXPECT_EQ(0u, m_reqs[0]->called);
    release(1);
    ASSERT_TRUE(wait_arrived(slots + 1));
    EXPECT_EQ(100u, arrived().back());
}

TEST_F(test_imm_pending, request_that_gives_up_leaves_its_slot_to_the_next)
{
    open_without_slots();
    pending_req &req = request([]() { return UCS_OK; });
    add(req);
    queue(2);

    release(1);
    ASSERT_TRUE(wait_arrived(1));
    EXPECT_EQ(2u, arrived()[0]);
    EXPECT_EQ(1u, req.called);
}

/* Purge, cancel, destroy, failure */

TEST_F(test_imm_pending, purge_in_posting_order_of_list_and_group)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());
    completion comp;

    queue(1);
    queue(2);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));
    {
        tx_hold hold(sender());

        fill(dst);
        queue_am(3);
        queue(4);
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &notifier(5).uct, 0));
        queue_am(6);
        EXPECT_EQ(all_requests(), purge());
        EXPECT_TRUE(purge().empty());
        EXPECT_FALSE(comp.done());
    }

    /* Nothing is left to wait for, but what was posted */
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_OK(comp.status());
    release(slots);
    progress_rounds();
    for (const auto &req : m_reqs) {
        EXPECT_EQ(0u, req->called);
    }
    check_works(7);
}

TEST_F(test_imm_pending, purge_while_the_list_waits_for_other_resources)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());
    completion comp;

    pending_req &first = queue(1);
    queue(2);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));
    {
        tx_hold hold(sender());

        /* Slots are back, the send queue is full */
        fill(dst);
        queue_am(3);
        release(slots);
        ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
        queue(4);
        queue_am(5);
        progress_rounds();
        EXPECT_EQ(all_requests(), purge());
        EXPECT_TRUE(purge().empty());
        EXPECT_FALSE(comp.done());
    }

    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_OK(comp.status());
    check_works(6);
    EXPECT_TRUE(m_ams.empty());
}

TEST_F(test_imm_pending, purge_without_a_callback)
{
    open_without_slots();
    completion comp;

    queue(1);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));
    uct_ep_pending_purge(sender().ep(), NULL, NULL);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_EQ(1, comp.called);
    release(1);
    check_works(2);
    EXPECT_EQ(0u, m_reqs[0]->called);
}

TEST_F(test_imm_pending, cancel_ends_flushes_and_leaves_requests_to_purge)
{
    open_without_slots();
    mapped_buffer dst(8, receiver());
    completion waiting[2], canceled;

    queue(1);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(waiting[0]));
    queue(2);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(waiting[1]));
    ASSERT_OK(put(dst, 1));
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(canceled, UCT_FLUSH_FLAG_CANCEL));
    ASSERT_TRUE(wait_for([&]() { return canceled.done(); }));
    release(slots);
    progress_rounds();

    for (const completion &comp : waiting) {
        EXPECT_EQ(1, comp.called);
        EXPECT_STATUS(UCS_ERR_CANCELED, comp.status());
    }
    EXPECT_EQ(1, canceled.called);
    EXPECT_EQ(all_requests(), purge());
    for (const auto &req : m_reqs) {
        EXPECT_EQ(0u, req->called);
    }
    EXPECT_EQ(0u, m_sink->count());
    EXPECT_TRUE(sender().errors.empty());
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

TEST_F(test_imm_pending, cancel_of_an_idle_endpoint_waits_for_purge)
{
    open_without_slots();
    completion waiting, canceled;

    /* As UCX with its group: nothing is posted, so there is nothing to cancel. It only
     * waits for what may have arrived. */
    queue(1);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(waiting));
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(canceled, UCT_FLUSH_FLAG_CANCEL));
    EXPECT_EQ(all_requests(), purge());
    ASSERT_TRUE(wait_for([&]() { return waiting.done() && canceled.done(); }));
    EXPECT_OK(waiting.status());
    EXPECT_OK(canceled.status());
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

TEST_F(test_imm_pending, destroy_warns_of_each_request)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());
    completion comp;

    queue(1);
    queue(2);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));
    {
        tx_hold hold(sender());

        fill(dst);
        queue(3);
        expect_log(UCS_LOG_LEVEL_WARN, "was not purged", 3);
        allow_log(UCS_LOG_LEVEL_WARN, "uncompleted operation");
        sender().destroy_ep(0);
    }
    EXPECT_EQ(1, comp.called);
    EXPECT_STATUS(UCS_ERR_CANCELED, comp.status());
    check_tx_accounting(sender());
    for (const auto &req : m_reqs) {
        EXPECT_EQ(0u, req->called);
    }
}

TEST_F(test_imm_pending, failure_ends_flushes_and_leaves_requests_to_purge)
{
    open_without_slots(config_list(), 2);
    const uint64_t data = 1;
    completion comps[2];
    std::vector<const pending_req *> purged;

    sender().on_error = [&](uct_ep_h, ucs_status_t status) {
        for (const completion &comp : comps) {
            EXPECT_EQ(1, comp.called);
            EXPECT_STATUS(status, comp.status());
        }
        purged = purge();
        return UCS_OK;
    };
    queue(1);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comps[0]));
    queue(2);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comps[1]));
    ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data), 0x1000,
                               0xdeadbeef));
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, sender().errors[0].status);
    EXPECT_EQ(all_requests(), purged);
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    for (const completion &comp : comps) {
        EXPECT_EQ(1, comp.called);
    }

    /* The other one goes on */
    ASSERT_OK(notify(sender(), 1, 7));
    ASSERT_TRUE(wait_arrived(1));
    EXPECT_EQ(sequence(7, 1), arrived());
    flush(sender(), 1);
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

/* A failure that is found by receiving: the peer breaks the protocol. What was
 * posted before is complete, and seen to be so after the failure was reported. */
class test_imm_pending_failure : public test_imm_pending {
  protected:
    void SetUp() override
    {
        test_imm_pending::SetUp();
        if (IsSkipped()) {
            return;
        }
        open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
        expect_error("unknown control message");
    }

    void fail()
    {
        ASSERT_EQ(0, rc_state::raw_send(receiver(), 0, IBV_WR_SEND_WITH_IMM,
                                        0xf0000000));
        ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    }

    void check_destroy()
    {
        EXPECT_EQ(1u, sender().errors.size());
        EXPECT_EQ(0u, m_sink->count());
        EXPECT_TRUE(m_ams.empty());
        sender().destroy_ep(0);
        check_tx_accounting(sender());
    }
};


TEST_F(test_imm_pending_failure, requests_are_not_called_any_more)
{
    mapped_buffer dst(8, receiver());

    queue(1);
    {
        tx_hold hold(sender());

        fill(dst);
        queue(2);
        queue_am(3);
        fail();
    }
    progress_rounds();
    for (const auto &req : m_reqs) {
        EXPECT_EQ(0u, req->called);
    }
    EXPECT_EQ(all_requests(), purge());
    check_destroy();
}

TEST_F(test_imm_pending_failure, while_the_list_waits_for_other_resources)
{
    mapped_buffer dst(8, receiver());
    completion comp;
    unsigned called;

    pending_req &first = queue(1);
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));
    queue(2);
    {
        tx_hold hold(sender());

        fill(dst);
        release(slots);
        ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
        queue_am(3);
        called = first.called;
        fail();
        EXPECT_EQ(1, comp.called);
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, comp.status());
    }
    progress_rounds();
    EXPECT_EQ(1, comp.called);
    EXPECT_EQ(called, first.called);
    EXPECT_EQ(all_requests(), purge());
    check_destroy();
}

/* What UCP does to get rid of an endpoint: a flush that cancels, which waits for a
 * place in the send queue */
class test_imm_pending_discard : public test_imm_pending_failure {
  protected:
    ucs_status_t discard()
    {
        m_status = flush_start(m_comp, UCT_FLUSH_FLAG_CANCEL);
        return (m_status == UCS_ERR_NO_RESOURCE) ? m_status : UCS_OK;
    }

    void queue_discard()
    {
        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, discard());
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &request([this]() {
                                                         return discard();
                                                     }).uct,
                                     0));
    }

    void check_discarded()
    {
        ASSERT_TRUE(wait_for([&]() {
            return (m_status == UCS_OK) ||
                   ((m_status == UCS_INPROGRESS) && m_comp.done());
        }));
        EXPECT_EQ(2u, purge().size());
        check_destroy();
    }

    completion m_comp;
    ucs_status_t m_status = UCS_ERR_NO_RESOURCE;
};


TEST_F(test_imm_pending_discard, waits_for_successful_completions)
{
    mapped_buffer dst(8, receiver());

    queue(1);
    {
        tx_hold hold(sender());

        fill(dst);
        queue(2);
        fail();
        queue_discard();
    }
    check_discarded();
}

TEST_F(test_imm_pending_discard, waits_for_errors)
{
    queue(1);
    queue(2);
    {
        tx_hold hold(sender());

        /* These have no other end */
        fail();
        fill_unsignaled();
        queue_discard();
    }
    check_discarded();
    EXPECT_TRUE(m_ams.empty());
}
