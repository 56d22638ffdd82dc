/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>


#define PERF_PAGE        4096
#define PERF_MAX_SAMPLES (1u << 20)
#define PERF_MAX_BLOB    (1u << 24)
#define PERF_CHECK_POLLS \
  (1u << 16) /* Polls between two looks at the other process */

/* Operations after which the two sides wait for each other */
#define PERF_MAX_CHUNK 10000


/* How often a client looks how far it is: at most, and where it does not look at the time
 * anyway after so many operations */
#define PERF_TELL_NSEC 100000000ull
#define PERF_TELL_OPS  16

/* How much longer than -T a server waits that has to be told that its client goes on */
#define PERF_ALIVE_MARGIN 2.0


/* What the sides tell each other while they measure */
enum {
    PERF_BYTE_MET, /* I have come to the same place */
    PERF_BYTE_ALIVE
};


typedef struct {
    perf_chan_t *chan;
    unsigned polls;
    uint64_t events; /* Changes with all that goes on */
    uint64_t seen_events;
    uint64_t seen_state; /* Arrivals, and what is outstanding */
    uint64_t seen_time;
    uint64_t told_events; /* The same, as the other process was told of it */
    uint64_t tell_time;   /* Not before */

    /* Operations of the job, with those that warm up and that are counted */
    uint64_t total_ops;
    uint64_t done_ops;          /* In chunks that are complete */
    const perf_test_t *running; /* In the middle of a chunk; or NULL */
    uint64_t first_ops;         /* Posted before this chunk */

    uint64_t rnr; /* RNR NAKs that were received until now */
} perf_watch_t;


static perf_watch_t perf_watch;


/*
 * Progress
 */

static void perf_watch_start(void)
{
    perf_watch.seen_events = perf_watch.events;
    perf_watch.seen_time   = perf_now();
}

/* The side that this process has, the client's if it has both */
static perf_side_t *perf_own_side(const perf_test_t *test)
{
    return (test->sides[0] != NULL) ? test->sides[0] : test->sides[1];
}

/* Say how far the job is */
static void perf_watch_report(const perf_test_t *test, uint64_t now)
{
    uint64_t done = perf_watch.done_ops + test->sides[0]->posted -
                    perf_watch.first_ops;

    perf_report_progress((double)done / perf_watch.total_ops, now);
}

/* From process to process, the receiver of a stream that is polled for sees nothing before
 * the end */
static int perf_is_blind(const perf_test_t *test)
{
    return ((test->sides[0] == NULL) || (test->sides[1] == NULL)) &&
           (test->kind != PERF_KIND_LAT) &&
           (test->method->flags & PERF_METHOD_POLLED);
}

/* Of the client, in the middle of a chunk */
static void perf_watch_tell(const perf_test_t *test, uint64_t now)
{
    char byte = PERF_BYTE_ALIVE;

    if ((test->sides[0] == NULL) || (test != perf_watch.running) ||
        (now < perf_watch.tell_time)) {
        return;
    }

    perf_watch.tell_time = now + PERF_TELL_NSEC;
    perf_watch_report(test, now);
    if (perf_is_blind(test) && (perf_watch.events != perf_watch.told_events)) {
        perf_watch.told_events = perf_watch.events;
        perf_chan_send(perf_watch.chan, &byte, 1);
    }
}

/* Of the server, until the stream has ended: all that may come is what the above tells.
 * @return Whether it was waited for. */
static int perf_watch_listen(perf_side_t *side)
{
    char byte;

    if (!side->is_server || !perf_is_blind(side->test) ||
        (side->test->method->arrived(side) == side->expected)) {
        return 0;
    }

    while (perf_chan_ready(perf_watch.chan)) {
        perf_chan_recv(perf_watch.chan, &byte, 1);
        ++perf_watch.events;
    }
    return 1;
}

/* Changes if something arrives, or completes */
static uint64_t perf_side_state(perf_side_t *side)
{
    return side->test->method->arrived(side) + (side->outstanding << 48);
}

static void perf_watch_check(perf_side_t *side)
{
    uint64_t state = perf_side_state(side);
    uint64_t now   = perf_now();
    double timeout = perf_opts.timeout;

    if (side->local_peer != NULL) {
        state += perf_side_state(side->local_peer);
    }

    perf_watch.polls = 0;
    if (state != perf_watch.seen_state) {
        ++perf_watch.events; /* To be told of, too: what was posted completes */
    }
    perf_watch_tell(side->test, now);
    perf_chan_check(perf_watch.chan);
    if (perf_watch_listen(side)) {
        timeout += PERF_ALIVE_MARGIN;
    }
    if ((perf_watch.events != perf_watch.seen_events) ||
        (state != perf_watch.seen_state)) {
        perf_watch.seen_state = state;
        perf_watch_start();
    } else if ((now - perf_watch.seen_time) > (timeout * 1e9)) {
        perf_fail("%s over %s: nothing has arrived for %g s (%lu operations"
                  " were posted here, %lu have arrived)",
                  side->test->method->name, side->test->tl, perf_opts.timeout,
                  (unsigned long)side->posted,
                  (unsigned long)side->test->method->arrived(side));
    }
}

static void perf_side_progress(perf_side_t *side)
{
    side->test->method->progress(side);
    if (side->status != UCS_OK) {
        perf_fail("%s over %s has failed: %s", side->test->method->name,
                  side->test->tl, ucs_status_string(side->status));
    }
}

void perf_progress(perf_side_t *side)
{
    perf_side_progress(side);
    if (side->local_peer != NULL) {
        perf_side_progress(side->local_peer);
    }
    if (++perf_watch.polls == PERF_CHECK_POLLS) {
        perf_watch_check(side);
    }
}

/* Both processes have come this far. Progress goes on meanwhile: the other one may need
 * it. */
static void perf_barrier(perf_test_t *test)
{
    char byte = PERF_BYTE_MET;

    if (perf_watch.chan->fd < 0) {
        return;
    }

    perf_chan_send(perf_watch.chan, &byte, 1);
    do {
        while (!perf_chan_ready(perf_watch.chan)) {
            perf_progress(perf_own_side(test));
        }
        perf_chan_recv(perf_watch.chan, &byte, 1);
    } while (byte == PERF_BYTE_ALIVE);
    perf_watch_start();
}

/* Complete all, on all sides */
static void perf_settle(perf_test_t *test)
{
    unsigned i;

    perf_watch_start();
    for (i = 0; i < 2; ++i) {
        if (test->sides[i] == NULL) {
            continue;
        }
        while (!test->method->flushed(test->sides[i])) {
            perf_progress(test->sides[i]);
        }
    }
    perf_barrier(test);
}


/*
 * Operations
 */

/* Issue one operation. If it is marked, its last byte differs from the one before. */
static void perf_post(perf_side_t *side, int mark)
{
    const perf_test_t *test = side->test;
    const uint8_t *data;
    ucs_status_t status;

    side->marked += mark;
    data = side->memory + (side->marked % PERF_MARKS);
    ++side->posted;
    for (;;) {
        status = test->method->post(side, side->next_ep, data, side->posted);
        if (status == UCS_OK) {
            break;
        }
        if (status != UCS_ERR_NO_RESOURCE) {
            perf_fail("%s of %zu bytes over %s: %s", test->method->name,
                      test->size, test->tl, ucs_status_string(status));
        }
        perf_progress(side);
    }

    if (++side->next_ep == test->num_eps) {
        side->next_ep = 0;
    }
    ++perf_watch.events;
}

/* Wait for more arrivals, after which nothing is under way */
static void perf_wait(perf_side_t *side, uint64_t count)
{
    const perf_test_t *test = side->test;

    side->expected += count;
    while (test->method->arrived(side) < side->expected) {
        perf_progress(side);
    }

    ++perf_watch.events;
    if ((test->method->flags & PERF_METHOD_NO_PUT) || (test->size == 0) ||
        (test->num_eps > 1)) {
        return;
    }
    if (*side->last != (uint8_t)side->expected) {
        perf_fail("%s over %s: notified, but the data is not there",
                  test->method->name, test->tl);
    }
}

/* One of each stride is kept: any of them, as what repeats within one would else be kept
 * always, or never. Out of the way of short runs, which keep all. */
static __attribute__((noinline)) void perf_sample_skip(perf_test_t *test)
{
    uint64_t left = test->sample_stride - test->sample_place;

    test->sample_place = 1 + ((uint64_t)rand_r(&test->sample_seed) %
                              test->sample_stride);
    test->sample_gap   = left + test->sample_place;
}

static void perf_sample(perf_test_t *test, double usec)
{
    if (++test->sample_skipped < test->sample_gap) {
        return;
    }

    test->sample_skipped = 0;
    if (test->sample_stride > 1) {
        perf_sample_skip(test);
    }
    if (test->num_samples < test->max_samples) {
        test->samples[test->num_samples++] = usec;
    }
}

/* Half round trips */
static void perf_run_lat(perf_test_t *test, uint64_t iters, int record)
{
    perf_side_t *client = test->sides[0];
    perf_side_t *server = test->sides[1];
    uint64_t start, last, now, i;

    start = last = now = perf_now();
    for (i = 0; i < iters; ++i) {
        if (client != NULL) {
            perf_post(client, 1);
        }
        if (server != NULL) {
            perf_wait(server, 1);
            perf_post(server, 1);
        }
        if (client != NULL) {
            perf_wait(client, 1);
            if (record) {
                now = perf_now();
                perf_sample(test, (now - last) / 2e3);
                last = now;
                if (now > perf_watch.tell_time) {
                    perf_watch_tell(test, now);
                }
            } else if ((i % PERF_TELL_OPS) == 0) {
                perf_watch_tell(test, perf_now());
            }
        }
    }

    if (record) {
        test->elapsed += (now - start) / 2e3;
    }
}

/* Operations of the window that are under way */
static uint64_t perf_in_flight(perf_side_t *side)
{
    perf_side_t *peer = side->local_peer;

    return (peer == NULL) ? side->outstanding :
                            (side->marked - side->test->method->arrived(peer));
}

/* A stream of operations from the client, at the end of which the server answers with one
 * of its own. Within one process a window is what has not arrived; from process to process
 * what has not completed at the client, so that it does not bound what completes at once:
 * that is bound by UCX's queues, credits and slots. */
static void perf_run_stream(perf_test_t *test, uint64_t iters, int record)
{
    perf_side_t *client = test->sides[0];
    perf_side_t *server = test->sides[1];
    int mark_last       = (test->method->flags & PERF_METHOD_POLLED) &&
                    ((client == NULL) || (server == NULL));
    uint64_t start, last, now, i;

    start = last = now = perf_now();
    if (client != NULL) {
        for (i = 0; i < iters; ++i) {
            while (perf_in_flight(client) >= test->window) {
                perf_progress(client);
            }
            perf_post(client, !mark_last || (i == (iters - 1)));
            if ((((i + 1) % test->window) != 0) && (i != (iters - 1))) {
                continue;
            }
            now = perf_now();
            if (record) {
                perf_sample(test,
                            (now - last) / (1e3 * ((i % test->window) + 1)));
                last = now;
            }
            perf_watch_tell(test, now); /* There may be no polls */
        }
    }
    if (server != NULL) {
        perf_wait(server, mark_last ? 1 : iters);
        perf_post(server, 1);
    }
    if (client != NULL) {
        perf_wait(client, 1);
        now = perf_now();
    }

    if (record) {
        test->elapsed += (now - start) / 1e3;
        ++test->num_answers;
    }
}

static double perf_cpu_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (ts.tv_sec * 1e6) + (ts.tv_nsec / 1e3);
}

/* Run a test, and go on with its progress until the other process is done, too: what it
 * has posted last may need that */
static void perf_run_chunk(perf_test_t *test, uint64_t iters, int record)
{
    double start;

    if (iters == 0) {
        return;
    }

    perf_watch_start();
    perf_watch.running   = test;
    perf_watch.first_ops = perf_own_side(test)->posted;
    perf_watch_tell(test, perf_now());
    start = perf_cpu_time();
    if (test->kind == PERF_KIND_LAT) {
        perf_run_lat(test, iters, record);
    } else {
        perf_run_stream(test, iters, record);
    }

    if (record) {
        test->iters += iters;
        if (test->sides[0] == NULL) {
            test->server_cpu += perf_cpu_time() - start;
        }
    }

    /* The other side is told nothing more once it is met */
    perf_watch.done_ops += iters;
    perf_watch.running = NULL;
    perf_barrier(test);
}

/* RNR NAKs since the last call are those of this test; NULL: of none */
static void perf_add_rnr(const perf_job_t *job, perf_test_t *test)
{
    perf_counts_t now;

    if (job->count_iters == 0) {
        return;
    }

    perf_count_read(perf_opts.device, &now);
    if (test != NULL) {
        test->counts.rnr = perf_count_add(test->counts.rnr,
                                          perf_count_sub(now.rnr,
                                                         perf_watch.rnr));
    }
    perf_watch.rnr = now.rnr;
}

/* The same once more, for what it takes of the device */
static void perf_run_counted(perf_test_t *test, uint64_t iters)
{
    perf_counts_t before, after;

    /* Before the other side may begin, as what it sends is received from then on */
    perf_count_read(test->device, &before);
    perf_count_enable(1);
    perf_barrier(test);
    perf_run_chunk(test, iters, 0);
    perf_count_enable(0);
    perf_count_read(test->device, &after);

    test->counts.work_requests = after.work_requests - before.work_requests;
    test->counts.doorbells     = after.doorbells - before.doorbells;
    test->counts.receives      = after.receives - before.receives;
    test->counts.send_comps    = after.send_comps - before.send_comps;
    test->counts.recv_comps    = after.recv_comps - before.recv_comps;
    test->counts.controls      = after.controls - before.controls;
    test->counts.packets       = perf_count_sub(after.packets, before.packets);

    /* A latency is one direction; a stream has one answer */
    test->counted_iters = (test->kind == PERF_KIND_LAT) ? (2 * iters) :
                                                          (iters + 1);
}


/*
 * Set-up
 */

static void *perf_swap(const void *mine, size_t length, size_t *other_length_p)
{
    uint32_t wire_length = length;
    void *other;

    perf_chan_send(perf_watch.chan, &wire_length, sizeof(wire_length));
    perf_chan_send(perf_watch.chan, mine, length);
    perf_chan_recv(perf_watch.chan, &wire_length, sizeof(wire_length));
    if (wire_length > PERF_MAX_BLOB) {
        perf_fail("the other side is not a wimm_perftest of this version");
    }

    other = perf_alloc(wire_length);
    perf_chan_recv(perf_watch.chan, other, wire_length);
    *other_length_p = wire_length;
    return other;
}

typedef void *(*perf_pack_func_t)(perf_side_t *side, size_t *length_p);
typedef void (*perf_use_func_t)(perf_side_t *side, const void *peer,
                                size_t length);

/* Have each side use what the other one has packed */
static void perf_exchange(perf_test_t *test, perf_pack_func_t pack,
                          perf_use_func_t use)
{
    void *blobs[2];
    size_t lengths[2];
    perf_side_t *side;
    void *mine;
    unsigned i;

    for (i = 0; i < 2; ++i) {
        if (test->sides[i] != NULL) {
            blobs[i] = pack(test->sides[i], &lengths[i]);
        }
    }

    if (perf_watch.chan->fd >= 0) {
        side      = perf_own_side(test);
        i         = side->is_server;
        mine      = blobs[i];
        blobs[!i] = perf_swap(mine, lengths[i], &lengths[!i]);
    }

    for (i = 0; i < 2; ++i) {
        if (test->sides[i] != NULL) {
            use(test->sides[i], blobs[!i], lengths[!i]);
        }
    }

    free(blobs[0]);
    free(blobs[1]);
}

static size_t perf_align(size_t size)
{
    return (size + PERF_PAGE - 1) & ~(size_t)(PERF_PAGE - 1);
}

/* What is sent is PERF_MARKS bytes longer than an operation, and each one begins at
 * another place of it: no byte is written between operations, and the last one still
 * differs */
static void perf_side_memory(perf_side_t *side, size_t size)
{
    unsigned i;

    side->target_offset = perf_align(size + PERF_MARKS);
    side->flag_offset   = side->target_offset + perf_align(size + 1);
    side->length        = side->flag_offset +
                   perf_align((PERF_MARKS + 8) * sizeof(uint64_t));
    side->memory = mmap(NULL, side->length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (side->memory == MAP_FAILED) {
        perf_fail("no memory for %zu bytes", side->length);
    }

    memset(side->memory, 0, side->length); /* Fault it in */
    side->flag        = (void *)(side->memory + side->flag_offset);
    side->flag_source = (uint64_t *)side->flag + 8;
    if (size > 0) {
        side->last = side->memory + side->target_offset + size - 1;
        for (i = 0; i < PERF_MARKS; ++i) {
            side->memory[size - 1 + i] = i;
        }
    }
}

static perf_side_t *perf_side_open(perf_test_t *test, int is_server)
{
    perf_side_t *side = perf_alloc(sizeof(*side));

    side->test      = test;
    side->is_server = is_server;
    side->status    = UCS_OK;
    perf_side_memory(side, test->size);
    test->sides[is_server] = side;
    test->method->open(side);
    return side;
}

static void perf_side_close(perf_side_t *side)
{
    munmap(side->memory, side->length);
    free(side);
}

/* Bytes of queues that are mapped from devices */
static double perf_mapped(void)
{
    FILE *file   = fopen("/proc/self/maps", "r");
    double total = 0;
    unsigned long from, to;
    char line[512];

    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        if ((strstr(line, "/dev/infiniband/") != NULL) &&
            (sscanf(line, "%lx-%lx", &from, &to) == 2)) {
            total += to - from;
        }
    }

    if (file != NULL) {
        fclose(file);
    }
    return total;
}

/* Bytes that this process has now: of the heap, and of its devices' queues */
static double perf_allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd + perf_mapped();
}

/* Create and connect endpoints, at first one, then all others */
static void perf_connect(perf_test_t *test, unsigned to_ep)
{
    test->from_ep = test->to_ep;
    test->to_ep   = to_ep;
    if (test->to_ep == test->from_ep) {
        return;
    }

    perf_exchange(test, test->method->pack, test->method->create_eps);
    perf_exchange(test, test->method->pack_eps, test->method->connect_eps);
    perf_settle(test);
}

static perf_test_t *perf_test_open(const perf_job_t *job, unsigned index,
                                   int is_server)
{
    perf_test_t *test = perf_alloc(sizeof(*test));
    double before;

    test->method  = perf_method_find(job->tests[index].method);
    test->kind    = (perf_kind_t)job->tests[index].kind;
    test->size    = job->size;
    test->window  = job->window;
    test->num_eps = job->num_eps;
    test->layout  = (perf_layout_t)job->layout;
    test->device  = perf_opts.device;
    memcpy(test->tl, job->tests[index].tl, sizeof(test->tl));

    if (!is_server) {
        test->max_samples   = (job->iters < PERF_MAX_SAMPLES) ? job->iters :
                                                                PERF_MAX_SAMPLES;
        test->sample_stride = (job->iters + PERF_MAX_SAMPLES - 1) /
                              PERF_MAX_SAMPLES;
        test->sample_place = 1;
        test->sample_gap   = 1;
        test->samples = perf_alloc(test->max_samples * sizeof(*test->samples));
    }

    if (perf_watch.chan->fd < 0) {
        perf_side_open(test, 0);
        perf_side_open(test, 1);
        test->sides[0]->local_peer = test->sides[1];
        test->sides[1]->local_peer = test->sides[0];
        test->server_cpu           = NAN;
    } else {
        perf_side_open(test, is_server);
    }

    /* What the first one takes is also what all need */
    perf_connect(test, 1);
    before = perf_allocated();
    perf_connect(test, test->num_eps);
    perf_own_side(test)->ep_memory = (test->num_eps == 1) ?
                                             NAN :
                                             ((perf_allocated() - before) /
                                              (test->num_eps - 1));
    if (perf_watch.chan->fd < 0) {
        perf_own_side(test)->ep_memory /= 2;
    }
    return test;
}

static void perf_test_close(perf_test_t *test)
{
    unsigned i;

    /* Twice: the first one may have answers, of flow control */
    perf_settle(test);
    perf_settle(test);
    for (i = 0; i < 2; ++i) {
        if (test->sides[i] != NULL) {
            test->method->close(test->sides[i]);
        }
        if (test->sides[!i] != NULL) {
            test->sides[!i]->local_peer = NULL;
        }
    }
    for (i = 0; i < 2; ++i) {
        if (test->sides[i] != NULL) {
            perf_side_close(test->sides[i]);
        }
    }

    free(test->samples);
    free(test);
}


/* Iterations of the next chunk, of those that are left for the rounds that are left */
static uint64_t perf_chunk(const perf_job_t *job, unsigned round)
{
    uint64_t chunk = job->iters / job->rounds;

    return (round == (job->rounds - 1)) ? (job->iters - (chunk * round)) :
                                          chunk;
}

/* One round of a test */
static void perf_run_round(perf_test_t *test, uint64_t iters)
{
    uint64_t chunk;

    while (iters > 0) {
        chunk = (iters < (2 * PERF_MAX_CHUNK)) ? iters : PERF_MAX_CHUNK;
        perf_run_chunk(test, chunk, 1);
        iters -= chunk;
    }
}

unsigned perf_run_job(const perf_job_t *job, perf_chan_t *chan, int is_server,
                      perf_result_t *results)
{
    perf_test_t *tests[PERF_MAX_TESTS];
    unsigned i, round;

    perf_watch.chan      = chan;
    perf_watch.done_ops  = 0;
    perf_watch.total_ops = (job->warmup + job->iters + job->count_iters) *
                           job->num_tests;
    perf_add_rnr(job, NULL);
    for (i = 0; i < job->num_tests; ++i) {
        tests[i] = perf_test_open(job, i, is_server);
        perf_run_chunk(tests[i], job->warmup, 0);
        perf_add_rnr(job, tests[i]);
    }

    for (round = 0; round < job->rounds; ++round) {
        for (i = 0; i < job->num_tests; ++i) {
            perf_run_round(tests[i], perf_chunk(job, round));
            perf_add_rnr(job, tests[i]);
        }
    }

    for (i = 0; i < job->num_tests; ++i) {
        if (job->count_iters > 0) {
            perf_run_counted(tests[i], job->count_iters);
        }
        perf_add_rnr(job, tests[i]);
        perf_test_collect(tests[i], chan);
        if (results != NULL) {
            perf_test_result(tests[i], job, i, &results[i]);
            if (job->num_tests > 1) {
                results[i].ratio = results[i].mean / results[0].mean;
            }
        }
    }

    for (i = 0; i < job->num_tests; ++i) {
        perf_test_close(tests[i]);
    }
    return job->num_tests;
}
