/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_FAULTS_TRAFFIC_H_
#define WIMM_FAULTS_TRAFFIC_H_

#include "transport.h"


/*
 * The process of one side: posts notified puts on all endpoints, checks those of the peer,
 * counts both, and does what it is told. It ends the process that it is in.
 */
class traffic {
  public:
    traffic(ledger *shared, unsigned side);

    traffic(const traffic &)            = delete;
    traffic &operator=(const traffic &) = delete;

    int run();

  private:
    side_state &my() const
    {
        return m_shared->sides[m_side];
    }

    static ucs_log_func_rc_t log_handler(
            const char *file, unsigned line, const char *function,
            ucs_log_level_t level, const ucs_log_component_config_t *comp_conf,
            const char *message, va_list ap);

    void open();
    void complain(const std::string &text) const;

    /* @return Whether there is more to come */
    bool obey();
    void publish();
    void connect();
    void flush();
    bool all_ended() const;
    void end();

    void post_some(unsigned index);
    void ended(stream_counts &s, unsigned index, uint64_t number,
               ucs_status_t status, bool acked);
    void post_bad();
    void arrived(uint32_t imm, size_t length);

    static traffic *m_current;

    ledger *m_shared;
    unsigned m_side;
    std::unique_ptr<transport> m_transport;
    bool m_connected, m_paused, m_in_open;
    std::vector<bool> m_refused;           /* By endpoint: it takes no more */
    std::vector<std::vector<bool>> m_busy; /* Places that are being sent */
};

#endif
