/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "../common/test_base.h"

extern "C" {
#include <ucp/wimm/ucp_wimm_select.h>
}

#include <string>
#include <vector>


/* How contiguous data of a notified put travels */
class test_ucp_select : public test_base {
  protected:
    /* Lengths, and limits of a transport: around those of the library, and none */
    static const std::vector<size_t> sizes;

    template <typename F> static void for_each(F check)
    {
        for (size_t max_short : sizes) {
            for (size_t max_bcopy : sizes) {
                for (int has_memh : { 0, 1 }) {
                    for (size_t length : sizes) {
                        SCOPED_TRACE(
                                "length " + std::to_string(length) +
                                ", max_short " + std::to_string(max_short) +
                                ", max_bcopy " + std::to_string(max_bcopy) +
                                ", memh " + std::to_string(has_memh));
                        check(length, has_memh, max_short, max_bcopy,
                              ucp_wimm_put_select(length, 0, 1, has_memh,
                                                  max_short, max_bcopy));
                    }
                }
            }
        }
    }
};

const std::vector<size_t> test_ucp_select::sizes = {
    0,
    1,
    2,
    UCP_WIMM_BCOPY_MAX_MEMH - 1,
    UCP_WIMM_BCOPY_MAX_MEMH,
    UCP_WIMM_BCOPY_MAX_MEMH + 1,
    UCP_WIMM_BCOPY_MAX_MEMH + 2,
    UCP_WIMM_BCOPY_MAX - 1,
    UCP_WIMM_BCOPY_MAX,
    UCP_WIMM_BCOPY_MAX + 1,
    UCP_WIMM_BCOPY_MAX + 2,
};


/* What is posted without a request goes the way that it goes with one */
TEST_F(test_ucp_select, is_copied_up_to_max_copy)
{
    for_each([](size_t length, int has_memh, size_t max_short, size_t max_bcopy,
                ucp_wimm_put_mode_t mode) {
        EXPECT_EQ(length <=
                          ucp_wimm_put_max_copy(has_memh, max_short, max_bcopy),
                  mode != UCP_WIMM_PUT_ZCOPY);
    });
}

TEST_F(test_ucp_select, is_short_up_to_max_short)
{
    for_each([](size_t length, int, size_t max_short, size_t,
                ucp_wimm_put_mode_t mode) {
        EXPECT_EQ(length <= max_short, mode == UCP_WIMM_PUT_SHORT);
    });
}
