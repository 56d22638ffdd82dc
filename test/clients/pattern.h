/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef TEST_CLIENTS_PATTERN_H_
#define TEST_CLIENTS_PATTERN_H_

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


/* What each byte of a message has to be, and the count of what was not so */

static unsigned long wrong_count;
static unsigned long check_count;


/* Another seed differs in every 8 bytes, and no 8 bytes of one message repeat */
static inline uint64_t pattern_word(uint64_t seed, size_t i)
{
    return ((seed << 32) + i + 1) * 0x9e3779b97f4a7c15ul;
}

static inline uint64_t pattern_seed(unsigned part, unsigned from, unsigned to,
                                    unsigned round)
{
    return ((uint64_t)part << 24) ^ (from << 18) ^ (to << 12) ^ round;
}

static void pattern_fill(void *buffer, size_t length, uint64_t seed)
{
    uint64_t word;
    size_t i, size;

    for (i = 0; i < length; i += size) {
        word = pattern_word(seed, i);
        size = (length - i < sizeof(word)) ? (length - i) : sizeof(word);
        memcpy((char *)buffer + i, &word, size);
    }
}

/* The first of many wrong ones are told */
static void expect(int ok, const char *what, int me, unsigned long got,
                   unsigned long expected)
{
    ++check_count;
    if (!ok && (++wrong_count <= 10)) {
        fprintf(stderr, "WRONG at %d: %s: %lu, expected %lu\n", me, what, got,
                expected);
    }
}

static inline void expect_equal(const char *what, int me, unsigned long got,
                                unsigned long expected)
{
    expect(got == expected, what, me, got, expected);
}

static void pattern_check(const char *what, int me, const void *buffer,
                          size_t length, uint64_t seed)
{
    size_t wrong = length;
    uint64_t word;
    size_t i, size;

    for (i = 0; (i < length) && (wrong == length); i += size) {
        word = pattern_word(seed, i);
        size = (length - i < sizeof(word)) ? (length - i) : sizeof(word);
        if (memcmp((const char *)buffer + i, &word, size) != 0) {
            wrong = i;
        }
    }
    expect(wrong == length, what, me, wrong, length);
}

static inline void *allocate(size_t length)
{
    void *p = malloc(length);

    if (p == NULL) {
        fprintf(stderr, "no memory\n");
        abort();
    }
    return p;
}

#endif
