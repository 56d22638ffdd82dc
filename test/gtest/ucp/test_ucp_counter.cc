/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <cmath>
#include <limits>


/* Counters, fed by a worker that notifies itself */
class test_ucp_counter : public ucp_test {
  protected:
    void SetUp() override
    {
        ucp_entity::params p;

        ucp_test::SetUp();
        p.handler = false;
        create(p);
        e().connect_address(e(), UCP_ERR_HANDLING_MODE_PEER);
        ASSERT_OK(flush(e()));
    }

    ucp_entity &e()
    {
        return entity(0);
    }

    ucp_wimm_counter_h create_counter(const ucp_wimm_counter_params_t &params)
    {
        ucp_wimm_counter_h c = nullptr;

        EXPECT_OK(ucp_wimm_counter_create(e().wimm(), &params, &c));
        m_counters.push_back(c);
        return c;
    }

    ucp_wimm_counter_h match(uint32_t value, uint32_t mask,
                             uint64_t expected = 1, uint32_t flags = 0)
    {
        ucp_wimm_counter_params_t params = {};

        params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH |
                            UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED |
                            UCP_WIMM_COUNTER_PARAM_FIELD_FLAGS;
        params.match    = { value, mask };
        params.expected = expected;
        params.flags    = flags;
        return create_counter(params);
    }

    void send(const std::vector<uint32_t> &imms)
    {
        const uint64_t end = query(e()).counters.notifications + imms.size();
        ucp_request_param_t param = {};

        for (uint32_t imm : imms) {
            EXPECT_OK(wait(
                    ucp_wimm_notify_nbx(e().wimm(), e().ep(), imm, &param)));
        }
        wait_for([&] { return query(e()).counters.notifications >= end; });
    }

    static uint64_t read(ucp_wimm_counter_h c)
    {
        uint64_t count = 0;

        EXPECT_OK(ucp_wimm_counter_read(c, &count));
        return count;
    }

    std::vector<uint32_t> queued()
    {
        std::vector<uint32_t> imms;
        ucp_wimm_notification_t n;
        unsigned count;

        while ((ucp_wimm_poll(e().wimm(), &n, 1, &count) == UCS_OK) &&
               (count == 1)) {
            imms.push_back(n.imm);
        }
        return imms;
    }

    void TearDown() override
    {
        for (ucp_wimm_counter_h c : m_counters) {
            ucp_wimm_counter_destroy(c);
        }
        ucp_test::TearDown();
    }

    std::vector<ucp_wimm_counter_h> m_counters;
};


TEST_F(test_ucp_counter, masks_of_all_kinds)
{
    ucp_wimm_counter_h full = match(0xffffffff, 0xffffffff);
    ucp_wimm_counter_h top  = match(0x80000000, 0xc0000000);
    ucp_wimm_counter_h low  = match(5, 0xff);

    send({ 0xffffffff, 0x80000000, 0x80000005, 5, 0x40000000, 0x7fffffff, 0 });
    EXPECT_EQ(1u, read(full));
    EXPECT_EQ(2u, read(top));
    EXPECT_EQ(2u, read(low)); /* One of them is of both */
    EXPECT_EQ(std::vector<uint32_t>({ 0x40000000, 0x7fffffff, 0 }), queued());
}

TEST_F(test_ucp_counter, of_all_leaves_nothing)
{
    ucp_wimm_counter_h all = create_counter({});

    send({ 1, 2, 3 });
    EXPECT_EQ(3u, read(all));
    EXPECT_TRUE(queued().empty());
}

TEST_F(test_ucp_counter, pass_counts_what_others_take)
{
    ucp_wimm_counter_h pass = match(0, 0, 1, UCP_WIMM_COUNTER_FLAG_PASS);
    ucp_wimm_counter_h take = match(7, 0xffffffff);

    send({ 6, 7, 8 });
    EXPECT_EQ(3u, read(pass));
    EXPECT_EQ(1u, read(take));
    EXPECT_EQ(std::vector<uint32_t>({ 6, 8 }), queued());
}

TEST_F(test_ucp_counter, adds_a_field)
{
    struct {
        unsigned shift, bits;
        uint64_t sum;
    } const fields[] = { { 0, 32, 0x80000001ull + 0xffffffffull },
                         { 31, 1, 2 },
                         { 0, 1, 2 },
                         { 16, 16, 0x8000 + 0xffff },
                         { 4, 8, 0xff } };
    std::vector<ucp_wimm_counter_h> counters;

    for (const auto &f : fields) {
        ucp_wimm_counter_params_t params = {};

        params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_ADD;
        params.add.shift  = f.shift;
        params.add.bits   = f.bits;
        counters.push_back(create_counter(params));
    }
    send({ 0x80000001, 0xffffffff });
    for (size_t i = 0; i < counters.size(); ++i) {
        EXPECT_EQ(fields[i].sum, read(counters[i])) << i;
    }
}

TEST_F(test_ucp_counter, test_take_and_reset)
{
    ucp_wimm_counter_h c = match(0, 0, 3);
    uint64_t count       = 0;

    send({ 1, 1 });
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_take(c, 3));
    EXPECT_EQ(2u, read(c));
    send({ 1, 1 });
    EXPECT_OK(ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_counter_test(c)); /* It stays */
    EXPECT_OK(ucp_wimm_counter_take(c, 3));
    EXPECT_EQ(1u, read(c)); /* For the next round */
    EXPECT_OK(ucp_wimm_counter_reset(c, 0, &count));
    EXPECT_EQ(1u, count);
    EXPECT_OK(ucp_wimm_counter_test(c)); /* Expects nothing */
    EXPECT_OK(ucp_wimm_counter_reset(c, 1, NULL));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, beyond_64_bits)
{
    ucp_wimm_counter_params_t params = {};

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_INITIAL |
                        UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED;
    params.initial       = UINT64_MAX - 1;
    params.expected      = UINT64_MAX;
    ucp_wimm_counter_h c = create_counter(params);

    send({ 1 });
    EXPECT_OK(ucp_wimm_counter_test(c));
    send({ 1 });
    EXPECT_EQ(UINT64_MAX, read(c));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, ucp_wimm_counter_take(c, 1));
    EXPECT_OK(ucp_wimm_counter_reset(c, 1, NULL));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
}

TEST_F(test_ucp_counter, of_an_endpoint)
{
    ucp_entity &other                = create({});
    ucp_wimm_counter_params_t params = {};
    ucp_request_param_t param        = {};

    other.connect_address(e(), UCP_ERR_HANDLING_MODE_PEER);
    ucp_ep_h back     = e().connect_address(other, UCP_ERR_HANDLING_MODE_PEER);
    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP;
    params.ep         = back;
    ucp_wimm_counter_h c = create_counter(params);

    send({ 1, 2 });
    EXPECT_EQ(0u, read(c));
    EXPECT_OK(wait(ucp_wimm_notify_nbx(other.wimm(), other.ep(), 3, &param)));
    ASSERT_TRUE(wait_for([&] { return read(c) == 1; }));
    EXPECT_EQ(std::vector<uint32_t>({ 1, 2 }), queued());
}

TEST_F(test_ucp_counter, many_with_one_mask_and_destruction)
{
    static const uint32_t num = 5000;

    for (uint32_t i = 0; i < num; ++i) {
        match(i << 8, 0xffffff00);
    }
    send({ 0, 1, 0x100, (num - 1) << 8, num << 8 });
    EXPECT_EQ(2u, read(m_counters[0]));
    EXPECT_EQ(1u, read(m_counters[1]));
    EXPECT_EQ(1u, read(m_counters[num - 1]));
    EXPECT_EQ(std::vector<uint32_t>({ num << 8 }), queued());
    ucp_wimm_counter_destroy(m_counters[0]);
    m_counters.erase(m_counters.begin());
    send({ 0 });
    EXPECT_EQ(std::vector<uint32_t>({ 0 }), queued());
}

TEST_F(test_ucp_counter, wait_some_of_a_set)
{
    ucp_wimm_counter_h c[] = { match(0, ~0u), match(1, ~0u), match(2, ~0u) };
    unsigned ready[3], count = 77;

    EXPECT_STATUS(UCS_ERR_TIMED_OUT,
                  ucp_wimm_wait_some(e().wimm(), c, 3, 0, ready, &count));
    EXPECT_EQ(0u, count);
    EXPECT_STATUS(UCS_ERR_TIMED_OUT,
                  ucp_wimm_wait_some(e().wimm(), c, 3, 0.01, NULL, NULL));
    send({ 2, 0 });
    EXPECT_OK(ucp_wimm_wait_some(e().wimm(), c, 3, UCP_WIMM_TIMEOUT_INF, ready,
                                 &count));
    ASSERT_EQ(2u, count);
    EXPECT_EQ(0u, ready[0]);
    EXPECT_EQ(2u, ready[1]);
    EXPECT_OK(ucp_wimm_wait_some(e().wimm(), c + 2, 1, 1e300, NULL, NULL));
}

TEST_F(test_ucp_counter, arm_is_busy_until_it_was_looked_at)
{
    ucp_wimm_counter_h c = match(1, ~0u, 2);

    EXPECT_OK(ucp_wimm_arm(e().wimm()));
    send({ 1 });
    EXPECT_OK(ucp_wimm_arm(e().wimm())); /* Not there yet */
    send({ 1 });
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(e().wimm()));
    EXPECT_OK(ucp_wimm_counter_test(c));
    EXPECT_OK(ucp_wimm_arm(e().wimm()));
}

TEST_F(test_ucp_counter, after_detach_can_be_read_and_destroyed)
{
    ucp_wimm_counter_h c = match(0, 0);

    send({ 1 });
    e().detach();
    EXPECT_EQ(1u, read(c));
    expect_error("the handle of the counter is detached", 3);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_test(c));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_take(c, 1));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_reset(c, 1, NULL));
    e().attach(false);
    send({ 2 });
    EXPECT_EQ(1u, read(c));
}

TEST_F(test_ucp_counter, what_cannot_be_is_refused)
{
    ucp_wimm_counter_h c = match(0, 0), out = nullptr;
    ucp_wimm_counter_params_t params = {};

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH;
    params.match      = { 1, 2 };
    expect_error("outside of its mask");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(e().wimm(), &params, &out));
    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_ADD;
    expect_error("an immediate has no", 4);
    for (const auto &add :
         std::vector<std::pair<unsigned, unsigned>>{ { 0, 0 },
                                                     { 0, 33 },
                                                     { 1, 32 },
                                                     { ~0u, 2 } }) {
        params.add.shift = add.first;
        params.add.bits  = add.second;
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      ucp_wimm_counter_create(e().wimm(), &params, &out));
    }
    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP;
    params.ep         = NULL;
    expect_error("of a counter is not one of the worker");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(e().wimm(), &params, &out));
    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_FLAGS;
    params.flags      = 2;
    expect_error("a counter has no flags");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(e().wimm(), &params, &out));
    EXPECT_EQ(nullptr, out);

    expect_error("nowhere to write to");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_counter_create(e().wimm(), NULL, NULL));
    expect_error("the counter is NULL");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_test(NULL));
    expect_error("got a NULL");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_counter_read(c, NULL));
    expect_error("there is no counter to wait for");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_wait_some(e().wimm(), &c, 0, 0, NULL, NULL));
    expect_error("the timeout is not a number");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_wait_some(e().wimm(), &c, 1,
                                     std::numeric_limits<double>::quiet_NaN(),
                                     NULL, NULL));
    expect_error("is not one of the handle");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_wait_some(e().wimm(), &out, 1, 0, NULL, NULL));
    ucp_wimm_counter_destroy(NULL);
}


/* Fields of an immediate */
TEST(test_ucp_imm, fields_that_fit_and_that_do_not)
{
    uint32_t imm = 0xaaaaaaaa;
    uint16_t high, low;

    EXPECT_OK(ucp_wimm_imm_set(&imm, 0, 32, 0xffffffff));
    EXPECT_EQ(0xffffffff, imm);
    EXPECT_OK(ucp_wimm_imm_set(&imm, 31, 1, 0));
    EXPECT_EQ(0x7fffffffu, imm);
    EXPECT_OK(ucp_wimm_imm_set(&imm, 8, 8, 0x12));
    EXPECT_EQ(0x7fff12ffu, imm);
    EXPECT_EQ(0x12u, ucp_wimm_imm_get(imm, 8, 8));
    EXPECT_EQ(imm, ucp_wimm_imm_get(imm, 0, 32));

    for (const auto &f :
         std::vector<std::pair<unsigned, unsigned>>{ { 0, 0 },
                                                     { 0, 33 },
                                                     { 1, 32 },
                                                     { 32, 1 },
                                                     { ~0u, 2 } }) {
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                      ucp_wimm_imm_set(&imm, f.first, f.second, 0));
        EXPECT_EQ(0u, ucp_wimm_imm_get(imm, f.first, f.second));
    }
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_imm_set(&imm, 8, 8, 0x100));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_imm_set(&imm, 0, 32, 0x100000000ull));
    EXPECT_EQ(0x7fff12ffu, imm);

    EXPECT_OK(ucp_wimm_imm_pack16(0xffff, 0x8000, &imm));
    EXPECT_EQ(0xffff8000, imm);
    ucp_wimm_imm_unpack16(imm, &high, &low);
    EXPECT_EQ(0xffff, high);
    EXPECT_EQ(0x8000, low);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_imm_pack16(0x10000, 0, &imm));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_imm_pack16(0, 0x10000, &imm));
    EXPECT_EQ(0xffff8000, imm);
}
