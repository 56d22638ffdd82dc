/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_ep.h"

#include <uct/ib/rc/verbs/rc_verbs_impl.h>
#include <uct/ib/base/ib_log.h>
#include <uct/ib/base/ib_verbs.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <arpa/inet.h>
#include <inttypes.h>
#include <string.h>


static UCS_F_ALWAYS_INLINE uct_wimm_iface_t *uct_wimm_ep_iface(uct_wimm_ep_t *ep)
{
    return ucs_derived_of(ep->super.super.super.super.iface, uct_wimm_iface_t);
}

static UCS_F_ALWAYS_INLINE int uct_wimm_ep_is_dead(const uct_wimm_ep_t *ep)
{
    return ep->super.super.flags &
           (UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED | UCT_RC_EP_FLAG_FLUSH_CANCEL);
}

UCS_CLASS_INIT_FUNC(uct_wimm_ep_t, const uct_ep_params_t *params)
{
    uct_wimm_qp_t *dead_qp;
    ucs_status_t status;

    dead_qp = ucs_malloc(sizeof(*dead_qp), "uct_wimm_qp");
    if (dead_qp == NULL) {
        ucs_error(
                "failed to allocate memory for the queue pair of an endpoint");
        return UCS_ERR_NO_MEMORY;
    }

    /* Not UCS_CLASS_CALL_SUPER_INIT, which returns on an error. If the queue pair
     * cannot be initialized, rc_verbs leaves the endpoint, which is released now,
     * on the interface's list. */
    self->super.super.list.next = NULL;
    status = uct_rc_verbs_ep_t_init(&self->super, _myclass->superclass,
                                    _init_count, params);
    if (status != UCS_OK) {
        if (self->super.super.list.next != NULL) {
            ucs_list_del(&self->super.super.list);
        }
        ucs_free(dead_qp);
        return status;
    }

    ++(*_init_count);
    self->dead_qp     = dead_qp;
    self->fail_status = UCS_OK;
    return UCS_OK;
}

/* Up to where rc_verbs' destructor would begin: that one is left out */
static UCS_CLASS_CLEANUP_FUNC(uct_wimm_ep_t)
{
    uct_wimm_iface_t *iface = uct_wimm_ep_iface(self);

    if (self->fail_status != UCS_OK) {
        ucs_list_del(&self->fail_list);
        --iface->deferred;
    }

    uct_wimm_iface_imm_purge(iface, self->super.qp->qp_num);
    uct_rc_txqp_purge_outstanding(&iface->super.super, &self->super.super.txqp,
                                  UCS_ERR_CANCELED, self->super.txcnt.pi, 1);
    uct_wimm_qp_retire(self->dead_qp, &self->super);
}

UCS_CLASS_DEFINE(uct_wimm_ep_t, uct_rc_verbs_ep_t)
UCS_CLASS_DEFINE_NEW_FUNC(uct_wimm_ep_t, uct_ep_t, const uct_ep_params_t *);

void uct_wimm_ep_destroy(uct_ep_h tl_ep)
{
    uct_wimm_ep_t *ep = ucs_derived_of(tl_ep, uct_wimm_ep_t);

    UCS_CLASS_NAME(uct_wimm_ep_t).cleanup(ep);
    ucs_class_call_cleanup_chain(&UCS_CLASS_NAME(uct_rc_ep_t), ep, -1);
    ucs_class_free(ep);
}

void uct_wimm_ep_failed(uct_wimm_ep_t *ep, ucs_status_t status,
                        const struct ibv_wc *wc, uct_ib_dir_t dir)
{
    uct_wimm_iface_t *iface  = uct_wimm_ep_iface(ep);
    uct_rc_iface_t *rc_iface = &iface->super.super;
    uint32_t qp_num          = ep->super.qp->qp_num;
    char peer_info[128]      = {};
    struct ibv_ah_attr ah_attr;
    ucs_log_level_t log_level;
    ucs_status_t handler_status;
    unsigned dest_qpn;

    if (uct_wimm_ep_is_dead(ep)) {
        return;
    }

    /* The user's pending requests stay for uct_ep_pending_purge(), but are not
     * called any more: they would get an error, which the base class asserts
     * not to happen while there are resources */
    ep->super.super.flags |= UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED;
    ucs_arbiter_group_purge(&rc_iface->tx.arbiter, &ep->super.super.arb_group,
                            uct_rc_ep_arbiter_purge_internal_cb, NULL);
    ucs_arbiter_group_desched(&rc_iface->tx.arbiter,
                              &ep->super.super.arb_group);
    uct_rc_fc_restore_wnd(rc_iface, &ep->super.super.fc);

    /* Before the error handler, which may destroy the endpoint */
    if (uct_ib_query_qp_peer_info(ep->super.qp, &ah_attr, &dest_qpn) ==
        UCS_OK) {
        uct_ib_log_dump_qp_peer_info(&rc_iface->super, &ah_attr, dest_qpn,
                                     peer_info, sizeof(peer_info));
    }

    /* The flush that is seen first follows from an error that is seen later, or
     * from one of ours that waits to be reported */
    if (status == UCS_ERR_CANCELED) {
        status = (ep->fail_status != UCS_OK) ? ep->fail_status :
                                               UCS_ERR_CONNECTION_RESET;
    }

    handler_status = uct_iface_handle_ep_err(&rc_iface->super.super.super,
                                             &ep->super.super.super.super,
                                             status);

    /* An error that nobody handles is reported, but it does not end the
     * process */
    log_level = uct_base_iface_failure_log_level(&rc_iface->super.super,
                                                 handler_status, status);
    log_level = ucs_max(log_level, UCS_LOG_LEVEL_ERROR);
    if (wc != NULL) {
        ucs_log(log_level,
                "%s completion with error: %s [qp 0x%x wrid 0x%lx vendor_err"
                " 0x%x] %s",
                (dir == UCT_IB_DIR_RX) ? "receive" : "send",
                ibv_wc_status_str(wc->status), qp_num, wc->wr_id,
                wc->vendor_err, peer_info);
    } else {
        ucs_log(log_level, "endpoint failed: %s [qp 0x%x] %s",
                ucs_status_string(status), qp_num, peer_info);
    }
}

void uct_wimm_ep_fail_later(uct_wimm_ep_t *ep, ucs_status_t status)
{
    uct_wimm_iface_t *iface;

    if ((ep == NULL) || uct_wimm_ep_is_dead(ep) ||
        (ep->fail_status != UCS_OK)) {
        return;
    }

    iface = uct_wimm_ep_iface(ep);
    uct_wimm_ib_qp_set_error(ep->super.qp);
    ep->fail_status = status;
    ucs_list_add_tail(&iface->failed_eps, &ep->fail_list);
    ++iface->deferred;
}

unsigned uct_wimm_ep_progress_failed(uct_wimm_iface_t *iface)
{
    unsigned count = 0;
    uct_wimm_ep_t *ep;
    ucs_status_t status;

    /* One by one: an error handler may destroy any of them */
    while (!ucs_list_is_empty(&iface->failed_eps)) {
        ep     = ucs_list_extract_head(&iface->failed_eps, uct_wimm_ep_t,
                                       fail_list);
        status = ep->fail_status;
        ep->fail_status = UCS_OK;
        --iface->deferred;
        uct_wimm_ep_failed(ep, status, NULL, UCT_IB_DIR_TX);
        ++count;
    }

    return count;
}

void uct_wimm_ep_handle_tx_failure(uct_ib_iface_t *ib_iface, void *arg,
                                   ucs_status_t status)
{
    const struct ibv_wc *wc  = arg;
    uct_wimm_iface_t *iface  = ucs_derived_of(ib_iface, uct_wimm_iface_t);
    uct_rc_iface_t *rc_iface = &iface->super.super;
    uct_wimm_ep_t *ep        = uct_wimm_ep_lookup(iface, wc->qp_num);
    uint16_t count;

    if (ep == NULL) {
        uct_wimm_qp_completion(iface, wc);
        return;
    }

    count = (uint16_t)wc->wr_id - ep->super.txcnt.ci;
    uct_rc_txqp_purge_outstanding(rc_iface, &ep->super.super.txqp, status,
                                  ep->super.txcnt.ci + count, 0);
    uct_wimm_ep_tx_completed(rc_iface, ep, count);

    uct_wimm_ep_failed(ep, status, wc, UCT_IB_DIR_TX);
    uct_rc_iface_arbiter_dispatch(rc_iface);
}

static UCS_F_NOINLINE ucs_status_t uct_wimm_ep_post_failed(uct_wimm_ep_t *ep,
                                                           int ret)
{
    ucs_error("ibv_post_send() on qp 0x%x failed: %s", ep->super.qp->qp_num,
              strerror(ret));
    uct_wimm_ep_fail_later(ep, UCS_ERR_IO_ERROR);
    return UCS_ERR_IO_ERROR;
}

/* Why nothing can be posted on this endpoint */
static UCS_F_NOINLINE ucs_status_t uct_wimm_ep_state_status(uct_wimm_ep_t *ep)
{
    return (uct_wimm_ep_is_dead(ep) || (ep->fail_status != UCS_OK)) ?
                   UCS_ERR_CONNECTION_RESET :
                   UCS_ERR_NOT_CONNECTED;
}

/* What every operation of ours checks before it is posted. As UCT_RC_CHECK_RES,
 * but a wrong state of the endpoint is an error, not an assertion. */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_check_res(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep)
{
    if (ucs_unlikely(
                ((ep->super.super.flags & (UCT_RC_EP_FLAG_CONNECTED |
                                           UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED |
                                           UCT_RC_EP_FLAG_FLUSH_CANCEL)) !=
                 UCT_RC_EP_FLAG_CONNECTED) ||
                (ep->fail_status != UCS_OK))) {
        return uct_wimm_ep_state_status(ep);
    }

    UCT_RC_CHECK_TX_CQ_RES(&iface->super.super, &ep->super.super);
    UCT_RC_CHECK_NUM_RDMA_READ_RET(&iface->super.super, UCS_ERR_NO_RESOURCE);
    return UCS_OK;
}

/* Post a write with immediate. The caller has filled all but what is common. */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_post_imm(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                     struct ibv_send_wr *wr, uint32_t imm, unsigned send_flags)
{
    struct ibv_send_wr *bad_wr;
    int ret;

    wr->next       = NULL;
    wr->opcode     = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data   = htonl(imm);
    wr->send_flags = send_flags | IBV_SEND_SOLICITED;
    wr->wr_id      = ep->super.txcnt.pi + 1;

    ucs_trace_data("ep %p: post write with imm 0x%x to 0x%" PRIx64
                   " rkey 0x%x, %d sge",
                   ep, imm, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey,
                   wr->num_sge);

    ret = ibv_post_send(ep->super.qp, wr, &bad_wr);
    if (ucs_unlikely(ret != 0)) {
        return uct_wimm_ep_post_failed(ep, ret);
    }

    uct_rc_verbs_txqp_posted(&ep->super.super.txqp, &ep->super.txcnt,
                             &iface->super.super,
                             send_flags & IBV_SEND_SIGNALED);
    return UCS_OK;
}

ucs_status_t uct_wimm_ep_put_imm_short(uct_ep_h tl_ep, const void *buffer,
                                       unsigned length, uint64_t remote_addr,
                                       uct_rkey_t rkey, uint32_t imm)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    unsigned send_flags     = IBV_SEND_SIGNALED;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    ucs_status_t status;

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);
    UCT_WIMM_CHECK_PARAM(length <= iface->super.config.max_inline,
                         "Invalid put_imm_short length: %u (expected: <= %zu)",
                         length, iface->super.config.max_inline);

    status = uct_wimm_ep_check_res(iface, ep);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    if (ucs_likely(length > 0)) {
        uct_rc_ep_fence_put(&iface->super.super, &ep->super.fi, &rkey,
                            &remote_addr, ep->super.super.atomic_mr_offset);
        send_flags |= IBV_SEND_INLINE;
        sge.addr   = (uintptr_t)buffer;
        sge.length = length;
        wr.num_sge = 1;
    } else {
        /* Nothing is written: no key is needed, and a fence is left to the
         * next write. The device may have no inline at all. */
        remote_addr = 0;
        rkey        = 0;
        wr.num_sge  = 0;
    }

    wr.sg_list             = &sge;
    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey        = rkey;
    status = uct_wimm_ep_post_imm(iface, ep, &wr, imm, send_flags);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super.super.super, PUT, SHORT,
                                 length);
    return status;
}
