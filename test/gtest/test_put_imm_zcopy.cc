/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"
#include "common/send_view.h"

#include <algorithm>
#include <cstring>


/* Notified puts by bcopy and zcopy, and without data */
class test_put_imm_zcopy : public imm_test {
  protected:
    static const uint8_t GUARD = 0xee;

    size_t max_short() const
    {
        return sender().attr().cap.put.max_short;
    }

    size_t max_bcopy() const
    {
        return sender().attr().cap.put.max_bcopy;
    }

    size_t max_zcopy() const
    {
        return iface_attr().cap.max_zcopy;
    }

    size_t max_iov() const
    {
        return iface_attr().cap.max_iov;
    }

    uct_wimm_iface_attr_t iface_attr() const
    {
        uct_wimm_iface_attr_t attr = {};

        attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP;
        EXPECT_OK(uct_wimm_iface_query(sender().iface(), &attr));
        return attr;
    }

    /* Lengths around all that is a limit somewhere */
    std::vector<size_t> lengths(size_t max) const
    {
        const size_t mtu = sender().attr().cap.put.align_mtu;
        std::vector<size_t> result;

        for (size_t length :
             { size_t(0), size_t(1), max_short() - 1, max_short(),
               max_short() + 1, mtu - 1, mtu, mtu + 1, 2 * mtu, max_bcopy() - 1,
               max_bcopy(), max_bcopy() + 1, size_t(1024 * 1024) }) {
            if (length <= max) {
                result.push_back(length);
            }
        }
        return result;
    }

    static uct_iov_t entry(const void *buffer, size_t length, uct_mem_h memh)
    {
        uct_iov_t iov = {};

        iov.buffer = const_cast<void *>(buffer);
        iov.length = length;
        iov.memh   = memh;
        iov.count  = 1;
        return iov;
    }

    ucs_status_t put_iov(const std::vector<uct_iov_t> &iov,
                         const mapped_buffer &dst, size_t offset, uint32_t imm,
                         completion *comp = NULL)
    {
        return uct_wimm_ep_put_imm_zcopy(sender().ep(), iov.data(), iov.size(),
                                         dst.addr(offset), dst.rkey(), imm,
                                         (comp == NULL) ? NULL : &comp->uct);
    }

    /* The next notification, and nothing else, has arrived */
    void expect_next(imm_sink &sink, uint32_t imm, size_t length)
    {
        const size_t count = sink.count() + 1;

        ASSERT_TRUE(wait_for([&]() { return sink.count() >= count; }));
        ASSERT_EQ(count, sink.count());
        EXPECT_EQ(imm, sink.got.back().imm);
        EXPECT_EQ(length, sink.got.back().length);
    }

    /* These bytes were written at an offset, and none beside them */
    void expect_bytes(const mapped_buffer &dst, size_t offset,
                      const std::vector<uint8_t> &data)
    {
        /* Not memcmp(): there may be none, at NULL */
        EXPECT_TRUE(std::equal(data.begin(), data.end(), dst.ptr(offset)))
                << data.size() << " bytes";
        if (offset > 0) {
            EXPECT_EQ(GUARD, *dst.ptr(offset - 1));
        }
        if ((offset + data.size()) < dst.size()) {
            EXPECT_EQ(GUARD, *dst.ptr(offset + data.size()));
        }
    }

    /* One request that writes with immediate, with entries of these lengths */
    void expect_one_request(const send_view &view,
                            const std::vector<size_t> &sge, uint32_t imm)
    {
        ASSERT_EQ(1u, view.got.size());
        EXPECT_EQ(rc_state::qp(sender()), view.got[0].qp);
        EXPECT_EQ(IBV_WR_RDMA_WRITE_WITH_IMM, view.got[0].opcode);
        EXPECT_EQ(sge, view.got[0].sge);
        EXPECT_EQ(htonl(imm), view.got[0].imm_data);
        EXPECT_TRUE(view.got[0].flags & IBV_SEND_SOLICITED);
    }

    /* The endpoint is as before, and nothing was sent on it */
    void check_works(imm_sink &sink)
    {
        ASSERT_OK(notify(sender(), 0, 0x600d));
        expect_next(sink, 0x600d, 0);
        flush(sender());
        check_tx_accounting(sender());
    }

    struct packing {
        uint64_t seed;
        size_t length;
        unsigned called;
    };

    static size_t count_pack(void *dest, void *arg)
    {
        packing *self  = static_cast<packing *>(arg);
        pack_arg plain = { self->seed, self->length };

        ++self->called;
        return pack_cb(dest, &plain);
    }

    ssize_t put_packed(packing &data, const mapped_buffer &dst, uint32_t imm,
                       size_t offset = 0, unsigned index = 0)
    {
        return uct_wimm_ep_put_imm_bcopy(sender().ep(index), count_pack, &data,
                                         dst.addr(offset), dst.rkey(), imm);
    }

    void each_number_of_entries();

    /* Nothing is packed for a put that cannot be posted */
    void expect_not_packed(ssize_t status, const mapped_buffer &dst,
                           unsigned index = 0)
    {
        packing data = { 1, 8, 0 };

        EXPECT_EQ(status, put_packed(data, dst, 1, 0, index));
        EXPECT_EQ(0u, data.called);
    }
};

const uint8_t test_put_imm_zcopy::GUARD;


TEST_F(test_put_imm_zcopy, limits_are_those_of_the_plain_put)
{
    open_pair();
    const uct_iface_attr_t &base = sender().attr();

    EXPECT_EQ(base.cap.put.max_short, iface_attr().cap.max_short);
    EXPECT_EQ(base.cap.put.max_bcopy, iface_attr().cap.max_bcopy);
    EXPECT_EQ(base.cap.put.max_zcopy, iface_attr().cap.max_zcopy);
    EXPECT_EQ(base.cap.put.max_iov, iface_attr().cap.max_iov);
    EXPECT_EQ(32u, iface_attr().cap.imm_bits);
}

TEST_F(test_put_imm_zcopy, bcopy_of_any_length_is_one_request)
{
    open_pair();
    mapped_buffer dst(max_bcopy() + 64, receiver(), GUARD);
    imm_sink sink(receiver());
    uint32_t imm = 0;

    for (size_t length : lengths(max_bcopy())) {
        packing data = { ++imm, length, 0 };

        {
            send_view view(sender());

            ASSERT_EQ(static_cast<ssize_t>(length),
                      put_packed(data, dst, imm, 13));
            expect_one_request(view,
                               (length > 0) ? std::vector<size_t>{ length } :
                                              std::vector<size_t>(),
                               imm);
            EXPECT_FALSE(view.got[0].flags & IBV_SEND_INLINE);
            EXPECT_FALSE(view.got[0].signaled()); /* None of the first few */
        }
        EXPECT_EQ(1u, data.called);
        expect_next(sink, imm, length);
        expect_bytes(dst, 13, pattern(imm, length));
        memset(dst.ptr(), GUARD, dst.size());
        flush(sender());
    }
    check_tx_accounting(sender());
    check_rx_accounting();
}

TEST_F(test_put_imm_zcopy, zcopy_of_any_length_is_one_request)
{
    open_pair();
    const std::vector<size_t> all = lengths(max_zcopy());
    mapped_buffer src(all.back(), sender());
    mapped_buffer dst(all.back() + 64, receiver(), GUARD);
    imm_sink sink(receiver());
    uint32_t imm = 0;

    for (size_t length : all) {
        const std::vector<uint8_t> data = pattern(++imm, length);
        completion comp;

        std::copy(data.begin(), data.end(), src.ptr());
        {
            send_view view(sender());

            ASSERT_STATUS(UCS_INPROGRESS,
                          put_iov({ src.iov(length) }, dst, 13, imm, &comp));
            expect_one_request(view,
                               (length > 0) ? std::vector<size_t>{ length } :
                                              std::vector<size_t>(),
                               imm);
            EXPECT_FALSE(view.got[0].flags & IBV_SEND_INLINE);
            EXPECT_TRUE(view.got[0].signaled());
        }
        EXPECT_EQ(0, comp.called); /* Only by progress */
        expect_next(sink, imm, length);
        expect_bytes(dst, 13, data);
        memset(dst.ptr(), GUARD, length + 14);
        ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
        EXPECT_OK(comp.status());
        EXPECT_EQ(1, comp.called);
    }
    check_tx_accounting(sender());
    check_rx_accounting();
}

TEST_F(test_put_imm_zcopy, longest_message)
{
    open_pair();
    const size_t length = max_zcopy();
    mapped_buffer src(length, sender());
    mapped_buffer dst(length, receiver());
    imm_sink sink(receiver());
    completion comp;

    for (size_t i = 0; i < (length / sizeof(uint64_t)); ++i) {
        src.u64(i) = i * 0x9e3779b97f4a7c15ul;
    }
    {
        send_view view(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      put_iov({ src.iov(length) }, dst, 0, 1, &comp));
        expect_one_request(view, { length }, 1);
    }
    expect_next(sink, 1, length);
    EXPECT_EQ(0, memcmp(src.ptr(), dst.ptr(), length));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_EQ(1u, counters(receiver()).delivered);
}

TEST_F(test_put_imm_zcopy, more_than_the_longest_message_is_refused)
{
    open_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver(), GUARD);
    imm_sink sink(receiver());
    completion comp;
    const size_t max = max_zcopy();

    expect_error("Invalid put_imm_zcopy length", 3);
    {
        send_view view(sender());

        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      put_iov({ src.iov(max + 1) }, dst, 0, 1, &comp));
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      put_iov({ src.iov(1), src.iov(0), src.iov(max) }, dst, 0,
                              1, &comp));

        /* Not cut to 32 bits */
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      put_iov({ src.iov((1ul << 32) + 8) }, dst, 0, 1, NULL));
        EXPECT_TRUE(view.got.empty());
    }
    check_works(sink);
    EXPECT_EQ(0, comp.called);
    EXPECT_EQ(GUARD, *dst.ptr());
}

void test_put_imm_zcopy::each_number_of_entries()
{
    std::vector<std::unique_ptr<mapped_buffer>> src;
    mapped_buffer dst(64 * 1024, receiver(), GUARD);
    imm_sink sink(receiver());

    ASSERT_GT(max_iov(), 1u);
    for (size_t i = 0; i < max_iov(); ++i) {
        src.emplace_back(new mapped_buffer(16 * 1024, sender()));
        src.back()->fill(i);
    }

    for (size_t count = 1; count <= max_iov(); ++count) {
        const uint32_t imm = 100 + count;
        std::vector<uct_iov_t> iov;
        std::vector<size_t> sge;
        std::vector<uint8_t> expected;
        completion comp;

        /* Different memory, at odd places, with different lengths */
        for (size_t i = 0; i < count; ++i) {
            const uint8_t *start = src[i]->ptr(3 * i + 1);

            sge.push_back(1 + (i * 1777));
            iov.push_back(src[i]->iov(sge.back(), 3 * i + 1));
            expected.insert(expected.end(), start, start + sge.back());
        }
        {
            send_view view(sender());

            ASSERT_STATUS(UCS_INPROGRESS, put_iov(iov, dst, 7, imm, &comp));
            expect_one_request(view, sge, imm);
        }
        expect_next(sink, imm, expected.size());
        expect_bytes(dst, 7, expected);
        memset(dst.ptr(), GUARD, dst.size());
        ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    }
}

TEST_F(test_put_imm_zcopy, any_number_of_entries_is_one_request)
{
    open_pair();
    each_number_of_entries();
}

TEST_F(test_put_imm_zcopy, as_many_entries_as_the_device_is_asked_for)
{
    open_pair({ { "IB_TX_MIN_SGE", std::to_string(UCT_IB_MAX_IOV) } });
    EXPECT_EQ(size_t(UCT_IB_MAX_IOV), max_iov());
    each_number_of_entries();
}

TEST_F(test_put_imm_zcopy, more_entries_than_the_limit_are_refused)
{
    open_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver(), GUARD);
    imm_sink sink(receiver());
    completion comp;
    const uct_iov_t one = src.iov(1);

    expect_error("Invalid put_imm_zcopy iovcnt", 3);
    {
        send_view view(sender());

        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      put_iov(std::vector<uct_iov_t>(max_iov() + 1, one), dst,
                              0, 1, &comp));

        /* Also if the rest is empty; and it is not looked at for a length */
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      put_iov(std::vector<uct_iov_t>(max_iov() + 1, src.iov(0)),
                              dst, 0, 1, &comp));
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      uct_wimm_ep_put_imm_zcopy(sender().ep(), NULL, SIZE_MAX,
                                                dst.addr(), dst.rkey(), 1,
                                                &comp.uct));
        EXPECT_TRUE(view.got.empty());
    }
    check_works(sink);
    EXPECT_EQ(0, comp.called);
    EXPECT_EQ(GUARD, *dst.ptr());
}

TEST_F(test_put_imm_zcopy, empty_entries_are_left_out)
{
    open_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(128, receiver(), GUARD);
    imm_sink sink(receiver());
    uint32_t imm = 0;

    src.fill(3);
    /* One entry with data in each place, all else empty: also of no buffer */
    for (size_t place = 0; place < max_iov(); ++place) {
        std::vector<uct_iov_t> iov;

        for (size_t i = 0; i < max_iov(); ++i) {
            iov.push_back((i == place) ? src.iov(17, 5) :
                          (i % 2)      ? src.iov(0, i) :
                                         entry(NULL, 0, UCT_MEM_HANDLE_NULL));
        }
        {
            send_view view(sender());

            ASSERT_STATUS(UCS_INPROGRESS, put_iov(iov, dst, 1, ++imm));
            expect_one_request(view, { 17 }, imm);
        }
        expect_next(sink, imm, 17);
        expect_bytes(dst, 1, std::vector<uint8_t>(src.ptr(5), src.ptr(5 + 17)));
        memset(dst.ptr(), GUARD, dst.size());
    }

    /* Two, with empty ones around them */
    if (max_iov() >= 5) {
        std::vector<uint8_t> expected(src.ptr(0), src.ptr(4));

        expected.insert(expected.end(), src.ptr(40), src.ptr(49));
        send_view view(sender());
        ASSERT_STATUS(UCS_INPROGRESS,
                      put_iov({ src.iov(0), src.iov(4), src.iov(0),
                                src.iov(9, 40), src.iov(0) },
                              dst, 1, ++imm));
        expect_one_request(view, { 4, 9 }, imm);
        expect_next(sink, imm, 13);
        expect_bytes(dst, 1, expected);
    }
    flush(sender());
    check_tx_accounting(sender());
}

TEST_F(test_put_imm_zcopy, nothing_in_any_entry)
{
    open_pair();
    mapped_buffer src(64, sender());
    imm_sink sink(receiver());
    uint32_t imm = 0;

    /* No key is needed, so junk must not get to the device */
    for (size_t count = 0; count <= max_iov(); ++count) {
        const std::vector<uct_iov_t> iov(count, src.iov(0));
        completion comp;

        {
            send_view view(sender());

            ASSERT_STATUS(UCS_INPROGRESS,
                          uct_wimm_ep_put_imm_zcopy(sender().ep(),
                                                    count ? iov.data() : NULL,
                                                    count, 0xdeadbeefdeadbeeful,
                                                    0xdeadbeefdeadbeeful, ++imm,
                                                    &comp.uct));
            expect_one_request(view, {}, imm);
            EXPECT_EQ(0u, view.got[0].remote_addr);
            EXPECT_EQ(0u, view.got[0].rkey);
            EXPECT_TRUE(view.got[0].signaled());
        }
        EXPECT_EQ(0, comp.called);
        expect_next(sink, imm, 0);
        ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
        EXPECT_OK(comp.status());
        EXPECT_EQ(1, comp.called);
    }
}

TEST_F(test_put_imm_zcopy, bcopy_of_nothing_needs_no_key)
{
    open_pair();
    imm_sink sink(receiver());
    packing data = { 1, 0, 0 };

    send_view view(sender());
    ASSERT_EQ(0, uct_wimm_ep_put_imm_bcopy(sender().ep(), count_pack, &data,
                                           0xdeadbeefdeadbeeful,
                                           0xdeadbeefdeadbeeful, 1));
    EXPECT_EQ(1u, data.called);
    expect_one_request(view, {}, 1);
    EXPECT_EQ(0u, view.got[0].remote_addr);
    EXPECT_EQ(0u, view.got[0].rkey);
    expect_next(sink, 1, 0);
    flush(sender());
    check_tx_accounting(sender());
}

TEST_F(test_put_imm_zcopy, notify_needs_no_key)
{
    open_pair();
    imm_sink sink(receiver());

    for (uint32_t imm : { 0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu }) {
        {
            send_view view(sender());

            ASSERT_OK(uct_wimm_ep_notify(sender().ep(), imm));
            expect_one_request(view, {}, imm);
            EXPECT_EQ(0u, view.got[0].remote_addr);
            EXPECT_EQ(0u, view.got[0].rkey);
            EXPECT_FALSE(view.got[0].flags & IBV_SEND_INLINE);
            EXPECT_FALSE(view.got[0].signaled());
        }
        expect_next(sink, imm, 0);
    }
    flush(sender());
}

TEST_F(test_put_imm_zcopy, all_bits_of_imm_by_bcopy_and_zcopy)
{
    open_pair();
    mapped_buffer src(8, sender());
    mapped_buffer dst(8, receiver());
    imm_sink sink(receiver());

    for (uint32_t imm :
         { 0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0x12345678u }) {
        packing data = { imm, 8, 0 };

        ASSERT_EQ(8, put_packed(data, dst, imm));
        expect_next(sink, imm, 8);
        ASSERT_STATUS(UCS_INPROGRESS, put_iov({ src.iov(8) }, dst, 0, imm));
        expect_next(sink, imm, 8);
    }
    flush(sender());
}

TEST_F(test_put_imm_zcopy, without_completion_a_flush_tells)
{
    open_pair();
    mapped_buffer src(64 * 1024, sender());
    mapped_buffer dst(64 * 1024, receiver());
    imm_sink sink(receiver());

    src.fill(4);
    {
        send_view view(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      put_iov({ src.iov(src.size()) }, dst, 0, 1));
        expect_one_request(view, { src.size() }, 1);
        EXPECT_FALSE(view.got[0].signaled());
    }
    flush(sender());
    EXPECT_EQ(0, memcmp(src.ptr(), dst.ptr(), src.size()));
    EXPECT_EQ(rc_state::sq_length(sender()), rc_state::sq_available(sender()));
}

TEST_F(test_put_imm_zcopy, completion_does_not_mean_that_the_peer_was_told)
{
    open_pair();
    mapped_buffer src(64 * 1024, sender());
    mapped_buffer dst(64 * 1024, receiver());
    imm_sink sink(receiver());
    completion comp;

    /* The receiver's program sleeps: the device places the data, no more */
    src.fill(5);
    ASSERT_STATUS(UCS_INPROGRESS,
                  put_iov({ src.iov(src.size()) }, dst, 0, 1, &comp));
    for (unsigned i = 0; (i < 100000000) && !comp.done(); ++i) {
        sender().progress();
    }
    ASSERT_TRUE(comp.done());
    EXPECT_OK(comp.status());
    EXPECT_EQ(0, memcmp(src.ptr(), dst.ptr(), src.size()));
    EXPECT_EQ(0u, sink.count());
    expect_next(sink, 1, src.size());
    EXPECT_EQ(1, comp.called);
}

TEST_F(test_put_imm_zcopy, one_completion_for_several)
{
    const unsigned count = 5;

    open_pair();
    mapped_buffer src(4096, sender());
    mapped_buffer dst(4096, receiver());
    imm_sink sink(receiver());
    completion comp(count);

    for (unsigned i = 0; i < count; ++i) {
        EXPECT_EQ(static_cast<int>(count), comp.uct.count);
        ASSERT_STATUS(UCS_INPROGRESS,
                      put_iov({ src.iov(i * 1000) }, dst, 0, i, &comp));
    }
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_EQ(0, comp.uct.count);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    progress_rounds();
    EXPECT_EQ(1, comp.called);
}

TEST_F(test_put_imm_zcopy, completion_is_not_called_for_what_was_not_posted)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer src(8, sender());
    mapped_buffer dst(8, receiver());
    imm_sink sink(receiver());
    std::vector<std::unique_ptr<completion>> comps;
    ucs_status_t status;

    do {
        comps.emplace_back(new completion());
        status = put_iov({ src.iov(8) }, dst, 0, comps.size(),
                         comps.back().get());
    } while (status == UCS_INPROGRESS);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, status);

    flush(sender());
    for (const auto &comp : comps) {
        EXPECT_EQ((comp == comps.back()) ? 0 : 1, comp->called);
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == comps.size() - 1; }));
}

TEST_F(test_put_imm_zcopy, failed_put_gives_its_completion_the_error)
{
    open_pair();
    mapped_buffer src(64 * 1024, sender());
    mapped_buffer dst(64 * 1024, receiver());
    imm_sink sink(receiver());
    completion good, bad, after;
    const uct_iov_t iov = src.iov(src.size());

    ASSERT_STATUS(UCS_INPROGRESS, put_iov({ iov }, dst, 0, 1, &good));
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_wimm_ep_put_imm_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                            0xdeadbeef, 2, &bad.uct));
    ASSERT_STATUS(UCS_INPROGRESS, put_iov({ iov }, dst, 0, 3, &after));
    ASSERT_TRUE(wait_for([&]() { return after.done(); }));
    progress_rounds();
    EXPECT_OK(good.status());
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, bad.status());
    EXPECT_STATUS(UCS_ERR_CANCELED, after.status());
    EXPECT_EQ(1, good.called);
    EXPECT_EQ(1, bad.called);
    EXPECT_EQ(1, after.called);
    EXPECT_EQ(1u, sender().errors.size());
    ASSERT_EQ(1u, sink.count());
    EXPECT_EQ(1u, sink.got[0].imm);
}

/* When nothing is packed */

TEST_F(test_put_imm_zcopy, pack_is_not_called_without_a_connection)
{
    open_pair();
    sender().create_ep(1);
    mapped_buffer dst(8, receiver());
    completion comp;
    packing data = { 1, 8, 0 };

    expect_not_packed(UCS_ERR_NOT_CONNECTED, dst, 1);
    ASSERT_EQ(8, put_packed(data, dst, 1));
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(sender().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &comp.uct));
    expect_not_packed(UCS_ERR_CONNECTION_RESET, dst);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
}

TEST_F(test_put_imm_zcopy, pack_is_not_called_without_a_place_in_the_queue)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());
    packing data = { 1, 8, 0 };
    unsigned sent;

    for (sent = 0; put_packed(data, dst, sent) > 0; ++sent) {
    }
    EXPECT_EQ(0, rc_state::sq_available(sender()));
    EXPECT_EQ(sent, data.called);
    expect_not_packed(UCS_ERR_NO_RESOURCE, dst);
    flush(sender());
}

TEST_F(test_put_imm_zcopy, pack_is_not_called_without_a_slot)
{
    open_pair({ { "NUM_SLOTS", "1" } });
    mapped_buffer dst(8, receiver());

    ASSERT_OK(notify(sender(), 0, 1));
    EXPECT_EQ(0u, ep_attr(sender()).slots);
    EXPECT_GT(ep_attr(sender()).credits, 0u);
    expect_not_packed(UCS_ERR_NO_RESOURCE, dst);
}

TEST_F(test_put_imm_zcopy, pack_is_not_called_without_a_credit)
{
    open_pair({ { "RC_FC_WND_SIZE", "1" } });
    mapped_buffer dst(8, receiver());

    ASSERT_OK(notify(sender(), 0, 1));
    EXPECT_EQ(0u, ep_attr(sender()).credits);
    EXPECT_GT(ep_attr(sender()).slots, 0u);
    expect_not_packed(UCS_ERR_NO_RESOURCE, dst);
}

TEST_F(test_put_imm_zcopy, pack_is_not_called_without_a_buffer)
{
    open_pair({ { "IB_TX_MAX_BUFS", "2" }, { "IB_TX_BUFS_GROW", "2" } });
    mapped_buffer dst(8, receiver());
    packing data = { 1, 8, 0 };

    ASSERT_EQ(8, put_packed(data, dst, 1));
    ASSERT_EQ(8, put_packed(data, dst, 2));
    expect_not_packed(UCS_ERR_NO_RESOURCE, dst);
    flush(sender());
}

TEST_F(test_put_imm_zcopy, fence_acts_on_it)
{
    open_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver());
    packing data  = { 1, 64, 0 };
    packing empty = { 1, 0, 0 };

    ASSERT_OK(uct_ep_fence(sender().ep(), 0));
    ASSERT_EQ(0, put_packed(empty, dst, 1));
    ASSERT_STATUS(UCS_INPROGRESS, put_iov({}, dst, 0, 2));
    EXPECT_TRUE(rc_state::fence_waits(sender()));
    ASSERT_EQ(64, put_packed(data, dst, 3));
    EXPECT_FALSE(rc_state::fence_waits(sender()));

    ASSERT_OK(uct_ep_fence(sender().ep(), 0));
    EXPECT_TRUE(rc_state::fence_waits(sender()));
    ASSERT_STATUS(UCS_INPROGRESS, put_iov({ src.iov(64) }, dst, 0, 4));
    EXPECT_FALSE(rc_state::fence_waits(sender()));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 4; }));
    flush(sender());
}
