/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * An MPI program that checks all that it gets: messages, collectives and one-sided
 * operations. The first rank prints a line for each part, with how much was done and
 * how long it took. The exit status is 1 if anything was wrong.
 *
 *   mpi_check [LARGEST [ROUNDS]]     size of the largest message, rounds of the small
 */

#include <mpi.h>

#include "pattern.h"


#define GUARD       64 /* Bytes behind a message, which stay as they are */
#define SMALL       4096
#define MAX_RANKS   64
#define WINDOW_SLOT 65536

static int rank, ranks;
static int rounds     = 20;
static size_t largest = 8u << 20;
static char *from, *to;

/* Of this rank: bytes that others have to send to it or get from it */
static uint64_t operations, bytes;

static const size_t sizes[] = { 1,      2,       8,       64,   255,
                                1024,   4096,    8192,    8256, 65536,
                                262144, 1048576, 8u << 20 };
#define NUM_SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))


static void count(uint64_t num, uint64_t length)
{
    operations += num;
    bytes += num * length;
}

static void guard(size_t length)
{
    memset(to, 0xa5, length);
    memset(to + length, 0x5a, GUARD);
}

static void guard_check(const char *what, size_t length)
{
    int i, changed = 0;

    for (i = 0; i < GUARD; ++i) {
        changed += to[length + i] != 0x5a;
    }
    expect_equal(what, rank, changed, 0);
}

static void received(const char *what, const MPI_Status *status, int source,
                     int tag, size_t length)
{
    int got;

    MPI_Get_count(status, MPI_BYTE, &got);
    expect_equal(what, rank, status->MPI_SOURCE, source);
    expect_equal(what, rank, status->MPI_TAG, tag);
    expect_equal(what, rank, got, length);
    count(1, length);
}

/* ------------------------------------------------------------ point to point */

/* Around the ring, each size with several tags; even ranks send first */
static void part_blocking(void)
{
    static const char name[] = "blocking";
    int next                 = (rank + 1) % ranks;
    int previous             = (rank + ranks - 1) % ranks;
    int i, tag, turn;
    MPI_Status status;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= largest); ++i) {
        for (tag = 1; tag <= ((sizes[i] <= SMALL) ? rounds : 2); tag += 1) {
            guard(sizes[i]);
            pattern_fill(from, sizes[i], pattern_seed(1, rank, next, tag));
            for (turn = 0; turn < 2; ++turn) {
                if ((rank % 2) == turn) {
                    if (tag % 2) {
                        MPI_Send(from, sizes[i], MPI_BYTE, next, tag,
                                 MPI_COMM_WORLD);
                    } else {
                        MPI_Ssend(from, sizes[i], MPI_BYTE, next, tag,
                                  MPI_COMM_WORLD);
                    }
                } else {
                    MPI_Recv(to, sizes[i], MPI_BYTE, previous, tag,
                             MPI_COMM_WORLD, &status);
                    received(name, &status, previous, tag, sizes[i]);
                }
            }
            pattern_check(name, rank, to, sizes[i],
                          pattern_seed(1, previous, rank, tag));
            guard_check(name, sizes[i]);
        }
    }
}

/* All to all, several tags at a time, received in the other order */
static void part_nonblocking(void)
{
    static const char name[] = "nonblocking";
    enum {
        TAGS = 4
    };
    MPI_Request requests[2 * TAGS * MAX_RANKS];
    MPI_Status statuses[2 * TAGS * MAX_RANKS];
    size_t length, place;
    int i, tag, peer, num;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] * TAGS * ranks <= 2 * largest);
         ++i) {
        length = sizes[i];
        num    = 0;
        memset(to, 0xa5, length * TAGS * ranks);
        for (tag = TAGS - 1; tag >= 0; --tag) {
            for (peer = 0; peer < ranks; ++peer) {
                place = (peer * TAGS + tag) * length;
                MPI_Irecv(to + place, length, MPI_BYTE, peer, tag,
                          MPI_COMM_WORLD, &requests[num++]);
            }
        }
        for (tag = 0; tag < TAGS; ++tag) {
            for (peer = 0; peer < ranks; ++peer) {
                place = (peer * TAGS + tag) * length;
                pattern_fill(from + place, length,
                             pattern_seed(2, rank, peer, i * TAGS + tag));
                MPI_Isend(from + place, length, MPI_BYTE, peer, tag,
                          MPI_COMM_WORLD, &requests[num++]);
            }
        }
        MPI_Waitall(num, requests, statuses);
        for (tag = 0; tag < TAGS; ++tag) {
            for (peer = 0; peer < ranks; ++peer) {
                place = (peer * TAGS + tag) * length;
                num   = (TAGS - 1 - tag) * ranks + peer;
                if (peer != rank) {
                    received(name, &statuses[num], peer, tag, length);
                }
                pattern_check(name, rank, to + place, length,
                              pattern_seed(2, peer, rank, i * TAGS + tag));
            }
        }
    }
}

/* Each rank in turn takes what comes, from anyone: in order for each sender */
static void part_any_source(void)
{
    static const char name[] = "any source";
    int next[MAX_RANKS];
    int root, i, source, got;
    size_t length;
    MPI_Status status;

    for (root = 0; root < ranks; ++root) {
        memset(next, 0, sizeof(next));
        for (i = 0; (rank != root) && (i < rounds); ++i) {
            length = sizes[i % 10];
            pattern_fill(from, length, pattern_seed(3, rank, root, i));
            MPI_Send(from, length, MPI_BYTE, root, i, MPI_COMM_WORLD);
        }
        for (i = 0; (rank == root) && (i < (ranks - 1) * rounds); ++i) {
            MPI_Recv(to, largest, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
                     MPI_COMM_WORLD, &status);
            source = status.MPI_SOURCE;
            MPI_Get_count(&status, MPI_BYTE, &got);
            received(name, &status, source, next[source],
                     sizes[next[source] % 10]);
            pattern_check(name, rank, to, got,
                          pattern_seed(3, source, root, next[source]));
            ++next[source];
        }
        for (i = 0; (rank == root) && (i < ranks); ++i) {
            expect_equal(name, rank, next[i], (i == root) ? 0 : rounds);
        }
    }
}

/* Sent before anyone asks for it, then found by a probe */
static void part_unexpected(void)
{
    static const char name[] = "unexpected";
    int next                 = (rank + 1) % ranks;
    int previous             = (rank + ranks - 1) % ranks;
    MPI_Request requests[NUM_SIZES];
    MPI_Message message;
    MPI_Status status;
    size_t place = 0;
    int i, num;

    for (num = 0; (num < NUM_SIZES) && (sizes[num] <= largest / 4); ++num) {
        pattern_fill(from + place, sizes[num],
                     pattern_seed(4, rank, next, num));
        MPI_Isend(from + place, sizes[num], MPI_BYTE, next, num, MPI_COMM_WORLD,
                  &requests[num]);
        place += sizes[num];
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = num - 1; i >= 0; --i) {
        guard(sizes[i]);
        MPI_Mprobe(previous, i, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(to, sizes[i], MPI_BYTE, &message, &status);
        received(name, &status, previous, i, sizes[i]);
        pattern_check(name, rank, to, sizes[i],
                      pattern_seed(4, previous, rank, i));
        guard_check(name, sizes[i]);
    }
    MPI_Waitall(num, requests, MPI_STATUSES_IGNORE);
}

/* ------------------------------------------------------------ collectives */

/*
 * No one leaves before the last has come: who comes late is another one each time,
 * and finds nothing of what the others send when they have left. What it sends
 * before it comes is of the same round.
 */
static void part_barrier(void)
{
    static const char name[] = "barrier";
    int i, late, told, peer, found, polls;

    for (i = 0; i < rounds; ++i) {
        late = i % ranks;
        if (rank == late) {
            for (polls = 0; polls < 100; ++polls) {
                MPI_Iprobe(MPI_ANY_SOURCE, 76, MPI_COMM_WORLD, &found,
                           MPI_STATUS_IGNORE);
                expect_equal(name, rank, found, 0);
            }
            for (peer = 0; peer < ranks; ++peer) {
                if (peer != late) {
                    MPI_Send(&i, 1, MPI_INT, peer, 77, MPI_COMM_WORLD);
                }
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank != late) {
            MPI_Send(&i, 1, MPI_INT, late, 76, MPI_COMM_WORLD);
            MPI_Recv(&told, 1, MPI_INT, late, 77, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            expect_equal(name, rank, told, i);
        }
        for (peer = 0; (rank == late) && (peer < ranks); ++peer) {
            if (peer != late) {
                MPI_Recv(&told, 1, MPI_INT, peer, 76, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
                expect_equal(name, rank, told, i);
            }
        }
        count(1, 0);
    }
}

static void part_bcast(void)
{
    int i, root;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= largest); ++i) {
        for (root = 0; root < ranks; ++root) {
            guard(sizes[i]);
            if (rank == root) {
                pattern_fill(to, sizes[i], pattern_seed(5, root, 0, i));
            }
            MPI_Bcast(to, sizes[i], MPI_BYTE, root, MPI_COMM_WORLD);
            pattern_check("bcast", rank, to, sizes[i],
                          pattern_seed(5, root, 0, i));
            guard_check("bcast", sizes[i]);
            count(1, (rank == root) ? 0 : sizes[i]);
        }
    }
}

/* Sums and maxima of what all ranks know that the others have */
static void reduced(const char *name, size_t num, int round, int is_max)
{
    const uint64_t *result = (const uint64_t *)to;
    uint64_t expected, mine;
    size_t i, wrong = 0;
    int peer;

    for (i = 0; i < num; ++i) {
        expected = 0;
        for (peer = 0; peer < ranks; ++peer) {
            mine     = pattern_word(pattern_seed(6, peer, 0, round), i);
            expected = !is_max         ? expected + mine :
                       mine > expected ? mine :
                                         expected;
        }
        wrong += result[i] != expected;
    }
    expect_equal(name, rank, wrong, 0);
}

static void part_reduce(void)
{
    MPI_Op ops[] = { MPI_SUM, MPI_MAX };
    size_t i, num;
    int round, root, op;

    for (round = 2; (round < NUM_SIZES) && (sizes[round] <= largest / 8);
         ++round) {
        num = sizes[round] / sizeof(uint64_t);
        for (i = 0; i < num; ++i) {
            ((uint64_t *)from)[i] = pattern_word(pattern_seed(6, rank, 0,
                                                              round),
                                                 i);
        }
        for (op = 0; op < 2; ++op) {
            memset(to, 0xa5, num * 8);
            MPI_Allreduce(from, to, num, MPI_UINT64_T, ops[op], MPI_COMM_WORLD);
            reduced("allreduce", num, round, op);
            count(1, num * 8);

            root = round % ranks;
            memset(to, 0xa5, num * 8);
            MPI_Reduce(from, to, num, MPI_UINT64_T, ops[op], root,
                       MPI_COMM_WORLD);
            if (rank == root) {
                reduced("reduce", num, round, op);
            }
            count(1, (rank == root) ? num * 8 : 0);
        }
    }
}

static void pieces_fill(size_t length, int part, int round, int same)
{
    int peer;

    for (peer = 0; peer < ranks; ++peer) {
        pattern_fill(from + peer * length, length,
                     pattern_seed(part, rank, same ? 0 : peer, round));
    }
    guard(length * ranks);
}

static void pieces_check(const char *name, size_t length, int part, int round,
                         int same)
{
    int peer;

    for (peer = 0; peer < ranks; ++peer) {
        pattern_check(name, rank, to + peer * length, length,
                      pattern_seed(part, peer, same ? 0 : rank, round));
    }
    guard_check(name, length * ranks);
    count(ranks - 1, length);
}

static void part_alltoall(void)
{
    int i;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] * ranks <= largest); ++i) {
        pieces_fill(sizes[i], 7, i, 0);
        MPI_Alltoall(from, sizes[i], MPI_BYTE, to, sizes[i], MPI_BYTE,
                     MPI_COMM_WORLD);
        pieces_check("alltoall", sizes[i], 7, i, 0);
    }
}

static void part_gather(void)
{
    size_t length;
    int i, root;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] * ranks <= largest); ++i) {
        length = sizes[i];
        root   = i % ranks;
        pieces_fill(length, 8, i, 1);
        MPI_Allgather(from, length, MPI_BYTE, to, length, MPI_BYTE,
                      MPI_COMM_WORLD);
        pieces_check("allgather", length, 8, i, 1);

        pieces_fill(length, 9, i, 1);
        MPI_Gather(from, length, MPI_BYTE, to, length, MPI_BYTE, root,
                   MPI_COMM_WORLD);
        if (rank == root) {
            pieces_check("gather", length, 9, i, 1);
        }

        pieces_fill(length, 10, i, 0);
        guard(length);
        MPI_Scatter(from, length, MPI_BYTE, to, length, MPI_BYTE, root,
                    MPI_COMM_WORLD);
        pattern_check("scatter", rank, to, length,
                      pattern_seed(10, root, rank, i));
        guard_check("scatter", length);
        count(1, (rank == root) ? 0 : length);
    }
}

/* ------------------------------------------------------------ one-sided */

static MPI_Win window;
static char *memory; /* ranks slots, one for each origin, and the counters */
static size_t slot;
#define COUNTERS (slot * ranks)

static uint64_t *counters(void)
{
    return (uint64_t *)(memory + COUNTERS);
}

static void window_create(void)
{
    slot = largest;
    MPI_Win_allocate(slot * ranks + 4096, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &memory, &window);
    memset(memory, 0, slot * ranks + 4096);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Each rank writes into its slot at the next one, and reads that of the one before */
static void part_fence(void)
{
    int next     = (rank + 1) % ranks;
    int previous = (rank + ranks - 1) % ranks;
    int i;

    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= largest); ++i) {
        pattern_fill(from, sizes[i], pattern_seed(11, rank, next, i));
        MPI_Win_fence(0, window);
        MPI_Put(from, sizes[i], MPI_BYTE, next, slot * rank, sizes[i], MPI_BYTE,
                window);
        MPI_Win_fence(0, window);
        pattern_check("put", rank, memory + slot * previous, sizes[i],
                      pattern_seed(11, previous, rank, i));
        count(1, sizes[i]);

        guard(sizes[i]);
        MPI_Win_fence(0, window);
        MPI_Get(to, sizes[i], MPI_BYTE, next, slot * rank, sizes[i], MPI_BYTE,
                window);
        MPI_Win_fence(0, window);
        pattern_check("get", rank, to, sizes[i],
                      pattern_seed(11, rank, next, i));
        guard_check("get", sizes[i]);
        count(1, sizes[i]);
    }
}

static void counters_clear(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    memset(counters(), 0, 4096);
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All ranks add to the same words of all ranks */
static void part_accumulate(void)
{
    enum {
        WORDS = 100
    };
    uint64_t add[WORDS], old[WORDS];
    int i, peer;

    counters_clear();
    for (i = 0; i < WORDS; ++i) {
        add[i] = (rank + 1) * (i + 1);
    }
    MPI_Win_fence(0, window);
    for (peer = 0; peer < ranks; ++peer) {
        MPI_Accumulate(add, WORDS, MPI_UINT64_T, peer, COUNTERS, WORDS,
                       MPI_UINT64_T, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
    for (i = 0; i < WORDS; ++i) {
        expect_equal("accumulate", rank, counters()[i],
                     (uint64_t)(i + 1) * ranks * (ranks + 1) / 2);
    }
    count(ranks - 1, sizeof(add));

    MPI_Win_fence(0, window);
    MPI_Get_accumulate(add, WORDS, MPI_UINT64_T, old, WORDS, MPI_UINT64_T,
                       (rank + 1) % ranks, COUNTERS, WORDS, MPI_UINT64_T,
                       MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (i = 0; i < WORDS; ++i) {
        expect_equal("get_accumulate", rank, old[i],
                     (uint64_t)(i + 1) * ranks * (ranks + 1) / 2);
    }
    count(1, sizeof(add));
}

/* A counter that only the lock protects; then data under a shared lock */
static void part_lock(void)
{
    uint64_t value;
    int i, peer;

    counters_clear();
    for (i = 0; i < rounds; ++i) {
        peer = i % ranks;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, peer, 0, window);
        MPI_Get(&value, 1, MPI_UINT64_T, peer, COUNTERS, 1, MPI_UINT64_T,
                window);
        MPI_Win_flush(peer, window);
        ++value;
        MPI_Put(&value, 1, MPI_UINT64_T, peer, COUNTERS, 1, MPI_UINT64_T,
                window);
        MPI_Win_unlock(peer, window);
        count(2, (peer == rank) ? 0 : 8);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    expect_equal("lock", rank, counters()[0],
                 (uint64_t)ranks * ((rounds - rank + ranks - 1) / ranks));
    MPI_Win_unlock(rank, window);
}

/* Written, flushed and then told by a message; no one else synchronizes */
static void part_flush(void)
{
    int next     = (rank + 1) % ranks;
    int previous = (rank + ranks - 1) % ranks;
    int i, told;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (i = 0; (i < NUM_SIZES) && (sizes[i] <= largest); ++i) {
        pattern_fill(from, sizes[i], pattern_seed(12, rank, next, i));
        MPI_Put(from, sizes[i], MPI_BYTE, next, slot * rank, sizes[i], MPI_BYTE,
                window);
        MPI_Win_flush(next, window);
        MPI_Sendrecv(&i, 1, MPI_INT, next, 78, &told, 1, MPI_INT, previous, 78,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect_equal("flush", rank, told, i);
        MPI_Win_sync(window);
        pattern_check("flush", rank, memory + slot * previous, sizes[i],
                      pattern_seed(12, previous, rank, i));
        MPI_Barrier(MPI_COMM_WORLD);
        count(1, sizes[i]);
    }
    MPI_Win_unlock_all(window);
}

/* Tickets of the first rank's counter: none is given twice, none is left out */
static void part_fetch_and_op(void)
{
    char *mine        = allocate(rounds * ranks);
    char *all         = allocate(rounds * ranks);
    int missing       = 0;
    uint64_t one      = 1;
    uint64_t ticket   = 0;
    uint64_t previous = 0;
    int i;

    counters_clear();
    memset(mine, 0, rounds * ranks);
    MPI_Win_lock_all(0, window);
    for (i = 0; i < rounds; ++i) {
        MPI_Fetch_and_op(&one, &ticket, MPI_UINT64_T, 0, COUNTERS, MPI_SUM,
                         window);
        MPI_Win_flush(0, window);
        expect((i == 0) || (ticket > previous), "tickets rise", rank, ticket,
               previous);
        expect(ticket < (uint64_t)rounds * ranks, "ticket", rank, ticket, 0);
        previous = ticket;
        if (ticket < (uint64_t)rounds * ranks) {
            ++mine[ticket];
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Allreduce(mine, all, rounds * ranks, MPI_INT8_T, MPI_SUM,
                  MPI_COMM_WORLD);
    for (i = 0; i < rounds * ranks; ++i) {
        missing += all[i] != 1;
    }
    expect_equal("each ticket once", rank, missing, 0);
    count(rounds, (rank == 0) ? 0 : 8);
    free(all);
    free(mine);
}

/* A lock of one's own, by compare and swap, around a plain counter */
static void part_compare_and_swap(void)
{
    uint64_t me = rank + 1, nobody = 0, old, value;
    int i, tries;

    counters_clear();
    MPI_Win_lock_all(0, window);
    for (i = 0; i < rounds; ++i) {
        tries = 0;
        do {
            MPI_Compare_and_swap(&me, &nobody, &old, MPI_UINT64_T, 0, COUNTERS,
                                 window);
            MPI_Win_flush(0, window);
            expect((old != me) && (old <= (uint64_t)ranks), "owner", rank, old,
                   0);
            count(1, (rank == 0) ? 0 : 8);
        } while ((old != 0) && (++tries < 1000000));
        expect_equal("lock free", rank, old, 0);

        MPI_Get(&value, 1, MPI_UINT64_T, 0, COUNTERS + 8, 1, MPI_UINT64_T,
                window);
        MPI_Win_flush(0, window);
        ++value;
        MPI_Put(&value, 1, MPI_UINT64_T, 0, COUNTERS + 8, 1, MPI_UINT64_T,
                window);
        MPI_Win_flush(0, window);

        MPI_Compare_and_swap(&nobody, &me, &old, MPI_UINT64_T, 0, COUNTERS,
                             window);
        MPI_Win_flush(0, window);
        expect_equal("still mine", rank, old, me);
        count(3, (rank == 0) ? 0 : 8);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        expect_equal("counter", rank, counters()[0], 0);
        expect_equal("counter", rank, counters()[1], (uint64_t)ranks * rounds);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ------------------------------------------------------------ all of it */

static uint64_t total_bytes;

/* Everyone's counts; returns what was wrong so far */
static void part(const char *name, void (*function)(void))
{
    double start   = MPI_Wtime();
    uint64_t old[] = { wrong_count, check_count };
    uint64_t mine[4], all[4];

    operations = bytes = 0;
    function();
    mine[0] = operations;
    mine[1] = bytes;
    mine[2] = check_count - old[1];
    mine[3] = wrong_count - old[0];
    /* Also keeps messages of the next part from who takes any in this one */
    MPI_Allreduce(mine, all, 4, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        total_bytes += all[1];
        printf("%-16s %6lu operations, %10lu bytes, %6lu checks, %lu wrong, "
               "%.1f s\n",
               name, all[0], all[1], all[2], all[3], MPI_Wtime() - start);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    uint64_t mine, all = 0;
    size_t length;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 1) {
        largest = strtoul(argv[1], NULL, 0);
    }
    if (argc > 2) {
        rounds = atoi(argv[2]);
    }
    if ((ranks < 2) || (ranks > MAX_RANKS) || (largest < WINDOW_SLOT) ||
        (rounds < 1) || (rounds > 1000)) {
        fprintf(stderr,
                "usage: mpirun -n 2..64 mpi_check [LARGEST [ROUNDS]]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    length = 2 * largest + GUARD;
    from   = allocate(length);
    to     = allocate(length);

    part("blocking", part_blocking);
    part("nonblocking", part_nonblocking);
    part("any source", part_any_source);
    part("unexpected", part_unexpected);
    part("barrier", part_barrier);
    part("bcast", part_bcast);
    part("reduce", part_reduce);
    part("alltoall", part_alltoall);
    part("gather", part_gather);
    part("window", window_create);
    part("put and get", part_fence);
    part("accumulate", part_accumulate);
    part("lock", part_lock);
    part("flush", part_flush);
    part("fetch and op", part_fetch_and_op);
    part("compare and swap", part_compare_and_swap);
    MPI_Win_free(&window);

    mine = wrong_count;
    MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%d ranks: %lu bytes between them, %lu wrong\n", ranks,
               total_bytes, all);
    }
    free(to);
    free(from);
    MPI_Finalize();
    return all != 0;
}
