/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_internal.h"

#include <ucp/core/ucp_ep.h>
#include <ucp/core/ucp_worker.h>
#include <ucp/wireup/address.h>


ucs_status_t create_internal_ep(ucp_worker_h worker)
{
    ucp_unpacked_address_t address;
    ucs_status_t status;
    void *buffer;
    size_t length;
    ucp_ep_h ep;

    status = ucp_address_pack(worker, NULL, &ucp_tl_bitmap_max,
                              UCP_ADDRESS_PACK_FLAGS_ALL,
                              worker->context->config.ext.worker_addr_version,
                              NULL, &length, &buffer);
    if (status != UCS_OK) {
        return status;
    }

    status = ucp_address_unpack(worker, buffer, UCP_ADDRESS_PACK_FLAGS_ALL,
                                &address);
    if (status == UCS_OK) {
        UCS_ASYNC_BLOCK(&worker->async);
        status = ucp_ep_create_to_worker_addr(worker, &ucp_tl_bitmap_max,
                                              &address,
                                              UCP_EP_INIT_FLAG_MEM_TYPE |
                                                      UCP_EP_INIT_FLAG_INTERNAL,
                                              "test", &ep);
        UCS_ASYNC_UNBLOCK(&worker->async);
        ucs_free(address.address_list);
    }

    ucs_free(buffer);
    return status;
}

uct_iface_h find_iface(ucp_worker_h worker, const char *tl_name)
{
    unsigned i;

    for (i = 0; i < worker->num_ifaces; ++i) {
        const ucp_worker_iface_t *wiface = worker->ifaces[i];

        if (!strcmp(worker->context->tl_rscs[wiface->rsc_index].tl_rsc.tl_name,
                    tl_name)) {
            return wiface->iface;
        }
    }
    return NULL;
}
