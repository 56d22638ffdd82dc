/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * A table of slots: clients write values right into the slots that a server gave them,
 * and the server answers lookups, but only for slots that are ready.
 *
 * The server cannot know from the memory of a slot whether the value in it is whole: it
 * is written without the server. So it does not look, but goes by notifications. The
 * client writes a value by one notified put, and the immediate says which slot is ready.
 *
 *   bits   0-11     12-23      24-27     from a client
 *          slot     version    VALUE     a value is in the slot
 *          slot     -          LOOKUP    what is in this slot?
 *          -        -          WRITTEN   has written all that it wanted to
 *          wrong    found      BYE       has looked up all; how much was right
 *
 *   bits   0-11     12-23      24-27     from the server
 *          slot     version    FOUND     the value is in the client's memory
 *          slot     -          NOT_READY nothing was written
 *          -        -          GO        the next phase begins
 *
 * The answer is a notified put, too: the value goes into the client's memory, and the
 * immediate says which one it is.
 *
 * Why this is right: when the notification of VALUE comes, all bytes of the value are in
 * the slot, and so the server may copy it. Notifications of one endpoint come in the
 * order of the puts: a client that writes a slot and looks it up finds it. Nothing is
 * promised between clients: one that looks up another one's slot may come too early, and
 * is told that it is not ready. Each slot has two places, for even and odd versions: while
 * a new value is written the server answers with the old one, which stays whole. A
 * client writes a version only after it has seen the one before it. The key that the
 * clients have is for all slots: that each writes only its own is checked by the endpoint
 * of the notification.
 *
 * What happens:
 *   1. Each client looks up its neighbour's first slot, which nobody has written: not
 *      ready. The server lets the clients write when it has told that to all of them.
 *   2. Each client writes its slots but the last one, looks each up, writes it again.
 *   3. When all have, each client looks up all slots of its neighbour. The last one was
 *      not written, and is not ready.
 */

#include "wimm_example.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


enum {
    SLOT_SHIFT    = 0,
    SLOT_BITS     = 12,
    VERSION_SHIFT = 12,
    VERSION_BITS  = 12,
    KIND_SHIFT    = 24,
    KIND_BITS     = 4,

    /* The same for BYE */
    WRONG_SHIFT = SLOT_SHIFT,
    WRONG_BITS  = SLOT_BITS,
    FOUND_SHIFT = VERSION_SHIFT,
    FOUND_BITS  = VERSION_BITS
};

typedef enum {
    KIND_VALUE,
    KIND_LOOKUP,
    KIND_WRITTEN,
    KIND_BYE,
    KIND_FOUND,
    KIND_NOT_READY,
    KIND_GO
} kind_t;

#define MAX_SLOTS   (1 << SLOT_BITS)
#define MAX_CLIENTS 32
#define VALUE_SIZE  256 /* Longest value */
#define NUM_PLACES  2   /* Of a slot: for even and odd versions */
#define NUM_WRITES  2   /* Of each slot */


typedef struct {
    unsigned num_clients;
    unsigned per_client; /* Slots */
    int clients[MAX_CLIENTS];
    int server; /* Its channel to the server */
} options_t;


/* What the server tells a client: these slots are yours */
typedef struct {
    uint32_t first;
    uint32_t count;
} grant_t;


/*
 * Both sides
 */

static uint32_t make_imm(kind_t kind, unsigned slot, unsigned version)
{
    uint32_t imm = 0;

    ex_imm_set(&imm, KIND_SHIFT, KIND_BITS, kind);
    ex_imm_set(&imm, SLOT_SHIFT, SLOT_BITS, slot);
    ex_imm_set(&imm, VERSION_SHIFT, VERSION_BITS, version);
    return imm;
}

/* Place of a value in the server's memory */
static size_t value_offset(unsigned slot, unsigned version)
{
    return ((slot * NUM_PLACES) + (version % NUM_PLACES)) * VALUE_SIZE;
}

/* Write a part of this side's memory into the peer's, and say what it is */
static void send_value(ex_peer_t *peer, const void *value, size_t length,
                       size_t offset, uint32_t imm)
{
    ex_side_t *side           = peer->side;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_MEMH,
                                  .memh         = side->memh };

    ex_check(ex_wait(side, ucp_wimm_put_nbx(side->wimm, peer->ep, value, length,
                                            peer->remote_addr + offset,
                                            peer->rkey, imm, &param)),
             "ucp_wimm_put_nbx");
}

/* Say something that has no data */
static void notify(ex_peer_t *peer, uint32_t imm)
{
    ex_side_t *side           = peer->side;
    ucp_request_param_t param = { .op_attr_mask = 0 };

    ex_check(ex_wait(side,
                     ucp_wimm_notify_nbx(side->wimm, peer->ep, imm, &param)),
             "ucp_wimm_notify_nbx");
}

static void next_notification(ex_side_t *side,
                              ucp_wimm_notification_t *notification)
{
    unsigned count;

    for (;;) {
        EX_CHECK(ucp_wimm_poll(side->wimm, notification, 1, &count));
        if (count == 0) {
            ex_progress(side);
        } else if (notification->status == UCS_OK) {
            return;
        } else {
            ex_fail("an endpoint failed: %s",
                    ucs_status_string(notification->status));
        }
    }
}


/*
 * A client
 */

typedef struct {
    const options_t *opts;
    ex_side_t side;
    ex_peer_t server;
    grant_t grant;
    unsigned found;
    unsigned not_ready;
    unsigned wrong;
} client_t;


/* What is in a slot: anybody can check it */
static size_t value_length(unsigned slot, unsigned version)
{
    return 1 + (ex_hash((slot << VERSION_BITS) | version) % VALUE_SIZE);
}

static uint8_t value_byte(unsigned slot, unsigned version, size_t index)
{
    return ex_byte((slot << VERSION_BITS) | version, index);
}

static void write_slot(client_t *client, unsigned slot, unsigned version)
{
    uint8_t *value = client->side.memory + VALUE_SIZE; /* After the answer */
    size_t length  = value_length(slot, version);
    size_t i;

    for (i = 0; i < length; ++i) {
        value[i] = value_byte(slot, version, i);
    }
    if ((ex_common.corrupt == (long)slot) && (version == NUM_WRITES)) {
        value[length / 2] ^= 0x10;
    }

    send_value(&client->server, value, length, value_offset(slot, version),
               make_imm(KIND_VALUE, slot, version));
}

static void check_value(client_t *client, unsigned slot, unsigned version,
                        size_t length)
{
    const uint8_t *value = client->side.memory;
    size_t i;

    if (length != value_length(slot, version)) {
        ex_say("slot %u, version %u: %zu bytes came, not %zu", slot, version,
               length, value_length(slot, version));
        ++client->wrong;
        return;
    }

    for (i = 0; i < length; ++i) {
        if (value[i] != value_byte(slot, version, i)) {
            ex_say("slot %u, version %u: byte %zu of %zu is 0x%02x, not 0x%02x",
                   slot, version, i, length, value[i],
                   value_byte(slot, version, i));
            ++client->wrong;
            return;
        }
    }
}

/* Look up a slot that is to have this version; 0: that was not written */
static void lookup(client_t *client, unsigned slot, unsigned expected)
{
    ucp_wimm_notification_t answer;
    unsigned version;
    kind_t kind;

    notify(&client->server, make_imm(KIND_LOOKUP, slot, 0));
    next_notification(&client->side, &answer);
    kind    = ucp_wimm_imm_get(answer.imm, KIND_SHIFT, KIND_BITS);
    version = ucp_wimm_imm_get(answer.imm, VERSION_SHIFT, VERSION_BITS);
    if (ucp_wimm_imm_get(answer.imm, SLOT_SHIFT, SLOT_BITS) != slot) {
        ex_fail("slot %u was looked up, the answer is for another one", slot);
    }

    if (kind == KIND_NOT_READY) {
        ++client->not_ready;
        version = 0;
    } else {
        ++client->found;
        check_value(client, slot, version, answer.length);
    }

    if (version != expected) {
        ex_fail("slot %u: the server has version %u, not %u", slot, version,
                expected);
    }
    if (ex_common.verbose) {
        ex_say("looks up slot %u: %s", slot,
               (kind == KIND_FOUND) ? "found" : "not ready");
    }
}

static void wait_go(client_t *client)
{
    ucp_wimm_notification_t notification;

    next_notification(&client->side, &notification);
    if (ucp_wimm_imm_get(notification.imm, KIND_SHIFT, KIND_BITS) != KIND_GO) {
        ex_fail("the server has sent something else than it was to");
    }
}

static void use_table(client_t *client)
{
    const options_t *opts = client->opts;
    unsigned first        = client->grant.first;
    unsigned last         = first + client->grant.count - 1;
    unsigned neighbour    = (first + client->grant.count) %
                         (opts->num_clients * opts->per_client);
    unsigned slot, version;

    ex_say("was given slots %u to %u", first, last);
    lookup(client, neighbour, 0);
    ex_say("looks up slot %u, which nobody has written: not ready", neighbour);
    wait_go(client);

    for (slot = first; slot < last; ++slot) {
        for (version = 1; version <= NUM_WRITES; ++version) {
            write_slot(client, slot, version);
            lookup(client, slot, version);
        }
    }
    ex_say("has written all but slot %u, each %d times, and found each", last,
           NUM_WRITES);
    notify(&client->server, make_imm(KIND_WRITTEN, 0, 0));
    wait_go(client);

    for (slot = 0; slot < opts->per_client - 1; ++slot) {
        lookup(client, neighbour + slot, NUM_WRITES);
    }
    lookup(client, neighbour + slot, 0);
    ex_say("has looked up slots %u to %u of its neighbour: slot %u is not"
           " ready",
           neighbour, neighbour + slot, neighbour + slot);
    notify(&client->server, make_imm(KIND_BYE, client->wrong, client->found));
}

static int run_client(void *arg)
{
    client_t client = { .opts = arg };

    /* The answer to a lookup, and a value to write */
    ex_open(&client.side, 2 * VALUE_SIZE);
    ex_connect(&client.side, &client.server, client.opts->server, "server");
    ex_recv_exactly(client.server.fd, &client.grant, sizeof(client.grant),
                    "server");
    use_table(&client);
    ex_disconnect(&client.server);
    ex_close(&client.side);
    return (client.wrong > 0) ? EX_WRONG : 0;
}


/*
 * The server
 */

typedef struct {
    unsigned version; /* That was notified; 0: none, the slot is not ready */
    size_t length;
} slot_t;


typedef struct {
    const options_t *opts;
    ex_side_t side;
    ex_peer_t clients[MAX_CLIENTS];
    slot_t *slots;
    unsigned num_slots;
    uint8_t *answers; /* One for each client, in the memory of this side */
    unsigned values;  /* That were written */
    unsigned found;
    unsigned not_ready;
    unsigned num_written; /* Clients that have written all */
    unsigned num_bye;     /* Clients that have looked up all */
    unsigned client_wrong;
    unsigned client_found;
} server_t;


static void take_value(server_t *server, unsigned client, unsigned slot,
                       unsigned version, size_t length)
{
    if ((slot / server->opts->per_client) != client) {
        ex_fail("client %u has written slot %u, which is not its own", client,
                slot);
    }
    if ((version != server->slots[slot].version + 1) || (length > VALUE_SIZE)) {
        ex_fail("client %u has written version %u of %zu bytes into slot %u,"
                " which has version %u",
                client, version, length, slot, server->slots[slot].version);
    }

    server->slots[slot].version = version;
    server->slots[slot].length  = length;
    ++server->values;
}

static void answer(server_t *server, unsigned client, unsigned slot)
{
    uint8_t *value      = server->answers + (client * VALUE_SIZE);
    const slot_t *ready = &server->slots[slot];

    if (ready->version == 0) {
        ++server->not_ready;
        notify(&server->clients[client], make_imm(KIND_NOT_READY, slot, 0));
        return;
    }

    /* A client waits for its answer before it asks again: the buffer is free */
    ++server->found;
    memcpy(value, server->side.memory + value_offset(slot, ready->version),
           ready->length);
    send_value(&server->clients[client], value, ready->length, 0,
               make_imm(KIND_FOUND, slot, ready->version));
}

static void go(server_t *server)
{
    unsigned i;

    for (i = 0; i < server->opts->num_clients; ++i) {
        notify(&server->clients[i], make_imm(KIND_GO, 0, 0));
    }
}

static unsigned find_client(server_t *server, ucp_ep_h ep)
{
    unsigned i;

    for (i = 0; i < server->opts->num_clients; ++i) {
        if (server->clients[i].ep == ep) {
            return i;
        }
    }
    ex_fail("a notification has come from an unknown endpoint");
}

static void serve(server_t *server)
{
    unsigned num_clients = server->opts->num_clients;
    ucp_wimm_notification_t what;
    unsigned client, slot, version;

    next_notification(&server->side, &what);
    client  = find_client(server, what.ep);
    slot    = ucp_wimm_imm_get(what.imm, SLOT_SHIFT, SLOT_BITS);
    version = ucp_wimm_imm_get(what.imm, VERSION_SHIFT, VERSION_BITS);

    switch (ucp_wimm_imm_get(what.imm, KIND_SHIFT, KIND_BITS)) {
    case KIND_VALUE:
    case KIND_LOOKUP:
        if (slot >= server->num_slots) {
            ex_fail("client %u names slot %u: there is none", client, slot);
        }
        if (ucp_wimm_imm_get(what.imm, KIND_SHIFT, KIND_BITS) == KIND_VALUE) {
            take_value(server, client, slot, version, what.length);
            break;
        }
        answer(server, client, slot);
        if ((server->values == 0) && (server->not_ready == num_clients)) {
            ex_say("has refused a lookup of each client, as no slot is ready:"
                   " go on");
            go(server);
        }
        break;
    case KIND_WRITTEN:
        if (++server->num_written == num_clients) {
            ex_say("%u values were written, all that is to be: go on",
                   server->values);
            go(server);
        }
        break;
    case KIND_BYE:
        ++server->num_bye;
        server->client_wrong += ucp_wimm_imm_get(what.imm, WRONG_SHIFT,
                                                 WRONG_BITS);
        server->client_found += ucp_wimm_imm_get(what.imm, FOUND_SHIFT,
                                                 FOUND_BITS);
        break;
    default:
        ex_fail("client %u has sent something unknown", client);
    }
}

static int run_server(void *arg)
{
    const options_t *opts = arg;
    server_t server       = { .opts = opts };
    size_t table;
    grant_t grant;
    const char *way;
    unsigned i;

    server.num_slots = opts->num_clients * opts->per_client;
    table            = server.num_slots * NUM_PLACES * VALUE_SIZE;
    ex_open(&server.side, table + (opts->num_clients * VALUE_SIZE));
    server.answers = server.side.memory + table;
    server.slots   = calloc(server.num_slots, sizeof(*server.slots));
    if (server.slots == NULL) {
        ex_fail("no memory for %u slots", server.num_slots);
    }

    ex_say("has %u slots for %u clients, none is ready", server.num_slots,
           opts->num_clients);
    for (i = 0; i < opts->num_clients; ++i) {
        ex_connect(&server.side, &server.clients[i], opts->clients[i],
                   "client %u", i);
        grant.first = i * opts->per_client;
        grant.count = opts->per_client;
        ex_send(server.clients[i].fd, &grant, sizeof(grant));
    }

    while (server.num_bye < opts->num_clients) {
        serve(&server);
    }

    ex_say("%s", ex_way_text(&server.clients[0]));
    way = ex_way(&server.clients[0]);
    for (i = 0; i < opts->num_clients; ++i) {
        ex_disconnect(&server.clients[i]);
    }
    ex_close(&server.side);
    free(server.slots);

    ex_say("kv: %u clients, %u values written, %u lookups answered, %u refused"
           " as not ready, %u wrong, %s",
           opts->num_clients, server.values, server.found, server.not_ready,
           server.client_wrong, way);
    if (server.client_found != server.found) {
        ex_fail("the clients have got %u values of these", server.client_found);
    }
    return (server.client_wrong > 0) ? EX_WRONG : 0;
}


/*
 * The parent
 */

static const char usage[] =
        "A table of slots: clients write values into slots that a server gave them, the\n"
        "immediate says which one is ready; the server answers lookups only for these.\n"
        "  -c CLIENTS  how many (default 3)\n"
        "  -s SLOTS    of each client (default 8)\n";

int main(int argc, char **argv)
{
    options_t opts = { .num_clients = 3, .per_client = 8 };
    int servers[MAX_CLIENTS];
    char who[32];
    int option, channel[2];
    unsigned i;

    ex_init(argv[0]);
    while ((option = getopt(argc, argv, "c:s:" EX_OPTIONS)) != -1) {
        switch (option) {
        case 'c':
            opts.num_clients = ex_number(optarg, 1, MAX_CLIENTS, option);
            break;
        case 's':
            opts.per_client = ex_number(optarg, 2, MAX_SLOTS / MAX_CLIENTS,
                                        option);
            break;
        default:
            ex_option(option, usage);
        }
    }
    ex_no_more(argc, argv);

    for (i = 0; i < opts.num_clients; ++i) {
        ex_channel(channel);
        opts.clients[i] = channel[0];
        servers[i]      = channel[1];
    }
    ex_start("server", run_server, &opts, opts.clients, opts.num_clients);
    for (i = 0; i < opts.num_clients; ++i) {
        snprintf(who, sizeof(who), "client %u", i);
        opts.server = servers[i];
        ex_start(who, run_client, &opts, &opts.server, 1);
    }
    return ex_wait_all();
}
