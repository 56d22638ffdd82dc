/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <atomic>
#include <mutex>
#include <thread>


/* Threads that post and threads that take, on one pair of workers */
class test_ucp_threads
    : public ucp_test,
      public ::testing::WithParamInterface<ucs_thread_mode_t> {
  protected:
    /* With a mode other than MULTI the program serializes all calls on a worker */
    std::unique_lock<std::mutex> lock(std::mutex &mutex)
    {
        return (GetParam() == UCS_THREAD_MODE_MULTI) ?
                       std::unique_lock<std::mutex>() :
                       std::unique_lock<std::mutex>(mutex);
    }

    /* A thread that is stopped at the end of a test, however that ends */
    class joiner {
      public:
        joiner(std::atomic<bool> &stop, const std::function<void()> &func)
            : m_stop(stop), m_thread(func)
        {
        }

        ~joiner()
        {
            m_stop = true;
            m_thread.join();
        }

      private:
        std::atomic<bool> &m_stop;
        std::thread m_thread;
    };

    std::mutex m_send_lock, m_recv_lock;
};


/* Another thread is inside of ucp_worker_progress() nearly all of the time */
TEST_P(test_ucp_threads, detach_while_another_progresses)
{
    ucp_entity::params p;
    std::atomic<bool> stop{ false };
    std::atomic<unsigned> rounds{ 0 };

    p.mode        = GetParam();
    p.handler     = false;
    ucp_entity &e = create(p);
    joiner thread(stop, [&] {
        while (!stop) {
            auto guard = lock(m_recv_lock);

            ucp_worker_progress(e.worker());
            ++rounds;
        }
    });

    for (unsigned i = 0; i < 100; ++i) {
        const unsigned before = rounds;

        while (rounds == before) {
            std::this_thread::yield();
        }
        auto guard = lock(m_recv_lock);
        e.detach();
        e.attach();
    }
}

/* Each on a worker of its own, but one list has the handles of all */
TEST_P(test_ucp_threads, attach_to_several_workers)
{
    std::vector<ucp_entity *> entities;
    std::vector<std::thread> threads;
    ucp_entity::params p;

    p.mode = GetParam();
    for (unsigned t = 0; t < 3; ++t) {
        entities.push_back(&create(p));
    }
    for (ucp_entity *e : entities) {
        threads.emplace_back([e] {
            for (unsigned i = 0; i < 100; ++i) {
                e->detach();
                e->attach();
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

TEST_P(test_ucp_threads, post_and_poll)
{
    static const unsigned num_threads = 3;
    static const uint32_t per_thread  = 1000;
    ucp_entity::params p;
    std::vector<std::thread> threads;
    std::atomic<uint32_t> taken{ 0 }, wrong{ 0 };
    std::atomic<bool> stop{ false };

    p.mode    = GetParam();
    p.handler = false;
    create_pair(p);
    ASSERT_OK(flush(sender()));
    ucp_buffer src(sender(), num_threads * 4096),
            dst(receiver(), num_threads * 4096);
    auto rkey = dst.unpack(sender().ep());

    for (unsigned t = 0; t < num_threads; ++t) {
        threads.emplace_back([&, t] {
            ucp_request_param_t param = {};

            for (uint32_t i = 0; (i < per_thread) && !stop; ++i) {
                auto guard           = lock(m_send_lock);
                const size_t length  = ((i % 4) == 0) ? 4096 : 8;
                ucs_status_ptr_t ptr = ucp_wimm_put_nbx(
                        sender().wimm(), sender().ep(), src.ptr(t * 4096),
                        length, dst.addr(t * 4096), rkey.get(), (t << 24) | i,
                        &param);

                wrong += UCS_PTR_IS_ERR(ptr);
                if (UCS_PTR_IS_PTR(ptr)) {
                    ucp_request_free(ptr);
                }
                sender().progress();
            }
        });
        threads.emplace_back([&] {
            while (!stop && (taken < (num_threads * per_thread))) {
                ucp_wimm_notification_t n[4];
                auto guard = lock(m_recv_lock);
                unsigned count;

                receiver().progress();
                wrong += (ucp_wimm_poll(receiver().wimm(), n, 4, &count) !=
                          UCS_OK);
                for (unsigned i = 0; i < count; ++i) {
                    wrong += (n[i].status != UCS_OK);
                }
                taken += count;
            }
        });
    }

    /* What is queued goes out by progress of the sender */
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::seconds(120);
    while ((taken < (num_threads * per_thread)) &&
           (std::chrono::steady_clock::now() < end)) {
        auto guard = lock(m_send_lock);
        sender().progress();
    }
    stop = true;
    for (std::thread &thread : threads) {
        thread.join();
    }
    EXPECT_EQ(num_threads * per_thread, taken);
    EXPECT_EQ(0u, wrong);
}

TEST_P(test_ucp_threads, wait_for_counters)
{
    static const unsigned num_threads = 3;
    static const uint32_t count       = 300;
    ucp_entity::params p;
    std::vector<std::thread> threads;
    std::atomic<unsigned> there{ 0 };
    std::vector<ucp_wimm_counter_h> counters(num_threads);

    p.mode = GetParam();
    create_pair(p);
    ASSERT_OK(flush(sender()));
    for (unsigned t = 0; t < num_threads; ++t) {
        ucp_wimm_counter_params_t params = {};

        params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH |
                            UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED;
        params.match    = { t, 0xff };
        params.expected = count;
        ASSERT_OK(ucp_wimm_counter_create(receiver().wimm(), &params,
                                          &counters[t]));
    }
    for (unsigned t = 0; t < num_threads; ++t) {
        threads.emplace_back([&, t] {
            ucs_status_t status;

            do {
                auto guard = lock(m_recv_lock);
                status = ucp_wimm_wait_some(receiver().wimm(), &counters[t], 1,
                                            (GetParam() ==
                                             UCS_THREAD_MODE_MULTI) ?
                                                    UCP_WIMM_TIMEOUT_INF :
                                                    0,
                                            NULL, NULL);
            } while (status == UCS_ERR_TIMED_OUT);
            there += (status == UCS_OK);
        });
    }

    ucp_request_param_t param = {};
    for (uint32_t i = 0; i < (count * num_threads); ++i) {
        ucs_status_ptr_t ptr = ucp_wimm_notify_nbx(sender().wimm(),
                                                   sender().ep(),
                                                   i % num_threads, &param);
        ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
        if (UCS_PTR_IS_PTR(ptr)) {
            ucp_request_free(ptr);
        }
        sender().progress();
    }
    while (there < num_threads) {
        sender().progress();
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    for (ucp_wimm_counter_h c : counters) {
        ucp_wimm_counter_destroy(c);
    }
}

INSTANTIATE_TEST_SUITE_P(modes, test_ucp_threads,
                         ::testing::Values(UCS_THREAD_MODE_SERIALIZED,
                                           UCS_THREAD_MODE_MULTI));
