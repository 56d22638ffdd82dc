/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

/*
 * Two things that wimm-vm needs and that a shell cannot do:
 *
 *   vm-tool tsc-khz       print the frequency of this machine's time stamp counter
 *   vm-tool relay MARK    copy standard input to standard output up to an end mark
 *
 * The end mark is the byte 0xff followed by MARK. The guest sends it after the last byte of its command's output, so
 * that a slow reader on the host loses nothing when the VM is ended: only the mark says that everything arrived.
 *
 * Exit status of relay: 0 the mark was seen, 3 the input ended without it, 4 reading or writing failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define RELAY_CHUNK 65536
#define RELAY_MARK  64

typedef struct {
    unsigned long long tsc;
    double sec;
} sample_t;

/* One reading of both clocks: the one of several tries that was disturbed least */
static sample_t sample_clocks(void)
{
    unsigned long long before, after, best = ~0ull;
    sample_t sample = { 0, 0 };
    struct timespec now;
    int i;

    for (i = 0; i < 20; ++i) {
        before = __rdtsc();
        clock_gettime(CLOCK_MONOTONIC_RAW, &now);
        after = __rdtsc();
        if (after - before < best) {
            best       = after - before;
            sample.tsc = before + best / 2;
            sample.sec = now.tv_sec + now.tv_nsec * 1e-9;
        }
    }
    return sample;
}

static int tsc_khz(void)
{
    struct timespec pause = { 0, 50 * 1000 * 1000 };
    sample_t first, last;

    first = sample_clocks();
    nanosleep(&pause, NULL);
    last = sample_clocks();
    printf("%.0f\n", (last.tsc - first.tsc) / (last.sec - first.sec) / 1000);
    return 0;
}

static int write_all(const char *data, size_t length)
{
    ssize_t written;

    while (length > 0) {
        written = write(STDOUT_FILENO, data, length);
        if (written >= 0) {
            data += written;
            length -= written;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

/* Length of the longest end of the data that is a beginning of the mark */
static size_t partial_mark(const char *data, size_t length, const char *mark,
                           size_t mark_length)
{
    size_t n = (length < mark_length - 1) ? length : mark_length - 1;

    while ((n > 0) && (memcmp(data + length - n, mark, n) != 0)) {
        --n;
    }
    return n;
}

static int relay(const char *text)
{
    static char buffer[RELAY_MARK + RELAY_CHUNK];
    char mark[RELAY_MARK];
    size_t mark_length, held = 0, ready, length;
    ssize_t got;
    char *end;

    mark_length = snprintf(mark, sizeof(mark), "\377%s", text);
    if (mark_length >= sizeof(mark)) {
        return 4;
    }

    for (;;) {
        got = read(STDIN_FILENO, buffer + held, RELAY_CHUNK);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            return 4;
        }

        length = held + got;
        if (got == 0) {
            return write_all(buffer, length) ? 4 : 3;
        }

        end = memmem(buffer, length, mark, mark_length);
        if (end != NULL) {
            return write_all(buffer, end - buffer) ? 4 : 0;
        }

        /* What may be the beginning of the mark waits for the next read */
        held  = partial_mark(buffer, length, mark, mark_length);
        ready = length - held;
        if (write_all(buffer, ready)) {
            return 4;
        }
        memmove(buffer, buffer + ready, held);
    }
}

int main(int argc, char **argv)
{
    if ((argc == 2) && !strcmp(argv[1], "tsc-khz")) {
        return tsc_khz();
    }
    if ((argc == 3) && !strcmp(argv[1], "relay")) {
        return relay(argv[2]);
    }
    fprintf(stderr, "usage: vm-tool tsc-khz | vm-tool relay MARK\n");
    return 2;
}
