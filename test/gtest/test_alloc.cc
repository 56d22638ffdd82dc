/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"
#include "common/alloc_fault.h"
#include "common/pending_req.h"
#include "common/send_view.h"

#include <algorithm>
#include <cstdio>
#include <memory>


/* No memory: each allocation of each call fails once. The call says so, or does
 * without; nothing is left of it; and it works when there is memory again. */
class test_alloc : public imm_test {
  protected:
    static const unsigned slots = 8;

    void SetUp() override
    {
        imm_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        if (!alloc_fault::is_available()) {
            GTEST_SKIP() << "the sanitizer has an allocator of its own";
        }

        /* UCX has its own words for each */
        log_level(UCS_LOG_LEVEL_FATAL);
    }

    /* Pools of buffers are allocated, too, not mapped */
    static config_list with_heap(const config_list &more = config_list())
    {
        config_list config = { { "ALLOC", "heap" } };

        config.insert(config.end(), more.begin(), more.end());
        return config;
    }

    /* What a call that failed may return */
    static void expect_no_memory(ucs_status_t status)
    {
        EXPECT_TRUE((status == UCS_ERR_NO_MEMORY) ||
                    (status == UCS_ERR_IO_ERROR)) /* By verbs */
                << status_str(status);
    }

    /* Nothing is left, but for what has one of these in its chain of calls */
    static void check_nothing_left(const std::vector<std::string> &allowed = {})
    {
        for (const std::string &chain : alloc_fault::live()) {
            EXPECT_TRUE(std::any_of(allowed.begin(), allowed.end(),
                                    [&](const std::string &part) {
                                        return chain.find(part) !=
                                               std::string::npos;
                                    }))
                    << "not released: " << chain;
        }
    }

    /* Do something, each time with one more allocation that goes well, until all of
     * them do. @return How many there are. */
    static unsigned for_each(const std::function<void(alloc_fault &)> &func)
    {
        for (unsigned nth = 1;; ++nth) {
            alloc_fault fault(nth);

            func(fault);
            if (HasFailure()) {
                ADD_FAILURE() << "allocation " << nth << ": " << fault.where();
                return nth;
            }
            if (!fault.happened()) {
                return nth - 1;
            }
        }
    }

    /* How many there are in a call */
    static unsigned count(const std::function<void()> &func)
    {
        alloc_fault fault(0);

        fault.run(func);
        return fault.count();
    }

    static bool has_failed(const entity &e, unsigned index)
    {
        return std::any_of(e.errors.begin(), e.errors.end(),
                           [&](const entity::ep_error &error) {
                               return error.ep == e.ep(index);
                           });
    }

    /* All that was posted has ended, well or not */
    void drain(entity &e, unsigned index)
    {
        completion comp;

        if (retry([&]() { return uct_ep_flush(e.ep(index), 0, &comp.uct); }) ==
            UCS_INPROGRESS) {
            EXPECT_TRUE(wait_for([&]() { return comp.done(); }));
        }
    }

    /* Endpoint 0 works, in both directions */
    void check_works(uint32_t imm)
    {
        imm_sink left(sender()), right(receiver());

        ASSERT_OK(retry([&]() { return notify(sender(), 0, imm); }));
        ASSERT_OK(retry([&]() { return notify(receiver(), 0, imm); }));
        ASSERT_TRUE(wait_for(
                [&]() { return (left.count() > 0) && (right.count() > 0); }));
        EXPECT_EQ(imm, left.got.back().imm);
        EXPECT_EQ(imm, right.got.back().imm);
        flush(sender());
        flush(receiver());
    }
};

const unsigned test_alloc::slots;


TEST_F(test_alloc, open_and_close_an_interface)
{
    /* UCX leaves its table of send operations if their pool cannot be created,
     * and registers buffers in a cache */
    const std::vector<std::string> allowed = {
        "ucs_calloc < uct_rc_iface_t_init", "ucs_rcache_get"
    };
    const config_list config = with_heap({ { "IB_RX_QUEUE_LEN", "64" } });
    uct_iface_h iface;

    open();
    const int num_qps    = rc_state::device_num_qps();
    const unsigned total = for_each([&](alloc_fault &fault) {
        ucs_status_t status;

        fault.run([&]() {
            status = sender().open_iface(config, entity::open_params(), &iface);
            if (status == UCS_OK) {
                uct_iface_progress_enable(iface, UCT_PROGRESS_SEND |
                                                         UCT_PROGRESS_RECV);
                uct_iface_close(iface);
            }
        });
        if (status != UCS_OK) {
            EXPECT_TRUE(fault.happened());
            expect_no_memory(status);
        }
        check_nothing_left(allowed);
    });
    EXPECT_GT(total, 10u);
    EXPECT_EQ(num_qps, rc_state::device_num_qps());

    open();
    entity::connect(sender(), 0, receiver(), 0);
    check_works(1);
}

TEST_F(test_alloc, create_and_destroy_an_endpoint)
{
    uct_ep_params_t params;
    uct_ep_h ep;

    open();
    open();
    const int num_qps = rc_state::device_num_qps();

    params.field_mask    = UCT_EP_PARAM_FIELD_IFACE;
    params.iface         = sender().iface();
    const unsigned total = for_each([&](alloc_fault &fault) {
        ucs_status_t status;

        fault.run([&]() {
            status = uct_ep_create(&params, &ep);
            if (status == UCS_OK) {
                uct_ep_destroy(ep);
            }
        });
        if (status != UCS_OK) {
            EXPECT_TRUE(fault.happened());
            expect_no_memory(status);
        }
        check_tx_accounting(sender());
        EXPECT_EQ(num_qps, rc_state::device_num_qps());
        EXPECT_TRUE(ucs_list_is_empty(&rc_state::iface(sender())->ep_list));

        /* The device's table of events stays */
        check_nothing_left({ "uct_ib_device_async_event_register" });
    });
    EXPECT_GE(total, 2u);
    entity::connect(sender(), 0, receiver(), 0);
    check_works(1);
}

TEST_F(test_alloc, connect_an_endpoint)
{
    open();
    open();
    sender().create_ep(0);
    receiver().create_ep(0);
    receiver().connect_to(0, sender(), 0);

    const std::vector<uint8_t> address = receiver().address(0);
    EXPECT_EQ(0u, count([&]() { sender().connect_to(0, address); }));
    check_works(1);
}

TEST_F(test_alloc, short_path_allocates_nothing)
{
    completion comp;
    ucs_status_t status = UCS_OK;

    open_pair(with_heap());
    mapped_buffer src(1000, sender());
    mapped_buffer dst(1000, receiver());
    imm_sink sink(receiver());
    pack_arg arg = { 1, 1000 };
    uint32_t imm = 0;

    /* What comes once is there after the first of each */
    for (unsigned i = 0; i < 3; ++i) {
        const unsigned allocations = count([&]() {
            status = notify(sender(), 0, imm++);
            status = (status != UCS_OK) ?
                             status :
                             put_imm(sender(), 0, src.ptr(), 8, dst, 0, imm++);
            status = (status != UCS_OK) ? status :
                                          put_imm_zcopy(sender(), 0, src, 1000,
                                                        dst, 0, imm++, NULL);
            if (put_imm_bcopy(sender(), 0, &arg, dst, 0, imm++) != 1000) {
                status = UCS_ERR_NO_RESOURCE;
            }
            progress_rounds(50);
        });
        ASSERT_STATUS(UCS_INPROGRESS, status);
        if (i > 0) {
            EXPECT_EQ(0u, allocations);
        }
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == imm; }));
}

TEST_F(test_alloc, calls_that_allocate_nothing)
{
    uct_wimm_iface_attr_t attr = {};

    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    imm_sink sink(receiver());
    uct_pending_req_t req;

    sink.result = UCS_INPROGRESS;
    req.func    = [](uct_pending_req_t *) { return UCS_OK; };
    EXPECT_EQ(0u, count([&]() {
                  for (unsigned i = 0; i < slots; ++i) {
                      EXPECT_OK(notify(sender(), 0, i));
                  }
                  EXPECT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &req));
                  for (unsigned i = 0; (sink.count() < slots) && (i < 1000000);
                       ++i) {
                      progress_rounds(1);
                  }
                  EXPECT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots));
                  progress_rounds(50);
                  sink.pause();
                  sink.start();
                  attr.field_mask = UINT64_MAX;
                  EXPECT_OK(uct_wimm_iface_query(sender().iface(), &attr));
                  ep_attr(sender());
                  receiver().arm(UCT_EVENT_RECV);
                  EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
                  progress_rounds(50);
                  receiver().destroy_ep(0);
                  progress_rounds(50);
              }));
    EXPECT_EQ(slots, sink.count());
}

TEST_F(test_alloc, put_from_a_buffer_of_the_interface)
{
    pack_arg arg         = { 7, 1000 };
    const unsigned total = for_each([&](alloc_fault &fault) {
        m_entities.clear();
        open_pair(with_heap());
        mapped_buffer dst(1000, receiver());
        imm_sink sink(receiver());
        ssize_t ret;

        fault.run([&]() { ret = put_imm_bcopy(sender(), 0, &arg, dst, 0, 1); });
        if (ret < 0) {
            EXPECT_TRUE(fault.happened());
            EXPECT_STATUS(UCS_ERR_NO_MEMORY, ucs_status_t(ret));
            EXPECT_EQ(1000, put_imm_bcopy(sender(), 0, &arg, dst, 0, 2));
        }
        EXPECT_TRUE(wait_for([&]() { return sink.count() > 0; }));
        progress_rounds(50);
        ASSERT_EQ(1u, sink.count());
        EXPECT_EQ((ret < 0) ? 2u : 1u, sink.got[0].imm);
        dst.check(7, 1000);
        EXPECT_TRUE(sender().errors.empty());
    });
    EXPECT_GT(total, 0u);
}

TEST_F(test_alloc, queued_put_that_lacks_a_buffer)
{
    open_pair(with_heap({ { "IB_TX_QUEUE_LEN", "8" } }));
    mapped_buffer dst(8, receiver());
    imm_sink sink(receiver());
    pack_arg arg = { 1, 8 };
    alloc_fault fault(1);
    ssize_t ret = 0;

    receiver().set_am_handler(0,
                              [](void *, size_t, unsigned) { return UCS_OK; });
    pending_req second(
            [&]() { return pending_req::result(notify(sender(), 0, 1)); });
    pending_req third(
            [&]() { return pending_req::result(notify(sender(), 0, 2)); });

    /* As UCP: it completes with the error, and the program posts again then */
    pending_req first([&]() {
        fault.run([&]() { ret = put_imm_bcopy(sender(), 0, &arg, dst, 0, 9); });
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 2));
        EXPECT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &third.uct));
        return UCS_OK;
    });
    {
        tx_hold hold(sender());

        while (uct_ep_am_short(sender().ep(), 0, 0, NULL, 0) == UCS_OK) {
        }
        ASSERT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &first.uct));
        ASSERT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &second.uct));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() >= 2; }));
    EXPECT_STATUS(UCS_ERR_NO_MEMORY, static_cast<ucs_status_t>(ret));
    EXPECT_EQ(1u, sink.got[0].imm);
    EXPECT_EQ(2u, sink.got[1].imm);
    EXPECT_EQ(1u, first.called);
}

TEST_F(test_alloc, flush)
{
    open_pair();
    const unsigned total = for_each([&](alloc_fault &fault) {
        completion comp;
        ucs_status_t status;

        ASSERT_OK(retry([&]() { return notify(sender(), 0, 1); }));
        fault.run(
                [&]() { status = uct_ep_flush(sender().ep(), 0, &comp.uct); });
        if (status != UCS_INPROGRESS) {
            EXPECT_TRUE(fault.happened());
            EXPECT_STATUS(UCS_ERR_NO_MEMORY, status);
            EXPECT_STATUS(UCS_INPROGRESS,
                          uct_ep_flush(sender().ep(), 0, &comp.uct));
        }
        ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
        progress_rounds(50);
        EXPECT_EQ(1, comp.called);
        EXPECT_OK(comp.status());
    });
    EXPECT_GT(total, 0u);
    check_works(2);
}

TEST_F(test_alloc, flush_that_waits_for_slots)
{
    struct request {
        uct_pending_req_t uct;
        uct_ep_h ep;
    };

    const unsigned total = for_each([&](alloc_fault &fault) {
        m_entities.clear();
        open_pair({ { "NUM_SLOTS", std::to_string(slots) } });

        imm_sink sink(receiver(), false);
        const uct_ep_h ep = sender().ep();
        request req       = {};
        completion comp;
        ucs_status_t status;

        for (unsigned i = 0; i < slots; ++i) {
            ASSERT_OK(notify(sender(), 0, i));
        }
        req.ep       = ep;
        req.uct.func = [](uct_pending_req_t *self) {
            return uct_wimm_ep_notify(reinterpret_cast<request *>(self)->ep,
                                      slots);
        };
        ASSERT_OK(uct_wimm_ep_imm_pending_add(ep, &req.uct));
        fault.run([&]() { status = uct_ep_flush(ep, 0, &comp.uct); });
        if (status != UCS_INPROGRESS) {
            EXPECT_TRUE(fault.happened());
            EXPECT_STATUS(UCS_ERR_NO_MEMORY, status);
            EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep, 0, &comp.uct));
        }
        progress_rounds(50);
        EXPECT_FALSE(comp.done());

        /* It may fail only now, but what it waits for goes on */
        const bool happened = fault.happened();
        sink.start();
        fault.run([&]() {
            EXPECT_TRUE(wait_for([&]() {
                return comp.done() && (sink.count() == (slots + 1));
            }));
        });
        EXPECT_STATUS((fault.happened() && !happened) ? UCS_ERR_NO_MEMORY :
                                                        UCS_OK,
                      comp.status());
        progress_rounds(50);
        EXPECT_EQ(1, comp.called);
        for (unsigned i = 0; i <= slots; ++i) {
            EXPECT_EQ(i, sink.got[i].imm);
        }
        EXPECT_TRUE(sender().errors.empty());
    });
    EXPECT_GT(total, 1u);
}

TEST_F(test_alloc, arrival_without_a_handler)
{
    const uint32_t count = 200; /* More than are allocated at once */
    const unsigned num   = 2;

    const unsigned total = for_each([&](alloc_fault &fault) {
        m_entities.clear();
        open_pair({ { "NUM_SLOTS", "500" },
                    { "RC_FC_ENABLE", "n" },
                    { "RC_RETRY_COUNT", "3" },
                    { "RC_TIMEOUT", "50ms" } });
        entity::connect(sender(), 1, receiver(), 1);
        imm_sink sink(receiver(), false);
        std::vector<uint32_t> sent(num, 0), next(num, 0);

        sink.on_imm = [&](const imm_sink::notification &n) {
            ASSERT_GE(n.ep_index, 0);
            EXPECT_EQ(next[n.ep_index], n.imm) << "endpoint " << n.ep_index;
            ++next[n.ep_index];
        };
        /* The memory that a flush needs is there then */
        ASSERT_OK(uct_ep_check(sender().ep(0), 0, NULL));
        flush(sender(), 0);
        fault.run([&]() {
            EXPECT_TRUE(wait_for([&]() {
                bool done = true;

                for (unsigned i = 0; i < num; ++i) {
                    while ((sent[i] < count) &&
                           (notify(sender(), i, sent[i]) == UCS_OK)) {
                        ++sent[i];
                    }
                    done = done &&
                           ((sent[i] == count) || has_failed(sender(), i));
                }
                return done;
            }));
            for (unsigned i = 0; i < num; ++i) {
                drain(sender(), i);
            }
            progress_rounds(50);
        });
        EXPECT_EQ(0u, sink.count());

        /* What could not be kept fails its connection, and what came behind it is
         * lost, too. The other one has all. */
        sink.start();
        EXPECT_EQ(fault.happened() ? 1u : 0u, receiver().errors.size());
        for (unsigned i = 0; i < num; ++i) {
            if (!has_failed(receiver(), i)) {
                EXPECT_TRUE(wait_for([&]() { return next[i] == count; }));
            }
        }
        progress_rounds(50);
        for (unsigned i = 0; i < num; ++i) {
            if (has_failed(receiver(), i)) {
                EXPECT_STATUS(UCS_ERR_NO_MEMORY, receiver().errors[0].status);
                EXPECT_LT(next[i], count);
            } else {
                EXPECT_EQ(count, next[i]);
                EXPECT_FALSE(has_failed(sender(), i));
            }
            EXPECT_EQ(next[i], ep_attr(receiver(), i).counters.delivered);
        }
        check_rx_accounting();
    });
    EXPECT_GT(total, 1u);
}

TEST_F(test_alloc, receives)
{
    const uint32_t count  = 300;
    const unsigned rx_len = 64;

    /* Buffers come in small batches: of the first receives, and of later ones */
    const config_list config = with_heap(
            { { "IB_RX_QUEUE_LEN", std::to_string(rx_len) },
              { "IB_RX_BUFS_GROW", "16" },
              { "RC_FC_ENABLE", "n" } });
    const unsigned total = for_each([&](alloc_fault &fault) {
        std::vector<void *> kept;
        uint32_t sent = 0;

        entity::open_params params;

        params.progress = false;
        m_entities.clear();
        open(config);
        open(config, params);
        fault.run([&]() {
            uct_iface_progress_enable(receiver().iface(),
                                      UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
        });
        entity::connect(sender(), 0, receiver(), 0);

        /* The user keeps some, so that more are needed */
        receiver().set_am_handler(0, [&](void *data, size_t, unsigned) {
            kept.push_back(data);
            return UCS_INPROGRESS;
        });
        imm_sink sink(receiver());
        fault.run([&]() {
            EXPECT_TRUE(wait_for([&]() {
                if (sent < count) {
                    sent += (((sent % 8) == 7) ?
                                     uct_ep_am_short(sender().ep(), 0, sent,
                                                     NULL, 0) :
                                     notify(sender(), 0, sent)) == UCS_OK;
                }
                return (sink.count() + kept.size()) == count;
            }));
        });
        uint32_t last = 0;
        for (const imm_sink::notification &n : sink.got) {
            EXPECT_TRUE((n.imm == 0) || (n.imm > last));
            last = n.imm;
        }
        EXPECT_EQ(rx_len, rc_state::rx_in_use(receiver()) - kept.size() +
                                  rc_state::rx_available(receiver()));
        for (void *desc : kept) {
            uct_iface_release_desc(desc);
        }
        EXPECT_TRUE(receiver().errors.empty());
        EXPECT_TRUE(sender().errors.empty());
    });
    EXPECT_GT(total, 4u);
}
