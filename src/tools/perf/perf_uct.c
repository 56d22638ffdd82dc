/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf_methods.h"

#include <uct/api/uct.h>
#include <uct/ib/wimm/wimm.h>

#include <stdlib.h>
#include <string.h>

/*
 * Calls of UCT: a notified put, and an active message.
 */


#define UCT_AM_ID    5
#define UCT_MAX_ADDR 256
#define UCT_COMP_BASE \
  (1 << 30) /* More than can be outstanding: never comes to 0 */


typedef struct {
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_component_h component;
    uct_md_h md;
    uct_md_attr_t md_attr;
    uct_iface_h iface;
    uct_iface_attr_t iface_attr;
    uct_mem_h memh;
    uct_ep_h *eps;
    perf_layout_t layout;
    uct_completion_t comp;

    /* Of the peer */
    uct_rkey_bundle_t rkey;
    uint64_t remote_addr;
    uint8_t dev_addr[UCT_MAX_ADDR];
    uint8_t iface_addr[UCT_MAX_ADDR];
} perf_uct_side_t;


/* What a side tells the other one */
typedef struct {
    uint64_t addr;
    uint8_t dev_addr[UCT_MAX_ADDR];
    uint8_t iface_addr[UCT_MAX_ADDR];
    uint8_t rkey[UCT_MAX_ADDR];
} perf_uct_address_t;


static ucs_status_t perf_uct_failed(void *arg, uct_ep_h ep, ucs_status_t status)
{
    perf_side_t *side = arg;

    (void)ep;
    side->status = status;
    return UCS_OK;
}

/* @return Whether the device has the transport, which is open then */
static int perf_uct_open_iface(perf_side_t *side)
{
    perf_uct_side_t *uct      = side->priv;
    const perf_test_t *test   = side->test;
    uct_iface_params_t params = {
        .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                      UCT_IFACE_PARAM_FIELD_DEVICE |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS,
        .open_mode            = UCT_IFACE_OPEN_MODE_DEVICE,
        .mode.device.tl_name  = test->tl,
        .mode.device.dev_name = test->device,
        .err_handler          = perf_uct_failed,
        .err_handler_arg      = side
    };
    uct_tl_resource_desc_t *tls;
    uct_iface_config_t *config;
    unsigned num_tls, i;
    int found = 0;

    PERF_CHECK(uct_md_query_tl_resources(uct->md, &tls, &num_tls));
    for (i = 0; (i < num_tls) && !found; ++i) {
        found = !strcmp(tls[i].tl_name, test->tl) &&
                !strcmp(tls[i].dev_name, test->device);
    }
    uct_release_tl_resource_list(tls);
    if (!found) {
        return 0;
    }

    PERF_CHECK(
            uct_md_iface_config_read(uct->md, test->tl, NULL, NULL, &config));
    PERF_CHECK(
            uct_iface_open(uct->md, uct->worker, &params, config, &uct->iface));
    uct_config_release(config);
    PERF_CHECK(uct_iface_query(uct->iface, &uct->iface_attr));
    return 1;
}

/* @return Whether one of the component's memory domains has the device */
static int perf_uct_open_component(perf_side_t *side, uct_component_h component)
{
    perf_uct_side_t *uct      = side->priv;
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT
    };
    uct_md_config_t *config;
    ucs_status_t status;
    int found = 0;
    unsigned i;

    PERF_CHECK(uct_component_query(component, &attr));
    attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    attr.md_resources = perf_alloc(attr.md_resource_count *
                                   sizeof(*attr.md_resources));
    PERF_CHECK(uct_component_query(component, &attr));
    for (i = 0; (i < attr.md_resource_count) && !found; ++i) {
        PERF_CHECK(uct_md_config_read(component, NULL, NULL, &config));
        status = uct_md_open(component, attr.md_resources[i].md_name, config,
                             &uct->md);
        uct_config_release(config);
        if (status != UCS_OK) {
            continue; /* Not the device's */
        }

        found = perf_uct_open_iface(side);
        if (!found) {
            uct_md_close(uct->md);
        }
    }

    free(attr.md_resources);
    return found;
}

static void perf_uct_open(perf_side_t *side)
{
    const perf_test_t *test = side->test;
    perf_uct_side_t *uct    = perf_alloc(sizeof(*uct));
    uct_component_h *components;
    unsigned num_components, i;
    int found = 0;

    side->priv = uct;
    PERF_CHECK(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                        &uct->async));
    PERF_CHECK(uct_worker_create(uct->async, UCS_THREAD_MODE_SINGLE,
                                 &uct->worker));
    PERF_CHECK(uct_query_components(&components, &num_components));
    for (i = 0; (i < num_components) && !found; ++i) {
        found          = perf_uct_open_component(side, components[i]);
        uct->component = components[i];
    }
    uct_release_component_list(components);
    if (!found) {
        perf_fail("UCX has no transport %s on %s: ucx_info -d lists what it"
                  " has",
                  test->tl, test->device);
    }

    PERF_CHECK(uct_md_query(uct->md, &uct->md_attr));
    if ((uct->iface_attr.device_addr_len > UCT_MAX_ADDR) ||
        (uct->iface_attr.iface_addr_len > UCT_MAX_ADDR) ||
        (uct->iface_attr.ep_addr_len > UCT_MAX_ADDR) ||
        (uct->md_attr.rkey_packed_size > UCT_MAX_ADDR)) {
        perf_fail("the addresses of %s are too long", test->tl);
    }
    PERF_CHECK(uct_md_mem_reg(uct->md, side->memory, side->length,
                              UCT_MD_MEM_ACCESS_ALL, &uct->memh));
    uct->comp.count  = UCT_COMP_BASE;
    uct->comp.status = UCS_OK;
    uct_iface_progress_enable(uct->iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
}

static ucs_status_t perf_uct_notified(void *arg, uct_ep_h ep, uint32_t imm,
                                      size_t length)
{
    perf_side_t *side = arg;

    (void)ep;
    (void)imm;
    (void)length;
    ++side->arrived;
    return UCS_OK;
}

static void perf_uct_check_size(const perf_test_t *test, const char *what,
                                size_t max)
{
    if (test->size > max) {
        perf_fail("%s takes at most %zu bytes over %s: -s %zu is too long",
                  what, max, test->tl, test->size);
    }
}

static void perf_uct_open_put_imm(perf_side_t *side)
{
    const perf_test_t *test    = side->test;
    uct_wimm_iface_attr_t attr = { .field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP };
    perf_uct_side_t *uct;

    perf_uct_open(side);
    uct = side->priv;
    PERF_CHECK(uct_wimm_iface_set_imm_handler(uct->iface, perf_uct_notified,
                                              side));
    PERF_CHECK(uct_wimm_iface_query(uct->iface, &attr));

    uct->layout = test->layout;
    if (uct->layout == PERF_LAYOUT_AUTO) {
        uct->layout = (test->size <= attr.cap.max_short) ? PERF_LAYOUT_SHORT :
                      (test->size <= attr.cap.max_bcopy) ? PERF_LAYOUT_BCOPY :
                                                           PERF_LAYOUT_ZCOPY;
    }

    switch (uct->layout) {
    case PERF_LAYOUT_SHORT:
        perf_uct_check_size(test, "a short put", attr.cap.max_short);
        break;
    case PERF_LAYOUT_BCOPY:
        perf_uct_check_size(test, "a bcopy put", attr.cap.max_bcopy);
        break;
    default:
        perf_uct_check_size(test, "a zcopy put", attr.cap.max_zcopy);
        break;
    }
}

static ucs_status_t perf_uct_am_arrived(void *arg, void *data, size_t length,
                                        unsigned flags)
{
    perf_side_t *side = arg;

    (void)data;
    (void)length;
    (void)flags;
    ++side->arrived;
    return UCS_OK;
}

/* The header is what the immediate is of a notified put: the payload comes besides it */
static void perf_uct_open_am_short(perf_side_t *side)
{
    perf_uct_side_t *uct;
    size_t max_short;

    perf_uct_open(side);
    uct       = side->priv;
    max_short = uct->iface_attr.cap.am.max_short; /* With the header */
    perf_uct_check_size(side->test, "a short active message",
                        (max_short > sizeof(uint64_t)) ?
                                (max_short - sizeof(uint64_t)) :
                                0);
    PERF_CHECK(uct_iface_set_am_handler(uct->iface, UCT_AM_ID,
                                        perf_uct_am_arrived, side, 0));
}

static void *perf_uct_pack(perf_side_t *side, size_t *length_p)
{
    perf_uct_side_t *uct        = side->priv;
    perf_uct_address_t *address = perf_alloc(sizeof(*address));

    address->addr = (uintptr_t)side->memory;
    PERF_CHECK(uct_iface_get_device_address(uct->iface,
                                            (void *)address->dev_addr));
    if (uct->iface_attr.iface_addr_len > 0) {
        PERF_CHECK(
                uct_iface_get_address(uct->iface, (void *)address->iface_addr));
    }
    PERF_CHECK(uct_md_mkey_pack(uct->md, uct->memh, address->rkey));
    *length_p = sizeof(*address);
    return address;
}

static void perf_uct_create_eps(perf_side_t *side, const void *peer,
                                size_t length)
{
    perf_uct_side_t *uct              = side->priv;
    const perf_uct_address_t *address = peer;
    uct_ep_params_t params = { .field_mask = UCT_EP_PARAM_FIELD_IFACE,
                               .iface      = uct->iface };
    unsigned i;

    if (length != sizeof(*address)) {
        perf_fail("the other side is not a wimm_perftest of this version");
    }

    memcpy(uct->dev_addr, address->dev_addr, UCT_MAX_ADDR);
    memcpy(uct->iface_addr, address->iface_addr, UCT_MAX_ADDR);
    if (!uct_iface_is_reachable(uct->iface, (void *)uct->dev_addr,
                                (void *)uct->iface_addr)) {
        perf_fail("%s: the other side cannot be reached from %s",
                  side->test->tl, side->test->device);
    }

    uct->remote_addr = address->addr + side->target_offset;
    if (uct->eps == NULL) {
        PERF_CHECK(uct_rkey_unpack(uct->component, address->rkey, &uct->rkey));
        uct->eps = perf_alloc(side->test->num_eps * sizeof(*uct->eps));
    }
    for (i = side->test->from_ep; i < side->test->to_ep; ++i) {
        PERF_CHECK(uct_ep_create(&params, &uct->eps[i]));
    }
}

static void *perf_uct_pack_eps(perf_side_t *side, size_t *length_p)
{
    perf_uct_side_t *uct = side->priv;
    size_t length        = uct->iface_attr.ep_addr_len;
    unsigned first       = side->test->from_ep;
    unsigned count       = side->test->to_ep - first;
    uint8_t *addrs       = perf_alloc(count * length);
    unsigned i;

    for (i = 0; i < count; ++i) {
        PERF_CHECK(uct_ep_get_address(uct->eps[first + i],
                                      (void *)(addrs + (i * length))));
    }
    *length_p = count * length;
    return addrs;
}

static void perf_uct_connect_eps(perf_side_t *side, const void *peer,
                                 size_t length)
{
    perf_uct_side_t *uct = side->priv;
    size_t ep_length     = uct->iface_attr.ep_addr_len;
    const uint8_t *addrs = peer;
    unsigned first       = side->test->from_ep;
    unsigned count       = side->test->to_ep - first;
    unsigned i;

    if (length != (count * ep_length)) {
        perf_fail("the transport %s of the other side is another one",
                  side->test->tl);
    }
    for (i = 0; i < count; ++i) {
        PERF_CHECK(uct_ep_connect_to_ep(uct->eps[first + i],
                                        (void *)uct->dev_addr,
                                        (void *)(addrs + (i * ep_length))));
    }
}

typedef struct {
    const void *data;
    size_t length;
} perf_uct_pack_arg_t;

static size_t perf_uct_pack_data(void *dest, void *arg)
{
    const perf_uct_pack_arg_t *pack = arg;

    memcpy(dest, pack->data, pack->length);
    return pack->length;
}

static ucs_status_t perf_uct_post_put_imm(perf_side_t *side, unsigned ep,
                                          const uint8_t *data, uint64_t count)
{
    perf_uct_side_t *uct = side->priv;
    size_t size          = side->test->size;
    perf_uct_pack_arg_t arg;
    ucs_status_t status;
    ssize_t packed;
    uct_iov_t iov;

    switch (uct->layout) {
    case PERF_LAYOUT_SHORT:
        return uct_wimm_ep_put_imm_short(uct->eps[ep], data, size,
                                         uct->remote_addr, uct->rkey.rkey,
                                         count);
    case PERF_LAYOUT_BCOPY:
        arg.data   = data;
        arg.length = size;
        packed     = uct_wimm_ep_put_imm_bcopy(uct->eps[ep], perf_uct_pack_data,
                                               &arg, uct->remote_addr,
                                               uct->rkey.rkey, count);
        return (packed < 0) ? (ucs_status_t)packed : UCS_OK;
    default:
        iov.buffer = (void *)data;
        iov.length = size;
        iov.memh   = uct->memh;
        iov.stride = 0;
        iov.count  = 1;
        ++uct->comp.count;
        status = uct_wimm_ep_put_imm_zcopy(uct->eps[ep], &iov, 1,
                                           uct->remote_addr, uct->rkey.rkey,
                                           count, &uct->comp);
        if (status != UCS_INPROGRESS) {
            --uct->comp.count;
            return status;
        }
        ++side->outstanding;
        return UCS_OK;
    }
}

static ucs_status_t perf_uct_post_am_short(perf_side_t *side, unsigned ep,
                                           const uint8_t *data, uint64_t count)
{
    perf_uct_side_t *uct = side->priv;

    return uct_ep_am_short(uct->eps[ep], UCT_AM_ID, count, data,
                           side->test->size);
}

static void perf_uct_progress(perf_side_t *side)
{
    perf_uct_side_t *uct = side->priv;

    uct_worker_progress(uct->worker);
    side->outstanding = uct->comp.count - UCT_COMP_BASE;
}

static uint64_t perf_uct_arrived(perf_side_t *side)
{
    return side->arrived;
}

static int perf_uct_flushed(perf_side_t *side)
{
    perf_uct_side_t *uct = side->priv;
    ucs_status_t status;

    status = uct_iface_flush(uct->iface, 0, NULL);
    if ((status != UCS_OK) && (status != UCS_INPROGRESS) &&
        (status != UCS_ERR_NO_RESOURCE)) {
        perf_check(status, "uct_iface_flush");
    }
    return status == UCS_OK;
}

static void perf_uct_close(perf_side_t *side)
{
    perf_uct_side_t *uct = side->priv;
    unsigned i;

    for (i = 0; i < side->test->num_eps; ++i) {
        uct_ep_destroy(uct->eps[i]);
    }
    uct_rkey_release(uct->component, &uct->rkey);
    uct_md_mem_dereg(uct->md, uct->memh);
    uct_iface_close(uct->iface);
    uct_md_close(uct->md);
    uct_worker_destroy(uct->worker);
    ucs_async_context_destroy(uct->async);
    free(uct->eps);
    free(uct);
}


#define UCT_METHOD(_name, _desc, _tl, _flags, _min_size, _open, _post) \
  {                                                                    \
    .name = _name, .desc = _desc, .tl = _tl, .flags = _flags,          \
    .min_size = _min_size, .open = _open, .pack = perf_uct_pack,       \
    .create_eps = perf_uct_create_eps, .pack_eps = perf_uct_pack_eps,  \
    .connect_eps = perf_uct_connect_eps, .post = _post,                \
    .progress = perf_uct_progress, .arrived = perf_uct_arrived,        \
    .flushed = perf_uct_flushed, .close = perf_uct_close               \
  }

const perf_method_t perf_uct_put_imm =
        UCT_METHOD("uct_put_imm", "UCT: notified put (-D: short, bcopy, zcopy)",
                   "wimm", 0, 0, perf_uct_open_put_imm, perf_uct_post_put_imm);

const perf_method_t perf_uct_am_short = UCT_METHOD(
        "uct_am_short", "UCT: short active message, header and payload",
        "rc_verbs", PERF_METHOD_STOCK | PERF_METHOD_NO_PUT, 0,
        perf_uct_open_am_short, perf_uct_post_am_short);
