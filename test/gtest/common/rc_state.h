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

#include <functional>


/*
 * What the tests look at inside of UCX's rc interface, which the API does not
 * show. wimm's structures begin with those of rc_verbs.
 */
namespace rc_state {

uct_rc_iface_t *iface(const entity &e);
uct_rc_verbs_ep_t *ep(const entity &e, unsigned index = 0);
struct ibv_qp *qp(const entity &e, unsigned index = 0);

/* Receive descriptors that are posted or held, and those to be posted */
unsigned rx_in_use(const entity &e);
unsigned rx_available(const entity &e);
unsigned rx_batch(const entity &e);

int cq_available(const entity &e);
unsigned num_dead_qps(const entity &e);

/* Free requests of the send queue, and how many there are */
int sq_available(const entity &e, unsigned index = 0);
int sq_length(const entity &e);

/* How many queue pairs the device has, of all processes; -1 if unknown */
int device_num_qps();

/* Post one request on the queue pair of an endpoint, past the transport, and
 * keep its books. @return What ibv_post_send() returned. */
int raw_post(const entity &e, unsigned index, struct ibv_send_wr *wr);

} // namespace rc_state


/*
 * Replaces a verb of the device context of a side as long as it lives. The
 * function tells what the verb returns: 0 to call the real one.
 */
class verbs_fault {
  public:
    typedef std::function<int(const void *)> func_t;

    enum verb_t {
        POST_SEND,
        POST_SRQ_RECV
    };

    /* The function gets the queue pair or the shared receive queue */
    verbs_fault(const entity &e, verb_t verb, func_t func);
    ~verbs_fault();

    verbs_fault(const verbs_fault &)            = delete;
    verbs_fault &operator=(const verbs_fault &) = delete;

  private:
    static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                         struct ibv_send_wr **bad_wr);
    static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                             struct ibv_recv_wr **bad_wr);

    static verbs_fault *m_current;

    struct ibv_context_ops *m_ops;
    struct ibv_context_ops m_saved;
    func_t m_func;
};

#endif
