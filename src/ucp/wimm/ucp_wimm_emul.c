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

#include <ucs/arch/cpu.h>
#include <ucs/config/parser.h>
#include <ucs/datastruct/mpool.inl>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/time/time.h>
#include <arpa/inet.h>
#include <endian.h>
#include <limits.h>
#include <string.h>


/* As the transport allows */
#define UCP_WIMM_EMUL_MAX_SLOTS 8191


/* A message on its way, whose header UCP reads until it has completed. Or one that has
 * arrived and is kept. */
typedef struct ucp_wimm_emul_msg {
    ucp_wimm_emul_hdr_t hdr;
    ucp_wimm_emul_t *emul;
    void *filler; /* Data that says nothing */
    union {
        uct_pending_req_t *op; /* Completes with it; NULL for none */
        ucs_queue_elem_t queue;
    };
} ucp_wimm_emul_msg_t;

typedef struct ucp_wimm_emul_config {
    unsigned num_slots;
} ucp_wimm_emul_config_t;


/* The transport's key of this name means the same */
static ucs_config_field_t ucp_wimm_emul_config_table[] = {
    { "NUM_SLOTS", "512",
      "Notified puts of one peer that may have arrived here and not be\n"
      "consumed.",
      ucs_offsetof(ucp_wimm_emul_config_t, num_slots), UCS_CONFIG_TYPE_UINT },

    { .name = NULL }
};

static ucs_mpool_ops_t ucp_wimm_emul_mpool_ops = {
    .chunk_alloc   = ucs_mpool_chunk_malloc,
    .chunk_release = ucs_mpool_chunk_free,
    .obj_init      = NULL,
    .obj_cleanup   = NULL,
    .obj_str       = NULL
};


/*
 * Endpoints
 */

void ucp_wimm_emul_fail(ucp_wimm_emul_t *emul, ucs_status_t status)
{
    ucp_wimm_h wimm = emul->super.wimm;

    /* The endpoint's reference goes to the list of the dead */
    emul->super.ep->emul = NULL;
    emul->flags |= UCP_WIMM_EMUL_FLAG_DEAD;
    emul->status = status;
    ucs_list_del(&emul->list);
    ucs_list_add_tail(&wimm->emul.dead, &emul->list);
    ucp_wimm_emul_add_todo(wimm, 1);
}

/* Complete what has not been issued; what was is with UCP */
static void ucp_wimm_emul_bury(ucp_wimm_emul_t *emul)
{
    --emul->super.wimm->emul.num_todo;
    ucs_list_del(&emul->list);
    ucp_wimm_chain_release(emul);
    ucp_wimm_chain_go(emul);
    ucp_wimm_peer_put(&emul->super);
}

int ucp_wimm_emul_is_alive(ucp_wimm_emul_t *emul)
{
    /* A callback may have closed it just now */
    if (!(emul->flags & UCP_WIMM_EMUL_FLAG_DEAD)) {
        ucp_wimm_eps_check(emul->super.wimm, emul->super.ep);
    }

    return !(emul->flags & UCP_WIMM_EMUL_FLAG_DEAD);
}

void ucp_wimm_emul_check_status(ucp_wimm_emul_t *emul, ucs_status_t status)
{
    if ((status != UCS_OK) && (emul->error == UCS_OK)) {
        emul->error = status;
    }
}

static void ucp_wimm_emul_release(ucp_wimm_peer_t *super)
{
    ucp_wimm_ep_put(super->ep);
    ucs_free(ucs_container_of(super, ucp_wimm_emul_t, super));
}

static void ucp_wimm_emul_release_slot(ucp_wimm_peer_t *super)
{
    ucp_wimm_emul_t *emul = ucs_container_of(super, ucp_wimm_emul_t, super);
    unsigned count;

    /* By the quarter */
    count = ++emul->to_return;
    if ((count < ucs_max(super->wimm->emul.num_slots / 4, 1)) ||
        !ucp_wimm_emul_is_alive(emul)) {
        return;
    }

    /* Whoever takes them may send the next ones at once */
    emul->to_return = 0;
    if (ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_SLOTS, count) != UCS_OK) {
        emul->to_return += count;
    }
}

static ucp_wimm_emul_t *ucp_wimm_emul_create(ucp_wimm_h wimm, ucp_wimm_ep_t *ep)
{
    ucp_wimm_emul_t *emul = ucs_calloc(1, sizeof(*emul), "ucp_wimm_emul");

    if (emul == NULL) {
        return NULL;
    }

    ucp_wimm_peer_init(&emul->super, wimm, ep, ucp_wimm_emul_release_slot,
                       ucp_wimm_emul_release);
    emul->ucp_ep = ep->ep;
    emul->status = UCS_OK;
    emul->error  = UCS_OK;
    ucp_wimm_chain_init(emul);
    ucs_list_add_tail(&wimm->emul.list, &emul->list);
    ep->emul = emul;
    ++ep->refcount;
    return emul;
}

ucs_status_t ucp_wimm_emul_get(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                               ucp_wimm_emul_t **emul_p)
{
    ucp_wimm_ep_t *ep   = ucp_wimm_ep_get(wimm, ucp_ep);
    ucs_status_t status = UCS_ERR_NO_MEMORY;

    if (ep == NULL) {
        return status;
    }

    if (ep->status != UCS_OK) {
        status = ep->status;
    } else if ((ep->emul != NULL) || (ucp_wimm_emul_create(wimm, ep) != NULL)) {
        *emul_p = ep->emul;
        status  = UCS_OK;
    }

    ucp_wimm_ep_put(ep);
    return status;
}

void ucp_wimm_emul_query(ucp_wimm_h wimm, ucp_ep_h ucp_ep, unsigned *slots_p,
                         unsigned *num_slots_p)
{
    ucp_wimm_emul_t *emul;

    if (ucp_wimm_emul_get(wimm, ucp_ep, &emul) == UCS_OK) {
        *slots_p     = emul->slots;
        *num_slots_p = emul->num_slots;
    }
}


/*
 * Sending
 */

/* Whether a message is one of the chain's */
static int ucp_wimm_emul_is_ordered(ucp_wimm_emul_op_t op_code)
{
    return (op_code == UCP_WIMM_EMUL_NOTIFY) ||
           (op_code == UCP_WIMM_EMUL_DATA) || (op_code == UCP_WIMM_EMUL_FLUSH);
}

static void ucp_wimm_emul_msg_done(ucp_wimm_emul_msg_t *msg,
                                   ucs_status_t status)
{
    ucp_wimm_emul_t *emul      = msg->emul;
    uct_pending_req_t *op      = msg->op;
    ucp_wimm_h wimm            = emul->super.wimm;
    ucp_wimm_emul_op_t op_code = msg->hdr.op;

    ucp_wimm_emul_check_status(emul, status);
    ucs_free(msg->filler);
    ucs_mpool_put_inline(msg);
    if (op != NULL) {
        ucp_wimm_chain_sent(emul, op, op_code, status);
    }

    if (ucp_wimm_emul_is_ordered(op_code)) {
        --emul->num_sending;
        ucp_wimm_chain_go(emul);
    }

    ucp_wimm_peer_put(&emul->super);
    ucp_wimm_put_ref(wimm);
}

static void ucp_wimm_emul_msg_cb(void *request, ucs_status_t status,
                                 void *user_data)
{
    ucp_wimm_emul_msg_done(user_data, status);
    ucp_request_free(request);
}

/* It takes @a filler, also on an error */
static ucs_status_t ucp_wimm_emul_send_msg(ucp_wimm_emul_t *emul,
                                           const ucp_wimm_emul_data_t *data,
                                           void *filler, uct_pending_req_t *op)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FIELD_FLAGS,
                                  .flags = UCP_AM_SEND_FLAG_REPLY |
                                           UCP_AM_SEND_FLAG_EAGER,
                                  .cb.send = ucp_wimm_emul_msg_cb };
    ucp_wimm_h wimm           = emul->super.wimm;
    ucp_wimm_emul_msg_t *msg;
    ucs_status_ptr_t ptr;
    ucs_status_t status;

    msg = ucs_mpool_get_inline(&wimm->emul.mp);
    if (msg == NULL) {
        ucs_free(filler);
        return UCS_ERR_NO_MEMORY;
    }

    memset(&msg->hdr, 0, sizeof(msg->hdr));
    msg->hdr.op     = data->op_code;
    msg->hdr.flags  = wimm->emul.has_wimm ? UCP_WIMM_EMUL_HDR_FLAG_WIMM : 0;
    msg->hdr.imm    = htonl(data->imm);
    msg->hdr.length = htobe64(data->total);
    msg->hdr.addr   = htobe64(data->addr);
    msg->emul       = emul;
    msg->filler     = filler;
    msg->op         = op;
    ++emul->super.refcount;
    ++wimm->refcount;
    emul->num_sending += ucp_wimm_emul_is_ordered(data->op_code);

    param.user_data = msg;
    ptr             = ucp_am_send_nbx(emul->ucp_ep, wimm->emul.am_id, &msg->hdr,
                                      sizeof(msg->hdr), data->ptr, data->length, &param);
    if (UCS_PTR_IS_PTR(ptr)) {
        return UCS_OK;
    }

    status = UCS_PTR_STATUS(ptr);
    ucp_wimm_emul_msg_done(msg, status);
    return (op == NULL) ? status : UCS_OK; /* Otherwise the operation has it */
}

ucs_status_t ucp_wimm_emul_send_data(ucp_wimm_emul_t *emul,
                                     const ucp_wimm_emul_data_t *data,
                                     uct_pending_req_t *op)
{
    return ucp_wimm_emul_send_msg(emul, data, NULL, op);
}

ucs_status_t ucp_wimm_emul_send(ucp_wimm_emul_t *emul,
                                ucp_wimm_emul_op_t op_code, uint32_t imm)
{
    const ucp_wimm_emul_data_t data = { .op_code = op_code, .imm = imm };

    return ucp_wimm_emul_send_msg(emul, &data, NULL, NULL);
}

ucs_status_t ucp_wimm_emul_send_first(ucp_wimm_emul_t *emul,
                                      ucp_wimm_emul_op_t op_code, uint32_t imm)
{
    size_t length             = ucp_wimm_native_ep_max_am(emul->ucp_ep) + 1;
    void *filler              = ucs_calloc(1, length, "ucp_wimm_filler");
    ucp_wimm_emul_data_t data = { .op_code = op_code,
                                  .imm     = imm,
                                  .ptr     = filler,
                                  .length  = length };

    if (filler == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    return ucp_wimm_emul_send_msg(emul, &data, filler, NULL);
}

static void ucp_wimm_emul_answer(ucp_wimm_emul_t *emul)
{
    if (ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_HELLO,
                           emul->super.wimm->emul.num_slots) ==
        UCS_ERR_NO_MEMORY) {
        ucs_error("no memory to answer a peer that has notified puts for us");
    }
}

static void ucp_wimm_emul_greet(ucp_wimm_emul_t *emul)
{
    if (ucp_wimm_emul_send_first(emul, UCP_WIMM_EMUL_HELLO,
                                 emul->super.wimm->emul.num_slots) ==
        UCS_ERR_NO_MEMORY) {
        ucs_error("no memory to tell a peer that we are there");
    }
}

ucs_status_t ucp_wimm_emul_push(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                                uct_pending_req_t *op,
                                ucp_wimm_chain_kind_t kind,
                                ucp_wimm_emul_t **emul_p)
{
    ucs_status_t status;

    if (!wimm->emul.is_on) {
        return UCS_ERR_UNSUPPORTED;
    }

    status = ucp_wimm_emul_get(wimm, ucp_ep, emul_p);
    if (status == UCS_OK) {
        wimm->stats.emulated += (kind == UCP_WIMM_CHAIN_PUT);
        ucp_wimm_chain_push(*emul_p, op, kind);
    }

    return status;
}


/*
 * Receiving
 */

/* Both could do it natively, but UCX has decided otherwise */
static void ucp_wimm_emul_tell(ucp_wimm_emul_t *emul)
{
    if (!(emul->flags & UCP_WIMM_EMUL_FLAG_TOLD)) {
        emul->flags |= UCP_WIMM_EMUL_FLAG_TOLD;
        ucs_info("endpoint %p: notified puts are emulated although both sides"
                 " have the transport wimm, UCX chose others for it (see"
                 " UCX_TLS, UCX_WIMM_PREFER)",
                 emul->ucp_ep);
    }
}

static void ucp_wimm_emul_deliver(ucp_wimm_emul_t *emul,
                                  const ucp_wimm_emul_hdr_t *hdr)
{
    ucs_status_t status;

    status = ucp_wimm_stream_notify(emul->super.wimm, &emul->super,
                                    ntohl(hdr->imm), be64toh(hdr->length));
    if (status == UCS_ERR_NO_MEMORY) {
        emul->flags |= UCP_WIMM_EMUL_FLAG_LOST;
    } else if (status != UCS_INPROGRESS) {
        ucp_wimm_emul_release_slot(&emul->super);
    }
}

/* Until somebody is attached, or for the next progress, or behind those that are kept */
static void ucp_wimm_emul_keep(ucp_wimm_emul_t *emul,
                               const ucp_wimm_emul_hdr_t *hdr)
{
    ucp_wimm_h wimm          = emul->super.wimm;
    ucp_wimm_emul_msg_t *msg = ucs_mpool_get_inline(&wimm->emul.mp);

    if (msg == NULL) {
        ucs_error("no memory for a notification, no more are taken from its"
                  " peer");
        emul->flags |= UCP_WIMM_EMUL_FLAG_CUT;
        return;
    }

    msg->hdr  = *hdr;
    msg->emul = emul;
    ++emul->super.refcount;
    ucp_wimm_emul_add_todo(wimm, 1);
    ucs_queue_push(&wimm->emul.kept, &msg->queue);
}

static void ucp_wimm_emul_notified(ucp_wimm_emul_t *emul,
                                   const ucp_wimm_emul_hdr_t *hdr)
{
    ucp_wimm_h wimm = emul->super.wimm;

    if (emul->flags & (UCP_WIMM_EMUL_FLAG_LOST | UCP_WIMM_EMUL_FLAG_CUT)) {
        return;
    }

    /* The transport "self" delivers inside of a send, which is no place for a handler */
    if (!wimm->is_attached || !ucs_queue_is_empty(&wimm->emul.kept) ||
        !ucp_wimm_native_in_progress(wimm->worker)) {
        ucp_wimm_emul_keep(emul, hdr);
    } else {
        ucp_wimm_emul_deliver(emul, hdr);
    }
}

/* What was kept until now */
static unsigned ucp_wimm_emul_deliver_kept(ucp_wimm_h wimm)
{
    unsigned count = 0;
    ucp_wimm_emul_msg_t *msg;
    ucp_wimm_emul_t *emul;

    while (wimm->is_attached && !ucs_queue_is_empty(&wimm->emul.kept)) {
        /* It stays until it is delivered: those that come meanwhile are kept behind it */
        msg  = ucs_queue_head_elem_non_empty(&wimm->emul.kept,
                                             ucp_wimm_emul_msg_t, queue);
        emul = msg->emul;
        if (!(emul->flags & UCP_WIMM_EMUL_FLAG_LOST)) {
            /* The program may have closed it since, also in a handler just now */
            ucp_wimm_eps_check(wimm, emul->super.ep);
            ucp_wimm_emul_deliver(emul, &msg->hdr);
        }

        ucs_queue_pull_non_empty(&wimm->emul.kept);
        --wimm->emul.num_todo;
        ucs_mpool_put_inline(msg);
        ucp_wimm_peer_put(&emul->super);
        ++count;
    }

    return count;
}

/* Where the program has given a key for, as UCX believes its own messages that put */
static void ucp_wimm_emul_place(const ucp_wimm_emul_hdr_t *hdr,
                                const void *data, size_t length)
{
    if (length > 0) {
        memcpy((void *)(uintptr_t)be64toh(hdr->addr), data, length);
    }
}

static void ucp_wimm_emul_dispatch(ucp_wimm_emul_t *emul,
                                   const ucp_wimm_emul_hdr_t *hdr,
                                   const void *data, size_t length)
{
    uint32_t imm = ntohl(hdr->imm);

    emul->flags |= UCP_WIMM_EMUL_FLAG_KNOWN;
    if ((hdr->flags & UCP_WIMM_EMUL_HDR_FLAG_WIMM) &&
        emul->super.wimm->emul.has_wimm) {
        ucp_wimm_emul_tell(emul);
    }

    switch (hdr->op) {
    case UCP_WIMM_EMUL_PROBE:
        ucp_wimm_emul_answer(emul);
        break;
    case UCP_WIMM_EMUL_HELLO:
        if (!(emul->flags & UCP_WIMM_EMUL_FLAG_READY)) {
            emul->flags |= UCP_WIMM_EMUL_FLAG_READY;
            emul->slots     = imm;
            emul->num_slots = imm;
            ucp_wimm_chain_go(emul);
        }
        break;
    case UCP_WIMM_EMUL_NOTIFY:
        ucp_wimm_emul_place(hdr, data, length);
        ucp_wimm_emul_notified(emul, hdr);
        break;
    case UCP_WIMM_EMUL_SLOTS:
        emul->slots += imm;
        ucp_wimm_chain_go(emul);
        break;
    case UCP_WIMM_EMUL_DATA:
        ucp_wimm_emul_place(hdr, data, length);
        break;
    case UCP_WIMM_EMUL_FLUSH:
        if (ucp_wimm_emul_send(emul, UCP_WIMM_EMUL_FLUSHED, 0) ==
            UCS_ERR_NO_MEMORY) {
            ucs_error("no memory to answer a peer that waits for its flush");
        }
        break;
    case UCP_WIMM_EMUL_FLUSHED:
        emul->flags &= ~UCP_WIMM_EMUL_FLAG_ASKED;
        ucp_wimm_chain_go(emul);
        break;
    case UCP_WIMM_EMUL_BYE:
        emul->flags |= UCP_WIMM_EMUL_FLAG_BYE;
        ucp_wimm_chain_go(emul);
        break;
    }
}

/* Whether a message can be one of ours. Data is taken only where we would send it, so that
 * a peer with a transport that protects memory cannot go around that. */
static int ucp_wimm_emul_is_valid(const ucp_wimm_emul_hdr_t *hdr,
                                  size_t header_length, size_t length,
                                  const ucp_am_recv_param_t *param)
{
    if ((header_length != sizeof(*hdr)) || (hdr->op >= UCP_WIMM_EMUL_LAST) ||
        !(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ||
        (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        return 0;
    }

    return ((hdr->op != UCP_WIMM_EMUL_NOTIFY) &&
            (hdr->op != UCP_WIMM_EMUL_DATA)) ||
           (length == 0) || !ucp_wimm_native_ep_has_puts(param->reply_ep);
}

static ucs_status_t ucp_wimm_emul_recv(void *arg, const void *header,
                                       size_t header_length, void *data,
                                       size_t length,
                                       const ucp_am_recv_param_t *param)
{
    const ucp_wimm_emul_hdr_t *hdr = header;
    ucp_wimm_h wimm                = arg;
    ucp_wimm_emul_t *emul;
    ucs_status_t status;

    if (!ucp_wimm_emul_is_valid(hdr, header_length, length, param)) {
        ucs_error("an active message with the id %u is none of notified puts,"
                  " it is dropped: do all sides use the same am_id?",
                  wimm->emul.am_id);
        return UCS_OK;
    }

    status = ucp_wimm_emul_get(wimm, param->reply_ep, &emul);
    if (status != UCS_OK) {
        ucs_error("a message of notified puts is lost: %s",
                  ucs_status_string(status));
        return UCS_OK;
    }

    /* A handler may close its endpoint */
    ++emul->super.refcount;
    ucp_wimm_emul_dispatch(emul, hdr, data, length);
    ucp_wimm_peer_put(&emul->super);
    return UCS_OK;
}


/*
 * Attaching
 */

/* Nobody is attached, but operations go on and want progress */
static void ucp_wimm_emul_linger(ucp_wimm_h wimm, int is_lingering)
{
    ucp_wimm_emul_add_todo(wimm, is_lingering - wimm->emul.is_lingering);
    wimm->emul.is_lingering = is_lingering;
}

/* An endpoint whose flushes have waited for UCP's own queue and may go on, or NULL */
static ucp_wimm_emul_t *ucp_wimm_emul_find_free(ucp_wimm_h wimm)
{
    ucp_wimm_emul_t *emul;

    ucs_list_for_each(emul, &wimm->emul.list, list) {
        if (ucs_queue_is_empty(&emul->held)) {
            continue;
        }

        if (!ucp_wimm_emul_is_alive(emul)) {
            break; /* It is one of the dead now */
        }

        if (!ucp_wimm_native_ep_is_queueing(wimm, emul->ucp_ep)) {
            return emul;
        }
    }

    return NULL;
}

/* One whose close has waited for its peer: until now, or at all. NULL if there is none. */
static ucp_wimm_emul_t *ucp_wimm_emul_find_late(ucp_wimm_h wimm, ucs_time_t now)
{
    ucp_wimm_emul_t *emul;

    ucs_list_for_each(emul, &wimm->emul.list, list) {
        if ((emul->flags & UCP_WIMM_EMUL_FLAG_LATE) &&
            (emul->deadline <= now)) {
            return emul;
        }
    }

    return NULL;
}

int ucp_wimm_emul_has_work(ucp_wimm_h wimm)
{
    return !ucs_queue_is_empty(&wimm->emul.kept) ||
           (ucp_wimm_emul_find_free(wimm) != NULL) ||
           (ucp_wimm_emul_find_late(wimm, UCS_TIME_INFINITY) != NULL) ||
           !ucs_list_is_empty(&wimm->emul.dead);
}

unsigned ucp_wimm_emul_progress(ucp_wimm_h wimm)
{
    unsigned count = ucp_wimm_emul_deliver_kept(wimm);
    ucp_wimm_emul_t *emul;

    /* A callback may do anything to the list */
    while ((emul = ucp_wimm_emul_find_free(wimm)) != NULL) {
        ucp_wimm_chain_release(emul);
        ucp_wimm_chain_go(emul);
        ++count;
    }

    while ((emul = ucp_wimm_emul_find_late(wimm, ucs_get_time())) != NULL) {
        ucp_wimm_chain_close_now(emul);
        ++count;
    }

    while (!ucs_list_is_empty(&wimm->emul.dead)) {
        ucp_wimm_emul_bury(
                ucs_list_head(&wimm->emul.dead, ucp_wimm_emul_t, list));
        ++count;
    }

    if (wimm->emul.is_lingering && (wimm->refcount == 1)) {
        ucp_wimm_emul_linger(wimm, 0);
        ucp_wimm_eps_stop(wimm);
    }

    return count;
}

static void ucp_wimm_emul_set_handler(ucp_wimm_h wimm,
                                      ucp_am_recv_callback_t cb)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                      UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG |
                      UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
        .id    = wimm->emul.am_id,
        .flags = UCP_AM_FLAG_WHOLE_MSG,
        .cb    = cb,
        .arg   = wimm
    };

    ucp_worker_set_am_recv_handler(wimm->worker, &param);
}

static ucs_status_t ucp_wimm_emul_check(ucp_wimm_h wimm, unsigned am_id,
                                        ucp_wimm_emul_config_t *config)
{
    ucs_status_t status;

    UCP_WIMM_CHECK_PARAM(ucp_wimm_native_has_am(wimm->worker),
                         UCS_ERR_UNSUPPORTED,
                         "an id of active messages was given, but the worker's"
                         " context was made without UCP_FEATURE_AM");
    UCP_WIMM_CHECK_PARAM(am_id <= UINT16_MAX, UCS_ERR_INVALID_PARAM,
                         "%u is no id of active messages, the largest is %u",
                         am_id, UINT16_MAX);
    UCP_WIMM_CHECK_PARAM(!ucp_wimm_native_has_am_handler(wimm->worker, am_id),
                         UCS_ERR_INVALID_PARAM,
                         "the worker has a handler for active messages with the"
                         " id %u already",
                         am_id);

    status = ucp_wimm_native_read_config(config, ucp_wimm_emul_config_table);
    if (status != UCS_OK) {
        return status;
    }

    UCP_WIMM_CHECK_PARAM((config->num_slots > 0) &&
                                 (config->num_slots <= UCP_WIMM_EMUL_MAX_SLOTS),
                         UCS_ERR_INVALID_PARAM,
                         "UCX_WIMM_NUM_SLOTS is %u, it has to be 1 to %d",
                         config->num_slots, UCP_WIMM_EMUL_MAX_SLOTS);
    return UCS_OK;
}

static void ucp_wimm_emul_count_iface(uct_iface_h UCS_V_UNUSED iface, void *arg)
{
    *(int *)arg = 1;
}

static void ucp_wimm_emul_find_peer(ucp_ep_h ucp_ep, void *arg)
{
    ucp_wimm_h wimm = arg;
    ucp_wimm_emul_t *emul;

    if (ucp_wimm_native_ep_is_emulated(wimm, ucp_ep) &&
        (ucp_wimm_emul_get(wimm, ucp_ep, &emul) == UCS_OK)) {
        emul->flags |= UCP_WIMM_EMUL_FLAG_GREET;
    }
}

/* They may have asked before. New ones come in at the end of the list meanwhile. */
static void ucp_wimm_emul_greet_all(ucp_wimm_h wimm)
{
    ucp_wimm_emul_t *emul;

    ucp_wimm_native_for_each_ep(wimm->worker, ucp_wimm_emul_find_peer, wimm);
    while (!ucs_list_is_empty(&wimm->emul.list)) {
        emul = ucs_list_head(&wimm->emul.list, ucp_wimm_emul_t, list);
        if (!(emul->flags & UCP_WIMM_EMUL_FLAG_GREET)) {
            break;
        }

        emul->flags &= ~UCP_WIMM_EMUL_FLAG_GREET;
        ucs_list_del(&emul->list);
        ucs_list_add_tail(&wimm->emul.list, &emul->list);
        ucp_wimm_emul_greet(emul);
    }
}

ucs_status_t ucp_wimm_emul_init(ucp_wimm_h wimm, unsigned am_id)
{
    ucp_wimm_emul_config_t config;
    ucs_status_t status;

    status = ucp_wimm_emul_check(wimm, am_id, &config);
    if (status != UCS_OK) {
        return status;
    }

    /* Bounded by the slots, and by what the program issues */
    status = ucs_mpool_init(&wimm->emul.mp, 0, sizeof(ucp_wimm_emul_msg_t), 0,
                            UCS_SYS_CACHE_LINE_SIZE, 64, UINT_MAX,
                            &ucp_wimm_emul_mpool_ops, "ucp_wimm_messages");
    if (status != UCS_OK) {
        return status;
    }

    wimm->emul.is_on     = 1;
    wimm->emul.has_mp    = 1;
    wimm->emul.am_id     = am_id;
    wimm->emul.num_slots = config.num_slots;
    ucp_wimm_native_for_each_iface(wimm->worker, ucp_wimm_emul_count_iface,
                                   &wimm->emul.has_wimm);
    ucp_wimm_emul_set_handler(wimm, ucp_wimm_emul_recv);
    ucp_wimm_emul_greet_all(wimm);
    return UCS_OK;
}

int ucp_wimm_emul_park(ucp_wimm_h wimm)
{
    /* Operations that are with UCP may turn out to have no native way */
    if (!wimm->emul.is_on ||
        (ucs_list_is_empty(&wimm->emul.list) && (wimm->refcount == 1))) {
        return 0;
    }

    if (wimm->refcount > 1) {
        ucp_wimm_emul_linger(wimm, 1);
    } else {
        ucp_wimm_eps_stop(wimm);
    }

    return 1;
}

void ucp_wimm_emul_resume(ucp_wimm_h wimm)
{
    ucp_wimm_emul_linger(wimm, 0);
}

/* Those that have arrived and nobody gets */
static void ucp_wimm_emul_drop_kept(ucp_wimm_h wimm)
{
    ucp_wimm_emul_msg_t *msg;

    while (!ucs_queue_is_empty(&wimm->emul.kept)) {
        msg = ucs_queue_pull_elem_non_empty(&wimm->emul.kept,
                                            ucp_wimm_emul_msg_t, queue);
        --wimm->emul.num_todo;
        ucp_wimm_peer_put(&msg->emul->super);
        ucs_mpool_put_inline(msg);
    }
}

void ucp_wimm_emul_stop(ucp_wimm_h wimm)
{
    if (!wimm->emul.is_on) {
        return;
    }

    /* There is no peer that anything could come from, but failed ones */
    ucp_wimm_emul_set_handler(wimm, NULL);
    ucp_wimm_emul_drop_kept(wimm);
    ucp_wimm_emul_progress(wimm);
    wimm->emul.is_on = 0;
}

void ucp_wimm_emul_forget(ucp_wimm_h wimm)
{
    ucs_list_link_t *lists[] = { &wimm->emul.list, &wimm->emul.dead };
    ucp_wimm_emul_t *emul;
    unsigned i;

    if (!wimm->emul.is_on) {
        return;
    }

    ucp_wimm_emul_drop_kept(wimm);
    for (i = 0; i < ucs_static_array_size(lists); ++i) {
        while (!ucs_list_is_empty(lists[i])) {
            emul = ucs_list_extract_head(lists[i], ucp_wimm_emul_t, list);
            emul->super.ep->emul = NULL;
            emul->flags |= UCP_WIMM_EMUL_FLAG_DEAD;
            ucp_wimm_chain_forget(emul);
            ucp_wimm_peer_put(&emul->super);
        }
    }
}

void ucp_wimm_emul_reset(ucp_wimm_h wimm)
{
    memset(&wimm->emul, 0, sizeof(wimm->emul));
    ucs_list_head_init(&wimm->emul.list);
    ucs_list_head_init(&wimm->emul.dead);
    ucs_queue_head_init(&wimm->emul.kept);
}

void ucp_wimm_emul_cleanup(ucp_wimm_h wimm)
{
    if (wimm->emul.has_mp) {
        ucs_mpool_cleanup(&wimm->emul.mp, 0);
        wimm->emul.has_mp = 0;
    }
}
