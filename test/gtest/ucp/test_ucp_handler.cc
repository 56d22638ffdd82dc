/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"


/* What handlers do, and detaching at the wrong time */
class test_ucp_handler : public ucp_test {
  protected:
    void SetUp() override
    {
        ucp_test::SetUp();
        create_pair({}, UCP_ERR_HANDLING_MODE_PEER, true);
    }

    void notify(ucp_entity &e, uint32_t first, uint32_t count)
    {
        ucp_request_param_t param = {};

        for (uint32_t imm = first; imm < (first + count); ++imm) {
            ucs_status_ptr_t ptr = ucp_wimm_notify_nbx(e.wimm(), e.ep(), imm,
                                                       &param);
            ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
            if (UCS_PTR_IS_PTR(ptr)) {
                ucp_request_free(ptr);
            }
        }
    }

    std::vector<uint32_t> queued(ucp_entity &e)
    {
        std::vector<uint32_t> imms;
        ucp_wimm_notification_t n;
        unsigned count;

        while ((ucp_wimm_poll(e.wimm(), &n, 1, &count) == UCS_OK) &&
               (count == 1)) {
            imms.push_back(n.imm);
        }
        return imms;
    }
};


TEST_F(test_ucp_handler, chooses_what_goes_into_the_queue)
{
    receiver().on_arrival = [&](const ucp_wimm_notification_t &n) {
        return (n.imm % 2) ? UCS_INPROGRESS : UCS_OK;
    };
    notify(sender(), 0, 6);
    ASSERT_TRUE(wait_arrivals(receiver(), 6));
    EXPECT_EQ(std::vector<uint32_t>({ 1, 3, 5 }), queued(receiver()));

    /* Without a handler all do, and what is there stays */
    receiver().on_arrival = [&](const ucp_wimm_notification_t &) {
        EXPECT_OK(ucp_wimm_set_handler(receiver().wimm(), NULL, NULL));
        return UCS_INPROGRESS;
    };
    notify(sender(), 10, 3);
    ASSERT_TRUE(wait_for([&] { return query(receiver()).queue.length == 3; }));
    EXPECT_EQ(7u, receiver().arrivals.size());
    EXPECT_EQ(std::vector<uint32_t>({ 10, 11, 12 }), queued(receiver()));
}

TEST_F(test_ucp_handler, answers_and_takes_from_the_queue)
{
    const uint32_t count = 500;

    receiver().on_arrival = [&](const ucp_wimm_notification_t &n) {
        notify(receiver(), n.imm, 1);
        queued(receiver());
        return UCS_OK;
    };
    notify(sender(), 0, count);
    ASSERT_TRUE(wait_arrivals(sender(), count));
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, sender().arrivals[i].imm);
    }
}

TEST_F(test_ucp_handler, closes_the_endpoint)
{
    const bool is_told        = default_connection() != connection::ADDRESS;
    ucp_request_param_t param = {};
    ucs_status_ptr_t closing  = nullptr;

    receiver().on_arrival = [&](const ucp_wimm_notification_t &n) {
        if ((n.imm == 2) && (receiver().num_eps() > 0)) {
            EXPECT_EQ(receiver().ep(), n.ep);
            closing = ucp_ep_close_nbx(receiver().release_ep(), &param);
        }
        return UCS_INPROGRESS;
    };
    notify(sender(), 0, 5);
    ASSERT_TRUE(wait_for([&] { return receiver().arrivals.size() >= 3; }));
    EXPECT_OK(wait(closing));

    /* A connection manager tells the peer, whose endpoint fails, and nothing else */
    if (is_told) {
        ASSERT_TRUE(wait_for([&] { return !sender().errors.empty(); }));
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, sender().errors[0].second);
        ASSERT_TRUE(wait_arrivals(sender(), 1));
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, sender().arrivals[0].status);
        EXPECT_EQ(sender().ep(), sender().arrivals[0].ep);
    }
    EXPECT_EQ(is_told, sender().errors.size());
    EXPECT_EQ(is_told, sender().arrivals.size());

    /* Records in the queue do not keep a handle that may be freed */
    ucp_wimm_notification_t n[8];
    unsigned count;
    ASSERT_OK(ucp_wimm_poll(receiver().wimm(), n, 8, &count));
    EXPECT_GE(count, 3u);
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(i, n[i].imm);
        EXPECT_EQ(nullptr, n[i].ep);
    }
}

TEST_F(test_ucp_handler, detaching_leaves_what_was_issued)
{
    std::deque<put_request> requests(1000);
    uint32_t imm = 0;

    for (put_request &r : requests) {
        ucp_request_param_t param = r.param();

        r.ptr = ucp_wimm_notify_nbx(sender().wimm(), sender().ep(), imm++,
                                    &param);
    }
    sender().detach();
    sender().attach();
    ASSERT_TRUE(wait_arrivals(receiver(), requests.size()));
    for (put_request &r : requests) {
        EXPECT_OK(wait(r));
    }
    for (uint32_t i = 0; i < requests.size(); ++i) {
        ASSERT_EQ(i, receiver().arrivals[i].imm);
    }
    notify(sender(), imm, 1);
    ASSERT_TRUE(wait_arrivals(receiver(), requests.size() + 1));
}

TEST_F(test_ucp_handler, detaching_gives_the_slots_back)
{
    const uint32_t slots = query(receiver()).cap.num_slots;

    ASSERT_OK(ucp_wimm_set_handler(receiver().wimm(), NULL, NULL));
    notify(sender(), 0, slots);
    ASSERT_TRUE(
            wait_for([&] { return query(receiver()).queue.length == slots; }));
    receiver().detach();
    notify(sender(), slots, slots);
    receiver().attach();
    ASSERT_TRUE(wait_arrivals(receiver(), slots));
    EXPECT_EQ(slots, receiver().arrivals[0].imm);
}


/* Endpoints without error handling */
class test_ucp_no_err : public ucp_test {};


TEST_F(test_ucp_no_err, put_that_fails_ends_nothing_and_notifies_nobody)
{
    ucp_entity::params p;
    put_request r;
    ucp_request_param_t param = r.param();

    create_pair(p, UCP_ERR_HANDLING_MODE_NONE);
    ucp_buffer src(sender(), 64), dst(receiver(), 64);
    auto rkey = dst.unpack(sender().ep());

    ASSERT_OK(flush(sender()));
    allow_error("completion with error");
    allow_error("will not be handled");
    allow_error("error during flush"); /* UCP's, when it is closed */
    allow_error("endpoint failed");
    r.ptr = ucp_wimm_put_nbx(sender().wimm(), sender().ep(), src.ptr(), 64,
                             bad_address(dst), rkey.get(), 1, &param);
    cut();
    ASSERT_TRUE(wait_for([&] {
        ucp_wimm_ep_attr_t attr;

        attr.field_mask = UCP_WIMM_EP_ATTR_FIELD_REASON;
        EXPECT_OK(ucp_wimm_ep_query(sender().wimm(), sender().ep(), &attr));
        return attr.reason == UCP_WIMM_REASON_FAILED;
    }));
    for (unsigned i = 0; i < 1000; ++i) {
        progress();
    }
    for (const arrival &a : receiver().arrivals) {
        EXPECT_NE(UCS_OK, a.status);
    }
    if (UCS_PTR_IS_PTR(r.ptr)) {
        ucp_request_free(r.ptr);
    }
}
