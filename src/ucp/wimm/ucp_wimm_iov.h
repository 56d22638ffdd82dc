/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_IOV_H_
#define UCP_WIMM_IOV_H_

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>


/* Memory in pieces. A position in it is the index of a piece, and a number of bytes
 * in that. */

size_t ucp_wimm_iov_length(const ucp_dt_iov_t *iov, size_t iovcnt);

/* The first piece that is not empty, of some that have a length */
static inline const ucp_dt_iov_t *ucp_wimm_iov_first(const ucp_dt_iov_t *iov)
{
    while (iov->length == 0) {
        ++iov;
    }

    return iov;
}

/* Copy @a length bytes from @a offset of the first piece on */
void ucp_wimm_iov_pack(void *dest, const ucp_dt_iov_t *iov, size_t offset,
                       size_t length);

/**
 * Make the entries of one message.
 *
 * @param [out] dest      Entries, all but their memory handles.
 * @param [out] src       The index of the piece that each one is of.
 * @param [out] length_p  Bytes of all of them, at most @a max_length.
 *
 * @return How many, at most @a max_count. Empty pieces are left out.
 */
size_t ucp_wimm_iov_fill(const ucp_dt_iov_t *iov, size_t iovcnt, size_t index,
                         size_t offset, uct_iov_t *dest, size_t *src,
                         size_t max_count, size_t max_length, size_t *length_p);

/* Move a position by @a length bytes */
void ucp_wimm_iov_advance(const ucp_dt_iov_t *iov, size_t iovcnt,
                          size_t *index_p, size_t *offset_p, size_t length);

#endif
