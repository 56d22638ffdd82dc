/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_emul.h"
#include "ucp_wimm_native.h"

#include <ucs/debug/memtrack_int.h>
#include <limits.h>


/* How many endpoints one progress looks at whether they are connected */
#define UCP_WIMM_EPS_WATCH_MAX 8

/* If there is nothing to do, one progress in so many looks for events of endpoints */
#define UCP_WIMM_EPS_IDLE 16


static void ucp_wimm_ep_unlink(ucp_wimm_ep_t *ep)
{
    ucs_list_del(&ep->list);
    ucs_list_head_init(&ep->list);
}

/* Have progress look until it is connected */
static void ucp_wimm_ep_watch(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    ucs_list_add_tail(&wimm->ep.connecting, &ep->list);
    ucp_wimm_want_progress(wimm);
}

void ucp_wimm_ep_put(ucp_wimm_ep_t *ep)
{
    if (--ep->refcount == 0) {
        ucs_free(ep);
    }
}

/* UCP may use the memory of the endpoint for another one, from now on */
static void ucp_wimm_ep_gone(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    khiter_t iter = kh_get(ucp_wimm_eps, &wimm->ep.table, (uintptr_t)ep->ep);

    kh_del(ucp_wimm_eps, &wimm->ep.table, iter);
    ep->ep = NULL;
    if (ep->emul != NULL) {
        ucp_wimm_emul_fail(ep->emul, UCS_ERR_CANCELED);
    }

    if (!ep->is_failing) {
        ucp_wimm_ep_unlink(ep);
    }

    ucp_wimm_ep_put(ep);
}

/* @return NULL if there is none */
static ucp_wimm_ep_t *ucp_wimm_ep_find(ucp_wimm_h wimm, ucp_ep_h ucp_ep)
{
    khiter_t iter = kh_get(ucp_wimm_eps, &wimm->ep.table, (uintptr_t)ucp_ep);
    ucp_wimm_ep_t *ep;

    if (iter == kh_end(&wimm->ep.table)) {
        return NULL;
    }

    ep = kh_val(&wimm->ep.table, iter);
    if (!ucp_wimm_native_ep_is_marked(ucp_ep)) {
        /* That of another one, which was there before */
        ucp_wimm_ep_gone(wimm, ep);
        return NULL;
    }

    return ep;
}

static ucp_wimm_ep_t *ucp_wimm_ep_create(ucp_wimm_h wimm, ucp_ep_h ucp_ep)
{
    ucp_wimm_ep_t *ep = ucs_malloc(sizeof(*ep), "ucp_wimm_ep");
    khiter_t iter;
    int ret;

    if (ep == NULL) {
        return NULL;
    }

    iter = kh_put(ucp_wimm_eps, &wimm->ep.table, (uintptr_t)ucp_ep, &ret);
    if (ret == UCS_KH_PUT_FAILED) {
        ucs_free(ep);
        return NULL;
    }

    ep->ep          = ucp_ep;
    ep->refcount    = 1;
    ep->num_conns   = 0;
    ep->emul        = NULL;
    ep->status      = UCS_OK;
    ep->is_failing  = 0;
    ep->is_reported = 0;
    ep->is_seen     = 0;

    kh_val(&wimm->ep.table, iter) = ep;
    ucp_wimm_ep_watch(wimm, ep);
    ucp_wimm_native_ep_mark(ucp_ep);
    return ep;
}

ucp_wimm_ep_t *ucp_wimm_ep_get(ucp_wimm_h wimm, ucp_ep_h ucp_ep)
{
    ucp_wimm_ep_t *ep = ucp_wimm_ep_find(wimm, ucp_ep);

    if (ep == NULL) {
        ep = ucp_wimm_ep_create(wimm, ucp_ep);
        if (ep == NULL) {
            return NULL;
        }
    }

    ++ep->refcount;
    return ep;
}

/* It is to be reported, unless something of it may still be delivered */
static void ucp_wimm_ep_failed(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    if (ep->is_failing || ep->is_reported || (ep->num_conns > 0)) {
        return;
    }

    if (ep->emul != NULL) {
        ucp_wimm_emul_fail(ep->emul, ep->status);
    }

    ucp_wimm_ep_unlink(ep);
    ++ep->refcount;
    ep->is_failing = 1;
    ucs_list_add_tail(&wimm->ep.failing, &ep->list);
    ucp_wimm_want_progress(wimm);
}

void ucp_wimm_ep_add_conn(ucp_wimm_ep_t *ep)
{
    ++ep->refcount;
    ++ep->num_conns;
}

void ucp_wimm_ep_conn_purged(ucp_wimm_h wimm, ucp_wimm_ep_t *ep,
                             uct_pending_purge_callback_t cb, void *arg)
{
    if (ep->ep == NULL) {
        return;
    }

    if (!ucp_wimm_native_ep_is_open(ep->ep)) {
        ucp_wimm_ep_gone(wimm, ep);
    } else if ((ep->status == UCS_OK) && ucp_wimm_native_ep_is_failed(ep->ep)) {
        ep->status = ucp_wimm_native_purge_status(cb, arg);
    }
}

void ucp_wimm_ep_remove_conn(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    --ep->num_conns;
    if (ep->status != UCS_OK) {
        ucp_wimm_ep_failed(wimm, ep);
    } else if (ep->ep == NULL) {
        return;
    } else if (!ucp_wimm_native_ep_is_open(ep->ep)) {
        /* UCP may free it: it was known by its connections only */
        if (ep->num_conns == 0) {
            ucp_wimm_ep_gone(wimm, ep);
        }
    } else if ((ep->num_conns == 0) && ucp_wimm_native_ep_is_failed(ep->ep)) {
        /* UCP has not purged the connection itself, but a proxy of it */
        ep->status = UCS_ERR_CONNECTION_RESET;
        ucp_wimm_ep_failed(wimm, ep);
    } else if (ucs_list_is_empty(&ep->list)) {
        /* It may get another one */
        ucp_wimm_ep_watch(wimm, ep);
    }
}

ucp_ep_h ucp_wimm_ep_handle(const ucp_wimm_ep_t *ep)
{
    return ((ep != NULL) && (ep->ep != NULL) &&
            ucp_wimm_native_ep_is_open(ep->ep)) ?
                   ep->ep :
                   NULL;
}

/* Called with each endpoint that the worker has */
static void ucp_wimm_eps_found(ucp_ep_h ucp_ep, void *arg)
{
    ucp_wimm_h wimm   = arg;
    ucp_wimm_ep_t *ep = ucp_wimm_ep_find(wimm, ucp_ep);

    if ((ep == NULL) && ucp_wimm_native_ep_is_open(ucp_ep)) {
        ep = ucp_wimm_ep_create(wimm, ucp_ep);
    }

    if (ep == NULL) {
        return;
    }

    /* If it was closed UCP may free it without another event */
    ep->is_seen = !ucp_wimm_native_ep_is_closed(ucp_ep);
    if ((ep->status == UCS_OK) && ucp_wimm_native_ep_is_failed(ucp_ep) &&
        ((ep->num_conns == 0) || !ep->is_seen)) {
        /* It was never connected, never seen by us, or has no connection of ours */
        ep->status = UCS_ERR_CONNECTION_RESET;
        if ((ep->emul != NULL) && (ep->emul->error != UCS_OK)) {
            ep->status = ep->emul->error;
        }

        ucp_wimm_ep_failed(wimm, ep);
    }
}

/* Something happened to some of the worker's endpoints */
static UCS_F_NOINLINE void ucp_wimm_eps_look(ucp_wimm_h wimm, uint64_t events)
{
    ucp_wimm_ep_t *ep;

    wimm->ep.events = events;
    ucp_wimm_native_for_each_ep(wimm->worker, ucp_wimm_eps_found, wimm);
    kh_foreach_value(&wimm->ep.table, ep, {
        if (!ep->is_seen) {
            ucp_wimm_ep_gone(wimm, ep);
        } else {
            ep->is_seen = 0;
        }
    });
}

int ucp_wimm_eps_update(ucp_wimm_h wimm)
{
    uint64_t events = ucp_wimm_native_ep_events(wimm->worker);

    if (ucs_unlikely(events != wimm->ep.events)) {
        ucp_wimm_eps_look(wimm, events);
    }

    return !ucs_list_is_empty(&wimm->ep.failing);
}

void ucp_wimm_eps_check(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    ucp_wimm_eps_update(wimm);
    if ((ep->ep != NULL) && !ucp_wimm_native_ep_is_open(ep->ep)) {
        /* UCP may have freed it, which is no event */
        ucp_wimm_eps_look(wimm, wimm->ep.events);
    }
}

/* Those that got connected are to tell when they fail */
static void ucp_wimm_eps_watch(ucp_wimm_h wimm, unsigned max)
{
    ucp_wimm_ep_t *first = NULL;
    unsigned left        = max;
    ucp_wimm_ep_info_t info;
    ucp_wimm_ep_t *ep;

    for (; (left > 0) && !ucs_list_is_empty(&wimm->ep.connecting); --left) {
        ep = ucs_list_head(&wimm->ep.connecting, ucp_wimm_ep_t, list);
        if (ep == first) {
            break;
        }

        /* UCP may have freed one that the program does not have */
        ++ep->refcount;
        ucp_wimm_eps_check(wimm, ep);
        if ((ep->ep == NULL) || ep->is_failing) {
            ucp_wimm_ep_put(ep);
            continue;
        }

        ucp_wimm_ep_unlink(ep);
        ucp_wimm_native_ep_info(wimm, ep->ep, &info);
        if (info.uct_ep != NULL) {
            ucp_wimm_conn_watch(wimm, info.uct_ep, ep);
        } else if (info.has_lane || info.is_placeholder) {
            ucp_wimm_ep_watch(wimm, ep);
            first = (first == NULL) ? ep : first;
        }
        ucp_wimm_ep_put(ep);
    }
}

/* The next one to be reported, which it counts as from now on, with its reference */
static ucp_wimm_ep_t *ucp_wimm_eps_pull_failing(ucp_wimm_h wimm)
{
    ucp_wimm_ep_t *ep = ucs_list_head(&wimm->ep.failing, ucp_wimm_ep_t, list);

    ucp_wimm_ep_unlink(ep);
    ep->is_failing  = 0;
    ep->is_reported = 1;
    return ep;
}

/* Nobody is told of those that are to be reported */
static void ucp_wimm_eps_drop_failing(ucp_wimm_h wimm)
{
    while (!ucs_list_is_empty(&wimm->ep.failing)) {
        ucp_wimm_ep_put(ucp_wimm_eps_pull_failing(wimm));
    }
}

/* Handlers may do what they like */
static unsigned ucp_wimm_eps_report(ucp_wimm_h wimm)
{
    unsigned count = 0;
    ucp_wimm_ep_t *ep;

    /* What has arrived comes first */
    if (wimm->emul.num_todo > 0) {
        count = ucp_wimm_emul_progress(wimm);
    }

    while (ucp_wimm_eps_update(wimm)) {
        ep = ucp_wimm_eps_pull_failing(wimm);
        ucp_wimm_stream_fail(wimm, ep);
        ucp_wimm_ep_put(ep);
        ++count;
    }

    return count;
}

static UCS_F_NOINLINE unsigned ucp_wimm_eps_progress_slow(ucp_wimm_h wimm)
{
    unsigned count;

    ucp_wimm_native_enter(wimm->worker);
    if (wimm->is_attached) {
        count = ucp_wimm_eps_report(wimm);
        ucp_wimm_eps_watch(wimm, UCP_WIMM_EPS_WATCH_MAX);
    } else {
        ucp_wimm_eps_update(wimm);
        ucp_wimm_eps_drop_failing(wimm);
        count = ucp_wimm_emul_progress(wimm);
    }
    ucp_wimm_native_leave(wimm->worker);
    return count;
}

static UCS_F_NOINLINE unsigned ucp_wimm_eps_look_around(ucp_wimm_h wimm)
{
    if ((ucp_wimm_native_ep_events(wimm->worker) == wimm->ep.events) &&
        ucs_list_is_empty(&wimm->ep.connecting) &&
        ucs_list_is_empty(&wimm->ep.failing) && (wimm->emul.num_todo == 0)) {
        wimm->ep.idle = UCP_WIMM_EPS_IDLE;
        return 0;
    }

    /* The next one looks again, whatever this one does */
    ucp_wimm_want_progress(wimm);
    return ucp_wimm_eps_progress_slow(wimm);
}

/* Called by each progress of the worker */
static unsigned ucp_wimm_eps_progress(void *arg)
{
    ucp_wimm_h wimm = arg;

    if (ucs_likely(--wimm->ep.idle != 0)) {
        return 0;
    }

    return ucp_wimm_eps_look_around(wimm);
}

int ucp_wimm_eps_arm(ucp_wimm_h wimm)
{
    int has_work;

    /* All of these may find out about a failure */
    ucp_wimm_eps_update(wimm);
    ucp_wimm_eps_watch(wimm, UINT_MAX);
    has_work = ucp_wimm_emul_has_work(wimm);
    return has_work || !ucs_list_is_empty(&wimm->ep.failing);
}

void ucp_wimm_eps_init(ucp_wimm_h wimm)
{
    kh_init_inplace(ucp_wimm_eps, &wimm->ep.table);
    ucs_list_head_init(&wimm->ep.connecting);
    ucs_list_head_init(&wimm->ep.failing);
    wimm->ep.progress_id = UCS_CALLBACKQ_ID_NULL;
    ucp_wimm_want_progress(wimm);
}

void ucp_wimm_eps_start(ucp_wimm_h wimm)
{
    ucp_wimm_eps_look(wimm, ucp_wimm_native_ep_events(wimm->worker));
    ucp_wimm_eps_drop_failing(wimm);
    if (wimm->ep.progress_id == UCS_CALLBACKQ_ID_NULL) {
        ucp_wimm_native_add_progress(wimm->worker, ucp_wimm_eps_progress, wimm,
                                     &wimm->ep.progress_id);
    }
}

void ucp_wimm_eps_stop(ucp_wimm_h wimm)
{
    ucp_wimm_native_remove_progress(wimm->worker, &wimm->ep.progress_id);
    ucp_wimm_eps_drop_failing(wimm);
}

void ucp_wimm_eps_cleanup(ucp_wimm_h wimm)
{
    ucp_wimm_ep_t *ep;

    kh_foreach_value(&wimm->ep.table, ep, { ucp_wimm_ep_gone(wimm, ep); });
    ucp_wimm_eps_drop_failing(wimm);
    kh_destroy_inplace(ucp_wimm_eps, &wimm->ep.table);
}
