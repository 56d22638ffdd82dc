/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_ENTITY_H_
#define WIMM_ENTITY_H_

#include "test_base.h"

extern "C" {
#include <uct/api/uct.h>
#include <ucs/async/async.h>
}

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>


/* The transport and device under test, and where they were found. WIMM_TEST_TL
 * and WIMM_TEST_DEVICE choose others than wimm on the first active device;
 * WIMM_TEST_PEER_DEVICE is a second device, for tests that need one. */
struct resource {
    uct_component_h component;
    std::string md_name;
    std::string tl_name;
    std::string dev_name;

    static std::string wanted_tl();

    /* Find it once. @return NULL, and a sentence, if there is none. */
    static const resource *find(std::string *reason);
    static const resource &get();
    static const resource *find_peer(std::string *reason);

    bool is_wimm() const
    {
        return tl_name == "wimm";
    }
};


/* Keys and values, as in UCX_WIMM_<key>=<value> */
typedef std::vector<std::pair<std::string, std::string>> config_list;


/* One side: a worker, a memory domain and an interface on it, and endpoints by
 * their index */
class entity {
  public:
    /* What the interface's error handler was called with */
    struct ep_error {
        uct_ep_h ep;
        ucs_status_t status;
    };

    typedef std::function<ucs_status_t(uct_ep_h, ucs_status_t)> err_func_t;
    typedef std::function<ucs_status_t(void *, size_t, unsigned)> am_func_t;

    /* How the interface is opened, besides its configuration */
    struct open_params {
        bool handle_errors     = true;
        bool progress          = true; /* Enabled by the constructor */
        size_t am_alignment    = 0;    /* 0 for UCX's own */
        std::string tl_name    = resource::get().tl_name;
        const resource *device = &resource::get();
        std::function<void(uct_md_h)> on_md_open; /* Before the interface */
    };

    entity(const config_list &config, const open_params &params);
    ~entity();

    entity(const entity &)            = delete;
    entity &operator=(const entity &) = delete;

    unsigned progress()
    {
        return uct_worker_progress(m_worker);
    }

    uct_iface_h iface() const
    {
        return m_iface;
    }

    /* Open one more interface on the worker and the memory domain of the side. The
     * caller closes it. */
    ucs_status_t open_iface(const config_list &config,
                            const open_params &params, uct_iface_h *iface_p);

    uct_md_h md() const
    {
        return m_md;
    }

    const uct_iface_attr_t &attr() const
    {
        return m_attr;
    }

    uct_ep_h ep(unsigned index = 0) const;

    /* Index of an endpoint, or -1 */
    int ep_index(uct_ep_h ep) const;

    void create_ep(unsigned index);
    void destroy_ep(unsigned index);
    void destroy_eps();

    /* What a peer, maybe in another process, needs to connect to an endpoint */
    std::vector<uint8_t> address(unsigned index) const;

    /* Connect one direction. Both sides have to. */
    void connect_to(unsigned index, const std::vector<uint8_t> &address);
    void connect_to(unsigned index, const entity &other, unsigned other_index);

    /* Create and connect both */
    static void connect(entity &a, unsigned a_index, entity &b,
                        unsigned b_index);

    /* The event descriptor of the interface. Progress this side alone until
     * nothing is left, and arm: as a program that is about to sleep. Sleep, and
     * tell whether there was an event. */
    int event_fd() const;
    void arm(unsigned events);
    bool wakes(int timeout_ms) const;

    void set_am_handler(uint8_t id, am_func_t func);
    void remove_am_handler(uint8_t id);

    std::vector<ep_error> errors;
    err_func_t on_error; /* Besides being recorded */

  private:
    static ucs_status_t error_cb(void *arg, uct_ep_h ep, ucs_status_t status);
    static ucs_status_t am_cb(void *arg, void *data, size_t length,
                              unsigned flags);
    void cleanup();

    uct_iface_params_t iface_params(const open_params &params);

    ucs_async_context_t *m_async;
    uct_worker_h m_worker;
    uct_md_h m_md;
    uct_iface_h m_iface;
    uct_iface_attr_t m_attr;
    std::map<unsigned, uct_ep_h> m_eps;
    std::map<uint8_t, std::unique_ptr<am_func_t>> m_am_funcs;
};


/* Registered memory of an entity, with a key for its peers */
class mapped_buffer {
  public:
    mapped_buffer(size_t size, const entity &owner, int fill = 0,
                  unsigned access = UCT_MD_MEM_ACCESS_ALL);
    ~mapped_buffer();

    mapped_buffer(const mapped_buffer &)            = delete;
    mapped_buffer &operator=(const mapped_buffer &) = delete;

    uint8_t *ptr(size_t offset = 0) const
    {
        return static_cast<uint8_t *>(m_ptr) + offset;
    }

    uint64_t addr(size_t offset = 0) const
    {
        return reinterpret_cast<uintptr_t>(ptr(offset));
    }

    size_t size() const
    {
        return m_size;
    }

    uct_mem_h memh() const
    {
        return m_memh;
    }

    uct_rkey_t rkey() const
    {
        return m_rkey.rkey;
    }

    uint64_t &u64(size_t index = 0) const
    {
        return reinterpret_cast<uint64_t *>(m_ptr)[index];
    }

    /* Fill with bytes that follow from a seed and their place; check them */
    void fill(uint64_t seed) const;
    void check(uint64_t seed, size_t length, size_t offset = 0) const;

    uct_iov_t iov(size_t length, size_t offset = 0) const;

  private:
    void *m_ptr;
    size_t m_size;
    uct_md_h m_md;
    uct_mem_h m_memh;
    uct_rkey_bundle_t m_rkey;
};


/* A completion object that counts its calls */
struct completion {
    explicit completion(int count = 1);

    completion(const completion &)            = delete;
    completion &operator=(const completion &) = delete;

    uct_completion_t uct;
    int called;

    bool done() const
    {
        return called > 0;
    }

    ucs_status_t status() const
    {
        return uct.status;
    }
};


/* What an active message carries first; its data need not be aligned */
static inline uint64_t u64_at(const void *data)
{
    uint64_t value;

    memcpy(&value, data, sizeof(value));
    return value;
}


uint8_t pattern_byte(uint64_t seed, size_t index);
std::vector<uint8_t> pattern(uint64_t seed, size_t length);

#endif
