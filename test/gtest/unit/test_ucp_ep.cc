/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "recv_test.h"


/* What the library knows of the worker's endpoints, from what UCP shows of them */
class test_ucp_ep : public recv_test {
  protected:
    /* The endpoint gets connected, and that is seen */
    void connect(unsigned index, fake_peer &peer)
    {
        fake(index).uct_ep = reinterpret_cast<uct_ep_h>(&peer);
        EXPECT_EQ(0u, progress());
        ASSERT_NE(nullptr, peer.super.ep);
        EXPECT_EQ(fake(index).handle(), ucp_wimm_ep_handle(peer.super.ep));
    }

    records told()
    {
        return to_records(poll());
    }
};


TEST_F(test_ucp_ep, fails_before_it_is_connected)
{
    ep(0);
    EXPECT_EQ(0u, progress());
    ucp_fails(0);
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(0u, progress());
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) } }), told());
    ucp_fails(0); /* Something happens again */
    EXPECT_EQ(0u, progress());
    fake_peer(wimm(), ep(0), 1, &m_slots); /* And something comes late */
    EXPECT_EQ(0u, progress());
    EXPECT_EQ(1u, wimm()->stats.failures);
}

TEST_F(test_ucp_ep, fails_after_all_was_delivered)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    ep(0);
    connect(0, peer);
    ucp_fails(0);
    EXPECT_EQ(0u, progress());
    peer.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(0u, progress());
    EXPECT_OK(ucp_wimm_arm(wimm()));
    notify(peer, 7);
    peer.disconnect();
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(records({ { UCS_OK, 7, 0, ep(0) },
                        { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }),
              told());
    EXPECT_EQ(0u, progress());
}

TEST_F(test_ucp_ep, fails_when_its_last_connection_is_gone)
{
    fake_peer a(wimm(), NULL, 1, &m_slots), b(wimm(), ep(0), 2, &m_slots);

    connect(0, a);
    ucp_fails(0);
    a.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    b.purge(UCS_ERR_CANCELED); /* What follows from it */
    a.disconnect();
    EXPECT_EQ(0u, progress());
    b.disconnect();
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(records({ { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }), told());
}

TEST_F(test_ucp_ep, failed_and_closed_before_it_is_told)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    ucp_wimm_counter_h c = bound(ep(0));

    connect(0, peer);
    ucp_fails(0);
    peer.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    ep_closed(ep(0));
    peer.disconnect();
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(records({ { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, NULL } }), told());
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_ep, closed_by_the_error_callback)
{
    ep(0);
    EXPECT_EQ(0u, progress());
    fake(0).told   = true;
    fake(0).closed = true;
    ucp_fails(0);
    EXPECT_EQ(1u, progress());
    ep_freed(ep(0));
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, NULL } }), told());
}

/* It was connected, but UCP did not know yet */
TEST_F(test_ucp_ep, fails_without_a_purge)
{
    fake_peer a(wimm(), ep(0), 1, &m_slots), b(wimm(), ep(1), 2, &m_slots);

    EXPECT_EQ(0u, progress());
    ucp_fails(0);
    ucp_fails(1);
    fake(1).told = fake(1).closed = true;
    EXPECT_EQ(0u, progress());
    notify(a, 1);
    a.disconnect();
    EXPECT_EQ(1u, progress());
    b.disconnect();
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(records({ { UCS_OK, 1, 0, ep(0) },
                        { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) },
                        { UCS_ERR_CONNECTION_RESET, 0, 0, NULL } }),
              told());
}

TEST_F(test_ucp_ep, closed_does_not_fail)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    ep(0);
    connect(0, peer);
    fake(0).closed = true;
    ucp_fails(0); /* As a forced close does */
    peer.purge(UCS_ERR_CANCELED);
    EXPECT_EQ(0u, progress());
    notify(peer, 1);
    peer.disconnect();
    ep_closed(fake(0).handle());
    EXPECT_EQ(0u, progress());
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL } }), told());
}

TEST_F(test_ucp_ep, closed_may_be_freed_at_any_time)
{
    ep(0);
    EXPECT_EQ(0u, progress());
    fake(0).closed = true;
    ++m_worker.events;
    EXPECT_EQ(0u, progress());
    ep_freed(ep(0));
    EXPECT_EQ(0u, progress()); /* Does not look at it */
}

TEST_F(test_ucp_ep, not_the_programs_may_be_freed_with_its_connection)
{
    ep(0);
    fake(0).open = false;
    {
        fake_peer peer(wimm(), ep(0), 1, &m_slots);

        EXPECT_EQ(0u, progress());
    }
    ep_freed(ep(0));
    EXPECT_EQ(0u, progress());
}

TEST_F(test_ucp_ep, each_of_several_at_one_address_fails)
{
    ucp_wimm_counter_h all = counter(NULL), first = bound(ep(0));

    for (unsigned i = 0; i < 3; ++i) {
        fake_peer peer(wimm(), NULL, 1, &m_slots);

        ep(0);
        connect(0, peer);
        ucp_fails(0);
        peer.purge(UCS_ERR_ENDPOINT_TIMEOUT);
        peer.disconnect();
        EXPECT_EQ(1u, progress());
        EXPECT_EQ(records({ { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }),
                  told());
        EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(all));
        EXPECT_STATUS((i == 0) ? UCS_ERR_ENDPOINT_TIMEOUT :
                                 UCS_ERR_NOT_CONNECTED,
                      ucp_wimm_counter_test(first));
        ep_closed(ep(0));
    }
}

TEST_F(test_ucp_ep, next_one_at_the_address_is_another_one)
{
    ucp_wimm_counter_h c = bound(ep(0));

    /* Both before anybody looks */
    ep_closed(ep(0));
    fake_peer peer(wimm(), ep(0), 1, &m_slots);
    EXPECT_STATUS(UCS_INPROGRESS, notify(peer, 1));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(c));
    EXPECT_EQ(0u, read(c));
    EXPECT_EQ(records({ { UCS_OK, 1, 0, ep(0) } }), told());

    ucp_wimm_counter_h next = bound(ep(0));
    EXPECT_OK(notify(peer, 1));
    EXPECT_OK(ucp_wimm_counter_test(next));
}

TEST_F(test_ucp_ep, records_keep_the_one_that_was_closed_from_the_next)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);

    notify(peer, 1);
    peer.disconnect();
    ep_closed(ep(0));
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL } }), (ep(0), told()));
}

TEST_F(test_ucp_ep, failed_before_attaching)
{
    detach();
    ep(0);
    ucp_fails(0);
    attach();
    EXPECT_EQ(0u, progress());
    EXPECT_TRUE(told().empty());

    /* Waiting for it would have no end */
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET,
                  ucp_wimm_counter_test(bound(ep(0))));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(counter(NULL)));
}

TEST_F(test_ucp_ep, counter_of_one_that_has_failed)
{
    ep(0);
    progress();
    ucp_fails(0);
    progress();
    ucp_wimm_counter_h c = bound(ep(0));
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_ep, failure_does_not_hide_that_the_count_is_reached)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);
    ucp_wimm_counter_h c = bound(ep(0));

    notify(peer, 1);
    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    poll();
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_OK(ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_ep, connection_is_replaced)
{
    fake_peer first(wimm(), NULL, 1, &m_slots), next(wimm(), NULL, 2, &m_slots);

    ep(0);
    connect(0, first);
    first.purge(UCS_ERR_CANCELED);
    fake(0).uct_ep = NULL;
    first.disconnect();
    connect(0, next);
    ucp_fails(0);
    next.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(0u, progress());
    next.disconnect();
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(records({ { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }), told());
}

TEST_F(test_ucp_ep, not_the_programs)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    ep(0);
    fake(0).open = false; /* UCP made it for a peer */
    EXPECT_EQ(0u, progress());
    EXPECT_EQ(0u, m_worker.num_infos);
    peer.set_ep(ep(0));
    notify(peer, 1);
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL } }), told());

    /* The program gets it */
    notify(peer, 2);
    fake(0).open = true;
    ++m_worker.events;
    EXPECT_EQ(records({ { UCS_OK, 2, 0, ep(0) } }), told());
}

TEST_F(test_ucp_ep, not_the_programs_is_gone_without_a_failure)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    ep(0);
    fake(0).open = false;
    peer.set_ep(ep(0));
    notify(peer, 1);
    peer.disconnect();
    ucp_fails(0);
    EXPECT_EQ(0u, progress());
    peer.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    ep_closed(ep(0));
    ep(0); /* One of the program, at its address */
    EXPECT_EQ(0u, progress());
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL } }), told());
}

TEST_F(test_ucp_ep, progress_looks_only_if_something_happened)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    ep(0);
    connect(0, peer);
    const unsigned looks = m_worker.num_looks, infos = m_worker.num_infos;
    alloc_nth none(0);
    for (unsigned i = 0; i < 100; ++i) {
        EXPECT_EQ(0u, progress());
        EXPECT_OK(ucp_wimm_arm(wimm()));
    }
    EXPECT_EQ(looks, m_worker.num_looks);
    EXPECT_EQ(infos, m_worker.num_infos);
    EXPECT_EQ(0u, alloc_nth::count());
}

/* Nothing but progress is called, and it has had nothing to do */
TEST_F(test_ucp_ep, progress_finds_a_failure_soon)
{
    const unsigned soon = 16;

    ep(0);
    fake(0).no_lane = true;
    for (unsigned i = 0; i < (2 * soon) + 3; ++i) {
        EXPECT_EQ(0u, progress());
    }

    ucp_fails(0);
    for (unsigned i = 0; (i < soon) && (wimm()->stats.failures == 0); ++i) {
        progress();
    }
    EXPECT_EQ(1u, wimm()->stats.failures);
}

TEST_F(test_ucp_ep, what_arm_finds_is_told_at_once)
{
    ep(0);
    fake(0).no_lane = true;
    for (unsigned i = 0; i < 3; ++i) {
        EXPECT_EQ(0u, progress());
    }

    ucp_fails(0);
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(1u, wimm()->stats.failures);
}

TEST_F(test_ucp_ep, progress_looks_at_few_that_connect)
{
    for (unsigned i = 0; i < 12; ++i) {
        ep(i);
    }
    progress();
    EXPECT_LT(0u, m_worker.num_infos);
    EXPECT_GT(12u, m_worker.num_infos);

    /* All get their turn */
    for (unsigned i = 0; i < 12; ++i) {
        fake_peer peer(wimm(), NULL, 1, &m_slots);

        fake(i).uct_ep = reinterpret_cast<uct_ep_h>(&peer);
        progress();
        progress();
        EXPECT_NE(nullptr, peer.super.ep);
        ep_closed(ep(i));
        progress();
    }
}

TEST_F(test_ucp_ep, arm_looks_at_all_that_connect)
{
    for (unsigned i = 0; i < 12; ++i) {
        ep(i);
    }
    progress();
    m_worker.num_infos = 0;
    EXPECT_OK(ucp_wimm_arm(wimm()));
    EXPECT_EQ(12u, m_worker.num_infos);
}

TEST_F(test_ucp_ep, one_is_looked_at_once)
{
    ep(0);
    progress();
    EXPECT_EQ(1u, m_worker.num_infos);
}

TEST_F(test_ucp_ep, without_a_lane_is_not_looked_at_again)
{
    ep(0);
    fake(0).no_lane = true;
    progress();
    progress();
    EXPECT_EQ(1u, m_worker.num_infos);
}

TEST_F(test_ucp_ep, handler_closes_others_that_failed)
{
    records seen;

    ep(0);
    ep(1);
    progress();
    set_handler([&](const ucp_wimm_notification_t &n) {
        seen.push_back(n);
        if (seen.size() == 1) {
            ep_closed(ep(0));
            ep_closed(ep(1));
        }
        return UCS_INPROGRESS;
    });
    ucp_fails(0);
    ucp_fails(1);
    EXPECT_EQ(2u, progress());
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, fake(0).handle() },
                        { UCS_ERR_CONNECTION_RESET, 0, 0, NULL } }),
              seen);
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, NULL },
                        { UCS_ERR_CONNECTION_RESET, 0, 0, NULL } }),
              told());
}

TEST_F(test_ucp_ep, detaching_with_failures_to_be_told)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);
    ucp_wimm_counter_h c = bound(ep(0));

    ep(1);
    connect(0, peer);
    ucp_fails(0);
    ucp_fails(1);
    peer.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    peer.disconnect();
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    detach();
    EXPECT_EQ(0u, read(c));
}

TEST_F(test_ucp_ep, no_memory_to_know_it)
{
    ucp_wimm_counter_params_t params = {};
    ucp_wimm_counter_h c             = NULL;

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP;
    params.ep         = ep(0);
    for (unsigned nth = 1; nth <= 3; ++nth) {
        alloc_nth fault(nth);

        allow_error("failed to allocate memory for a counter");
        EXPECT_STATUS(UCS_ERR_NO_MEMORY,
                      ucp_wimm_counter_create(wimm(), &params, &c));
        EXPECT_EQ(nullptr, c);
    }

    /* It is seen later */
    ucp_fails(0);
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) } }), told());
}
