/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_IMM_TEST_H_
#define WIMM_IMM_TEST_H_

#include "uct_test.h"
#include "rc_state.h"


/* Fixture of the tests of notified puts */
class imm_test : public uct_test {
  protected:
    void SetUp() override
    {
        uct_test::SetUp();
        WIMM_ONLY();
    }

    static ucs_status_t put_imm(entity &e, unsigned index, const void *buffer,
                                unsigned length, const mapped_buffer &dst,
                                size_t offset, uint32_t imm)
    {
        return uct_wimm_ep_put_imm_short(e.ep(index), buffer, length,
                                         dst.addr(offset), dst.rkey(), imm);
    }

    /* Without data */
    static ucs_status_t notify(entity &e, unsigned index, uint32_t imm)
    {
        return uct_wimm_ep_put_imm_short(e.ep(index), NULL, 0, 0, 0, imm);
    }
};

#endif
