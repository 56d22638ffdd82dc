/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/* The module as for a UCX that is not the installed one, for
 * test_abi_skew.sh. All of its sources are in here, to be compiled with what
 * would be different:
 *
 * WIMM_SKEW_CONFIG   a UCX of the same version that was configured in another
 *                    way, so that its structures have other sizes
 * WIMM_SKEW_VERSION  a UCX of another version
 */

#include "config.h"

/* Once is enough: what follows overrides parts of it */
#undef HAVE_CONFIG_H

#ifdef WIMM_SKEW_CONFIG
#  ifdef ENABLE_STATS
#    undef ENABLE_STATS
#  else
#    define ENABLE_STATS 1
#  endif
#endif

#ifdef WIMM_SKEW_VERSION
#  undef WIMM_UCX_VERSION
#  define WIMM_UCX_VERSION WIMM_SKEW_VERSION
#endif

#include <uct/ib/wimm/wimm_abi.c>
#include <uct/ib/wimm/wimm_ep.c>
#include <uct/ib/wimm/wimm_fc.c>
#include <uct/ib/wimm/wimm_iface.c>
#include <uct/ib/wimm/wimm_imm.c>
#include <uct/ib/wimm/wimm_module.c>
#include <uct/ib/wimm/wimm_pending.c>
#include <uct/ib/wimm/wimm_put.c>
#include <uct/ib/wimm/wimm_qp.c>
#include <uct/ib/wimm/wimm_stats.c>
#include <uct/ib/wimm/wimm_tl.c>
