/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "hostile_test.h"

extern "C" {
#include <ucs/time/time.h>
}

#include <algorithm>
#include <cstdlib>


const unsigned hostile_test::good;
const unsigned hostile_test::num_slots;


void hostile_test::open_hostile(const config_list &config)
{
    /* Who does not answer is found soon */
    config_list all = { { "RC_TIMEOUT", "50ms" },
                        { "RC_RETRY_COUNT", "2" },
                        { "QP_DRAIN_TIMEOUT", "1ms" },
                        { "NUM_SLOTS", std::to_string(num_slots) } };

    all.insert(all.end(), config.begin(), config.end());
    open(all);
    open(all);
    entity::connect(sender(), good, receiver(), good);
    m_device_qps = rc_state::device_num_qps();
}

unsigned hostile_test::connect(raw_peer &peer, unsigned rnr_retry,
                               unsigned credits, unsigned slots)
{
    const unsigned index = m_next++;

    receiver().create_ep(index);
    receiver().connect_to(index, peer.create(credits, slots));
    peer.connect(index, rnr_retry);
    m_hostile.insert(index);
    return index;
}

bool hostile_test::wait_peer(raw_peer &peer, const std::function<bool()> &cond)
{
    return wait_for([&]() {
        peer.progress();
        return cond();
    });
}

void hostile_test::wait_idle(raw_peer &peer)
{
    ASSERT_TRUE(wait_peer(peer, [&]() { return peer.is_idle(); }));
}

void hostile_test::check_closed(unsigned index, ucs_status_t status)
{
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    progress_rounds(20);
    ASSERT_EQ(1u, receiver().errors.size());
    EXPECT_EQ(receiver().ep(index), receiver().errors[0].ep);
    EXPECT_STATUS(status, receiver().errors[0].status);
    EXPECT_EQ(1u, ep_attr(receiver(), index).counters.failed);
    EXPECT_STATUS(status, notify(receiver(), index, 0));
}

void hostile_test::check_open(unsigned index)
{
    progress_rounds(20);
    EXPECT_TRUE(receiver().errors.empty());
    EXPECT_EQ(0u, ep_attr(receiver(), index).counters.failed);
}

void hostile_test::check_others()
{
    const unsigned count = 100;
    imm_sink left(sender()), right(receiver());
    unsigned left_got = 0, right_got = 0;

    left.on_imm = [&](const imm_sink::notification &n) {
        ASSERT_EQ(left_got, n.imm);
        ++left_got;
    };
    right.on_imm = [&](const imm_sink::notification &n) {
        if (n.ep_index == static_cast<int>(good)) {
            ASSERT_EQ(right_got, n.imm);
            ++right_got;
        }
    };
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_OK(retry([&]() { return notify(sender(), good, i); }));
        ASSERT_OK(retry([&]() { return notify(receiver(), good, i); }));
    }
    ASSERT_TRUE(wait_for(
            [&]() { return (left_got == count) && (right_got == count); }));
    progress_rounds(20);
    EXPECT_EQ(count, left_got);
    EXPECT_EQ(count, right_got);
    EXPECT_TRUE(sender().errors.empty());
    EXPECT_EQ(0u, ep_attr(receiver(), good).counters.failed);
}

void hostile_test::check_bounds()
{
    const fc_state::iface_state state = fc_state::iface(receiver());

    ASSERT_LE(rx_excess(receiver()), 0);
    ASSERT_GE(state.shared_used, 0);
    ASSERT_LE(fc_state::imm_allocated(receiver()),
              fc_state::imm_limit(receiver()));
}

void hostile_test::disconnect(unsigned index)
{
    receiver().errors.clear();
    receiver().destroy_ep(index);
    m_hostile.erase(index);
}

void hostile_test::finish()
{
    ASSERT_NO_FATAL_FAILURE(check_others());
    for (unsigned index : m_hostile) {
        receiver().destroy_ep(index);
    }
    m_hostile.clear();
    check_tx_accounting(receiver());
    check_tx_accounting(sender());
    check_rx_accounting();
    check_bounds();

    /* Credits of peers that are gone are back */
    const fc_state::iface_state state = fc_state::iface(receiver());

    EXPECT_EQ(1u, state.num_eps);
    EXPECT_EQ(std::max(fc_state::rx_credits(receiver(), good) - 1, 0),
              state.shared_used);
    ASSERT_NO_FATAL_FAILURE(check_others());
}

std::vector<unsigned> hostile_test::seeds()
{
    const char *seed = getenv("WIMM_TEST_SEED");

    if (seed != nullptr) {
        return { static_cast<unsigned>(strtoul(seed, nullptr, 0)) };
    }
    return { 1, static_cast<unsigned>(ucs_get_time()) };
}
