/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}

#include <cerrno>


/* The device refuses what wimm posts, each thing in its turn. The endpoint fails,
 * once; the others go on, and nothing is lost of what they carry. */
class test_post_error : public imm_test {
  protected:
    static const unsigned num_eps = 12;
    static const unsigned slots   = 2;

    /* Refuse the first of the requests that match, of one side */
    class refusal {
      public:
        typedef std::function<bool(const struct ibv_send_wr *)> match_t;

        refusal(const entity &e, match_t match, unsigned max = 1)
            : m_fault(e, [this, match, max](const struct ibv_qp *qp,
                                            const struct ibv_send_wr *wr) {
                  if ((count == max) || !match(wr)) {
                      return 0;
                  }
                  ++count;
                  qp_num = qp->qp_num;
                  return ENOMEM;
              })
        {
        }

        unsigned count  = 0;
        uint32_t qp_num = 0; /* Of the last one */

      private:
        verbs_fault m_fault;
    };

    /* A few slots: each notification is answered by a control message. A dead
     * peer is noticed soon. */
    void open_pair_for_fault(unsigned num_slots = slots)
    {
        open_pair({ { "NUM_SLOTS", std::to_string(num_slots) },
                    { "RC_RETRY_COUNT", "3" },
                    { "RC_TIMEOUT", "50ms" } });
    }

    static bool is_ctrl(const struct ibv_send_wr *wr, uct_wimm_ctrl_op_t op)
    {
        return (wr->opcode == IBV_WR_SEND_WITH_IMM) &&
               ((ntohl(wr->imm_data) >> UCT_WIMM_CTRL_OP_SHIFT) ==
                static_cast<unsigned>(op));
    }

    static bool is_empty_write(const struct ibv_send_wr *wr)
    {
        return (wr->opcode == IBV_WR_RDMA_WRITE) && (wr->num_sge == 0);
    }

    /* The endpoint with this queue pair failed, and was told so once */
    void check_failed_once(const entity &e, uint32_t qp_num)
    {
        ASSERT_TRUE(wait_for([&]() { return !e.errors.empty(); }));
        progress_rounds(50);
        ASSERT_EQ(1u, e.errors.size());
        EXPECT_STATUS(UCS_ERR_IO_ERROR, e.errors[0].status);

        const int index = e.ep_index(e.errors[0].ep);
        ASSERT_GE(index, 0);
        EXPECT_EQ(qp_num, rc_state::qp(e, index)->qp_num);
        EXPECT_EQ(1u, ep_attr(e, index).counters.failed);
        EXPECT_EQ(1u, counters(e).failed);
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET,
                      uct_wimm_ep_notify(e.ep(index), 1));
    }

    /* A notification for each endpoint but the failed one, in both directions */
    void check_others_work(unsigned failed)
    {
        imm_sink left(sender()), right(receiver());
        const unsigned count = 3 * slots;

        for (unsigned i = 0; i < num_eps; ++i) {
            if (i == failed) {
                continue;
            }
            for (unsigned n = 0; n < count; ++n) {
                ASSERT_OK(retry([&]() { return notify(sender(), i, n); }));
                ASSERT_OK(retry([&]() { return notify(receiver(), i, n); }));
            }
        }
        ASSERT_TRUE(wait_for([&]() {
            return (left.count() == ((num_eps - 1) * count)) &&
                   (right.count() == left.count());
        }));
    }

    void connect_more()
    {
        for (unsigned i = 1; i < num_eps; ++i) {
            entity::connect(sender(), i, receiver(), i);
        }
    }

    /* After the failure */
    void check_rest(const entity &e, const refusal &fault)
    {
        EXPECT_EQ(1u, fault.count);
        check_failed_once(e, fault.qp_num);
        check_others_work(e.ep_index(e.errors[0].ep));

        /* The peer of the failed one may have noticed, or not */
        for (const auto &side : m_entities) {
            EXPECT_LE(side->errors.size(), 1u);
            side->destroy_eps();
        }
        for (const auto &side : m_entities) {
            check_tx_accounting(*side);
        }
        check_rx_accounting();
    }

    void expect_post_error()
    {
        expect_error("ibv_post_send() on qp");
        expect_error("endpoint failed: Input/output error");
    }
};

const unsigned test_post_error::num_eps;
const unsigned test_post_error::slots;


TEST_F(test_post_error, put_of_each_kind)
{
    enum {
        NOTIFY,
        SHORT,
        BCOPY,
        ZCOPY,
        PLAIN_SHORT,
        PLAIN_BCOPY,
        PLAIN_ZCOPY,
        NUM_KINDS
    };

    open_pair_for_fault();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());
    const uct_iov_t iov = src.iov(64);
    pack_arg arg        = { 1, 64 };

    src.fill(1);
    expect_error("ibv_post_send() on qp", NUM_KINDS);
    expect_error("endpoint failed: Input/output error", NUM_KINDS);
    for (int kind = 0; kind < NUM_KINDS; ++kind) {
        const uct_wimm_ep_attr_t before = ep_attr(sender());
        const unsigned buffers          = rc_state::tx_in_use(sender());
        completion comp;
        ssize_t ret;

        {
            refusal fault(sender(),
                          [](const struct ibv_send_wr *) { return true; });

            switch (kind) {
            case NOTIFY:
                ret = notify(sender(), 0, 1);
                break;
            case SHORT:
                ret = put_imm(sender(), 0, src.ptr(), 8, dst, 0, 1);
                break;
            case BCOPY:
                ret = put_imm_bcopy(sender(), 0, &arg, dst, 0, 1);
                break;
            case ZCOPY:
                ret = put_imm_zcopy(sender(), 0, src, 64, dst, 0, 1, &comp);
                break;
            case PLAIN_SHORT:
                ret = uct_ep_put_short(sender().ep(), src.ptr(), 8, dst.addr(),
                                       dst.rkey());
                break;
            case PLAIN_BCOPY:
                ret = uct_ep_put_bcopy(sender().ep(), pack_cb, &arg, dst.addr(),
                                       dst.rkey());
                break;
            default:
                ret = uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                       dst.rkey(), &comp.uct);
                break;
            }
            EXPECT_STATUS(UCS_ERR_IO_ERROR, static_cast<ucs_status_t>(ret));
            EXPECT_EQ(1u, fault.count);
        }

        /* Nothing was taken for it */
        const uct_wimm_ep_attr_t after = ep_attr(sender());
        EXPECT_EQ(before.credits, after.credits);
        EXPECT_EQ(before.slots, after.slots);
        EXPECT_EQ(0u, after.counters.posted);
        EXPECT_EQ(buffers, rc_state::tx_in_use(sender()));

        ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
        EXPECT_STATUS(UCS_ERR_IO_ERROR, sender().errors[0].status);
        EXPECT_EQ(1u, sender().errors.size());
        sender().destroy_ep(0);
        receiver().destroy_ep(0);
        EXPECT_EQ(0, comp.called);
        EXPECT_EQ(0u, sink.count());
        EXPECT_EQ(0u, dst.u64());
        sender().errors.clear();
        entity::connect(sender(), 0, receiver(), 0);
    }
    check_tx_accounting(sender());
}

TEST_F(test_post_error, grant_of_credits)
{
    open_pair_for_fault(
            UCT_WIMM_MAX_SLOTS); /* So many that none goes with them */
    connect_more();
    expect_post_error();

    imm_sink sink(receiver());
    refusal fault(receiver(), [](const struct ibv_send_wr *wr) {
        return is_ctrl(wr, UCT_WIMM_CTRL_GRANT);
    });
    uint32_t sent = 0;

    /* What has come before is delivered */
    ASSERT_TRUE(wait_for([&]() {
        sent += (fault.count == 0) && (notify(sender(), 3, sent) == UCS_OK);
        return fault.count > 0;
    }));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == sent; }));
    for (uint32_t i = 0; i < sent; ++i) {
        EXPECT_EQ(i, sink.got[i].imm);
    }
    sink.pause();
    EXPECT_EQ(rc_state::qp(receiver(), 3)->qp_num, fault.qp_num);
    check_rest(receiver(), fault);
}

TEST_F(test_post_error, return_of_slots)
{
    open_pair_for_fault();
    connect_more();
    expect_post_error();

    imm_sink sink(receiver());
    refusal fault(receiver(), [](const struct ibv_send_wr *wr) {
        return is_ctrl(wr, UCT_WIMM_CTRL_SLOTS);
    });

    ASSERT_OK(notify(sender(), 3, 1));
    ASSERT_TRUE(wait_for([&]() { return fault.count > 0; }));
    EXPECT_EQ(1u, sink.count());
    sink.pause();
    EXPECT_EQ(rc_state::qp(receiver(), 3)->qp_num, fault.qp_num);
    check_rest(receiver(), fault);
}

TEST_F(test_post_error, return_of_slots_when_the_event_is_armed)
{
    open_pair_for_fault();
    connect_more();
    expect_post_error();

    imm_sink sink(receiver());
    sink.result = UCS_INPROGRESS;
    ASSERT_OK(notify(sender(), 3, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    receiver().arm(UCT_EVENT_RECV);
    sink.pause();

    refusal fault(receiver(), [](const struct ibv_send_wr *wr) {
        return is_ctrl(wr, UCT_WIMM_CTRL_SLOTS);
    });
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(3), 1));
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    EXPECT_TRUE(receiver().errors.empty());
    check_rest(receiver(), fault);
}

/* Endpoint 0 gets many credits, and is to give them back when there are others */
class test_post_error_reclaim : public test_post_error {
  protected:
    void reclaim(uct_wimm_ctrl_op_t op, unsigned side)
    {
        open_pair_for_fault(UCT_WIMM_MAX_SLOTS);
        expect_post_error();

        imm_sink sink(receiver());
        for (uint32_t i = 0; i < 100; ++i) {
            ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
        }
        ASSERT_TRUE(wait_for([&]() { return sink.count() == 100; }));
        flush(sender());
        progress_rounds();

        const entity &e = *m_entities[side];
        refusal fault(e, [op](const struct ibv_send_wr *wr) {
            return is_ctrl(wr, op);
        });

        connect_more();
        uint32_t sent = 0;
        ASSERT_TRUE(wait_for([&]() {
            for (unsigned i = 1; (i < num_eps) && (fault.count == 0); ++i) {
                notify(sender(), i, ++sent);
            }
            return fault.count > 0;
        }));
        sink.pause();
        EXPECT_EQ(rc_state::qp(e)->qp_num, fault.qp_num);
        sink.start();
        progress_rounds();
        sink.pause();
        check_rest(e, fault);
    }
};


TEST_F(test_post_error_reclaim, request)
{
    reclaim(UCT_WIMM_CTRL_RECLAIM, 1);
}

TEST_F(test_post_error_reclaim, answer)
{
    reclaim(UCT_WIMM_CTRL_RETURN, 0);
}

TEST_F(test_post_error, flush)
{
    open_pair_for_fault();
    connect_more();
    expect_post_error();

    imm_sink sink(receiver());
    completion comp;
    refusal fault(sender(), is_empty_write);

    ASSERT_OK(notify(sender(), 3, 1));
    EXPECT_STATUS(UCS_ERR_IO_ERROR, uct_ep_flush(sender().ep(3), 0, &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    sink.pause();
    EXPECT_EQ(0, comp.called);
    check_rest(sender(), fault);
}

TEST_F(test_post_error, flush_that_waited_for_slots)
{
    struct request {
        uct_pending_req_t uct;
        uct_ep_h ep;
    };

    open_pair_for_fault();
    connect_more();
    expect_post_error();

    imm_sink sink(receiver(), false);
    completion comp;
    request req = {};

    for (unsigned i = 0; i < slots; ++i) {
        ASSERT_OK(notify(sender(), 3, i));
    }
    req.ep       = sender().ep(3);
    req.uct.func = [](uct_pending_req_t *self) {
        return uct_wimm_ep_notify(reinterpret_cast<request *>(self)->ep, slots);
    };
    ASSERT_OK(uct_wimm_ep_imm_pending_add(req.ep, &req.uct));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(req.ep, 0, &comp.uct));

    refusal fault(sender(), is_empty_write);
    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (slots + 1); }));
    EXPECT_EQ(1, comp.called);
    EXPECT_STATUS(UCS_ERR_IO_ERROR, comp.status());
    sink.pause();
    check_rest(sender(), fault);
}

TEST_F(test_post_error, flush_that_cancels)
{
    open_pair_for_fault();
    connect_more();
    imm_sink sink(receiver());
    completion waits, cancels;

    sink.result = UCS_INPROGRESS;
    for (unsigned i = 0; i < slots; ++i) {
        ASSERT_OK(notify(sender(), 3, i));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == slots; }));
    uct_pending_req_t req;
    req.func = [](uct_pending_req_t *) { return UCS_ERR_NO_RESOURCE; };
    ASSERT_OK(uct_wimm_ep_imm_pending_add(sender().ep(3), &req));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(3), 0, &waits.uct));

    /* Canceled it is all the same, which is no failure of the endpoint */
    expect_error("ibv_post_send() on qp");
    {
        refusal fault(sender(), is_empty_write);

        EXPECT_STATUS(UCS_ERR_IO_ERROR,
                      uct_ep_flush(sender().ep(3), UCT_FLUSH_FLAG_CANCEL,
                                   &cancels.uct));
    }
    EXPECT_EQ(1, waits.called);
    EXPECT_STATUS(UCS_ERR_CANCELED, waits.status());
    EXPECT_EQ(IBV_QPS_ERR, rc_state::qp_state(sender(), 3));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 3, 1));

    /* Once more: it completes */
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(3), UCT_FLUSH_FLAG_CANCEL,
                               &cancels.uct));
    ASSERT_TRUE(wait_for([&]() { return cancels.done(); }));
    EXPECT_EQ(1, cancels.called);
    EXPECT_EQ(1, waits.called);
    EXPECT_TRUE(sender().errors.empty());
    uct_ep_pending_purge(
            sender().ep(3), [](uct_pending_req_t *, void *) {}, NULL);
    sender().destroy_ep(3);
    receiver().destroy_ep(3);
    sink.result = UCS_OK;
    sink.pause();
    check_others_work(3);
}

TEST_F(test_post_error, check_of_the_peer)
{
    open_pair_for_fault();
    connect_more();
    expect_post_error();

    refusal fault(sender(), is_empty_write);

    EXPECT_OK(uct_ep_check(sender().ep(3), 0, NULL));
    EXPECT_TRUE(sender().errors.empty());
    check_rest(sender(), fault);
}

TEST_F(test_post_error, marker_behind_the_sends_of_a_destroyed_endpoint)
{
    open_pair_for_fault();
    connect_more();
    imm_sink sink(receiver());
    const int num_qps = rc_state::device_num_qps();

    /* Nobody has to know: the queue pair goes after its time */
    ASSERT_OK(notify(sender(), 3, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    sink.pause();
    {
        refusal fault(sender(), is_empty_write, UINT_MAX);

        sender().destroy_ep(3);
        EXPECT_EQ(1u, fault.count);
        check_tx_accounting(sender());
        EXPECT_EQ(1u, fault.count);
    }
    EXPECT_EQ(num_qps - 1, rc_state::device_num_qps());
    EXPECT_TRUE(sender().errors.empty());
    check_others_work(3);
}

TEST_F(test_post_error, queue_pair_cannot_be_moved_to_error)
{
    open_pair_for_fault();
    connect_more();
    imm_sink sink(receiver());
    const int num_qps = rc_state::device_num_qps();

    /* By a post that was refused, by a flush, by destroying: UCX warns of each */
    expect_log(UCS_LOG_LEVEL_WARN, "modify qp", 5);
    expect_post_error();
    {
        qp_fault modify(qp_fault::MODIFY_QP, []() { return true; });
        completion comp;

        {
            refusal fault(sender(),
                          [](const struct ibv_send_wr *) { return true; });

            EXPECT_STATUS(UCS_ERR_IO_ERROR, notify(sender(), 3, 1));
        }
        check_failed_once(sender(), rc_state::qp(sender(), 3)->qp_num);

        ASSERT_OK(notify(sender(), 4, 1));
        EXPECT_STATUS(UCS_ERR_IO_ERROR,
                      uct_ep_flush(sender().ep(4), UCT_FLUSH_FLAG_CANCEL,
                                   &comp.uct));
        EXPECT_EQ(0, comp.called);

        ASSERT_OK(notify(sender(), 5, 1));
        for (unsigned i : { 3, 4, 5 }) {
            sender().destroy_ep(i);
        }
        check_tx_accounting(sender());
    }
    EXPECT_EQ(num_qps - 3, rc_state::device_num_qps());
    EXPECT_EQ(1u, sender().errors.size());
}


/* Receives that the device does not take */
class test_post_recv_error : public imm_test {
  protected:
    /* The receiver is opened while the device takes so many of each batch */
    void open_with_fault(const verbs_fault::recv_func_t &func)
    {
        entity::open_params params;
        const config_list config = { { "IB_RX_QUEUE_LEN",
                                       std::to_string(rx_len) },
                                     { "RC_FC_ENABLE", "n" } };

        expect_error("ibv_post_srq_recv() on");
        open(config);
        params.on_md_open = [&](uct_md_h md) {
            m_fault.reset(new verbs_fault(md, func));
        };
        open(config, params);
        entity::connect(sender(), 0, receiver(), 0);
    }

    void send(uint32_t first, unsigned count)
    {
        for (uint32_t i = first; i < (first + count); ++i) {
            ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
        }
    }

    void check_all(const imm_sink &sink, uint32_t count)
    {
        ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
        for (uint32_t i = 0; i < count; ++i) {
            ASSERT_EQ(i, sink.got[i].imm);
        }
        EXPECT_TRUE(sender().errors.empty());
        EXPECT_TRUE(receiver().errors.empty());
        flush(sender());
        check_rx_accounting();
    }

    void TearDown() override
    {
        m_fault.reset();
        imm_test::TearDown();
    }

    static const unsigned rx_len = 64;

    std::unique_ptr<verbs_fault> m_fault;
};

const unsigned test_post_recv_error::rx_len;


TEST_F(test_post_recv_error, none_of_the_first_ones)
{
    open_with_fault([](unsigned) { return 0; });
    EXPECT_EQ(rx_len, rc_state::rx_available(receiver()));
    EXPECT_EQ(0u, rc_state::rx_in_use(receiver()));
    imm_sink sink(receiver());

    /* The sender waits until there is one */
    send(0, 5);
    progress_rounds();
    EXPECT_EQ(0u, sink.count());
    m_fault.reset();
    send(5, 200);
    check_all(sink, 205);
}

TEST_F(test_post_recv_error, none_when_endpoints_are_created)
{
    open_with_fault([](unsigned) { return 0; });
    for (unsigned i = 1; i < 10; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    receiver().destroy_ep(5);
    receiver().destroy_ep(0);
    sender().destroy_ep(0);
    EXPECT_EQ(0u, rc_state::rx_in_use(receiver()));
    m_fault.reset();

    entity::connect(sender(), 0, receiver(), 0);
    EXPECT_EQ(rx_len, rc_state::rx_in_use(receiver()));
    imm_sink sink(receiver());
    send(0, 100);
    check_all(sink, 100);
}

TEST_F(test_post_recv_error, some_of_each_batch)
{
    open_with_fault([](unsigned count) { return count / 3; });
    imm_sink sink(receiver());

    EXPECT_GT(rc_state::rx_in_use(receiver()), 0u);
    EXPECT_EQ(rx_len, rc_state::rx_in_use(receiver()) +
                              rc_state::rx_available(receiver()));
    send(0, 300);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 300; }));
    EXPECT_EQ(rx_len, rc_state::rx_in_use(receiver()) +
                              rc_state::rx_available(receiver()));
    m_fault.reset();
    send(300, 300);
    check_all(sink, 600);
}
