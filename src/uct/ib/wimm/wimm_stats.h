/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_STATS_H_
#define UCT_WIMM_STATS_H_

#include "wimm_ep.h"

/* An endpoint goes away: keep what it has counted */
void uct_wimm_stats_ep_cleanup(uct_wimm_iface_t *iface,
                               const uct_wimm_ep_t *ep);

/* UCX_WIMM_STATS=y: print what was counted, when an object is closed */
void uct_wimm_stats_print_ep(const uct_wimm_ep_t *ep);
void uct_wimm_stats_print_iface(uct_wimm_iface_t *iface);

#endif
