/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "../common/test_base.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}

#include <random>
#include <vector>


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


/* The endpoint address: initial credits and slots */
class test_ep_addr : public test_base {
  protected:
    static uct_wimm_ep_addr_t pack(unsigned credits, unsigned num_slots)
    {
        uct_wimm_ep_addr_t addr;

        uct_wimm_ep_addr_pack(&addr, credits, num_slots);
        return addr;
    }

    static void check_round_trip(unsigned credits, unsigned num_slots)
    {
        const uct_wimm_ep_addr_t addr = pack(credits, num_slots);
        unsigned got_credits = 99999, got_slots = 99999;

        ASSERT_TRUE(uct_wimm_ep_addr_unpack(&addr, &got_credits, &got_slots));
        ASSERT_EQ(credits, got_credits);
        ASSERT_EQ(num_slots, got_slots);
    }

    static bool is_valid(const uct_wimm_ep_addr_t &addr)
    {
        unsigned credits, num_slots;

        return uct_wimm_ep_addr_unpack(&addr, &credits, &num_slots);
    }

    /* From the first byte on the wire */
    static uct_wimm_ep_addr_t from_bits(uint32_t value)
    {
        uct_wimm_ep_addr_t addr;

        for (unsigned i = 0; i < sizeof(addr.value); ++i) {
            addr.value[i] = value >> (8 * (sizeof(addr.value) - 1 - i));
        }
        return addr;
    }

    /* Limits, and what has bits of every kind */
    static std::vector<unsigned> values(unsigned first, unsigned last)
    {
        std::vector<unsigned> result;

        for (unsigned value = first; value <= last;
             value          = (2 * value) + (value % 3) + 1) {
            result.push_back(value);
        }
        for (unsigned bit = 1; bit <= last; bit *= 2) {
            result.push_back(bit);
        }
        result.push_back(last - 1);
        result.push_back(last);
        return result;
    }
};


TEST_F(test_ep_addr, all_credits_round_trip)
{
    for (unsigned num_slots : { 1, UCT_WIMM_MAX_SLOTS }) {
        for (unsigned credits = 0; credits <= UCT_WIMM_MAX_CREDITS; ++credits) {
            ASSERT_NO_FATAL_FAILURE(check_round_trip(credits, num_slots));
        }
    }
}

TEST_F(test_ep_addr, all_slots_round_trip)
{
    for (unsigned credits : { 0, 1, UCT_WIMM_MAX_CREDITS }) {
        for (unsigned num_slots = 1; num_slots <= UCT_WIMM_MAX_SLOTS;
             ++num_slots) {
            ASSERT_NO_FATAL_FAILURE(check_round_trip(credits, num_slots));
        }
    }
}

TEST_F(test_ep_addr, no_slots_is_not_valid)
{
    for (unsigned credits : values(0, UCT_WIMM_MAX_CREDITS)) {
        EXPECT_FALSE(is_valid(pack(credits, 0))) << credits;
    }
}

TEST_F(test_ep_addr, one_flipped_bit_is_seen)
{
    for (unsigned credits : values(0, UCT_WIMM_MAX_CREDITS)) {
        for (unsigned num_slots : values(1, UCT_WIMM_MAX_SLOTS)) {
            for (unsigned bit = 0; bit < 32; ++bit) {
                uct_wimm_ep_addr_t addr = pack(credits, num_slots);

                addr.value[bit / 8] ^= 1u << (bit % 8);
                ASSERT_FALSE(is_valid(addr))
                        << credits << " credits, " << num_slots
                        << " slots, bit " << bit;
            }
        }
    }
}

TEST_F(test_ep_addr, one_changed_digit_is_seen)
{
    /* As four bits that are next to each other, in any way */
    for (unsigned digit = 0; digit < 8; ++digit) {
        for (uint32_t change = 1; change < 16; ++change) {
            uct_wimm_ep_addr_t addr = pack(0x1234, 0x567);

            addr.value[digit / 2] ^= change << (4 * (digit % 2));
            EXPECT_FALSE(is_valid(addr)) << digit << " " << change;
        }
    }
}

TEST_F(test_ep_addr, one_in_16_of_junk_is_valid)
{
    const unsigned count = 100000;
    std::mt19937 random(1);
    unsigned valid = 0;

    for (unsigned i = 0; i < count; ++i) {
        const uct_wimm_ep_addr_t addr = from_bits(random());
        unsigned credits, num_slots;

        if (!uct_wimm_ep_addr_unpack(&addr, &credits, &num_slots)) {
            continue;
        }

        /* What is taken for an address is one, and within its limits */
        ++valid;
        ASSERT_LE(credits, unsigned(UCT_WIMM_MAX_CREDITS));
        ASSERT_GE(num_slots, 1u);
        ASSERT_LE(num_slots, unsigned(UCT_WIMM_MAX_SLOTS));
        const uct_wimm_ep_addr_t again = pack(credits, num_slots);
        ASSERT_EQ(0, memcmp(addr.value, again.value, sizeof(addr.value)));
    }
    EXPECT_NEAR(count / 16., valid, count / 200.);
}

TEST_F(test_ep_addr, memory_that_nobody_filled_is_not_valid)
{
    for (unsigned byte = 0; byte < 256; ++byte) {
        EXPECT_FALSE(is_valid(from_bits(byte * 0x01010101u))) << byte;
    }
}

TEST_F(test_ep_addr, junk_leaves_the_results_alone)
{
    const uct_wimm_ep_addr_t addr = from_bits(0);
    unsigned credits = 77, num_slots = 78;

    EXPECT_FALSE(uct_wimm_ep_addr_unpack(&addr, &credits, &num_slots));
    EXPECT_EQ(77u, credits);
    EXPECT_EQ(78u, num_slots);
}

TEST_F(test_ep_addr, is_four_bytes_big_endian_on_the_wire)
{
    const uct_wimm_ep_addr_t addr = pack(0x1234, 0x0567);
    const uint32_t value          = (0x1234u << 17) | (0x0567u << 4);
    unsigned check                = 0x5;

    for (unsigned digit = 1; digit < 8; ++digit) {
        check ^= (value >> (4 * digit)) & 0xf;
    }

    ASSERT_EQ(4u, sizeof(uct_wimm_ep_addr_t));
    EXPECT_EQ(value >> 24, addr.value[0]);
    EXPECT_EQ((value >> 16) & 0xff, addr.value[1]);
    EXPECT_EQ((value >> 8) & 0xff, addr.value[2]);
    EXPECT_EQ((value & 0xf0) | check, addr.value[3]);
}
