/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_PENDING_H_
#define UCT_WIMM_PENDING_H_

#include "wimm_ep.h"

/*
 * Order of what cannot be posted at once. The queue pair keeps the order of what
 * is posted; this keeps that of what is not yet.
 *
 * A request for a notified put waits in UCT's pending group of the endpoint for
 * resources, as any other. When it is its turn and only a slot is missing, it
 * moves on to the endpoint's own list, so that what is behind it goes on. The
 * list is called when slots come back. If resources are missing then, imm_req
 * stands for the list in the group.
 */

ucs_status_t uct_wimm_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                     unsigned flags);

void uct_wimm_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                               void *arg);

ucs_status_t uct_wimm_ep_flush(uct_ep_h tl_ep, unsigned flags,
                               uct_completion_t *comp);

ucs_status_t uct_wimm_pending_init(uct_wimm_iface_t *iface);
void uct_wimm_pending_cleanup(uct_wimm_iface_t *iface);

/* Go on with canceling flushes, after so many receive completions were dispatched.
 * @return How many went on. */
unsigned uct_wimm_pending_progress_cancels(uct_wimm_iface_t *iface,
                                           unsigned rx_count);

void uct_wimm_ep_pending_init(uct_wimm_ep_t *ep);

/* The endpoint goes away: what the user left is dropped with a warning */
void uct_wimm_ep_pending_cleanup(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep);

/* Slots came back: call the requests that wait for them */
void uct_wimm_ep_imm_dispatch(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep);

/* The endpoint fails: the user's requests stay for uct_ep_pending_purge(), but are
 * not called any more. They would get an error, which the base class asserts not to
 * happen while there are resources. What is queued from now on is called. */
void uct_wimm_ep_pending_set_aside(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep);

/* The endpoint failed or was canceled: end the flushes that wait in its list.
 * Requests stay there until the user purges them. */
void uct_wimm_ep_pending_failed(uct_wimm_ep_t *ep, ucs_status_t status);

/* Why a notified put cannot be posted now, or UCS_OK. Called if it lacks a credit
 * or a slot, or if others wait. */
ucs_status_t uct_wimm_ep_check_imm_slow(uct_wimm_iface_t *iface,
                                        uct_wimm_ep_t *ep);

ucs_arbiter_cb_result_t uct_wimm_ep_process_pending(ucs_arbiter_t *arbiter,
                                                    ucs_arbiter_group_t *group,
                                                    ucs_arbiter_elem_t *elem,
                                                    void *arg);


/* In place of the base class's: all dispatching goes through here */
static UCS_F_ALWAYS_INLINE void uct_wimm_iface_arbiter_dispatch(
        uct_wimm_iface_t *iface)
{
    ucs_arbiter_dispatch(&iface->super.super.tx.arbiter, 1,
                         uct_wimm_ep_process_pending, NULL);
}


/* The request that is being called has failed, or has nothing to wait for: as it may
 * have completed, what is posted from now on must wait behind the others */
static UCS_F_ALWAYS_INLINE void uct_wimm_ep_end_turn(uct_wimm_iface_t *iface,
                                                     uct_wimm_ep_t *ep)
{
    if (iface->dispatch.ep == ep) {
        iface->dispatch.ep = NULL;
    }
}


/* Whether a notified put may be posted, as far as credits, slots and order go */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_check_imm(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    if (ucs_unlikely((ep->super.super.fc.fc_wnd <= 0) || (ep->tx_slots <= 0) ||
                     !ucs_queue_is_empty(&ep->imm_pending) ||
                     !ucs_arbiter_group_is_empty(&ep->super.super.arb_group))) {
        return uct_wimm_ep_check_imm_slow(iface, ep);
    }

    return UCS_OK;
}

#endif
