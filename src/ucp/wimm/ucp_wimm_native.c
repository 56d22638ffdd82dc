/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_compat.h"
#include "ucp_wimm_emul.h"
#include "ucp_wimm_iov.h"
#include "ucp_wimm_native.h"
#include "ucp_wimm_select.h"
#include "ucp_wimm_wireup.h"

#include <uct/ib/wimm/wimm.h>
#include <ucs/debug/memtrack_int.h>
#include <stddef.h>
#include <string.h>


/* Most entries of one message */
#define UCP_WIMM_IOV_MAX 8


enum {
    /* In UCP's queue of an endpoint that is not connected, or being replayed */
    UCP_WIMM_PUT_FLAG_WIREUP = UCS_BIT(0),

    /* The peer was told the whole length: there are several messages */
    UCP_WIMM_PUT_FLAG_ANNOUNCED = UCS_BIT(1),

    UCP_WIMM_PUT_FLAG_REGISTERED = UCS_BIT(2)
};


/* Our part of a request: where each operation of UCP has its own */
typedef struct ucp_wimm_put {
    ucp_wimm_h wimm;
    uint64_t remote_addr;
    ucp_rkey_h rkey;
    ucp_mem_h memh;     /* That the program gave, or NULL */
    uct_ep_h queued_on; /* It was queued there, and is called by it */
    uint32_t imm;
    uint8_t flags; /* UCP_WIMM_PUT_FLAG_xx */
} ucp_wimm_put_t;

_Static_assert(sizeof(ucp_wimm_put_t) <=
                       (offsetof(ucp_request_t, send.am_bw_index) -
                        offsetof(ucp_request_t, send.rma)),
               "our part of a request is larger than UCP's");


static ucs_status_t ucp_wimm_put_progress(uct_pending_req_t *self);


static UCS_F_ALWAYS_INLINE ucp_wimm_put_t *ucp_wimm_req_put(ucp_request_t *req)
{
    return (ucp_wimm_put_t *)(void *)&req->send.rma;
}

#include "ucp_wimm_native_path.inl"
#include "ucp_wimm_native_post.inl"


/*
 * Sending
 */

/* The request is not in UCP's queue for the connection any more */
static UCS_F_ALWAYS_INLINE void ucp_wimm_put_leave_wireup(ucp_request_t *req)
{
    ucp_wimm_put_t *put = ucp_wimm_req_put(req);

    if (ucs_unlikely(put->flags & UCP_WIMM_PUT_FLAG_WIREUP)) {
        put->flags &= ~UCP_WIMM_PUT_FLAG_WIREUP;
        ucp_wimm_wireup_leave(&put->wimm->native->wireup, req->send.ep);
    }
}

/* All parts were posted, and those with a completion have completed; or it failed and
 * nothing of it is in flight */
static void ucp_wimm_put_completion(uct_completion_t *self)
{
    ucp_request_t *req = ucs_container_of(self, ucp_request_t,
                                          send.state.uct_comp);
    ucp_wimm_h wimm;

    if (req->send.state.dt.offset != req->send.length) {
        return;
    }

    /* Deregister before leaving: the callbacks of those that were deferred may close
     * the endpoint */
    wimm = ucp_wimm_req_put(req)->wimm;
    ucp_request_send_buffer_dereg(req);
    ucp_wimm_put_leave_wireup(req);
    ucp_request_complete_send(req, self->status);
    ucp_wimm_put_ref(wimm);
}

/* The endpoint is not connected: UCP keeps the request until it is. A stub of one
 * that failed answers with an error. */
static ucs_status_t ucp_wimm_put_wait_for_wireup(ucp_request_t *req,
                                                 uct_ep_h uct_ep)
{
    ucp_wimm_put_t *put = ucp_wimm_req_put(req);
    ucs_status_t status = uct_ep_put_short(uct_ep, NULL, 0, 0, 0);

    if (status != UCS_ERR_NO_RESOURCE) {
        return (status == UCS_OK) ? UCS_ERR_UNSUPPORTED : status;
    }

    if (put->flags & UCP_WIMM_PUT_FLAG_WIREUP) {
        return UCS_ERR_NO_RESOURCE;
    }

    status = ucp_wimm_wireup_enter(&put->wimm->native->wireup, req->send.ep);
    if (status != UCS_OK) {
        return status;
    }

    put->flags |= UCP_WIMM_PUT_FLAG_WIREUP;
    ++put->wimm->stats.wireup;
    return UCS_ERR_NO_RESOURCE;
}

/* There is no native way: it goes the other one */
static UCS_F_NOINLINE ucs_status_t ucp_wimm_put_emulate(ucp_request_t *req)
{
    ucp_wimm_h wimm = ucp_wimm_req_put(req)->wimm;
    ucp_wimm_emul_t *emul;
    ucs_status_t status;

    status = ucp_wimm_emul_push(wimm, req->send.ep, &req->send.uct,
                                UCP_WIMM_CHAIN_PUT, &emul);
    if (status != UCS_OK) {
        ucp_request_send_state_ff(req, status);
        return UCS_OK;
    }

    /* What was deferred behind it follows, before it can complete */
    ucp_wimm_put_leave_wireup(req);
    ucp_wimm_chain_go(emul);
    return UCS_OK;
}

/* Errors complete a request at once, or with its last message in flight */
static ucs_status_t ucp_wimm_put_progress(uct_pending_req_t *self)
{
    ucp_request_t *req  = ucs_container_of(self, ucp_request_t, send.uct);
    ucp_wimm_put_t *put = ucp_wimm_req_put(req);
    ucp_ep_h ep         = req->send.ep;
    const ucp_wimm_path_t *path;
    ucp_lane_index_t lane;
    ucs_status_t status;
    uct_ep_h uct_ep;

    /* Looked up anew: the connection may have changed it */
    path = ucp_wimm_ep_path(put->wimm->native, ep);
    lane = ucp_wimm_path_put_lane(path, ep);
    if (ucs_unlikely(lane == UCP_NULL_LANE)) {
        return ucp_wimm_put_emulate(req);
    }

    req->send.lane = lane;
    uct_ep         = ucp_wimm_ep_uct_ep(ep, lane);
    if (ucs_unlikely(!ucp_wimm_path_is_connected(path, uct_ep))) {
        status = ucp_wimm_put_wait_for_wireup(req, uct_ep);
        if (status != UCS_ERR_NO_RESOURCE) {
            ucp_request_send_state_ff(req, status);
            return UCS_OK;
        }

        return UCS_ERR_NO_RESOURCE;
    }

    status = ucp_wimm_put_post(req, uct_ep, path);
    if (status == UCS_OK) {
        if (req->send.state.uct_comp.count == 0) {
            ucp_wimm_put_completion(&req->send.state.uct_comp);
        } else {
            ucp_wimm_put_leave_wireup(req);
        }

        return UCS_OK;
    } else if (status == UCS_INPROGRESS) {
        return UCS_INPROGRESS;
    } else if (status != UCS_ERR_NO_RESOURCE) {
        ucp_request_send_state_ff(req, status);
        return UCS_OK;
    } else if (put->queued_on == uct_ep) {
        return UCS_ERR_NO_RESOURCE; /* It stays where it is */
    }

    /* Not by UCP, which does not know about slots. If it can be posted after all,
     * we are called again. */
    status = uct_wimm_ep_imm_pending_add(uct_ep, self);
    if (status != UCS_OK) {
        return UCS_INPROGRESS;
    }

    put->queued_on         = uct_ep;
    req->send.pending_lane = lane;
    ucp_wimm_put_leave_wireup(req);
    return UCS_OK;
}

static ucs_status_t ucp_wimm_put_check(ucp_ep_h ep, const void *buffer,
                                       size_t length, ucp_datatype_t datatype,
                                       ucs_memory_type_t mem_type,
                                       ucp_rkey_h rkey, ucp_mem_h memh)
{
    UCP_WIMM_CHECK_PARAM(buffer != NULL, UCS_ERR_INVALID_PARAM,
                         "the buffer of a notified put is NULL");
    UCP_WIMM_CHECK_PARAM(rkey != NULL, UCS_ERR_INVALID_PARAM,
                         "the remote key of a notified put is NULL");
    UCP_WIMM_CHECK_PARAM(
            ucp_wimm_rkey_is_of(rkey, ep), UCS_ERR_INVALID_PARAM,
            "the remote key %p was unpacked on another endpoint than"
            " %p",
            rkey, ep);
    if ((memh == NULL) || !UCP_DT_IS_CONTIG(datatype)) {
        return UCS_OK;
    }

    UCP_WIMM_CHECK_PARAM(
            memh->mem_type == mem_type, UCS_ERR_INVALID_PARAM,
            "the memory handle %p is for %s memory, but the put is of"
            " %s memory",
            memh, ucs_memory_type_names[memh->mem_type],
            ucs_memory_type_names[mem_type]);
    UCP_WIMM_CHECK_PARAM(
            ucp_wimm_memh_is_for(memh, buffer, length, mem_type),
            UCS_ERR_INVALID_PARAM,
            "the memory handle %p does not cover the %zu bytes at %p", memh,
            length, buffer);
    return UCS_OK;
}

/* A request with nothing of ours but the handle */
static void ucp_wimm_req_init(ucp_request_t *req, ucp_wimm_h wimm, ucp_ep_h ep,
                              const void *buffer, size_t length,
                              ucp_datatype_t datatype, size_t count,
                              ucs_memory_type_t mem_type)
{
    ucp_wimm_put_t *put = ucp_wimm_req_put(req);

    ++wimm->refcount;
    req->flags             = 0;
    req->status            = UCS_INPROGRESS;
    req->send.ep           = ep;
    req->send.buffer       = (void *)buffer;
    req->send.datatype     = datatype;
    req->send.mem_type     = mem_type;
    req->send.length       = length;
    req->send.lane         = UCP_NULL_LANE;
    req->send.pending_lane = UCP_NULL_LANE;
    req->send.uct.func     = ucp_wimm_put_progress;
    ucp_request_send_state_init(req, datatype, count);
    req->send.state.dt.offset       = 0;
    req->send.state.uct_comp.func   = ucp_wimm_put_completion;
    req->send.state.uct_comp.count  = 0;
    req->send.state.uct_comp.status = UCS_OK;

    memset(put, 0, sizeof(*put));
    put->wimm = wimm;
}

/* What the program gets for a request: it may be complete already */
static ucs_status_ptr_t ucp_wimm_req_return(ucp_request_t *req,
                                            const ucp_request_param_t *param)
{
    if (req->flags & UCP_REQUEST_FLAG_COMPLETED) {
        ucp_request_imm_cmpl_param(param, req, send);
    }

    ucp_request_set_send_callback_param(param, req, send);
    return req + 1;
}

static UCS_F_NOINLINE ucs_status_ptr_t
ucp_wimm_put_request(ucp_wimm_h wimm, ucp_ep_h ep, const void *buffer,
                     size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                     uint32_t imm, const ucp_request_param_t *param)
{
    ucp_datatype_t datatype = ucp_request_param_datatype(param);
    ucp_mem_h memh          = NULL;
    const ucp_dt_iov_t *first;
    ucp_lane_index_t lane;
    ucs_memory_type_t mem_type;
    ucp_request_t *req;
    ucp_wimm_put_t *put;
    ucs_status_t status;
    uct_ep_h uct_ep;
    size_t length;

    if (param->op_attr_mask & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_RESOURCE);
    }

    UCP_WIMM_CHECK_PARAM(
            !(param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) ||
                    (param->memory_type <= UCS_MEMORY_TYPE_UNKNOWN),
            UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM), "there is no memory type %d",
            param->memory_type);
    if (UCP_DT_IS_CONTIG(datatype)) {
        length = ucp_contig_dt_length(datatype, count);
    } else if (UCP_DT_IS_IOV(datatype)) {
        UCP_WIMM_CHECK_PARAM((buffer != NULL) || (count == 0),
                             UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM),
                             "the buffer of a notified put is NULL");
        length = ucp_wimm_iov_length(buffer, count);
    } else {
        return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
    }

    mem_type = UCS_MEMORY_TYPE_HOST;
    if (length > 0) {
        if (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) {
            memh = param->memh;
        }

        first    = UCP_DT_IS_IOV(datatype) ? ucp_wimm_iov_first(buffer) : NULL;
        mem_type = ucp_request_get_memory_type(
                ep->worker->context, (first == NULL) ? buffer : first->buffer,
                (first == NULL) ? length : first->length, param);
        status = ucp_wimm_put_check(ep, buffer, length, datatype, mem_type,
                                    rkey, memh);
        if (status != UCS_OK) {
            return UCS_STATUS_PTR(status);
        }
    }

    lane = ucp_wimm_ep_put_lane(wimm->native, ep);
    if ((lane == UCP_NULL_LANE) && !wimm->emul.is_on) {
        return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
    }

    req = ucp_request_get_param(ep->worker, param,
                                { return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY); });

    ++wimm->stats.puts;
    ++wimm->stats.requests;
    ucp_wimm_req_init(req, wimm, ep, buffer, length, datatype, count, mem_type);
    req->send.lane = lane;

    put              = ucp_wimm_req_put(req);
    put->remote_addr = remote_addr;
    put->rkey        = rkey;
    put->memh        = UCP_DT_IS_CONTIG(datatype) ? memh : NULL;
    put->imm         = imm;

    uct_ep = (lane == UCP_NULL_LANE) ? NULL : ucp_wimm_ep_uct_ep(ep, lane);
    if (((uct_ep == NULL) ||
         ucp_wimm_path_is_connected(ucp_wimm_ep_path(wimm->native, ep),
                                    uct_ep)) &&
        ucp_wimm_wireup_defer(&wimm->native->wireup, ep, &req->send.uct)) {
        ucp_worker_flush_ops_count_inc(ep->worker);
    } else {
        ucp_request_send(req);
    }

    return ucp_wimm_req_return(req, param);
}

/* Data of a put that is posted at once */
typedef struct ucp_wimm_plain {
    const void *buffer;
    size_t length;
} ucp_wimm_plain_t;

static size_t ucp_wimm_plain_pack(void *dest, void *arg)
{
    const ucp_wimm_plain_t *plain = arg;

    memcpy(dest, plain->buffer, plain->length);
    return plain->length;
}

static UCS_F_NOINLINE ucs_status_t
ucp_wimm_put_fast_bcopy(uct_ep_h uct_ep, const void *buffer, size_t length,
                        uint64_t remote_addr, uct_rkey_t tl_rkey, uint32_t imm)
{
    ucp_wimm_plain_t plain = { .buffer = buffer, .length = length };
    ssize_t packed;

    packed = uct_wimm_ep_put_imm_bcopy(uct_ep, ucp_wimm_plain_pack, &plain,
                                       remote_addr, tl_rkey, imm);
    return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
}

/* What can be posted at once, and completes with that.
 * @return UCS_ERR_NO_RESOURCE: it is not of this kind. */
static UCS_F_ALWAYS_INLINE ucs_status_t
ucp_wimm_put_fast(ucp_wimm_h wimm, ucp_ep_h ep, const void *buffer,
                  size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                  uint32_t imm, const ucp_request_param_t *param)
{
    ucp_wimm_native_t *native = wimm->native;
    uct_rkey_t tl_rkey        = UCT_INVALID_RKEY;
    const ucp_wimm_path_t *path;
    ucs_status_t status;
    uct_ep_h uct_ep;
    size_t max;

    if (ucs_unlikely((param->op_attr_mask & (UCP_OP_ATTR_FIELD_DATATYPE |
                                             UCP_OP_ATTR_FIELD_MEMORY_TYPE |
                                             UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) ||
                     !ucp_wimm_wireup_is_empty(&native->wireup))) {
        return UCS_ERR_NO_RESOURCE;
    }

    path = ucp_wimm_ep_path(native, ep);
    if (ucs_unlikely(path->lane == UCP_NULL_LANE)) {
        return UCS_ERR_NO_RESOURCE;
    }

    uct_ep = ucp_wimm_ep_uct_ep(ep, path->lane);
    if (ucs_unlikely(!ucp_wimm_path_is_connected(path, uct_ep))) {
        return UCS_ERR_NO_RESOURCE;
    }

    if (count > 0) {
        max = path->max_copy;
        if (param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH) {
            max = path->max_copy_memh;
            if (ucs_unlikely(!ucp_wimm_memh_is_for(param->memh, buffer, count,
                                                   UCS_MEMORY_TYPE_HOST))) {
                return UCS_ERR_NO_RESOURCE;
            }
        }

        /* For what is wrong the other way finds the words */
        if (ucs_unlikely((count > max) || (buffer == NULL) || (rkey == NULL) ||
                         !ucp_wimm_rkey_is_of(rkey, ep) || !path->can_copy)) {
            return UCS_ERR_NO_RESOURCE;
        }

        status = ucp_wimm_path_tl_rkey(path, ep, rkey, &tl_rkey);
        if (ucs_unlikely(status != UCS_OK)) {
            return status;
        }

        if (count > path->max_short) {
            return ucp_wimm_put_fast_bcopy(uct_ep, buffer, count, remote_addr,
                                           tl_rkey, imm);
        }
    }

    return uct_wimm_ep_put_imm_short(uct_ep, buffer, count, remote_addr,
                                     tl_rkey, imm);
}

ucs_status_ptr_t ucp_wimm_native_put(ucp_wimm_h wimm, ucp_ep_h ep,
                                     const void *buffer, size_t count,
                                     uint64_t remote_addr, ucp_rkey_h rkey,
                                     uint32_t imm,
                                     const ucp_request_param_t *param)
{
    ucs_status_ptr_t ret;
    ucs_status_t status;

    UCP_WIMM_CHECK_PARAM(ep->worker == wimm->worker,
                         UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM),
                         "the endpoint %p is of another worker", ep);

    UCP_WORKER_THREAD_CS_ENTER_CONDITIONAL(wimm->worker);
    status = ucp_wimm_put_fast(wimm, ep, buffer, count, remote_addr, rkey, imm,
                               param);
    if (ucs_likely(status != UCS_ERR_NO_RESOURCE)) {
        wimm->stats.puts += (status == UCS_OK);
        ret = UCS_STATUS_PTR(status);
    } else {
        ret = ucp_wimm_put_request(wimm, ep, buffer, count, remote_addr, rkey,
                                   imm, param);
    }
    UCP_WORKER_THREAD_CS_EXIT_CONDITIONAL(wimm->worker);
    return ret;
}

/* Issue a put that was deferred while UCP replayed its queue */
static void ucp_wimm_put_issue(uct_pending_req_t *self)
{
    ucp_request_t *req = ucs_container_of(self, ucp_request_t, send.uct);

    ucp_worker_flush_ops_count_dec(req->send.ep->worker);
    ucp_request_send(req);
}


/*
 * Requests that go another way
 */

static ucp_request_t *ucp_wimm_op_req(uct_pending_req_t *op)
{
    return ucs_container_of(op, ucp_request_t, send.uct);
}

uct_pending_req_t *ucp_wimm_native_op_create(ucp_wimm_h wimm, ucp_ep_h ep,
                                             const ucp_request_param_t *param)
{
    ucp_request_t *req = ucp_request_get_param(ep->worker, param,
                                               { return NULL; });

    ucp_wimm_req_init(req, wimm, ep, NULL, 0, ucp_dt_make_contig(1), 0,
                      UCS_MEMORY_TYPE_HOST);
    return &req->send.uct;
}

ucs_status_ptr_t ucp_wimm_native_op_return(uct_pending_req_t *op,
                                           const ucp_request_param_t *param)
{
    return ucp_wimm_req_return(ucp_wimm_op_req(op), param);
}

void ucp_wimm_native_op_get(uct_pending_req_t *op, uint32_t *imm_p,
                            size_t *length_p)
{
    ucp_request_t *req = ucp_wimm_op_req(op);

    *imm_p    = ucp_wimm_req_put(req)->imm;
    *length_p = req->send.length;
}

int ucp_wimm_native_op_is_by_am(uct_pending_req_t *op)
{
    ucp_request_t *req = ucp_wimm_op_req(op);

    return !ucp_wimm_ep_has_puts(req->send.ep) &&
           UCP_MEM_IS_HOST(req->send.mem_type);
}

int ucp_wimm_native_op_pull(uct_pending_req_t *op, size_t max,
                            const void **ptr_p, size_t *length_p,
                            uint64_t *remote_addr_p)
{
    ucp_request_t *req       = ucp_wimm_op_req(op);
    const ucp_dt_state_t *dt = &req->send.state.dt;
    uct_iov_t iov            = { .buffer = NULL };
    size_t index;

    *remote_addr_p = ucp_wimm_req_put(req)->remote_addr + dt->offset;
    if (UCP_DT_IS_CONTIG(req->send.datatype)) {
        iov.buffer = UCS_PTR_BYTE_OFFSET(req->send.buffer, dt->offset);
        *length_p  = ucs_min(req->send.length - dt->offset, max);
    } else {
        ucp_wimm_iov_fill(req->send.buffer, dt->dt.iov.iovcnt,
                          dt->dt.iov.iovcnt_offset, dt->dt.iov.iov_offset, &iov,
                          &index, 1, max, length_p);
    }

    *ptr_p = iov.buffer;
    ucp_wimm_put_advance(req, *length_p);
    return dt->offset == req->send.length;
}

size_t ucp_wimm_native_op_num_puts(uct_pending_req_t *op)
{
    ucp_request_t *req = ucp_wimm_op_req(op);

    if (req->send.length == 0) {
        return 0;
    }

    return UCP_DT_IS_IOV(req->send.datatype) ?
                   req->send.state.dt.dt.iov.iovcnt :
                   1;
}

ucs_status_ptr_t ucp_wimm_native_op_put(uct_pending_req_t *op, size_t index,
                                        ucp_send_nbx_callback_t cb)
{
    ucp_request_t *req        = ucp_wimm_op_req(op);
    ucp_wimm_put_t *put       = ucp_wimm_req_put(req);
    const void *buffer        = req->send.buffer;
    const ucp_dt_iov_t *iov   = req->send.buffer;
    size_t length             = req->send.length;
    uint64_t remote_addr      = put->remote_addr;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                  .cb.send     = cb,
                                  .user_data   = op,
                                  .memory_type = req->send.mem_type };

    if (UCP_DT_IS_IOV(req->send.datatype)) {
        buffer = iov[index].buffer;
        length = iov[index].length;
        remote_addr += ucp_wimm_iov_length(iov, index);
    } else if (put->memh != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = put->memh;
    }

    return ucp_put_nbx(req->send.ep, buffer, length, remote_addr, put->rkey,
                       &param);
}

void ucp_wimm_native_op_complete(uct_pending_req_t *op, ucs_status_t status)
{
    ucp_request_t *req = ucp_wimm_op_req(op);
    ucp_wimm_h wimm    = ucp_wimm_req_put(req)->wimm;

    /* Nothing was registered for it, and its endpoint may be gone */
    ucp_request_complete_send(req, status);
    ucp_wimm_put_ref(wimm);
}


/*
 * Worker and endpoints, for the other files
 */

void ucp_wimm_native_enter(ucp_worker_h worker)
{
    UCP_WORKER_THREAD_CS_ENTER_CONDITIONAL(worker);
}

void ucp_wimm_native_leave(ucp_worker_h worker)
{
    UCP_WORKER_THREAD_CS_EXIT_CONDITIONAL(worker);
}

int ucp_wimm_native_in_progress(ucp_worker_h worker)
{
    return worker->inprogress != 0;
}

size_t ucp_wimm_native_request_size(void)
{
    return sizeof(ucp_request_t);
}

ucp_context_h ucp_wimm_native_context(ucp_worker_h worker)
{
    return worker->context;
}

int ucp_wimm_native_has_am(ucp_worker_h worker)
{
    return !!(worker->context->config.features & UCP_FEATURE_AM);
}

int ucp_wimm_native_has_am_handler(ucp_worker_h worker, unsigned id)
{
    return ucp_wimm_worker_has_am_handler(worker, id);
}

ucs_status_t ucp_wimm_native_read_config(void *config,
                                         ucs_config_field_t *table)
{
    return ucp_wimm_read_config(config, table);
}

int ucp_wimm_native_ep_is_emulated(ucp_wimm_h wimm, ucp_ep_h ep)
{
    return (ep->cfg_index != UCP_WORKER_CFG_INDEX_NULL) &&
           !(ep->flags & (UCP_EP_FLAG_CLOSED | UCP_EP_FLAG_FAILED |
                          UCP_EP_FLAG_INTERNAL)) &&
           (ucp_wimm_ep_put_lane(wimm->native, ep) == UCP_NULL_LANE);
}

int ucp_wimm_native_ep_has_puts(ucp_ep_h ep)
{
    return (ep->cfg_index != UCP_WORKER_CFG_INDEX_NULL) &&
           ucp_wimm_ep_has_puts(ep);
}

size_t ucp_wimm_native_ep_max_am(ucp_ep_h ep)
{
    const uct_iface_attr_t *attr = ucp_ep_get_iface_attr(ep, ucp_ep_get_am_lane(
                                                                     ep));

    return ucs_max(attr->cap.am.max_bcopy, attr->cap.am.max_zcopy);
}

int ucp_wimm_native_ep_is_queueing(ucp_wimm_h wimm, ucp_ep_h ep)
{
    return (ep->cfg_index != UCP_WORKER_CFG_INDEX_NULL) &&
           (ucp_wimm_ep_lane(wimm->native, ep) == UCP_NULL_LANE) &&
           (ucp_wimm_ep_is_placeholder(ep) ||
            ucp_wimm_wireup_is_of(&wimm->native->wireup, ep));
}

int ucp_wimm_native_has_rma(ucp_worker_h worker)
{
    return !!(worker->context->config.features & UCP_FEATURE_RMA);
}

void ucp_wimm_native_add_progress(ucp_worker_h worker, ucs_callback_t cb,
                                  void *arg, uct_worker_cb_id_t *id_p)
{
    *id_p = UCS_CALLBACKQ_ID_NULL;
    uct_worker_progress_register_safe(worker->uct, cb, arg,
                                      UCS_CALLBACKQ_FLAG_FAST, id_p);
}

void ucp_wimm_native_remove_progress(ucp_worker_h worker,
                                     uct_worker_cb_id_t *id_p)
{
    if (worker->inprogress) {
        uct_worker_progress_unregister_safe(worker->uct, id_p);
    } else if (*id_p != UCS_CALLBACKQ_ID_NULL) {
        /* Not as UCT does, which may call it once more */
        UCS_ASYNC_BLOCK(&worker->async);
        ucs_callbackq_remove(&worker->uct->progress_q, *id_p);
        UCS_ASYNC_UNBLOCK(&worker->async);
    }

    *id_p = UCS_CALLBACKQ_ID_NULL;
}

uint64_t ucp_wimm_native_worker_id(ucp_worker_h worker)
{
    return worker->uuid;
}

uint64_t ucp_wimm_native_ep_events(ucp_worker_h worker)
{
    return ucp_wimm_worker_ep_events(worker);
}

int ucp_wimm_native_ep_is_of(ucp_worker_h worker, ucp_ep_h ep)
{
    return ep->worker == worker;
}

int ucp_wimm_native_ep_is_open(ucp_ep_h ep)
{
    return (ep->flags & (UCP_EP_FLAG_USED | UCP_EP_FLAG_CLOSED)) ==
           UCP_EP_FLAG_USED;
}

int ucp_wimm_native_ep_is_closed(ucp_ep_h ep)
{
    return !!(ep->flags & UCP_EP_FLAG_CLOSED);
}

int ucp_wimm_native_ep_is_failed(ucp_ep_h ep)
{
    return (ep->flags & UCP_EP_FLAG_FAILED) &&
           (ucp_wimm_native_ep_is_open(ep) ||
            (ep->flags & UCP_EP_FLAG_ERR_HANDLER_INVOKED));
}

void ucp_wimm_native_ep_mark(ucp_ep_h ep)
{
    /* UCX's thread sets other flags */
    UCS_ASYNC_BLOCK(&ep->worker->async);
    ep->flags |= UCP_WIMM_EP_FLAG_MARK;
    UCS_ASYNC_UNBLOCK(&ep->worker->async);
}

int ucp_wimm_native_ep_is_marked(ucp_ep_h ep)
{
    return !!(ep->flags & UCP_WIMM_EP_FLAG_MARK);
}

ucs_status_t ucp_wimm_native_purge_status(uct_pending_purge_callback_t cb,
                                          void *arg)
{
    return ucp_wimm_purge_status(cb, arg);
}

void ucp_wimm_native_for_each_ep(ucp_worker_h worker,
                                 void (*cb)(ucp_ep_h ep, void *arg), void *arg)
{
    ucs_list_link_t *lists[] = { &worker->all_eps, &worker->internal_eps };
    ucp_wimm_ep_ext_t *ext;
    ucp_ep_h ep;
    unsigned i;

    /* UCX's thread may add endpoints meanwhile */
    UCS_ASYNC_BLOCK(&worker->async);
    for (i = 0; i < ucs_static_array_size(lists); ++i) {
        ucp_wimm_for_each_ep(ep, ext, lists[i])
        {
            cb(ep, arg);
        }
    }
    UCS_ASYNC_UNBLOCK(&worker->async);
}

typedef struct ucp_wimm_find_ep_arg {
    uct_ep_h uct_ep;
    ucp_ep_h found;
} ucp_wimm_find_ep_arg_t;

static void ucp_wimm_find_ep_cb(ucp_ep_h ep, void *arg)
{
    ucp_wimm_find_ep_arg_t *find = arg;

    if ((find->found == NULL) && (ep->cfg_index != UCP_WORKER_CFG_INDEX_NULL) &&
        (ucp_ep_lookup_lane(ep, find->uct_ep) != UCP_NULL_LANE)) {
        find->found = ep;
    }
}

ucp_ep_h ucp_wimm_native_find_ep(ucp_worker_h worker, uct_ep_h uct_ep)
{
    ucp_wimm_find_ep_arg_t arg = { .uct_ep = uct_ep, .found = NULL };

    ucp_wimm_native_for_each_ep(worker, ucp_wimm_find_ep_cb, &arg);
    return arg.found;
}

void ucp_wimm_native_for_each_iface(ucp_worker_h worker,
                                    void (*cb)(uct_iface_h iface, void *arg),
                                    void *arg)
{
    ucp_worker_iface_t *wiface;
    unsigned i;

    for (i = 0; i < worker->num_ifaces; ++i) {
        wiface = worker->ifaces[i];
        if ((wiface != NULL) && (wiface->iface != NULL) &&
            ucp_wimm_rsc_is_wimm(worker, wiface->rsc_index)) {
            cb(wiface->iface, arg);
        }
    }
}

ucs_status_t ucp_wimm_native_init(ucp_wimm_h wimm)
{
    ucp_wimm_native_t *native = ucs_calloc(1, sizeof(*native),
                                           "ucp_wimm_native");

    if (native == NULL) {
        ucs_error("failed to allocate memory to attach to a worker");
        return UCS_ERR_NO_MEMORY;
    }

    ucp_wimm_wireup_init(&native->wireup, ucp_wimm_put_issue);
    wimm->native = native;
    return UCS_OK;
}

void ucp_wimm_native_cleanup(ucp_wimm_h wimm)
{
    ucp_wimm_wireup_cleanup(&wimm->native->wireup);
    ucs_free(wimm->native);
    wimm->native = NULL;
}

void ucp_wimm_native_ep_info(ucp_wimm_h wimm, ucp_ep_h ep,
                             ucp_wimm_ep_info_t *info)
{
    ucp_lane_index_t lane;
    uct_ep_h uct_ep;

    memset(info, 0, sizeof(*info));

    /* UCX's thread may add lanes meanwhile */
    UCS_ASYNC_BLOCK(&ep->worker->async);
    lane = ucp_wimm_ep_lane(wimm->native, ep);
    if (lane == UCP_NULL_LANE) {
        info->is_placeholder = ucp_wimm_ep_is_placeholder(ep);
    } else {
        info->has_lane     = 1;
        info->puts_covered = ucp_wimm_ep_puts_ride_on(ep, lane);
        uct_ep             = ucp_wimm_ep_uct_ep(ep, lane);
        if (ucp_wimm_path_is_connected(ucp_wimm_ep_path(wimm->native, ep),
                                       uct_ep)) {
            info->uct_ep = uct_ep;
        }
    }
    UCS_ASYNC_UNBLOCK(&ep->worker->async);
}
