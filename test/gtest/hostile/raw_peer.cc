/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "raw_peer.h"

#include "../common/rc_state.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}

#include <cstring>
#include <stdexcept>


/* What the endpoint can send without a receive being posted again */
static const unsigned rq_len       = 128;
static const size_t recv_length    = 256;
static const size_t send_mem_begin = rq_len * recv_length;

const size_t raw_peer::max_length;


static struct ibv_context *open_device(const std::string &name)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *ctx     = nullptr;

    for (unsigned i = 0; (devices != nullptr) && (devices[i] != nullptr); ++i) {
        if (name == ibv_get_device_name(devices[i])) {
            ctx = ibv_open_device(devices[i]);
            break;
        }
    }
    if (devices != nullptr) {
        ibv_free_device_list(devices);
    }
    return ctx;
}

raw_peer::raw_peer(const entity &e, unsigned sq_len)
    : m_entity(e), m_sq_len(sq_len), m_mem(4 * max_length)
{
    const std::string &name = resource::get().dev_name;

    m_ctx = open_device(name.substr(0, name.find(':')));
    if (m_ctx == nullptr) {
        throw std::runtime_error("the device cannot be opened: " + name);
    }
    m_pd      = ibv_alloc_pd(m_ctx);
    m_send_cq = ibv_create_cq(m_ctx, sq_len, NULL, NULL, 0);
    m_recv_cq = ibv_create_cq(m_ctx, rq_len, NULL, NULL, 0);
    m_mr      = ibv_reg_mr(m_pd, m_mem.data(), m_mem.size(),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if ((m_pd == nullptr) || (m_send_cq == nullptr) || (m_recv_cq == nullptr) ||
        (m_mr == nullptr)) {
        throw std::runtime_error("the peer has no resources of its own");
    }
}

raw_peer::~raw_peer()
{
    vanish();
    EXPECT_EQ(0, ibv_dereg_mr(m_mr));
    EXPECT_EQ(0, ibv_destroy_cq(m_recv_cq));
    EXPECT_EQ(0, ibv_destroy_cq(m_send_cq));
    EXPECT_EQ(0, ibv_dealloc_pd(m_pd));
    EXPECT_EQ(0, ibv_close_device(m_ctx));
}

std::vector<uint8_t> raw_peer::create(unsigned credits, unsigned slots)
{
    struct ibv_qp_init_attr init_attr    = {};
    struct ibv_qp_attr attr              = {};
    const size_t dev_length              = m_entity.attr().device_addr_len;
    uct_wimm_ep_addr_t wimm_addr         = {};
    uct_rc_verbs_ep_address_t verbs_addr = {};
    std::vector<uint8_t> result(dev_length + m_entity.attr().ep_addr_len);

    vanish();
    init_attr.send_cq             = m_send_cq;
    init_attr.recv_cq             = m_recv_cq;
    init_attr.qp_type             = IBV_QPT_RC;
    init_attr.cap.max_send_wr     = m_sq_len;
    init_attr.cap.max_recv_wr     = rq_len;
    init_attr.cap.max_send_sge    = 1;
    init_attr.cap.max_recv_sge    = 1;
    init_attr.cap.max_inline_data = 0;
    m_qp                          = ibv_create_qp(m_pd, &init_attr);
    if (m_qp == nullptr) {
        throw std::runtime_error("the peer gets no queue pair");
    }

    attr.qp_state        = IBV_QPS_INIT;
    attr.port_num        = rc_state::iface(m_entity)->super.config.port_num;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    EXPECT_EQ(0, ibv_modify_qp(m_qp, &attr,
                               IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                       IBV_QP_ACCESS_FLAGS));
    for (unsigned i = 0; i < rq_len; ++i) {
        post_recv();
    }

    /* It is on the same device as the side that it talks to */
    EXPECT_OK(uct_iface_get_device_address(
            m_entity.iface(),
            reinterpret_cast<uct_device_addr_t *>(result.data())));
    uct_wimm_ep_addr_pack(&wimm_addr, credits, slots);
    uct_ib_pack_uint24(verbs_addr.qp_num, m_qp->qp_num);
    memcpy(&result[dev_length], &wimm_addr, sizeof(wimm_addr));
    memcpy(&result[dev_length + sizeof(wimm_addr)], &verbs_addr,
           sizeof(verbs_addr));
    return result;
}

void raw_peer::connect(unsigned index, unsigned rnr_retry)
{
    const uct_ib_iface_t &ib_iface = rc_state::iface(m_entity)->super;
    struct ibv_qp_attr attr        = {};

    attr.qp_state               = IBV_QPS_RTR;
    attr.path_mtu               = ib_iface.config.path_mtu;
    attr.dest_qp_num            = rc_state::qp(m_entity, index)->qp_num;
    attr.max_dest_rd_atomic     = 1;
    attr.min_rnr_timer          = 1;
    attr.ah_attr.is_global      = 1;
    attr.ah_attr.port_num       = ib_iface.config.port_num;
    attr.ah_attr.grh.dgid       = ib_iface.gid_info.gid;
    attr.ah_attr.grh.sgid_index = ib_iface.gid_info.gid_index;
    attr.ah_attr.grh.hop_limit  = 64;
    ASSERT_EQ(0, ibv_modify_qp(m_qp, &attr,
                               IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC |
                                       IBV_QP_MIN_RNR_TIMER));

    memset(&attr, 0, sizeof(attr));
    attr.qp_state      = IBV_QPS_RTS;
    attr.timeout       = 14; /* 67 ms */
    attr.retry_cnt     = 2;
    attr.rnr_retry     = rnr_retry;
    attr.max_rd_atomic = 1;
    ASSERT_EQ(0, ibv_modify_qp(m_qp, &attr,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                       IBV_QP_MAX_QP_RD_ATOMIC));
}

void raw_peer::vanish()
{
    struct ibv_wc wc;

    if (m_qp == nullptr) {
        return;
    }

    EXPECT_EQ(0, ibv_destroy_qp(m_qp));
    m_qp = nullptr;
    while ((ibv_poll_cq(m_send_cq, 1, &wc) > 0) ||
           (ibv_poll_cq(m_recv_cq, 1, &wc) > 0)) {
    }
    m_posted    = 0;
    m_completed = 0;
    m_status    = IBV_WC_SUCCESS;
    got.clear();
}

void raw_peer::post_recv()
{
    struct ibv_recv_wr wr = {};
    struct ibv_sge sge    = {};
    struct ibv_recv_wr *bad_wr;

    /* Nobody reads what is in it */
    sge.addr   = reinterpret_cast<uintptr_t>(m_mem.data());
    sge.length = recv_length;
    sge.lkey   = m_mr->lkey;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    EXPECT_EQ(0, ibv_post_recv(m_qp, &wr, &bad_wr));
}

int raw_peer::post(enum ibv_wr_opcode opcode, uint32_t imm, const void *data,
                   size_t length, uint64_t remote_addr, uint32_t rkey,
                   bool signaled)
{
    struct ibv_send_wr wr = {};
    struct ibv_sge sge    = {};
    struct ibv_send_wr *bad_wr;
    int ret;

    if ((m_offset < send_mem_begin) || ((m_offset + length) > m_mem.size())) {
        m_offset = send_mem_begin;
    }
    if (data != NULL) {
        memcpy(&m_mem[m_offset], data, length);
    }

    sge.addr      = reinterpret_cast<uintptr_t>(&m_mem[m_offset]);
    sge.length    = length;
    sge.lkey      = m_mr->lkey;
    wr.wr_id      = m_posted + 1;
    wr.opcode     = opcode;
    wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
    wr.imm_data   = htonl(imm);
    wr.sg_list    = &sge;
    wr.num_sge    = (length > 0);
    if ((opcode == IBV_WR_ATOMIC_CMP_AND_SWP) ||
        (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)) {
        wr.wr.atomic.remote_addr = remote_addr;
        wr.wr.atomic.rkey        = rkey;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = remote_addr;
        wr.wr.rdma.rkey        = rkey;
    }

    ret = ibv_post_send(m_qp, &wr, &bad_wr);
    if (ret == 0) {
        ++m_posted;
        m_offset += length;
    }
    return ret;
}

void raw_peer::progress()
{
    struct ibv_wc wc;

    while (ibv_poll_cq(m_send_cq, 1, &wc) > 0) {
        m_completed = wc.wr_id;
        if (m_status == IBV_WC_SUCCESS) {
            m_status = wc.status;
        }
    }

    while (ibv_poll_cq(m_recv_cq, 1, &wc) > 0) {
        if (wc.status == IBV_WC_SUCCESS) {
            got.push_back({ wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM,
                            ntohl(wc.imm_data), wc.byte_len });
            post_recv();
        }
    }
}
