/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "wimm_example.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>


#define MAX_PROCESSES 64
#define MAX_CHANNELS  128
#define MAX_MESSAGE   65536

/* For notified puts on endpoints without a native way; the same in all processes */
#define AM_ID 7

/* The parent gives up later than its children, which can say what they wait for */
#define PARENT_MORE 5


typedef struct {
    pid_t pid; /* 0: it has ended */
    char who[16];
} process_t;


ex_common_t ex_common = { .limit = 60, .corrupt = -1 };

static const char *program;
static char me[16]; /* Name of this process, empty for the parent */
static double deadline;

static process_t processes[MAX_PROCESSES];
static unsigned num_processes;

static int channels[MAX_CHANNELS]; /* Ends that this process has */
static unsigned num_channels;


static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec + (ts.tv_nsec / 1e9);
}

/* One write for a line, so that those of several processes do not mix */
static void print(FILE *stream, const char *who, const char *format,
                  va_list args)
{
    char text[1024];

    vsnprintf(text, sizeof(text), format, args);
    if (*who == '\0') {
        fprintf(stream, "%s\n", text);
    } else {
        fprintf(stream, "%-9s %s\n", who, text);
    }
    fflush(stream);
}

void ex_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(stdout, me, format, args);
    va_end(args);
}

void ex_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(stderr, (*me == '\0') ? program : me, format, args);
    va_end(args);
    exit(1);
}

void ex_check(ucs_status_t status, const char *call)
{
    if (status != UCS_OK) {
        ex_fail("%s: %s", call, ucs_status_string(status));
    }
}


/*
 * Options
 */

void ex_wrong_option(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    print(stderr, "", format, args);
    va_end(args);
    exit(2);
}

unsigned long ex_number(const char *text, unsigned long min, unsigned long max,
                        int option)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 10);
    if ((*text < '0') || (*text > '9') || (*end != '\0') || (errno != 0) ||
        (value < min) || (value > max)) {
        ex_wrong_option("%s: -%c takes a number from %lu to %lu, not '%s'",
                        program, option, min, max, text);
    }

    return value;
}

void ex_init(const char *name)
{
    const char *corrupt = getenv("WIMM_EXAMPLE_CORRUPT");

    program = (strrchr(name, '/') != NULL) ? strrchr(name, '/') + 1 : name;
    if (corrupt != NULL) {
        ex_common.corrupt = atol(corrupt);
    }

    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stderr, NULL, _IOLBF, 0);
}

void ex_option(int option, const char *usage)
{
    switch (option) {
    case 't':
        ex_common.limit = ex_number(optarg, 1, 100000, option);
        break;
    case 'v':
        ex_common.verbose = 1;
        break;
    case 'E':
        ex_common.no_failures = 1;
        break;
    case 'h':
        printf("usage: %s [OPTIONS]\n%s%s", program, usage, EX_USAGE);
        exit(0);
    default:
        exit(2); /* getopt has said it */
    }
}

void ex_no_more(int argc, char **argv)
{
    if (optind < argc) {
        ex_wrong_option("%s takes no argument '%s': -h shows its options",
                        program, argv[optind]);
    }
}


/*
 * Processes and channels
 */

void ex_channel(int fds[2])
{
    struct timeval limit = { .tv_sec = ex_common.limit };
    int i;

    if ((num_channels + 2 > MAX_CHANNELS) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds)) {
        ex_fail("no more channels between processes");
    }

    for (i = 0; i < 2; ++i) {
        setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        channels[num_channels++] = fds[i];
    }
}

void ex_send(int fd, const void *message, size_t length)
{
    if (send(fd, message, length, MSG_NOSIGNAL) != (ssize_t)length) {
        ex_fail("another process has ended too early");
    }
}

ssize_t ex_recv(int fd, void *buffer, size_t size)
{
    ssize_t ret;

    do {
        ret = recv(fd, buffer, size, MSG_TRUNC);
    } while ((ret < 0) && (errno == EINTR));

    if ((ret < 0) && (errno != ECONNRESET)) {
        ex_fail("nothing has come from another process in %u s",
                ex_common.limit);
    }

    if (ret > (ssize_t)size) {
        ex_fail("a message of another process is too long");
    }

    return (ret > 0) ? ret : -1;
}

void ex_recv_exactly(int fd, void *buffer, size_t length, const char *from)
{
    if (ex_recv(fd, buffer, length) != (ssize_t)length) {
        ex_fail("%s has ended too early", from);
    }
}

/* Close the ends that are in the list, or those that are not */
static void close_channels(const int *fds, unsigned num_fds, int is_listed)
{
    unsigned i, j, count = 0;

    for (i = 0; i < num_channels; ++i) {
        for (j = 0; (j < num_fds) && (fds[j] != channels[i]); ++j) {
        }
        if ((j < num_fds) == is_listed) {
            close(channels[i]);
        } else {
            channels[count++] = channels[i];
        }
    }
    num_channels = count;
}

static void parent_gives_up(int signo)
{
    static const char text[] = "the time is over (-t): giving up\n";

    (void)signo;
    _exit((write(2, text, sizeof(text) - 1) < 0) ? 1 : 1);
}

pid_t ex_start(const char *who, ex_role_t role, void *arg, const int *fds,
               unsigned num_fds)
{
    pid_t parent = getpid();
    pid_t pid;

    if (num_processes == MAX_PROCESSES) {
        ex_fail("too many processes");
    }

    if (num_processes == 0) {
        /* The children end with the parent */
        signal(SIGALRM, parent_gives_up);
        alarm(ex_common.limit + PARENT_MORE);
    }

    fflush(stdout);
    pid = fork();
    if (pid < 0) {
        ex_fail("fork: %s", strerror(errno));
    }

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        signal(SIGALRM, SIG_DFL);
        snprintf(me, sizeof(me), "%s", who);
        deadline = now() + ex_common.limit;
        close_channels(fds, num_fds, 0);
        exit(role(arg));
    }

    close_channels(fds, num_fds, 1);
    processes[num_processes].pid = pid;
    snprintf(processes[num_processes].who, sizeof(processes->who), "%s", who);
    ++num_processes;
    return pid;
}

static process_t *find_process(pid_t pid)
{
    unsigned i;

    for (i = 0; i < num_processes; ++i) {
        if (processes[i].pid == pid) {
            return &processes[i];
        }
    }
    return NULL;
}

int ex_kill(pid_t pid)
{
    process_t *process = find_process(pid);
    int status;

    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    process->pid = 0;
    return WIFSIGNALED(status);
}

int ex_wait_all(void)
{
    process_t *process;
    unsigned i;
    int is_killing = 0;
    int result     = 0;
    int status;
    pid_t pid;

    for (;;) {
        pid = waitpid(-1, &status, 0);
        if (pid < 0) {
            return result;
        }

        process = find_process(pid);
        if (process == NULL) {
            continue;
        }
        process->pid = 0;
        if (status == 0) {
            continue;
        }

        if (WIFEXITED(status) && (WEXITSTATUS(status) == EX_WRONG)) {
            result = 1;
            continue;
        }

        if (is_killing) {
            continue;
        }
        is_killing = 1;
        result     = 1;
        if (WIFSIGNALED(status)) {
            fprintf(stderr, "%s: %s was ended by signal %d\n", program,
                    process->who, WTERMSIG(status));
        }
        for (i = 0; i < num_processes; ++i) {
            if (processes[i].pid != 0) {
                kill(processes[i].pid, SIGKILL);
            }
        }
    }
}


/*
 * UCX
 */

void ex_open(ex_side_t *side, size_t length)
{
    ucp_params_t params         = { .field_mask = UCP_PARAM_FIELD_FEATURES,
                                    .features   = UCP_FEATURE_RMA | UCP_FEATURE_AM };
    ucp_worker_params_t wparams = { .field_mask = 0 };
    ucp_wimm_params_t iparams   = { .field_mask = UCP_WIMM_PARAM_FIELD_AM_ID,
                                    .am_id      = AM_ID };
    ucp_mem_map_params_t mparams;

    side->peers  = NULL;
    side->length = length;
    side->memory = calloc(1, length);
    if (side->memory == NULL) {
        ex_fail("no memory for %zu bytes", length);
    }

    EX_CHECK(ucp_init(&params, NULL, &side->context));
    EX_CHECK(ucp_worker_create(side->context, &wparams, &side->worker));
    EX_CHECK(ucp_wimm_attach(side->worker, &iparams, &side->wimm));

    mparams.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                         UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    mparams.address = side->memory;
    mparams.length  = length;
    EX_CHECK(ucp_mem_map(side->context, &mparams, &side->memh));
}

void ex_close(ex_side_t *side)
{
    EX_CHECK(ucp_wimm_detach(side->wimm));
    EX_CHECK(ucp_mem_unmap(side->context, side->memh));
    ucp_worker_destroy(side->worker);
    ucp_cleanup(side->context);
    free(side->memory);
}

/* UCX has noticed that the peer is dead, or has closed its endpoint */
static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ex_peer_t *peer = arg;

    (void)ep;
    if (peer->status == UCS_OK) {
        peer->status = status;
    }
}

static void exchange(ex_side_t *side, ex_peer_t *peer, void *buffer)
{
    uint64_t addr = (uintptr_t)side->memory;
    ucp_ep_params_t params;
    ucp_address_t *address;
    size_t length;
    ucs_status_t status;
    void *key;

    EX_CHECK(ucp_worker_get_address(side->worker, &address, &length));
    ex_send(peer->fd, address, length);
    ucp_worker_release_address(side->worker, address);
    EX_CHECK(ucp_rkey_pack(side->context, side->memh, &key, &length));
    ex_send(peer->fd, key, length);
    ucp_rkey_buffer_release(key);
    ex_send(peer->fd, &addr, sizeof(addr));

    if (ex_recv(peer->fd, buffer, MAX_MESSAGE) < 0) {
        ex_fail("%s has ended before it was connected", peer->who);
    }
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                        UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address        = buffer;
    params.err_mode       = ex_common.no_failures ? UCP_ERR_HANDLING_MODE_NONE :
                                                    UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = ep_failed;
    params.err_handler.arg = peer;
    status                 = ucp_ep_create(side->worker, &params, &peer->ep);
    if ((status != UCS_OK) && !ex_common.no_failures) {
        ex_fail("no endpoint to %s (%s): if the transports of UCX_TLS cannot"
                " notice a dead peer, try -E",
                peer->who, ucs_status_string(status));
    }
    ex_check(status, "ucp_ep_create");

    if (ex_recv(peer->fd, buffer, MAX_MESSAGE) < 0) {
        ex_fail("%s has ended before it was connected", peer->who);
    }
    EX_CHECK(ucp_ep_rkey_unpack(peer->ep, buffer, &peer->rkey));
    ex_recv_exactly(peer->fd, &peer->remote_addr, sizeof(peer->remote_addr),
                    peer->who);
}

void ex_connect(ex_side_t *side, ex_peer_t *peer, int fd, const char *format,
                ...)
{
    void *buffer = malloc(MAX_MESSAGE);
    va_list args;

    if (buffer == NULL) {
        ex_fail("no memory");
    }

    va_start(args, format);
    vsnprintf(peer->who, sizeof(peer->who), format, args);
    va_end(args);
    peer->side     = side;
    peer->fd       = fd;
    peer->status   = UCS_OK;
    peer->may_fail = 0;
    exchange(side, peer, buffer);
    peer->next  = side->peers;
    side->peers = peer;
    free(buffer);
}

static void close_ep(ex_peer_t *peer, unsigned flags)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                  .flags        = flags };
    ex_peer_t **link          = &peer->side->peers;

    while (*link != peer) {
        link = &(*link)->next;
    }
    *link = peer->next;

    ucp_rkey_destroy(peer->rkey);
    /* The other side may be the first to close: then this one ends with an error */
    ex_wait(peer->side,
            ucp_wimm_ep_close_nbx(peer->side->wimm, peer->ep, &param));
    peer->ep = NULL;
}

void ex_disconnect(ex_peer_t *peer)
{
    ucp_request_param_t param = { .op_attr_mask = 0 };
    char byte                 = 0;
    ssize_t ret;

    ex_check(ex_wait(peer->side,
                     ucp_wimm_flush_nbx(peer->side->wimm, peer->ep, &param)),
             "ucp_wimm_flush_nbx");

    /* Not before the other side has all that it waits for */
    peer->may_fail = 1;
    ex_send(peer->fd, &byte, 1);
    while ((ret = recv(peer->fd, &byte, 1, MSG_DONTWAIT)) != 1) {
        if ((ret == 0) || ((errno != EAGAIN) && (errno != EINTR))) {
            ex_fail("%s has ended too early", peer->who);
        }
        ex_progress(peer->side);
    }
    close_ep(peer, 0);
}

void ex_drop(ex_peer_t *peer)
{
    close_ep(peer, UCP_EP_CLOSE_FLAG_FORCE);
}

int ex_progress(ex_side_t *side)
{
    unsigned count = ucp_worker_progress(side->worker);
    ex_peer_t *peer;

    for (peer = side->peers; peer != NULL; peer = peer->next) {
        if ((peer->status != UCS_OK) && !peer->may_fail) {
            ex_fail("the endpoint to %s failed: %s", peer->who,
                    ucs_status_string(peer->status));
        }
    }

    if (now() > deadline) {
        ex_fail("not done after %u s (-t): giving up", ex_common.limit);
    }

    if (count == 0) {
        sched_yield(); /* There may be fewer CPUs than processes */
    }
    return count > 0;
}

ucs_status_t ex_wait(ex_side_t *side, ucs_status_ptr_t request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }

    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ex_progress(side);
    }
    ucp_request_free(request);
    return status;
}

static ucp_wimm_way_t query_way(const ex_peer_t *peer)
{
    ucp_wimm_ep_attr_t attr = { .field_mask = UCP_WIMM_EP_ATTR_FIELD_WAY };

    EX_CHECK(ucp_wimm_ep_query(peer->side->wimm, peer->ep, &attr));
    return attr.way;
}

const char *ex_way(const ex_peer_t *peer)
{
    switch (query_way(peer)) {
    case UCP_WIMM_WAY_NATIVE:
        return "native";
    case UCP_WIMM_WAY_EMULATED:
        return "emulated";
    case UCP_WIMM_WAY_QUEUED:
        return "not connected";
    default:
        return "no way";
    }
}

const char *ex_way_text(const ex_peer_t *peer)
{
    switch (query_way(peer)) {
    case UCP_WIMM_WAY_NATIVE:
        return "native: RDMA WRITE WITH IMMEDIATE";
    case UCP_WIMM_WAY_EMULATED:
        return "emulated: UCX's puts and active messages";
    default:
        return ex_way(peer);
    }
}

void ex_imm_set(uint32_t *imm, unsigned shift, unsigned bits, uint64_t value)
{
    if (ucp_wimm_imm_set(imm, shift, bits, value) != UCS_OK) {
        ex_fail("%llu does not fit into %u bits of an immediate",
                (unsigned long long)value, bits);
    }
}

uint64_t ex_hash(uint64_t key)
{
    key = (key + 1) * UINT64_C(0x9e3779b97f4a7c15);
    key = (key ^ (key >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    return key ^ (key >> 29);
}

uint8_t ex_byte(uint64_t key, size_t index)
{
    return (ex_hash(key) >> (8 * (index % 8))) + (index / 8) + 1;
}
