/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_RAW_PEER_H_
#define WIMM_RAW_PEER_H_

#include "../common/entity.h"

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>


/*
 * A peer that speaks RC, and not wimm: a device context, a queue pair and memory of
 * its own, without UCX. It says whatever it is told to.
 */
class raw_peer {
  public:
    /* What came from the endpoint */
    struct message {
        bool is_put;
        uint32_t imm;
        unsigned length;
    };

    /* Bytes of a message */
    static const size_t max_length = 256 * 1024;

    /* @a sq_len: requests that it can have outstanding. Few are quick to create. */
    explicit raw_peer(const entity &e, unsigned sq_len = 64);
    ~raw_peer();

    raw_peer(const raw_peer &)            = delete;
    raw_peer &operator=(const raw_peer &) = delete;

    /* A new queue pair, and the address that it has: of a device and an endpoint,
     * as entity::address() */
    std::vector<uint8_t> create(unsigned credits, unsigned slots);

    /* Move it to where it can send and receive. @a rnr_retry: 7 for ever, 0 never */
    void connect(unsigned index, unsigned rnr_retry = 7);

    /* Destroy the queue pair, whatever is on its way */
    void vanish();

    /* Post one request. The data is copied. */
    int post(enum ibv_wr_opcode opcode, uint32_t imm, const void *data = NULL,
             size_t length = 0, uint64_t remote_addr = 0, uint32_t rkey = 0,
             bool signaled = true);

    /* Take what was completed and what came, as long as there is something */
    void progress();

    /* Whether the device has answered all that was posted and signaled */
    bool is_idle() const
    {
        return m_posted == m_completed;
    }

    unsigned room() const
    {
        return m_sq_len - (m_posted - m_completed);
    }

    /* How the first request ended that did not go well, or IBV_WC_SUCCESS */
    enum ibv_wc_status status() const
    {
        return m_status;
    }

    std::deque<message> got;

  private:
    void post_recv();

    const entity &m_entity;
    const unsigned m_sq_len;
    struct ibv_context *m_ctx = nullptr;
    struct ibv_pd *m_pd       = nullptr;
    struct ibv_cq *m_send_cq  = nullptr;
    struct ibv_cq *m_recv_cq  = nullptr;
    struct ibv_qp *m_qp       = nullptr;
    struct ibv_mr *m_mr       = nullptr;
    std::vector<uint8_t> m_mem;
    size_t m_offset             = 0;
    uint64_t m_posted           = 0;
    uint64_t m_completed        = 0;
    enum ibv_wc_status m_status = IBV_WC_SUCCESS;
};

#endif
