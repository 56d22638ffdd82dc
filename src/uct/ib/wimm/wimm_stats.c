/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_stats.h"
#include "wimm_fc.h"

#include <ucs/debug/log.h>
#include <inttypes.h>


static void uct_wimm_counters_add(uct_wimm_counters_t *sum,
                                  const uct_wimm_counters_t *counters)
{
    sum->posted += counters->posted;
    sum->delivered += counters->delivered;
    sum->credit_stalls += counters->credit_stalls;
    sum->slot_stalls += counters->slot_stalls;
    sum->grants += counters->grants;
    sum->slot_returns += counters->slot_returns;
    sum->ctrl_sent += counters->ctrl_sent;
    sum->ctrl_received += counters->ctrl_received;
    sum->failed += counters->failed;
}

static void uct_wimm_stats_sum(const uct_wimm_iface_t *iface,
                               uct_wimm_counters_t *sum)
{
    uct_rc_ep_t *rc_ep;

    *sum = iface->closed_eps;
    ucs_list_for_each(rc_ep, &iface->super.super.ep_list, list) {
        uct_wimm_counters_add(sum,
                              &ucs_derived_of(rc_ep, uct_wimm_ep_t)->counters);
    }
}

void uct_wimm_stats_ep_cleanup(uct_wimm_iface_t *iface, const uct_wimm_ep_t *ep)
{
    uct_wimm_counters_add(&iface->closed_eps, &ep->counters);
}

static void uct_wimm_stats_print(const char *name,
                                 const uct_wimm_counters_t *counters)
{
    /* Not ucs_print(), which does so only with UCX_LOG_PRINT_ENABLE=y */
    ucs_log_dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_PRINT,
                     &ucs_global_opts.log_component,
                     "wimm %s: posted %" PRIu64 ", delivered %" PRIu64
                     ", stalled for credits %" PRIu64 " and for slots %" PRIu64
                     ", control messages sent %" PRIu64 " (grants %" PRIu64
                     ", slot returns %" PRIu64 ") and received %" PRIu64
                     ", failed %" PRIu64,
                     name, counters->posted, counters->delivered,
                     counters->credit_stalls, counters->slot_stalls,
                     counters->ctrl_sent, counters->grants,
                     counters->slot_returns, counters->ctrl_received,
                     counters->failed);
}

void uct_wimm_stats_print_ep(const uct_wimm_ep_t *ep)
{
    char name[32];

    ucs_snprintf_safe(name, sizeof(name), "qp 0x%x", ep->super.qp->qp_num);
    uct_wimm_stats_print(name, &ep->counters);
}

void uct_wimm_stats_print_iface(uct_wimm_iface_t *iface)
{
    char name[64];
    uct_wimm_counters_t sum;

    ucs_snprintf_safe(name, sizeof(name), UCT_IB_IFACE_FMT,
                      UCT_IB_IFACE_ARG(&iface->super.super.super));
    uct_wimm_stats_sum(iface, &sum);
    uct_wimm_stats_print(name, &sum);
}

ucs_status_t uct_wimm_iface_query(uct_iface_h tl_iface,
                                  uct_wimm_iface_attr_t *attr)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_iface, uct_wimm_iface_t);

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_iface),
                         "interface %p is not of the transport wimm", tl_iface);

    if (attr->field_mask & UCT_WIMM_IFACE_ATTR_FIELD_CAP) {
        attr->cap.max_short = iface->super.config.max_inline;
        attr->cap.max_bcopy = iface->super.super.super.config.seg_size;
        attr->cap.max_zcopy = iface->config.max_zcopy;
        attr->cap.max_iov   = iface->super.config.max_send_sge;
        attr->cap.imm_bits  = 8 * sizeof(uint32_t);
    }

    if (attr->field_mask & UCT_WIMM_IFACE_ATTR_FIELD_NUM_SLOTS) {
        attr->num_slots = iface->config.num_slots;
    }

    if (attr->field_mask & UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE) {
        attr->rx_queue.length     = iface->fc.srq_len;
        attr->rx_queue.min_length = uct_wimm_fc_min_srq_len(iface,
                                                            iface->fc.num_eps);
    }

    if (attr->field_mask & UCT_WIMM_IFACE_ATTR_FIELD_COUNTERS) {
        uct_wimm_stats_sum(iface, &attr->counters);
    }

    return UCS_OK;
}

ucs_status_t uct_wimm_ep_query(uct_ep_h tl_ep, uct_wimm_ep_attr_t *attr)
{
    uct_wimm_iface_t *iface = ucs_derived_of(tl_ep->iface, uct_wimm_iface_t);
    uct_wimm_ep_t *ep       = ucs_derived_of(tl_ep, uct_wimm_ep_t);

    UCT_WIMM_CHECK_PARAM(uct_wimm_iface_is(tl_ep->iface),
                         "endpoint %p is not of the transport wimm", tl_ep);

    if (attr->field_mask & UCT_WIMM_EP_ATTR_FIELD_FLOW_CONTROL) {
        attr->flow_control = (ep->flags & UCT_WIMM_EP_FLAG_FC) &&
                             iface->super.super.config.fc_enabled;
    }

    if (attr->field_mask & UCT_WIMM_EP_ATTR_FIELD_CREDITS) {
        attr->credits = ucs_max(ep->super.super.fc.fc_wnd, 0);
    }

    if (attr->field_mask & UCT_WIMM_EP_ATTR_FIELD_SLOTS) {
        attr->slots     = ep->tx_slots;
        attr->num_slots = ep->tx_num_slots;
    }

    if (attr->field_mask & UCT_WIMM_EP_ATTR_FIELD_COUNTERS) {
        attr->counters = ep->counters;
    }

    return UCS_OK;
}
