/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_INT_H_
#define UCP_WIMM_INT_H_

#include "ucp_wimm.h"

#include <ucs/datastruct/list.h>
#include <ucs/datastruct/mpool.h>
#include <ucs/datastruct/queue.h>
#include <ucs/debug/log.h>
#include <uct/api/uct.h>


/* Return with a sentence about what the program did wrong */
#define UCP_WIMM_CHECK_PARAM(_condition, _ret, ...) \
  do {                                              \
    if (ucs_unlikely(!(_condition))) {              \
      ucs_error(__VA_ARGS__);                       \
      return _ret;                                  \
    }                                               \
  } while (0)

#define UCP_WIMM_CHECK_HANDLE(_wimm, _ret)                                   \
  UCP_WIMM_CHECK_PARAM(((_wimm) != NULL) && ((_wimm)->worker != NULL), _ret, \
                       "%s: %s", __func__,                                   \
                       ((_wimm) == NULL) ? "the handle is NULL" :            \
                                           "the handle is detached")


typedef struct ucp_wimm_peer ucp_wimm_peer_t;
typedef struct ucp_wimm_native ucp_wimm_native_t;


/* One who may notify us: a connection. Part of a larger structure. */
struct ucp_wimm_peer {
    ucp_wimm_h wimm;
    ucp_ep_h ep; /* The program's endpoint, NULL if it has none, or closed it */

    /* Number of records in the queue, and one while there is the connection */
    unsigned refcount;

    /* Give one slot back; nothing if the connection is gone */
    void (*release_slot)(ucp_wimm_peer_t *peer);

    /* The last reference is gone */
    void (*release)(ucp_wimm_peer_t *peer);
};


/* A record in the queue */
typedef struct ucp_wimm_record {
    ucs_queue_elem_t queue;
    ucp_wimm_peer_t *peer; /* Whose slot it holds; NULL for a failure */
    ucp_wimm_notification_t notification;
} ucp_wimm_record_t;


struct ucp_wimm {
    ucp_worker_h worker; /* NULL if detached. The memory is never returned to the
                            system, so that this can be seen in a stale handle. */

    uint64_t worker_id; /* Tells it from a later one at the same address */

    /* The stream */
    struct {
        ucp_wimm_handler_t cb;
        void *arg;
        ucs_queue_head_t queue; /* Of ucp_wimm_record_t */
        size_t length;
        ucs_mpool_t mp;
        int in_handler;
    } stream;

    /* Counters */
    struct {
        ucs_list_link_t all;
        ucs_list_link_t groups; /* Of those with equal masks */
        unsigned num_ready;     /* Have something that was not looked at */
    } counter;

    /* Connections */
    struct {
        ucs_list_link_t list;
        unsigned num;
        ucs_list_link_t
                failures; /* Of endpoints that are open, or not reported */
        unsigned num_unreported;
        uint64_t num_failed; /* Of the worker, when we looked last */
        uint64_t num_closed;
        uct_worker_cb_id_t report_id;
    } conn;

    ucp_wimm_native_t *native;

    /* Operations that have not completed, and the attachment */
    unsigned refcount;
    ucs_list_link_t list; /* On the list of attached, or that of free ones */

    struct {
        uint64_t puts;
        uint64_t requests;
        uint64_t wireup;
        uint64_t notifications;
        uint64_t counted;
        uint64_t handled;
        uint64_t queued;
        uint64_t failures;
    } stats; /* As in ucp_wimm_attr_t */
};


/* Drop a reference to a handle: an operation has completed. The worker is locked. */
void ucp_wimm_put_ref(ucp_wimm_h wimm);


/*
 * The stream (ucp_wimm_stream.c). All with the worker locked.
 */

ucs_status_t ucp_wimm_stream_init(ucp_wimm_h wimm);

/* Drop what is in the queue */
void ucp_wimm_stream_cleanup(ucp_wimm_h wimm);

/* A notification has arrived.
 * @return UCS_OK if it was consumed, UCS_INPROGRESS if it is in the queue and holds its
 *         slot, UCS_ERR_NO_MEMORY if it is lost: the connection must not go on. */
ucs_status_t ucp_wimm_stream_notify(ucp_wimm_h wimm, ucp_wimm_peer_t *peer,
                                    uint32_t imm, size_t length);

/* An endpoint failed, and all that had arrived on it was delivered. @a ep is NULL
 * if the program has closed it since, or never had it. */
void ucp_wimm_stream_fail(ucp_wimm_h wimm, ucp_ep_h ep, ucs_status_t status);

/* The program closed an endpoint: records of its failure must not have it */
void ucp_wimm_stream_ep_closed(ucp_wimm_h wimm, ucp_ep_h ep);

/* Drop a reference to a peer */
static inline void ucp_wimm_peer_put(ucp_wimm_peer_t *peer)
{
    if (--peer->refcount == 0) {
        peer->release(peer);
    }
}


/*
 * Counters (ucp_wimm_counter.c). All with the worker locked.
 */

void ucp_wimm_counters_init(ucp_wimm_h wimm);

/* Unlink all counters from the handle: they stay with the program */
void ucp_wimm_counters_cleanup(ucp_wimm_h wimm);

/* Offer a notification. @return Whether it was consumed. */
int ucp_wimm_counters_notify(ucp_wimm_h wimm, ucp_ep_h ep, uint32_t imm);

/* An endpoint failed: those that are bound to it, or to none, have to tell */
void ucp_wimm_counters_fail(ucp_wimm_h wimm, ucp_ep_h ep, ucs_status_t status);

/* The program closed an endpoint: nothing can come for those that are bound to it,
 * and its handle may be that of another one soon */
void ucp_wimm_counters_ep_closed(ucp_wimm_h wimm, ucp_ep_h ep);

/* Call @a cb for each counter that is bound to an endpoint, which it may close */
void ucp_wimm_counters_for_each_ep(ucp_wimm_h wimm,
                                   void (*cb)(ucp_wimm_h wimm, ucp_ep_h ep));


/*
 * What needs UCP's internals (ucp_wimm_native.c)
 */

/* Enter and leave the critical section of a worker: only locks with
 * UCS_THREAD_MODE_MULTI. A thread may enter again. */
void ucp_wimm_native_enter(ucp_worker_h worker);

void ucp_wimm_native_leave(ucp_worker_h worker);

/* Whether the caller is inside of ucp_worker_progress(). The worker is locked. */
int ucp_wimm_native_in_progress(ucp_worker_h worker);

int ucp_wimm_native_ep_is_of(ucp_worker_h worker, ucp_ep_h ep);


/*
 * Connections that may notify us, and what becomes of their endpoints
 * (ucp_wimm_conn.c). With the worker locked.
 */

void ucp_wimm_conns_init(ucp_wimm_h wimm);

void ucp_wimm_conns_cleanup(ucp_wimm_h wimm);

/* As cleanup, after the worker was destroyed with all of its endpoints */
void ucp_wimm_conns_forget(ucp_wimm_h wimm);

/* Find out about failed and closed endpoints.
 * @return Whether progress is going to report a failure. */
int ucp_wimm_conns_update(ucp_wimm_h wimm);

/* Have all connections tell when they fail, also those that have not notified us */
void ucp_wimm_conns_watch(ucp_wimm_h wimm);

#endif
