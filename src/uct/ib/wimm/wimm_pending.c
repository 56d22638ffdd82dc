/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_pending.h"

#include <ucs/debug/debug_int.h>
#include <ucs/debug/log.h>


/* A flush that waits in the list of immediates, for those ahead of it; or a canceling
 * one, until what had arrived was dispatched */
typedef struct uct_wimm_flush_req {
    uct_pending_req_t super;
    uct_wimm_ep_t *ep;
    uct_completion_t *comp;
    unsigned rx_left; /* Receive completions that may have been there before it */
} uct_wimm_flush_req_t;


static ucs_mpool_ops_t uct_wimm_flush_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = NULL,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};


static ucs_status_t uct_wimm_ep_flush_progress(uct_pending_req_t *self);


ucs_status_t uct_wimm_pending_init(uct_wimm_iface_t *iface)
{
    iface->dispatch.ep      = NULL;
    iface->dispatch.pi      = 0;
    iface->dispatch.is_imm  = 0;
    iface->dispatch.refused = 0;
    ucs_queue_head_init(&iface->dispatch.cancels);
    return ucs_mpool_init(&iface->dispatch.flush_mp, 0,
                          sizeof(uct_wimm_flush_req_t), 0, sizeof(void *), 64,
                          UINT_MAX, &uct_wimm_flush_mpool_ops, "wimm_flush");
}

void uct_wimm_pending_cleanup(uct_wimm_iface_t *iface)
{
    ucs_mpool_cleanup(&iface->dispatch.flush_mp, 1);
}

/* Whether it is the turn of what is posted now: of the request that is being
 * called, as long as it has posted nothing */
static UCS_F_ALWAYS_INLINE int uct_wimm_ep_is_head(
        const uct_wimm_iface_t *iface, const uct_wimm_ep_t *ep)
{
    return (iface->dispatch.ep == ep) &&
           (iface->dispatch.pi == ep->super.txcnt.pi);
}

static int uct_wimm_ep_has_tx_resources(uct_wimm_iface_t *iface,
                                        uct_wimm_ep_t *ep)
{
    return uct_rc_ep_has_tx_resources(&ep->super.super) &&
           uct_rc_iface_has_tx_resources(&iface->super.super);
}

static uct_pending_req_t *uct_wimm_ep_imm_pending_pull(uct_wimm_ep_t *ep)
{
    uct_pending_req_priv_queue_t *priv;

    priv = ucs_queue_pull_elem_non_empty(&ep->imm_pending,
                                         uct_pending_req_priv_queue_t,
                                         queue_elem);
    return ucs_container_of(priv, uct_pending_req_t, priv);
}

/* Whether the next in the list can go on, as far as slots are needed for it */
static int uct_wimm_ep_imm_pending_is_ready(uct_wimm_ep_t *ep)
{
    uct_pending_req_priv_queue_t *priv;

    if (ucs_queue_is_empty(&ep->imm_pending) || !uct_wimm_ep_is_usable(ep)) {
        return 0;
    }

    priv = ucs_queue_head_elem_non_empty(&ep->imm_pending,
                                         uct_pending_req_priv_queue_t,
                                         queue_elem);
    return (ep->tx_slots > 0) ||
           (ucs_container_of(priv, uct_pending_req_t, priv)->func ==
            uct_wimm_ep_flush_progress);
}

/* Call a request as the one that is at the head of its queue. It may post one
 * notified put ahead of all that waits. What it posts after that, or after
 * anything else, is new (its memory may be a new request by then, or its completion
 * has called the program), and must wait behind the others.
 *
 * @param [out] refused_p  It was refused for want of a slot.
 *
 * @return As the request, but UCS_INPROGRESS if it wants to be called again and
 *         has posted something.
 */
static ucs_status_t uct_wimm_ep_call_pending(uct_wimm_iface_t *iface,
                                             uct_wimm_ep_t *ep,
                                             uct_pending_req_t *req, int is_imm,
                                             int *refused_p)
{
    const uint16_t pi      = ep->super.txcnt.pi;
    uct_wimm_ep_t *prev_ep = iface->dispatch.ep;
    uint16_t prev_pi       = iface->dispatch.pi;
    uint8_t prev_is_imm    = iface->dispatch.is_imm;
    uint8_t prev_refused   = iface->dispatch.refused;
    ucs_status_t status;

    iface->dispatch.ep      = ep;
    iface->dispatch.pi      = pi;
    iface->dispatch.is_imm  = is_imm;
    iface->dispatch.refused = 0;

    status = uct_wimm_rc_iface_invoke_pending_cb(&iface->super.super, req);
    if ((status == UCS_ERR_NO_RESOURCE) && (ep->super.txcnt.pi != pi)) {
        status = UCS_INPROGRESS;
    }

    *refused_p              = iface->dispatch.refused;
    iface->dispatch.ep      = prev_ep;
    iface->dispatch.pi      = prev_pi;
    iface->dispatch.is_imm  = prev_is_imm;
    iface->dispatch.refused = prev_refused;
    return status;
}

/* Call what waits for slots. @return UCS_ERR_NO_RESOURCE if something else is
 * missing. */
static ucs_status_t uct_wimm_ep_imm_progress(uct_wimm_iface_t *iface,
                                             uct_wimm_ep_t *ep)
{
    uct_pending_req_t *req;
    ucs_status_t status;
    int refused;

    while (uct_wimm_ep_imm_pending_is_ready(ep)) {
        /* It may queue itself again, or be released */
        req    = uct_wimm_ep_imm_pending_pull(ep);
        status = uct_wimm_ep_call_pending(iface, ep, req, 1, &refused);
        if (status == UCS_OK) {
            continue;
        }

        ucs_queue_push_head(&ep->imm_pending,
                            uct_pending_req_priv_queue_elem(req));
        if (status != UCS_INPROGRESS) {
            return UCS_ERR_NO_RESOURCE;
        }
    }

    return UCS_OK;
}

static ucs_status_t uct_wimm_ep_imm_req_progress(uct_pending_req_t *self)
{
    uct_wimm_ep_t *ep = ucs_container_of(self, uct_wimm_ep_t, imm_req);
    ucs_status_t status;

    status = uct_wimm_ep_imm_progress(uct_wimm_ep_iface(ep), ep);
    if (status == UCS_OK) {
        ep->flags &= ~UCT_WIMM_EP_FLAG_IMM_REQ;
    }

    return status;
}

static void uct_wimm_ep_group_push(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                                   uct_pending_req_t *req)
{
    uct_pending_req_arb_group_push(&ep->super.super.arb_group, req);
    if (uct_rc_ep_has_tx_resources(&ep->super.super)) {
        ucs_arbiter_group_schedule(&iface->super.super.tx.arbiter,
                                   &ep->super.super.arb_group);
    }
}

void uct_wimm_ep_imm_dispatch(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    if (ep->flags & UCT_WIMM_EP_FLAG_IMM_REQ) {
        return;
    }

    if (uct_wimm_ep_imm_progress(iface, ep) != UCS_OK) {
        ep->flags |= UCT_WIMM_EP_FLAG_IMM_REQ;
        uct_wimm_ep_group_push(iface, ep, &ep->imm_req);
    }
}

ucs_arbiter_cb_result_t uct_wimm_ep_process_pending(
        ucs_arbiter_t UCS_V_UNUSED *arbiter, ucs_arbiter_group_t *group,
        ucs_arbiter_elem_t *elem, void UCS_V_UNUSED *arg)
{
    uct_pending_req_t *req  = ucs_container_of(elem, uct_pending_req_t, priv);
    uct_rc_ep_t *rc_ep      = ucs_container_of(group, uct_rc_ep_t, arb_group);
    uct_wimm_ep_t *ep       = ucs_derived_of(rc_ep, uct_wimm_ep_t);
    uct_wimm_iface_t *iface = uct_wimm_ep_iface(ep);
    ucs_status_t status;
    int refused;

    status = uct_wimm_ep_call_pending(iface, ep, req, 0, &refused);
    if (status == UCS_OK) {
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    } else if (refused) {
        /* Only a slot is missing: what is behind it does not wait for that */
        uct_pending_req_queue_push(&ep->imm_pending, req);
        return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
    } else if (status == UCS_INPROGRESS) {
        return UCS_ARBITER_CB_RESULT_NEXT_GROUP;
    } else if (!uct_rc_iface_has_tx_resources(&iface->super.super)) {
        return UCS_ARBITER_CB_RESULT_STOP;
    }

    return UCS_ARBITER_CB_RESULT_DESCHED_GROUP;
}

ucs_status_t uct_wimm_ep_check_imm_slow(uct_wimm_iface_t *iface,
                                        uct_wimm_ep_t *ep)
{
    int is_head = uct_wimm_ep_is_head(iface, ep);

    if (!is_head && !ucs_arbiter_group_is_empty(&ep->super.super.arb_group)) {
        return UCS_ERR_NO_RESOURCE;
    }

    if (!uct_wimm_ep_has_credit(iface, ep)) {
        ++ep->counters.credit_stalls;
        return UCS_ERR_NO_RESOURCE;
    }

    if ((ep->tx_slots <= 0) || (!ucs_queue_is_empty(&ep->imm_pending) &&
                                !(is_head && iface->dispatch.is_imm))) {
        ++ep->counters.slot_stalls;
        iface->dispatch.refused |= is_head && !iface->dispatch.is_imm;
        return UCS_ERR_NO_RESOURCE;
    }

    return UCS_OK;
}

ucs_status_t uct_wimm_ep_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req,
                                     unsigned flags)
{
    uct_wimm_ep_t *ep = ucs_derived_of(tl_ep, uct_wimm_ep_t);

    /* Not what the base class does: it lets the user post ahead of the queue
     * if there are resources */
    if (ucs_arbiter_group_is_empty(&ep->super.super.arb_group)) {
        return uct_rc_ep_pending_add(tl_ep, req, flags);
    }

    uct_wimm_ep_group_push(uct_wimm_ep_iface(ep), ep, req);
    return UCS_OK;
}

ucs_status_t uct_wimm_ep_imm_pending_add(uct_ep_h tl_ep, uct_pending_req_t *req)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    int has_slot, is_refused;

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);

    if (!uct_wimm_ep_is_usable(ep)) {
        return UCS_ERR_BUSY; /* Posting it tells why */
    }

    has_slot   = (ep->tx_slots > 0) && ucs_queue_is_empty(&ep->imm_pending);
    is_refused = (iface->dispatch.ep == ep) && iface->dispatch.refused;

    /* A request at the head of the group that was refused for want of a slot
     * keeps its place before the others there */
    if (!is_refused) {
        /* Active messages must not find anything in the group if it is a slot
         * that is missing, whatever else is */
        if (!ucs_arbiter_group_is_empty(&ep->super.super.arb_group) ||
            (has_slot && !uct_wimm_ep_has_tx_resources(iface, ep))) {
            uct_wimm_ep_group_push(iface, ep, req);
            return UCS_OK;
        }

        if (has_slot) {
            return UCS_ERR_BUSY;
        }
    }

    uct_pending_req_queue_push(&ep->imm_pending, req);
    return UCS_OK;
}

static ucs_status_t uct_wimm_ep_do_flush(uct_wimm_iface_t *iface,
                                         uct_wimm_ep_t *ep, unsigned flags,
                                         uct_completion_t *comp)
{
    uct_rc_ep_t *rc_ep   = &ep->super.super;
    int already_canceled = rc_ep->flags & UCT_RC_EP_FLAG_FLUSH_CANCEL;
    int16_t wnd          = rc_ep->fc.fc_wnd;
    ucs_status_t status;

    /* It takes no credit, but the base class would wait for one, that is for the
     * software of the peer */
    rc_ep->fc.fc_wnd = 1;
    status = uct_rc_ep_flush(rc_ep, iface->super.config.tx_max_wr, flags);
    rc_ep->fc.fc_wnd = wnd;
    if (status != UCS_INPROGRESS) {
        return status;
    }

    /* First of all: nothing goes out any more, whatever becomes of the rest */
    if ((flags & UCT_FLUSH_FLAG_CANCEL) && !already_canceled) {
        status = uct_ib_modify_qp(ep->super.qp, IBV_QPS_ERR);
        if (status != UCS_OK) {
            rc_ep->flags &= ~UCT_RC_EP_FLAG_FLUSH_CANCEL;
            return status;
        }

        uct_wimm_ep_pending_failed(ep, UCS_ERR_CANCELED);
    }

    if (uct_rc_txqp_unsignaled(&rc_ep->txqp) != 0) {
        status = uct_wimm_ep_post_empty(ep, IBV_SEND_SIGNALED);
        if (status != UCS_OK) {
            return status;
        }
    }

    return uct_rc_txqp_add_flush_comp(&iface->super.super, &rc_ep->super,
                                      &rc_ep->txqp, comp, ep->super.txcnt.pi);
}

static ucs_status_t uct_wimm_ep_flush_progress(uct_pending_req_t *self)
{
    uct_wimm_flush_req_t *req = ucs_derived_of(self, uct_wimm_flush_req_t);
    uct_wimm_ep_t *ep         = req->ep;
    uct_wimm_iface_t *iface   = uct_wimm_ep_iface(ep);
    uct_completion_t *comp    = req->comp;
    ucs_status_t status;

    status = uct_wimm_ep_do_flush(iface, ep, 0, comp);
    if (status == UCS_ERR_NO_RESOURCE) {
        return status;
    }

    ucs_mpool_put_inline(req);
    if (status != UCS_INPROGRESS) {
        uct_wimm_ep_end_turn(iface, ep);
        uct_invoke_completion(comp, status);
    }

    return UCS_OK;
}

/* A flush behind immediates that wait for slots. What is posted after it may go
 * ahead, but it completes only after them. */
static ucs_status_t uct_wimm_ep_flush_wait(uct_wimm_iface_t *iface,
                                           uct_wimm_ep_t *ep,
                                           uct_completion_t *comp)
{
    uct_wimm_flush_req_t *req;

    if (comp != NULL) {
        req = ucs_mpool_get_inline(&iface->dispatch.flush_mp);
        if (req == NULL) {
            ucs_error("failed to allocate memory for a flush");
            return UCS_ERR_NO_MEMORY;
        }

        req->super.func = uct_wimm_ep_flush_progress;
        req->ep         = ep;
        req->comp       = comp;
        uct_pending_req_queue_push(&ep->imm_pending, &req->super);
    }

    return UCS_INPROGRESS;
}

static int uct_wimm_ep_is_canceling(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    uct_pending_req_priv_queue_t *priv;
    uct_wimm_flush_req_t *req;

    ucs_queue_for_each(priv, &iface->dispatch.cancels, queue_elem) {
        req = ucs_container_of(priv, uct_wimm_flush_req_t, super.priv);
        if (req->ep == ep) {
            return 1;
        }
    }

    return 0;
}

/* The user is going to destroy the endpoint: before, it gets what had arrived */
static ucs_status_t uct_wimm_ep_flush_cancel(uct_wimm_iface_t *iface,
                                             uct_wimm_ep_t *ep, unsigned flags,
                                             uct_completion_t *comp)
{
    uct_wimm_flush_req_t *req;
    ucs_status_t status;

    if ((comp == NULL) ||
        ((ep->super.super.flags & UCT_RC_EP_FLAG_FLUSH_CANCEL) &&
         !uct_wimm_ep_is_canceling(iface, ep))) {
        return uct_wimm_ep_do_flush(iface, ep, flags, comp);
    }

    req = ucs_mpool_get_inline(&iface->dispatch.flush_mp);
    if (req == NULL) {
        return uct_wimm_ep_do_flush(iface, ep, flags, comp);
    }

    status = uct_wimm_ep_do_flush(iface, ep, flags, NULL);
    if ((status != UCS_OK) && (status != UCS_INPROGRESS)) {
        ucs_mpool_put_inline(req);
        return status;
    }

    req->ep      = ep;
    req->comp    = comp;
    req->rx_left = iface->fc.srq_len;
    uct_pending_req_queue_push(&iface->dispatch.cancels, &req->super);
    ++iface->deferred;
    return UCS_INPROGRESS;
}

unsigned uct_wimm_pending_progress_cancels(uct_wimm_iface_t *iface,
                                           unsigned rx_count)
{
    size_t left    = ucs_queue_length(&iface->dispatch.cancels);
    unsigned count = 0;
    uct_pending_req_priv_queue_t *priv;
    uct_wimm_flush_req_t *req;
    uct_completion_t *comp;
    ucs_status_t status;

    /* All stay in the queue: completions may destroy the endpoints of any */
    for (; (left > 0) && !ucs_queue_is_empty(&iface->dispatch.cancels);
         --left) {
        priv = ucs_queue_pull_elem_non_empty(&iface->dispatch.cancels,
                                             uct_pending_req_priv_queue_t,
                                             queue_elem);
        req  = ucs_container_of(priv, uct_wimm_flush_req_t, super.priv);
        req->rx_left -= ucs_min(req->rx_left, rx_count);
        if ((rx_count > 0) && (req->rx_left > 0)) {
            uct_pending_req_queue_push(&iface->dispatch.cancels, &req->super);
            continue;
        }

        comp   = req->comp;
        status = uct_wimm_ep_do_flush(iface, req->ep, UCT_FLUSH_FLAG_CANCEL,
                                      comp);
        if (status == UCS_ERR_NO_RESOURCE) {
            uct_pending_req_queue_push(&iface->dispatch.cancels, &req->super);
            continue;
        }

        ucs_mpool_put_inline(req);
        --iface->deferred;
        ++count;
        if (status != UCS_INPROGRESS) {
            uct_invoke_completion(comp, status);
        }
    }

    return count;
}

/* Take the first one of an endpoint out. @return NULL if there is none. */
static uct_wimm_flush_req_t *uct_wimm_ep_pull_cancel(uct_wimm_iface_t *iface,
                                                     uct_wimm_ep_t *ep)
{
    uct_pending_req_priv_queue_t *priv;
    uct_wimm_flush_req_t *req;
    ucs_queue_iter_t iter;

    ucs_queue_for_each_safe(priv, iter, &iface->dispatch.cancels, queue_elem) {
        req = ucs_container_of(priv, uct_wimm_flush_req_t, super.priv);
        if (req->ep == ep) {
            ucs_queue_del_iter(&iface->dispatch.cancels, iter);
            return req;
        }
    }

    return NULL;
}

/* The endpoint is destroyed. A completion may destroy others: all that are left are
 * always in the queue. */
static void uct_wimm_ep_purge_cancels(uct_wimm_iface_t *iface,
                                      uct_wimm_ep_t *ep)
{
    uct_wimm_flush_req_t *req;
    uct_completion_t *comp;

    while ((req = uct_wimm_ep_pull_cancel(iface, ep)) != NULL) {
        comp = req->comp;
        ucs_mpool_put_inline(req);
        --iface->deferred;
        uct_invoke_completion(comp, UCS_ERR_CANCELED);
    }
}

ucs_status_t uct_wimm_ep_flush(uct_ep_h tl_ep, unsigned flags,
                               uct_completion_t *comp)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    ucs_status_t status;

    if (flags & UCT_FLUSH_FLAG_CANCEL) {
        return uct_wimm_ep_flush_cancel(iface, ep, flags, comp);
    }

    if (uct_wimm_ep_is_usable(ep)) {
        /* Also if it is called by the completion of a request that was posted: others
         * may be queued behind that */
        if (!ucs_arbiter_group_is_empty(&ep->super.super.arb_group) &&
            !uct_wimm_ep_is_head(iface, ep)) {
            return UCS_ERR_NO_RESOURCE;
        }

        if (!ucs_queue_is_empty(&ep->imm_pending)) {
            return uct_wimm_ep_flush_wait(iface, ep, comp);
        }
    }

    status = uct_wimm_ep_do_flush(iface, ep, flags, comp);
    if (status == UCS_OK) {
        uct_wimm_ep_end_turn(iface, ep);
    }

    return status;
}

void uct_wimm_ep_pending_init(uct_wimm_ep_t *ep)
{
    ep->imm_req.func = uct_wimm_ep_imm_req_progress;
    ucs_queue_head_init(&ep->imm_pending);
}

static ucs_arbiter_cb_result_t uct_wimm_ep_purge_imm_req_cb(
        ucs_arbiter_t UCS_V_UNUSED *arbiter, ucs_arbiter_group_t *group,
        ucs_arbiter_elem_t *elem, void UCS_V_UNUSED *arg)
{
    uct_rc_ep_t *rc_ep = ucs_container_of(group, uct_rc_ep_t, arb_group);
    uct_wimm_ep_t *ep  = ucs_derived_of(rc_ep, uct_wimm_ep_t);

    if (ucs_container_of(elem, uct_pending_req_t, priv) != &ep->imm_req) {
        return UCS_ARBITER_CB_RESULT_RESCHED_GROUP;
    }

    ep->flags &= ~UCT_WIMM_EP_FLAG_IMM_REQ;
    return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
}

/* Take out what the user has in the list of immediates, and call @a cb for it */
static void uct_wimm_ep_imm_pending_purge(uct_wimm_ep_t *ep,
                                          uct_pending_purge_callback_t cb,
                                          void *arg)
{
    ucs_queue_head_t list;
    uct_pending_req_priv_queue_t *priv;
    uct_pending_req_t *req;

    ucs_queue_head_init(&list);
    ucs_queue_splice(&list, &ep->imm_pending);
    ucs_queue_for_each_extract(priv, &list, queue_elem, 1) {
        req = ucs_container_of(priv, uct_pending_req_t, priv);
        if (req->func == uct_wimm_ep_flush_progress) {
            uct_pending_req_queue_push(&ep->imm_pending, req);
        } else if (cb != NULL) {
            cb(req, arg);
        } else {
            ucs_debug("ep %p: canceling user pending request %p", ep, req);
        }
    }
}

void uct_wimm_ep_pending_purge(uct_ep_h tl_ep, uct_pending_purge_callback_t cb,
                               void *arg)
{
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    uct_wimm_iface_t *iface = uct_wimm_ep_iface(ep);

    if (ep->user != NULL) {
        ep->user->purged(ep->user, cb, arg);
    }

    ucs_arbiter_group_purge(&iface->super.super.tx.arbiter,
                            &ep->super.super.arb_group,
                            uct_wimm_ep_purge_imm_req_cb, NULL);
    uct_wimm_ep_imm_pending_purge(ep, cb, arg);
    uct_rc_ep_pending_purge(tl_ep, cb, arg);

    /* Flushes have nothing to wait for any more */
    uct_wimm_ep_imm_dispatch(iface, ep);
}

void uct_wimm_ep_pending_cleanup(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    uct_wimm_ep_purge_cancels(iface, ep);
    uct_wimm_ep_pending_failed(ep, UCS_ERR_CANCELED);
    ucs_arbiter_group_purge(&iface->super.super.tx.arbiter,
                            &ep->super.super.arb_group,
                            uct_wimm_ep_purge_imm_req_cb, NULL);
    uct_wimm_ep_imm_pending_purge(ep, uct_rc_ep_pending_purge_warn_cb, ep);
}

static ucs_arbiter_cb_result_t uct_wimm_ep_set_aside_cb(
        ucs_arbiter_t *arbiter, ucs_arbiter_group_t *group,
        ucs_arbiter_elem_t *elem, void *arg)
{
    uct_wimm_ep_t *ep = arg;

    if ((uct_wimm_ep_purge_imm_req_cb(arbiter, group, elem, NULL) !=
         UCS_ARBITER_CB_RESULT_REMOVE_ELEM) &&
        (uct_rc_ep_arbiter_purge_internal_cb(arbiter, group, elem, NULL) !=
         UCS_ARBITER_CB_RESULT_REMOVE_ELEM)) {
        uct_pending_req_queue_push(&ep->imm_pending,
                                   ucs_container_of(elem, uct_pending_req_t,
                                                    priv));
    }

    return UCS_ARBITER_CB_RESULT_REMOVE_ELEM;
}

void uct_wimm_ep_pending_set_aside(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    /* The list of an endpoint that cannot be used is not called */
    ucs_arbiter_group_purge(&iface->super.super.tx.arbiter,
                            &ep->super.super.arb_group,
                            uct_wimm_ep_set_aside_cb, ep);
}

void uct_wimm_ep_pending_failed(uct_wimm_ep_t *ep, ucs_status_t status)
{
    ucs_queue_head_t list;
    uct_pending_req_priv_queue_t *priv;
    uct_wimm_flush_req_t *flush_req;
    uct_pending_req_t *req;
    uct_completion_t *comp;

    ucs_queue_head_init(&list);
    ucs_queue_splice(&list, &ep->imm_pending);
    ucs_queue_for_each_extract(priv, &list, queue_elem, 1) {
        req = ucs_container_of(priv, uct_pending_req_t, priv);
        if (req->func != uct_wimm_ep_flush_progress) {
            uct_pending_req_queue_push(&ep->imm_pending, req);
            continue;
        }

        flush_req = ucs_derived_of(req, uct_wimm_flush_req_t);
        comp      = flush_req->comp;
        ucs_mpool_put_inline(flush_req);
        uct_invoke_completion(comp, status);
    }
}
