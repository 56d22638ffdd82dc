/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "hostile_test.h"

extern "C" {
#include <uct/ib/wimm/wimm_ep.h>
}

#include <endian.h>

#include <cstring>
#include <memory>
#include <tuple>


/* A raw peer that sends as fast as the device lets it, whatever it was granted */
class test_hostile_flood : public hostile_test {
  protected:
    static const unsigned sq_len = 2048;

    enum kind_t {
        AM,
        PUT,
        GRANT,
        RECLAIM,
        EMPTY, /* A SEND without a header */
        LENGTH,
        LARGE_AM, /* Several packets */
        NUM_KINDS
    };

    static const char *kind_name(kind_t kind)
    {
        static const char *names[] = { "am",    "put",    "grant",   "reclaim",
                                       "empty", "length", "large_am" };

        return names[kind];
    }

    static uint32_t ctrl(unsigned op, uint32_t amount)
    {
        return (static_cast<uint32_t>(op) << UCT_WIMM_CTRL_OP_SHIFT) | amount;
    }

    /* Whether so many break the protocol: with flow control what is beyond the credits,
     * without it what is about them; and always what is no message, or the length of none */
    static bool is_bad(kind_t kind, bool fc)
    {
        switch (kind) {
        case AM:
        case PUT:
        case LARGE_AM:
            return fc;
        case GRANT:
        case RECLAIM:
            return !fc;
        default:
            return true;
        }
    }

    /* Post what fits, nearly all without a completion */
    static unsigned post(raw_peer &peer, kind_t kind, unsigned max)
    {
        const uint64_t one = htobe64(1);
        const std::vector<uint8_t> am((kind == LARGE_AM) ? 8000 : 16, am_id);
        unsigned count = 0;
        int ret        = 0;

        while ((count < max) && (peer.room() > 0) && (ret == 0)) {
            const bool signaled = (++count % 64) == 0 || (count == max) ||
                                  (peer.room() == 1);

            switch (kind) {
            case AM:
            case LARGE_AM:
                ret = peer.post(IBV_WR_SEND, 0, am.data(), am.size(), 0, 0,
                                signaled);
                break;
            case PUT:
                ret = peer.post(IBV_WR_RDMA_WRITE_WITH_IMM, count, NULL, 0, 0,
                                0, signaled);
                break;
            case GRANT:
                ret = peer.post(IBV_WR_SEND_WITH_IMM,
                                ctrl(UCT_WIMM_CTRL_GRANT, 1), NULL, 0, 0, 0,
                                signaled);
                break;
            case RECLAIM:
                ret = peer.post(IBV_WR_SEND_WITH_IMM,
                                ctrl(UCT_WIMM_CTRL_RECLAIM, 5), NULL, 0, 0, 0,
                                signaled);
                break;
            case LENGTH:
                ret = peer.post(IBV_WR_SEND_WITH_IMM,
                                ctrl(UCT_WIMM_CTRL_LENGTH, 0), &one,
                                sizeof(one), 0, 0, signaled);
                break;
            default:
                ret = peer.post(IBV_WR_SEND, 0, NULL, 0, 0, 0, signaled);
                break;
            }
        }
        EXPECT_EQ(0, ret);
        return count;
    }

    /* Receives that the device has, of an interface that makes no progress: what a
     * raw peer can send until there is none (RNR). All that is posted takes one. */
    unsigned count_receives()
    {
        raw_peer peer(receiver(), sq_len);
        const unsigned index = connect(peer, 0, 0);
        unsigned num_got     = 0;

        receiver().set_am_handler(am_id, [&](void *, size_t, unsigned) {
            ++num_got;
            return UCS_OK;
        });
        post(peer, AM, 1024);
        while (!peer.is_idle() && (peer.status() == IBV_WC_SUCCESS)) {
            peer.progress();
        }
        EXPECT_EQ(IBV_WC_RNR_RETRY_EXC_ERR, peer.status());
        progress_rounds();
        receiver().remove_am_handler(am_id);
        disconnect(index);
        return num_got;
    }
};


/* Of all kinds, one after the other. By whether there is flow control, whether the device
 * repeats what found no receive, and whether the peer goes away in the middle. */
class test_hostile_floods
    : public test_hostile_flood,
      public ::testing::WithParamInterface<std::tuple<bool, bool, bool>> {
  protected:
    void flood(kind_t kind)
    {
        const bool repeated     = std::get<1>(GetParam());
        const bool vanishes     = std::get<2>(GetParam());
        const unsigned num_good = 20, total = 1000;
        const size_t lines = logged(UCS_LOG_LEVEL_ERROR).size();
        unsigned num_ams = 0, left = 0, right = 0, sent = 0, num_posted;
        const unsigned index = connect(*m_peer, repeated ? 7 : 0);
        imm_sink left_sink(sender()), sink(receiver());
        size_t num_closed = 0;

        receiver().set_am_handler(am_id, [&](void *, size_t, unsigned) {
            ++num_ams;
            return UCS_OK;
        });
        left_sink.on_imm = [&](const imm_sink::notification &n) {
            ASSERT_EQ(left, n.imm);
            ++left;
        };
        sink.on_imm = [&](const imm_sink::notification &n) {
            if (n.ep_index == static_cast<int>(good)) {
                ASSERT_EQ(right, n.imm);
                ++right;
            }
            sink.got.clear();
        };

        /* First more than there are receives, which are not looked at */
        num_posted = post(*m_peer, kind, 512);
        while (!repeated && !m_peer->is_idle()) {
            m_peer->progress();
        }
        if (vanishes) {
            m_peer->vanish();
        }

        /* Then all that it can, while the others have their say */
        ASSERT_TRUE(wait_peer(*m_peer, [&]() {
            const bool ended = vanishes || (m_peer->status() != IBV_WC_SUCCESS);

            if (!ended && (num_posted < total)) {
                num_posted += post(*m_peer, kind, total - num_posted);
            }
            if ((sent < num_good) && (left == sent) && (right == sent) &&
                (notify(sender(), good, sent) == UCS_OK)) {
                EXPECT_OK(retry(
                        [&]() { return notify(receiver(), good, sent); }));
                ++sent;
            }
            check_bounds();
            return HasFatalFailure() ||
                   ((left == num_good) && (right == num_good) &&
                    (ended || ((num_posted == total) && m_peer->is_idle())));
        }));
        progress_rounds(50);

        /* Of this endpoint alone, once. A peer that has gone may be missed. */
        ASSERT_LE(receiver().errors.size(), 1u);
        for (const auto &error : receiver().errors) {
            EXPECT_EQ(receiver().ep(index), error.ep);
            num_closed += (error.status == UCS_ERR_CONNECTION_RESET);
            EXPECT_TRUE(
                    (error.status == UCS_ERR_CONNECTION_RESET) ||
                    (vanishes && (error.status == UCS_ERR_ENDPOINT_TIMEOUT)))
                    << status_str(error.status);
        }
        ASSERT_EQ(num_closed, logged(UCS_LOG_LEVEL_ERROR).size() - lines);
        /* What is repeated may not have been sent before the peer was gone */
        if (!repeated || !vanishes) {
            ASSERT_EQ(is_bad(kind, std::get<0>(GetParam())), num_closed);
        }
        EXPECT_LE(num_ams, total);
        receiver().remove_am_handler(am_id);
        disconnect(index);
    }

    std::unique_ptr<raw_peer> m_peer;
};


TEST_P(test_hostile_floods, are_bounded_and_others_go_on)
{
    open_hostile({ { "RC_FC_ENABLE", std::get<0>(GetParam()) ? "y" : "n" } });
    m_peer.reset(new raw_peer(receiver(), sq_len));
    allow_error("closing the connection");
    for (int kind = 0; kind < NUM_KINDS; ++kind) {
        SCOPED_TRACE(kind_name(static_cast<kind_t>(kind)));
        ASSERT_NO_FATAL_FAILURE(flood(static_cast<kind_t>(kind)));
    }
    m_peer.reset();
    finish();
}

INSTANTIATE_TEST_SUITE_P(all, test_hostile_floods,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Bool(),
                                            ::testing::Bool()));


/* Without a handler they are kept, as many as there are slots */
class test_hostile_slots : public test_hostile_flood,
                           public ::testing::WithParamInterface<const char *> {
};

TEST_P(test_hostile_slots, are_a_bound_where_none_are_consumed)
{
    open_hostile({ { "RC_FC_ENABLE", GetParam() } });
    raw_peer peer(receiver(), sq_len);
    const unsigned index = connect(peer);

    /* With flow control, it may be beyond its credits first */
    expect_error("closing the connection");
    post(peer, PUT, 2000);
    ASSERT_TRUE(wait_peer(peer, [&]() {
        check_bounds();
        return HasFatalFailure() || (peer.status() != IBV_WC_SUCCESS);
    }));
    check_closed(index);

    const unsigned kept = fc_state::rx_slots(receiver(), index);

    EXPECT_LE(kept, num_slots);
    if (!strcmp(GetParam(), "n")) {
        EXPECT_EQ(num_slots, kept);
    }
    {
        imm_sink sink(receiver());

        ASSERT_TRUE(wait_for([&]() { return sink.count() == kept; }));
        for (unsigned i = 0; i < kept; ++i) {
            EXPECT_EQ(i + 1, sink.got[i].imm);
        }
    }
    finish();
}

INSTANTIATE_TEST_SUITE_P(flow_control, test_hostile_slots,
                         ::testing::Values("y", "n"));


TEST_F(test_hostile_flood, of_one_with_a_window_of_one)
{
    unsigned num_ams = 0;

    open_hostile({ { "RC_FC_WND_SIZE", "1" } });
    raw_peer peer(receiver(), sq_len);
    const unsigned index = connect(peer, 7);

    receiver().set_am_handler(am_id, [&](void *, size_t, unsigned) {
        ++num_ams;
        return UCS_OK;
    });
    expect_error("message beyond the peer's credits, 16 bytes");
    post(peer, AM, 200);
    progress_one(sender(), [&]() {
        peer.progress();
        return peer.is_idle();
    });
    check_closed(index);
    EXPECT_EQ(1u, num_ams);
    receiver().remove_am_handler(am_id);
    finish();
}

TEST_F(test_hostile_flood, with_no_receive_posted_for_what_is_sent_to_it)
{
    /* It takes nothing: its endpoint comes to the end of its send queue, others do
     * not, and it can be destroyed */
    open_hostile();
    raw_peer peer(receiver(), sq_len);
    const unsigned index = connect(peer, 7, UCT_WIMM_MAX_CREDITS,
                                   UCT_WIMM_MAX_SLOTS);
    unsigned count       = 0;

    for (unsigned i = 0; i < 20000; ++i) {
        count += (notify(receiver(), index, i) == UCS_OK);
        if ((i % 16) == 0) {
            receiver().progress();
        }
    }
    EXPECT_GE(count, unsigned(256));
    check_open(index);
    finish();
}

TEST_F(test_hostile_flood, peers_that_go_in_mid_message_take_no_receives)
{
    open_hostile();
    const unsigned before = count_receives();

    receiver().set_am_handler(am_id,
                              [&](void *, size_t, unsigned) { return UCS_OK; });
    raw_peer peer(receiver(), sq_len);
    for (unsigned i = 0; i < 50; ++i) {
        const unsigned index = connect(peer);

        post(peer, LARGE_AM, 5);
        peer.vanish();
        progress_rounds(5);
        disconnect(index);
    }
    check_tx_accounting(receiver());
    receiver().remove_am_handler(am_id);
    EXPECT_EQ(before, count_receives());
    finish();
}
