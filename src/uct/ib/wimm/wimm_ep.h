/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_EP_H_
#define UCT_WIMM_EP_H_

#include "wimm_iface.h"
#include "wimm_qp.h"

#include <uct/ib/rc/verbs/rc_verbs_impl.h>


enum {
    /* Both sides have flow control */
    UCT_WIMM_EP_FLAG_FC = UCS_BIT(0),

    /* The peer was asked to give credits back, and has not answered */
    UCT_WIMM_EP_FLAG_RECLAIMING = UCS_BIT(1),

    /* imm_req is in UCT's pending group */
    UCT_WIMM_EP_FLAG_IMM_REQ = UCS_BIT(2),

    /* The endpoint is on the interface's list of control messages */
    UCT_WIMM_EP_FLAG_CTRL_LIST = UCS_BIT(3),

    /* The peer asked for credits, as it does in UCX's own scheme */
    UCT_WIMM_EP_FLAG_GRANT_ASKED = UCS_BIT(4)
};


struct uct_wimm_ep {
    uct_rc_verbs_ep_t super;

    /* Sending */
    int32_t tx_slots;      /* Free notification slots of the peer */
    uint8_t flags;         /* UCT_WIMM_EP_FLAG_xx */
    uint8_t ctrl;          /* Control messages to send, bits by operation */
    uint16_t tx_num_slots; /* All slots of the peer */
    ucs_queue_head_t imm_pending; /* Requests that wait for a slot, in order */
    ucs_status_t fail_status;

    /* Receiving: what the peer may still send, and may have sent */
    int32_t rx_credits; /* Granted, and not arrived */
    int32_t rx_grant;   /* The last grant: proven by arrivals if > rx_credits */
    uint16_t rx_slots;  /* Slots in use: held, waiting, or to be returned */
    uint16_t rx_held;   /* By the handler */
    uint16_t rx_return; /* Consumed, to be returned */
    uint64_t rx_length; /* Of the next put, if it is in several messages */
    int16_t rx_initial; /* The first grant, in the endpoint's address */
    int16_t tx_return;  /* Credits to give back, beyond that of the message */

    uct_wimm_counters_t counters;
    uct_wimm_ep_user_t *user;  /* Who is told what happens to it, or NULL */
    uct_pending_req_t imm_req; /* Stands for imm_pending in UCT's group */
    ucs_list_link_t ctrl_list;
    ucs_list_link_t fail_list; /* On the interface's failed_eps */
    uct_wimm_qp_t *dead_qp;    /* Allocated early: destroying cannot fail */
};


UCS_CLASS_DECLARE(uct_wimm_ep_t, const uct_ep_params_t *);
UCS_CLASS_DECLARE_NEW_FUNC(uct_wimm_ep_t, uct_ep_t, const uct_ep_params_t *);


static UCS_F_ALWAYS_INLINE uct_wimm_ep_t *uct_wimm_ep_lookup(
        uct_wimm_iface_t *iface, uint32_t qp_num)
{
    return ucs_derived_of(uct_rc_iface_lookup_ep(&iface->super.super, qp_num),
                          uct_wimm_ep_t);
}


static UCS_F_ALWAYS_INLINE uct_wimm_iface_t *uct_wimm_ep_iface(uct_wimm_ep_t *ep)
{
    return ucs_derived_of(ep->super.super.super.super.iface, uct_wimm_iface_t);
}


/* Whether the error handler was called, or the endpoint was canceled */
static UCS_F_ALWAYS_INLINE int uct_wimm_ep_is_dead(const uct_wimm_ep_t *ep)
{
    return ep->super.super.flags &
           (UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED | UCT_RC_EP_FLAG_FLUSH_CANCEL);
}


/* Whether operations can be posted, as far as the state goes */
static UCS_F_ALWAYS_INLINE int uct_wimm_ep_is_usable(const uct_wimm_ep_t *ep)
{
    return ((ep->super.super.flags &
             (UCT_RC_EP_FLAG_CONNECTED | UCT_RC_EP_FLAG_ERR_HANDLER_INVOKED |
              UCT_RC_EP_FLAG_FLUSH_CANCEL)) == UCT_RC_EP_FLAG_CONNECTED) &&
           (ep->fail_status == UCS_OK);
}


/* Whether a message that takes a receive credit can be sent. The window of an
 * endpoint without flow control only counts down. */
static UCS_F_ALWAYS_INLINE int uct_wimm_ep_has_credit(uct_wimm_iface_t *iface,
                                                      uct_wimm_ep_t *ep)
{
    if (ucs_likely(ep->super.super.fc.fc_wnd > 0)) {
        return 1;
    }

    if ((ep->flags & UCT_WIMM_EP_FLAG_FC) &&
        iface->super.super.config.fc_enabled) {
        return 0;
    }

    ep->super.super.fc.fc_wnd = INT16_MAX;
    return 1;
}


/* Return the resources of "count" sends that have completed, well or not */
static UCS_F_ALWAYS_INLINE void uct_wimm_ep_tx_completed(
        uct_rc_iface_t *rc_iface, uct_wimm_ep_t *ep, uint16_t count)
{
    ep->super.txcnt.ci += count;
    uct_rc_txqp_available_add(&ep->super.super.txqp, count);
    uct_rc_iface_update_reads(rc_iface);
    uct_rc_iface_add_cq_credits(rc_iface, count);

    /* Base operations take credits also where there is no flow control, and
     * there are never as many of them before a completion */
    if (ucs_unlikely(!(ep->flags & UCT_WIMM_EP_FLAG_FC))) {
        ep->super.super.fc.fc_wnd = INT16_MAX;
    }
}


ucs_status_t uct_wimm_ep_post_failed(uct_wimm_ep_t *ep, int ret);


/* Post one request. The caller has filled all but what is common. */
static UCS_F_ALWAYS_INLINE ucs_status_t
uct_wimm_ep_post_send(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                      struct ibv_send_wr *wr, unsigned send_flags)
{
    struct ibv_send_wr *bad_wr;
    int ret;

    if (!(send_flags & IBV_SEND_SIGNALED)) {
        send_flags |= uct_rc_iface_tx_moderation(&iface->super.super,
                                                 &ep->super.super.txqp,
                                                 IBV_SEND_SIGNALED);
    }

    wr->next       = NULL;
    wr->send_flags = send_flags;
    wr->wr_id      = ep->super.txcnt.pi + 1;

    ret = ibv_post_send(ep->super.qp, wr, &bad_wr);
    if (ucs_unlikely(ret != 0)) {
        return uct_wimm_ep_post_failed(ep, ret);
    }

    uct_rc_verbs_txqp_posted(&ep->super.super.txqp, &ep->super.txcnt,
                             &iface->super.super,
                             send_flags & IBV_SEND_SIGNALED);
    return UCS_OK;
}


void uct_wimm_ep_destroy(uct_ep_h tl_ep);

ucs_status_t uct_wimm_ep_get_address(uct_ep_h tl_ep, uct_ep_addr_t *addr);

ucs_status_t uct_wimm_ep_connect_to_ep(uct_ep_h tl_ep,
                                       const uct_device_addr_t *dev_addr,
                                       const uct_ep_addr_t *ep_addr);

/* In place of rc_verbs', whose own end the process if the device refuses one */
ucs_status_t uct_wimm_ep_put_short(uct_ep_h tl_ep, const void *buffer,
                                   unsigned length, uint64_t remote_addr,
                                   uct_rkey_t rkey);

ssize_t uct_wimm_ep_put_bcopy(uct_ep_h tl_ep, uct_pack_callback_t pack_cb,
                              void *arg, uint64_t remote_addr, uct_rkey_t rkey);

ucs_status_t uct_wimm_ep_put_zcopy(uct_ep_h tl_ep, const uct_iov_t *iov,
                                   size_t iovcnt, uint64_t remote_addr,
                                   uct_rkey_t rkey, uct_completion_t *comp);

/* Post an empty write, for a flush or a check of the peer */
ucs_status_t uct_wimm_ep_post_empty(uct_wimm_ep_t *ep, unsigned send_flags);

void uct_wimm_ep_post_check(uct_ep_h tl_ep);

/**
 * Report the failure of an endpoint to the interface's error handler, once.
 * Called from progress only. The handler may destroy the endpoint.
 *
 * @param [in] wc   The completion that showed it, or NULL.
 * @param [in] dir  Which completion queue that was on.
 */
void uct_wimm_ep_failed(uct_wimm_ep_t *ep, ucs_status_t status,
                        const struct ibv_wc *wc, uct_ib_dir_t dir);

/* Move the queue pair to error and leave it to progress to report @a status.
 * @a ep may be NULL: the endpoint is gone already. */
void uct_wimm_ep_fail_later(uct_wimm_ep_t *ep, ucs_status_t status);

/* Report what uct_wimm_ep_fail_later() left. @return How many. */
unsigned uct_wimm_ep_progress_failed(uct_wimm_iface_t *iface);

/* Send completion with error */
void uct_wimm_ep_handle_tx_failure(uct_ib_iface_t *ib_iface, void *arg,
                                   ucs_status_t status);

#endif
