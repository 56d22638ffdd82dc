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

    /* @return The length, or an error */
    static ssize_t put_imm_bcopy(entity &e, unsigned index, pack_arg *data,
                                 const mapped_buffer &dst, size_t offset,
                                 uint32_t imm)
    {
        return uct_wimm_ep_put_imm_bcopy(e.ep(index), pack_cb, data,
                                         dst.addr(offset), dst.rkey(), imm);
    }

    static ucs_status_t put_imm_zcopy(entity &e, unsigned index,
                                      const mapped_buffer &src, size_t length,
                                      const mapped_buffer &dst, size_t offset,
                                      uint32_t imm, completion *comp)
    {
        const uct_iov_t iov = src.iov(length);

        return uct_wimm_ep_put_imm_zcopy(e.ep(index), &iov, 1, dst.addr(offset),
                                         dst.rkey(), imm,
                                         (comp == NULL) ? NULL : &comp->uct);
    }

    /* Without data */
    static ucs_status_t notify(entity &e, unsigned index, uint32_t imm)
    {
        return uct_wimm_ep_notify(e.ep(index), imm);
    }

    static uct_wimm_counters_t counters(const entity &e)
    {
        uct_wimm_iface_attr_t attr = {};

        attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_COUNTERS;
        EXPECT_OK(uct_wimm_iface_query(e.iface(), &attr));
        return attr.counters;
    }

    static uct_wimm_ep_attr_t ep_attr(const entity &e, unsigned index = 0)
    {
        uct_wimm_ep_attr_t attr = {};

        attr.field_mask = UCT_WIMM_EP_ATTR_FIELD_FLOW_CONTROL |
                          UCT_WIMM_EP_ATTR_FIELD_CREDITS |
                          UCT_WIMM_EP_ATTR_FIELD_SLOTS |
                          UCT_WIMM_EP_ATTR_FIELD_COUNTERS;
        EXPECT_OK(uct_wimm_ep_query(e.ep(index), &attr));
        return attr;
    }
};

#endif
