/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_TEST_UCP_INTERNAL_H_
#define WIMM_TEST_UCP_INTERNAL_H_

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

BEGIN_C_DECLS

/* An endpoint as UCX makes it for each type of memory of a GPU: it has no peer, and no
 * lane for messages */
ucs_status_t create_internal_ep(ucp_worker_h worker);

/* @return The worker's interface of a transport, NULL if it has none */
uct_iface_h find_iface(ucp_worker_h worker, const char *tl_name);

END_C_DECLS

#endif
