/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/* Included by ucp_wimm_native.c only: lanes, and the keys for them */

/* What notified puts need of a configuration of endpoints. It does not change. */
typedef struct ucp_wimm_path {
    uct_iface_h
            iface; /* Of the lane when it is connected; NULL if there is none */
    unsigned max_short;
    unsigned max_copy; /* What is copied, and so complete when it is posted */
    unsigned max_copy_memh; /* The same, with a memory handle */
    ucp_lane_index_t lane;  /* Or UCP_NULL_LANE */
    ucp_md_index_t dst_md_index;
    uint8_t is_known;
    uint8_t can_copy; /* All memory is the host's */
} ucp_wimm_path_t;


struct ucp_wimm_native {
    ucp_wimm_wireup_t wireup;
    ucp_wimm_path_t paths[UCP_WORKER_MAX_EP_CONFIG]; /* By configuration */
};


static UCS_F_NOINLINE void ucp_wimm_path_find(ucp_wimm_path_t *path,
                                              ucp_ep_h ep)
{
    ucp_lane_index_t lane = ucp_wimm_ep_find_lane(ep);
    const uct_iface_attr_t *attr;
    ucp_rsc_index_t rsc_index;

    path->lane     = lane;
    path->is_known = 1;
    path->can_copy = (ep->worker->context->num_mem_type_detect_mds == 0);
    if (lane == UCP_NULL_LANE) {
        return;
    }

    path->dst_md_index = ucp_ep_config(ep)->key.lanes[lane].dst_md_index;
    rsc_index          = ucp_ep_get_rsc_index(ep, lane);
    if (rsc_index != UCP_NULL_RESOURCE) {
        path->iface         = ucp_worker_iface(ep->worker, rsc_index)->iface;
        attr                = ucp_ep_get_iface_attr(ep, lane);
        path->max_short     = attr->cap.put.max_short;
        path->max_copy      = ucp_wimm_put_max_copy(0, path->max_short,
                                                    attr->cap.put.max_bcopy);
        path->max_copy_memh = ucp_wimm_put_max_copy(1, path->max_short,
                                                    attr->cap.put.max_bcopy);
    }
}

static UCS_F_ALWAYS_INLINE const ucp_wimm_path_t *ucp_wimm_ep_path(
        ucp_wimm_native_t *native, ucp_ep_h ep)
{
    ucp_wimm_path_t *path = &native->paths[ep->cfg_index];

    if (ucs_unlikely(!path->is_known)) {
        ucp_wimm_path_find(path, ep);
    }

    return path;
}

/* The lane of the endpoint's configuration for notified puts, or UCP_NULL_LANE */
static UCS_F_ALWAYS_INLINE ucp_lane_index_t
ucp_wimm_ep_lane(ucp_wimm_native_t *native, ucp_ep_h ep)
{
    return ucp_wimm_ep_path(native, ep)->lane;
}

/* As _lane, but of an endpoint that has no lanes yet the placeholder for them */
static ucp_lane_index_t ucp_wimm_path_put_lane(const ucp_wimm_path_t *path,
                                               ucp_ep_h ep)
{
    ucp_lane_index_t lane = path->lane;

    if (ucs_unlikely((lane == UCP_NULL_LANE) &&
                     ucp_wimm_ep_is_placeholder(ep))) {
        return 0;
    }

    return lane;
}

static ucp_lane_index_t ucp_wimm_ep_put_lane(ucp_wimm_native_t *native,
                                             ucp_ep_h ep)
{
    return ucp_wimm_path_put_lane(ucp_wimm_ep_path(native, ep), ep);
}

/* Whether a UCT endpoint of the lane is one of the transport, and not the proxy of one
 * that is not connected, or a stub of one that has failed */
static UCS_F_ALWAYS_INLINE int ucp_wimm_path_is_connected(
        const ucp_wimm_path_t *path, uct_ep_h uct_ep)
{
    return uct_ep->iface == path->iface;
}

static UCS_F_NOINLINE ucs_status_t ucp_wimm_no_tl_rkey(ucp_ep_h ep,
                                                       ucp_rkey_h rkey)
{
    ucs_error("the remote key %p has no key for the lane of notified puts of"
              " endpoint %p",
              rkey, ep);
    return UCS_ERR_UNREACHABLE;
}

static UCS_F_ALWAYS_INLINE ucs_status_t
ucp_wimm_path_tl_rkey(const ucp_wimm_path_t *path, ucp_ep_h ep, ucp_rkey_h rkey,
                      uct_rkey_t *tl_rkey_p)
{
    ucp_md_map_t bit = UCS_BIT(path->dst_md_index);
    unsigned index;

    if (ucs_unlikely(!(rkey->md_map & bit))) {
        return ucp_wimm_no_tl_rkey(ep, rkey);
    }

    /* Counting bits is a function call on what UCX is built for */
    index      = ucs_likely((rkey->md_map & (bit - 1)) == 0) ?
                         0 :
                         ucs_bitmap2idx(rkey->md_map, path->dst_md_index);
    *tl_rkey_p = ucp_rkey_get_tl_rkey(rkey, index);
    return UCS_OK;
}
