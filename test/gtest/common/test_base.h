/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_TEST_BASE_H_
#define WIMM_TEST_BASE_H_

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include <gtest/gtest.h>

extern "C" {
#include <ucs/debug/log.h>
#include <ucs/type/status.h>
}

#include <cstdarg>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>


/* In a failed assertion a status is shown as text */
static inline std::string status_str(ucs_status_t status)
{
    return std::string(ucs_status_string(status)) + " (" +
           std::to_string(static_cast<int>(status)) + ")";
}

/* The text of a message that UCX logs, in a handler of its log */
std::string log_text(const char *message, va_list ap);

/* What a command of the shell prints, by lines; none if it cannot be run */
std::vector<std::string> command_lines(const std::string &command);

#define EXPECT_STATUS(_expected, _actual) \
  EXPECT_EQ(status_str(_expected), status_str(_actual))

#define ASSERT_STATUS(_expected, _actual) \
  ASSERT_EQ(status_str(_expected), status_str(_actual))

#define EXPECT_OK(_actual) EXPECT_STATUS(UCS_OK, _actual)
#define ASSERT_OK(_actual) ASSERT_STATUS(UCS_OK, _actual)


/*
 * Base of all tests: sees what UCX and the module log.
 *
 * A warning or an error that the test did not announce fails the test. One that
 * it announced has to appear. A test announces before the line is logged.
 */
class test_base : public ::testing::Test {
  public:
    struct log_line {
        ucs_log_level_t level;
        std::string text;
    };

    /* Any number of lines, see expect_log() */
    static const int ANY = -1;

    test_base();
    ~test_base() override;

  protected:
    void SetUp() override;
    void TearDown() override;

    /* Announce lines of a level that contain a text: exactly @a count, or one
     * or more if @a count is ANY. More messages than the log level shows can be
     * announced only after log_level(). */
    void expect_log(ucs_log_level_t level, const std::string &part,
                    int count = 1);

    void expect_error(const std::string &part, int count = 1)
    {
        expect_log(UCS_LOG_LEVEL_ERROR, part, count);
    }

    /* Announce lines that may appear, or not */
    void allow_log(ucs_log_level_t level, const std::string &part);

    void allow_error(const std::string &part)
    {
        allow_log(UCS_LOG_LEVEL_ERROR, part);
    }

    /* Change UCX's log level until the end of the test */
    void log_level(ucs_log_level_t level);

    /* Lines of a level that were logged so far and contain a text */
    std::vector<std::string> logged(ucs_log_level_t level,
                                    const std::string &part = "");

  private:
    struct expectation {
        ucs_log_level_t level;
        std::string part;
        int count;
        bool required;
        int seen;
    };

    static ucs_log_func_rc_t log_handler(
            const char *file, unsigned line, const char *function,
            ucs_log_level_t level, const ucs_log_component_config_t *comp_conf,
            const char *message, va_list ap);

    ucs_log_func_rc_t log_one(const char *file, unsigned line,
                              ucs_log_level_t level, const std::string &text);

    static test_base *m_current;

    std::mutex m_lock; /* UCX logs from its async thread, too */
    std::vector<log_line> m_lines;
    std::vector<std::string> m_unexpected;
    std::vector<expectation> m_expected;
    ucs_log_level_t m_saved_level;
};


/* Set an environment variable for a scope */
class scoped_env {
  public:
    scoped_env(const std::string &name, const std::string &value);
    ~scoped_env();

    scoped_env(const scoped_env &)            = delete;
    scoped_env &operator=(const scoped_env &) = delete;

  private:
    std::string m_name;
    std::string m_saved;
    bool m_was_set;
};

#endif
