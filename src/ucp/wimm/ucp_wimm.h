/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_H_
#define UCP_WIMM_H_

#include <ucp/api/ucp.h>
#include <stddef.h>
#include <stdint.h>

/**
 * @file ucp_wimm.h
 *
 * Notified puts for UCP programs: one operation writes data into a peer's memory and
 * tells the peer's program that the data is there.
 *
 * A program attaches to a worker that it has, and uses its own endpoints, remote keys
 * and memory handles. The sender:
 *
 *     ucp_wimm_attach(worker, NULL, &wimm);
 *     req = ucp_wimm_put_nbx(wimm, ep, buffer, length, remote_addr, rkey, imm, &param);
 *
 * The receiver takes notifications by a handler (@ref ucp_wimm_handler_t), from a queue
 * (@ref ucp_wimm_poll), or has them counted (@ref ucp_wimm_counter_create).
 *
 * @defgroup UCP_WIMM Notified puts for UCP programs
 *
 * Order and visibility. When a notification is given to the program, in whichever of
 * these ways, all bytes of its put can be read. So can those of every put that was issued
 * earlier on the same endpoint, by this library, or by @ref ucp_put_nbx if these ride
 * the same lane (puts_covered of @ref ucp_wimm_ep_query). Notifications of one
 * endpoint come in the order in which they were issued, each exactly once. Nothing is
 * promised between endpoints, between a notification and UCP's messages, or for plain
 * puts that are issued after a notified one: these may overtake it while it is queued,
 * also after @ref ucp_worker_fence, and need a flush between them. This is what IBTA
 * promises for one queue pair, and what this library keeps above it. A put that fails
 * notifies nobody.
 *
 * The sender's local completion means what it means for @ref ucp_put_nbx: the buffer may
 * be used again. It does *not* mean that the data has arrived, or that the peer knows.
 * @ref ucp_wimm_flush_nbx tells that the data is in place; so do @ref ucp_ep_flush_nbx and
 * @ref ucp_worker_flush_nbx for endpoints with a native way.
 * Only the notification tells the peer's program. Completions need not come in the order
 * of the operations.
 *
 * While UCX goes through what waited for a connection, what a callback issues is put
 * behind all of that, and is not covered by a @ref ucp_ep_flush_nbx that the same
 * callback calls, but by @ref ucp_worker_flush_nbx, and by any later flush. As with UCX's
 * own operations, the callback of an operation must not close its endpoint by force.
 *
 * Emulation. Where UCX reaches a peer without the transport "wimm" (shared memory, TCP,
 * another transport of the device) the same calls are a put, a flush, and an active
 * message behind it, or, where no transport does the put (TCP), active messages that
 * carry the data. The guarantees are the same: visibility, order, exactly once, one slot
 * per notification. But over TCP nothing checks an address or a key, as with UCX's own
 * puts there. It takes an am_id on both sides (@ref ucp_wimm_attach). A put waits, with
 * nothing written, until the peer is attached. To find out, each endpoint sends one
 * message at its first put, and one when somebody attaches; UCX of a peer that is not
 * attached warns of each of them, at length if that has no UCP_FEATURE_AM. So attach
 * before there are endpoints to others. Once the peer has closed its endpoint with @ref
 * ucp_wimm_ep_close_nbx, what was not sent to it ends with UCS_ERR_NOT_CONNECTED. If it
 * has done so with @ref ucp_ep_close_nbx, UCX drops there what comes, and tells nobody:
 * puts are lost, and flushes wait until this side closes.
 *
 * Connections. An operation may be issued as soon as there is an endpoint: until it is
 * connected, and while resources, receive credits or slots of the peer are missing, it
 * is queued, in order. Where RMA needs a remote key, UCX wants it to be unpacked for a
 * connected endpoint if that was made by a connection manager.
 *
 * Threads. As the worker: if it was created with UCS_THREAD_MODE_MULTI, every function
 * here may be called by any thread at any time, but @ref ucp_wimm_detach, which has to
 * be the last. Otherwise the caller serializes them with all other calls on the worker.
 * Handlers are called inside of @ref ucp_worker_progress, by the thread that called it.
 *
 * Errors. A function that is given something that it cannot use (NULL, a handle that is
 * detached, an endpoint of another worker) returns UCS_ERR_INVALID_PARAM, does nothing,
 * and logs a sentence that says what is wrong. Nothing here ends the process.
 */

/* The public symbols of a library that hides all others */
#define UCP_WIMM_API __attribute__((visibility("default")))

BEGIN_C_DECLS


/**
 * @ingroup UCP_WIMM
 * @brief Notified puts on a worker.
 */
typedef struct ucp_wimm *ucp_wimm_h;


/**
 * @ingroup UCP_WIMM
 * @brief Counter of notifications.
 */
typedef struct ucp_wimm_counter *ucp_wimm_counter_h;


/**
 * @ingroup UCP_WIMM
 * @brief No limit of time, for @ref ucp_wimm_wait_some.
 */
#define UCP_WIMM_TIMEOUT_INF (-1.0)


/**
 * @ingroup UCP_WIMM
 * @brief One record of a worker's stream.
 *
 * There is one stream per worker. A record is a notification, or the failure of an
 * endpoint: one per failure, after all notifications that had arrived on the endpoint. An
 * endpoint that fails before it is connected, or that emulates and has sent nothing that
 * fails, is reported with UCS_ERR_CONNECTION_RESET, whatever UCX tells its error callback.
 * If that callback closes it before it was connected, records and counters may tell no
 * more than that it was closed.
 */
typedef struct ucp_wimm_notification {
    ucs_status_t
            status; /**< UCS_OK: a put has arrived. Otherwise the endpoint failed
                              with this status, as UCX gave it to the endpoint's
                              requests. */
    uint32_t imm;   /**< What the sender gave, in host order; 0 for a failure */
    size_t length;  /**< Bytes that the whole put wrote, may be 0 */
    ucp_ep_h ep; /**< The program's endpoint to the sender; NULL if the program
                              has none, or has closed it */
} ucp_wimm_notification_t;


/**
 * @ingroup UCP_WIMM
 * @brief Handler for the records of the stream that no counter has consumed.
 *
 * Called from @ref ucp_worker_progress. It may issue operations, close endpoints, set
 * another handler and use counters. It must not progress the worker; @ref
 * ucp_wimm_wait_some and @ref ucp_wimm_detach return UCS_ERR_INVALID_PARAM in it.
 *
 * @param [in] arg           As given with the handler.
 * @param [in] notification  The record; only valid during the call.
 *
 * @return UCS_OK          Consumed: the sender may send another one for it.
 * @return UCS_INPROGRESS  It goes into the queue, from which @ref ucp_wimm_poll takes it.
 *                         Any other value is taken for UCS_OK.
 */
typedef ucs_status_t (*ucp_wimm_handler_t)(
        void *arg, const ucp_wimm_notification_t *notification);


/**
 * @ingroup UCP_WIMM
 * @brief Fields of @ref ucp_wimm_params_t.
 */
enum ucp_wimm_params_field {
    UCP_WIMM_PARAM_FIELD_HANDLER = UCS_BIT(0), /**< handler */
    UCP_WIMM_PARAM_FIELD_AM_ID   = UCS_BIT(1)  /**< am_id */
};


/**
 * @ingroup UCP_WIMM
 * @brief Parameters of @ref ucp_wimm_attach.
 */
typedef struct ucp_wimm_params {
    uint64_t field_mask; /**< Which fields are set, of @ref ucp_wimm_params_field */

    struct {
        ucp_wimm_handler_t cb; /**< As for @ref ucp_wimm_set_handler */
        void *arg;             /**< Passed to it */
    } handler;

    unsigned am_id; /**< An id of active messages that the program does not use, from 0 to
                         65535, the same one on all sides. Endpoints without a native way
                         are emulated with it; without it they have no notified puts. */
} ucp_wimm_params_t;


/**
 * @ingroup UCP_WIMM
 * @brief Attach to a worker.
 *
 * Notifications that arrived before wait in their order, and are given to the program
 * by the next calls of @ref ucp_worker_progress.
 *
 * With an am_id, peers that are reached without RDMA are told that somebody is attached:
 * what they have emulated until then waits at their side. The id stays the worker's as
 * long as there are such peers, also for who attaches after a @ref ucp_wimm_detach.
 *
 * Each record of the stream is offered to (1) every counter that matches it: it is
 * consumed if one of these has not UCP_WIMM_COUNTER_FLAG_PASS; (2) the handler, if there
 * is one; (3) the queue. A notification in the queue holds one of the slots that its
 * sender has here (UCX_WIMM_NUM_SLOTS), so the queue is bounded. While a sender has none
 * left its notified puts wait; all its other operations, and all other senders, go on.
 *
 * @param [in]  worker  The worker. Its context has to have UCP_FEATURE_RMA, and
 *                      UCP_FEATURE_AM if there is an am_id.
 * @param [in]  params  Parameters, or NULL for none.
 * @param [out] wimm_p  The handle; set only on success.
 *
 * @return UCS_OK
 * @return UCS_ERR_INVALID_PARAM  An argument is NULL, or the worker is attached already;
 *                                the am_id is none, the program has a handler for it, or
 *                                the worker's peers use another one; UCX_WIMM_NUM_SLOTS
 *                                is none.
 * @return UCS_ERR_UNSUPPORTED    The context lacks a feature, or the UCX that is loaded is
 *                                not the one this library was built for (its version, or
 *                                the size of its requests): the error message names it,
 *                                or has both numbers.
 * @return UCS_ERR_NO_MEMORY
 */
UCP_WIMM_API ucs_status_t ucp_wimm_attach(ucp_worker_h worker,
                                          const ucp_wimm_params_t *params,
                                          ucp_wimm_h *wimm_p);


/**
 * @ingroup UCP_WIMM
 * @brief Detach from a worker.
 *
 * To be called before the worker is destroyed (UCX warns of callbacks that remain if it
 * was not). Operations that were issued before go on and complete. What is in the queue
 * is dropped; what arrives later waits until somebody attaches. Counters stay readable
 * and have to be destroyed. If the worker has peers without a native way, some memory stays
 * until another worker has its address, or the process ends.
 *
 * @param [in] wimm  Handle. Functions that get it afterwards return
 *                   UCS_ERR_INVALID_PARAM, until another attach uses its memory again.
 *
 * @return UCS_OK
 * @return UCS_ERR_INVALID_PARAM  Not attached, or called from a handler or, as a callback,
 *                                inside of @ref ucp_worker_progress.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_detach(ucp_wimm_h wimm);


/**
 * @ingroup UCP_WIMM
 * @brief Set or remove the handler.
 *
 * It gets the records that come from now on. What is in the queue stays there.
 *
 * @param [in] wimm  Handle.
 * @param [in] cb    The handler, or NULL for none: then records go into the queue.
 * @param [in] arg   Passed to it.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_set_handler(ucp_wimm_h wimm,
                                               ucp_wimm_handler_t cb,
                                               void *arg);


/**
 * @ingroup UCP_WIMM
 * @brief Write into a peer's memory and notify the peer.
 *
 * As @ref ucp_put_nbx, with a notification once everything is in place. Order, and the
 * meaning of completion, are those at the top of this file. A put up to the device's
 * largest message, and with no more entries than the device takes, is one work request
 * and one message. A longer one is several, with one notification, of the whole
 * length, after the last. Where it is emulated it is what the top of this file says, and
 * UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL refuses it.
 *
 * If the endpoint fails before the put has completed, the request ends with the error
 * (for endpoints with UCP_ERR_HANDLING_MODE_PEER; without it UCX's own rules hold). A
 * put to memory that the peer does not allow fails the endpoint, and notifies nobody; not
 * so over TCP, where it is emulated and not checked.
 *
 * @param [in] wimm         Handle.
 * @param [in] ep           Endpoint of the worker that @a wimm is attached to.
 * @param [in] buffer       Data, or, for the datatype UCP_DATATYPE_IOV, an array of @ref
 *                          ucp_dt_iov_t. May be NULL if nothing is to be written.
 * @param [in] count        Elements of the datatype: bytes, unless the parameters
 *                          give another one. 0 bytes are legal: notify only.
 * @param [in] remote_addr  Remote address to write to, in one piece.
 * @param [in] rkey         Remote key for it, unpacked for @a ep. Not used if there are
 *                          0 bytes.
 * @param [in] imm          Any 32 bits, in host order.
 * @param [in] param        As for @ref ucp_put_nbx, all fields and flags: callback and
 *                          user_data, request, datatype (contiguous or IOV), memory_type,
 *                          memh (of contiguous data), UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
 *                          UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL.
 *
 * @return NULL                Complete: the buffer may be used again.
 * @return A request           In progress. It is one of UCP's own: @ref
 *                             ucp_request_check_status, @ref ucp_request_free, @ref
 *                             ucp_request_is_completed. It stays valid until it is
 *                             freed, its callback is called once.
 * @return An error            Nothing was sent, and nobody will be notified:
 *   UCS_ERR_INVALID_PARAM       @a wimm, @a ep or @a param cannot be used; @a rkey or
 *                               @a buffer is NULL although there are bytes; the memory
 *                               handle has another memory type than the parameter says,
 *                               or does not cover the buffer.
 *   UCS_ERR_UNSUPPORTED         A datatype that is neither contiguous nor IOV; or the
 *                               endpoint has no native way (@ref ucp_wimm_ep_query says
 *                               why), and no am_id was given to emulate it.
 *   UCS_ERR_UNREACHABLE         @a rkey was not made for, or not unpacked on, memory that
 *                               this endpoint reaches.
 *   UCS_ERR_NO_RESOURCE         With UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL: it cannot complete
 *                               at once.
 *   UCS_ERR_NO_MEMORY           No memory for a request.
 *   Others                      The endpoint has failed, or the memory could not be
 *                               registered.
 *   Errors that are found only when a queued put is sent are those of its request.
 */
UCP_WIMM_API ucs_status_ptr_t
ucp_wimm_put_nbx(ucp_wimm_h wimm, ucp_ep_h ep, const void *buffer, size_t count,
                 uint64_t remote_addr, ucp_rkey_h rkey, uint32_t imm,
                 const ucp_request_param_t *param);


/**
 * @ingroup UCP_WIMM
 * @brief Notify a peer, without writing anything.
 *
 * As @ref ucp_wimm_put_nbx of 0 bytes: the notification comes after all that was put
 * before on the endpoint, with length 0.
 *
 * @param [in] wimm   Handle.
 * @param [in] ep     Endpoint of the worker.
 * @param [in] imm    Any 32 bits, in host order.
 * @param [in] param  As for @ref ucp_wimm_put_nbx.
 *
 * @return As @ref ucp_wimm_put_nbx.
 */
UCP_WIMM_API ucs_status_ptr_t
ucp_wimm_notify_nbx(ucp_wimm_h wimm, ucp_ep_h ep, uint32_t imm,
                    const ucp_request_param_t *param);


/**
 * @ingroup UCP_WIMM
 * @brief Flush an endpoint: all that was issued on it, natively or emulated.
 *
 * When it completes, the data of all puts that were issued before is in place, and their
 * requests have completed, or are about to in the same progress. It does *not* mean that
 * the peer's program was notified. For an endpoint that emulates nothing it is @ref
 * ucp_ep_flush_nbx, which does not see the steps of an emulated put. Nor does @ref
 * ucp_worker_flush_nbx.
 *
 * An emulated put waits until the peer is attached, and until it has a slot: so does a
 * flush behind it. It may need an answer of the peer, which comes from the peer's @ref
 * ucp_worker_progress: both sides have to go on with that until both flushes are complete.
 *
 * @param [in] wimm   Handle.
 * @param [in] ep     Endpoint of the worker.
 * @param [in] param  As for @ref ucp_ep_flush_nbx.
 *
 * @return NULL, a request, or an error, as @ref ucp_ep_flush_nbx: UCS_ERR_INVALID_PARAM for
 *         what it cannot use, the status of the endpoint if that fails meanwhile, and
 *         UCS_ERR_NOT_CONNECTED if the peer has closed its endpoint without an answer.
 */
UCP_WIMM_API ucs_status_ptr_t ucp_wimm_flush_nbx(
        ucp_wimm_h wimm, ucp_ep_h ep, const ucp_request_param_t *param);


/**
 * @ingroup UCP_WIMM
 * @brief Close an endpoint, after all that was issued on it, natively or emulated.
 *
 * As @ref ucp_ep_close_nbx. Without UCP_EP_CLOSE_FLAG_FORCE it first waits as @ref
 * ucp_wimm_flush_nbx does, but no longer than 5 seconds for an answer of the peer, and
 * meanwhile the endpoint may still be closed by force. If it fails then, it is closed. With
 * that flag, and with @ref ucp_ep_close_nbx in any case, emulated puts of which the peer
 * was not told yet end with UCS_ERR_CANCELED, or what UCX gives, and notify nobody.
 *
 * @param [in] wimm   Handle.
 * @param [in] ep     Endpoint of the worker. Nothing may be issued on it any more.
 * @param [in] param  As for @ref ucp_ep_close_nbx.
 *
 * @return As @ref ucp_ep_close_nbx.
 */
UCP_WIMM_API ucs_status_ptr_t ucp_wimm_ep_close_nbx(
        ucp_wimm_h wimm, ucp_ep_h ep, const ucp_request_param_t *param);


/**
 * @ingroup UCP_WIMM
 * @brief Take records from the queue.
 *
 * Does not progress the worker. Each notification that is taken gives its slot back to
 * its sender, who is told a number of them at a time, by the next call of @ref
 * ucp_worker_progress, or by this one if the sender emulates.
 *
 * @param [in]  wimm           Handle.
 * @param [out] notifications  Array for the oldest records, in their order.
 * @param [in]  max            Number of elements of it.
 * @param [out] count_p        How many were taken, also 0.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_poll(ucp_wimm_h wimm,
                                        ucp_wimm_notification_t *notifications,
                                        unsigned max, unsigned *count_p);


/**
 * @ingroup UCP_WIMM
 * @brief Look whether the program may sleep.
 *
 * For programs that sleep on the worker (UCP_FEATURE_WAKEUP). What wakes a worker is what
 * arrives; what has arrived already, and waits in this library, does not. So:
 *
 *     for (;;) {
 *         while (ucp_worker_progress(worker)) {}
 *         ... take what there is: ucp_wimm_poll(), counters ...
 *         if ((ucp_wimm_arm(wimm) == UCS_OK) && (ucp_worker_arm(worker) == UCS_OK)) {
 *             poll(the descriptor of ucp_worker_get_efd());
 *         }
 *     }
 *
 * or with @ref ucp_worker_wait, which arms, instead of the last two.
 *
 * Only the thread that progresses a worker should sleep on it: what another one receives
 * meanwhile, with UCS_THREAD_MODE_MULTI, is not there to wake this one any more.
 *
 * @param [in] wimm  Handle.
 *
 * @return UCS_OK         Nothing waits here.
 * @return UCS_ERR_BUSY   There is a record in the queue, or a counter that has reached
 *                        what it expects, or has a failure, and was not looked at since
 *                        (@ref ucp_wimm_counter_test, _read, _take, _reset,
 *                        @ref ucp_wimm_wait_some).
 * @return UCS_ERR_INVALID_PARAM
 */
UCP_WIMM_API ucs_status_t ucp_wimm_arm(ucp_wimm_h wimm);


/**
 * @ingroup UCP_WIMM
 * @brief Fields of @ref ucp_wimm_counter_params_t.
 */
enum ucp_wimm_counter_params_field {
    UCP_WIMM_COUNTER_PARAM_FIELD_MATCH    = UCS_BIT(0), /**< match */
    UCP_WIMM_COUNTER_PARAM_FIELD_ADD      = UCS_BIT(1), /**< add */
    UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED = UCS_BIT(2), /**< expected */
    UCP_WIMM_COUNTER_PARAM_FIELD_EP       = UCS_BIT(3), /**< ep */
    UCP_WIMM_COUNTER_PARAM_FIELD_FLAGS    = UCS_BIT(4), /**< flags */
    UCP_WIMM_COUNTER_PARAM_FIELD_INITIAL  = UCS_BIT(5)  /**< initial */
};


/**
 * @ingroup UCP_WIMM
 * @brief Flags of a counter.
 */
enum ucp_wimm_counter_flags {
    /** Counts what matches, and lets it pass to the handler and the queue */
    UCP_WIMM_COUNTER_FLAG_PASS = UCS_BIT(0)
};


/**
 * @ingroup UCP_WIMM
 * @brief Parameters of @ref ucp_wimm_counter_create.
 */
typedef struct ucp_wimm_counter_params {
    uint64_t field_mask; /**< Which fields are set, of @ref
                              ucp_wimm_counter_params_field */

    struct {
        uint32_t value;
        uint32_t mask;
    } match; /**< Counts notifications with (imm & mask) == value. Without it: all. A
                  value with bits outside of the mask is refused. */

    struct {
        unsigned shift; /**< Lowest bit of the field */
        unsigned bits;  /**< Number of bits, from 1 to 32 - shift */
    } add;              /**< Adds this field of the immediate. Without it: 1. */

    uint64_t expected; /**< The count that it is to reach. Without it: 1. */
    ucp_ep_h ep; /**< Counts only what comes from this endpoint's peer. Without it:
                            from all peers of the worker. */
    uint32_t flags;   /**< Of @ref ucp_wimm_counter_flags */
    uint64_t initial; /**< Count to start with. Without it: 0. */
} ucp_wimm_counter_params_t;


/**
 * @ingroup UCP_WIMM
 * @brief Create a counter.
 *
 * It counts what is delivered from now on, and not what is in the queue. It takes no slot,
 * and no memory per notification. Matching takes the same time for any number of
 * counters with equal masks.
 *
 * A counter also learns when its endpoint fails, or has failed before, or, without one,
 * when any endpoint of the worker fails: @ref ucp_wimm_counter_test.
 *
 * @param [in]  wimm       Handle.
 * @param [in]  params     Parameters, or NULL for none.
 * @param [out] counter_p  The counter; set only on success.
 *
 * @return UCS_OK
 * @return UCS_ERR_INVALID_PARAM  Also if a parameter is out of range, or the endpoint
 *                                is of another worker.
 * @return UCS_ERR_NO_MEMORY
 */
UCP_WIMM_API ucs_status_t ucp_wimm_counter_create(
        ucp_wimm_h wimm, const ucp_wimm_counter_params_t *params,
        ucp_wimm_counter_h *counter_p);


/**
 * @ingroup UCP_WIMM
 * @brief Destroy a counter. Also after the handle was detached.
 *
 * @param [in] counter  The counter, or NULL. No thread may wait for it.
 */
UCP_WIMM_API void ucp_wimm_counter_destroy(ucp_wimm_counter_h counter);


/**
 * @ingroup UCP_WIMM
 * @brief Test a counter. Does not progress the worker.
 *
 * @param [in] counter  The counter.
 *
 * @return UCS_OK                  The count has reached what is expected.
 * @return UCS_INPROGRESS          It has not.
 * @return The status of a failed endpoint (@ref ucp_wimm_notification_t), even if the
 *         count is reached: an endpoint that the counter is bound to has failed. Returned
 *         once per failure; the count stays, and goes on.
 * @return UCS_ERR_NOT_CONNECTED   Not reached, and the endpoint that it is bound to was
 *                                 closed.
 * @return UCS_ERR_EXCEEDS_LIMIT   The count does not fit into 64 bits; it stays at
 *                                 UINT64_MAX until it is reset.
 * @return UCS_ERR_INVALID_PARAM   @a counter is NULL, or its handle was detached.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_counter_test(ucp_wimm_counter_h counter);


/**
 * @ingroup UCP_WIMM
 * @brief Read a counter.
 *
 * @param [in]  counter  The counter. Also after the handle was detached.
 * @param [out] count_p  The count.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_counter_read(ucp_wimm_counter_h counter,
                                                uint64_t *count_p);


/**
 * @ingroup UCP_WIMM
 * @brief Take from a counter, if it has as much.
 *
 * For rounds that may overlap: what has come early for the next round stays counted.
 *
 * @param [in] counter  The counter.
 * @param [in] amount   What to subtract.
 *
 * @return UCS_OK          The count was at least @a amount, which was subtracted.
 * @return UCS_INPROGRESS  It was not. Nothing was done.
 * @return UCS_ERR_INVALID_PARAM, UCS_ERR_EXCEEDS_LIMIT  As @ref ucp_wimm_counter_test.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_counter_take(ucp_wimm_counter_h counter,
                                                uint64_t amount);


/**
 * @ingroup UCP_WIMM
 * @brief Return the count and set it to 0, in one step.
 *
 * Failures that were not returned yet stay.
 *
 * @param [in]  counter   The counter.
 * @param [in]  expected  What it is to reach next.
 * @param [out] count_p   The count so far; may be NULL.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_counter_reset(ucp_wimm_counter_h counter,
                                                 uint64_t expected,
                                                 uint64_t *count_p);


/**
 * @ingroup UCP_WIMM
 * @brief Wait until at least one counter of a set has reached what it expects.
 *
 * Progresses the worker until then, without sleeping: a program that is to sleep uses
 * @ref ucp_wimm_arm. Other threads may progress the worker at the same time, if that is
 * of UCS_THREAD_MODE_MULTI.
 *
 * @param [in]  wimm      Handle.
 * @param [in]  counters  The counters, all of this handle.
 * @param [in]  num       How many, at least 1.
 * @param [in]  timeout   Seconds to wait. 0: progress once, and test.
 *                        @ref UCP_WIMM_TIMEOUT_INF, or less than 0: no limit.
 * @param [out] ready     Indices in @a counters of those that are there, ascending; has
 *                        room for @a num. May be NULL.
 * @param [out] count_p   How many of them. May be NULL.
 *
 * @return UCS_OK             At least one has reached what it expects.
 * @return UCS_ERR_TIMED_OUT  None, in this time; @a count_p is 0.
 * @return Others             As @ref ucp_wimm_counter_test says for the first counter of
 *                            the set that has an error: @a ready has its index, and @a
 *                            count_p is 1. The wait may be entered again.
 * @return UCS_ERR_INVALID_PARAM  Also if called inside of @ref ucp_worker_progress (from
 *                            a handler or a callback). @a count_p is not set.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_wait_some(ucp_wimm_h wimm,
                                             const ucp_wimm_counter_h *counters,
                                             unsigned num, double timeout,
                                             unsigned *ready,
                                             unsigned *count_p);


/**
 * @ingroup UCP_WIMM
 * @brief How notified puts of an endpoint travel. More may be added.
 */
typedef enum ucp_wimm_way {
    UCP_WIMM_WAY_NONE,   /**< They do not: ucp_wimm_put_nbx returns an error */
    UCP_WIMM_WAY_QUEUED, /**< Not known yet: the endpoint is not connected */
    UCP_WIMM_WAY_NATIVE, /**< RDMA WRITE WITH IMMEDIATE, on a lane of "wimm" */
    UCP_WIMM_WAY_EMULATED /**< By UCX's puts and active messages, or these alone */
} ucp_wimm_way_t;


/**
 * @ingroup UCP_WIMM
 * @brief Why an endpoint does not use the native way. More may be added.
 */
typedef enum ucp_wimm_reason {
    UCP_WIMM_REASON_NONE,         /**< It does, or will be able to tell */
    UCP_WIMM_REASON_NO_TRANSPORT, /**< The worker has no interface of "wimm": no device,
                                        or UCX_TLS or UCX_NET_DEVICES exclude it, or the
                                        module was not loaded */
    UCP_WIMM_REASON_OTHER_LANE, /**< UCX chose other transports for this endpoint: the
                                        peer has no "wimm", or another one scored higher
                                        (UCX_WIMM_PREFER) */
    UCP_WIMM_REASON_FAILED /**< The endpoint has failed, or was closed */
} ucp_wimm_reason_t;


/**
 * @ingroup UCP_WIMM
 * @brief Fields of @ref ucp_wimm_ep_attr_t.
 */
enum ucp_wimm_ep_attr_field {
    UCP_WIMM_EP_ATTR_FIELD_WAY          = UCS_BIT(0), /**< way */
    UCP_WIMM_EP_ATTR_FIELD_REASON       = UCS_BIT(1), /**< reason */
    UCP_WIMM_EP_ATTR_FIELD_PUTS_COVERED = UCS_BIT(2), /**< puts_covered */
    UCP_WIMM_EP_ATTR_FIELD_FLOW         = UCS_BIT(3)  /**< flow */
};


/**
 * @ingroup UCP_WIMM
 * @brief How an endpoint stands.
 */
typedef struct ucp_wimm_ep_attr {
    uint64_t field_mask; /**< Fields to fill, of @ref ucp_wimm_ep_attr_field */

    ucp_wimm_way_t way;
    ucp_wimm_reason_t reason;

    int puts_covered; /**< Whether all plain puts of the endpoint ride the lane of the
                           notified ones: then a notification comes after every plain
                           put that was issued before it */

    struct {
        unsigned credits; /**< Messages that the peer has receives for now; 0 if the
                                 way is not native */
        unsigned slots; /**< Notifications that the peer has room for now */
        unsigned num_slots; /**< All that it gives. If the way is emulated: 0 until the
                                 peer has answered that it is attached. */
    } flow;
} ucp_wimm_ep_attr_t;


/**
 * @ingroup UCP_WIMM
 * @brief Tell how notified puts of an endpoint travel, and if not natively, why.
 *
 * @param [in]    wimm  Handle.
 * @param [in]    ep    Endpoint of the worker.
 * @param [inout] attr  Filled as its field_mask says.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_ep_query(ucp_wimm_h wimm, ucp_ep_h ep,
                                            ucp_wimm_ep_attr_t *attr);


/**
 * @ingroup UCP_WIMM
 * @brief Fields of @ref ucp_wimm_attr_t.
 */
enum ucp_wimm_attr_field {
    UCP_WIMM_ATTR_FIELD_CAP      = UCS_BIT(0), /**< cap */
    UCP_WIMM_ATTR_FIELD_QUEUE    = UCS_BIT(1), /**< queue */
    UCP_WIMM_ATTR_FIELD_COUNTERS = UCS_BIT(2)  /**< counters */
};


/**
 * @ingroup UCP_WIMM
 * @brief Limits and counters of a handle.
 */
typedef struct ucp_wimm_attr {
    uint64_t field_mask; /**< Fields to fill, of @ref ucp_wimm_attr_field */

    struct {
        unsigned imm_bits; /**< Bits of the immediate that arrive */
        unsigned num_ifaces; /**< Interfaces of "wimm" that the worker has. If there are
                                  none, the sizes are 0, but not num_slots if there is
                                  an am_id. */
        size_t max_short; /**< Most bytes that are copied into the work request */
        size_t max_bcopy; /**< Most bytes that are copied into a buffer of UCX */
        size_t max_message; /**< Most bytes of one message; longer puts are several */
        size_t max_iov;     /**< Most entries of one message */
        unsigned num_slots; /**< Notifications of each peer that may wait here */
    } cap;                  /**< The smallest of all interfaces */

    struct {
        size_t length; /**< Records that wait for ucp_wimm_poll */
    } queue;

    struct {
        uint64_t puts;     /**< Notified puts issued, also empty ones */
        uint64_t requests; /**< Of these, such that needed a request */
        uint64_t wireup;   /**< Of these, such that waited for a connection */
        uint64_t notifications; /**< Arrived */
        uint64_t counted;       /**< Of these, consumed by counters */
        uint64_t handled;       /**< Of these, consumed by the handler */
        uint64_t queued;        /**< Of these, put into the queue */
        uint64_t failures;      /**< Failures of endpoints */
        uint64_t emulated;      /**< Notified puts issued that were emulated */
    } counters;
} ucp_wimm_attr_t;


/**
 * @ingroup UCP_WIMM
 * @brief Get limits and counters.
 *
 * @param [in]    wimm  Handle.
 * @param [inout] attr  Filled as its field_mask says.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM.
 */
UCP_WIMM_API ucs_status_t ucp_wimm_query(ucp_wimm_h wimm,
                                         ucp_wimm_attr_t *attr);


/**
 * @ingroup UCP_WIMM
 * @brief Set a field of an immediate.
 *
 * @param [inout] imm    Immediate to change; its other bits stay.
 * @param [in]    shift  Lowest bit of the field.
 * @param [in]    bits   Bits of the field, from 1 to 32 - @a shift.
 * @param [in]    value  Value for it.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM if there is no such field or the value does
 *         not fit; then @a imm is as it was.
 */
static inline ucs_status_t ucp_wimm_imm_set(uint32_t *imm, unsigned shift,
                                            unsigned bits, uint64_t value)
{
    uint64_t mask;

    if ((bits == 0) || (bits > 32) || (shift > (32 - bits))) {
        return UCS_ERR_INVALID_PARAM;
    }

    mask = (UINT64_C(1) << bits) - 1;
    if (value > mask) {
        return UCS_ERR_INVALID_PARAM;
    }

    *imm = (uint32_t)((*imm & ~(mask << shift)) | (value << shift));
    return UCS_OK;
}


/**
 * @ingroup UCP_WIMM
 * @brief Get a field of an immediate.
 *
 * @param [in] imm    Immediate.
 * @param [in] shift  Lowest bit of the field, up to 31.
 * @param [in] bits   Bits of the field, from 1 to 32 - @a shift.
 *
 * @return Its value; 0 if there is no such field.
 */
static inline uint32_t ucp_wimm_imm_get(uint32_t imm, unsigned shift,
                                        unsigned bits)
{
    if ((bits == 0) || (bits > 32) || (shift > (32 - bits))) {
        return 0;
    }

    return (uint32_t)((imm >> shift) & ((UINT64_C(1) << bits) - 1));
}


/**
 * @ingroup UCP_WIMM
 * @brief Make an immediate of two halves.
 *
 * @param [in]  high   For the upper 16 bits.
 * @param [in]  low    For the lower 16 bits.
 * @param [out] imm_p  The immediate; set only on success.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM if one of them does not fit.
 */
static inline ucs_status_t ucp_wimm_imm_pack16(uint64_t high, uint64_t low,
                                               uint32_t *imm_p)
{
    if ((high > UINT16_MAX) || (low > UINT16_MAX)) {
        return UCS_ERR_INVALID_PARAM;
    }

    *imm_p = (uint32_t)((high << 16) | low);
    return UCS_OK;
}


/**
 * @ingroup UCP_WIMM
 * @brief Take an immediate of two halves apart.
 *
 * @param [in]  imm     The immediate.
 * @param [out] high_p  Its upper 16 bits.
 * @param [out] low_p   Its lower 16 bits.
 */
static inline void ucp_wimm_imm_unpack16(uint32_t imm, uint16_t *high_p,
                                         uint16_t *low_p)
{
    *high_p = (uint16_t)(imm >> 16);
    *low_p  = (uint16_t)imm;
}

END_C_DECLS

#endif
