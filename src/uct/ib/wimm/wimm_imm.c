/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_imm.h"

#include <ucs/debug/log.h>
#include <arpa/inet.h>


/* A notification that waits for a handler */
typedef struct uct_wimm_imm_elem {
    ucs_queue_elem_t queue;
    size_t length;
    uint32_t imm;
    uint32_t qp_num;
} uct_wimm_imm_elem_t;


static ucs_mpool_ops_t uct_wimm_imm_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = NULL,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};


ucs_status_t uct_wimm_imm_init(uct_wimm_iface_t *iface)
{
    iface->imm.cb            = NULL;
    iface->imm.arg           = NULL;
    iface->imm.num_destroyed = 0;
    ucs_queue_head_init(&iface->imm.waiting);
    return ucs_mpool_init(&iface->imm.mp, 0, sizeof(uct_wimm_imm_elem_t), 0,
                          sizeof(void *), 128, UINT_MAX,
                          &uct_wimm_imm_mpool_ops, "wimm_imm");
}

void uct_wimm_imm_cleanup(uct_wimm_iface_t *iface)
{
    uct_wimm_imm_elem_t *elem;

    ucs_queue_for_each_extract(elem, &iface->imm.waiting, queue, 1) {
        ucs_mpool_put_inline(elem);
    }

    ucs_mpool_cleanup(&iface->imm.mp, 1);
}

void uct_wimm_imm_purge(uct_wimm_iface_t *iface, uint32_t qp_num)
{
    uct_wimm_imm_elem_t *elem;
    ucs_queue_iter_t iter;

    ucs_queue_for_each_safe(elem, iter, &iface->imm.waiting, queue) {
        if (elem->qp_num == qp_num) {
            ucs_queue_del_iter(&iface->imm.waiting, iter);
            ucs_mpool_put_inline(elem);
        }
    }
}

void uct_wimm_imm_lost(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                       ucs_status_t status)
{
    /* All slots are in use now, and an endpoint that has failed returns none */
    ep->rx_slots = iface->config.num_slots;
    uct_wimm_imm_purge(iface, ep->super.qp->qp_num);
    uct_wimm_ep_fail_later(ep, status);
}

void uct_wimm_imm_wait(uct_wimm_iface_t *iface, uct_wimm_ep_t *ep,
                       const struct ibv_wc *wc, size_t length)
{
    uct_wimm_imm_elem_t *elem = ucs_mpool_get_inline(&iface->imm.mp);

    if (elem == NULL) {
        ucs_error("qp 0x%x: no memory to keep a notification until there is a"
                  " handler; closing the connection",
                  wc->qp_num);
        uct_wimm_imm_lost(iface, ep, UCS_ERR_NO_MEMORY);
        return;
    }

    elem->imm    = ntohl(wc->imm_data);
    elem->length = length;
    elem->qp_num = wc->qp_num;
    ucs_queue_push(&iface->imm.waiting, &elem->queue);
    uct_wimm_imm_return_slots(iface, ep);
}

unsigned uct_wimm_imm_progress(uct_wimm_iface_t *iface)
{
    unsigned count = 0;
    uct_wimm_imm_elem_t elem, *first;

    while (uct_wimm_imm_is_deliverable(iface)) {
        first = ucs_queue_pull_elem_non_empty(&iface->imm.waiting,
                                              uct_wimm_imm_elem_t, queue);
        elem  = *first;
        ucs_mpool_put_inline(first);
        uct_wimm_imm_deliver(iface, uct_wimm_ep_lookup(iface, elem.qp_num),
                             elem.qp_num, elem.imm, elem.length);
        ++count;
    }

    return count;
}

size_t uct_wimm_imm_announced(uct_wimm_ep_t *ep, const struct ibv_wc *wc)
{
    uint64_t length = ep->rx_length;

    ep->rx_length = 0;
    if (length < wc->byte_len) {
        uct_wimm_iface_protocol_error(
                ep, wc, "notification of more than was announced");
        uct_wimm_imm_lost(uct_wimm_ep_iface(ep), ep, UCS_ERR_CONNECTION_RESET);
        return 0;
    }

    return length;
}

ucs_status_t uct_wimm_imm_handle_length(uct_wimm_ep_t *ep, uint64_t length)
{
    if ((length == 0) || (length > SIZE_MAX) || (ep->rx_length != 0)) {
        return UCS_ERR_INVALID_PARAM;
    }

    ep->rx_length = length;
    return UCS_OK;
}

void uct_wimm_imm_overrun(uct_wimm_ep_t *ep, const struct ibv_wc *wc)
{
    uct_wimm_iface_protocol_error(ep, wc,
                                  "notification beyond the peer's"
                                  " slots");
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

ucs_status_t uct_wimm_ep_slot_release(uct_ep_h tl_ep, unsigned count)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);
    UCT_WIMM_CHECK_PARAM(count <= ep->rx_held,
                         "cannot release %u notification slots of endpoint %p:"
                         " %u are held",
                         count, tl_ep, ep->rx_held);

    ep->rx_held -= count;
    ep->rx_return += count;
    uct_wimm_imm_return_slots(iface, ep);
    return UCS_OK;
}
