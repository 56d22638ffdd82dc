/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_EXAMPLE_H_
#define WIMM_EXAMPLE_H_

#include <ucp_wimm.h>

#include <sys/types.h>

/*
 * What wimm_log_append, wimm_kv_slots and wimm_param_shards share, and what is not the
 * point of them: processes, channels between them for addresses and keys, UCP's
 * objects, limits of time, options.
 *
 * Each program is one command. It starts its roles as child processes, has them exchange
 * addresses and keys over channels (pairs of Unix sockets), and waits for them. The
 * parent does nothing with UCX. The children end with the parent.
 */


/* Options that all have, as getopt wants them */
#define EX_OPTIONS "t:vEh"

/* What all say about them */
#define EX_USAGE                                                                      \
  "  -t SECONDS  give up after this time (default 60)\n"                              \
  "  -v          print more\n"                                                        \
  "  -E          endpoints that do not notice a dead peer, for transports that\n"     \
  "              cannot (shared memory: UCX_TLS=sm)\n"                                \
  "  -h          this text\n"                                                         \
  "UCX_TLS says which transports UCP may use: wimm,ud_verbs:aux is the native way,\n" \
  "any others are emulated.\n"


/* UCP's objects of a process, and its memory */
typedef struct ex_side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_wimm_h wimm;
    uint8_t *memory; /* What the peers write to, and what they are written from */
    size_t length;
    ucp_mem_h memh;
    struct ex_peer *peers; /* List of those that are connected */
} ex_side_t;


/* Another process that it is connected to */
typedef struct ex_peer {
    ex_side_t *side;
    char who[16];
    int fd; /* Channel to it */
    ucp_ep_h ep;
    ucp_rkey_h rkey; /* For its memory */
    uint64_t remote_addr;
    ucs_status_t status; /* UCS_OK, or what UCX says the endpoint failed with */
    int may_fail;        /* The program expects that it dies */
    struct ex_peer *next;
} ex_peer_t;


/* Options that all have */
typedef struct ex_common {
    unsigned limit; /* Seconds that a process may take */
    int verbose;
    int no_failures; /* Endpoints that do not notice a dead peer */
    long corrupt; /* Test only, WIMM_EXAMPLE_CORRUPT: the record, slot or shard of which
                     the sender changes a byte. -1: none. */
} ex_common_t;

extern ex_common_t ex_common;


/* What a role does. @return Its exit status: 0, or this if it has done all that it was
 * to, but data was wrong. Others are for what ends it. */
#define EX_WRONG 3

typedef int (*ex_role_t)(void *arg);


/*
 * Say what happens, with the name of the process; fail with a sentence and status 1; see
 * that a call of UCX worked
 */
void ex_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void ex_fail(const char *format, ...)
        __attribute__((format(printf, 1, 2), noreturn));
void ex_check(ucs_status_t status, const char *call);
#define EX_CHECK(_call) ex_check((_call), #_call)


/*
 * Options. What is wrong with one is one sentence, and status 2.
 */

/* To be called first */
void ex_init(const char *program);

/* Take an option that all have; @a usage is printed for -h, and ends the program */
void ex_option(int option, const char *usage);

/* The number that an option was given */
unsigned long ex_number(const char *text, unsigned long min, unsigned long max,
                        int option);

/* After the options: nothing else may follow */
void ex_no_more(int argc, char **argv);

void ex_wrong_option(const char *format, ...)
        __attribute__((format(printf, 1, 2), noreturn));


/*
 * Processes, and channels between them
 */

/* A channel. Each message that is sent is received as one. */
void ex_channel(int fds[2]);
void ex_send(int fd, const void *message, size_t length);

/* @return Length, or -1 if the other side has ended */
ssize_t ex_recv(int fd, void *buffer, size_t size);

/* Receive exactly so many bytes, or fail */
void ex_recv_exactly(int fd, void *buffer, size_t length, const char *from);

/* Start a role. It keeps the channels @a fds, and nobody else has these ends. */
pid_t ex_start(const char *who, ex_role_t role, void *arg, const int *fds,
               unsigned num_fds);

/* Kill a process that was started. @return Whether it was alive. */
int ex_kill(pid_t pid);

/* Wait for all. If something ends one of them, those that are left are killed. @return
 * Exit status. */
int ex_wait_all(void);


/*
 * UCX
 */

/* Context, worker, notified puts, and zeroed memory for the peers */
void ex_open(ex_side_t *side, size_t length);
void ex_close(ex_side_t *side);

/* Both sides: exchange addresses and keys, make an endpoint, unpack the key */
void ex_connect(ex_side_t *side, ex_peer_t *peer, int fd, const char *format,
                ...) __attribute__((format(printf, 4, 5)));

/* Both sides: flush, wait for the other side to have done so, close */
void ex_disconnect(ex_peer_t *peer);

/* One side: the peer is dead, close without waiting for it */
void ex_drop(ex_peer_t *peer);

/* Progress once. Fails if the time is over, or if a peer died that must not. @return
 * Whether there was something to do. */
int ex_progress(ex_side_t *side);

/* Progress until a request has completed. @return Its status. */
ucs_status_t ex_wait(ex_side_t *side, ucs_status_ptr_t request);

/* "native" or "emulated", once something has been sent, and what that is */
const char *ex_way(const ex_peer_t *peer);
const char *ex_way_text(const ex_peer_t *peer);

/* Set a field of an immediate; fails if the value does not fit */
void ex_imm_set(uint32_t *imm, unsigned shift, unsigned bits, uint64_t value);

/* Bytes that can be checked: that at @a index of what has the number @a key */
uint8_t ex_byte(uint64_t key, size_t index);
uint64_t ex_hash(uint64_t key);

#endif
