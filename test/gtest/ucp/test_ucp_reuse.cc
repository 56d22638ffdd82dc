/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"


/* UCP uses the memory of an endpoint that was closed for the next one, and a program that
 * only progresses tells this library of neither */
class test_ucp_reuse : public ucp_test {
  protected:
    static const unsigned max_tries = 5;

    void SetUp() override
    {
        ucp_test::SetUp();
        m_params.conn   = connection::ADDRESS;
        m_params.config = config_that_fails_soon();
        create(m_params);
        allow_failure();
    }

    ucp_entity &e()
    {
        return entity(0);
    }

    ucp_ep_h connect(ucp_entity &peer)
    {
        return e().connect_address(peer, UCP_ERR_HANDLING_MODE_PEER);
    }

    /* Have the endpoint fail, and close it; without a call that looks for failures */
    void fail_and_close(ucp_entity &peer)
    {
        const size_t length = 1 << 20;
        const size_t before = e().errors.size();
        ucp_buffer src(e(), length), dst(peer, length);

        if (emulated_tls() != nullptr) {
            peer.connect_address(e(), UCP_ERR_HANDLING_MODE_PEER);
        }
        fail_endpoint(e(), peer, src, dst);
        ASSERT_TRUE(wait_for([&] { return e().arrivals.size() > before; }));
        close(e(), 0, UCP_EP_CLOSE_FLAG_FORCE);
    }

    ucp_wimm_counter_h bound(ucp_ep_h ep)
    {
        ucp_wimm_counter_params_t params = {};
        ucp_wimm_counter_h c             = nullptr;

        params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP |
                            UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED;
        params.ep       = ep;
        params.expected = 100;
        EXPECT_OK(ucp_wimm_counter_create(e().wimm(), &params, &c));
        return c;
    }

    /* A peer notifies us */
    void notify_from(ucp_entity &peer)
    {
        const size_t before       = e().arrivals.size();
        ucp_request_param_t param = {};
        uint64_t notified         = query(e()).counters.notifications;

        EXPECT_OK(wait(ucp_wimm_notify_nbx(peer.wimm(), peer.ep(), 7, &param)));
        ASSERT_TRUE(wait_for(
                [&] { return query(e()).counters.notifications > notified; }));
        /* No counter has taken it */
        EXPECT_EQ(before + 1, e().arrivals.size());
    }

    /* An endpoint to a new peer that has the address of the last one */
    ucp_entity &connect_at(ucp_ep_h last)
    {
        /* UCP still has to give the memory back */
        for (unsigned i = 0; i < 1000; ++i) {
            progress();
        }

        for (unsigned i = 0; i < max_tries; ++i) {
            ucp_entity &peer = create(m_params);

            peer.connect_address(e(), UCP_ERR_HANDLING_MODE_PEER);
            if (connect(peer) == last) {
                return peer;
            }
        }
        ADD_FAILURE() << "no endpoint had the address of the last one";
        return entity(m_entities.size() - 1);
    }

    ucp_entity::params m_params;
};


TEST_F(test_ucp_reuse, counter_of_an_endpoint_that_was_closed)
{
    uint64_t count = 77;
    ucp_ep_h ep    = connect(create(m_params));
    ASSERT_OK(flush(e()));
    ucp_wimm_counter_h c = bound(ep);

    close(e(), 0, UCP_EP_CLOSE_FLAG_FORCE);
    notify_from(connect_at(ep));
    EXPECT_OK(ucp_wimm_counter_read(c, &count));
    EXPECT_EQ(0u, count);
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(c));
    ucp_wimm_counter_destroy(c);
}

TEST_F(test_ucp_reuse, counter_of_an_endpoint_that_failed_and_was_closed)
{
    uint64_t count = 77;
    ucp_ep_h ep    = connect(create(m_params));
    ASSERT_OK(flush(e()));
    ucp_wimm_counter_h c = bound(ep);

    fail_and_close(entity(1));
    notify_from(connect_at(ep));
    EXPECT_OK(ucp_wimm_counter_read(c, &count));
    EXPECT_EQ(0u, count);
    EXPECT_NE(UCS_INPROGRESS, ucp_wimm_counter_test(c)); /* The failure */
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(c));
    ucp_wimm_counter_destroy(c);
}
