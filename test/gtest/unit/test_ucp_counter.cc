/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "recv_test.h"

#include <cstdint>
#include <cstring>
#include <random>


static const uint32_t PASS = UCP_WIMM_COUNTER_FLAG_PASS;


/* Counters: what they count, and what they tell */
class test_ucp_counter : public recv_test {
  protected:
    void expect_refused(const ucp_wimm_counter_params_t &params,
                        const std::string &text)
    {
        ucp_wimm_counter_h c = nullptr;

        expect_error(text);
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      ucp_wimm_counter_create(wimm(), &params, &c));
        EXPECT_EQ(nullptr, c);
        EXPECT_TRUE(ucs_list_is_empty(&wimm()->counter.all));
    }

    ucp_wimm_counter_h starting(uint64_t initial, uint64_t expected,
                                unsigned bits = 32)
    {
        ucp_wimm_counter_params_t params = {};

        params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_INITIAL |
                            UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED |
                            UCP_WIMM_COUNTER_PARAM_FIELD_ADD;
        params.initial  = initial;
        params.expected = expected;
        params.add.bits = bits;
        return counter(&params);
    }
};


TEST_F(test_ucp_counter, mask_of_no_bit_takes_all)
{
    ucp_wimm_counter_h c = match(0, 0), without = counter(NULL);

    EXPECT_EQ(std::vector<bool>({ true, true, true }),
              notify({ 0, 0x80000000, 0xffffffff }));
    EXPECT_EQ(3u, read(c));
    EXPECT_EQ(3u, read(without));
}

TEST_F(test_ucp_counter, mask_of_all_bits_takes_one)
{
    ucp_wimm_counter_h c[] = { match(0, ~0u), match(0x80000000, ~0u),
                               match(~0u, ~0u) };

    EXPECT_EQ(std::vector<bool>({ true, true, true, true, false, false }),
              notify({ 0, 0x80000000, ~0u, ~0u, 1, 0x7fffffff }));
    EXPECT_EQ(1u, read(c[0]));
    EXPECT_EQ(1u, read(c[1]));
    EXPECT_EQ(2u, read(c[2]));
}

TEST_F(test_ucp_counter, mask_with_gaps)
{
    ucp_wimm_counter_h c = match(0x80000001, 0x80008001);

    EXPECT_EQ(std::vector<bool>({ true, true, false, false, false }),
              notify({ 0x80000001, 0xffff7fff, 0x80008001, 1, 0x80000000 }));
    EXPECT_EQ(2u, read(c));
}

TEST_F(test_ucp_counter, one_that_takes_is_enough)
{
    ucp_wimm_counter_h passes   = match(1, 0xff, 1, PASS);
    ucp_wimm_counter_h as_well  = match(1, 0xff, 1, PASS);
    ucp_wimm_counter_h takes    = match(0x101, 0xffff);
    ucp_wimm_counter_h the_same = match(0x101, 0xffff, 1, PASS);

    EXPECT_EQ(std::vector<bool>({ true, false, false }),
              notify({ 0x101, 0x201, 0x102 }));
    EXPECT_EQ(2u, read(passes));
    EXPECT_EQ(2u, read(as_well));
    EXPECT_EQ(1u, read(takes));
    EXPECT_EQ(1u, read(the_same));
}

TEST_F(test_ucp_counter, fields_that_are_not_set_do_not_matter)
{
    ucp_wimm_counter_params_t params;
    ucp_wimm_counter_h c;

    memset(&params, 0xee, sizeof(params));
    params.field_mask = 0;
    c                 = counter(&params);
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    EXPECT_EQ(std::vector<bool>({ true }), notify({ 0xabcd }));
    EXPECT_EQ(1u, read(c));
    EXPECT_OK(ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, adds_each_field_that_there_is)
{
    const uint32_t imm = 0xa5c3f017;

    for (unsigned bits = 1; bits <= 32; ++bits) {
        for (unsigned shift = 0; shift <= (32 - bits); ++shift) {
            ucp_wimm_counter_params_t params = {};
            const uint64_t mask              = (1ull << bits) - 1;

            params.field_mask    = UCP_WIMM_COUNTER_PARAM_FIELD_ADD;
            params.add.shift     = shift;
            params.add.bits      = bits;
            ucp_wimm_counter_h c = counter(&params);
            notify({ imm, 0xffffffff });
            EXPECT_EQ(((imm >> shift) & mask) + mask, read(c))
                    << shift << " " << bits;
            destroy(c);
        }
    }
}

TEST_F(test_ucp_counter, field_of_zeros_adds_nothing_and_is_consumed)
{
    ucp_wimm_counter_h c = starting(0, 0, 8);

    EXPECT_EQ(std::vector<bool>({ true }), notify({ 0xffffff00 }));
    EXPECT_EQ(0u, read(c));
}

TEST_F(test_ucp_counter, of_an_endpoint_counts_its_own_only)
{
    fake_peer mine(wimm(), ep(0), 1, &m_slots);
    fake_peer other(wimm(), ep(1), 2, &m_slots);
    fake_peer none(wimm(), NULL, 3, &m_slots);
    ucp_wimm_counter_h c = bound(ep(0));

    EXPECT_OK(notify(mine, 1));
    EXPECT_STATUS(UCS_INPROGRESS, notify(other, 1));
    EXPECT_STATUS(UCS_INPROGRESS, notify(none, 1));
    EXPECT_EQ(1u, read(c));
    EXPECT_EQ(2u, poll().size());
}

TEST_F(test_ucp_counter, of_an_endpoint_that_is_closed)
{
    fake_peer peer(wimm(), ep(0), 1, &m_slots);
    ucp_wimm_counter_h reached = bound(ep(0)), not_yet = bound(ep(0), 2);
    ucp_wimm_counter_h other = bound(ep(1));

    notify(peer, 1);
    ep_closed(ep(0));
    EXPECT_OK(ucp_wimm_counter_test(reached));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(not_yet));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(not_yet));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(other));

    /* The handle is that of another one now */
    EXPECT_STATUS(UCS_INPROGRESS, notify(peer, 1));
    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    EXPECT_EQ(1u, read(reached));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(not_yet));
    EXPECT_EQ(2u, poll().size());
}

TEST_F(test_ucp_counter, endpoint_closed_just_before_the_test)
{
    ucp_wimm_counter_h c = bound(ep(0));

    m_worker.on_update = [&] { ep_closed(ep(0)); };
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, goes_up_to_64_bits)
{
    ucp_wimm_counter_h c = starting(UINT64_MAX - 0xffffffff, UINT64_MAX);

    notify({ 0xfffffffe });
    EXPECT_EQ(UINT64_MAX - 1, read(c));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    notify({ 1 });
    EXPECT_EQ(UINT64_MAX, read(c));
    EXPECT_OK(ucp_wimm_counter_test(c));
    notify({ 0 });
    EXPECT_OK(ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, beyond_64_bits_until_it_is_reset)
{
    ucp_wimm_counter_h c = starting(UINT64_MAX - 1, 1);
    uint64_t count;

    notify({ 0x80000000 });
    EXPECT_EQ(UINT64_MAX, read(c));
    notify({ 5 }); /* It does not begin anew */
    EXPECT_EQ(UINT64_MAX, read(c));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, ucp_wimm_counter_take(c, 1));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT,
                  ucp_wimm_wait_some(wimm(), &c, 1, 0, NULL, NULL));
    EXPECT_EQ(UINT64_MAX, read(c));
    EXPECT_OK(ucp_wimm_counter_reset(c, 2, &count));
    EXPECT_EQ(UINT64_MAX, count);
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    notify({ 2 });
    EXPECT_OK(ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, failure_comes_before_the_overflow)
{
    ucp_wimm_counter_h c = starting(UINT64_MAX, 1);

    notify({ 1 });
    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, ucp_wimm_counter_test(c));
    poll();
}

TEST_F(test_ucp_counter, expecting_nothing_is_there_and_wakes_nobody)
{
    ucp_wimm_counter_h c = match(0, 0, 0);

    EXPECT_OK(ucp_wimm_arm(wimm()));
    EXPECT_OK(ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_wait_some(wimm(), &c, 1, 0, NULL, NULL));
    EXPECT_EQ(0u, m_worker.num_progress);
}

TEST_F(test_ucp_counter, reset_returns_and_begins_anew)
{
    ucp_wimm_counter_h c = match(0, 0, 2);
    uint64_t count       = 77;

    notify({ 1, 1, 1 });
    EXPECT_OK(ucp_wimm_counter_reset(c, 2, &count));
    EXPECT_EQ(3u, count);
    EXPECT_EQ(0u, read(c));
    notify({ 1 });
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_counter_reset(c, 1, NULL));
    notify({ 1 });
    EXPECT_OK(ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_counter_reset(c, UINT64_MAX, &count));
    EXPECT_EQ(1u, count);
}

TEST_F(test_ucp_counter, reset_keeps_failures_that_were_not_told)
{
    ucp_wimm_counter_h c = counter(NULL);

    fail(ep(0), UCS_ERR_ENDPOINT_TIMEOUT);
    poll();
    EXPECT_OK(ucp_wimm_counter_reset(c, 0, NULL));
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, take_leaves_what_is_of_the_next_round)
{
    ucp_wimm_counter_h c = match(0, 0, 2);

    EXPECT_OK(ucp_wimm_counter_take(c, 0));
    notify({ 1, 1, 1 });
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_take(c, 4));
    EXPECT_EQ(3u, read(c));
    EXPECT_OK(ucp_wimm_counter_take(c, 2));
    EXPECT_EQ(1u, read(c));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    notify({ 1 });
    EXPECT_OK(ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_counter_take(c, 2));
    EXPECT_EQ(0u, read(c));
}

TEST_F(test_ucp_counter, tells_each_failure_once_even_if_it_is_there)
{
    ucp_wimm_counter_h c = counter(NULL);

    notify({ 1 });
    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    fail(NULL, UCS_ERR_ENDPOINT_TIMEOUT);
    EXPECT_EQ(1u, read(c)); /* Tells nothing */
    EXPECT_OK(ucp_wimm_counter_take(c, 0));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_counter_test(c));
    notify({ 1 });
    EXPECT_EQ(2u, read(c)); /* It goes on */
    poll();
}

TEST_F(test_ucp_counter, failures_of_the_endpoint_or_of_the_worker)
{
    ucp_wimm_counter_h of_0 = bound(ep(0)), of_1 = bound(ep(1));
    ucp_wimm_counter_h all = counter(NULL);

    fail(ep(1), UCS_ERR_CONNECTION_RESET);
    fail(NULL, UCS_ERR_REJECTED);
    poll();
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(of_0));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(of_1));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(of_1));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(all));
    EXPECT_STATUS(UCS_ERR_REJECTED, ucp_wimm_counter_test(all));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(all));
}

/* More failures than there is room for: each is told, those that had none with the
 * status of the last */
TEST_F(test_ucp_counter, twenty_failures_and_room_for_seven)
{
    static const unsigned num = 20, room = 7;
    ucp_wimm_counter_h c = counter(NULL);

    for (int round = 0; round < 2; ++round) {
        for (unsigned i = 0; i < num; ++i) {
            fail(ep(0), static_cast<ucs_status_t>(-1 - i));
        }
        EXPECT_EQ(num, poll().size());
        for (unsigned i = 0; i < num; ++i) {
            const int status = -1 - ((i < room) ? i : (num - 1));

            ASSERT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
            EXPECT_EQ(status, ucp_wimm_counter_test(c)) << i;
        }
        EXPECT_OK(ucp_wimm_arm(wimm()));
        EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    }
}

TEST_F(test_ucp_counter, failures_come_while_others_are_told)
{
    ucp_wimm_counter_h c = counter(NULL);
    int next             = 0;

    for (int i = 0; i < 50; ++i) {
        fail(ep(0), static_cast<ucs_status_t>(-1 - i));
        if ((i % 10) >= 5) {
            EXPECT_EQ(-1 - next++, ucp_wimm_counter_test(c));
            EXPECT_EQ(-1 - next++, ucp_wimm_counter_test(c));
        }
    }
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    poll();
}

TEST_F(test_ucp_counter, arm_is_busy_until_it_was_looked_at)
{
    ucp_wimm_counter_h c                           = match(0, 0, 2);
    const std::vector<std::function<void()>> looks = {
        [&] { EXPECT_OK(ucp_wimm_counter_test(c)); },
        [&] { EXPECT_LE(2u, read(c)); },
        [&] { EXPECT_OK(ucp_wimm_counter_take(c, 1)); },
        [&] { EXPECT_OK(ucp_wimm_wait_some(wimm(), &c, 1, 0, NULL, NULL)); },
        [&] { EXPECT_OK(ucp_wimm_counter_reset(c, 2, NULL)); }
    };

    notify({ 1 });
    EXPECT_OK(ucp_wimm_arm(wimm())); /* Not there yet */
    for (const auto &look : looks) {
        notify({ 1, 1 }); /* The second changes nothing */
        EXPECT_EQ(1u, wimm()->counter.num_ready);
        EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
        look();
        EXPECT_OK(ucp_wimm_arm(wimm()));
    }
}

TEST_F(test_ucp_counter, reading_does_not_look_at_failures)
{
    ucp_wimm_counter_h c = counter(NULL);

    fail(ep(0), UCS_ERR_CONNECTION_RESET);
    poll();
    read(c);
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_counter, arm_forgets_one_that_is_destroyed)
{
    ucp_wimm_counter_h c = counter(NULL), other = counter(NULL);

    notify({ 1 });
    EXPECT_EQ(2u, wimm()->counter.num_ready);
    destroy(c);
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    destroy(other);
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_counter, after_detaching_can_be_read_and_destroyed)
{
    ucp_wimm_counter_h c = match(7, ~0u), with_failure = counter(NULL);
    uint64_t count = 77;

    notify({ 7, 7 });
    fail(NULL, UCS_ERR_CONNECTION_RESET);
    detach();
    EXPECT_EQ(2u, read(c));
    EXPECT_EQ(2u, read(with_failure));
    expect_error("the handle of the counter is detached", 3);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_take(c, 1));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_reset(c, 1, &count));
    EXPECT_EQ(77u, count);
    EXPECT_EQ(2u, read(c));
    expect_error("the handle is detached", 2);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(wimm(), NULL, &c));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_wait_some(wimm(), &c, 1, 0, NULL, NULL));
}

TEST_F(test_ucp_counter, fields_that_there_are_not)
{
    const struct {
        unsigned shift, bits;
    } fields[] = { { 0, 0 },   { 5, 0 },   { 0, 33 }, { 1, 32 },
                   { 31, 2 },  { 32, 1 },  { 32, 0 }, { ~0u, 1 },
                   { ~0u, 2 }, { 0, ~0u }, { 33, 31 } };

    for (const auto &f : fields) {
        ucp_wimm_counter_params_t params = {};

        params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_ADD;
        params.add.shift  = f.shift;
        params.add.bits   = f.bits;
        expect_refused(params, "an immediate has no " + std::to_string(f.bits) +
                                       " bits from bit " +
                                       std::to_string(f.shift) + " on");
    }
}

TEST_F(test_ucp_counter, parameters_that_cannot_be)
{
    ucp_wimm_counter_params_t params = {};
    char foreign;

    params.field_mask  = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH;
    params.match.value = 0x80000001;
    params.match.mask  = 0x7fffffff;
    expect_refused(params, "the value 0x80000001 of a counter");

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_FLAGS;
    params.flags      = PASS | 0x80000000;
    expect_refused(params, "a counter has no flags 0x80000001");

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP;
    params.ep         = NULL;
    expect_refused(params, "the endpoint (nil) of a counter");
    params.ep = reinterpret_cast<ucp_ep_h>(&foreign);
    expect_refused(params, "of a counter is not one of the worker");
}

TEST_F(test_ucp_counter, nulls)
{
    ucp_wimm_counter_h c = counter(NULL), out = nullptr;
    uint64_t count;

    expect_error("ucp_wimm_counter_create: the handle is NULL");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(NULL, NULL, &out));
    expect_error("ucp_wimm_counter_create() has nowhere to write to");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(wimm(), NULL, NULL));
    expect_error("the counter is NULL", 3);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_test(NULL));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_take(NULL, 1));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_reset(NULL, 1, NULL));
    expect_error("ucp_wimm_counter_read() got a NULL", 2);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_read(NULL, &count));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_read(c, NULL));
    ucp_wimm_counter_destroy(NULL);
    EXPECT_EQ(nullptr, out);
}

/* Whichever allocation fails: no counter, and nothing is left */
TEST_F(test_ucp_counter, no_memory_for_a_counter)
{
    ucp_wimm_counter_params_t params = {};
    unsigned nth                     = 0;
    ucp_wimm_counter_h c;
    ucs_status_t status;

    params.field_mask  = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH;
    params.match.value = 5;
    params.match.mask  = 7;
    allow_error("failed to allocate memory for a counter");
    do {
        c = nullptr;
        alloc_nth fault(++nth);
        status = ucp_wimm_counter_create(wimm(), &params, &c);
        if (status != UCS_OK) {
            EXPECT_STATUS(UCS_ERR_NO_MEMORY, status);
            EXPECT_EQ(nullptr, c);
            EXPECT_TRUE(ucs_list_is_empty(&wimm()->counter.all));
            EXPECT_TRUE(ucs_list_is_empty(&wimm()->counter.groups));
            EXPECT_EQ(std::vector<bool>({ false }), notify({ 5 }));
        }
    } while ((status != UCS_OK) && (nth < 100));

    /* The counter, its group, its list, and what the hash table takes */
    ASSERT_OK(status);
    EXPECT_LT(4u, nth);
    EXPECT_EQ(nth - 1,
              logged(UCS_LOG_LEVEL_ERROR, "failed to allocate").size());
    EXPECT_EQ(std::vector<bool>({ true }), notify({ 13 }));
    EXPECT_EQ(1u, read(c));
    ucp_wimm_counter_destroy(c);
}

TEST_F(test_ucp_counter, no_memory_beside_a_counter_with_the_same_mask)
{
    ucp_wimm_counter_h c = match(1, ~0u), out = nullptr;
    ucp_wimm_counter_params_t params = {};

    params.field_mask  = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH;
    params.match.value = 2;
    params.match.mask  = ~0u;
    expect_error("failed to allocate memory for a counter");
    {
        alloc_nth fault(2); /* Its list */
        EXPECT_STATUS(UCS_ERR_NO_MEMORY,
                      ucp_wimm_counter_create(wimm(), &params, &out));
    }
    EXPECT_EQ(std::vector<bool>({ true, false }), notify({ 1, 2 }));
    EXPECT_EQ(1u, read(c));
}

TEST_F(test_ucp_counter, arrivals_take_no_memory)
{
    std::vector<ucp_wimm_counter_h> cs;

    for (uint32_t i = 0; i < 100; ++i) {
        cs.push_back(match(i, 0xff));
        cs.push_back(match(i << 8, 0xff00, 1, PASS));
    }
    set_handler([](const ucp_wimm_notification_t &) { return UCS_OK; });
    bound(ep(0)); /* It is known */

    alloc_nth none(0);
    for (uint32_t imm = 0; imm < 0x10000; imm += 0x77) {
        notify({ imm });
    }
    for (unsigned i = 0; i < 100; ++i) {
        fail(ep(0), UCS_ERR_CONNECTION_RESET);
    }
    EXPECT_EQ(0u, alloc_nth::count());
}

/* Against the rule itself, while counters come and go */
TEST_F(test_ucp_counter, matches_as_the_rule_says)
{
    static const uint32_t masks[] = { 0, 1, 0x3, 0x80000003, 0x70, ~0u };
    struct item {
        ucp_wimm_counter_h counter;
        uint32_t value, mask, flags;
        uint64_t count;
    };
    std::vector<item> items;
    std::mt19937 rnd(1);

    for (unsigned i = 0; i < 20000; ++i) {
        /* Few bits, so that some match */
        const uint32_t imm = (rnd() & 0x80000013);
        const unsigned op  = rnd() % 8;

        if ((op == 0) && (items.size() < 50)) {
            const uint32_t mask  = masks[rnd() % 6];
            const uint32_t flags = (rnd() % 2) ? PASS : 0;

            items.push_back({ match(imm & mask, mask, 1, flags), imm & mask,
                              mask, flags, 0 });
        } else if ((op == 1) && !items.empty()) {
            const size_t index = rnd() % items.size();

            ASSERT_EQ(items[index].count, read(items[index].counter));
            destroy(items[index].counter);
            items.erase(items.begin() + index);
        } else {
            bool consumed = false;

            for (item &it : items) {
                if ((imm & it.mask) == it.value) {
                    ++it.count;
                    consumed |= !it.flags;
                }
            }
            ASSERT_EQ(std::vector<bool>({ consumed }), notify({ imm }));
        }
    }
    ASSERT_FALSE(items.empty());
    for (const item &it : items) {
        EXPECT_EQ(it.count, read(it.counter));
    }
}

TEST_F(test_ucp_counter, ten_thousand_with_one_mask)
{
    static const uint32_t num = 10000;
    std::vector<ucp_wimm_counter_h> cs;

    for (uint32_t i = 0; i < num; ++i) {
        cs.push_back(match(i << 16, 0xffff0000));
    }
    EXPECT_TRUE(ucs_list_is_only(&wimm()->counter.groups,
                                 wimm()->counter.groups.next));
    for (uint32_t i = 0; i < num; ++i) {
        ASSERT_EQ(std::vector<bool>({ true }), notify({ (i << 16) | 5 }));
    }
    EXPECT_EQ(num, wimm()->counter.num_ready);
    for (ucp_wimm_counter_h c : cs) {
        ASSERT_EQ(1u, read(c));
    }
    EXPECT_EQ(std::vector<bool>({ false }), notify({ num << 16 }));

    detach(); /* Unlinks them all */
    for (ucp_wimm_counter_h c : cs) {
        ASSERT_EQ(1u, read(c));
    }
}


/* Fields of an immediate */
TEST(test_ucp_imm, each_field_that_there_is)
{
    for (unsigned bits = 1; bits <= 32; ++bits) {
        for (unsigned shift = 0; shift <= (32 - bits); ++shift) {
            const uint64_t max  = (1ull << bits) - 1;
            const uint32_t mask = static_cast<uint32_t>(max << shift);

            for (uint32_t before : { 0u, ~0u, 0xa5c3f017u }) {
                for (uint64_t value : { uint64_t(0), uint64_t(1), max }) {
                    uint32_t imm = before;

                    ASSERT_OK(ucp_wimm_imm_set(&imm, shift, bits, value));
                    ASSERT_EQ(value, ucp_wimm_imm_get(imm, shift, bits));
                    ASSERT_EQ(before & ~mask, imm & ~mask);
                }
                for (uint64_t value : { max + 1, UINT64_MAX }) {
                    uint32_t imm = before;

                    ASSERT_STATUS(UCS_ERR_INVALID_PARAM,
                                  ucp_wimm_imm_set(&imm, shift, bits, value));
                    ASSERT_EQ(before, imm);
                }
            }
        }
    }
}

TEST(test_ucp_imm, fields_that_there_are_not)
{
    for (unsigned bits : { 0u, 1u, 2u, 31u, 32u, 33u, 64u, ~0u }) {
        for (unsigned shift : { 0u, 1u, 30u, 31u, 32u, 33u, 64u, ~0u }) {
            const bool exists = (bits >= 1) && (uint64_t(shift) + bits <= 32);
            uint32_t imm      = ~0u;

            EXPECT_STATUS(exists ? UCS_OK : UCS_ERR_INVALID_PARAM,
                          ucp_wimm_imm_set(&imm, shift, bits, 0));
            EXPECT_EQ(exists, imm != ~0u);
            EXPECT_EQ(exists, ucp_wimm_imm_get(~0u, shift, bits) != 0);
        }
    }
}

TEST(test_ucp_imm, halves)
{
    const uint64_t max = 0xffff;
    uint16_t high, low;
    uint32_t imm = 77;

    for (uint64_t h : { uint64_t(0), uint64_t(0x8000), max }) {
        for (uint64_t l : { uint64_t(0), uint64_t(1), max }) {
            EXPECT_OK(ucp_wimm_imm_pack16(h, l, &imm));
            EXPECT_EQ(h, ucp_wimm_imm_get(imm, 16, 16));
            EXPECT_EQ(l, ucp_wimm_imm_get(imm, 0, 16));
            ucp_wimm_imm_unpack16(imm, &high, &low);
            EXPECT_EQ(h, high);
            EXPECT_EQ(l, low);
        }
    }
    imm = 77;
    for (uint64_t big : { max + 1, uint64_t(1) << 32, UINT64_MAX }) {
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_imm_pack16(big, 0, &imm));
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_imm_pack16(0, big, &imm));
    }
    EXPECT_EQ(77u, imm);
}
