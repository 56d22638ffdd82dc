/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_EMUL_H_
#define UCP_WIMM_EMUL_H_

#include "ucp_wimm_int.h"

#include <ucs/time/time_def.h>


/*
 * Notified puts of endpoints without a native way: put, flush, and an active message, or
 * active messages alone.
 * Each endpoint has a chain of what it sends (ucp_wimm_chain.c), and what it receives
 * goes into the worker's stream (ucp_wimm_emul.c). All with the worker locked.
 *
 * Where no transport does the puts (TCP), UCX would send them in active messages of its
 * own. The peer has to answer each of them, and UCX 1.13 ends the peer's process if the
 * connection is gone by then: whoever is written to would die with the writer. Our active
 * messages carry the data there, and nobody answers them.
 */

/* What a message says */
typedef enum ucp_wimm_emul_op {
    UCP_WIMM_EMUL_PROBE, /* Are you there? */
    UCP_WIMM_EMUL_HELLO, /* I am. "imm" is how many slots you have with me. */
    UCP_WIMM_EMUL_NOTIFY, /* A put of "length" bytes with "imm" is in place, once the data
                             of this message, if there is any, is at "addr" */
    UCP_WIMM_EMUL_SLOTS,   /* "imm" of your slots are free again */
    UCP_WIMM_EMUL_DATA,    /* The data of this message has to be at "addr" */
    UCP_WIMM_EMUL_FLUSH,   /* Tell me when all that I have sent is in place */
    UCP_WIMM_EMUL_FLUSHED, /* It is */
    UCP_WIMM_EMUL_BYE, /* I close the endpoint: nobody takes or answers any more */
    UCP_WIMM_EMUL_LAST
} ucp_wimm_emul_op_t;

enum {
    UCP_WIMM_EMUL_HDR_FLAG_WIMM = UCS_BIT(0) /* The sender has the transport */
};

/* The header of the active message. In network order. */
typedef struct ucp_wimm_emul_hdr {
    uint8_t op;    /* ucp_wimm_emul_op_t */
    uint8_t flags; /* UCP_WIMM_EMUL_HDR_FLAG_xx */
    uint8_t reserved[2];
    uint32_t imm;
    uint64_t length;
    uint64_t addr;
} UCS_S_PACKED ucp_wimm_emul_hdr_t;


enum {
    UCP_WIMM_EMUL_FLAG_PROBED   = UCS_BIT(0), /* We asked */
    UCP_WIMM_EMUL_FLAG_READY    = UCS_BIT(1), /* The peer has said hello */
    UCP_WIMM_EMUL_FLAG_FLUSHING = UCS_BIT(2), /* A flush is on its way */
    UCP_WIMM_EMUL_FLAG_BUSY     = UCS_BIT(3), /* Somebody further up goes on */
    UCP_WIMM_EMUL_FLAG_GREET    = UCS_BIT(4), /* It is to get a hello */
    UCP_WIMM_EMUL_FLAG_DEAD  = UCS_BIT(5), /* The endpoint failed, or is gone */
    UCP_WIMM_EMUL_FLAG_LOST  = UCS_BIT(6), /* There was no memory for one that
                                                 arrived: no other may follow it */
    UCP_WIMM_EMUL_FLAG_TOLD  = UCS_BIT(7), /* The program was told of the way */
    UCP_WIMM_EMUL_FLAG_DIRTY = UCS_BIT(8), /* Something was sent, unflushed */
    UCP_WIMM_EMUL_FLAG_ASKED = UCS_BIT(9), /* The peer owes a FLUSHED */
    UCP_WIMM_EMUL_FLAG_CUT   = UCS_BIT(10), /* LOST, behind the kept ones */
    UCP_WIMM_EMUL_FLAG_KNOWN = UCS_BIT(11), /* The peer has sent something */
    UCP_WIMM_EMUL_FLAG_BYE   = UCS_BIT(12), /* The peer has closed its end */
    UCP_WIMM_EMUL_FLAG_LATE  = UCS_BIT(13), /* A close waits for a FLUSHED */
    UCP_WIMM_EMUL_FLAG_CLOSE = UCS_BIT(14)  /* A close is in the chain */
};

/* Both directions of an endpoint without a native way */
struct ucp_wimm_emul {
    ucp_wimm_peer_t super;
    ucs_list_link_t list; /* Of all, or of the dead ones */
    ucp_ep_h ucp_ep;      /* Valid if ucp_wimm_emul_is_alive() */
    uint16_t flags;       /* UCP_WIMM_EMUL_FLAG_xx */
    ucs_status_t status;  /* What its operations end with if it is dead */
    ucs_status_t error;   /* Of UCP's operations on it, the first */
    unsigned slots;       /* That we have with the peer */
    unsigned num_slots;   /* All that it gives */
    unsigned to_return;   /* Slots of the peer that are free again */
    ucs_time_t deadline;  /* If UCP_WIMM_EMUL_FLAG_LATE: of the close */

    /* The chain. One message of it is with UCX at a time: shared memory lets a new one
     * pass those that wait for room. */
    unsigned num_sending;
    ucs_queue_head_t held;    /* Flushes behind what UCP has in its own queue */
    ucs_queue_head_t waiting; /* Not issued */
    ucs_queue_head_t issued;  /* Their puts are, the peer is not notified */
    unsigned num_flushing;    /* Of these, how many the flush covers */
    unsigned num_flushed;     /* How many are in place */
};


/*
 * Attaching
 */

/* Nothing is emulated until _init */
void ucp_wimm_emul_reset(ucp_wimm_h wimm);

/* Register the active message, and say hello to all peers that there are.
 * @return UCS_ERR_INVALID_PARAM or UCS_ERR_UNSUPPORTED, with a sentence. */
ucs_status_t ucp_wimm_emul_init(ucp_wimm_h wimm, unsigned am_id);

/* Nobody is attached any more, but peers may have something for who attaches next.
 * @return Whether they may; otherwise _stop has to be called. */
int ucp_wimm_emul_park(ucp_wimm_h wimm);

/* Somebody is attached again: progress gives what has arrived to the program */
void ucp_wimm_emul_resume(ucp_wimm_h wimm);

void ucp_wimm_emul_stop(ucp_wimm_h wimm);

/* As stop, after the worker was destroyed with all of its endpoints */
void ucp_wimm_emul_forget(ucp_wimm_h wimm);

/* The last message and operation are done */
void ucp_wimm_emul_cleanup(ucp_wimm_h wimm);

/* So many more things are to be done by the next progress, which looks at nothing else to know */
static inline void ucp_wimm_emul_add_todo(ucp_wimm_h wimm, int count)
{
    wimm->emul.num_todo += count;
    ucp_wimm_want_progress(wimm);
}

/* Called by progress if wimm->emul.num_todo is not 0. @return How much was done. */
unsigned ucp_wimm_emul_progress(ucp_wimm_h wimm);

/* Whether progress would do something now */
int ucp_wimm_emul_has_work(ucp_wimm_h wimm);


/*
 * Endpoints
 */

/* That of an endpoint which UCP has. @return Also the status of one that has failed. */
ucs_status_t ucp_wimm_emul_get(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                               ucp_wimm_emul_t **emul_p);

/* The endpoint failed or is gone: progress ends all operations with this */
void ucp_wimm_emul_fail(ucp_wimm_emul_t *emul, ucs_status_t status);

/* Whether UCP may be called with the endpoint */
int ucp_wimm_emul_is_alive(ucp_wimm_emul_t *emul);

/* Send a message without data.
 * @return UCS_OK if it is on its way. On an error nothing was done. */
ucs_status_t ucp_wimm_emul_send(ucp_wimm_emul_t *emul,
                                ucp_wimm_emul_op_t op_code, uint32_t imm);

/* As _send, to a peer that may have no handler. UCX 1.13 crashes in a process that gets an
 * active message and has never registered a handler with that id, or a larger one; but not
 * if the message comes in pieces. So it does. */
ucs_status_t ucp_wimm_emul_send_first(ucp_wimm_emul_t *emul,
                                      ucp_wimm_emul_op_t op_code, uint32_t imm);

/* Most bytes of data in a message: with all headers it fits into a segment of 8 KiB */
#define UCP_WIMM_EMUL_MAX_DATA 7168

/* A message of an operation, with data that stays where it is until
 * ucp_wimm_chain_sent() is called */
typedef struct ucp_wimm_emul_data {
    ucp_wimm_emul_op_t op_code; /* NOTIFY or DATA */
    uint32_t imm;
    size_t total;    /* Of the whole put */
    const void *ptr; /* Of this message */
    size_t length;   /* May be 0 */
    uint64_t addr;
} ucp_wimm_emul_data_t;

ucs_status_t ucp_wimm_emul_send_data(ucp_wimm_emul_t *emul,
                                     const ucp_wimm_emul_data_t *data,
                                     uct_pending_req_t *op);

/* Notifications that an endpoint's peer has room for; 0 if it has not answered */
void ucp_wimm_emul_query(ucp_wimm_h wimm, ucp_ep_h ucp_ep, unsigned *slots_p,
                         unsigned *num_slots_p);

/* An operation of ours on it has completed with this */
void ucp_wimm_emul_check_status(ucp_wimm_emul_t *emul, ucs_status_t status);


/*
 * Operations
 */

typedef enum ucp_wimm_chain_kind {
    UCP_WIMM_CHAIN_PUT,
    UCP_WIMM_CHAIN_FLUSH,
    UCP_WIMM_CHAIN_CLOSE
} ucp_wimm_chain_kind_t;

/* Put an operation behind all that the endpoint has, to be completed some time after the
 * next ucp_wimm_chain_go(). On an error nothing was done. */
ucs_status_t ucp_wimm_emul_push(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                                uct_pending_req_t *op,
                                ucp_wimm_chain_kind_t kind,
                                ucp_wimm_emul_t **emul_p);

/* Flush or close an endpoint after all that is queued on it.
 * @return Whether there is something to do but UCP's own; then @a ptr_p is what the program
 *         gets. */
int ucp_wimm_emul_barrier(ucp_wimm_h wimm, ucp_ep_h ucp_ep,
                          ucp_wimm_chain_kind_t kind,
                          const ucp_request_param_t *param,
                          ucs_status_ptr_t *ptr_p);


/*
 * The chain (ucp_wimm_chain.c)
 */

void ucp_wimm_chain_init(ucp_wimm_emul_t *emul);

void ucp_wimm_chain_push(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                         ucp_wimm_chain_kind_t kind);

/* Seconds that a close waits for a peer that does not answer: it may have closed its
 * endpoint by UCP's own call, of which nobody tells */
#define UCP_WIMM_CHAIN_CLOSE_TIMEOUT 5.0

/* The peer does not answer: take it as one that has said BYE */
void ucp_wimm_chain_close_now(ucp_wimm_emul_t *emul);

/* UCP's own queue is empty: go on with what waited for that */
void ucp_wimm_chain_release(ucp_wimm_emul_t *emul);

/* Do what can be done. Callbacks on the way may call it, too. */
void ucp_wimm_chain_go(ucp_wimm_emul_t *emul);

/* A message of an operation was sent, or has failed */
void ucp_wimm_chain_sent(ucp_wimm_emul_t *emul, uct_pending_req_t *op,
                         ucp_wimm_emul_op_t op_code, ucs_status_t status);

/* Drop all operations without a word, after the worker was destroyed */
void ucp_wimm_chain_forget(ucp_wimm_emul_t *emul);

/* Whether UCP's own flush covers all that there was */
static inline int ucp_wimm_chain_is_done(const ucp_wimm_emul_t *emul)
{
    return ucs_queue_is_empty(&emul->held) &&
           ucs_queue_is_empty(&emul->waiting) &&
           ucs_queue_is_empty(&emul->issued) && (emul->num_sending == 0) &&
           !(emul->flags &
             (UCP_WIMM_EMUL_FLAG_DIRTY | UCP_WIMM_EMUL_FLAG_ASKED));
}

#endif
