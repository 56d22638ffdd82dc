/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * Notified puts between two processes, with the calls of UCP and of ucp_wimm.h.
 *
 * Each side writes its data into the memory of the other one with ucp_wimm_put_nbx(),
 * and waits until a counter says that the other side's data is there. The immediate is
 * the number of the round. Addresses and keys are exchanged over TCP.
 *
 *   ucp_wimm_pingpong                      the first side waits for
 *   ucp_wimm_pingpong 127.0.0.1            the second one
 *
 * UCX_TLS says which transports UCP may use: wimm,ud_verbs:aux. Over others (tcp) notified
 * puts are emulated.
 */

#include <ucp_wimm.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define DEFAULT_PORT  18516
#define MAX_SIZE      65536
#define CONNECT_TRIES 100 /* 100 ms apart */
#define WAIT_SECONDS  30.0
#define AM_ID         1 /* For a peer that is reached without RDMA */

#define CHECK(_call) check((_call), #_call)


typedef struct {
    const char *host; /* NULL: wait for the other side */
    unsigned port;
    size_t size;
    unsigned long iters;
    unsigned long warmup;
} options_t;


typedef struct {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_wimm_h wimm;
    ucp_wimm_counter_h counter;
    ucp_ep_h ep;
    ucp_mem_h memh;
    ucp_rkey_h rkey;
    uint64_t remote_addr;
    uint8_t *memory; /* What the peer writes to, and what we write from */
} side_t;


static void check(ucs_status_t status, const char *call)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s: %s\n", call, ucs_status_string(status));
        exit(1);
    }
}

static void transfer(int fd, void *buffer, size_t length, int is_send)
{
    ssize_t ret;

    while (length > 0) {
        ret = is_send ? send(fd, buffer, length, MSG_NOSIGNAL) :
                        recv(fd, buffer, length, 0);
        if (ret <= 0) {
            fprintf(stderr, "the other side went away\n");
            exit(1);
        }
        buffer = (char *)buffer + ret;
        length -= ret;
    }
}

/* Give the other side some bytes, and return its own, of whatever length */
static void *swap_bytes(int fd, const void *buffer, uint32_t length)
{
    uint32_t other;
    void *result;

    transfer(fd, &length, sizeof(length), 1);
    transfer(fd, (void *)buffer, length, 1);
    transfer(fd, &other, sizeof(other), 0);
    result = (other <= MAX_SIZE) ? malloc(other + 1) : NULL;
    if (result == NULL) {
        fprintf(stderr, "the other side is not this program\n");
        exit(1);
    }
    transfer(fd, result, other, 0);
    return result;
}

static int tcp_open(const options_t *opts)
{
    struct timespec pause   = { .tv_nsec = 100000000 };
    struct sockaddr_in addr = { .sin_family = AF_INET,
                                .sin_port   = htons(opts->port) };
    int enable              = 1;
    unsigned tries          = 0;
    int listen_fd, fd;

    if (opts->host == NULL) {
        addr.sin_addr.s_addr = htonl(INADDR_ANY);
        listen_fd            = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &enable,
                   sizeof(enable));
        if ((listen_fd < 0) ||
            bind(listen_fd, (struct sockaddr *)&addr, sizeof(addr)) ||
            listen(listen_fd, 1)) {
            perror("listen");
            exit(1);
        }
        printf("waiting for the other side on port %u\n", opts->port);
        fflush(stdout);
        fd = accept(listen_fd, NULL, NULL);
        close(listen_fd);
    } else {
        if (inet_pton(AF_INET, opts->host, &addr.sin_addr) != 1) {
            fprintf(stderr, "'%s' is not an IPv4 address\n", opts->host);
            exit(2);
        }
        fd = socket(AF_INET, SOCK_STREAM, 0);
        while ((fd >= 0) &&
               connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
            if (++tries == CONNECT_TRIES) {
                perror("connect");
                exit(1);
            }
            nanosleep(&pause, NULL);
        }
    }

    if (fd < 0) {
        perror("socket");
        exit(1);
    }
    return fd;
}

static void open_side(side_t *side)
{
    ucp_params_t params         = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                                    .features   = UCP_FEATURE_RMA | UCP_FEATURE_AM };
    ucp_worker_params_t wparams = { .field_mask = 0 };
    ucp_wimm_params_t nparams   = { .field_mask = UCP_WIMM_PARAM_FIELD_AM_ID,
                                    .am_id      = AM_ID };
    ucp_mem_map_params_t mparams;

    CHECK(ucp_init(&params, NULL, &side->context));
    CHECK(ucp_worker_create(side->context, &wparams, &side->worker));
    CHECK(ucp_wimm_attach(side->worker, &nparams, &side->wimm));
    CHECK(ucp_wimm_counter_create(side->wimm, NULL, &side->counter));

    side->memory = calloc(2, MAX_SIZE);
    if (side->memory == NULL) {
        perror("calloc");
        exit(1);
    }
    mparams.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                         UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    mparams.address = side->memory;
    mparams.length  = 2 * MAX_SIZE;
    CHECK(ucp_mem_map(side->context, &mparams, &side->memh));
}

static void connect_sides(side_t *side, int fd)
{
    ucp_ep_params_t params;
    ucp_address_t *address;
    void *key, *peer_address, *peer_key, *peer_memory;
    size_t address_length, key_length;
    uint64_t addr = (uintptr_t)side->memory;

    CHECK(ucp_worker_get_address(side->worker, &address, &address_length));
    CHECK(ucp_rkey_pack(side->context, side->memh, &key, &key_length));
    peer_address = swap_bytes(fd, address, address_length);
    peer_key     = swap_bytes(fd, key, key_length);
    peer_memory  = swap_bytes(fd, &addr, sizeof(addr));
    memcpy(&side->remote_addr, peer_memory, sizeof(addr));

    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address    = peer_address;
    CHECK(ucp_ep_create(side->worker, &params, &side->ep));
    CHECK(ucp_ep_rkey_unpack(side->ep, peer_key, &side->rkey));
    ucp_worker_release_address(side->worker, address);
    ucp_rkey_buffer_release(key);
    free(peer_address);
    free(peer_key);
    free(peer_memory);
}

static uint8_t pattern(uint32_t round, size_t index)
{
    return (round * 7) + index + 1;
}

static void wait_request(side_t *side, ucs_status_ptr_t request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        check(UCS_PTR_STATUS(request), "operation");
        return;
    }

    do {
        ucp_worker_progress(side->worker);
        status = ucp_request_check_status(request);
    } while (status == UCS_INPROGRESS);
    ucp_request_free(request);
    check(status, "request");
}

/* Write the data of a round into the other side's memory and notify it */
static void put(side_t *side, uint32_t round, size_t size)
{
    uint8_t *data             = side->memory + MAX_SIZE;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                  .memh         = side->memh };
    size_t i;

    for (i = 0; i < size; ++i) {
        data[i] = pattern(round, i);
    }

    wait_request(side, ucp_wimm_put_nbx(side->wimm, side->ep, data, size,
                                        side->remote_addr, side->rkey, round,
                                        &param));
}

/* Wait for the notification of a round. @return Whether its data is right. */
static int take(side_t *side, uint32_t round, size_t size)
{
    ucs_status_t status;
    size_t i;

    status = ucp_wimm_wait_some(side->wimm, &side->counter, 1, WAIT_SECONDS,
                                NULL, NULL);
    check(status, "ucp_wimm_wait_some");
    CHECK(ucp_wimm_counter_take(side->counter, 1));
    for (i = 0; i < size; ++i) {
        if (side->memory[i] != pattern(round, i)) {
            return 0;
        }
    }
    return 1;
}

static double now_usec(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (ts.tv_sec * 1e6) + (ts.tv_nsec / 1e3);
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void run(side_t *side, const options_t *opts)
{
    unsigned long total = opts->warmup + opts->iters;
    double *usec        = calloc(opts->iters, sizeof(*usec));
    unsigned long bad   = 0;
    ucp_wimm_ep_attr_t attr;
    unsigned long i;
    double start;

    if (usec == NULL) {
        perror("calloc");
        exit(1);
    }

    for (i = 0; i < total; ++i) {
        start = now_usec();
        if (opts->host == NULL) {
            bad += !take(side, i, opts->size);
            put(side, i, opts->size);
        } else {
            put(side, i, opts->size);
            bad += !take(side, i, opts->size);
            if (i >= opts->warmup) {
                usec[i - opts->warmup] = (now_usec() - start) / 2;
            }
        }
    }

    attr.field_mask = UCP_WIMM_EP_ATTR_FIELD_WAY;
    CHECK(ucp_wimm_ep_query(side->wimm, side->ep, &attr));
    printf("%lu notifications of %zu bytes arrived, %lu bad, %s\n", total,
           opts->size, bad,
           (attr.way == UCP_WIMM_WAY_NATIVE) ? "by RDMA WRITE WITH IMMEDIATE" :
                                               "emulated");
    if (opts->host != NULL) {
        qsort(usec, opts->iters, sizeof(*usec), compare_double);
        printf("half round trip: median %.2f us, 99%% %.2f us\n",
               usec[opts->iters / 2], usec[opts->iters * 99 / 100]);
    }
    free(usec);
}

static void close_side(side_t *side, int fd)
{
    ucp_request_param_t param = { .op_attr_mask = 0 };
    struct pollfd pfd         = { .fd = fd, .events = POLLIN };
    char byte                 = 0;

    wait_request(side, ucp_wimm_flush_nbx(side->wimm, side->ep, &param));

    /* The other side has all it waited for. Until it says so it may need us: emulated, its
     * flush is answered by our progress. */
    transfer(fd, &byte, sizeof(byte), 1);
    while (poll(&pfd, 1, 0) == 0) {
        ucp_worker_progress(side->worker);
    }
    transfer(fd, &byte, sizeof(byte), 0);

    ucp_rkey_destroy(side->rkey);
    wait_request(side, ucp_wimm_ep_close_nbx(side->wimm, side->ep, &param));
    ucp_wimm_counter_destroy(side->counter);
    CHECK(ucp_wimm_detach(side->wimm));
    CHECK(ucp_mem_unmap(side->context, side->memh));
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    free(side->memory);
    close(fd);
}

static void usage(const char *name, FILE *stream)
{
    fprintf(stream,
            "Usage: %s [-p PORT] [-s BYTES] [-n ITERATIONS] [-w WARM-UP] [HOST]\n"
            "Notified puts between two processes. Without HOST it waits for the\n"
            "other side. UCX_TLS=wimm,ud_verbs:aux selects the transport.\n",
            name);
}

static unsigned long number(const char *text, unsigned long min,
                            unsigned long max, char option)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if ((*text == '\0') || (*text == '-') || (*end != '\0') || (value < min) ||
        (value > max)) {
        fprintf(stderr, "-%c takes a number from %lu to %lu, not '%s'\n",
                option, min, max, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    options_t opts = { .port   = DEFAULT_PORT,
                       .size   = 8,
                       .iters  = 1000,
                       .warmup = 100 };
    side_t side    = {};
    int option, fd;

    while ((option = getopt(argc, argv, "p:s:n:w:h")) != -1) {
        switch (option) {
        case 'p':
            opts.port = number(optarg, 1, 65535, option);
            break;
        case 's':
            opts.size = number(optarg, 0, MAX_SIZE, option);
            break;
        case 'n':
            opts.iters = number(optarg, 1, 100000000, option);
            break;
        case 'w':
            opts.warmup = number(optarg, 0, 100000000, option);
            break;
        case 'h':
            usage(argv[0], stdout);
            return 0;
        default:
            usage(argv[0], stderr);
            return 2;
        }
    }
    if (optind < argc) {
        opts.host = argv[optind++];
    }
    if (optind < argc) {
        usage(argv[0], stderr);
        return 2;
    }

    fd = tcp_open(&opts);
    open_side(&side);
    connect_sides(&side, fd);
    run(&side, &opts);
    close_side(&side, fd);
    return 0;
}
