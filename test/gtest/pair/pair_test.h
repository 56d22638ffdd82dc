/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_PAIR_TEST_H_
#define WIMM_PAIR_TEST_H_

#include "../common/kinds_test.h"


/* Fixture of tests whose two sides are on two devices with a wire between them */
class pair_test : public kinds_test {
  protected:
    /* Open the sender on the first device and the receiver on the other, without
     * endpoints */
    void open_devices(const config_list &config = config_list());

    /* IPv4 address of the device of a side, in host order */
    static uint32_t ip_address(const entity &e);
};

#endif
