/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_RECV_TEST_H_
#define WIMM_RECV_TEST_H_

#include "../common/test_base.h"

extern "C" {
#include <ucp/wimm/ucp_wimm_emul.h>
#include <ucp/wimm/ucp_wimm_native.h>
}

#include <atomic>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <vector>


/* What the receiving side sees of a UCP endpoint */
struct fake_ep {
    bool open       = true; /* The program has it */
    bool closed     = false;
    bool failed     = false;
    bool told       = false; /* The program has got its error callback */
    bool marked     = false;
    bool no_lane    = false;   /* UCP chose another transport */
    bool queueing   = false;   /* UCP has notified puts in its own queue */
    uct_ep_h uct_ep = nullptr; /* Of the lane, once it is connected */

    ucp_ep_h handle()
    {
        return reinterpret_cast<ucp_ep_h>(this);
    }
};


/* What the receiving side sees of a UCP worker */
struct fake_worker {
    std::recursive_mutex lock;
    std::atomic<int> depth{ 0 }; /* How often it is locked */
    bool in_progress = false;
    std::vector<fake_ep *> eps;
    uint64_t events            = 0; /* Of endpoints */
    ucs_callback_t progress_cb = nullptr;
    void *progress_arg         = nullptr;

    bool has_am                  = true;  /* UCP_FEATURE_AM */
    bool has_wimm                = false; /* An interface of the transport */
    unsigned am_id               = 0;
    ucp_am_recv_callback_t am_cb = nullptr; /* Of am_id */
    void *am_arg                 = nullptr;

    unsigned num_progress = 0;
    unsigned num_updates  = 0;
    unsigned num_looks    = 0; /* At all endpoints */
    unsigned num_infos    = 0; /* About one */

    std::function<void()> on_progress; /* Called with it unlocked */
    std::function<void()> on_update;

    ucp_worker_h handle()
    {
        return reinterpret_cast<ucp_worker_h>(this);
    }
};


/* A connection */
struct fake_peer {
    ucp_wimm_peer_t super;
    int id;
    std::vector<int> *slots; /* Gets the id when a slot is given back */
    unsigned num_released;

    fake_peer(ucp_wimm_h wimm, ucp_ep_h ep, int id, std::vector<int> *slots);
    ~fake_peer();

    fake_peer(const fake_peer &)            = delete;
    fake_peer &operator=(const fake_peer &) = delete;

    /* It is that of an endpoint */
    void set_ep(ucp_ep_h ep);

    /* UCP gives it up */
    void purge(ucs_status_t status);

    /* The connection is gone */
    void disconnect();

  private:
    bool m_connected = true;
};


/* The nth of the next allocations of the library fails; 0: none does */
class alloc_nth {
  public:
    explicit alloc_nth(unsigned nth);
    ~alloc_nth();

    alloc_nth(const alloc_nth &)            = delete;
    alloc_nth &operator=(const alloc_nth &) = delete;

    /* How many there were */
    static unsigned count();
};


/*
 * The receiving side of libucp_wimm over a worker that only pretends
 */
class recv_test : public test_base {
  public:
    typedef std::function<ucs_status_t(const ucp_wimm_notification_t &)>
            handler_t;

  protected:
    void SetUp() override;
    void TearDown() override;

    ucp_wimm_h wimm()
    {
        return &m_wimm;
    }

    /* An endpoint of the worker, created when it is asked for */
    ucp_ep_h ep(unsigned index);

    fake_ep &fake(unsigned index)
    {
        return m_eps[index];
    }

    /* As a connection does */
    ucs_status_t notify(fake_peer &peer, uint32_t imm, size_t length = 0);

    /* From a peer without an endpoint. @return Whether each one was consumed. */
    std::vector<bool> notify(std::initializer_list<uint32_t> imms);

    /* Report a failure; NULL: of an endpoint that was closed since */
    void fail(ucp_ep_h ep, ucs_status_t status);

    /* An endpoint fails, as far as UCP tells */
    void ucp_fails(unsigned index);

    /* UCP frees an endpoint that was closed, or that the program never had */
    void ep_freed(ucp_ep_h ep);

    /* The program closes an endpoint, and its memory is free */
    void ep_closed(ucp_ep_h ep);

    /* What ucp_worker_progress() calls */
    unsigned progress();

    void set_handler(const handler_t &handler);

    std::vector<ucp_wimm_notification_t> poll(unsigned max = 1000);

    /* The immediates that are in the queue, which is empty then */
    std::vector<uint32_t> queued();

    ucp_wimm_counter_h counter(const ucp_wimm_counter_params_t *params);

    ucp_wimm_counter_h match(uint32_t value, uint32_t mask,
                             uint64_t expected = 1, uint32_t flags = 0);

    ucp_wimm_counter_h bound(ucp_ep_h ep, uint64_t expected = 1);

    void destroy(ucp_wimm_counter_h counter);

    /* As attaching and detaching do */
    void attach();

    void detach();

    static uint64_t read(ucp_wimm_counter_h counter);

    fake_worker m_worker;
    std::vector<int> m_slots; /* In the order in which they were given back */

  private:
    static ucs_status_t handler_cb(void *arg,
                                   const ucp_wimm_notification_t *notification);

    struct ucp_wimm m_wimm;
    handler_t m_handler;
    std::vector<ucp_wimm_counter_h> m_counters;
    fake_ep m_eps[16];
};


/* A record as a test compares it */
struct record {
    ucs_status_t status;
    uint32_t imm;
    size_t length;
    ucp_ep_h ep;

    record(ucs_status_t status, uint32_t imm, size_t length, ucp_ep_h ep)
        : status(status), imm(imm), length(length), ep(ep)
    {
    }

    record(const ucp_wimm_notification_t &n)
        : record(n.status, n.imm, n.length, n.ep)
    {
    }

    bool operator==(const record &other) const
    {
        return (status == other.status) && (imm == other.imm) &&
               (length == other.length) && (ep == other.ep);
    }
};

static inline std::ostream &operator<<(std::ostream &os, const record &r)
{
    return os << status_str(r.status) << " imm " << r.imm << " length "
              << r.length << " ep " << static_cast<void *>(r.ep);
}

typedef std::vector<record> records;

static inline records to_records(const std::vector<ucp_wimm_notification_t> &ns)
{
    return records(ns.begin(), ns.end());
}

#endif
