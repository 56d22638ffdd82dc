/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf_opts.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the kernel shows RDMA devices */
#ifndef PERF_SYSFS
#  define PERF_SYSFS "/sys/class/infiniband"
#endif

#define MAX_TIMEOUT 1e6


void perf_wrong_option(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs(PERF_PROGRAM ": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(2);
}


/*
 * Values
 */

unsigned long perf_parse_number(const char *text, unsigned long min,
                                unsigned long max, const char *option)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 10);
    if ((*text < '0') || (*text > '9') || (*end != '\0') || (errno != 0) ||
        (value < min) || (value > max)) {
        perf_wrong_option("%s takes a number from %lu to %lu, not '%s'", option,
                          min, max, text);
    }

    return value;
}

double perf_parse_seconds(const char *text)
{
    char *end    = NULL;
    double value = 0;

    /* No signs, exponents, or names of numbers */
    if ((*text != '\0') && (text[strspn(text, "0123456789.")] == '\0')) {
        value = strtod(text, &end);
    }

    if ((end == NULL) || (*end != '\0') || !(value > 0) ||
        (value > MAX_TIMEOUT)) {
        perf_wrong_option(
                "-T takes seconds, more than 0 and up to %.0f, not '%s'",
                MAX_TIMEOUT, text);
    }

    return value;
}

/* "64k". @return What follows it, NULL if it is no size. */
static const char *parse_size(const char *text, size_t *size_p)
{
    static const char units[] = "kmg";
    unsigned long long value;
    const char *unit;
    char *end;

    if ((*text < '0') || (*text > '9')) {
        return NULL;
    }

    errno = 0;
    value = strtoull(text, &end, 10);
    if ((errno != 0) || (value > PERF_MAX_SIZE)) {
        return NULL;
    }

    unit = (*end != '\0') ? strchr(units, *end | 0x20) : NULL;
    if ((unit != NULL) && (*unit != '\0')) {
        value <<= 10 * (unit - units + 1); /* At most 2^60 */
        ++end;
    }

    *size_p = value;
    return (value <= PERF_MAX_SIZE) ? end : NULL;
}

/* "x4" or "+1k". @return What follows it, NULL if it is no step. */
static const char *parse_step(const char *text, perf_opts_t *opts)
{
    size_t value = 0;

    if (*text == 'x') {
        text              = parse_size(text + 1, &value);
        opts->size_factor = value;
        opts->size_step   = 0;
        return ((text != NULL) && (value >= 2)) ? text : NULL;
    }

    if (*text == '+') {
        text              = parse_size(text + 1, &value);
        opts->size_factor = 1;
        opts->size_step   = value;
        return ((text != NULL) && (value >= 1)) ? text : NULL;
    }

    return NULL;
}

void perf_parse_sizes(const char *text, perf_opts_t *opts)
{
    const char *next = parse_size(text, &opts->size);

    opts->max_size    = opts->size;
    opts->size_factor = 2;
    opts->size_step   = 0;
    if ((next != NULL) && (*next == ':')) {
        next = parse_size(next + 1, &opts->max_size);
        if ((next != NULL) && (*next == ':')) {
            next = parse_step(next + 1, opts);
        }
    }

    if ((next == NULL) || (*next != '\0')) {
        perf_wrong_option("-s takes SIZE, FROM:TO, FROM:TO:xN with N from 2, or "
                          "FROM:TO:+SIZE, sizes up to 1g, not '%s'",
                          text);
    }
    if (opts->size > opts->max_size) {
        perf_wrong_option("-s takes the smaller size first, not '%s'", text);
    }
}

static const char *parse_cpu(const char *text, unsigned long *cpu_p)
{
    long count = sysconf(_SC_NPROCESSORS_CONF);
    char *end;

    if ((*text < '0') || (*text > '9')) {
        return NULL;
    }

    *cpu_p = strtoul(text, &end, 10);
    return (*cpu_p < (unsigned long)count) ? end : NULL;
}

/* "2" or "2-3". @return What follows it, NULL if these are no CPUs. */
static const char *parse_cpu_range(const char *text, perf_opts_t *opts)
{
    const unsigned max  = sizeof(opts->cpus) / sizeof(opts->cpus[0]);
    unsigned long first = 0, last;

    text = parse_cpu(text, &first);
    last = first;
    if ((text != NULL) && (*text == '-')) {
        text = parse_cpu(text + 1, &last);
    }

    if ((text == NULL) || (first > last) ||
        (last - first >= max - opts->num_cpus)) {
        return NULL;
    }

    for (; first <= last; ++first) {
        opts->cpus[opts->num_cpus++] = first;
    }
    return text;
}

void perf_parse_cpus(const char *text, perf_opts_t *opts)
{
    const char *next = text;

    opts->num_cpus = 0;
    while ((next = parse_cpu_range(next, opts)) && (*next == ',')) {
        ++next;
    }

    if ((next == NULL) || (*next != '\0')) {
        perf_wrong_option(
                "-c takes up to %zu CPUs like 0,2-3, each from 0 to %ld, "
                "not '%s'",
                sizeof(opts->cpus) / sizeof(opts->cpus[0]),
                sysconf(_SC_NPROCESSORS_CONF) - 1, text);
    }
}


/*
 * Devices
 */

static int is_not_dot(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static void free_list(struct dirent **list, int count)
{
    while (count > 0) {
        free(list[--count]);
    }
    free(list);
}

/* Like "4: ACTIVE". @return 0 if there is no such port. */
static int port_state(const char *name, const char *port, char *state,
                      size_t max)
{
    char path[PATH_MAX];
    FILE *file;
    int result;

    if (snprintf(path, sizeof(path), PERF_SYSFS "/%s/ports/%s/state", name,
                 port) >= (int)sizeof(path)) {
        return 0;
    }

    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }

    result = fgets(state, max, file) != NULL;
    fclose(file);
    if (result) {
        state[strcspn(state, "\n")] = '\0';
    }
    return result;
}

static int is_active(const char *state)
{
    return strstr(state, "ACTIVE") != NULL;
}

/* The first active port of a device. @return 0 if it has none. */
static int find_port(const char *name, char *device)
{
    struct dirent **list = NULL;
    int result           = 0;
    char path[PATH_MAX], state[64];
    int i, count;

    if (snprintf(path, sizeof(path), PERF_SYSFS "/%s/ports", name) >=
        (int)sizeof(path)) {
        return 0;
    }

    count = scandir(path, &list, is_not_dot, alphasort);
    for (i = 0; (i < count) && !result; ++i) {
        result = port_state(name, list[i]->d_name, state, sizeof(state)) &&
                 is_active(state) &&
                 (snprintf(device, PERF_MAX_DEVICE, "%s:%s", name,
                           list[i]->d_name) < PERF_MAX_DEVICE);
    }

    free_list(list, count);
    return result;
}

static void find_device(char *device)
{
    struct dirent **list = NULL;
    int result           = 0;
    int i, count;

    count = scandir(PERF_SYSFS, &list, is_not_dot, alphasort);
    for (i = 0; (i < count) && !result; ++i) {
        result = find_port(list[i]->d_name, device);
    }

    free_list(list, count);
    if (!result) {
        perf_fail("no RDMA device with an active port on this machine: bring "
                  "one up, or add one with 'rdma link add rxe0 type rxe netdev "
                  "NETDEV'");
    }
}

/* The device that was asked for: "rxe0:1" or "rxe0" */
static void check_device(const char *text, char *device)
{
    char state[64];
    const char *port;
    char *colon;

    if ((*text == '\0') || (*text == '.') || (strchr(text, '/') != NULL) ||
        (snprintf(device, PERF_MAX_DEVICE, "%s%s", text,
                  (strchr(text, ':') != NULL) ? "" : ":1") >=
         PERF_MAX_DEVICE)) {
        perf_wrong_option("-d takes a device like rxe0:1, not '%s'", text);
    }

    colon = strchr(device, ':');
    port  = colon + 1;
    if ((colon == device) || (*port < '1') || (*port > '9') ||
        (port[strspn(port, "0123456789")] != '\0')) {
        perf_wrong_option(
                "-d takes a device and its port like rxe0:1, not '%s'", text);
    }

    *colon = '\0';
    if (access(PERF_SYSFS, F_OK) ||
        !port_state(device, port, state, sizeof(state))) {
        perf_wrong_option("there is no port %s of an RDMA device '%s' on this "
                          "machine: -d takes one that is in " PERF_SYSFS,
                          port, device);
    }
    if (!is_active(state)) {
        perf_wrong_option(
                "port %s of %s is not active but '%s': bring its link up, "
                "or give another one with -d",
                port, device, state);
    }
    *colon = ':';
}

void perf_parse_device(const char *text, char *device)
{
    if (text != NULL) {
        check_device(text, device);
    } else {
        find_device(device);
    }
}
