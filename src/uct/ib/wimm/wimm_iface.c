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
#include "wimm_fc.h"
#include "wimm_imm.h"
#include "wimm_pending.h"
#include "wimm_qp.h"
#include "wimm_stats.h"

#include <uct/ib/base/ib_log.h>
#include <ucs/debug/log.h>
#include <ucs/time/time.h>
#include <errno.h>
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

/* Poll a completion queue that may not be at fault */
static UCS_F_ALWAYS_INLINE int uct_wimm_iface_poll_cq(uct_wimm_iface_t *iface,
                                                      uct_ib_dir_t dir,
                                                      int max_wcs,
                                                      struct ibv_wc *wc)
{
    int num_wcs = ibv_poll_cq(iface->super.super.super.cq[dir], max_wcs, wc);

    if (ucs_unlikely(num_wcs < 0)) {
        if (dir == UCT_IB_DIR_RX) {
            uct_wimm_iface_poll_failed(iface, UCT_WIMM_DEVICE_ERROR_POLL_RX,
                                       "ibv_poll_cq(rx)", num_wcs);
        } else {
            uct_wimm_iface_poll_failed(iface, UCT_WIMM_DEVICE_ERROR_POLL_TX,
                                       "ibv_poll_cq(tx)", num_wcs);
        }
        return 0;
    }

    return num_wcs;
}

/* As uct_wimm_iface_poll_cq(), after what was found when the event was armed. @a calm:
 * nothing was. */
static UCS_F_ALWAYS_INLINE int uct_wimm_iface_take_wcs(uct_wimm_iface_t *iface,
                                                       uct_ib_dir_t dir,
                                                       int calm, int max_wcs,
                                                       struct ibv_wc *wc)
{
    if (!calm && (iface->found.dirs & UCS_BIT(dir))) {
        iface->found.dirs &= ~UCS_BIT(dir);
        wc[0] = iface->found.wc[dir];
        return 1;
    }

    return uct_wimm_iface_poll_cq(iface, dir, max_wcs, wc);
}

/* Post up to one batch of receives. @return How many were posted. */
static unsigned uct_wimm_iface_post_recv(uct_wimm_iface_t *iface, unsigned max)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    uct_ib_recv_wr_t wrs[UCT_WIMM_MAX_RECV_BATCH];
    struct ibv_recv_wr *bad_wr, *wr;
    unsigned count, i;
    int ret;

    count = uct_ib_iface_prepare_rx_wrs(&rc_iface->super, &rc_iface->rx.mp, wrs,
                                        max);
    if (ucs_unlikely(count == 0)) {
        return 0;
    }

    /* UCX has the length of a descriptor from its begin, and the address of the header
     * in it: a peer could write beyond its end */
    for (i = 0; i < count; ++i) {
        wrs[i].sg.length -= rc_iface->super.config.rx_hdr_offset;
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
}

void uct_wimm_iface_post_all_recv(uct_wimm_iface_t *iface)
{
    uct_rc_srq_t *srq = &iface->super.super.rx.srq;
    unsigned batch    = iface->super.super.super.config.rx_max_batch;
    unsigned count;

    srq->available += srq->quota;
    srq->quota = 0;
    while (srq->available > 0) {
        count = ucs_min(batch, srq->available);
        if (uct_wimm_iface_post_recv(iface, count) < count) {
            return; /* Progress tries again */
        }
    }
}

void UCS_F_NOINLINE uct_wimm_iface_protocol_error(uct_wimm_ep_t *ep,
                                                  const struct ibv_wc *wc,
                                                  const char *what)
{
    if ((ep == NULL) || !uct_wimm_ep_is_usable(ep)) {
        return; /* Closed already: what is left of it comes in */
    }

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
    uct_wimm_iface_arbiter_dispatch(iface);
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

    if (ucs_unlikely((ep != NULL) && !uct_wimm_fc_received(iface, ep, wc))) {
        ucs_mpool_put_inline(uct_wimm_iface_wc_desc(wc));
        return;
    }

    VALGRIND_MAKE_MEM_DEFINED(hdr, wc->byte_len);
    uct_ib_log_recv_completion(&rc_iface->super, wc, hdr, wc->byte_len,
                               uct_rc_ep_packet_dump);
    uct_rc_verbs_iface_handle_am(rc_iface, hdr, wc->wr_id, wc->qp_num,
                                 wc->byte_len, wc->imm_data, wc->slid);
}

static UCS_F_NOINLINE void uct_wimm_iface_handle_ctrl(uct_wimm_iface_t *iface,
                                                      uct_wimm_ep_t *ep,
                                                      const struct ibv_wc *wc)
{
    const void *data = uct_ib_iface_recv_desc_hdr(&iface->super.super.super,
                                                  uct_wimm_iface_wc_desc(wc));

    VALGRIND_MAKE_MEM_DEFINED(data, wc->byte_len);
    uct_wimm_fc_handle_ctrl(iface, ep, wc, data);
    ucs_mpool_put_inline(uct_wimm_iface_wc_desc(wc));
}

/* Control messages go before anything that is queued: they keep peers going */
static UCS_F_ALWAYS_INLINE void uct_wimm_iface_ctrl_progress(
        uct_wimm_iface_t *iface)
{
    if (ucs_unlikely(!ucs_list_is_empty(&iface->fc.ctrl_list))) {
        uct_wimm_fc_progress(iface);
    }
}

/* @param [inout] count  Raised by what was dispatched.
 * @return How many completions there were. */
static UCS_F_ALWAYS_INLINE unsigned uct_wimm_iface_poll_rx(
        uct_wimm_iface_t *iface, int calm, unsigned *count)
{
    uct_rc_iface_t *rc_iface = &iface->super.super;
    struct ibv_wc wc[UCT_WIMM_MAX_POLL];
    uct_wimm_ep_t *ep;
    int i, num_wcs;

    num_wcs = uct_wimm_iface_take_wcs(iface, UCT_IB_DIR_RX, calm,
                                      rc_iface->super.config.rx_max_poll, wc);
    UCS_STATS_UPDATE_COUNTER(rc_iface->super.stats,
                             UCT_IB_IFACE_STAT_RX_COMPLETION, num_wcs);

    /* Post receives again before anything is dispatched: a handler may take its
     * time, and credits are granted for what is posted */
    rc_iface->rx.srq.available += num_wcs;
    uct_wimm_iface_refill_rx(iface);

    /* What waits comes before what arrives */
    if (ucs_unlikely(uct_wimm_imm_is_deliverable(iface))) {
        *count += uct_wimm_imm_progress(iface);
    }

    for (i = 0; i < num_wcs; ++i) {
        if (ucs_unlikely(wc[i].status != IBV_WC_SUCCESS)) {
            uct_wimm_iface_handle_rx_error(iface, &wc[i]);
            continue;
        }

        ep = uct_wimm_ep_lookup(iface, wc[i].qp_num);
        if (wc[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
            ucs_mpool_put_inline(uct_wimm_iface_wc_desc(&wc[i]));
            uct_wimm_imm_received(iface, ep, &wc[i]);
        } else if (ucs_unlikely(wc[i].wc_flags & IBV_WC_WITH_IMM)) {
            uct_wimm_iface_handle_ctrl(iface, ep, &wc[i]);
        } else {
            uct_wimm_iface_handle_am(iface, ep, &wc[i]);
        }
    }

    *count += num_wcs;
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

    num_wcs = uct_wimm_iface_take_wcs(iface, UCT_IB_DIR_TX, 0,
                                      rc_iface->super.config.tx_max_poll, wc);
    if (num_wcs == 0) {
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
        uct_wimm_iface_ctrl_progress(iface);
        uct_wimm_iface_arbiter_dispatch(iface);
    }

    return num_wcs;
}

/* Whether there is room for so few completions of sends that each is signaled */
static UCS_F_ALWAYS_INLINE int uct_wimm_iface_tx_is_short(
        const uct_wimm_iface_t *iface)
{
    const uct_rc_iface_t *rc_iface = &iface->super.super;

    return rc_iface->tx.cq_available <= (int)rc_iface->config.tx_moderation;
}

/* What is outside of the short path: endpoints to fail, flushes, and queue pairs that
 * are destroyed when nothing of them is left. @a tx_empty: nothing was there to take. */
static UCS_F_NOINLINE unsigned uct_wimm_iface_progress_deferred(
        uct_wimm_iface_t *iface, unsigned rx_count, int tx_empty)
{
    unsigned count;

    count = uct_wimm_ep_progress_failed(iface);
    count += uct_wimm_pending_progress_cancels(iface, rx_count);
    count += uct_wimm_qp_progress(iface, rx_count == 0, tx_empty);
    return count;
}

/* @a calm: nothing was deferred, and nothing found when the event was armed */
static UCS_F_ALWAYS_INLINE unsigned uct_wimm_iface_do_progress(
        uct_wimm_iface_t *iface, int calm)
{
    unsigned count = 0;
    int tx_empty   = 0;
    unsigned rx_count, tx_count;

    rx_count = uct_wimm_iface_poll_rx(iface, calm, &count);
    uct_wimm_iface_ctrl_progress(iface);

    /* Grants for what comes in take room for completions: a flood must not keep
     * these from being taken */
    if (!calm || uct_rc_iface_poll_tx(&iface->super.super, count) ||
        ucs_unlikely(uct_wimm_iface_tx_is_short(iface)) ||
        ucs_unlikely(iface->deferred != 0)) {
        tx_count = uct_wimm_iface_poll_tx(iface);
        tx_empty = (tx_count == 0);
        count += tx_count;
    }

    if (ucs_unlikely(iface->deferred != 0)) {
        count += uct_wimm_iface_progress_deferred(iface, rx_count, tx_empty);
    }

    return count;
}

static UCS_F_NOINLINE unsigned uct_wimm_iface_progress_slow(
        uct_wimm_iface_t *iface)
{
    return uct_wimm_iface_do_progress(iface, 0);
}

/* Replaces rc_verbs' progress as a whole: that one would take the completion of
 * an immediate for an active message. */
static unsigned uct_wimm_iface_progress(void *arg)
{
    uct_wimm_iface_t *iface = arg;

    if (ucs_unlikely((iface->found.dirs | iface->deferred) != 0)) {
        return uct_wimm_iface_progress_slow(iface);
    }

    return uct_wimm_iface_do_progress(iface, 1);
}

static void uct_wimm_iface_progress_enable(uct_iface_h tl_iface, unsigned flags)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);

    if (flags & UCT_PROGRESS_RECV) {
        uct_wimm_iface_post_all_recv(iface);
    }

    uct_base_iface_progress_enable_cb(&iface->super.super.super.super,
                                      iface->super.super.progress, flags);
}

static void uct_wimm_iface_progress_disable(uct_iface_h tl_iface,
                                            unsigned flags)
{
    uct_base_iface_progress_disable(tl_iface, flags);
    uct_wimm_qp_drain_start(ucs_derived_of(tl_iface, uct_wimm_iface_t));
}

/* Whether a completion queue has something. The device need not raise an event for
 * what came before it was armed, and that may have come after the last progress. A
 * queue can only be looked at by taking something from it. */
static int uct_wimm_iface_find_wc(uct_wimm_iface_t *iface, uct_ib_dir_t dir)
{
    if (!(iface->found.dirs & UCS_BIT(dir)) &&
        (uct_wimm_iface_poll_cq(iface, dir, 1, &iface->found.wc[dir]) > 0)) {
        iface->found.dirs |= UCS_BIT(dir);
    }

    return iface->found.dirs & UCS_BIT(dir);
}

static ucs_status_t uct_wimm_iface_event_arm(uct_iface_h tl_iface,
                                             unsigned events)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);
    ucs_status_t status;

    /* Peers may wait for what is still to be sent. What cannot be sent now needs
     * a send completion, also if the user does not, or a grant. */
    uct_wimm_iface_ctrl_progress(iface);
    if (!ucs_list_is_empty(&iface->fc.ctrl_list)) {
        events |= UCT_EVENT_SEND_COMP;
    }

    /* A user that waits to send may be waiting for slots, too */
    status = uct_rc_iface_common_event_arm(tl_iface, events,
                                           !!(events & UCT_EVENT_SEND_COMP));
    if (status != UCS_OK) {
        return status;
    }

    if (((events & (UCT_EVENT_RECV | UCT_EVENT_SEND_COMP)) &&
         uct_wimm_iface_find_wc(iface, UCT_IB_DIR_RX)) ||
        ((events & UCT_EVENT_SEND_COMP) &&
         uct_wimm_iface_find_wc(iface, UCT_IB_DIR_TX))) {
        return UCS_ERR_BUSY;
    }

    /* There is no event for what progress has to do without a completion. The
     * queue pairs of destroyed endpoints are part of it: they go after a time. */
    if ((iface->deferred != 0) || uct_wimm_imm_is_deliverable(iface)) {
        return UCS_ERR_BUSY;
    }

    /* No event comes if nothing can be received */
    uct_wimm_iface_refill_rx(iface);
    return (iface->super.super.rx.srq.available < iface->fc.srq_len) ?
                   UCS_OK :
                   UCS_ERR_BUSY;
}

static ucs_status_t uct_wimm_iface_tl_query(uct_iface_h tl_iface,
                                            uct_iface_attr_t *iface_attr)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);
    ucs_status_t status;

    status = iface->base_query(tl_iface, iface_attr);
    if (status != UCS_OK) {
        return status;
    }

    iface_attr->iface_addr_len = sizeof(uct_wimm_iface_addr_t);
    iface_attr->ep_addr_len += sizeof(uct_wimm_ep_addr_t);
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

int uct_wimm_iface_check_dev_addr(uct_wimm_iface_t *iface,
                                  const uct_device_addr_t *dev_addr)
{
    const uct_ib_address_t *ib_addr = (const uct_ib_address_t *)dev_addr;
    uct_ib_iface_t *ib_iface        = &iface->super.super.super;
    int is_roce                     = uct_ib_iface_is_roce(ib_iface);
    const uint8_t subnet_flags      = UCT_IB_ADDRESS_FLAG_SUBNET16 |
                                 UCT_IB_ADDRESS_FLAG_SUBNET64;
    const struct ibv_port_attr *port_attr = uct_ib_iface_port_attr(ib_iface);
    uct_ib_address_pack_params_t params;

    if (!is_roce != !(ib_addr->flags & UCT_IB_ADDRESS_FLAG_LINK_LAYER_ETH) ||
        (!is_roce && ucs_test_all_flags(ib_addr->flags, subnet_flags))) {
        return 0;
    }

    uct_ib_address_unpack(ib_addr, &params);
    if ((params.flags & UCT_IB_ADDRESS_PACK_FLAG_PATH_MTU) &&
        ((params.path_mtu < IBV_MTU_256) || (params.path_mtu > IBV_MTU_4096))) {
        return 0;
    }

    /* Of this side's port: rdmacm puts it into the address that it gives to UCP */
    if ((params.flags & UCT_IB_ADDRESS_PACK_FLAG_GID_INDEX) &&
        ((params.gid_index == UCT_IB_ADDRESS_INVALID_GID_INDEX) ||
         (params.gid_index >= port_attr->gid_tbl_len))) {
        return 0;
    }

    return (params.gid.global.interface_id != 0) ||
           (!ib_iface->config.force_global_addr &&
            (params.gid.global.subnet_prefix ==
             ib_iface->gid_info.gid.global.subnet_prefix));
}

/* UCP chooses by this who looks after idle peers. rc_verbs says as many endpoints as its
 * completion queue takes full send queues, and asserts that it takes one: who ties with it
 * says so, too. But any ud_verbs wins then, with times of its own. A check is one request, and
 * waits if there is no room. */
static ucs_status_t uct_wimm_iface_estimate_perf(uct_iface_h tl_iface,
                                                 uct_perf_attr_t *perf_attr)
{
    uct_wimm_iface_t *iface  = ucs_derived_of(tl_iface, uct_wimm_iface_t);
    uct_rc_iface_t *rc_iface = &iface->super.super;
    ucs_status_t status;

    status = uct_ib_iface_estimate_perf(tl_iface, perf_attr);
    if (status != UCS_OK) {
        return status;
    }

    if ((perf_attr->field_mask & UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS) &&
        !iface->config.prefer) {
        perf_attr->max_inflight_eps = ucs_max(
                1, rc_iface->config.tx_cq_len / rc_iface->config.tx_qp_len);
    }

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

    if (!uct_wimm_iface_check_dev_addr(iface, dev_addr)) {
        ucs_debug(
                "the peer's device address is not one of this kind of device");
        return 0;
    }

    return iface->base_is_reachable(tl_iface, dev_addr, iface_addr);
}

/* The device may tell a sleeping receiver less often */
static void uct_wimm_iface_set_event_moderation(
        uct_wimm_iface_t *iface, const uct_wimm_iface_config_t *config)
{
    struct ibv_modify_cq_attr attr = {
        .attr_mask         = IBV_CQ_ATTR_MODERATE,
        .moderate.cq_count = config->rx_event_mod_count
    };
    int ret;

    attr.moderate.cq_period = (config->rx_event_mod_period * UCS_USEC_PER_SEC) +
                              0.5;
    if ((attr.moderate.cq_count == 0) && (attr.moderate.cq_period == 0)) {
        return;
    }

    /* Somebody has asked for it: a warning, which is shown */
    ret = ibv_modify_cq(iface->super.super.super.cq[UCT_IB_DIR_RX], &attr);
    if (ret != 0) {
        ucs_warn("no moderation of receive events on " UCT_IB_IFACE_FMT
                 " (UCX_WIMM_RX_EVENT_MOD_COUNT, _PERIOD):"
                 " ibv_modify_cq() failed: %s",
                 UCT_IB_IFACE_ARG(&iface->super.super.super),
                 strerror((ret > 0) ? ret : errno));
    }
}

static ucs_status_t uct_wimm_iface_check_config(
        const uct_wimm_iface_config_t *config)
{
    const uct_rc_iface_common_config_t *rc_config = &config->super.super.super;
    double period_us = config->rx_event_mod_period * UCS_USEC_PER_SEC;

    if ((config->num_slots == 0) || (config->num_slots > UCT_WIMM_MAX_SLOTS)) {
        ucs_error("UCX_WIMM_NUM_SLOTS is %u, it has to be 1 to %d",
                  config->num_slots, UCT_WIMM_MAX_SLOTS);
        return UCS_ERR_INVALID_PARAM;
    }

    if (rc_config->fc.enable && (rc_config->fc.wnd_size == 0)) {
        ucs_error("UCX_WIMM_FC_WND_SIZE is 0, nothing could be sent");
        return UCS_ERR_INVALID_PARAM;
    }

    if (rc_config->super.rx.queue_len == 0) {
        ucs_error("UCX_WIMM_RX_QUEUE_LEN is 0, nothing could be received");
        return UCS_ERR_INVALID_PARAM;
    }

    if (config->super.super.tx_cq_len < 2) {
        ucs_error("UCX_WIMM_TX_CQ_LEN is %u, it has to be 2 or more",
                  config->super.super.tx_cq_len);
        return UCS_ERR_INVALID_PARAM;
    }

    /* Also if it is no number */
    if ((config->rx_event_mod_count > UINT16_MAX) ||
        !((period_us >= 0) && (period_us < (UINT16_MAX + 0.5)))) {
        ucs_error("UCX_WIMM_RX_EVENT_MOD_COUNT is %u and"
                  " UCX_WIMM_RX_EVENT_MOD_PERIOD %.0f us, they have to be 0 to"
                  " %u",
                  config->rx_event_mod_count, period_us, UINT16_MAX);
        return UCS_ERR_INVALID_PARAM;
    }

    return UCS_OK;
}

UCS_CLASS_INIT_FUNC(uct_wimm_iface_t, uct_md_h md, uct_worker_h worker,
                    const uct_iface_params_t *params,
                    const uct_iface_config_t *tl_config)
{
    const uct_wimm_iface_config_t *config =
            ucs_derived_of(tl_config, uct_wimm_iface_config_t);
    uct_ib_iface_t *ib_iface = &self->super.super.super;
    uct_rc_iface_t *rc_iface = &self->super.super;
    uct_iface_ops_t *ops     = &ib_iface->super.super.ops;
    ucs_status_t status;

    status = uct_wimm_iface_check_config(config);
    if (status != UCS_OK) {
        return status;
    }

    status = uct_wimm_rc_verbs_iface_init(&self->super, _myclass->superclass,
                                          _init_count, md, worker, params,
                                          tl_config);
    if (status != UCS_OK) {
        return status;
    }

    ++(*_init_count);

    status = uct_wimm_imm_init(self);
    if (status != UCS_OK) {
        goto err;
    }

    status = uct_wimm_pending_init(self);
    if (status != UCS_OK) {
        goto err_imm_cleanup;
    }

    self->found.dirs    = 0;
    self->deferred      = 0;
    self->device_errors = 0;
    self->drain_cb_id   = UCS_CALLBACKQ_ID_NULL;
    memset(&self->closed_eps, 0, sizeof(self->closed_eps));
    ucs_list_head_init(&self->failed_eps);

    self->config.prefer           = config->prefer;
    self->config.stats            = config->stats;
    self->config.qp_drain_timeout = ucs_time_from_sec(config->qp_drain_timeout);
    self->config.num_slots        = config->num_slots;
    self->config.slot_batch       = ucs_max(config->num_slots / 2, 1);
    self->config.max_zcopy = uct_ib_iface_port_attr(ib_iface)->max_msg_sz;

    ib_iface->config.rx_max_poll = ucs_min(ib_iface->config.rx_max_poll,
                                           UCT_WIMM_MAX_POLL);
    ib_iface->config.tx_max_poll = ucs_min(ib_iface->config.tx_max_poll,
                                           UCT_WIMM_MAX_POLL);

    /* It is 0, which posts nothing, where the queue has fewer than 4 */
    self->config.rx_max_batch =
            ucs_min(config->super.super.super.super.rx.max_batch,
                    UCT_WIMM_MAX_RECV_BATCH);
    ib_iface->config.rx_max_batch = ucs_min(ib_iface->config.rx_max_batch,
                                            self->config.rx_max_batch);
    ib_iface->config.rx_max_batch = ucs_max(ib_iface->config.rx_max_batch, 1);

    uct_wimm_fc_init(self);
    uct_wimm_iface_set_event_moderation(self, config);

    /* What rc_verbs does, with our changes. The tables of the base class are
     * shared with rc_verbs, so these are copies. */
    self->rc_ops = *ucs_derived_of(ib_iface->ops, uct_rc_iface_ops_t);
    self->rc_ops.super.handle_failure = uct_wimm_ep_handle_tx_failure;
    self->rc_ops.fc_handler           = uct_wimm_fc_handler;
    self->rc_ops.ep_post_check        = uct_wimm_ep_post_check;
    self->rc_ops.super.super.iface_estimate_perf = uct_wimm_iface_estimate_perf;
    ib_iface->ops                                = &self->rc_ops.super;
    ib_iface->super.internal_ops                 = &self->rc_ops.super.super;

    rc_iface->progress          = uct_wimm_iface_progress;
    self->base_query            = ops->iface_query;
    self->base_is_reachable     = ops->iface_is_reachable;
    ops->ep_create              = UCS_CLASS_NEW_FUNC_NAME(uct_wimm_ep_t);
    ops->ep_destroy             = uct_wimm_ep_destroy;
    ops->ep_get_address         = uct_wimm_ep_get_address;
    ops->ep_connect_to_ep       = uct_wimm_ep_connect_to_ep;
    ops->ep_put_short           = uct_wimm_ep_put_short;
    ops->ep_put_bcopy           = uct_wimm_ep_put_bcopy;
    ops->ep_put_zcopy           = uct_wimm_ep_put_zcopy;
    ops->ep_pending_add         = uct_wimm_ep_pending_add;
    ops->ep_pending_purge       = uct_wimm_ep_pending_purge;
    ops->ep_flush               = uct_wimm_ep_flush;
    ops->iface_progress_enable  = uct_wimm_iface_progress_enable;
    ops->iface_progress_disable = uct_wimm_iface_progress_disable;
    ops->iface_event_arm        = uct_wimm_iface_event_arm;
    ops->iface_close            = UCS_CLASS_DELETE_FUNC_NAME(uct_wimm_iface_t);
    ops->iface_query            = uct_wimm_iface_tl_query;
    ops->iface_get_address      = uct_wimm_iface_get_address;
    ops->iface_is_reachable     = uct_wimm_iface_is_reachable;
    return UCS_OK;

err_imm_cleanup:
    uct_wimm_imm_cleanup(self);
err:
    return status;
}

static UCS_CLASS_CLEANUP_FUNC(uct_wimm_iface_t)
{
    /* rc_verbs' destructor stops progress, too, but needs what goes here */
    uct_base_iface_progress_disable(&self->super.super.super.super.super,
                                    UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    uct_wimm_qp_drain_stop(self);

    if (self->config.stats) {
        uct_wimm_stats_print_iface(self);
    }

    uct_wimm_imm_cleanup(self);
    uct_wimm_pending_cleanup(self);
}

UCS_CLASS_DEFINE(uct_wimm_iface_t, uct_rc_verbs_iface_t);
UCS_CLASS_DEFINE_NEW_FUNC(uct_wimm_iface_t, uct_iface_t, uct_md_h, uct_worker_h,
                          const uct_iface_params_t *,
                          const uct_iface_config_t *);
UCS_CLASS_DEFINE_DELETE_FUNC(uct_wimm_iface_t, uct_iface_t);
