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

#include <uct/ib/wimm/wimm.h>
#include <uct/ib/wimm/wimm_abi.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <pthread.h>
#include <string.h>


/* Handles that are attached; those of workers that nobody is attached to, but peers may
 * send to; and those that may be used again. Their memory stays, so that a handle that
 * was detached can be told from one that is not. */
static struct {
    pthread_mutex_t lock;
    ucs_list_link_t attached;
    ucs_list_link_t parked;
    ucs_list_link_t unused;
} ucp_wimm_handles = {
    .lock     = PTHREAD_MUTEX_INITIALIZER,
    .attached = { &ucp_wimm_handles.attached, &ucp_wimm_handles.attached },
    .parked   = { &ucp_wimm_handles.parked, &ucp_wimm_handles.parked },
    .unused   = { &ucp_wimm_handles.unused, &ucp_wimm_handles.unused }
};


static void __attribute__((destructor)) ucp_wimm_free_handles(void)
{
    ucp_wimm_h wimm, tmp;

    ucs_list_for_each_safe(wimm, tmp, &ucp_wimm_handles.unused, list) {
        ucs_list_del(&wimm->list);
        ucs_free(wimm);
    }
}

static ucp_wimm_h ucp_wimm_find(ucs_list_link_t *handles, ucp_worker_h worker)
{
    ucp_wimm_h wimm;

    ucs_list_for_each(wimm, handles, list) {
        if (wimm->worker == worker) {
            return wimm;
        }
    }

    return NULL;
}

static ucp_wimm_h ucp_wimm_get_unused(void)
{
    if (!ucs_list_is_empty(&ucp_wimm_handles.unused)) {
        return ucs_list_extract_head(&ucp_wimm_handles.unused, struct ucp_wimm,
                                     list);
    }

    return ucs_calloc(1, sizeof(struct ucp_wimm), "ucp_wimm");
}

/* The worker of a handle was destroyed, with all of its endpoints */
static void ucp_wimm_forget(ucp_wimm_h wimm)
{
    ucp_wimm_emul_forget(wimm);
    ucp_wimm_eps_cleanup(wimm);
    if (wimm->is_attached) {
        ucp_wimm_counters_cleanup(wimm);
        ucp_wimm_stream_cleanup(wimm);
    }

    wimm->is_attached = 0;
    ucp_wimm_put_ref(wimm);
}

/* That of a worker, from a list; or of one that was destroyed, at the same address: it is
 * put into @a stale_p */
static ucp_wimm_h ucp_wimm_extract(ucs_list_link_t *handles,
                                   ucp_worker_h worker, ucp_wimm_h *stale_p)
{
    ucp_wimm_h wimm = ucp_wimm_find(handles, worker);

    if (wimm == NULL) {
        return NULL;
    }

    ucs_list_del(&wimm->list);
    if (wimm->worker_id == ucp_wimm_native_worker_id(worker)) {
        return wimm;
    }

    *stale_p = wimm;
    return NULL;
}

/* Take a handle for a worker, which counts as attached from now on. One that was parked is
 * as it was. */
static ucs_status_t ucp_wimm_reserve(ucp_worker_h worker, ucp_wimm_h *wimm_p)
{
    ucs_status_t status = UCS_OK;
    ucp_wimm_h stale    = NULL;
    ucp_wimm_h wimm;

    pthread_mutex_lock(&ucp_wimm_handles.lock);
    wimm = ucp_wimm_extract(&ucp_wimm_handles.attached, worker, &stale);
    if (wimm != NULL) {
        ucs_list_add_tail(&ucp_wimm_handles.attached, &wimm->list);
        ucs_error("worker %p is attached already", worker);
        status = UCS_ERR_INVALID_PARAM;
        goto out;
    }

    wimm = ucp_wimm_extract(&ucp_wimm_handles.parked, worker, &stale);
    if (wimm == NULL) {
        wimm = ucp_wimm_get_unused();
        if (wimm == NULL) {
            ucs_error("failed to allocate memory to attach to worker %p",
                      worker);
            status = UCS_ERR_NO_MEMORY;
            goto out;
        }

        wimm->is_parked = 0;
        wimm->worker    = worker;
        wimm->worker_id = ucp_wimm_native_worker_id(worker);
    }

    ucs_list_add_tail(&ucp_wimm_handles.attached, &wimm->list);
    *wimm_p = wimm;

out:
    pthread_mutex_unlock(&ucp_wimm_handles.lock);
    if (stale != NULL) {
        ucp_wimm_forget(stale);
    }

    return status;
}

/* Move a handle to another list */
static void ucp_wimm_move(ucp_wimm_h wimm, ucs_list_link_t *handles)
{
    pthread_mutex_lock(&ucp_wimm_handles.lock);
    ucs_list_del(&wimm->list);
    ucs_list_add_tail(handles, &wimm->list);
    pthread_mutex_unlock(&ucp_wimm_handles.lock);
}

void ucp_wimm_put_ref(ucp_wimm_h wimm)
{
    if (--wimm->refcount > 0) {
        return;
    }

    ucp_wimm_emul_cleanup(wimm);
    ucp_wimm_native_cleanup(wimm);
    pthread_mutex_lock(&ucp_wimm_handles.lock);
    ucs_list_add_tail(&ucp_wimm_handles.unused, &wimm->list);
    pthread_mutex_unlock(&ucp_wimm_handles.lock);
}

/* Before anything of the worker is looked at that a program does not see */
static ucs_status_t ucp_wimm_check_version(void)
{
    const char *loaded = ucp_get_version_string();

    UCP_WIMM_CHECK_PARAM(
            uct_wimm_abi_is_version(WIMM_UCX_VERSION, loaded),
            UCS_ERR_UNSUPPORTED,
            "libucp_wimm was built for UCX %s, but UCX %s is loaded",
            WIMM_UCX_VERSION, loaded);
    return UCS_OK;
}

static ucs_status_t ucp_wimm_check_worker(ucp_worker_h worker)
{
    ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_REQUEST_SIZE };
    ucs_status_t status;

    status = ucp_context_query(ucp_wimm_native_context(worker), &attr);
    if (status != UCS_OK) {
        return status;
    }

    UCP_WIMM_CHECK_PARAM(attr.request_size == ucp_wimm_native_request_size(),
                         UCS_ERR_UNSUPPORTED,
                         "libucp_wimm was built for a UCX %s whose requests have"
                         " %zu bytes, in the UCX that is loaded they have %zu",
                         WIMM_UCX_VERSION, ucp_wimm_native_request_size(),
                         attr.request_size);
    UCP_WIMM_CHECK_PARAM(
            ucp_wimm_native_has_rma(worker), UCS_ERR_UNSUPPORTED,
            "the worker's context was made without UCP_FEATURE_RMA");
    return UCS_OK;
}

/* What a handle has that nobody has used yet */
static ucs_status_t ucp_wimm_init(ucp_wimm_h wimm)
{
    ucs_status_t status = ucp_wimm_native_init(wimm);

    if (status != UCS_OK) {
        return status;
    }

    wimm->refcount = 1;
    ucp_wimm_emul_reset(wimm);
    ucp_wimm_eps_init(wimm);
    return UCS_OK;
}

/* The emulation, which survives if somebody was attached before */
static ucs_status_t ucp_wimm_start_emul(ucp_wimm_h wimm,
                                        const ucp_wimm_params_t *params)
{
    int has_id = (params != NULL) &&
                 (params->field_mask & UCP_WIMM_PARAM_FIELD_AM_ID);

    if (!wimm->is_parked) {
        return has_id ? ucp_wimm_emul_init(wimm, params->am_id) : UCS_OK;
    }

    UCP_WIMM_CHECK_PARAM(!has_id || (params->am_id == wimm->emul.am_id),
                         UCS_ERR_INVALID_PARAM,
                         "the peers of worker %p use the active message id %u"
                         " that was given when it was attached before, not %u",
                         wimm->worker, wimm->emul.am_id, params->am_id);
    ucp_wimm_emul_resume(wimm);
    return UCS_OK;
}

/* With the worker locked */
static ucs_status_t ucp_wimm_start(ucp_wimm_h wimm,
                                   const ucp_wimm_params_t *params)
{
    ucs_status_t status;

    memset(&wimm->stats, 0, sizeof(wimm->stats));
    status = ucp_wimm_stream_init(wimm);
    if (status != UCS_OK) {
        return status;
    }

    if ((params != NULL) &&
        (params->field_mask & UCP_WIMM_PARAM_FIELD_HANDLER)) {
        wimm->stream.cb  = params->handler.cb;
        wimm->stream.arg = params->handler.arg;
    }

    ucp_wimm_counters_init(wimm);
    ucp_wimm_conns_init(wimm);
    ucp_wimm_eps_start(wimm);
    wimm->is_attached = 1;
    status            = ucp_wimm_start_emul(wimm, params);
    if (status == UCS_OK) {
        wimm->is_parked = 0;
        return UCS_OK;
    }

    wimm->is_attached = 0;
    ucp_wimm_conns_cleanup(wimm);
    ucp_wimm_counters_cleanup(wimm);
    ucp_wimm_stream_cleanup(wimm);
    return status;
}

/* Nobody uses the handle, but its operations may go on. With the worker locked. */
static void ucp_wimm_release(ucp_wimm_h wimm)
{
    wimm->is_attached = 0;
    wimm->is_parked   = ucp_wimm_emul_park(wimm);
    if (wimm->is_parked) {
        ucp_wimm_move(wimm, &ucp_wimm_handles.parked);
        return;
    }

    pthread_mutex_lock(&ucp_wimm_handles.lock);
    ucs_list_del(&wimm->list);
    pthread_mutex_unlock(&ucp_wimm_handles.lock);
    ucp_wimm_emul_stop(wimm);
    ucp_wimm_eps_stop(wimm);
    ucp_wimm_eps_cleanup(wimm);
    ucp_wimm_put_ref(wimm);
}

ucs_status_t ucp_wimm_attach(ucp_worker_h worker,
                             const ucp_wimm_params_t *params,
                             ucp_wimm_h *wimm_p)
{
    ucs_status_t status;
    ucp_wimm_h wimm;

    UCP_WIMM_CHECK_PARAM((worker != NULL) && (wimm_p != NULL),
                         UCS_ERR_INVALID_PARAM, "ucp_wimm_attach() got a NULL");
    status = ucp_wimm_check_version();
    if (status != UCS_OK) {
        return status;
    }

    status = ucp_wimm_check_worker(worker);
    if (status != UCS_OK) {
        return status;
    }

    /* Not with the lock of the list: others take it with that of a worker */
    status = ucp_wimm_reserve(worker, &wimm);
    if (status != UCS_OK) {
        return status;
    }

    if (!wimm->is_parked) {
        status = ucp_wimm_init(wimm);
        if (status != UCS_OK) {
            ucp_wimm_move(wimm, &ucp_wimm_handles.unused);
            return status;
        }
    }

    ucp_wimm_native_enter(worker);
    status = ucp_wimm_start(wimm, params);
    if (status == UCS_OK) {
        *wimm_p = wimm;
    } else {
        ucp_wimm_release(wimm);
    }
    ucp_wimm_native_leave(worker);
    return status;
}

ucs_status_t ucp_wimm_detach(ucp_wimm_h wimm)
{
    ucs_status_t status = UCS_OK;
    ucp_worker_h worker;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);

    /* With it locked: another thread may progress it meanwhile */
    worker = wimm->worker;
    ucp_wimm_native_enter(worker);
    if ((wimm->stream.in_handler > 0) || ucp_wimm_native_in_progress(worker)) {
        ucs_error("ucp_wimm_detach() was called from a handler, or inside of"
                  " ucp_worker_progress()");
        status = UCS_ERR_INVALID_PARAM;
        goto out;
    }

    ucp_wimm_counters_cleanup(wimm);
    ucp_wimm_stream_cleanup(wimm);
    ucp_wimm_conns_cleanup(wimm);
    ucp_wimm_release(wimm);

out:
    ucp_wimm_native_leave(worker);
    return status;
}

ucs_status_ptr_t ucp_wimm_put_nbx(ucp_wimm_h wimm, ucp_ep_h ep,
                                  const void *buffer, size_t count,
                                  uint64_t remote_addr, ucp_rkey_h rkey,
                                  uint32_t imm,
                                  const ucp_request_param_t *param)
{
    UCP_WIMM_CHECK_HANDLE(wimm, UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    UCP_WIMM_CHECK_PARAM((ep != NULL) && (param != NULL),
                         UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM),
                         "the endpoint or the parameters of a notified put are"
                         " NULL");

    return ucp_wimm_native_put(wimm, ep, buffer, count, remote_addr, rkey, imm,
                               param);
}

ucs_status_ptr_t ucp_wimm_notify_nbx(ucp_wimm_h wimm, ucp_ep_h ep, uint32_t imm,
                                     const ucp_request_param_t *param)
{
    return ucp_wimm_put_nbx(wimm, ep, NULL, 0, 0, NULL, imm, param);
}

/* Flush or close: behind what is emulated, or as UCP does it */
static ucs_status_ptr_t ucp_wimm_barrier(ucp_wimm_h wimm, ucp_ep_h ep,
                                         ucp_wimm_chain_kind_t kind,
                                         const ucp_request_param_t *param)
{
    ucs_status_ptr_t ret;
    int is_forced;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    UCP_WIMM_CHECK_PARAM((ep != NULL) && (param != NULL),
                         UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM),
                         "the endpoint or the parameters of a flush or close"
                         " are NULL");
    UCP_WIMM_CHECK_PARAM(ucp_wimm_native_ep_is_of(wimm->worker, ep),
                         UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM),
                         "the endpoint %p is of another worker", ep);

    is_forced = (kind == UCP_WIMM_CHAIN_CLOSE) &&
                (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) &&
                (param->flags & UCP_EP_CLOSE_FLAG_FORCE);
    ucp_wimm_native_enter(wimm->worker);
    if (is_forced || !ucp_wimm_emul_barrier(wimm, ep, kind, param, &ret)) {
        ret = (kind == UCP_WIMM_CHAIN_CLOSE) ? ucp_ep_close_nbx(ep, param) :
                                               ucp_ep_flush_nbx(ep, param);
    }
    ucp_wimm_native_leave(wimm->worker);
    return ret;
}

ucs_status_ptr_t ucp_wimm_flush_nbx(ucp_wimm_h wimm, ucp_ep_h ep,
                                    const ucp_request_param_t *param)
{
    return ucp_wimm_barrier(wimm, ep, UCP_WIMM_CHAIN_FLUSH, param);
}

ucs_status_ptr_t ucp_wimm_ep_close_nbx(ucp_wimm_h wimm, ucp_ep_h ep,
                                       const ucp_request_param_t *param)
{
    return ucp_wimm_barrier(wimm, ep, UCP_WIMM_CHAIN_CLOSE, param);
}

static void ucp_wimm_query_iface(uct_iface_h iface, void *arg)
{
    ucp_wimm_attr_t *attr = arg;
    uct_wimm_iface_attr_t iface_attr;

    iface_attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP |
                            UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS;
    if (uct_wimm_iface_query(iface, &iface_attr) != UCS_OK) {
        return;
    }

    ++attr->cap.num_ifaces;
    attr->cap.imm_bits  = ucs_min(attr->cap.imm_bits, iface_attr.cap.imm_bits);
    attr->cap.max_short = ucs_min(attr->cap.max_short,
                                  iface_attr.cap.max_short);
    attr->cap.max_bcopy = ucs_min(attr->cap.max_bcopy,
                                  iface_attr.cap.max_bcopy);
    attr->cap.max_message = ucs_min(attr->cap.max_message,
                                    iface_attr.cap.max_zcopy);
    attr->cap.max_iov     = ucs_min(attr->cap.max_iov, iface_attr.cap.max_iov);
    attr->cap.num_slots   = ucs_min(attr->cap.num_slots, iface_attr.num_slots);
}

static void ucp_wimm_query_cap(ucp_wimm_h wimm, ucp_wimm_attr_t *attr)
{
    memset(&attr->cap, 0xff, sizeof(attr->cap));
    attr->cap.imm_bits   = 32;
    attr->cap.num_ifaces = 0;
    ucp_wimm_native_for_each_iface(wimm->worker, ucp_wimm_query_iface, attr);
    if (attr->cap.num_ifaces == 0) {
        memset(&attr->cap, 0, sizeof(attr->cap));
        attr->cap.imm_bits  = 32;
        attr->cap.num_slots = wimm->emul.num_slots;
    }
}

ucs_status_t ucp_wimm_query(ucp_wimm_h wimm, ucp_wimm_attr_t *attr)
{
    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);
    UCP_WIMM_CHECK_PARAM(attr != NULL, UCS_ERR_INVALID_PARAM,
                         "ucp_wimm_query() has nowhere to write to");

    ucp_wimm_native_enter(wimm->worker);
    if (attr->field_mask & UCP_WIMM_ATTR_FIELD_CAP) {
        ucp_wimm_query_cap(wimm, attr);
    }

    if (attr->field_mask & UCP_WIMM_ATTR_FIELD_QUEUE) {
        attr->queue.length = wimm->stream.length;
    }

    if (attr->field_mask & UCP_WIMM_ATTR_FIELD_COUNTERS) {
        attr->counters.puts          = wimm->stats.puts;
        attr->counters.requests      = wimm->stats.requests;
        attr->counters.wireup        = wimm->stats.wireup;
        attr->counters.notifications = wimm->stats.notifications;
        attr->counters.counted       = wimm->stats.counted;
        attr->counters.handled       = wimm->stats.handled;
        attr->counters.queued        = wimm->stats.queued;
        attr->counters.failures      = wimm->stats.failures;
        attr->counters.emulated      = wimm->stats.emulated;
    }
    ucp_wimm_native_leave(wimm->worker);
    return UCS_OK;
}

static ucp_wimm_way_t ucp_wimm_ep_way(ucp_wimm_h wimm, ucp_ep_h ep,
                                      const ucp_wimm_ep_info_t *info,
                                      ucp_wimm_reason_t *reason_p)
{
    ucp_wimm_attr_t attr;

    *reason_p = UCP_WIMM_REASON_NONE;
    if (!ucp_wimm_native_ep_is_open(ep) || ucp_wimm_native_ep_is_failed(ep)) {
        *reason_p = UCP_WIMM_REASON_FAILED;
        return UCP_WIMM_WAY_NONE;
    } else if (info->uct_ep != NULL) {
        return UCP_WIMM_WAY_NATIVE;
    } else if (info->has_lane || info->is_placeholder) {
        return UCP_WIMM_WAY_QUEUED;
    }

    ucp_wimm_query_cap(wimm, &attr);
    *reason_p = (attr.cap.num_ifaces == 0) ? UCP_WIMM_REASON_NO_TRANSPORT :
                                             UCP_WIMM_REASON_OTHER_LANE;
    return wimm->emul.is_on ? UCP_WIMM_WAY_EMULATED : UCP_WIMM_WAY_NONE;
}

ucs_status_t ucp_wimm_ep_query(ucp_wimm_h wimm, ucp_ep_h ep,
                               ucp_wimm_ep_attr_t *attr)
{
    uct_wimm_ep_attr_t ep_attr;
    ucp_wimm_reason_t reason;
    ucp_wimm_ep_info_t info;
    ucp_wimm_way_t way;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);
    UCP_WIMM_CHECK_PARAM((ep != NULL) && (attr != NULL), UCS_ERR_INVALID_PARAM,
                         "ucp_wimm_ep_query() got a NULL");
    UCP_WIMM_CHECK_PARAM(ucp_wimm_native_ep_is_of(wimm->worker, ep),
                         UCS_ERR_INVALID_PARAM,
                         "the endpoint %p is of another worker", ep);

    ucp_wimm_native_enter(wimm->worker);
    ucp_wimm_native_ep_info(wimm, ep, &info);
    way = ucp_wimm_ep_way(wimm, ep, &info, &reason);
    if (attr->field_mask & UCP_WIMM_EP_ATTR_FIELD_WAY) {
        attr->way = way;
    }

    if (attr->field_mask & UCP_WIMM_EP_ATTR_FIELD_REASON) {
        attr->reason = reason;
    }

    if (attr->field_mask & UCP_WIMM_EP_ATTR_FIELD_PUTS_COVERED) {
        attr->puts_covered = info.puts_covered;
    }

    if (attr->field_mask & UCP_WIMM_EP_ATTR_FIELD_FLOW) {
        memset(&ep_attr, 0, sizeof(ep_attr));
        ep_attr.field_mask = UCT_WIMM_EP_ATTR_FIELD_CREDITS |
                             UCT_WIMM_EP_ATTR_FIELD_SLOTS;
        if (way == UCP_WIMM_WAY_NATIVE) {
            uct_wimm_ep_query(info.uct_ep, &ep_attr);
        } else if (way == UCP_WIMM_WAY_EMULATED) {
            ucp_wimm_emul_query(wimm, ep, &ep_attr.slots, &ep_attr.num_slots);
        }

        attr->flow.credits   = ep_attr.credits;
        attr->flow.slots     = ep_attr.slots;
        attr->flow.num_slots = ep_attr.num_slots;
    }
    ucp_wimm_native_leave(wimm->worker);
    return UCS_OK;
}
