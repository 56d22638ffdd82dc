/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "hostile_test.h"

extern "C" {
#include <uct/ib/base/ib_device.h>
#include <uct/ib/wimm/wimm_ep.h>
}

#include <algorithm>


/* Addresses of full size with random bits. UCT of UCX 1.13 passes no lengths: what
 * says that there is more of it is allowed for by this many bytes. */
class test_hostile_addr : public hostile_test {
  protected:
    static const size_t spare = 32;

    uint32_t random(uint32_t limit)
    {
        return m_random() % limit;
    }

    std::vector<uint8_t> bytes(size_t length)
    {
        std::vector<uint8_t> result(length + spare);

        for (uint8_t &byte : result) {
            byte = m_random();
        }
        return result;
    }

    static const uct_device_addr_t *dev(const std::vector<uint8_t> &addr)
    {
        return reinterpret_cast<const uct_device_addr_t *>(addr.data());
    }

    static const uct_iface_addr_t *iface(const std::vector<uint8_t> &addr)
    {
        return reinterpret_cast<const uct_iface_addr_t *>(addr.data());
    }

    static const uct_ep_addr_t *ep(const std::vector<uint8_t> &addr)
    {
        return reinterpret_cast<const uct_ep_addr_t *>(addr.data());
    }

    std::vector<uint8_t> good_dev_addr()
    {
        std::vector<uint8_t> result(receiver().attr().device_addr_len + spare);

        EXPECT_OK(uct_iface_get_device_address(
                receiver().iface(),
                reinterpret_cast<uct_device_addr_t *>(result.data())));
        return result;
    }

    /* All bits random, or one or a few of a good one changed */
    std::vector<uint8_t> spoilt_dev_addr()
    {
        std::vector<uint8_t> result = good_dev_addr();
        const size_t length         = receiver().attr().device_addr_len;

        switch (random(3)) {
        case 0:
            return bytes(length);
        case 1:
            result[random(2) * random(length)] ^= 1u << random(8);
            return result;
        default: /* Of the flags anything, zeros or ones behind them */
            std::fill(result.begin(), result.end(), random(2) * 0xff);
            result[0] = m_random();
            return result;
        }
    }

    /* A wimm part that is one or is not, and any queue pair */
    std::vector<uint8_t> spoilt_ep_addr(unsigned *credits, unsigned *slots,
                                        bool *valid)
    {
        std::vector<uint8_t> result = bytes(receiver().attr().ep_addr_len);
        uct_wimm_ep_addr_t *addr    = reinterpret_cast<uct_wimm_ep_addr_t *>(
                result.data());

        if (random(2) == 0) {
            uct_wimm_ep_addr_pack(addr, random(UCT_WIMM_MAX_CREDITS + 1),
                                  random(UCT_WIMM_MAX_SLOTS + 1));
        }
        *valid = uct_wimm_ep_addr_unpack(addr, credits, slots);
        return result;
    }

    /* A good one of nobody */
    std::vector<uint8_t> raw_address(unsigned credits)
    {
        std::vector<uint8_t> result(receiver().attr().ep_addr_len + spare, 0);

        uct_wimm_ep_addr_pack(reinterpret_cast<uct_wimm_ep_addr_t *>(
                                      result.data()),
                              credits, num_slots);
        return result;
    }

    /* An endpoint counts until its queue pair is destroyed */
    void wait_destroyed()
    {
        ASSERT_TRUE(wait_for(
                [this]() { return rc_state::num_dead_qps(receiver()) == 0; }));
    }

    void for_seeds(const std::function<void()> &func)
    {
        for (unsigned seed : seeds()) {
            SCOPED_TRACE(seed_name(seed));
            printf("%s\n", seed_name(seed).c_str());
            m_random.seed(seed);
            func();
            if (HasFatalFailure()) {
                return;
            }
        }
    }

    std::mt19937 m_random;
};

const size_t test_hostile_addr::spare;


TEST_F(test_hostile_addr, endpoint)
{
    const unsigned batch = 40;

    open_hostile();
    allow_error("the peer's endpoint address is not one of wimm");
    for_seeds([&]() {
        for (unsigned round = 0; round < 4; ++round) {
            unsigned num_connected = 0;

            for (unsigned i = 1; i <= batch; ++i) {
                unsigned credits = 0, slots = 0;
                bool valid;
                const auto addr = spoilt_ep_addr(&credits, &slots, &valid);

                receiver().create_ep(i);
                m_hostile.insert(i);
                ASSERT_STATUS(valid ? UCS_OK : UCS_ERR_INVALID_ADDR,
                              uct_ep_connect_to_ep(receiver().ep(i),
                                                   dev(good_dev_addr()),
                                                   ep(addr)));
                if (!valid) {
                    ASSERT_STATUS(UCS_ERR_NOT_CONNECTED,
                                  notify(receiver(), i, 0));
                    continue;
                }

                const uct_wimm_ep_attr_t attr = ep_attr(receiver(), i);

                ASSERT_EQ(slots, attr.num_slots);
                ASSERT_EQ(credits > 0, attr.flow_control != 0);
                ASSERT_OK(notify(receiver(), i, 0));
                ++num_connected;
            }

            /* There is nobody */
            ASSERT_TRUE(wait_for([&]() {
                return receiver().errors.size() == num_connected;
            }));
            for (const auto &error : receiver().errors) {
                ASSERT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, error.status);
            }
            receiver().errors.clear();
            ASSERT_NO_FATAL_FAILURE(finish());
        }
    });
}

TEST_F(test_hostile_addr, device)
{
    const unsigned max_waits = 20;

    open_hostile();
    allow_error("the peer's device address is not one");
    allow_error("error modifying QP to RTR");
    for_seeds([&]() {
        unsigned num_accepted = 0, num_refused = 0;

        for (unsigned i = 0; i < 300; ++i) {
            const std::vector<uint8_t> addr    = spoilt_dev_addr();
            const std::vector<uint8_t> ep_addr = raw_address(
                    1 + random(UCT_WIMM_MAX_CREDITS));
            ucs_status_t status;

            receiver().create_ep(1);
            status = uct_ep_connect_to_ep(receiver().ep(1), dev(addr),
                                          ep(ep_addr));
            if (status != UCS_OK) {
                ASSERT_TRUE((status == UCS_ERR_INVALID_ADDR) ||
                            (status == UCS_ERR_IO_ERROR))
                        << status_str(status);
                ASSERT_STATUS(UCS_ERR_NOT_CONNECTED, notify(receiver(), 1, 0));
                ++num_refused;
            } else if (++num_accepted <= max_waits) {
                /* Nobody answers there */
                ASSERT_OK(notify(receiver(), 1, 0));
                ASSERT_TRUE(
                        wait_for([&]() { return !receiver().errors.empty(); }));
                ASSERT_EQ(1u, receiver().errors.size());
                ASSERT_EQ(receiver().ep(1), receiver().errors[0].ep);
                ASSERT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT,
                              receiver().errors[0].status);
                receiver().errors.clear();
            }
            receiver().destroy_ep(1);
            wait_destroyed();
        }
        printf("%u accepted, %u refused\n", num_accepted, num_refused);
        EXPECT_GT(num_accepted, 0u);
        EXPECT_GT(num_refused, 0u);
        finish();
    });
}

/* UCX's connection manager for rdmacm adds the index of the GID in the table of this side */
TEST_F(test_hostile_addr, with_a_gid_index)
{
    open_hostile();
    uct_ib_iface_t *ib_iface = &rc_state::iface(receiver())->super;
    const auto good_addr     = good_dev_addr();
    uct_ib_address_pack_params_t params;
    uint32_t num_sent = 0;
    imm_sink sink(receiver());

    allow_error("the peer's device address is not one");
    uct_ib_address_unpack(reinterpret_cast<const uct_ib_address_t *>(
                                  good_addr.data()),
                          &params);
    params.flags |= UCT_IB_ADDRESS_PACK_FLAG_GID_INDEX;
    params.pkey = 0; /* Is not packed, but looked at */
    for (int index : { int(ib_iface->gid_info.gid_index),
                       int(UCT_IB_ADDRESS_INVALID_GID_INDEX) }) {
        const bool is_good = index == ib_iface->gid_info.gid_index;

        SCOPED_TRACE(index);
        params.gid_index = index;
        std::vector<uint8_t> addr(uct_ib_address_size(&params) + spare);
        uct_ib_address_pack(&params,
                            reinterpret_cast<uct_ib_address_t *>(addr.data()));

        sender().create_ep(1);
        receiver().create_ep(1);
        const auto from = sender().address(1), to = receiver().address(1);
        const size_t ep_offset = receiver().attr().device_addr_len;
        for (entity *e : { &sender(), &receiver() }) {
            const auto &peer = (e == &sender()) ? to : from;

            EXPECT_STATUS(is_good ? UCS_OK : UCS_ERR_INVALID_ADDR,
                          uct_ep_connect_to_ep(
                                  e->ep(1), dev(addr),
                                  reinterpret_cast<const uct_ep_addr_t *>(
                                          &peer[ep_offset])));
        }
        if (is_good) {
            ASSERT_OK(retry([&]() { return notify(sender(), 1, 77); }));
            ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
            EXPECT_EQ(77u, sink.got[0].imm);
            ++num_sent;
        }
        sender().destroy_ep(1);
        receiver().destroy_ep(1);
        wait_destroyed();
    }
    EXPECT_EQ(1u, num_sent);
}

TEST_F(test_hostile_addr, reachable_by_device)
{
    open_hostile();
    const std::vector<uint8_t> good_iface = { 0xe1 };

    for_seeds([&]() {
        for (unsigned i = 0; i < 5000; ++i) {
            const std::vector<uint8_t> addr = spoilt_dev_addr();
            const int reachable = uct_iface_is_reachable(receiver().iface(),
                                                         dev(addr),
                                                         iface(good_iface));

            ASSERT_TRUE((reachable == 0) || (reachable == 1));
            if (!(addr[0] & UCT_IB_ADDRESS_FLAG_LINK_LAYER_ETH) !=
                !(good_dev_addr()[0] & UCT_IB_ADDRESS_FLAG_LINK_LAYER_ETH)) {
                ASSERT_FALSE(reachable);
            }
        }
    });
    finish();
}

TEST_F(test_hostile_addr, reachable_by_interface)
{
    open_hostile();
    const std::vector<uint8_t> dev_addr = good_dev_addr();

    for (unsigned byte = 0; byte < 256; ++byte) {
        const std::vector<uint8_t> addr = { static_cast<uint8_t>(byte) };

        EXPECT_EQ(byte == 0xe1,
                  !!uct_iface_is_reachable(receiver().iface(), dev(dev_addr),
                                           iface(addr)));
    }
    EXPECT_FALSE(
            uct_iface_is_reachable(receiver().iface(), dev(dev_addr), NULL));
    finish();
}

TEST_F(test_hostile_addr, given_to_ep_create_are_not_looked_at)
{
    open_hostile();
    for_seeds([&]() {
        for (unsigned i = 0; i < 50; ++i) {
            const std::vector<uint8_t> dev_addr   = spoilt_dev_addr();
            const std::vector<uint8_t> iface_addr = bytes(1);
            uct_ep_params_t params                = {};
            uct_ep_h new_ep;

            params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                                UCT_EP_PARAM_FIELD_DEV_ADDR |
                                UCT_EP_PARAM_FIELD_IFACE_ADDR;
            params.iface      = receiver().iface();
            params.dev_addr   = dev(dev_addr);
            params.iface_addr = iface(iface_addr);
            ASSERT_OK(uct_ep_create(&params, &new_ep));
            ASSERT_STATUS(UCS_ERR_NOT_CONNECTED, uct_wimm_ep_notify(new_ep, 1));
            uct_ep_destroy(new_ep);
            wait_destroyed();
        }
    });
    finish();
}
