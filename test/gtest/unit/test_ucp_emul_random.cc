/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <algorithm>
#include <cstdio>
#include <random>


/*
 * Puts of one endpoint, while UCP completes and refuses what it likes, in any order. A
 * model of what is promised looks at each call.
 */
class test_ucp_emul_random : public emul_test {
  protected:
    struct model {
        unsigned num_left; /* Puts of it that have not completed */
        unsigned issued;   /* When; 0 if it is not */
        unsigned covered;  /* By which flush; 0 if by none */
        bool flushed;
        bool failed;
        bool notified;
        bool ended;
    };

    unsigned random(unsigned max)
    {
        return m_random() % max;
    }

    /* Well, or failed; it takes longer but one time of so many */
    ucs_status_t random_status(unsigned of)
    {
        const ucs_status_t status = random(3) ? UCS_OK : UCS_ERR_NO_MEMORY;

        return random(of) ? UCS_INPROGRESS : status;
    }

    /* How UCP answers until the next step */
    void choose()
    {
        m_put    = random_status(4);
        m_flush  = random_status(4);
        m_notify = random_status(2);
        m_ucp.always("put", m_put);
        m_ucp.always("flush", m_flush);
        m_ucp.always("NOTIFY", m_notify);
    }

    void end_of(const fake_op &op)
    {
        m_ucp.calls.push_back("end " + std::to_string(op.imm) +
                              ((op.status == UCS_OK) ? " good" : " bad"));
    }

    void issue()
    {
        unsigned imm   = m_models.size();
        unsigned count = 1 + random(3);

        m_models.push_back(model{ count, 0, 0, false, false, false, false });

        fake_op &op = put(imm, 8 * count, 0, count);
        if (op.num_completed > 0) {
            end_of(op);
        } else {
            op.on_complete = [this, &op]() { end_of(op); };
        }
    }

    void put_completed(unsigned imm, ucs_status_t status)
    {
        ASSERT_GT(m_models[imm].num_left, 0u);
        --m_models[imm].num_left;
        m_models[imm].failed |= (status != UCS_OK);
    }

    /* It covers those whose puts have completed, up to the first one that is not */
    void flush_begins(unsigned begin)
    {
        m_flush_begin = begin;
        for (model &m : m_models) {
            if (m.ended || m.notified) {
                continue;
            } else if ((m.issued == 0) || (m.num_left > 0)) {
                break;
            }
            m.covered = begin;
        }
    }

    /* If it failed, nobody knows about those that it covers */
    void flush_completed(unsigned begin, ucs_status_t status)
    {
        for (model &m : m_models) {
            if (m.covered == begin) {
                m.flushed |= (status == UCS_OK);
                m.failed |= (status != UCS_OK) && !m.notified;
            }
        }
    }

    void complete_one()
    {
        strings names       = m_ucp.pending();
        ucs_status_t status = random(8) ? UCS_OK : UCS_ERR_IO_ERROR;
        std::string name;
        unsigned imm;

        EXPECT_LE(std::count(names.begin(), names.end(), "flush"), 1);
        if (names.empty()) {
            return;
        }

        name = names[random(names.size())];
        if (sscanf(name.c_str(), "put %u", &imm) == 1) {
            put_completed(imm, status);
        } else if (name == "flush") {
            flush_completed(m_flush_begin, status);
        } else {
            status = UCS_OK; /* Or the endpoint would have failed */
        }
        complete(name, status);
    }

    void check(const std::string &call)
    {
        char result[8] = "";
        unsigned imm;

        ++m_time;
        if (call == "flush") {
            flush_begins(m_time);
            if (m_flush != UCS_INPROGRESS) {
                flush_completed(m_time, m_flush);
            }
            return;
        }

        ASSERT_LE(1, sscanf(call.c_str(), "%*s %u%*c%7s", &imm, result));
        model &m = m_models.at(imm);
        if (call[0] == 'p') {
            if (m.issued == 0) {
                EXPECT_EQ(m_num_issued++, imm); /* In order */
                m.issued = m_time;
            }
            if (m_put != UCS_INPROGRESS) {
                put_completed(imm, m_put);
            }
        } else if (call[0] == 'N') {
            EXPECT_EQ(0u, m.num_left) << call;
            EXPECT_FALSE(m.failed) << call;
            EXPECT_TRUE(m.flushed) << call;
            EXPECT_GE(imm, m_next) << call; /* In order, and once */
            m.notified = true;
            m.failed   = UCS_STATUS_IS_ERR(m_notify);
            m_next     = imm + 1;
        } else {
            EXPECT_FALSE(m.ended) << call;
            EXPECT_EQ(0u, m.num_left) << call;
            EXPECT_EQ((m.failed || !m.notified) ? "bad" : "good",
                      std::string(result))
                    << call;
            EXPECT_TRUE(m.failed || m.notified) << call;
            m.ended = true;
            m_num_failed += m.failed;
        }
    }

    void check_all()
    {
        for (const std::string &call : took()) {
            check(call);
        }
        EXPECT_GE(m_num_slots, m_num_issued - m_num_failed);
        ASSERT_EQ(m_num_slots, slots() + m_num_issued - m_num_failed);
    }

    std::mt19937 m_random;
    std::vector<model> m_models;
    ucs_status_t m_put, m_flush, m_notify;
    unsigned m_time        = 0;
    unsigned m_flush_begin = 0; /* Of the one in flight */
    unsigned m_next        = 0; /* To be notified of */
    unsigned m_num_issued  = 0;
    unsigned m_num_failed  = 0;
    unsigned m_num_slots   = 0; /* That the peer gave */
};


TEST_F(test_ucp_emul_random, keeps_what_is_promised)
{
    start(8);
    m_num_slots = 5;
    emul();
    hello(m_num_slots);
    emul()->num_slots = UINT_MAX; /* More come back than were used */
    for (unsigned i = 0; (i < 5000) && !HasFailure(); ++i) {
        choose();
        if (random(4) == 0) {
            issue();
        } else if (random(10) == 0) {
            ++m_num_slots;
            arrive(UCP_WIMM_EMUL_SLOTS, 1);
        } else {
            complete_one();
        }
        check_all();
    }

    while (!m_ucp.pending().empty() && !HasFailure()) {
        choose();
        complete_one();
        check_all();
    }

    m_num_slots += m_models.size();
    arrive(UCP_WIMM_EMUL_SLOTS, m_models.size());
    check_all();
    while (!m_ucp.pending().empty() && !HasFailure()) {
        choose();
        complete_one();
        check_all();
    }
    EXPECT_TRUE(std::all_of(m_models.begin(), m_models.end(),
                            [](const model &m) { return m.ended; }));
    EXPECT_GT(m_num_failed, 100u);
    EXPECT_GT(m_models.size() - m_num_failed, 100u);
}
