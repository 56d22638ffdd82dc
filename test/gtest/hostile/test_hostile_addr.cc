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
    open_hostile();
    allow_error("the peer's device address is not one");
    allow_error("error modifying QP to RTR");
    for_seeds([&]() {
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
            }
            receiver().destroy_ep(1);
            wait_destroyed();
        }
        finish();
    });
}

TEST_F(test_hostile_addr, reachable_by_device_often)
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
