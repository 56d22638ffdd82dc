/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "perf.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * Ways to notify a peer, measured side by side.
 */


#define MAX_ROUNDS 8
#define PERF_JOB_MAGIC \
  0x77500002u /* Changes with what the sides tell each other */


perf_opts_t perf_opts;

static const char *perf_who = ""; /* Of this process, for its messages */


uint64_t perf_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ts.tv_sec * 1000000000ull) + ts.tv_nsec;
}

void perf_fail(const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    fflush(stdout);
    fprintf(stderr, "wimm_perftest%s: %s\n", perf_who, text);
    exit(1);
}

void perf_check(ucs_status_t status, const char *call)
{
    if (status != UCS_OK) {
        perf_fail("%s: %s", call, ucs_status_string(status));
    }
}

void *perf_alloc(size_t size)
{
    void *memory = calloc(1, size + 1);

    if (memory == NULL) {
        perf_fail("no memory for %zu bytes", size);
    }
    return memory;
}

/* Run on these CPUs */
static void perf_bind(const int *cpus, unsigned num_cpus)
{
    cpu_set_t set;
    unsigned i;

    if (num_cpus == 0) {
        return;
    }

    CPU_ZERO(&set);
    for (i = 0; i < num_cpus; ++i) {
        CPU_SET(cpus[i], &set);
    }
    if (sched_setaffinity(0, sizeof(set), &set)) {
        perf_fail("-c: cannot run on these CPUs: %s", strerror(errno));
    }
}

/* UCX compares the address of a UD message in a form that Soft-RoCE does not use; only
 * its devices name their network device in "parent" */
static void perf_set_soft_roce(const char *device)
{
    char path[256];

    snprintf(path, sizeof(path), "/sys/class/infiniband/%.*s/parent",
             (int)strcspn(device, ":"), device);
    if (access(path, F_OK) == 0) {
        setenv("UCX_UD_VERBS_ETH_DGID_CHECK", "n", 0);
    }
}

/* Rounds of tests that are compared. A stream that is shorter than some windows would only
 * show how it begins and ends. */
static unsigned perf_default_rounds(const perf_job_t *job, perf_kind_t kind)
{
    uint64_t rounds = (kind == PERF_KIND_LAT) ?
                              MAX_ROUNDS :
                              (job->iters / (4 * job->window));

    return (rounds < 1) ? 1 : ((rounds > MAX_ROUNDS) ? MAX_ROUNDS : rounds);
}

static void perf_job_init(perf_job_t *job, const perf_opts_t *opts, size_t size)
{
    char *names = strdup(opts->tests), *name, *rest = NULL;
    const perf_method_t *method;
    perf_kind_t kind = PERF_KIND_LAT;

    if (names == NULL) {
        perf_fail("no memory");
    }

    memset(job, 0, sizeof(*job));
    job->magic       = PERF_JOB_MAGIC;
    job->size        = size;
    job->iters       = perf_opts_iters(opts, size);
    job->warmup      = perf_opts_warmup(opts, size);
    job->count_iters = opts->no_counts ? 0 : job->iters;
    job->window      = opts->window;
    job->num_eps     = opts->num_eps;
    job->layout      = opts->layout;
    job->rounds      = opts->rounds;

    for (name = strtok_r(names, ",", &rest); name != NULL;
         name = strtok_r(NULL, ",", &rest)) {
        perf_test_find(name, &method, &kind);
        snprintf(job->tests[job->num_tests].method,
                 sizeof(job->tests[job->num_tests].method), "%s", method->name);
        snprintf(job->tests[job->num_tests].tl, PERF_MAX_TL, "%s",
                 (method->flags & PERF_METHOD_STOCK) ? opts->stock_tl :
                                                       method->tl);
        job->tests[job->num_tests].kind = kind;
        ++job->num_tests;
    }

    free(names);
    if (job->rounds == 0) {
        job->rounds = opts->compare ? perf_default_rounds(job, kind) : 1;
    }
}

/* Measure all sizes. Both sides of the jobs in turn, if there is a server. The report is left
 * open, until it is known that the server has not failed. */
static void perf_client(perf_chan_t *chan)
{
    perf_result_t results[PERF_MAX_TESTS];
    perf_job_t job;
    size_t size = perf_opts.size;
    unsigned num_results;
    char done;

    perf_report_open(&perf_opts);
    do {
        perf_job_init(&job, &perf_opts, size);
        if (chan->fd >= 0) {
            perf_chan_send(chan, &job, sizeof(job));
        }
        num_results = perf_run_job(&job, chan, 0, results);
        perf_report(results, num_results);
    } while (perf_opts_next_size(&perf_opts, &size));

    if (chan->fd >= 0) {
        job.num_tests = 0;
        perf_chan_send(chan, &job, sizeof(job));
        perf_chan_recv(chan, &done, sizeof(done));
    }
}

/* The client has checked its options; who is no client may have sent anything */
static int perf_job_is_valid(const perf_job_t *job)
{
    const perf_method_t *method;
    unsigned i;

    if ((job->size > PERF_MAX_SIZE) || (job->num_tests > PERF_MAX_TESTS) ||
        (job->num_eps == 0) || (job->num_eps > PERF_MAX_EPS) ||
        (job->rounds == 0) || (job->window == 0) ||
        (job->layout >= PERF_LAYOUT_LAST)) {
        return 0;
    }

    for (i = 0; i < job->num_tests; ++i) {
        if ((memchr(job->tests[i].method, 0, sizeof(job->tests[i].method)) ==
             NULL) ||
            (memchr(job->tests[i].tl, 0, PERF_MAX_TL) == NULL) ||
            (job->tests[i].kind >= PERF_KIND_LAST)) {
            return 0;
        }

        method = perf_method_find(job->tests[i].method);
        if ((method == NULL) || (job->size < method->min_size) ||
            ((method->flags & PERF_METHOD_ONE_EP) && (job->num_eps > 1))) {
            return 0;
        }
    }
    return 1;
}

/* Do what the client asks for */
static void perf_server(perf_chan_t *chan)
{
    const char done = 0; /* Also with the last job */
    perf_job_t job;

    for (;;) {
        perf_chan_recv(chan, &job, sizeof(job.magic));
        if (job.magic != PERF_JOB_MAGIC) {
            perf_fail("the client is not a wimm_perftest of this version");
        }

        perf_chan_recv(chan, (char *)&job + sizeof(job.magic),
                       sizeof(job) - sizeof(job.magic));
        if (!perf_job_is_valid(&job)) {
            perf_fail("the client asks for what this version does not know");
        }
        if (job.num_tests == 0) {
            perf_chan_send(chan, &done, sizeof(done));
            return;
        }
        perf_run_job(&job, chan, 1, NULL);
    }
}

static void perf_fork(void)
{
    perf_chan_t chan = { .fd = -1 };
    int fds[2], status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
        perf_fail("socketpair: %s", strerror(errno));
    }

    fflush(NULL);
    child = fork();
    if (child < 0) {
        perf_fail("fork: %s", strerror(errno));
    }

    if (child == 0) {
        perf_who = " (server)";
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        perf_chan_set(&chan, fds[1]);
        if (perf_opts.num_cpus > 1) {
            perf_bind(&perf_opts.cpus[0], 1);
        }
        perf_server(&chan);
        exit(0);
    }

    close(fds[1]);
    perf_chan_set(&chan, fds[0]);
    if (perf_opts.num_cpus > 1) {
        perf_bind(&perf_opts.cpus[1], 1);
    }
    perf_client(&chan);
    perf_chan_close(&chan);
    if ((waitpid(child, &status, 0) != child) || (status != 0)) {
        perf_fail("the server side has failed");
    }
    perf_report_close();
}

int main(int argc, char **argv)
{
    perf_chan_t chan = { .fd = -1 };

    perf_opts_parse(argc, argv, &perf_opts);
    perf_report_init(&perf_opts);
    perf_set_soft_roce(perf_opts.device);
    perf_bind(perf_opts.cpus, perf_opts.num_cpus);

    switch (perf_opts.mode) {
    case PERF_MODE_LOCAL:
        perf_client(&chan);
        perf_report_close();
        break;
    case PERF_MODE_FORK:
        perf_fork();
        break;
    case PERF_MODE_SERVER:
        perf_chan_listen(&chan, perf_opts.port);
        perf_server(&chan);
        break;
    case PERF_MODE_CLIENT:
        perf_chan_connect(&chan, perf_opts.host, perf_opts.port);
        perf_client(&chan);
        perf_report_close();
        break;
    }

    perf_chan_close(&chan);
    return 0;
}
