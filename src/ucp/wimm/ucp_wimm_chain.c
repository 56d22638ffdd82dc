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

#include <ucs/sys/math.h>
#include <ucs/time/time.h>


/* An operation, in the private part of its request */
typedef struct ucp_wimm_chain_priv {
    ucs_queue_elem_t queue;
    ucp_wimm_emul_t *emul;
    uint32_t num_puts; /* Puts, or messages with data, that have not completed */
    int8_t status;     /* Of the first that failed: those of UCX fit */
    uint8_t kind;      /* ucp_wimm_chain_kind_t */
    uint8_t is_by_am;  /* Our messages carry the data */
} ucp_wimm_chain_priv_t;

_Static_assert(sizeof(ucp_wimm_chain_priv_t) <= UCT_PENDING_REQ_PRIV_LEN,
               "too large for the private part of a request");
_Static_assert(UCS_ERR_LAST >= INT8_MIN, "a status does not fit");


static ucp_wimm_chain_priv_t *ucp_wimm_chain_priv(uct_pending_req_t *op)
{
    return (ucp_wimm_chain_priv_t *)op->priv;
}

static uct_pending_req_t *ucp_wimm_chain_op(ucp_wimm_chain_priv_t *priv)
{
    return ucs_container_of((char *)priv, uct_pending_req_t, priv);
}

static ucp_wimm_chain_priv_t *ucp_wimm_chain_head(ucs_queue_head_t *queue)
{
    return ucs_queue_is_empty(queue) ?
                   NULL :
                   ucs_queue_head_elem_non_empty(queue, ucp_wimm_chain_priv_t,
                                                 queue);
}

static void ucp_wimm_chain_set_status(ucp_wimm_chain_priv_t *priv,
                                      ucs_status_t status)
{
    ucp_wimm_emul_check_status(priv->emul, status);
    if ((status != UCS_OK) && (priv->status == UCS_OK)) {
        priv->status = status;
    }
}

static void ucp_wimm_chain_complete(ucp_wimm_emul_t *emul,
                                    uct_pending_req_t *op, ucs_status_t status)
{
    ucp_wimm_native_op_complete(op, status);
    ucp_wimm_peer_put(&emul->super);
}


/*
 * The last step of an operation
 */

static void ucp_wimm_chain_end_cb(void *request, ucs_status_t status,
                                  void *user_data)
{
    uct_pending_req_t *op = user_data;
    ucp_wimm_emul_t *emul = ucp_wimm_chain_priv(op)->emul;

    ucp_wimm_emul_check_status(emul, status);
    ucp_request_free(request);
    ucp_wimm_chain_complete(emul, op, status);
}

/* UCP still has the program's endpoint after a failure: close it nevertheless */
static void ucp_wimm_chain_close_failed(ucp_wimm_emul_t *emul,
                                        uct_pending_req_t *op)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FIELD_FLAGS,
                                  .flags     = UCP_EP_CLOSE_FLAG_FORCE,
                                  .cb.send   = ucp_wimm_chain_end_cb,
                                  .user_data = op };
    ucs_status_ptr_t ptr;

    ptr = ucp_ep_close_nbx(emul->ucp_ep, &param);
    if (UCS_PTR_STATUS(ptr) == UCS_ERR_INVALID_PARAM) {
        /* Without error handling UCX wants it that way */
        param.flags = 0;
        ptr         = ucp_ep_close_nbx(emul->ucp_ep, &param);
    }

    if (!UCS_PTR_IS_PTR(ptr)) {
        ucp_wimm_chain_complete(emul, op, UCS_PTR_STATUS(ptr));
    }
}

/* The endpoint failed or is gone, or the operation cannot be done */
static void ucp_wimm_chain_abandon(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                                   ucs_status_t status)
{
    if ((ucp_wimm_chain_priv(op)->kind == UCP_WIMM_CHAIN_CLOSE) &&
        (ucp_wimm_ep_handle(emul->super.ep) != NULL)) {
        ucp_wimm_chain_close_failed(emul, op);
    } else {
        ucp_wimm_chain_complete(emul, op, status);
    }
}

/* Flush or close: all before it is done */
static void ucp_wimm_chain_end(ucp_wimm_emul_t *emul, uct_pending_req_t *op)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.send   = ucp_wimm_chain_end_cb,
                                  .user_data = op };
    ucs_status_ptr_t ptr;

    if (ucp_wimm_chain_priv(op)->kind == UCP_WIMM_CHAIN_CLOSE) {
        if (emul->flags & UCP_WIMM_EMUL_FLAG_KNOWN) {
            ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_BYE, 0);
        }

        ptr = ucp_ep_close_nbx(emul->ucp_ep, &param);
    } else {
        ptr = ucp_ep_flush_nbx(emul->ucp_ep, &param);
    }

    if (!UCS_PTR_IS_PTR(ptr)) {
        ucp_wimm_chain_complete(emul, op, UCS_PTR_STATUS(ptr));
    }
}


/* Take the first of those that were issued */
static void ucp_wimm_chain_pull_issued(ucp_wimm_emul_t *emul)
{
    ucs_queue_pull_non_empty(&emul->issued);
    emul->num_flushed -= ucs_min(emul->num_flushed, 1);
    emul->num_flushing -= ucs_min(emul->num_flushing, 1);
}

/* It has failed, and the peer is not told */
static void ucp_wimm_chain_fail(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                                ucs_status_t status)
{
    ++emul->slots;
    ucp_wimm_chain_complete(emul, op, status);
}

/* All that was put before is in place: tell the peer, or send it the data first */
static void ucp_wimm_chain_notify(ucp_wimm_emul_t *emul,
                                  ucp_wimm_chain_priv_t *priv)
{
    uct_pending_req_t *op     = ucp_wimm_chain_op(priv);
    ucp_wimm_emul_data_t data = { .op_code = UCP_WIMM_EMUL_NOTIFY };
    ucs_status_t status;

    ucp_wimm_native_op_get(op, &data.imm, &data.total);
    if (priv->is_by_am) {
        emul->flags |= UCP_WIMM_EMUL_FLAG_DIRTY;
        if (!ucp_wimm_native_op_pull(op, UCP_WIMM_EMUL_MAX_DATA, &data.ptr,
                                     &data.length, &data.addr)) {
            data.op_code = UCP_WIMM_EMUL_DATA;
            ++priv->num_puts;
            status = ucp_wimm_emul_send_data(emul, &data, op);
            if (status != UCS_OK) {
                ucp_wimm_chain_sent(emul, op, data.op_code, status);
            }

            return;
        }
    }

    ucp_wimm_chain_pull_issued(emul);
    status = ucp_wimm_emul_send_data(emul, &data, op);
    if (status != UCS_OK) {
        ucp_wimm_chain_fail(emul, op, status);
    }
}

void ucp_wimm_chain_sent(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                         ucp_wimm_emul_op_t op_code, ucs_status_t status)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_priv(op);

    if (op_code == UCP_WIMM_EMUL_NOTIFY) {
        emul->slots += (status != UCS_OK);
        ucp_wimm_chain_complete(emul, op, status);
        return;
    }

    --priv->num_puts;
    ucp_wimm_chain_set_status(priv, status);
}

/* A close does not wait for ever */
static void ucp_wimm_chain_set_late(ucp_wimm_emul_t *emul, int is_late)
{
    int was_late = !!(emul->flags & UCP_WIMM_EMUL_FLAG_LATE);

    ucp_wimm_emul_add_todo(emul->super.wimm, is_late - was_late);
    if (is_late && !was_late) {
        emul->flags |= UCP_WIMM_EMUL_FLAG_LATE;
        emul->deadline = ucs_get_time() +
                         ucs_time_from_sec(UCP_WIMM_CHAIN_CLOSE_TIMEOUT);
    } else if (!is_late) {
        emul->flags &= ~UCP_WIMM_EMUL_FLAG_LATE;
    }
}

/* Ask the peer whether all that our messages carried is in place.
 * @return UCS_OK if it is, UCS_INPROGRESS if that is to be waited for, or why nobody will
 *         ever tell. */
static ucs_status_t ucp_wimm_chain_ask(ucp_wimm_emul_t *emul)
{
    const uint16_t unknown = UCP_WIMM_EMUL_FLAG_DIRTY |
                             UCP_WIMM_EMUL_FLAG_ASKED;
    ucs_status_t status;

    if (!ucp_wimm_emul_is_alive(emul)) {
        return emul->status;
    }

    if (emul->num_sending > 0) {
        return UCS_INPROGRESS;
    }

    if (emul->flags & UCP_WIMM_EMUL_FLAG_BYE) {
        status = (emul->flags & unknown) ? UCS_ERR_NOT_CONNECTED : UCS_OK;
        emul->flags &= ~unknown;
        return status;
    }

    if (emul->flags & UCP_WIMM_EMUL_FLAG_DIRTY) {
        emul->flags &= ~UCP_WIMM_EMUL_FLAG_DIRTY;
        emul->flags |= UCP_WIMM_EMUL_FLAG_ASKED;
        status = ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_FLUSH, 0);
        if (status != UCS_OK) {
            emul->flags |= UCP_WIMM_EMUL_FLAG_DIRTY;
            emul->flags &= ~UCP_WIMM_EMUL_FLAG_ASKED;
            return status;
        }
    }

    return (emul->flags & UCP_WIMM_EMUL_FLAG_ASKED) ? UCS_INPROGRESS : UCS_OK;
}

/* The first of those that were issued, if it can go on, or has failed.
 * @return Whether it can. */
static int ucp_wimm_chain_finish(ucp_wimm_emul_t *emul)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_head(&emul->issued);
    uct_pending_req_t *op;
    ucs_status_t status;

    if ((priv == NULL) || (priv->num_puts > 0)) {
        return 0;
    }

    op = ucp_wimm_chain_op(priv);
    if (priv->kind != UCP_WIMM_CHAIN_PUT) {
        status = ucp_wimm_chain_ask(emul);
        ucp_wimm_chain_set_late(emul, (status == UCS_INPROGRESS) &&
                                              (emul->flags &
                                               UCP_WIMM_EMUL_FLAG_CLOSE));
        if (status == UCS_INPROGRESS) {
            return 0;
        }

        ucp_wimm_chain_pull_issued(emul);
        if ((status == UCS_OK) || ((status == UCS_ERR_NOT_CONNECTED) &&
                                   (priv->kind == UCP_WIMM_CHAIN_CLOSE) &&
                                   ucp_wimm_emul_is_alive(emul))) {
            ucp_wimm_chain_end(emul, op);
        } else {
            ucp_wimm_chain_abandon(emul, op, status);
        }

        return 1;
    }

    status = priv->status;
    if ((status == UCS_OK) && !ucp_wimm_emul_is_alive(emul)) {
        status = emul->status;
    } else if ((status == UCS_OK) && (emul->flags & UCP_WIMM_EMUL_FLAG_BYE)) {
        status = UCS_ERR_NOT_CONNECTED;
    }

    if ((status == UCS_OK) &&
        ((emul->num_flushed == 0) || (emul->num_sending > 0))) {
        return 0;
    }

    if (status == UCS_OK) {
        ucp_wimm_chain_notify(emul, priv);
    } else {
        ucp_wimm_chain_pull_issued(emul);
        ucp_wimm_chain_fail(emul, op, status);
    }

    return 1;
}


/*
 * The steps before it: put, and flush
 */

static void ucp_wimm_chain_put_cb(void *request, ucs_status_t status,
                                  void *user_data)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_priv(user_data);
    ucp_wimm_emul_t *emul       = priv->emul;

    --priv->num_puts;
    ucp_wimm_chain_set_status(priv, status);
    ucp_request_free(request);
    ucp_wimm_chain_go(emul);
}

/* The first of those that wait */
static void ucp_wimm_chain_issue(ucp_wimm_emul_t *emul,
                                 ucp_wimm_chain_priv_t *priv)
{
    uct_pending_req_t *op = ucp_wimm_chain_op(priv);
    ucs_status_ptr_t ptr;
    size_t count, i;

    ucs_queue_pull_non_empty(&emul->waiting);
    ucs_queue_push(&emul->issued, &priv->queue);
    if (priv->kind != UCP_WIMM_CHAIN_PUT) {
        return;
    }

    --emul->slots;
    priv->is_by_am = ucp_wimm_native_op_is_by_am(op);
    count          = priv->is_by_am ? 0 : ucp_wimm_native_op_num_puts(op);
    priv->num_puts = count;
    for (i = 0; i < count; ++i) {
        ptr = ucp_wimm_native_op_put(op, i, ucp_wimm_chain_put_cb);
        if (!UCS_PTR_IS_PTR(ptr)) {
            --priv->num_puts;
            if ((ptr != NULL) && (priv->status == UCS_OK)) {
                /* The endpoint need not have failed */
                priv->status = UCS_PTR_STATUS(ptr);
            }
        }
    }
}

static void ucp_wimm_chain_flushed(ucp_wimm_emul_t *emul, ucs_status_t status)
{
    unsigned left = emul->num_flushing;
    ucp_wimm_chain_priv_t *priv;

    emul->flags &= ~UCP_WIMM_EMUL_FLAG_FLUSHING;
    emul->num_flushing = 0;
    ucp_wimm_emul_check_status(emul, status);
    if (status == UCS_OK) {
        emul->num_flushed = left;
        return;
    }

    /* Nobody knows whether they are in place */
    ucs_queue_for_each(priv, &emul->issued, queue) {
        if (left-- == 0) {
            break;
        }

        ucp_wimm_chain_set_status(priv, status);
    }
}

static void ucp_wimm_chain_flush_cb(void *request, ucs_status_t status,
                                    void *user_data)
{
    ucp_wimm_emul_t *emul = user_data;

    ucp_wimm_chain_flushed(emul, status);
    ucp_request_free(request);
    ucp_wimm_chain_go(emul);
    ucp_wimm_peer_put(&emul->super);
}

/* Those whose puts UCX has sent: its flush may pass what waits for room.
 * @return Whether there are puts that no flush has covered. */
static int ucp_wimm_chain_may_flush(ucp_wimm_emul_t *emul, unsigned *count_p)
{
    unsigned count = 0;
    int is_needed  = 0;
    ucp_wimm_chain_priv_t *priv;

    ucs_queue_for_each(priv, &emul->issued, queue) {
        if (priv->num_puts > 0) {
            break;
        }

        is_needed |= (count >= emul->num_flushed) &&
                     (priv->kind == UCP_WIMM_CHAIN_PUT);
        ++count;
    }

    *count_p = count;
    return is_needed;
}

static void ucp_wimm_chain_flush(ucp_wimm_emul_t *emul, unsigned count)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.send   = ucp_wimm_chain_flush_cb,
                                  .user_data = emul };
    ucs_status_ptr_t ptr;

    emul->flags |= UCP_WIMM_EMUL_FLAG_FLUSHING;
    emul->num_flushing = count;
    ++emul->super.refcount;
    ptr = ucp_ep_flush_nbx(emul->ucp_ep, &param);
    if (!UCS_PTR_IS_PTR(ptr)) {
        ucp_wimm_chain_flushed(emul, UCS_PTR_STATUS(ptr));
        ucp_wimm_peer_put(&emul->super);
    }
}

/* The first of those that wait is not issued at all */
static void ucp_wimm_chain_drop(ucp_wimm_emul_t *emul,
                                ucp_wimm_chain_priv_t *priv,
                                ucs_status_t status)
{
    ucs_queue_pull_non_empty(&emul->waiting);
    ucp_wimm_chain_abandon(emul, ucp_wimm_chain_op(priv), status);
}

/* Ask once, or the put has failed: nobody might ask again.
 * @return Whether something changed: it may have been answered already. */
static int ucp_wimm_chain_probe(ucp_wimm_emul_t *emul,
                                ucp_wimm_chain_priv_t *priv)
{
    ucs_status_t status;

    if (emul->flags & UCP_WIMM_EMUL_FLAG_PROBED) {
        return 0;
    }

    emul->flags |= UCP_WIMM_EMUL_FLAG_PROBED;
    status = ucp_wimm_emul_send_first(emul, UCP_WIMM_EMUL_PROBE, 0);
    if (status != UCS_OK) {
        emul->flags &= ~UCP_WIMM_EMUL_FLAG_PROBED;
        ucp_wimm_chain_drop(emul, priv, status);
    }

    return 1;
}

/* With the first of those that wait. @return Whether something changed. */
static int ucp_wimm_chain_start(ucp_wimm_emul_t *emul)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_head(&emul->waiting);

    if (priv == NULL) {
        return 0;
    }

    if (!ucp_wimm_emul_is_alive(emul)) {
        ucp_wimm_chain_drop(emul, priv, emul->status);
        return 1;
    }

    if (priv->kind == UCP_WIMM_CHAIN_PUT) {
        if (emul->flags & UCP_WIMM_EMUL_FLAG_BYE) {
            ucp_wimm_chain_drop(emul, priv, UCS_ERR_NOT_CONNECTED);
            return 1;
        }

        if (!(emul->flags & UCP_WIMM_EMUL_FLAG_READY)) {
            return ucp_wimm_chain_probe(emul, priv);
        }

        if (emul->slots == 0) {
            return 0;
        }
    }

    ucp_wimm_chain_issue(emul, priv);
    return 1;
}

/* @return Whether something changed */
static int ucp_wimm_chain_step(ucp_wimm_emul_t *emul)
{
    unsigned count;

    if (ucp_wimm_chain_finish(emul) || ucp_wimm_chain_start(emul)) {
        return 1;
    }

    if (!(emul->flags & UCP_WIMM_EMUL_FLAG_FLUSHING) &&
        ucp_wimm_chain_may_flush(emul, &count) &&
        ucp_wimm_emul_is_alive(emul)) {
        ucp_wimm_chain_flush(emul, count);
        return 1;
    }

    return 0;
}

void ucp_wimm_chain_go(ucp_wimm_emul_t *emul)
{
    if (emul->flags & UCP_WIMM_EMUL_FLAG_BUSY) {
        return; /* Whoever is, sees what came */
    }

    ++emul->super.refcount;
    emul->flags |= UCP_WIMM_EMUL_FLAG_BUSY;
    while (ucp_wimm_chain_step(emul)) {
    }
    emul->flags &= ~UCP_WIMM_EMUL_FLAG_BUSY;
    ucp_wimm_peer_put(&emul->super);
}

void ucp_wimm_chain_close_now(ucp_wimm_emul_t *emul)
{
    emul->flags |= UCP_WIMM_EMUL_FLAG_BYE;
    ucp_wimm_chain_set_late(emul, 0);
    ucp_wimm_chain_go(emul);
}

void ucp_wimm_chain_init(ucp_wimm_emul_t *emul)
{
    ucs_queue_head_init(&emul->held);
    ucs_queue_head_init(&emul->waiting);
    ucs_queue_head_init(&emul->issued);
    emul->num_sending  = 0;
    emul->num_flushing = 0;
    emul->num_flushed  = 0;
}

void ucp_wimm_chain_push(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                         ucp_wimm_chain_kind_t kind)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_priv(op);
    ucp_wimm_h wimm             = emul->super.wimm;

    ++emul->super.refcount;
    priv->emul     = emul;
    priv->kind     = kind;
    priv->num_puts = 0;
    priv->is_by_am = 0;
    priv->status   = UCS_OK;
    if (kind == UCP_WIMM_CHAIN_CLOSE) {
        emul->flags |= UCP_WIMM_EMUL_FLAG_CLOSE;
    }

    if ((kind != UCP_WIMM_CHAIN_PUT) &&
        ucp_wimm_native_ep_is_queueing(wimm, emul->ucp_ep)) {
        ucp_wimm_emul_add_todo(wimm, 1);
        ucs_queue_push(&emul->held, &priv->queue);
    } else {
        ucs_queue_push(&emul->waiting, &priv->queue);
    }
}

void ucp_wimm_chain_release(ucp_wimm_emul_t *emul)
{
    ucp_wimm_chain_priv_t *priv;

    while ((priv = ucp_wimm_chain_head(&emul->held)) != NULL) {
        ucs_queue_pull_non_empty(&emul->held);
        ucs_queue_push(&emul->waiting, &priv->queue);
        --emul->super.wimm->emul.num_todo;
    }
}

void ucp_wimm_chain_forget(ucp_wimm_emul_t *emul)
{
    ucs_queue_head_init(&emul->held);
    ucs_queue_head_init(&emul->waiting);
    ucs_queue_head_init(&emul->issued);
}

/* Whether an endpoint has something that UCP's own flush does not cover, or a peer that
 * is to be told of a close */
static int ucp_wimm_emul_is_busy(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                                 ucp_wimm_chain_kind_t kind)
{
    ucp_wimm_ep_t *ep = ucp_wimm_ep_get(wimm, ucp_ep);
    int is_busy       = 0;

    if (ep != NULL) {
        is_busy = (ep->emul != NULL) &&
                  (!ucp_wimm_chain_is_done(ep->emul) ||
                   ((kind == UCP_WIMM_CHAIN_CLOSE) &&
                    (ep->emul->flags & UCP_WIMM_EMUL_FLAG_KNOWN)));
        ucp_wimm_ep_put(ep);
    }

    return is_busy || ucp_wimm_native_ep_is_queueing(wimm, ucp_ep);
}

int ucp_wimm_emul_barrier(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                          ucp_wimm_chain_kind_t kind,
                          const ucp_request_param_t *param,
                          ucs_status_ptr_t *ptr_p)
{
    ucp_wimm_emul_t *emul;
    uct_pending_req_t *op;

    if (!wimm->emul.is_on || !ucp_wimm_emul_is_busy(wimm, ucp_ep, kind) ||
        (ucp_wimm_emul_get(wimm, ucp_ep, &emul) != UCS_OK)) {
        return 0;
    }

    op = ucp_wimm_native_op_create(wimm, ucp_ep, param);
    if (op == NULL) {
        *ptr_p = UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
        return 1;
    }

    ucp_wimm_chain_push(emul, op, kind);
    ucp_wimm_chain_go(emul);
    *ptr_p = ucp_wimm_native_op_return(op, param);
    return 1;
}
