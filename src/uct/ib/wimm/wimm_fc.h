/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_FC_H_
#define UCT_WIMM_FC_H_

#include "wimm_def.h"
#include "wimm_ep.h"

/*
 * Receive credits. One per active message and per notified put, granted by the
 * receiver as far as its shared receive queue goes. They come back when the
 * receive is posted again, whatever the program does with what arrived. The
 * sender's half is UCX's own window (fc.fc_wnd), which active messages of the
 * base class check, too.
 *
 * Of the receive queue, two batches are those that are about to be posted again.
 * Each endpoint has three receives for itself: a credit that it always gets back,
 * one for a grant (the next one is sent when something arrives that the peer can
 * send only after it has read the last), and one for a reclaim. What remains is
 * the pool.
 */

/* Receives that an endpoint has for itself */
#define UCT_WIMM_FC_RX_PER_EP 3

/* Receives are set aside for endpoints before they exist: for a quarter as many as
 * there are receives, and for no more than this. What the others hold by then can
 * be taken back only when their peers answer. */
#define UCT_WIMM_FC_RX_MAX_RESERVE 256


void uct_wimm_fc_init(uct_wimm_iface_t *iface);

/* Smallest receive queue with which a number of endpoints does without RNR */
unsigned uct_wimm_fc_min_srq_len(const uct_wimm_iface_t *iface,
                                 unsigned num_eps);

/* A new endpoint: set aside its initial credits */
void uct_wimm_fc_ep_init(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep);

/* The peer's address came: @a credits is its first grant, 0 if its flow control is
 * off */
void uct_wimm_fc_ep_connected(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                              unsigned credits);

/* What an endpoint holds of the pool */
static UCS_F_ALWAYS_INLINE int uct_wimm_fc_shared(const uct_wimm_ep_t *ep)
{
    return ucs_max(ep->rx_credits - 1, 0);
}

/* An endpoint goes away: its control messages do, its credits only when nothing
 * of it is left in the receive completion queue */
void uct_wimm_fc_ep_cleanup(uct_wimm_ep_t *ep);
void uct_wimm_fc_ep_released(uct_wimm_iface_t *iface, int shared);

/* Queue a control message */
void uct_wimm_fc_schedule(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                          uct_wimm_ctrl_op_t op);

/* Send what is queued and can be sent. What lacks a credit is sent when the grant
 * comes. */
void uct_wimm_fc_progress(uct_wimm_iface_t *iface);

/* An arriving control message with its data; @a ep is NULL if it is gone */
void uct_wimm_fc_handle_ctrl(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                             const struct ibv_wc *wc, const void *data);

/* Request bits of UCX's own scheme in an active message. Our senders never set
 * them, unless their thresholds were changed behind our back. */
ucs_status_t uct_wimm_fc_handler(uct_rc_iface_t *rc_iface, unsigned qp_num,
                                 uct_rc_hdr_t *hdr, unsigned length,
                                 uint32_t imm_data, uint16_t lid,
                                 unsigned flags);

void uct_wimm_fc_overrun(uct_wimm_ep_t *ep, const struct ibv_wc *wc);


/* A message arrived that takes a credit. @return Whether the peer had one. */
static UCS_F_ALWAYS_INLINE int uct_wimm_fc_received(uct_wimm_iface_t *iface,
                                                    uct_wimm_ep_t *ep,
                                                    const struct ibv_wc *wc)
{
    if (ucs_unlikely(!(ep->flags & UCT_WIMM_EP_FLAG_FC))) {
        return 1;
    }

    if (ucs_unlikely(ep->rx_credits <= 0)) {
        uct_wimm_fc_overrun(ep, wc);
        return 0;
    }

    iface->fc.shared_used -= (--ep->rx_credits > 0);
    if (ucs_unlikely(ep->rx_credits <= iface->fc.grant_level)) {
        uct_wimm_fc_schedule(iface, ep, UCT_WIMM_CTRL_GRANT);
    }

    return 1;
}

#endif
