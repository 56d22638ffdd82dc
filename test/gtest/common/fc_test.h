/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_FC_TEST_H_
#define WIMM_FC_TEST_H_

#include "fc_state.h"
#include "imm_test.h"

#include <memory>
#include <numeric>
#include <string>
#include <vector>


/* Fixture of the tests of flow control */
class fc_test : public imm_test {
  protected:
    enum traffic {
        ONLY_IMM,
        ONLY_AM,
        MIXED
    };

    /* Messages on all endpoints from one side to another, which have the same
     * indexes on both. Those of an endpoint are numbered through, whatever their
     * kind, and have to arrive in that order. */
    class flow {
      public:
        flow(entity &from, entity &to, unsigned num_eps, traffic kind);
        ~flow();

        flow(const flow &)            = delete;
        flow &operator=(const flow &) = delete;

        /* The next message of an endpoint */
        ucs_status_t post(unsigned index);

        /* On all endpoints in turn, until none takes any more, or each has sent
         * so many. @return How many were posted. */
        unsigned post_all(uint32_t limit = UINT32_MAX);

        /* More endpoints were connected */
        void grow(unsigned num_eps);

        entity &from() const
        {
            return m_from;
        }

        unsigned num_eps() const
        {
            return m_sent.size();
        }

        /* Whether no endpoint can send any more now */
        bool is_stuck() const;

        /* Whether all that was sent has arrived, and each endpoint has sent so
         * many */
        bool is_done(uint32_t count = 0) const;

        uint32_t sent(unsigned index = 0) const
        {
            return m_sent[index];
        }

        uint32_t got(unsigned index = 0) const
        {
            return m_got[index];
        }

        /* How many have arrived on all endpoints */
        uint32_t total() const
        {
            return std::accumulate(m_got.begin(), m_got.end(), 0u);
        }

        /* What arrives, where there are notifications in it */
        imm_sink &sink()
        {
            return *m_sink;
        }

      private:
        bool next_is_am(unsigned index) const;
        void received(unsigned index, uint32_t number);

        entity &m_from;
        entity &m_to;
        traffic m_kind;
        std::vector<uint32_t> m_sent;
        std::vector<uint32_t> m_got;
        std::unique_ptr<imm_sink> m_sink;
    };

    void SetUp() override
    {
        imm_test::SetUp();
        m_rnr = rc_state::device_num_rnr();
    }

    /* RNRs since the test began */
    uint64_t num_rnr() const
    {
        return rc_state::device_num_rnr() - m_rnr;
    }

    /* Two sides of a number of endpoints. For a queue length or a window of 0,
     * the default holds. */
    void open_sides(unsigned num_eps, unsigned rx_queue_len = 0,
                    unsigned wnd_size = 0, config_list config = config_list());
    void connect_sides(unsigned first, unsigned end);

    /* One side makes no progress, while the other sends all that it can: until it
     * has no credits left and all has arrived, or RNR occurs. Then it goes on for
     * a time. */
    void stall(flow &there, flow &back, double seconds = 0);

    /* Both sides progress, until each endpoint has sent so many, and all has
     * arrived */
    void exchange(const std::vector<flow *> &flows, uint32_t count = 0);

    /* Send one by one until the peer has just been granted as much as it gets.
     * That is the most that an idle endpoint can hold. */
    void fill_window(flow &f, unsigned index);

    static uct_wimm_iface_attr_t rx_queue(const entity &e)
    {
        uct_wimm_iface_attr_t attr = {};

        attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_RX_QUEUE;
        EXPECT_OK(uct_wimm_iface_query(e.iface(), &attr));
        return attr;
    }

    static const uint8_t am_id = 5;

  private:
    uint64_t m_rnr;
};

#endif
