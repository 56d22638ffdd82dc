/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <algorithm>
#include <cstring>
#include <set>


/* Failures of the peer, and what it must not be able to do */
class test_peer : public uct_test {
  protected:
    /* Notice a dead peer soon: see "retry_count" and "timeout" of the verbs */
    static config_list quick()
    {
        return { { "RC_RETRY_COUNT", "1" }, { "RC_TIMEOUT", "30ms" } };
    }

    /* The peer's queue pair is gone, and nothing answers any more */
    void kill_peer(unsigned index = 0)
    {
        receiver().destroy_ep(index);
        check_tx_accounting(receiver());
    }

    void wait_failed(entity &e, uct_ep_h ep)
    {
        ASSERT_TRUE(wait_for([&]() { return !e.errors.empty(); }));
        progress_rounds();
        ASSERT_EQ(1u, e.errors.size());
        EXPECT_EQ(ep, e.errors[0].ep);
    }

    void check_works(unsigned index)
    {
        unsigned got = 0;

        receiver().set_am_handler(9, [&](void *, size_t, unsigned) {
            ++got;
            return UCS_OK;
        });
        ASSERT_OK(uct_ep_am_short(sender().ep(index), 9, 0, NULL, 0));
        ASSERT_TRUE(wait_for([&]() { return got == 1; }));
        receiver().remove_am_handler(9);
    }

    /* A message that the protocol does not have, on endpoint 0 */
    void raw_send(enum ibv_wr_opcode opcode, const void *data, unsigned length)
    {
        ASSERT_EQ(0,
                  rc_state::raw_send(sender(), 0, opcode, 0x77, data, length));
    }
};


TEST_F(test_peer, destroyed_peer_fails_the_endpoint_once)
{
    open(quick());
    open();
    entity::connect(sender(), 0, receiver(), 0);
    entity::connect(sender(), 1, receiver(), 1);
    mapped_buffer dst(64, receiver());
    const uint64_t data = 1;

    kill_peer();
    for (unsigned i = 0; i < 5; ++i) {
        ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data),
                                   dst.addr(), dst.rkey()));
    }
    wait_failed(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, sender().errors[0].status);
    EXPECT_EQ(0u, dst.u64());
    check_works(1);
}

TEST_F(test_peer, keepalive_of_live_peer_is_ok)
{
    open_pair();
    for (unsigned i = 0; i < 5; ++i) {
        EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
        progress_rounds(50);
    }
    flush(sender());
    EXPECT_TRUE(sender().errors.empty());
    check_works(0);
}

TEST_F(test_peer, keepalive_of_dead_peer_fails_the_endpoint)
{
    open(quick());
    open();
    entity::connect(sender(), 0, receiver(), 0);

    kill_peer();
    EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
    wait_failed(sender(), sender().ep());
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, sender().errors[0].status);
    EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL)); /* Harmless */
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
}

TEST_F(test_peer, keepalive_of_dead_peer_with_full_queue)
{
    config_list config = quick();

    config.push_back({ "IB_TX_QUEUE_LEN", "16" });
    open(config);
    open();
    entity::connect(sender(), 0, receiver(), 0);
    kill_peer();
    while (uct_ep_am_short(sender().ep(), 9, 0, NULL, 0) == UCS_OK) {
    }
    EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
    wait_failed(sender(), sender().ep());
}

TEST_F(test_peer, many_endpoints_fail_each_once)
{
    const unsigned num_eps = 8;

    open(quick());
    open();
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    receiver().destroy_eps();
    check_tx_accounting(receiver());
    for (unsigned i = 0; i < num_eps; ++i) {
        EXPECT_OK(uct_ep_check(sender().ep(i), 0, NULL));
    }
    ASSERT_TRUE(wait_for([&]() { return sender().errors.size() == num_eps; }));
    progress_rounds();
    EXPECT_EQ(num_eps, sender().errors.size());
    std::set<uct_ep_h> eps;
    for (const entity::ep_error &error : sender().errors) {
        eps.insert(error.ep);
    }
    EXPECT_EQ(num_eps, eps.size());
    sender().destroy_eps();
    check_tx_accounting(sender());
}

TEST_F(test_peer, failed_endpoint_takes_operations_and_fails_them)
{
    open(quick());
    open();
    entity::connect(sender(), 0, receiver(), 0);
    const size_t size = std::max<size_t>(sender().attr().cap.get.min_zcopy, 64);
    mapped_buffer local(size, sender());
    mapped_buffer remote(size, receiver());
    const uct_iov_t iov = local.iov(size);
    completion comp;

    kill_peer();
    EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
    wait_failed(sender(), sender().ep());

    /* But for puts, which wimm refuses: test_rma */
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_get_zcopy(sender().ep(), &iov, 1, remote.addr(),
                                   remote.rkey(), &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_NE(UCS_OK, comp.status());
    EXPECT_EQ(1u, sender().errors.size());
}

TEST_F(test_peer, failure_without_error_handler_does_not_abort)
{
    WIMM_ONLY();
    open(quick(), no_error_handler());
    open();
    entity::connect(sender(), 0, receiver(), 0);

    kill_peer();
    expect_error("send completion with error");
    EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
    ASSERT_TRUE(wait_for([&]() {
        return !logged(UCS_LOG_LEVEL_ERROR, "send completion").empty();
    }));
}

TEST_F(test_peer, error_handler_that_returns_error_does_not_abort)
{
    WIMM_ONLY();
    open(quick());
    open();
    entity::connect(sender(), 0, receiver(), 0);

    kill_peer();
    expect_error("send completion with error");
    sender().on_error = [](uct_ep_h, ucs_status_t status) { return status; };
    EXPECT_OK(uct_ep_check(sender().ep(), 0, NULL));
    wait_failed(sender(), sender().ep());
}

TEST_F(test_peer, send_shorter_than_a_header_fails_the_endpoint)
{
    WIMM_ONLY();
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);

    expect_error("message shorter than its header, 0 bytes");
    raw_send(IBV_WR_SEND, NULL, 0);
    wait_failed(receiver(), receiver().ep());
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, receiver().errors[0].status);
    check_works(1);
    check_rx_accounting();
}

TEST_F(test_peer, send_with_immediate_fails_the_endpoint)
{
    WIMM_ONLY();
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    const uint8_t data[8] = { 9 };

    expect_error("control message of a wrong length, 8 bytes");
    raw_send(IBV_WR_SEND_WITH_IMM, data, sizeof(data));
    wait_failed(receiver(), receiver().ep());
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, receiver().errors[0].status);
    check_works(1);
    check_rx_accounting();
}

TEST_F(test_peer, message_longer_than_the_receive_buffer)
{
    WIMM_ONLY();
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    const size_t size = sender().attr().cap.am.max_bcopy + 1000;
    mapped_buffer src(size, sender());
    struct ibv_send_wr wr;
    struct ibv_sge sge;

    memset(&wr, 0, sizeof(wr));
    sge.addr   = src.addr();
    sge.length = size;
    sge.lkey   = uct_ib_memh_get_lkey(src.memh());
    wr.opcode  = IBV_WR_SEND;
    wr.sg_list = &sge;
    wr.num_sge = 1;

    /* What the two sides see depends on the device */
    allow_error("completion with error");
    ASSERT_EQ(0, rc_state::raw_post(sender(), 0, &wr));
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    EXPECT_LE(receiver().errors.size(), 1u);
    check_works(1);
    check_rx_accounting();
}

TEST_F(test_peer, junk_after_the_endpoint_was_destroyed)
{
    WIMM_ONLY();
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    const uint8_t data[8] = { 9 };

    /* In the receive queue when the endpoint goes */
    raw_send(IBV_WR_SEND_WITH_IMM, data, sizeof(data));
    raw_send(IBV_WR_SEND, NULL, 0);
    while (sender().progress() == 0) {
    }
    allow_error("closing the connection");
    receiver().destroy_ep(0);
    progress_rounds();
    EXPECT_TRUE(receiver().errors.empty());
    check_works(1);
    check_rx_accounting();
}
