/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_wireup.h"

#include <ucs/datastruct/queue.h>
#include <ucs/debug/memtrack_int.h>
#include <string.h>


struct ucp_wimm_wireup_ep {
    unsigned count; /* Puts in UCP's queue */
    ucs_queue_head_t deferred;
};


void ucp_wimm_wireup_init(ucp_wimm_wireup_t *wireup,
                          void (*issue)(uct_pending_req_t *req))
{
    kh_init_inplace(ucp_wimm_wireup, &wireup->eps);
    wireup->issue = issue;
}

void ucp_wimm_wireup_cleanup(ucp_wimm_wireup_t *wireup)
{
    ucp_wimm_wireup_ep_t *wireup_ep;

    kh_foreach_value(&wireup->eps, wireup_ep, { ucs_free(wireup_ep); })
            kh_destroy_inplace(ucp_wimm_wireup, &wireup->eps);
}

ucs_status_t ucp_wimm_wireup_enter(ucp_wimm_wireup_t *wireup, ucp_ep_h ep)
{
    ucp_wimm_wireup_ep_t *wireup_ep;
    khiter_t iter;
    int ret;

    iter = kh_get(ucp_wimm_wireup, &wireup->eps, (uintptr_t)ep);
    if (iter != kh_end(&wireup->eps)) {
        ++kh_val(&wireup->eps, iter)->count;
        return UCS_OK;
    }

    wireup_ep = ucs_malloc(sizeof(*wireup_ep), "ucp_wimm_wireup_ep");
    if (wireup_ep == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    iter = kh_put(ucp_wimm_wireup, &wireup->eps, (uintptr_t)ep, &ret);
    if (ret == UCS_KH_PUT_FAILED) {
        ucs_free(wireup_ep);
        return UCS_ERR_NO_MEMORY;
    }

    wireup_ep->count = 1;
    ucs_queue_head_init(&wireup_ep->deferred);
    kh_val(&wireup->eps, iter) = wireup_ep;
    return UCS_OK;
}

void ucp_wimm_wireup_leave(ucp_wimm_wireup_t *wireup, ucp_ep_h ep)
{
    khiter_t iter = kh_get(ucp_wimm_wireup, &wireup->eps, (uintptr_t)ep);
    ucp_wimm_wireup_ep_t *wireup_ep;

    if (iter == kh_end(&wireup->eps)) {
        return;
    }

    wireup_ep = kh_val(&wireup->eps, iter);

    /* It stays until all are issued, for what their callbacks issue */
    while ((wireup_ep->count == 1) &&
           !ucs_queue_is_empty(&wireup_ep->deferred)) {
        wireup->issue(ucs_queue_pull_elem_non_empty(&wireup_ep->deferred,
                                                    uct_pending_req_t, priv));
    }

    if (--wireup_ep->count > 0) {
        return;
    }

    /* The table may have grown since */
    iter = kh_get(ucp_wimm_wireup, &wireup->eps, (uintptr_t)ep);
    kh_del(ucp_wimm_wireup, &wireup->eps, iter);
    ucs_free(wireup_ep);
}

int ucp_wimm_wireup_defer(ucp_wimm_wireup_t *wireup, ucp_ep_h ep,
                          uct_pending_req_t *req)
{
    khiter_t iter;

    if (ucp_wimm_wireup_is_empty(wireup)) {
        return 0;
    }

    iter = kh_get(ucp_wimm_wireup, &wireup->eps, (uintptr_t)ep);
    if (iter == kh_end(&wireup->eps)) {
        return 0;
    }

    ucs_queue_push(&kh_val(&wireup->eps, iter)->deferred,
                   (ucs_queue_elem_t *)req->priv);
    return 1;
}
