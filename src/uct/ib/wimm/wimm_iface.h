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
} uct_wimm_iface_config_t;


/* A notification that waits for a handler, in the memory of its receive
 * descriptor. As a rule its receive is not posted again until it is delivered. */
typedef struct uct_wimm_imm_elem {
    ucs_queue_elem_t queue;
    uct_ib_iface_recv_desc_t *desc;
    uint32_t imm;
    uint32_t length;
    uint32_t qp_num;
    int holds_recv; /* 0 if the handler was removed when its batch was on the way */
} uct_wimm_imm_elem_t;


typedef struct uct_wimm_iface {
    uct_rc_verbs_iface_t super;

    struct {
        uct_wimm_imm_handler_t cb;
        void *arg;
        ucs_queue_head_t waiting;
    } imm;

    /* Number of things that progress has to look at outside of the short path:
     * queue pairs being destroyed, and endpoints to fail */
    unsigned deferred;
    ucs_list_link_t failed_eps;

    struct {
        ucs_time_t qp_drain_timeout;
        int prefer;
    } config;

    uct_rc_iface_ops_t rc_ops; /* rc_verbs' with our changes */
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


/* Drop what waits for an endpoint that goes away */
void uct_wimm_iface_imm_purge(uct_wimm_iface_t *iface, uint32_t qp_num);

#endif
