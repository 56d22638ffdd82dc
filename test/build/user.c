/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/* What a user of the installed library may compile, as C and as C++ */

#include <ucp_wimm.h>

#include <stdio.h>
#include <string.h>


int main(void)
{
    ucp_params_t params;
    ucp_worker_params_t worker_params;
    ucp_wimm_attr_t attr;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_wimm_h wimm;
    uint32_t imm = 0;

    memset(&params, 0, sizeof(params));
    memset(&worker_params, 0, sizeof(worker_params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_RMA;
    if ((ucp_init(&params, NULL, &context) != UCS_OK) ||
        (ucp_worker_create(context, &worker_params, &worker) != UCS_OK) ||
        (ucp_wimm_attach(worker, NULL, &wimm) != UCS_OK)) {
        return 1;
    }

    attr.field_mask = UCP_WIMM_ATTR_FIELD_CAP;
    if ((ucp_wimm_imm_pack16(1, 2, &imm) != UCS_OK) || (imm != 0x10002) ||
        (ucp_wimm_query(wimm, &attr) != UCS_OK)) {
        return 1;
    }

    printf("attached, %u bits\n", attr.cap.imm_bits);
    ucp_wimm_detach(wimm);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
