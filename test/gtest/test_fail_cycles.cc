/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

extern "C" {
#include <uct/ib/wimm/wimm_iface.h>
}

#include <malloc.h>

#include <cerrno>
#include <map>
#include <set>


/* Connections that fail in all kinds of ways, over and over: nothing is left of
 * any of them */
class test_fail_cycles : public imm_test {
  protected:
    enum cause_t {
        BAD_RKEY,
        BAD_RKEY_LARGE,
        QP_ERROR,
        PEER_QP_ERROR,
        PEER_DESTROYED,
        POST_REFUSED,
        FLUSH_REFUSED,
        PEER_REFUSED,
        NUM_CAUSES
    };

    typedef std::vector<entity *> sides;

    static const unsigned slots   = 8;
    static const unsigned num_eps = 5 * NUM_CAUSES; /* Fail in a round */
    static const unsigned other   = num_eps;        /* Does not fail */
    static const size_t size      = 20000;          /* Several packets */

    void SetUp() override
    {
        const config_list config = { { "IB_RX_QUEUE_LEN", "512" },
                                     { "NUM_SLOTS", std::to_string(slots) },
                                     { "QP_DRAIN_TIMEOUT", "50ms" },
                                     { "RC_RETRY_COUNT", "3" },
                                     { "RC_TIMEOUT", "50ms" } };

        imm_test::SetUp();
        if (IsSkipped()) {
            return;
        }

        open(config);
        open(config);
        for (const auto &e : m_entities) {
            /* What a program does with an endpoint that failed */
            e->on_error = [this](uct_ep_h ep, ucs_status_t) {
                uct_ep_pending_purge(
                        ep,
                        [](uct_pending_req_t *, void *arg) {
                            ++*static_cast<unsigned *>(arg);
                        },
                        &m_purged);
                return UCS_OK;
            };
        }

        /* Lines that the fixture keeps would count as allocated */
        log_level(UCS_LOG_LEVEL_FATAL);
    }

    void TearDown() override
    {
        m_faults.clear();
        imm_test::TearDown();
    }

    static uct_wimm_iface_t *wimm(const entity &e)
    {
        return reinterpret_cast<uct_wimm_iface_t *>(e.iface());
    }

    static cause_t cause(unsigned index)
    {
        return static_cast<cause_t>(index % NUM_CAUSES);
    }

    /* The devices refuse requests of some queue pairs */
    void set_faults()
    {
        for (const auto &e : m_entities) {
            m_faults.emplace_back(
                    new verbs_fault(*e, [this](const struct ibv_qp *qp,
                                               const struct ibv_send_wr *wr) {
                        const auto found = m_refused.find(qp);

                        return ((found != m_refused.end()) &&
                                (found->second.count(wr->opcode) > 0)) ?
                                       ENOMEM :
                                       0;
                    }));
        }
    }

    void connect(unsigned index)
    {
        entity::connect(sender(), index, receiver(), index);
    }

    /* Do what makes it fail, now or later */
    void fail(unsigned index, const mapped_buffer &src,
              const mapped_buffer &dst, completion *comp)
    {
        const uct_iov_t iov  = src.iov(size);
        uct_ep_h ep          = sender().ep(index);
        uint64_t remote_addr = dst.addr();
        uct_rkey_t rkey      = dst.rkey();
        pack_arg arg         = { index, 1000 };
        ssize_t ret;

        if (cause(index) == PEER_REFUSED) {
            /* A grant, a return of slots, or what it sends itself */
            m_refused[rc_state::qp(receiver(), index)] = {
                IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM
            };
            return;
        }

        ASSERT_TRUE(wait_for(
                [&]() { return ep_attr(sender(), index).credits > 0; }));
        switch (cause(index)) {
        case BAD_RKEY:
            ASSERT_OK(uct_wimm_ep_put_imm_short(ep, src.ptr(), 8, 0x1000,
                                                0xdeadbeef, index));
            return;
        case BAD_RKEY_LARGE:
            remote_addr = 0x1000;
            rkey        = 0xdeadbeef;
            break;
        case QP_ERROR:
            rc_state::set_error(sender(), index);
            break;
        case PEER_QP_ERROR:
            rc_state::set_error(receiver(), index);
            break;
        case PEER_DESTROYED:
            receiver().destroy_ep(index);
            break;
        case POST_REFUSED:
            m_refused[rc_state::qp(sender(), index)] = {
                IBV_WR_RDMA_WRITE_WITH_IMM
            };
            ASSERT_EQ(UCS_ERR_IO_ERROR,
                      uct_wimm_ep_put_imm_bcopy(ep, pack_cb, &arg, remote_addr,
                                                rkey, index));
            return;
        case FLUSH_REFUSED:
            m_refused[rc_state::qp(sender(), index)] = { IBV_WR_RDMA_WRITE };
            ASSERT_STATUS(UCS_ERR_IO_ERROR, uct_ep_flush(ep, 0, NULL));
            return;
        default:
            break;
        }

        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_wimm_ep_put_imm_zcopy(ep, &iov, 1, remote_addr, rkey,
                                                index, &comp->uct));

        /* And a buffer of the interface behind it, if there is another credit */
        ret = uct_wimm_ep_put_imm_bcopy(ep, pack_cb, &arg, remote_addr, rkey,
                                        index);
        ASSERT_TRUE((ret == 1000) || (ret == UCS_ERR_NO_RESOURCE)) << ret;
        m_packed += (ret > 0);
    }

    /* A request, and a flush behind it, that are queued for want of slots */
    void queue(unsigned index, uct_pending_req_t *req, completion *comp)
    {
        while (notify(sender(), index, index) == UCS_OK) {
        }
        req->func = [](uct_pending_req_t *) { return UCS_ERR_NO_RESOURCE; };
        if (uct_wimm_ep_imm_pending_add(sender().ep(index), req) == UCS_OK) {
            ++m_queued;
            if (uct_ep_flush(sender().ep(index), 0, &comp->uct) ==
                UCS_INPROGRESS) {
                ++m_flushes;
            }
        }
    }

    /* The other endpoint sends some. What has arrived is consumed now or later,
     * so that their slots come back before the next round. */
    void send_on_other()
    {
        for (unsigned i = 0; i < (slots / 2); ++i) {
            EXPECT_OK(retry([&]() { return notify(sender(), other, m_sent); }));
            ++m_sent;
        }
    }

    void got_on_other(const imm_sink::notification &n, ucs_status_t result)
    {
        if (n.ep_index == static_cast<int>(other)) {
            EXPECT_EQ(m_got, n.imm);
            ++m_got;
            if (result == UCS_INPROGRESS) {
                EXPECT_OK(uct_wimm_ep_slot_release(n.ep, 1));
            }
        }
    }

    /* Connect, fail and destroy some endpoints */
    void round(unsigned num, const mapped_buffer &src, const mapped_buffer &dst)
    {
        std::vector<completion> comps(num_eps), flush_comps(num_eps);
        std::vector<uct_pending_req_t> reqs(num_eps);

        sender().errors.clear();
        receiver().errors.clear();
        m_queued  = 0;
        m_purged  = 0;
        m_flushes = 0;
        for (unsigned i = 0; i < num_eps; ++i) {
            connect(i);
            EXPECT_OK(notify(sender(), i, i));
        }
        for (unsigned i = 0; i < num_eps; ++i) {
            fail(i, src, dst, &comps[i]);
            queue(i, &reqs[i], &flush_comps[i]);
        }
        send_on_other();
        EXPECT_TRUE(wait_for([&]() {
            for (unsigned i = PEER_REFUSED; i < num_eps; i += NUM_CAUSES) {
                /* The peer's one fails first, and this one sees it then */
                if (notify(receiver(), i, i) == UCS_ERR_CONNECTION_RESET) {
                    uct_ep_check(sender().ep(i), 0, NULL);
                }
            }
            return sender().errors.size() == num_eps;
        }));

        /* Each failed once, and ended what it had */
        m_failed[&sender()] += num_eps;
        m_failed[&receiver()] += receiver().errors.size();
        EXPECT_GT(m_queued, 0u);
        EXPECT_EQ(m_queued, m_purged);
        check_completions(comps, flush_comps);

        for (unsigned i = 0; i < num_eps; ++i) {
            EXPECT_EQ(1u, ep_attr(sender(), i).counters.failed);
        }
        EXPECT_EQ(0u, ep_attr(sender(), other).counters.failed);
        for (entity *e : (num % 2) ? sides{ &receiver(), &sender() } :
                                     sides{ &sender(), &receiver() }) {
            for (unsigned i = 0; i < num_eps; ++i) {
                if ((e == &sender()) || (cause(i) != PEER_DESTROYED)) {
                    e->destroy_ep(i);
                }
            }
        }
        m_refused.clear();
    }

    /* The bytes of memory that were taken since a number of rounds */
    void run(unsigned cycles, unsigned warmup, int64_t *taken_p);

    void check_completions(const std::vector<completion> &comps,
                           const std::vector<completion> &flush_comps)
    {
        unsigned flushes = 0;

        for (unsigned i = 0; i < num_eps; ++i) {
            EXPECT_LE(comps[i].called, 1);
            EXPECT_TRUE(!comps[i].done() || (comps[i].status() != UCS_OK) ||
                        (cause(i) == PEER_REFUSED))
                    << "cause " << cause(i);
            EXPECT_LE(flush_comps[i].called, 1);
            flushes += flush_comps[i].called;
            EXPECT_TRUE(!flush_comps[i].done() ||
                        (flush_comps[i].status() != UCS_OK));
        }
        EXPECT_EQ(m_flushes, flushes);
    }

    /* What is allocated by malloc(), in bytes, but for the tables by number of the
     * queue pair that UCX keeps for good. Sanitizers have another malloc(). */
    int64_t allocated()
    {
#if __GLIBC_PREREQ(2, 33)
        int64_t sum = mallinfo2().uordblks;
#else
        int64_t sum = mallinfo().uordblks;
#endif
        for (const auto &e : m_entities) {
            for (uct_rc_ep_t **table : rc_state::iface(*e)->eps) {
                sum -= (table == NULL) ? 0 : malloc_usable_size(table);
            }
        }
        return sum;
    }

    void check_idle(const entity &e)
    {
        EXPECT_EQ(0u, rc_state::tx_in_use(e));
        EXPECT_EQ(0, wimm(e)->fc.shared_used);
        EXPECT_EQ(0u, wimm(e)->fc.num_eps);
        EXPECT_EQ(0u, wimm(e)->deferred);
        EXPECT_TRUE(ucs_list_is_empty(&wimm(e)->fc.ctrl_list));
        EXPECT_TRUE(ucs_list_is_empty(&wimm(e)->failed_eps));
        EXPECT_TRUE(ucs_list_is_empty(&rc_state::iface(e)->ep_list));
        EXPECT_EQ(m_failed[&e], counters(e).failed);
    }

    std::map<const struct ibv_qp *, std::set<enum ibv_wr_opcode>> m_refused;
    std::vector<std::unique_ptr<verbs_fault>> m_faults;
    std::map<const entity *, uint64_t> m_failed;
    unsigned m_queued = 0, m_purged = 0, m_flushes = 0, m_packed = 0;
    uint32_t m_sent = 0, m_got = 0; /* By the other endpoint */
};

const unsigned test_fail_cycles::slots;
const unsigned test_fail_cycles::num_eps;
const unsigned test_fail_cycles::other;
const size_t test_fail_cycles::size;


void test_fail_cycles::run(unsigned cycles, unsigned warmup, int64_t *taken_p)
{
    const unsigned rounds   = cycles / num_eps;
    const int num_qps       = rc_state::device_num_qps();
    int64_t start_allocated = 0;

    mapped_buffer src(size, sender());
    mapped_buffer dst(size, receiver());
    imm_sink sink(receiver());

    sink.on_imm = [&](const imm_sink::notification &n) {
        got_on_other(n, sink.result);
    };
    entity::connect(sender(), other, receiver(), other);
    set_faults();
    for (unsigned i = 0; i < rounds; ++i) {
        if (i == warmup) {
            for (const auto &e : m_entities) {
                check_tx_accounting(*e);
            }
            start_allocated = allocated();
        }

        /* What has arrived is consumed, held, or waits for a handler */
        sink.result = (i % 3) ? UCS_INPROGRESS : UCS_OK;
        sink.got.clear();
        sink.start();
        if ((i % 3) == 2) {
            sink.pause();
        }
        round(i, src, dst);
        if (HasFailure()) {
            ADD_FAILURE() << "round " << i;
            return;
        }
    }
    sink.start();
    EXPECT_TRUE(wait_for([&]() { return m_got == m_sent; }));
    EXPECT_EQ(rounds * (slots / 2), m_got);
    EXPECT_GT(m_packed, 0u);
    for (const auto &e : m_entities) {
        e->destroy_ep(other);
        check_tx_accounting(*e);
    }
    *taken_p = allocated() - start_allocated;
    EXPECT_EQ(cycles, counters(sender()).failed);
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
    check_rx_accounting();
    for (const auto &e : m_entities) {
        check_idle(*e);
    }

    /* And the interfaces are as good as new */
    m_faults.clear();
    entity::connect(sender(), 0, receiver(), 0);
    sink.result = UCS_OK;
    sink.got.clear();
    for (uint32_t i = 0; i < 500; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 500; }));
}

TEST_F(test_fail_cycles, each_of_eight_causes)
{
    int64_t taken;

    run(5 * num_eps, 0, &taken);
}

TEST_F(test_fail_cycles, thousand_connections)
{
    const unsigned cycles = 1000, warmup = 5;
    int64_t taken = 0;

    run(cycles, warmup, &taken);
    EXPECT_LE(taken, 16 * (cycles - (warmup * num_eps)));
}
