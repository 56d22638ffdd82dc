/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_FAULTS_LEDGER_H_
#define WIMM_FAULTS_LEDGER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>


/*
 * What two processes with traffic between them, and the one that has started both and
 * disturbs them, know of each other. It is shared memory: what a process has counted is there
 * after it was killed.
 */

static const unsigned num_sides = 2;
static const unsigned num_eps   = 2;

/* A place is written again when what came there was checked: the window of an endpoint */
static const unsigned num_places = 64;
static const size_t place_size   = 20480;

static const unsigned max_allowed = 8;

/* An immediate: generation of the connection, side of the sender, endpoint, number */
static const unsigned number_bits     = 22;
static const unsigned generation_bits = 8;
static const unsigned max_generations = 1u << generation_bits;


enum command_t {
    COMMAND_NONE,
    COMMAND_ADDRESS,    /* Make it known */
    COMMAND_CONNECT,    /* To the peer's; traffic begins */
    COMMAND_PAUSE,      /* No more progress */
    COMMAND_RESUME,     /* Progress again */
    COMMAND_DEREGISTER, /* The memory that the peer writes to */
    COMMAND_REGISTER,   /* It is as good as new */
    COMMAND_FLUSH,      /* Endpoints that did not fail */
    COMMAND_CLOSE, /* They end, with what is outstanding if one has failed */
    COMMAND_CHECK, /* Ask endpoints whether the peer is there (UCT) */
    COMMAND_BAD_PUT, /* One to an address that is not the peer's, on each endpoint */
    COMMAND_QUIT
};


/* One direction of one endpoint */
struct stream_counts {
    std::atomic<uint64_t> attempted; /* By the sender */
    std::atomic<uint64_t> posted;
    std::atomic<uint64_t> ended; /* Completed, well or not */
    std::atomic<uint64_t> acked; /* Up to here the peer has them, UCX said */
    std::atomic<uint64_t> delivered; /* By the receiver: in order, intact */
    std::atomic<uint64_t> duplicates;
    std::atomic<uint64_t> disorder; /* Something is missing before it */
    std::atomic<uint64_t> corrupt;  /* Data or length */
    std::atomic<uint64_t> unknown;  /* Nobody has sent that */
};


struct side_state {
    std::atomic<uint32_t> command; /* Number of the command, and command_t */
    std::atomic<uint32_t> done;    /* The last one that was carried out */
    std::atomic<uint32_t> opened; /* The process has its worker and its memory */
    std::atomic<uint32_t> num_failed;
    std::atomic<int32_t> status; /* Of the first failure */
    uint32_t address_length;
    uint8_t address[4096];
    std::atomic<uint32_t> num_logged[max_allowed]; /* Lines that are allowed */
    char complaint[512]; /* What a test is to fail with; the first one */
    char refused[512];   /* Why it could not open */
};


struct ledger {
    char api[8];
    char config[512]; /* KEY=VALUE for UCX_WIMM_KEY, UCX_KEY=VALUE, by blanks */
    char allowed[max_allowed][64]; /* Parts of lines that UCX may log */
    std::atomic<uint64_t> goal;    /* Of each stream */
    std::atomic<uint32_t> generation;
    std::atomic<uint32_t> failure_expected; /* Endpoints may */
    side_state sides[num_sides];
    stream_counts streams[max_generations][num_sides][num_eps]; /* By sender */

    stream_counts &current(unsigned side, unsigned ep)
    {
        return streams[generation][side][ep];
    }
};

#endif
