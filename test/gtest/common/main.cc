/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "test_base.h"

#include <cstring>


/* What a program does that its own tests have started, if it has such tests */
int child_main(int argc, char **argv) __attribute__((weak));


int main(int argc, char **argv)
{
    if ((child_main != NULL) && (argc > 1) && !strcmp(argv[1], "--child")) {
        return child_main(argc - 2, argv + 2);
    }

    ::testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
