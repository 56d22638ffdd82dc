/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "faults_test.h"

extern "C" {
#include <ucs/type/status.h>
}

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <thread>


/* What a peer, or the link to it, does while both send */
class peer_faults : public faults_test {
  protected:
    /* A peer that does not answer is given up within a second */
    static const std::string fails_soon;

    /* A second without an answer is nothing */
    static const std::string patient;

    static const unsigned num_rounds = 4;

    /* How long it takes at most to give up a peer: keepalive has asked all endpoints after
     * two intervals; each transmission has four times its time (IBTA 9.7.6.1.3), which UCX
     * rounds up to a power of two. Four times that, for a machine that is busy. */
    static double time_to_fail(double timeout, unsigned retries)
    {
        return 4 *
               ((2 * keepalive_interval) + (4 * 2 * timeout * (retries + 1)));
    }

    static void sleep_ms(unsigned ms)
    {
        std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    }

    /* The rest of the link is as it was set up: what the kernel forgot comes back */
    static void link(bool up)
    {
        if (!up) {
            run("ip link set veth1 down");
            return;
        }
        run("ip link set veth1 up");
        run("ip route replace 10.0.0.1/32 dev veth1 src 10.0.0.2 table 102");
        run("ip neigh replace 10.0.0.1 lladdr 52:54:00:00:00:01 dev veth1 nud"
            " permanent");
    }

    /* The peer's device has refused a put, unless its answer came too late for a busy machine */
    void check_refused(unsigned index) const
    {
        const int status = side(index).status;

        EXPECT_TRUE((status == UCS_ERR_CONNECTION_RESET) ||
                    (status == UCS_ERR_ENDPOINT_TIMEOUT))
                << status;
    }

    /* Kill one side, the other one has to notice; and the next connection works */
    void kill_rounds(unsigned victim);
};

const std::string peer_faults::fails_soon =
        "RX_QUEUE_LEN=256 TIMEOUT=100ms RETRY_COUNT=3"
        " PREFER=y UCX_KEEPALIVE_INTERVAL=1s";
const std::string peer_faults::patient =
        "RX_QUEUE_LEN=256 TIMEOUT=1s UCX_KEEPALIVE_INTERVAL=inf";


void peer_faults::kill_rounds(unsigned victim)
{
    const unsigned other = 1 - victim;
    const uint64_t share = count() / num_rounds;

    allow_failure();
    start(fails_soon);
    for (unsigned i = 0; (i < num_rounds) && !HasFailure(); ++i) {
        connect();
        /* UCX 1.13.1 does not survive a peer that dies before it is connected */
        wait_delivered(share + random(0, 100));
        sleep_ms(random(0, 20));
        kill_side(victim, SIGKILL);
        wait_failed(other, time_to_fail(0.1, 3));
        EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, side(other).status);
        disconnect();
        spawn(victim);
    }
    connect(100);
    wait_all_delivered();
    disconnect();
    quit();
    m_note = std::to_string(num_rounds) + " processes were killed";
}

TEST_P(peer_faults, receiver_and_sender_killed)
{
    kill_rounds(RIGHT);
}

TEST_P(peer_faults, other_one_killed)
{
    kill_rounds(LEFT);
}

TEST_P(peer_faults, stopped_for_a_while)
{
    unsigned total = 0;

    start(patient);
    connect();
    wait_delivered(count() / 4);
    for (unsigned i = 0; (i < num_rounds) && !HasFailure(); ++i) {
        const unsigned victim = random(0, 1), ms = random(100, 1500);

        sleep_ms(random(0, 50));
        kill_side(victim, SIGSTOP);
        sleep_ms(ms);
        kill_side(victim, SIGCONT);
        total += ms;
    }
    finish(count());
    disconnect();
    quit();
    m_note = "stopped " + std::to_string(num_rounds) + " times, " +
             std::to_string(total) + " ms in all";
}

TEST_P(peer_faults, stopped_and_then_killed)
{
    allow_failure();
    start(fails_soon);
    connect();
    wait_delivered(count());
    kill_side(RIGHT, SIGSTOP);
    /* Its device goes on: that is no failure */
    sleep_ms(1000);
    EXPECT_EQ(0u, side(LEFT).num_failed);
    kill_side(RIGHT, SIGKILL);
    wait_failed(LEFT, time_to_fail(0.1, 3));
    EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, side(LEFT).status);
    disconnect();
    quit();
}

TEST_P(peer_faults, no_packet_for_a_second)
{
    start(patient);
    connect();
    wait_delivered(count() / 4);
    netem("loss 100%");
    const uint64_t before = delivered();
    /* Both directions have lost something, and that is repeated */
    for (unsigned i : { LEFT, RIGHT }) {
        wait_for("a packet is lost", [&]() { return netem_dropped(i) > 0; });
    }
    sleep_ms(1000);
    /* What the receiver already had */
    EXPECT_LE(delivered() - before, num_sides * num_eps * num_places);
    m_note = std::to_string(netem_dropped(LEFT) + netem_dropped(RIGHT)) +
             " packets were lost";
    netem("");
    finish(count());
    disconnect();
    quit();
}

TEST_P(peer_faults, no_packet_any_more)
{
    allow_failure();
    start(fails_soon);
    connect();
    wait_delivered(count());
    const double begin = now();
    netem("loss 100%");
    for (unsigned i : { LEFT, RIGHT }) {
        wait_failed(i, time_to_fail(0.1, 3));
        EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, side(i).status);
    }
    EXPECT_GT(netem_dropped(LEFT) + netem_dropped(RIGHT), 0u);
    m_note = "all had failed after " + std::to_string(now() - begin) + " s";
    disconnect();
    netem("");

    /* As if nothing had been */
    connect(100);
    wait_all_delivered();
    disconnect();
    quit();
}

/* Soft-RoCE fails a request that finds no route, at once. To a network device that takes no
 * packet it hands the same one again and again, does not count that as a retry, and in rare
 * cases does not send again when the link is back. So which endpoints fail is not said here:
 * puts that neither arrive nor fail have to be the device's. With others, endpoints go on or
 * fail as in the tests before. */
TEST_P(peer_faults, link_down_for_a_second)
{
    allow_failure();
    start(patient);
    connect();
    wait_delivered(count());
    link(false);
    sleep_ms(1000);
    link(true);
    const uint64_t before = delivered();
    const double end      = now() + 10;
    wait_for("endpoints go on, or fail, or have puts outstanding", [&]() {
        return (num_failed() > 0) || (delivered() >= (before + count())) ||
               ((now() > end) && (num_posted() > delivered()));
    });
    m_note = std::to_string(num_failed()) + " endpoints failed, " +
             std::to_string(delivered() - before) + " puts came after it";
    disconnect(false);
    connect(100);
    wait_all_delivered();
    disconnect();
    quit();
}

TEST_P(peer_faults, link_down_for_good)
{
    allow_failure();
    start(fails_soon);
    connect();
    wait_delivered(count());
    link(false);
    const uint64_t before = delivered();
    sleep_ms(2000);
    /* What the receivers already had */
    EXPECT_LE(delivered() - before, num_sides * num_eps * num_places);
    m_note = std::to_string(num_failed()) + " endpoints failed";
    /* All end while it is down */
    disconnect(false);
    link(true);
    connect(100);
    wait_all_delivered();
    disconnect();
    quit();
}

TEST_P(peer_faults, memory_deregistered_under_load)
{
    allow_failure();
    start(fails_soon + " UCX_IB_REG_METHODS=direct");
    for (unsigned i = 0; (i < num_rounds) && !HasFailure(); ++i) {
        connect();
        wait_delivered((count() / num_rounds) + random(0, 100));
        command(RIGHT, COMMAND_DEREGISTER);
        wait_failed(LEFT, time_to_fail(0.1, 3));
        check_refused(LEFT);
        disconnect();
        command(RIGHT, COMMAND_REGISTER);
    }
    connect(100);
    wait_all_delivered();
    disconnect();
    quit();
}

TEST_P(peer_faults, no_progress_for_ten_seconds)
{
    const std::vector<std::string> rnr = { "rcvd_rnr_err", "send_rnr_err" };

    start(fails_soon);
    const uint64_t before = device_counter(rnr);
    connect();
    wait_delivered(count() / 8);
    command(RIGHT, COMMAND_PAUSE);
    sleep_ms(10000);
    /* It is a sender, too, and nothing comes from it */
    const uint64_t stopped = delivered();
    sleep_ms(100);
    EXPECT_EQ(stopped, delivered());
    command(RIGHT, COMMAND_RESUME);
    finish(count());
    EXPECT_EQ(before, device_counter(rnr));
    disconnect();
    quit();
    m_note = "no receive was missing (RNR)";
}

/* Nothing is sent any more. UCP's keepalive asks for the peer once an interval; UCT's user
 * does that. The answer is missing after as long as a put's would. */
TEST_P(peer_faults, idle_peer_vanishes)
{
    allow_failure();
    start(fails_soon);
    connect(count());
    wait_all_delivered();
    kill_side(RIGHT, SIGKILL);
    const double begin = now();
    wait_failed(LEFT, time_to_fail(0.1, 3));
    m_note = "noticed after " + std::to_string(now() - begin) + " s";
    EXPECT_EQ(UCS_ERR_ENDPOINT_TIMEOUT, side(LEFT).status);
    disconnect();
    quit();
}

/* In one process, of each kind of failure that needs no new one */
TEST_P(peer_faults, hundred_reconnects)
{
    const unsigned rounds = 100;

    allow_failure();
    start(fails_soon + " TIMEOUT=50ms");
    for (unsigned i = 0; (i < rounds) && !HasFailure(); ++i) {
        connect();
        wait_delivered(std::max<uint64_t>(count() / rounds, 10));
        if ((i % 10) == 0) {
            /* The peer's endpoints vanish under load */
            command(RIGHT, COMMAND_CLOSE);
            wait_failed(LEFT, time_to_fail(0.05, 3));
        } else {
            const unsigned bad = i % 2;

            command(bad, COMMAND_BAD_PUT);
            wait_failed(bad);
            check_refused(bad);
        }
        disconnect();
    }
    connect(100);
    wait_all_delivered();
    disconnect();
    quit();
    m_note = std::to_string(rounds) + " connections failed";
}

FAULTS_TESTS(peer_faults);
