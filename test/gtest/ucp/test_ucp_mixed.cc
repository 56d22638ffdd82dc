/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <map>


/* One worker with endpoints of both ways */
class test_ucp_mixed : public ucp_test {
  protected:
    /* The hub has all transports; each peer the ones that make its way */
    void SetUp() override
    {
        ucp_test::SetUp();
        create_over("wimm,ud_verbs:aux,tcp");
        create_over("wimm,ud_verbs:aux");
        create_over("tcp");
    }

    ucp_entity &create_over(const std::string &tls)
    {
        ucp_entity::params p;

        p.emulate     = true;
        p.config      = { { "TLS", tls }, { "NET_DEVICES", "rxe0:1,lo" } };
        ucp_entity &e = create(p);
        if (m_entities.size() > 1) {
            hub().connect_address(e, UCP_ERR_HANDLING_MODE_PEER);
            e.connect_address(hub(), UCP_ERR_HANDLING_MODE_PEER);
        }
        return e;
    }

    ucp_entity &hub()
    {
        return entity(0);
    }

    void notify(ucp_entity &e, size_t ep, uint32_t imm)
    {
        ucp_request_param_t param = {};
        ucs_status_ptr_t ptr      = ucp_wimm_notify_nbx(e.wimm(), e.ep(ep), imm,
                                                        &param);

        ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
        if (UCS_PTR_IS_PTR(ptr)) {
            ucp_request_free(ptr);
        }
    }
};


TEST_F(test_ucp_mixed, both_ways_feed_one_stream)
{
    static const uint32_t num = 1000;
    std::map<ucp_ep_h, uint32_t> next;
    ucp_wimm_counter_h c;
    uint64_t count = 0;

    for (uint32_t i = 0; i < num; ++i) {
        notify(entity(1), 0, i);
        notify(entity(2), 0, i);
    }
    ASSERT_TRUE(wait_arrivals(hub(), 2 * num));
    EXPECT_EQ(UCP_WIMM_WAY_NATIVE, ep_query(hub(), 0).way);
    EXPECT_EQ(UCP_WIMM_WAY_EMULATED, ep_query(hub(), 1).way);
    EXPECT_EQ(UCP_WIMM_REASON_OTHER_LANE, ep_query(hub(), 1).reason);
    EXPECT_EQ(UCP_WIMM_WAY_NATIVE, ep_query(entity(1)).way);
    EXPECT_EQ(UCP_WIMM_WAY_EMULATED, ep_query(entity(2)).way);
    EXPECT_EQ(UCP_WIMM_REASON_NO_TRANSPORT, ep_query(entity(2)).reason);
    for (const arrival &a : hub().arrivals) {
        ASSERT_OK(a.status);
        ASSERT_EQ(next[a.ep]++, a.imm);
    }
    EXPECT_EQ(2u, next.size());
    EXPECT_EQ(num, next[hub().ep(0)]);
    EXPECT_EQ(num, next[hub().ep(1)]);

    /* And one counter */
    hub().arrivals.clear();
    ASSERT_OK(ucp_wimm_counter_create(hub().wimm(), NULL, &c));
    for (uint32_t i = 0; i < num; ++i) {
        notify(entity(1 + (i % 2)), 0, i);
    }
    ASSERT_TRUE(wait_for([&] {
        EXPECT_OK(ucp_wimm_counter_read(c, &count));
        return count == num;
    }));
    EXPECT_EQ(0u, hub().arrivals.size());
    ucp_wimm_counter_destroy(c);
}

TEST_F(test_ucp_mixed, one_worker_sends_both_ways)
{
    static const uint32_t num = 1000;
    const size_t length       = 5000;
    std::vector<std::unique_ptr<ucp_buffer>> dst;
    std::vector<ucp_buffer::rkey_ptr> rkeys;
    ucp_request_param_t param = {};
    ucp_buffer src(hub(), length);

    for (unsigned i = 0; i < 2; ++i) {
        dst.emplace_back(new ucp_buffer(entity(1 + i), length));
        rkeys.push_back(dst[i]->unpack(hub().ep(i)));
    }
    src.fill(3, 0, length);
    for (uint32_t imm = 0; imm < num; ++imm) {
        for (unsigned i = 0; i < 2; ++i) {
            ucs_status_ptr_t ptr = ucp_wimm_put_nbx(hub().wimm(), hub().ep(i),
                                                    src.ptr(), length,
                                                    dst[i]->addr(),
                                                    rkeys[i].get(), imm,
                                                    &param);
            ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
            if (UCS_PTR_IS_PTR(ptr)) {
                ucp_request_free(ptr);
            }
        }
    }
    for (unsigned i = 0; i < 2; ++i) {
        EXPECT_OK(flush(hub(), i));
        EXPECT_EQ(length, dst[i]->check(3, 0, length));
        ASSERT_TRUE(wait_arrivals(entity(1 + i), num));
        for (uint32_t imm = 0; imm < num; ++imm) {
            ASSERT_EQ(imm, entity(1 + i).arrivals[imm].imm);
        }
    }
    EXPECT_EQ(num, query(hub()).counters.emulated);
    EXPECT_EQ(2 * num, query(hub()).counters.puts);
}

TEST_F(test_ucp_mixed, one_that_fails_leaves_the_other)
{
    notify(entity(1), 0, 1);
    notify(entity(2), 0, 1);
    ASSERT_TRUE(wait_arrivals(hub(), 2));
    hub().arrivals.clear();
    allow_failure();
    cut_tcp();
    ASSERT_TRUE(wait_arrivals(hub(), 1));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(hub().arrivals[0].status));
    EXPECT_EQ(hub().ep(1), hub().arrivals[0].ep);
    EXPECT_EQ(UCP_WIMM_WAY_NONE, ep_query(hub(), 1).way);
    notify(entity(1), 0, 2);
    ASSERT_TRUE(wait_arrivals(hub(), 2));
    EXPECT_OK(hub().arrivals[1].status);
    EXPECT_EQ(hub().ep(0), hub().arrivals[1].ep);
    close(hub(), 1, UCP_EP_CLOSE_FLAG_FORCE);
    close_by_force(entity(2));
}

TEST_F(test_ucp_mixed, is_said_once_when_both_could)
{
    ucp_entity::params p;

    log_level(UCS_LOG_LEVEL_INFO);
    expect_log(UCS_LOG_LEVEL_INFO,
               "emulated although both sides have the transport wimm", 2);
    allow_log(UCS_LOG_LEVEL_INFO, "");
    p.emulate     = true;
    p.config      = { { "TLS", "wimm,rc_verbs,ud_verbs:aux" } };
    ucp_entity &a = create(p);
    ucp_entity &b = create(p);
    a.connect_address(b, UCP_ERR_HANDLING_MODE_PEER);
    b.connect_address(a, UCP_ERR_HANDLING_MODE_PEER);
    for (uint32_t i = 0; i < 100; ++i) {
        notify(a, 0, i);
        notify(b, 0, i);
    }
    ASSERT_TRUE(wait_arrivals(a, 100));
    ASSERT_TRUE(wait_arrivals(b, 100));
    EXPECT_EQ(UCP_WIMM_WAY_EMULATED, ep_query(a).way);
    EXPECT_EQ(UCP_WIMM_REASON_OTHER_LANE, ep_query(a).reason);

    /* By a put of the device */
    ucp_buffer src(a, 100000), dst(b, 100000);
    auto rkey                 = dst.unpack(a.ep());
    ucp_request_param_t param = {};
    src.fill(5, 0, 100000);
    EXPECT_OK(wait(ucp_wimm_put_nbx(a.wimm(), a.ep(), src.ptr(), 100000,
                                    dst.addr(), rkey.get(), 100, &param)));
    ASSERT_TRUE(wait_arrivals(b, 101));
    EXPECT_EQ(100000u, dst.check(5, 0, 100000));
}
