/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/uct_test.h"
#include "common/rc_state.h"

#include <algorithm>
#include <cerrno>
#include <cstring>


/* Flush, fence and the pending queue */
class test_flush : public uct_test {
  protected:
    static const uint8_t AM_ID = 5;

    /* A request in the pending queue that sends one message */
    struct pending {
        uct_pending_req_t uct;
        uct_ep_h ep;
        uint64_t value;
        bool notify;
        bool purged;
    };

    static ucs_status_t pending_cb(uct_pending_req_t *self)
    {
        pending *req = reinterpret_cast<pending *>(self);

        return req->notify ?
                       uct_wimm_ep_put_imm_short(req->ep, NULL, 0, 0, 0,
                                                 req->value) :
                       uct_ep_am_short(req->ep, AM_ID, req->value, NULL, 0);
    }

    static void purge_cb(uct_pending_req_t *self, void *arg)
    {
        reinterpret_cast<pending *>(self)->purged = true;
        static_cast<std::vector<uint64_t> *>(arg)->push_back(
                reinterpret_cast<pending *>(self)->value);
    }

    pending &new_pending(uct_ep_h ep, uint64_t value, bool notify = false)
    {
        m_pending.emplace_back(
                new pending{ { pending_cb, { 0 } }, ep, value, notify, false });
        return *m_pending.back();
    }

    void receive()
    {
        receiver().set_am_handler(AM_ID, [this](void *data, size_t, unsigned) {
            m_order.push_back(u64_at(data));
            return UCS_OK;
        });
    }

    /* Send until there are no resources. @return How many. */
    uint64_t fill(unsigned index = 0)
    {
        uint64_t sent = 0;

        while (uct_ep_am_short(sender().ep(index), AM_ID, sent, NULL, 0) ==
               UCS_OK) {
            ++sent;
        }
        return sent;
    }

    std::vector<std::unique_ptr<pending>> m_pending;
    std::vector<uint64_t> m_order;
};


TEST_F(test_flush, idle_endpoint_is_ok_at_once)
{
    open_pair();
    completion comp;

    EXPECT_OK(uct_ep_flush(sender().ep(), 0, &comp.uct));
    EXPECT_OK(uct_iface_flush(sender().iface(), 0, NULL));
    EXPECT_EQ(0, comp.called);
}

TEST_F(test_flush, endpoint_covers_unsignaled_messages)
{
    open_pair();
    receive();
    for (uint64_t i = 0; i < 10; ++i) {
        ASSERT_OK(uct_ep_am_short(sender().ep(), AM_ID, i, NULL, 0));
    }
    flush(sender());
    EXPECT_EQ(rc_state::sq_length(sender()), rc_state::sq_available(sender()));
    ASSERT_TRUE(wait_for([&]() { return m_order.size() == 10; }));
}

TEST_F(test_flush, endpoint_covers_large_put)
{
    const size_t size = 512 * 1024;

    open_pair();
    mapped_buffer src(size, sender());
    mapped_buffer dst(size, receiver());
    const uct_iov_t iov = src.iov(size);
    completion put, flushed;

    src.fill(1);
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                   dst.rkey(), &put.uct));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(), 0, &flushed.uct));
    ASSERT_TRUE(wait_for([&]() { return flushed.done(); }));
    EXPECT_TRUE(put.done());
    dst.check(1, size);
}

TEST_F(test_flush, several_flushes_complete_once_each)
{
    open_pair();
    mapped_buffer dst(8, receiver());
    const uint64_t data = 1;
    completion comps[5];

    for (completion &comp : comps) {
        ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data),
                                   dst.addr(), dst.rkey()));
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_flush(sender().ep(), 0, &comp.uct));
    }
    ASSERT_TRUE(wait_for([&]() { return comps[4].done(); }));
    for (completion &comp : comps) {
        EXPECT_EQ(1, comp.called);
        EXPECT_OK(comp.status());
    }
}

TEST_F(test_flush, interface_covers_all_endpoints)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    receive();
    for (unsigned i = 0; i < 20; ++i) {
        ASSERT_OK(uct_ep_am_short(sender().ep(i % 2), AM_ID, i, NULL, 0));
    }
    EXPECT_STATUS(UCS_INPROGRESS, uct_iface_flush(sender().iface(), 0, NULL));
    ASSERT_TRUE(wait_for([&]() {
        return uct_iface_flush(sender().iface(), 0, NULL) == UCS_OK;
    }));
    EXPECT_EQ(rc_state::sq_length(sender()),
              rc_state::sq_available(sender(), 0));
    EXPECT_EQ(rc_state::sq_length(sender()),
              rc_state::sq_available(sender(), 1));
}

TEST_F(test_flush, full_send_queue_has_no_resource)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    receive();
    fill();
    completion comp;

    EXPECT_STATUS(UCS_ERR_NO_RESOURCE,
                  uct_ep_flush(sender().ep(), 0, &comp.uct));
    flush(sender());
}

TEST_F(test_flush, cancel_ends_outstanding_operations)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    const size_t size = 1024 * 1024;
    mapped_buffer src(size, sender());
    mapped_buffer dst(3 * size, receiver());
    const uct_iov_t iov = src.iov(size);
    completion put[3], flushed;

    src.fill(1);
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_put_zcopy(sender().ep(), &iov, 1,
                                       dst.addr(i * size), dst.rkey(),
                                       &put[i].uct));
    }
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &flushed.uct));
    ASSERT_TRUE(wait_for([&]() { return flushed.done(); }));
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(1, put[i].called);

        /* It may have been done before, which is not a lie then */
        if (put[i].status() == UCS_OK) {
            dst.check(1, size, i * size);
        } else {
            EXPECT_STATUS(UCS_ERR_CANCELED, put[i].status());
        }
    }
    EXPECT_TRUE(sender().errors.empty()); /* Asked for, so no error */

    /* The other endpoint goes on */
    receive();
    ASSERT_OK(uct_ep_am_short(sender().ep(1), AM_ID, 7, NULL, 0));
    ASSERT_TRUE(wait_for([&]() { return m_order.size() == 1; }));
    flush(sender(), 1);
    sender().destroy_ep(0);
    check_tx_accounting(sender());
}

TEST_F(test_flush, cancel_of_what_cannot_be_done)
{
    open_pair();
    const size_t size = 64 * 1024;
    mapped_buffer src(size, sender());
    mapped_buffer dst(size, receiver());
    const uct_iov_t iov = src.iov(size);
    completion put[3], flushed;

    /* Nobody answers: all are outstanding until they are canceled */
    receiver().destroy_ep(0);
    check_tx_accounting(receiver());
    for (completion &comp : put) {
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                       dst.rkey(), &comp.uct));
    }
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &flushed.uct));
    ASSERT_TRUE(wait_for([&]() { return flushed.done(); }));
    for (completion &comp : put) {
        EXPECT_EQ(1, comp.called);
        EXPECT_STATUS(UCS_ERR_CANCELED, comp.status());
    }
    EXPECT_TRUE(sender().errors.empty());
}

TEST_F(test_flush, cancel_twice)
{
    open_pair();
    mapped_buffer dst(8, receiver());
    const uint64_t data = 1;
    completion first, second;

    ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data), dst.addr(),
                               dst.rkey()));
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &first.uct));
    ucs_status_t status = uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                                       &second.uct);
    EXPECT_TRUE((status == UCS_INPROGRESS) || (status == UCS_OK))
            << status_str(status);
    ASSERT_TRUE(wait_for([&]() {
        return first.done() && (second.done() || (status != UCS_INPROGRESS));
    }));
    progress_rounds();
    EXPECT_EQ(1, first.called);
    EXPECT_EQ((status == UCS_INPROGRESS) ? 1 : 0, second.called);
    EXPECT_TRUE(sender().errors.empty());
}

TEST_F(test_flush, fence_between_puts_and_get)
{
    open_pair();
    mapped_buffer dst(128, receiver());
    mapped_buffer back(128, sender());
    const uct_iov_t iov = back.iov(128);
    std::vector<bool> fences;

    /* The data alone would be right most of the time: look at the requests */
    verbs_fault view(sender(),
                     [&](const struct ibv_qp *, const struct ibv_send_wr *wr) {
                         if (wr->opcode == IBV_WR_RDMA_READ) {
                             fences.push_back(wr->send_flags & IBV_SEND_FENCE);
                         }
                         return 0;
                     });

    for (uint64_t i = 1; i <= 50; ++i) {
        const bool fence = (i % 2) != 0;
        completion comp;

        ASSERT_OK(retry([&]() {
            return uct_ep_put_short(sender().ep(), &i, sizeof(i), dst.addr(),
                                    dst.rkey());
        }));
        if (fence) {
            ASSERT_OK(uct_ep_fence(sender().ep(), 0));
            EXPECT_TRUE(rc_state::fence_waits(sender()));
        }
        ASSERT_STATUS(UCS_INPROGRESS, retry([&]() {
                          return uct_ep_get_zcopy(sender().ep(), &iov, 1,
                                                  dst.addr(), dst.rkey(),
                                                  &comp.uct);
                      }));
        EXPECT_FALSE(rc_state::fence_waits(sender()));
        ASSERT_EQ(i, fences.size());
        EXPECT_EQ(fence, fences.back());
        ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
        ASSERT_EQ(i, back.u64());
    }
}

TEST_F(test_flush, fence_of_the_interface_is_for_all_endpoints)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    mapped_buffer dst(128, receiver());
    const uint64_t data = 1;

    ASSERT_OK(uct_iface_fence(sender().iface(), 0));
    for (unsigned i = 0; i < 2; ++i) {
        EXPECT_TRUE(rc_state::fence_waits(sender(), i));
        ASSERT_OK(uct_ep_put_short(sender().ep(i), &data, sizeof(data),
                                   dst.addr(), dst.rkey()));
        EXPECT_FALSE(rc_state::fence_waits(sender(), i));
    }
    flush(sender(), 0);
    flush(sender(), 1);
}

TEST_F(test_flush, by_flow_control_message_without_flow_control)
{
    const config_list config = { { "FLUSH_MODE", "fc" },
                                 { "RC_FC_ENABLE", "n" } };

    if (resource::get().is_wimm()) {
        open_pair(config);
    } else {
        GTEST_SKIP() << "rc_verbs asserts that this does not happen";
    }

    /* The request that flushes is a grant of credits, with nothing behind it */
    receive();
    for (uint64_t round = 0; round < 5; ++round) {
        ASSERT_OK(uct_ep_am_short(sender().ep(), AM_ID, 2 * round, NULL, 0));
        ASSERT_OK(
                uct_ep_am_short(sender().ep(), AM_ID, 2 * round + 1, NULL, 0));
        EXPECT_GT(rc_state::ep(sender())->super.txqp.unsignaled, 0);
        flush(sender());
        progress_rounds();
    }
    ASSERT_TRUE(wait_for([&]() { return m_order.size() == 10; }));
    for (uint64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(i, m_order[i]);
    }
    EXPECT_TRUE(receiver().errors.empty());
    EXPECT_TRUE(sender().errors.empty());
    check_rx_accounting();
}


class test_pending : public test_flush {};


TEST_F(test_pending, add_with_resources_is_busy)
{
    open_pair();
    pending &req = new_pending(sender().ep(), 0);

    EXPECT_STATUS(UCS_ERR_BUSY, uct_ep_pending_add(sender().ep(), &req.uct, 0));
}

TEST_F(test_pending, order_is_kept)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    receive();
    const uint64_t sent = fill();

    for (uint64_t i = sent; i < (sent + 100); ++i) {
        ASSERT_OK(uct_ep_pending_add(sender().ep(),
                                     &new_pending(sender().ep(), i).uct, 0));
    }
    ASSERT_TRUE(wait_for([&]() { return m_order.size() == (sent + 100); }));
    for (uint64_t i = 0; i < (sent + 100); ++i) {
        ASSERT_EQ(i, m_order[i]);
    }
}

TEST_F(test_pending, notified_puts_from_the_queue)
{
    WIMM_ONLY();
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    receive();
    imm_sink sink(receiver());
    const uint64_t sent = fill();

    sink.on_imm = [&](const imm_sink::notification &n) {
        m_order.push_back(n.imm);
    };
    for (uint64_t i = sent; i < (sent + 60); ++i) {
        ASSERT_OK(uct_ep_pending_add(sender().ep(),
                                     &new_pending(sender().ep(), i, i % 2).uct,
                                     0));
    }
    ASSERT_TRUE(wait_for([&]() { return m_order.size() == (sent + 60); }));
    for (uint64_t i = 0; i < (sent + 60); ++i) {
        ASSERT_EQ(i, m_order[i]);
    }
    EXPECT_GE(sink.count(), 29u);
}

TEST_F(test_pending, flow_control_window_is_waited_for)
{
    open_pair({ { "RC_FC_WND_SIZE", "4" } });
    receive();
    const uint64_t sent = fill();

    EXPECT_EQ(4u, sent);
    for (uint64_t i = sent; i < 50; ++i) {
        ASSERT_OK(uct_ep_pending_add(sender().ep(),
                                     &new_pending(sender().ep(), i).uct, 0));
    }
    ASSERT_TRUE(wait_for([&]() { return m_order.size() == 50; }));
    for (uint64_t i = 0; i < 50; ++i) {
        ASSERT_EQ(i, m_order[i]);
    }
}

TEST_F(test_pending, purge_returns_all_in_order)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    receive();
    fill();
    std::vector<uint64_t> purged;

    for (uint64_t i = 0; i < 10; ++i) {
        ASSERT_OK(uct_ep_pending_add(sender().ep(),
                                     &new_pending(sender().ep(), i).uct, 0));
    }
    uct_ep_pending_purge(sender().ep(), purge_cb, &purged);
    ASSERT_EQ(10u, purged.size());
    for (uint64_t i = 0; i < 10; ++i) {
        EXPECT_EQ(i, purged[i]);
    }
    flush(sender());
}

TEST_F(test_pending, failed_endpoint_keeps_requests_for_purge)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" },
                { "RC_RETRY_COUNT", "1" },
                { "RC_TIMEOUT", "30ms" } });
    std::vector<uint64_t> purged;

    receive();
    receiver().destroy_ep(0);
    check_tx_accounting(receiver());
    fill();
    for (uint64_t i = 0; i < 5; ++i) {
        ASSERT_OK(uct_ep_pending_add(sender().ep(),
                                     &new_pending(sender().ep(), i).uct, 0));
    }
    sender().on_error = [&](uct_ep_h ep, ucs_status_t) {
        uct_ep_pending_purge(ep, purge_cb, &purged);
        return UCS_OK;
    };
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    EXPECT_EQ(5u, purged.size());
    for (const auto &req : m_pending) {
        EXPECT_TRUE(req->purged);
    }
}

TEST_F(test_pending, endpoints_share_the_completion_queue)
{
    const unsigned num_eps = 4, count = 30;

    open({ { "RC_TX_CQ_LEN", "64" } });
    open();
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    receive();

    uint64_t sent = 0;
    for (unsigned i = 0; i < num_eps; ++i) {
        sent += fill(i);
    }
    for (unsigned i = 0; i < num_eps; ++i) {
        for (unsigned j = 0; j < count; ++j) {
            pending &req = new_pending(sender().ep(i), 1000 * i + j);

            if (uct_ep_pending_add(sender().ep(i), &req.uct, 0) ==
                UCS_ERR_BUSY) {
                ASSERT_OK(pending_cb(&req.uct));
            }
        }
    }
    ASSERT_TRUE(wait_for(
            [&]() { return m_order.size() == (sent + num_eps * count); }));
}

/* The queue runs when credits of the completion queue come back, which all
 * endpoints of an interface share: one that failed must not stop it */
class test_pending_failure : public test_pending {
  protected:
    /* As a program does: what cannot be sent any more is done with. Calls that
     * had another outcome than "later" are recorded. */
    static ucs_status_t counting_cb(uct_pending_req_t *self)
    {
        const ucs_status_t status = pending_cb(self);

        if ((status == UCS_ERR_NO_RESOURCE) || (status == UCS_INPROGRESS)) {
            return status;
        }
        m_statuses.push_back(status);
        return UCS_OK;
    }

    void SetUp() override
    {
        test_pending::SetUp();
        WIMM_ONLY();
        m_statuses.clear();

        open({ { "RC_TX_CQ_LEN", "32" }, { "RC_FC_ENABLE", "n" } });
        open({ { "RC_FC_ENABLE", "n" } });
        for (unsigned i = 0; i < 3; ++i) {
            entity::connect(sender(), i, receiver(), i);
        }
    }

    static ucs_status_t notify(unsigned index, uint32_t imm)
    {
        return uct_wimm_ep_put_imm_short(m_sender->ep(index), NULL, 0, 0, 0,
                                         imm);
    }

    /* Take all credits of the completion queue. @return How many. */
    unsigned take_credits()
    {
        unsigned count = 0;

        m_sender = &sender();
        while (notify(0, count) == UCS_OK) {
            ++count;
        }
        EXPECT_GT(rc_state::sq_available(sender(), 0), 0);
        return count;
    }

    void queue(unsigned index, unsigned count)
    {
        for (unsigned i = 0; i < count; ++i) {
            pending &req = new_pending(sender().ep(index), 1000 * index + i,
                                       true);

            req.uct.func = counting_cb;
            ASSERT_OK(uct_ep_pending_add(sender().ep(index), &req.uct, 0));
        }
    }

    /* What the receiver got on an endpoint */
    static unsigned got(const imm_sink &sink, int index)
    {
        unsigned count = 0;

        for (const imm_sink::notification &n : sink.got) {
            count += (n.ep_index == index);
        }
        return count;
    }

    static std::vector<ucs_status_t> m_statuses;
    static entity *m_sender;
};

std::vector<ucs_status_t> test_pending_failure::m_statuses;
entity *test_pending_failure::m_sender;


TEST_F(test_pending_failure, requests_of_a_failed_endpoint_wait_for_purge)
{
    imm_sink sink(receiver());
    const uint64_t data = 1;
    std::vector<uint64_t> purged;

    /* This one fails, and its requests wait for the interface alone */
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(1), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    const unsigned sent = take_credits();
    queue(1, 5);
    queue(2, 5);
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    ASSERT_TRUE(wait_for(
            [&]() { return (got(sink, 0) == sent) && (got(sink, 2) == 5); }));
    progress_rounds();
    ASSERT_EQ(1u, sender().errors.size());
    EXPECT_EQ(sender().ep(1), sender().errors[0].ep);
    EXPECT_EQ(0u, got(sink, 1));

    /* Those of endpoint 2, and none of the failed one */
    ASSERT_EQ(5u, m_statuses.size());
    for (ucs_status_t status : m_statuses) {
        EXPECT_OK(status);
    }

    uct_ep_pending_purge(sender().ep(1), purge_cb, &purged);
    ASSERT_EQ(5u, purged.size());
    for (uint64_t i = 0; i < 5; ++i) {
        EXPECT_EQ(1000 + i, purged[i]);
    }

    ASSERT_OK(retry([&]() { return notify(2, 1); }));
    ASSERT_TRUE(wait_for([&]() { return got(sink, 2) == 6; }));
    sender().destroy_ep(1);
    check_tx_accounting(sender());
}

TEST_F(test_pending_failure, purged_by_the_error_handler)
{
    imm_sink sink(receiver());
    const uint64_t data = 1;
    std::vector<uint64_t> purged;

    sender().on_error = [&](uct_ep_h ep, ucs_status_t) {
        uct_ep_pending_purge(ep, purge_cb, &purged);
        sender().destroy_ep(1);
        return UCS_OK;
    };
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(1), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    take_credits();
    queue(1, 5);
    queue(2, 5);
    ASSERT_TRUE(wait_for([&]() { return got(sink, 2) == 5; }));
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    EXPECT_EQ(5u, purged.size());
    EXPECT_EQ(5u, m_statuses.size());
    check_tx_accounting(sender());
}

TEST_F(test_pending_failure, post_refused_within_a_pending_callback)
{
    imm_sink sink(receiver());
    std::vector<uint64_t> purged;

    const unsigned sent = take_credits();
    queue(1, 5);
    queue(2, 5);

    expect_error("ibv_post_send() on qp");
    expect_error("endpoint failed: Input/output error");
    {
        const struct ibv_qp *bad_qp = rc_state::qp(sender(), 1);
        verbs_fault fault(sender(), verbs_fault::POST_SEND,
                          [&](const void *obj) {
                              return (obj == bad_qp) ? ENOMEM : 0;
                          });

        ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    }
    ASSERT_TRUE(wait_for(
            [&]() { return (got(sink, 0) == sent) && (got(sink, 2) == 5); }));
    progress_rounds();
    ASSERT_EQ(1u, sender().errors.size());
    EXPECT_EQ(sender().ep(1), sender().errors[0].ep);
    EXPECT_STATUS(UCS_ERR_IO_ERROR, sender().errors[0].status);
    EXPECT_EQ(0u, got(sink, 1));

    /* One was refused, the others were told so or are still there */
    EXPECT_EQ(1, std::count(m_statuses.begin(), m_statuses.end(),
                            UCS_ERR_IO_ERROR));
    uct_ep_pending_purge(sender().ep(1), purge_cb, &purged);
    EXPECT_EQ(10u, m_statuses.size() + purged.size());
    EXPECT_LE(purged.size(), 4u);
    sender().destroy_ep(1);
    check_tx_accounting(sender());
}
