/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_RC_STATE_H_
#define WIMM_RC_STATE_H_

#include "entity.h"

extern "C" {
#include <uct/ib/rc/verbs/rc_verbs.h>
}

#include <climits>
#include <functional>
#include <map>


/*
 * What the tests look at inside of UCX's rc interface, which the API does not
 * show. wimm's structures begin with those of rc_verbs.
 */
namespace rc_state {

struct ibv_context *context(uct_md_h md);
uct_rc_iface_t *iface(const entity &e);
uct_rc_verbs_ep_t *ep(const entity &e, unsigned index = 0);
struct ibv_qp *qp(const entity &e, unsigned index = 0);
enum ibv_qp_state qp_state(const entity &e, unsigned index = 0);

/* Receive descriptors that are posted or held, and those to be posted */
unsigned rx_in_use(const entity &e);
unsigned rx_available(const entity &e);
unsigned rx_batch(const entity &e);

/* Send buffers in use */
unsigned tx_in_use(const entity &e);

int cq_available(const entity &e);

/* Queue pairs of destroyed endpoints */
unsigned num_dead_qps(const entity &e);
void for_each_dead_qp(
        const entity &e,
        const std::function<void(uct_rc_iface_qp_cleanup_ctx_t *)> &func);

/* What endpoints take of an interface, and give back */
struct queues {
    unsigned receives; /* All that there are */
    int sends;         /* Free ones of its completion queue */
    unsigned send_buffers_in_use;
    unsigned num_dead_qps;

    bool operator==(const queues &other) const;
    std::string str() const;
};

queues queues_of(uct_iface_h tl_iface);

/* Most bytes that a request can carry itself */
size_t max_inline(const entity &e);

/* Most completions of receives that are taken in one poll */
unsigned tx_max_poll(const entity &e);
unsigned rx_max_poll(const entity &e);

/* Bytes of a packet on the path of the interface */
size_t path_mtu(const entity &e);

/* Whether the device is Soft-RoCE */
bool is_soft_roce();

/* Move the queue pair of an endpoint to the error state */
void set_error(const entity &e, unsigned index = 0);

/* Whether a fence was asked for that no operation of the endpoint took yet */
bool fence_waits(const entity &e, unsigned index = 0);

/* Free requests of the send queue, and how many there are */
int sq_available(const entity &e, unsigned index = 0);
int sq_length(const entity &e);

/* How many queue pairs the device has, of all processes; -1 if unknown */
int device_num_qps();

/* Times that the device had no receive for a message (RNR), as sender and as
 * receiver, of all processes */
uint64_t device_num_rnr();

/* Post one request on the queue pair of an endpoint, past the transport, and
 * keep its books. @return What ibv_post_send() returned. */
int raw_post(const entity &e, unsigned index, struct ibv_send_wr *wr);

/* The same with a message of a few bytes, or of none */
int raw_send(const entity &e, unsigned index, enum ibv_wr_opcode opcode,
             uint32_t imm, const void *data = NULL, unsigned length = 0);

} // namespace rc_state


/*
 * Replaces a verb of the device context of a side as long as it lives. The
 * function tells what the verb returns: 0 to call the real one. One at a time for
 * each side. What it returns for POLL_CQ may also be EMPTY: nothing is found.
 */
class verbs_fault {
  public:
    typedef std::function<int(const void *)> func_t;
    typedef std::function<int(const struct ibv_qp *, const struct ibv_send_wr *)>
            send_func_t;

    /* How many receives of so many are taken */
    typedef std::function<unsigned(unsigned)> recv_func_t;

    enum verb_t {
        POST_SEND,
        POST_SRQ_RECV,
        POLL_CQ,
        REQ_NOTIFY_CQ
    };

    static const int EMPTY = INT_MIN;

    /* The function gets the queue pair, the shared receive queue, or the
     * completion queue */
    verbs_fault(const entity &e, verb_t verb, func_t func);

    /* POST_SEND, and the function also sees the first request */
    verbs_fault(const entity &e, send_func_t func);

    /* POST_SRQ_RECV, also before there is an interface */
    verbs_fault(uct_md_h md, recv_func_t func);
    ~verbs_fault();

    verbs_fault(const verbs_fault &)            = delete;
    verbs_fault &operator=(const verbs_fault &) = delete;

  private:
    void replace(struct ibv_context *ctx, verb_t verb);

    static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                         struct ibv_send_wr **bad_wr);
    static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                             struct ibv_recv_wr **bad_wr);
    int post_srq_recv_some(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                           struct ibv_recv_wr **bad_wr) const;
    static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc);
    static int req_notify_cq(struct ibv_cq *cq, int solicited_only);

    static std::map<const struct ibv_context *, verbs_fault *> m_faults;

    const struct ibv_context *m_ctx;
    struct ibv_context_ops *m_ops;
    struct ibv_context_ops m_saved;
    func_t m_func;
    send_func_t m_send_func;
    recv_func_t m_recv_func;
};


/*
 * Makes calls that create or modify a queue pair fail as long as it lives, in
 * the whole process. The function is called before each of them and tells
 * whether it fails.
 */
class qp_fault {
  public:
    enum verb_t {
        CREATE_QP,
        MODIFY_QP
    };

    typedef std::function<bool()> func_t;

    qp_fault(verb_t verb, func_t func);
    ~qp_fault();

    qp_fault(const qp_fault &)            = delete;
    qp_fault &operator=(const qp_fault &) = delete;

    /* Whether a call is to fail now */
    static bool fails(verb_t verb);

  private:
    static qp_fault *m_current;

    verb_t m_verb;
    func_t m_func;
};

#endif
