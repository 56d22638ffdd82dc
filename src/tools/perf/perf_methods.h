/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_PERF_METHODS_H_
#define WIMM_PERF_METHODS_H_

#include "perf.h"

/* All methods, by the file that has them; perf_methods.c lists them */

/* perf_raw.c */
extern const perf_method_t perf_raw_write_imm;
extern const perf_method_t perf_raw_write_imm_mod;
extern const perf_method_t perf_raw_write;

/* perf_uct.c */
extern const perf_method_t perf_uct_put_imm;
extern const perf_method_t perf_uct_am_short;

/* perf_ucp.c */
extern const perf_method_t perf_ucp_put_imm;
extern const perf_method_t perf_put_fence_am;
extern const perf_method_t perf_put_flush_am;
extern const perf_method_t perf_put_flag;
extern const perf_method_t perf_put_atomic;
extern const perf_method_t perf_am;
extern const perf_method_t perf_put;

#endif
