/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_HOSTILE_TEST_H_
#define WIMM_HOSTILE_TEST_H_

#include "raw_peer.h"

#include "../common/fc_test.h"

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>


/* Fixture: the receiver has a good peer on its endpoint 0 (the sender's 0), and raw
 * peers on others */
class hostile_test : public fc_test {
  protected:
    static const unsigned good      = 0;
    static const unsigned num_slots = 32;

    /* Both sides, and the device as it was before */
    void open_hostile(const config_list &config = config_list());

    /* A new endpoint of the receiver, connected with the raw peer. @return Its
     * index, which no other has had. */
    unsigned connect(raw_peer &peer, unsigned rnr_retry = 7,
                     unsigned credits = 100, unsigned slots = 100);

    /* Wait with progress of all sides and of the raw peer */
    bool wait_peer(raw_peer &peer, const std::function<bool()> &cond);

    /* All that was posted is answered, well or not */
    void wait_idle(raw_peer &peer);

    /* The connection was closed for what the peer did: one error */
    void check_closed(unsigned index,
                      ucs_status_t status = UCS_ERR_CONNECTION_RESET);

    /* It was not */
    void check_open(unsigned index);

    /* Puts both ways with the good peer, exactly those */
    void check_others();

    /* The endpoint of a raw peer goes, with what it has reported */
    void disconnect(unsigned index);

    /* The end of a scene: endpoints of raw peers go, and all is as before. The peers
     * may be gone. */
    void finish();

    /* Nothing is in use beyond what the configuration allows. Cheap. */
    void check_bounds();

    /* The same each time, and one that is never the same; or that of the environment */
    static std::vector<unsigned> seeds();
    static std::string seed_name(unsigned seed)
    {
        return "WIMM_TEST_SEED=" + std::to_string(seed);
    }

    std::set<unsigned> m_hostile; /* Endpoints of raw peers */

  private:
    unsigned m_next  = good + 1;
    int m_device_qps = 0;
};

#endif
