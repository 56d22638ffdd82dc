/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_PERF_OPTS_H_
#define WIMM_PERF_OPTS_H_

#include "perf.h"

/* perf_parse.c: values of options. These end the process with a sentence and status 2 if
 * a value is wrong. */

#define PERF_PROGRAM "wimm_perftest"

/* Something is wrong with the command line */
void perf_wrong_option(const char *format, ...)
        __attribute__((format(printf, 1, 2), noreturn));

unsigned long perf_parse_number(const char *text, unsigned long min,
                                unsigned long max, const char *option);
double perf_parse_seconds(const char *text);
void perf_parse_sizes(const char *text, perf_opts_t *opts);
void perf_parse_cpus(const char *text, perf_opts_t *opts);

/* A device like "rxe0:1" or "rxe0", NULL: the first one with an active port */
void perf_parse_device(const char *text, char *device);

#endif
