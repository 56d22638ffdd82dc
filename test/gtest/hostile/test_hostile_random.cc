/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "hostile_test.h"

extern "C" {
#include <uct/ib/wimm/wimm_ep.h>
}

#include <algorithm>
#include <endian.h>


/* Random messages of a peer that does not know the protocol. What docs/protocol.md says
 * of each is computed here, from what the endpoint's state was before it. */
class test_hostile_random : public hostile_test {
  protected:
    struct request {
        enum ibv_wr_opcode opcode;
        uint32_t imm;
        std::vector<uint8_t> data;
    };

    /* What is to come of it */
    struct outcome {
        bool legal      = true;
        int credits     = 0; /* Of the endpoint, more or less than before */
        int slots       = 0;
        bool announced  = false;
        uint64_t length = 0; /* That was announced */
        bool notified   = false;
    };

    unsigned random(unsigned limit)
    {
        return m_random() % limit;
    }

    static uint32_t ctrl(unsigned op, uint32_t amount)
    {
        return (static_cast<uint32_t>(op) << UCT_WIMM_CTRL_OP_SHIFT) |
               (amount & UCT_WIMM_CTRL_AMOUNT_MASK);
    }

    std::vector<uint8_t> bytes(size_t length)
    {
        std::vector<uint8_t> result(length);

        for (uint8_t &byte : result) {
            byte = m_random();
        }
        return result;
    }

    /* A control word that may be one: with amounts at which something changes */
    uint32_t likely_word()
    {
        const uint32_t amounts[] = {
            0, 1, 2, 1 + random(40), random(40000), 1u << random(28)
        };
        const unsigned op = m_fc ? 1 + random(5) : +UCT_WIMM_CTRL_SLOTS;
        uint32_t amount   = amounts[random(6)];

        if ((op == UCT_WIMM_CTRL_SLOTS) && (random(2) == 0)) {
            amount = (1 + random(3)) |
                     ((m_fc ? random(200) : 0) << UCT_WIMM_CTRL_GRANT_SHIFT);
        }
        return ctrl(op, amount);
    }

    request random_word()
    {
        return { IBV_WR_SEND_WITH_IMM,
                 (random(4) == 0) ? static_cast<uint32_t>(m_random()) :
                                    likely_word(),
                 {} };
    }

    /* A SEND of any kind and length, and empty notified puts */
    request random_request()
    {
        const size_t lengths[] = { 0, 1, 7, 8, 9, random(64), random(2000) };
        const size_t length    = lengths[random(7)];
        uint64_t announced;

        switch (random(5)) {
        case 0:
            return { IBV_WR_SEND, 0, bytes(length) };
        case 1:
            return { IBV_WR_RDMA_WRITE_WITH_IMM,
                     static_cast<uint32_t>(m_random()),
                     {} };
        case 2:
            announced = htobe64((random(4) == 0) ? 0 : random(1000000));
            {
                request result = { IBV_WR_SEND_WITH_IMM,
                                   ctrl(UCT_WIMM_CTRL_LENGTH, random(8) == 0),
                                   std::vector<uint8_t>(sizeof(announced)) };

                memcpy(result.data.data(), &announced, sizeof(announced));
                return result;
            }
        case 3:
            return { IBV_WR_SEND_WITH_IMM, likely_word(), bytes(length) };
        default:
            return random_word();
        }
    }

    static outcome illegal()
    {
        outcome result;

        result.legal = false;
        return result;
    }

    /* A grant: what waited for it is sent */
    void granted(outcome *result, unsigned credits, unsigned amount) const
    {
        result->credits = amount;
        if ((credits == 0) && m_return_waits) {
            --result->credits;
        }
    }

    outcome predict_ctrl(const request &req, unsigned index) const
    {
        const uct_wimm_ep_attr_t attr = ep_attr(receiver(), index);
        const bool has_credit         = !m_fc ||
                                fc_state::rx_credits(receiver(), index) > 0;
        const unsigned op     = req.imm >> UCT_WIMM_CTRL_OP_SHIFT;
        const unsigned amount = req.imm & UCT_WIMM_CTRL_AMOUNT_MASK;
        const unsigned slots  = amount & UCT_WIMM_MAX_SLOTS;
        const unsigned grant  = amount >> UCT_WIMM_CTRL_GRANT_SHIFT;
        const unsigned space  = UCT_WIMM_MAX_CREDITS - attr.credits;
        outcome result;
        uint64_t length;

        result.length = m_announced;
        if (req.data.size() != ((op == UCT_WIMM_CTRL_LENGTH) ? 8 : 0)) {
            return illegal();
        }

        switch (op) {
        case UCT_WIMM_CTRL_GRANT:
            if (!m_fc || (amount == 0) || (amount > space)) {
                return illegal();
            }
            granted(&result, attr.credits, amount);
            return result;
        case UCT_WIMM_CTRL_RECLAIM:
            if (!m_fc) {
                return illegal();
            }
            result.credits = -static_cast<int>(
                    std::min(attr.credits,
                             std::max((attr.credits > amount) ?
                                              attr.credits - amount :
                                              0,
                                      1u)));
            return result;
        case UCT_WIMM_CTRL_SLOTS:
            if (!has_credit || (slots == 0) ||
                (slots > (attr.num_slots - attr.slots)) ||
                ((grant > 0) && (!m_fc || (grant > space)))) {
                return illegal();
            }
            result.slots = slots;
            if (grant > 0) {
                granted(&result, attr.credits, grant);
            }
            return result;
        case UCT_WIMM_CTRL_LENGTH:
            memcpy(&length, req.data.data(), sizeof(length));
            result.length = be64toh(length);
            return (has_credit && (amount == 0) && (result.length != 0) &&
                    (m_announced == 0)) ?
                           result :
                           illegal();
        default: /* Nobody has asked for credits, neither */
            return illegal();
        }
    }

    outcome predict(const request &req, unsigned index) const
    {
        const bool has_credit = !m_fc ||
                                fc_state::rx_credits(receiver(), index) > 0;
        outcome result;

        result.length = m_announced;
        switch (req.opcode) {
        case IBV_WR_SEND_WITH_IMM:
            return predict_ctrl(req, index);
        case IBV_WR_RDMA_WRITE_WITH_IMM:
            result.legal = has_credit &&
                           (fc_state::rx_slots(receiver(), index) < num_slots);
            result.notified = true;
            result.length   = 0;
            return result;
        default:
            result.legal = has_credit && !req.data.empty() &&
                           (m_fc ||
                            !(req.data[0] & UCT_RC_EP_FLAG_FC_HARD_REQ) ||
                            ((req.data[0] & UCT_RC_EP_FC_MASK) ==
                             UCT_RC_EP_FC_PURE_GRANT));
            return result;
        }
    }

    /* With no credits of its own, there is no flow control */
    void start(raw_peer &peer)
    {
        m_index        = connect(peer, 7, random(3) * 50, 20);
        m_announced    = 0;
        m_return_waits = false;
    }

    /* One message, and all that is to come of it */
    void step(raw_peer &peer, imm_sink &sink, const request &req)
    {
        const uct_wimm_ep_attr_t before = ep_attr(receiver(), m_index);
        const outcome expected          = predict(req, m_index);
        uct_wimm_ep_attr_t after;

        SCOPED_TRACE("opcode " + std::to_string(req.opcode) + ", imm " +
                     std::to_string(req.imm) + ", " +
                     std::to_string(req.data.size()) + " bytes, " +
                     std::to_string(before.credits) + " credits, " +
                     std::to_string(before.slots) + " slots");

        sink.got.clear();
        ASSERT_EQ(0, peer.post(req.opcode, req.imm, req.data.data(),
                               req.data.size()));
        ASSERT_NO_FATAL_FAILURE(wait_idle(peer));
        progress_rounds(3);

        if (!expected.legal) {
            ++m_num_illegal;
            ASSERT_NO_FATAL_FAILURE(check_closed(m_index));
            ASSERT_TRUE(sink.got.empty());
            disconnect(m_index);
            start(peer);
            return;
        }

        ++m_num_legal;
        if (expected.notified) {
            ASSERT_EQ(1u, sink.got.size());
            ASSERT_EQ(req.imm, sink.got[0].imm);
            ASSERT_EQ(m_announced, sink.got[0].length);
            ASSERT_EQ(static_cast<int>(m_index), sink.got[0].ep_index);
        } else {
            ASSERT_TRUE(sink.got.empty());
        }
        ASSERT_TRUE(receiver().errors.empty());

        after = ep_attr(receiver(), m_index);
        ASSERT_EQ(before.slots + expected.slots, after.slots);
        ASSERT_LE(after.slots, after.num_slots);
        if (m_fc) {
            const int returned = after.counters.slot_returns -
                                 before.counters.slot_returns;

            ASSERT_EQ(static_cast<int>(before.credits) + expected.credits -
                              returned,
                      static_cast<int>(after.credits));
            ASSERT_LE(after.credits, unsigned(UCT_WIMM_MAX_CREDITS));
        }

        m_announced    = expected.length;
        m_return_waits = (fc_state::ctrl_waiting(receiver(), m_index) &
                          UCS_BIT(UCT_WIMM_CTRL_RETURN)) != 0;
    }

    void run(unsigned count, const std::function<request()> &next)
    {
        raw_peer peer(receiver());
        imm_sink sink(receiver());

        allow_error("closing the connection");
        for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
            receiver().set_am_handler(id, [](void *, size_t, unsigned) {
                return UCS_OK;
            });
        }

        m_num_legal        = 0;
        m_num_illegal      = 0;
        const size_t lines = logged(UCS_LOG_LEVEL_ERROR).size();

        start(peer);
        for (unsigned i = 0; i < count; ++i) {
            /* Some of its slots are in use now and then */
            for (unsigned n = random(3); n > 0; --n) {
                notify(receiver(), m_index, i);
            }
            progress_rounds(1);
            m_fc = ep_attr(receiver(), m_index).flow_control;
            ASSERT_NO_FATAL_FAILURE(step(peer, sink, next()))
                    << "message " << i;
            ASSERT_NO_FATAL_FAILURE(check_bounds());
        }

        /* It was a test of both */
        EXPECT_GT(m_num_legal, count / 20);
        EXPECT_GT(m_num_illegal, count / 20);
        EXPECT_EQ(m_num_illegal, logged(UCS_LOG_LEVEL_ERROR).size() - lines);
        sink.pause();
        finish();
        for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
            receiver().remove_am_handler(id);
        }
    }

    void run_seeds(const config_list &config, unsigned count,
                   const std::function<request()> &next)
    {
        open_hostile(config);
        for (unsigned seed : seeds()) {
            SCOPED_TRACE(seed_name(seed));
            printf("%s\n", seed_name(seed).c_str());
            m_random.seed(seed);
            run(count, next);
            if (HasFatalFailure()) {
                return;
            }
        }
    }

    std::mt19937 m_random;
    bool m_fc            = true;
    bool m_return_waits  = false;
    unsigned m_index     = 0;
    uint64_t m_announced = 0;
    size_t m_num_legal   = 0;
    size_t m_num_illegal = 0;
};


TEST_F(test_hostile_random, control_words)
{
    run_seeds({}, 800, [this]() { return random_word(); });
}

TEST_F(test_hostile_random, control_words_without_flow_control)
{
    run_seeds({ { "RC_FC_ENABLE", "n" } }, 300,
              [this]() { return random_word(); });
}

TEST_F(test_hostile_random, messages)
{
    run_seeds({}, 800, [this]() { return random_request(); });
}

TEST_F(test_hostile_random, messages_without_flow_control)
{
    run_seeds({ { "RC_FC_ENABLE", "n" } }, 300,
              [this]() { return random_request(); });
}

TEST_F(test_hostile_random, puts_with_random_immediates_within_its_credits)
{
    const size_t guard = 4096, size = 64 * 1024;

    open_hostile();
    for (unsigned seed : seeds()) {
        SCOPED_TRACE(seed_name(seed));
        printf("%s\n", seed_name(seed).c_str());
        m_random.seed(seed);

        mapped_buffer dst(size, receiver());
        std::vector<uint8_t> image(size, 0);
        raw_peer peer(receiver());
        imm_sink sink(receiver());
        unsigned done        = 0;
        const unsigned index = connect(peer);

        while (done < 1000) {
            std::vector<request> reqs;
            const unsigned room = std::min<unsigned>(
                    fc_state::rx_credits(receiver(), index),
                    num_slots - fc_state::rx_slots(receiver(), index));

            for (unsigned i = 0; i < room; ++i) {
                const size_t lengths[] = { 0, 1, random(100), random(5000),
                                           random(20000) };

                reqs.push_back({ IBV_WR_RDMA_WRITE_WITH_IMM,
                                 static_cast<uint32_t>(m_random()),
                                 bytes(lengths[random(5)]) });
                const request &req  = reqs.back();
                const size_t offset = guard + random(size - (2 * guard) -
                                                     req.data.size());

                std::copy(req.data.begin(), req.data.end(), &image[offset]);
                ASSERT_EQ(0, peer.post(req.opcode, req.imm, req.data.data(),
                                       req.data.size(), dst.addr(offset),
                                       dst.rkey()));
            }

            ASSERT_TRUE(wait_peer(peer, [&]() {
                return sink.got.size() >= reqs.size();
            }));
            ASSERT_EQ(reqs.size(), sink.got.size());
            for (size_t i = 0; i < reqs.size(); ++i) {
                ASSERT_EQ(reqs[i].imm, sink.got[i].imm);
                ASSERT_EQ(reqs[i].data.size(), sink.got[i].length);
                ASSERT_EQ(static_cast<int>(index), sink.got[i].ep_index);
            }
            sink.got.clear();
            ASSERT_EQ(0, memcmp(image.data(), dst.ptr(), size));
            ASSERT_NO_FATAL_FAILURE(check_bounds());
            done += reqs.size();
        }

        ASSERT_NO_FATAL_FAILURE(check_open(index));
        ASSERT_EQ(IBV_WC_SUCCESS, peer.status());
        sink.pause();
        finish();
    }
}
