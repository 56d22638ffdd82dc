/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "uct_test.h"
#include "rc_state.h"

#include <algorithm>


/* The device is looked for once, before all tests: without one, they fail */
class device_environment : public ::testing::Environment {
  public:
    void SetUp() override
    {
        std::string reason;
        const resource *res = resource::find(&reason);

        if (res == nullptr) {
            fprintf(stderr, "%s\n", reason.c_str());
            exit(EXIT_FAILURE);
        }
        printf("transport %s on %s\n", res->tl_name.c_str(),
               res->dev_name.c_str());
    }
};

static ::testing::Environment *const device_env =
        ::testing::AddGlobalTestEnvironment(new device_environment());


imm_sink::imm_sink(entity &e, bool run) : m_entity(e), m_running(false)
{
    if (run) {
        start();
    }
}

imm_sink::~imm_sink()
{
    /* Once paused, it may outlive the interface */
    if (m_running) {
        pause();
    }
}

void imm_sink::start()
{
    m_running = true;
    EXPECT_OK(uct_wimm_iface_set_imm_handler(m_entity.iface(), handler, this));
}

void imm_sink::pause()
{
    m_running = false;
    EXPECT_OK(uct_wimm_iface_set_imm_handler(m_entity.iface(), NULL, NULL));
}

ucs_status_t imm_sink::handler(void *arg, uct_ep_h ep, uint32_t imm,
                               size_t length)
{
    imm_sink *self       = static_cast<imm_sink *>(arg);
    const notification n = { ep, self->m_entity.ep_index(ep), imm, length };

    self->got.push_back(n);
    if (self->on_imm) {
        self->on_imm(n);
    }
    return self->result;
}


void uct_test::TearDown()
{
    for (const auto &e : m_entities) {
        e->destroy_eps();
    }
    m_entities.clear();
    test_base::TearDown();
}

entity &uct_test::open(const config_list &config,
                       const entity::open_params &params)
{
    config_list all = { { "IB_RX_QUEUE_LEN", "256" } };

    all.insert(all.end(), config.begin(), config.end());
    m_entities.emplace_back(new entity(all, params));

    entity &e      = *m_entities.back();
    m_rx_total[&e] = rc_state::rx_in_use(e) + rc_state::rx_available(e);
    m_tx_total[&e] = rc_state::cq_available(e);
    return e;
}

void uct_test::close(entity &e)
{
    m_rx_total.erase(&e);
    m_tx_total.erase(&e);
    m_entities.erase(std::find_if(m_entities.begin(), m_entities.end(),
                                  [&](const std::unique_ptr<entity> &p) {
                                      return p.get() == &e;
                                  }));
}

void uct_test::open_pair(const config_list &config,
                         const entity::open_params &params)
{
    open(config, params);
    open(config, params);
    entity::connect(sender(), 0, receiver(), 0);
}

unsigned uct_test::progress()
{
    unsigned count = 0;

    for (const auto &e : m_entities) {
        count += e->progress();
    }
    return count;
}

void uct_test::progress_rounds(unsigned rounds)
{
    for (unsigned i = 0; i < rounds; ++i) {
        progress();
    }
}

bool uct_test::wait_for(const std::function<bool()> &cond, double timeout)
{
    const ucs_time_t deadline = ucs_get_time() + ucs_time_from_sec(timeout);

    while (!cond()) {
        if (ucs_get_time() > deadline) {
            ADD_FAILURE() << "did not happen within " << timeout << " s";
            return false;
        }
        progress();
    }
    return true;
}

void uct_test::progress_time(double seconds)
{
    const ucs_time_t end = ucs_get_time() + ucs_time_from_sec(seconds);

    while (ucs_get_time() < end) {
        progress();
    }
}

ucs_status_t uct_test::retry(const std::function<ucs_status_t()> &op)
{
    ucs_status_t status = UCS_ERR_NO_RESOURCE;

    wait_for([&]() {
        status = op();
        return status != UCS_ERR_NO_RESOURCE;
    });
    return status;
}

void uct_test::progress_one(entity &e, const std::function<bool()> &cond)
{
    const ucs_time_t deadline = ucs_get_time() + ucs_time_from_sec(30);

    while (!cond()) {
        e.progress();
        ASSERT_LT(ucs_get_time(), deadline);
    }
}

void uct_test::wait_sent(entity &e, unsigned index)
{
    completion comp;
    ucs_status_t status;

    progress_one(e, [&]() {
        status = uct_ep_flush(e.ep(index), 0, &comp.uct);
        return status != UCS_ERR_NO_RESOURCE;
    });
    progress_one(e,
                 [&]() { return (status != UCS_INPROGRESS) || comp.done(); });
    EXPECT_OK((status == UCS_INPROGRESS) ? comp.status() : status);
}

void uct_test::flush(entity &e, unsigned index)
{
    /* Kept, since a flush that does not end in time may end later */
    m_flush_comps.emplace_back(new completion());

    completion &comp    = *m_flush_comps.back();
    ucs_status_t status = retry(
            [&]() { return uct_ep_flush(e.ep(index), 0, &comp.uct); });

    if (status == UCS_INPROGRESS) {
        wait_for([&]() { return comp.done(); });
        status = comp.status();
    }
    ASSERT_OK(status);
}

int uct_test::rx_excess(const entity &e) const
{
    return static_cast<int>(rc_state::rx_in_use(e) +
                            rc_state::rx_available(e)) -
           static_cast<int>(m_rx_total.at(&e));
}

void uct_test::check_rx_accounting()
{
    progress_rounds();
    for (const auto &e : m_entities) {
        EXPECT_EQ(m_rx_total[e.get()],
                  rc_state::rx_in_use(*e) + rc_state::rx_available(*e))
                << "receive descriptors in use: " << rc_state::rx_in_use(*e)
                << ", to be posted: " << rc_state::rx_available(*e);
        EXPECT_LT(rc_state::rx_available(*e), rc_state::rx_batch(*e));
    }
}

void uct_test::check_tx_accounting(entity &e)
{
    /* rc_verbs waits for an event that some devices never raise */
    if (!resource::get().is_wimm()) {
        return;
    }

    /* Some sends may still be outstanding without a completion, control
     * messages for instance */
    EXPECT_TRUE(wait_for([&]() {
        return (uct_iface_flush(e.iface(), 0, NULL) == UCS_OK) &&
               (rc_state::cq_available(e) == m_tx_total[&e]) &&
               (rc_state::num_dead_qps(e) == 0);
    })) << "credits of the completion queue: "
        << rc_state::cq_available(e) << " of " << m_tx_total[&e]
        << ", queue pairs to destroy: " << rc_state::num_dead_qps(e);
}

size_t uct_test::pack_cb(void *dest, void *arg)
{
    const pack_arg *pack = static_cast<pack_arg *>(arg);

    for (size_t i = 0; i < pack->length; ++i) {
        static_cast<uint8_t *>(dest)[i] = pattern_byte(pack->seed, i);
    }
    return pack->length;
}
