/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "test_base.h"

#include <climits>
#include <thread>

extern "C" {
#include <ucs/debug/memtrack_int.h>
}


/* What the sanitizers have to find, or they find nothing in the other tests either:
 * test/sanitizers/run.sh runs each of these alone, and expects it to end badly */

static volatile int value = INT_MAX;


/* Out of line, so that no register keeps a pointer */
static void __attribute__((noinline)) lose_memory()
{
    for (unsigned i = 0; i < 16; ++i) {
        /* Not suppressed because it is UCX that allocates */
        void *volatile ptr = ucs_malloc(100, "canary");

        ASSERT_TRUE(ptr != NULL);
        ptr = NULL;
    }
}

TEST(DISABLED_test_canary, leak)
{
    lose_memory();
}

TEST(DISABLED_test_canary, undefined)
{
    value = value + 1;
}

TEST(DISABLED_test_canary, race)
{
    std::thread thread([] { value = 1; });

    value = 2;
    thread.join();
}
