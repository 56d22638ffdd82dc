/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_native.h"

#include <uct/ib/wimm/wimm.h>
#include <ucs/debug/memtrack_int.h>


/* A connection, for as long as there is its UCT endpoint, or a record of it */
typedef struct ucp_wimm_conn {
    ucp_wimm_peer_t super;
    uct_wimm_ep_user_t user; /* On the UCT endpoint */
    uct_ep_h uct_ep;         /* NULL if it is gone */
    ucp_ep_h ucp_ep;         /* Also if the program does not have it (yet) */
    int purged; /* UCP gave it up: ucp_ep may be freed once it is closed */
    ucs_status_t fail_status;
    ucs_list_link_t list;
} ucp_wimm_conn_t;


/* An endpoint that failed, until it is closed and that was reported */
typedef struct ucp_wimm_failure {
    ucp_ep_h ep; /* NULL if it is closed */
    ucs_status_t status;
    int is_reported;
    ucs_list_link_t list;
} ucp_wimm_failure_t;


static void ucp_wimm_conn_release(ucp_wimm_peer_t *super)
{
    ucs_free(ucs_container_of(super, ucp_wimm_conn_t, super));
}

static void ucp_wimm_conn_release_slot(ucp_wimm_peer_t *super)
{
    ucp_wimm_conn_t *conn = ucs_container_of(super, ucp_wimm_conn_t, super);

    if (conn->uct_ep != NULL) {
        uct_wimm_ep_slot_release(conn->uct_ep, 1);
    }
}


/*
 * Failures
 */

/* Called by progress: handlers may do what they like */
static unsigned ucp_wimm_conns_report(void *arg)
{
    ucp_wimm_h wimm     = arg;
    ucp_worker_h worker = wimm->worker;
    unsigned count      = 0;
    ucp_wimm_failure_t *failure;

    ucp_wimm_native_enter(worker);
    wimm->conn.report_id = UCS_CALLBACKQ_ID_NULL;
    while (wimm->conn.num_unreported > 0) {
        /* From the start: the handler may have closed some */
        ucp_wimm_conns_update(wimm);
        ucs_list_for_each(failure, &wimm->conn.failures, list) {
            if (!failure->is_reported) {
                break;
            }
        }

        failure->is_reported = 1;
        --wimm->conn.num_unreported;
        ucp_wimm_stream_fail(wimm, failure->ep, failure->status);
        ++count;
    }

    ucp_wimm_native_leave(worker);
    return count;
}

static ucp_wimm_failure_t *ucp_wimm_conns_find_failure(ucp_wimm_h wimm,
                                                       ucp_ep_h ep)
{
    ucp_wimm_failure_t *failure;

    ucs_list_for_each(failure, &wimm->conn.failures, list) {
        if (failure->ep == ep) {
            return failure;
        }
    }

    return NULL;
}

static void ucp_wimm_conns_add_failure(ucp_wimm_h wimm, ucp_ep_h ep,
                                       ucs_status_t status)
{
    ucp_wimm_failure_t *failure;

    if ((ep != NULL) && (ucp_wimm_conns_find_failure(wimm, ep) != NULL)) {
        return;
    }

    failure = ucs_malloc(sizeof(*failure), "ucp_wimm_failure");
    if (failure == NULL) {
        ucs_error("no memory to report that endpoint %p failed: %s", ep,
                  ucs_status_string(status));
        return;
    }

    failure->ep          = ep;
    failure->status      = status;
    failure->is_reported = 0;
    ucs_list_add_tail(&wimm->conn.failures, &failure->list);
    ++wimm->conn.num_unreported;
    if (wimm->conn.report_id == UCS_CALLBACKQ_ID_NULL) {
        uct_worker_progress_register_safe(
                ucp_wimm_native_uct_worker(wimm->worker), ucp_wimm_conns_report,
                wimm, UCS_CALLBACKQ_FLAG_ONESHOT, &wimm->conn.report_id);
    }
}


/*
 * Connections
 */

/* UCP gives the connection up */
static void ucp_wimm_conn_purged(uct_wimm_ep_user_t *self,
                                 uct_pending_purge_callback_t cb, void *arg)
{
    ucp_wimm_conn_t *conn = ucs_container_of(self, ucp_wimm_conn_t, user);

    if (conn->purged) {
        return;
    }

    conn->purged = 1;
    if ((conn->ucp_ep == NULL) || !ucp_wimm_native_ep_is_open(conn->ucp_ep)) {
        conn->ucp_ep   = NULL;
        conn->super.ep = NULL;
    } else if (ucp_wimm_native_ep_is_failed(conn->ucp_ep)) {
        conn->fail_status = ucp_wimm_native_purge_status(cb, arg);
    }
}

/* All that had arrived was delivered */
static void ucp_wimm_conn_destroyed(uct_wimm_ep_user_t *self)
{
    ucp_wimm_conn_t *conn = ucs_container_of(self, ucp_wimm_conn_t, user);
    ucp_wimm_h wimm       = conn->super.wimm;

    conn->uct_ep = NULL;
    ucs_list_del(&conn->list);
    --wimm->conn.num;
    if (conn->fail_status != UCS_OK) {
        ucp_wimm_conns_add_failure(wimm, conn->ucp_ep, conn->fail_status);
    }

    ucp_wimm_peer_put(&conn->super);
}

static UCS_F_NOINLINE ucp_wimm_conn_t *ucp_wimm_conn_create(ucp_wimm_h wimm,
                                                            uct_ep_h uct_ep,
                                                            ucp_ep_h ucp_ep)
{
    ucp_wimm_conn_t *conn = ucs_malloc(sizeof(*conn), "ucp_wimm_conn");

    if (conn == NULL) {
        return NULL;
    }

    conn->super.wimm         = wimm;
    conn->super.ep           = NULL;
    conn->super.refcount     = 1;
    conn->super.release_slot = ucp_wimm_conn_release_slot;
    conn->super.release      = ucp_wimm_conn_release;
    conn->user.purged        = ucp_wimm_conn_purged;
    conn->user.destroyed     = ucp_wimm_conn_destroyed;
    conn->uct_ep             = uct_ep;
    conn->ucp_ep             = ucp_ep;
    conn->purged             = 0;
    conn->fail_status        = UCS_OK;
    if (uct_wimm_ep_set_user(uct_ep, &conn->user) != UCS_OK) {
        ucs_free(conn);
        return NULL;
    }

    ucs_list_add_tail(&wimm->conn.list, &conn->list);
    ++wimm->conn.num;
    return conn;
}

static UCS_F_ALWAYS_INLINE ucp_wimm_conn_t *ucp_wimm_conn_get(ucp_wimm_h wimm,
                                                              uct_ep_h uct_ep)
{
    uct_wimm_ep_user_t *user = uct_wimm_ep_get_user(uct_ep);

    if (ucs_likely(user != NULL)) {
        return ucs_container_of(user, ucp_wimm_conn_t, user);
    }

    return ucp_wimm_conn_create(wimm, uct_ep, NULL);
}

static ucs_status_t ucp_wimm_conn_notified(void *arg, uct_ep_h uct_ep,
                                           uint32_t imm, size_t length)
{
    ucp_wimm_h wimm       = arg;
    ucp_wimm_conn_t *conn = ucp_wimm_conn_get(wimm, uct_ep);

    if (ucs_unlikely(conn == NULL)) {
        ucs_error("no memory for a connection that has notified us");
        return UCS_ERR_NO_MEMORY;
    }

    if (ucs_unlikely(conn->ucp_ep == NULL) && !conn->purged) {
        conn->ucp_ep = ucp_wimm_native_find_ep(wimm->worker, uct_ep);
    }

    if (ucs_unlikely(conn->purged)) {
        /* The endpoint may be gone if it was closed */
        ucp_wimm_conns_update(wimm);
    }

    conn->super.ep = ((conn->ucp_ep != NULL) &&
                      ucp_wimm_native_ep_is_open(conn->ucp_ep)) ?
                             conn->ucp_ep :
                             NULL;
    return ucp_wimm_stream_notify(wimm, &conn->super, imm, length);
}

/* Have a connection tell when it fails, also before it has notified us */
static void ucp_wimm_conns_watch_ep(ucp_ep_h ep, uct_ep_h uct_ep, void *arg)
{
    if ((uct_ep != NULL) && (uct_wimm_ep_get_user(uct_ep) == NULL)) {
        ucp_wimm_conn_create(arg, uct_ep, ep);
    }
}

static void ucp_wimm_conns_find_failed(ucp_ep_h ep,
                                       uct_ep_h UCS_V_UNUSED uct_ep, void *arg)
{
    ucp_wimm_h wimm = arg;
    ucp_wimm_conn_t *conn;

    if (!ucp_wimm_native_ep_is_failed(ep)) {
        return;
    }

    /* Not before its connection has delivered what had arrived */
    ucs_list_for_each(conn, &wimm->conn.list, list) {
        if (conn->ucp_ep == ep) {
            return;
        }
    }

    /* It was never connected, or never seen by us */
    ucp_wimm_conns_add_failure(wimm, ep, UCS_ERR_CONNECTION_RESET);
}

static void ucp_wimm_conns_closed_ep(ucp_wimm_h wimm, ucp_ep_h ep)
{
    if (!ucp_wimm_native_has_ep(wimm->worker, ep)) {
        ucp_wimm_counters_ep_closed(wimm, ep);
    }
}

/* Forget the endpoints that the program has closed: their memory may be that of
 * others soon */
static void ucp_wimm_conns_update_closed(ucp_wimm_h wimm)
{
    ucp_wimm_failure_t *failure, *tmp;
    ucp_wimm_conn_t *conn;

    ucs_list_for_each(conn, &wimm->conn.list, list) {
        if (conn->ucp_ep == NULL) {
            continue;
        }

        if (conn->purged ? !ucp_wimm_native_has_ep(wimm->worker, conn->ucp_ep) :
                           !ucp_wimm_native_ep_is_open(conn->ucp_ep)) {
            conn->super.ep = NULL;
            if (conn->purged) {
                conn->ucp_ep = NULL;
            }
        }
    }

    ucs_list_for_each_safe(failure, tmp, &wimm->conn.failures, list) {
        if ((failure->ep != NULL) &&
            !ucp_wimm_native_has_ep(wimm->worker, failure->ep)) {
            ucp_wimm_stream_ep_closed(wimm, failure->ep);
            failure->ep = NULL;
        }

        if ((failure->ep == NULL) && failure->is_reported) {
            ucs_list_del(&failure->list);
            ucs_free(failure);
        }
    }

    ucp_wimm_counters_for_each_ep(wimm, ucp_wimm_conns_closed_ep);
}

int ucp_wimm_conns_update(ucp_wimm_h wimm)
{
    uint64_t num_closed = ucp_wimm_native_num_closures(wimm->worker);
    uint64_t num_failed = ucp_wimm_native_num_failures(wimm->worker);

    if (ucs_unlikely(num_closed != wimm->conn.num_closed)) {
        wimm->conn.num_closed = num_closed;
        ucp_wimm_conns_update_closed(wimm);
    }

    if (ucs_unlikely(num_failed != wimm->conn.num_failed)) {
        wimm->conn.num_failed = num_failed;
        ucp_wimm_native_for_each_open_ep(wimm->worker,
                                         ucp_wimm_conns_find_failed, wimm);
    }

    return wimm->conn.num_unreported > 0;
}

void ucp_wimm_conns_watch(ucp_wimm_h wimm)
{
    if (ucp_wimm_native_num_eps(wimm->worker) != wimm->conn.num) {
        ucp_wimm_native_for_each_open_ep(wimm->worker, ucp_wimm_conns_watch_ep,
                                         wimm);
    }
}

static void ucp_wimm_conns_set_handler(uct_iface_h iface, void *arg)
{
    uct_wimm_iface_set_imm_handler(iface, ucp_wimm_conn_notified, arg);
}

static void ucp_wimm_conns_remove_handler(uct_iface_h iface,
                                          void UCS_V_UNUSED *arg)
{
    uct_wimm_iface_set_imm_handler(iface, NULL, NULL);
}

void ucp_wimm_conns_init(ucp_wimm_h wimm)
{
    ucs_list_head_init(&wimm->conn.list);
    ucs_list_head_init(&wimm->conn.failures);
    wimm->conn.num            = 0;
    wimm->conn.num_unreported = 0;
    wimm->conn.num_closed     = ucp_wimm_native_num_closures(wimm->worker);
    wimm->conn.num_failed     = ucp_wimm_native_num_failures(wimm->worker);
    wimm->conn.report_id      = UCS_CALLBACKQ_ID_NULL;
    ucp_wimm_native_for_each_iface(wimm->worker, ucp_wimm_conns_set_handler,
                                   wimm);
}

void ucp_wimm_conns_forget(ucp_wimm_h wimm)
{
    ucp_wimm_failure_t *failure, *tmp;

    ucs_list_for_each_safe(failure, tmp, &wimm->conn.failures, list) {
        ucs_list_del(&failure->list);
        ucs_free(failure);
    }
}

void ucp_wimm_conns_cleanup(ucp_wimm_h wimm)
{
    ucp_wimm_conn_t *conn, *tmp_conn;

    ucp_wimm_native_for_each_iface(wimm->worker, ucp_wimm_conns_remove_handler,
                                   NULL);
    uct_worker_progress_unregister_safe(ucp_wimm_native_uct_worker(
                                                wimm->worker),
                                        &wimm->conn.report_id);
    ucs_list_for_each_safe(conn, tmp_conn, &wimm->conn.list, list) {
        ucs_list_del(&conn->list);
        uct_wimm_ep_set_user(conn->uct_ep, NULL);
        ucp_wimm_peer_put(&conn->super);
    }

    ucp_wimm_conns_forget(wimm);
}
