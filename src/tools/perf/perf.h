/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_PERF_H_
#define WIMM_PERF_H_

#include <ucs/type/status.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * wimm_perftest: what its parts share.
 *
 * A method (perf_raw.c, perf_uct.c, perf_ucp.c) is a way to tell a peer that data has
 * arrived. A test is a method with what is measured of it: latency, or a stream of
 * operations. A job is what is measured together, at one size: one test, or several that
 * are compared. Each test has two sides, of which this process has one, or both (-l).
 * perf_run.c goes through a job, in both processes alike; perf_report.c writes results.
 */


/* Limits of a job */
#define PERF_MAX_TESTS  16
#define PERF_MAX_DEVICE 64
#define PERF_MAX_TL     32
#define PERF_MAX_EPS    1024
#define PERF_MAX_SIZE   (1ul << 30)

/* Rotating over so many places in the source, the last byte counts operations */
#define PERF_MARKS 256

/* What does not apply, or is not known, is not a number (NAN) in results */


typedef struct perf_side perf_side_t;
typedef struct perf_test perf_test_t;


typedef enum perf_kind {
    PERF_KIND_LAT, /* Half round trips, one after the other */
    PERF_KIND_MR,  /* A stream of operations, for its rate */
    PERF_KIND_BW,  /* The same, for its bandwidth */
    PERF_KIND_LAST
} perf_kind_t;


/* How data is given to UCT */
typedef enum perf_layout {
    PERF_LAYOUT_AUTO, /* As short as its length allows */
    PERF_LAYOUT_SHORT,
    PERF_LAYOUT_BCOPY,
    PERF_LAYOUT_ZCOPY,
    PERF_LAYOUT_LAST
} perf_layout_t;


enum perf_method_flags {
    /* The receiver polls memory for the last byte: in a stream to another process it
     * sees the last operation only */
    PERF_METHOD_POLLED = 1 << 0,
    /* Runs over a stock transport, unless another one is asked for */
    PERF_METHOD_STOCK = 1 << 1,
    /* Data does not go to the peer's memory */
    PERF_METHOD_NO_PUT = 1 << 2,
    /* Order between endpoints would matter */
    PERF_METHOD_ONE_EP = 1 << 3
};


/* A way to notify. All but @a post and @a progress may end the process with a sentence
 * (@ref perf_fail). */
typedef struct perf_method {
    const char *name;
    const char *desc;
    const char *tl; /* Transport, "verbs" without UCX */
    unsigned flags; /* Of enum perf_method_flags */
    size_t min_size;

    /* Open everything but endpoints, and register the side's memory */
    void (*open)(perf_side_t *side);

    /* What the peer has to know. @return Allocated, of *length_p bytes. */
    void *(*pack)(perf_side_t *side, size_t *length_p);

    /* Create the test's endpoints from from_ep on to (not with) to_ep, and connect them to
     * the peer's: this, then @a pack_eps, then @a connect_eps. First for one endpoint, then
     * for all others. */
    void (*create_eps)(perf_side_t *side, const void *peer, size_t length);
    void *(*pack_eps)(perf_side_t *side, size_t *length_p);
    void (*connect_eps)(perf_side_t *side, const void *peer, size_t length);

    /* Issue one operation on endpoint @a ep, whose data begins at @a data and whose
     * number on this side is @a count, from 1. @return UCS_OK, UCS_ERR_NO_RESOURCE to be
     * called again after some progress, or another error. */
    ucs_status_t (*post)(perf_side_t *side, unsigned ep, const uint8_t *data,
                         uint64_t count);

    void (*progress)(perf_side_t *side);

    /* @return Operations that have arrived from the peer since the beginning; those that
     * are polled for: that were marked */
    uint64_t (*arrived)(perf_side_t *side);

    /* Whether the endpoints are connected, and all that was posted is complete; called
     * until it is, between progress */
    int (*flushed)(perf_side_t *side);

    void (*close)(perf_side_t *side);
} perf_method_t;


/* Operation counts of a process, or differences of them. All are sums. */
typedef struct perf_counts {
    uint64_t work_requests; /* Posted to send queues */
    uint64_t doorbells;     /* Calls that posted them */
    uint64_t receives;      /* Posted */
    uint64_t send_comps;    /* Completions polled */
    uint64_t recv_comps;
    uint64_t controls; /* Messages of flow control: SEND with immediate on wimm */
    uint64_t packets; /* Sent by the device, UINT64_MAX: not known. Of the peer too, if
                          it is the same device. */
    uint64_t rnr; /* RNR NAKs that the device has received; UINT64_MAX: not known */
} perf_counts_t;


/* One of the two sides of a test */
struct perf_side {
    perf_test_t *test;
    perf_side_t *local_peer; /* The other one, if this process has it */
    int is_server;
    void *priv; /* The method's */

    /* Memory: what is sent, what the peer writes to, and a word for flags. In the peer's
     * memory they have the same offsets. */
    uint8_t *memory;
    size_t length;
    size_t target_offset, flag_offset;
    volatile uint8_t *last; /* The last byte of the target */
    volatile uint64_t *flag;
    uint64_t *flag_source; /* PERF_MARKS words to send, one after the other */

    /* What methods keep for perf_run.c */
    uint64_t arrived; /* Counted by handlers, or by polling */
    uint64_t outstanding; /* Operations that were posted, and have not completed here */
    ucs_status_t status; /* Of what has failed asynchronously */
    double ep_memory;    /* Bytes that an endpoint takes here */

    /* perf_run.c's */
    unsigned next_ep;
    uint64_t posted;   /* Operations */
    uint64_t marked;   /* Of these, with a new last byte */
    uint64_t expected; /* Arrivals that were waited for */
};


/* A test at one size */
struct perf_test {
    const perf_method_t *method;
    perf_kind_t kind;
    char tl[PERF_MAX_TL]; /* Transport that it runs over, "verbs" without UCX */
    size_t size;
    unsigned window;
    unsigned num_eps;
    unsigned from_ep, to_ep; /* That are connected, or being connected */
    perf_layout_t layout;
    const char *device;    /* "rxe0:1", of this process */
    perf_side_t *sides[2]; /* Client, server; NULL: of another process */

    /* Samples of single operations, microseconds */
    float *samples;
    size_t num_samples, max_samples;
    uint64_t sample_stride; /* Operations of which one is kept, */
    uint64_t sample_place;  /* and which one of these was the last */
    uint64_t sample_gap; /* From that to the next one, and what has come of it */
    uint64_t sample_skipped;
    unsigned sample_seed;
    double elapsed;       /* All operations, microseconds, one direction */
    uint64_t iters;       /* How many, */
    uint64_t num_answers; /* besides the server's, one after each stream */
    double server_cpu; /* Microseconds; NAN if it is not a process of its own */
    perf_counts_t
            counts; /* Of both sides, over counted_iters operations; rnr over all */
    uint64_t counted_iters;
};


/* What the client asks for; sent to the server as it is */
typedef struct perf_job {
    uint32_t magic;
    uint32_t num_tests; /* 0: there are no more jobs */
    struct {
        char method[32];
        uint32_t kind;
        char tl[PERF_MAX_TL];
    } tests[PERF_MAX_TESTS];
    uint64_t size;
    uint64_t iters;       /* Of each test, in all rounds */
    uint64_t warmup;      /* Operations before */
    uint64_t count_iters; /* Operations whose work requests are counted, 0: none */
    uint32_t rounds;
    uint32_t window;
    uint32_t num_eps;
    uint32_t layout;
} perf_job_t;


/* Where results are written besides the table */
typedef enum perf_format {
    PERF_FORMAT_NONE,
    PERF_FORMAT_CSV,
    PERF_FORMAT_JSON
} perf_format_t;


typedef enum perf_mode {
    PERF_MODE_LOCAL, /* -l: both sides in this process */
    PERF_MODE_FORK,  /* --fork: both sides from this command */
    PERF_MODE_SERVER,
    PERF_MODE_CLIENT
} perf_mode_t;


typedef struct perf_opts {
    perf_mode_t mode;
    const char *host;
    unsigned port;
    char device[PERF_MAX_DEVICE]; /* "rxe0:1" */
    const char *tests;            /* As given, separated by commas */
    int compare;
    const char *stock_tl;  /* For methods with PERF_METHOD_STOCK */
    size_t size, max_size; /* From, to */
    unsigned size_factor;  /* Next size: times this, */
    size_t size_step;      /* and plus this */
    uint64_t iters;        /* 0: by size */
    uint64_t warmup;       /* UINT64_MAX: by size */
    unsigned window;
    unsigned rounds; /* 0: by what is measured */
    unsigned num_eps;
    perf_layout_t layout;
    int cpus[64]; /* To run on */
    unsigned num_cpus;
    double timeout; /* Seconds without an arrival */
    int no_counts;
    int quiet; /* Only results */
    perf_format_t format;
    const char *file; /* "-": stdout, and no table */
} perf_opts_t;


/* What is reported of a test at one size. Times in microseconds, or in thousands of
 * instructions. */
typedef struct perf_result {
    char test[48]; /* "ucp_put_imm_lat" */
    const char *tl;
    const char *device;
    size_t size;
    uint64_t iters;
    unsigned rounds;
    unsigned window; /* 0 for latencies */
    unsigned num_eps;
    double mean;
    double p50, p90, p99, p999;
    double bandwidth; /* Megabytes (2^20 bytes) per second */
    double rate;      /* Operations per second */
    double ratio; /* Mean, to that of the first test that it is compared with; NAN: is
                     not compared */

    /* Per operation, both sides together */
    double work_requests, doorbells, receives, send_comps, recv_comps, controls;
    double packets;
    double rnr; /* Not per operation: how many there were in all, also before counting */
    double server_cpu; /* Microseconds */
    double ep_memory;  /* Bytes per endpoint */
} perf_result_t;


/* wimm_perftest.c */
void perf_fail(const char *format, ...)
        __attribute__((format(printf, 1, 2), noreturn));
void perf_check(ucs_status_t status, const char *call);
#define PERF_CHECK(_call) perf_check((_call), #_call)
void *perf_alloc(size_t size); /* Zeroed; or ends the process */
uint64_t perf_now(void);       /* Nanoseconds */
extern perf_opts_t perf_opts;

/* perf_opts.c: ends the process if something is wrong (2), or after help (0) */
void perf_opts_parse(int argc, char **argv, perf_opts_t *opts);

uint64_t perf_opts_iters(const perf_opts_t *opts, size_t size);
uint64_t perf_opts_warmup(const perf_opts_t *opts, size_t size);

/* The size after this one. @return 0 if there are no more. */
int perf_opts_next_size(const perf_opts_t *opts, size_t *size);

/* Find the test "NAME", "NAME_lat", "NAME_mr" or "NAME_bw". @return 0 if there is none. */
int perf_test_find(const char *name, const perf_method_t **method_p,
                   perf_kind_t *kind_p);
const perf_method_t *perf_method_find(const char *name);
extern const char *perf_kind_names[];
extern const perf_method_t *perf_methods[]; /* Ends with NULL */

/* perf_chan.c: between the two processes, nothing if both sides are in this one */
typedef struct perf_chan {
    int fd; /* -1: no other process */
} perf_chan_t;

/* Use a socket. What blocks on it gives up after -T, when the other side is silent. */
void perf_chan_set(perf_chan_t *chan, int fd);
void perf_chan_connect(perf_chan_t *chan, const char *host, unsigned port);
void perf_chan_listen(perf_chan_t *chan, unsigned port);
void perf_chan_send(perf_chan_t *chan, const void *buffer, size_t length);
void perf_chan_recv(perf_chan_t *chan, void *buffer, size_t length);

/* Ends the process with a sentence if the other one has ended */
void perf_chan_check(perf_chan_t *chan);

/* Whether a byte can be received. */
int perf_chan_ready(perf_chan_t *chan);
void perf_chan_close(perf_chan_t *chan);

/* perf_run.c */

/* Run a job, as client (or as both) or as server; results are for the client. @return
 * Number of them. */
unsigned perf_run_job(const perf_job_t *job, perf_chan_t *chan, int is_server,
                      perf_result_t *results);

/* Progress a side, and the other one if it is in this process. Fails if something has
 * failed, or takes too long. */
void perf_progress(perf_side_t *side);

/* For those that are polled for: take what the last byte tells, in a window that is less
 * than PERF_MARKS. @return All arrivals. */
static inline uint64_t perf_poll_last(perf_side_t *side)
{
    side->arrived += (uint8_t)(*side->last - (uint8_t)side->arrived);
    return side->arrived;
}

/* perf_result.c */

/* The client gets what the server has counted */
void perf_test_collect(perf_test_t *test, perf_chan_t *chan);

/* Test @a index of the job, which has to live as long as the result */
void perf_test_result(const perf_test_t *test, const perf_job_t *job,
                      unsigned index, perf_result_t *result);

/* perf_count.c */

/* Of counters, UINT64_MAX if one of them is */
uint64_t perf_count_add(uint64_t a, uint64_t b);
uint64_t perf_count_sub(uint64_t a, uint64_t b);

void perf_count_enable(int enable);
void perf_count_read(const char *device, perf_counts_t *counts);

/* perf_report.c */

/* Called once, before UCX is used and before a fork: where results are to be written to
 * stdout, all that others write there, like UCX's messages, goes to stderr */
void perf_report_init(const perf_opts_t *opts);

/* Called once, before the first result. @a opts->format and @a opts->file say what is
 * written besides the table on stdout; fails with a sentence if it cannot. */
void perf_report_open(const perf_opts_t *opts);

/* Called with the results of each job, in the order of the tests */
void perf_report(const perf_result_t *results, unsigned num_results);

/* Progress within a job, 0 to 1: says something at most once in a second, on stderr */
void perf_report_progress(double done, uint64_t now);

/* Called once, at the end: the file is complete after it, or the process fails */
void perf_report_close(void);

#endif
