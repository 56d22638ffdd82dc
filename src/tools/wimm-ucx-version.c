/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/* wimm-run's eyes: which UCX does the loader give to a program in this
 * environment, and does the module load into it?
 *
 *     wimm-ucx-version [-m MODULE] [LIBRARY...]
 *
 * loads the libraries in the given order, or libucp.so.0 as the loader finds it,
 * then MODULE. Standard output has one fact in a line, a key and its value:
 *
 *     version VERSION       of the UCX that was loaded
 *     NAME.so.N PATH        for each library of UCX that was loaded
 *     error MESSAGE         the loader's message about the last of them; the exit
 *                           status is 1
 *     module ok             the module was loaded
 *     module MESSAGE        the loader's message about the module
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


typedef const char *(*wimm_version_func_t)(void);


/* Objects that wimm-run wants to know about; the sanitizer's, because it has to
 * come first in LD_PRELOAD */
static int wimm_is_of_interest(const char *name)
{
    static const char *prefixes[] = { "libucm.", "libucs.",    "libuct.",
                                      "libucp.", "libuct_ib.", "libasan." };
    size_t i;

    for (i = 0; i < (sizeof(prefixes) / sizeof(prefixes[0])); ++i) {
        if (!strncmp(name, prefixes[i], strlen(prefixes[i]))) {
            return 1;
        }
    }

    return 0;
}

static int wimm_print_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *slash = strrchr(info->dlpi_name, '/');

    (void)size;
    (void)arg;

    if ((slash != NULL) && wimm_is_of_interest(slash + 1)) {
        printf("%s %s\n", slash + 1, info->dlpi_name);
    }

    return 0;
}

/* NULL, or why it cannot be loaded */
static const char *wimm_load(const char *path, int mode)
{
    const char *message;

    if (dlopen(path, mode | RTLD_GLOBAL) != NULL) {
        return NULL;
    }

    message = dlerror();
    return (message != NULL) ? message : "unknown error";
}

/* A file in the folder that libucs was loaded from */
static void wimm_load_beside_ucs(const char *name)
{
    char path[PATH_MAX], file[PATH_MAX];
    Dl_info info;
    void *symbol;

    symbol = dlsym(RTLD_DEFAULT, "ucs_global_opts");
    if ((symbol != NULL) && dladdr(symbol, &info) &&
        (realpath(info.dli_fname, path) != NULL) &&
        (snprintf(file, sizeof(file), "%s/%s", dirname(path), name) <
         (int)sizeof(file))) {
        wimm_load(file, RTLD_LAZY);
    }
}

static const char *wimm_ucx_version(void)
{
    wimm_version_func_t func;

    func = (wimm_version_func_t)dlsym(RTLD_DEFAULT, "ucp_get_version_string");
    if (func == NULL) {
        /* A program of the lower layers only; they cannot tell */
        wimm_load_beside_ucs("libucp.so.0");
        func = (wimm_version_func_t)dlsym(RTLD_DEFAULT,
                                          "ucp_get_version_string");
    }

    return (func != NULL) ? func() : NULL;
}

int main(int argc, char **argv)
{
    const char *module = NULL;
    const char *message, *version;
    int i;

    i = 1;
    if ((argc > 2) && !strcmp(argv[1], "-m")) {
        module = argv[2];
        i      = 3;
    }

    /* Lazily, and failures count in the end only: libucm and libucs need each
     * other, and either brings in the other one */
    message = (i < argc) ? NULL : wimm_load("libucp.so.0", RTLD_LAZY);
    for (; i < argc; ++i) {
        message = wimm_load(argv[i], RTLD_LAZY);
    }

    if (message != NULL) {
        printf("error %s\n", message);
        fflush(stdout);
        _exit(1);
    }

    version = wimm_ucx_version();
    if (version != NULL) {
        printf("version %s\n", version);
    }

    /* UCX loads its ib module from the folder beside its libraries. The module has
     * to share that one, and not bring in that of another UCX of its version. */
    wimm_load_beside_ucs("ucx/libuct_ib.so.0");

    /* Flushed in time, should the module take the process down */
    dl_iterate_phdr(wimm_print_object, NULL);
    fflush(stdout);

    if (module != NULL) {
        message = wimm_load(module, RTLD_NOW);
        printf("module %s\n", (message != NULL) ? message : "ok");
    }

    fflush(stdout);
    _exit(0); /* nothing is worth an orderly end of UCX */
}
