/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_ep.h"
#include "wimm_imm.h"
#include "wimm_pending.h"
#include "wimm_stats.h"

#include <uct/ib/base/ib_log.h>
#include <uct/ib/base/ib_verbs.h>
#include <ucs/debug/log.h>
#include <ucs/debug/memtrack_int.h>
#include <string.h>


UCS_CLASS_INIT_FUNC(uct_wimm_ep_t, const uct_ep_params_t *params)
{
    uct_wimm_iface_t *iface = ucs_derived_of(params->iface, uct_wimm_iface_t);
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
    self->dead_qp      = dead_qp;
    self->fail_status  = UCS_OK;
    self->flags        = 0;
    self->tx_slots     = 0;
    self->tx_num_slots = 0;
    self->rx_slots     = 0;
    self->rx_held      = 0;
    self->rx_return    = 0;
    self->rx_length    = 0;
    self->user         = NULL;
    memset(&self->counters, 0, sizeof(self->counters));
    uct_wimm_ep_pending_init(self);
    uct_wimm_fc_ep_init(iface, self);

    /* Before the peer gets the address, and can send */
    uct_wimm_iface_post_all_recv(iface);
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

    if (iface->config.stats) {
        uct_wimm_stats_print_ep(self);
    }

    uct_wimm_stats_ep_cleanup(iface, self);
    uct_wimm_fc_ep_cleanup(self);
    uct_wimm_imm_purge(iface, self->super.qp->qp_num);
    uct_wimm_ep_pending_cleanup(iface, self);
    uct_rc_txqp_purge_outstanding(&iface->super.super, &self->super.super.txqp,
                                  UCS_ERR_CANCELED, self->super.txcnt.pi, 1);
    if (self->user != NULL) {
        self->user->destroyed(self->user);
    }

    uct_wimm_qp_retire(self->dead_qp, self);
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

ucs_status_t uct_wimm_ep_get_address(uct_ep_h tl_ep, uct_ep_addr_t *addr)
{
    uct_wimm_ep_t *ep             = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    const uct_wimm_iface_t *iface = uct_wimm_ep_iface(ep);
    uct_wimm_ep_addr_t *wimm_addr = (uct_wimm_ep_addr_t *)addr;

    uct_wimm_ep_addr_pack(wimm_addr, ep->rx_initial, iface->config.num_slots);
    return uct_rc_verbs_ep_get_address(tl_ep, (uct_ep_addr_t *)(wimm_addr + 1));
}

ucs_status_t uct_wimm_ep_connect_to_ep(uct_ep_h tl_ep,
                                       const uct_device_addr_t *dev_addr,
                                       const uct_ep_addr_t *ep_addr)
{
    uct_wimm_ep_t *ep                   = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    const uct_wimm_ep_addr_t *wimm_addr = (const uct_wimm_ep_addr_t *)ep_addr;
    unsigned credits, num_slots;
    ucs_status_t status;

    if (!uct_wimm_ep_addr_unpack(wimm_addr, &credits, &num_slots)) {
        ucs_error("the peer's endpoint address is not one of wimm");
        return UCS_ERR_INVALID_ADDR;
    }

    if (!uct_wimm_iface_check_dev_addr(uct_wimm_ep_iface(ep), dev_addr)) {
        ucs_error("the peer's device address is not one of this kind of"
                  " device");
        return UCS_ERR_INVALID_ADDR;
    }

    status = uct_rc_verbs_ep_connect_to_ep(tl_ep, dev_addr,
                                           (const uct_ep_addr_t *)(wimm_addr +
                                                                   1));
    if (status != UCS_OK) {
        return status;
    }

    ep->tx_num_slots = num_slots;
    ep->tx_slots     = num_slots;
    uct_wimm_fc_ep_connected(uct_wimm_ep_iface(ep), ep, credits);
    return UCS_OK;
}

ucs_status_t uct_wimm_ep_post_empty(uct_wimm_ep_t *ep, unsigned send_flags)
{
    uct_wimm_iface_t *iface = uct_wimm_ep_iface(ep);
    struct ibv_send_wr wr;

    UCT_RC_CHECK_TX_CQ_RES(&iface->super.super, &ep->super.super);
    UCT_RC_CHECK_NUM_RDMA_READ_RET(&iface->super.super, UCS_ERR_NO_RESOURCE);

    wr.opcode              = IBV_WR_RDMA_WRITE;
    wr.sg_list             = NULL;
    wr.num_sge             = 0;
    wr.wr.rdma.remote_addr = 0;
    wr.wr.rdma.rkey        = 0;
    return uct_wimm_ep_post_send(iface, ep, &wr, send_flags);
}

void uct_wimm_ep_post_check(uct_ep_h tl_ep)
{
    /* Resources were checked. If the device refuses it, the endpoint has failed,
     * which is what the check is to find. */
    uct_wimm_ep_post_empty(ucs_derived_of(tl_ep, uct_wimm_ep_t), 0);
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

    ep->super.super.flags |= UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED;
    ++ep->counters.failed;
    uct_wimm_ep_pending_set_aside(iface, ep);
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

    uct_wimm_ep_pending_failed(ep, status);
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
    if (ep->super.super.flags & UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED) {
        /* What was queued since, to get rid of the endpoint */
        ucs_arbiter_group_schedule(&rc_iface->tx.arbiter,
                                   &ep->super.super.arb_group);
    }
    uct_wimm_ep_tx_completed(rc_iface, ep, count);

    uct_wimm_ep_failed(ep, status, wc, UCT_IB_DIR_TX);
    uct_wimm_iface_arbiter_dispatch(iface);
}

ucs_status_t UCS_F_NOINLINE uct_wimm_ep_post_failed(uct_wimm_ep_t *ep, int ret)
{
    ucs_error("ibv_post_send() on qp 0x%x failed: %s", ep->super.qp->qp_num,
              strerror(ret));
    uct_wimm_ep_fail_later(ep, UCS_ERR_IO_ERROR);
    return UCS_ERR_IO_ERROR;
}

ucs_status_t uct_wimm_ep_set_user(uct_ep_h tl_ep, uct_wimm_ep_user_t *user)
{
    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);

    ucs_derived_of(tl_ep, uct_wimm_ep_t)->user = user;
    return UCS_OK;
}

uct_wimm_ep_user_t *uct_wimm_ep_get_user(uct_ep_h tl_ep)
{
    if (!uct_wimm_iface_is(tl_ep->iface)) {
        return NULL;
    }

    return ucs_derived_of(tl_ep, uct_wimm_ep_t)->user;
}
