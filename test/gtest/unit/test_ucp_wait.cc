/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "recv_test.h"

#include <chrono>
#include <limits>
#include <thread>


/* Waiting for some of a set of counters */
class test_ucp_wait : public recv_test {
  protected:
    void SetUp() override
    {
        recv_test::SetUp();
        for (uint32_t i = 0; i < 4; ++i) {
            c[i] = match(i, ~0u);
        }
    }

    /* Of all four unless it says something else */
    ucs_status_t wait(double timeout = 0, unsigned num = 4)
    {
        m_ready = std::vector<unsigned>(4, 77);
        m_count = 77;
        return ucp_wimm_wait_some(wimm(), c, num, timeout, m_ready.data(),
                                  &m_count);
    }

    std::vector<unsigned> ready()
    {
        EXPECT_LE(m_count, 4u);
        for (unsigned i = m_count; i < m_ready.size(); ++i) {
            EXPECT_EQ(77u, m_ready[i]);
        }
        return std::vector<unsigned>(m_ready.begin(),
                                     m_ready.begin() + m_count);
    }

    /* Nothing was done */
    void expect_refused(const std::string &text,
                        const std::function<ucs_status_t()> &call)
    {
        const size_t lines = logged(UCS_LOG_LEVEL_ERROR).size();

        m_count = 77;
        m_ready = std::vector<unsigned>(4, 77);
        allow_error(text);
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, call());
        ASSERT_EQ(lines + 1, logged(UCS_LOG_LEVEL_ERROR).size());
        EXPECT_NE(std::string::npos,
                  logged(UCS_LOG_LEVEL_ERROR).back().find(text));
        EXPECT_EQ(77u, m_count);
        EXPECT_EQ(std::vector<unsigned>(4, 77), m_ready);
        EXPECT_EQ(0u, m_worker.num_progress);
    }

    ucp_wimm_counter_h c[4];
    std::vector<unsigned> m_ready;
    unsigned m_count;
};

typedef std::vector<unsigned> indices;


TEST_F(test_ucp_wait, timeout_of_0_progresses_once)
{
    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait(0));
    EXPECT_EQ(indices(), ready());
    EXPECT_EQ(1u, m_worker.num_progress);
    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait(-0.0));
    EXPECT_EQ(2u, m_worker.num_progress);

    /* What comes by that is seen */
    m_worker.on_progress = [&] { notify({ 2 }); };
    EXPECT_OK(wait(0));
    EXPECT_EQ(indices({ 2 }), ready());
    EXPECT_EQ(3u, m_worker.num_progress);
}

TEST_F(test_ucp_wait, one_that_is_there_needs_no_progress)
{
    notify({ 1 });
    EXPECT_OK(wait(UCP_WIMM_TIMEOUT_INF));
    EXPECT_EQ(indices({ 1 }), ready());
    EXPECT_OK(wait(UCP_WIMM_TIMEOUT_INF)); /* It stays */
    EXPECT_EQ(indices({ 1 }), ready());
    EXPECT_EQ(0u, m_worker.num_progress);
}

TEST_F(test_ucp_wait, tells_all_that_are_there_ascending)
{
    notify({ 3, 0 });
    EXPECT_OK(wait());
    EXPECT_EQ(indices({ 0, 3 }), ready());
    notify({ 2, 1 });
    EXPECT_OK(wait());
    EXPECT_EQ(indices({ 0, 1, 2, 3 }), ready());
}

TEST_F(test_ucp_wait, waits_for_the_set_only)
{
    notify({ 3 });
    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait(0, 3));
    EXPECT_EQ(indices(), ready());
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm())); /* Not looked at */
    EXPECT_OK(wait(0, 4));
    EXPECT_EQ(indices({ 3 }), ready());
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_wait, outputs_may_be_left_out)
{
    EXPECT_STATUS(UCS_ERR_TIMED_OUT,
                  ucp_wimm_wait_some(wimm(), c, 4, 0, NULL, NULL));
    notify({ 3, 1 });
    EXPECT_OK(ucp_wimm_wait_some(wimm(), c, 4, 0, NULL, &m_count));
    EXPECT_EQ(2u, m_count);
    m_ready.resize(4);
    EXPECT_OK(ucp_wimm_wait_some(wimm(), c, 4, 0, m_ready.data(), NULL));
    EXPECT_EQ(1u, m_ready[0]);
    EXPECT_EQ(3u, m_ready[1]);
    fail(NULL, UCS_ERR_CONNECTION_RESET);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET,
                  ucp_wimm_wait_some(wimm(), c, 4, 0, NULL, NULL));
    poll();
}

TEST_F(test_ucp_wait, short_timeout_is_not_too_short)
{
    const auto start = std::chrono::steady_clock::now();

    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait(0.02));
    EXPECT_EQ(indices(), ready());
    EXPECT_LT(1u, m_worker.num_progress);

    /* Two clocks */
    EXPECT_LE(0.019, std::chrono::duration<double>(
                             std::chrono::steady_clock::now() - start)
                             .count());
    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait(1e-30));
    EXPECT_STATUS(UCS_ERR_TIMED_OUT,
                  wait(std::numeric_limits<double>::denorm_min()));
}

TEST_F(test_ucp_wait, long_timeouts_and_none)
{
    for (double timeout :
         { UCP_WIMM_TIMEOUT_INF, -1e-300, -5.0, 3600.0, 1e9, 1e12, 1e300,
           std::numeric_limits<double>::infinity(),
           -std::numeric_limits<double>::infinity() }) {
        unsigned left = 1000;

        m_worker.on_progress = [&] {
            if (--left == 0) {
                notify({ 2 });
            }
        };
        EXPECT_OK(wait(timeout)) << timeout;
        EXPECT_EQ(indices({ 2 }), ready());
        EXPECT_EQ(0u, left);
        EXPECT_OK(ucp_wimm_counter_reset(c[2], 1, NULL));
    }
}

TEST_F(test_ucp_wait, another_thread_makes_it_ready)
{
    std::thread thread([&] {
        for (unsigned i = 0; i < 1000; ++i) {
            notify({ 100 });
        }
        notify({ 1 });
    });

    EXPECT_OK(wait(UCP_WIMM_TIMEOUT_INF));
    EXPECT_EQ(indices({ 1 }), ready());
    thread.join();
}

TEST_F(test_ucp_wait, two_threads_wait)
{
    std::atomic<bool> started(false);
    unsigned other_ready = 77, other_count = 77;
    std::thread thread([&] {
        started = true;
        EXPECT_OK(ucp_wimm_wait_some(wimm(), &c[3], 1, UCP_WIMM_TIMEOUT_INF,
                                     &other_ready, &other_count));
    });

    while (!started) {
    }
    notify({ 3 });
    thread.join();
    EXPECT_EQ(0u, other_ready);
    EXPECT_EQ(1u, other_count);
    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait(0, 3));
}

TEST_F(test_ucp_wait, failure_comes_before_those_that_are_there)
{
    ucp_wimm_counter_h all = c[1], of_0 = bound(ep(0));

    c[1] = of_0;
    notify({ 0, 2 });
    fail(ep(1), UCS_ERR_CONNECTION_RESET);
    poll();

    /* Of each that is not bound one failure, in the order of the set */
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, wait());
    EXPECT_EQ(indices({ 0 }), ready());
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, wait());
    EXPECT_EQ(indices({ 2 }), ready());
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, wait());
    EXPECT_EQ(indices({ 3 }), ready());
    EXPECT_OK(wait());
    EXPECT_EQ(indices({ 0, 2 }), ready());
    EXPECT_EQ(0u, m_worker.num_progress);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(all));
}

TEST_F(test_ucp_wait, failure_ends_a_wait_that_may_be_entered_again)
{
    c[0]                 = bound(ep(0));
    m_worker.on_progress = [&] {
        if (m_worker.num_progress == 10) {
            fail(ep(0), UCS_ERR_ENDPOINT_TIMEOUT);
        } else if (m_worker.num_progress == 20) {
            notify({ 2 });
        }
    };
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT,
                  ucp_wimm_wait_some(wimm(), c, 1, UCP_WIMM_TIMEOUT_INF, NULL,
                                     NULL));
    EXPECT_EQ(10u, m_worker.num_progress);
    EXPECT_OK(ucp_wimm_counter_reset(c[2], 1, NULL));
    ASSERT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(c[2]));
    EXPECT_OK(ucp_wimm_wait_some(wimm(), &c[2], 1, UCP_WIMM_TIMEOUT_INF, NULL,
                                 NULL));
    EXPECT_EQ(20u, m_worker.num_progress);
    poll();
}

TEST_F(test_ucp_wait, closed_endpoint_ends_it_if_none_is_there)
{
    c[2] = bound(ep(0));
    c[3] = bound(ep(0));
    ep_closed(ep(0));
    notify({ 1 });
    EXPECT_OK(wait());
    EXPECT_EQ(indices({ 1 }), ready());
    EXPECT_OK(ucp_wimm_counter_reset(c[1], 1, NULL));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, wait(UCP_WIMM_TIMEOUT_INF));
    EXPECT_EQ(indices({ 2 }), ready());
    EXPECT_EQ(0u, m_worker.num_progress);
}

TEST_F(test_ucp_wait, endpoint_closed_by_what_progress_calls)
{
    c[0]                 = bound(ep(0));
    m_worker.on_progress = [&] {
        if (m_worker.num_progress == 3) {
            m_worker.on_update = [&] { ep_closed(ep(0)); };
        }
    };
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, wait(UCP_WIMM_TIMEOUT_INF));
    EXPECT_EQ(indices({ 0 }), ready());
    EXPECT_EQ(3u, m_worker.num_progress);
}

TEST_F(test_ucp_wait, overflow_has_its_index)
{
    ucp_wimm_counter_params_t params = {};

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_INITIAL;
    params.initial    = UINT64_MAX;
    c[2]              = counter(&params);
    notify({ 1 });
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, wait());
    EXPECT_EQ(indices({ 2 }), ready());
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, wait()); /* Until it is reset */
    EXPECT_OK(ucp_wimm_counter_reset(c[2], 5, NULL));
    EXPECT_OK(wait());
    EXPECT_EQ(indices({ 1 }), ready());
}

TEST_F(test_ucp_wait, is_refused_inside_of_progress)
{
    notify({ 0 });
    m_worker.in_progress = true;
    expect_refused("ucp_wimm_wait_some() was called inside of"
                   " ucp_worker_progress()",
                   [&] {
                       return ucp_wimm_wait_some(wimm(), c, 4, 0,
                                                 m_ready.data(), &m_count);
                   });
}

TEST_F(test_ucp_wait, is_refused_in_a_handler)
{
    fake_peer peer(wimm(), NULL, 1, &m_slots);

    set_handler([&](const ucp_wimm_notification_t &) {
        expect_refused("ucp_wimm_wait_some() was called inside of"
                       " ucp_worker_progress()",
                       [&] {
                           return ucp_wimm_wait_some(wimm(), c, 4, 0,
                                                     m_ready.data(), &m_count);
                       });
        return UCS_OK;
    });
    notify(peer, 100);

    /* And then not any more */
    EXPECT_STATUS(UCS_ERR_TIMED_OUT, wait());
}

TEST_F(test_ucp_wait, what_cannot_be_is_refused)
{
    struct ucp_wimm other_wimm  = *wimm();
    const std::string not_of_it = "is not one of the handle";

    const auto call = [&](ucp_wimm_h wimm, const ucp_wimm_counter_h *counters,
                          unsigned num, double timeout) {
        return [=] {
            return ucp_wimm_wait_some(wimm, counters, num, timeout,
                                      m_ready.data(), &m_count);
        };
    };

    notify({ 0 });
    expect_refused("ucp_wimm_wait_some: the handle is NULL",
                   call(NULL, c, 4, 0));
    expect_refused("there is no counter to wait for", call(wimm(), c, 0, 0));
    expect_refused("there is no counter to wait for", call(wimm(), NULL, 4, 0));
    expect_refused("the timeout is not a number",
                   call(wimm(), c, 4,
                        std::numeric_limits<double>::quiet_NaN()));
    expect_refused("counter 0 to wait for " + not_of_it,
                   call(&other_wimm, c, 4, 0));
    c[3] = NULL; /* The last one, although the first is there */
    expect_refused("counter 3 to wait for " + not_of_it, call(wimm(), c, 4, 0));
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm())); /* Not looked at */
}
