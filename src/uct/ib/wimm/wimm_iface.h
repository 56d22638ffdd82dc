/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_IFACE_H_
#define UCT_WIMM_IFACE_H_

#include "wimm.h"
#include "wimm_compat.h"

#include <ucs/datastruct/list.h>
#include <ucs/datastruct/mpool.h>
#include <ucs/datastruct/queue.h>
#include <ucs/debug/log.h>
#include <ucs/sys/compiler.h>


/* Most completions taken in one poll */
#define UCT_WIMM_MAX_POLL 64

/* Most receives posted in one call. The base class posts the first ones from a
 * batch on its stack, and asserts that it is not larger than this. */
#define UCT_WIMM_MAX_RECV_BATCH (UCS_ALLOCA_MAX_SIZE / sizeof(uct_ib_recv_wr_t))

/* A check of the caller's input that is there in every build:
 * UCT_CHECK_PARAM() is empty where UCX was configured without it */
#define UCT_WIMM_CHECK_PARAM(_condition, _fmt, ...) \
  if (ucs_unlikely(!(_condition))) {                \
    ucs_error(_fmt, ##__VA_ARGS__);                 \
    return UCS_ERR_INVALID_PARAM;                   \
  }


enum {
    /* Errors of the device that were reported, each once */
    UCT_WIMM_DEVICE_ERROR_POLL_RX   = UCS_BIT(0),
    UCT_WIMM_DEVICE_ERROR_POLL_TX   = UCS_BIT(1),
    UCT_WIMM_DEVICE_ERROR_POST_RECV = UCS_BIT(2)
};


typedef struct uct_wimm_iface_config {
    uct_rc_verbs_iface_config_t super;
    int prefer;
    double qp_drain_timeout;
    unsigned num_slots;
    unsigned rx_event_mod_count;
    double rx_event_mod_period;
    int stats;
} uct_wimm_iface_config_t;


typedef struct uct_wimm_ep uct_wimm_ep_t;


typedef struct uct_wimm_iface {
    uct_rc_verbs_iface_t super;

    /* Arrival of notified puts: wimm_imm.c */
    struct {
        uct_wimm_imm_handler_t cb;
        void *arg;
        ucs_queue_head_t waiting; /* For a handler */
        ucs_mpool_t mp;           /* Elements of that queue */
        unsigned num_destroyed;   /* Endpoints: changes if a handler does it */
    } imm;

    /* Receive credits: wimm_fc.c */
    struct {
        ucs_list_link_t ctrl_list; /* Endpoints with control messages to send */
        int shared_used;  /* Of the pool: what peers may send beyond one each */
        int pool;         /* Receives that endpoints share */
        int target;       /* Credits that each endpoint should have */
        int grant_level;  /* Grant to an endpoint that has no more than this */
        unsigned num_eps; /* Endpoints, also those whose queue pair drains */
        unsigned reclaim_wait; /* Messages until the next search for credits */
        unsigned srq_len;
        int srq_warned;
    } fc;

    /* What is being dispatched: wimm_pending.c */
    struct {
        uct_wimm_ep_t *ep; /* Of the request that is being called, or NULL */
        uint16_t pi;       /* What was posted there when it was called */
        uint8_t is_imm;    /* It is from the list of immediates */
        uint8_t refused;   /* It had everything but a slot */
        ucs_queue_head_t cancels; /* Canceling flushes of all endpoints */
        ucs_mpool_t flush_mp;
    } dispatch;

    /* Completions that were found right after the event was armed, at most one of
     * each queue. Progress takes them first. */
    struct {
        unsigned dirs; /* Bits by uct_ib_dir_t */
        struct ibv_wc wc[UCT_IB_DIR_NUM];
    } found;

    /* Number of things that progress has to look at outside of the short path:
     * queue pairs being destroyed, endpoints to fail, and canceling flushes */
    unsigned deferred;
    ucs_list_link_t failed_eps;

    /* Progress of such queue pairs while that of the interface is disabled */
    uct_worker_cb_id_t drain_cb_id;

    struct {
        ucs_time_t qp_drain_timeout;
        unsigned num_slots;    /* Notification slots that a peer has here */
        unsigned slot_batch;   /* Return as many at once */
        unsigned rx_max_batch; /* Of a receive queue that is long enough */
        size_t max_zcopy;      /* Largest message of the device */
        int prefer;
        int stats;
    } config;

    uct_wimm_counters_t closed_eps; /* Sum over endpoints that are gone */
    uct_rc_iface_ops_t rc_ops;      /* rc_verbs' with our changes */
    uct_iface_query_func_t base_query;
    uct_iface_is_reachable_func_t base_is_reachable;
    unsigned device_errors; /* UCT_WIMM_DEVICE_ERROR_xx */
} uct_wimm_iface_t;


extern ucs_config_field_t uct_wimm_iface_config_table[];


UCS_CLASS_DECLARE(uct_wimm_iface_t, uct_md_h, uct_worker_h,
                  const uct_iface_params_t *, const uct_iface_config_t *);
UCS_CLASS_DECLARE_NEW_FUNC(uct_wimm_iface_t, uct_iface_t, uct_md_h,
                           uct_worker_h, const uct_iface_params_t *,
                           const uct_iface_config_t *);
UCS_CLASS_DECLARE_DELETE_FUNC(uct_wimm_iface_t, uct_iface_t);


/* Whether this is an interface of ours */
static UCS_F_ALWAYS_INLINE int uct_wimm_iface_is(uct_iface_h tl_iface)
{
    return tl_iface->ops.iface_close ==
           UCS_CLASS_DELETE_FUNC_NAME(uct_wimm_iface_t);
}


/* Post all receives that are free, down to the last one */
void uct_wimm_iface_post_all_recv(uct_wimm_iface_t *iface);

/* Whether this is a device's address, as UCX asserts when it is unpacked and used */
int uct_wimm_iface_check_dev_addr(uct_wimm_iface_t *iface,
                                  const uct_device_addr_t *dev_addr);

/* The peer sent what the protocol does not have: close the connection */
void uct_wimm_iface_protocol_error(uct_wimm_ep_t *ep, const struct ibv_wc *wc,
                                   const char *what);

#endif
