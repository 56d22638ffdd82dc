/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_qp.h"
#include "wimm_fc.h"
#include "wimm_pending.h"

#include <ucs/debug/log.h>
#include <ucs/time/time.h>


static int uct_wimm_qp_is_drained(const uct_wimm_qp_t *dead_qp)
{
    return dead_qp->txcnt.ci == dead_qp->txcnt.pi;
}

/* Post an empty write with a completion; in the error state it is flushed */
static void uct_wimm_qp_post_marker(uct_wimm_qp_t *dead_qp)
{
    uct_rc_iface_t *rc_iface = dead_qp->super.super.iface;
    struct ibv_send_wr wr    = {};
    struct ibv_send_wr *bad_wr;
    int ret;

    if (!(dead_qp->flags & UCT_WIMM_QP_FLAG_NEED_MARKER) ||
        uct_wimm_qp_is_drained(dead_qp) || (dead_qp->available <= 0) ||
        !uct_rc_iface_have_tx_cqe_avail(rc_iface)) {
        return;
    }

    wr.opcode     = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr_id      = dead_qp->txcnt.pi + 1;
    ret           = ibv_post_send(dead_qp->super.qp, &wr, &bad_wr);

    /* If the device refuses it, the time limit remains */
    dead_qp->flags &= ~UCT_WIMM_QP_FLAG_NEED_MARKER;
    if (ret != 0) {
        ucs_debug("qp 0x%x: no marker, ibv_post_send() returned %d",
                  dead_qp->super.super.qp_num, ret);
        return;
    }

    --rc_iface->tx.cq_available;
    --dead_qp->available;
    ++dead_qp->txcnt.pi;
}

/* LAST_WQE_REACHED: called by the worker's progress, again and again until the
 * event is unregistered with the queue pair. It may be the only one that runs, if
 * the interface's own progress was disabled. */
static unsigned uct_wimm_qp_rx_done(void *arg)
{
    uct_wimm_qp_t *dead_qp = arg;

    dead_qp->flags |= UCT_WIMM_QP_FLAG_RX_DONE;
    return uct_wimm_qp_progress(ucs_derived_of(dead_qp->super.super.iface,
                                               uct_wimm_iface_t),
                                0, 0);
}

/* There are some, and the interface's progress, which would look after them, is disabled */
static int uct_wimm_qp_has_to_drain(uct_wimm_iface_t *iface)
{
    return (iface->super.super.super.super.progress_flags == 0) &&
           !ucs_list_is_empty(&iface->super.super.qp_gc_list);
}

/* The interface's progress in its stead. With endpoints it would be what the user
 * disabled. */
static unsigned uct_wimm_qp_drain_progress(void *arg)
{
    uct_wimm_iface_t *iface  = arg;
    uct_rc_iface_t *rc_iface = &iface->super.super;

    if (!uct_wimm_qp_has_to_drain(iface)) {
        uct_wimm_qp_drain_stop(iface);
        return 0;
    }

    return ucs_list_is_empty(&rc_iface->ep_list) ? rc_iface->progress(iface) :
                                                   0;
}

void uct_wimm_qp_drain_start(uct_wimm_iface_t *iface)
{
    if (!uct_wimm_qp_has_to_drain(iface)) {
        return;
    }

    /* Does nothing if it is registered */
    uct_worker_progress_register_safe(
            &iface->super.super.super.super.worker->super,
            uct_wimm_qp_drain_progress, iface, 0, &iface->drain_cb_id);
}

void uct_wimm_qp_drain_stop(uct_wimm_iface_t *iface)
{
    uct_worker_progress_unregister_safe(
            &iface->super.super.super.super.worker->super, &iface->drain_cb_id);
}

void uct_wimm_qp_retire(uct_wimm_qp_t *dead_qp, uct_wimm_ep_t *wimm_ep)
{
    uct_rc_verbs_ep_t *ep              = &wimm_ep->super;
    uct_wimm_iface_t *iface            = uct_wimm_ep_iface(wimm_ep);
    uct_rc_iface_t *rc_iface           = &iface->super.super;
    uct_rc_iface_qp_cleanup_ctx_t *ctx = &dead_qp->super.super;
    ucs_status_t status;

    uct_ib_modify_qp(ep->qp, IBV_QPS_ERR);

    dead_qp->super.qp  = ep->qp;
    dead_qp->txcnt     = ep->txcnt;
    dead_qp->available = uct_rc_txqp_available(&ep->super.txqp);
    dead_qp->fc_shared = uct_wimm_fc_shared(wimm_ep);
    dead_qp->flags     = 0;
    dead_qp->deadline  = ucs_get_time() + iface->config.qp_drain_timeout;
    dead_qp->limit     = dead_qp->deadline +
                     ucs_max(UCT_WIMM_QP_MAX_MORE_TIMEOUTS *
                                     iface->config.qp_drain_timeout,
                             ucs_time_from_msec(UCT_WIMM_QP_MIN_LIMIT_MSEC));
    if (uct_rc_txqp_unsignaled(&ep->super.txqp) != 0) {
        dead_qp->flags |= UCT_WIMM_QP_FLAG_NEED_MARKER;
    }

    ctx->super.cbq  = &rc_iface->super.super.worker->super.progress_q;
    ctx->super.cb   = uct_wimm_qp_rx_done;
    ctx->iface      = rc_iface;
    ctx->qp_num     = ep->qp->qp_num;
    ctx->cq_credits = 0;

    ucs_list_del(&ep->super.list);
    uct_rc_iface_remove_qp(rc_iface, ctx->qp_num);
    ++iface->imm.num_destroyed;
    ucs_list_add_tail(&rc_iface->qp_gc_list, &ctx->list);
    ++iface->deferred;

    uct_wimm_qp_post_marker(dead_qp);

    status = uct_ib_device_async_event_wait(uct_ib_iface_device(
                                                    &rc_iface->super),
                                            IBV_EVENT_QP_LAST_WQE_REACHED,
                                            ctx->qp_num, &ctx->super);
    if (status != UCS_OK) {
        ucs_debug("qp 0x%x: no wait for last wqe: %s", ctx->qp_num,
                  ucs_status_string(status));
    }

    uct_wimm_qp_drain_start(iface);
}

void uct_wimm_qp_completion(uct_wimm_iface_t *iface, const struct ibv_wc *wc)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    uct_wimm_qp_t *dead_qp;
    uint16_t count;

    ucs_list_for_each(dead_qp, &rc_iface->qp_gc_list, super.super.list) {
        if (dead_qp->super.super.qp_num != wc->qp_num) {
            continue;
        }

        count = (uint16_t)wc->wr_id - dead_qp->txcnt.ci;
        dead_qp->txcnt.ci += count;
        dead_qp->available += count;
        uct_rc_iface_add_cq_credits(rc_iface, count);
        uct_wimm_qp_post_marker(dead_qp);

        /* Others may have waited for these credits */
        uct_wimm_iface_arbiter_dispatch(iface);
        return;
    }
}

/* Whether nothing of it can be left in the completion queues, or it took too long
 * to find out */
static int uct_wimm_qp_is_ready(uct_wimm_qp_t *dead_qp, ucs_time_t now,
                                int rx_empty, int tx_empty)
{
    if ((dead_qp->flags & UCT_WIMM_QP_FLAG_RX_DONE) && rx_empty &&
        uct_wimm_qp_is_drained(dead_qp)) {
        return 1;
    }

    if (now <= dead_qp->deadline) {
        return 0;
    }

    /* The device was to say so, and did not: all that was to come is there */
    dead_qp->flags |= (rx_empty ? UCT_WIMM_QP_FLAG_RX_EMPTY : 0) |
                      (tx_empty ? UCT_WIMM_QP_FLAG_TX_EMPTY : 0);
    return ucs_test_all_flags(dead_qp->flags,
                              UCT_WIMM_QP_FLAG_RX_EMPTY |
                                      UCT_WIMM_QP_FLAG_TX_EMPTY) ||
           (now > dead_qp->limit);
}

unsigned uct_wimm_qp_progress(uct_wimm_iface_t *iface, int rx_empty,
                              int tx_empty)
{
    unsigned count = 0;
    uct_wimm_qp_t *dead_qp, *tmp;
    unsigned released = 0;
    uint16_t left;
    ucs_time_t now;

    if (ucs_list_is_empty(&iface->super.super.qp_gc_list)) {
        return 0;
    }

    now = ucs_get_time();
    ucs_list_for_each_safe(dead_qp, tmp, &iface->super.super.qp_gc_list,
                           super.super.list) {
        if (uct_wimm_qp_is_ready(dead_qp, now, rx_empty, tx_empty)) {
            /* What was not drained in time returns its credits now. A late
             * completion of it finds no queue pair, and is ignored. */
            left = dead_qp->txcnt.pi - dead_qp->txcnt.ci;
            ucs_debug("qp 0x%x: destroyed, %u sends not drained, last wqe%s"
                      " reached",
                      dead_qp->super.super.qp_num, left,
                      (dead_qp->flags & UCT_WIMM_QP_FLAG_RX_DONE) ? "" :
                                                                    " not");
            uct_wimm_fc_ep_released(iface, dead_qp->fc_shared);
            uct_rc_iface_qp_cleanup_progress(&dead_qp->super.super);
            uct_rc_iface_add_cq_credits(&iface->super.super, left);
            --iface->deferred;
            released += left;
            ++count;
        } else {
            uct_wimm_qp_post_marker(dead_qp);
        }
    }

    if (released > 0) {
        uct_wimm_iface_arbiter_dispatch(iface);
    }

    return count;
}
