/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/uct_test.h"
#include "common/rc_state.h"
#include "common/send_view.h"

#include <algorithm>
#include <cstring>


/* Put, get and atomics, as rc_verbs has them */
class test_rma : public uct_test {
  protected:
    static void unpack_cb(void *arg, const void *data, size_t length)
    {
        memcpy(arg, data, length);
    }

    /* Each of the three, of 8 bytes. @return Errors, or what was posted. */
    std::vector<ssize_t> put_each(const mapped_buffer &src, uint64_t addr,
                                  uct_rkey_t rkey)
    {
        const uct_iov_t iov = src.iov(8);
        pack_arg arg        = { 1, 8 };

        return { uct_ep_put_short(sender().ep(), src.ptr(), 8, addr, rkey),
                 uct_ep_put_bcopy(sender().ep(), pack_cb, &arg, addr, rkey),
                 uct_ep_put_zcopy(sender().ep(), &iov, 1, addr, rkey, NULL) };
    }

    void wait(ucs_status_t status, const completion &comp)
    {
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
            status = comp.status();
        }
        ASSERT_OK(status);
    }
};


TEST_F(test_rma, put_short_empty_one_max)
{
    open_pair();
    const size_t max = sender().attr().cap.put.max_short;
    mapped_buffer dst(max + 1, receiver(), 0xee);

    for (size_t length : { size_t(0), size_t(1), max }) {
        const std::vector<uint8_t> data = pattern(length, length);

        ASSERT_OK(uct_ep_put_short(sender().ep(), data.data(), length,
                                   dst.addr(), dst.rkey()));
        flush(sender());
        dst.check(length, length);
        EXPECT_EQ(0xee, *dst.ptr(max));
    }
}

TEST_F(test_rma, put_bcopy_empty_one_max)
{
    open_pair();
    const size_t max = sender().attr().cap.put.max_bcopy;
    mapped_buffer dst(max + 1, receiver(), 0xee);

    for (size_t length : { size_t(0), size_t(1), max }) {
        pack_arg arg = { length, length };

        ASSERT_EQ(static_cast<ssize_t>(length),
                  uct_ep_put_bcopy(sender().ep(), pack_cb, &arg, dst.addr(),
                                   dst.rkey()));
        flush(sender());
        dst.check(length, length);
        EXPECT_EQ(0xee, *dst.ptr(max));
    }
}

TEST_F(test_rma, put_zcopy_empty_one_large)
{
    const size_t max = 1024 * 1024 + 13;

    open_pair();
    ASSERT_GE(sender().attr().cap.put.max_zcopy, max);
    mapped_buffer src(max, sender());
    mapped_buffer dst(max + 1, receiver(), 0xee);

    src.fill(1);
    for (size_t length : { size_t(0), size_t(1), max }) {
        const uct_iov_t iov = src.iov(length);
        completion comp;

        wait(uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(), dst.rkey(),
                              &comp.uct),
             comp);
        dst.check(1, length);
        EXPECT_EQ(0xee, *dst.ptr(max));
    }
}

TEST_F(test_rma, put_zcopy_all_iov_entries)
{
    open_pair();
    const size_t count = sender().attr().cap.put.max_iov;
    mapped_buffer src(count * 100, sender());
    mapped_buffer dst(count * 100, receiver());
    std::vector<uct_iov_t> iov;
    completion comp;

    src.fill(2);
    for (size_t i = 0; i < count; ++i) {
        iov.push_back(src.iov(100, i * 100));
    }
    wait(uct_ep_put_zcopy(sender().ep(), iov.data(), count, dst.addr(),
                          dst.rkey(), &comp.uct),
         comp);
    dst.check(2, count * 100);
}

TEST_F(test_rma, put_is_one_signaled_write)
{
    open_pair();
    mapped_buffer src(8, sender());
    mapped_buffer dst(8, receiver());
    const uct_iov_t none = src.iov(0);
    pack_arg empty       = { 1, 0 };
    send_view view(sender());

    EXPECT_EQ(std::vector<ssize_t>({ UCS_OK, 8, UCS_INPROGRESS }),
              put_each(src, dst.addr(), dst.rkey()));
    ASSERT_EQ(3u, view.got.size());
    for (const send_view::request &req : view.got) {
        EXPECT_EQ(IBV_WR_RDMA_WRITE, req.opcode);
        EXPECT_EQ(unsigned(IBV_SEND_SIGNALED), req.flags & ~IBV_SEND_INLINE);
        EXPECT_EQ(std::vector<size_t>({ 8 }), req.sge);
        EXPECT_EQ(dst.addr(), req.remote_addr);
        EXPECT_EQ(static_cast<uint32_t>(dst.rkey()), req.rkey);
    }

    /* Nothing to write is done at once, but for a short put */
    EXPECT_EQ(0, uct_ep_put_bcopy(sender().ep(), pack_cb, &empty, dst.addr(),
                                  dst.rkey()));
    EXPECT_OK(uct_ep_put_zcopy(sender().ep(), &none, 1, dst.addr(), dst.rkey(),
                               NULL));
    EXPECT_EQ(3u, view.got.size());
    flush(sender());
    EXPECT_EQ(0u, rc_state::tx_in_use(sender()));
}

TEST_F(test_rma, put_without_resources)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer src(8, sender());
    mapped_buffer dst(8, receiver());

    while (uct_ep_put_short(sender().ep(), src.ptr(), 8, dst.addr(),
                            dst.rkey()) == UCS_OK) {
    }
    EXPECT_EQ(std::vector<ssize_t>(3, UCS_ERR_NO_RESOURCE),
              put_each(src, dst.addr(), dst.rkey()));
    EXPECT_EQ(0u, rc_state::tx_in_use(sender()));
    flush(sender());
    EXPECT_EQ(std::vector<ssize_t>({ UCS_OK, 8, UCS_INPROGRESS }),
              put_each(src, dst.addr(), dst.rkey()));
    flush(sender());
}

TEST_F(test_rma, put_above_max_is_refused)
{
    WIMM_ONLY();
    open_pair();
    const auto &cap = sender().attr().cap.put;
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    uct_iov_t long_iov = src.iov(8);
    const std::vector<uct_iov_t> many(cap.max_iov + 1, src.iov(1));

    expect_error("put_short length: " + std::to_string(cap.max_short + 1));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_ep_put_short(sender().ep(), NULL, cap.max_short + 1,
                                   dst.addr(), dst.rkey()));
    expect_error("put_zcopy iovcnt: " + std::to_string(many.size()));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_ep_put_zcopy(sender().ep(), many.data(), many.size(),
                                   dst.addr(), dst.rkey(), NULL));
    long_iov.length = cap.max_zcopy + 1;
    expect_error("put_zcopy length: " + std::to_string(long_iov.length));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_ep_put_zcopy(sender().ep(), &long_iov, 1, dst.addr(),
                                   dst.rkey(), NULL));
    EXPECT_OK(uct_ep_flush(sender().ep(), 0, NULL)); /* Nothing was posted */
}

TEST_F(test_rma, put_on_an_endpoint_that_cannot_be_used)
{
    WIMM_ONLY();
    completion flushed;

    open();
    open();
    sender().create_ep(0);
    mapped_buffer src(8, sender());
    mapped_buffer dst(8, receiver());
    EXPECT_EQ(std::vector<ssize_t>(3, UCS_ERR_NOT_CONNECTED),
              put_each(src, dst.addr(), dst.rkey()));
    sender().destroy_ep(0);

    /* Failed, and canceled */
    entity::connect(sender(), 0, receiver(), 0);
    put_each(src, 8, 0xdeadbeef);
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    EXPECT_EQ(std::vector<ssize_t>(3, UCS_ERR_CONNECTION_RESET),
              put_each(src, dst.addr(), dst.rkey()));
    sender().destroy_ep(0);
    receiver().destroy_ep(0);

    entity::connect(sender(), 0, receiver(), 0);
    put_each(src, dst.addr(), dst.rkey());
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &flushed.uct));
    EXPECT_EQ(std::vector<ssize_t>(3, UCS_ERR_CONNECTION_RESET),
              put_each(src, dst.addr(), dst.rkey()));
    ASSERT_TRUE(wait_for([&]() { return flushed.done(); }));
}

TEST_F(test_rma, get_bcopy_one_max)
{
    open_pair();
    const size_t max = sender().attr().cap.get.max_bcopy;
    mapped_buffer src(max, receiver());

    src.fill(3);
    for (size_t length : { size_t(1), max }) {
        std::vector<uint8_t> result(length);
        completion comp;

        wait(uct_ep_get_bcopy(sender().ep(), unpack_cb, result.data(), length,
                              src.addr(), src.rkey(), &comp.uct),
             comp);
        EXPECT_EQ(pattern(3, length), result);
    }
}

TEST_F(test_rma, get_zcopy_min_large)
{
    const size_t max = 512 * 1024 + 7;

    open_pair();
    mapped_buffer src(max, receiver());
    mapped_buffer dst(max, sender());

    src.fill(4);
    for (size_t length :
         { std::max<size_t>(sender().attr().cap.get.min_zcopy, 1), max }) {
        const uct_iov_t iov = dst.iov(length);
        completion comp;

        memset(dst.ptr(), 0, max);
        wait(uct_ep_get_zcopy(sender().ep(), &iov, 1, src.addr(), src.rkey(),
                              &comp.uct),
             comp);
        dst.check(4, length);
    }
}

TEST_F(test_rma, get_zcopy_all_iov_entries)
{
    open_pair();
    const size_t count = sender().attr().cap.get.max_iov;
    mapped_buffer src(count * 200, receiver());
    mapped_buffer dst(count * 200, sender());
    std::vector<uct_iov_t> iov;
    completion comp;

    src.fill(5);
    for (size_t i = 0; i < count; ++i) {
        iov.push_back(dst.iov(200, i * 200));
    }
    wait(uct_ep_get_zcopy(sender().ep(), iov.data(), count, src.addr(),
                          src.rkey(), &comp.uct),
         comp);
    dst.check(5, count * 200);
}

TEST_F(test_rma, many_outstanding_in_order_of_completion)
{
    const unsigned count = 64;

    open_pair();
    mapped_buffer src(64 * count, sender());
    mapped_buffer dst(64 * count, receiver());
    std::vector<std::unique_ptr<completion>> comps;

    src.fill(6);
    for (unsigned i = 0; i < count; ++i) {
        const uct_iov_t iov = src.iov(64, i * 64);

        comps.emplace_back(new completion());
        ASSERT_STATUS(UCS_INPROGRESS, retry([&]() {
                          return uct_ep_put_zcopy(sender().ep(), &iov, 1,
                                                  dst.addr(i * 64), dst.rkey(),
                                                  &comps.back()->uct);
                      }));
    }
    ASSERT_TRUE(wait_for([&]() {
        bool later = false;

        for (const auto &comp : comps) {
            EXPECT_FALSE(comp->done() && later);
            later = later || !comp->done();
        }
        return !later;
    }));
    dst.check(6, 64 * count);
    for (const auto &comp : comps) {
        EXPECT_EQ(1, comp->called);
    }
}

TEST_F(test_rma, bad_rkey_fails_the_completion_and_the_endpoint_once)
{
    open_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    const uct_iov_t iov = src.iov(64);
    completion first, second;

    if (!resource::get().is_wimm()) {
        allow_error("completion with error");
    }
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                   0xdeadbeef, &first.uct));
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                   dst.rkey(), &second.uct));
    ASSERT_TRUE(wait_for([&]() { return first.done() && second.done(); }));
    EXPECT_NE(UCS_OK, first.status());
    EXPECT_STATUS(UCS_ERR_CANCELED, second.status());
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(1u, sender().errors.size());
    EXPECT_EQ(sender().ep(), sender().errors[0].ep);
}

TEST_F(test_rma, get_with_bad_rkey)
{
    open_pair();
    mapped_buffer dst(128, sender());
    const uct_iov_t iov = dst.iov(128);
    completion comp;

    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_get_zcopy(sender().ep(), &iov, 1, 0x1000, 0xdeadbeef,
                                   &comp.uct));
    ASSERT_TRUE(wait_for(
            [&]() { return comp.done() && !sender().errors.empty(); }));
    EXPECT_NE(UCS_OK, comp.status());
    EXPECT_EQ(1u, sender().errors.size());

    /* The credits for reads are back: they are those of all endpoints */
    sender().destroy_ep(0);
    check_tx_accounting(sender());
    EXPECT_GT(rc_state::iface(sender())->tx.reads_available, 0);
}

TEST_F(test_rma, atomic_add_posted)
{
    open_pair();
    mapped_buffer dst(64, receiver());

    dst.u64() = 0xffffffff00000001ul;
    for (int i = 0; i < 100; ++i) {
        ASSERT_OK(retry([&]() {
            return uct_ep_atomic64_post(sender().ep(), UCT_ATOMIC_OP_ADD, 3,
                                        dst.addr(), dst.rkey());
        }));
    }
    flush(sender());
    EXPECT_EQ(0xffffffff00000001ul + 300, dst.u64());
}

TEST_F(test_rma, atomic_fetch_add)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    uint64_t result = 0;
    completion comp;

    dst.u64() = 0x1122334455667788ul;
    wait(uct_ep_atomic64_fetch(sender().ep(), UCT_ATOMIC_OP_ADD, ~0ul, &result,
                               dst.addr(), dst.rkey(), &comp.uct),
         comp);
    EXPECT_EQ(0x1122334455667788ul, result);
    EXPECT_EQ(0x1122334455667787ul, dst.u64());
}

TEST_F(test_rma, atomic_cswap_equal_and_not_equal)
{
    open_pair();
    mapped_buffer dst(64, receiver());
    uint64_t result = 0;
    completion equal, differs;

    dst.u64() = 5;
    wait(uct_ep_atomic_cswap64(sender().ep(), 5, 6, dst.addr(), dst.rkey(),
                               &result, &equal.uct),
         equal);
    EXPECT_EQ(5u, result);
    EXPECT_EQ(6u, dst.u64());

    wait(uct_ep_atomic_cswap64(sender().ep(), 5, 7, dst.addr(), dst.rkey(),
                               &result, &differs.uct),
         differs);
    EXPECT_EQ(6u, result);
    EXPECT_EQ(6u, dst.u64());
}

TEST_F(test_rma, atomics_of_two_endpoints_on_one_word)
{
    const unsigned count = 200;

    open();
    open();
    entity::connect(sender(), 0, receiver(), 0);
    entity::connect(sender(), 1, receiver(), 1);
    mapped_buffer dst(64, receiver());

    for (unsigned i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() {
            return uct_ep_atomic64_post(sender().ep(i % 2), UCT_ATOMIC_OP_ADD,
                                        1, dst.addr(), dst.rkey());
        }));
    }
    flush(sender(), 0);
    flush(sender(), 1);
    EXPECT_EQ(count, dst.u64());
}
