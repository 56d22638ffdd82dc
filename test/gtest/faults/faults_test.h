/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_FAULTS_TEST_H_
#define WIMM_FAULTS_TEST_H_

#include "ledger.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include <sys/types.h>


/* What a run, or all of them, survived */
struct tally {
    uint64_t posted = 0, delivered = 0, duplicates = 0, disorder = 0,
             corrupt = 0, unknown = 0, leaked = 0, aborted = 0;

    tally &operator+=(const tally &other);
    std::string str() const;
};


/*
 * Fixture: starts a process on each of two devices, with traffic in both directions over
 * UCT or UCP, and disturbs them. This process uses no UCX. Whatever happens, the counts have
 * to be right and both processes have to live; each test says which endpoints may fail.
 */
class faults_test : public ::testing::TestWithParam<const char *> {
  protected:
    static const unsigned LEFT  = 0;
    static const unsigned RIGHT = 1;

    void SetUp() override;
    void TearDown() override;

    bool is_ucp() const;

    /* Notified puts of this test, of its share of WIMM_FAULTS_COUNT */
    uint64_t count() const;

    /* Start both with a configuration */
    void start(const std::string &config = "");
    void spawn(unsigned side);

    /* Part of lines that UCX may log. @return Its number, for num_logged. */
    unsigned allow(const std::string &part);

    /* Those that it logs when an endpoint fails; and that it may fail */
    void allow_failure();

    /* New endpoints on both, and @a count puts in all; without, as many as they can */
    void connect(uint64_t count);
    void connect();

    /* So many more, or some more, and all have come */
    void finish(uint64_t count);

    /* Endpoints of both sides end, if none has failed after a flush; nothing is left */
    void disconnect(bool flush = true);

    /* Endpoints of both sides */
    unsigned num_failed() const;

    /* Both processes end, well, with no more queue pairs than they began with */
    void quit();

    void command(unsigned side, command_t command);
    void post_command(unsigned side, command_t command);

    /* To those that live, at the same time */
    void command_all(command_t command);
    void wait_command(unsigned side);

    void kill_side(unsigned side, int signal);

    /* Since they were connected */
    uint64_t delivered() const;
    uint64_t num_posted() const;

    /* @return Whether it came true in time; fails the test otherwise */
    bool wait_for(const std::string &what, const std::function<bool()> &cond,
                  double seconds = 120);

    /* All puts have come */
    void wait_all_delivered(double seconds = 240);

    /* So many more have come */
    void wait_delivered(uint64_t count);

    /* All endpoints of a side have failed. One that waits for credits has nothing
     * outstanding that could fail: its user has to ask. UCP's keepalive does so, here
     * every so many seconds; for UCT this does. */
    void wait_failed(unsigned side, double seconds = 60);

    static constexpr double keepalive_interval = 1;

    /* @return Seconds */
    static double now();

    /* What the traffic control of Linux does to both directions; "" for nothing */
    void netem(const std::string &args);

    /* Packets that it has dropped of one direction, since it was told what to do */
    static uint64_t netem_dropped(unsigned side);

    static void run(const std::string &command);

    /* Sum of counters of both devices */
    static uint64_t device_counter(const std::vector<std::string> &names);

    /* Between two values, other ones in each run */
    unsigned random(unsigned min, unsigned max);

    const side_state &side(unsigned index) const
    {
        return m_ledger->sides[index];
    }

    /* Printed with the tally */
    std::string m_note;
    tally m_tally;

  private:
    uint64_t sum(std::atomic<uint64_t> stream_counts::*count) const;
    void add_counts();
    void check_alive();
    void check_acked(unsigned sender) const;
    int num_qps(unsigned side) const;
    void wait_no_qps(unsigned side);

    int m_fd         = -1;
    ledger *m_ledger = nullptr;
    pid_t m_pids[num_sides];
    uint32_t m_num_commands = 0;
    int m_num_qps[num_sides];
    bool m_has_netem = false;
    std::mt19937 m_random;
};


#define FAULTS_TESTS(_name)                                        \
  INSTANTIATE_TEST_SUITE_P(                                        \
          all, _name, ::testing::Values("uct", "ucp"),             \
          [](const ::testing::TestParamInfo<const char *> &info) { \
        return std::string(info.param);                            \
          })

#endif
