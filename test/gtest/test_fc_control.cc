/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/fc_test.h"

#include <cstring>


/* Control messages that the protocol does not have. Endpoint 0 of the sender is
 * the bad peer, and endpoint 1 goes on. */
class test_fc_control : public fc_test {
  protected:
    static const unsigned num_eps = 2;

    void post(enum ibv_wr_opcode opcode, uint32_t imm, const void *data = NULL,
              unsigned length = 0)
    {
        ASSERT_EQ(0,
                  rc_state::raw_send(sender(), 0, opcode, imm, data, length));
    }

    static uint32_t ctrl(unsigned op, uint32_t amount)
    {
        return (static_cast<uint32_t>(op) << UCT_WIMM_CTRL_OP_SHIFT) | amount;
    }

    void post_ctrl(unsigned op, uint32_t amount)
    {
        post(IBV_WR_SEND_WITH_IMM, ctrl(op, amount));
    }

    void post_am(uint8_t id)
    {
        uint64_t data[2] = {};

        memcpy(data, &id, sizeof(id));
        post(IBV_WR_SEND, 0, data, sizeof(uct_rc_hdr_t) + sizeof(uint64_t));
    }

    /* All that was posted is in the receiver's queue, which it has not looked
     * into */
    void wait_arrived()
    {
        progress_one(sender(), [&]() {
            return rc_state::sq_available(sender()) ==
                   rc_state::sq_length(sender());
        });
    }

    void expect_closed(const std::string &part = "unknown control message, 0 "
                                                 "bytes")
    {
        expect_error(part + "; closing the connection");
    }

    /* The connection ended by what the peer sent, no other did, all is as it
     * should be */
    void check_closed()
    {
        uct_ep_h ep = receiver().ep(0);

        ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));

        /* What else it sends does no harm */
        progress_rounds();
        if (sender().errors.empty()) {
            post_ctrl(15, 15);
        }
        progress_rounds();
        ASSERT_EQ(1u, receiver().errors.size());
        EXPECT_EQ(ep, receiver().errors[0].ep);
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, receiver().errors[0].status);
        EXPECT_EQ(1u, counters(receiver()).failed);
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(receiver(), 0, 0));
        check_others();
    }

    /* Nothing of it was an error */
    void check_open()
    {
        progress_rounds();
        EXPECT_TRUE(receiver().errors.empty());
        EXPECT_TRUE(sender().errors.empty());
        check_others();
    }

    void check_others()
    {
        const unsigned count = 50;
        imm_sink left(sender());
        imm_sink right(receiver());
        unsigned left_got = 0, right_got = 0;

        left.on_imm = [&](const imm_sink::notification &n) {
            left_got += (n.ep_index == 1);
        };
        right.on_imm = [&](const imm_sink::notification &n) {
            right_got += (n.ep_index == 1);
        };
        for (uint32_t i = 0; i < count; ++i) {
            ASSERT_OK(retry([&]() { return notify(sender(), 1, i); }));
            ASSERT_OK(retry([&]() { return notify(receiver(), 1, i); }));
        }
        ASSERT_TRUE(wait_for(
                [&]() { return (left_got == count) && (right_got == count); }));
        check_rx_accounting();
    }
};


TEST_F(test_fc_control, grant_of_nothing)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_GRANT, 0);
    check_closed();
}

TEST_F(test_fc_control, grant_just_beyond_the_largest_window)
{
    open_sides(num_eps);
    const unsigned credits = ep_attr(receiver()).credits;

    /* This is the most there can be */
    post_ctrl(UCT_WIMM_CTRL_GRANT, UCT_WIMM_MAX_CREDITS - credits);
    ASSERT_TRUE(wait_for([&]() {
        return ep_attr(receiver()).credits == unsigned(UCT_WIMM_MAX_CREDITS);
    }));
    EXPECT_TRUE(receiver().errors.empty());

    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_GRANT, 1);
    check_closed();
}

TEST_F(test_fc_control, grant_of_all_bits)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_GRANT, UCT_WIMM_CTRL_AMOUNT_MASK);
    check_closed();
}

TEST_F(test_fc_control, return_that_was_not_asked_for)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_RETURN, 0);
    check_closed();
}

TEST_F(test_fc_control, return_of_all_then_once_more)
{
    open_sides(num_eps);
    const int credits                = fc_state::rx_credits(receiver());
    const fc_state::iface_state full = fc_state::iface(receiver());

    ASSERT_GT(credits, 1);
    fc_state::set_reclaiming(receiver());
    post_ctrl(UCT_WIMM_CTRL_RETURN, credits - 1);

    /* All are back, and as many are granted as there are to have */
    ASSERT_TRUE(wait_for(
            [&]() { return ep_attr(receiver()).counters.grants == 1; }));
    EXPECT_EQ(full.target, fc_state::rx_credits(receiver()));
    EXPECT_TRUE(receiver().errors.empty());

    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_RETURN, 0);
    check_closed();
}

TEST_F(test_fc_control, return_of_more_than_was_granted)
{
    open_sides(num_eps);
    const int credits = fc_state::rx_credits(receiver());

    /* The message itself takes one */
    fc_state::set_reclaiming(receiver());
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_RETURN, credits);
    check_closed();
}

TEST_F(test_fc_control, return_of_no_slots)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_SLOTS, 0);
    check_closed();
}

TEST_F(test_fc_control, return_of_one_slot_more_than_there_are)
{
    open_sides(num_eps);
    imm_sink sink(sender());
    sink.result = UCS_INPROGRESS; /* It returns none by itself */

    ASSERT_OK(notify(receiver(), 0, 1));
    ASSERT_OK(retry([&]() { return notify(receiver(), 0, 2); }));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    EXPECT_EQ(ep_attr(receiver()).num_slots - 2, ep_attr(receiver()).slots);

    post_ctrl(UCT_WIMM_CTRL_SLOTS, 2);
    ASSERT_TRUE(wait_for([&]() {
        return ep_attr(receiver()).num_slots == ep_attr(receiver()).slots;
    }));
    EXPECT_TRUE(receiver().errors.empty());

    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_SLOTS, 1);
    sink.result = UCS_OK;
    check_closed();
}

TEST_F(test_fc_control, slots_with_a_grant)
{
    open_sides(num_eps);
    imm_sink sink(sender());
    sink.result = UCS_INPROGRESS; /* It returns none by itself */

    const unsigned credits = ep_attr(receiver()).credits;
    ASSERT_OK(notify(receiver(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));

    post_ctrl(UCT_WIMM_CTRL_SLOTS, 1 | (7u << UCT_WIMM_CTRL_GRANT_SHIFT));
    ASSERT_TRUE(wait_for([&]() {
        return (ep_attr(receiver()).slots == ep_attr(receiver()).num_slots) &&
               (ep_attr(receiver()).credits == (credits - 1 + 7));
    }));
    sink.result = UCS_OK;
    check_open();
}

TEST_F(test_fc_control, a_grant_with_no_slots)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_SLOTS, 1u << UCT_WIMM_CTRL_GRANT_SHIFT);
    check_closed();
}

TEST_F(test_fc_control, slots_with_a_grant_beyond_the_largest_window)
{
    open_sides(num_eps);
    imm_sink sink(sender());
    sink.result = UCS_INPROGRESS;

    ASSERT_OK(notify(receiver(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));

    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_SLOTS, 1 | (unsigned(UCT_WIMM_MAX_CREDITS)
                                        << UCT_WIMM_CTRL_GRANT_SHIFT));
    sink.result = UCS_OK;
    check_closed();
}

TEST_F(test_fc_control, slots_with_a_grant_without_flow_control)
{
    open_sides(num_eps, 0, 0, { { "RC_FC_ENABLE", "n" } });
    imm_sink sink(sender());
    sink.result = UCS_INPROGRESS;

    ASSERT_OK(notify(receiver(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));

    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_SLOTS, 1 | (1u << UCT_WIMM_CTRL_GRANT_SHIFT));
    sink.result = UCS_OK;
    check_closed();
}

TEST_F(test_fc_control, return_of_slots_of_all_bits)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_SLOTS, UCT_WIMM_CTRL_AMOUNT_MASK);
    check_closed();
}

TEST_F(test_fc_control, several_bad_ones_at_once_are_one_error)
{
    open_sides(num_eps);
    expect_closed();
    for (unsigned i = 0; i < 5; ++i) {
        post_ctrl(UCT_WIMM_CTRL_GRANT, 0);
        post_ctrl(UCT_WIMM_CTRL_SLOTS, 0);
    }
    check_closed();
}

TEST_F(test_fc_control, bad_one_without_error_handler)
{
    open();
    open(config_list(), no_error_handler());
    connect_sides(0, num_eps);
    expect_closed();
    expect_error("endpoint failed: Connection reset by remote peer");
    post_ctrl(UCT_WIMM_CTRL_GRANT, 0);
    ASSERT_TRUE(wait_for([&]() { return counters(receiver()).failed == 1; }));
    check_others();
}

TEST_F(test_fc_control, bad_one_and_the_error_handler_destroys_the_endpoint)
{
    open_sides(num_eps);
    receiver().on_error = [&](uct_ep_h, ucs_status_t) {
        receiver().destroy_ep(0);
        return UCS_OK;
    };
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_GRANT, 0);
    post_ctrl(UCT_WIMM_CTRL_RETURN, 0);
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(1u, receiver().errors.size());
    check_others();
    check_tx_accounting(receiver());
}

TEST_F(test_fc_control, message_beyond_the_credits)
{
    open_sides(num_eps, 0, 1);
    expect_closed("message beyond the peer's credits, 0 bytes");
    post(IBV_WR_RDMA_WRITE_WITH_IMM, 1);
    post(IBV_WR_RDMA_WRITE_WITH_IMM, 2);
    wait_arrived();
    {
        imm_sink sink(receiver());

        ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
        EXPECT_EQ(1u, sink.count());
        EXPECT_EQ(1u, sink.got[0].imm);
    }
    check_closed();
}

TEST_F(test_fc_control, active_message_beyond_the_credits)
{
    unsigned got = 0;

    open_sides(num_eps, 0, 1);
    receiver().set_am_handler(am_id, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });
    expect_closed("message beyond the peer's credits, " +
                  std::to_string(sizeof(uct_rc_hdr_t) + sizeof(uint64_t)) +
                  " bytes");
    post_am(am_id);
    post_am(am_id);
    wait_arrived();
    check_closed();
    EXPECT_EQ(1u, got);
    receiver().remove_am_handler(am_id);
}

TEST_F(test_fc_control, return_of_slots_beyond_the_credits)
{
    open_sides(num_eps, 0, 1);

    expect_closed("message beyond the peer's credits, 0 bytes");
    post(IBV_WR_RDMA_WRITE_WITH_IMM, 0);
    post_ctrl(UCT_WIMM_CTRL_SLOTS, 1);
    wait_arrived();
    check_closed();
}

TEST_F(test_fc_control, return_of_credits_beyond_the_credits)
{
    open_sides(num_eps, 0, 1);

    fc_state::set_reclaiming(receiver());
    expect_closed("message beyond the peer's credits, 0 bytes");
    post(IBV_WR_RDMA_WRITE_WITH_IMM, 0);
    post_ctrl(UCT_WIMM_CTRL_RETURN, 0);
    wait_arrived();
    check_closed();
}

TEST_F(test_fc_control, notification_beyond_the_slots)
{
    const unsigned slots = 3;

    open_sides(num_eps, 0, 0, { { "NUM_SLOTS", std::to_string(slots) } });
    ASSERT_GT(fc_state::rx_credits(receiver()), static_cast<int>(slots));

    /* There is no handler that could consume them */
    expect_closed("notification beyond the peer's slots, 0 bytes");
    for (unsigned i = 0; i <= slots; ++i) {
        post(IBV_WR_RDMA_WRITE_WITH_IMM, i);
    }
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    EXPECT_EQ(slots, fc_state::rx_slots(receiver()));

    /* Those that had slots are delivered */
    {
        imm_sink sink(receiver());
        ASSERT_TRUE(wait_for([&]() { return sink.count() == slots; }));
        EXPECT_EQ(slots - 1, sink.got[slots - 1].imm);
    }
    check_closed();
}

TEST_F(test_fc_control, notification_beyond_the_slots_of_a_handler_that_holds)
{
    const unsigned slots = 3;

    open_sides(num_eps, 0, 0, { { "NUM_SLOTS", std::to_string(slots) } });
    {
        imm_sink sink(receiver());
        sink.result = UCS_INPROGRESS;
        expect_closed("notification beyond the peer's slots, 0 bytes");
        for (unsigned i = 0; i <= slots; ++i) {
            post(IBV_WR_RDMA_WRITE_WITH_IMM, i);
        }
        ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
        EXPECT_EQ(slots, sink.count());
    }

    /* Harmless on a connection that is closed */
    EXPECT_OK(uct_wimm_ep_slot_release(receiver().ep(0), slots));
    check_closed();
}

TEST_F(test_fc_control, reclaim_is_answered_also_if_there_is_nothing_to_give)
{
    open_sides(num_eps);

    /* The sender has not asked: for what it gets it closes the connection. The
     * receiver does what it is asked. */
    expect_closed();
    post_ctrl(UCT_WIMM_CTRL_RECLAIM, UCT_WIMM_CTRL_AMOUNT_MASK);
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, sender().errors[0].status);
    EXPECT_EQ(1u, ep_attr(receiver()).counters.ctrl_sent);
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    check_others();
}

TEST_F(test_fc_control, reclaim_takes_what_is_beyond_its_amount)
{
    open_sides(num_eps);
    const int credits = ep_attr(receiver()).credits;

    for (int keep : { credits - 2, 1, 0 }) {
        const uint64_t sent = ep_attr(receiver()).counters.ctrl_sent;

        fc_state::set_reclaiming(sender());
        post_ctrl(UCT_WIMM_CTRL_RECLAIM, keep);
        ASSERT_TRUE(wait_for([&]() {
            return ep_attr(receiver()).counters.ctrl_sent == (sent + 1);
        }));

        /* Below half of its share it is granted anew */
        const int target = fc_state::iface(sender()).target;
        const int rest   = (keep > (target / 2)) ? keep : target;

        EXPECT_TRUE(wait_for([&]() {
            return (fc_state::rx_credits(sender()) == rest) &&
                   (ep_attr(receiver()).credits == unsigned(rest));
        }));
    }
    check_open();
}

TEST_F(test_fc_control, junk_for_an_endpoint_that_is_gone)
{
    open_sides(num_eps);
    for (unsigned op = 0; op < 16; ++op) {
        post_ctrl(op, 1);
    }
    wait_arrived();
    receiver().destroy_ep(0);
    progress_rounds();
    EXPECT_TRUE(receiver().errors.empty());
    check_others();
}

TEST_F(test_fc_control, request_bits_of_ucx_are_answered_by_a_grant)
{
    open_sides(num_eps);
    unsigned got = 0;

    receiver().set_am_handler(am_id, [&](void *, size_t, unsigned) {
        ++got;
        return UCS_OK;
    });

    /* What the bits stand for beyond a hard request has no answer */
    post_am(am_id | UCT_RC_EP_FLAG_FC_SOFT_REQ);
    post_am(am_id | UCT_RC_EP_FLAG_FC_GRANT);
    ASSERT_TRUE(wait_for([&]() { return got == 2; }));
    progress_rounds();
    EXPECT_EQ(0u, ep_attr(receiver()).counters.grants);

    post_am(am_id | UCT_RC_EP_FLAG_FC_HARD_REQ);
    ASSERT_TRUE(wait_for([&]() { return got == 3; }));
    ASSERT_TRUE(wait_for(
            [&]() { return ep_attr(receiver()).counters.grants == 1; }));
    check_open();
    receiver().remove_am_handler(am_id);
}

TEST_F(test_fc_control, pure_grant_of_ucx_is_swallowed)
{
    open_sides(num_eps);
    const int credits = fc_state::rx_credits(receiver());

    post_am(UCT_RC_EP_FC_PURE_GRANT);
    ASSERT_TRUE(wait_for([&]() {
        return fc_state::rx_credits(receiver()) == (credits - 1);
    }));
    check_open();
}


/* Operations that are not in the protocol */
class test_fc_unknown : public test_fc_control,
                        public ::testing::WithParamInterface<unsigned> {};


TEST_P(test_fc_unknown, closes_the_connection)
{
    open_sides(num_eps);
    expect_closed();
    post_ctrl(GetParam(), 1);
    check_closed();
}

TEST_P(test_fc_unknown, closes_the_connection_without_flow_control)
{
    open_sides(num_eps, 0, 0, { { "RC_FC_ENABLE", "n" } });
    expect_closed();
    post_ctrl(GetParam(), 1);
    check_closed();
}

INSTANTIATE_TEST_SUITE_P(operations, test_fc_unknown,
                         ::testing::Values(0, UCT_WIMM_CTRL_LENGTH + 1, 15));


/* Those that are */
class test_fc_known : public test_fc_control,
                      public ::testing::WithParamInterface<unsigned> {};


TEST_P(test_fc_known, with_data)
{
    const uint8_t data[] = { 1 };

    open_sides(num_eps);
    fc_state::set_reclaiming(receiver());
    expect_closed("control message of a wrong length, 1 bytes");
    post(IBV_WR_SEND_WITH_IMM, ctrl(GetParam(), 1), data, sizeof(data));
    check_closed();
}

TEST_P(test_fc_known, without_flow_control)
{
    open_sides(num_eps, 0, 0, { { "RC_FC_ENABLE", "n" } });

    /* But for slots, which are there without it */
    if (GetParam() == UCT_WIMM_CTRL_SLOTS) {
        imm_sink sink(sender());

        sink.result = UCS_INPROGRESS;
        ASSERT_OK(notify(receiver(), 0, 1));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
        post_ctrl(UCT_WIMM_CTRL_SLOTS, 1);
        ASSERT_TRUE(wait_for([&]() {
            return ep_attr(receiver()).slots == ep_attr(receiver()).num_slots;
        }));
        sink.pause();
        check_open();
        return;
    }

    expect_closed();
    post_ctrl(GetParam(), 1);
    check_closed();
}

TEST_P(test_fc_known, with_flow_control_here_and_not_there)
{
    open({ { "RC_FC_ENABLE", "n" } });
    open();
    connect_sides(0, num_eps);
    fc_state::set_reclaiming(receiver());
    expect_closed();
    post_ctrl(GetParam(), 1); /* There is no slot to return either */
    check_closed();
}

INSTANTIATE_TEST_SUITE_P(operations, test_fc_known,
                         ::testing::Range<unsigned>(UCT_WIMM_CTRL_GRANT,
                                                    UCT_WIMM_CTRL_SLOTS + 1));


/* Lengths that are announced, as they should not be */
TEST_F(test_fc_control, length_without_data)
{
    open_sides(num_eps);
    expect_closed("control message of a wrong length, 0 bytes");
    post_ctrl(UCT_WIMM_CTRL_LENGTH, 0);
    check_closed();
}

TEST_F(test_fc_control, length_with_an_amount)
{
    const uint64_t data = htobe64(1);

    open_sides(num_eps);
    expect_closed("unknown control message, 8 bytes");
    post(IBV_WR_SEND_WITH_IMM, ctrl(UCT_WIMM_CTRL_LENGTH, 1), &data,
         sizeof(data));
    check_closed();
}

TEST_F(test_fc_control, length_of_0)
{
    const uint64_t data = 0;

    open_sides(num_eps);
    expect_closed("unknown control message, 8 bytes");
    post(IBV_WR_SEND_WITH_IMM, ctrl(UCT_WIMM_CTRL_LENGTH, 0), &data,
         sizeof(data));
    check_closed();
}

TEST_F(test_fc_control, request_bits_of_ucx_without_flow_control)
{
    open_sides(num_eps, 0, 0, { { "RC_FC_ENABLE", "n" } });
    expect_error("flow control message, but flow control is off");
    post_am(am_id | UCT_RC_EP_FLAG_FC_HARD_REQ);
    check_closed();
}


/* The address of an endpoint, which has the first grant */
class test_fc_address : public fc_test {
  protected:
    static std::vector<uint8_t> address(const entity &e, unsigned index = 0)
    {
        std::vector<uint8_t> result(e.attr().ep_addr_len);

        EXPECT_OK(uct_ep_get_address(
                e.ep(index), reinterpret_cast<uct_ep_addr_t *>(result.data())));
        return result;
    }

    static ucs_status_t connect(entity &e, const entity &other,
                                const std::vector<uint8_t> &ep_addr)
    {
        std::vector<uint8_t> dev_addr(other.attr().device_addr_len);
        auto *dev = reinterpret_cast<uct_device_addr_t *>(dev_addr.data());

        EXPECT_OK(uct_iface_get_device_address(other.iface(), dev));
        return uct_ep_connect_to_ep(e.ep(), dev,
                                    reinterpret_cast<const uct_ep_addr_t *>(
                                            ep_addr.data()));
    }
};


TEST_F(test_fc_address, is_the_same_after_traffic)
{
    open_sides(1);
    const std::vector<uint8_t> before = address(receiver());
    flow there(sender(), receiver(), 1, ONLY_IMM);
    const int credits = fc_state::rx_credits(receiver());

    exchange({ &there }, 2);
    EXPECT_NE(credits, fc_state::rx_credits(receiver()));
    EXPECT_EQ(before, address(receiver()));
}

TEST_F(test_fc_address, damaged_is_refused_and_the_endpoint_can_be_connected)
{
    open();
    open();
    sender().create_ep(0);
    receiver().create_ep(0);
    const std::vector<uint8_t> good = address(receiver());

    expect_error("endpoint address is not one of wimm", 32);
    for (unsigned bit = 0; bit < 32; ++bit) {
        std::vector<uint8_t> bad = good;

        bad[bit / 8] ^= 1u << (bit % 8);
        EXPECT_STATUS(UCS_ERR_INVALID_ADDR, connect(sender(), receiver(), bad));
    }
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, notify(sender(), 0, 1));

    ASSERT_OK(connect(sender(), receiver(), good));
    ASSERT_OK(connect(receiver(), sender(), address(sender())));
    flow there(sender(), receiver(), 1, MIXED);
    flow back(receiver(), sender(), 1, MIXED);
    exchange({ &there, &back }, 50);
}
