/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_QP_H_
#define UCT_WIMM_QP_H_

#include "wimm_iface.h"


enum {
    /* No more receives will be taken from the SRQ (LAST_WQE_REACHED) */
    UCT_WIMM_QP_FLAG_RX_DONE = UCS_BIT(0),

    /* The last request in the send queue was posted without a completion: one
     * that has a completion has to follow, so that the end can be seen */
    UCT_WIMM_QP_FLAG_NEED_MARKER = UCS_BIT(1),

    /* The completion queues were found empty after the time was over */
    UCT_WIMM_QP_FLAG_RX_EMPTY = UCS_BIT(2),
    UCT_WIMM_QP_FLAG_TX_EMPTY = UCS_BIT(3)
};


/* Completion queues that are never found empty are not waited for longer than as
 * many more times, and at least as long */
#define UCT_WIMM_QP_MAX_MORE_TIMEOUTS 9
#define UCT_WIMM_QP_MIN_LIMIT_MSEC    100


/*
 * The queue pair of a destroyed endpoint.
 *
 * UCX destroys such a queue pair when the device has raised LAST_WQE_REACHED,
 * and gives back its credits of the completion queue then. Soft-RoCE never
 * raises it. Here, the send queue is drained by its flush completions, each of
 * which returns its credits; the queue pair goes when the event came, or after a
 * time, when the completion queues were found empty. The base part lets UCX clean
 * up what is left when the interface is closed.
 */
typedef struct uct_wimm_qp {
    uct_rc_verbs_iface_qp_cleanup_ctx_t super;
    uct_rc_verbs_txcnt_t txcnt;
    int16_t available; /* Free send requests */
    int fc_shared;     /* Receives of the pool that its peer could take */
    uint8_t flags;
    ucs_time_t deadline;
    ucs_time_t limit;
} uct_wimm_qp_t;


/**
 * Take over the queue pair of an endpoint that is being destroyed, after its
 * outstanding operations were purged.
 *
 * @param [in] dead_qp  Memory for it, from ucs_malloc(); released by UCX.
 */
void uct_wimm_qp_retire(uct_wimm_qp_t *dead_qp, uct_wimm_ep_t *ep);

/**
 * Have the worker look after those that are there while the interface's progress is
 * disabled, as UCP does with the last endpoint: they would stay until the next one.
 */
void uct_wimm_qp_drain_start(uct_wimm_iface_t *iface);

void uct_wimm_qp_drain_stop(uct_wimm_iface_t *iface);

/* Send completion on a queue pair that has no endpoint any more */
void uct_wimm_qp_completion(uct_wimm_iface_t *iface, const struct ibv_wc *wc);

/**
 * Destroy those that are ready.
 *
 * @param [in] rx_empty  The receive completion queue was found empty: nothing
 *                       that arrived on them is left in it. Devices drop such
 *                       completions together with the queue pair, and with them
 *                       what we know of the receives.
 * @param [in] tx_empty  So was the send completion queue: as much as was set aside
 *                       there for them is free.
 *
 * @return How many were destroyed.
 */
unsigned uct_wimm_qp_progress(uct_wimm_iface_t *iface, int rx_empty,
                              int tx_empty);

#endif
