/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_IMM_H_
#define UCT_WIMM_IMM_H_

#include "wimm_fc.h"

/*
 * Arrival of notified puts. A notification takes a receive, which is posted again
 * before the handler runs, and one of the slots that the peer has here, until it
 * is consumed. Slots bound what can wait for a handler, or be held by it.
 */

ucs_status_t uct_wimm_imm_init(uct_wimm_iface_t *iface);
void uct_wimm_imm_cleanup(uct_wimm_iface_t *iface);

/* Drop what waits for an endpoint that goes away */
void uct_wimm_imm_purge(uct_wimm_iface_t *iface, uint32_t qp_num);

/* Whether arriving notifications have to wait, for a handler or for others */
static UCS_F_ALWAYS_INLINE int uct_wimm_imm_waits(const uct_wimm_iface_t *iface)
{
    return (iface->imm.cb == NULL) || !ucs_queue_is_empty(&iface->imm.waiting);
}

/* Whether there is something that waits and somebody to deliver it to */
static UCS_F_ALWAYS_INLINE int uct_wimm_imm_is_deliverable(
        const uct_wimm_iface_t *iface)
{
    return !ucs_queue_is_empty(&iface->imm.waiting) && (iface->imm.cb != NULL);
}

/* Deliver what waited for a handler, as long as there is one */
unsigned uct_wimm_imm_progress(uct_wimm_iface_t *iface);

/* Keep a notification until there is a handler */
void uct_wimm_imm_wait(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                       const struct ibv_wc *wc, size_t length);

/* A notification is lost: no later one may be delivered, and the connection fails */
void uct_wimm_imm_lost(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                       ucs_status_t status);

/* The length of the put that ends with this message, whose length was announced.
 * @return 0 if it is longer than that: the connection is closed. */
size_t uct_wimm_imm_announced(uct_wimm_ep_t *ep, const struct ibv_wc *wc);

/* The peer announces a put of several messages. @return UCS_OK, or an error if it
 * is none. */
ucs_status_t uct_wimm_imm_handle_length(uct_wimm_ep_t *ep, uint64_t length);

void uct_wimm_imm_overrun(uct_wimm_ep_t *ep, const struct ibv_wc *wc);


/* Return slots if enough are consumed, or if the peer may have none left */
static UCS_F_ALWAYS_INLINE void uct_wimm_imm_return_slots(
        uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    if (ucs_unlikely((ep->rx_return >= iface->config.slot_batch) ||
                     ((ep->rx_slots >= iface->config.num_slots) &&
                      (ep->rx_return > 0)))) {
        uct_wimm_fc_schedule(iface, ep, UCT_WIMM_CTRL_SLOTS);
    }
}


static UCS_F_ALWAYS_INLINE void uct_wimm_imm_deliver(uct_wimm_iface_t *iface,
                                                     uct_wimm_ep_t *ep,
                                                     uint32_t qp_num,
                                                     uint32_t imm,
                                                     size_t length)
{
    unsigned num_destroyed = iface->imm.num_destroyed;
    ucs_status_t status;

    ucs_trace_data("ep %p: notification 0x%x, %zu bytes", ep, imm, length);
    ++ep->counters.delivered;
    ++ep->rx_held;
    status = iface->imm.cb(iface->imm.arg, &ep->super.super.super.super, imm,
                           length);

    /* The handler may have destroyed the endpoint. Its queue pair is still
     * there, so no other endpoint has that number yet. */
    if (ucs_unlikely((iface->imm.num_destroyed != num_destroyed) &&
                     (uct_wimm_ep_lookup(iface, qp_num) != ep))) {
        return;
    }

    if (ucs_unlikely(UCS_STATUS_IS_ERR(status))) {
        uct_wimm_imm_lost(iface, ep, status);
        return;
    }

    if (ucs_likely((status != UCS_INPROGRESS) && (ep->rx_held > 0))) {
        --ep->rx_held;
        ++ep->rx_return;
    }

    uct_wimm_imm_return_slots(iface, ep);
}


/* A notification arrived, and its receive descriptor was released; @a ep is NULL
 * if it is gone */
static UCS_F_ALWAYS_INLINE void uct_wimm_imm_received(uct_wimm_iface_t *iface,
                                                      uct_wimm_ep_t *ep,
                                                      const struct ibv_wc *wc)
{
    size_t length = wc->byte_len;

    if (ucs_unlikely(ep == NULL)) {
        /* Without its endpoint nobody could tell what it belongs to */
        ucs_debug("qp 0x%x: dropped a notification for a destroyed endpoint",
                  wc->qp_num);
        return;
    }

    if (ucs_unlikely(!uct_wimm_fc_received(iface, ep, wc))) {
        return;
    }

    if (ucs_unlikely(ep->rx_slots >= iface->config.num_slots)) {
        uct_wimm_imm_overrun(ep, wc);
        return;
    }

    if (ucs_unlikely(ep->rx_length != 0)) {
        length = uct_wimm_imm_announced(ep, wc);
        if (length == 0) {
            return;
        }
    }

    ++ep->rx_slots;
    if (ucs_unlikely(uct_wimm_imm_waits(iface))) {
        uct_wimm_imm_wait(iface, ep, wc, length);
    } else {
        uct_wimm_imm_deliver(iface, ep, wc->qp_num, ntohl(wc->imm_data),
                             length);
    }
}

#endif
