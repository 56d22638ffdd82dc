/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"


static const unsigned slots = 16;


/* Notification slots: what bounds the receiver's queue */
class test_slots : public imm_test {
  protected:
    void open_pair_with_slots()
    {
        open_pair({ { "NUM_SLOTS", std::to_string(slots) } });
    }

    /* Until the sender has no slot left. @return How many. */
    unsigned fill()
    {
        unsigned count = 0;

        wait_for([&]() {
            while (notify(sender(), 0, count) == UCS_OK) {
                ++count;
            }
            return ep_attr(sender()).slots == 0;
        });
        return count;
    }
};


TEST_F(test_slots, held_until_released)
{
    open_pair_with_slots();
    imm_sink sink(receiver());

    EXPECT_EQ(slots, ep_attr(sender()).num_slots);
    sink.result = UCS_INPROGRESS;
    EXPECT_EQ(slots, fill());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == slots; }));
    progress_rounds();
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, slots));

    /* One is enough for a peer that has none */
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), 1));
    ASSERT_TRUE(wait_for([&]() { return ep_attr(sender()).slots == 1; }));
    ASSERT_OK(notify(sender(), 0, slots));
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, slots));

    ASSERT_TRUE(wait_for([&]() { return sink.count() == (slots + 1); }));
    ASSERT_OK(uct_wimm_ep_slot_release(receiver().ep(), slots));
    ASSERT_TRUE(wait_for([&]() { return ep_attr(sender()).slots == slots; }));
    check_rx_accounting();
}
