/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_COMPAT_H_
#define UCT_WIMM_COMPAT_H_

/* All that depends on the version of UCX, or on what UCX declares static, is
 * here and nowhere else in the transport. */

#include <uct/api/uct.h>
#include <uct/api/version.h>
#include <uct/base/uct_iface.h>
#include <uct/ib/base/ib_md.h>
#include <uct/ib/base/ib_verbs.h>
#include <uct/ib/rc/verbs/rc_verbs.h>
#include <ucs/sys/compiler.h>

#if UCT_API < UCT_VERSION(1, 13)
#  error "UCX 1.13 or newer is needed"
#endif


/* Exported by the ib module, declared in no header */
extern ucs_class_t uct_rc_verbs_iface_t_class;
extern uct_tl_t uct_rc_verbs_tl;


/* The constructor of rc_verbs' interface is static; its class has it */
typedef ucs_status_t (*uct_wimm_rc_verbs_iface_init_func_t)(
        uct_rc_verbs_iface_t *self, ucs_class_t *myclass, int *init_count,
        uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
        const uct_iface_config_t *tl_config);


static inline ucs_status_t uct_wimm_rc_verbs_iface_init(
        uct_rc_verbs_iface_t *self, ucs_class_t *myclass, int *init_count,
        uct_md_h md, uct_worker_h worker, const uct_iface_params_t *params,
        const uct_iface_config_t *tl_config)
{
    return ((uct_wimm_rc_verbs_iface_init_func_t)myclass->init)(self, myclass,
                                                                init_count, md,
                                                                worker, params,
                                                                tl_config);
}


/* Move a queue pair to error while its endpoint lives. rc_verbs asserts in every
 * post (uct_rc_verbs_ep_post_send()) that the last state that the library set is
 * RTS; after an error that the device found, it still is. An endpoint that failed
 * for a reason of ours has to look the same: what is posted is flushed. */
static inline void uct_wimm_ib_qp_set_error(struct ibv_qp *qp)
{
    uct_ib_modify_qp(qp, IBV_QPS_ERR);
    qp->state = IBV_QPS_RTS;
}


/* Call a pending request, also from inside of another one: UCX takes note only that one
 * is called, and asserts by that that nothing else sends while something is queued */
static UCS_F_ALWAYS_INLINE ucs_status_t uct_wimm_rc_iface_invoke_pending_cb(
        uct_rc_iface_t *rc_iface, uct_pending_req_t *req)
{
#if UCS_ENABLE_ASSERT
    const int prev_in_pending = rc_iface->tx.in_pending;
#endif
    ucs_status_t status;

    status = uct_rc_iface_invoke_pending_cb(rc_iface, req);
#if UCS_ENABLE_ASSERT
    rc_iface->tx.in_pending = prev_in_pending;
#endif
    return status;
}


/* The inverse of uct_tl_register(): UCX's own function of that purpose leaves
 * the transport in the list of its component (1.13 to 1.22) */
static inline void uct_wimm_tl_unregister(uct_tl_t *tl)
{
    ucs_list_del(&tl->config.list);
    ucs_list_del(&tl->list);
}

#endif
