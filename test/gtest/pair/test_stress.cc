/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "pair_test.h"

#include <algorithm>
#include <cstdlib>
#include <random>


/*
 * Many notified puts of all sizes on several endpoints in both directions, for
 * test/stress/test_stress.sh, which disturbs the wire. WIMM_STRESS_COUNT is how
 * many in all.
 */
class test_stress : public pair_test {
  protected:
    static const unsigned num_eps    = 4;
    static const size_t min_with_sum = 2 * sizeof(uint64_t);

    /* Puts of one endpoint, in order */
    struct stream {
        test_stress *test;
        entity *from, *to;
        unsigned id, index;
        std::vector<uint8_t> plan; /* Index into m_sizes */
        size_t posted, arrived;

        /* An element for each slot of the peer: that a put can be posted says
         * that the one before it in the same element was consumed */
        std::unique_ptr<mapped_buffer> src, dst;
        std::vector<std::unique_ptr<completion>> comps;

        /* For puts that are larger than such an element, one at a time */
        std::unique_ptr<mapped_buffer> big_src, big_dst;
        std::unique_ptr<completion> big_comp;
        size_t big_end; /* Number of puts with which the last one arrives */

        size_t filled; /* Number of puts for which data was made */
        bool queued;
        uct_pending_req_t req;
    };

    struct tally {
        size_t count[ZCOPY + 1];
    };

    void SetUp() override;
    void TearDown() override;

    static uint64_t tag(const stream &s, size_t number, size_t length)
    {
        return (static_cast<uint64_t>(s.id) << 56) |
               (static_cast<uint64_t>(length) << 32) | number;
    }

    static uint32_t imm(const stream &s, size_t number)
    {
        return (s.id << 24) | number;
    }

    /* Over the words after the first two, and what is left of a word */
    static uint64_t checksum(const uint8_t *data, size_t length, uint64_t seed);
    static void make_data(uint8_t *data, size_t length, uint64_t tag);
    static bool check_data(const uint8_t *data, size_t length, uint64_t tag);

    std::vector<uint8_t> make_plan(size_t count, unsigned id) const;
    void make_stream(entity &from, entity &to, unsigned index, size_t count);

    size_t element(size_t number) const
    {
        return (number % m_num_slots) * m_stride;
    }

    bool is_big(size_t length) const
    {
        return length > m_stride;
    }

    /* Whether the memory of the next put is free */
    bool can_post(const stream &s) const;
    ucs_status_t post_next(stream &s);
    static ucs_status_t pending_cb(uct_pending_req_t *req);
    void post_some(stream &s);
    void received(entity &e, const imm_sink::notification &n);
    void print(double seconds) const;

    std::vector<std::unique_ptr<stream>> m_streams;
    std::vector<size_t> m_sizes;
    std::vector<tally> m_tally;
    size_t m_num_slots, m_stride;
    size_t m_bytes, m_arrived, m_bad;
    size_t m_queued;
};


void test_stress::SetUp()
{
    pair_test::SetUp();
    m_bytes   = 0;
    m_arrived = 0;
    m_bad     = 0;
    m_queued  = 0;
}

void test_stress::TearDown()
{
    /* A test that failed has sends outstanding, which use what goes here */
    for (const auto &s : m_streams) {
        uct_ep_pending_purge(s->from->ep(s->index), NULL, NULL);
    }
    for (const auto &e : m_entities) {
        e->destroy_eps();
    }
    m_streams.clear();
    pair_test::TearDown();
}

uint64_t test_stress::checksum(const uint8_t *data, size_t length,
                               uint64_t seed)
{
    const uint64_t factor = 0x9e3779b97f4a7c15ul;
    uint64_t sum          = seed;
    uint64_t word;
    size_t i;

    for (i = min_with_sum; (i + sizeof(word)) <= length; i += sizeof(word)) {
        memcpy(&word, &data[i], sizeof(word));
        sum = (sum + word) * factor;
        sum ^= sum >> 32;
    }
    for (; i < length; ++i) {
        sum = (sum + data[i]) * factor;
    }
    return sum;
}

void test_stress::make_data(uint8_t *data, size_t length, uint64_t tag)
{
    uint64_t word = tag;
    uint64_t sum;

    if (length < min_with_sum) {
        memset(data, static_cast<uint8_t>(tag + (tag >> 56)), length);
        return;
    }

    for (size_t i = min_with_sum; i < length; i += sizeof(word)) {
        word = (word * 6364136223846793005ul) + 1442695040888963407ul;
        memcpy(&data[i], &word, std::min(sizeof(word), length - i));
    }
    sum = checksum(data, length, tag);
    memcpy(data, &tag, sizeof(tag));
    memcpy(data + sizeof(tag), &sum, sizeof(sum));
}

bool test_stress::check_data(const uint8_t *data, size_t length, uint64_t tag)
{
    if (length < min_with_sum) {
        for (size_t i = 0; i < length; ++i) {
            if (data[i] != static_cast<uint8_t>(tag + (tag >> 56))) {
                return false;
            }
        }
        return true;
    }

    return (u64_at(data) == tag) &&
           (u64_at(data + sizeof(tag)) == checksum(data, length, tag));
}

/* Small ones most of the time. A large one has so many packets that it is sent
 * again many times. */
std::vector<uint8_t> test_stress::make_plan(size_t count, unsigned id) const
{
    const size_t small = 256, large = UCS_MBYTE, one_in = 200;
    std::vector<uint8_t> plan;
    unsigned num_small = 0;

    for (size_t i = 0; i < m_sizes.size(); ++i) {
        if (m_sizes[i] <= small) {
            ++num_small;
        } else if (m_sizes[i] < large) {
            plan.insert(plan.end(), std::max<size_t>(count / one_in, 1), i);
        } else if ((m_sizes[i] == large) || ((id % num_eps) == 0)) {
            plan.push_back(i);
        }
    }
    for (size_t i = 0; plan.size() < count; ++i) {
        plan.push_back(i % num_small);
    }

    std::shuffle(plan.begin(), plan.end(), std::mt19937(id));
    return plan;
}

void test_stress::make_stream(entity &from, entity &to, unsigned index,
                              size_t count)
{
    std::unique_ptr<stream> s(new stream());

    s->test     = this;
    s->from     = &from;
    s->to       = &to;
    s->id       = m_streams.size();
    s->index    = index;
    s->plan     = make_plan(count, s->id);
    s->req.func = pending_cb;
    s->src.reset(new mapped_buffer(m_num_slots * m_stride, from));
    s->dst.reset(new mapped_buffer(m_num_slots * m_stride, to));

    const uint8_t largest = *std::max_element(s->plan.begin(), s->plan.end());

    s->big_src.reset(new mapped_buffer(m_sizes[largest], from));
    s->big_dst.reset(new mapped_buffer(m_sizes[largest], to));
    s->comps.resize(m_num_slots);
    m_streams.push_back(std::move(s));
}

bool test_stress::can_post(const stream &s) const
{
    if (s.posted == s.plan.size()) {
        return false;
    }

    const completion *comp = s.comps[s.posted % m_num_slots].get();

    if (is_big(m_sizes[s.plan[s.posted]])) {
        comp = s.big_comp.get();
        if (s.arrived < s.big_end) {
            return false;
        }
    }
    return (comp == nullptr) || comp->done();
}

ucs_status_t test_stress::post_next(stream &s)
{
    const size_t number            = s.posted;
    const size_t length            = m_sizes[s.plan[number]];
    const std::vector<kind_t> ways = kinds(length);
    const kind_t kind              = ways[number % ways.size()];
    const bool big                 = is_big(length);
    const mapped_buffer &src       = big ? *s.big_src : *s.src;
    const mapped_buffer &dst       = big ? *s.big_dst : *s.dst;
    const size_t offset            = big ? 0 : element(number);
    std::unique_ptr<completion> comp;
    ucs_status_t status;

    if (s.filled == number) {
        make_data(src.ptr(offset), length, tag(s, number, length));
        ++s.filled;
    }
    if (kind == ZCOPY) {
        comp.reset(new completion());
    }
    status = post(*s.from, s.index, kind, src.iov(length, offset), dst, offset,
                  imm(s, number), comp.get());
    if (status != UCS_OK) {
        return status;
    }

    ++s.posted;
    ++m_tally[s.plan[number]].count[kind];
    m_bytes += length;
    if (big) {
        s.big_comp = std::move(comp);
        s.big_end  = number + 1;
    } else {
        s.comps[number % m_num_slots] = std::move(comp);
    }
    return UCS_OK;
}

ucs_status_t test_stress::pending_cb(uct_pending_req_t *req)
{
    stream *s           = ucs_container_of(req, stream, req);
    ucs_status_t status = s->test->post_next(*s);

    if (status == UCS_ERR_NO_RESOURCE) {
        return status;
    }
    EXPECT_OK(status);
    s->queued = false;
    return UCS_OK;
}

/* One endpoint of two queues what has no resources, the other one tries again */
void test_stress::post_some(stream &s)
{
    ucs_status_t status;

    while (!s.queued && can_post(s)) {
        status = post_next(s);
        if (status == UCS_OK) {
            continue;
        }

        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, status);
        if ((s.index % 2) == 0) {
            return;
        }
        status = uct_wimm_ep_imm_pending_add(s.from->ep(s.index), &s.req);
        if (status == UCS_ERR_BUSY) {
            continue;
        }
        ASSERT_OK(status);
        s.queued = true;
        ++m_queued;
    }
}

void test_stress::received(entity &e, const imm_sink::notification &n)
{
    const size_t id     = ((&e == &receiver()) ? 0 : num_eps) + n.ep_index;
    stream &s           = *m_streams.at(id);
    const size_t number = s.arrived;

    /* Later ones would all be wrong, too: one message is enough */
    if ((number >= s.plan.size()) || (n.imm != imm(s, number)) ||
        (n.length != m_sizes[s.plan[number]])) {
        if (m_bad++ == 0) {
            ADD_FAILURE() << "endpoint " << id << " got 0x" << std::hex << n.imm
                          << " instead of 0x" << imm(s, number) << std::dec
                          << ", " << n.length << " bytes";
        }
        return;
    }

    const bool big           = is_big(n.length);
    const mapped_buffer &dst = big ? *s.big_dst : *s.dst;
    const size_t offset      = big ? 0 : element(number);

    if (!check_data(dst.ptr(offset), n.length, tag(s, number, n.length)) &&
        (m_bad++ == 0)) {
        ADD_FAILURE() << "endpoint " << id << ": wrong data with 0x" << std::hex
                      << n.imm << std::dec << ", " << n.length << " bytes";
    }
    ++s.arrived;
    ++m_arrived;
}

void test_stress::print(double seconds) const
{
    printf("stress: %zu notified puts, %.0f MiB, in %.1f s; %zu were queued\n",
           m_arrived, m_bytes * 1.0 / UCS_MBYTE, seconds, m_queued);
    for (size_t i = 0; i < m_sizes.size(); ++i) {
        printf("stress: %8zu bytes:", m_sizes[i]);
        for (kind_t kind : kinds(m_sizes[i])) {
            printf(" %6zu %s", m_tally[i].count[kind], kind_name(kind));
        }
        printf("\n");
    }
    for (const entity *e : { &sender(), &receiver() }) {
        const uct_wimm_counters_t c = counters(*e);

        printf("stress: posted %lu, delivered %lu, credit stalls %lu, slot"
               " stalls %lu, grants %lu, slot returns %lu, control messages"
               " %lu\n",
               c.posted, c.delivered, c.credit_stalls, c.slot_stalls, c.grants,
               c.slot_returns, c.ctrl_sent);
    }
}


TEST_F(test_stress, exactly_once_in_order_data_intact)
{
    const char *text       = getenv("WIMM_STRESS_COUNT");
    const size_t total     = (text == nullptr) ? 200000 : atol(text);
    const double limit     = 600;
    const size_t max_bytes = UCS_GBYTE;

    ASSERT_EQ(0u, total % (2 * num_eps)) << "streams are of equal length";
    open_devices({ { "RC_TIMEOUT", "100ms" },
                   { "IB_RX_QUEUE_LEN", "1024" },
                   { "NUM_SLOTS", "128" } });
    for (unsigned i = 0; i < num_eps; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }

    m_sizes     = sizes(8 * UCS_MBYTE);
    m_num_slots = limits(sender()).num_slots;
    m_stride    = ucs_align_up(limits(sender()).cap.max_bcopy + 1,
                               sizeof(uint64_t));
    m_tally.resize(m_sizes.size());
    for (unsigned i = 0; i < num_eps; ++i) {
        make_stream(sender(), receiver(), i, total / (2 * num_eps));
    }
    for (unsigned i = 0; i < num_eps; ++i) {
        make_stream(receiver(), sender(), i, total / (2 * num_eps));
    }

    imm_sink left(sender()), right(receiver());
    left.on_imm = [&](const imm_sink::notification &n) {
        received(sender(), n);
    };
    right.on_imm = [&](const imm_sink::notification &n) {
        received(receiver(), n);
    };

    const ucs_time_t start = ucs_get_time();
    EXPECT_TRUE(wait_for(
            [&]() {
                for (const auto &s : m_streams) {
                    post_some(*s);
                }
                return (m_arrived == total) || (m_bad > 0) || HasFailure() ||
                       !sender().errors.empty() || !receiver().errors.empty();
            },
            limit));
    print(ucs_time_to_sec(ucs_get_time() - start));
    ASSERT_EQ(0u, m_bad);
    ASSERT_EQ(total, m_arrived);
    EXPECT_LE(m_bytes, max_bytes);

    /* What is sent again must not be delivered again. Until all is acknowledged,
     * that can happen. */
    for (unsigned i = 0; i < num_eps; ++i) {
        flush(sender(), i);
        flush(receiver(), i);
    }
    progress_time(0.5);
    EXPECT_EQ(total, m_arrived);
    EXPECT_EQ(0u, m_bad);
    for (const auto &s : m_streams) {
        EXPECT_EQ(s->plan.size(), s->posted) << "endpoint " << s->id;
        EXPECT_EQ(s->plan.size(), s->arrived) << "endpoint " << s->id;
        EXPECT_TRUE((s->big_comp == nullptr) || s->big_comp->done());
    }
    for (const tally &t : m_tally) {
        size_t count = 0;

        for (size_t n : t.count) {
            count += n;
        }
        EXPECT_GT(count, 0u);
    }
    EXPECT_TRUE(sender().errors.empty());
    EXPECT_TRUE(receiver().errors.empty());
    check_rx_accounting();
    check_tx_accounting(sender());
    check_tx_accounting(receiver());
}
