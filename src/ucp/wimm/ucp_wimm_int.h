/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_INT_H_
#define UCP_WIMM_INT_H_

#include "ucp_wimm.h"

#include <ucs/datastruct/khash.h>
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

#define UCP_WIMM_CHECK_HANDLE(_wimm, _ret)                              \
  UCP_WIMM_CHECK_PARAM(((_wimm) != NULL) && (_wimm)->is_attached, _ret, \
                       "%s: %s", __func__,                              \
                       ((_wimm) == NULL) ? "the handle is NULL" :       \
                                           "the handle is detached")


typedef struct ucp_wimm_emul ucp_wimm_emul_t;
typedef struct ucp_wimm_peer ucp_wimm_peer_t;
typedef struct ucp_wimm_native ucp_wimm_native_t;


/* An endpoint of the worker, as long as UCP has it or somebody here refers to it */
typedef struct ucp_wimm_ep {
    ucp_ep_h ep;       /* NULL if it is gone, and its memory may be another's */
    unsigned refcount; /* Also one while it is not gone */
    unsigned num_conns;  /* Connections that may still deliver */
    ucs_status_t status; /* It failed with; UCS_OK if it has not */
    uint8_t is_failing;  /* To be reported */
    uint8_t is_reported;
    uint8_t is_seen;
    ucp_wimm_emul_t *emul; /* Its emulation, or NULL */
    ucs_list_link_t
            list; /* Of those that connect, of those that fail, or alone */
} ucp_wimm_ep_t;

KHASH_MAP_INIT_INT64(ucp_wimm_eps, ucp_wimm_ep_t *)


/* One who may notify us: a connection. Part of a larger structure. */
struct ucp_wimm_peer {
    ucp_wimm_h wimm;
    ucp_wimm_ep_t *ep; /* NULL if it is not known to be of an endpoint */

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
    ucp_wimm_ep_t *ep;     /* That failed; NULL for a notification */
    ucp_wimm_notification_t notification;
} ucp_wimm_record_t;


struct ucp_wimm {
    int is_attached; /* The memory is never returned to the system, so that this can be
                        seen in a stale handle */
    int is_parked; /* Was attached before, and peers know about it */

    ucp_worker_h worker;
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

    /* Endpoints */
    struct {
        khash_t(ucp_wimm_eps) table; /* By their addresses, those not gone */
        ucs_list_link_t connecting;
        ucs_list_link_t failing;
        uint64_t events; /* Of the worker's endpoints, when we looked last */
        unsigned idle;   /* So many calls of progress until it looks again */
        uct_worker_cb_id_t progress_id;
    } ep;

    ucs_list_link_t conns; /* Connections */

    /* Endpoints without a native way */
    struct {
        uint8_t is_on;
        uint8_t has_mp;
        uint8_t is_lingering; /* Detached, but there are operations */
        int has_wimm;         /* The worker has an interface of the transport */
        unsigned am_id;
        unsigned num_slots; /* That each peer has */
        unsigned num_todo; /* For the next progress; see ucp_wimm_emul_add_todo() */
        ucs_mpool_t mp; /* Messages */
        ucs_list_link_t list;
        ucs_list_link_t dead;  /* Failed, and their operations were not told */
        ucs_queue_head_t kept; /* Arrived, and not given to the program */
    } emul;

    ucp_wimm_native_t *native;

    /* Operations that have not completed, and the attachment */
    unsigned refcount;
    ucs_list_link_t list; /* Of attached, parked or unused ones */

    struct {
        uint64_t puts;
        uint64_t requests;
        uint64_t wireup;
        uint64_t notifications;
        uint64_t counted;
        uint64_t handled;
        uint64_t queued;
        uint64_t failures;
        uint64_t emulated;
    } stats; /* As in ucp_wimm_attr_t */
};


/* There is something to do for the next progress */
static inline void ucp_wimm_want_progress(ucp_wimm_h wimm)
{
    wimm->ep.idle = 1;
}

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

/* An endpoint failed, and all that had arrived on it was delivered */
void ucp_wimm_stream_fail(ucp_wimm_h wimm, ucp_wimm_ep_t *ep);

/* With one reference */
static inline void ucp_wimm_peer_init(ucp_wimm_peer_t *peer, ucp_wimm_h wimm,
                                      ucp_wimm_ep_t *ep,
                                      void (*release_slot)(ucp_wimm_peer_t *),
                                      void (*release)(ucp_wimm_peer_t *))
{
    peer->wimm         = wimm;
    peer->ep           = ep;
    peer->refcount     = 1;
    peer->release_slot = release_slot;
    peer->release      = release;
}

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
int ucp_wimm_counters_notify(ucp_wimm_h wimm, const ucp_wimm_ep_t *ep,
                             uint32_t imm);

/* An endpoint failed: those that are bound to it, or to none, have to tell */
void ucp_wimm_counters_fail(ucp_wimm_h wimm, const ucp_wimm_ep_t *ep);


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
 * The worker's endpoints, and what becomes of them (ucp_wimm_ep.c). All with the worker
 * locked.
 */

void ucp_wimm_eps_init(ucp_wimm_h wimm);

/* Look after them in each progress. Nobody is told of what failed before. */
void ucp_wimm_eps_start(ucp_wimm_h wimm);

/* No more, and nobody is told of what failed. What is known of them stays. */
void ucp_wimm_eps_stop(ucp_wimm_h wimm);

/* After stop, or after the worker was destroyed with all of its endpoints */
void ucp_wimm_eps_cleanup(ucp_wimm_h wimm);

/* Find out about new, failed and closed endpoints.
 * @return Whether progress is going to report a failure. */
int ucp_wimm_eps_update(ucp_wimm_h wimm);

/* As _update for one of them, also if the program does not have it */
void ucp_wimm_eps_check(ucp_wimm_h wimm, ucp_wimm_ep_t *ep);

/* As _update, before the program sleeps: nothing that happens then may be missed */
int ucp_wimm_eps_arm(ucp_wimm_h wimm);

/* @return A new reference, or NULL if there is no memory */
ucp_wimm_ep_t *ucp_wimm_ep_get(ucp_wimm_h wimm, ucp_ep_h ucp_ep);

void ucp_wimm_ep_put(ucp_wimm_ep_t *ep);

/* What the program has of it, or NULL. @a ep may be NULL. */
ucp_ep_h ucp_wimm_ep_handle(const ucp_wimm_ep_t *ep);

/* A connection of it is there. It takes a reference. */
void ucp_wimm_ep_add_conn(ucp_wimm_ep_t *ep);

/* UCP gave a connection of it up: it was closed, or failed */
void ucp_wimm_ep_conn_purged(ucp_wimm_h wimm, ucp_wimm_ep_t *ep,
                             uct_pending_purge_callback_t cb, void *arg);

/* A connection has delivered all that it will. The reference stays. */
void ucp_wimm_ep_remove_conn(ucp_wimm_h wimm, ucp_wimm_ep_t *ep);


/*
 * Connections that may notify us (ucp_wimm_conn.c). With the worker locked.
 */

void ucp_wimm_conns_init(ucp_wimm_h wimm);

void ucp_wimm_conns_cleanup(ucp_wimm_h wimm);

/* Have the connection of an endpoint tell when it fails, also before it notifies us */
void ucp_wimm_conn_watch(ucp_wimm_h wimm, uct_ep_h uct_ep, ucp_wimm_ep_t *ep);

#endif
