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
#include <memory>
#include <tuple>


/* Single messages of a raw peer that no peer sends */
class test_hostile_message : public hostile_test {
  protected:
    void expect_closed(const std::string &part)
    {
        expect_error(part + "; closing the connection");
    }

    void open_raw(const config_list &config = config_list())
    {
        open_hostile(config);
        m_peer.reset(new raw_peer(receiver()));
        m_index = connect(*m_peer);
    }

    void TearDown() override
    {
        m_peer.reset();
        hostile_test::TearDown();
    }

    void send(const std::vector<uint8_t> &data,
              enum ibv_wr_opcode opcode = IBV_WR_SEND, uint32_t imm = 0)
    {
        ASSERT_EQ(0, m_peer->post(opcode, imm, data.data(), data.size()));
        wait_idle(*m_peer);
    }

    static size_t seg_size(const entity &e)
    {
        return rc_state::iface(e)->super.config.seg_size;
    }

    /* The peer was told by the device that it may not, in one of the ways of IBTA */
    void check_refused(std::set<enum ibv_wc_status> allowed)
    {
        ASSERT_TRUE(wait_peer(*m_peer, [&]() {
            return m_peer->status() != IBV_WC_SUCCESS;
        }));
        EXPECT_EQ(1u, allowed.count(m_peer->status()))
                << ibv_wc_status_str(m_peer->status());
    }

    /* The device has stopped the receiver's queue pair. It is seen at once, or when
     * something is sent, and once. */
    void check_failed()
    {
        progress_rounds(50);
        retry([&]() {
            return receiver().errors.empty() ? notify(receiver(), m_index, 0) :
                                               UCS_OK;
        });
        ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
        progress_rounds(20);
        ASSERT_EQ(1u, receiver().errors.size());
        EXPECT_EQ(receiver().ep(m_index), receiver().errors[0].ep);
        EXPECT_NE(status_str(UCS_OK), status_str(receiver().errors[0].status));
        finish();
    }

    /* A SEND of so many bytes is a message for the handler */
    void check_received(size_t size)
    {
        std::vector<size_t> lengths;

        receiver().set_am_handler(am_id, [&](void *, size_t length, unsigned) {
            lengths.push_back(length);
            return UCS_OK;
        });
        send(std::vector<uint8_t>(size, am_id));
        ASSERT_TRUE(wait_for([&]() { return !lengths.empty(); }));
        EXPECT_EQ(std::vector<size_t>(1, size - sizeof(uct_rc_hdr_t)), lengths);
        check_open(m_index);
        finish();
        receiver().remove_am_handler(am_id);
    }

    std::unique_ptr<raw_peer> m_peer;
    unsigned m_index = 0;
};


TEST_F(test_hostile_message, send_without_a_header)
{
    open_raw();
    expect_closed("message shorter than its header, 0 bytes");
    send({});
    check_closed(m_index);
    finish();
}

TEST_F(test_hostile_message, send_without_a_header_and_flow_control)
{
    open_raw({ { "RC_FC_ENABLE", "n" } });
    expect_closed("message shorter than its header, 0 bytes");
    send({});
    check_closed(m_index);
    finish();
}

TEST_F(test_hostile_message, send_with_a_header_alone)
{
    open_raw();
    check_received(sizeof(uct_rc_hdr_t));
}

TEST_F(test_hostile_message, short_send_with_immediate)
{
    /* A control message has no data, and a length 8 bytes of it */
    open_raw();
    allow_error("closing the connection");
    for (unsigned op = 0; op < 16; ++op) {
        for (size_t length : { 1, 2, 7, 8, 9, 16 }) {
            if ((op == UCT_WIMM_CTRL_LENGTH) && (length == 8)) {
                continue;
            }
            SCOPED_TRACE("operation " + std::to_string(op) + ", " +
                         std::to_string(length) + " bytes");

            const size_t lines = logged(UCS_LOG_LEVEL_ERROR).size();
            send(std::vector<uint8_t>(length, 1), IBV_WR_SEND_WITH_IMM,
                 op << UCT_WIMM_CTRL_OP_SHIFT);
            ASSERT_NO_FATAL_FAILURE(check_closed(m_index));
            EXPECT_EQ(lines + 1, logged(UCS_LOG_LEVEL_ERROR).size());
            disconnect(m_index);
            m_index = connect(*m_peer);
        }
    }
    finish();
}

/* Each first byte of an active message: all ids with all of rc_verbs' bits */
class test_hostile_am_id : public test_hostile_message,
                           public ::testing::WithParamInterface<bool> {};

TEST_P(test_hostile_am_id, with_all_bits)
{
    const bool fc    = GetParam();
    unsigned num_got = 0;
    uint8_t expected = 0;

    open_raw(fc ? config_list() : config_list({ { "RC_FC_ENABLE", "n" } }));
    for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
        receiver().set_am_handler(id, [&, id](void *, size_t length, unsigned) {
            EXPECT_EQ(expected & ~UCT_RC_EP_FC_MASK, static_cast<int>(id));
            EXPECT_EQ(8u, length);
            ++num_got;
            return UCS_OK;
        });
    }

    allow_error("flow control message, but flow control is off");
    for (unsigned byte = 0; byte < 256; ++byte) {
        const unsigned bits = byte & UCT_RC_EP_FC_MASK;
        const unsigned got  = num_got;
        SCOPED_TRACE(byte);

        std::vector<uint8_t> data(9, 0);
        data[0] = expected = byte;
        send(data);
        progress_rounds(3);
        if (!fc && (bits & UCT_RC_EP_FLAG_FC_HARD_REQ) &&
            (bits != UCT_RC_EP_FC_PURE_GRANT)) {
            ASSERT_NO_FATAL_FAILURE(check_closed(m_index));
            ASSERT_EQ(got, num_got);
            disconnect(m_index);
            m_index = connect(*m_peer);
        } else {
            /* A grant alone is for the transport */
            ASSERT_EQ(got + (bits != UCT_RC_EP_FC_PURE_GRANT), num_got);
            ASSERT_TRUE(receiver().errors.empty());
        }
    }

    /* The bits gave the endpoint nothing */
    if (fc) {
        EXPECT_EQ(100u, ep_attr(receiver(), m_index).credits);
    }
    EXPECT_EQ(fc ? 0u : 96u, logged(UCS_LOG_LEVEL_ERROR).size());
    finish();
    for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
        receiver().remove_am_handler(id);
    }
}

INSTANTIATE_TEST_SUITE_P(flow_control, test_hostile_am_id, ::testing::Bool());

TEST_F(test_hostile_message, am_id_without_a_handler)
{
    /* UCX takes and reports it: a few lines, and a backtrace */
    open_raw();
    expect_log(UCS_LOG_LEVEL_WARN, "but no handler installed", 2);
    allow_log(UCS_LOG_LEVEL_WARN, "");
    for (uint8_t id : { uint8_t(0), uint8_t(UCT_AM_ID_MAX - 1) }) {
        send({ id, 1, 2, 3 });
    }
    check_open(m_index);
    finish();
}

TEST_F(test_hostile_message, send_of_all_that_fits)
{
    open_raw();
    check_received(seg_size(receiver()));
}

TEST_F(test_hostile_message, send_of_more_than_fits)
{
    const size_t size = 8;
    size_t done       = 0;

    /* The device closes the connection */
    open_raw();
    allow_error("completion with error");
    for (size_t length : { seg_size(receiver()) + size,
                           seg_size(receiver()) * 2, raw_peer::max_length }) {
        for (auto opcode : { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM }) {
            SCOPED_TRACE(length);
            if (done++ > 0) {
                m_index = connect(*m_peer);
            }
            send(std::vector<uint8_t>(length, am_id), opcode);
            check_refused({ IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR });
            ASSERT_NO_FATAL_FAILURE(check_failed());
            receiver().errors.clear();
        }
    }
}


/* Puts, gets and atomics where the peer may not: by what is wrong */
class test_hostile_access : public test_hostile_message,
                            public ::testing::WithParamInterface<
                                    std::tuple<enum ibv_wr_opcode, size_t>> {
  protected:
    void refuse(const std::function<void(const mapped_buffer &, uint64_t *,
                                         uint32_t *)> &spoil)
    {
        const enum ibv_wr_opcode opcode = std::get<0>(GetParam());
        const size_t length             = std::get<1>(GetParam());

        open_raw();
        allow_error("completion with error");
        mapped_buffer dst(64 * 1024, receiver(), 0x55);
        uint64_t addr = dst.addr();
        uint32_t rkey = dst.rkey();
        imm_sink sink(receiver());

        spoil(dst, &addr, &rkey);
        const std::vector<uint8_t> data(length, 0xaa);
        ASSERT_EQ(0, m_peer->post(opcode, 7, data.data(), length, addr, rkey));
        check_refused({ IBV_WC_REM_ACCESS_ERR });
        progress_rounds(20);
        EXPECT_TRUE(sink.got.empty());
        for (size_t i = 0; i < dst.size(); ++i) {
            ASSERT_EQ(0x55, *dst.ptr(i)) << i;
        }
        sink.pause();
        check_failed();
    }
};

TEST_P(test_hostile_access, wrong_key)
{
    refuse([](const mapped_buffer &, uint64_t *, uint32_t *rkey) {
        *rkey ^= 0x5500;
    });
}

TEST_P(test_hostile_access, beyond_the_memory)
{
    const size_t length = std::get<1>(GetParam());

    refuse([=](const mapped_buffer &dst, uint64_t *addr, uint32_t *) {
        *addr = dst.addr() + dst.size() + 4096 - length;
    });
}

TEST_P(test_hostile_access, address_that_overflows)
{
    refuse([](const mapped_buffer &, uint64_t *addr, uint32_t *) {
        *addr = UINT64_MAX - 7;
    });
}

INSTANTIATE_TEST_SUITE_P(
        operations, test_hostile_access,
        ::testing::Values(std::make_tuple(IBV_WR_RDMA_WRITE, 8),
                          std::make_tuple(IBV_WR_RDMA_WRITE, 20000),
                          std::make_tuple(IBV_WR_RDMA_WRITE_WITH_IMM, 8),
                          std::make_tuple(IBV_WR_RDMA_WRITE_WITH_IMM, 20000),
                          std::make_tuple(IBV_WR_RDMA_READ, 8),
                          std::make_tuple(IBV_WR_ATOMIC_FETCH_AND_ADD, 8)));
