/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "faults_test.h"


/* The wire does things to packets that a reliable connection repairs: all arrives */
class wire_faults : public faults_test {
  protected:
    static const char *const config;

    /* That packets were lost on the way, came twice, or came early */
    static uint64_t repaired()
    {
        return device_counter({ "duplicate_request", "out_of_seq_request",
                                "rcvd_seq_err", "completer_retry_err" });
    }

    void disturb(const std::string &args, uint64_t count)
    {
        const uint64_t before = repaired();

        start(config);
        netem(args);
        connect(count);
        wait_all_delivered();
        netem("");
        m_note = args + ": " + std::to_string(repaired() - before) +
                 " packets were repaired";
        EXPECT_GT(repaired(), before);
        disconnect();
        quit();
    }
};

const char *const wire_faults::config =
        "RX_QUEUE_LEN=256 TIMEOUT=100ms UCX_KEEPALIVE_INTERVAL=inf";


TEST_P(wire_faults, loss_one_in_thousand)
{
    disturb("loss 0.1%", 2 * count());
}

TEST_P(wire_faults, loss_1_percent)
{
    disturb("loss 1%", count());
}

TEST_P(wire_faults, loss_5_percent)
{
    disturb("loss 5%", count());
}

TEST_P(wire_faults, reorder)
{
    disturb("delay 50us reorder 5%", count());
}

TEST_P(wire_faults, duplicate)
{
    disturb("duplicate 5%", count());
}

TEST_P(wire_faults, corrupt)
{
    disturb("corrupt 1%", count());
}

TEST_P(wire_faults, delay_with_jitter)
{
    /* Jitter overtakes, too */
    disturb("delay 1ms 500us", count());
}

TEST_P(wire_faults, all_at_once)
{
    disturb("delay 100us 50us loss 1% duplicate 1% corrupt 0.5% reorder 2%",
            count());
}

FAULTS_TESTS(wire_faults);
