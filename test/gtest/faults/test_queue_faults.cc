/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "faults_test.h"


/* Queues that are as short as they may be, and shorter */
class queue_faults : public faults_test {
  protected:
    /* Messages that found no receive, at both devices */
    static uint64_t num_rnr()
    {
        return device_counter({ "rcvd_rnr_err", "send_rnr_err" });
    }

    /* All of them, in spite of this */
    void deliver(const std::string &config)
    {
        start(config + " TIMEOUT=1s UCX_KEEPALIVE_INTERVAL=inf");
        connect(count());
        wait_all_delivered();
        disconnect();
        quit();
    }
};


/* The table of docs/protocol.md: 10 receives for two endpoints */
TEST_P(queue_faults, smallest_receive_queue)
{
    const uint64_t before = num_rnr();

    deliver("RX_QUEUE_LEN=10");
    EXPECT_EQ(before, num_rnr());
}

/* The interface says so, once, with both numbers: here as its first endpoint is created */
TEST_P(queue_faults, one_receive)
{
    const unsigned warning = allow(
            "a receive queue of 1 is short for 1 endpoints");

    deliver("RX_QUEUE_LEN=1");
    for (unsigned i : { LEFT, RIGHT }) {
        EXPECT_EQ(1u, side(i).num_logged[warning]) << i;
    }
}

/* Without credits, too, nothing is lost: the devices repeat what finds no receive */
TEST_P(queue_faults, no_receive)
{
    const uint64_t before = num_rnr();

    deliver("RX_QUEUE_LEN=4 FC_ENABLE=n");
    EXPECT_GT(num_rnr(), before);
    m_note = std::to_string(num_rnr() - before) + " times there was no receive";
}

/* One completion at a time; that is also too short for one send queue */
TEST_P(queue_faults, smallest_completion_queue)
{
    deliver("TX_CQ_LEN=2");
}

TEST_P(queue_faults, smallest_queues)
{
    deliver("TX_CQ_LEN=2 TX_QUEUE_LEN=1 RX_QUEUE_LEN=10");
}

FAULTS_TESTS(queue_faults);
