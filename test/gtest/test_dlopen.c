/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include <uct/ib/wimm/wimm.h>
#include <ucs/config/parser.h>

#include <sys/wait.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


/*
 * The module in a host that is not linked with UCX: a program that loads it, or
 * UCX and then the module, by dlopen() and with RTLD_LOCAL, as Python does.
 *
 * Each case is a process of its own, since nothing that was loaded is ever the
 * same as before. Usage: test_dlopen [PATH-OF-THE-MODULE]
 */

static const char *module_path = WIMM_MODULE;
static int failures;


#define CHECK(_cond, _fmt, ...)                                   \
  do {                                                            \
    if (!(_cond)) {                                               \
      printf("    line %d: " _fmt "\n", __LINE__, ##__VA_ARGS__); \
      ++failures;                                                 \
    }                                                             \
  } while (0)


static void *load(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    CHECK(handle != NULL, "%s", dlerror());
    if (handle == NULL) {
        exit(EXIT_FAILURE);
    }
    return handle;
}

/* How often the transport is in UCX's list of configuration tables */
static int count_registered(void *handle)
{
    int count             = 0;
    ucs_list_link_t *list = dlsym(handle, "ucs_config_global_list");
    ucs_config_global_list_entry_t *entry;

    CHECK(list != NULL, "no ucs_config_global_list");
    if (list == NULL) {
        return -1;
    }

    ucs_list_for_each(entry, list, list) {
        count += (entry->prefix != NULL) && !strcmp(entry->prefix, "WIMM_");
    }
    return count;
}

static void check_symbols(void *handle)
{
    static const char *const public_names[] = {
        "uct_wimm_ep_put_imm_short", "uct_wimm_iface_set_imm_handler"
    };
    static const char *const hidden_names[] = { "uct_wimm_tl",
                                                "uct_wimm_tl_register",
                                                "uct_wimm_tl_cleanup",
                                                "uct_wimm_abi_check",
                                                "uct_wimm_ep_destroy",
                                                "uct_wimm_iface_t_class",
                                                "uct_wimm_ep_t_class",
                                                "uct_wimm_qp_retire",
                                                "uct_wimm_iface_config_table" };
    size_t i;

    for (i = 0; i < ucs_static_array_size(public_names); ++i) {
        CHECK(dlsym(handle, public_names[i]) != NULL, "%s is missing",
              public_names[i]);
    }
    for (i = 0; i < ucs_static_array_size(hidden_names); ++i) {
        CHECK(dlsym(handle, hidden_names[i]) == NULL, "%s is exported",
              hidden_names[i]);
    }
}

static void case_module_alone(void)
{
    void *handle = load(module_path);

    check_symbols(handle);
    CHECK(count_registered(handle) == 1, "not registered");
    CHECK(dlsym(RTLD_DEFAULT, "uct_wimm_ep_put_imm_short") == NULL,
          "visible to all in spite of RTLD_LOCAL");
}

static void case_load_again(void)
{
    void *handle;
    int i;

    for (i = 0; i < 3; ++i) {
        handle = load(module_path);
        check_symbols(handle);
        CHECK(count_registered(handle) == 1, "round %d: not registered", i);
        CHECK(dlclose(handle) == 0, "dlclose: %s", dlerror());
    }
}

static void case_loaded_twice_at_once(void)
{
    void *first  = load(module_path);
    void *second = load(module_path);

    CHECK(count_registered(first) == 1, "registered once per dlopen");
    CHECK(dlclose(second) == 0, "dlclose: %s", dlerror());
    CHECK(count_registered(first) == 1, "gone although still loaded");
}

static void case_ucx_first(void)
{
    void *ucp = load("libucp.so.0");
    void *handle;

    CHECK(count_registered(ucp) == 0, "registered before it is loaded");
    handle = load(module_path);
    check_symbols(handle);
    CHECK(count_registered(ucp) == 1, "not registered in the UCX of the host");

    CHECK(dlclose(handle) == 0, "dlclose: %s", dlerror());
    CHECK(count_registered(ucp) == 0, "still registered after dlclose");

    handle = load(module_path);
    CHECK(count_registered(ucp) == 1, "not registered again");
}

static void case_components_after_unload(void)
{
    void *ucp    = load("libucp.so.0");
    void *handle = load(module_path);
    ucs_status_t (*query)(uct_component_h **, unsigned *);
    void (*release)(uct_component_h *);
    uct_component_h *components;
    unsigned num_components;

    /* UCX walks its lists with and without the module */
    query   = (ucs_status_t(*)(uct_component_h **,
                             unsigned *))dlsym(ucp, "uct_query_components");
    release = (void (*)(uct_component_h *))dlsym(ucp,
                                                 "uct_release_component_list");
    CHECK((query != NULL) && (release != NULL), "UCX's API is missing");

    CHECK(query(&components, &num_components) == UCS_OK, "with the module");
    CHECK(num_components > 1, "%u components", num_components);
    release(components);

    CHECK(dlclose(handle) == 0, "dlclose: %s", dlerror());
    CHECK(query(&components, &num_components) == UCS_OK, "without the module");
    release(components);
}


static const struct {
    const char *name;
    void (*func)(void);
} cases[] = { { "module alone", case_module_alone },
              { "loaded, unloaded and loaded again", case_load_again },
              { "loaded twice at once", case_loaded_twice_at_once },
              { "UCX loaded before, with RTLD_LOCAL", case_ucx_first },
              { "UCX's lists after the module was unloaded",
                case_components_after_unload } };


static int run(unsigned index)
{
    int status = -1;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        cases[index].func();
        exit(failures ? EXIT_FAILURE : EXIT_SUCCESS);
    }

    if ((pid < 0) || (waitpid(pid, &status, 0) != pid)) {
        perror("fork");
        return 1;
    }

    if (WIFSIGNALED(status)) {
        printf("    killed by signal %d\n", WTERMSIG(status));
    }
    printf("%s %u - %s\n", (status == 0) ? "ok" : "not ok", index + 1,
           cases[index].name);
    return status != 0;
}

int main(int argc, char **argv)
{
    int result = 0;
    unsigned i;

    if (argc > 1) {
        module_path = argv[1];
    }

    for (i = 0; i < ucs_static_array_size(cases); ++i) {
        result |= run(i);
    }
    printf("1..%u\n", (unsigned)ucs_static_array_size(cases));
    return result ? EXIT_FAILURE : EXIT_SUCCESS;
}
