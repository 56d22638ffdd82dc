/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * Notified puts between two processes, with the calls of UCT and of wimm.h.
 *
 * Each side writes its data into the memory of the other one with
 * uct_wimm_ep_put_imm_short(), and waits for the notification of the other
 * side's data: nobody polls memory, and nobody sends a second message. The
 * immediate is the number of the round. Addresses are exchanged over TCP.
 *
 *   uct_wimm_pingpong -d rxe0:1                 the first side waits for
 *   uct_wimm_pingpong -d rxe1:1 127.0.0.1       the second one
 */

#include <uct/ib/wimm/wimm.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define DEFAULT_PORT  18515
#define MAX_ADDR      256
#define MAX_SIZE      4096
#define CONNECT_TRIES 100 /* 100 ms apart */

#define CHECK(_call) check((_call), #_call)


typedef struct {
    const char *dev_name; /* "rxe0:1"; NULL means the first one */
    const char *host;     /* NULL: wait for the other side */
    unsigned port;
    unsigned size;
    unsigned long iters;
    unsigned long warmup;
} options_t;


typedef struct {
    ucs_async_context_t *async;
    uct_worker_h worker;
    uct_component_h component;
    uct_md_h md;
    uct_md_attr_t md_attr;
    uct_iface_h iface;
    uct_iface_attr_t iface_attr;
    uct_ep_h ep;
    uct_allocated_memory_t mem;
    uct_rkey_bundle_t rkey;
    uint64_t remote_addr;

    /* Written by the notification handler */
    unsigned long arrived;
    unsigned long bad;
    unsigned expected_size;
    uct_ep_h expected_ep;
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

/* Give the other side our bytes, and replace them by its bytes. Both sides send as
 * many: they run the same transport. */
static void swap_bytes(int fd, void *buffer, uint32_t length)
{
    uint8_t mine[MAX_ADDR];
    uint32_t other = length;

    if (length > sizeof(mine)) {
        fprintf(stderr, "an address of %u bytes is too long\n", length);
        exit(1);
    }

    memcpy(mine, buffer, length);
    transfer(fd, &length, sizeof(length), 1);
    transfer(fd, mine, length, 1);
    transfer(fd, &other, sizeof(other), 0);
    if (other != length) {
        fprintf(stderr, "the other side is not this program, or not this"
                        " version of it\n");
        exit(1);
    }
    transfer(fd, buffer, length, 0);
}

/* Both sides have come this far */
static void barrier(int fd)
{
    uint8_t byte = 0;

    swap_bytes(fd, &byte, 1);
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
        if (fd < 0) {
            perror("accept");
            exit(1);
        }
        return fd;
    }

    if (inet_pton(AF_INET, opts->host, &addr.sin_addr) != 1) {
        fprintf(stderr, "'%s' is not an IPv4 address\n", opts->host);
        exit(2);
    }

    for (;;) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0) {
            return fd;
        }
        close(fd);
        if (++tries == CONNECT_TRIES) {
            perror("connect");
            exit(1);
        }
        nanosleep(&pause, NULL);
    }
}

/* Byte "i" of the data of round "round" */
static uint8_t pattern(uint32_t round, unsigned i)
{
    return (uint8_t)(round * 31 + i);
}

/* Called by uct_worker_progress() when the other side's data is in place */
static ucs_status_t notified(void *arg, uct_ep_h ep, uint32_t imm,
                             size_t length)
{
    side_t *side        = arg;
    const uint8_t *data = side->mem.address;
    unsigned i;

    if ((imm != (uint32_t)side->arrived) || (length != side->expected_size) ||
        (ep != side->expected_ep)) {
        ++side->bad;
    }
    for (i = 0; i < length; ++i) {
        if (data[i] != pattern(imm, i)) {
            ++side->bad;
            break;
        }
    }

    ++side->arrived;
    return UCS_OK;
}

static ucs_status_t failed(void *arg, uct_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    fprintf(stderr, "the connection failed: %s\n", ucs_status_string(status));
    exit(1);
}

/* Open the interface of the transport "wimm" on the device that was asked for.
 * Returns 0 when it is open, 1 if there is no such device here. */
static int open_iface(side_t *side, const options_t *opts, uct_md_h md)
{
    uct_iface_params_t params = {
        .field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                      UCT_IFACE_PARAM_FIELD_DEVICE |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                      UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS,
        .open_mode   = UCT_IFACE_OPEN_MODE_DEVICE,
        .err_handler = failed
    };
    uct_tl_resource_desc_t *tls;
    uct_iface_config_t *config;
    unsigned num_tls, i;
    int found = 0;

    CHECK(uct_md_query_tl_resources(md, &tls, &num_tls));
    for (i = 0; (i < num_tls) && !found; ++i) {
        if (strcmp(tls[i].tl_name, "wimm") ||
            ((opts->dev_name != NULL) &&
             strcmp(tls[i].dev_name, opts->dev_name))) {
            continue;
        }

        params.mode.device.tl_name  = tls[i].tl_name;
        params.mode.device.dev_name = tls[i].dev_name;
        CHECK(uct_md_iface_config_read(md, "wimm", NULL, NULL, &config));
        CHECK(uct_iface_open(md, side->worker, &params, config, &side->iface));
        uct_config_release(config);
        CHECK(uct_iface_query(side->iface, &side->iface_attr));
        printf("wimm on %s, put_imm_short up to %zu bytes\n", tls[i].dev_name,
               side->iface_attr.cap.put.max_short);
        found = 1;
    }

    uct_release_tl_resource_list(tls);
    return !found;
}

static void open_side(side_t *side, const options_t *opts)
{
    uct_component_attr_t component_attr = {};
    uct_component_h *components;
    uct_md_config_t *md_config;
    unsigned num_components, i, j;
    ucs_status_t status;

    CHECK(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                   &side->async));
    CHECK(uct_worker_create(side->async, UCS_THREAD_MODE_SINGLE,
                            &side->worker));
    CHECK(uct_query_components(&components, &num_components));
    for (i = 0; (i < num_components) && (side->iface == NULL); ++i) {
        component_attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        CHECK(uct_component_query(components[i], &component_attr));
        component_attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        component_attr.md_resources = calloc(component_attr.md_resource_count +
                                                     1,
                                             sizeof(uct_md_resource_desc_t));
        CHECK(uct_component_query(components[i], &component_attr));
        for (j = 0; j < component_attr.md_resource_count; ++j) {
            CHECK(uct_md_config_read(components[i], NULL, NULL, &md_config));
            status = uct_md_open(components[i],
                                 component_attr.md_resources[j].md_name,
                                 md_config, &side->md);
            uct_config_release(md_config);
            if (status != UCS_OK) {
                continue; /* Not ours to complain about */
            }
            if (open_iface(side, opts, side->md) == 0) {
                side->component = components[i];
                break;
            }
            uct_md_close(side->md);
        }
        free(component_attr.md_resources);
    }
    uct_release_component_list(components);

    if (side->iface == NULL) {
        fprintf(stderr,
                "no transport wimm on %s: is there an RDMA device"
                " (ibv_devices), and is its port active?\n",
                (opts->dev_name != NULL) ? opts->dev_name : "any device");
        exit(1);
    }

    CHECK(uct_md_query(side->md, &side->md_attr));
    if (opts->size > side->iface_attr.cap.put.max_short) {
        fprintf(stderr,
                "-s %u is too large, at most %zu bytes can be sent"
                " inline\n",
                opts->size, side->iface_attr.cap.put.max_short);
        exit(2);
    }
}

static void alloc_memory(side_t *side)
{
    uct_alloc_method_t method     = UCT_ALLOC_METHOD_MMAP;
    uct_mem_alloc_params_t params = {
        .field_mask = UCT_MEM_ALLOC_PARAM_FIELD_FLAGS |
                      UCT_MEM_ALLOC_PARAM_FIELD_NAME,
        .flags = UCT_MD_MEM_ACCESS_ALL,
        .name  = "pingpong"
    };

    CHECK(uct_mem_alloc(MAX_SIZE, &method, 1, &params, &side->mem));
    memset(side->mem.address, 0xff, MAX_SIZE);
    CHECK(uct_md_mem_reg(side->md, side->mem.address, MAX_SIZE,
                         UCT_MD_MEM_ACCESS_ALL, &side->mem.memh));
}

/* Swap addresses and keys with the other side, and connect the endpoints */
static void connect_sides(side_t *side, int fd)
{
    uct_ep_params_t ep_params = { .field_mask = UCT_EP_PARAM_FIELD_IFACE,
                                  .iface      = side->iface };
    uint8_t dev_addr[MAX_ADDR], iface_addr[MAX_ADDR], ep_addr[MAX_ADDR];
    uint8_t rkey[MAX_ADDR];
    uct_iface_attr_t *attr = &side->iface_attr;
    uint64_t addr          = (uintptr_t)side->mem.address;

    CHECK(uct_ep_create(&ep_params, &side->ep));
    CHECK(uct_iface_get_device_address(side->iface, (void *)dev_addr));
    CHECK(uct_iface_get_address(side->iface, (void *)iface_addr));
    CHECK(uct_ep_get_address(side->ep, (void *)ep_addr));
    CHECK(uct_md_mkey_pack(side->md, side->mem.memh, rkey));

    swap_bytes(fd, dev_addr, attr->device_addr_len);
    swap_bytes(fd, iface_addr, attr->iface_addr_len);
    swap_bytes(fd, ep_addr, attr->ep_addr_len);
    swap_bytes(fd, rkey, side->md_attr.rkey_packed_size);
    swap_bytes(fd, &addr, sizeof(addr));

    if (!uct_iface_is_reachable(side->iface, (void *)dev_addr,
                                (void *)iface_addr)) {
        fprintf(stderr, "the other side cannot be reached from this device\n");
        exit(1);
    }

    side->remote_addr = addr;
    side->expected_ep = side->ep;
    CHECK(uct_rkey_unpack(side->component, rkey, &side->rkey));
    CHECK(uct_wimm_iface_set_imm_handler(side->iface, notified, side));
    uct_iface_progress_enable(side->iface,
                              UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    CHECK(uct_ep_connect_to_ep(side->ep, (void *)dev_addr, (void *)ep_addr));
    barrier(fd);
}

/* Write the data of a round into the other side's memory and notify it */
static void put(side_t *side, uint32_t round, unsigned size)
{
    uint8_t data[MAX_SIZE];
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < size; ++i) {
        data[i] = pattern(round, i);
    }

    do {
        status = uct_wimm_ep_put_imm_short(side->ep, data, size,
                                           side->remote_addr, side->rkey.rkey,
                                           round);
        uct_worker_progress(side->worker);
    } while (status == UCS_ERR_NO_RESOURCE);
    check(status, "uct_wimm_ep_put_imm_short");
}

static void wait_for(side_t *side, unsigned long rounds, int fd)
{
    unsigned long polls = 0;
    char byte;

    while (side->arrived < rounds) {
        uct_worker_progress(side->worker);

        /* A peer that is gone sends nothing more, and a side that has nothing
         * outstanding does not notice */
        if (((++polls % 100000) == 0) &&
            (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)) {
            fprintf(stderr, "the other side went away\n");
            exit(1);
        }
    }
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

static void run(side_t *side, const options_t *opts, int fd)
{
    unsigned long total = opts->warmup + opts->iters;
    double *usec        = calloc(opts->iters, sizeof(*usec));
    double start;
    unsigned long i;

    if (usec == NULL) {
        perror("calloc");
        exit(1);
    }

    side->expected_size = opts->size;
    for (i = 0; i < total; ++i) {
        if (opts->host == NULL) {
            wait_for(side, i + 1, fd);
            put(side, i, opts->size);
        } else {
            start = now_usec();
            put(side, i, opts->size);
            wait_for(side, i + 1, fd);
            if (i >= opts->warmup) {
                usec[i - opts->warmup] = (now_usec() - start) / 2;
            }
        }
    }

    printf("%lu notifications of %u bytes arrived, %lu bad\n", side->arrived,
           opts->size, side->bad);
    if (opts->host != NULL) {
        qsort(usec, opts->iters, sizeof(*usec), compare_double);
        printf("half round trip: median %.2f us, 99%% %.2f us\n",
               usec[opts->iters / 2], usec[opts->iters * 99 / 100]);
    }
    free(usec);
}

static void close_side(side_t *side, int fd)
{
    ucs_status_t status;

    do {
        status = uct_ep_flush(side->ep, 0, NULL);
        uct_worker_progress(side->worker);
    } while ((status == UCS_INPROGRESS) || (status == UCS_ERR_NO_RESOURCE));
    check(status, "uct_ep_flush");
    barrier(fd);

    uct_ep_destroy(side->ep);
    uct_rkey_release(side->component, &side->rkey);
    uct_md_mem_dereg(side->md, side->mem.memh);
    side->mem.memh = UCT_MEM_HANDLE_NULL;
    uct_mem_free(&side->mem);
    uct_iface_close(side->iface);
    uct_md_close(side->md);
    uct_worker_destroy(side->worker);
    ucs_async_context_destroy(side->async);
    close(fd);
}

static void usage(const char *name, FILE *stream)
{
    fprintf(stream,
            "usage: %s [options]          wait for the other side\n"
            "       %s [options] ADDRESS  connect to it (IPv4)\n\n"
            "  -d DEVICE  RDMA device and port, rxe0:1 for instance (the first)\n"
            "  -n N       rounds (1000)\n"
            "  -w N       rounds of warm-up (100)\n"
            "  -s BYTES   bytes in each put (8)\n"
            "  -p PORT    TCP port for the exchange of addresses (%d)\n",
            name, name, DEFAULT_PORT);
}

static unsigned long number(char opt, const char *text, unsigned long min,
                            unsigned long max)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);

    if ((*text < '0') || (*text > '9') || (*end != '\0') || (value < min) ||
        (value > max)) {
        fprintf(stderr, "-%c takes a number from %lu to %lu, not '%s'\n", opt,
                min, max, text);
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
    int opt, fd;

    while ((opt = getopt(argc, argv, "d:n:w:s:p:h")) != -1) {
        switch (opt) {
        case 'd':
            opts.dev_name = optarg;
            break;
        case 'n':
            opts.iters = number('n', optarg, 1, 100000000);
            break;
        case 'w':
            opts.warmup = number('w', optarg, 0, 100000000);
            break;
        case 's':
            opts.size = number('s', optarg, 0, MAX_SIZE);
            break;
        case 'p':
            opts.port = number('p', optarg, 1, 65535);
            break;
        case 'h':
            usage(argv[0], stdout);
            return 0;
        default:
            usage(argv[0], stderr);
            return 2;
        }
    }
    if (optind < (argc - 1)) {
        usage(argv[0], stderr);
        return 2;
    }
    opts.host = argv[optind];

    open_side(&side, &opts);
    alloc_memory(&side);
    fd = tcp_open(&opts);
    connect_sides(&side, fd);
    run(&side, &opts, fd);
    close_side(&side, fd);
    return side.bad != 0;
}
