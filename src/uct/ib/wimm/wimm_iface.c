/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_iface.h"
#include "wimm_def.h"
#include "wimm_ep.h"
#include "wimm_qp.h"

#include <uct/ib/rc/verbs/rc_verbs_impl.h>
#include <uct/ib/base/ib_log.h>
#include <ucs/debug/log.h>
#include <ucs/time/time.h>
#include <arpa/inet.h>
#include <string.h>


static ucs_status_t uct_wimm_wc_to_ucs_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return UCS_OK;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_OP_ERR:
        return UCS_ERR_CONNECTION_RESET;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_REM_ABORT_ERR:
        return UCS_ERR_ENDPOINT_TIMEOUT;
    case IBV_WC_WR_FLUSH_ERR:
        return UCS_ERR_CANCELED;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

static UCS_F_ALWAYS_INLINE uct_ib_iface_recv_desc_t *uct_wimm_iface_wc_desc(
        const struct ibv_wc *wc)
{
    return (uct_ib_iface_recv_desc_t *)(uintptr_t)wc->wr_id;
}

/* Posting returns an error number, polling -1. @return Whether it is new. */
static UCS_F_NOINLINE int uct_wimm_iface_device_error(uct_wimm_iface_t *iface,
                                                      unsigned flag,
                                                      const char *name, int ret)
{
    if (iface->device_errors & flag) {
        return 0;
    }

    iface->device_errors |= flag;
    ucs_error("%s on " UCT_IB_IFACE_FMT " failed: %s", name,
              UCT_IB_IFACE_ARG(&iface->super.super.super),
              (ret > 0) ? strerror(ret) : "the device gives no reason");
    return 1;
}

/* A completion queue that cannot be polled takes all endpoints with it */
static UCS_F_NOINLINE void uct_wimm_iface_poll_failed(uct_wimm_iface_t *iface,
                                                      unsigned flag,
                                                      const char *name, int ret)
{
    uct_rc_ep_t *rc_ep;

    if (!uct_wimm_iface_device_error(iface, flag, name, ret)) {
        return;
    }

    ucs_list_for_each(rc_ep, &iface->super.super.ep_list, list) {
        uct_wimm_ep_fail_later(ucs_derived_of(rc_ep, uct_wimm_ep_t),
                               UCS_ERR_IO_ERROR);
    }
}

/* Post up to one batch of receives. @return How many were posted. */
static unsigned uct_wimm_iface_post_recv(uct_wimm_iface_t *iface, unsigned max)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    uct_ib_recv_wr_t wrs[UCT_WIMM_MAX_RECV_BATCH];
    struct ibv_recv_wr *bad_wr, *wr;
    unsigned count;
    int ret;

    count = uct_ib_iface_prepare_rx_wrs(&rc_iface->super, &rc_iface->rx.mp, wrs,
                                        max);
    if (ucs_unlikely(count == 0)) {
        return 0;
    }

    ret = ibv_post_srq_recv(iface->super.srq, &wrs[0].ibwr, &bad_wr);
    if (ucs_unlikely(ret != 0)) {
        uct_wimm_iface_device_error(iface, UCT_WIMM_DEVICE_ERROR_POST_RECV,
                                    "ibv_post_srq_recv()", ret);
        for (wr = bad_wr; wr != NULL; wr = wr->next) {
            ucs_mpool_put_inline((void *)(uintptr_t)wr->wr_id);
            --count;
        }
    }

    rc_iface->rx.srq.available -= count;
    return count;
}

static UCS_F_ALWAYS_INLINE void uct_wimm_iface_refill_rx(uct_wimm_iface_t *iface)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    unsigned batch           = rc_iface->super.config.rx_max_batch;

    while (rc_iface->rx.srq.available >= batch) {
        if (uct_wimm_iface_post_recv(iface, batch) < batch) {
            return;
        }
    }

    /* Receives that are held by waiting notifications make the queue shorter:
     * use what is left of it down to the last one, or it may be that less than
     * a batch is left and nothing moves any more */
    if (ucs_unlikely(!ucs_queue_is_empty(&iface->imm.waiting)) &&
        (rc_iface->rx.srq.available > 0)) {
        uct_wimm_iface_post_recv(iface, rc_iface->rx.srq.available);
    }
}

/* The peer sent what the protocol does not have */
static UCS_F_NOINLINE void uct_wimm_iface_protocol_error(
        uct_wimm_ep_t *ep, const struct ibv_wc *wc, const char *what)
{
    ucs_error("qp 0x%x: %s, %u bytes; closing the connection", wc->qp_num, what,
              wc->byte_len);
    uct_wimm_ep_fail_later(ep, UCS_ERR_CONNECTION_RESET);
}

static UCS_F_NOINLINE void uct_wimm_iface_handle_rx_error(
        uct_wimm_iface_t *iface, const struct ibv_wc *wc)
{
    uct_wimm_ep_t *ep = uct_wimm_ep_lookup(iface, wc->qp_num);

    ucs_mpool_put_inline(uct_wimm_iface_wc_desc(wc));

    /* A flush only tells that the queue pair is in error already */
    if ((ep == NULL) || (wc->status == IBV_WC_WR_FLUSH_ERR) ||
        (wc->status == IBV_WC_REM_ABORT_ERR)) {
        return;
    }

    uct_wimm_ep_failed(ep, uct_wimm_wc_to_ucs_status(wc->status), wc,
                       UCT_IB_DIR_RX);
    uct_rc_iface_arbiter_dispatch(&iface->super.super);
}

/* Whether arriving notifications have to wait, for a handler or for others */
static UCS_F_ALWAYS_INLINE int uct_wimm_iface_imm_waits(
        const uct_wimm_iface_t *iface)
{
    return (iface->imm.cb == NULL) || !ucs_queue_is_empty(&iface->imm.waiting);
}

/* Whether there is something that waits and somebody to deliver it to */
static UCS_F_ALWAYS_INLINE int uct_wimm_iface_imm_is_deliverable(
        const uct_wimm_iface_t *iface)
{
    return (iface->imm.cb != NULL) && !ucs_queue_is_empty(&iface->imm.waiting);
}

static UCS_F_NOINLINE void uct_wimm_iface_imm_wait(uct_wimm_iface_t *iface,
                                                   const struct ibv_wc *wc,
                                                   int holds_recv)
{
    uct_ib_iface_recv_desc_t *desc = uct_wimm_iface_wc_desc(wc);
    uct_wimm_imm_elem_t *elem;
    void *hdr;

    /* The header may be at an odd address, so that what follows it is aligned */
    hdr  = uct_ib_iface_recv_desc_hdr(&iface->super.super.super, desc);
    elem = (void *)ucs_align_up((uintptr_t)hdr, _Alignof(uct_wimm_imm_elem_t));
    elem->desc       = desc;
    elem->imm        = ntohl(wc->imm_data);
    elem->length     = wc->byte_len;
    elem->qp_num     = wc->qp_num;
    elem->holds_recv = holds_recv;
    ucs_queue_push(&iface->imm.waiting, &elem->queue);
}

static void uct_wimm_iface_imm_release(uct_wimm_iface_t *iface,
                                       uct_wimm_imm_elem_t *elem)
{
    iface->super.super.rx.srq.available += elem->holds_recv;
    ucs_mpool_put_inline(elem->desc);
}

void uct_wimm_iface_imm_purge(uct_wimm_iface_t *iface, uint32_t qp_num)
{
    uct_wimm_imm_elem_t *elem;
    ucs_queue_iter_t iter;

    ucs_queue_for_each_safe(elem, iter, &iface->imm.waiting, queue) {
        if (elem->qp_num == qp_num) {
            ucs_queue_del_iter(&iface->imm.waiting, iter);
            uct_wimm_iface_imm_release(iface, elem);
        }
    }
}

static UCS_F_ALWAYS_INLINE void uct_wimm_iface_imm_deliver(
        uct_wimm_iface_t *iface, uct_wimm_ep_t *ep, uint32_t imm,
        uint32_t length)
{
    ucs_trace_data("ep %p: notification 0x%x, %u bytes", ep, imm, length);
    iface->imm.cb(iface->imm.arg, &ep->super.super.super.super, imm, length);
}

/* Deliver what waited for a handler, as long as there is one */
static UCS_F_NOINLINE unsigned uct_wimm_iface_imm_progress(
        uct_wimm_iface_t *iface)
{
    unsigned count = 0;
    uct_wimm_imm_elem_t *elem;
    uint32_t imm, length;
    uct_wimm_ep_t *ep;

    while (uct_wimm_iface_imm_is_deliverable(iface)) {
        elem   = ucs_queue_pull_elem_non_empty(&iface->imm.waiting,
                                               uct_wimm_imm_elem_t, queue);
        imm    = elem->imm;
        length = elem->length;
        ep     = uct_wimm_ep_lookup(iface, elem->qp_num);
        uct_wimm_iface_imm_release(iface, elem);
        uct_wimm_iface_refill_rx(iface);
        uct_wimm_iface_imm_deliver(iface, ep, imm, length);
        ++count;
    }

    return count;
}

static UCS_F_ALWAYS_INLINE void uct_wimm_iface_handle_imm(
        uct_wimm_iface_t *iface, uct_wimm_ep_t *ep, const struct ibv_wc *wc,
        int is_held)
{
    if (ucs_unlikely(ep == NULL)) {
        /* Without its endpoint nobody could tell what it belongs to */
        ucs_debug("qp 0x%x: dropped a notification for a destroyed endpoint",
                  wc->qp_num);
    } else if (ucs_unlikely(uct_wimm_iface_imm_waits(iface))) {
        uct_wimm_iface_imm_wait(iface, wc, is_held);
        return;
    }

    ucs_mpool_put_inline(uct_wimm_iface_wc_desc(wc));
    if (ucs_unlikely(is_held)) {
        ++iface->super.super.rx.srq.available;
    }

    if (ucs_likely(ep != NULL)) {
        uct_wimm_iface_imm_deliver(iface, ep, ntohl(wc->imm_data),
                                   wc->byte_len);
    }
}

static UCS_F_ALWAYS_INLINE void uct_wimm_iface_handle_am(
        uct_wimm_iface_t *iface, uct_wimm_ep_t *ep, const struct ibv_wc *wc)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    uct_rc_hdr_t *hdr;

    hdr = uct_ib_iface_recv_desc_hdr(&rc_iface->super,
                                     uct_wimm_iface_wc_desc(wc));
    if (ucs_unlikely(wc->byte_len < sizeof(*hdr))) {
        ucs_mpool_put_inline(uct_wimm_iface_wc_desc(wc));
        uct_wimm_iface_protocol_error(ep, wc,
                                      "message shorter than its header");
        return;
    }

    VALGRIND_MAKE_MEM_DEFINED(hdr, wc->byte_len);
    uct_ib_log_recv_completion(&rc_iface->super, wc, hdr, wc->byte_len,
                               uct_rc_ep_packet_dump);
    uct_rc_verbs_iface_handle_am(rc_iface, hdr, wc->wr_id, wc->qp_num,
                                 wc->byte_len, wc->imm_data, wc->slid);
}

static UCS_F_ALWAYS_INLINE unsigned uct_wimm_iface_poll_rx(
        uct_wimm_iface_t *iface)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    int hold                 = uct_wimm_iface_imm_waits(iface);
    struct ibv_wc wc[UCT_WIMM_MAX_POLL];
    uct_wimm_ep_t *ep;
    int i, num_wcs;

    num_wcs = ibv_poll_cq(rc_iface->super.cq[UCT_IB_DIR_RX],
                          rc_iface->super.config.rx_max_poll, wc);
    if (num_wcs <= 0) {
        if (ucs_unlikely(num_wcs < 0)) {
            uct_wimm_iface_poll_failed(iface, UCT_WIMM_DEVICE_ERROR_POLL_RX,
                                       "ibv_poll_cq(rx)", num_wcs);
        }
        uct_wimm_iface_refill_rx(iface);
        return 0;
    }

    UCS_STATS_UPDATE_COUNTER(rc_iface->super.stats,
                             UCT_IB_IFACE_STAT_RX_COMPLETION, num_wcs);

    /* Post receives again before anything is dispatched: a handler may take its
     * time. Notifications that wait for a handler hold theirs. */
    rc_iface->rx.srq.available += num_wcs;
    if (ucs_unlikely(hold)) {
        for (i = 0; i < num_wcs; ++i) {
            rc_iface->rx.srq.available -= (wc[i].status == IBV_WC_SUCCESS) &&
                                          (wc[i].opcode ==
                                           IBV_WC_RECV_RDMA_WITH_IMM);
        }
    }
    uct_wimm_iface_refill_rx(iface);

    for (i = 0; i < num_wcs; ++i) {
        if (ucs_unlikely(wc[i].status != IBV_WC_SUCCESS)) {
            uct_wimm_iface_handle_rx_error(iface, &wc[i]);
            continue;
        }

        ep = uct_wimm_ep_lookup(iface, wc[i].qp_num);
        if (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
            uct_wimm_iface_handle_imm(iface, ep, &wc[i], hold);
        } else if (ucs_unlikely(wc[i].wc_flags & IBV_WC_WITH_IMM)) {
            /* A control message, and this version has none */
            ucs_mpool_put_inline(uct_wimm_iface_wc_desc(&wc[i]));
            uct_wimm_iface_protocol_error(ep, &wc[i],
                                          "unknown control message");
        } else {
            uct_wimm_iface_handle_am(iface, ep, &wc[i]);
        }
    }

    return num_wcs;
}

static UCS_F_ALWAYS_INLINE unsigned uct_wimm_iface_poll_tx(
        uct_wimm_iface_t *iface)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    struct ibv_wc wc[UCT_WIMM_MAX_POLL];
    uct_wimm_ep_t *ep;
    uint16_t count;
    int i, num_wcs;

    num_wcs = ibv_poll_cq(rc_iface->super.cq[UCT_IB_DIR_TX],
                          rc_iface->super.config.tx_max_poll, wc);
    if (num_wcs <= 0) {
        if (ucs_unlikely(num_wcs < 0)) {
            uct_wimm_iface_poll_failed(iface, UCT_WIMM_DEVICE_ERROR_POLL_TX,
                                       "ibv_poll_cq(tx)", num_wcs);
        }
        return 0;
    }

    UCS_STATS_UPDATE_COUNTER(rc_iface->super.stats,
                             UCT_IB_IFACE_STAT_TX_COMPLETION, num_wcs);

    for (i = 0; i < num_wcs; ++i) {
        ep = uct_wimm_ep_lookup(iface, wc[i].qp_num);
        if (ucs_unlikely((wc[i].status != IBV_WC_SUCCESS) || (ep == NULL))) {
            uct_wimm_ep_handle_tx_failure(&rc_iface->super, &wc[i],
                                          uct_wimm_wc_to_ucs_status(
                                                  wc[i].status));
            continue;
        }

        /* Order matters: completion callbacks run before there are resources,
         * so that they cannot overtake what is queued, and the queue runs
         * before the callbacks of the next completion. */
        count = (uint16_t)wc[i].wr_id - ep->super.txcnt.ci;
        uct_rc_txqp_completion_desc(&ep->super.super.txqp,
                                    ep->super.txcnt.ci + count);
        ucs_arbiter_group_schedule(&rc_iface->tx.arbiter,
                                   &ep->super.super.arb_group);
        uct_wimm_ep_tx_completed(rc_iface, ep, count);
        uct_rc_iface_arbiter_dispatch(rc_iface);
    }

    return num_wcs;
}

/* Replaces rc_verbs' progress as a whole: that one would take the completion of
 * an immediate for an active message. */
static unsigned uct_wimm_iface_progress(void *arg)
{
    uct_wimm_iface_t *iface = arg;
    unsigned count          = 0;
    unsigned rx_count;

    /* What waits comes before what arrives */
    if (ucs_unlikely(!ucs_queue_is_empty(&iface->imm.waiting))) {
        count = uct_wimm_iface_imm_progress(iface);
    }

    rx_count = uct_wimm_iface_poll_rx(iface);
    count += rx_count;
    if (uct_rc_iface_poll_tx(&iface->super.super, count)) {
        count += uct_wimm_iface_poll_tx(iface);
    }

    if (ucs_unlikely(iface->deferred != 0)) {
        count += uct_wimm_ep_progress_failed(iface);
        count += uct_wimm_qp_progress(iface, rx_count == 0);
    }

    return count;
}

static ucs_status_t uct_wimm_iface_fc_handler(
        uct_rc_iface_t *rc_iface, unsigned qp_num, uct_rc_hdr_t *hdr,
        unsigned length, uint32_t imm_data, uint16_t lid, unsigned flags)
{
    uct_wimm_iface_t *iface = ucs_derived_of(rc_iface, uct_wimm_iface_t);

    /* rc_verbs asserts that flow control is on, but this is the peer's input. A
     * grant alone is also how a peer flushes that cannot write 0 bytes. */
    if (!rc_iface->config.fc_enabled) {
        if (uct_rc_fc_get_fc_hdr(hdr->am_id) == UCT_RC_EP_FC_PURE_GRANT) {
            return UCS_OK;
        }

        ucs_error("qp 0x%x: flow control message, but flow control is off"
                  " here (UCX_WIMM_FC_ENABLE); closing the connection",
                  qp_num);
        uct_wimm_ep_fail_later(uct_wimm_ep_lookup(iface, qp_num),
                               UCS_ERR_CONNECTION_RESET);
        return UCS_OK;
    }

    return uct_rc_iface_fc_handler(rc_iface, qp_num, hdr, length, imm_data, lid,
                                   flags);
}

static ucs_status_t uct_wimm_iface_event_arm(uct_iface_h tl_iface,
                                             unsigned events)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);

    /* There is no event for what progress has to do without a completion. The
     * queue pairs of destroyed endpoints are part of it: they go after a time. */
    if ((iface->deferred != 0) || uct_wimm_iface_imm_is_deliverable(iface)) {
        return UCS_ERR_BUSY;
    }

    return uct_rc_iface_event_arm(tl_iface, events);
}

static ucs_status_t uct_wimm_iface_query(uct_iface_h tl_iface,
                                         uct_iface_attr_t *iface_attr)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);
    ucs_status_t status;

    status = iface->base_query(tl_iface, iface_attr);
    if (status != UCS_OK) {
        return status;
    }

    iface_attr->iface_addr_len = sizeof(uct_wimm_iface_addr_t);
    if (iface->config.prefer) {
        iface_attr->priority += 1;
    }
    return UCS_OK;
}

static ucs_status_t uct_wimm_iface_get_address(
        uct_iface_h UCS_V_UNUSED tl_iface, uct_iface_addr_t *addr)
{
    uct_wimm_iface_addr_pack((uct_wimm_iface_addr_t *)addr,
                             UCT_WIMM_PROTO_VERSION);
    return UCS_OK;
}

static int uct_wimm_iface_is_reachable(const uct_iface_h tl_iface,
                                       const uct_device_addr_t *dev_addr,
                                       const uct_iface_addr_t *iface_addr)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);
    int version;

    if (iface_addr == NULL) {
        ucs_diag("no wimm interface address was given by the peer");
        return 0;
    }

    version = uct_wimm_iface_addr_unpack(
            (const uct_wimm_iface_addr_t *)iface_addr);
    if (version != UCT_WIMM_PROTO_VERSION) {
        if (version < 0) {
            ucs_diag("the peer's interface address is not one of wimm");
        } else {
            ucs_diag("the peer's wimm protocol has version %d, ours has version"
                     " %d: it is not reachable by wimm",
                     version, UCT_WIMM_PROTO_VERSION);
        }
        return 0;
    }

    return iface->base_is_reachable(tl_iface, dev_addr, iface_addr);
}

ucs_status_t uct_wimm_iface_set_imm_handler(uct_iface_h tl_iface,
                                            uct_wimm_imm_handler_t cb,
                                            void *arg)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_iface),
                         "interface %p is not of the transport wimm", tl_iface);

    iface->imm.cb  = cb;
    iface->imm.arg = arg;
    return UCS_OK;
}

UCS_CLASS_INIT_FUNC(uct_wimm_iface_t, uct_md_h md, uct_worker_h worker,
                    const uct_iface_params_t *params,
                    const uct_iface_config_t *tl_config)
{
    const uct_wimm_iface_config_t *config =
            ucs_derived_of(tl_config, uct_wimm_iface_config_t);
    uct_ib_iface_t *ib_iface = &self->super.super.super;
    size_t seg_size          = config->super.super.super.super.seg_size;
    size_t min_seg_size      = sizeof(uct_wimm_imm_elem_t) +
                          _Alignof(uct_wimm_imm_elem_t);
    uct_iface_ops_t *ops = &ib_iface->super.super.ops;
    ucs_status_t status;

    if (seg_size < min_seg_size) {
        ucs_error("UCX_WIMM_SEG_SIZE is %zu bytes, wimm needs %zu or more",
                  seg_size, min_seg_size);
        return UCS_ERR_INVALID_PARAM;
    }

    status = uct_wimm_rc_verbs_iface_init(&self->super, _myclass->superclass,
                                          _init_count, md, worker, params,
                                          tl_config);
    if (status != UCS_OK) {
        return status;
    }

    ++(*_init_count);

    self->imm.cb        = NULL;
    self->imm.arg       = NULL;
    self->deferred      = 0;
    self->device_errors = 0;
    ucs_queue_head_init(&self->imm.waiting);
    ucs_list_head_init(&self->failed_eps);

    self->config.prefer           = config->prefer;
    self->config.qp_drain_timeout = ucs_time_from_sec(config->qp_drain_timeout);

    ib_iface->config.rx_max_poll = ucs_min(ib_iface->config.rx_max_poll,
                                           UCT_WIMM_MAX_POLL);
    ib_iface->config.tx_max_poll = ucs_min(ib_iface->config.tx_max_poll,
                                           UCT_WIMM_MAX_POLL);

    /* It is 0, which posts nothing, where the queue has fewer than 4 */
    ib_iface->config.rx_max_batch = ucs_min(ib_iface->config.rx_max_batch,
                                            UCT_WIMM_MAX_RECV_BATCH);
    ib_iface->config.rx_max_batch = ucs_max(ib_iface->config.rx_max_batch, 1);

    /* What rc_verbs does, with our changes. The tables of the base class are
     * shared with rc_verbs, so these are copies. */
    self->rc_ops = *ucs_derived_of(ib_iface->ops, uct_rc_iface_ops_t);
    self->rc_ops.super.handle_failure = uct_wimm_ep_handle_tx_failure;
    self->rc_ops.fc_handler           = uct_wimm_iface_fc_handler;
    ib_iface->ops                     = &self->rc_ops.super;
    ib_iface->super.internal_ops      = &self->rc_ops.super.super;

    self->super.super.progress = uct_wimm_iface_progress;
    self->base_query           = ops->iface_query;
    self->base_is_reachable    = ops->iface_is_reachable;
    ops->ep_create             = UCS_CLASS_NEW_FUNC_NAME(uct_wimm_ep_t);
    ops->ep_destroy            = uct_wimm_ep_destroy;
    ops->iface_event_arm       = uct_wimm_iface_event_arm;
    ops->iface_close           = UCS_CLASS_DELETE_FUNC_NAME(uct_wimm_iface_t);
    ops->iface_query           = uct_wimm_iface_query;
    ops->iface_get_address     = uct_wimm_iface_get_address;
    ops->iface_is_reachable    = uct_wimm_iface_is_reachable;
    return UCS_OK;
}

static UCS_CLASS_CLEANUP_FUNC(uct_wimm_iface_t)
{
    uct_wimm_imm_elem_t *elem;

    /* rc_verbs' destructor stops progress, too, but needs what goes here */
    uct_base_iface_progress_disable(&self->super.super.super.super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);

    ucs_queue_for_each_extract(elem, &self->imm.waiting, queue, 1) {
        uct_wimm_iface_imm_release(self, elem);
    }
}

UCS_CLASS_DEFINE(uct_wimm_iface_t, uct_rc_verbs_iface_t);
UCS_CLASS_DEFINE_NEW_FUNC(uct_wimm_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                          const uct_iface_params_t *,
                          const uct_iface_config_t *);
UCS_CLASS_DEFINE_DELETE_FUNC(uct_wimm_iface_t, uct_iface_t);
