/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_WIREUP_H_
#define UCP_WIMM_WIREUP_H_

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>
#include <ucs/datastruct/khash.h>


/*
 * Order with what waits for a connection. UCP replays its queue by calling each request
 * there, and a put that is issued by a callback on the way would be posted ahead of those
 * that were not called yet. Such puts are deferred until the last one was.
 */

typedef struct ucp_wimm_wireup_ep ucp_wimm_wireup_ep_t;

KHASH_MAP_INIT_INT64(ucp_wimm_wireup, ucp_wimm_wireup_ep_t *)

typedef struct ucp_wimm_wireup {
    khash_t(ucp_wimm_wireup) eps; /* Those with puts in UCP's queue */

    /* Issue one that was deferred */
    void (*issue)(uct_pending_req_t *req);
} ucp_wimm_wireup_t;


void ucp_wimm_wireup_init(ucp_wimm_wireup_t *wireup,
                          void (*issue)(uct_pending_req_t *req));

void ucp_wimm_wireup_cleanup(ucp_wimm_wireup_t *wireup);

/* Whether there is none for any endpoint: the usual case */
static inline int ucp_wimm_wireup_is_empty(const ucp_wimm_wireup_t *wireup)
{
    return kh_size(&wireup->eps) == 0;
}

/* Whether there is one for an endpoint */
static inline int ucp_wimm_wireup_is_of(const ucp_wimm_wireup_t *wireup,
                                        ucp_ep_h ep)
{
    return kh_get(ucp_wimm_wireup, &wireup->eps, (uintptr_t)ep) !=
           kh_end(&wireup->eps);
}

/* A put goes into UCP's queue. @return UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t ucp_wimm_wireup_enter(ucp_wimm_wireup_t *wireup, ucp_ep_h ep);

/* It was posted, queued elsewhere or given up. With the last one go those that were
 * deferred. */
void ucp_wimm_wireup_leave(ucp_wimm_wireup_t *wireup, ucp_ep_h ep);

/* Defer a put that is issued on a connected endpoint while puts are in UCP's queue.
 * @return Whether there are such. */
int ucp_wimm_wireup_defer(ucp_wimm_wireup_t *wireup, ucp_ep_h ep,
                          uct_pending_req_t *req);

#endif
