/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_SELECT_H_
#define UCP_WIMM_SELECT_H_

#include <ucs/sys/math.h>
#include <stddef.h>


/* Data up to this is copied into a buffer of UCX; longer data is taken from where it
 * is, which takes a request, and a search in the registration cache if there is no
 * memory handle. In thousand instructions of both sides and the kernel on Soft-RoCE
 * (copied, from its place with a handle, without one): 2 KiB 37.7, 38.5, 39.2; 4 KiB
 * 60.5, 61.0, 61.7; 6 KiB 89.1, 89.3, 90.1; 8 KiB 111.8, 111.9, 112.6. What memory
 * takes to be read and written once more does not show there: see docs/performance. */
#define UCP_WIMM_BCOPY_MAX      8192
#define UCP_WIMM_BCOPY_MAX_MEMH 4096

/* Pieces that are shorter than this on average are copied */
#define UCP_WIMM_IOV_PIECE_MIN 1024


typedef enum ucp_wimm_put_mode {
    UCP_WIMM_PUT_SHORT, /* In the work request */
    UCP_WIMM_PUT_BCOPY, /* Copied */
    UCP_WIMM_PUT_ZCOPY  /* From where it is */
} ucp_wimm_put_mode_t;


/**
 * Up to which length contiguous data is copied, and so complete when it is posted:
 * where ucp_wimm_put_select() says SHORT or BCOPY.
 */
static inline size_t ucp_wimm_put_max_copy(int has_memh, size_t max_short,
                                           size_t max_bcopy)
{
    size_t limit = has_memh ? UCP_WIMM_BCOPY_MAX_MEMH : UCP_WIMM_BCOPY_MAX;

    return ucs_max(ucs_min(limit, max_bcopy), max_short);
}

/**
 * How the data of a put travels.
 *
 * @param [in] iovcnt   Pieces of it, or 0 if it is contiguous.
 * @param [in] is_host  Whether the CPU may read it.
 */
static inline ucp_wimm_put_mode_t ucp_wimm_put_select(size_t length,
                                                      size_t iovcnt,
                                                      int is_host, int has_memh,
                                                      size_t max_short,
                                                      size_t max_bcopy)
{
    size_t limit;

    if (length == 0) {
        return UCP_WIMM_PUT_SHORT;
    } else if (!is_host) {
        return UCP_WIMM_PUT_ZCOPY;
    } else if ((iovcnt == 0) && (length <= max_short)) {
        return UCP_WIMM_PUT_SHORT;
    }

    limit = has_memh ? UCP_WIMM_BCOPY_MAX_MEMH : UCP_WIMM_BCOPY_MAX;
    if (length <= ucs_min(limit, max_bcopy)) {
        return UCP_WIMM_PUT_BCOPY;
    }

    return ((iovcnt > 0) && ((length / iovcnt) < UCP_WIMM_IOV_PIECE_MIN)) ?
                   UCP_WIMM_PUT_BCOPY :
                   UCP_WIMM_PUT_ZCOPY;
}

#endif
