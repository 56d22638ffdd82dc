/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf_methods.h"


/* In the order in which they are listed: the limit, then by level */
const perf_method_t *perf_methods[] = { &perf_raw_write_imm,
                                        &perf_raw_write_imm_mod,
                                        &perf_raw_write,
                                        &perf_uct_put_imm,
                                        &perf_uct_am_short,
                                        &perf_ucp_put_imm,
                                        &perf_put_fence_am,
                                        &perf_put_flush_am,
                                        &perf_put_flag,
                                        &perf_put_atomic,
                                        &perf_am,
                                        &perf_put,
                                        NULL };
