/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * What goes through libibverbs, counted for all methods alike: posting and polling are
 * called by pointers in the device's context. This program's ibv_open_device() is found
 * before the library's, also by UCX, so all contexts are known. The pointers are replaced
 * only while counting, which is done in a pass of its own: what is timed is not counted.
 */


#define MAX_CONTEXTS 64
#define MAX_LIFESPAN 10000 /* Of counters, in milliseconds */


typedef struct {
    struct ibv_context *context;
    struct ibv_context_ops ops; /* Its own ones */
} perf_context_t;


static perf_context_t perf_contexts[MAX_CONTEXTS];
static unsigned perf_num_contexts;
static int perf_counting;
static perf_counts_t perf_total;


uint64_t perf_count_add(uint64_t a, uint64_t b)
{
    return ((a == UINT64_MAX) || (b == UINT64_MAX)) ? UINT64_MAX : (a + b);
}

uint64_t perf_count_sub(uint64_t a, uint64_t b)
{
    return ((a == UINT64_MAX) || (b == UINT64_MAX)) ? UINT64_MAX : (a - b);
}

static const struct ibv_context_ops *perf_ops(const struct ibv_context *context)
{
    unsigned i;

    for (i = 0; perf_contexts[i].context != context; ++i) {
    }
    return &perf_contexts[i].ops;
}

static int perf_count_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
                                struct ibv_send_wr **bad_wr)
{
    const struct ibv_send_wr *elem;

    ++perf_total.doorbells;
    for (elem = wr; elem != NULL; elem = elem->next) {
        ++perf_total.work_requests;
        perf_total.controls += (elem->opcode == IBV_WR_SEND_WITH_IMM);
    }
    return perf_ops(qp->context)->post_send(qp, wr, bad_wr);
}

static void perf_count_receives(const struct ibv_recv_wr *wr)
{
    for (; wr != NULL; wr = wr->next) {
        ++perf_total.receives;
    }
}

static int perf_count_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                                struct ibv_recv_wr **bad_wr)
{
    perf_count_receives(wr);
    return perf_ops(qp->context)->post_recv(qp, wr, bad_wr);
}

static int perf_count_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
                                    struct ibv_recv_wr **bad_wr)
{
    perf_count_receives(wr);
    return perf_ops(srq->context)->post_srq_recv(srq, wr, bad_wr);
}

static int perf_count_poll_cq(struct ibv_cq *cq, int num_entries,
                              struct ibv_wc *wc)
{
    int ret = perf_ops(cq->context)->poll_cq(cq, num_entries, wc);
    int i;

    for (i = 0; i < ret; ++i) {
        if (wc[i].opcode & IBV_WC_RECV) {
            ++perf_total.recv_comps;
        } else {
            ++perf_total.send_comps;
        }
    }
    return ret;
}

static void perf_context_count(perf_context_t *elem, int enable)
{
    struct ibv_context_ops *ops = &elem->context->ops;

    if (enable) {
        ops->post_send     = perf_count_post_send;
        ops->post_recv     = perf_count_post_recv;
        ops->post_srq_recv = perf_count_post_srq_recv;
        ops->poll_cq       = perf_count_poll_cq;
    } else {
        ops->post_send     = elem->ops.post_send;
        ops->post_recv     = elem->ops.post_recv;
        ops->post_srq_recv = elem->ops.post_srq_recv;
        ops->poll_cq       = elem->ops.poll_cq;
    }
}

void perf_count_enable(int enable)
{
    unsigned i;

    perf_counting = enable;
    for (i = 0; i < perf_num_contexts; ++i) {
        if (perf_contexts[i].context != NULL) {
            perf_context_count(&perf_contexts[i], enable);
        }
    }
}

/* In place of the library's */
__attribute__((visibility("default"))) struct ibv_context *ibv_open_device(
        struct ibv_device *device)
{
    static struct ibv_context *(*real)(struct ibv_device *);
    struct ibv_context *context;
    unsigned i;

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "ibv_open_device");
    }

    context = (real == NULL) ? NULL : real(device);
    for (i = 0; (context != NULL) && (i < MAX_CONTEXTS); ++i) {
        if (perf_contexts[i].context == NULL) {
            perf_contexts[i].context = context;
            perf_contexts[i].ops     = context->ops;
            if (i >= perf_num_contexts) {
                perf_num_contexts = i + 1;
            }
            break;
        }
    }
    return context;
}

__attribute__((visibility("default"))) int ibv_close_device(
        struct ibv_context *context)
{
    static int (*real)(struct ibv_context *);
    unsigned i;

    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "ibv_close_device");
    }

    for (i = 0; i < perf_num_contexts; ++i) {
        if (perf_contexts[i].context == context) {
            if (perf_counting) {
                perf_context_count(&perf_contexts[i], 0);
            }
            perf_contexts[i].context = NULL;
        }
    }
    return (real == NULL) ? -1 : real(context);
}

/* @return What the device says of its port, UINT64_MAX if it does not */
static uint64_t perf_port_counter(const char *device, const char *name)
{
    const char *colon        = strchr(device, ':');
    unsigned long long value = UINT64_MAX;
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/ports/%s/%s",
             (int)(colon - device), device, colon + 1, name);
    file = fopen(path, "r");
    if (file != NULL) {
        if (fscanf(file, "%llu", &value) != 1) {
            value = UINT64_MAX;
        }
        fclose(file);
    }

    return value;
}

/* The first of these that the device has */
static uint64_t perf_port_counters(const char *device, const char *const *names)
{
    uint64_t value = UINT64_MAX;

    for (; (*names != NULL) && (value == UINT64_MAX); ++names) {
        value = perf_port_counter(device, *names);
    }
    return value;
}

/* The kernel keeps the values for a time, in which it does not ask the device again */
static void perf_wait_counters(const char *device)
{
    uint64_t msec         = perf_port_counter(device, "hw_counters/lifespan");
    struct timespec pause = { .tv_sec = 0 };

    if (msec <= MAX_LIFESPAN) {
        pause.tv_sec  = (msec + 1) / 1000;
        pause.tv_nsec = ((msec + 1) % 1000) * 1000000;
        nanosleep(&pause, NULL);
    }
}

void perf_count_read(const char *device, perf_counts_t *counts)
{
    /* Those of rxe, and of mlx5 */
    static const char *const packets[] = { "hw_counters/sent_pkts",
                                           "counters/port_xmit_packets", NULL };
    static const char *const rnr[]     = { "hw_counters/rcvd_rnr_err",
                                           "hw_counters/rnr_nak_retry_err", NULL };

    perf_wait_counters(device);
    *counts         = perf_total;
    counts->packets = perf_port_counters(device, packets);
    counts->rnr     = perf_port_counters(device, rnr);
}
