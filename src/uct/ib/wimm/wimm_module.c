/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_tl.h"

#include <ucs/sys/compiler.h>


/* Not UCS_MODULE_INIT: nobody calls that when the module is preloaded */
UCS_F_CTOR static void uct_wimm_module_init(void)
{
    uct_wimm_abi_t abi;

    uct_wimm_abi_get(&abi);
    uct_wimm_tl_register(&abi);
}

UCS_F_DTOR static void uct_wimm_module_cleanup(void)
{
    uct_wimm_tl_cleanup();
}
