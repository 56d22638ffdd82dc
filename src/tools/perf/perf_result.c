/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * What is reported of a test that was run
 */


/* What the server tells the client at the end of a test */
typedef struct {
    perf_counts_t counts;
    double server_cpu;
    char port[64]; /* GUID of its device, and port; empty: not known */
} perf_report_msg_t;


/* What tells a port, whose counters are read, from all others of both machines */
static void perf_port_name(const char *device, char *name, size_t max)
{
    size_t length = strcspn(device, ":");
    char path[256], guid[32];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/node_guid",
             (int)length, device);
    memset(name, 0, max);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%31s", guid) == 1) {
            snprintf(name, max, "%s%s", guid, device + length);
        }
        fclose(file);
    }
}

/* The client gets what the server has counted */
void perf_test_collect(perf_test_t *test, perf_chan_t *chan)
{
    perf_report_msg_t msg, mine;
    perf_counts_t *counts = &test->counts;

    if (chan->fd < 0) {
        return;
    }

    memset(&mine, 0, sizeof(mine));
    mine.counts     = test->counts;
    mine.server_cpu = test->server_cpu;
    perf_port_name(test->device, mine.port, sizeof(mine.port));
    if (test->sides[0] == NULL) {
        perf_chan_send(chan, &mine, sizeof(mine));
        return;
    }

    perf_chan_recv(chan, &msg, sizeof(msg));
    test->server_cpu = msg.server_cpu;
    counts->work_requests += msg.counts.work_requests;
    counts->doorbells += msg.counts.doorbells;
    counts->receives += msg.counts.receives;
    counts->send_comps += msg.counts.send_comps;
    counts->recv_comps += msg.counts.recv_comps;
    counts->controls += msg.counts.controls;
    if ((mine.port[0] == '\0') ||
        memcmp(msg.port, mine.port, sizeof(msg.port))) {
        counts->packets = perf_count_add(counts->packets, msg.counts.packets);
        counts->rnr     = perf_count_add(counts->rnr, msg.counts.rnr);
    }
}

static int perf_compare_float(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

/* Sorted samples: the smallest one that such a share of them does not exceed */
static double perf_percentile(const perf_test_t *test, double share)
{
    double rank = ceil(share * test->num_samples);

    if (test->num_samples == 0) {
        return NAN;
    }
    return test->samples[(rank < 1) ? 0 : ((size_t)rank - 1)];
}

static double perf_per_op(uint64_t count, uint64_t iters)
{
    return ((iters == 0) || (count == UINT64_MAX)) ? NAN :
                                                     ((double)count / iters);
}

void perf_test_result(const perf_test_t *test, const perf_job_t *job,
                      unsigned index, perf_result_t *result)
{
    const perf_counts_t *counts = &test->counts;
    uint64_t counted            = test->counted_iters;
    uint64_t seen, controls;

    /* Some transports do without libibverbs, and only wimm's messages of flow control can be
     * told from others; a raw loop has none */
    seen     = (counts->work_requests > 0) ? counted : 0;
    controls = (!strcmp(test->tl, "wimm") || !strcmp(test->tl, "verbs")) ?
                       seen :
                       0;

    snprintf(result->test, sizeof(result->test), "%s_%s", test->method->name,
             perf_kind_names[test->kind]);
    qsort(test->samples, test->num_samples, sizeof(*test->samples),
          perf_compare_float);

    result->tl      = job->tests[index].tl; /* Lives longer than the test */
    result->device  = test->device;
    result->size    = test->size;
    result->iters   = test->iters;
    result->rounds  = job->rounds;
    result->window  = (test->kind == PERF_KIND_LAT) ? 0 : test->window;
    result->num_eps = test->num_eps;
    result->mean    = test->elapsed / (test->iters + test->num_answers);
    result->p50     = perf_percentile(test, 0.5);
    result->p90     = perf_percentile(test, 0.9);
    result->p99     = perf_percentile(test, 0.99);
    result->p999    = perf_percentile(test, 0.999);
    result->rate    = 1e6 / result->mean;
    result->ratio   = NAN;

    result->bandwidth     = result->rate * test->size / (1 << 20);
    result->work_requests = perf_per_op(counts->work_requests, seen);
    result->doorbells     = perf_per_op(counts->doorbells, seen);
    result->receives      = perf_per_op(counts->receives, seen);
    result->send_comps    = perf_per_op(counts->send_comps, seen);
    result->recv_comps    = perf_per_op(counts->recv_comps, seen);
    result->controls      = perf_per_op(counts->controls, controls);
    result->packets       = perf_per_op(counts->packets, counted);
    result->rnr           = perf_per_op(counts->rnr, (counted == 0) ? 0 : 1);
    result->server_cpu    = test->server_cpu /
                         (test->iters *
                          ((test->kind == PERF_KIND_LAT) ? 2 : 1));
    result->ep_memory = test->sides[0]->ep_memory;
}
