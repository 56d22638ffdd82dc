/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"
#include "common/send_view.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}

#include <arpa/inet.h>

#include <algorithm>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <sstream>


/* The counters and limits that the query calls give, and the lines of
 * UCX_WIMM_STATS */
class test_stats : public imm_test {
  protected:
    static const unsigned slots = 2;

    /* Without flow control there are no control messages but returns of slots,
     * and these only when many are used */
    void open_quiet_pair()
    {
        open_pair({ { "RC_FC_ENABLE", "n" } });
    }

    static void expect_equal(const uct_wimm_counters_t &expected,
                             const uct_wimm_counters_t &actual)
    {
        EXPECT_EQ(expected.posted, actual.posted);
        EXPECT_EQ(expected.delivered, actual.delivered);
        EXPECT_EQ(expected.credit_stalls, actual.credit_stalls);
        EXPECT_EQ(expected.slot_stalls, actual.slot_stalls);
        EXPECT_EQ(expected.grants, actual.grants);
        EXPECT_EQ(expected.slot_returns, actual.slot_returns);
        EXPECT_EQ(expected.ctrl_sent, actual.ctrl_sent);
        EXPECT_EQ(expected.ctrl_received, actual.ctrl_received);
        EXPECT_EQ(expected.failed, actual.failed);
    }

    /* The endpoint 0, and the interface that has no other */
    void check(const entity &e, const uct_wimm_counters_t &expected)
    {
        SCOPED_TRACE((&e == &sender()) ? "sender" : "receiver");
        expect_equal(expected, ep_attr(e).counters);
        expect_equal(expected, counters(e));
    }

    /* Send as fast as it can be, and count refusals by what was missing */
    void send(unsigned count, uct_wimm_counters_t *stalls)
    {
        unsigned sent = 0;

        ASSERT_TRUE(wait_for([&]() {
            while ((sent < count) && (notify(sender(), 0, sent) == UCS_OK)) {
                ++sent;
            }
            if ((sent < count) && (rc_state::sq_available(sender()) > 0)) {
                const uct_wimm_ep_attr_t attr = ep_attr(sender());

                stalls->credit_stalls += (attr.credits == 0);
                stalls->slot_stalls += (attr.credits > 0);
                EXPECT_TRUE((attr.credits == 0) || (attr.slots == 0));
            }
            return sent == count;
        }));
    }

    /* All control messages have arrived, also the answers to those. All else has
     * arrived before. */
    void settle()
    {
        ASSERT_TRUE(wait_for([&]() {
            const uct_wimm_counters_t left  = counters(sender());
            const uct_wimm_counters_t right = counters(receiver());

            return (left.ctrl_received == right.ctrl_sent) &&
                   (right.ctrl_received == left.ctrl_sent);
        }));
    }

    /* What the device was given */
    static void count_posted(const send_view &view,
                             uct_wimm_counters_t *counters)
    {
        for (const send_view::request &r : view.got) {
            if (r.is_imm()) {
                ++counters->posted;
            } else if (r.opcode == IBV_WR_SEND_WITH_IMM) {
                const uint32_t imm   = ntohl(r.imm_data);
                const uint32_t op    = imm >> UCT_WIMM_CTRL_OP_SHIFT;
                const uint32_t grant = (imm & UCT_WIMM_CTRL_AMOUNT_MASK) >>
                                       UCT_WIMM_CTRL_GRANT_SHIFT;

                ++counters->ctrl_sent;
                counters->grants += (op == UCT_WIMM_CTRL_GRANT) ||
                                    ((op == UCT_WIMM_CTRL_SLOTS) &&
                                     (grant > 0));
                counters->slot_returns += (op == UCT_WIMM_CTRL_SLOTS);
            }
        }
    }

    unsigned send_all()
    {
        unsigned count = 0;

        while (notify(sender(), 0, count) == UCS_OK) {
            ++count;
        }
        return count;
    }

    std::vector<std::string> stats_lines()
    {
        return logged(UCS_LOG_LEVEL_PRINT, "wimm ");
    }
};

const unsigned test_stats::slots;


TEST_F(test_stats, all_are_zero_at_first)
{
    open_pair();
    check(sender(), uct_wimm_counters_t());
    check(receiver(), uct_wimm_counters_t());
}

TEST_F(test_stats, posted_and_delivered)
{
    const unsigned count          = 5;
    uct_wimm_counters_t at_sender = {}, at_receiver = {};

    open_quiet_pair();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    imm_sink sink(receiver(), false);
    pack_arg arg = { 1, 64 };

    receiver().set_am_handler(0,
                              [](void *, size_t, unsigned) { return UCS_OK; });
    for (unsigned i = 0; i < count; ++i) {
        ASSERT_OK(notify(sender(), 0, i));
        ASSERT_OK(put_imm(sender(), 0, src.ptr(), 8, dst, 0, i));
        ASSERT_EQ(64, put_imm_bcopy(sender(), 0, &arg, dst, 0, i));
        ASSERT_STATUS(UCS_INPROGRESS,
                      put_imm_zcopy(sender(), 0, src, 64, dst, 0, i, NULL));
    }

    /* What else is sent, and what is refused as wrong, does not count */
    ASSERT_OK(uct_ep_am_short(sender().ep(), 0, 1, NULL, 0));
    ASSERT_OK(uct_ep_put_short(sender().ep(), src.ptr(), 8, dst.addr(),
                               dst.rkey()));
    expect_error("put_imm_short length");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  put_imm(sender(), 0, src.ptr(), UINT_MAX, dst, 0, 1));
    flush(sender());
    progress_rounds();

    at_sender.posted = 4 * count;
    check(sender(), at_sender);
    check(receiver(), at_receiver); /* Waiting is not delivered */

    sink.start();
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (4 * count); }));
    at_receiver.delivered = 4 * count;
    check(sender(), at_sender);
    check(receiver(), at_receiver);
}

TEST_F(test_stats, delivered_counts_those_that_are_held)
{
    uct_wimm_counters_t expected = {};

    open_quiet_pair();
    imm_sink sink(receiver());

    sink.result = UCS_INPROGRESS;
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    expected.delivered = 1;
    check(receiver(), expected);
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), 1));
    progress_rounds();
    check(receiver(), expected);
}

TEST_F(test_stats, credit_stalls)
{
    const unsigned refused       = 7;
    uct_wimm_counters_t expected = {};

    open_pair();
    while (ep_attr(sender()).credits > 0) {
        ASSERT_OK(notify(sender(), 0, ++expected.posted));
    }
    EXPECT_GT(ep_attr(sender()).slots, 0u);
    check(sender(), expected);
    for (unsigned i = 0; i < refused; ++i) {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 1));
        ++expected.credit_stalls;
        check(sender(), expected);
    }
}

TEST_F(test_stats, slot_stalls)
{
    const unsigned refused       = 7;
    uct_wimm_counters_t expected = {};

    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    expected.posted      = slots;
    expected.slot_stalls = 1;
    ASSERT_EQ(slots, send_all());
    EXPECT_GT(ep_attr(sender()).credits, 0u);
    check(sender(), expected);
    for (unsigned i = 0; i < refused; ++i) {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 1));
        ++expected.slot_stalls;
        check(sender(), expected);
    }
}

TEST_F(test_stats, other_refusals_are_not_counted)
{
    uct_wimm_counters_t expected = {};

    open_pair({ { "RC_FC_ENABLE", "n" }, { "IB_TX_QUEUE_LEN", "16" } });
    expected.posted = send_all();
    EXPECT_EQ(0, rc_state::sq_available(sender()));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 1));
    check(sender(), expected);
}

TEST_F(test_stats, control_messages)
{
    const unsigned count          = 300;
    uct_wimm_counters_t at_sender = {}, at_receiver = {};

    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    imm_sink sink(receiver());
    send_view left(sender()), right(receiver());

    send(count, &at_sender);
    ASSERT_TRUE(wait_for([&]() { return sink.count() == count; }));
    settle();

    count_posted(left, &at_sender);
    count_posted(right, &at_receiver);
    at_sender.ctrl_received   = at_receiver.ctrl_sent;
    at_receiver.ctrl_received = at_sender.ctrl_sent;
    at_receiver.delivered     = count;
    EXPECT_EQ(count, at_sender.posted);
    EXPECT_GT(at_sender.slot_stalls, 0u);
    EXPECT_GT(at_receiver.grants, 0u);
    EXPECT_GT(at_receiver.slot_returns, 0u);

    /* Returns of slots take credits of the other direction */
    EXPECT_GT(at_sender.grants, 0u);
    check(sender(), at_sender);
    check(receiver(), at_receiver);
}

TEST_F(test_stats, returns_of_slots)
{
    const unsigned count          = 10;
    uct_wimm_counters_t at_sender = {}, at_receiver = {};

    /* Of 2 slots, each one is returned by itself */
    open_pair({ { "RC_FC_ENABLE", "n" },
                { "NUM_SLOTS", std::to_string(slots) } });
    imm_sink sink(receiver());
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_OK(notify(sender(), 0, i));
        ASSERT_TRUE(wait_for([&]() {
            return (sink.count() == (i + 1)) &&
                   (ep_attr(sender()).slots == slots);
        }));
        at_sender.posted = at_sender.ctrl_received = i + 1;
        at_receiver.delivered = at_receiver.ctrl_sent = i + 1;
        at_receiver.slot_returns                      = i + 1;
        check(sender(), at_sender);
        check(receiver(), at_receiver);
    }

    /* And all of them in one message */
    sink.result = UCS_INPROGRESS;
    ASSERT_EQ(slots, send_all());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (count + slots); }));
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots));
    ASSERT_TRUE(wait_for([&]() { return ep_attr(sender()).slots == slots; }));
    at_sender.posted += slots;
    at_sender.slot_stalls = 1;
    at_sender.ctrl_received += 1;
    at_receiver.delivered += slots;
    at_receiver.ctrl_sent += 1;
    at_receiver.slot_returns += 1;
    check(sender(), at_sender);
    check(receiver(), at_receiver);
}

TEST_F(test_stats, reclaims_count_as_control_messages)
{
    const unsigned num_eps = 12, count = 50;
    uct_wimm_counters_t at_sender = {}, at_receiver = {};

    /* Endpoint 0 gets many credits, and gives them back when there are others */
    open_pair();
    imm_sink sink(receiver());
    send_view left(sender()), right(receiver());
    for (uint32_t i = 0; i < (2 * count); ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), 0, i); }));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == (2 * count); }));
    flush(sender());
    progress_rounds();

    const unsigned credits = ep_attr(sender()).credits;
    for (unsigned i = 1; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
    for (uint32_t n = 0; n < count; ++n) {
        for (unsigned i = 1; i < num_eps; ++i) {
            ASSERT_OK(retry([&]() { return notify(sender(), i, n); }));
        }
    }
    ASSERT_TRUE(wait_for(
            [&]() { return sink.count() == ((num_eps + 1) * count); }));
    EXPECT_LT(ep_attr(sender()).credits, credits);
    settle();

    count_posted(left, &at_sender);
    count_posted(right, &at_receiver);
    at_sender.credit_stalls   = counters(sender()).credit_stalls;
    at_sender.slot_stalls     = counters(sender()).slot_stalls;
    at_sender.ctrl_received   = at_receiver.ctrl_sent;
    at_receiver.ctrl_received = at_sender.ctrl_sent;
    at_receiver.delivered     = (num_eps + 1) * count;
    expect_equal(at_sender, counters(sender()));
    expect_equal(at_receiver, counters(receiver()));

    for (unsigned i = 0; i < num_eps; ++i) {
        const uct_wimm_counters_t l = ep_attr(sender(), i).counters;
        const uct_wimm_counters_t r = ep_attr(receiver(), i).counters;

        EXPECT_EQ(l.ctrl_sent, r.ctrl_received);
        EXPECT_EQ(r.ctrl_sent, l.ctrl_received);
        if (i == 0) {
            /* One request at least, and one answer */
            EXPECT_GT(r.ctrl_sent, r.grants + r.slot_returns);
            EXPECT_GT(l.ctrl_sent, l.grants);
        }
    }
}

TEST_F(test_stats, failed)
{
    uct_wimm_counters_t expected = {};

    open_quiet_pair();
    const uint64_t data = 1;
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(), &data, sizeof(data),
                                        0x1000, 0xdeadbeef, 1));
    expected.posted = 1;
    check(sender(), expected);
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    progress_rounds();
    expected.failed = 1;
    check(sender(), expected);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 1));
    check(sender(), expected);
}

TEST_F(test_stats, interface_sums_up_endpoints_also_destroyed_ones)
{
    const unsigned num_eps   = 5;
    uct_wimm_counters_t sent = {}, received = {};

    open({ { "RC_FC_ENABLE", "n" } });
    open({ { "RC_FC_ENABLE", "n" } });
    imm_sink sink(receiver());
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
        for (unsigned n = 0; n <= i; ++n) {
            ASSERT_OK(notify(sender(), i, n));
            ++sent.posted;
        }
        flush(sender(), i);
        EXPECT_EQ(i + 1, ep_attr(sender(), i).counters.posted);
        expect_equal(sent, counters(sender()));
    }
    ASSERT_TRUE(wait_for([&]() { return sink.count() == sent.posted; }));
    received.delivered = sent.posted;
    for (unsigned i : { 2, 0, 4, 1, 3 }) {
        sender().destroy_ep(i);
        receiver().destroy_ep(i);
        expect_equal(sent, counters(sender()));
        expect_equal(received, counters(receiver()));
    }
    check_tx_accounting(sender());
    expect_equal(sent, counters(sender()));

    /* A new endpoint begins at 0 */
    entity::connect(sender(), 0, receiver(), 0);
    expect_equal(uct_wimm_counters_t(), ep_attr(sender()).counters);
    ASSERT_OK(notify(sender(), 0, 1));
    ++sent.posted;
    expect_equal(sent, counters(sender()));
}

/* Bytes that a query has changed */
template <typename attr_t>
static std::vector<bool> changed_bytes(
        uint64_t field_mask, const std::function<ucs_status_t(attr_t *)> &query)
{
    std::vector<bool> changed(sizeof(attr_t), false);

    /* Each is another value than before, whatever it is */
    for (int fill : { 0x00, 0xff }) {
        attr_t attr;
        const uint8_t *bytes = reinterpret_cast<const uint8_t *>(&attr);

        memset(static_cast<void *>(&attr), fill, sizeof(attr));
        attr.field_mask = field_mask;
        EXPECT_OK(query(&attr));
        EXPECT_EQ(field_mask, attr.field_mask);
        for (size_t i = sizeof(attr.field_mask); i < sizeof(attr); ++i) {
            changed[i] = changed[i] || (bytes[i] != fill);
        }
    }
    return changed;
}

static std::vector<bool> bytes_of(
        size_t size, const std::vector<std::pair<size_t, size_t>> &fields)
{
    std::vector<bool> result(size, false);

    for (const auto &field : fields) {
        for (size_t i = 0; i < field.second; ++i) {
            result[field.first + i] = true;
        }
    }
    return result;
}

#define FIELD(_type, _name)                                           \
  {                                                                   \
    offsetof(_type, _name), sizeof(static_cast<_type *>(NULL)->_name) \
  }

TEST_F(test_stats, interface_query_fills_what_was_asked_for_and_no_more)
{
    typedef uct_wimm_iface_attr_t attr_t;
    const std::vector<std::pair<uint64_t, std::vector<bool>>> cases = {
        { 0, bytes_of(sizeof(attr_t), {}) },
        { UCS_BIT(63), bytes_of(sizeof(attr_t), {}) },
        { UCT_WIMM_IFACE_ATTR_FIELD_CAP,
          bytes_of(sizeof(attr_t),
                   { FIELD(attr_t, cap.max_short), FIELD(attr_t, cap.max_bcopy),
                     FIELD(attr_t, cap.max_zcopy), FIELD(attr_t, cap.max_iov),
                     FIELD(attr_t, cap.imm_bits) }) },
        { UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS,
          bytes_of(sizeof(attr_t), { FIELD(attr_t, num_slots) }) },
        { UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE,
          bytes_of(sizeof(attr_t), { FIELD(attr_t, rx_queue) }) },
        { UCT_WIMM_IFACE_ATTR_FIELD_COUNTERS,
          bytes_of(sizeof(attr_t), { FIELD(attr_t, counters) }) }
    };

    open_pair();
    for (const auto &c : cases) {
        EXPECT_EQ(c.second,
                  changed_bytes<attr_t>(c.first,
                                        [&](attr_t *attr) {
                                            return uct_wimm_iface_query(
                                                    sender().iface(), attr);
                                        }))
                << "mask " << c.first;
    }
}

TEST_F(test_stats, endpoint_query_fills_what_was_asked_for_and_no_more)
{
    typedef uct_wimm_ep_attr_t attr_t;
    const std::vector<std::pair<uint64_t, std::vector<bool>>> cases = {
        { 0, bytes_of(sizeof(attr_t), {}) },
        { UCS_BIT(63), bytes_of(sizeof(attr_t), {}) },
        { UCT_WIMM_EP_ATTR_FIELD_FLOW_CONTROL,
          bytes_of(sizeof(attr_t), { FIELD(attr_t, flow_control) }) },
        { UCT_WIMM_EP_ATTR_FIELD_CREDITS,
          bytes_of(sizeof(attr_t), { FIELD(attr_t, credits) }) },
        { UCT_WIMM_EP_ATTR_FIELD_SLOTS,
          bytes_of(sizeof(attr_t),
                   { FIELD(attr_t, slots), FIELD(attr_t, num_slots) }) },
        { UCT_WIMM_EP_ATTR_FIELD_COUNTERS,
          bytes_of(sizeof(attr_t), { FIELD(attr_t, counters) }) }
    };

    open_pair();
    for (const auto &c : cases) {
        EXPECT_EQ(c.second, changed_bytes<attr_t>(c.first,
                                                  [&](attr_t *attr) {
                                                      return uct_wimm_ep_query(
                                                              sender().ep(),
                                                              attr);
                                                  }))
                << "mask " << c.first;
    }
}

TEST_F(test_stats, limits_of_the_interface)
{
    const unsigned rx_len      = 512;
    uct_wimm_iface_attr_t attr = {};

    open({ { "NUM_SLOTS", "77" },
           { "IB_RX_QUEUE_LEN", std::to_string(rx_len) } });
    attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP |
                      UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS |
                      UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE;
    ASSERT_OK(uct_wimm_iface_query(sender().iface(), &attr));
    EXPECT_EQ(sender().attr().cap.put.max_short, attr.cap.max_short);
    EXPECT_EQ(sender().attr().cap.put.max_bcopy, attr.cap.max_bcopy);
    EXPECT_EQ(sender().attr().cap.put.max_zcopy, attr.cap.max_zcopy);
    EXPECT_EQ(sender().attr().cap.put.max_iov, attr.cap.max_iov);
    EXPECT_EQ(32u, attr.cap.imm_bits);
    EXPECT_EQ(77u, attr.num_slots);
    EXPECT_EQ(rx_len, attr.rx_queue.length);

    /* Three receives for each endpoint, and two batches, which are shorter in
     * short queues */
    const unsigned start = attr.rx_queue.min_length;
    const auto enough    = [&](unsigned length, unsigned num_eps) {
        const unsigned batch = std::min(rc_state::rx_batch(sender()),
                                           std::max(length / 4, 1u));

        return length >= ((3 * num_eps) + (2 * batch));
    };
    for (unsigned i = 1; i <= 20; ++i) {
        sender().create_ep(i);
        ASSERT_OK(uct_wimm_iface_query(sender().iface(), &attr));
        EXPECT_TRUE(enough(attr.rx_queue.min_length, i)) << i;
        EXPECT_FALSE(enough(attr.rx_queue.min_length - 1, i)) << i;
    }
    sender().destroy_eps();
    check_tx_accounting(sender());
    ASSERT_OK(uct_wimm_iface_query(sender().iface(), &attr));
    EXPECT_EQ(start, attr.rx_queue.min_length);
}

TEST_F(test_stats, state_of_the_endpoint)
{
    for (const char *left : { "y", "n" }) {
        for (const char *right : { "y", "n" }) {
            open({ { "RC_FC_ENABLE", left }, { "NUM_SLOTS", "33" } });
            open({ { "RC_FC_ENABLE", right }, { "NUM_SLOTS", "44" } });

            sender().create_ep(1);
            EXPECT_EQ(0, ep_attr(sender(), 1).flow_control);
            EXPECT_EQ(0u, ep_attr(sender(), 1).num_slots);
            EXPECT_EQ(0u, ep_attr(sender(), 1).slots);

            entity::connect(sender(), 0, receiver(), 0);
            for (const auto &e : m_entities) {
                EXPECT_EQ((*left == 'y') && (*right == 'y'),
                          ep_attr(*e).flow_control != 0);
                EXPECT_GT(ep_attr(*e).credits, 0u);
            }
            EXPECT_EQ(44u, ep_attr(sender()).num_slots);
            EXPECT_EQ(44u, ep_attr(sender()).slots);
            EXPECT_EQ(33u, ep_attr(receiver()).num_slots);

            const unsigned credits = ep_attr(sender()).credits;
            ASSERT_OK(notify(sender(), 0, 1));
            EXPECT_EQ(43u, ep_attr(sender()).slots);
            EXPECT_EQ(44u, ep_attr(sender()).num_slots);
            if (ep_attr(sender()).flow_control) {
                EXPECT_EQ(credits - 1, ep_attr(sender()).credits);
            }
            m_entities.clear();
        }
    }
}

TEST_F(test_stats, printed_for_each_endpoint_and_for_the_interface)
{
    const config_list config = { { "RC_FC_ENABLE", "n" }, { "STATS", "y" } };

    open(config);
    open({ { "RC_FC_ENABLE", "n" } }); /* That one prints nothing */
    imm_sink sink(receiver());
    for (unsigned i = 0; i < 2; ++i) {
        entity::connect(sender(), i, receiver(), i);
        ASSERT_OK(notify(sender(), i, 1));
    }
    ASSERT_OK(notify(sender(), 1, 2));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 3; }));
    EXPECT_TRUE(stats_lines().empty());

    char qp[32];
    for (unsigned i = 0; i < 2; ++i) {
        snprintf(qp, sizeof(qp),
                 "qp 0x%x: ", rc_state::qp(sender(), i)->qp_num);
        sender().destroy_ep(i);
        receiver().destroy_ep(i);

        const auto lines = stats_lines();
        ASSERT_EQ(i + 1, lines.size());
        EXPECT_NE(std::string::npos, lines[i].find(qp)) << lines[i];
        EXPECT_NE(std::string::npos,
                  lines[i].find("posted " + std::to_string(i + 1) + ","))
                << lines[i];
        EXPECT_NE(std::string::npos, lines[i].find("delivered 0,"));
        EXPECT_NE(std::string::npos, lines[i].find("failed 0"));
    }

    sink.pause();
    sink.got.clear();
    close(sender());
    const auto lines = stats_lines();
    ASSERT_EQ(3u, lines.size());
    EXPECT_NE(std::string::npos,
              lines[2].find("wimm " + resource::get().dev_name + "/"))
            << lines[2];
    EXPECT_NE(std::string::npos, lines[2].find("posted 3,")) << lines[2];
}

/* The counters in a line of the output */
static uct_wimm_counters_t parse_counters(const std::string &line)
{
    const size_t pos         = line.find(": posted");
    uct_wimm_counters_t c    = {};
    const std::string values = (pos == std::string::npos) ? "" :
                                                            line.substr(pos);

    EXPECT_EQ(9,
              sscanf(values.c_str(),
                     ": posted %" SCNu64 ", delivered %" SCNu64
                     ", stalled for credits %" SCNu64 " and for slots %" SCNu64
                     ", control messages sent %" SCNu64 " (grants %" SCNu64
                     ", slot returns %" SCNu64 ") and received %" SCNu64
                     ", failed %" SCNu64,
                     &c.posted, &c.delivered, &c.credit_stalls, &c.slot_stalls,
                     &c.ctrl_sent, &c.grants, &c.slot_returns, &c.ctrl_received,
                     &c.failed))
            << line;
    return c;
}

TEST_F(test_stats, output_at_default_log_level_has_what_queries_give)
{
    const unsigned num_eps = 3;
    std::vector<uct_wimm_counters_t> expected;
    uct_wimm_counters_t unused = {};
    scoped_env env("UCX_WIMM_STATS", "y");

    /* Some of everything. The last endpoint fails. */
    open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    std::unique_ptr<imm_sink> left(new imm_sink(sender()));
    std::unique_ptr<imm_sink> right(new imm_sink(receiver()));
    send(300, &unused);
    for (unsigned i = 1; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
        ASSERT_OK(notify(receiver(), i, i));
    }
    const uint64_t data = 1;
    ASSERT_OK(uct_wimm_ep_put_imm_short(sender().ep(num_eps - 1), &data,
                                        sizeof(data), 0x1000, 0xdeadbeef, 1));
    ASSERT_TRUE(wait_for([&]() {
        return !sender().errors.empty() && (left->count() == (num_eps - 1)) &&
               (right->count() == 300);
    }));
    for (unsigned i = 0; i < (num_eps - 1); ++i) {
        flush(receiver(), i);
        flush(sender(), i);
    }
    progress_rounds();
    left.reset();
    right.reset();

    testing::internal::CaptureStdout();
    for (const auto &e : m_entities) {
        for (unsigned i = 0; i < num_eps; ++i) {
            expected.push_back(ep_attr(*e, i).counters);
            e->destroy_ep(i);
        }
        expected.push_back(counters(*e));
    }
    m_entities.clear();

    /* As UCX shows it, line by line. Interfaces are closed after all else. */
    std::istringstream output(testing::internal::GetCapturedStdout());
    std::vector<uct_wimm_counters_t> shown;
    for (std::string line; std::getline(output, line);) {
        if (line.find("wimm ") != std::string::npos) {
            shown.push_back(parse_counters(line));
        }
    }
    std::rotate(expected.begin() + num_eps, expected.begin() + num_eps + 1,
                expected.end() - 1);
    ASSERT_EQ(expected.size(), shown.size());
    for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE("line " + std::to_string(i));
        expect_equal(expected[i], shown[i]);
    }
    EXPECT_GT(expected[0].posted, 0u);
    EXPECT_GT(expected[0].slot_stalls, 0u);
    EXPECT_GT(expected[0].delivered + expected[1].delivered, 0u);
    EXPECT_EQ(1u, expected[num_eps - 1].failed);
}

TEST_F(test_stats, nothing_is_printed_unless_asked_for)
{
    open_pair();
    ASSERT_OK(notify(sender(), 0, 1));
    flush(sender());
    for (const auto &e : m_entities) {
        e->destroy_eps();
    }
    m_entities.clear();
    EXPECT_TRUE(logged(UCS_LOG_LEVEL_PRINT).empty());
}
