/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_TEST_UCP_ENTITY_H_
#define WIMM_TEST_UCP_ENTITY_H_

#include "test_base.h"

#include <ucp/wimm/ucp_wimm.h>

#include <netinet/in.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>


/* How endpoints are made */
enum class connection {
    ADDRESS, /* By the address of the peer's worker */
    RDMACM,  /* By a listener; the connection manager is rdmacm */
    TCP      /* By a listener; the connection manager is tcp */
};

std::ostream &operator<<(std::ostream &os, connection conn);

/* The transports to use instead of wimm, of WIMM_TEST_TLS: notified puts are emulated over
 * them then, on any machine. nullptr: natively. */
const char *emulated_tls();

/* Whether UCX can tell of peers that fail there, and connect by a listener */
bool has_peer_failure();
bool has_listener();

/* The ways to connect that there are */
std::vector<connection> all_connections();


using config_list = std::vector<std::pair<std::string, std::string>>;


/* Notifications as the handler got them */
struct arrival {
    ucs_status_t status;
    uint32_t imm;
    size_t length;
    ucp_ep_h ep;
};


/* A context, a worker, and its endpoints */
class ucp_entity {
  public:
    struct params {
        uint64_t features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_TAG |
                            UCP_FEATURE_WAKEUP;
        ucs_thread_mode_t mode = UCS_THREAD_MODE_SINGLE;
        connection conn        = connection::ADDRESS;
        std::string device     = ""; /* "": that of the environment */
        config_list config;
        bool attach  = true;
        bool handler = true;                      /* That keeps all arrivals */
        bool emulate = emulated_tls() != nullptr; /* Allow it */
    };

    /* Of the active messages that emulate */
    static const unsigned am_id = 77;

    explicit ucp_entity(const params &p);
    ~ucp_entity();

    ucp_entity(const ucp_entity &)            = delete;
    ucp_entity &operator=(const ucp_entity &) = delete;

    ucp_worker_h worker() const
    {
        return m_worker;
    }

    ucp_context_h context() const
    {
        return m_context;
    }

    ucp_wimm_h wimm() const
    {
        return m_wimm;
    }

    /* The network of the device */
    const std::string &netdev() const
    {
        return m_netdev;
    }

    ucp_ep_h ep(size_t index = 0) const
    {
        return m_eps.at(index);
    }

    size_t num_eps() const
    {
        return m_eps.size();
    }

    void attach(bool with_handler = true);
    void detach();

    /* As a program that destroys its worker without detaching */
    void forget_wimm()
    {
        m_wimm = nullptr;
    }

    /* @return Whether something happened */
    unsigned progress();

    /* An endpoint to another one, not waiting until it is connected */
    ucp_ep_h connect_address(const ucp_entity &peer,
                             ucp_err_handling_mode_t mode);

    /* To a worker of another process */
    ucp_ep_h connect_remote(const void *address);

    void listen();
    ucp_ep_h connect_listener(const ucp_entity &peer,
                              ucp_err_handling_mode_t mode);

    /* Take it out of ours: somebody closes it */
    ucp_ep_h release_ep(size_t index = 0);

    /* The program's own idea of what a handler returns */
    std::function<ucs_status_t(const ucp_wimm_notification_t &)> on_arrival;

    std::deque<arrival> arrivals;
    std::vector<std::pair<ucp_ep_h, ucs_status_t>>
            errors; /* Of the error handler */

  private:
    static void error_cb(void *arg, ucp_ep_h ep, ucs_status_t status);
    static void accept_cb(ucp_conn_request_h request, void *arg);
    static ucs_status_t arrival_cb(void *arg, const ucp_wimm_notification_t *n);

    ucp_ep_params_t ep_params(ucp_err_handling_mode_t mode);
    ucp_ep_h create_ep(const ucp_ep_params_t &params);

    params m_params;
    std::string m_netdev;
    ucp_context_h m_context;
    ucp_worker_h m_worker;
    ucp_wimm_h m_wimm;
    ucp_listener_h m_listener;
    struct sockaddr_in m_addr; /* Of the listener, or to bind a client to */
    std::vector<ucp_ep_h> m_eps;
};


/* Memory that is registered with an entity */
class ucp_buffer {
  public:
    ucp_buffer(ucp_entity &e, size_t length,
               ucs_memory_type_t mem_type = UCS_MEMORY_TYPE_HOST);
    ~ucp_buffer();

    ucp_buffer(const ucp_buffer &)            = delete;
    ucp_buffer &operator=(const ucp_buffer &) = delete;

    char *ptr(size_t offset = 0) const
    {
        return m_ptr + offset;
    }

    uint64_t addr(size_t offset = 0) const
    {
        return reinterpret_cast<uint64_t>(m_ptr + offset);
    }

    size_t length() const
    {
        return m_length;
    }

    ucp_mem_h memh() const
    {
        return m_memh;
    }

    /* Bytes that tell places and seeds apart */
    void fill(unsigned seed, size_t offset, size_t length);
    void clear();

    /* @return Index of the first wrong byte, or the length */
    size_t check(unsigned seed, size_t offset, size_t length) const;

    /* The key as unpacked by an endpoint to the memory's entity. @note Destroyed with
     * the returned object. */
    using rkey_ptr = std::unique_ptr<ucp_rkey, void (*)(ucp_rkey_h)>;
    rkey_ptr unpack(ucp_ep_h ep) const;

  private:
    ucp_entity &m_entity;
    size_t m_length;
    char *m_ptr;
    ucp_mem_h m_memh;
};

#endif
