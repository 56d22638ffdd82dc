/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}


/* The interface: attributes, addresses, configuration */
class test_iface : public imm_test {
  protected:
    /* Whether an interface with this address is reachable */
    bool reachable(const void *iface_addr)
    {
        std::vector<uint8_t> dev_addr(sender().attr().device_addr_len);
        auto *dev = reinterpret_cast<uct_device_addr_t *>(dev_addr.data());

        EXPECT_OK(uct_iface_get_device_address(sender().iface(), dev));
        return uct_iface_is_reachable(sender().iface(), dev,
                                      static_cast<const uct_iface_addr_t *>(
                                              iface_addr));
    }
};


TEST_F(test_iface, address_has_one_byte)
{
    open();
    EXPECT_EQ(1u, sender().attr().iface_addr_len);

    uint8_t addr[2] = { 0x55, 0x55 };
    ASSERT_OK(
            uct_iface_get_address(sender().iface(),
                                  reinterpret_cast<uct_iface_addr_t *>(addr)));
    EXPECT_EQ(0xe1, addr[0]);
    EXPECT_EQ(0x55, addr[1]);
}

TEST_F(test_iface, own_address_is_reachable)
{
    open();
    uct_wimm_iface_addr_t addr;

    ASSERT_OK(
            uct_iface_get_address(sender().iface(),
                                  reinterpret_cast<uct_iface_addr_t *>(&addr)));
    EXPECT_TRUE(reachable(&addr));
}

TEST_F(test_iface, other_version_is_not_reachable_and_says_so)
{
    open();
    log_level(UCS_LOG_LEVEL_DIAG);
    for (unsigned version = 0; version < 16; ++version) {
        uct_wimm_iface_addr_t addr;

        if (version == UCT_WIMM_PROTO_VERSION) {
            continue;
        }
        expect_log(UCS_LOG_LEVEL_DIAG,
                   "has version " + std::to_string(version) + ",");
        uct_wimm_iface_addr_pack(&addr, version);
        EXPECT_FALSE(reachable(&addr));
    }
}

TEST_F(test_iface, damaged_address_is_not_reachable)
{
    open();
    log_level(UCS_LOG_LEVEL_DIAG);
    expect_log(UCS_LOG_LEVEL_DIAG, "is not one of wimm", 2);
    for (uint8_t byte : { 0x00, 0xff }) {
        EXPECT_FALSE(reachable(&byte));
    }
}

TEST_F(test_iface, no_address_is_not_reachable)
{
    open();
    log_level(UCS_LOG_LEVEL_DIAG);
    expect_log(UCS_LOG_LEVEL_DIAG, "no wimm interface address");
    EXPECT_FALSE(reachable(NULL));
}

TEST_F(test_iface, prefer_raises_the_priority_by_one)
{
    open();
    open({ { "PREFER", "y" } });
    EXPECT_EQ(sender().attr().priority + 1, receiver().attr().priority);
    EXPECT_EQ(sender().attr().iface_addr_len, receiver().attr().iface_addr_len);
}

TEST_F(test_iface, query_twice_is_the_same)
{
    open({ { "PREFER", "y" } });
    uct_iface_attr_t attr;

    ASSERT_OK(uct_iface_query(sender().iface(), &attr));
    EXPECT_EQ(sender().attr().priority, attr.priority);
}

TEST_F(test_iface, capabilities_of_a_connected_reliable_transport)
{
    open();
    const uint64_t flags = UCT_IFACE_FLAG_CONNECT_TO_EP |
                           UCT_IFACE_FLAG_PUT_SHORT | UCT_IFACE_FLAG_PUT_BCOPY |
                           UCT_IFACE_FLAG_PUT_ZCOPY | UCT_IFACE_FLAG_GET_BCOPY |
                           UCT_IFACE_FLAG_GET_ZCOPY | UCT_IFACE_FLAG_AM_SHORT |
                           UCT_IFACE_FLAG_AM_BCOPY | UCT_IFACE_FLAG_AM_ZCOPY |
                           UCT_IFACE_FLAG_PENDING | UCT_IFACE_FLAG_EP_CHECK |
                           UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE;

    EXPECT_EQ(flags, sender().attr().cap.flags & flags);
    EXPECT_TRUE(sender().attr().cap.event_flags & UCT_IFACE_FLAG_EVENT_RECV);
}

TEST_F(test_iface, smallest_segment_works)
{
    open_pair({ { "IB_SEG_SIZE", "64" } });
    imm_sink sink(receiver(), false);
    unsigned got = 0;

    receiver().set_am_handler(0, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    for (uint32_t i = 0; i < 40; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(sender().ep(), 0, i, NULL, 0);
        }));
    }
    ASSERT_TRUE(wait_for([&]() { return got == 40; }));
    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 40; }));
    for (uint32_t i = 0; i < 40; ++i) {
        EXPECT_EQ(i, sink.got[i].imm);
    }
}

TEST_F(test_iface, large_poll_and_batch_settings_are_bounded)
{
    open_pair({ { "IB_RX_MAX_POLL", "1000" },
                { "IB_TX_MAX_POLL", "1000" },
                { "IB_RX_MAX_BATCH", "1000" },
                { "IB_RX_QUEUE_LEN", "2048" } });
    imm_sink sink(receiver());

    for (uint32_t i = 0; i < 3000; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 3000; }));
    check_rx_accounting();
}

TEST_F(test_iface, smallest_receive_queues)
{
    for (unsigned length : { 8, 4, 1 }) {
        /* So short that it needs RNR, which the interface says */
        if (length < 5) {
            expect_log(UCS_LOG_LEVEL_WARN,
                       "a receive queue of " + std::to_string(length) +
                               " is short for 1 endpoints",
                       2);
        }
        open_pair({ { "IB_RX_QUEUE_LEN", std::to_string(length) } });
        {
            imm_sink sink(receiver());

            for (uint32_t i = 0; i < 50; ++i) {
                ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
            }
            ASSERT_TRUE(wait_for([&]() { return sink.count() == 50; }))
                    << "receive queue of " << length;
        }
        for (const auto &e : m_entities) {
            e->destroy_eps();
        }
        m_entities.clear();
    }
}

TEST_F(test_iface, queues_of_no_use_are_refused)
{
    expect_error("UCX_WIMM_RX_QUEUE_LEN is 0, nothing could be received");
    EXPECT_THROW(open({ { "IB_RX_QUEUE_LEN", "0" } }), std::runtime_error);
    for (const char *length : { "0", "1" }) {
        expect_error("UCX_WIMM_TX_CQ_LEN is " + std::string(length) +
                     ", it has to be 2 or more");
        EXPECT_THROW(open({ { "RC_TX_CQ_LEN", length } }), std::runtime_error);
    }
}

TEST_F(test_iface, completion_queue_has_room_for_all_receives)
{
    for (unsigned length : { 5, 64, 100, 4095, 4096 }) {
        const entity &e = open(
                { { "IB_RX_QUEUE_LEN", std::to_string(length) } });
        uct_wimm_iface_attr_t attr = {};

        attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE;
        ASSERT_OK(uct_wimm_iface_query(e.iface(), &attr));
        EXPECT_GE(attr.rx_queue.length, length);
        EXPECT_LE(attr.rx_queue.length,
                  unsigned(rc_state::iface(e)->super.cq[UCT_IB_DIR_RX]->cqe));
    }
}

TEST_F(test_iface, unsignaled_limit_of_one)
{
    open_pair({ { "RC_TX_CQ_MODERATION", "1" } });
    imm_sink sink(receiver());

    for (uint32_t i = 0; i < 500; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 500; }));
    flush(sender());
    check_tx_accounting(sender());
}

TEST_F(test_iface, two_interfaces_close_in_any_order)
{
    const int num_qps = rc_state::device_num_qps();

    ASSERT_GE(num_qps, 0);
    for (bool sender_first : { true, false }) {
        open_pair();
        {
            imm_sink sink(receiver());

            ASSERT_OK(notify(sender(), 0, 1));
            ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
        }
        flush(sender());

        /* The other one is left with an endpoint whose peer is gone, and is of
         * use for others */
        close(sender_first ? sender() : receiver());
        ASSERT_EQ(1u, m_entities.size());
        EXPECT_EQ(num_qps + 1, rc_state::device_num_qps());
        progress_rounds();
        EXPECT_TRUE(sender().errors.empty());

        open();
        entity::connect(sender(), 1, receiver(), 1);
        {
            imm_sink sink(receiver());

            ASSERT_OK(notify(sender(), 1, 2));
            ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
            EXPECT_EQ(1, sink.got[0].ep_index);
        }
        for (const auto &e : m_entities) {
            e->destroy_eps();
            check_tx_accounting(*e);
        }
        m_entities.clear();
        EXPECT_EQ(num_qps, rc_state::device_num_qps());
    }
}

/* What the interface says of itself is what rc_verbs says, and an address */
TEST_F(test_iface, attributes_are_those_of_rc_verbs)
{
    entity::open_params params;

    params.tl_name = "rc_verbs";
    open();
    open(config_list(), params);

    const uct_iface_attr_t &ours = sender().attr(), &base = receiver().attr();

    EXPECT_EQ(base.cap.flags, ours.cap.flags);
    EXPECT_EQ(base.cap.event_flags, ours.cap.event_flags);
    EXPECT_EQ(base.cap.put.max_short, ours.cap.put.max_short);
    EXPECT_EQ(base.cap.put.max_bcopy, ours.cap.put.max_bcopy);
    EXPECT_EQ(base.cap.put.min_zcopy, ours.cap.put.min_zcopy);
    EXPECT_EQ(base.cap.put.max_zcopy, ours.cap.put.max_zcopy);
    EXPECT_EQ(base.cap.put.max_iov, ours.cap.put.max_iov);
    EXPECT_EQ(base.cap.get.max_bcopy, ours.cap.get.max_bcopy);
    EXPECT_EQ(base.cap.get.min_zcopy, ours.cap.get.min_zcopy);
    EXPECT_EQ(base.cap.get.max_zcopy, ours.cap.get.max_zcopy);
    EXPECT_EQ(base.cap.get.max_iov, ours.cap.get.max_iov);
    EXPECT_EQ(base.cap.am.max_short, ours.cap.am.max_short);
    EXPECT_EQ(base.cap.am.max_bcopy, ours.cap.am.max_bcopy);
    EXPECT_EQ(base.cap.am.max_zcopy, ours.cap.am.max_zcopy);
    EXPECT_EQ(base.cap.am.max_hdr, ours.cap.am.max_hdr);
    EXPECT_EQ(base.cap.am.max_iov, ours.cap.am.max_iov);
    EXPECT_EQ(base.device_addr_len, ours.device_addr_len);
    EXPECT_EQ(base.ep_addr_len + 4, ours.ep_addr_len);
    EXPECT_EQ(base.max_num_eps, ours.max_num_eps);
    EXPECT_EQ(base.priority, ours.priority);
    EXPECT_EQ(0u, base.iface_addr_len);
    EXPECT_EQ(base.bandwidth.shared, ours.bandwidth.shared);
    EXPECT_EQ(base.bandwidth.dedicated, ours.bandwidth.dedicated);
    EXPECT_EQ(base.latency.c, ours.latency.c);
    EXPECT_EQ(base.overhead, ours.overhead);

    /* Put to use in test_put_imm, and bounded by the queue pair */
    EXPECT_EQ(rc_state::max_inline(sender()), ours.cap.put.max_short);
    EXPECT_GE(ours.cap.put.max_short, 64u);
    EXPECT_GE(ours.cap.am.max_bcopy, ours.cap.am.max_short);
    EXPECT_GE(ours.cap.put.max_zcopy, size_t(1024 * 1024));
}

/* UCP asks before it has endpoints. As rc_verbs answers it ends the process here. */
TEST_F(test_iface, completion_queue_shorter_than_a_send_queue)
{
    uct_perf_attr_t perf = {};

    open_pair({ { "RC_TX_CQ_LEN", "2" } });
    perf.field_mask = UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS;
    ASSERT_OK(uct_iface_estimate_perf(sender().iface(), &perf));
    EXPECT_EQ(1u, perf.max_inflight_eps);
}

/* As many as rc_verbs, to tie with it; or more than any, for UCP's keepalive */
TEST_F(test_iface, endpoints_in_flight)
{
    uct_perf_attr_t ours = {}, base = {};
    entity::open_params params;

    params.tl_name = "rc_verbs";
    open();
    open(config_list(), params);
    ours.field_mask = UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS;
    base.field_mask = UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS;
    ASSERT_OK(uct_iface_estimate_perf(sender().iface(), &ours));
    ASSERT_OK(uct_iface_estimate_perf(receiver().iface(), &base));
    EXPECT_EQ(base.max_inflight_eps, ours.max_inflight_eps);

    entity &preferred = open({ { "PREFER", "y" } });
    ASSERT_OK(uct_iface_estimate_perf(preferred.iface(), &ours));
    EXPECT_EQ(SIZE_MAX, ours.max_inflight_eps);
}
