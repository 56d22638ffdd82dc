/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * A parameter server: in each iteration each worker pushes its part of the sum, shard by
 * shard, into the server's memory; the server adds up what the workers pushed and gives
 * all of them the new parameters.
 *
 * The server gets no message for a shard, and looks at none. Its counters do: a shard is
 * one notified put, whose immediate says where it belongs.
 *
 *   bits   0-9     10-15     16-31       from a worker, with each shard
 *          shard   worker    iteration   from 1; 0xffff: the worker has ended
 *
 *   bits   0-15              16-31       from the server, with all parameters
 *          workers           iteration   a bit for each worker that is in the sum
 *
 * For an iteration the server has a counter of all shards, which matches the iteration,
 * and one for each worker, which matches the iteration and the worker. It takes the
 * iteration when the first one has reached the expected number; the others say whose
 * shards these are. Then it destroys the counters: what is pushed for that iteration
 * later matches none any more, comes to the handler, and is dropped. The counters of the
 * next iteration are created before anybody is told that it may be pushed.
 *
 * Why this is right: when a notification is counted, all bytes of its shard are in place,
 * so those of an iteration are when its counter says so. What is dropped has been written
 * all the same: one cannot refuse a put. So each worker has two places for everything, for
 * even and odd iterations: what comes late is never written where the server may be
 * reading. A place is used again two iterations later. By then the late worker has pushed
 * for the iteration between, which the server waits for, and notifications of one endpoint
 * come in order: nothing of it is late any more. The parameters have two places in a
 * worker's memory, too: a late worker may still read the old ones when new ones come.
 *
 * In one iteration (-l) the last worker is late. The server takes that one without it,
 * when the shards of all others are there, and the worker pushes when it has been told
 * so: therefore its shards are late whatever the speed of the machine.
 */

#include "wimm_example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


enum {
    SHARD_SHIFT     = 0,
    SHARD_BITS      = 10,
    WORKER_SHIFT    = 10,
    WORKER_BITS     = 6,
    ITERATION_SHIFT = 16,
    ITERATION_BITS  = 16,

    INCLUDED_SHIFT = 0,
    INCLUDED_BITS  = 16,
};

#define MAX_WORKERS    INCLUDED_BITS
#define MAX_SHARDS     (1 << SHARD_BITS)
#define MAX_ITERATIONS 60000
#define ENDED          0xffff /* In place of an iteration */
#define SHARD_WORDS    256
#define SHARD_SIZE     (SHARD_WORDS * sizeof(uint32_t))
#define NUM_PLACES     2 /* For even and odd iterations */


typedef struct {
    unsigned num_workers;
    unsigned num_shards;
    unsigned num_iterations;
    unsigned late; /* Iteration in which the last worker is late; 0: none */
    int workers[MAX_WORKERS];
    unsigned worker; /* Which worker this is */
    int server;      /* Its channel to the server */
} options_t;


/*
 * Both sides
 */

static uint32_t make_imm(unsigned iteration, unsigned worker, unsigned shard)
{
    uint32_t imm = 0;

    ex_imm_set(&imm, ITERATION_SHIFT, ITERATION_BITS, iteration);
    ex_imm_set(&imm, WORKER_SHIFT, WORKER_BITS, worker);
    ex_imm_set(&imm, SHARD_SHIFT, SHARD_BITS, shard);
    return imm;
}

/* Place of a shard in the server's memory */
static size_t shard_offset(const options_t *opts, unsigned iteration,
                           unsigned worker, unsigned shard)
{
    unsigned place = iteration % NUM_PLACES;

    return ((((place * opts->num_workers) + worker) * opts->num_shards) +
            shard) *
           SHARD_SIZE;
}

/* Place of the parameters in a worker's memory */
static size_t params_offset(const options_t *opts, unsigned iteration)
{
    return (iteration % NUM_PLACES) * opts->num_shards * SHARD_SIZE;
}

/* What a worker pushes: anybody can compute it */
static uint32_t push_value(unsigned iteration, unsigned worker, size_t index)
{
    return ex_hash(((uint64_t)iteration << 40) + ((uint64_t)worker << 32) +
                   index);
}

/* Add to the parameters what these workers push in an iteration */
static void add_expected(const options_t *opts, uint32_t *params,
                         unsigned iteration, uint32_t included)
{
    size_t num_words = opts->num_shards * SHARD_WORDS;
    unsigned worker;
    size_t i;

    for (worker = 0; worker < opts->num_workers; ++worker) {
        for (i = 0; (included & (1u << worker)) && (i < num_words); ++i) {
            params[i] += push_value(iteration, worker, i);
        }
    }
}

/* Compare parameters with what they are to be. @return How many shards are wrong. */
static unsigned compare(const options_t *opts, const uint32_t *params,
                        uint32_t *expected, unsigned iteration)
{
    unsigned wrong = 0;
    unsigned shard;
    size_t i, end;

    for (shard = 0; shard < opts->num_shards; ++shard) {
        i   = shard * SHARD_WORDS;
        end = i + SHARD_WORDS;
        while ((i < end) && (params[i] == expected[i])) {
            ++i;
        }
        if (i < end) {
            ex_say("iteration %u: shard %u is wrong: word %zu is 0x%08x, not"
                   " 0x%08x",
                   iteration, shard, i % SHARD_WORDS, params[i], expected[i]);
            ++wrong;
        }
    }

    /* It is not reported again in each iteration */
    memcpy(expected, params, opts->num_shards * SHARD_SIZE);
    return wrong;
}

static ucs_status_ptr_t put(ex_peer_t *peer, const void *data, size_t length,
                            size_t offset, uint32_t imm)
{
    ex_side_t *side           = peer->side;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                  .memh         = side->memh };

    return ucp_wimm_put_nbx(side->wimm, peer->ep, data, length,
                            peer->remote_addr + offset, peer->rkey, imm,
                            &param);
}

/* Puts that are sent at the same time */
static void wait_all(ex_side_t *side, ucs_status_ptr_t *requests,
                     unsigned num_requests)
{
    unsigned i;

    for (i = 0; i < num_requests; ++i) {
        ex_check(ex_wait(side, requests[i]), "ucp_wimm_put_nbx");
    }
}

static void *allocate(size_t num, size_t size)
{
    void *result = calloc(num, size);

    if (result == NULL) {
        ex_fail("no memory");
    }
    return result;
}


/*
 * A worker
 */

static void push(const options_t *opts, ex_peer_t *server, unsigned iteration)
{
    /* What is pushed is in this side's memory after the parameters */
    uint32_t *data = (uint32_t *)(server->side->memory +
                                  (NUM_PLACES * opts->num_shards * SHARD_SIZE));
    ucs_status_ptr_t requests[MAX_SHARDS];
    unsigned shard;
    size_t i;

    for (i = 0; i < opts->num_shards * SHARD_WORDS; ++i) {
        data[i] = push_value(iteration, opts->worker, i);
    }
    if ((ex_common.corrupt >= 0) && (opts->worker == 0) && (iteration == 1)) {
        i = (ex_common.corrupt % opts->num_shards) * SHARD_WORDS;
        data[i] ^= 0x10;
    }

    for (shard = 0; shard < opts->num_shards; ++shard) {
        requests[shard] = put(server, &data[shard * SHARD_WORDS], SHARD_SIZE,
                              shard_offset(opts, iteration, opts->worker,
                                           shard),
                              make_imm(iteration, opts->worker, shard));
    }
    wait_all(server->side, requests, opts->num_shards);
}

/* Wait until the server has put the new parameters. @return Workers in the sum. */
static uint32_t wait_params(ex_side_t *side, unsigned iteration)
{
    ucp_wimm_notification_t what;
    unsigned count;

    for (;;) {
        EX_CHECK(ucp_wimm_poll(side->wimm, &what, 1, &count));
        if (count > 0) {
            break;
        }
        ex_progress(side);
    }

    ex_check(what.status, "the endpoint to the server");
    if (ucp_wimm_imm_get(what.imm, ITERATION_SHIFT, ITERATION_BITS) !=
        iteration) {
        ex_fail("iteration %u was to come, not %u", iteration,
                ucp_wimm_imm_get(what.imm, ITERATION_SHIFT, ITERATION_BITS));
    }
    return ucp_wimm_imm_get(what.imm, INCLUDED_SHIFT, INCLUDED_BITS);
}

static int run_worker(void *arg)
{
    const options_t *opts = arg;
    int is_late_one       = (opts->worker == opts->num_workers - 1);
    unsigned wrong        = 0;
    unsigned iteration;
    uint32_t *expected, *params, included;
    ucs_status_ptr_t request;
    ex_side_t side;
    ex_peer_t server;

    ex_open(&side, (NUM_PLACES + 1) * opts->num_shards * SHARD_SIZE);
    expected = allocate(opts->num_shards, SHARD_SIZE);
    ex_connect(&side, &server, opts->server, "server");

    for (iteration = 1; iteration <= opts->num_iterations; ++iteration) {
        if (is_late_one && (iteration == opts->late)) {
            included = wait_params(&side, iteration);
            ex_say("is late: pushes iteration %u, which the server has taken",
                   iteration);
            push(opts, &server, iteration);
        } else {
            push(opts, &server, iteration);
            included = wait_params(&side, iteration);
        }

        add_expected(opts, expected, iteration, included);
        params = (uint32_t *)(side.memory + params_offset(opts, iteration));
        wrong += compare(opts, params, expected, iteration);
    }

    request = put(&server, NULL, 0, 0, make_imm(ENDED, opts->worker, 0));
    wait_all(&side, &request, 1);
    ex_say("pushed %u iterations, %u of the parameters' shards were wrong",
           opts->num_iterations, wrong);

    ex_disconnect(&server);
    free(expected);
    ex_close(&side);
    return (wrong > 0) ? EX_WRONG : 0;
}


/*
 * The server
 */

/* Counters of an iteration */
typedef struct {
    ucp_wimm_counter_h all;
    ucp_wimm_counter_h workers[MAX_WORKERS];
} counters_t;


typedef struct {
    const options_t *opts;
    ex_side_t side;
    ex_peer_t workers[MAX_WORKERS];
    unsigned iteration;       /* That may be pushed now */
    uint32_t *params;         /* In the memory of this side */
    uint32_t *expected;       /* What they are to be */
    unsigned long num_summed; /* Shards */
    unsigned long num_late;
    unsigned wrong; /* Shards of parameters */
} server_t;


/* What no counter has consumed: shards of an iteration that is over */
static ucs_status_t take_uncounted(void *arg,
                                   const ucp_wimm_notification_t *what)
{
    server_t *server   = arg;
    unsigned iteration = ucp_wimm_imm_get(what->imm, ITERATION_SHIFT,
                                          ITERATION_BITS);
    unsigned worker    = ucp_wimm_imm_get(what->imm, WORKER_SHIFT, WORKER_BITS);

    if (what->status != UCS_OK) {
        return UCS_OK; /* ex_progress() says it */
    }

    if (iteration >= server->iteration) {
        ex_fail("worker %u has pushed iteration %u too early", worker,
                iteration);
    }

    if (ex_common.verbose ||
        (server->num_late % server->opts->num_shards) == 0) {
        ex_say("drops what worker %u pushed too late for iteration %u: shard"
               " %u%s",
               worker, iteration,
               ucp_wimm_imm_get(what->imm, SHARD_SHIFT, SHARD_BITS),
               ex_common.verbose ? "" : " and more");
    }
    ++server->num_late;
    return UCS_OK;
}

static ucp_wimm_counter_h create_counter(server_t *server, uint32_t value,
                                         uint32_t mask, uint64_t expected)
{
    ucp_wimm_counter_params_t params = {
        .field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH |
                      UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED,
        .match    = { .value = value, .mask = mask },
        .expected = expected
    };
    ucp_wimm_counter_h counter;

    EX_CHECK(ucp_wimm_counter_create(server->side.wimm, &params, &counter));
    return counter;
}

/* From now on this iteration may be pushed */
static void begin(server_t *server, unsigned iteration, counters_t *counters)
{
    const options_t *opts   = server->opts;
    uint32_t iteration_mask = UINT32_MAX << ITERATION_SHIFT;
    uint32_t worker_mask    = iteration_mask | (UINT32_MAX << WORKER_SHIFT);
    unsigned num_expected   = opts->num_workers - (iteration == opts->late);
    unsigned i;

    server->iteration = iteration;
    counters->all     = create_counter(server, make_imm(iteration, 0, 0),
                                       iteration_mask,
                                       num_expected * opts->num_shards);
    for (i = 0; i < opts->num_workers; ++i) {
        counters->workers[i] = create_counter(server, make_imm(iteration, i, 0),
                                              worker_mask, opts->num_shards);
    }
}

/* Wait until an iteration is complete, and end it. @return Workers that are in it. */
static uint32_t end(server_t *server, counters_t *counters)
{
    const options_t *opts = server->opts;
    uint32_t included     = 0;
    ucs_status_t status;
    unsigned i;

    /* Not for a time: ex_progress() knows how long to wait */
    while ((status = ucp_wimm_wait_some(server->side.wimm, &counters->all, 1, 0,
                                        NULL, NULL)) == UCS_ERR_TIMED_OUT) {
        ex_progress(&server->side);
    }
    ex_check(status, "ucp_wimm_wait_some");

    /* Nothing is progressed from here to the end: nothing is counted in between */
    for (i = 0; i < opts->num_workers; ++i) {
        if (ucp_wimm_counter_test(counters->workers[i]) == UCS_OK) {
            included |= 1u << i;
        }
        ucp_wimm_counter_destroy(counters->workers[i]);
    }
    ucp_wimm_counter_destroy(counters->all);
    return included;
}

static void sum(server_t *server, unsigned iteration, uint32_t included)
{
    const options_t *opts = server->opts;
    const uint32_t *data;
    unsigned worker;
    size_t i;

    for (worker = 0; worker < opts->num_workers; ++worker) {
        if (!(included & (1u << worker))) {
            continue;
        }
        data = (const uint32_t *)(server->side.memory +
                                  shard_offset(opts, iteration, worker, 0));
        for (i = 0; i < opts->num_shards * SHARD_WORDS; ++i) {
            server->params[i] += data[i];
        }
        server->num_summed += opts->num_shards;
    }

    add_expected(opts, server->expected, iteration, included);
    server->wrong += compare(opts, server->params, server->expected, iteration);
}

static void send_params(server_t *server, unsigned iteration, uint32_t included)
{
    const options_t *opts = server->opts;
    ucs_status_ptr_t requests[MAX_WORKERS];
    uint32_t imm = 0;
    unsigned i;

    ex_imm_set(&imm, ITERATION_SHIFT, ITERATION_BITS, iteration);
    ex_imm_set(&imm, INCLUDED_SHIFT, INCLUDED_BITS, included);
    for (i = 0; i < opts->num_workers; ++i) {
        requests[i] = put(&server->workers[i], server->params,
                          opts->num_shards * SHARD_SIZE,
                          params_offset(opts, iteration), imm);
    }
    wait_all(&server->side, requests, opts->num_workers);
}

static void serve(server_t *server, counters_t *counters)
{
    const options_t *opts = server->opts;
    uint32_t included;
    unsigned iteration;

    for (iteration = 1; iteration <= opts->num_iterations; ++iteration) {
        included = end(server, counters);
        sum(server, iteration, included);
        if (iteration == opts->late) {
            ex_say("iteration %u: %u of %u shards are there, taken without"
                   " worker %u",
                   iteration, __builtin_popcount(included) * opts->num_shards,
                   opts->num_workers * opts->num_shards, opts->num_workers - 1);
        } else if (ex_common.verbose || (opts->num_iterations <= 20)) {
            ex_say("iteration %u: %u of %u shards are there, taken", iteration,
                   __builtin_popcount(included) * opts->num_shards,
                   opts->num_workers * opts->num_shards);
        }

        if (iteration < opts->num_iterations) {
            begin(server, iteration + 1, counters);
        } else {
            server->iteration = ENDED;
        }
        send_params(server, iteration, included);
    }
}

static int run_server(void *arg)
{
    const options_t *opts = arg;
    server_t server       = { .opts = opts };
    size_t size = shard_offset(opts, NUM_PLACES - 1, opts->num_workers, 0);
    ucp_wimm_counter_h ended;
    ucs_status_t status;
    counters_t counters;
    const char *way;
    unsigned i;

    ex_open(&server.side, size + (opts->num_shards * SHARD_SIZE));
    server.params   = (uint32_t *)(server.side.memory + size);
    server.expected = allocate(opts->num_shards, SHARD_SIZE);
    EX_CHECK(ucp_wimm_set_handler(server.side.wimm, take_uncounted, &server));
    ended = create_counter(&server, make_imm(ENDED, 0, 0),
                           UINT32_MAX << ITERATION_SHIFT, opts->num_workers);
    begin(&server, 1, &counters);

    for (i = 0; i < opts->num_workers; ++i) {
        ex_connect(&server.side, &server.workers[i], opts->workers[i],
                   "worker %u", i);
    }
    ex_say("has %u shards of %zu bytes for each of %u workers, twice",
           opts->num_shards, SHARD_SIZE, opts->num_workers);

    serve(&server, &counters);
    while ((status = ucp_wimm_counter_take(ended, opts->num_workers)) ==
           UCS_INPROGRESS) {
        ex_progress(&server.side);
    }
    ex_check(status, "ucp_wimm_counter_take");

    ex_say("%s", ex_way_text(&server.workers[0]));
    way = ex_way(&server.workers[0]);
    for (i = 0; i < opts->num_workers; ++i) {
        ex_disconnect(&server.workers[i]);
    }
    ucp_wimm_counter_destroy(ended);
    free(server.expected);
    ex_close(&server.side);

    ex_say("params: %u iterations, %lu shards summed, %lu late and dropped, %u"
           " wrong, %s",
           opts->num_iterations, server.num_summed, server.num_late,
           server.wrong, way);
    return (server.wrong > 0) ? EX_WRONG : 0;
}


/*
 * The parent
 */

static const char usage[] =
        "A parameter server: workers push shards, the immediate has shard and iteration;\n"
        "the server takes an iteration when its counter says so, and drops late shards.\n"
        "  -w WORKERS     how many (default 3)\n"
        "  -s SHARDS      of each worker (default 8)\n"
        "  -i ITERATIONS  how many (default 6)\n"
        "  -l ITERATION   in which the last worker is late, 0 for none (default 3)\n";

static void parse(int argc, char **argv, options_t *opts)
{
    int option;

    ex_init(argv[0]);
    while ((option = getopt(argc, argv, "w:s:i:l:" EX_OPTIONS)) != -1) {
        switch (option) {
        case 'w':
            opts->num_workers = ex_number(optarg, 1, MAX_WORKERS, option);
            break;
        case 's':
            opts->num_shards = ex_number(optarg, 1, MAX_SHARDS, option);
            break;
        case 'i':
            opts->num_iterations = ex_number(optarg, 1, MAX_ITERATIONS, option);
            break;
        case 'l':
            opts->late = ex_number(optarg, 0, MAX_ITERATIONS, option);
            break;
        default:
            ex_option(option, usage);
        }
    }
    ex_no_more(argc, argv);

    if (opts->late > opts->num_iterations) {
        ex_wrong_option("no worker can be late in iteration %u (-l) of %u (-i)",
                        opts->late, opts->num_iterations);
    }
    if ((opts->late > 0) && (opts->num_workers == 1)) {
        ex_wrong_option("the only worker cannot be late: -l 0, or more workers"
                        " (-w)");
    }
}

int main(int argc, char **argv)
{
    options_t opts = { .num_workers    = 3,
                       .num_shards     = 8,
                       .num_iterations = 6,
                       .late           = 3 };
    int servers[MAX_WORKERS];
    char who[32];
    int channel[2];
    unsigned i;

    parse(argc, argv, &opts);

    for (i = 0; i < opts.num_workers; ++i) {
        ex_channel(channel);
        opts.workers[i] = channel[0];
        servers[i]      = channel[1];
    }
    ex_start("server", run_server, &opts, opts.workers, opts.num_workers);
    for (i = 0; i < opts.num_workers; ++i) {
        snprintf(who, sizeof(who), "worker %u", i);
        opts.worker = i;
        opts.server = servers[i];
        ex_start(who, run_worker, &opts, &opts.server, 1);
    }
    return ex_wait_all();
}
