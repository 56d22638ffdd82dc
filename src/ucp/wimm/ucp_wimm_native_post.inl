/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/* Included by ucp_wimm_native.c only: posting the messages of a put */

/* What is to be packed: from where the request is */
typedef struct ucp_wimm_pack {
    const ucp_request_t *req;
    size_t length;
} ucp_wimm_pack_t;

static size_t ucp_wimm_put_pack(void *dest, void *arg)
{
    const ucp_wimm_pack_t *pack = arg;
    const ucp_request_t *req    = pack->req;
    const ucp_dt_state_t *dt    = &req->send.state.dt;

    if (UCP_DT_IS_CONTIG(req->send.datatype)) {
        memcpy(dest, UCS_PTR_BYTE_OFFSET(req->send.buffer, dt->offset),
               pack->length);
    } else {
        ucp_wimm_iov_pack(dest,
                          (const ucp_dt_iov_t *)req->send.buffer +
                                  dt->dt.iov.iovcnt_offset,
                          dt->dt.iov.iov_offset, pack->length);
    }

    return pack->length;
}

/* Entries for one message. @return Their number; *length_p is that of the message. */
static size_t ucp_wimm_put_fill_iov(ucp_request_t *req, uct_iov_t *iov,
                                    size_t max_iov, size_t max_length,
                                    size_t *length_p)
{
    const ucp_dt_state_t *dt = &req->send.state.dt;
    size_t index[UCP_WIMM_IOV_MAX];
    size_t count, i;

    if (UCP_DT_IS_CONTIG(req->send.datatype)) {
        *length_p     = ucs_min(req->send.length - dt->offset, max_length);
        iov[0].buffer = UCS_PTR_BYTE_OFFSET(req->send.buffer, dt->offset);
        iov[0].length = *length_p;
        iov[0].memh   = ucp_wimm_req_contig_memh(req);
        iov[0].stride = 0;
        iov[0].count  = 1;
        return 1;
    }

    count = ucp_wimm_iov_fill(req->send.buffer, dt->dt.iov.iovcnt,
                              dt->dt.iov.iovcnt_offset, dt->dt.iov.iov_offset,
                              iov, index, max_iov, max_length, length_p);
    for (i = 0; i < count; ++i) {
        iov[i].memh = ucp_wimm_req_iov_memh(req, index[i]);
    }

    return count;
}

static void ucp_wimm_put_advance(ucp_request_t *req, size_t length)
{
    ucp_dt_state_t *dt = &req->send.state.dt;

    dt->offset += length;
    if (UCP_DT_IS_IOV(req->send.datatype)) {
        ucp_wimm_iov_advance(req->send.buffer, dt->dt.iov.iovcnt,
                             &dt->dt.iov.iovcnt_offset, &dt->dt.iov.iov_offset,
                             length);
    }
}

static ucs_status_t ucp_wimm_put_register(ucp_request_t *req,
                                          ucp_lane_index_t lane)
{
    ucp_wimm_put_t *put     = ucp_wimm_req_put(req);
    ucp_md_index_t md_index = ucp_ep_md_index(req->send.ep, lane);
    ucs_status_t status;

    if (put->flags & UCP_WIMM_PUT_FLAG_REGISTERED) {
        return UCS_OK;
    }

    if ((put->memh != NULL) && (put->memh->md_map & UCS_BIT(md_index))) {
        ucp_wimm_req_set_memh(req, md_index, put->memh);
    } else {
        status = ucp_request_send_buffer_reg(req, UCS_BIT(md_index), 0);
        if (status != UCS_OK) {
            return status;
        }
    }

    put->flags |= UCP_WIMM_PUT_FLAG_REGISTERED;
    return UCS_OK;
}

static UCS_F_NOINLINE ucs_status_t ucp_wimm_put_announce(ucp_request_t *req,
                                                         uct_ep_h uct_ep)
{
    ucs_status_t status = uct_wimm_ep_announce(uct_ep, req->send.length);

    if (status != UCS_OK) {
        return status;
    }

    ucp_wimm_req_put(req)->flags |= UCP_WIMM_PUT_FLAG_ANNOUNCED;
    return UCS_INPROGRESS;
}

/* Post one message of a put whose data is copied */
static ucs_status_t ucp_wimm_put_post_bcopy(ucp_request_t *req, uct_ep_h uct_ep,
                                            const uct_iface_attr_t *attr,
                                            uct_rkey_t tl_rkey)
{
    ucp_wimm_put_t *put  = ucp_wimm_req_put(req);
    size_t offset        = req->send.state.dt.offset;
    ucp_wimm_pack_t pack = { .req    = req,
                             .length = ucs_min(req->send.length - offset,
                                               attr->cap.put.max_bcopy) };
    ssize_t packed;

    if (ucs_likely(pack.length == req->send.length)) {
        packed = uct_wimm_ep_put_imm_bcopy(uct_ep, ucp_wimm_put_pack, &pack,
                                           put->remote_addr, tl_rkey, put->imm);
        if (packed < 0) {
            return packed;
        }

        req->send.state.dt.offset = req->send.length;
        return UCS_OK;
    }

    if (!(put->flags & UCP_WIMM_PUT_FLAG_ANNOUNCED)) {
        return ucp_wimm_put_announce(req, uct_ep);
    } else if (pack.length == 0) {
        return uct_wimm_ep_notify(uct_ep, put->imm);
    }

    packed = uct_ep_put_bcopy(uct_ep, ucp_wimm_put_pack, &pack,
                              put->remote_addr + offset, tl_rkey);
    if (packed < 0) {
        return packed;
    }

    ucp_wimm_put_advance(req, pack.length);
    return UCS_INPROGRESS;
}

/* Post one message of a put whose data is taken from where it is */
static ucs_status_t ucp_wimm_put_post_zcopy(ucp_request_t *req, uct_ep_h uct_ep,
                                            ucp_lane_index_t lane,
                                            const uct_iface_attr_t *attr,
                                            uct_rkey_t tl_rkey)
{
    ucp_wimm_put_t *put = ucp_wimm_req_put(req);
    size_t offset       = req->send.state.dt.offset;
    uct_iov_t iov[UCP_WIMM_IOV_MAX];
    size_t iovcnt, length;
    ucs_status_t status;
    int is_last;

    status = ucp_wimm_put_register(req, lane);
    if (status != UCS_OK) {
        return status;
    }

    iovcnt  = ucp_wimm_put_fill_iov(req, iov,
                                    ucs_min(attr->cap.put.max_iov,
                                            UCP_WIMM_IOV_MAX),
                                    attr->cap.put.max_zcopy, &length);
    is_last = (offset + length) == req->send.length;
    if (is_last) {
        status = uct_wimm_ep_put_imm_zcopy(uct_ep, iov, iovcnt,
                                           put->remote_addr + offset, tl_rkey,
                                           put->imm, &req->send.state.uct_comp);
    } else if (!(put->flags & UCP_WIMM_PUT_FLAG_ANNOUNCED)) {
        return ucp_wimm_put_announce(req, uct_ep);
    } else {
        status = uct_ep_put_zcopy(uct_ep, iov, iovcnt,
                                  put->remote_addr + offset, tl_rkey,
                                  &req->send.state.uct_comp);
    }

    if (status == UCS_INPROGRESS) {
        ++req->send.state.uct_comp.count;
    } else if (status != UCS_OK) {
        return status;
    }

    ucp_wimm_put_advance(req, length);
    return is_last ? UCS_OK : UCS_INPROGRESS;
}

/* Post one message. @return UCS_OK if it was the last one, UCS_INPROGRESS if another
 * one has to follow. */
static ucs_status_t ucp_wimm_put_post(ucp_request_t *req, uct_ep_h uct_ep,
                                      const ucp_wimm_path_t *path)
{
    ucp_wimm_put_t *put          = ucp_wimm_req_put(req);
    ucp_lane_index_t lane        = path->lane;
    const uct_iface_attr_t *attr = ucp_ep_get_iface_attr(req->send.ep, lane);
    uct_rkey_t tl_rkey           = UCT_INVALID_RKEY;
    ucp_wimm_put_mode_t mode;
    ucs_status_t status;

    if (req->send.length > 0) {
        status = ucp_wimm_path_tl_rkey(path, req->send.ep, put->rkey, &tl_rkey);
        if (status != UCS_OK) {
            return status;
        }
    }

    mode = ucp_wimm_put_select(req->send.length,
                               UCP_DT_IS_IOV(req->send.datatype) ?
                                       req->send.state.dt.dt.iov.iovcnt :
                                       0,
                               UCP_MEM_IS_HOST(req->send.mem_type),
                               put->memh != NULL, attr->cap.put.max_short,
                               attr->cap.put.max_bcopy);
    switch (mode) {
    case UCP_WIMM_PUT_SHORT:
        status = uct_wimm_ep_put_imm_short(uct_ep, req->send.buffer,
                                           req->send.length, put->remote_addr,
                                           tl_rkey, put->imm);
        if (status == UCS_OK) {
            req->send.state.dt.offset = req->send.length;
        }

        return status;
    case UCP_WIMM_PUT_BCOPY:
        return ucp_wimm_put_post_bcopy(req, uct_ep, attr, tl_rkey);
    default:
        return ucp_wimm_put_post_zcopy(req, uct_ep, lane, attr, tl_rkey);
    }
}
