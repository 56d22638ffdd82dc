/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/uct_test.h"
#include "common/rc_state.h"

#include <cstring>


/* Active messages, and their flow control */
class test_am : public uct_test {
  protected:
    static const uint8_t AM_ID = 11;

    /* Count messages and keep the last one */
    void receive(entity &e)
    {
        e.set_am_handler(AM_ID, [this](void *data, size_t length, unsigned) {
            const uint8_t *bytes = static_cast<uint8_t *>(data);

            m_last.assign(bytes, bytes + length);
            ++m_got;
            return UCS_OK;
        });
    }

    ucs_status_t send_short(entity &e, unsigned index, uint64_t hdr)
    {
        return uct_ep_am_short(e.ep(index), AM_ID, hdr, NULL, 0);
    }

    /* One direction, all in order */
    void stream(unsigned count)
    {
        uint64_t next = 0;

        receiver().set_am_handler(AM_ID, [&](void *data, size_t, unsigned) {
            EXPECT_EQ(next, u64_at(data));
            ++next;
            return UCS_OK;
        });
        for (uint64_t i = 0; i < count; ++i) {
            ASSERT_OK(retry([&]() { return send_short(sender(), 0, i); }));
        }
        ASSERT_TRUE(wait_for([&]() { return next == count; }));
        receiver().remove_am_handler(AM_ID);
    }

    unsigned m_got = 0;
    std::vector<uint8_t> m_last;
};


TEST_F(test_am, short_empty_one_max)
{
    open_pair();
    receive(receiver());

    const size_t max = sender().attr().cap.am.max_short;
    ASSERT_GT(max, sizeof(uint64_t));
    for (size_t length : { size_t(0), size_t(1), max - sizeof(uint64_t) }) {
        const std::vector<uint8_t> data = pattern(length, length);
        const uint64_t hdr              = 0x0123456789abcdeful;
        const unsigned before           = m_got;

        ASSERT_OK(uct_ep_am_short(sender().ep(), AM_ID, hdr, data.data(),
                                  length));
        ASSERT_TRUE(wait_for([&]() { return m_got == (before + 1); }));
        ASSERT_EQ(length + sizeof(hdr), m_last.size());
        EXPECT_EQ(0, memcmp(&hdr, m_last.data(), sizeof(hdr)));
        EXPECT_TRUE(std::equal(data.begin(), data.end(),
                               m_last.begin() + sizeof(hdr)));
    }
}

TEST_F(test_am, short_above_max_is_refused)
{
    open_pair();
    const size_t max = sender().attr().cap.am.max_short;
    const std::vector<uint8_t> data(max);

    expect_error("am_short length");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_ep_am_short(sender().ep(), AM_ID, 0, data.data(),
                                  max - sizeof(uint64_t) + 1));
}

TEST_F(test_am, short_iov_pieces)
{
    open_pair();
    receive(receiver());

    mapped_buffer src(64, sender());
    src.fill(1);
    const uct_iov_t iov[] = { src.iov(1, 0), src.iov(9, 1), src.iov(20, 10) };

    ASSERT_OK(uct_ep_am_short_iov(sender().ep(), AM_ID, iov, 3));
    ASSERT_TRUE(wait_for([&]() { return m_got == 1; }));
    EXPECT_EQ(pattern(1, 30), m_last);
}

TEST_F(test_am, bcopy_empty_one_max)
{
    open_pair();
    receive(receiver());

    for (size_t length :
         { size_t(0), size_t(1), sender().attr().cap.am.max_bcopy }) {
        pack_arg arg          = { length, length };
        const unsigned before = m_got;

        ASSERT_EQ(static_cast<ssize_t>(length),
                  uct_ep_am_bcopy(sender().ep(), AM_ID, pack_cb, &arg, 0));
        ASSERT_TRUE(wait_for([&]() { return m_got == (before + 1); }));
        EXPECT_EQ(pattern(length, length), m_last);
    }
    check_rx_accounting();
}

TEST_F(test_am, zcopy_header_only_to_max)
{
    open_pair();
    receive(receiver());

    const uct_iface_attr_t &attr = sender().attr();
    const size_t max             = attr.cap.am.max_zcopy;
    mapped_buffer src(max, sender());
    src.fill(2);

    for (size_t length : { size_t(0), size_t(1), max }) {
        const size_t hdr_length = (length == max) ? 0 : attr.cap.am.max_hdr;
        const std::vector<uint8_t> hdr = pattern(7, hdr_length);
        const uct_iov_t iov            = src.iov(length);
        const unsigned before          = m_got;
        completion comp;

        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_am_zcopy(sender().ep(), AM_ID, hdr.data(),
                                      hdr_length, &iov, length > 0, 0,
                                      &comp.uct));
        flush(sender());
        ASSERT_TRUE(wait_for(
                [&]() { return comp.done() && (m_got == (before + 1)); }));
        EXPECT_OK(comp.status());
        ASSERT_EQ(hdr_length + length, m_last.size());
        EXPECT_TRUE(std::equal(hdr.begin(), hdr.end(), m_last.begin()));
        const std::vector<uint8_t> data = pattern(2, length);
        EXPECT_TRUE(std::equal(data.begin(), data.end(),
                               m_last.begin() + hdr_length));
    }
}

TEST_F(test_am, zcopy_all_iov_entries)
{
    open_pair();
    receive(receiver());

    const size_t count = sender().attr().cap.am.max_iov;
    mapped_buffer src(count * 16, sender());
    std::vector<uct_iov_t> iov;
    completion comp;

    src.fill(3);
    for (size_t i = 0; i < count; ++i) {
        iov.push_back(src.iov(16, i * 16));
    }
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_am_zcopy(sender().ep(), AM_ID, NULL, 0, iov.data(),
                                  count, 0, &comp.uct));
    flush(sender());
    ASSERT_TRUE(wait_for([&]() { return comp.done() && (m_got == 1); }));
    EXPECT_EQ(pattern(3, count * 16), m_last);
}

TEST_F(test_am, descriptors_kept_and_released_later)
{
    const unsigned count = 150;

    open_pair();
    std::vector<void *> kept;

    receiver().set_am_handler(AM_ID, [&](void *data, size_t, unsigned flags) {
        EXPECT_TRUE(flags & UCT_CB_PARAM_FLAG_DESC);
        kept.push_back(data);
        return UCS_INPROGRESS;
    });

    for (unsigned round = 0; round < 3; ++round) {
        for (uint64_t i = 0; i < count; ++i) {
            pack_arg arg = { i, 100 };
            ssize_t ret  = UCS_ERR_NO_RESOURCE;

            wait_for([&]() {
                ret = uct_ep_am_bcopy(sender().ep(), AM_ID, pack_cb, &arg, 0);
                return ret != UCS_ERR_NO_RESOURCE;
            });
            ASSERT_EQ(100, ret);
        }
        ASSERT_TRUE(wait_for([&]() { return kept.size() == count; }));
        for (uint64_t i = 0; i < count; ++i) {
            const std::vector<uint8_t> data = pattern(i, 100);

            EXPECT_EQ(0, memcmp(data.data(), kept[i], data.size()));
            uct_iface_release_desc(kept[i]);
        }
        kept.clear();
    }
    check_rx_accounting();
}

TEST_F(test_am, more_than_the_receive_queue)
{
    open_pair({ { "IB_RX_QUEUE_LEN", "32" }, { "RC_FC_ENABLE", "n" } });
    stream(1000);
    check_rx_accounting();
}

TEST_F(test_am, no_handler_is_a_warning)
{
    open_pair();

    allow_log(UCS_LOG_LEVEL_WARN, ""); /* A backtrace follows the message */
    ASSERT_OK(send_short(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() {
        return !logged(UCS_LOG_LEVEL_WARN, "no handler installed").empty();
    }));

    /* It is dropped, and its receive comes back */
    receive(receiver());
    ASSERT_OK(send_short(sender(), 0, 2));
    ASSERT_TRUE(wait_for([&]() { return m_got == 1; }));
    check_rx_accounting();
}

TEST_F(test_am, all_ids)
{
    open_pair();
    std::vector<unsigned> ids;

    for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
        receiver().set_am_handler(id, [&ids, id](void *, size_t, unsigned) {
            ids.push_back(id);
            return UCS_OK;
        });
    }
    for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
        ASSERT_OK(retry([&]() {
            return uct_ep_am_short(sender().ep(), id, 0, NULL, 0);
        }));
    }
    ASSERT_TRUE(wait_for([&]() { return ids.size() == UCT_AM_ID_MAX; }));
    for (unsigned id = 0; id < UCT_AM_ID_MAX; ++id) {
        EXPECT_EQ(id, ids[id]);
    }
}

TEST_F(test_am, handler_sends_back)
{
    const unsigned count = 100;

    open_pair();
    unsigned got = 0;

    receiver().set_am_handler(AM_ID, [&](void *data, size_t, unsigned) {
        return send_short(receiver(), 0, u64_at(data) + 1);
    });
    sender().set_am_handler(AM_ID, [&](void *data, size_t, unsigned) {
        EXPECT_EQ(got + 1, u64_at(data));
        return (++got < count) ? send_short(sender(), 0, got) : UCS_OK;
    });
    ASSERT_OK(send_short(sender(), 0, 0));
    ASSERT_TRUE(wait_for([&]() { return got == count; }));
}

TEST_F(test_am, handler_destroys_its_endpoint)
{
    open_pair();
    receiver().set_am_handler(AM_ID, [&](void *, size_t, unsigned) {
        if (++m_got == 3) {
            receiver().destroy_ep(0);
        }
        return UCS_OK;
    });
    for (unsigned i = 0; i < 3; ++i) {
        ASSERT_OK(send_short(sender(), 0, i));
    }
    ASSERT_TRUE(wait_for([&]() { return m_got == 3; }));
    progress_rounds();
    check_rx_accounting();
}


/* Windows from the smallest on; the peer grants from its progress */
class test_am_fc : public test_am, public ::testing::WithParamInterface<int> {};


TEST_P(test_am_fc, one_direction)
{
    open_pair({ { "RC_FC_WND_SIZE", std::to_string(GetParam()) } });
    stream(300);
    check_rx_accounting();
}

TEST_P(test_am_fc, window_bounds_what_is_sent)
{
    open_pair({ { "RC_FC_WND_SIZE", std::to_string(GetParam()) } });
    receive(receiver());

    int sent = 0;
    while (send_short(sender(), 0, sent) == UCS_OK) {
        ASSERT_LE(++sent, GetParam());
    }
    EXPECT_EQ(GetParam(), sent);
    ASSERT_TRUE(wait_for([&]() { return m_got == unsigned(sent); }));
    ASSERT_OK(retry([&]() { return send_short(sender(), 0, sent); }));
}

TEST_P(test_am_fc, both_directions)
{
    const unsigned count = 300;

    open_pair({ { "RC_FC_WND_SIZE", std::to_string(GetParam()) } });
    unsigned sent[2] = {}, got[2] = {};

    for (int i = 0; i < 2; ++i) {
        m_entities[i]->set_am_handler(AM_ID,
                                      [&got, i](void *, size_t, unsigned) {
                                          ++got[i];
                                          return UCS_OK;
                                      });
    }
    ASSERT_TRUE(wait_for([&]() {
        for (int i = 0; i < 2; ++i) {
            if ((sent[i] < count) &&
                (send_short(*m_entities[i], 0, sent[i]) == UCS_OK)) {
                ++sent[i];
            }
        }
        return (got[0] == count) && (got[1] == count);
    }));
    check_rx_accounting();
}

TEST_P(test_am_fc, notified_puts_between)
{
    const unsigned count = 200;

    WIMM_ONLY();
    open_pair({ { "RC_FC_WND_SIZE", std::to_string(GetParam()) } });
    imm_sink sink(receiver());
    receive(receiver());

    for (unsigned i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() { return send_short(sender(), 0, i); }));
        ASSERT_OK(retry([&]() {
            return uct_wimm_ep_put_imm_short(sender().ep(), NULL, 0, 0, 0, i);
        }));
    }
    ASSERT_TRUE(wait_for(
            [&]() { return (m_got == count) && (sink.count() == count); }));
    check_rx_accounting();
}

INSTANTIATE_TEST_SUITE_P(windows, test_am_fc, ::testing::Values(2, 3, 5, 16));


TEST_F(test_am, flow_control_off)
{
    open_pair({ { "RC_FC_ENABLE", "n" }, { "RC_FC_WND_SIZE", "2" } });
    stream(300);
}

/* One side is enough to have none: the addresses tell */
TEST_F(test_am, flow_control_on_one_side_only)
{
    const unsigned count = 300;

    WIMM_ONLY();
    open({ { "RC_FC_WND_SIZE", "4" } });
    open({ { "RC_FC_ENABLE", "n" } });
    entity::connect(sender(), 0, receiver(), 0);

    for (entity *from : { &sender(), &receiver() }) {
        entity &to = (from == &sender()) ? receiver() : sender();

        m_got = 0;
        receive(to);
        for (unsigned i = 0; i < count; ++i) {
            ASSERT_OK(retry([&]() { return send_short(*from, 0, i); }));
        }
        ASSERT_TRUE(wait_for([&]() { return m_got == count; }));
    }
    check_rx_accounting();
}
