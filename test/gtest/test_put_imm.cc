/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <cstring>


/* The notified put: what the peer is told, and when */
class test_put_imm : public imm_test {};


TEST_F(test_put_imm, all_bits_of_imm)
{
    const uint32_t values[] = { 0u,          1u,          0x7fffffffu,
                                0x80000000u, 0xffffffffu, 0x12345678u };

    open_pair();
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());

    for (uint32_t imm : values) {
        uint64_t data = imm;

        ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst, 0, imm));
    }

    ASSERT_TRUE(wait_for([&]() { return sink.count() >= 6; }));
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(values[i], sink.got[i].imm);
        EXPECT_EQ(sizeof(uint64_t), sink.got[i].length);
        EXPECT_EQ(0, sink.got[i].ep_index);
    }
    check_rx_accounting();
}

TEST_F(test_put_imm, imm_is_big_endian_on_the_wire)
{
    /* What any other program sends by the rules of the verbs */
    open_pair();
    imm_sink sink(receiver());

    ASSERT_EQ(0, rc_state::raw_send(sender(), 0, IBV_WR_RDMA_WRITE_WITH_IMM,
                                    0x01020304));

    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(0x01020304u, sink.got[0].imm);
    flush(sender());
}

TEST_F(test_put_imm, data_in_place_when_handler_runs)
{
    open_pair();
    const unsigned max = sender().attr().cap.put.max_short;
    mapped_buffer dst(max, receiver());
    imm_sink sink(receiver());

    sink.on_imm = [&](const imm_sink::notification &n) {
        dst.check(n.imm, n.length);
        memset(dst.ptr(), 0, max);
    };

    for (uint32_t i = 0; i < 50; ++i) {
        const std::vector<uint8_t> data = pattern(i, max);

        ASSERT_OK(put_imm(sender(), 0, data.data(), max, dst, 0, i));
        ASSERT_TRUE(wait_for([&]() { return sink.count() == (i + 1); }));
    }
}

TEST_F(test_put_imm, earlier_plain_puts_in_place_when_handler_runs)
{
    const size_t size = 256 * 1024;

    open_pair();
    mapped_buffer src(size, sender());
    mapped_buffer dst(size, receiver());
    completion comp;
    imm_sink sink(receiver());
    uct_iov_t iov = src.iov(size);

    src.fill(3);
    sink.on_imm = [&](const imm_sink::notification &) { dst.check(3, size); };

    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                   dst.rkey(), &comp.uct));
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return (sink.count() == 1) && comp.done(); }));
}

TEST_F(test_put_imm, length_zero_null_buffer_junk_rkey)
{
    open_pair();
    mapped_buffer dst(64, receiver(), 0x5a);
    imm_sink sink(receiver());

    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0, 1));
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0,
                                        0xdeadbeefdeadbeeful, 0xdeadbeeful, 2));
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), dst.ptr(), 0, dst.addr(),
                                        dst.rkey(), 3));
    flush(sender());

    ASSERT_TRUE(wait_for([&]() { return sink.count() == 3; }));
    for (uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(i + 1, sink.got[i].imm);
        EXPECT_EQ(0u, sink.got[i].length);
    }
    EXPECT_EQ(0x5a, *dst.ptr());
}

TEST_F(test_put_imm, length_one_and_max_write_nothing_else)
{
    open_pair();
    const unsigned max = sender().attr().cap.put.max_short;
    mapped_buffer dst(max + 32, receiver(), 0xee);
    const std::vector<uint8_t> data = pattern(9, max);
    imm_sink sink(receiver());

    EXPECT_GE(max, 64u);
    ASSERT_OK(put_imm(sender(), 0, data.data(), 1, dst, 16, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(1u, sink.got[0].length);
    dst.check(9, 1, 16);
    EXPECT_EQ(0xee, *dst.ptr(15));
    EXPECT_EQ(0xee, *dst.ptr(17));

    ASSERT_OK(put_imm(sender(), 0, data.data(), max, dst, 16, 2));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    EXPECT_EQ(max, sink.got[1].length);
    dst.check(9, max, 16);
    EXPECT_EQ(0xee, *dst.ptr(15));
    EXPECT_EQ(0xee, *dst.ptr(16 + max));
}

TEST_F(test_put_imm, unaligned_source_and_target)
{
    open_pair();
    mapped_buffer dst(128, receiver());
    const std::vector<uint8_t> data = pattern(4, 40);
    imm_sink sink(receiver());

    ASSERT_OK(put_imm(sender(), 0, &data[0], 33, dst, 13, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    dst.check(4, 33, 13);
}

TEST_F(test_put_imm, length_above_max_is_refused)
{
    open_pair();
    const unsigned max = sender().attr().cap.put.max_short;
    mapped_buffer dst(max + 1, receiver());
    const std::vector<uint8_t> data(max + 1);
    imm_sink sink(receiver());

    expect_error("put_imm_short length: " + std::to_string(max + 1));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  put_imm(sender(), 0, data.data(), max + 1, dst, 0, 1));

    /* The endpoint is as it was */
    ASSERT_OK(notify(sender(), 0, 2));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(2u, sink.got[0].imm);
}

TEST_F(test_put_imm, negative_length_is_refused)
{
    open_pair();

    expect_error("put_imm_short length: 4294967295");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_wimm_ep_put_imm_short(sender().ep(), NULL, UINT_MAX, 0, 0,
                                            1));
}

TEST_F(test_put_imm, buffer_reused_right_after_return)
{
    const uint32_t count = 16;

    open_pair();
    mapped_buffer dst(count * sizeof(uint64_t), receiver());
    imm_sink sink(receiver());
    uint64_t data;

    for (uint32_t i = 0; i < count; ++i) {
        data = i + 1000;
        ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst,
                          i * sizeof(data), i));
        data = ~0ul;
    }

    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    for (uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(i + 1000, dst.u64(i));
    }
}

TEST_F(test_put_imm, order_of_1000)
{
    const uint32_t count = 1000;

    open_pair();
    mapped_buffer dst(count * sizeof(uint64_t), receiver());
    imm_sink sink(receiver());

    sink.on_imm = [&](const imm_sink::notification &n) {
        ASSERT_EQ(n.imm + 7ul, dst.u64(n.imm));
    };

    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t data = i + 7;

        ASSERT_OK(retry([&]() {
            return put_imm(sender(), 0, &data, sizeof(data), dst,
                           i * sizeof(data), i);
        }));
    }

    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, sink.got[i].imm);
    }
    check_rx_accounting();
    flush(sender());
    check_tx_accounting(sender());
}

TEST_F(test_put_imm, order_with_active_messages_and_plain_puts)
{
    const uint32_t count = 300;

    open_pair();
    mapped_buffer dst(2 * sizeof(uint64_t), receiver());
    imm_sink sink(receiver());
    uint64_t next = 0;

    /* A plain put, an active message, a notified put, and so on: each of the
     * two tells that what was posted before has arrived */
    receiver().set_am_handler(0, [&](void *data, size_t, unsigned) {
        EXPECT_EQ(next, u64_at(data));
        EXPECT_EQ(2 * (next / 2), 2 * sink.count());
        ++next;
        return UCS_OK;
    });
    sink.on_imm = [&](const imm_sink::notification &n) {
        EXPECT_EQ(next, n.imm);
        EXPECT_LE(next - 1, dst.u64(0)); /* The plain put before it */
        EXPECT_EQ(next, dst.u64(1));
        ++next;
    };

    for (uint64_t i = 0; i < count; i += 2) {
        const uint64_t second = i + 1;

        ASSERT_OK(retry([&]() {
            return uct_ep_put_short(sender().ep(), &i, sizeof(i), dst.addr(),
                                    dst.rkey());
        }));
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(sender().ep(), 0, i, NULL, 0);
        }));
        ASSERT_OK(retry([&]() {
            return put_imm(sender(), 0, &second, sizeof(second), dst,
                           sizeof(uint64_t), second);
        }));
        ASSERT_TRUE(wait_for([&]() { return next == (i + 2); }));
    }

    EXPECT_EQ(count / 2, sink.count());
}

TEST_F(test_put_imm, order_with_active_messages_without_waiting)
{
    const uint32_t count = 400;

    open_pair({ { "RC_FC_ENABLE", "n" } });
    imm_sink sink(receiver());
    std::vector<uint64_t> order;

    receiver().set_am_handler(0, [&](void *data, size_t, unsigned) {
        order.push_back(u64_at(data));
        return UCS_OK;
    });
    sink.on_imm = [&](const imm_sink::notification &n) {
        order.push_back(n.imm);
    };

    for (uint64_t i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() {
            return ((i % 3) == 1) ?
                           uct_ep_am_short(sender().ep(), 0, i, NULL, 0) :
                           notify(sender(), 0, i);
        }));
    }

    ASSERT_TRUE(wait_for([&]() { return order.size() == count; }));
    for (uint64_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, order[i]);
    }
}

TEST_F(test_put_imm, endpoint_is_the_one_connected_to_the_sender)
{
    const unsigned num_eps = 8;

    open();
    open();
    entity &third = open();
    for (unsigned i = 0; i < num_eps; ++i) {
        /* Not the same index on both sides */
        entity::connect((i % 2) ? sender() : third, i, receiver(),
                        num_eps - 1 - i);
    }

    imm_sink sink(receiver());
    for (unsigned i = 0; i < (5 * num_eps); ++i) {
        const unsigned index = (i * 3) % num_eps;

        ASSERT_OK(retry([&]() {
            return notify((index % 2) ? sender() : third, index, index);
        }));
    }

    ASSERT_TRUE(wait_for([&]() { return sink.count() == (5 * num_eps); }));
    for (const imm_sink::notification &n : sink.got) {
        EXPECT_EQ(static_cast<int>(num_eps - 1 - n.imm), n.ep_index);
    }
}

TEST_F(test_put_imm, both_directions_at_once)
{
    const uint32_t count = 500;

    open_pair();
    mapped_buffer left(64, sender());
    mapped_buffer right(64, receiver());
    imm_sink left_sink(sender());
    imm_sink right_sink(receiver());
    uint32_t left_sent = 0, right_sent = 0;

    ASSERT_TRUE(wait_for([&]() {
        uint64_t data = left_sent;

        if ((left_sent < count) && (put_imm(sender(), 0, &data, sizeof(data),
                                            right, 0, left_sent) == UCS_OK)) {
            ++left_sent;
        }
        data = right_sent;
        if ((right_sent < count) && (put_imm(receiver(), 0, &data, sizeof(data),
                                             left, 0, right_sent) == UCS_OK)) {
            ++right_sent;
        }
        return (left_sink.count() == count) && (right_sink.count() == count);
    }));

    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, left_sink.got[i].imm);
        ASSERT_EQ(i, right_sink.got[i].imm);
    }
    check_rx_accounting();
}

TEST_F(test_put_imm, endpoint_connected_to_itself)
{
    open();
    sender().create_ep(0);
    sender().connect_to(0, sender(), 0);
    mapped_buffer dst(8, sender());
    imm_sink sink(sender());
    const uint64_t data = 0x1122334455667788ul;

    for (uint32_t i = 0; i < 20; ++i) {
        ASSERT_OK(retry([&]() {
            return put_imm(sender(), 0, &data, sizeof(data), dst, 0, i);
        }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 20; }));
    EXPECT_EQ(19u, sink.got[19].imm);
    EXPECT_EQ(sender().ep(), sink.got[19].ep);
    EXPECT_EQ(data, dst.u64());
    flush(sender());
    check_rx_accounting();
}

TEST_F(test_put_imm, two_endpoints_of_one_interface)
{
    open();
    entity::connect(sender(), 0, sender(), 1);
    imm_sink sink(sender());

    ASSERT_OK(notify(sender(), 0, 10));
    ASSERT_OK(notify(sender(), 1, 11));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    for (const imm_sink::notification &n : sink.got) {
        EXPECT_EQ((n.imm == 10) ? 1 : 0, n.ep_index);
    }
}

TEST_F(test_put_imm, flush_covers_it)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());
    const uint64_t data = 77;

    ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst, 0, 1));
    flush(sender());
    EXPECT_EQ(data, dst.u64());
    EXPECT_EQ(rc_state::sq_length(sender()), rc_state::sq_available(sender()));
}

TEST_F(test_put_imm, after_fence)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());
    const uint64_t data = 78;

    ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data), dst.addr(),
                               dst.rkey()));
    EXPECT_FALSE(rc_state::fence_waits(sender()));
    ASSERT_OK(uct_ep_fence(sender().ep(), 0));
    EXPECT_TRUE(rc_state::fence_waits(sender()));
    ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst, 8, 1));
    EXPECT_FALSE(rc_state::fence_waits(sender()));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(data, dst.u64(0));
    EXPECT_EQ(data, dst.u64(1));

    /* Once more on the interface, and on an endpoint that is idle */
    ASSERT_OK(uct_iface_fence(sender().iface(), 0));
    EXPECT_TRUE(rc_state::fence_waits(sender()));
    ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst, 16, 2));
    EXPECT_FALSE(rc_state::fence_waits(sender()));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    EXPECT_EQ(data, dst.u64(2));
}

TEST_F(test_put_imm, length_zero_leaves_the_fence_to_the_next_put)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());
    const uint64_t data = 79;

    /* It writes nothing that could be ordered, and its key is junk */
    ASSERT_OK(uct_iface_fence(sender().iface(), 0));
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0,
                                        0xdeadbeefdeadbeeful,
                                        0xdeadbeefdeadbeeful, 1));
    EXPECT_TRUE(rc_state::fence_waits(sender()));
    ASSERT_OK(put_imm(sender(), 0, &data, sizeof(data), dst, 0, 2));
    EXPECT_FALSE(rc_state::fence_waits(sender()));

    ASSERT_OK(uct_ep_fence(sender().ep(), 0));
    ASSERT_OK(notify(sender(), 0, 3));
    EXPECT_TRUE(rc_state::fence_waits(sender()));
    ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data), dst.addr(8),
                               dst.rkey()));
    EXPECT_FALSE(rc_state::fence_waits(sender()));
    flush(sender());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 3; }));
    EXPECT_EQ(data, dst.u64(0));
    EXPECT_EQ(data, dst.u64(1));
}

TEST_F(test_put_imm, request_as_it_is_posted)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());
    const uint64_t data = 80;
    unsigned posts      = 0;

    for (unsigned length : { 0u, 1u, 8u }) {
        verbs_fault view(sender(), [&](const struct ibv_qp *qp,
                                       const struct ibv_send_wr *wr) {
            ++posts;
            EXPECT_EQ(rc_state::qp(sender()), qp);
            EXPECT_EQ(IBV_WR_RDMA_WRITE_WITH_IMM, wr->opcode);
            EXPECT_EQ(nullptr, wr->next);
            EXPECT_EQ(htonl(0x01020300 + length), wr->imm_data);
            EXPECT_FALSE(wr->send_flags & IBV_SEND_SIGNALED);
            EXPECT_TRUE(wr->send_flags & IBV_SEND_SOLICITED);

            /* Nothing is inline of nothing: some devices refuse that */
            EXPECT_EQ(length > 0, (wr->send_flags & IBV_SEND_INLINE) != 0);
            EXPECT_EQ((length > 0) ? 1 : 0, wr->num_sge);
            if (length > 0) {
                EXPECT_EQ(length, wr->sg_list[0].length);
                EXPECT_EQ(dst.addr(), wr->wr.rdma.remote_addr);
            }
            return 0;
        });

        ASSERT_OK(put_imm(sender(), 0, &data, length, dst, 0,
                          0x01020300 + length));
    }
    EXPECT_EQ(3u, posts);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 3; }));
}

TEST_F(test_put_imm, no_resource_then_all_arrive_once)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    imm_sink sink(receiver());
    uint32_t sent = 0;

    /* Fill the send queue without progress on it */
    while (notify(sender(), 0, sent) == UCS_OK) {
        ++sent;
        ASSERT_LE(sent, 1000u);
    }
    EXPECT_EQ(static_cast<uint32_t>(rc_state::sq_length(sender())), sent);
    EXPECT_EQ(0, rc_state::sq_available(sender()));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, sent));

    ASSERT_OK(retry([&]() { return notify(sender(), 0, sent); }));
    ++sent;
    ASSERT_TRUE(wait_for([&]() { return sink.count() == sent; }));
    flush(sender());
    progress_rounds();
    EXPECT_EQ(sent, sink.count());
}

TEST_F(test_put_imm, no_resource_of_completion_queue)
{
    const unsigned num_eps = 4;

    open({ { "RC_TX_CQ_LEN", "64" } });
    open();
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }

    imm_sink sink(receiver());
    uint32_t sent = 0, refused = 0;
    for (unsigned i = 0; refused < num_eps; ++i) {
        if (notify(sender(), i % num_eps, sent) == UCS_OK) {
            ++sent;
            refused = 0;
        } else {
            ++refused;
        }
        ASSERT_LE(sent, 64u);
    }

    EXPECT_GT(sent, 0u);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == sent; }));
    for (unsigned i = 0; i < num_eps; ++i) {
        flush(sender(), i);
    }
    check_tx_accounting(sender());
}
