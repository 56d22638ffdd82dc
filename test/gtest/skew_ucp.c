/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/* libucp_wimm as if it was built for another UCX, and a program that tries to attach */

#include "config.h"

/* Once is enough: what follows overrides a part of it */
#undef HAVE_CONFIG_H

#ifdef WIMM_SKEW_VERSION
#  undef WIMM_UCX_VERSION
#  define WIMM_UCX_VERSION WIMM_SKEW_VERSION
#endif

#ifdef WIMM_SKEW_SIZE
#  define ucp_wimm_native_request_size ucp_wimm_real_request_size
#endif
#include "ucp_wimm_native.c"
#ifdef WIMM_SKEW_SIZE
#  undef ucp_wimm_native_request_size
size_t ucp_wimm_native_request_size(void);

size_t ucp_wimm_native_request_size(void)
{
    return WIMM_SKEW_SIZE;
}
#endif
#include "ucp_wimm_conn.c"
#include "ucp_wimm.c"

#include <stdio.h>


int main(void)
{
    ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                            .features   = UCP_FEATURE_RMA };
    ucp_worker_params_t worker_params = { .field_mask = 0 };
    ucp_wimm_h wimm                   = (ucp_wimm_h)&params;
    ucp_context_h context;
    ucp_worker_h worker;
    ucs_status_t status;

    if ((ucp_init(&params, NULL, &context) != UCS_OK) ||
        (ucp_worker_create(context, &worker_params, &worker) != UCS_OK)) {
        return 1;
    }

    status = ucp_wimm_attach(worker, NULL, &wimm);
    printf("%s, output %s, request size %zu\n", ucs_status_string(status),
           (wimm == (ucp_wimm_h)&params) ? "unchanged" : "set",
           sizeof(ucp_request_t));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
