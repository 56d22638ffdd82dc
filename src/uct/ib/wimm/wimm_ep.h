/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_EP_H_
#define UCT_WIMM_EP_H_

#include "wimm_iface.h"
#include "wimm_qp.h"


typedef struct uct_wimm_ep {
    uct_rc_verbs_ep_t super;
    uct_wimm_qp_t *dead_qp;    /* Allocated early: destroying cannot fail */
    ucs_list_link_t fail_list; /* On the interface's failed_eps */
    ucs_status_t fail_status;
} uct_wimm_ep_t;


UCS_CLASS_DECLARE(uct_wimm_ep_t, const uct_ep_params_t *);
UCS_CLASS_DECLARE_NEW_FUNC(uct_wimm_ep_t, uct_ep_t, const uct_ep_params_t *);


static UCS_F_ALWAYS_INLINE uct_wimm_ep_t *uct_wimm_ep_lookup(
        uct_wimm_iface_t *iface, uint32_t qp_num)
{
    return ucs_derived_of(uct_rc_iface_lookup_ep(&iface->super.super, qp_num),
                          uct_wimm_ep_t);
}


/* Return the resources of "count" sends that have completed, well or not */
static UCS_F_ALWAYS_INLINE void uct_wimm_ep_tx_completed(
        uct_rc_iface_t *rc_iface, uct_wimm_ep_t *ep, uint16_t count)
{
    ep->super.txcnt.ci += count;
    uct_rc_txqp_available_add(&ep->super.super.txqp, count);
    uct_rc_iface_update_reads(rc_iface);
    uct_rc_iface_add_cq_credits(rc_iface, count);
}


void uct_wimm_ep_destroy(uct_ep_h tl_ep);

/**
 * Report the failure of an endpoint to the interface's error handler, once.
 * Called from progress only. The handler may destroy the endpoint.
 *
 * @param [in] wc   The completion that showed it, or NULL.
 * @param [in] dir  Which completion queue that was on.
 */
void uct_wimm_ep_failed(uct_wimm_ep_t *ep, ucs_status_t status,
                        const struct ibv_wc *wc, uct_ib_dir_t dir);

/* Move the queue pair to error and leave it to progress to report @a status.
 * @a ep may be NULL: the endpoint is gone already. */
void uct_wimm_ep_fail_later(uct_wimm_ep_t *ep, ucs_status_t status);

/* Report what uct_wimm_ep_fail_later() left. @return How many. */
unsigned uct_wimm_ep_progress_failed(uct_wimm_iface_t *iface);

/* Send completion with error */
void uct_wimm_ep_handle_tx_failure(uct_ib_iface_t *ib_iface, void *arg,
                                   ucs_status_t status);

#endif
