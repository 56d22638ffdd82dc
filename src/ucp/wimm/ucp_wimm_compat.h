/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCP_WIMM_COMPAT_H_
#define UCP_WIMM_COMPAT_H_

/* All that depends on the version of UCX is here and nowhere else in the library.
 * Included by ucp_wimm_native.c only. */

#include <ucp/core/ucp_context.h>
#include <ucp/core/ucp_ep.h>
#include <ucp/core/ucp_ep.inl>
#include <ucp/core/ucp_mm.h>
#include <ucp/core/ucp_request.h>
#include <ucp/core/ucp_request.inl>
#include <ucp/core/ucp_rkey.h>
#include <ucp/core/ucp_rkey.inl>
#include <ucp/core/ucp_worker.h>
#include <ucp/core/ucp_worker.inl>
#include <ucp/dt/dt.inl>
#include <ucs/config/parser.h>

#include <string.h>

#if UCP_API_VERSION < UCP_VERSION(1, 13)
#  error "UCX 1.13 or newer is needed"
#endif


/* The UCT endpoint of a lane */
static UCS_F_ALWAYS_INLINE uct_ep_h ucp_wimm_ep_uct_ep(ucp_ep_h ep,
                                                       ucp_lane_index_t lane)
{
    return ep->uct_eps[lane];
}


/* An endpoint in a list of its worker */
#define ucp_wimm_for_each_ep(_ep, _ext, _list) \
  ucs_list_for_each((_ext), (_list), ep_list)  \
    if (((_ep) = ucp_ep_from_ext_gen(_ext)) != NULL)

typedef ucp_ep_ext_gen_t ucp_wimm_ep_ext_t;


/* The memory handle of the only memory domain that a request was registered with */
static UCS_F_ALWAYS_INLINE uct_mem_h ucp_wimm_req_contig_memh(ucp_request_t *req)
{
    return req->send.state.dt.dt.contig.memh[0];
}


static UCS_F_ALWAYS_INLINE uct_mem_h ucp_wimm_req_iov_memh(ucp_request_t *req,
                                                           size_t index)
{
    return req->send.state.dt.dt.iov.dt_reg[index].memh[0];
}


/* Use the memory handle that the program gave */
static UCS_F_ALWAYS_INLINE void ucp_wimm_req_set_memh(ucp_request_t *req,
                                                      ucp_md_index_t md_index,
                                                      ucp_mem_h memh)
{
    ucp_request_init_dt_reg_from_memh(req, UCS_BIT(md_index), memh,
                                      &req->send.state.dt.dt.contig);
}


/* Whether a memory handle, if there is one, is for this memory */
static UCS_F_ALWAYS_INLINE int ucp_wimm_memh_is_for(ucp_mem_h memh,
                                                    const void *buffer,
                                                    size_t length,
                                                    ucs_memory_type_t mem_type)
{
    const void *end;

    if (memh == NULL) {
        return 1;
    }

    end = UCS_PTR_BYTE_OFFSET(ucp_memh_address(memh), ucp_memh_length(memh));
    return (memh->mem_type == mem_type) && (buffer >= ucp_memh_address(memh)) &&
           (UCS_PTR_BYTE_OFFSET(buffer, length) <= end);
}


/* A remote key knows its endpoint if UCX checks parameters */
static UCS_F_ALWAYS_INLINE int ucp_wimm_rkey_is_of(ucp_rkey_h rkey, ucp_ep_h ep)
{
#if ENABLE_PARAMS_CHECK
    return rkey->ep == ep;
#else
    return 1;
#endif
}


/* UCP purges its requests from a failed endpoint with the status as the argument */
static inline ucs_status_t ucp_wimm_purge_status(
        uct_pending_purge_callback_t cb, void *arg)
{
    return (cb == ucp_ep_err_pending_purge) ? UCS_PTR_STATUS(arg) :
                                              UCS_ERR_CONNECTION_RESET;
}


/* Changes with each endpoint that the program creates or closes, or that fails, and with
 * the number of those that peers have created */
static UCS_F_ALWAYS_INLINE uint64_t
ucp_wimm_worker_ep_events(ucp_worker_h worker)
{
    return worker->counters.ep_creations + worker->counters.ep_closures +
           worker->counters.ep_failures + ((uint64_t)worker->num_all_eps << 40);
}


static inline int ucp_wimm_worker_has_am_handler(ucp_worker_h worker,
                                                 unsigned id)
{
    return (id < ucs_array_length(&worker->am.cbs)) &&
           (ucs_array_elem(&worker->am.cbs, id).cb != NULL);
}


/* Fill a structure from UCX's environment, as a table of "WIMM_" keys says */
static inline ucs_status_t ucp_wimm_read_config(void *config,
                                                ucs_config_field_t *table)
{
    return ucs_config_parser_fill_opts(config, table, UCS_DEFAULT_ENV_PREFIX,
                                       "WIMM_", 0);
}


/* A flag of endpoints that UCP does not use. It is not set in one that is new. */
#define UCP_WIMM_EP_FLAG_MARK UCS_BIT(15)


static inline int ucp_wimm_rsc_is_wimm(ucp_worker_h worker,
                                       ucp_rsc_index_t rsc_index)
{
    return (rsc_index != UCP_NULL_RESOURCE) &&
           !strcmp(worker->context->tl_rscs[rsc_index].tl_rsc.tl_name, "wimm");
}


/* The lane of an endpoint for notified puts: that of plain puts if that is one of the
 * transport. UCP_NULL_LANE if there is none. */
static inline ucp_lane_index_t ucp_wimm_ep_find_lane(ucp_ep_h ep)
{
    const ucp_ep_config_key_t *key = &ucp_ep_config(ep)->key;
    ucp_lane_index_t i, lane;

    /* That of plain puts, if it is one of ours */
    for (i = 0; (i < UCP_MAX_LANES) && (key->rma_lanes[i] != UCP_NULL_LANE);
         ++i) {
        lane = key->rma_lanes[i];
        if (ucp_wimm_rsc_is_wimm(ep->worker, key->lanes[lane].rsc_index)) {
            return lane;
        }
    }

    for (lane = 0; lane < key->num_lanes; ++lane) {
        if (ucp_wimm_rsc_is_wimm(ep->worker, key->lanes[lane].rsc_index)) {
            return lane;
        }
    }

    return UCP_NULL_LANE;
}


/* Whether a transport does the plain puts of an endpoint. If none can, UCX sends them in
 * active messages of its own. */
static inline int ucp_wimm_ep_has_puts(ucp_ep_h ep)
{
    return ucp_ep_config(ep)->key.rma_lanes[0] != UCP_NULL_LANE;
}


/* The endpoint of a client that the connection manager has not connected yet: its
 * only lane is a placeholder for all that it will have */
static inline int ucp_wimm_ep_is_placeholder(ucp_ep_h ep)
{
    const ucp_ep_config_key_t *key = &ucp_ep_config(ep)->key;

    return (key->num_lanes == 1) && (key->cm_lane == 0);
}


/* Whether plain puts of an endpoint may use another lane than this one */
static inline int ucp_wimm_ep_puts_ride_on(ucp_ep_h ep, ucp_lane_index_t lane)
{
    const ucp_ep_config_key_t *key = &ucp_ep_config(ep)->key;
    ucp_lane_index_t i;

    for (i = 0; (i < UCP_MAX_LANES) && (key->rma_lanes[i] != UCP_NULL_LANE);
         ++i) {
        if (key->rma_lanes[i] != lane) {
            return 0;
        }
    }

    if (!ep->worker->context->config.ext.proto_enable) {
        return i > 0;
    }

    /* The newer protocols also use those for large messages */
    for (i = 0; (i < UCP_MAX_LANES) && (key->rma_bw_lanes[i] != UCP_NULL_LANE);
         ++i) {
        if (key->rma_bw_lanes[i] != lane) {
            return 0;
        }
    }

    return key->rma_lanes[0] != UCP_NULL_LANE;
}

#endif
