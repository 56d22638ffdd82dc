/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_TL_H_
#define UCT_WIMM_TL_H_

#include "wimm_abi.h"

#include <uct/base/uct_iface.h>


extern uct_tl_t uct_wimm_tl;


/**
 * Add the transport to the ib component of the UCX that is loaded, if that is
 * the one that this module was built for. Logs one line, either way.
 */
ucs_status_t uct_wimm_tl_register(const uct_wimm_abi_t *abi);


/* Take the transport back, if it was added */
void uct_wimm_tl_cleanup(void);

#endif
