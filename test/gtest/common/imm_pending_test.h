/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_IMM_PENDING_TEST_H_
#define WIMM_IMM_PENDING_TEST_H_

#include "imm_test.h"
#include "pending_req.h"
#include "send_view.h"


/* Notified puts that wait for a slot: the endpoint's own list, and how it goes
 * together with UCT's pending group */
class imm_pending_test : public imm_test {
  protected:
    typedef std::vector<uint32_t> values;

    static const uint8_t AM_ID  = 6;
    static const unsigned slots = 4;

    void TearDown() override
    {
        m_sink.reset();
        imm_test::TearDown();
    }

    /* Endpoint 0 has no slot left: the receiver holds all of them */
    void open_without_slots(const config_list &config = config_list(),
                            unsigned num_eps          = 1)
    {
        config_list all = { { "NUM_SLOTS", std::to_string(slots) } };

        all.insert(all.end(), config.begin(), config.end());
        open_pair(all);
        for (unsigned i = 1; i < num_eps; ++i) {
            entity::connect(sender(), i, receiver(), i);
        }
        receive();
        m_sink->result = UCS_INPROGRESS;
        take_slots();
    }

    /* Few registered buffers for what is packed */
    static config_list few_buffers(unsigned count)
    {
        return { { "IB_TX_MAX_BUFS", std::to_string(count) },
                 { "IB_TX_BUFS_GROW", std::to_string(count) } };
    }

    void receive()
    {
        m_sink.reset(new imm_sink(receiver()));
        receiver().set_am_handler(AM_ID, [this](void *data, size_t, unsigned) {
            m_ams.push_back(u64_at(data));
            return UCS_OK;
        });
    }

    void take_slots()
    {
        const size_t start = m_sink->count();

        wait_for([&]() {
            notify(sender(), 0, 0);
            return ep_attr(sender()).slots == 0;
        });
        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 0));
        wait_for([&]() { return m_sink->count() == (start + slots); });
        flush(sender());
        m_sink->got.clear();
    }

    void release(unsigned count, unsigned index = 0)
    {
        ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(index), count));
    }

    pending_req &request(pending_req::func_t func)
    {
        m_reqs.emplace_back(new pending_req(std::move(func)));
        return *m_reqs.back();
    }

    /* A request that notifies */
    pending_req &notifier(uint32_t imm)
    {
        return request([this, imm]() {
            const ucs_status_t status = notify(sender(), 0, imm);

            m_statuses.push_back(status);
            return pending_req::result(status);
        });
    }

    pending_req &queue(uint32_t imm)
    {
        pending_req &req = notifier(imm);

        add(req);
        return req;
    }

    void add(pending_req &req)
    {
        EXPECT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &req.uct));
    }

    /* A request in UCT's group that sends an active message */
    pending_req &queue_am(uint64_t value)
    {
        pending_req &req = request([this, value]() {
            return uct_ep_am_short(sender().ep(), AM_ID, value, NULL, 0);
        });

        EXPECT_OK(uct_ep_pending_add(sender().ep(), &req.uct, 0));
        return req;
    }

    ucs_status_t am(uint64_t value, unsigned index = 0)
    {
        return uct_ep_am_short(sender().ep(index), AM_ID, value, NULL, 0);
    }

    ucs_status_t put(const mapped_buffer &dst, uint64_t value,
                     unsigned index = 0)
    {
        return uct_ep_put_short(sender().ep(index), &value, sizeof(value),
                                dst.addr(), dst.rkey());
    }

    ucs_status_t flush_start(completion &comp, unsigned flags = 0)
    {
        return uct_ep_flush(sender().ep(), flags, &comp.uct);
    }

    /* Plain puts until there are no resources */
    void fill(const mapped_buffer &dst, unsigned index = 0)
    {
        unsigned count = 0;

        while (put(dst, 1, index) == UCS_OK) {
            ++count;
        }
        ASSERT_GT(count, 0u);
    }

    /* The same with active messages: one completion makes room for several */
    void fill_unsignaled()
    {
        while (am(0) == UCS_OK) {
        }
        ASSERT_EQ(0, rc_state::sq_available(sender()));
        ASSERT_GT(rc_state::ep(sender())->super.fc.fc_wnd, 0);
    }

    values arrived() const
    {
        values result;

        for (const imm_sink::notification &n : m_sink->got) {
            result.push_back(n.imm);
        }
        return result;
    }

    bool wait_arrived(size_t count)
    {
        return wait_for([&]() { return m_sink->count() >= count; });
    }

    /* first, first + 1, ... */
    static values sequence(uint32_t first, unsigned count)
    {
        values result;

        for (uint32_t i = 0; i < count; ++i) {
            result.push_back(first + i);
        }
        return result;
    }

    /* All in the list and the group, in the order of the purge */
    std::vector<const pending_req *> purge()
    {
        std::vector<const pending_req *> result;

        uct_ep_pending_purge(
                sender().ep(),
                [](uct_pending_req_t *req, void *arg) {
                    static_cast<std::vector<const pending_req *> *>(arg)
                            ->push_back(pending_req::from(req));
                },
                &result);
        return result;
    }

    std::vector<const pending_req *> all_requests() const
    {
        std::vector<const pending_req *> result;

        for (const auto &req : m_reqs) {
            result.push_back(req.get());
        }
        return result;
    }

    /* The endpoint works as if nothing had been queued */
    void check_works(uint32_t imm)
    {
        const size_t start = m_sink->count();

        ASSERT_OK(retry([&]() { return notify(sender(), 0, imm); }));
        ASSERT_TRUE(wait_arrived(start + 1));
        EXPECT_EQ(imm, m_sink->got.back().imm);
        flush(sender());
        check_tx_accounting(sender());
    }

    std::unique_ptr<imm_sink> m_sink;
    std::vector<std::unique_ptr<pending_req>> m_reqs; /* In order */
    std::vector<ucs_status_t> m_statuses;             /* Of notifier()s */
    std::vector<uint64_t> m_ams;
};

#endif
