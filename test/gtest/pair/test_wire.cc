/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "pair_test.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>


/*
 * Posts notified puts and prints what has to be seen on the wire for them, for
 * test/wire/test_wire.sh, which captures it:
 *
 *   wire: mtu BYTES
 *   wire: put QP KIND LENGTH IMM   in the order in which they were posted
 *   wire: ctrl QP COUNT            control messages by the counters
 *
 * where QP is the destination, as ADDRESS/NUMBER. When all is over, a UDP packet
 * tells that the capture is complete.
 */
class test_wire : public pair_test {
  protected:
    /* Times are long: on a slow machine nothing is to be sent again */
    void open_wire(const config_list &config = config_list())
    {
        config_list all = { { "RC_TIMEOUT", "30s" } };

        all.insert(all.end(), config.begin(), config.end());
        open_devices(all);
        m_from = ip_address(sender());
        m_to   = ip_address(receiver());
        entity::connect(sender(), 0, receiver(), 0);
        printf("wire: mtu %zu\n", mtu(sender()));
        ASSERT_EQ(mtu(sender()), mtu(receiver()));
    }

    const entity &peer(const entity &e) const
    {
        return (&e == &sender()) ? receiver() : sender();
    }

    /* Where packets of a side go */
    std::string dest(const entity &e) const
    {
        const uint32_t address = htonl(ip_address(peer(e)));
        char ip[INET_ADDRSTRLEN], text[64];

        inet_ntop(AF_INET, &address, ip, sizeof(ip));
        snprintf(text, sizeof(text), "%s/0x%06x", ip,
                 rc_state::qp(peer(e))->qp_num);
        return text;
    }

    void record_put(const entity &e, kind_t kind, size_t length,
                    uint32_t imm) const
    {
        printf("wire: put %s %s %zu %08x\n", dest(e).c_str(), kind_name(kind),
               length, imm);
    }

    /* Let everything arrive, and see that nothing follows */
    void finish()
    {
        const double quiet = 0.3;
        uct_wimm_counters_t left, right;

        ASSERT_TRUE(wait_for([&]() {
            left  = counters(sender());
            right = counters(receiver());
            return (left.ctrl_sent == right.ctrl_received) &&
                   (right.ctrl_sent == left.ctrl_received);
        }));
        progress_time(quiet);
        EXPECT_EQ(left.ctrl_sent, counters(sender()).ctrl_sent);
        EXPECT_EQ(right.ctrl_sent, counters(receiver()).ctrl_sent);
        EXPECT_EQ(left.posted, right.delivered);
        EXPECT_EQ(right.posted, left.delivered);

        for (const entity *e : { &sender(), &receiver() }) {
            printf("wire: ctrl %s %lu\n", dest(*e).c_str(),
                   counters(*e).ctrl_sent);
        }
    }

    static void TearDownTestSuite()
    {
        static const char text[]   = "end of the capture";
        const uint16_t port        = 9; /* discard */
        struct sockaddr_in address = {};
        int fd                     = socket(AF_INET, SOCK_DGRAM, 0);

        address.sin_family      = AF_INET;
        address.sin_addr.s_addr = htonl(m_from);
        EXPECT_EQ(0, bind(fd, reinterpret_cast<struct sockaddr *>(&address),
                          sizeof(address)));
        address.sin_addr.s_addr = htonl(m_to);
        address.sin_port        = htons(port);
        EXPECT_EQ(static_cast<ssize_t>(sizeof(text)),
                  sendto(fd, text, sizeof(text), 0,
                         reinterpret_cast<struct sockaddr *>(&address),
                         sizeof(address)));
        ::close(fd);
    }

    static uint32_t m_from, m_to;
};

uint32_t test_wire::m_from = 0;
uint32_t test_wire::m_to   = 0;


TEST_F(test_wire, each_size_and_kind_alone)
{
    /* Each byte of it is another one */
    uint32_t imm = 0xa1b2c300;

    open_wire();

    const size_t max            = 8 * UCS_MBYTE;
    std::vector<size_t> lengths = sizes(max);
    mapped_buffer src(max, sender());
    mapped_buffer dst(max, receiver());
    imm_sink sink(receiver());

    ASSERT_EQ(max, lengths.back());
    lengths.push_back(2 * mtu(sender()));
    lengths.push_back((3 * mtu(sender())) - 1);

    src.fill(1);
    for (size_t length : lengths) {
        for (kind_t kind : kinds(length)) {
            const size_t count = sink.count();
            completion comp;

            memset(dst.ptr(), 0, length);
            ++imm;
            record_put(sender(), kind, length, imm);
            ASSERT_OK(retry([&]() {
                return post(sender(), 0, kind, src.iov(length), dst, 0, imm,
                            &comp);
            }));
            ASSERT_TRUE(wait_for(
                    [&]() {
                        return (sink.count() > count) &&
                               (comp.done() || (kind != ZCOPY));
                    },
                    120));
            ASSERT_EQ(imm, sink.got[count].imm);
            ASSERT_EQ(length, sink.got[count].length);
            ASSERT_EQ(0, memcmp(src.ptr(), dst.ptr(), length));
        }
    }
    finish();
}

TEST_F(test_wire, stream_both_ways_with_small_windows)
{
    const uint32_t count = 300;
    uint32_t left_sent = 0, right_sent = 0;

    open_wire({ { "RC_FC_WND_SIZE", "16" }, { "NUM_SLOTS", "8" } });

    const std::vector<size_t> lengths = sizes(16384);
    mapped_buffer left(lengths.back(), sender());
    mapped_buffer right(lengths.back(), receiver());
    imm_sink left_sink(sender());
    imm_sink right_sink(receiver());

    /* The lower bits are the number of the put, the others the direction */
    auto post_next = [&](entity &e, uint32_t *sent, uint32_t direction,
                         const mapped_buffer &src, const mapped_buffer &dst) {
        const size_t length            = lengths[(*sent * 7) % lengths.size()];
        const std::vector<kind_t> ways = kinds(length);
        const kind_t kind  = ways[(*sent / lengths.size()) % ways.size()];
        const uint32_t imm = direction | *sent;

        if ((*sent < count) &&
            (post(e, 0, kind, src.iov(length), dst, 0, imm) == UCS_OK)) {
            record_put(e, kind, length, imm);
            ++*sent;
        }
    };

    ASSERT_TRUE(wait_for([&]() {
        post_next(sender(), &left_sent, 0x51000000, left, right);
        post_next(receiver(), &right_sent, 0x52000000, right, left);
        return (left_sink.count() == count) && (right_sink.count() == count);
    }));
    finish();

    /* There was something to count */
    EXPECT_GT(counters(sender()).grants, 1u);
    EXPECT_GT(counters(receiver()).grants, 1u);
    EXPECT_GT(counters(sender()).slot_returns, 1u);
    EXPECT_GT(counters(receiver()).slot_returns, 1u);
}

TEST_F(test_wire, stream_with_default_settings)
{
    const uint32_t count = 2000;

    open_wire({ { "IB_RX_QUEUE_LEN", "4095" } });
    imm_sink sink(receiver());

    for (uint32_t i = 0; i < count; ++i) {
        record_put(sender(), NOTIFY, 0, i);
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    finish();

    EXPECT_EQ(0u, counters(sender()).ctrl_sent);
    EXPECT_GT(counters(receiver()).ctrl_sent, 0u);
    EXPECT_LE(counters(receiver()).ctrl_sent, count / 16);
}
