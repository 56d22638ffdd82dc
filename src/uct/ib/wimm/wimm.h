/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_H_
#define UCT_WIMM_H_

#include <uct/api/uct.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * @file wimm.h
 *
 * Notified puts at UCT level: RDMA WRITE WITH IMMEDIATE on an endpoint of the
 * transport "wimm".
 *
 * A program opens an interface of the transport "wimm" and connects endpoints
 * on it by the calls of @ref uct.h, as for any other transport. All of these
 * (put, get, active messages, atomics, flush, fence, pending queue) work on it.
 * What this file adds are notified puts, and the handler for their arrival.
 * Plain puts report what notified ones do of an endpoint that cannot be used
 * (UCS_ERR_NOT_CONNECTED, UCS_ERR_CONNECTION_RESET), and of a device that refuses
 * the request (UCS_ERR_IO_ERROR). Where it refuses a get, an active message or an
 * atomic, UCX ends the process.
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
 * Each notification takes one of the slots that the peer has on this interface
 * (UCX_WIMM_NUM_SLOTS), until it is consumed. While all are taken the peer's
 * notified puts wait, and nothing else does.
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
 * @return UCS_OK          The notification is consumed: its slot is free.
 * @return UCS_INPROGRESS  The notification keeps its slot until
 *                         @ref uct_wimm_ep_slot_release.
 * @return An error        The notification is lost, for want of memory for instance:
 *                         the endpoint fails with this status, and nothing is
 *                         delivered for it any more.
 */
typedef ucs_status_t (*uct_wimm_imm_handler_t)(void *arg, uct_ep_h ep,
                                               uint32_t imm, size_t length);


/**
 * @ingroup UCT_WIMM
 * @brief Counters of an endpoint, or of an interface.
 *
 * Those of an interface are the sums over its endpoints, also over the destroyed
 * ones. Control messages are what wimm sends besides the operations of the user;
 * some of them need no counter of their own.
 */
typedef struct uct_wimm_counters {
    uint64_t posted;        /**< Notified puts posted */
    uint64_t delivered;     /**< Notifications given to the handler */
    uint64_t credit_stalls; /**< Refusals (UCS_ERR_NO_RESOURCE) of notified
                                 puts for want of a receive credit */
    uint64_t slot_stalls;   /**< Refusals for want of a slot */
    uint64_t grants;        /**< Grants of receive credits sent, also along with
                                 slots */
    uint64_t slot_returns;  /**< Returns of slots sent; each may be of many */
    uint64_t ctrl_sent;     /**< All control messages sent */
    uint64_t ctrl_received; /**< All control messages received */
    uint64_t failed;        /**< Endpoints that failed: 0 or 1 of an endpoint */
} uct_wimm_counters_t;


/**
 * @ingroup UCT_WIMM
 * @brief What a user of an endpoint wants to be told about it.
 *
 * Part of a structure of the user, of which there is one for the endpoint. Set by @ref
 * uct_wimm_ep_set_user. Both functions are called by the thread that makes the call
 * that they tell about.
 */
typedef struct uct_wimm_ep_user uct_wimm_ep_user_t;
struct uct_wimm_ep_user {
    /** @ref uct_ep_pending_purge is called on the endpoint with this callback and
     *  argument. Nothing was purged yet. */
    void (*purged)(uct_wimm_ep_user_t *self, uct_pending_purge_callback_t cb,
                   void *arg);

    /** The endpoint is destroyed: nothing will be delivered for it any more. It must
     *  not be used, and @a self will not be used any more. */
    void (*destroyed)(uct_wimm_ep_user_t *self);
};


/**
 * @ingroup UCT_WIMM
 * @brief Fields of @ref uct_wimm_iface_attr_t.
 */
enum uct_wimm_iface_attr_field {
    UCT_WIMM_IFACE_ATTR_FIELD_CAP       = UCS_BIT(0), /**< cap */
    UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS = UCS_BIT(1), /**< num_slots */
    UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE  = UCS_BIT(2), /**< rx_queue */
    UCT_WIMM_IFACE_ATTR_FIELD_COUNTERS  = UCS_BIT(3)  /**< counters */
};


/**
 * @ingroup UCT_WIMM
 * @brief Limits and counters of an interface.
 */
typedef struct uct_wimm_iface_attr {
    uint64_t field_mask; /**< Fields to fill, of
                              @ref uct_wimm_iface_attr_field */

    struct {
        size_t max_short;  /**< Most bytes of a short put (the device's inline
                                data, UCX_WIMM_TX_MIN_INLINE) */
        size_t max_bcopy;  /**< Most bytes of a bcopy put */
        size_t max_zcopy;  /**< Most bytes of a zcopy put (the device's
                                largest message) */
        size_t max_iov;    /**< Most entries of a zcopy put: what the device
                                gives for UCX_WIMM_TX_MIN_SGE, at most 8 as in
                                UCX */
        unsigned imm_bits; /**< Bits of the immediate */
    } cap;

    unsigned num_slots; /**< Slots that each peer has here */

    struct {
        unsigned length;     /**< Receive requests of the interface */
        unsigned min_length; /**< Fewest with which the endpoints that it has now
                                  never have to wait for one (RNR), if all have
                                  flow control. Those that were destroyed count
                                  as long as the device may receive for them. */
    } rx_queue;

    uct_wimm_counters_t counters;
} uct_wimm_iface_attr_t;


/**
 * @ingroup UCT_WIMM
 * @brief Fields of @ref uct_wimm_ep_attr_t.
 */
enum uct_wimm_ep_attr_field {
    UCT_WIMM_EP_ATTR_FIELD_FLOW_CONTROL = UCS_BIT(0), /**< flow_control */
    UCT_WIMM_EP_ATTR_FIELD_CREDITS      = UCS_BIT(1), /**< credits */
    UCT_WIMM_EP_ATTR_FIELD_SLOTS        = UCS_BIT(2), /**< slots, num_slots */
    UCT_WIMM_EP_ATTR_FIELD_COUNTERS     = UCS_BIT(3)  /**< counters */
};


/**
 * @ingroup UCT_WIMM
 * @brief State and counters of an endpoint.
 */
typedef struct uct_wimm_ep_attr {
    uint64_t field_mask; /**< Fields to fill, of @ref uct_wimm_ep_attr_field */

    int flow_control; /**< Whether there are receive credits: both sides have
                           UCX_WIMM_FC_ENABLE=y */
    unsigned credits; /**< Messages (notified puts and active messages) that can
                           be sent now; of no meaning without flow control */
    unsigned slots;   /**< Notified puts that the peer has room for now */
    unsigned num_slots; /**< Slots that the peer gives, 0 if not connected */

    uct_wimm_counters_t counters;
} uct_wimm_ep_attr_t;


/**
 * @ingroup UCT_WIMM
 * @brief Set or remove the handler for notified puts that arrive on an interface.
 *
 * While there is no handler, notifications wait in the order of their arrival.
 * Each keeps its slot, so that a peer has no more than UCX_WIMM_NUM_SLOTS of them
 * waiting; active messages of all peers, and what they put without a
 * notification, go on.
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
 * @brief Free slots of notifications for which the handler returned
 *        UCS_INPROGRESS.
 *
 * Slots of an endpoint are alike: only their number counts. The peer is told when
 * half of its slots are free again, or a quarter along with a grant of receive
 * credits, or when it may have none left, by the next call of progress, or when the
 * interface's event is armed. May be called
 * from the handler. For the notification that it was called for, either this is
 * called or UCS_OK returned: with both, a slot of another one is freed.
 *
 * @param [in] ep     Endpoint that the handler was called with.
 * @param [in] count  Number of slots to free; may be 0.
 *
 * @return UCS_OK                 Freed. Also if the endpoint has failed.
 * @return UCS_ERR_INVALID_PARAM  @a ep is of another transport, or holds fewer
 *                                slots than @a count. Nothing was freed.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_slot_release(uct_ep_h ep, unsigned count);


/**
 * @ingroup UCT_WIMM
 * @brief Write a short buffer into the peer's memory and notify the peer.
 *
 * One work request, one message. As @ref uct_ep_put_short, with a notification:
 * when the data was placed, the peer's handler (@ref uct_wimm_imm_handler_t) is
 * called with @a imm and @a length. It takes one receive request of the peer,
 * which wakes a peer that sleeps on the event descriptor of its interface, and
 * one of its slots.
 *
 * Order: after every operation that was posted on the endpoint earlier, as seen
 * by the peer, and after every request that was queued on it earlier;
 * @ref uct_ep_fence acts on it as on a put. Once posted, it comes before what is
 * posted later. While it waits in a queue for a slot, a receive credit or a buffer,
 * operations that do not need these can still be posted, and come before it.
 *
 * Completion: UCS_OK means that the buffer may be used again, nothing more. It
 * does *not* mean that the data has arrived: a flush of the endpoint tells that,
 * and only the peer's notification tells that the peer knows.
 *
 * @param [in] ep           Connected endpoint of the transport "wimm".
 * @param [in] buffer       Data to write; may be NULL if @a length is 0.
 * @param [in] length       Bytes to write, from 0 to cap.max_short of
 *                          @ref uct_wimm_iface_query.
 * @param [in] remote_addr  Remote address to write to (not used if length is 0).
 * @param [in] rkey         Remote key of that memory (not used if length is 0).
 * @param [in] imm          Any 32 bits, in host order.
 *
 * @return UCS_OK                 Posted.
 * @return UCS_ERR_NO_RESOURCE    Cannot be posted now: resources, a receive credit
 *                                or a slot are missing, or others wait on the
 *                                endpoint. @ref uct_wimm_ep_imm_pending_add
 *                                queues it. A pending callback has to turn any
 *                                other error of this function into UCS_OK, after
 *                                it took note of it: UCX takes a callback that
 *                                fails for one that wants resources.
 * @return UCS_ERR_INVALID_PARAM  @a ep is of another transport, or @a length is
 *                                too large.
 * @return UCS_ERR_NOT_CONNECTED  The endpoint is not connected.
 * @return UCS_ERR_CONNECTION_RESET  The endpoint has failed (the interface's error
 *                                handler was called, or progress will call it), or
 *                                was flushed with UCT_FLUSH_FLAG_CANCEL.
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


/**
 * @ingroup UCT_WIMM
 * @brief Pack data, write it into the peer's memory and notify the peer.
 *
 * As @ref uct_ep_put_bcopy, with a notification; order and the meaning of
 * completion as for @ref uct_wimm_ep_put_imm_short. The callback packs into a
 * registered buffer of the interface; it is called only if everything else that
 * the put needs is there, and once.
 *
 * @param [in] ep           Connected endpoint of the transport "wimm".
 * @param [in] pack_cb      Packs the data, and returns its length, from 0 to
 *                          cap.max_bcopy bytes of @ref uct_wimm_iface_query.
 * @param [in] arg          Passed to @a pack_cb.
 * @param [in] remote_addr  Remote address to write to.
 * @param [in] rkey         Remote key of that memory.
 * @param [in] imm          Any 32 bits, in host order.
 *
 * @return 0 or more          Posted: the length that @a pack_cb returned.
 * @return UCS_ERR_NO_MEMORY  No memory for another buffer, although the interface
 *                            may have more. Nothing was posted.
 * @return < 0                Another error as of @ref uct_wimm_ep_put_imm_short.
 *                            Only UCS_ERR_IO_ERROR comes after @a pack_cb was
 *                            called.
 */
UCT_WIMM_API ssize_t uct_wimm_ep_put_imm_bcopy(uct_ep_h ep,
                                               uct_pack_callback_t pack_cb,
                                               void *arg, uint64_t remote_addr,
                                               uct_rkey_t rkey, uint32_t imm);


/**
 * @ingroup UCT_WIMM
 * @brief Write registered memory into the peer's memory and notify the peer.
 *
 * As @ref uct_ep_put_zcopy, with a notification; one work request and one message
 * at any size, with one notification of the whole length. Order as for
 * @ref uct_wimm_ep_put_imm_short.
 *
 * Completion: @a comp is called when the peer's device has acknowledged the
 * write: the memory may be used again, and the data is in place. It does *not*
 * mean that the peer's program was notified yet. If the endpoint fails first,
 * @a comp gets the error.
 *
 * @param [in] ep           Connected endpoint of the transport "wimm".
 * @param [in] iov          Memory to write, with its memory handles. Entries of
 *                          length 0 are left out.
 * @param [in] iovcnt       Entries of @a iov, from 0 to cap.max_iov of
 *                          @ref uct_wimm_iface_query. In all from 0 to
 *                          cap.max_zcopy bytes.
 * @param [in] remote_addr  Remote address to write to, in one piece.
 * @param [in] rkey         Remote key of that memory.
 * @param [in] imm          Any 32 bits, in host order.
 * @param [in] comp         Completion, or NULL: then a flush tells when the memory
 *                          may be used again.
 *
 * @return UCS_INPROGRESS  Posted. Also if the length is 0.
 * @return < 0             An error as of @ref uct_wimm_ep_put_imm_short; @a comp is
 *                         not called.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_put_imm_zcopy(
        uct_ep_h ep, const uct_iov_t *iov, size_t iovcnt, uint64_t remote_addr,
        uct_rkey_t rkey, uint32_t imm, uct_completion_t *comp);


/**
 * @ingroup UCT_WIMM
 * @brief Notify the peer, without writing anything.
 *
 * As @ref uct_wimm_ep_put_imm_short of 0 bytes: the peer's handler is called with
 * @a imm and length 0, after all that was put before. No memory or key is needed.
 *
 * @param [in] ep   Connected endpoint of the transport "wimm".
 * @param [in] imm  Any 32 bits, in host order.
 *
 * @return As @ref uct_wimm_ep_put_imm_short.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_notify(uct_ep_h ep, uint32_t imm);


/**
 * @ingroup UCT_WIMM
 * @brief Announce the length of a put in several messages.
 *
 * For what does not fit in one message, or in the entries of one: this call, then
 * plain puts of all parts but the last (@ref uct_ep_put_zcopy), then a notified put
 * of the last part, whose notification has the announced length. One message, which
 * takes a receive credit of the peer as a notified put does, and the conditions of
 * one; the notified put may have to wait for a slot or a credit all the same.
 *
 * Between this call and the notified put nothing else may be notified on the
 * endpoint. A pending callback that gets UCS_ERR_NO_RESOURCE on the way returns it,
 * or UCS_INPROGRESS, and goes on when it is called again: nobody comes in between.
 * If the connection fails first, nothing is delivered.
 *
 * @param [in] ep      Connected endpoint of the transport "wimm".
 * @param [in] length  Bytes of all parts, at least those of the last.
 *
 * @return As @ref uct_wimm_ep_put_imm_short, also UCS_ERR_INVALID_PARAM if
 *         @a length is 0.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_announce(uct_ep_h ep, uint64_t length);


/**
 * @ingroup UCT_WIMM
 * @brief Queue a request for a notified put that got UCS_ERR_NO_RESOURCE.
 *
 * As @ref uct_ep_pending_add, for requests that may lack a slot of the peer. The
 * request keeps its place among all that is queued on the endpoint. While it only
 * waits for a slot, nothing but notified puts waits behind it: active messages and
 * plain operations go on, and @ref uct_ep_flush returns UCS_INPROGRESS and
 * completes after it. @ref uct_ep_pending_purge covers it.
 *
 * Its callback is called from progress. It posts one notified put, and returns
 * UCS_OK if it is done (posted, or given up), UCS_ERR_NO_RESOURCE to wait on, or
 * UCS_INPROGRESS if it has posted something and is to be called again. The first
 * operation that is posted on the endpoint during the call is taken for the
 * request's own, also one that fails for want of memory, and a flush that returns
 * UCS_OK. A notified put that is posted after it is a new one, and waits behind the
 * others: it has to be queued as a request of its own. A callback that is done
 * without any of these must not post a new one.
 *
 * A request may also be queued by @ref uct_ep_pending_add: where that returns
 * UCS_ERR_BUSY although the put has no resources, a slot is missing, and this
 * function has to be used.
 *
 * @param [in] ep   Endpoint of the transport "wimm".
 * @param [in] req  The request, with its function set. Its memory is UCX's until
 *                  it is done or purged.
 *
 * @return UCS_OK                 Queued.
 * @return UCS_ERR_BUSY           Not queued: it can be posted now, or the endpoint
 *                                has failed, which posting it reports.
 * @return UCS_ERR_INVALID_PARAM  @a ep is of another transport.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_imm_pending_add(uct_ep_h ep,
                                                      uct_pending_req_t *req);


/**
 * @ingroup UCT_WIMM
 * @brief Set or remove the user of an endpoint.
 *
 * There is at most one. For libraries that keep something for each endpoint.
 *
 * @param [in] ep    Endpoint of the transport "wimm".
 * @param [in] user  Stays in place until it is removed, or its function destroyed is
 *                   called; or NULL to remove the present one, which is not called.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM if @a ep is of another transport.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_set_user(uct_ep_h ep,
                                               uct_wimm_ep_user_t *user);


/**
 * @ingroup UCT_WIMM
 * @brief Get the user of an endpoint.
 *
 * @param [in] ep  Endpoint of the transport "wimm".
 *
 * @return As set by @ref uct_wimm_ep_set_user; NULL if there is none, or @a ep is of
 *         another transport.
 */
UCT_WIMM_API uct_wimm_ep_user_t *uct_wimm_ep_get_user(uct_ep_h ep);


/**
 * @ingroup UCT_WIMM
 * @brief Get limits and counters of an interface.
 *
 * @param [in]    iface  Interface of the transport "wimm".
 * @param [inout] attr   Filled as its field_mask says.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM if @a iface is of another transport.
 */
UCT_WIMM_API ucs_status_t uct_wimm_iface_query(uct_iface_h iface,
                                               uct_wimm_iface_attr_t *attr);


/**
 * @ingroup UCT_WIMM
 * @brief Get the state and the counters of an endpoint.
 *
 * @param [in]    ep    Endpoint of the transport "wimm".
 * @param [inout] attr  Filled as its field_mask says.
 *
 * @return UCS_OK, or UCS_ERR_INVALID_PARAM if @a ep is of another transport.
 */
UCT_WIMM_API ucs_status_t uct_wimm_ep_query(uct_ep_h ep,
                                            uct_wimm_ep_attr_t *attr);


END_C_DECLS

#endif
