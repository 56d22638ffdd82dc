/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "fc_test.h"

#include <algorithm>


const uint8_t fc_test::am_id;


fc_test::flow::flow(entity &from, entity &to, unsigned num_eps, traffic kind)
    : m_from(from), m_to(to), m_kind(kind)
{
    grow(num_eps);
    if (kind != ONLY_AM) {
        m_sink.reset(new imm_sink(to));
        m_sink->on_imm = [this](const imm_sink::notification &n) {
            received(n.ep_index, n.imm);
        };
    }
    if (kind != ONLY_IMM) {
        to.set_am_handler(am_id, [this](void *data, size_t, unsigned) {
            const uint64_t header = u64_at(data);

            received(header >> 32, static_cast<uint32_t>(header));
            return UCS_OK;
        });
    }
}

fc_test::flow::~flow()
{
    if (m_kind != ONLY_IMM) {
        m_to.remove_am_handler(am_id);
    }
}

void fc_test::flow::grow(unsigned num_eps)
{
    m_sent.resize(num_eps, 0);
    m_got.resize(num_eps, 0);
}

void fc_test::flow::received(unsigned index, uint32_t number)
{
    ASSERT_LT(index, m_got.size());
    ASSERT_EQ(m_got[index], number) << "endpoint " << index;
    ++m_got[index];
}

bool fc_test::flow::next_is_am(unsigned index) const
{
    return (m_kind == ONLY_AM) ||
           ((m_kind == MIXED) && ((m_sent[index] % 3) == 1));
}

ucs_status_t fc_test::flow::post(unsigned index)
{
    const uint64_t header = (static_cast<uint64_t>(index) << 32) |
                            m_sent[index];
    ucs_status_t status;

    if (next_is_am(index)) {
        status = uct_ep_am_short(m_from.ep(index), am_id, header, NULL, 0);
    } else {
        status = uct_wimm_ep_notify(m_from.ep(index), m_sent[index]);
    }

    if (status == UCS_OK) {
        ++m_sent[index];
    }
    return status;
}

unsigned fc_test::flow::post_all(uint32_t limit)
{
    unsigned count = 0, round;

    do {
        round = 0;
        for (unsigned i = 0; i < m_sent.size(); ++i) {
            if ((m_sent[i] < limit) && (post(i) == UCS_OK)) {
                ++round;
            }
        }
        count += round;
    } while (round > 0);
    return count;
}

bool fc_test::flow::is_stuck() const
{
    for (unsigned i = 0; i < m_sent.size(); ++i) {
        const uct_wimm_ep_attr_t attr = ep_attr(m_from, i);

        if ((attr.credits > 0) && (next_is_am(i) || (attr.slots > 0))) {
            return false;
        }
    }
    return true;
}

bool fc_test::flow::is_done(uint32_t count) const
{
    for (unsigned i = 0; i < m_sent.size(); ++i) {
        if ((m_got[i] < m_sent[i]) || (m_sent[i] < count)) {
            return false;
        }
    }
    return true;
}

void fc_test::open_sides(unsigned num_eps, unsigned rx_queue_len,
                         unsigned wnd_size, config_list config)
{
    if (rx_queue_len > 0) {
        config.push_back({ "IB_RX_QUEUE_LEN", std::to_string(rx_queue_len) });
    }
    if (wnd_size > 0) {
        config.push_back({ "RC_FC_WND_SIZE", std::to_string(wnd_size) });
    }

    open(config);
    open(config);
    connect_sides(0, num_eps);
}

void fc_test::connect_sides(unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; ++i) {
        entity::connect(sender(), i, receiver(), i);
    }
}

/* Whether all that can be sent has arrived at the peer's device. It acknowledges
 * what took a receive. */
static bool is_flushed(const entity &e, unsigned num_eps)
{
    for (unsigned i = 0; i < num_eps; ++i) {
        if (fc_state::ctrl_waiting(e, i) &
            (UCS_BIT(UCT_WIMM_CTRL_GRANT) | UCS_BIT(UCT_WIMM_CTRL_RECLAIM))) {
            return false;
        }
    }
    return uct_iface_flush(e.iface(), 0, NULL) == UCS_OK;
}

void fc_test::stall(flow &there, flow &back, double seconds)
{
    const uint64_t rnr   = rc_state::device_num_rnr();
    const ucs_time_t end = ucs_get_time() + ucs_time_from_sec(seconds);
    const ucs_time_t max = end + ucs_time_from_sec(30);
    bool done;

    do {
        there.post_all();
        there.from().progress();
        done = back.is_done() && there.is_stuck() &&
               is_flushed(there.from(), there.num_eps());
        if (!done && (ucs_get_time() > max)) {
            ADD_FAILURE() << "the sender does not come to its end";
            return;
        }

        /* Without a receive it does not come to its end */
        done = done || (rc_state::device_num_rnr() != rnr);
    } while (!done || (ucs_get_time() < end));
}

void fc_test::exchange(const std::vector<flow *> &flows, uint32_t count)
{
    ASSERT_TRUE(wait_for([&]() {
        bool done = true;

        for (flow *f : flows) {
            f->post_all(count);
            done = done && f->is_done(count);
        }
        return done;
    }));
}

void fc_test::fill_window(flow &f, unsigned index)
{
    const int target = fc_state::iface(receiver()).target;

    ASSERT_TRUE(wait_for([&]() {
        if (fc_state::rx_credits(receiver(), index) == target) {
            return true;
        }
        f.post(index);
        return false;
    }));
}
