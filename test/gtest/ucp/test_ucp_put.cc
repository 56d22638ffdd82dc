/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <algorithm>


class test_ucp_put : public ucp_conn_test {
  protected:
    /* One put of each length, checked byte by byte when its notification comes */
    void put_and_check(const std::vector<size_t> &lengths, bool with_memh)
    {
        const size_t max = *std::max_element(lengths.begin(), lengths.end());
        ucp_buffer src(sender(), max), dst(receiver(), max);
        auto rkey    = dst.unpack(sender().ep());
        uint32_t imm = 0x80000000;

        for (size_t length : lengths) {
            put_request r;
            ucp_request_param_t param = r.param();

            if (with_memh) {
                param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
                param.memh = src.memh();
            }

            dst.clear();
            src.fill(imm, 0, length);
            r.ptr = ucp_wimm_put_nbx(sender().wimm(), sender().ep(), src.ptr(),
                                     length, dst.addr(), rkey.get(), imm,
                                     &param);
            ASSERT_TRUE(wait_arrivals(receiver(), 1));
            EXPECT_EQ(length, dst.check(imm, 0, length)) << length;
            EXPECT_EQ(imm, receiver().arrivals[0].imm);
            EXPECT_EQ(length, receiver().arrivals[0].length);
            EXPECT_OK(receiver().arrivals[0].status);
            EXPECT_OK(wait(r));
            receiver().arrivals.clear();
            ++imm;
        }
    }
};

TEST_P(test_ucp_put, all_lengths)
{
    put_and_check({ 0, 1, 7, 8, 60, 64, 65, 512, 1024, 1025, 4096, 4097, 8192,
                    8193, 65536, 100001, 1048576 },
                  false);
}

TEST_P(test_ucp_put, all_lengths_memh)
{
    put_and_check({ 0, 1, 8, 64, 65, 1024, 1025, 4096, 4097, 8192, 65537 },
                  true);
}

TEST_P(test_ucp_put, several_messages)
{
    put_and_check({ (8 << 20) + 1, 20 << 20, 64 << 20 }, true);
}

UCP_CONN_TESTS(test_ucp_put);
