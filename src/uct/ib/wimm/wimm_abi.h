/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_ABI_H_
#define UCT_WIMM_ABI_H_

#include <ucs/type/class.h>
#include <ucs/type/status.h>
#include <stddef.h>
#include <string.h>

/* Load-time guard. UCX checks no module, and its internal structures change
 * with its version and with its configuration: a module that was built for
 * another UCX must notice before it touches one of them. */

/* One base class: its size in the UCX that the module was built for, and the
 * descriptor of the UCX that is loaded */
typedef struct uct_wimm_abi_class {
    size_t built_size;
    const ucs_class_t *loaded;
} uct_wimm_abi_class_t;


/* What the module was built for, and what is loaded */
typedef struct uct_wimm_abi {
    const char *built_version;
    const char *loaded_version;
    const uct_wimm_abi_class_t *classes;
    unsigned num_classes;

    /* Files that the version and the base classes were taken from, or NULL:
     * only if they are in one folder does the version speak for the classes */
    const char *ucp_file;
    const char *uct_file;
} uct_wimm_abi_t;


/* Whether a UCX is the one that this was built for. "1.13.1" also stands for
 * "1.13.1-rc1", but not for "1.13.10". */
static inline int uct_wimm_abi_is_version(const char *built, const char *loaded)
{
    size_t length = strlen(built);

    return !strncmp(built, loaded, length) &&
           ((loaded[length] < '0') || (loaded[length] > '9'));
}


/* The module's own. The strings are static. */
void uct_wimm_abi_get(uct_wimm_abi_t *abi);


/**
 * Compare the folders, the versions and all sizes.
 *
 * @param [in]  abi  What to compare.
 * @param [out] msg  On a mismatch: one sentence with both sides of it.
 * @param [in]  max  Size of @a msg, in bytes.
 *
 * @return UCS_OK, or UCS_ERR_UNSUPPORTED on a mismatch.
 */
ucs_status_t uct_wimm_abi_check(const uct_wimm_abi_t *abi, char *msg,
                                size_t max);

#endif
