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
    int purged;              /* UCP gave it up */
    ucs_list_link_t list;
} ucp_wimm_conn_t;


static void ucp_wimm_conn_release(ucp_wimm_peer_t *super)
{
    if (super->ep != NULL) {
        ucp_wimm_ep_put(super->ep);
    }

    ucs_free(ucs_container_of(super, ucp_wimm_conn_t, super));
}

static void ucp_wimm_conn_release_slot(ucp_wimm_peer_t *super)
{
    ucp_wimm_conn_t *conn = ucs_container_of(super, ucp_wimm_conn_t, super);

    if (conn->uct_ep != NULL) {
        uct_wimm_ep_slot_release(conn->uct_ep, 1);
    }
}

/* UCP gives the connection up */
static void ucp_wimm_conn_purged(uct_wimm_ep_user_t *self,
                                 uct_pending_purge_callback_t cb, void *arg)
{
    ucp_wimm_conn_t *conn = ucs_container_of(self, ucp_wimm_conn_t, user);

    if (conn->purged) {
        return;
    }

    conn->purged = 1;
    if (conn->super.ep != NULL) {
        ucp_wimm_ep_conn_purged(conn->super.wimm, conn->super.ep, cb, arg);
    }
}

/* The connection will not be heard of any more */
static void ucp_wimm_conn_gone(ucp_wimm_conn_t *conn)
{
    conn->uct_ep = NULL;
    ucs_list_del(&conn->list);
    if (conn->super.ep != NULL) {
        ucp_wimm_ep_remove_conn(conn->super.wimm, conn->super.ep);
    }

    ucp_wimm_peer_put(&conn->super);
}

/* All that had arrived was delivered */
static void ucp_wimm_conn_destroyed(uct_wimm_ep_user_t *self)
{
    ucp_wimm_conn_gone(ucs_container_of(self, ucp_wimm_conn_t, user));
}

static UCS_F_NOINLINE ucp_wimm_conn_t *ucp_wimm_conn_create(ucp_wimm_h wimm,
                                                            uct_ep_h uct_ep)
{
    ucp_wimm_conn_t *conn = ucs_malloc(sizeof(*conn), "ucp_wimm_conn");

    if (conn == NULL) {
        return NULL;
    }

    ucp_wimm_peer_init(&conn->super, wimm, NULL, ucp_wimm_conn_release_slot,
                       ucp_wimm_conn_release);
    conn->user.purged    = ucp_wimm_conn_purged;
    conn->user.destroyed = ucp_wimm_conn_destroyed;
    conn->uct_ep         = uct_ep;
    conn->purged         = 0;
    if (uct_wimm_ep_set_user(uct_ep, &conn->user) != UCS_OK) {
        ucs_free(conn);
        return NULL;
    }

    ucs_list_add_tail(&wimm->conns, &conn->list);
    return conn;
}

static UCS_F_ALWAYS_INLINE ucp_wimm_conn_t *ucp_wimm_conn_get(ucp_wimm_h wimm,
                                                              uct_ep_h uct_ep)
{
    uct_wimm_ep_user_t *user = uct_wimm_ep_get_user(uct_ep);

    if (ucs_likely(user != NULL)) {
        return ucs_container_of(user, ucp_wimm_conn_t, user);
    }

    return ucp_wimm_conn_create(wimm, uct_ep);
}

/* Tell the connection whose it is. It takes the reference. */
static void ucp_wimm_conn_set_ep(ucp_wimm_conn_t *conn, ucp_wimm_ep_t *ep)
{
    conn->super.ep = ep;
    ucp_wimm_ep_add_conn(ep);
}

void ucp_wimm_conn_watch(ucp_wimm_h wimm, uct_ep_h uct_ep, ucp_wimm_ep_t *ep)
{
    ucp_wimm_conn_t *conn = ucp_wimm_conn_get(wimm, uct_ep);

    if ((conn != NULL) && (conn->super.ep == NULL)) {
        ucp_wimm_conn_set_ep(conn, ep);
    }
}

/* The endpoint of a connection that notifies us for the first time */
static UCS_F_NOINLINE void ucp_wimm_conn_find_ep(ucp_wimm_conn_t *conn)
{
    ucp_wimm_h wimm = conn->super.wimm;
    ucp_ep_h ucp_ep = ucp_wimm_native_find_ep(wimm->worker, conn->uct_ep);
    ucp_wimm_ep_t *ep;

    if (ucp_ep == NULL) {
        return;
    }

    ep = ucp_wimm_ep_get(wimm, ucp_ep);
    if (ep != NULL) {
        ucp_wimm_conn_set_ep(conn, ep);
        ucp_wimm_ep_put(ep);
    }
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

    if (ucs_unlikely(conn->purged)) {
        /* The endpoint may be gone if it was closed */
        ucp_wimm_eps_update(wimm);
    } else if (ucs_unlikely(conn->super.ep == NULL)) {
        ucp_wimm_conn_find_ep(conn);
    }

    return ucp_wimm_stream_notify(wimm, &conn->super, imm, length);
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
    ucs_list_head_init(&wimm->conns);
    ucp_wimm_native_for_each_iface(wimm->worker, ucp_wimm_conns_set_handler,
                                   wimm);
}

void ucp_wimm_conns_cleanup(ucp_wimm_h wimm)
{
    ucp_wimm_conn_t *conn, *tmp;

    ucp_wimm_native_for_each_iface(wimm->worker, ucp_wimm_conns_remove_handler,
                                   NULL);
    ucs_list_for_each_safe(conn, tmp, &wimm->conns, list) {
        uct_wimm_ep_set_user(conn->uct_ep, NULL);
        ucp_wimm_conn_gone(conn);
    }
}
