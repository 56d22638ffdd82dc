/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf_methods.h"

#include <ucp/api/ucp.h>
#include <ucp_wimm.h>

#include <stdlib.h>
#include <string.h>

/*
 * Calls of UCP: a notified put, and what programs do without it.
 */


#define PERF_UCP_AM_ID 1


/* An endpoint, as callbacks get it */
typedef struct {
    perf_side_t *side;
    ucp_ep_h ep;
    ucp_rkey_h rkey;
} perf_ucp_ep_t;


typedef struct {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_mem_h memh;
    ucp_wimm_h wimm; /* NULL for what is stock UCX */
    perf_ucp_ep_t *eps;
    unsigned flush_next; /* Endpoint that is flushed next */
    ucs_status_ptr_t flush_req;
    ucp_request_param_t op_param;   /* Of what completes an operation */
    ucp_request_param_t part_param; /* Of what comes before that */

    /* Of the peer */
    uint64_t remote_addr; /* Where data goes to */
    uint64_t remote_flag;
} perf_ucp_side_t;


/* What a side tells the other one, then come address and key */
typedef struct {
    uint64_t addr;
    uint64_t addr_length;
    uint64_t rkey_length;
} perf_ucp_address_t;


static void perf_ucp_completed(void *request, ucs_status_t status,
                               void *user_data)
{
    perf_side_t *side = user_data;

    --side->outstanding;
    if (status != UCS_OK) {
        side->status = status;
    }
    ucp_request_free(request);
}

static void perf_ucp_part_completed(void *request, ucs_status_t status,
                                    void *user_data)
{
    perf_side_t *side = user_data;

    if (status != UCS_OK) {
        side->status = status;
    }
    ucp_request_free(request);
}

/* Account for an operation that was issued with op_param */
static ucs_status_t perf_ucp_issued(perf_side_t *side, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_PTR(request)) {
        ++side->outstanding;
        return UCS_OK;
    }
    return UCS_PTR_RAW_STATUS(request);
}

static void perf_ucp_data_received(void *request, ucs_status_t status,
                                   size_t length, void *user_data)
{
    perf_side_t *side = user_data;

    (void)length;
    ++side->arrived;
    if (status != UCS_OK) {
        side->status = status;
    }
    ucp_request_free(request);
}

/* What comes with the message stays where UCX has it; what has to be fetched is fetched
 * to where a put would have written it */
static ucs_status_t perf_ucp_am_arrived(void *arg, const void *header,
                                        size_t header_length, void *data,
                                        size_t length,
                                        const ucp_am_recv_param_t *param)
{
    perf_side_t *side             = arg;
    perf_ucp_side_t *ucp          = side->priv;
    ucp_request_param_t req_param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA |
                        UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv_am = perf_ucp_data_received,
        .user_data  = side
    };
    ucs_status_ptr_t request;

    (void)header;
    (void)header_length;
    if (!(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        ++side->arrived;
        return UCS_OK;
    }

    request = ucp_am_recv_data_nbx(ucp->worker, data,
                                   side->memory + side->target_offset, length,
                                   &req_param);
    if (UCS_PTR_IS_ERR(request)) {
        side->status = UCS_PTR_STATUS(request);
    }
    return UCS_OK;
}

/* Only this transport, on this device; "aux" is for the wire-up */
static void perf_ucp_open_context(perf_side_t *side, uint64_t features)
{
    perf_ucp_side_t *ucp        = side->priv;
    const perf_test_t *test     = side->test;
    ucp_params_t params         = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                                    .features   = features };
    ucp_worker_params_t wparams = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE
    };
    ucp_config_t *config;
    ucs_status_t status;
    char tls[PERF_MAX_TL + 16];

    snprintf(tls, sizeof(tls), "%s,ud_verbs:aux", test->tl);
    PERF_CHECK(ucp_config_read(NULL, NULL, &config));
    PERF_CHECK(ucp_config_modify(config, "TLS", tls));
    PERF_CHECK(ucp_config_modify(config, "NET_DEVICES", test->device));
    status = ucp_init(&params, config, &ucp->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        perf_fail("UCX has no transport %s on %s (%s): ucx_info -d lists what"
                  " it has",
                  test->tl, test->device, ucs_status_string(status));
    }
    PERF_CHECK(ucp_worker_create(ucp->context, &wparams, &ucp->worker));
}

static void perf_ucp_open_features(perf_side_t *side, uint64_t features)
{
    perf_ucp_side_t *ucp         = perf_alloc(sizeof(*ucp));
    ucp_mem_map_params_t mparams = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                      UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = side->memory,
        .length  = side->length
    };
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                      UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id  = PERF_UCP_AM_ID,
        .cb  = perf_ucp_am_arrived,
        .arg = side
    };

    side->priv = ucp;
    perf_ucp_open_context(side, features);
    PERF_CHECK(ucp_mem_map(ucp->context, &mparams, &ucp->memh));
    PERF_CHECK(ucp_worker_set_am_recv_handler(ucp->worker, &handler));

    ucp->op_param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                 UCP_OP_ATTR_FIELD_USER_DATA;
    ucp->op_param.cb.send   = perf_ucp_completed;
    ucp->op_param.user_data = side;
    ucp->part_param         = ucp->op_param;
    ucp->part_param.cb.send = perf_ucp_part_completed;
}

static void perf_ucp_open(perf_side_t *side)
{
    perf_ucp_open_features(side, UCP_FEATURE_RMA | UCP_FEATURE_AM);
}

static void perf_ucp_open_atomic(perf_side_t *side)
{
    perf_ucp_open_features(side, UCP_FEATURE_RMA | UCP_FEATURE_AM |
                                         UCP_FEATURE_AMO64);
}

static ucs_status_t perf_ucp_notified(
        void *arg, const ucp_wimm_notification_t *notification)
{
    perf_side_t *side = arg;

    ++side->arrived;
    if (notification->status != UCS_OK) {
        side->status = notification->status;
    }
    return UCS_OK;
}

static void perf_ucp_open_put_imm(perf_side_t *side)
{
    ucp_wimm_params_t params = { .field_mask  = UCP_WIMM_PARAM_FIELD_HANDLER,
                                 .handler.cb  = perf_ucp_notified,
                                 .handler.arg = side };
    perf_ucp_side_t *ucp;

    perf_ucp_open(side);
    ucp = side->priv;
    PERF_CHECK(ucp_wimm_attach(ucp->worker, &params, &ucp->wimm));
}

static void *perf_ucp_pack(perf_side_t *side, size_t *length_p)
{
    perf_ucp_side_t *ucp = side->priv;
    perf_ucp_address_t *packed;
    ucp_address_t *address;
    size_t addr_length, rkey_length;
    void *rkey;

    PERF_CHECK(ucp_worker_get_address(ucp->worker, &address, &addr_length));
    PERF_CHECK(ucp_rkey_pack(ucp->context, ucp->memh, &rkey, &rkey_length));

    *length_p           = sizeof(*packed) + addr_length + rkey_length;
    packed              = perf_alloc(*length_p);
    packed->addr        = (uintptr_t)side->memory;
    packed->addr_length = addr_length;
    packed->rkey_length = rkey_length;
    memcpy(packed + 1, address, addr_length);
    memcpy((char *)(packed + 1) + addr_length, rkey, rkey_length);

    ucp_worker_release_address(ucp->worker, address);
    ucp_rkey_buffer_release(rkey);
    return packed;
}

static void perf_ucp_create_eps(perf_side_t *side, const void *peer,
                                size_t length)
{
    perf_ucp_side_t *ucp             = side->priv;
    const perf_ucp_address_t *packed = peer;
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                               .address = (const ucp_address_t *)(packed + 1) };
    perf_ucp_ep_t *ep;
    unsigned i;

    if ((length < sizeof(*packed)) ||
        (length !=
         (sizeof(*packed) + packed->addr_length + packed->rkey_length))) {
        perf_fail("the other side is not a wimm_perftest of this version");
    }

    ucp->remote_addr = packed->addr + side->target_offset;
    ucp->remote_flag = packed->addr + side->flag_offset;
    if (ucp->eps == NULL) {
        ucp->eps = perf_alloc(side->test->num_eps * sizeof(*ucp->eps));
    }
    for (i = side->test->from_ep; i < side->test->to_ep; ++i) {
        ep       = &ucp->eps[i];
        ep->side = side;
        PERF_CHECK(ucp_ep_create(ucp->worker, &params, &ep->ep));
        PERF_CHECK(ucp_ep_rkey_unpack(ep->ep,
                                      (const char *)(packed + 1) +
                                              packed->addr_length,
                                      &ep->rkey));
    }
}

/* UCP connects by itself */
static void *perf_ucp_pack_eps(perf_side_t *side, size_t *length_p)
{
    (void)side;
    *length_p = 0;
    return perf_alloc(0);
}

static void perf_ucp_connect_eps(perf_side_t *side, const void *peer,
                                 size_t length)
{
    (void)side;
    (void)peer;
    (void)length;
}

static void perf_ucp_progress(perf_side_t *side)
{
    perf_ucp_side_t *ucp = side->priv;

    ucp_worker_progress(ucp->worker);
}

static uint64_t perf_ucp_arrived(perf_side_t *side)
{
    return side->arrived;
}

static uint64_t perf_ucp_flagged(perf_side_t *side)
{
    return *side->flag;
}

/* Each endpoint in turn: its flush completes when it is connected */
static int perf_ucp_flushed(perf_side_t *side)
{
    ucp_request_param_t param = { .op_attr_mask = 0 };
    perf_ucp_side_t *ucp      = side->priv;
    ucs_status_t status;

    if (ucp->flush_req == NULL) {
        ucp->flush_req = ucp_ep_flush_nbx(ucp->eps[ucp->flush_next].ep, &param);
    }
    if (UCS_PTR_IS_PTR(ucp->flush_req)) {
        status = ucp_request_check_status(ucp->flush_req);
        if (status == UCS_INPROGRESS) {
            return 0;
        }
        ucp_request_free(ucp->flush_req);
    } else {
        status = UCS_PTR_RAW_STATUS(ucp->flush_req);
    }

    perf_check(status, "ucp_ep_flush_nbx");
    ucp->flush_req = NULL;
    if (++ucp->flush_next < side->test->to_ep) {
        return 0;
    }

    ucp->flush_next = 0;
    return side->outstanding == 0;
}

static void perf_ucp_close_ep(perf_side_t *side, ucp_ep_h ep)
{
    ucp_request_param_t param = { .op_attr_mask = 0 };
    ucs_status_ptr_t request;

    request = ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            perf_progress(side);
        }
        ucp_request_free(request);
    }
}

static void perf_ucp_close(perf_side_t *side)
{
    perf_ucp_side_t *ucp = side->priv;
    unsigned i;

    for (i = 0; i < side->test->num_eps; ++i) {
        ucp_rkey_destroy(ucp->eps[i].rkey);
        perf_ucp_close_ep(side, ucp->eps[i].ep);
    }
    if (ucp->wimm != NULL) {
        ucp_wimm_detach(ucp->wimm);
    }
    ucp_mem_unmap(ucp->context, ucp->memh);
    ucp_worker_destroy(ucp->worker);
    ucp_cleanup(ucp->context);
    free(ucp->eps);
    free(ucp);
}


/*
 * Operations
 */

static ucs_status_t perf_ucp_post_put_imm(perf_side_t *side, unsigned index,
                                          const uint8_t *data, uint64_t count)
{
    perf_ucp_side_t *ucp = side->priv;
    perf_ucp_ep_t *ep    = &ucp->eps[index];

    return perf_ucp_issued(side,
                           ucp_wimm_put_nbx(ucp->wimm, ep->ep, data,
                                            side->test->size, ucp->remote_addr,
                                            ep->rkey, (uint32_t)count,
                                            &ucp->op_param));
}

static ucs_status_t perf_ucp_put(perf_side_t *side, perf_ucp_ep_t *ep,
                                 const uint8_t *data)
{
    perf_ucp_side_t *ucp = side->priv;

    return perf_ucp_issued(side, ucp_put_nbx(ep->ep, data, side->test->size,
                                             ucp->remote_addr, ep->rkey,
                                             &ucp->op_param));
}

/* A put behind which something follows, with which the operation is complete */
static ucs_status_t perf_ucp_put_part(perf_side_t *side, perf_ucp_ep_t *ep,
                                      const uint8_t *data)
{
    perf_ucp_side_t *ucp = side->priv;
    ucs_status_ptr_t request;

    request = ucp_put_nbx(ep->ep, data, side->test->size, ucp->remote_addr,
                          ep->rkey, &ucp->part_param);
    return UCS_PTR_IS_PTR(request) ? UCS_OK : UCS_PTR_RAW_STATUS(request);
}

/* As _part, and what follows comes after it at the peer */
static ucs_status_t perf_ucp_put_fenced(perf_side_t *side, perf_ucp_ep_t *ep,
                                        const uint8_t *data)
{
    perf_ucp_side_t *ucp = side->priv;
    ucs_status_t status;

    status = perf_ucp_put_part(side, ep, data);
    return (status == UCS_OK) ? ucp_worker_fence(ucp->worker) : status;
}

static ucs_status_t perf_ucp_am(perf_side_t *side, perf_ucp_ep_t *ep,
                                const uint8_t *data, size_t length)
{
    perf_ucp_side_t *ucp = side->priv;

    return perf_ucp_issued(side,
                           ucp_am_send_nbx(ep->ep, PERF_UCP_AM_ID, NULL, 0,
                                           data, length, &ucp->op_param));
}

static ucs_status_t perf_ucp_post_put(perf_side_t *side, unsigned index,
                                      const uint8_t *data, uint64_t count)
{
    perf_ucp_side_t *ucp = side->priv;

    (void)count;
    return perf_ucp_put(side, &ucp->eps[index], data);
}

static ucs_status_t perf_ucp_post_am(perf_side_t *side, unsigned index,
                                     const uint8_t *data, uint64_t count)
{
    perf_ucp_side_t *ucp = side->priv;

    (void)count;
    return perf_ucp_am(side, &ucp->eps[index], data, side->test->size);
}

static ucs_status_t perf_ucp_post_put_fence_am(perf_side_t *side,
                                               unsigned index,
                                               const uint8_t *data,
                                               uint64_t count)
{
    perf_ucp_side_t *ucp = side->priv;
    ucs_status_t status;

    (void)count;
    status = perf_ucp_put_fenced(side, &ucp->eps[index], data);
    if (status != UCS_OK) {
        return status;
    }
    return perf_ucp_am(side, &ucp->eps[index], NULL, 0);
}

/* The flush tells that the data is in place: now the peer may know */
static void perf_ucp_put_flushed(void *request, ucs_status_t status,
                                 void *user_data)
{
    perf_ucp_ep_t *ep = user_data;

    --ep->side->outstanding;
    if (status == UCS_OK) {
        status = perf_ucp_am(ep->side, ep, NULL, 0);
    }
    if (status != UCS_OK) {
        ep->side->status = status;
    }
    ucp_request_free(request);
}

static ucs_status_t perf_ucp_post_put_flush_am(perf_side_t *side,
                                               unsigned index,
                                               const uint8_t *data,
                                               uint64_t count)
{
    perf_ucp_side_t *ucp      = side->priv;
    perf_ucp_ep_t *ep         = &ucp->eps[index];
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                                                  UCP_OP_ATTR_FIELD_USER_DATA,
                                  .cb.send   = perf_ucp_put_flushed,
                                  .user_data = ep };
    ucs_status_ptr_t request;
    ucs_status_t status;

    (void)count;
    status = perf_ucp_put_part(side, ep, data);
    if (status != UCS_OK) {
        return status;
    }

    request = ucp_ep_flush_nbx(ep->ep, &param);
    if (request == NULL) {
        return perf_ucp_am(side, ep, NULL, 0);
    }
    return perf_ucp_issued(side, request);
}

static ucs_status_t perf_ucp_post_put_flag(perf_side_t *side, unsigned index,
                                           const uint8_t *data, uint64_t count)
{
    perf_ucp_side_t *ucp = side->priv;
    perf_ucp_ep_t *ep    = &ucp->eps[index];
    uint64_t *value      = &side->flag_source[count % PERF_MARKS];
    ucs_status_t status;

    status = perf_ucp_put_fenced(side, ep, data);
    if (status != UCS_OK) {
        return status;
    }

    *value = count;
    return perf_ucp_issued(side, ucp_put_nbx(ep->ep, value, sizeof(*value),
                                             ucp->remote_flag, ep->rkey,
                                             &ucp->op_param));
}

static ucs_status_t perf_ucp_post_put_atomic(perf_side_t *side, unsigned index,
                                             const uint8_t *data,
                                             uint64_t count)
{
    static const uint64_t one = 1;
    perf_ucp_side_t *ucp      = side->priv;
    perf_ucp_ep_t *ep         = &ucp->eps[index];
    ucp_request_param_t param = ucp->op_param;
    ucs_status_t status;

    (void)count;
    status = perf_ucp_put_fenced(side, ep, data);
    if (status != UCS_OK) {
        return status;
    }

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(sizeof(one));
    return perf_ucp_issued(side, ucp_atomic_op_nbx(ep->ep, UCP_ATOMIC_OP_ADD,
                                                   &one, 1, ucp->remote_flag,
                                                   ep->rkey, &param));
}


#define PERF_UCP_METHOD(_name, _desc, _tl, _flags, _min_size, _open, _post, \
                        _arrived)                                           \
  {                                                                         \
    .name = _name, .desc = _desc, .tl = _tl, .flags = _flags,               \
    .min_size = _min_size, .open = _open, .pack = perf_ucp_pack,            \
    .create_eps = perf_ucp_create_eps, .pack_eps = perf_ucp_pack_eps,       \
    .connect_eps = perf_ucp_connect_eps, .post = _post,                     \
    .progress = perf_ucp_progress, .arrived = _arrived,                     \
    .flushed = perf_ucp_flushed, .close = perf_ucp_close                    \
  }

const perf_method_t perf_ucp_put_imm = PERF_UCP_METHOD(
        "ucp_put_imm", "UCP: notified put", "wimm", 0, 0, perf_ucp_open_put_imm,
        perf_ucp_post_put_imm, perf_ucp_arrived);

const perf_method_t perf_put_fence_am =
        PERF_UCP_METHOD("put_fence_am", "UCP: put, fence, active message",
                        "rc_verbs", PERF_METHOD_STOCK, 0, perf_ucp_open,
                        perf_ucp_post_put_fence_am, perf_ucp_arrived);

const perf_method_t perf_put_flush_am =
        PERF_UCP_METHOD("put_flush_am", "UCP: put, flush, active message",
                        "rc_verbs", PERF_METHOD_STOCK, 0, perf_ucp_open,
                        perf_ucp_post_put_flush_am, perf_ucp_arrived);

const perf_method_t perf_put_flag = PERF_UCP_METHOD(
        "put_flag", "UCP: put, fence, put of 8 bytes that are polled",
        "rc_verbs", PERF_METHOD_STOCK | PERF_METHOD_ONE_EP, 0, perf_ucp_open,
        perf_ucp_post_put_flag, perf_ucp_flagged);

const perf_method_t perf_put_atomic = PERF_UCP_METHOD(
        "put_atomic", "UCP: put, fence, atomic add to what is polled",
        "rc_verbs", PERF_METHOD_STOCK | PERF_METHOD_ONE_EP, 0,
        perf_ucp_open_atomic, perf_ucp_post_put_atomic, perf_ucp_flagged);

const perf_method_t perf_am = PERF_UCP_METHOD(
        "am", "UCP: active message with the data, left in UCX's buffer",
        "rc_verbs", PERF_METHOD_STOCK | PERF_METHOD_NO_PUT, 0, perf_ucp_open,
        perf_ucp_post_am, perf_ucp_arrived);

const perf_method_t perf_put = PERF_UCP_METHOD(
        "put", "UCP: put whose last byte is polled, no notification",
        "rc_verbs", PERF_METHOD_STOCK | PERF_METHOD_POLLED | PERF_METHOD_ONE_EP,
        1, perf_ucp_open, perf_ucp_post_put, perf_poll_last);
