/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <algorithm>
#include <map>


/* Order of notifications, with all that queues on the way */
class test_ucp_order : public ucp_test {
  protected:
    static const size_t area = 20000;

    /* Endpoints that have transferred nothing, or are connected */
    void start(bool wired, const ucp_entity::params &p = {})
    {
        create_pair(p);
        m_src.reset(new ucp_buffer(sender(), num_areas * area));
        m_dst.reset(new ucp_buffer(receiver(), num_areas * area));
        m_rkey.reset(m_dst->unpack(sender().ep()).release());
        if (wired) {
            ASSERT_OK(flush(sender()));
            ASSERT_TRUE(wait_way(sender()));
        }
    }

    void TearDown() override
    {
        m_rkey.reset();
        m_src.reset();
        m_dst.reset();
        ucp_test::TearDown();
    }

    /* All kinds, and nothing at all */
    static size_t length_of(uint32_t imm)
    {
        static const size_t lengths[] = { 8, 0, 2000, 64, 9000, 1, 20000, 100 };

        return lengths[imm % 8];
    }

  public: /* For callbacks */
    ucs_status_ptr_t put(uint32_t imm, size_t length,
                         const ucp_request_param_t &param)
    {
        const size_t offset = (imm % num_areas) * area;

        return ucp_wimm_put_nbx(sender().wimm(), sender().ep(),
                                m_src->ptr(offset), length, m_dst->addr(offset),
                                m_rkey.get(), imm, &param);
    }

  protected:
    put_request &issue(uint32_t imm, size_t length)
    {
        m_requests.emplace_back();
        m_requests.back().ptr = put(imm, length, m_requests.back().param());
        return m_requests.back();
    }

    void check_order(size_t count)
    {
        ASSERT_TRUE(wait_arrivals(receiver(), count));

        /* A connection manager tells of a peer that has closed, after all that */
        size_t num = 0;
        for (const arrival &a : receiver().arrivals) {
            num += (a.status == UCS_OK);
        }
        ASSERT_EQ(count, num);
        for (size_t i = 0; i < count; ++i) {
            ASSERT_EQ(i, receiver().arrivals[i].imm);
            ASSERT_OK(receiver().arrivals[i].status);
        }
    }

    void finish()
    {
        for (put_request &r : m_requests) {
            EXPECT_OK(wait(r));
        }
        m_requests.clear();
    }

    struct rkey_deleter {
        void operator()(ucp_rkey_h rkey) const
        {
            ucp_rkey_destroy(rkey);
        }
    };

    static const size_t num_areas = 64;
    std::unique_ptr<ucp_buffer> m_src, m_dst;
    std::unique_ptr<ucp_rkey, rkey_deleter> m_rkey;
    std::deque<put_request> m_requests;
};

const size_t test_ucp_order::area;
const size_t test_ucp_order::num_areas;


TEST_F(test_ucp_order, ten_thousand_before_the_connection)
{
    const uint32_t count = 10000;

    start(false);
    for (uint32_t imm = 0; imm < count; ++imm) {
        issue(imm, 8);
    }
    if (default_connection() == connection::ADDRESS) {
        EXPECT_EQ(0u, receiver().arrivals.size());
        EXPECT_EQ(count, (emulated_tls() != nullptr) ?
                                 query(sender()).counters.emulated :
                                 query(sender()).counters.wireup);
    }
    check_order(count);
    finish();
}

TEST_F(test_ucp_order, all_kinds_before_the_connection)
{
    start(false);
    for (uint32_t imm = 0; imm < 600; ++imm) {
        issue(imm, length_of(imm));
    }
    check_order(600);
    for (uint32_t imm = 0; imm < 600; ++imm) {
        EXPECT_EQ(length_of(imm), receiver().arrivals[imm].length);
    }
    finish();
}

TEST_F(test_ucp_order, all_kinds_under_back_pressure)
{
    start(true);
    for (uint32_t imm = 0; imm < 3000; ++imm) {
        issue(imm, length_of(imm));
        if ((imm % 16) == 0) {
            sender().progress();
        }
    }
    check_order(3000);
    finish();
}


/* Puts that are issued by the callbacks of others: all of RC, UCP's queue and memory
 * that is used again make these overtake */
class test_ucp_repost : public test_ucp_order,
                        public ::testing::WithParamInterface<bool> {
  protected:
    void repost(uint32_t first, uint32_t total, bool mixed)
    {
        uint32_t next = 0;

        start(GetParam());
        std::function<void()> issue_next = [&] {
            const uint32_t imm = next++;
            m_requests.emplace_back();
            put_request &r = m_requests.back();

            r.on_done = [&] {
                if (next < total) {
                    issue_next();
                }
            };

            /* So that its memory comes back as that of the next one */
            ucp_request_param_t param = r.param();
            r.ptr = put(imm, mixed ? length_of(imm) : 8, param);
        };

        while (next < first) {
            issue_next();
        }
        ASSERT_TRUE(wait_for([&] {
            /* Those that complete at once have no callback */
            if ((next < total) &&
                std::all_of(m_requests.begin(), m_requests.end(),
                            [](const put_request &r) { return r.is_done(); })) {
                issue_next();
            }
            return next >= total;
        }));
        check_order(total);
        finish();
    }
};


TEST_P(test_ucp_repost, short_ones)
{
    repost(1000, 3000, false);
}

TEST_P(test_ucp_repost, all_kinds)
{
    repost(300, 1000, true);
}

INSTANTIATE_TEST_SUITE_P(wired, test_ucp_repost, ::testing::Bool());


/* The request is freed by its callback, and the next one gets its memory */
TEST_F(test_ucp_order, memory_of_a_request_is_used_again)
{
    static const uint32_t first = 1500, total = 3000;
    struct context {
        test_ucp_order *test;
        uint32_t next;
        ucp_request_param_t param;

        void issue()
        {
            ucs_status_ptr_t ptr = test->put(next++, 8, param);
            EXPECT_FALSE(UCS_PTR_IS_ERR(ptr));
        }

        static void cb(void *request, ucs_status_t status, void *arg)
        {
            context *self = static_cast<context *>(arg);

            EXPECT_OK(status);
            ucp_request_free(request);
            if (self->next < total) {
                self->issue();
            }
        }
    } ctx = { this, 0, {} };

    start(true);
    ctx.param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                             UCP_OP_ATTR_FIELD_USER_DATA;
    ctx.param.cb.send   = context::cb;
    ctx.param.user_data = &ctx;
    while (ctx.next < first) {
        ctx.issue();
    }
    ASSERT_TRUE(
            wait_for([&] { return receiver().arrivals.size() >= ctx.next; }));
    check_order(ctx.next);
    EXPECT_GT(ctx.next, first);
}


/* A notification comes after all plain puts that were issued before it */
class test_ucp_plain : public test_ucp_order,
                       public ::testing::WithParamInterface<size_t> {};


TEST_P(test_ucp_plain, puts_are_there_at_the_notification)
{
    const size_t length       = GetParam();
    const uint32_t count      = 200;
    ucp_request_param_t param = {};
    std::vector<ucs_status_ptr_t> plain;
    unsigned wrong = 0;

    start(false);
    receiver().on_arrival = [&](const ucp_wimm_notification_t &n) {
        const size_t offset = (n.imm % num_areas) * area;

        wrong += (m_dst->check(n.imm, offset, length) != length);
        return UCS_OK;
    };

    for (uint32_t imm = 0; imm < count; ++imm) {
        const size_t offset = (imm % num_areas) * area;

        if (imm >= num_areas) {
            ASSERT_TRUE(wait_arrivals(receiver(), imm - num_areas + 1));
        }

        m_src->fill(imm, offset, length);
        ucs_status_ptr_t ptr = ucp_put_nbx(sender().ep(), m_src->ptr(offset),
                                           length, m_dst->addr(offset),
                                           m_rkey.get(), &param);
        ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
        if (UCS_PTR_IS_PTR(ptr)) {
            plain.push_back(ptr);
        }
        issue(imm, 0);
    }
    check_order(count);
    EXPECT_EQ(0u, wrong);
    for (ucs_status_ptr_t ptr : plain) {
        EXPECT_OK(wait(ptr));
    }
    finish();
}

INSTANTIATE_TEST_SUITE_P(lengths, test_ucp_plain,
                         ::testing::Values<size_t>(8, 3000, 20000));


/* ucp_worker_fence() between plain puts and notified ones of one endpoint */
class test_ucp_fence : public test_ucp_order,
                       public ::testing::WithParamInterface<size_t> {
  protected:
    static const uint32_t count = 100;
    static const uint32_t half  = num_areas / 2;

    static size_t offset_of(uint32_t index)
    {
        return (index % num_areas) * area;
    }

    void plain_put(size_t from, size_t to, size_t length)
    {
        m_requests.emplace_back();
        put_request &r            = m_requests.back();
        ucp_request_param_t param = r.param();

        r.ptr = ucp_put_nbx(sender().ep(), m_src->ptr(from), length,
                            m_dst->addr(to), m_rkey.get(), &param);
    }

    void notified_put(uint32_t imm, size_t from, size_t to, size_t length)
    {
        m_requests.emplace_back();
        put_request &r            = m_requests.back();
        ucp_request_param_t param = r.param();

        r.ptr = ucp_wimm_put_nbx(sender().wimm(), sender().ep(),
                                 m_src->ptr(from), length, m_dst->addr(to),
                                 m_rkey.get(), imm, &param);
    }

    void fence()
    {
        ASSERT_OK(ucp_worker_fence(sender().worker()));
    }
};

const uint32_t test_ucp_fence::count;
const uint32_t test_ucp_fence::half;


/* Also what was issued before the connection */
TEST_P(test_ucp_fence, notified_put_tells_of_the_plain_one_before)
{
    const size_t length = GetParam();
    unsigned wrong      = 0;

    start(false);
    receiver().on_arrival = [&](const ucp_wimm_notification_t &n) {
        wrong += (m_dst->check(n.imm, offset_of(n.imm + half), length) !=
                  length);
        wrong += (n.length != length_of(n.imm));
        wrong += (m_dst->check(n.imm, offset_of(n.imm), length_of(n.imm)) !=
                  length_of(n.imm));
        return UCS_OK;
    };

    for (uint32_t imm = 0; imm < count; ++imm) {
        if (imm >= half) {
            ASSERT_TRUE(wait_arrivals(receiver(), imm - half + 1));
        }

        m_src->fill(imm, offset_of(imm + half), length);
        m_src->fill(imm, offset_of(imm), length_of(imm));
        plain_put(offset_of(imm + half), offset_of(imm + half), length);
        fence();
        issue(imm, length_of(imm));
    }
    check_order(count);
    EXPECT_EQ(0u, wrong);
    finish();
}

/* One that waits for a slot or a credit may be overtaken: here none does */
TEST_P(test_ucp_fence, plain_put_does_not_overtake_a_notified_one)
{
    const size_t length = GetParam();
    unsigned wrong      = 0;

    start(true);
    receiver().on_arrival = [&](const ucp_wimm_notification_t &n) {
        if ((n.imm % 2) == 0) {
            wrong += (n.length != length);
        } else {
            wrong += (m_dst->check(n.imm, offset_of(n.imm), length) != length);
        }
        return UCS_OK;
    };

    for (uint32_t imm = 0; imm < count; imm += 2) {
        /* Both to the place of the second one */
        m_src->fill(imm, offset_of(imm), length);
        m_src->fill(imm + 1, offset_of(imm + 1), length);
        notified_put(imm, offset_of(imm), offset_of(imm + 1), length);
        fence();
        plain_put(offset_of(imm + 1), offset_of(imm + 1), length);
        issue(imm + 1, 0);
        ASSERT_TRUE(wait_arrivals(receiver(), imm + 2));
    }
    check_order(count);
    EXPECT_EQ(0u, wrong);
    finish();
}

INSTANTIATE_TEST_SUITE_P(lengths, test_ucp_fence,
                         ::testing::Values<size_t>(8, 3000, 20000));


/* When a flush is complete the data of all of ours is there */
class test_ucp_flush
    : public test_ucp_order,
      public ::testing::WithParamInterface<std::tuple<bool, bool>> {};


TEST_P(test_ucp_flush, covers_what_is_queued)
{
    const bool wired          = std::get<0>(GetParam());
    const bool is_worker      = std::get<1>(GetParam());
    ucp_request_param_t param = {};

    start(wired);
    for (size_t i = 0; i < num_areas; ++i) {
        m_src->fill(i, i * area, area);
    }

    for (uint32_t imm = 0; imm < 1000; ++imm) {
        issue(imm, length_of(imm));
    }

    ucs_status_ptr_t ptr = is_worker ?
                                   ucp_worker_flush_nbx(sender().worker(),
                                                        &param) :
                                   ucp_wimm_flush_nbx(sender().wimm(),
                                                      sender().ep(), &param);
    ASSERT_OK(wait(ptr));
    for (const put_request &r : m_requests) {
        EXPECT_TRUE(r.is_done());
    }
    for (size_t i = 0; i < num_areas; ++i) {
        EXPECT_EQ(length_of(i), m_dst->check(i, i * area, length_of(i)));
    }
    check_order(1000);
    finish();
}

INSTANTIATE_TEST_SUITE_P(ways, test_ucp_flush,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Bool()));


TEST_F(test_ucp_order, close_waits_for_what_is_queued)
{
    start(true);
    for (uint32_t imm = 0; imm < 2000; ++imm) {
        issue(imm, 8);
    }
    m_rkey.reset();
    ASSERT_OK(close(sender()));
    for (const put_request &r : m_requests) {
        EXPECT_TRUE(r.is_done());
        EXPECT_OK(r.result());
    }
    check_order(2000);
    finish();
}

TEST_F(test_ucp_order, force_close_cancels_what_is_queued)
{
    unsigned canceled = 0;

    /* What the peer has sent to an endpoint that is gone ends by timeout */
    ucp_entity::params p;
    p.config = { { "RC_TIMEOUT", "100ms" }, { "RC_RETRY_COUNT", "4" } };
    start(true, p);
    for (uint32_t imm = 0; imm < 3000; ++imm) {
        issue(imm, length_of(imm));
    }
    m_rkey.reset();
    ASSERT_OK(close(sender(), 0, UCP_EP_CLOSE_FLAG_FORCE));
    ASSERT_TRUE(wait_for([&] {
        return std::all_of(m_requests.begin(), m_requests.end(),
                           [](const put_request &r) { return r.is_done(); });
    }));
    for (put_request &r : m_requests) {
        ucs_status_t status = wait(r);

        canceled += (status == UCS_ERR_CANCELED);
        if (status != UCS_ERR_CANCELED) {
            EXPECT_OK(status);
        }
    }
    EXPECT_GT(canceled, 0u);

    /* What has come is in order, without gaps */
    for (size_t i = 0; (i < receiver().arrivals.size()) &&
                       (receiver().arrivals[i].status == UCS_OK);
         ++i) {
        ASSERT_EQ(i, receiver().arrivals[i].imm);
    }
}
