/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_ONE_TRANSPORT_H_
#define WIMM_ONE_TRANSPORT_H_

/* Included by the compiler before each file of UCX's UCT tests, which stay as
 * they are: the transport WIMM_TEST_TL takes the place of UCX's lists, and is
 * taken for rc_verbs wherever a test asks for that one. */

#include <uct/uct_test.h>

#include <string>

#undef UCT_TEST_IB_TLS
#define UCT_TEST_IB_TLS WIMM_TEST_TL

#undef UCT_TEST_NO_SELF_TLS
#define UCT_TEST_NO_SELF_TLS WIMM_TEST_TL

#undef UCT_TEST_NO_GPU_MEM_TYPE_TLS
#define UCT_TEST_NO_GPU_MEM_TYPE_TLS WIMM_TEST_TL

#undef UCT_TEST_TLS
#define UCT_TEST_TLS WIMM_TEST_TL

#undef UCT_INSTANTIATE_RC_TEST_CASE
#define UCT_INSTANTIATE_RC_TEST_CASE(_test_case) \
  _UCT_INSTANTIATE_TEST_CASE(_test_case, WIMM_TEST_TL)

#undef UCT_INSTANTIATE_RC_DC_TEST_CASE
#define UCT_INSTANTIATE_RC_DC_TEST_CASE(_test_case) \
  _UCT_INSTANTIATE_TEST_CASE(_test_case, WIMM_TEST_TL)


/* Some tests are for rc_verbs only, or do something special for it, and compare
 * the name of the transport to find out. These operators are taken before those
 * of the standard library, which are templates. What is asked for is on the
 * right: a search for WIMM_TEST_TL does not find rc_verbs. */
static inline bool wimm_test_tl_matches(const std::string &name,
                                        const std::string &wanted)
{
    return (name.compare(wanted) == 0) ||
           ((name.compare(UCS_PP_MAKE_STRING(WIMM_TEST_TL)) == 0) &&
            (wanted.compare("rc_verbs") == 0));
}

static inline bool operator==(const std::string &name,
                              const std::string &wanted)
{
    return wimm_test_tl_matches(name, wanted);
}

static inline bool operator==(const std::string &name, const char *wanted)
{
    return wimm_test_tl_matches(name, wanted);
}

static inline bool operator!=(const std::string &name,
                              const std::string &wanted)
{
    return !wimm_test_tl_matches(name, wanted);
}

static inline bool operator!=(const std::string &name, const char *wanted)
{
    return !wimm_test_tl_matches(name, wanted);
}

#endif
