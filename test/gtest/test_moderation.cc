/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"
#include "common/send_view.h"

#include <algorithm>
#include <cstring>
#include <random>


/* Completion moderation: most requests are posted without a completion, and
 * still all is exact */
class test_moderation : public imm_test {
  protected:
    static const uint8_t AM_ID = 8;

    void TearDown() override
    {
        m_src.reset();
        m_dst.reset();
        m_sink.reset();
        imm_test::TearDown();
    }

    void open_with(const config_list &config, unsigned num_eps = 1)
    {
        open_pair(config);
        for (unsigned i = 1; i < num_eps; ++i) {
            entity::connect(sender(), i, receiver(), i);
        }
        m_sink.reset(new imm_sink(receiver()));
        m_src.reset(new mapped_buffer(size, sender()));
        m_dst.reset(new mapped_buffer(num_eps * size, receiver()));
    }

    static config_list moderation(unsigned value)
    {
        return { { "RC_TX_CQ_MODERATION", std::to_string(value) } };
    }

    /* Most requests in a row without a completion */
    static unsigned tx_moderation(const entity &e)
    {
        return rc_state::iface(e)->config.tx_moderation;
    }

    /* A notified put of a value, or an operation without data, of one of these
     * kinds */
    enum kind_t {
        NOTIFY,
        SHORT,
        BCOPY,
        ZCOPY,
        KINDS
    };

    ucs_status_t post(unsigned kind, uint64_t value, unsigned index = 0,
                      completion *comp = NULL)
    {
        const size_t offset = (index * size) + ((value % places) * 8);
        const uint32_t imm  = value;
        uct_iov_t iov;

        switch (kind) {
        case NOTIFY:
            return notify(sender(), index, imm);
        case SHORT:
            return put_imm(sender(), index, &value, sizeof(value), *m_dst,
                           offset, imm);
        case BCOPY: {
            const ssize_t ret = uct_wimm_ep_put_imm_bcopy(sender().ep(index),
                                                          pack_value, &value,
                                                          m_dst->addr(offset),
                                                          m_dst->rkey(), imm);

            return (ret < 0) ? static_cast<ucs_status_t>(ret) : UCS_OK;
        }
        case ZCOPY:
        default:
            /* Its memory is not written again before it is done */
            m_src->u64(value % places) = value;
            iov                        = m_src->iov(8, (value % places) * 8);
            const ucs_status_t status  = uct_wimm_ep_put_imm_zcopy(
                     sender().ep(index), &iov, 1, m_dst->addr(offset),
                     m_dst->rkey(), imm, (comp == NULL) ? NULL : &comp->uct);

            return (status == UCS_INPROGRESS) ? UCS_OK : status;
        }
    }

    static size_t pack_value(void *dest, void *arg)
    {
        memcpy(dest, arg, sizeof(uint64_t));
        return sizeof(uint64_t);
    }

    uint64_t remote_value(uint64_t value, unsigned index = 0) const
    {
        return m_dst->u64(((index * size) / 8) + (value % places));
    }

    bool wait_all(size_t count)
    {
        return wait_for([&]() { return m_sink->count() == count; });
    }

    /* What an application that only posts makes of it */
    void check_signaled(unsigned key)
    {
        open_with(moderation(key));
        const unsigned n     = tx_moderation(sender());
        const unsigned count = 4 * (n + 1);
        std::vector<send_view::request> posts;

        EXPECT_EQ(std::min<unsigned>(key, rc_state::sq_length(sender()) / 4),
                  n);
        for (unsigned i = 0; i < count; ++i) {
            send_view view(sender());

            while (post(i % KINDS, i) == UCS_ERR_NO_RESOURCE) {
                progress();
            }
            for (const send_view::request &r : view.got) {
                posts.push_back(r);
            }
        }

        /* Control messages are part of the sequence */
        unsigned unsignaled = 0, signaled = 0;
        for (const send_view::request &r : posts) {
            EXPECT_EQ(unsignaled == n, r.signaled());
            signaled += r.signaled();
            unsignaled = r.signaled() ? 0 : (unsignaled + 1);
        }
        EXPECT_EQ(posts.size() / (n + 1), signaled);
        ASSERT_TRUE(wait_all(count));
        flush(sender());
        check_tx_accounting(sender());
    }

    /* Bursts of any length and kind: a flush is OK when all is in place, and not
     * earlier */
    void check_flush(const config_list &config, unsigned bursts)
    {
        std::mt19937 random(7);
        uint64_t value = 0, sent = 0;
        config_list no_ctrl = config;

        /* Control messages would be in the send queue, too */
        no_ctrl.emplace_back("FC_ENABLE", "n");
        open_with(no_ctrl);
        for (unsigned i = 0; i < bursts; ++i) {
            const unsigned length = 1 + (random() % ((i % 4) ? 9 : 60));
            uint64_t last         = 0;

            for (unsigned j = 0; j < length; ++j) {
                const unsigned kind = random() % KINDS;

                ++value;
                ASSERT_OK(retry([&]() { return post(kind, value); }));
                last = (kind == NOTIFY) ? last : value;
                ++sent;
            }
            if (random() % 2) {
                ASSERT_TRUE(wait_for([&]() {
                    return uct_ep_flush(sender().ep(), 0, NULL) == UCS_OK;
                }));
            } else {
                flush(sender());
            }
            if (last > 0) {
                ASSERT_EQ(last, remote_value(last));
            }
            ASSERT_EQ(rc_state::sq_length(sender()),
                      rc_state::sq_available(sender()));
        }
        ASSERT_TRUE(wait_all(sent));
        check_tx_accounting(sender());
        check_rx_accounting();
    }

    static const size_t places = 1024; /* More than can be outstanding */
    static const size_t size   = places * 8;
    std::unique_ptr<imm_sink> m_sink;
    std::unique_ptr<mapped_buffer> m_src, m_dst;
};

const size_t test_moderation::places;
const size_t test_moderation::size;


TEST_F(test_moderation, each_one_signaled)
{
    check_signaled(0);
}

TEST_F(test_moderation, every_second_one_signaled)
{
    check_signaled(1);
}

TEST_F(test_moderation, one_signaled_in_16_and_one)
{
    check_signaled(16);
}

TEST_F(test_moderation, one_signaled_in_64_and_one)
{
    check_signaled(64);
}

TEST_F(test_moderation, larger_than_the_send_queue)
{
    check_signaled(100000);
}

TEST_F(test_moderation, flush_is_exact_1)
{
    check_flush(moderation(1), 100);
}

TEST_F(test_moderation, flush_is_exact_16)
{
    check_flush(moderation(16), 100);
}

TEST_F(test_moderation, flush_is_exact_64)
{
    check_flush(moderation(64), 100);
}

TEST_F(test_moderation, flush_is_exact_with_a_short_send_queue)
{
    check_flush({ { "IB_TX_QUEUE_LEN", "8" } }, 100);
}

TEST_F(test_moderation, flush_of_unsignaled_ones_posts_one_signaled)
{
    open_with(moderation(64));
    completion comp;

    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_OK(post(i % KINDS, i));
    }
    {
        send_view view(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_flush(sender().ep(), 0, &comp.uct));
        ASSERT_EQ(1u, view.got.size());
        EXPECT_TRUE(view.got[0].signaled());
        EXPECT_EQ(IBV_WR_RDMA_WRITE, view.got[0].opcode);
        EXPECT_TRUE(view.got[0].sge.empty());
    }
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    ASSERT_TRUE(wait_all(3));

    /* After one that is signaled itself, there is nothing to add */
    completion put, flushed;
    ASSERT_OK(post(ZCOPY, 3, 0, &put));
    {
        send_view view(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_flush(sender().ep(), 0, &flushed.uct));
        EXPECT_TRUE(view.got.empty());
    }
    ASSERT_TRUE(wait_for([&]() { return flushed.done() && put.done(); }));
}

TEST_F(test_moderation, completions_are_exact_among_unsignaled_ones)
{
    const unsigned count = 60;
    std::mt19937 random(9);
    std::vector<std::unique_ptr<completion>> comps;
    uint64_t value = 0;

    /* No flush: each comes by itself, once, and when its data is there */
    open_with(moderation(64));
    for (unsigned i = 0; i < count; ++i) {
        completion *comp = new completion();

        comps.emplace_back(comp);
        for (unsigned j = random() % 5; j > 0; --j) {
            ++value;
            ASSERT_OK(retry([&]() { return post(random() % KINDS, value); }));
        }
        ++value;
        ASSERT_OK(retry([&]() { return post(ZCOPY, value, 0, comp); }));
        if (random() % 3) {
            continue;
        }
        ASSERT_TRUE(wait_for([&]() { return comp->done(); }));
        EXPECT_EQ(value, remote_value(value));
        for (const auto &c : comps) {
            ASSERT_EQ(1, c->called);
            ASSERT_OK(c->status());
        }
    }
    ASSERT_TRUE(wait_all(value));
    ASSERT_TRUE(wait_for([&]() { return comps.back()->done(); }));
    progress_rounds();
    for (const auto &c : comps) {
        EXPECT_EQ(1, c->called);
    }
}

TEST_F(test_moderation, completion_comes_before_those_of_later_ones)
{
    const unsigned count = 50;
    std::vector<unsigned> order;

    struct numbered {
        uct_completion_t uct;
        unsigned number;
        std::vector<unsigned> *order;

        static void call(uct_completion_t *self)
        {
            numbered *n = reinterpret_cast<numbered *>(self);

            n->order->push_back(n->number);
        }
    };
    std::vector<numbered> comps(count);

    open_with(moderation(16));
    for (unsigned i = 0; i < count; ++i) {
        const uct_iov_t iov = m_src->iov(8 * (i % 7));

        comps[i] = { { numbered::call, 1, UCS_OK }, i, &order };
        ASSERT_OK(retry([&]() { return post(i % ZCOPY, i); }));
        ASSERT_STATUS(UCS_INPROGRESS, retry([&]() {
                          return uct_wimm_ep_put_imm_zcopy(sender().ep(), &iov,
                                                           1, m_dst->addr(),
                                                           m_dst->rkey(), i,
                                                           &comps[i].uct);
                      }));
    }
    ASSERT_TRUE(wait_for([&]() { return order.size() == count; }));
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(i, order[i]);
    }
}

TEST_F(test_moderation, send_queue_never_overflows)
{
    open_with({ { "IB_TX_QUEUE_LEN", "8" }, { "RC_TX_CQ_MODERATION", "64" } });
    const unsigned count = 200;

    for (unsigned i = 0; i < count; ++i) {
        while (post(i % KINDS, i) == UCS_ERR_NO_RESOURCE) {
            sender().progress();
            receiver().progress();
        }
        ASSERT_GE(rc_state::sq_available(sender()), 0);
    }
    ASSERT_TRUE(wait_all(count));
    flush(sender());
    check_tx_accounting(sender());
}

/* All endpoints of an interface share the completion queue: what each of them has
 * posted without a completion takes of it, too */
class test_moderation_cq : public test_moderation {
  protected:
    void check(unsigned cq_len, unsigned num_eps, unsigned key)
    {
        config_list config = moderation(key);
        std::mt19937 random(11);
        unsigned posted[64] = {}, refused = 0;
        const unsigned count = 25;

        config.emplace_back("RC_TX_CQ_LEN", std::to_string(cq_len));
        open_with(config, num_eps);
        receiver().set_am_handler(AM_ID, [](void *, size_t, unsigned) {
            return UCS_OK;
        });

        ASSERT_TRUE(wait_for([&]() {
            bool done = true;

            for (unsigned n = 0; n < num_eps; ++n) {
                const unsigned index = random() % num_eps;
                const unsigned kind  = random() % KINDS;

                while ((posted[index] < count) && ((random() % 4) != 0)) {
                    if (post(kind, posted[index], index) != UCS_OK) {
                        ++refused;
                        break;
                    }
                    ++posted[index];
                }
                if (random() % 8 == 0) {
                    uct_ep_am_short(sender().ep(index), AM_ID, 0, NULL, 0);
                }
                EXPECT_GE(rc_state::cq_available(sender()), 0);
            }
            for (unsigned i = 0; i < num_eps; ++i) {
                done = done && (posted[i] == count);
            }
            return done;
        }));
        EXPECT_GT(refused, 0u);
        ASSERT_TRUE(wait_all(num_eps * count));
        for (unsigned i = 0; i < num_eps; ++i) {
            flush(sender(), i);
            EXPECT_EQ(rc_state::sq_length(sender()),
                      rc_state::sq_available(sender(), i));
        }
        EXPECT_TRUE(sender().errors.empty());
        check_tx_accounting(sender());
    }
};


TEST_F(test_moderation_cq, fewer_entries_than_the_moderation)
{
    check(16, 4, 64);
}

TEST_F(test_moderation_cq, fewer_entries_than_endpoints)
{
    check(8, 12, 16);
}

TEST_F(test_moderation_cq, more_endpoints_than_can_be_unsignaled)
{
    check(32, 12, 8);
}

TEST_F(test_moderation_cq, all_taken_by_unsignaled_ones_of_many_endpoints)
{
    const unsigned num_eps = 12;
    unsigned sent          = 0;
    bool posted            = true;

    /* One by one on each endpoint, so that none of them gets to its own turn to
     * signal; and nobody flushes */
    config_list config = moderation(64);
    config.emplace_back("RC_TX_CQ_LEN", "128");
    config.emplace_back("FC_ENABLE", "n");
    open_with(config, num_eps);
    while (posted) {
        posted = false;
        for (unsigned i = 0; i < num_eps; ++i) {
            if (post(SHORT, sent, i) == UCS_OK) {
                posted = true;
                ++sent;
            }
        }
    }
    EXPECT_LE(rc_state::cq_available(sender()), 0);

    /* Progress alone gets it going again */
    for (unsigned round = 0; round < 20; ++round) {
        for (unsigned i = 0; i < num_eps; ++i) {
            ASSERT_OK(retry([&]() { return post(SHORT, sent, i); }));
            ++sent;
        }
    }
    ASSERT_TRUE(wait_all(sent));
    for (unsigned i = 0; i < num_eps; ++i) {
        flush(sender(), i);
    }
    check_tx_accounting(sender());
}

TEST_F(test_moderation, fewer_buffers_than_the_moderation)
{
    const unsigned count = 200;

    /* A buffer comes back with a completion only: the last one asks for it */
    open_with({ { "IB_TX_MAX_BUFS", "4" },
                { "IB_TX_BUFS_GROW", "4" },
                { "RC_TX_CQ_MODERATION", "64" } });
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() { return post(BCOPY, i); }));
    }
    ASSERT_TRUE(wait_all(count));
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(i, m_sink->got[i].imm);
        EXPECT_EQ(i, remote_value(i));
    }
    flush(sender());
    check_tx_accounting(sender());
}

TEST_F(test_moderation, fewer_buffers_than_endpoints)
{
    const unsigned num_eps = 4, count = 50;

    open_with({ { "IB_TX_MAX_BUFS", "3" },
                { "IB_TX_BUFS_GROW", "3" },
                { "RC_TX_CQ_MODERATION", "64" } },
              num_eps);
    for (unsigned i = 0; i < count; ++i) {
        for (unsigned index = 0; index < num_eps; ++index) {
            ASSERT_OK(retry([&]() { return post(BCOPY, i, index); }));
        }
    }
    ASSERT_TRUE(wait_all(num_eps * count));
    for (unsigned i = 0; i < num_eps; ++i) {
        flush(sender(), i);
    }
    check_tx_accounting(sender());
}

TEST_F(test_moderation, keepalive_in_between)
{
    const unsigned count = 300;
    std::mt19937 random(13);
    unsigned checks = 0, unsignaled = 0;

    open_with(moderation(16));
    const unsigned n = tx_moderation(sender());
    {
        /* One that is asked for when there is nothing to tell is one request,
         * which takes part in the moderation */
        verbs_fault view(sender(), [&](const struct ibv_qp *,
                                       const struct ibv_send_wr *wr) {
            EXPECT_EQ(unsignaled >= n,
                      (wr->send_flags & IBV_SEND_SIGNALED) != 0);
            unsignaled = (wr->send_flags & IBV_SEND_SIGNALED) ?
                                 0 :
                                 (unsignaled + 1);
            checks += (wr->opcode == IBV_WR_RDMA_WRITE);
            return 0;
        });

        for (unsigned i = 0; i < count; ++i) {
            ASSERT_OK(retry([&]() { return post(i % KINDS, i); }));
            if ((random() % 3) == 0) {
                ASSERT_OK(uct_ep_check(sender().ep(), 0, NULL));
            }
        }
    }
    EXPECT_GT(checks, count / 6);
    ASSERT_TRUE(wait_all(count));
    flush(sender());
    EXPECT_EQ(rc_state::sq_length(sender()), rc_state::sq_available(sender()));
    check_tx_accounting(sender());
}

TEST_F(test_moderation, keepalive_without_resources)
{
    open_with({ { "RC_TX_CQ_LEN", "16" } }, 2);
    unsigned sent = 0;

    /* It waits in the group, and what is put next waits behind it */
    {
        tx_hold hold(sender());

        while (post(NOTIFY, sent) == UCS_OK) {
            ++sent;
        }
        ASSERT_EQ(0, rc_state::cq_available(sender()));
        ASSERT_OK(uct_ep_check(sender().ep(1), 0, NULL));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, post(NOTIFY, sent, 1));
    }
    ASSERT_OK(retry([&]() { return post(NOTIFY, sent, 1); }));
    ASSERT_TRUE(wait_all(sent + 1));
    flush(sender());
    flush(sender(), 1);
    check_tx_accounting(sender());
}

/* What a request can carry itself is what the device says */
class test_moderation_inline : public test_moderation {
  protected:
    size_t device_inline() const
    {
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init_attr;

        EXPECT_EQ(0, ibv_query_qp(rc_state::qp(sender()), &attr, IBV_QP_CAP,
                                  &init_attr));
        return init_attr.cap.max_inline_data;
    }

    void check(unsigned min_inline)
    {
        uct_wimm_iface_attr_t attr = {};

        open_with({ { "RC_TX_MIN_INLINE", std::to_string(min_inline) } });
        const unsigned max = device_inline();

        EXPECT_GE(max, min_inline);
        attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP;
        ASSERT_OK(uct_wimm_iface_query(sender().iface(), &attr));
        EXPECT_EQ(max, attr.cap.max_short);
        EXPECT_EQ(max, sender().attr().cap.put.max_short);
        EXPECT_EQ(max, rc_state::max_inline(sender()));

        /* The largest goes inline, one more byte is refused */
        m_src->fill(min_inline);
        {
            send_view view(sender());

            ASSERT_OK(put_imm(sender(), 0, m_src->ptr(), max, *m_dst, 0, 1));
            ASSERT_EQ(1u, view.got.size());
            EXPECT_EQ((max > 0), (view.got[0].flags & IBV_SEND_INLINE) != 0);
        }
        ASSERT_TRUE(wait_all(1));
        EXPECT_EQ(max, m_sink->got[0].length);
        m_dst->check(min_inline, max);
        expect_error("put_imm_short length: " + std::to_string(max + 1));
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, put_imm(sender(), 0, m_src->ptr(),
                                                     max + 1, *m_dst, 0, 2));
        flush(sender());
    }
};


TEST_F(test_moderation_inline, none)
{
    check(0);
}

TEST_F(test_moderation_inline, default_of_ucx)
{
    check(64);
}

TEST_F(test_moderation_inline, some)
{
    check(200);
}

TEST_F(test_moderation_inline, much)
{
    check(512);
}
