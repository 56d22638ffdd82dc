/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * An OpenSHMEM program that checks all that it gets: puts, gets, atomics, waiting for
 * data, locks and collectives of OpenSHMEM 1.4. The first PE prints a line for each part.
 * The exit status is 1 if anything was wrong.
 *
 *   shmem_check [LARGEST [ROUNDS]]   size of the largest put, rounds of the small ones
 */

#include <shmem.h>
#include <time.h>

#include "pattern.h"


#define MAX_PES 64
#define GUARD   64
#define WORDS   1024 /* Of a collective */

static int me, pes, next, previous;
static int rounds     = 20;
static size_t largest = 1u << 20;

/* Symmetric: in the heap, and among the static variables */
static char *from, *to;
static uint64_t *words_from, *words_to;
static long counter, flag, lock;
static int small_counter;
static uint64_t bits;
static long sums_from[4], sums_to[4];
static long sum_work[SHMEM_REDUCE_MIN_WRKDATA_SIZE],
        sync_area[SHMEM_REDUCE_SYNC_SIZE];
static long bcast_sync[SHMEM_BCAST_SYNC_SIZE],
        collect_sync[SHMEM_COLLECT_SYNC_SIZE];
static long alltoall_sync[SHMEM_ALLTOALL_SYNC_SIZE];

/* Of this PE: what it wrote to others and read from them */
static uint64_t operations, bytes;

static const size_t sizes[] = { 1,    8,     64,     1024,    4096,    8192,
                                8256, 65536, 262144, 1048576, 8u << 20 };
#define NUM_SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))


static void count(uint64_t num, uint64_t length)
{
    operations += num;
    bytes += num * length;
}

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void arrived(const char *what, size_t length, uint64_t seed)
{
    int i, changed = 0;

    pattern_check(what, me, to, length, seed);
    for (i = 0; i < GUARD; ++i) {
        changed += to[length + i] != 0x5a;
    }
    expect_equal(what, me, changed, 0);
}

static void clear(size_t length)
{
    memset(to, 0xa5, length);
    memset(to + length, 0x5a, GUARD);
    shmem_barrier_all();
}

/* Data, fence, flag: who sees the flag sees the data */
static void part_put(void)
{
    static long round;
    int i, repeat;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= largest); ++i) {
        for (repeat = 0; repeat < ((sizes[i] <= 4096) ? rounds : 2); ++repeat) {
            ++round;
            clear(sizes[i]);
            pattern_fill(from, sizes[i], pattern_seed(1, me, next, round));
            if (repeat % 2) {
                shmem_putmem_nbi(to, from, sizes[i], next);
            } else {
                shmem_putmem(to, from, sizes[i], next);
            }
            shmem_fence();
            shmem_long_p(&flag, round, next);
            shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round);
            arrived("put", sizes[i], pattern_seed(1, previous, me, round));
            count(2, sizes[i] / 2);
            shmem_barrier_all();
        }
    }
}

static void part_get(void)
{
    int i, repeat;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= largest); ++i) {
        for (repeat = 0; repeat < ((sizes[i] <= 4096) ? rounds : 2); ++repeat) {
            pattern_fill(from, sizes[i], pattern_seed(2, me, 0, i + repeat));
            clear(sizes[i]);
            if (repeat % 2) {
                shmem_getmem_nbi(to, from, sizes[i], next);
                shmem_quiet();
            } else {
                shmem_getmem(to, from, sizes[i], next);
            }
            arrived("get", sizes[i], pattern_seed(2, next, 0, i + repeat));
            count(1, sizes[i]);
            shmem_barrier_all();
        }
    }
}

/* All PEs at the variables of the first one */
static void part_atomics(void)
{
    long before = -1, got;
    int i, small;

    counter       = 0;
    small_counter = 0;
    bits          = 0;
    shmem_barrier_all();
    for (i = 0; i < rounds; ++i) {
        shmem_long_atomic_add(&counter, 1, 0);
        shmem_int_atomic_inc(&small_counter, 0);
        got = shmem_long_atomic_fetch_add(&counter, 2, 0);
        expect(got > before, "fetch_add rises", me, got, before);
        before = got;
        small  = shmem_int_atomic_fetch_add(&small_counter, 2, 0);
        expect((small >= 1) && (small <= 3 * rounds * pes), "fetch_add of 4",
               me, small, 1);
        shmem_uint64_atomic_xor(&bits, 1ul << ((me * rounds + i) % 64), 0);
        count(5, (me == 0) ? 0 : 8);
    }
    shmem_barrier_all();
    expect_equal("add", me, shmem_long_atomic_fetch(&counter, 0),
                 3l * rounds * pes);
    expect_equal("add of 4", me, shmem_int_atomic_fetch(&small_counter, 0),
                 3l * rounds * pes);
    if (me == 0) {
        uint64_t expected = 0;
        for (i = 0; i < rounds * pes; ++i) {
            expected ^= 1ul << (i % 64);
        }
        expect_equal("xor", me, bits, expected);
    }
    shmem_barrier_all();

    /* Swap: what was put in comes out once */
    counter = -1;
    shmem_barrier_all();
    got = shmem_long_atomic_swap(&counter, me, next);
    expect_equal("swap", me, got, -1l);
    shmem_barrier_all();
    expect_equal("swapped", me, counter, previous);
    shmem_barrier_all();
    got = shmem_long_atomic_compare_swap(&counter, me + 1, 77, next);
    expect_equal("compare fails", me, got, me);
    got = shmem_long_atomic_compare_swap(&counter, me, 77, next);
    expect_equal("compare and swap", me, got, me);
    shmem_barrier_all();
    expect_equal("swapped", me, counter, 77);
    count(3, 8);
    shmem_barrier_all();
}

/* A plain counter, which only the lock protects */
static void part_lock(void)
{
    long value;
    int i;

    counter = 0;
    shmem_barrier_all();
    for (i = 0; i < rounds; ++i) {
        shmem_set_lock(&lock);
        value = shmem_long_g(&counter, 0);
        shmem_long_p(&counter, value + 1, 0);
        shmem_quiet();
        shmem_clear_lock(&lock);
        count(2, (me == 0) ? 0 : 8);
    }
    shmem_barrier_all();
    expect_equal("lock", me, shmem_long_g(&counter, 0), (long)pes * rounds);
    shmem_barrier_all();
}

/* Each PE in turn comes late: the others find what it wrote just before */
static void part_barrier(void)
{
    int i, peer;

    for (i = 1; i <= rounds; ++i) {
        if (me == (i % pes)) {
            for (peer = 0; peer < pes; ++peer) {
                shmem_long_p(&counter, 1000 + i, peer);
            }
        }
        shmem_barrier_all();
        expect_equal("barrier", me, counter, 1000 + i);
        shmem_barrier_all();
        count(1, 0);
    }
}

static void collected(const char *what, int part, int from_pe, size_t at,
                      size_t num)
{
    pattern_check(what, me, words_to + at, num * 8,
                  pattern_seed(part, from_pe, 0, 0));
}

static void part_collectives(void)
{
    int i, peer;

    /* Broadcast leaves the root's own target alone */
    pattern_fill(words_from, WORDS * 8, pattern_seed(3, me, 0, 0));
    memset(words_to, 0xa5, WORDS * 8);
    shmem_barrier_all();
    shmem_broadcast64(words_to, words_from, WORDS, pes - 1, 0, 0, pes,
                      bcast_sync);
    if (me != pes - 1) {
        collected("broadcast", 3, pes - 1, 0, WORDS);
        count(1, WORDS * 8);
    }
    shmem_barrier_all();

    memset(words_to, 0xa5, WORDS * 8 * pes);
    shmem_barrier_all();
    shmem_fcollect64(words_to, words_from, WORDS, 0, 0, pes, collect_sync);
    for (peer = 0; peer < pes; ++peer) {
        collected("fcollect", 3, peer, peer * WORDS, WORDS);
    }
    count(pes - 1, WORDS * 8);
    shmem_barrier_all();

    /* As many words as the PE's number says, and one */
    memset(words_to, 0xa5, WORDS * 8 * pes);
    shmem_barrier_all();
    shmem_collect64(words_to, words_from, me + 1, 0, 0, pes, collect_sync);
    for (peer = 0; peer < pes; ++peer) {
        collected("collect", 3, peer, peer * (peer + 1) / 2, peer + 1);
    }
    count(pes - 1, 8);
    shmem_barrier_all();

    for (peer = 0; peer < pes; ++peer) {
        pattern_fill(words_from + peer * WORDS, WORDS * 8,
                     pattern_seed(4, me, peer, 0));
    }
    shmem_barrier_all();
    shmem_alltoall64(words_to, words_from, WORDS, 0, 0, pes, alltoall_sync);
    for (peer = 0; peer < pes; ++peer) {
        pattern_check("alltoall", me, words_to + peer * WORDS, WORDS * 8,
                      pattern_seed(4, peer, me, 0));
    }
    count(pes - 1, WORDS * 8);
    shmem_barrier_all();

    for (i = 0; i < 4; ++i) {
        sums_from[i] = (me + 1) * (i + 1);
    }
    shmem_barrier_all();
    shmem_long_sum_to_all(sums_to, sums_from, 4, 0, 0, pes, sum_work,
                          sync_area);
    for (i = 0; i < 4; ++i) {
        expect_equal("sum_to_all", me, sums_to[i],
                     (long)(i + 1) * pes * (pes + 1) / 2);
    }
    shmem_barrier_all();
    shmem_long_max_to_all(sums_to, sums_from, 4, 0, 0, pes, sum_work,
                          sync_area);
    for (i = 0; i < 4; ++i) {
        expect_equal("max_to_all", me, sums_to[i], (long)(i + 1) * pes);
    }
    count(2, sizeof(sums_from));
    shmem_barrier_all();
}

static uint64_t total[4];

static void part(const char *name, void (*function)(void))
{
    static uint64_t mine[4], theirs[4];
    uint64_t old[]  = { check_count, wrong_count };
    uint64_t sum[4] = { 0 };
    double start    = seconds();
    int i, peer;

    operations = bytes = 0;
    function();
    mine[0] = operations;
    mine[1] = bytes;
    mine[2] = check_count - old[0];
    mine[3] = wrong_count - old[1];
    shmem_barrier_all();
    for (peer = 0; peer < pes; ++peer) {
        shmem_getmem(theirs, mine, sizeof(mine), peer);
        for (i = 0; i < 4; ++i) {
            sum[i] += theirs[i];
            total[i] += theirs[i];
        }
    }
    if (me == 0) {
        printf("%-16s %6lu operations, %10lu bytes, %6lu checks, %lu wrong, "
               "%.1f s\n",
               name, sum[0], sum[1], sum[2], sum[3], seconds() - start);
        fflush(stdout);
    }
    shmem_barrier_all();
}

static void sync_init(long *area, int num)
{
    while (num-- > 0) {
        area[num] = SHMEM_SYNC_VALUE;
    }
}

int main(int argc, char **argv)
{
    shmem_init();
    me       = shmem_my_pe();
    pes      = shmem_n_pes();
    next     = (me + 1) % pes;
    previous = (me + pes - 1) % pes;
    if (argc > 1) {
        largest = strtoul(argv[1], NULL, 0);
    }
    if (argc > 2) {
        rounds = atoi(argv[2]);
    }
    if ((pes < 2) || (pes > MAX_PES) || (rounds < 1)) {
        fprintf(stderr,
                "usage: oshrun -n 2..64 shmem_check [LARGEST [ROUNDS]]\n");
        shmem_global_exit(2);
    }
    sync_init(sync_area, SHMEM_REDUCE_SYNC_SIZE);
    sync_init(bcast_sync, SHMEM_BCAST_SYNC_SIZE);
    sync_init(collect_sync, SHMEM_COLLECT_SYNC_SIZE);
    sync_init(alltoall_sync, SHMEM_ALLTOALL_SYNC_SIZE);
    from       = shmem_malloc(largest + GUARD);
    to         = shmem_malloc(largest + GUARD);
    words_from = shmem_malloc(WORDS * 8 * pes);
    words_to   = shmem_malloc(WORDS * 8 * pes);
    if ((from == NULL) || (to == NULL) || (words_from == NULL) ||
        (words_to == NULL)) {
        fprintf(stderr, "the symmetric heap is too small\n");
        shmem_global_exit(2);
    }
    shmem_barrier_all();

    part("put", part_put);
    part("get", part_get);
    part("atomics", part_atomics);
    part("lock", part_lock);
    part("barrier", part_barrier);
    part("collectives", part_collectives);

    if (me == 0) {
        printf("%d PEs: %lu bytes between them, %lu wrong\n", pes, total[1],
               total[3]);
        fflush(stdout);
    }
    shmem_free(words_to);
    shmem_free(words_from);
    shmem_free(to);
    shmem_free(from);
    shmem_finalize();
    return total[3] != 0;
}
