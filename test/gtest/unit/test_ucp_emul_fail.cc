/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "emul_test.h"


/* Emulated endpoints that fail, or are closed, at each of the steps. The fixture sees it
 * if UCP is called with one that is gone, and if an operation ends twice or never. */
class test_ucp_emul_fail : public emul_test {
  protected:
    void SetUp() override
    {
        emul_test::SetUp();
        start(8);
        for (const char *word : { "put", "flush", "close", "NOTIFY" }) {
            m_ucp.always(word, UCS_INPROGRESS);
        }
    }

    /* The endpoint is gone for the library, and nothing is sent on it from now on */
    void check_gone()
    {
        settle();
        EXPECT_TRUE(ucs_list_is_empty(&wimm()->emul.list));
        EXPECT_TRUE(ucs_list_is_empty(&wimm()->emul.dead));
        took();
    }

    void check_silent()
    {
        settle();
        EXPECT_EQ(strings(), took());
    }

    records told()
    {
        return to_records(poll());
    }
};


TEST_F(test_ucp_emul_fail, fails_before_the_hello)
{
    put(1);
    put(2);
    EXPECT_EQ(strings({ "PROBE" }), took());
    emul();
    ucp_fails(0);
    settle();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CONNECTION_RESET),
                        end(2, UCS_ERR_CONNECTION_RESET) }),
              ended());
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) } }), told());
    put(3);
    EXPECT_EQ(strings({ end(3, UCS_ERR_CONNECTION_RESET) }), ended());
    EXPECT_EQ(nullptr, flush());
    check_silent();
}

/* The probe shows why */
TEST_F(test_ucp_emul_fail, fails_with_what_the_probe_ended_with)
{
    m_ucp.always("PROBE", UCS_INPROGRESS);
    put(1);
    complete("PROBE", UCS_ERR_UNREACHABLE);
    EXPECT_EQ(strings(), ended());
    ucp_fails(0);
    settle();
    EXPECT_EQ(strings({ end(1, UCS_ERR_UNREACHABLE) }), ended());
    EXPECT_EQ(records({ { UCS_ERR_UNREACHABLE, 0, 0, ep(0) } }), told());
}

TEST_F(test_ucp_emul_fail, fails_while_some_wait_for_slots)
{
    ready(1);
    put(1);
    put(2);
    flush()->imm = 100;
    close()->imm = 200;
    took();
    ucp_fails(0);
    settle();
    EXPECT_EQ(strings({ end(2, UCS_ERR_CONNECTION_RESET),
                        end(100, UCS_ERR_CONNECTION_RESET) }),
              ended());

    /* The program has asked for that */
    EXPECT_EQ(strings({ "close" }), took());
    complete("close");
    EXPECT_EQ(strings({ "200" }), ended());
    complete("put 1", UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(strings({ end(1, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
    check_silent();
}

TEST_F(test_ucp_emul_fail, put_fails_with_the_endpoint)
{
    ready(8);
    put(1);
    put(2);
    put(3);
    ucp_fails(0);
    took();
    complete("put 1", UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(strings({ end(1, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
    complete("put 2", UCS_ERR_CANCELED); /* What follows from it */
    complete("put 3"); /* It was in time, but nobody can be told */
    settle();
    EXPECT_EQ(strings({ end(2, UCS_ERR_CANCELED),
                        end(3, UCS_ERR_ENDPOINT_TIMEOUT) }),
              ended());
    EXPECT_EQ(records({ { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }), told());
    check_silent();
}

/* The library has not seen it fail */
TEST_F(test_ucp_emul_fail, flush_fails_with_the_endpoint)
{
    ready(8);
    put(1);
    complete("put 1");
    took();
    ucp_fails(0);
    complete("flush", UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(strings({ end(1, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
    check_silent();
    EXPECT_EQ(records({ { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }), told());
}

TEST_F(test_ucp_emul_fail, fails_while_the_flush_is_in_flight)
{
    ready(8);
    put(1);
    put(2);
    complete("put 1");
    ucp_fails(0);
    settle();
    took();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CONNECTION_RESET) }), ended());
    complete("flush"); /* The other one is not notified of it */
    complete("put 2");
    EXPECT_EQ(strings({ end(2, UCS_ERR_CONNECTION_RESET) }), ended());
    check_silent();
}

/* Nothing but the flush has it */
TEST_F(test_ucp_emul_fail, flush_ends_after_all_else_of_its_endpoint)
{
    ready(8);
    put(1);
    complete("put 1");
    emul();
    ep_closed(ep(0));
    check_gone();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CANCELED) }), ended());
    complete("flush", UCS_ERR_CANCELED);
    check_silent();
}

TEST_F(test_ucp_emul_fail, fails_while_the_message_is_in_flight)
{
    ready(8);
    put(1);
    put(2);
    complete("put 1");
    complete("flush");
    complete("put 2");
    took();
    emul();
    ucp_fails(0);
    check_gone();
    EXPECT_EQ(strings({ end(2, UCS_ERR_CONNECTION_RESET) }), ended());
    complete("NOTIFY 1 8", UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(strings({ end(1, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
    complete("flush", UCS_ERR_CANCELED);
    check_silent();
}

TEST_F(test_ucp_emul_fail, closed_at_each_step)
{
    ready(4);
    put(1);
    put(2);
    put(3);
    put(4);
    complete("put 1");
    complete("flush"); /* 1 is notified */
    complete("put 2"); /* 2 is flushed, 3 and 4 are written, 5 waits */
    put(5);
    flush()->imm = 100;
    took();
    emul();
    ep_closed(ep(0));
    check_gone();
    EXPECT_EQ(strings({ end(2, UCS_ERR_CANCELED), end(5, UCS_ERR_CANCELED),
                        end(100, UCS_ERR_CANCELED) }),
              ended());
    complete("put 3", UCS_ERR_IO_ERROR);
    complete("put 4", UCS_ERR_CANCELED);
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings({ end(3, UCS_ERR_IO_ERROR), end(4, UCS_ERR_CANCELED),
                        end(1) }),
              ended());
    complete("flush", UCS_ERR_CANCELED);
    check_silent();
}

/* Its memory is another endpoint's, before the library has looked */
TEST_F(test_ucp_emul_fail, closed_and_another_one_is_at_its_address)
{
    ready(8);
    put(1);
    emul();
    ep_closed(ep(0));
    put(2);
    EXPECT_EQ(strings({ "put 1", "PROBE" }), took());
    hello(8);
    EXPECT_EQ(strings({ "put 2" }), took());
    complete("put 1", UCS_ERR_CANCELED);
    settle();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CANCELED) }), ended());
    complete("put 2");
    complete("flush");
    EXPECT_EQ(strings({ "flush", "NOTIFY 2 8" }), took());
    EXPECT_EQ(8u - 1, slots());
}

TEST_F(test_ucp_emul_fail, one_fails_and_the_others_go_on)
{
    ready(8, 0);
    ready(8, 1);
    put(1, 8, 0);
    put(2, 8, 1);
    ucp_fails(0);
    settle();
    took();
    complete("1:put 2");
    complete("1:flush");
    EXPECT_EQ(strings({ "1:flush", "1:NOTIFY 2 8" }), took());
    put(3, 8, 1);
    EXPECT_EQ(strings({ "1:put 3" }), took());
}

/* The peer's puts come natively, and something of them may still be delivered */
TEST_F(test_ucp_emul_fail, fails_with_a_native_connection)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);

    put(1);
    emul();
    ucp_fails(0);
    peer.purge(UCS_ERR_ENDPOINT_TIMEOUT);
    settle();
    put(2);
    EXPECT_EQ(strings({ end(2, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
    notify(peer, 7);
    peer.disconnect();
    check_gone();
    EXPECT_EQ(strings({ end(1, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
    EXPECT_EQ(records({ { UCS_OK, 7, 0, ep(0) },
                        { UCS_ERR_ENDPOINT_TIMEOUT, 0, 0, ep(0) } }),
              told());
}

TEST_F(test_ucp_emul_fail, fails_after_all_was_done)
{
    ready(8);
    emul();
    ucp_fails(0);
    check_gone();
    EXPECT_EQ(records({ { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) } }), told());
    check_silent();
}

/* One that only UCP has: it replies on it, and frees it without an event */
TEST_F(test_ucp_emul_fail, internal_endpoint_freed_before_slots_return)
{
    ep(0);
    fake(0).open = false;
    arrive({ 1, 2, 3, 4, 5 });
    poll(2);
    EXPECT_EQ(strings({ "SLOTS 2" }), took());
    emul();
    freed_unseen(0);
    EXPECT_EQ(3u, queued().size());
    check_gone();
}

TEST_F(test_ucp_emul_fail, internal_endpoint_freed_while_one_waits)
{
    ep(0);
    fake(0).open = false;
    ready(8);
    put(1);
    put(2);
    took();
    emul();
    freed_unseen(0);
    complete("put 1");
    complete("put 2");
    check_silent();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CANCELED), end(2, UCS_ERR_CANCELED) }),
              ended());
}

/* Whether it gets a native way is not looked up any more */
TEST_F(test_ucp_emul_fail, internal_endpoint_freed_before_it_is_connected)
{
    ep(0);
    fake(0).open = false;
    arrive(UCP_WIMM_EMUL_PROBE);
    EXPECT_EQ(strings({ "HELLO 8" }), took());
    emul();
    settle();
    EXPECT_FALSE(ucs_list_is_empty(&wimm()->ep.connecting));
    freed_unseen(0);
    check_gone();
    EXPECT_TRUE(ucs_list_is_empty(&wimm()->ep.connecting));
}

TEST_F(test_ucp_emul_fail, slots_return_to_nobody)
{
    arrive({ 1, 2, 3 });
    emul();
    ucp_fails(0);
    check_gone();
    EXPECT_EQ(records({ { UCS_OK, 1, 0, ep(0) },
                        { UCS_OK, 2, 0, ep(0) },
                        { UCS_OK, 3, 0, ep(0) },
                        { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) } }),
              told());
    check_silent();
}

TEST_F(test_ucp_emul_fail, close_of_the_chain_ends_its_endpoint)
{
    m_ucp.always("close", UCS_OK);
    put(1);
    close()->imm = 100;
    for (const char *word : { "put", "flush", "NOTIFY" }) {
        m_ucp.always(word, UCS_OK);
    }
    hello(8);
    EXPECT_EQ(strings({ "PROBE", "put 1", "flush", "NOTIFY 1 8", "BYE",
                        "close" }),
              took());
    EXPECT_EQ(strings({ "1", "100" }), ended());
    emul();
    check_gone();
    EXPECT_EQ(records(), told());
}

TEST_F(test_ucp_emul_fail, closed_by_force_before_the_close_of_the_chain)
{
    ready(8);
    put(1);
    close()->imm = 100;
    took();
    ep_closed(ep(0));
    complete("put 1", UCS_ERR_CANCELED);
    check_silent();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CANCELED), end(100, UCS_ERR_CANCELED) }),
              ended());
}

TEST_F(test_ucp_emul_fail, arm_while_one_is_to_be_told)
{
    put(1);
    ep_closed(ep(0));
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(strings({ end(1, UCS_ERR_CANCELED) }), ended());
    EXPECT_OK(ucp_wimm_arm(wimm()));
}
