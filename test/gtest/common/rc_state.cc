/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "rc_state.h"

#include <cstdio>
#include <cstring>


uct_rc_iface_t *rc_state::iface(const entity &e)
{
    return reinterpret_cast<uct_rc_iface_t *>(e.iface());
}

uct_rc_verbs_ep_t *rc_state::ep(const entity &e, unsigned index)
{
    return reinterpret_cast<uct_rc_verbs_ep_t *>(e.ep(index));
}

struct ibv_qp *rc_state::qp(const entity &e, unsigned index)
{
    return ep(e, index)->qp;
}

unsigned rc_state::rx_in_use(const entity &e)
{
    const ucs_mpool_t *mp = &iface(e)->rx.mp;
    unsigned count        = 0;

    for (const ucs_mpool_chunk_t *chunk = mp->data->chunks; chunk != nullptr;
         chunk                          = chunk->next) {
        count += chunk->num_elems;
    }
    for (const ucs_mpool_elem_t *elem = mp->freelist; elem != nullptr;
         elem                         = elem->next) {
        --count;
    }
    return count;
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
    std::string dev = resource::get().dev_name;
    char line[256];
    int result = -1;

    dev          = dev.substr(0, dev.find(':'));
    FILE *stream = popen(("rdma resource show " + dev).c_str(), "r");
    if (stream == nullptr) {
        return -1;
    }
    while (fgets(line, sizeof(line), stream) != nullptr) {
        const char *found = strstr(line, " qp ");

        if (found != nullptr) {
            result = atoi(found + 4);
        }
    }
    pclose(stream);
    return result;
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


verbs_fault *verbs_fault::m_current = nullptr;


verbs_fault::verbs_fault(const entity &e, verb_t verb, func_t func)
    : m_func(std::move(func))
{
    struct ibv_context *ctx =
            rc_state::iface(e)->super.cq[UCT_IB_DIR_TX]->context;

    m_ops     = &ctx->ops;
    m_saved   = *m_ops;
    m_current = this;
    if (verb == POST_SEND) {
        m_ops->post_send = post_send;
    } else {
        m_ops->post_srq_recv = post_srq_recv;
    }
}

verbs_fault::~verbs_fault()
{
    *m_ops    = m_saved;
    m_current = nullptr;
}

int verbs_fault::post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                           struct ibv_send_wr **bad_wr)
{
    int ret = m_current->m_func(qp);

    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }
    return m_current->m_saved.post_send(qp, wr, bad_wr);
}

int verbs_fault::post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                               struct ibv_recv_wr **bad_wr)
{
    int ret = m_current->m_func(srq);

    if (ret != 0) {
        *bad_wr = wr;
        return ret;
    }
    return m_current->m_saved.post_srq_recv(srq, wr, bad_wr);
}
