/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_ALLOC_FAULT_H_
#define WIMM_ALLOC_FAULT_H_

#include <functional>
#include <string>
#include <vector>


/*
 * Makes one allocation of memory fail: the nth of those that wimm makes in the
 * calls that it runs, itself or through a function of UCX or of verbs that wimm has
 * called.
 * Those that tests make are not counted, and those in functions of UCX that do not
 * survive it (docs/testing.md).
 */
class alloc_fault {
  public:
    /* 0 only counts */
    explicit alloc_fault(unsigned nth);

    alloc_fault(const alloc_fault &)            = delete;
    alloc_fault &operator=(const alloc_fault &) = delete;

    /* Only what is called in here may fail */
    void run(const std::function<void()> &func);

    /* Whether there was one that failed */
    bool happened() const
    {
        return (m_nth != 0) && (m_count >= m_nth);
    }

    unsigned count() const
    {
        return m_count;
    }

    /* The functions that led to the one that failed, the innermost first */
    const std::string &where() const
    {
        return m_where;
    }

    /* What was allocated since the last one was made, and is not free yet: by the
     * functions that led to it */
    static std::vector<std::string> live();

    /* Whether this build can do it */
    static bool is_available();

    /* Before an allocation of the process: what to do with it */
    enum verdict_t {
        IGNORE,
        WATCH,
        FAIL
    };

    static verdict_t judge();

  private:
    static thread_local alloc_fault *m_current;

    unsigned m_nth;
    unsigned m_count = 0;
    std::string m_where;
};

#endif
