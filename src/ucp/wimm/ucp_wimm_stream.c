/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_int.h"

#include <ucs/datastruct/mpool.inl>
#include <ucs/arch/cpu.h>
#include <ucs/debug/memtrack_int.h>
#include <limits.h>


static ucs_mpool_ops_t ucp_wimm_stream_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = NULL,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};


ucs_status_t ucp_wimm_stream_init(ucp_wimm_h wimm)
{
    wimm->stream.cb         = NULL;
    wimm->stream.arg        = NULL;
    wimm->stream.length     = 0;
    wimm->stream.in_handler = 0;
    ucs_queue_head_init(&wimm->stream.queue);

    /* Bounded by the slots of the peers, and not here */
    return ucs_mpool_init(&wimm->stream.mp, 0, sizeof(ucp_wimm_record_t), 0,
                          UCS_SYS_CACHE_LINE_SIZE, 64, UINT_MAX,
                          &ucp_wimm_stream_mpool_ops, "ucp_wimm_records");
}

/* Take the oldest record out of the queue */
static void ucp_wimm_stream_pull(ucp_wimm_h wimm,
                                 ucp_wimm_notification_t *notification)
{
    ucp_wimm_record_t *record = ucs_queue_pull_elem_non_empty(
            &wimm->stream.queue, ucp_wimm_record_t, queue);
    ucp_wimm_peer_t *peer = record->peer;
    ucp_wimm_ep_t *ep     = record->ep;

    --wimm->stream.length;
    *notification = record->notification;
    ucs_mpool_put_inline(record);
    if (peer != NULL) {
        notification->ep = ucp_wimm_ep_handle(peer->ep);
        peer->release_slot(peer);
        ucp_wimm_peer_put(peer);
    } else {
        notification->ep = ucp_wimm_ep_handle(ep);
        ucp_wimm_ep_put(ep);
    }
}

void ucp_wimm_stream_cleanup(ucp_wimm_h wimm)
{
    ucp_wimm_notification_t notification;

    while (!ucs_queue_is_empty(&wimm->stream.queue)) {
        ucp_wimm_stream_pull(wimm, &notification);
    }

    ucs_mpool_cleanup(&wimm->stream.mp, 1);
}

/* @return Whether it was consumed */
static UCS_F_ALWAYS_INLINE int ucp_wimm_stream_handle(
        ucp_wimm_h wimm, const ucp_wimm_notification_t *notification)
{
    ucs_status_t status;

    if (wimm->stream.cb == NULL) {
        return 0;
    }

    ++wimm->stream.in_handler;
    status = wimm->stream.cb(wimm->stream.arg, notification);
    --wimm->stream.in_handler;
    return status != UCS_INPROGRESS;
}

/* Put a record into the queue: of a notification, or of a failure */
static ucs_status_t ucp_wimm_stream_queue(
        ucp_wimm_h wimm, ucp_wimm_peer_t *peer, ucp_wimm_ep_t *ep,
        const ucp_wimm_notification_t *notification)
{
    ucp_wimm_record_t *record = ucs_mpool_get_inline(&wimm->stream.mp);

    if (record == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    record->peer         = peer;
    record->ep           = ep;
    record->notification = *notification;
    ucs_queue_push(&wimm->stream.queue, &record->queue);
    ++wimm->stream.length;
    return UCS_OK;
}

ucs_status_t ucp_wimm_stream_notify(ucp_wimm_h wimm, ucp_wimm_peer_t *peer,
                                    uint32_t imm, size_t length)
{
    ucp_wimm_notification_t notification = { .status = UCS_OK,
                                             .imm    = imm,
                                             .length = length };

    ++wimm->stats.notifications;
    notification.ep = ucp_wimm_ep_handle(peer->ep);
    if (ucs_unlikely(!ucs_list_is_empty(&wimm->counter.groups)) &&
        ucp_wimm_counters_notify(wimm,
                                 (notification.ep == NULL) ? NULL : peer->ep,
                                 imm)) {
        ++wimm->stats.counted;
        return UCS_OK;
    }

    /* The handler may close its endpoint */
    ++peer->refcount;
    if (ucp_wimm_stream_handle(wimm, &notification)) {
        ++wimm->stats.handled;
        ucp_wimm_peer_put(peer);
        return UCS_OK;
    }

    if (ucp_wimm_stream_queue(wimm, peer, NULL, &notification) != UCS_OK) {
        ucs_error("no memory for a notification, its connection is closed");
        ucp_wimm_peer_put(peer);
        return UCS_ERR_NO_MEMORY;
    }

    ++wimm->stats.queued;
    return UCS_INPROGRESS;
}

void ucp_wimm_stream_fail(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    ucp_wimm_notification_t notification = { .status = ep->status,
                                             .ep     = ucp_wimm_ep_handle(ep) };

    ++wimm->stats.failures;
    ucp_wimm_counters_fail(wimm, ep);
    if (ucp_wimm_stream_handle(wimm, &notification)) {
        return;
    }

    if (ucp_wimm_stream_queue(wimm, NULL, ep, &notification) != UCS_OK) {
        ucs_error("no memory to report that an endpoint failed: %s",
                  ucs_status_string(ep->status));
        return;
    }

    ++ep->refcount;
}

ucs_status_t ucp_wimm_set_handler(ucp_wimm_h wimm, ucp_wimm_handler_t cb,
                                  void *arg)
{
    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);

    ucp_wimm_native_enter(wimm->worker);
    wimm->stream.cb  = cb;
    wimm->stream.arg = arg;
    ucp_wimm_native_leave(wimm->worker);
    return UCS_OK;
}

ucs_status_t ucp_wimm_poll(ucp_wimm_h wimm,
                           ucp_wimm_notification_t *notifications, unsigned max,
                           unsigned *count_p)
{
    unsigned count = 0;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);
    UCP_WIMM_CHECK_PARAM(((notifications != NULL) || (max == 0)) &&
                                 (count_p != NULL),
                         UCS_ERR_INVALID_PARAM,
                         "ucp_wimm_poll() has nowhere to write to");

    ucp_wimm_native_enter(wimm->worker);
    ucp_wimm_eps_update(wimm);
    while ((count < max) && !ucs_queue_is_empty(&wimm->stream.queue)) {
        ucp_wimm_stream_pull(wimm, &notifications[count]);
        ++count;
    }
    ucp_wimm_native_leave(wimm->worker);

    *count_p = count;
    return UCS_OK;
}

ucs_status_t ucp_wimm_arm(ucp_wimm_h wimm)
{
    ucs_status_t status = UCS_OK;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);

    ucp_wimm_native_enter(wimm->worker);
    if (ucp_wimm_eps_arm(wimm) || (wimm->stream.length > 0) ||
        (wimm->counter.num_ready > 0)) {
        status = UCS_ERR_BUSY;
    }
    ucp_wimm_native_leave(wimm->worker);

    return status;
}
