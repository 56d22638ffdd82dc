/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "test_base.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>


test_base *test_base::m_current = nullptr;


test_base::test_base() : m_saved_level(ucs_global_opts.log_component.log_level)
{
}

std::string log_text(const char *message, va_list ap)
{
    char text[1024];
    va_list copy;

    va_copy(copy, ap);
    vsnprintf(text, sizeof(text), message, copy);
    va_end(copy);
    return text;
}

std::vector<std::string> command_lines(const std::string &command)
{
    std::vector<std::string> result;
    char line[1024];
    FILE *stream = popen(command.c_str(), "r");

    if (stream == nullptr) {
        return result;
    }
    while (fgets(line, sizeof(line), stream) != nullptr) {
        result.push_back(line);
    }
    pclose(stream);
    return result;
}

test_base::~test_base()
{
    ucs_global_opts.log_component.log_level = m_saved_level;
}

void test_base::SetUp()
{
    m_current = this;
    ucs_log_push_handler(log_handler);
}

void test_base::TearDown()
{
    ucs_log_pop_handler();
    m_current = nullptr;

    for (const std::string &text : m_unexpected) {
        ADD_FAILURE() << "unexpected log line: " << text;
    }

    for (const expectation &e : m_expected) {
        if (!e.required) {
            continue;
        }

        if (e.count == ANY) {
            EXPECT_GE(e.seen, 1) << "not logged: '" << e.part << "'";
        } else {
            EXPECT_EQ(e.count, e.seen) << "lines with '" << e.part << "'";
        }
    }
}

ucs_log_func_rc_t test_base::log_handler(const char *file, unsigned line,
                                         const char *, ucs_log_level_t level,
                                         const ucs_log_component_config_t *,
                                         const char *message, va_list ap)
{
    if (m_current == nullptr) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }

    return m_current->log_one(file, line, level, log_text(message, ap));
}

ucs_log_func_rc_t test_base::log_one(const char *file, unsigned line,
                                     ucs_log_level_t level,
                                     const std::string &text)
{
    std::lock_guard<std::mutex> guard(m_lock);

    m_lines.push_back({ level, text });

    for (expectation &e : m_expected) {
        if ((e.level == level) && (text.find(e.part) != std::string::npos)) {
            ++e.seen;
            return UCS_LOG_FUNC_RC_STOP;
        }
    }

    if (level > UCS_LOG_LEVEL_WARN) {
        return ((level > m_saved_level) && (level != UCS_LOG_LEVEL_PRINT)) ?
                       UCS_LOG_FUNC_RC_STOP :
                       UCS_LOG_FUNC_RC_CONTINUE;
    }

    m_unexpected.push_back(text + " [" + file + ":" + std::to_string(line) +
                           "]");
    return UCS_LOG_FUNC_RC_CONTINUE;
}

void test_base::expect_log(ucs_log_level_t level, const std::string &part,
                           int count)
{
    std::lock_guard<std::mutex> guard(m_lock);

    m_expected.push_back({ level, part, count, true, 0 });
}

void test_base::allow_log(ucs_log_level_t level, const std::string &part)
{
    std::lock_guard<std::mutex> guard(m_lock);

    m_expected.push_back({ level, part, ANY, false, 0 });
}

void test_base::log_level(ucs_log_level_t level)
{
    ucs_global_opts.log_component.log_level = level;
}

std::vector<std::string> test_base::logged(ucs_log_level_t level,
                                           const std::string &part)
{
    std::lock_guard<std::mutex> guard(m_lock);
    std::vector<std::string> result;

    for (const log_line &l : m_lines) {
        if ((l.level == level) && (l.text.find(part) != std::string::npos)) {
            result.push_back(l.text);
        }
    }
    return result;
}


scoped_env::scoped_env(const std::string &name, const std::string &value)
    : m_name(name)
{
    const char *old = getenv(name.c_str());

    m_was_set = (old != nullptr);
    if (m_was_set) {
        m_saved = old;
    }
    setenv(name.c_str(), value.c_str(), 1);
}

scoped_env::~scoped_env()
{
    if (m_was_set) {
        setenv(m_name.c_str(), m_saved.c_str(), 1);
    } else {
        unsetenv(m_name.c_str());
    }
}
