/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_def.h"
#include "wimm_pending.h"

#include <uct/ib/base/ib_verbs.h>
#include <ucs/debug/log.h>
#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>


/* As the base class completes its send descriptors, which knows them by it */
#define UCT_WIMM_SEND_DESC_PUT \
  ((uct_rc_send_handler_t)(void (*)(void))ucs_mpool_put)


/* Why nothing can be posted on this endpoint */
static UCS_F_NOINLINE ucs_status_t uct_wimm_ep_state_status(uct_wimm_ep_t *ep)
{
    return (uct_wimm_ep_is_dead(ep) || (ep->fail_status != UCS_OK)) ?
                   UCS_ERR_CONNECTION_RESET :
                   UCS_ERR_NOT_CONNECTED;
}

/* What every put checks before it is posted. As UCT_RC_CHECK_RES, but a wrong state
 * of the endpoint is an error, not an assertion. Only notified ones wait for what is
 * queued, and for credits and slots. */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_check_put(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep, int notify)
{
    if (ucs_unlikely(!uct_wimm_ep_is_usable(ep))) {
        return uct_wimm_ep_state_status(ep);
    }

    UCT_RC_CHECK_TX_CQ_RES(&iface->super.super, &ep->super.super);
    UCT_RC_CHECK_NUM_RDMA_READ_RET(&iface->super.super, UCS_ERR_NO_RESOURCE);
    return notify ? uct_wimm_ep_check_imm(iface, ep) : UCS_OK;
}

/* Post a write, with immediate if it notifies: wr->sg_list has "num_sge" entries */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_wimm_ep_post_put(
        uct_wimm_iface_t *iface, uct_wimm_ep_t *ep, struct ibv_send_wr *wr,
        int num_sge, uint64_t remote_addr, uct_rkey_t rkey, int notify,
        uint32_t imm, unsigned send_flags)
{
    ucs_status_t status;

    if (ucs_likely(num_sge > 0)) {
        uct_rc_ep_fence_put(&iface->super.super, &ep->super.fi, &rkey,
                            &remote_addr, ep->super.super.atomic_mr_offset);
    } else {
        /* Nothing is written: no key is needed, and a fence is left to the
         * next write. The device may have no inline at all. */
        remote_addr = 0;
        rkey        = 0;
        send_flags &= ~IBV_SEND_INLINE;
    }

    wr->num_sge             = num_sge;
    wr->wr.rdma.remote_addr = remote_addr;
    wr->wr.rdma.rkey        = rkey;
    if (!notify) {
        ucs_trace_data("ep %p: post write to 0x%" PRIx64 " rkey 0x%x, %d sge",
                       ep, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey,
                       wr->num_sge);

        /* Signaled, as rc_verbs does it */
        wr->opcode = IBV_WR_RDMA_WRITE;
        return uct_wimm_ep_post_send(iface, ep, wr,
                                     send_flags | IBV_SEND_SIGNALED);
    }

    ucs_trace_data("ep %p: post write with imm 0x%x to 0x%" PRIx64
                   " rkey 0x%x, %d sge",
                   ep, imm, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey,
                   wr->num_sge);

    /* Solicited, for a peer that sleeps until something is received */
    wr->opcode   = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr->imm_data = htonl(imm);
    status       = uct_wimm_ep_post_send(iface, ep, wr,
                                         send_flags | IBV_SEND_SOLICITED);
    if (ucs_likely(status == UCS_OK)) {
        UCT_RC_UPDATE_FC_WND(&ep->super.super.fc);
        --ep->tx_slots;
        ++ep->counters.posted;
    }

    return status;
}

static UCS_F_ALWAYS_INLINE ucs_status_t uct_wimm_ep_do_put_short(
        uct_ep_h tl_ep, const void *buffer, unsigned length,
        uint64_t remote_addr, uct_rkey_t rkey, int notify, uint32_t imm)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    ucs_status_t status;

    UCT_WIMM_CHECK_PARAM(length <= iface->super.config.max_inline,
                         "Invalid %s length: %u (expected: <= %zu)",
                         notify ? "put_imm_short" : "put_short", length,
                         iface->super.config.max_inline);

    status = uct_wimm_ep_check_put(iface, ep, notify);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    sge.addr   = (uintptr_t)buffer;
    sge.length = length;
    wr.sg_list = &sge;
    status = uct_wimm_ep_post_put(iface, ep, &wr, length > 0, remote_addr, rkey,
                                  notify, imm, IBV_SEND_INLINE);
    UCT_TL_EP_STAT_OP_IF_SUCCESS(status, &ep->super.super.super, PUT, SHORT,
                                 length);
    return status;
}

ucs_status_t uct_wimm_ep_put_short(uct_ep_h tl_ep, const void *buffer,
                                   unsigned length, uint64_t remote_addr,
                                   uct_rkey_t rkey)
{
    return uct_wimm_ep_do_put_short(tl_ep, buffer, length, remote_addr, rkey, 0,
                                    0);
}

ucs_status_t uct_wimm_ep_put_imm_short(uct_ep_h tl_ep, const void *buffer,
                                       unsigned length, uint64_t remote_addr,
                                       uct_rkey_t rkey, uint32_t imm)
{
    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);
    return uct_wimm_ep_do_put_short(tl_ep, buffer, length, remote_addr, rkey, 1,
                                    imm);
}

ucs_status_t uct_wimm_ep_notify(uct_ep_h tl_ep, uint32_t imm)
{
    return uct_wimm_ep_put_imm_short(tl_ep, NULL, 0, 0, UCT_INVALID_RKEY, imm);
}

/* Take a buffer to send from. @return Flags to send it with, in *send_flags_p. */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_get_desc(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                     uct_rc_iface_send_desc_t **desc_p, unsigned *send_flags_p)
{
    uct_rc_iface_t *rc_iface       = &iface->super.super;
    uct_rc_iface_send_desc_t *desc = ucs_mpool_get_inline(&rc_iface->tx.mp);

    if (ucs_unlikely(desc == NULL)) {
        /* If the pool has not grown to its limit no completion would help: the
         * pending queue goes on only if there is no buffer left */
        if (ucs_mpool_is_empty(&rc_iface->tx.mp)) {
            return UCS_ERR_NO_RESOURCE;
        }

        uct_wimm_ep_end_turn(iface, ep);
        return UCS_ERR_NO_MEMORY;
    }

    desc->super.handler = UCT_WIMM_SEND_DESC_PUT;
    *desc_p             = desc;

    /* The last buffer must come back, whatever the moderation */
    *send_flags_p = ucs_unlikely(ucs_mpool_is_empty(&rc_iface->tx.mp)) ?
                            IBV_SEND_SIGNALED :
                            0;
    return UCS_OK;
}

ucs_status_t uct_wimm_ep_announce(uct_ep_h tl_ep, uint64_t length)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    uct_rc_iface_send_desc_t *desc;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    unsigned send_flags;
    ucs_status_t status;

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);
    UCT_WIMM_CHECK_PARAM(length > 0, "a length of 0 is announced");

    status = uct_wimm_ep_check_put(iface, ep, 1);
    if (status != UCS_OK) {
        return status;
    }

    /* Not inline data, which a device may not have */
    status = uct_wimm_ep_get_desc(iface, ep, &desc, &send_flags);
    if (status != UCS_OK) {
        return status;
    }

    *(uint64_t *)(desc + 1) = htobe64(length);
    sge.addr                = (uintptr_t)(desc + 1);
    sge.length              = sizeof(length);
    sge.lkey                = desc->lkey;
    wr.opcode               = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(UCT_WIMM_CTRL_LENGTH << UCT_WIMM_CTRL_OP_SHIFT);
    wr.sg_list  = &sge;
    wr.num_sge  = 1;

    /* Not solicited: nobody waits for it */
    status = uct_wimm_ep_post_send(iface, ep, &wr, send_flags);
    if (status != UCS_OK) {
        ucs_mpool_put_inline(desc);
        return status;
    }

    uct_rc_txqp_add_send_op_sn(&ep->super.super.txqp, &desc->super,
                               ep->super.txcnt.pi);
    UCT_RC_UPDATE_FC_WND(&ep->super.super.fc);
    ++ep->counters.ctrl_sent;
    return UCS_OK;
}

static UCS_F_ALWAYS_INLINE ssize_t uct_wimm_ep_do_put_bcopy(
        uct_ep_h tl_ep, uct_pack_callback_t pack_cb, void *arg,
        uint64_t remote_addr, uct_rkey_t rkey, int notify, uint32_t imm)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    uct_rc_iface_send_desc_t *desc;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    unsigned send_flags;
    ucs_status_t status;
    size_t length;

    status = uct_wimm_ep_check_put(iface, ep, notify);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    status = uct_wimm_ep_get_desc(iface, ep, &desc, &send_flags);
    if (ucs_unlikely(status != UCS_OK)) {
        /* A plain put may be a part of what was announced, which cannot end here: as
         * rc_verbs, it is tried again */
        return notify ? status : UCS_ERR_NO_RESOURCE;
    }

    length = pack_cb(desc + 1, arg);
    if (!notify && ucs_unlikely(length == 0)) {
        ucs_mpool_put_inline(desc);
        return 0;
    }

    sge.addr   = (uintptr_t)(desc + 1);
    sge.length = length;
    sge.lkey   = desc->lkey;
    wr.sg_list = &sge;
    status = uct_wimm_ep_post_put(iface, ep, &wr, length > 0, remote_addr, rkey,
                                  notify, imm, send_flags);
    if (ucs_unlikely(status != UCS_OK)) {
        ucs_mpool_put_inline(desc);
        return status;
    }

    uct_rc_txqp_add_send_op_sn(&ep->super.super.txqp, &desc->super,
                               ep->super.txcnt.pi);
    UCT_TL_EP_STAT_OP(&ep->super.super.super, PUT, BCOPY, length);
    return length;
}

ssize_t uct_wimm_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                              void *arg, uint64_t remote_addr, uct_rkey_t rkey)
{
    return uct_wimm_ep_do_put_bcopy(tl_ep, pack_cb, arg, remote_addr, rkey, 0,
                                    0);
}

ssize_t uct_wimm_ep_put_imm_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                                  void *arg, uint64_t remote_addr,
                                  uct_rkey_t rkey, uint32_t imm)
{
    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);
    return uct_wimm_ep_do_put_bcopy(tl_ep, pack_cb, arg, remote_addr, rkey, 1,
                                    imm);
}

static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_do_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov, size_t iovcnt,
                         uint64_t remote_addr, uct_rkey_t rkey, int notify,
                         uint32_t imm, uct_completion_t *comp)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);
    const char *name        = notify ? "put_imm_zcopy" : "put_zcopy";
    struct ibv_sge sge[UCT_IB_MAX_IOV];
    struct ibv_send_wr wr;
    ucs_status_t status;
    size_t length;

    UCT_WIMM_CHECK_PARAM(iovcnt <= iface->super.config.max_send_sge,
                         "Invalid %s iovcnt: %zu (expected: <= %zu)", name,
                         iovcnt, iface->super.config.max_send_sge);

    length = uct_iov_total_length(iov, iovcnt);
    UCT_WIMM_CHECK_PARAM(length <= iface->config.max_zcopy,
                         "Invalid %s length: %zu (expected: <= %zu)", name,
                         length, iface->config.max_zcopy);

    status = uct_wimm_ep_check_put(iface, ep, notify);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    if (!notify && ucs_unlikely(length == 0)) {
        return UCS_OK;
    }

    wr.sg_list = sge;
    status     = uct_wimm_ep_post_put(iface, ep, &wr,
                                      uct_ib_verbs_sge_fill_iov(sge, iov, iovcnt),
                                      remote_addr, rkey, notify, imm,
                                  (comp != NULL) ? IBV_SEND_SIGNALED : 0);
    if (ucs_unlikely(status != UCS_OK)) {
        return status;
    }

    uct_rc_txqp_add_send_comp(&iface->super.super, &ep->super.super.txqp,
                              uct_rc_ep_send_op_completion_handler, comp,
                              ep->super.txcnt.pi,
                              UCT_RC_IFACE_SEND_OP_FLAG_ZCOPY, iov, iovcnt,
                              length);
    UCT_TL_EP_STAT_OP(&ep->super.super.super, PUT, ZCOPY, length);
    return UCS_INPROGRESS;
}

ucs_status_t uct_wimm_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                   size_t iovcnt, uint64_t remote_addr,
                                   uct_rkey_t rkey, uct_completion_t *comp)
{
    return uct_wimm_ep_do_put_zcopy(tl_ep, iov, iovcnt, remote_addr, rkey, 0, 0,
                                    comp);
}

ucs_status_t uct_wimm_ep_put_imm_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                       size_t iovcnt, uint64_t remote_addr,
                                       uct_rkey_t rkey, uint32_t imm,
                                       uct_completion_t *comp)
{
    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);
    return uct_wimm_ep_do_put_zcopy(tl_ep, iov, iovcnt, remote_addr, rkey, 1,
                                    imm, comp);
}
