/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * A replicated log: a writer appends records to a log that is in the memory of another
 * process, the reader, which replays them.
 *
 * The reader has a ring of bytes. The writer puts each record in place, after the one
 * before it, by one notified put. The reader does not look at the ring to find out
 * whether there is something: the notification says so, and its immediate says what.
 *
 *   bits   0-15   16-29   30    31      from the writer, with each record
 *          seq    length  WRAP  LAST
 *
 *   seq           number of the record, its low bits
 *   length        bytes of the record, the same as the notification's own
 *   WRAP          it did not fit at the end of the ring, and is at its start
 *   LAST          no record comes after it
 *
 *   bits   0-30   31                    from the reader, now and then
 *          bytes  DONE
 *
 *   bytes         so many bytes of the ring were replayed, and may be written again
 *   DONE          all was replayed
 *
 * The other direction needs no data at all: the writer has a counter that adds the
 * bytes up. Its count is the free space of the ring, and taking from it is all the flow
 * control that there is: no record is written onto one that was not replayed.
 *
 * Why this is right: notifications of one endpoint come in the order of the puts, each
 * once, and when one comes all bytes of its record are in place. So a record is in the
 * log if and only if its notification has come. A writer that is killed leaves, after
 * the last record, at most bytes that nobody was told of; the one that is started in its
 * place asks the reader where the log stops, and writes over them. The reader closes its
 * endpoint to the old writer before it answers: nothing can arrive from that any more.
 *
 *   wimm_log_append               a writer appends 200 records
 *   wimm_log_append -k 50         it is killed when about 50 were replayed
 */

#include "wimm_example.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


enum {
    SEQ_SHIFT    = 0,
    SEQ_BITS     = 16,
    LENGTH_SHIFT = 16,
    LENGTH_BITS  = 14,
    WRAP_SHIFT   = 30,
    LAST_SHIFT   = 31,

    BYTES_SHIFT = 0,
    BYTES_BITS  = 31,
    DONE_SHIFT  = 31,
};

#define MAX_LENGTH   ((1 << LENGTH_BITS) - 1)
#define NUM_WRITERS  2
#define NUM_IN_HAND  16 /* Records that the writer sends at the same time */
#define MAX_REPORTED 5  /* Wrong records that are reported one by one */


typedef struct {
    unsigned long num_records;
    size_t max_length;
    size_t ring;
    unsigned long kill_at; /* 0: the writer is not killed */
    int control;           /* Reader's channel to the parent */
    int writers[NUM_WRITERS];
    int writer; /* Which writer this is: 0, 1 */
    int reader; /* Its channel to the reader */
} options_t;


/* Where a record is, or where the next one goes */
typedef struct {
    unsigned long seq;
    size_t offset; /* In the ring */
} position_t;


typedef struct {
    const options_t *opts;
    ex_side_t side;
    ex_peer_t peers[NUM_WRITERS];
    ex_peer_t *peer; /* Writer of now */
    position_t next; /* What comes next */
    size_t consumed; /* Bytes that the writer was not told of */
    uint64_t checked;
    unsigned long wrong; /* Records with a wrong byte */
    unsigned long wrong_bytes;
    int is_last;
    int is_kill_asked;
    int is_failed; /* The writer of now */
} reader_t;


/* What both know of a record: so every byte can be checked */
static size_t record_length(const options_t *opts, unsigned long seq)
{
    return 1 + (ex_hash(seq) % opts->max_length);
}

/* Where a record of this length goes. @return Bytes that are left out before it. */
static size_t place(const options_t *opts, position_t *at, size_t length)
{
    size_t skip = 0;

    if (at->offset + length > opts->ring) {
        skip       = opts->ring - at->offset;
        at->offset = 0;
    }
    return skip;
}


/*
 * The writer
 */

static ucp_wimm_counter_h create_counter(ex_side_t *side,
                                         ucp_wimm_counter_params_t *params)
{
    ucp_wimm_counter_h counter;

    EX_CHECK(ucp_wimm_counter_create(side->wimm, params, &counter));
    return counter;
}

static void take(ex_side_t *side, ucp_wimm_counter_h counter, size_t amount)
{
    ucs_status_t status;

    while ((status = ucp_wimm_counter_take(counter, amount)) ==
           UCS_INPROGRESS) {
        ex_progress(side);
    }
    ex_check(status, "ucp_wimm_counter_take");
}

static void fill(uint8_t *data, unsigned long seq, size_t length)
{
    size_t i;

    for (i = 0; i < length; ++i) {
        data[i] = ex_byte(seq, i);
    }
    if (ex_common.corrupt == (long)seq) {
        data[length / 2] ^= 0x10;
    }
}

static void append(const options_t *opts, ex_side_t *side, ex_peer_t *peer,
                   ucp_wimm_counter_h space, position_t at)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                  .memh         = side->memh };
    ucs_status_ptr_t requests[NUM_IN_HAND] = {};
    unsigned long first                    = at.seq;
    ucs_status_ptr_t *request;
    size_t length, skip, i;
    uint8_t *data;
    uint32_t imm;

    for (; at.seq < opts->num_records; ++at.seq) {
        /* The buffer may be used again when its put has completed */
        i       = (at.seq - first) % NUM_IN_HAND;
        request = &requests[i];
        data    = side->memory + (i * opts->max_length);
        ex_check(ex_wait(side, *request), "ucp_wimm_put_nbx");

        length = record_length(opts, at.seq);
        fill(data, at.seq, length);
        skip = place(opts, &at, length);
        take(side, space, skip + length);

        imm = 0;
        ex_imm_set(&imm, SEQ_SHIFT, SEQ_BITS, at.seq & 0xffff);
        ex_imm_set(&imm, LENGTH_SHIFT, LENGTH_BITS, length);
        ex_imm_set(&imm, WRAP_SHIFT, 1, skip > 0);
        ex_imm_set(&imm, LAST_SHIFT, 1, at.seq == opts->num_records - 1);
        *request = ucp_wimm_put_nbx(side->wimm, peer->ep, data, length,
                                    peer->remote_addr + at.offset, peer->rkey,
                                    imm, &param);
        at.offset += length;
    }

    for (i = 0; i < NUM_IN_HAND; ++i) {
        ex_check(ex_wait(side, requests[i]), "ucp_wimm_put_nbx");
    }
}

static int run_writer(void *arg)
{
    const options_t *opts           = arg;
    ucp_wimm_counter_params_t space = {
        .field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH |
                      UCP_WIMM_COUNTER_PARAM_FIELD_ADD |
                      UCP_WIMM_COUNTER_PARAM_FIELD_INITIAL,
        .match   = { .value = 0, .mask = 1u << DONE_SHIFT },
        .add     = { .shift = BYTES_SHIFT, .bits = BYTES_BITS },
        .initial = opts->ring
    };
    ucp_wimm_counter_params_t done = {
        .field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH,
        .match      = { .value = 1u << DONE_SHIFT, .mask = 1u << DONE_SHIFT }
    };
    ucp_wimm_counter_h space_counter, done_counter;
    ex_side_t side;
    ex_peer_t peer;
    position_t at;

    ex_open(&side, NUM_IN_HAND * opts->max_length);
    space_counter = create_counter(&side, &space);
    done_counter  = create_counter(&side, &done);
    ex_connect(&side, &peer, opts->reader, "reader");
    ex_recv_exactly(peer.fd, &at, sizeof(at), peer.who);
    if (at.seq == opts->num_records) {
        ex_say("the reader has all records: nothing is left to write");
    } else {
        ex_say("appends records %lu to %lu", at.seq, opts->num_records - 1);
    }

    append(opts, &side, &peer, space_counter, at);
    take(&side, done_counter, 1);
    ex_say("the reader has replayed all, %s", ex_way_text(&peer));

    ex_disconnect(&peer);
    ucp_wimm_counter_destroy(space_counter);
    ucp_wimm_counter_destroy(done_counter);
    ex_close(&side);
    return 0;
}


/*
 * The reader
 */

/* Tell the writer about space, or that all is done */
static void notify_writer(reader_t *reader, size_t bytes, int is_done)
{
    ucp_request_param_t param = { .op_attr_mask = 0 };
    ucs_status_t status;
    uint32_t imm = 0;

    ex_imm_set(&imm, BYTES_SHIFT, BYTES_BITS, bytes);
    ex_imm_set(&imm, DONE_SHIFT, 1, is_done);
    status = ex_wait(&reader->side,
                     ucp_wimm_notify_nbx(reader->side.wimm, reader->peer->ep,
                                         imm, &param));
    if (!reader->peer->may_fail) {
        ex_check(status, "ucp_wimm_notify_nbx");
    }
}

static void check_bytes(reader_t *reader, const uint8_t *data, size_t length)
{
    unsigned long seq   = reader->next.seq;
    unsigned long wrong = 0;
    size_t i;

    for (i = 0; i < length; ++i) {
        if (data[i] != ex_byte(seq, i)) {
            if ((wrong++ == 0) && (reader->wrong < MAX_REPORTED)) {
                ex_say("record %lu: byte %zu of %zu is 0x%02x, not 0x%02x", seq,
                       i, length, data[i], ex_byte(seq, i));
            }
        }
    }

    reader->checked += length;
    reader->wrong += (wrong > 0);
    reader->wrong_bytes += wrong;
}

static void replay(reader_t *reader, const ucp_wimm_notification_t *record)
{
    unsigned long seq = ucp_wimm_imm_get(record->imm, SEQ_SHIFT, SEQ_BITS);
    size_t length  = ucp_wimm_imm_get(record->imm, LENGTH_SHIFT, LENGTH_BITS);
    int is_wrapped = ucp_wimm_imm_get(record->imm, WRAP_SHIFT, 1);
    size_t skip;

    if (seq != (reader->next.seq & 0xffff)) {
        ex_fail("record %lu was to come, and one came that ends with %lu: a"
                " gap, or a duplicate",
                reader->next.seq, seq);
    }

    if (length != record->length) {
        ex_fail("record %lu: %zu bytes were written, the immediate says %zu",
                reader->next.seq, record->length, length);
    }

    skip = place(reader->opts, &reader->next, length);
    if (is_wrapped != (skip > 0)) {
        ex_fail("record %lu: the immediate says another place in the ring",
                reader->next.seq);
    }

    if (ex_common.verbose) {
        ex_say("record %lu: %zu bytes at %zu%s", reader->next.seq, length,
               reader->next.offset, is_wrapped ? ", the start again" : "");
    }

    check_bytes(reader, reader->side.memory + reader->next.offset, length);
    ++reader->next.seq;
    reader->next.offset += length;
    reader->consumed += skip + length;
    reader->is_last = ucp_wimm_imm_get(record->imm, LAST_SHIFT, 1);
}

static void take_record(reader_t *reader, const ucp_wimm_notification_t *record)
{
    int is_current;

    /* Both are NULL while what had arrived before the endpoint was closed is taken */
    is_current = (record->ep == reader->peer->ep);
    if (record->status == UCS_OK) {
        if (!is_current) {
            ex_fail("a notification has come from a writer that is closed");
        }
        replay(reader, record);
    } else if (is_current && !reader->is_failed) {
        ex_say("UCX says that %s is gone: %s", reader->peer->who,
               ucs_status_string(record->status));
        reader->is_failed = 1;
    } /* Otherwise it is the failure of one that was closed */
}

static void take_all(reader_t *reader)
{
    ucp_wimm_notification_t records[16];
    unsigned count, i;

    do {
        EX_CHECK(ucp_wimm_poll(reader->side.wimm, records, 16, &count));
        for (i = 0; i < count; ++i) {
            take_record(reader, &records[i]);
        }
    } while (count > 0);
}

/* Have the parent kill the writer, whatever it is doing */
static void ask_kill(reader_t *reader)
{
    char byte = 0;

    ex_say("%lu records are replayed: %s may be killed", reader->next.seq,
           reader->peer->who);
    reader->peer->may_fail = 1;
    reader->is_kill_asked  = 1;
    ex_send(reader->opts->control, &byte, 1);
}

static void connect_writer(reader_t *reader, int writer)
{
    reader->peer = &reader->peers[writer];
    ex_connect(&reader->side, reader->peer, reader->opts->writers[writer],
               "writer %d", writer + 1);
    ex_send(reader->peer->fd, &reader->next, sizeof(reader->next));
    reader->consumed  = 0; /* A writer begins with all of the ring */
    reader->is_failed = 0;
}

/* The second writer has been started, and asks to be connected */
static int is_asked(reader_t *reader)
{
    struct pollfd pfd = { .fd = reader->opts->writers[1], .events = POLLIN };

    return poll(&pfd, 1, 0) > 0;
}

static void change_writer(reader_t *reader)
{
    /* What had arrived from the old one counts, and nothing can come any more */
    take_all(reader);
    ex_drop(reader->peer);
    take_all(reader);

    ex_say("%s ended after record %lu; writer 2 continues at record %lu, byte"
           " %zu of the ring",
           reader->peer->who, reader->next.seq - 1, reader->next.seq,
           reader->next.offset);
    connect_writer(reader, 1);
}

static int run_reader(void *arg)
{
    const options_t *opts = arg;
    reader_t reader       = { .opts = opts };
    const char *way;
    int num_writers;

    ex_open(&reader.side, opts->ring);
    connect_writer(&reader, 0);
    ex_say("replays what is written into its ring of %zu bytes", opts->ring);

    num_writers = 1;
    while (!reader.is_last || ((opts->kill_at > 0) && (num_writers == 1))) {
        ex_progress(&reader.side);
        take_all(&reader);
        if ((opts->kill_at > 0) && (reader.next.seq >= opts->kill_at) &&
            !reader.is_kill_asked) {
            ask_kill(&reader);
        }
        if (reader.is_kill_asked && (num_writers == 1) && is_asked(&reader)) {
            change_writer(&reader);
            ++num_writers;
        } else if ((reader.consumed > 0) && !reader.is_failed) {
            notify_writer(&reader, reader.consumed, 0);
            reader.consumed = 0;
        }
    }

    notify_writer(&reader, 0, 1);
    way = ex_way(reader.peer);
    ex_disconnect(reader.peer);
    ex_close(&reader.side);

    /* A gap or a duplicate has ended the program before */
    ex_say("log: %lu records replayed in order, %llu bytes checked, %lu wrong,"
           " 0 gaps, 0 duplicates, %s",
           reader.next.seq, (unsigned long long)reader.checked,
           reader.wrong_bytes, way);
    if (reader.next.seq != opts->num_records) {
        ex_fail("the last record came as number %lu", reader.next.seq);
    }
    return (reader.wrong > 0) ? EX_WRONG : 0;
}


/*
 * The parent
 */

static const char usage[] =
        "A replicated log: records are written in place into the reader's memory, the\n"
        "immediate has their number, length and flags.\n"
        "  -n RECORDS  how many (default 200)\n"
        "  -s BYTES    longest record (default 600)\n"
        "  -c BYTES    the reader's ring (default 16384)\n"
        "  -k RECORDS  kill the writer when so many were replayed; another one goes on\n";

static void parse(int argc, char **argv, options_t *opts)
{
    int option;

    ex_init(argv[0]);
    while ((option = getopt(argc, argv, "n:s:c:k:" EX_OPTIONS)) != -1) {
        switch (option) {
        case 'n':
            opts->num_records = ex_number(optarg, 1, 100000000, option);
            break;
        case 's':
            opts->max_length = ex_number(optarg, 1, MAX_LENGTH, option);
            break;
        case 'c':
            opts->ring = ex_number(optarg, 2, 1 << 30, option);
            break;
        case 'k':
            opts->kill_at = ex_number(optarg, 1, 100000000, option);
            break;
        default:
            ex_option(option, usage);
        }
    }
    ex_no_more(argc, argv);

    if (opts->ring < 2 * opts->max_length) {
        ex_wrong_option("the ring (-c) has to have room for two of the longest"
                        " records (-s): %zu bytes",
                        2 * opts->max_length);
    }
    if (opts->kill_at >= opts->num_records) {
        ex_wrong_option("the writer cannot be killed after record %lu (-k) of"
                        " %lu (-n)",
                        opts->kill_at, opts->num_records);
    }
    if ((opts->kill_at > 0) && ex_common.no_failures) {
        ex_wrong_option("a writer that is killed (-k) needs endpoints that"
                        " notice it: not with -E");
    }
}

/* When the reader says so. @return Whether it did: it may have ended, and said why. */
static int kill_writer(pid_t pid, int control)
{
    char byte;

    if (ex_recv(control, &byte, 1) < 0) {
        return 0;
    }

    if (!ex_kill(pid)) {
        ex_fail("the writer ended before it was killed");
    }
    ex_say("          writer 1 is killed, writer 2 is started");
    return 1;
}

int main(int argc, char **argv)
{
    options_t opts = { .num_records = 200, .max_length = 600, .ring = 16384 };
    int control[2], channels[NUM_WRITERS][2], fds[NUM_WRITERS + 1];
    unsigned i;
    pid_t pid;

    parse(argc, argv, &opts);

    ex_channel(control);
    opts.control = fds[0] = control[1];
    for (i = 0; i < NUM_WRITERS; ++i) {
        ex_channel(channels[i]);
        opts.writers[i] = fds[i + 1] = channels[i][0];
    }
    ex_start("reader", run_reader, &opts, fds, NUM_WRITERS + 1);
    opts.reader = channels[0][1];
    pid         = ex_start("writer 1", run_writer, &opts, &opts.reader, 1);

    if ((opts.kill_at > 0) && kill_writer(pid, control[0])) {
        opts.reader = channels[1][1];
        ex_start("writer 2", run_writer, &opts, &opts.reader, 1);
    }
    return ex_wait_all();
}
