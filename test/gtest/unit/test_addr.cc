/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "../common/test_base.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}


/* The interface address */
class test_addr : public test_base {};


TEST_F(test_addr, sixteen_of_256_bytes_are_valid)
{
    unsigned valid = 0;

    for (unsigned byte = 0; byte < 256; ++byte) {
        const uct_wimm_iface_addr_t addr = { static_cast<uint8_t>(byte) };
        const int version                = uct_wimm_iface_addr_unpack(&addr);

        if (version < 0) {
            EXPECT_EQ(-1, version);
            continue;
        }

        ++valid;
        EXPECT_EQ(static_cast<int>(byte & 0xf), version);
        EXPECT_EQ(0xfu, (byte & 0xf) ^ (byte >> 4));
    }
    EXPECT_EQ(16u, valid);
}

TEST_F(test_addr, versions_round_trip)
{
    for (unsigned version = 0; version < 16; ++version) {
        uct_wimm_iface_addr_t addr;

        uct_wimm_iface_addr_pack(&addr, version);
        EXPECT_EQ(static_cast<int>(version), uct_wimm_iface_addr_unpack(&addr));
    }
}

TEST_F(test_addr, zeros_and_ones_are_not_valid)
{
    /* What memory that nobody filled looks like */
    for (uint8_t byte : { 0x00, 0xff }) {
        const uct_wimm_iface_addr_t addr = { byte };

        EXPECT_EQ(-1, uct_wimm_iface_addr_unpack(&addr));
    }
}

TEST_F(test_addr, one_flipped_bit_is_seen)
{
    for (unsigned version = 0; version < 16; ++version) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            uct_wimm_iface_addr_t addr;

            uct_wimm_iface_addr_pack(&addr, version);
            addr.version ^= 1u << bit;
            EXPECT_EQ(-1, uct_wimm_iface_addr_unpack(&addr));
        }
    }
}

TEST_F(test_addr, is_one_byte_on_the_wire)
{
    uct_wimm_iface_addr_t addr;

    EXPECT_EQ(1u, sizeof(uct_wimm_iface_addr_t));
    uct_wimm_iface_addr_pack(&addr, UCT_WIMM_PROTO_VERSION);
    EXPECT_EQ(0xe1, addr.version);
}
