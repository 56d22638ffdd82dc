/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_NATIVE_H_
#define UCP_WIMM_NATIVE_H_

#include "ucp_wimm_int.h"

#include <ucs/config/types.h>
#include <uct/api/uct.h>


ucs_status_t ucp_wimm_native_init(ucp_wimm_h wimm);

/* The last operation is done: free what they needed */
void ucp_wimm_native_cleanup(ucp_wimm_h wimm);

/* Put: the worker is not locked yet */
ucs_status_ptr_t ucp_wimm_native_put(ucp_wimm_h wimm, ucp_ep_h ep,
                                     const void *buffer, size_t count,
                                     uint64_t remote_addr, ucp_rkey_h rkey,
                                     uint32_t imm,
                                     const ucp_request_param_t *param);

/* What is known about an endpoint */
typedef struct ucp_wimm_ep_info {
    int has_lane;       /* UCP chose the transport */
    int is_placeholder; /* UCP has not chosen anything yet */
    int puts_covered;   /* Plain puts use no other lane */
    uct_ep_h uct_ep;    /* Of the lane; NULL if it is not connected */
} ucp_wimm_ep_info_t;

void ucp_wimm_native_ep_info(ucp_wimm_h wimm, ucp_ep_h ep,
                             ucp_wimm_ep_info_t *info);

/* Call @a cb for each interface of the transport */
void ucp_wimm_native_for_each_iface(ucp_worker_h worker,
                                    void (*cb)(uct_iface_h iface, void *arg),
                                    void *arg);

/* What this was built for: ucp_context_query() tells what is loaded */
size_t ucp_wimm_native_request_size(void);

ucp_context_h ucp_wimm_native_context(ucp_worker_h worker);

/* Whether the worker's context has UCP_FEATURE_RMA */
int ucp_wimm_native_has_rma(ucp_worker_h worker);

/* As _has_rma, of UCP_FEATURE_AM */
int ucp_wimm_native_has_am(ucp_worker_h worker);

/* Whether there is a handler for active messages with an id */
int ucp_wimm_native_has_am_handler(ucp_worker_h worker, unsigned id);

/* Fill @a config from the environment: @a table has the keys after "UCX_WIMM_" */
ucs_status_t ucp_wimm_native_read_config(void *config,
                                         ucs_config_field_t *table);

/* Have each ucp_worker_progress() call @a cb, until it is removed */
void ucp_wimm_native_add_progress(ucp_worker_h worker, ucs_callback_t cb,
                                  void *arg, uct_worker_cb_id_t *id_p);

/* Inside of ucp_worker_progress() it may be called once more */
void ucp_wimm_native_remove_progress(ucp_worker_h worker,
                                     uct_worker_cb_id_t *id_p);

/* Tells a worker from another one that had its address before */
uint64_t ucp_wimm_native_worker_id(ucp_worker_h worker);

/* Changes with each endpoint that the program creates or closes, or that fails */
uint64_t ucp_wimm_native_ep_events(ucp_worker_h worker);

/* Whether the program has an endpoint, and has not closed it */
int ucp_wimm_native_ep_is_open(ucp_ep_h ep);

/* Whether it failed while the program had it: a close by force is no failure */
int ucp_wimm_native_ep_is_failed(ucp_ep_h ep);

/* Whether the program has closed it, but UCP still needs it */
int ucp_wimm_native_ep_is_closed(ucp_ep_h ep);

/* Mark an endpoint, to tell it from a later one at the same address */
void ucp_wimm_native_ep_mark(ucp_ep_h ep);

int ucp_wimm_native_ep_is_marked(ucp_ep_h ep);

/* The endpoint with this UCT endpoint in a lane, or NULL. UCP has no map of them. */
ucp_ep_h ucp_wimm_native_find_ep(ucp_worker_h worker, uct_ep_h uct_ep);

/* Call @a cb for each endpoint that UCP has, also if the program does not have it. It
 * must not create or close any. */
void ucp_wimm_native_for_each_ep(ucp_worker_h worker,
                                 void (*cb)(ucp_ep_h ep, void *arg), void *arg);

/* Whether UCP has connected it to a peer, or is about to, without a native way */
int ucp_wimm_native_ep_is_emulated(ucp_wimm_h wimm, ucp_ep_h ep);

/* Whether a transport does its plain puts, and not UCX with the peer's help */
int ucp_wimm_native_ep_has_puts(ucp_ep_h ep);

/* Most bytes of an active message that is not in pieces */
size_t ucp_wimm_native_ep_max_am(ucp_ep_h ep);

/* Whether UCP has notified puts in its queue that may turn out to have no native way, or
 * would put one there */
int ucp_wimm_native_ep_is_queueing(ucp_wimm_h wimm, ucp_ep_h ep);

/* The status with which UCP purges a failed endpoint */
ucs_status_t ucp_wimm_native_purge_status(uct_pending_purge_callback_t cb,
                                          void *arg);


/*
 * Requests that go another way. They are UCP's, so that the program can use them as such.
 */

/* A request that is to be completed by ucp_wimm_native_op_complete().
 * @return NULL if there is no memory. */
uct_pending_req_t *ucp_wimm_native_op_create(ucp_wimm_h wimm, ucp_ep_h ep,
                                             const ucp_request_param_t *param);

/* What the program gets for it; it may be complete already */
ucs_status_ptr_t ucp_wimm_native_op_return(uct_pending_req_t *op,
                                           const ucp_request_param_t *param);

/* What it notifies of */
void ucp_wimm_native_op_get(uct_pending_req_t *op, uint32_t *imm_p,
                            size_t *length_p);

/* Whether the program's own messages carry its data */
int ucp_wimm_native_op_is_by_am(uct_pending_req_t *op);

/* Take the next piece of the data, of at most @a max bytes.
 * @return Whether it is the last one, which may be empty. */
int ucp_wimm_native_op_pull(uct_pending_req_t *op, size_t max,
                            const void **ptr_p, size_t *length_p,
                            uint64_t *remote_addr_p);

/* How many plain puts it takes, and one of them; @a cb gets @a op as its user_data */
size_t ucp_wimm_native_op_num_puts(uct_pending_req_t *op);

ucs_status_ptr_t ucp_wimm_native_op_put(uct_pending_req_t *op, size_t index,
                                        ucp_send_nbx_callback_t cb);

/* Its callback may free it */
void ucp_wimm_native_op_complete(uct_pending_req_t *op, ucs_status_t status);

#endif
