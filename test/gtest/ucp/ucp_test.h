/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_TEST_UCP_TEST_H_
#define WIMM_TEST_UCP_TEST_H_

#include "ucp_entity.h"

#include <chrono>


/* A request's parameters and what its callback said */
struct put_request {
    ucs_status_ptr_t ptr   = nullptr;
    ucs_status_t status    = UCS_INPROGRESS;
    unsigned num_callbacks = 0;
    std::function<void()> on_done;

    ucp_request_param_t param();

    static void callback(void *request, ucs_status_t status, void *arg);

    bool is_done() const
    {
        return !UCS_PTR_IS_PTR(ptr) || (num_callbacks > 0);
    }

    /* Also what was returned at once */
    ucs_status_t result() const
    {
        return UCS_PTR_IS_PTR(ptr) ? status : UCS_PTR_STATUS(ptr);
    }
};


/* Failures are told soon, and by the operation that fails: UCP's keepalive, which would
 * find them too, is off */
config_list config_that_fails_soon();


/* Entities in one process, over a device. With WIMM_TEST_PEER_DEVICE each has a device
 * of its own, and packets cross the network between these. */
class ucp_test : public test_base {
  protected:
    void TearDown() override;

    /* Tests that do not say how they connect do it so: WIMM_TEST_CONNECTION=rdmacm or
     * tcp runs them over a listener, and then they begin connected */
    virtual connection default_connection() const;

    ucp_entity &create(const ucp_entity::params &p);

    /* Two of them, with endpoints to each other if that is two-sided */
    void create_pair(ucp_entity::params p         = {},
                     ucp_err_handling_mode_t mode = UCP_ERR_HANDLING_MODE_PEER,
                     bool two_sided               = false);

    /* An endpoint from one to the other; waits for nothing but the listener */
    void connect(ucp_entity &from, ucp_entity &to,
                 ucp_err_handling_mode_t mode);

    ucp_entity &sender()
    {
        return *m_entities.at(0);
    }

    ucp_entity &receiver()
    {
        return *m_entities.at(m_entities.size() > 1);
    }

    ucp_entity &entity(size_t index)
    {
        return *m_entities.at(index);
    }

    void progress();

    /* Progress all until a condition; fails the test after some time */
    bool wait_for(const std::function<bool()> &condition, double seconds = 120);
    bool wait_arrivals(ucp_entity &e, size_t count);

    /* Wait for a request, and free it. @return Its status. */
    ucs_status_t wait(ucs_status_ptr_t request);
    ucs_status_t wait(put_request &r);

    /* Until the endpoint uses the way that it will: natively, unless WIMM_TEST_TLS says
     * otherwise */
    bool wait_way(ucp_entity &e, size_t ep_index = 0);

    ucp_wimm_ep_attr_t ep_query(ucp_entity &e, size_t ep_index = 0);

    ucs_status_t flush(ucp_entity &e, size_t ep_index = 0);
    ucs_status_t close(ucp_entity &e, size_t ep_index = 0, unsigned flags = 0);

    /* All endpoints of an entity */
    void close_by_force(ucp_entity &e);

    /* What UCX logs when an endpoint fails is expected */
    void allow_failure();

    /* What a record or counter tells of a failed endpoint, of which UCX told another
     * status: emulated it is that of the operation that failed */
    static void expect_failure(ucs_status_t told, ucs_status_t status);

    /* A put to that address fails, and its endpoint with it, at the latest when cut() was
     * called. Natively the peer refuses an address that the key is not for. UCX that
     * emulates puts does not look, there the connection is cut. */
    static uint64_t bad_address(const ucp_buffer &dst);
    static void cut();
    static void cut_tcp();

    /* A length that is not complete when it is posted */
    size_t long_put();

    /* A notification from the first endpoint that the peer gets and forgets: it is known to
     * be there then */
    void greet(ucp_entity &from, ucp_entity &to);

    /* Have the first endpoint fail, by such a put. Calls nothing of this library but
     * that. */
    void fail_endpoint(ucp_entity &from, ucp_entity &to, const ucp_buffer &src,
                       const ucp_buffer &dst);

    ucp_wimm_attr_t query(ucp_entity &e);

    /* Soft-RoCE reports no GID for these datagrams. The key of an auxiliary transport
     * is none that ucp_config_modify() knows. */
    std::unique_ptr<scoped_env> m_dgid_check{
        (emulated_tls() != nullptr) ?
                nullptr :
                new scoped_env("UCX_UD_VERBS_ETH_DGID_CHECK", "n")
    };
    std::vector<std::unique_ptr<ucp_entity>> m_entities;
};


/* Over each way to connect */
class ucp_conn_test : public ucp_test,
                      public ::testing::WithParamInterface<connection> {
  protected:
    connection default_connection() const override
    {
        return GetParam();
    }

    ucp_entity::params conn_params() const
    {
        ucp_entity::params p;

        p.conn = GetParam();
        return p;
    }

    void SetUp() override
    {
        ucp_test::SetUp();
        create_pair(conn_params());
    }
};

#define UCP_CONN_TESTS(_name)                                    \
  INSTANTIATE_TEST_SUITE_P(                                      \
          all, _name, ::testing::ValuesIn(all_connections()),    \
          [](const ::testing::TestParamInfo<connection> &info) { \
        return ::testing::PrintToString(info.param);             \
          })

#endif
