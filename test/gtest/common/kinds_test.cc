/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "kinds_test.h"

#include <algorithm>


const char *kinds_test::kind_name(kind_t kind)
{
    static const char *names[] = { "notify", "short", "bcopy", "zcopy" };

    return names[kind];
}

uct_wimm_iface_attr_t kinds_test::limits(const entity &e)
{
    uct_wimm_iface_attr_t attr = {};

    attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP |
                      UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS |
                      UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE;
    EXPECT_OK(uct_wimm_iface_query(e.iface(), &attr));
    return attr;
}

size_t kinds_test::mtu(const entity &e)
{
    return uct_ib_mtu_value(
            uct_ib_iface_port_attr(&rc_state::iface(e)->super)->active_mtu);
}

std::vector<size_t> kinds_test::sizes(size_t max) const
{
    const uct_wimm_iface_attr_t attr = limits(sender());
    const size_t packet              = mtu(sender());
    std::vector<size_t> result;

    result = { 0,
               1,
               attr.cap.max_short,
               attr.cap.max_short + 1,
               packet - 1,
               packet,
               packet + 1,
               attr.cap.max_bcopy,
               attr.cap.max_bcopy + 1,
               UCS_MBYTE,
               8 * UCS_MBYTE };
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    result.erase(std::upper_bound(result.begin(), result.end(), max),
                 result.end());
    return result;
}

std::vector<kinds_test::kind_t> kinds_test::kinds(size_t length) const
{
    const uct_wimm_iface_attr_t attr = limits(sender());
    std::vector<kind_t> result;

    if (length == 0) {
        result.push_back(NOTIFY);
    }
    if (length <= attr.cap.max_short) {
        result.push_back(SHORT);
    }
    if (length <= attr.cap.max_bcopy) {
        result.push_back(BCOPY);
    }
    if (length <= attr.cap.max_zcopy) {
        result.push_back(ZCOPY);
    }
    return result;
}

static size_t copy_cb(void *dest, void *arg)
{
    const uct_iov_t *src = static_cast<const uct_iov_t *>(arg);

    memcpy(dest, src->buffer, src->length);
    return src->length;
}

ucs_status_t kinds_test::post(entity &e, unsigned index, kind_t kind,
                              const uct_iov_t &src, const mapped_buffer &dst,
                              size_t offset, uint32_t imm, completion *comp)
{
    ucs_status_t status;
    ssize_t packed;

    switch (kind) {
    case NOTIFY:
        return notify(e, index, imm);
    case SHORT:
        return put_imm(e, index, src.buffer, src.length, dst, offset, imm);
    case BCOPY:
        packed = uct_wimm_ep_put_imm_bcopy(e.ep(index), copy_cb,
                                           const_cast<uct_iov_t *>(&src),
                                           dst.addr(offset), dst.rkey(), imm);
        if (packed < 0) {
            return static_cast<ucs_status_t>(packed);
        }
        EXPECT_EQ(src.length, static_cast<size_t>(packed));
        return UCS_OK;
    case ZCOPY:
    default:
        status = uct_wimm_ep_put_imm_zcopy(e.ep(index), &src, 1,
                                           dst.addr(offset), dst.rkey(), imm,
                                           (comp == nullptr) ? nullptr :
                                                               &comp->uct);
        return (status == UCS_INPROGRESS) ? UCS_OK : status;
    }
}
