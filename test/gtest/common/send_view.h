/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_SEND_VIEW_H_
#define WIMM_SEND_VIEW_H_

#include "rc_state.h"

#include <algorithm>
#include <vector>


/* Records what a side posts, request by request, as long as it lives */
class send_view {
  public:
    struct request {
        const struct ibv_qp *qp;
        enum ibv_wr_opcode opcode;
        unsigned flags; /* IBV_SEND_xx */
        std::vector<size_t> sge;
        uint32_t imm_data;
        uint64_t remote_addr;
        uint32_t rkey;

        bool signaled() const
        {
            return flags & IBV_SEND_SIGNALED;
        }

        bool is_imm() const
        {
            return opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
        }
    };

    explicit send_view(const entity &e)
        : m_fault(e, [this](const struct ibv_qp *qp,
                            const struct ibv_send_wr *wr) {
              for (; wr != nullptr; wr = wr->next) {
                  add(qp, wr);
              }
              return 0;
          })
    {
    }

    size_t count_imm() const
    {
        return std::count_if(got.begin(), got.end(),
                             [](const request &r) { return r.is_imm(); });
    }

    size_t count_signaled() const
    {
        return std::count_if(got.begin(), got.end(),
                             [](const request &r) { return r.signaled(); });
    }

    std::vector<request> got;

  private:
    void add(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
    {
        request r = { qp,
                      wr->opcode,
                      wr->send_flags,
                      {},
                      wr->imm_data,
                      wr->wr.rdma.remote_addr,
                      wr->wr.rdma.rkey };

        for (int i = 0; i < wr->num_sge; ++i) {
            r.sge.push_back(wr->sg_list[i].length);
        }
        got.push_back(r);
    }

    verbs_fault m_fault;
};


/* Send completions of a side wait as long as it lives */
class tx_hold : public verbs_fault {
  public:
    explicit tx_hold(const entity &e)
        : tx_hold(e, rc_state::iface(e)->super.cq[UCT_IB_DIR_TX])
    {
    }

  private:
    tx_hold(const entity &e, const void *tx_cq)
        : verbs_fault(e, POLL_CQ, [tx_cq](const void *cq) {
              return (cq == tx_cq) ? EMPTY : 0;
          })
    {
    }
};

#endif
