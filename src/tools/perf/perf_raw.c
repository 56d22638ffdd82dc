/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf_methods.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

/*
 * Plain libibverbs: what the device does with nothing above it, the limit for all others.
 */


#define RAW_SEND_QUEUE 256 /* Per queue pair */
#define RAW_RECV_QUEUE 512 /* Shared */
#define RAW_SEND_COMPS 1024
#define RAW_MAX_INLINE 64
#define RAW_MODERATION 64 /* raw_write_imm_mod: one in so many is signaled */
#define RAW_MAX_WC     16
#define RAW_TIMEOUT    18 /* 4.096 us * 2^18, as UCX has it */
#define RAW_RETRIES    7


typedef struct {
    struct ibv_qp *qp;
    unsigned posted;     /* Not known to be complete */
    unsigned unsignaled; /* Of these, since the last signaled one */
} raw_ep_t;


typedef struct {
    struct ibv_context *context;
    struct ibv_port_attr port_attr;
    uint8_t port;
    int gid_index;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    struct ibv_cq *send_cq, *recv_cq;
    struct ibv_srq *srq;
    raw_ep_t *eps;

    /* Of the operation */
    enum ibv_wr_opcode opcode;
    unsigned send_flags;
    unsigned moderation;
    unsigned max_inline; /* As much as UCX asks for, if the device takes that */

    /* Of the peer */
    uint64_t remote_addr;
    uint32_t rkey;
    uint16_t lid;
    union ibv_gid gid;
    enum ibv_mtu mtu;
} raw_side_t;


/* What a side tells the other one */
typedef struct {
    uint64_t addr;
    uint32_t rkey;
    uint16_t lid;
    uint8_t mtu;
    uint8_t is_ethernet;
    union ibv_gid gid;
} raw_address_t;


static void raw_fail(const char *what)
{
    perf_fail("%s: %s", what, strerror(errno));
}

static void raw_open_device(raw_side_t *raw, const char *name)
{
    size_t length = strcspn(name, ":");
    struct ibv_device **list;
    int i, count;

    list = ibv_get_device_list(&count);
    for (i = 0; (list != NULL) && (i < count); ++i) {
        if (!strncmp(ibv_get_device_name(list[i]), name, length) &&
            (ibv_get_device_name(list[i])[length] == '\0')) {
            raw->context = ibv_open_device(list[i]);
            break;
        }
    }
    if (list != NULL) {
        ibv_free_device_list(list);
    }

    if (raw->context == NULL) {
        perf_fail("cannot open the device %s with libibverbs", name);
    }
    raw->port = atoi(name + length + 1);
    if (ibv_query_port(raw->context, raw->port, &raw->port_attr)) {
        raw_fail("ibv_query_port");
    }
}

/* RoCE v2 with an address of IPv4 before any other, as UCX has it */
static int raw_gid_score(const struct ibv_gid_entry *entry)
{
    const struct in6_addr *addr = (const struct in6_addr *)&entry->gid;

    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2) {
        return 1;
    }
    return IN6_IS_ADDR_V4MAPPED(addr) ? 3 : 2;
}

static void raw_find_gid(raw_side_t *raw)
{
    struct ibv_gid_entry entry;
    int i, score, best = 0;

    for (i = 0; i < raw->port_attr.gid_tbl_len; ++i) {
        if (ibv_query_gid_ex(raw->context, raw->port, i, &entry, 0)) {
            continue;
        }
        score = raw_gid_score(&entry);
        if (score > best) {
            best           = score;
            raw->gid_index = i;
        }
    }
}

static void raw_post_receive(raw_side_t *raw, struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;

    if (ibv_post_srq_recv(raw->srq, wr, &bad)) {
        raw_fail("ibv_post_srq_recv");
    }
}

static void raw_create_queues(raw_side_t *raw)
{
    struct ibv_srq_init_attr attr = { .attr = { .max_wr  = RAW_RECV_QUEUE,
                                                .max_sge = 1 } };
    struct ibv_recv_wr wr         = { .num_sge = 0 };
    unsigned i;

    raw->send_cq = ibv_create_cq(raw->context, RAW_SEND_COMPS, NULL, NULL, 0);
    raw->recv_cq = ibv_create_cq(raw->context, 2 * RAW_RECV_QUEUE, NULL, NULL,
                                 0);
    raw->srq     = ibv_create_srq(raw->pd, &attr);
    if ((raw->send_cq == NULL) || (raw->recv_cq == NULL) ||
        (raw->srq == NULL)) {
        raw_fail("cannot create the queues of libibverbs");
    }

    for (i = 0; i < RAW_RECV_QUEUE; ++i) {
        raw_post_receive(raw, &wr);
    }
}

static raw_side_t *raw_open(perf_side_t *side, enum ibv_wr_opcode opcode,
                            unsigned moderation)
{
    raw_side_t *raw         = perf_alloc(sizeof(*raw));
    const perf_test_t *test = side->test;
    unsigned most;

    side->priv      = raw;
    raw->opcode     = opcode;
    raw->moderation = moderation;
    if ((perf_opts.mode != PERF_MODE_LOCAL) && (test->kind != PERF_KIND_LAT)) {
        /* What is not signaled counts for the window until something is */
        most            = test->window / (4 * test->num_eps);
        most            = (most < 1) ? 1 : most;
        raw->moderation = (most < moderation) ? most : moderation;
    }

    raw_open_device(raw, test->device);
    raw_find_gid(raw);
    raw->pd = ibv_alloc_pd(raw->context);
    if (raw->pd == NULL) {
        raw_fail("ibv_alloc_pd");
    }
    raw->mr = ibv_reg_mr(raw->pd, side->memory, side->length,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (raw->mr == NULL) {
        raw_fail("ibv_reg_mr");
    }
    raw_create_queues(raw);
    return raw;
}

static void raw_open_write(perf_side_t *side)
{
    raw_open(side, IBV_WR_RDMA_WRITE, 1);
}

static void raw_open_write_imm(perf_side_t *side)
{
    raw_open(side, IBV_WR_RDMA_WRITE_WITH_IMM, 1);
}

static void raw_open_write_imm_mod(perf_side_t *side)
{
    raw_open(side, IBV_WR_RDMA_WRITE_WITH_IMM, RAW_MODERATION);
}

static void *raw_pack(perf_side_t *side, size_t *length_p)
{
    raw_side_t *raw        = side->priv;
    raw_address_t *address = perf_alloc(sizeof(*address));

    address->addr        = (uintptr_t)side->memory;
    address->rkey        = raw->mr->rkey;
    address->lid         = raw->port_attr.lid;
    address->mtu         = raw->port_attr.active_mtu;
    address->is_ethernet = raw->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET;
    if (ibv_query_gid(raw->context, raw->port, raw->gid_index, &address->gid)) {
        raw_fail("ibv_query_gid");
    }
    *length_p = sizeof(*address);
    return address;
}

static struct ibv_qp *raw_create_qp(raw_side_t *raw)
{
    static const unsigned max_inline[] = { RAW_MAX_INLINE, 0 };
    struct ibv_qp_init_attr attr       = { .send_cq = raw->send_cq,
                                           .recv_cq = raw->recv_cq,
                                           .srq     = raw->srq,
                                           .qp_type = IBV_QPT_RC,
                                           .cap     = { .max_send_wr  = RAW_SEND_QUEUE,
                                                        .max_send_sge = 1 } };
    struct ibv_qp *qp                  = NULL;
    unsigned i;

    for (i = 0; (qp == NULL) && (i < 2); ++i) {
        attr.cap.max_inline_data = max_inline[i];
        qp                       = ibv_create_qp(raw->pd, &attr);
    }
    if (qp == NULL) {
        raw_fail("ibv_create_qp");
    }
    raw->max_inline = attr.cap.max_inline_data;
    return qp;
}

static void raw_create_eps(perf_side_t *side, const void *peer, size_t length)
{
    raw_side_t *raw              = side->priv;
    const raw_address_t *address = peer;
    struct ibv_qp_attr attr      = { .qp_state        = IBV_QPS_INIT,
                                     .port_num        = raw->port,
                                     .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    unsigned i;

    if ((length != sizeof(*address)) ||
        (address->is_ethernet !=
         (raw->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET))) {
        perf_fail("the devices of the two sides are of different kinds");
    }

    raw->remote_addr = address->addr + side->target_offset;
    raw->rkey        = address->rkey;
    raw->lid         = address->lid;
    raw->gid         = address->gid;
    raw->mtu         = (address->mtu < raw->port_attr.active_mtu) ?
                               (enum ibv_mtu)address->mtu :
                               raw->port_attr.active_mtu;
    if (raw->eps == NULL) {
        raw->eps = perf_alloc(side->test->num_eps * sizeof(*raw->eps));
    }
    for (i = side->test->from_ep; i < side->test->to_ep; ++i) {
        raw->eps[i].qp = raw_create_qp(raw);
        if (ibv_modify_qp(raw->eps[i].qp, &attr,
                          IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                  IBV_QP_ACCESS_FLAGS)) {
            raw_fail("cannot initialize the queue pair");
        }
    }
    raw->send_flags = IBV_SEND_SOLICITED |
                      ((side->test->size <= raw->max_inline) ? IBV_SEND_INLINE :
                                                               0);
}

static void *raw_pack_eps(perf_side_t *side, size_t *length_p)
{
    raw_side_t *raw = side->priv;
    unsigned first  = side->test->from_ep;
    unsigned count  = side->test->to_ep - first;
    uint32_t *nums  = perf_alloc(count * sizeof(*nums));
    unsigned i;

    for (i = 0; i < count; ++i) {
        nums[i] = raw->eps[first + i].qp->qp_num;
    }
    *length_p = count * sizeof(*nums);
    return nums;
}

static void raw_connect_qp(raw_side_t *raw, struct ibv_qp *qp, uint32_t num)
{
    struct ibv_qp_attr attr;

    memset(&attr, 0, sizeof(attr));
    attr.qp_state           = IBV_QPS_RTR;
    attr.path_mtu           = raw->mtu;
    attr.dest_qp_num        = num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer      = 12;
    attr.ah_attr.dlid       = raw->lid;
    attr.ah_attr.port_num   = raw->port;
    if (raw->port_attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
        attr.ah_attr.is_global      = 1;
        attr.ah_attr.grh.dgid       = raw->gid;
        attr.ah_attr.grh.sgid_index = raw->gid_index;
        attr.ah_attr.grh.hop_limit  = 64;
    }
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                              IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC |
                              IBV_QP_MIN_RNR_TIMER)) {
        raw_fail("cannot connect the queue pair (receive)");
    }

    memset(&attr, 0, sizeof(attr));
    attr.qp_state      = IBV_QPS_RTS;
    attr.timeout       = RAW_TIMEOUT;
    attr.retry_cnt     = RAW_RETRIES;
    attr.rnr_retry     = RAW_RETRIES;
    attr.max_rd_atomic = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                              IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC)) {
        raw_fail("cannot connect the queue pair (send)");
    }
}

static void raw_connect_eps(perf_side_t *side, const void *peer, size_t length)
{
    raw_side_t *raw      = side->priv;
    const uint32_t *nums = peer;
    unsigned first       = side->test->from_ep;
    unsigned count       = side->test->to_ep - first;
    unsigned i;

    if (length != (count * sizeof(*nums))) {
        perf_fail("the other side has another number of queue pairs");
    }
    for (i = 0; i < count; ++i) {
        raw_connect_qp(raw, raw->eps[first + i].qp, nums[i]);
    }
}

static ucs_status_t raw_post_wr(perf_side_t *side, unsigned index,
                                struct ibv_send_wr *wr)
{
    raw_side_t *raw = side->priv;
    raw_ep_t *ep    = &raw->eps[index];
    struct ibv_send_wr *bad;

    if (ep->posted == RAW_SEND_QUEUE) {
        return UCS_ERR_NO_RESOURCE;
    }

    ++ep->posted;
    ++ep->unsignaled;
    ++side->outstanding;
    if (ep->unsignaled >= raw->moderation) {
        wr->send_flags |= IBV_SEND_SIGNALED;
        wr->wr_id      = ((uint64_t)index << 32) | ep->unsignaled;
        ep->unsignaled = 0;
    }
    return ibv_post_send(ep->qp, wr, &bad) ? UCS_ERR_IO_ERROR : UCS_OK;
}

static ucs_status_t raw_post(perf_side_t *side, unsigned index,
                             const uint8_t *data, uint64_t count)
{
    raw_side_t *raw       = side->priv;
    struct ibv_sge sge    = { .addr   = (uintptr_t)data,
                              .length = side->test->size,
                              .lkey   = raw->mr->lkey };
    struct ibv_send_wr wr = { .opcode     = raw->opcode,
                              .send_flags = raw->send_flags,
                              .imm_data   = htonl((uint32_t)count),
                              .sg_list    = &sge,
                              .num_sge    = (side->test->size > 0),
                              .wr.rdma    = { .remote_addr = raw->remote_addr,
                                              .rkey        = raw->rkey } };

    return raw_post_wr(side, index, &wr);
}

static void raw_failed(perf_side_t *side, const struct ibv_wc *wc)
{
    perf_fail("%s: a work request has failed: %s", side->test->method->name,
              ibv_wc_status_str(wc->status));
}

static void raw_progress(perf_side_t *side)
{
    raw_side_t *raw       = side->priv;
    struct ibv_recv_wr wr = { .num_sge = 0 };
    struct ibv_wc wc[RAW_MAX_WC];
    unsigned count;
    int i, num;

    num = ibv_poll_cq(raw->recv_cq, RAW_MAX_WC, wc);
    for (i = 0; i < num; ++i) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            raw_failed(side, &wc[i]);
        }
        raw_post_receive(raw, &wr);
        ++side->arrived;
    }

    /* As UCX: what has arrived comes first, and may be waited for */
    if ((num > 0) || (side->outstanding == 0)) {
        return;
    }

    num = ibv_poll_cq(raw->send_cq, RAW_MAX_WC, wc);
    for (i = 0; i < num; ++i) {
        if (wc[i].status != IBV_WC_SUCCESS) {
            raw_failed(side, &wc[i]);
        }
        count = (uint32_t)wc[i].wr_id;
        raw->eps[wc[i].wr_id >> 32].posted -= count;
        side->outstanding -= count;
    }
}

static uint64_t raw_arrived(perf_side_t *side)
{
    return side->arrived;
}

/* What is not signaled is complete when an empty write behind it is */
static int raw_flushed(perf_side_t *side)
{
    raw_side_t *raw = side->priv;
    struct ibv_send_wr wr;
    unsigned i, moderation;
    ucs_status_t status;

    for (i = 0; i < side->test->to_ep; ++i) {
        if (raw->eps[i].unsignaled == 0) {
            continue;
        }
        memset(&wr, 0, sizeof(wr));
        wr.opcode       = IBV_WR_RDMA_WRITE;
        moderation      = raw->moderation;
        raw->moderation = 1;
        status          = raw_post_wr(side, i, &wr);
        raw->moderation = moderation;
        if (status == UCS_ERR_NO_RESOURCE) {
            return 0; /* The queue is full: after some progress */
        }
        perf_check(status, "ibv_post_send");
    }
    return side->outstanding == 0;
}

static void raw_close(perf_side_t *side)
{
    raw_side_t *raw = side->priv;
    unsigned i;

    for (i = 0; i < side->test->num_eps; ++i) {
        ibv_destroy_qp(raw->eps[i].qp);
    }
    ibv_destroy_srq(raw->srq);
    ibv_destroy_cq(raw->recv_cq);
    ibv_destroy_cq(raw->send_cq);
    ibv_dereg_mr(raw->mr);
    ibv_dealloc_pd(raw->pd);
    ibv_close_device(raw->context);
    free(raw->eps);
    free(raw);
}


#define RAW_METHOD(_name, _desc, _flags, _open, _arrived)                     \
  {                                                                           \
    .name = _name, .desc = _desc, .tl = "verbs", .flags = _flags,             \
    .min_size = ((_flags)&PERF_METHOD_POLLED) ? 1 : 0, .open = _open,         \
    .pack = raw_pack, .create_eps = raw_create_eps, .pack_eps = raw_pack_eps, \
    .connect_eps = raw_connect_eps, .post = raw_post,                         \
    .progress = raw_progress, .arrived = _arrived, .flushed = raw_flushed,    \
    .close = raw_close                                                        \
  }

const perf_method_t perf_raw_write_imm = RAW_METHOD(
        "raw_write_imm", "libibverbs: write with immediate, each one signaled",
        0, raw_open_write_imm, raw_arrived);

const perf_method_t perf_raw_write_imm_mod = RAW_METHOD(
        "raw_write_imm_mod", "libibverbs: the same, one in 64 signaled (*)", 0,
        raw_open_write_imm_mod, raw_arrived);

const perf_method_t perf_raw_write = RAW_METHOD(
        "raw_write", "libibverbs: write, the receiver polls its memory",
        PERF_METHOD_POLLED | PERF_METHOD_ONE_EP, raw_open_write,
        perf_poll_last);
