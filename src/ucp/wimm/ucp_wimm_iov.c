/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_iov.h"

#include <ucs/sys/math.h>
#include <string.h>


size_t ucp_wimm_iov_length(const ucp_dt_iov_t *iov, size_t iovcnt)
{
    size_t length = 0;

    for (; iovcnt > 0; --iovcnt, ++iov) {
        length += iov->length;
    }

    return length;
}

void ucp_wimm_iov_pack(void *dest, const ucp_dt_iov_t *iov, size_t offset,
                       size_t length)
{
    size_t piece;

    for (; length > 0; ++iov, offset = 0) {
        piece = ucs_min(iov->length - offset, length);
        if (piece > 0) {
            memcpy(dest, UCS_PTR_BYTE_OFFSET(iov->buffer, offset), piece);
        }

        dest = UCS_PTR_BYTE_OFFSET(dest, piece);
        length -= piece;
    }
}

size_t ucp_wimm_iov_fill(const ucp_dt_iov_t *iov, size_t iovcnt, size_t index,
                         size_t offset, uct_iov_t *dest, size_t *src,
                         size_t max_count, size_t max_length, size_t *length_p)
{
    size_t count = 0;
    size_t total = 0;

    for (; (index < iovcnt) && (count < max_count) && (total < max_length);
         ++index, offset = 0) {
        if (iov[index].length == offset) {
            continue;
        }

        dest[count].buffer = UCS_PTR_BYTE_OFFSET(iov[index].buffer, offset);
        dest[count].length = ucs_min(iov[index].length - offset,
                                     max_length - total);
        dest[count].stride = 0;
        dest[count].count  = 1;
        src[count]         = index;
        total += dest[count].length;
        ++count;
    }

    *length_p = total;
    return count;
}

void ucp_wimm_iov_advance(const ucp_dt_iov_t *iov, size_t iovcnt,
                          size_t *index_p, size_t *offset_p, size_t length)
{
    size_t index = *index_p;

    length += *offset_p;
    while ((index < iovcnt) && (length >= iov[index].length)) {
        length -= iov[index].length;
        ++index;
    }

    *index_p  = index;
    *offset_p = length;
}
