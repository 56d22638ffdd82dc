/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_abi.h"
#include "wimm_compat.h"

#include <ucp/api/ucp.h>
#include <ucs/sys/math.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define UCT_WIMM_ABI_CLASS(_type)                                 \
  {                                                               \
    .built_size = sizeof(_type), .loaded = &UCS_CLASS_NAME(_type) \
  }


/* Not a class, but extended by ours as one: its size is in the transport entry */
static ucs_class_t uct_wimm_abi_config_class = {
    .name = "uct_rc_verbs_iface_config_t"
};


static const uct_wimm_abi_class_t uct_wimm_abi_classes[] = {
    UCT_WIMM_ABI_CLASS(uct_base_iface_t),
    UCT_WIMM_ABI_CLASS(uct_ib_iface_t),
    UCT_WIMM_ABI_CLASS(uct_rc_iface_t),
    UCT_WIMM_ABI_CLASS(uct_rc_ep_t),
    UCT_WIMM_ABI_CLASS(uct_rc_verbs_iface_t),
    UCT_WIMM_ABI_CLASS(uct_rc_verbs_ep_t),
    { .built_size = sizeof(uct_rc_verbs_iface_config_t),
      .loaded     = &uct_wimm_abi_config_class }
};


/* The file that a function was loaded from, or NULL if that is not known */
static const char *uct_wimm_abi_file(void (*func)(void), char *buffer)
{
    Dl_info info;

    if (dladdr((void *)func, &info) == 0) {
        return NULL;
    }

    return realpath(info.dli_fname, buffer);
}

void uct_wimm_abi_get(uct_wimm_abi_t *abi)
{
    static char ucp_file[PATH_MAX], uct_file[PATH_MAX];

    uct_wimm_abi_config_class.size = uct_rc_verbs_tl.config.size;

    abi->built_version  = WIMM_UCX_VERSION;
    abi->loaded_version = ucp_get_version_string();
    abi->classes        = uct_wimm_abi_classes;
    abi->num_classes    = ucs_static_array_size(uct_wimm_abi_classes);
    abi->ucp_file = uct_wimm_abi_file((void (*)(void))ucp_get_version_string,
                                      ucp_file);
    abi->uct_file = uct_wimm_abi_file((void (*)(void))uct_tl_register,
                                      uct_file);
}

static int uct_wimm_abi_same_folder(const char *file1, const char *file2)
{
    size_t length1 = strrchr(file1, '/') - file1;
    size_t length2 = strrchr(file2, '/') - file2;

    return (length1 == length2) && !strncmp(file1, file2, length1);
}

ucs_status_t uct_wimm_abi_check(const uct_wimm_abi_t *abi, char *msg,
                                size_t max)
{
    const uct_wimm_abi_class_t *cls;

    if ((abi->ucp_file != NULL) && (abi->uct_file != NULL) &&
        !uct_wimm_abi_same_folder(abi->ucp_file, abi->uct_file)) {
        snprintf(msg, max, "two UCX are loaded, %s and %s", abi->ucp_file,
                 abi->uct_file);
        return UCS_ERR_UNSUPPORTED;
    }

    if (!uct_wimm_abi_is_version(abi->built_version, abi->loaded_version)) {
        snprintf(msg, max, "it was built for UCX %s but UCX %s is loaded",
                 abi->built_version, abi->loaded_version);
        return UCS_ERR_UNSUPPORTED;
    }

    for (cls = abi->classes; cls < (abi->classes + abi->num_classes); ++cls) {
        if (cls->built_size != cls->loaded->size) {
            snprintf(msg, max,
                     "it was built for a UCX %s whose %s has %zu bytes, in the"
                     " UCX that is loaded it has %zu",
                     abi->built_version, cls->loaded->name, cls->built_size,
                     cls->loaded->size);
            return UCS_ERR_UNSUPPORTED;
        }
    }

    return UCS_OK;
}
