/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_UCT_TEST_H_
#define WIMM_UCT_TEST_H_

#include "entity.h"

#include <uct/ib/wimm/wimm.h>

#include <functional>
#include <memory>
#include <map>
#include <vector>


/* Skip what the base transports do not have, in a comparison with them */
#define WIMM_ONLY()                                  \
  do {                                               \
    if (!resource::get().is_wimm()) {                \
      GTEST_SKIP() << "only for the transport wimm"; \
    }                                                \
  } while (0)


/* What an interface received by notified puts, in order. While paused, there is
 * no handler. */
class imm_sink {
  public:
    struct notification {
        uct_ep_h ep;
        int ep_index;
        uint32_t imm;
        size_t length;
    };

    typedef std::function<void(const notification &)> func_t;

    /* What the handler returns */
    ucs_status_t result = UCS_OK;

    explicit imm_sink(entity &e, bool start = true);
    ~imm_sink();

    imm_sink(const imm_sink &)            = delete;
    imm_sink &operator=(const imm_sink &) = delete;

    void start();
    void pause();

    size_t count() const
    {
        return got.size();
    }

    std::vector<notification> got;
    func_t on_imm; /* Besides being recorded */

  private:
    static ucs_status_t handler(void *arg, uct_ep_h ep, uint32_t imm,
                                size_t length);

    entity &m_entity;
    bool m_running;
};


/* Fixture: any number of sides, on one device */
class uct_test : public test_base {
  protected:
    void TearDown() override;

    /* Open a side. Its interface has short queues, unless @a config says other:
     * that is quick to open, and shows the edges. */
    entity &open(const config_list &config         = config_list(),
                 const entity::open_params &params = entity::open_params());
    void close(entity &e);

    /* Open two sides with connected endpoints 0 */
    void open_pair(const config_list &config         = config_list(),
                   const entity::open_params &params = entity::open_params());

    entity &sender() const
    {
        return *m_entities.at(0);
    }

    entity &receiver() const
    {
        return *m_entities.at(1);
    }

    /* Without an error handler */
    static entity::open_params no_error_handler()
    {
        entity::open_params params;

        params.handle_errors = false;
        return params;
    }

    unsigned progress();

    /* Progress for some rounds, in which nothing is to happen */
    void progress_rounds(unsigned rounds = 200);

    /* Progress until a condition holds. Fails the test after some time. */
    bool wait_for(const std::function<bool()> &cond, double timeout = 30);

    /* Progress for a time; for what must not happen within it */
    void progress_time(double seconds);

    /* Do an operation again as long as it has no resources */
    ucs_status_t retry(const std::function<ucs_status_t()> &op);

    void flush(entity &e, unsigned index = 0);

    /* Progress of one side until something holds, while the other one sleeps */
    static void progress_one(entity &e, const std::function<bool()> &cond);

    /* What the side has posted has arrived */
    static void wait_sent(entity &e, unsigned index = 0);

    /* Receive descriptors that are in use beyond the receive queue's length */
    int rx_excess(const entity &e) const;

    /* All receives that arrived are posted again, none is lost */
    void check_rx_accounting();

    /* All that was posted was completed, and destroyed queue pairs are gone */
    void check_tx_accounting(entity &e);

    static size_t pack_cb(void *dest, void *arg);

    std::vector<std::unique_ptr<entity>> m_entities;

  private:
    std::vector<std::unique_ptr<completion>> m_flush_comps;
    std::map<const entity *, unsigned> m_rx_total;
    std::map<const entity *, int> m_tx_total;
};


/* Argument of uct_test::pack_cb() */
struct pack_arg {
    uint64_t seed;
    size_t length;
};

#endif
