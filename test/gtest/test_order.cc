/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"
#include "common/pending_req.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>


namespace {

/* What a put carries: its number and a checksum, as far as there is room */
struct payload {
    static const size_t HEADER = 2 * sizeof(uint64_t);

    static uint64_t next(uint64_t x)
    {
        return (x * 6364136223846793005ul) + 1442695040888963407ul;
    }

    static uint8_t small_byte(uint64_t seq, size_t i)
    {
        return next(seq + i) >> 56;
    }

    static uint64_t checksum(const uint8_t *body, size_t length)
    {
        uint64_t sum = length;
        size_t i;

        for (i = 0; (i + sizeof(uint64_t)) <= length; i += sizeof(uint64_t)) {
            sum = (sum << 1) ^ (sum >> 63) ^ u64_at(body + i);
        }
        for (; i < length; ++i) {
            sum += body[i];
        }
        return sum;
    }

    static void fill(uint8_t *p, size_t length, uint64_t seq)
    {
        uint64_t x = seq;
        size_t i;

        if (length < HEADER) {
            for (i = 0; i < length; ++i) {
                p[i] = small_byte(seq, i);
            }
            return;
        }

        for (i = HEADER; (i + sizeof(x)) <= length; i += sizeof(x)) {
            x = next(x);
            memcpy(p + i, &x, sizeof(x));
        }
        for (; i < length; ++i) {
            p[i] = small_byte(seq, i);
        }
        x = checksum(p + HEADER, length - HEADER);
        memcpy(p, &seq, sizeof(seq));
        memcpy(p + sizeof(seq), &x, sizeof(x));
    }

    static bool is_good(const uint8_t *p, size_t length, uint64_t seq)
    {
        if (length < HEADER) {
            for (size_t i = 0; i < length; ++i) {
                if (p[i] != small_byte(seq, i)) {
                    return false;
                }
            }
            return true;
        }

        return (u64_at(p) == seq) && (u64_at(p + sizeof(seq)) ==
                                      checksum(p + HEADER, length - HEADER));
    }
};


/* How an operation is posted */
enum kind_t {
    SHORT,
    BCOPY,
    ZCOPY,
    AM
};


struct operation {
    uint64_t seq;
    kind_t kind;
    bool notified;
    size_t offset;
    size_t length;
};


/* What goes from an endpoint to its peer, in the order of the program */
struct channel {
    channel(entity &from, unsigned from_index, entity &to, unsigned to_index,
            size_t arena)
        : tx(from), tx_index(from_index), rx(to), rx_index(to_index),
          src(arena, from), dst(arena, to), used(0), checked(0), delivered(0),
          dispatched(0), held(0)
    {
    }

    entity &tx;
    const unsigned tx_index;
    entity &rx;
    const unsigned rx_index;
    mapped_buffer src, dst;
    std::vector<operation> ops; /* Since the last drain */
    size_t used;                /* Bytes of both buffers */
    size_t checked;             /* Puts before this one were checked */
    size_t delivered; /* The first one that was not notified of, if it is to be */
    size_t dispatched; /* The same for active messages */
    unsigned held;     /* Notifications that keep their slots */
};

} // namespace


/* Order: a notification comes after its data, and after the data of all that was
 * put before on the endpoint. The program posts, or queues what cannot be posted,
 * and never waits. */
class test_order : public imm_test {
  protected:
    static const uint8_t AM_ID = 7;

    struct mix {
        unsigned count     = 400; /* Operations of the program, in all */
        unsigned am        = 20;  /* Percent of all */
        unsigned plain     = 30;  /* Percent of puts */
        unsigned callbacks = 40;  /* Percent of completions that post more */
        unsigned hold      = 0;   /* Percent of notifications that are held */
        unsigned unset     = 0; /* Percent of rounds that change the handler */
        bool bulk          = true;
        bool strict_am     = false; /* See check_am() */
    };

    void TearDown() override
    {
        m_sinks.clear();
        m_channels.clear();
        imm_test::TearDown();
    }

    void open_channels(const config_list &config, unsigned num_eps = 1,
                       bool both_ways = false)
    {
        open(config);
        open(config);
        m_sizes = sizes();
        for (unsigned i = 0; i < num_eps; ++i) {
            entity::connect(sender(), i, receiver(), i);
            add_channel(sender(), receiver(), i);
            if (both_ways) {
                add_channel(receiver(), sender(), i);
            }
        }
        receive(receiver());
        if (both_ways) {
            receive(sender());
        }
    }

    void add_channel(entity &from, entity &to, unsigned index)
    {
        m_channels.emplace_back(
                new channel(from, index, to, index, m_arena_size));
    }

    void receive(entity &e)
    {
        imm_sink *sink = new imm_sink(e);

        m_sinks.emplace_back(sink);
        sink->on_imm = [this, &e, sink](const imm_sink::notification &n) {
            channel &c   = channel_to(e, n.ep_index);
            sink->result = chance(m_mix.hold) ? UCS_INPROGRESS : UCS_OK;
            c.held += (sink->result == UCS_INPROGRESS);
            check_notification(c, n);
            sink->got.clear();
        };
        e.set_am_handler(AM_ID, [this](void *data, size_t, unsigned) {
            const uint64_t hdr = u64_at(data);

            check_am(*m_channels.at(hdr >> 32), hdr & UINT32_MAX);
            return UCS_OK;
        });
    }

    channel &channel_to(const entity &e, unsigned index)
    {
        for (const auto &c : m_channels) {
            if ((&c->rx == &e) && (c->rx_index == index)) {
                return *c;
            }
        }
        throw std::runtime_error("no channel to this endpoint");
    }

    size_t max_short() const
    {
        return sender().attr().cap.put.max_short;
    }

    size_t max_bcopy() const
    {
        return sender().attr().cap.put.max_bcopy;
    }

    size_t max_zcopy() const
    {
        return std::min<size_t>(sender().attr().cap.put.max_zcopy,
                                8 * 1024 * 1024);
    }

    std::vector<size_t> sizes() const
    {
        const size_t mtu = sender().attr().cap.put.align_mtu;

        return { 0,          1,       max_short(), max_short() + 1, mtu - 1,
                 mtu,        mtu + 1, max_bcopy(), max_bcopy() + 1, 1024 * 1024,
                 max_zcopy() };
    }

    /* The same each time, unless somebody wants others */
    static unsigned seed()
    {
        const char *value = getenv("WIMM_TEST_SEED");

        return (value == NULL) ? 1 : strtoul(value, NULL, 0);
    }

    bool chance(unsigned percent)
    {
        return random(100) < percent;
    }

    unsigned random(unsigned count)
    {
        return std::uniform_int_distribution<unsigned>(0, count - 1)(m_random);
    }

    /* Checks */

    void check_puts(channel &c, size_t end)
    {
        for (; c.checked < end; ++c.checked) {
            const operation &op = c.ops[c.checked];

            if (op.kind != AM) {
                EXPECT_TRUE(payload::is_good(c.dst.ptr(op.offset), op.length,
                                             op.seq))
                        << op.length << " bytes of put " << op.seq
                        << " are not there at operation " << c.ops[end - 1].seq;
            }
        }
    }

    void check_notification(channel &c, const imm_sink::notification &n)
    {
        while ((c.delivered < c.ops.size()) && !c.ops[c.delivered].notified) {
            ++c.delivered;
        }
        ASSERT_LT(c.delivered, c.ops.size());

        const operation &op = c.ops[c.delivered++];

        ASSERT_EQ(static_cast<uint32_t>(op.seq), n.imm);
        EXPECT_EQ(op.length, n.length);
        check_puts(c, c.delivered);

        /* Active messages before it have been dispatched, too */
        skip_to_am(c);
        EXPECT_GE(c.dispatched, c.delivered);
    }

    void skip_to_am(channel &c)
    {
        while ((c.dispatched < c.ops.size()) &&
               (c.ops[c.dispatched].kind != AM)) {
            ++c.dispatched;
        }
    }

    void check_am(channel &c, uint32_t seq)
    {
        skip_to_am(c);
        ASSERT_LT(c.dispatched, c.ops.size());
        ASSERT_EQ(c.ops[c.dispatched].seq, seq);

        /* What was put without a notification is there. What is notified of may
         * wait for a slot or a handler: if not, it has been delivered. */
        for (size_t i = c.delivered; i < c.dispatched; ++i) {
            const operation &op = c.ops[i];

            if ((op.kind != AM) && (!op.notified || m_mix.strict_am)) {
                EXPECT_FALSE(op.notified) << op.seq << " is not delivered";
                EXPECT_TRUE(payload::is_good(c.dst.ptr(op.offset), op.length,
                                             op.seq))
                        << "put " << op.seq << " is not there at message "
                        << seq;
            }
        }
        ++c.dispatched;
    }

    /* Posting */

    void random_op(channel &c)
    {
        const bool am       = chance(m_mix.am);
        const bool notified = !am && !chance(m_mix.plain);
        const unsigned r    = random(1000);
        size_t length;

        /* Large ones are few */
        length = (r < 900)                  ? m_sizes[random(9)] :
                 ((r < 985) || !m_mix.bulk) ? random(64) :
                                              m_sizes[9];
        do_op(c, am ? AM : random_kind(length), notified, length);
    }

    kind_t random_kind(size_t length)
    {
        const unsigned first = (length <= max_short()) ? SHORT :
                               (length <= max_bcopy()) ? BCOPY :
                                                         ZCOPY;

        return static_cast<kind_t>(first + random(ZCOPY - first + 1));
    }

    /* @return Whether there was room for it */
    bool do_op(channel &c, kind_t kind, bool notified, size_t length)
    {
        const operation op = { m_seq++, kind, notified, c.used,
                               (kind == AM) ? 0 : length };

        if ((c.used + op.length) > c.src.size()) {
            return false;
        }

        c.used += (op.length + 7) & ~size_t(7);
        payload::fill(c.src.ptr(op.offset), op.length, op.seq);
        c.ops.push_back(op);
        ++m_issued;
        submit(c, op);
        return true;
    }

    /* As a program does: post it, or queue it */
    void submit(channel &c, const operation &op)
    {
        bool by_uct       = chance(50);
        unsigned attempts = 0;
        ucs_status_t status;

        /* UCX lets a message that is posted by a request go ahead of those that
         * are queued */
        status = (m_in_request && (op.kind == AM)) ? UCS_ERR_NO_RESOURCE :
                                                     post(c, op);
        while (status == UCS_ERR_NO_RESOURCE) {
            ASSERT_LT(++attempts, 4u);
            status = queue(c, op, by_uct);
            if (status == UCS_OK) {
                ++m_queued;
                return;
            }

            /* UCT's function knows nothing of slots */
            ASSERT_STATUS(UCS_ERR_BUSY, status);
            by_uct = false;
            status = post(c, op);
        }
        ASSERT_FALSE(UCS_STATUS_IS_ERR(status)) << status_str(status);
    }

    /* UCX posts nothing for it, so that it would still be the turn of its request:
     * a program has to know that */
    static bool is_skipped(const operation &op)
    {
        return !op.notified && (op.kind != AM) && (op.length == 0);
    }

    ucs_status_t queue(channel &c, const operation &op, bool by_uct)
    {
        pending_req *req    = new pending_req([this, &c, op]() {
            const ucs_status_t status = post(c, op);

            if (status == UCS_ERR_NO_RESOURCE) {
                return status;
            }

            EXPECT_FALSE(UCS_STATUS_IS_ERR(status)) << status_str(status);
            if (is_skipped(op)) {
                return UCS_OK;
            }

            /* The end of a short or bcopy put, for a program that waits for it:
             * it may have the next one ready */
            m_in_request = true;
            completed(c);
            m_in_request = false;
            return UCS_OK;
        });
        uct_ep_h ep         = c.tx.ep(c.tx_index);
        ucs_status_t status = (by_uct || !op.notified) ?
                                      uct_ep_pending_add(ep, &req->uct, 0) :
                                      uct_wimm_ep_imm_pending_add(ep,
                                                                  &req->uct);

        if (status == UCS_OK) {
            m_reqs.emplace_back(req);
        } else {
            delete req;
        }
        return status;
    }

    ucs_status_t post(channel &c, const operation &op)
    {
        const uint64_t remote = c.dst.addr(op.offset);
        uct_ep_h ep           = c.tx.ep(c.tx_index);
        ssize_t ret;

        switch (op.kind) {
        case AM:
            return uct_ep_am_short(ep, AM_ID, (number(c) << 32) | op.seq, NULL,
                                   0);
        case SHORT:
            return op.notified ?
                           uct_wimm_ep_put_imm_short(ep, c.src.ptr(op.offset),
                                                     op.length, remote,
                                                     c.dst.rkey(), op.seq) :
                           uct_ep_put_short(ep, c.src.ptr(op.offset), op.length,
                                            remote, c.dst.rkey());
        case BCOPY:
            m_pack = { c.src.ptr(op.offset), op.length };
            ret    = op.notified ?
                             uct_wimm_ep_put_imm_bcopy(ep, pack, &m_pack, remote,
                                                       c.dst.rkey(), op.seq) :
                             uct_ep_put_bcopy(ep, pack, &m_pack, remote,
                                              c.dst.rkey());
            return (ret < 0) ? static_cast<ucs_status_t>(ret) : UCS_OK;
        case ZCOPY:
        default:
            return post_zcopy(c, op, remote);
        }
    }

    ucs_status_t post_zcopy(channel &c, const operation &op, uint64_t remote)
    {
        const std::vector<uct_iov_t> iov = pieces(c, op);
        uct_ep_h ep                      = c.tx.ep(c.tx_index);
        uct_completion_t *comp           = NULL;
        ucs_status_t status;

        if (chance(80)) {
            m_comps.emplace_back(new op_completion(*this, c));
            comp = &m_comps.back()->uct;
        }

        status = op.notified ?
                         uct_wimm_ep_put_imm_zcopy(ep, iov.data(), iov.size(),
                                                   remote, c.dst.rkey(), op.seq,
                                                   comp) :
                         uct_ep_put_zcopy(ep, iov.data(), iov.size(), remote,
                                          c.dst.rkey(), comp);
        if ((status != UCS_INPROGRESS) && (comp != NULL)) {
            m_comps.pop_back(); /* It will not be called */
        }
        return status;
    }

    std::vector<uct_iov_t> pieces(const channel &c, const operation &op)
    {
        std::vector<uct_iov_t> result;
        size_t done = 0;

        for (size_t i = random(sender().attr().cap.put.max_iov); i > 0; --i) {
            const size_t length = random((op.length - done) + 1);

            result.push_back(c.src.iov(length, op.offset + done));
            done += length;
        }
        result.push_back(c.src.iov(op.length - done, op.offset + done));
        return result;
    }

    struct pack_data {
        const void *data;
        size_t length;
    };

    static size_t pack(void *dest, void *arg)
    {
        const pack_data *data = static_cast<const pack_data *>(arg);

        memcpy(dest, data->data, data->length);
        return data->length;
    }

    /* Completion of a zcopy, which posts what comes next */
    struct op_completion {
        op_completion(test_order &t, channel &c) : test(t), chan(c), called(0)
        {
            uct.func   = call;
            uct.count  = 1;
            uct.status = UCS_OK;
        }

        static void call(uct_completion_t *uct)
        {
            op_completion *self = reinterpret_cast<op_completion *>(uct);

            ++self->called;
            EXPECT_OK(uct->status);
            self->test.completed(self->chan);
        }

        uct_completion_t uct;
        test_order &test;
        channel &chan;
        unsigned called;
    };

    void completed(channel &c)
    {
        if (!m_draining && chance(m_mix.callbacks)) {
            for (unsigned i = random(3); i > 0; --i) {
                random_op(c);
                ++m_from_callbacks;
            }
        }
    }

    uint64_t number(const channel &c) const
    {
        for (size_t i = 0; i < m_channels.size(); ++i) {
            if (m_channels[i].get() == &c) {
                return i;
            }
        }
        return UINT32_MAX;
    }

    /* Running */

    void release_slots(bool all)
    {
        for (const auto &c : m_channels) {
            const unsigned count = all ? c->held : random(c->held + 1);

            ASSERT_OK(uct_wimm_ep_slot_release(c->rx.ep(c->rx_index), count));
            c->held -= count;
        }
    }

    void change_handlers()
    {
        for (const auto &sink : m_sinks) {
            if (chance(m_mix.unset)) {
                if (chance(50)) {
                    sink->pause();
                } else {
                    sink->start();
                }
            }
        }
    }

    /* All that was posted or queued has arrived when a flush is complete */
    void drain()
    {
        m_draining = true;
        for (const auto &sink : m_sinks) {
            sink->start();
        }
        for (const auto &c : m_channels) {
            completion comp;
            ucs_status_t status;

            ASSERT_TRUE(wait_for([&]() {
                release_slots(true);
                status = uct_ep_flush(c->tx.ep(c->tx_index), 0, &comp.uct);
                return status != UCS_ERR_NO_RESOURCE;
            }));
            if (status == UCS_INPROGRESS) {
                ASSERT_TRUE(wait_for([&]() {
                    release_slots(true);
                    return comp.done();
                }));
                status = comp.status();
            }
            ASSERT_OK(status);
            check_puts(*c, c->ops.size());
        }

        ASSERT_TRUE(wait_for([&]() {
            release_slots(true);
            return std::all_of(m_channels.begin(), m_channels.end(),
                               [this](const std::unique_ptr<channel> &c) {
                                   return is_done(*c);
                               });
        }));
        for (const auto &c : m_channels) {
            c->ops.clear();
            c->used = c->checked = c->delivered = c->dispatched = 0;
        }
        for (const auto &comp : m_comps) {
            ASSERT_EQ(1u, comp->called);
        }
        for (const auto &req : m_reqs) {
            ASSERT_GE(req->called, 1u);
        }
        m_comps.clear();
        m_reqs.clear();
        m_draining = false;
    }

    bool is_done(const channel &c)
    {
        return std::none_of(c.ops.begin() + c.delivered, c.ops.end(),
                            [](const operation &op) { return op.notified; }) &&
               std::none_of(c.ops.begin() + c.dispatched, c.ops.end(),
                            [](const operation &op) { return op.kind == AM; });
    }

    void run(const mix &m)
    {
        m_mix = m;
        while (m_issued < m.count) {
            for (unsigned i = random(12); i > 0; --i) {
                channel &c = *m_channels[random(m_channels.size())];

                random_op(c);
                if ((c.used + m_sizes[9]) > c.src.size()) {
                    drain();
                }
                if (HasFailure()) {
                    break;
                }
            }
            for (unsigned i = random(6); i > 0; --i) {
                m_entities[random(m_entities.size())]->progress();
            }
            release_slots(false);
            change_handlers();
            if (HasFailure()) {
                FAIL() << "after " << m_issued << " operations, with"
                       << " WIMM_TEST_SEED=" << m_seed;
            }
        }
        drain();
        for (const auto &e : m_entities) {
            EXPECT_TRUE(e->errors.empty());
            check_tx_accounting(*e);
        }
        check_rx_accounting();
    }

    const unsigned m_seed = seed();
    std::mt19937 m_random{ m_seed };
    size_t m_arena_size = 3 * 1024 * 1024;
    std::vector<size_t> m_sizes;
    std::vector<std::unique_ptr<channel>> m_channels;
    std::vector<std::unique_ptr<imm_sink>> m_sinks;
    std::vector<std::unique_ptr<pending_req>> m_reqs;
    std::vector<std::unique_ptr<op_completion>> m_comps;
    mix m_mix;
    pack_data m_pack{ NULL, 0 };
    uint64_t m_seq            = 1;
    unsigned m_issued         = 0;
    unsigned m_queued         = 0;
    unsigned m_from_callbacks = 0;
    bool m_draining           = false;
    bool m_in_request         = false;
};


TEST_F(test_order, every_size_and_kind_after_a_plain_put)
{
    m_arena_size = 24 * 1024 * 1024;
    open_channels({ { "IB_TX_QUEUE_LEN", "16" } });
    channel &c = *m_channels[0];

    /* The plain put may be in many packets, and the notified one in one */
    m_mix.callbacks = 0;
    for (size_t i = 0; i < m_sizes.size(); ++i) {
        const size_t length = m_sizes[i];
        const size_t before = m_sizes[m_sizes.size() - 1 - i];

        for (kind_t kind : { SHORT, BCOPY, ZCOPY }) {
            if (((kind == SHORT) && (length > max_short())) ||
                ((kind == BCOPY) && (length > max_bcopy()))) {
                continue;
            }
            ASSERT_TRUE(do_op(c, random_kind(before), false,
                              (kind == ZCOPY) ? before : before % 9000));
            ASSERT_TRUE(do_op(c, kind, true, length));
        }
        drain();
    }
}

TEST_F(test_order, plenty_of_everything)
{
    mix m;

    open_channels(config_list());
    m.strict_am = true;
    run(m);
    EXPECT_GT(m_from_callbacks, 0u);
}

TEST_F(test_order, short_send_queue)
{
    open_channels({ { "IB_TX_QUEUE_LEN", "8" } });
    run(mix());
    EXPECT_GT(m_queued, 0u);
    EXPECT_GT(m_from_callbacks, 0u);
}

TEST_F(test_order, short_send_queue_without_messages)
{
    mix m;

    m.am    = 0;
    m.plain = 60;
    open_channels({ { "IB_TX_QUEUE_LEN", "8" } });
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, short_send_queue_without_plain_puts)
{
    mix m;

    m.am    = 0;
    m.plain = 0;
    open_channels({ { "IB_TX_QUEUE_LEN", "8" } });
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, window_of_one)
{
    open_channels({ { "RC_FC_WND_SIZE", "1" } });
    run(mix());
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, window_of_two_and_short_send_queue)
{
    open_channels({ { "RC_FC_WND_SIZE", "2" }, { "IB_TX_QUEUE_LEN", "8" } });
    run(mix());
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, one_slot)
{
    mix m;

    m.hold = 30;
    open_channels({ { "NUM_SLOTS", "1" } });
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, few_slots_that_are_held)
{
    mix m;

    m.hold = 90;
    open_channels({ { "NUM_SLOTS", "6" } });
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, few_slots_without_a_handler_at_times)
{
    mix m;

    m.hold  = 20;
    m.unset = 30;
    open_channels({ { "NUM_SLOTS", "6" } });
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, little_of_everything)
{
    mix m;

    m.hold  = 30;
    m.unset = 10;
    open_channels({ { "NUM_SLOTS", "3" },
                    { "RC_FC_WND_SIZE", "2" },
                    { "IB_TX_QUEUE_LEN", "8" } });
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, without_flow_control)
{
    mix m;

    m.hold = 30;
    open_channels({ { "FC_ENABLE", "n" },
                    { "NUM_SLOTS", "8" },
                    { "IB_TX_QUEUE_LEN", "16" } });
    run(m);
}

TEST_F(test_order, every_request_signaled)
{
    open_channels(
            { { "RC_TX_CQ_MODERATION", "0" }, { "IB_TX_QUEUE_LEN", "8" } });
    run(mix());
}

TEST_F(test_order, several_endpoints_share_the_completion_queue)
{
    mix m;

    m.hold = 20;
    m.bulk = false;
    open_channels({ { "RC_TX_CQ_LEN", "32" },
                    { "IB_TX_QUEUE_LEN", "16" },
                    { "NUM_SLOTS", "5" } },
                  5);
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, several_endpoints_share_a_short_receive_queue)
{
    mix m;

    m.hold = 20;
    m.bulk = false;
    open_channels({ { "IB_RX_QUEUE_LEN", "64" }, { "NUM_SLOTS", "5" } }, 5);
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, both_ways)
{
    mix m;

    m.hold = 30;
    open_channels({ { "NUM_SLOTS", "4" },
                    { "RC_FC_WND_SIZE", "3" },
                    { "IB_TX_QUEUE_LEN", "8" } },
                  1, true);
    run(m);
    EXPECT_GT(m_queued, 0u);
}

TEST_F(test_order, both_ways_on_several_endpoints)
{
    mix m;

    m.hold = 30;
    m.bulk = false;
    open_channels({ { "NUM_SLOTS", "4" },
                    { "RC_FC_WND_SIZE", "8" },
                    { "RC_TX_CQ_LEN", "64" },
                    { "IB_TX_QUEUE_LEN", "16" } },
                  3, true);
    run(m);
    EXPECT_GT(m_queued, 0u);
}
