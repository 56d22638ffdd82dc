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


/* An operation, in the private part of its request */
typedef struct ucp_wimm_chain_priv {
    ucs_queue_elem_t queue;
    ucp_wimm_emul_t *emul;
    uint32_t num_puts; /* That have not completed */
    int8_t status;     /* Of the first that failed: those of UCX fit */
    uint8_t kind;      /* ucp_wimm_chain_kind_t */
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

void ucp_wimm_chain_complete(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                             ucs_status_t status)
{
    if (op != NULL) {
        --emul->super.wimm->emul.num_ops;
        ucp_wimm_native_op_complete(op, status);
        ucp_wimm_peer_put(&emul->super);
    }
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

/* Flush or close: all before it is done */
static void ucp_wimm_chain_end(ucp_wimm_emul_t *emul, uct_pending_req_t *op)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.send   = ucp_wimm_chain_end_cb,
                                  .user_data = op };
    ucs_status_ptr_t ptr;

    if (!ucp_wimm_emul_is_alive(emul)) {
        ptr = UCS_STATUS_PTR(emul->status);
    } else if (ucp_wimm_chain_priv(op)->kind == UCP_WIMM_CHAIN_CLOSE) {
        ptr = ucp_ep_close_nbx(emul->ucp_ep, &param);
    } else {
        ptr = ucp_ep_flush_nbx(emul->ucp_ep, &param);
    }

    if (!UCS_PTR_IS_PTR(ptr)) {
        ucp_wimm_chain_complete(emul, op, UCS_PTR_STATUS(ptr));
    }
}

/* The data is in place: tell the peer */
static void ucp_wimm_chain_notify(ucp_wimm_emul_t *emul, uct_pending_req_t *op)
{
    ucs_status_t status;
    size_t length;
    uint32_t imm;

    ucp_wimm_native_op_get(op, &imm, &length);
    status = ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_NOTIFY, imm, length, op);
    if (status != UCS_OK) {
        ++emul->slots;
        ucp_wimm_chain_complete(emul, op, status);
    }
}

/* Take the first of those that were issued */
static void ucp_wimm_chain_pull_issued(ucp_wimm_emul_t *emul)
{
    ucs_queue_pull_non_empty(&emul->issued);
    --emul->num_issued;
    emul->num_flushed -= ucs_min(emul->num_flushed, 1);
    emul->num_flushing -= ucs_min(emul->num_flushing, 1);
}

/* The first of those that were issued, if it is done or has failed.
 * @return Whether it was. */
static int ucp_wimm_chain_finish(ucp_wimm_emul_t *emul)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_head(&emul->issued);
    uct_pending_req_t *op;
    ucs_status_t status;

    if ((priv == NULL) || (priv->num_puts > 0)) {
        return 0;
    }

    op     = ucp_wimm_chain_op(priv);
    status = priv->status;
    if (priv->kind != UCP_WIMM_CHAIN_PUT) {
        ucp_wimm_chain_pull_issued(emul);
        ucp_wimm_chain_end(emul, op);
        return 1;
    }

    if ((status == UCS_OK) && !ucp_wimm_emul_is_alive(emul)) {
        status = emul->status;
    }

    if ((status == UCS_OK) && (emul->num_flushed == 0)) {
        return 0;
    }

    ucp_wimm_chain_pull_issued(emul);
    if (status == UCS_OK) {
        ucp_wimm_chain_notify(emul, op);
    } else {
        ++emul->slots;
        ucp_wimm_chain_complete(emul, op, status);
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
    ++emul->num_issued;
    if (priv->kind != UCP_WIMM_CHAIN_PUT) {
        return;
    }

    --emul->slots;
    count          = ucp_wimm_native_op_num_puts(op);
    priv->num_puts = count;
    for (i = 0; i < count; ++i) {
        ptr = ucp_wimm_native_op_put(op, i, ucp_wimm_chain_put_cb);
        if (!UCS_PTR_IS_PTR(ptr)) {
            --priv->num_puts;
            ucp_wimm_chain_set_status(priv, UCS_PTR_STATUS(ptr));
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

static void ucp_wimm_chain_flush(ucp_wimm_emul_t *emul)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.send   = ucp_wimm_chain_flush_cb,
                                  .user_data = emul };
    ucs_status_ptr_t ptr;

    emul->flags |= UCP_WIMM_EMUL_FLAG_FLUSHING;
    emul->num_flushing = emul->num_issued;
    ++emul->super.refcount;
    ptr = ucp_ep_flush_nbx(emul->ucp_ep, &param);
    if (!UCS_PTR_IS_PTR(ptr)) {
        ucp_wimm_chain_flushed(emul, UCS_PTR_STATUS(ptr));
        ucp_wimm_peer_put(&emul->super);
    }
}

/* Ask once. @return Whether something changed: it may have been answered already. */
static int ucp_wimm_chain_probe(ucp_wimm_emul_t *emul)
{
    if (emul->flags & UCP_WIMM_EMUL_FLAG_PROBED) {
        return 0;
    }

    emul->flags |= UCP_WIMM_EMUL_FLAG_PROBED;
    if (ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_PROBE, 0, 0, NULL) != UCS_OK) {
        emul->flags &= ~UCP_WIMM_EMUL_FLAG_PROBED;
        return 0;
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
        ucs_queue_pull_non_empty(&emul->waiting);
        ucp_wimm_chain_complete(emul, ucp_wimm_chain_op(priv), emul->status);
        return 1;
    }

    if (priv->kind == UCP_WIMM_CHAIN_PUT) {
        if (!(emul->flags & UCP_WIMM_EMUL_FLAG_READY)) {
            return ucp_wimm_chain_probe(emul);
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
    if (ucp_wimm_chain_finish(emul) || ucp_wimm_chain_start(emul)) {
        return 1;
    }

    if ((emul->num_issued > emul->num_flushed) &&
        !(emul->flags & UCP_WIMM_EMUL_FLAG_FLUSHING) &&
        ucp_wimm_emul_is_alive(emul)) {
        ucp_wimm_chain_flush(emul);
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

void ucp_wimm_chain_init(ucp_wimm_emul_t *emul)
{
    ucs_queue_head_init(&emul->held);
    ucs_queue_head_init(&emul->waiting);
    ucs_queue_head_init(&emul->issued);
    emul->num_issued   = 0;
    emul->num_flushing = 0;
    emul->num_flushed  = 0;
}

void ucp_wimm_chain_push(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                         ucp_wimm_chain_kind_t kind)
{
    ucp_wimm_chain_priv_t *priv = ucp_wimm_chain_priv(op);
    ucp_wimm_h wimm             = emul->super.wimm;

    ++emul->super.refcount;
    ++wimm->emul.num_ops;
    priv->emul     = emul;
    priv->kind     = kind;
    priv->num_puts = 0;
    priv->status   = UCS_OK;
    if ((kind != UCP_WIMM_CHAIN_PUT) &&
        ucp_wimm_native_ep_is_queueing(wimm, emul->ucp_ep)) {
        ++wimm->emul.num_todo;
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
