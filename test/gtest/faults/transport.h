/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_FAULTS_TRANSPORT_H_
#define WIMM_FAULTS_TRANSPORT_H_

#include "ledger.h"

#include "../common/rc_state.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>


/* One side of the traffic, by the calls of UCT or of UCP. Its endpoints are numbered alike
 * at both sides. Offsets are those of a place in the memory of the sides, which is alike, too. */
class transport {
  public:
    /* How it ended, and whether the peer's device has said that it arrived */
    typedef std::function<void(ucs_status_t, bool acked)> done_func_t;

    /* @throw std::runtime_error if UCX refuses */
    static std::unique_ptr<transport> create_uct(const std::string &device);
    static std::unique_ptr<transport> create_ucp(const std::string &device);

    virtual ~transport()
    {
    }

    /* What the peer needs to connect */
    virtual std::vector<uint8_t> address() = 0;

    virtual void connect(const std::vector<uint8_t> &address) = 0;

    /* @return UCS_OK: @a done is called some time, maybe before that. UCS_ERR_NO_RESOURCE:
     * to be tried again. Another error: of the endpoint. */
    virtual ucs_status_t post(unsigned index, size_t number, size_t offset,
                              size_t length, uint32_t imm, bool bad_address,
                              const done_func_t &done) = 0;

    virtual void progress() = 0;

    /* Until what was sent has arrived */
    virtual void flush() = 0;

    /* What is outstanding is given up */
    virtual void close() = 0;

    virtual void check()
    {
    }

    virtual void deregister_dst() = 0;
    virtual void register_dst()   = 0;

    /* Without endpoints. @return What is left of them, "" if nothing is. */
    virtual std::string leftover() = 0;

    uint8_t *src(size_t offset) const
    {
        return m_src + offset;
    }

    const uint8_t *dst(size_t offset) const
    {
        return m_dst + offset;
    }

    std::function<void(uint32_t imm, size_t length)> on_arrival;
    std::function<void(ucs_status_t)> on_failure; /* Once for each endpoint */

  protected:
    static const size_t memory_size = num_eps * num_places * place_size;

    transport();

    /* As it is without endpoints. What was destroyed goes when its last completions have
     * come. @return How it differs after a while, "" if it does not. */
    void set_interface(uct_iface_h iface);
    std::string queues_leftover();

    /* @throw std::runtime_error if it is not UCS_OK */
    static void check_status(ucs_status_t status, const char *what);

    uint8_t *m_src; /* Live as long as the process */
    uint8_t *m_dst;

  private:
    uct_iface_h m_iface;
    rc_state::queues m_queues;
};

#endif
