/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_KINDS_TEST_H_
#define WIMM_KINDS_TEST_H_

#include "imm_test.h"

#include <vector>


/* Fixture of tests that post notified puts of all sizes in all ways */
class kinds_test : public imm_test {
  protected:
    enum kind_t {
        NOTIFY,
        SHORT,
        BCOPY,
        ZCOPY
    };

    static const char *kind_name(kind_t kind);

    static uct_wimm_iface_attr_t limits(const entity &e);

    /* Bytes of data in a packet */
    static size_t mtu(const entity &e);

    /* All sizes up to @a max at which something changes for the sender, and
     * large ones, in ascending order */
    std::vector<size_t> sizes(size_t max) const;

    /* How a put of a size can be posted */
    std::vector<kind_t> kinds(size_t length) const;

    /* Post one by @a kind. @return As UCT's put of that kind, but UCS_OK if it was
     * posted. A completion is for ZCOPY only. */
    static ucs_status_t post(entity &e, unsigned index, kind_t kind,
                             const uct_iov_t &src, const mapped_buffer &dst,
                             size_t offset, uint32_t imm,
                             completion *comp = nullptr);
};

#endif
