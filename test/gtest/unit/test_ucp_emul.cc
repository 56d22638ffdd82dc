/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "emul_test.h"


/* What the emulation sends: put, flush, and message, in order */
class test_ucp_emul : public emul_test {
  protected:
    void SetUp() override
    {
        emul_test::SetUp();
        start(8);
    }

    /* UCP completes nothing at once */
    void slow()
    {
        for (const char *word :
             { "put", "flush", "close", "PROBE", "NOTIFY" }) {
            m_ucp.always(word, UCS_INPROGRESS);
        }
    }
};


TEST_F(test_ucp_emul, one_probe_however_many_wait)
{
    put(1);
    EXPECT_EQ(strings({ "PROBE" }), took());
    put(2);
    put(3, 0);
    settle();
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(strings(), ended());
    EXPECT_EQ(3u, wimm()->stats.emulated);
    hello(8);
    EXPECT_EQ(strings({ "put 1", "put 2", "flush", "NOTIFY 1 8", "NOTIFY 2 8",
                        "NOTIFY 3 0" }),
              took());
    EXPECT_EQ(strings({ "1", "2", "3" }), ended());
    put(4);
    EXPECT_EQ(strings({ "put 4", "flush", "NOTIFY 4 8" }), took());
    EXPECT_EQ(8u - 4, slots());
}

TEST_F(test_ucp_emul, one_probe_for_each_endpoint)
{
    put(1, 8, 0);
    put(2, 8, 1);
    EXPECT_EQ(strings({ "PROBE", "1:PROBE" }), took());
    hello(8, 1);
    EXPECT_EQ(strings({ "1:put 2", "1:flush", "1:NOTIFY 2 8" }), took());
    EXPECT_EQ(strings({ "2" }), ended());
}

TEST_F(test_ucp_emul, hello_while_the_probe_is_on_its_way)
{
    slow();
    put(1);
    hello(8);
    EXPECT_EQ(strings({ "PROBE", "put 1" }), took());
    complete("PROBE");
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul, no_probe_after_a_hello)
{
    ready(8);
    put(1);
    EXPECT_EQ(strings({ "put 1", "flush", "NOTIFY 1 8" }), took());
}

TEST_F(test_ucp_emul, second_hello_gives_no_slots)
{
    ready(2);
    put(1);
    hello(2);
    hello(5);
    EXPECT_EQ(1u, slots());
}

/* As UCX does between endpoints of one worker */
TEST_F(test_ucp_emul, all_arrives_inside_of_the_send)
{
    m_ucp.on_am = [this](ucp_ep_h ep, const ucp_wimm_emul_hdr_t &hdr) {
        arrive(ep, hdr);
    };
    put(7);
    EXPECT_EQ(strings({ "PROBE", "HELLO 8", "put 7", "flush", "NOTIFY 7 8" }),
              took());
    EXPECT_EQ(strings({ "7" }), ended());
    for (uint32_t imm = 0; imm < 20; ++imm) {
        put(imm, 0);
    }
    EXPECT_EQ(8u - 1, strings(ended()).size());
    EXPECT_EQ(std::vector<uint32_t>({ 7, 0, 1, 2, 3, 4, 5, 6, 7, 8 }),
              [this]() {
                  auto ns = poll(10);
                  std::vector<uint32_t> imms;
                  for (const auto &n : ns) {
                      EXPECT_EQ(ep(0), n.ep);
                      imms.push_back(n.imm);
                  }
                  return imms;
              }());
    EXPECT_EQ(11u, queued().size());
    EXPECT_EQ(20u - 7, ended().size());
}

/*
 * Order
 */

TEST_F(test_ucp_emul, notified_after_the_put_and_then_the_flush)
{
    ready(8);
    slow();
    put(1);
    EXPECT_EQ(strings({ "put 1" }), took());
    complete("put 1");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 1 8" }), took());
    EXPECT_EQ(strings(), ended());
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings({ "1" }), ended());
}

TEST_F(test_ucp_emul, flush_in_flight_does_not_cover_a_later_put)
{
    ready(8);
    slow();
    put(1);
    put(2);
    put(3);
    EXPECT_EQ(strings({ "put 1", "put 2", "put 3" }), took());
    complete("put 1");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("put 2");
    complete("put 3");
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 1 8", "flush" }), took());
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings(), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 2 8" }), took());
    complete("NOTIFY 2 8");
    EXPECT_EQ(strings({ "NOTIFY 3 8" }), took());
}

TEST_F(test_ucp_emul, notified_in_order_if_the_puts_complete_in_reverse)
{
    put(1);
    put(2);
    put(3);
    slow();
    hello(8);
    took();
    complete("put 3");
    complete("put 2");
    EXPECT_EQ(strings(), took());
    complete("put 1");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 1 8" }), took());
    complete("NOTIFY 1 8"); /* One message at a time */
    EXPECT_EQ(strings({ "NOTIFY 2 8" }), took());
    complete("NOTIFY 2 8");
    EXPECT_EQ(strings({ "NOTIFY 3 8" }), took());
    EXPECT_EQ(strings({ "1", "2" }), ended());
}

/* Plain puts may have been issued before it */
TEST_F(test_ucp_emul, notification_without_a_put_waits_for_a_flush)
{
    ready(8);
    slow();
    put(1, 0);
    put(2, 0);
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 1 0", "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings(), took());
    complete("NOTIFY 1 0");
    EXPECT_EQ(strings({ "NOTIFY 2 0" }), took());
}

TEST_F(test_ucp_emul, notified_after_all_puts_of_one)
{
    ready(8);
    slow();
    put(1, 24, 0, 3);
    EXPECT_EQ(strings({ "put 1.0", "put 1.1", "put 1.2" }), took());
    EXPECT_EQ(8u - 1, slots());
    complete("put 1.2");
    complete("put 1.0");
    EXPECT_EQ(strings(), took());
    complete("put 1.1");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 1 24" }), took());
}

TEST_F(test_ucp_emul, endpoints_do_not_wait_for_each_other)
{
    ready(8, 0);
    ready(8, 1);
    slow();
    put(1, 8, 0);
    put(2, 8, 1);
    complete("1:put 2");
    complete("1:flush");
    EXPECT_EQ(strings({ "put 1", "1:put 2", "1:flush", "1:NOTIFY 2 8" }),
              took());
}

/*
 * Slots
 */

TEST_F(test_ucp_emul, nothing_is_written_without_a_slot)
{
    ready(2);
    for (uint32_t imm = 1; imm <= 5; ++imm) {
        put(imm);
    }
    EXPECT_EQ(strings({ "1", "2" }), ended());
    EXPECT_EQ(strings({ "put 1", "flush", "NOTIFY 1 8", "put 2", "flush",
                        "NOTIFY 2 8" }),
              took());
    EXPECT_EQ(0u, slots());
    settle();
    EXPECT_EQ(strings(), took());
    arrive(UCP_WIMM_EMUL_SLOTS, 2);
    EXPECT_EQ(strings({ "put 3", "put 4", "flush", "NOTIFY 3 8",
                        "NOTIFY 4 8" }),
              took());
    arrive(UCP_WIMM_EMUL_SLOTS, 2);
    EXPECT_EQ(strings({ "3", "4", "5" }), ended());
    EXPECT_EQ(1u, slots());
}

TEST_F(test_ucp_emul, slots_come_back_before_all_are_used)
{
    ready(8);
    put(1);
    put(2);
    put(3);
    arrive(UCP_WIMM_EMUL_SLOTS, 2);
    EXPECT_EQ(8u - 3 + 2, slots());
}

TEST_F(test_ucp_emul, put_that_fails_at_once_keeps_no_slot)
{
    ready(1);
    m_ucp.answer("put", { UCS_ERR_NO_MEMORY });
    put(1);
    EXPECT_EQ(strings({ end(1, UCS_ERR_NO_MEMORY) }), ended());
    EXPECT_EQ(strings({ "put 1" }), took());
    EXPECT_EQ(1u, slots());
    put(2);
    EXPECT_EQ(strings({ "put 2", "flush", "NOTIFY 2 8" }), took());
}

TEST_F(test_ucp_emul, put_that_fails_later_gives_its_slot_to_the_next)
{
    ready(1);
    slow();
    put(1);
    put(2);
    EXPECT_EQ(strings({ "put 1" }), took());
    complete("put 1", UCS_ERR_IO_ERROR);
    EXPECT_EQ(strings({ "put 2" }), took());
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR) }), ended());
    complete("put 2");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 2 8" }), took());
}

TEST_F(test_ucp_emul, one_of_several_puts_fails_at_once)
{
    ready(8);
    slow();
    m_ucp.answer("put", { UCS_INPROGRESS, UCS_ERR_NO_MEMORY, UCS_INPROGRESS });
    put(1, 24, 0, 3);
    put(2);
    EXPECT_EQ(strings({ "put 1.0", "put 1.1", "put 1.2", "put 2" }), took());
    complete("put 2");
    complete("put 1.0", UCS_ERR_IO_ERROR); /* The first error counts */
    EXPECT_EQ(strings(), ended());
    complete("put 1.2");
    EXPECT_EQ(strings({ end(1, UCS_ERR_NO_MEMORY) }), ended());
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 2 8" }), took());
    EXPECT_EQ(8u - 1, slots());
}

TEST_F(test_ucp_emul, one_of_several_puts_fails_later)
{
    ready(8);
    slow();
    put(1, 16, 0, 2);
    complete("put 1.0", UCS_ERR_IO_ERROR);
    EXPECT_EQ(strings(), ended());
    complete("put 1.1");
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR) }), ended());
    EXPECT_EQ(strings({ "put 1.0", "put 1.1" }), took());
    EXPECT_EQ(8u, slots());
}

/*
 * Errors of the later steps
 */

TEST_F(test_ucp_emul, flush_that_fails_ends_all_it_covers)
{
    put(1);
    put(2);
    slow();
    hello(8);
    put(3);
    complete("put 2");
    complete("put 1");
    complete("put 3");
    took();
    complete("flush", UCS_ERR_IO_ERROR);
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR), end(2, UCS_ERR_IO_ERROR) }),
              ended());
    EXPECT_EQ(strings({ "flush" }), took());
    EXPECT_EQ(8u - 1, slots());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 3 8" }), took());
}

TEST_F(test_ucp_emul, message_that_fails_at_once)
{
    ready(2);
    m_ucp.answer("NOTIFY", { UCS_ERR_NO_MEMORY });
    put(1);
    EXPECT_EQ(strings({ end(1, UCS_ERR_NO_MEMORY) }), ended());
    EXPECT_EQ(2u, slots());
    put(2);
    EXPECT_EQ(strings({ "2" }), ended());
}

TEST_F(test_ucp_emul, message_that_fails_later)
{
    ready(8);
    slow();
    put(1);
    complete("put 1");
    complete("flush");
    complete("NOTIFY 1 8", UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(strings({ end(1, UCS_ERR_ENDPOINT_TIMEOUT) }), ended());
}

TEST_F(test_ucp_emul, no_memory_for_the_message)
{
    ready(1);
    expect_error("Failed to allocate memory pool");
    {
        alloc_nth fails(1);
        put(1);
    }
    EXPECT_EQ(strings({ end(1, UCS_ERR_NO_MEMORY) }), ended());
    EXPECT_EQ(strings({ "put 1", "flush" }), took());
    EXPECT_EQ(1u, slots());
    put(2);
    EXPECT_EQ(strings({ "2" }), ended());
}

TEST_F(test_ucp_emul, no_memory_for_the_endpoint)
{
    for (unsigned nth = 1; nth <= 2; ++nth) { /* It, and what is emulated */
        alloc_nth fails(nth);
        put(nth, 8, nth);
    }
    EXPECT_EQ(strings({ end(1, UCS_ERR_NO_MEMORY), end(2, UCS_ERR_NO_MEMORY) }),
              ended());
    EXPECT_EQ(strings(), took());
    {
        alloc_nth fails(1);
        EXPECT_EQ(nullptr, flush(3)); /* Nothing is in the chain */
    }
    put(4, 8, 1);
    EXPECT_EQ(strings({ "1:PROBE" }), took());
}

/* Or nobody would ask again */
TEST_F(test_ucp_emul, no_memory_for_the_probe)
{
    EXPECT_EQ(0u, slots());
    expect_error("Failed to allocate memory pool");
    {
        alloc_nth fails(2); /* After that for its data */
        put(1);
    }
    m_ucp.answer("PROBE", { UCS_ERR_NO_MEMORY });
    put(2);
    {
        alloc_nth fails(1);
        put(3);
    }
    EXPECT_EQ(strings({ end(1, UCS_ERR_NO_MEMORY), end(2, UCS_ERR_NO_MEMORY),
                        end(3, UCS_ERR_NO_MEMORY) }),
              ended());
    took();
    put(4);
    EXPECT_EQ(strings({ "PROBE" }), took());
}

/*
 * Flush and close
 */

TEST_F(test_ucp_emul, flush_with_nothing_to_go_behind)
{
    EXPECT_EQ(nullptr, flush());
    ready(8);
    put(1);
    EXPECT_EQ(nullptr, flush());
    took();
    EXPECT_NE(nullptr, close()); /* The peer is told of that */
    EXPECT_EQ(strings({ "BYE", "close" }), took());
}

TEST_F(test_ucp_emul, flush_comes_after_all_that_wait)
{
    fake_op *op;

    put(1);
    op = flush();
    ASSERT_NE(nullptr, op);
    op->imm = 100;
    put(2);
    slow();
    EXPECT_EQ(strings({ "PROBE" }), took());
    hello(1);
    EXPECT_EQ(strings({ "put 1" }), took());
    complete("put 1");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ "NOTIFY 1 8" }), took());
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings({ "1" }), ended());
    EXPECT_EQ(strings({ "flush" }), took());
    EXPECT_EQ(0u, op->num_completed);
    complete("flush");
    EXPECT_EQ(strings({ "100" }), ended());
    arrive(UCP_WIMM_EMUL_SLOTS, 1);
    EXPECT_EQ(strings({ "put 2" }), took());
}

TEST_F(test_ucp_emul, close_comes_after_all_that_wait)
{
    fake_op *op;

    put(1);
    op      = close();
    op->imm = 100;
    slow();
    hello(8);
    took();
    complete("put 1");
    complete("flush");
    EXPECT_EQ(strings({ "flush", "NOTIFY 1 8" }), took());
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings({ "BYE", "close" }), took());
    settle();
    EXPECT_EQ(strings({ "1" }), ended());
    complete("close");
    EXPECT_EQ(strings({ "100" }), ended());
}

TEST_F(test_ucp_emul, flush_and_close_that_fail)
{
    put(1);
    flush()->imm = 100;
    close()->imm = 200;
    m_ucp.answer("flush", { UCS_OK, UCS_ERR_IO_ERROR });
    m_ucp.answer("close", { UCS_INPROGRESS });
    hello(8);
    EXPECT_EQ(strings({ "1", end(100, UCS_ERR_IO_ERROR) }), ended());
    complete("close", UCS_ERR_TIMED_OUT);
    EXPECT_EQ(strings({ end(200, UCS_ERR_TIMED_OUT) }), ended());
}

TEST_F(test_ucp_emul, flush_goes_on_after_a_put_that_failed)
{
    ready(8);
    slow();
    put(1);
    flush()->imm = 100;
    took();
    complete("put 1", UCS_ERR_IO_ERROR);
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR), "100" }), ended());
}

TEST_F(test_ucp_emul, no_memory_for_a_flush)
{
    ucs_status_ptr_t ptr = NULL;

    put(1);
    EXPECT_TRUE(ucp_wimm_emul_barrier(wimm(), ep(0), UCP_WIMM_CHAIN_FLUSH, NULL,
                                      &ptr));
    EXPECT_EQ(UCS_STATUS_PTR(UCS_ERR_NO_MEMORY), ptr);
    EXPECT_EQ(2u, wimm()->refcount);
}

/* What UCP has queued comes into the chain later, and before the flush */
TEST_F(test_ucp_emul, flush_waits_for_what_ucp_has_queued)
{
    ready(8);
    slow();
    fake(0).queueing = true;
    flush()->imm     = 100;
    put(1);
    settle();
    EXPECT_EQ(strings({ "put 1" }), took());
    complete("put 1");
    EXPECT_EQ(strings({ "flush" }), took());
    complete("flush");
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings({ "NOTIFY 1 8" }), took());
    EXPECT_OK(ucp_wimm_arm(wimm()));
    fake(0).queueing = false;
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    settle();
    EXPECT_EQ(strings({ "flush" }), took());
    EXPECT_OK(ucp_wimm_arm(wimm()));
    EXPECT_EQ(strings({ "1" }), ended());
    complete("flush");
    EXPECT_EQ(strings({ "100" }), ended());
}

/* A program that sleeps is not woken for the second one */
TEST_F(test_ucp_emul, flushes_of_two_endpoints_wait_for_ucp)
{
    ready(8, 0);
    ready(8, 1);
    fake(0).queueing = fake(1).queueing = true;
    flush(0)->imm                       = 100;
    flush(1)->imm                       = 101;
    settle();
    fake(0).queueing = fake(1).queueing = false;
    progress();
    if (ucp_wimm_arm(wimm()) == UCS_ERR_BUSY) {
        progress();
    }
    EXPECT_EQ(strings({ "100", "101" }), ended());
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

/* By another thread of UCX, after it has looked at the endpoints */
TEST_F(test_ucp_emul, another_one_fails_while_arm_looks_after_a_flush)
{
    unsigned num_looks;

    ep(1);
    ready(8);
    settle();
    fake(0).queueing = true;
    flush()->imm     = 100;
    for (unsigned nth = 1; nth < 20; ++nth) {
        num_looks          = 0;
        m_worker.on_update = [&]() {
            if (++num_looks == nth) {
                ucp_fails(1);
            }
        };
        if (ucp_wimm_arm(wimm()) == UCS_OK) {
            EXPECT_LT(num_looks, nth); /* It was too early */
        }
        m_worker.on_update = nullptr;
        settle();
        EXPECT_EQ((num_looks < nth) ? 0u : 1u, poll().size());
        ep_closed(ep(1));
        ep(1);
        settle();
    }
    EXPECT_LT(num_looks, 20u - 1); /* There were less */
}

TEST_F(test_ucp_emul, closed_by_force_while_a_flush_waits_for_ucp)
{
    ready(8);
    fake(0).queueing = true;
    flush()->imm     = 100;
    close()->imm     = 200;
    ep_closed(ep(0));
    settle();
    EXPECT_EQ(strings({ end(100, UCS_ERR_CANCELED),
                        end(200, UCS_ERR_CANCELED) }),
              ended());
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul, fails_while_a_flush_waits_for_ucp)
{
    ready(8);
    fake(0).queueing = true;
    flush()->imm     = 100;
    ucp_fails(0);
    settle();
    EXPECT_EQ(strings({ end(100, UCS_ERR_CONNECTION_RESET) }), ended());
    EXPECT_EQ(strings(), took());
}

/*
 * Callbacks
 */

TEST_F(test_ucp_emul, callback_issues_another_one)
{
    unsigned left = 3;
    std::function<void()> next;

    ready(8);
    next = [&]() {
        if (left > 0) {
            put(100 + left--).on_complete = next;
        }
    };
    slow();
    put(1).on_complete = next; /* Called by UCP */
    complete("put 1");
    complete("flush");
    for (const char *word : { "put", "flush", "NOTIFY" }) {
        m_ucp.always(word, UCS_OK);
    }
    took();
    complete("NOTIFY 1 8");
    EXPECT_EQ(strings({ "put 103", "flush", "NOTIFY 103 8", "put 102", "flush",
                        "NOTIFY 102 8", "put 101", "flush", "NOTIFY 101 8" }),
              took());
    EXPECT_EQ(strings({ "1", "103", "102", "101" }), ended());
    left = 2;
    m_ucp.answer("put", { UCS_ERR_NO_MEMORY, UCS_INPROGRESS });
    put(4); /* It has failed already */
    put(5).on_complete = next;
    put(6);
    complete("put 5"); /* Called by the chain */
    EXPECT_EQ(strings({ end(4, UCS_ERR_NO_MEMORY), "5", "6", "102", "101" }),
              ended());
}

TEST_F(test_ucp_emul, callback_closes_the_endpoint)
{
    ucp_ep_h closed = ep(0);

    ready(8);
    slow();
    put(1).on_complete = [&]() { ep_closed(closed); };
    put(2);
    put(3);
    flush()->imm = 100;
    complete("put 3");
    complete("put 2");
    took();
    complete("put 1", UCS_ERR_IO_ERROR);
    settle();
    m_ucp.complete_all(UCS_ERR_CANCELED);
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR), end(2, UCS_ERR_CANCELED),
                        end(3, UCS_ERR_CANCELED), end(100, UCS_ERR_CANCELED) }),
              ended());
}

TEST_F(test_ucp_emul, endpoint_fails_inside_of_a_callback)
{
    ready(8);
    slow();
    put(1).on_complete = [&]() { ucp_fails(0); };
    put(2);
    complete("put 2");
    took();
    complete("put 1", UCS_ERR_IO_ERROR);
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR), end(2, UCS_ERR_IO_ERROR) }),
              ended());
    settle();
    EXPECT_EQ(records({ { UCS_ERR_IO_ERROR, 0, 0, ep(0) } }),
              to_records(poll()));
}
