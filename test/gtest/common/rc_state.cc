/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "rc_state.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>


uct_rc_iface_t *rc_state::iface(const entity &e)
{
    return reinterpret_cast<uct_rc_iface_t *>(e.iface());
}

struct ibv_context *rc_state::context(uct_md_h md)
{
    return reinterpret_cast<uct_ib_md_t *>(md)->dev.ibv_context;
}

uct_rc_verbs_ep_t *rc_state::ep(const entity &e, unsigned index)
{
    return reinterpret_cast<uct_rc_verbs_ep_t *>(e.ep(index));
}

struct ibv_qp *rc_state::qp(const entity &e, unsigned index)
{
    return ep(e, index)->qp;
}

static unsigned mpool_in_use(const ucs_mpool_t *mp)
{
    unsigned count = 0;

    for (const ucs_mpool_chunk_t *chunk = mp->data->chunks; chunk != nullptr;
         chunk                          = chunk->next) {
        count += chunk->num_elems;
    }

    /* Copied, since elements need not be aligned */
    const void *elem = mp->freelist;
    while (elem != nullptr) {
        --count;
        memcpy(&elem, elem, sizeof(elem));
    }
    return count;
}

unsigned rc_state::rx_in_use(const entity &e)
{
    return mpool_in_use(&iface(e)->rx.mp);
}

unsigned rc_state::tx_in_use(const entity &e)
{
    return mpool_in_use(&iface(e)->tx.mp);
}

unsigned rc_state::rx_available(const entity &e)
{
    return iface(e)->rx.srq.available;
}

unsigned rc_state::rx_batch(const entity &e)
{
    return iface(e)->super.config.rx_max_batch;
}

int rc_state::cq_available(const entity &e)
{
    return iface(e)->tx.cq_available;
}

unsigned rc_state::num_dead_qps(const entity &e)
{
    return ucs_list_length(&iface(e)->qp_gc_list);
}

void rc_state::for_each_dead_qp(
        const entity &e,
        const std::function<void(uct_rc_iface_qp_cleanup_ctx_t *)> &func)
{
    uct_rc_iface_qp_cleanup_ctx_t *ctx, *tmp;

    ucs_list_for_each_safe(ctx, tmp, &iface(e)->qp_gc_list, list) {
        func(ctx);
    }
}

bool rc_state::queues::operator==(const queues &other) const
{
    return (receives == other.receives) && (sends == other.sends) &&
           (send_buffers_in_use == other.send_buffers_in_use) &&
           (num_dead_qps == other.num_dead_qps);
}

std::string rc_state::queues::str() const
{
    return std::to_string(receives) + " receives, " + std::to_string(sends) +
           " free sends, " + std::to_string(send_buffers_in_use) +
           " send buffers in use, " + std::to_string(num_dead_qps) +
           " queue pairs of destroyed endpoints";
}

rc_state::queues rc_state::queues_of(uct_iface_h tl_iface)
{
    uct_rc_iface_t *rc = reinterpret_cast<uct_rc_iface_t *>(tl_iface);

    /* Before the first progress all are its quota */
    return { mpool_in_use(&rc->rx.mp) + rc->rx.srq.available + rc->rx.srq.quota,
             rc->tx.cq_available, mpool_in_use(&rc->tx.mp),
             static_cast<unsigned>(ucs_list_length(&rc->qp_gc_list)) };
}

enum ibv_qp_state rc_state::qp_state(const entity &e, unsigned index)
{
    struct ibv_qp_init_attr init_attr;
    struct ibv_qp_attr attr;

    EXPECT_EQ(0, ibv_query_qp(qp(e, index), &attr, IBV_QP_STATE, &init_attr));
    return attr.qp_state;
}

unsigned rc_state::tx_max_poll(const entity &e)
{
    return iface(e)->super.config.tx_max_poll;
}

unsigned rc_state::rx_max_poll(const entity &e)
{
    return iface(e)->super.config.rx_max_poll;
}

size_t rc_state::max_inline(const entity &e)
{
    return reinterpret_cast<uct_rc_verbs_iface_t *>(e.iface())
            ->config.max_inline;
}

size_t rc_state::path_mtu(const entity &e)
{
    return uct_ib_mtu_value(iface(e)->super.config.path_mtu);
}

bool rc_state::is_soft_roce()
{
    return resource::get().dev_name.compare(0, 3, "rxe") == 0;
}

void rc_state::set_error(const entity &e, unsigned index)
{
    struct ibv_qp_attr attr = {};

    attr.qp_state = IBV_QPS_ERR;
    EXPECT_EQ(0, ibv_modify_qp(qp(e, index), &attr, IBV_QP_STATE));
}

bool rc_state::fence_waits(const entity &e, unsigned index)
{
    return ep(e, index)->fi.fence_beat != iface(e)->tx.fi.fence_beat;
}

int rc_state::sq_available(const entity &e, unsigned index)
{
    return ep(e, index)->super.txqp.available;
}

int rc_state::sq_length(const entity &e)
{
    return reinterpret_cast<uct_rc_verbs_iface_t *>(e.iface())->config.tx_max_wr;
}

int rc_state::device_num_qps()
{
    const std::string &dev = resource::get().dev_name;
    int result             = -1;

    for (const std::string &line :
         command_lines("rdma resource show " + dev.substr(0, dev.find(':')))) {
        const size_t found = line.find(" qp ");

        if (found != std::string::npos) {
            result = atoi(&line[found + 4]);
        }
    }
    return result;
}

uint64_t rc_state::device_num_rnr()
{
    const std::string &dev = resource::get().dev_name;
    const size_t colon     = dev.find(':');
    uint64_t sum           = 0;

    for (const char *name : { "rcvd_rnr_err", "send_rnr_err" }) {
        std::ifstream file("/sys/class/infiniband/" + dev.substr(0, colon) +
                           "/ports/" + dev.substr(colon + 1) + "/hw_counters/" +
                           name);
        uint64_t value;

        if (!(file >> value)) {
            ADD_FAILURE() << "no counter " << name << " of " << dev;
            return UINT64_MAX;
        }
        sum += value;
    }

    return sum;
}

int rc_state::raw_post(const entity &e, unsigned index, struct ibv_send_wr *wr)
{
    uct_rc_verbs_ep_t *verbs_ep = ep(e, index);
    struct ibv_send_wr *bad_wr;
    int ret;

    wr->wr_id = static_cast<uint16_t>(verbs_ep->txcnt.pi + 1);
    wr->send_flags |= IBV_SEND_SIGNALED;
    ret = ibv_post_send(verbs_ep->qp, wr, &bad_wr);
    if (ret == 0) {
        ++verbs_ep->txcnt.pi;
        verbs_ep->super.txqp.unsignaled = 0;
        --verbs_ep->super.txqp.available;
        --iface(e)->tx.cq_available;
    }
    return ret;
}

int rc_state::raw_send(const entity &e, unsigned index,
                       enum ibv_wr_opcode opcode, uint32_t imm,
                       const void *data, unsigned length)
{
    struct ibv_send_wr wr;
    struct ibv_sge sge;

    memset(&wr, 0, sizeof(wr));
    sge.addr      = reinterpret_cast<uintptr_t>(data);
    sge.length    = length;
    sge.lkey      = 0;
    wr.opcode     = opcode;
    wr.send_flags = (length > 0) ? IBV_SEND_INLINE : 0;
    wr.imm_data   = htonl(imm);
    wr.sg_list    = &sge;
    wr.num_sge    = (length > 0);
    return raw_post(e, index, &wr);
}


const int verbs_fault::EMPTY;
std::map<const struct ibv_context *, verbs_fault *> verbs_fault::m_faults;


verbs_fault::verbs_fault(const entity &e, verb_t verb, func_t func)
    : m_func(std::move(func))
{
    replace(rc_state::context(e.md()), verb);
}

verbs_fault::verbs_fault(const entity &e, send_func_t func)
    : m_send_func(std::move(func))
{
    replace(rc_state::context(e.md()), POST_SEND);
}

verbs_fault::verbs_fault(uct_md_h md, recv_func_t func)
    : m_recv_func(std::move(func))
{
    replace(rc_state::context(md), POST_SRQ_RECV);
}

void verbs_fault::replace(struct ibv_context *ctx, verb_t verb)
{
    EXPECT_EQ(0u, m_faults.count(ctx));
    m_ctx         = ctx;
    m_ops         = &ctx->ops;
    m_saved       = *m_ops;
    m_faults[ctx] = this;
    switch (verb) {
    case POST_SEND:
        m_ops->post_send = post_send;
        break;
    case POST_SRQ_RECV:
        m_ops->post_srq_recv = post_srq_recv;
        break;
    case POLL_CQ:
        m_ops->poll_cq = poll_cq;
        break;
    case REQ_NOTIFY_CQ:
        m_ops->req_notify_cq = req_notify_cq;
        break;
    }
}

verbs_fault::~verbs_fault()
{
    *m_ops = m_saved;
    m_faults.erase(m_ctx);
}

int verbs_fault::post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                           struct ibv_send_wr **bad_wr)
{
    const verbs_fault *self = m_faults.at(qp->context);
    int ret = self->m_send_func ? self->m_send_func(qp, wr) : self->m_func(qp);

    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }
    return self->m_saved.post_send(qp, wr, bad_wr);
}

int verbs_fault::post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                               struct ibv_recv_wr **bad_wr)
{
    const verbs_fault *self = m_faults.at(srq->context);
    int ret;

    if (self->m_recv_func) {
        return self->post_srq_recv_some(srq, wr, bad_wr);
    }

    ret = self->m_func(srq);
    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }
    return self->m_saved.post_srq_recv(srq, wr, bad_wr);
}

/* As a device whose queue is full after some of them */
int verbs_fault::post_srq_recv_some(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                                    struct ibv_recv_wr **bad_wr) const
{
    struct ibv_recv_wr *last = NULL;
    struct ibv_recv_wr *next = wr;
    unsigned count           = 0;
    unsigned taken;
    int ret;

    for (struct ibv_recv_wr *i = wr; i != NULL; i = i->next) {
        ++count;
    }

    taken = m_recv_func(count);
    if (taken >= count) {
        return m_saved.post_srq_recv(srq, wr, bad_wr);
    }

    for (unsigned i = 0; i < taken; ++i) {
        last = next;
        next = next->next;
    }
    if (last != NULL) {
        last->next = NULL;
        ret        = m_saved.post_srq_recv(srq, wr, bad_wr);
        last->next = next;
        if (ret != 0) {
            return ret;
        }
    }
    *bad_wr = next;
    return ENOMEM;
}

int verbs_fault::poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
    const verbs_fault *self = m_faults.at(cq->context);
    int ret                 = self->m_func(cq);

    if (ret == EMPTY) {
        return 0;
    }
    return (ret != 0) ? ret : self->m_saved.poll_cq(cq, max, wc);
}

int verbs_fault::req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    const verbs_fault *self = m_faults.at(cq->context);
    int ret                 = self->m_func(cq);

    return (ret != 0) ? ret : self->m_saved.req_notify_cq(cq, solicited_only);
}


qp_fault *qp_fault::m_current = nullptr;


qp_fault::qp_fault(verb_t verb, func_t func)
    : m_verb(verb), m_func(std::move(func))
{
    m_current = this;
}

qp_fault::~qp_fault()
{
    m_current = nullptr;
}

bool qp_fault::fails(verb_t verb)
{
    return (m_current != nullptr) && (m_current->m_verb == verb) &&
           m_current->m_func();
}


/* What UCX calls instead of the library's, since the program comes first. These
 * verbs are in no table that a program can change. */
extern "C" {

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    static const auto real = reinterpret_cast<decltype(&ibv_create_qp)>(
            dlsym(RTLD_NEXT, "ibv_create_qp"));

    if (qp_fault::fails(qp_fault::CREATE_QP)) {
        errno = ENOMEM;
        return NULL;
    }
    return real(pd, attr);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    static const auto real = reinterpret_cast<decltype(&ibv_modify_qp)>(
            dlsym(RTLD_NEXT, "ibv_modify_qp"));

    if (qp_fault::fails(qp_fault::MODIFY_QP)) {
        errno = ENOMEM;
        return ENOMEM;
    }
    return real(qp, attr, mask);
}

} // extern "C"
