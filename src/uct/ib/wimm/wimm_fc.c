/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_fc.h"
#include "wimm_imm.h"
#include "wimm_pending.h"

#include <ucs/debug/log.h>
#include <ucs/sys/math.h>
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>


/* Receives that may have been taken, and are not posted again yet */
static unsigned uct_wimm_fc_slack(const uct_wimm_iface_t *iface,
                                  unsigned srq_len)
{
    return 2 * ucs_max(ucs_min(iface->config.rx_max_batch, srq_len / 4), 1);
}

/* Receives that are there for endpoints, whatever happens */
static int uct_wimm_fc_available(const uct_wimm_iface_t *iface)
{
    return (int)iface->fc.srq_len -
           (int)uct_wimm_fc_slack(iface, iface->fc.srq_len);
}

static void uct_wimm_fc_update(uct_wimm_iface_t *iface)
{
    const uct_rc_iface_t *rc_iface = &iface->super.super;
    int num_eps                    = iface->fc.num_eps;
    int available                  = uct_wimm_fc_available(iface);
    int reserve, target;

    reserve = ucs_min(available / 4, UCT_WIMM_FC_RX_MAX_RESERVE);
    reserve = ucs_max(reserve, num_eps);
    target  = rc_iface->config.fc_wnd_size;

    iface->fc.pool = available - (UCT_WIMM_FC_RX_PER_EP * reserve);
    if (num_eps > 0) {
        target = ucs_min(target, (iface->fc.pool / num_eps) + 1);
    }

    iface->fc.target      = ucs_max(target, 1);
    iface->fc.grant_level = iface->fc.target / 2;
}

void uct_wimm_fc_init(uct_wimm_iface_t *iface)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    struct ibv_cq *rx_cq     = rc_iface->super.cq[UCT_IB_DIR_RX];

    /* The device may have made the receive queue longer than it was asked to.
     * The completion queue must never be the shorter one. */
    rc_iface->rx.srq.quota = ucs_min(rc_iface->rx.srq.quota,
                                     (unsigned)rx_cq->cqe);

    if (rc_iface->config.fc_enabled) {
        rc_iface->config.fc_wnd_size = ucs_min(rc_iface->config.fc_wnd_size,
                                               UCT_WIMM_MAX_CREDITS);

        /* For active messages of the base class: a window, no requests */
        rc_iface->config.fc_soft_thresh = 0;
        rc_iface->config.fc_hard_thresh = -1;
    }

    ucs_list_head_init(&iface->fc.ctrl_list);
    iface->fc.shared_used  = 0;
    iface->fc.num_eps      = 0;
    iface->fc.reclaim_wait = 0;
    iface->fc.srq_len      = rc_iface->rx.srq.quota;
    iface->fc.srq_warned   = 0;
    uct_wimm_fc_update(iface);
}

unsigned uct_wimm_fc_min_srq_len(const uct_wimm_iface_t *iface,
                                 unsigned num_eps)
{
    unsigned per_ep  = UCT_WIMM_FC_RX_PER_EP * num_eps;
    unsigned srq_len = per_ep + uct_wimm_fc_slack(iface, UINT_MAX);

    /* A shorter queue has smaller batches */
    while ((srq_len - 1) >= (per_ep + uct_wimm_fc_slack(iface, srq_len - 1))) {
        --srq_len;
    }

    return srq_len;
}

/* Whether the peer was there to receive: a grant answers what came from it. Ours
 * may be the first message otherwise, and the peer not connected yet: the device
 * would repeat it, and hold up what is behind it, until the peer is, or fail. */
static int uct_wimm_fc_peer_was_there(const uct_wimm_ep_t *ep)
{
    return (ep->rx_grant > 0) || (ep->rx_credits < ep->rx_initial) ||
           (ep->super.txcnt.ci != 0);
}

/* Ask endpoints that hold more than their share to give credits back. However
 * little each has, together they may have all that another one lacks. None is
 * asked twice, unless its share has become smaller. It looks at all of them, so
 * it is done once per as many calls. */
static void uct_wimm_fc_reclaim(uct_wimm_iface_t *iface)
{
    uct_rc_ep_t *rc_ep;
    uct_wimm_ep_t *ep;

    if (iface->fc.reclaim_wait > 0) {
        --iface->fc.reclaim_wait;
        return;
    }

    iface->fc.reclaim_wait = iface->fc.num_eps;
    ucs_list_for_each(rc_ep, &iface->super.super.ep_list, list) {
        ep = ucs_derived_of(rc_ep, uct_wimm_ep_t);
        if ((ep->rx_credits > iface->fc.target) && uct_wimm_ep_is_usable(ep) &&
            uct_wimm_fc_peer_was_there(ep) &&
            ((ep->flags & (UCT_WIMM_EP_FLAG_FC | UCT_WIMM_EP_FLAG_RECLAIMING)) ==
             UCT_WIMM_EP_FLAG_FC)) {
            ep->flags |= UCT_WIMM_EP_FLAG_RECLAIMING;
            uct_wimm_fc_schedule(iface, ep, UCT_WIMM_CTRL_RECLAIM);
        }
    }
}

void uct_wimm_fc_ep_init(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    unsigned min_srq_len;
    int credits;

    ++iface->fc.num_eps;
    uct_wimm_fc_update(iface);

    ep->ctrl       = 0;
    ep->rx_grant   = 0;
    ep->rx_credits = 0;
    ep->rx_initial = 0;
    ep->tx_return  = 0;
    if (!iface->super.super.config.fc_enabled) {
        return;
    }

    min_srq_len = uct_wimm_fc_min_srq_len(iface, iface->fc.num_eps);
    if ((iface->fc.srq_len < min_srq_len) && !iface->fc.srq_warned) {
        iface->fc.srq_warned = 1;
        ucs_warn("a receive queue of %u is short for %u endpoints on"
                 " " UCT_IB_IFACE_FMT ": senders may have to wait for receives"
                 " (RNR) unless UCX_WIMM_RX_QUEUE_LEN is %u or more",
                 iface->fc.srq_len, iface->fc.num_eps,
                 UCT_IB_IFACE_ARG(&iface->super.super.super), min_srq_len);
    }

    /* Not all that is free: as many endpoints as the queue is long enough for may
     * be created before any of the initial credits can be taken back */
    credits        = ucs_min(iface->fc.pool, uct_wimm_fc_available(iface) / 4);
    credits        = (credits - iface->fc.shared_used + 1) / 3;
    credits        = ucs_min(credits, iface->fc.target);
    ep->rx_credits = ucs_max(credits, 1);
    ep->rx_initial = ep->rx_credits;

    iface->fc.shared_used += uct_wimm_fc_shared(ep);
    if (iface->fc.shared_used > iface->fc.pool) {
        uct_wimm_fc_reclaim(iface);
    }
}

void uct_wimm_fc_ep_connected(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                              unsigned credits)
{
    if (iface->super.super.config.fc_enabled && (credits > 0)) {
        ep->flags |= UCT_WIMM_EP_FLAG_FC;
        ep->super.super.fc.fc_wnd = credits;
        return;
    }

    /* One side has no flow control: nothing is counted */
    iface->fc.shared_used -= uct_wimm_fc_shared(ep);
    ep->rx_credits            = 0;
    ep->super.super.fc.fc_wnd = INT16_MAX;
}

static void uct_wimm_fc_ctrl_list_add(uct_wimm_iface_t *iface,
                                      uct_wimm_ep_t *ep)
{
    if (!(ep->flags & UCT_WIMM_EP_FLAG_CTRL_LIST)) {
        ep->flags |= UCT_WIMM_EP_FLAG_CTRL_LIST;
        ucs_list_add_tail(&iface->fc.ctrl_list, &ep->ctrl_list);
    }
}

static void uct_wimm_fc_ctrl_list_del(uct_wimm_ep_t *ep)
{
    if (ep->flags & UCT_WIMM_EP_FLAG_CTRL_LIST) {
        ep->flags &= ~UCT_WIMM_EP_FLAG_CTRL_LIST;
        ucs_list_del(&ep->ctrl_list);
    }
}

void uct_wimm_fc_ep_cleanup(uct_wimm_ep_t *ep)
{
    ep->ctrl = 0;
    uct_wimm_fc_ctrl_list_del(ep);
}

void uct_wimm_fc_ep_released(uct_wimm_iface_t *iface, int shared)
{
    iface->fc.shared_used -= shared;
    --iface->fc.num_eps;
    uct_wimm_fc_update(iface);
}

void uct_wimm_fc_schedule(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                          uct_wimm_ctrl_op_t op)
{
    ep->ctrl |= UCS_BIT(op);
    uct_wimm_fc_ctrl_list_add(iface, ep);
}

static ucs_status_t uct_wimm_fc_post(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                                     uct_wimm_ctrl_op_t op, unsigned amount)
{
    struct ibv_send_wr wr;
    ucs_status_t status;

    UCT_RC_CHECK_TX_CQ_RES(&iface->super.super, &ep->super.super);

    wr.opcode   = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(((uint32_t)op << UCT_WIMM_CTRL_OP_SHIFT) | amount);
    wr.sg_list  = NULL;
    wr.num_sge  = 0;

    /* Also for a peer that sleeps until something is received */
    status = uct_wimm_ep_post_send(iface, ep, &wr, IBV_SEND_SOLICITED);
    if (ucs_likely(status == UCS_OK)) {
        ucs_trace_data("ep %p: sent control message %d amount %u", ep, op,
                       amount);
        ++ep->counters.ctrl_sent;
    }

    return status;
}

/* How much may be granted to an endpoint now */
static int uct_wimm_fc_grant_amount(const uct_wimm_iface_t *iface,
                                    const uct_wimm_ep_t *ep)
{
    int target = iface->fc.target;
    int amount, available;

    if ((ep->rx_grant > 0) && (ep->rx_credits >= ep->rx_grant)) {
        return 0; /* The last one may not have been read yet */
    }

    available = iface->fc.pool - iface->fc.shared_used;
    if (ucs_unlikely((ep->flags & UCT_WIMM_EP_FLAG_GRANT_ASKED) &&
                     (available > 0))) {
        return ucs_min(target, available);
    }

    if (ep->rx_credits > iface->fc.grant_level) {
        return 0;
    }

    if (ep->rx_credits == 0) {
        /* An endpoint is never left without its own credit */
        amount = ucs_min(target, available + 1);
        return ucs_max(amount, 1);
    }

    amount = ucs_min(target - ep->rx_credits, available);
    return (amount >= ucs_div_round_up(target, 4)) ? amount : 0;
}

static ucs_status_t uct_wimm_fc_send_grant(uct_wimm_iface_t *iface,
                                           uct_wimm_ep_t *ep)
{
    int amount = uct_wimm_fc_grant_amount(iface, ep);
    int shared = uct_wimm_fc_shared(ep);
    ucs_status_t status;

    if (amount > 0) {
        status = uct_wimm_fc_post(iface, ep, UCT_WIMM_CTRL_GRANT, amount);
        if (status != UCS_OK) {
            return status;
        }

        ++ep->counters.grants;
        ep->flags &= ~UCT_WIMM_EP_FLAG_GRANT_ASKED;
        ep->rx_grant = amount;
        ep->rx_credits += amount;
        iface->fc.shared_used += uct_wimm_fc_shared(ep) - shared;
    }

    /* Others have what it lacks */
    if ((ep->rx_credits <= iface->fc.grant_level) &&
        ((iface->fc.pool - iface->fc.shared_used) <
         (iface->fc.target - ep->rx_credits))) {
        uct_wimm_fc_reclaim(iface);
    }

    return UCS_OK;
}

static ucs_status_t uct_wimm_fc_send_return(uct_wimm_iface_t *iface,
                                            uct_wimm_ep_t *ep)
{
    int16_t *wnd = &ep->super.super.fc.fc_wnd;
    int16_t amount;
    ucs_status_t status;

    amount = ucs_max(ucs_min(ep->tx_return, *wnd), 1);
    status = uct_wimm_fc_post(iface, ep, UCT_WIMM_CTRL_RETURN, amount - 1);
    if (status == UCS_OK) {
        *wnd -= amount;
        ep->tx_return = 0;
    }

    return status;
}

/* How much may be granted along with slots. That message takes a credit, and none of
 * the receives that are there for grants alone: it need not be known that the last
 * one of these was read. Only what leaves nothing to ask others for. */
static int uct_wimm_fc_ride_amount(const uct_wimm_iface_t *iface,
                                   const uct_wimm_ep_t *ep)
{
    int amount = iface->fc.target - ep->rx_credits;

    if (((ep->flags & (UCT_WIMM_EP_FLAG_FC | UCT_WIMM_EP_FLAG_GRANT_ASKED |
                       UCT_WIMM_EP_FLAG_RECLAIMING)) != UCT_WIMM_EP_FLAG_FC) ||
        (ep->rx_credits <= 0) ||
        (amount < ucs_div_round_up(iface->fc.target, 4)) ||
        (amount > (iface->fc.pool - iface->fc.shared_used))) {
        return 0;
    }

    return amount;
}

static ucs_status_t uct_wimm_fc_send_slots(uct_wimm_iface_t *iface,
                                           uct_wimm_ep_t *ep)
{
    int grant    = uct_wimm_fc_ride_amount(iface, ep);
    int shared   = uct_wimm_fc_shared(ep);
    int was_read = (ep->rx_grant == 0) || (ep->rx_credits < ep->rx_grant);
    ucs_status_t status;

    status = uct_wimm_fc_post(iface, ep, UCT_WIMM_CTRL_SLOTS,
                              ep->rx_return |
                                      (grant << UCT_WIMM_CTRL_GRANT_SHIFT));
    if (status != UCS_OK) {
        return status;
    }

    ++ep->counters.slot_returns;
    --ep->super.super.fc.fc_wnd;
    ep->rx_slots -= ep->rx_return;
    ep->rx_return = 0;
    if (grant > 0) {
        ++ep->counters.grants;
        ep->ctrl &= ~UCS_BIT(UCT_WIMM_CTRL_GRANT);
        ep->rx_credits += grant;
        iface->fc.shared_used += uct_wimm_fc_shared(ep) - shared;

        /* What is known of the last one that went alone stays known */
        ep->rx_grant = was_read ? (ep->rx_credits + 1) : (ep->rx_grant + grant);
    }

    return UCS_OK;
}

/* Whether a grant that is due goes with slots: also with some that could wait. Not if
 * credits go back before, maybe the one that the slots would take. */
static int uct_wimm_fc_grant_rides(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    return !(ep->ctrl & UCS_BIT(UCT_WIMM_CTRL_RETURN)) &&
           (ep->rx_return >= ucs_max(iface->config.slot_batch / 2, 1)) &&
           (uct_wimm_fc_ride_amount(iface, ep) > 0) &&
           uct_wimm_ep_has_credit(iface, ep);
}

/* Send one of those that are queued. @return UCS_OK: it is done. */
static ucs_status_t uct_wimm_fc_send_next(uct_wimm_iface_t *iface,
                                          uct_wimm_ep_t *ep,
                                          uct_wimm_ctrl_op_t op)
{
    switch (op) {
    case UCT_WIMM_CTRL_GRANT:
        return uct_wimm_fc_send_grant(iface, ep);
    case UCT_WIMM_CTRL_RECLAIM:
        return uct_wimm_fc_post(iface, ep, op, iface->fc.target);
    case UCT_WIMM_CTRL_RETURN:
        return uct_wimm_fc_send_return(iface, ep);
    case UCT_WIMM_CTRL_SLOTS:
    default:
        return uct_wimm_fc_send_slots(iface, ep);
    }
}

/* Send what is queued on an endpoint, which stays on the list only if something
 * other than a credit is missing */
static void uct_wimm_fc_ep_progress(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    uct_wimm_ctrl_op_t op;
    ucs_status_t status;

    /* Those that take no credit have the lower numbers, and come first */
    for (op = UCT_WIMM_CTRL_GRANT; op <= UCT_WIMM_CTRL_SLOTS; ++op) {
        if (!(ep->ctrl & UCS_BIT(op))) {
            continue;
        }

        if (ucs_unlikely(!uct_wimm_ep_is_usable(ep))) {
            ep->ctrl = 0;
            break;
        }

        if ((op == UCT_WIMM_CTRL_GRANT) && uct_wimm_fc_grant_rides(iface, ep)) {
            ep->ctrl |= UCS_BIT(UCT_WIMM_CTRL_SLOTS);
            continue;
        }

        if ((op >= UCT_WIMM_CTRL_RETURN) &&
            !uct_wimm_ep_has_credit(iface, ep)) {
            break; /* The grant goes on with it */
        }

        status = uct_wimm_fc_send_next(iface, ep, op);
        if (status == UCS_ERR_NO_RESOURCE) {
            uct_wimm_fc_ctrl_list_add(iface, ep);
            return;
        } else if (status != UCS_OK) {
            ep->ctrl = 0; /* The endpoint has failed */
            break;
        }

        ep->ctrl &= ~UCS_BIT(op);
    }

    uct_wimm_fc_ctrl_list_del(ep);
}

void uct_wimm_fc_progress(uct_wimm_iface_t *iface)
{
    uct_wimm_ep_t *ep, *tmp;

    ucs_list_for_each_safe(ep, tmp, &iface->fc.ctrl_list, ctrl_list) {
        uct_wimm_fc_ep_progress(iface, ep);
    }
}

static ucs_status_t uct_wimm_fc_handle_grant(uct_wimm_iface_t *iface,
                                             uct_wimm_ep_t *ep, unsigned amount)
{
    int16_t *wnd  = &ep->super.super.fc.fc_wnd;
    int16_t start = *wnd;

    if ((amount == 0) || ((int)amount > (UCT_WIMM_MAX_CREDITS - start))) {
        return UCS_ERR_INVALID_PARAM;
    }

    *wnd += amount;
    if (start <= 0) {
        /* Control messages that have waited for a credit come before what is
         * queued, which may need as many as there are. The queue runs before
         * any user code can post: it would overtake. */
        if (ep->ctrl != 0) {
            uct_wimm_fc_ep_progress(iface, ep);
        }

        ucs_arbiter_group_schedule(&iface->super.super.tx.arbiter,
                                   &ep->super.super.arb_group);
        uct_wimm_iface_arbiter_dispatch(iface);
    }

    return UCS_OK;
}

static ucs_status_t uct_wimm_fc_handle_reclaim(uct_wimm_iface_t *iface,
                                               uct_wimm_ep_t *ep,
                                               unsigned amount)
{
    int wnd = ep->super.super.fc.fc_wnd;

    ep->tx_return = (wnd > (int)amount) ? (wnd - (int)amount) : 0;
    uct_wimm_fc_schedule(iface, ep, UCT_WIMM_CTRL_RETURN);
    return UCS_OK;
}

static ucs_status_t uct_wimm_fc_handle_return(uct_wimm_iface_t *iface,
                                              uct_wimm_ep_t *ep,
                                              unsigned amount)
{
    int shared = uct_wimm_fc_shared(ep);

    /* The credit of the message itself is counted already */
    if (!(ep->flags & UCT_WIMM_EP_FLAG_RECLAIMING) ||
        ((int)amount > ep->rx_credits)) {
        return UCS_ERR_INVALID_PARAM;
    }

    ep->flags &= ~UCT_WIMM_EP_FLAG_RECLAIMING;
    ep->rx_credits -= amount;
    iface->fc.shared_used += uct_wimm_fc_shared(ep) - shared;
    if (ep->rx_credits <= iface->fc.grant_level) {
        uct_wimm_fc_schedule(iface, ep, UCT_WIMM_CTRL_GRANT);
    }

    return UCS_OK;
}

static ucs_status_t uct_wimm_fc_handle_slots(uct_wimm_iface_t *iface,
                                             uct_wimm_ep_t *ep, uint32_t qp_num,
                                             unsigned amount)
{
    unsigned slots = amount & UCT_WIMM_CTRL_SLOTS_MASK;
    unsigned grant = amount >> UCT_WIMM_CTRL_GRANT_SHIFT;
    ucs_status_t status;

    if ((slots == 0) || (slots > (unsigned)(ep->tx_num_slots - ep->tx_slots)) ||
        ((grant > 0) && !(ep->flags & UCT_WIMM_EP_FLAG_FC))) {
        return UCS_ERR_INVALID_PARAM;
    }

    /* Both are there before anything is sent */
    ep->tx_slots += slots;
    if (grant > 0) {
        status = uct_wimm_fc_handle_grant(iface, ep, grant);
        if ((status != UCS_OK) || (uct_wimm_ep_lookup(iface, qp_num) != ep)) {
            return status; /* What was queued may have destroyed the endpoint */
        }
    }

    uct_wimm_ep_imm_dispatch(iface, ep);
    return UCS_OK;
}

void uct_wimm_fc_handle_ctrl(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                             const struct ibv_wc *wc, const void *data)
{
    uint32_t imm          = ntohl(wc->imm_data);
    uct_wimm_ctrl_op_t op = imm >> UCT_WIMM_CTRL_OP_SHIFT;
    unsigned amount       = imm & UCT_WIMM_CTRL_AMOUNT_MASK;
    ucs_status_t status   = UCS_ERR_INVALID_PARAM;
    uint64_t length;

    /* A length belongs to a notification, which is delivered all the same */
    if ((ep == NULL) ||
        (!uct_wimm_ep_is_usable(ep) && (op != UCT_WIMM_CTRL_LENGTH))) {
        return;
    }

    ucs_trace_data("ep %p: got control message %d amount %u", ep, op, amount);
    ++ep->counters.ctrl_received;

    if (wc->byte_len != ((op == UCT_WIMM_CTRL_LENGTH) ? sizeof(length) : 0)) {
        uct_wimm_iface_protocol_error(ep, wc,
                                      "control message of a wrong length");
        return;
    }

    if (op == UCT_WIMM_CTRL_SLOTS) {
        if (!uct_wimm_fc_received(iface, ep, wc)) {
            return;
        }
        status = uct_wimm_fc_handle_slots(iface, ep, wc->qp_num, amount);
    } else if (op == UCT_WIMM_CTRL_LENGTH) {
        if (!uct_wimm_fc_received(iface, ep, wc)) {
            return;
        }
        memcpy(&length, data, sizeof(length));
        if (amount == 0) {
            status = uct_wimm_imm_handle_length(ep, be64toh(length));
        }
    } else if (ep->flags & UCT_WIMM_EP_FLAG_FC) {
        switch (op) {
        case UCT_WIMM_CTRL_GRANT:
            status = uct_wimm_fc_handle_grant(iface, ep, amount);
            break;
        case UCT_WIMM_CTRL_RECLAIM:
            status = uct_wimm_fc_handle_reclaim(iface, ep, amount);
            break;
        case UCT_WIMM_CTRL_RETURN:
            if (!uct_wimm_fc_received(iface, ep, wc)) {
                return;
            }
            status = uct_wimm_fc_handle_return(iface, ep, amount);
            break;
        default:
            break;
        }
    }

    if (status != UCS_OK) {
        uct_wimm_iface_protocol_error(ep, wc, "unknown control message");
        if (op == UCT_WIMM_CTRL_LENGTH) {
            /* The length of the next notification is not known */
            uct_wimm_imm_lost(iface, ep, UCS_ERR_CONNECTION_RESET);
        }
    }
}

void uct_wimm_fc_overrun(uct_wimm_ep_t *ep, const struct ibv_wc *wc)
{
    uct_wimm_iface_protocol_error(ep, wc, "message beyond the peer's credits");
}

ucs_status_t uct_wimm_fc_handler(uct_rc_iface_t *rc_iface, unsigned qp_num,
                                 uct_rc_hdr_t *hdr, unsigned length,
                                 uint32_t UCS_V_UNUSED imm_data,
                                 uint16_t UCS_V_UNUSED lid, unsigned flags)
{
    uct_wimm_iface_t *iface = ucs_derived_of(rc_iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = uct_wimm_ep_lookup(iface, qp_num);
    uint8_t fc_hdr          = uct_rc_fc_get_fc_hdr(hdr->am_id);

    /* A grant alone is also how a peer flushes that cannot write 0 bytes */
    if (fc_hdr == UCT_RC_EP_FC_PURE_GRANT) {
        return UCS_OK;
    }

    if ((ep != NULL) && (fc_hdr & UCT_RC_EP_FLAG_FC_HARD_REQ)) {
        if (!(ep->flags & UCT_WIMM_EP_FLAG_FC)) {
            ucs_error("qp 0x%x: flow control message, but flow control is off"
                      " (UCX_WIMM_FC_ENABLE); closing the connection",
                      qp_num);
            uct_wimm_ep_fail_later(ep, UCS_ERR_CONNECTION_RESET);
            return UCS_OK;
        }

        /* A sender whose window was set by hand says that it is at its end, also
         * if it has not used what it was granted. It gets more, of what is
         * free. */
        ep->flags |= UCT_WIMM_EP_FLAG_GRANT_ASKED;
        uct_wimm_fc_schedule(iface, ep, UCT_WIMM_CTRL_GRANT);
    }

    return uct_iface_invoke_am(&rc_iface->super.super,
                               hdr->am_id & ~UCT_RC_EP_FC_MASK, hdr + 1, length,
                               flags);
}
