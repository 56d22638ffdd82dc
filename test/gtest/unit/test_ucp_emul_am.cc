/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <endian.h>


/* Where no transport puts, our messages carry the data */
class test_ucp_emul_am : public emul_test {
  protected:
    void SetUp() override
    {
        emul_test::SetUp();
        by_am = true;
        start(8);
        ready(8);
    }

    ucp_wimm_emul_hdr_t hdr_at(unsigned op, const void *ptr)
    {
        ucp_wimm_emul_hdr_t result = hdr(op, 7, 30);

        result.addr = htobe64(reinterpret_cast<uintptr_t>(ptr));
        return result;
    }
};


TEST_F(test_ucp_emul_am, short_put_is_one_message)
{
    put(1, 8);
    EXPECT_EQ(strings({ "flush", "NOTIFY 1 8 with 8 at 1000" }), took());
    EXPECT_EQ(strings({ "1" }), ended());
    put(2, 0);
    EXPECT_EQ(strings({ "flush", "NOTIFY 2 0" }), took());
    put(3, 10);
    EXPECT_EQ(strings({ "flush", "NOTIFY 3 10 with 10 at 1000" }), took());
}

TEST_F(test_ucp_emul_am, long_put_is_several_and_one_notification)
{
    put(1, 25);
    put(2, 8);
    EXPECT_EQ(strings({ "flush", "DATA 1 with 10 at 1000",
                        "DATA 1 with 10 at 1010", "NOTIFY 1 25 with 5 at 1020",
                        "flush", "NOTIFY 2 8 with 8 at 1000" }),
              took());
    EXPECT_EQ(strings({ "1", "2" }), ended());
}

TEST_F(test_ucp_emul_am, one_message_at_a_time)
{
    m_ucp.always("DATA", UCS_INPROGRESS);
    m_ucp.always("NOTIFY", UCS_INPROGRESS);
    put(1, 25);
    put(2, 8);
    EXPECT_EQ(strings({ "flush", "DATA 1 with 10 at 1000" }), took());
    complete("DATA 1 with 10 at 1000");
    EXPECT_EQ(strings({ "DATA 1 with 10 at 1010" }), took());
    complete("DATA 1 with 10 at 1010");
    EXPECT_EQ(strings({ "NOTIFY 1 25 with 5 at 1020", "flush" }), took());
    EXPECT_EQ(strings(), ended());
    complete("NOTIFY 1 25 with 5 at 1020");
    EXPECT_EQ(strings({ "1" }), ended());
    EXPECT_EQ(strings({ "NOTIFY 2 8 with 8 at 1000" }), took());
    complete("NOTIFY 2 8 with 8 at 1000");
    EXPECT_EQ(strings({ "2" }), ended());
}

TEST_F(test_ucp_emul_am, message_with_data_that_fails_notifies_nobody)
{
    m_ucp.answer("DATA", { UCS_OK, UCS_ERR_IO_ERROR });
    put(1, 25);
    put(2, 8);
    EXPECT_EQ(strings({ "flush", "DATA 1 with 10 at 1000",
                        "DATA 1 with 10 at 1010", "flush",
                        "NOTIFY 2 8 with 8 at 1000" }),
              took());
    EXPECT_EQ(strings({ end(1, UCS_ERR_IO_ERROR), "2" }), ended());
    EXPECT_EQ(7u, slots()); /* Its slot came back */

    m_ucp.answer("DATA", { UCS_INPROGRESS });
    put(3, 25);
    took();
    complete("DATA 3 with 10 at 1000", UCS_ERR_CANCELED);
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(strings({ end(3, UCS_ERR_CANCELED) }), ended());
}

TEST_F(test_ucp_emul_am, flush_asks_the_peer)
{
    put(1, 8);
    took();
    fake_op *op = flush();
    ASSERT_NE(nullptr, op);
    EXPECT_EQ(strings({ "FLUSH" }), took());
    settle();
    EXPECT_STATUS(UCS_INPROGRESS, op->status);
    arrive(UCP_WIMM_EMUL_FLUSHED);
    EXPECT_EQ(strings({ "flush" }), took());
    EXPECT_OK(op->status);
    EXPECT_EQ(nullptr, flush()); /* There was nothing since */
}

TEST_F(test_ucp_emul_am, second_flush_asks_no_second_time)
{
    put(1, 8);
    took();
    fake_op *first = flush(), *second = flush();
    EXPECT_EQ(strings({ "FLUSH" }), took());
    arrive(UCP_WIMM_EMUL_FLUSHED);
    EXPECT_OK(first->status);
    EXPECT_OK(second->status);
}

TEST_F(test_ucp_emul_am, close_waits_for_the_peer)
{
    put(1, 8);
    took();
    fake_op *op = close();
    ASSERT_NE(nullptr, op);
    EXPECT_EQ(strings({ "FLUSH" }), took());
    arrive(UCP_WIMM_EMUL_FLUSHED);
    EXPECT_EQ(strings({ "BYE", "close" }), took());
    EXPECT_OK(op->status);
}

TEST_F(test_ucp_emul_am, peer_that_closes_ends_what_waits_for_it)
{
    put(1, 8);
    took();
    fake_op *flushed = flush(), *closed = close();
    EXPECT_EQ(strings({ "FLUSH" }), took());
    arrive(UCP_WIMM_EMUL_BYE);
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, flushed->status);
    EXPECT_OK(closed->status);
    EXPECT_EQ(strings({ "BYE", "close" }), took());
}

TEST_F(test_ucp_emul_am, peer_that_has_closed_gets_nothing)
{
    put(1, 8);
    took();
    ended();
    arrive(UCP_WIMM_EMUL_BYE);
    put(2, 8);
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(strings({ end(2, UCS_ERR_NOT_CONNECTED) }), ended());

    /* Nobody knows of the first one; then there was nothing */
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, flush()->status);
    EXPECT_EQ(nullptr, flush());
}

TEST_F(test_ucp_emul_am, peer_that_closes_while_data_is_sent)
{
    m_ucp.always("DATA", UCS_INPROGRESS);
    put(1, 25);
    took();
    arrive(UCP_WIMM_EMUL_BYE);
    EXPECT_EQ(strings(), took());
    complete("DATA 1 with 10 at 1000");
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(strings({ end(1, UCS_ERR_NOT_CONNECTED) }), ended());
}

TEST_F(test_ucp_emul_am, close_behind_a_flush_goes_on_without_an_answer)
{
    put(1, 8);
    took();
    fake_op *flushed = flush(), *closed = close();
    took();
    progress();
    EXPECT_STATUS(UCS_INPROGRESS, flushed->status);
    emul()->deadline = 0;
    EXPECT_EQ(1u, progress());
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, flushed->status);
    EXPECT_OK(closed->status);
}

TEST_F(test_ucp_emul_am, close_goes_on_without_an_answer)
{
    put(1, 8);
    took();
    fake_op *op = close();
    EXPECT_EQ(strings({ "FLUSH" }), took());
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm())); /* Time is no event */
    EXPECT_EQ(0u, progress());
    EXPECT_STATUS(UCS_INPROGRESS, op->status);

    /* As if the time was over */
    emul()->deadline = 0;
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(strings({ "BYE", "close" }), took());
    EXPECT_OK(op->status);
    settle();
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_emul_am, flush_behind_a_put_asks_the_peer)
{
    m_ucp.always("NOTIFY", UCS_INPROGRESS);
    put(1, 8);
    fake_op *op = flush();
    ASSERT_NE(nullptr, op);
    EXPECT_EQ(strings({ "flush", "NOTIFY 1 8 with 8 at 1000" }), took());
    complete("NOTIFY 1 8 with 8 at 1000");
    EXPECT_EQ(strings({ "FLUSH" }), took());
    settle();
    EXPECT_STATUS(UCS_INPROGRESS, op->status);
    arrive(UCP_WIMM_EMUL_FLUSHED);
    EXPECT_EQ(strings({ "flush" }), took());
    EXPECT_OK(op->status);
}

TEST_F(test_ucp_emul_am, flush_that_cannot_ask_fails)
{
    m_ucp.always("NOTIFY", UCS_INPROGRESS);
    put(1, 8);
    fake_op *op = flush();
    ASSERT_NE(nullptr, op);
    took();
    m_ucp.answer("FLUSH", { UCS_ERR_IO_ERROR });
    complete("NOTIFY 1 8 with 8 at 1000");
    EXPECT_EQ(strings({ "FLUSH" }), took());
    EXPECT_STATUS(UCS_ERR_IO_ERROR, op->status);
}

TEST_F(test_ucp_emul_am, failure_ends_a_flush_that_waits_for_the_peer)
{
    m_ucp.always("NOTIFY", UCS_INPROGRESS);
    put(1, 8);
    fake_op *op = flush();
    ASSERT_NE(nullptr, op);
    complete("NOTIFY 1 8 with 8 at 1000");
    took();
    ucp_fails(0);
    settle();
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, op->status);
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_am, data_is_put_where_it_belongs)
{
    char memory[32] = {};
    char text[]     = "0123456789";

    ucp_wimm_emul_hdr_t data   = hdr_at(UCP_WIMM_EMUL_DATA, &memory[3]);
    ucp_wimm_emul_hdr_t notify = hdr_at(UCP_WIMM_EMUL_NOTIFY, &memory[13]);
    arrive(&data, sizeof(data), 10, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0),
           text);
    EXPECT_EQ(0u, poll().size());
    arrive(&notify, sizeof(notify), 4, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0),
           text);
    EXPECT_STREQ("01234567890123", &memory[3]);
    const auto n = poll();
    ASSERT_EQ(1u, n.size());
    EXPECT_EQ(7u, n[0].imm);
    EXPECT_EQ(30u, n[0].length);
    EXPECT_EQ(0, memory[2]);
}

TEST_F(test_ucp_emul_am, data_is_refused_where_a_transport_puts)
{
    char memory[32] = {};
    char text[]     = "0123456789";

    by_am = false;
    expect_error("is none of notified puts", 2);
    for (unsigned op : { UCP_WIMM_EMUL_DATA, UCP_WIMM_EMUL_NOTIFY }) {
        ucp_wimm_emul_hdr_t h = hdr_at(op, memory);

        arrive(&h, sizeof(h), 10, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0), text);
    }
    EXPECT_EQ(0, memory[0]);
    EXPECT_EQ(0u, poll().size());
}

TEST_F(test_ucp_emul_am, peer_that_asks_is_answered)
{
    arrive(UCP_WIMM_EMUL_FLUSH);
    EXPECT_EQ(strings({ "FLUSHED" }), took());
    arrive(UCP_WIMM_EMUL_FLUSHED); /* Nobody has asked */
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_am, data_comes_in_while_nobody_is_attached)
{
    char memory[32] = {};
    char text[]     = "0123456789";

    put(1, 0); /* The peer is known */
    took();
    ASSERT_TRUE(park());
    ucp_wimm_emul_hdr_t notify = hdr_at(UCP_WIMM_EMUL_NOTIFY, memory);
    arrive(&notify, sizeof(notify), 10, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0),
           text);
    EXPECT_STREQ(text, memory);
    resume();
    settle();
    EXPECT_EQ(1u, poll().size());
}
