/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <algorithm>


/* Endpoints that fail, are closed, and made again: often at the same address */
class test_ucp_reconnect : public ucp_test {
  protected:
    void SetUp() override
    {
        ucp_test::SetUp();
        allow_failure();
    }

    void create_entities(bool handler)
    {
        ucp_entity::params p;

        p.config  = config_that_fails_soon();
        p.handler = handler;
        create(p);
        p.handler = true;
        create(p);
    }

    /* Nothing but progress and the handler of the program tells that it failed */
    void connect_and_fail(const ucp_buffer &src, const ucp_buffer &dst)
    {
        sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
        if ((emulated_tls() != nullptr) && (receiver().num_eps() == 0)) {
            /* UCX 1.13 cannot destroy a worker after a connection that the program did not
             * have was cut (an assertion of its TCP transport) */
            receiver().connect_address(sender(), UCP_ERR_HANDLING_MODE_PEER);
        }
        fail_endpoint(sender(), receiver(), src, dst);
    }

    void close_all()
    {
        close(sender(), 0, UCP_EP_CLOSE_FLAG_FORCE);
        close_by_force(receiver());
        /* What UCP does after that */
        for (unsigned i = 0; i < 1000; ++i) {
            progress();
        }
    }
};


TEST_F(test_ucp_reconnect, each_failure_is_told_to_the_handler)
{
    create_entities(true);
    ucp_buffer src(sender(), 65536), dst(receiver(), 65536);
    std::vector<ucp_ep_h> eps;

    for (size_t i = 0; i < 4; ++i) {
        connect_and_fail(src, dst);
        ASSERT_TRUE(wait_arrivals(sender(), i + 1)) << i;
        expect_failure(sender().errors[i].second, sender().arrivals[i].status);
        EXPECT_EQ(sender().ep(), sender().arrivals[i].ep);
        eps.push_back(sender().ep());
        close_all();
    }
    EXPECT_EQ(4u, sender().arrivals.size());

    /* What it is about */
    std::sort(eps.begin(), eps.end());
    EXPECT_LT(std::unique(eps.begin(), eps.end()) - eps.begin(), 4);
}

TEST_F(test_ucp_reconnect, records_of_a_closed_endpoint_do_not_have_it)
{
    create_entities(false);
    ucp_buffer src(sender(), 65536), dst(receiver(), 65536);
    ucp_request_param_t param = {};
    ucp_wimm_notification_t n[3];
    unsigned count;

    receiver().connect_address(sender(), UCP_ERR_HANDLING_MODE_PEER);
    ASSERT_OK(wait(ucp_wimm_notify_nbx(receiver().wimm(), receiver().ep(), 7,
                                       &param)));
    ASSERT_TRUE(wait_for([&] { return query(sender()).queue.length == 1; }));
    connect_and_fail(src, dst);
    ASSERT_TRUE(wait_for([&] { return query(sender()).queue.length == 2; }));
    close_all();

    ASSERT_OK(ucp_wimm_poll(sender().wimm(), n, 3, &count));
    ASSERT_EQ(2u, count);
    EXPECT_OK(n[0].status);
    EXPECT_EQ(7u, n[0].imm);
    EXPECT_EQ(nullptr, n[0].ep);
    EXPECT_NE(UCS_OK, n[1].status);
    EXPECT_EQ(nullptr, n[1].ep);
}

TEST_F(test_ucp_reconnect, handler_that_closes_and_leaves_it_in_the_queue)
{
    create_entities(true);
    ucp_buffer src(sender(), 65536), dst(receiver(), 65536);
    ucp_wimm_notification_t n;
    unsigned count           = 7;
    ucs_status_ptr_t request = nullptr;

    sender().on_arrival = [&](const ucp_wimm_notification_t &record) {
        ucp_request_param_t param = {};

        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags        = UCP_EP_CLOSE_FLAG_FORCE;
        sender().release_ep();
        request = ucp_ep_close_nbx(record.ep, &param);
        /* Has that noticed, and finds nothing */
        EXPECT_OK(ucp_wimm_poll(sender().wimm(), &n, 1, &count));
        EXPECT_EQ(0u, count);
        return UCS_INPROGRESS;
    };
    connect_and_fail(src, dst);
    ASSERT_TRUE(wait_arrivals(sender(), 1));
    EXPECT_OK(wait(request));
    ASSERT_OK(ucp_wimm_poll(sender().wimm(), &n, 1, &count));
    ASSERT_EQ(1u, count);
    EXPECT_NE(UCS_OK, n.status);
    EXPECT_EQ(nullptr, n.ep);
    close_by_force(receiver());
}
