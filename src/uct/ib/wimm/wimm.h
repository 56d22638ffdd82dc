/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_H_
#define UCT_WIMM_H_

#include <uct/api/uct.h>

/**
 * @file wimm.h
 *
 * Notified puts at UCT level: RDMA WRITE WITH IMMEDIATE on an endpoint of the
 * transport "wimm".
 *
 * A program opens an interface of the transport "wimm" and connects endpoints
 * on it by the calls of @ref uct.h, as for any other transport. All of these
 * (put, get, active messages, atomics, flush, fence, pending queue) work on it.
 * What this file adds is one operation, and the handler for its arrival.
 *
 * @defgroup UCT_WIMM Notified puts (wimm)
 *
 * Threads: the functions follow the rule of UCT. An interface and the endpoints
 * on it belong to one worker, and are used by one thread at a time.
 *
 * Errors: a function that is given an interface or an endpoint of another
 * transport returns UCS_ERR_INVALID_PARAM and does nothing.
 */

/* The public symbols of a module that hides all others */
#define UCT_WIMM_API __attribute__((visibility("default")))

BEGIN_C_DECLS


/**
 * @ingroup UCT_WIMM
 * @brief Handler for the arrival of a notified put.
 *
 * Called from @ref uct_iface_progress or @ref uct_worker_progress, never from
 * another call and never from another thread. It may post operations, flush and
 * destroy endpoints, also @a ep itself, and set or remove the handler.
 *
 * Order and visibility: all bytes of the put, and of every put that the peer
 * posted earlier on the same endpoint, can be read when the handler is called
 * (IBTA: the completion of the receive request is raised after the data of the
 * write was placed; one queue pair keeps the order of writes). Notifications of
 * one endpoint arrive in the order in which they were posted, each exactly
 * once. An active message that was posted later on the same endpoint is not
 * dispatched earlier, but for those that come while there is no handler. Nothing
 * is promised about the order between endpoints.
 *
 * When the connection fails, notifications that had arrived before are still
 * delivered, also after the interface's error handler was called. What was on
 * its way is lost with the connection.
 *
 * @param [in] arg     Argument given to @ref uct_wimm_iface_set_imm_handler.
 * @param [in] ep      Local endpoint that is connected to the sender's.
 * @param [in] imm     The immediate value as the sender gave it, in host order.
 * @param [in] length  Number of bytes that the put wrote; may be 0.
 *
 * @return UCS_OK          The notification is consumed.
 * @return UCS_INPROGRESS  The notification was taken, and is consumed later.
 *                         This version bounds what is outstanding by the receive
 *                         queue alone, and treats all return values alike.
 */
typedef ucs_status_t (*uct_wimm_imm_handler_t)(void *arg, uct_ep_h ep,
                                               uint32_t imm, size_t length);


/**
 * @ingroup UCT_WIMM
 * @brief Set or remove the handler for notified puts that arrive on an interface.
 *
 * While there is no handler, notifications wait in the order of their arrival.
 * Each of them holds one receive request, so their number is bounded by the
 * length of the receive queue (UCX_WIMM_RX_QUEUE_LEN), and one batch of
 * completions (UCX_WIMM_RX_MAX_POLL) if a handler removes itself. All endpoints of the
 * interface share that queue, also for active messages: when waiting
 * notifications hold all of it, the peers' queue pairs wait (RNR) until a handler
 * is set. With UCX_WIMM_RNR_RETRY_COUNT at its default of 7 they wait for as long
 * as that takes and nothing is lost; with a smaller value the connection fails.
 *
 * Progress delivers what waits once a handler is set, before it takes what has
 * arrived since. Destroying an endpoint drops what waits for it, and what arrives
 * for it later.
 *
 * @param [in] iface  Interface of the transport "wimm".
 * @param [in] cb     The handler, or NULL to remove it.
 * @param [in] arg    Passed to the handler.
 *
 * @return UCS_OK                 The handler is used from the next call of
 *                                progress on.
 * @return UCS_ERR_INVALID_PARAM  @a iface is of another transport.
 */
UCT_WIMM_API ucs_status_t uct_wimm_iface_set_imm_handler(
        uct_iface_h iface, uct_wimm_imm_handler_t cb, void *arg);


/**
 * @ingroup UCT_WIMM
 * @brief Write a short buffer into the peer's memory and notify the peer.
 *
 * One work request, one message. As @ref uct_ep_put_short, with a notification:
 * when the data was placed, the peer's handler (@ref uct_wimm_imm_handler_t) is
 * called with @a imm and @a length. It takes one receive request of the peer,
 * which wakes a peer that sleeps on the event descriptor of its interface.
 *
 * Order: after every operation that was posted on the endpoint earlier, as seen
 * by the peer; @ref uct_ep_fence acts on it as on a put.
 *
 * Completion: UCS_OK means that the buffer may be used again, nothing more. It
 * does *not* mean that the data has arrived: a flush of the endpoint tells that,
 * and only the peer's notification tells that the peer knows.
 *
 * @param [in] ep           Connected endpoint of the transport "wimm".
 * @param [in] buffer       Data to write; may be NULL if @a length is 0.
 * @param [in] length       Bytes to write, from 0 to cap.put.max_short of
 *                          @ref uct_iface_query.
 * @param [in] remote_addr  Remote address to write to (not used if length is 0).
 * @param [in] rkey         Remote key of that memory (not used if length is 0).
 * @param [in] imm          Any 32 bits, in host order.
 *
 * @return UCS_OK                 Posted.
 * @return UCS_ERR_NO_RESOURCE    Cannot be posted now; @ref uct_ep_pending_add. A
 *                                pending callback has to turn any other error
 *                                of this function into UCS_OK, after it took
 *                                note of it: UCX asserts that a callback which
 *                                fails does so for want of resources.
 * @return UCS_ERR_INVALID_PARAM  @a ep is of another transport, or @a length is
 *                                too large.
 * @return UCS_ERR_NOT_CONNECTED  The endpoint is not connected.
 * @return UCS_ERR_CONNECTION_RESET  The endpoint has failed (reported to the
 *                                interface's error handler before), or was
 *                                flushed with UCT_FLUSH_FLAG_CANCEL.
 * @return UCS_ERR_IO_ERROR       The device refused the request. Nothing was
 *                                written. The endpoint has failed, progress
 *                                calls the interface's error handler for it.
 *
 * @note With length 0, nothing is written, and a fence stays for the next put.
 * @note A write that fails at the peer (remote key, address range, access)
 *       fails the endpoint, and the peer gets no notification.
 */
UCT_WIMM_API ucs_status_t
uct_wimm_ep_put_imm_short(uct_ep_h ep, const void *buffer, unsigned length,
                          uint64_t remote_addr, uct_rkey_t rkey, uint32_t imm);


END_C_DECLS

#endif
