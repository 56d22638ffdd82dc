/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_TEST_INTERNAL_EP_H_
#define WIMM_TEST_INTERNAL_EP_H_

#include <ucp/api/ucp.h>

BEGIN_C_DECLS

/* An endpoint as UCX makes it for each type of memory of a GPU: it has no peer, and no
 * lane for messages */
ucs_status_t create_internal_ep(ucp_worker_h worker);

END_C_DECLS

#endif
