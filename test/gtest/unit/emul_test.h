/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_EMUL_TEST_H_
#define WIMM_EMUL_TEST_H_

#include "recv_test.h"

#include <deque>
#include <list>
#include <map>
#include <memory>


/* A request of the program: a put, a flush or a close */
struct fake_op {
    uct_pending_req_t req; /* The library has a pointer to this */
    ucp_wimm_h wimm;
    ucp_ep_h ep;
    uint32_t imm           = 0;
    size_t length          = 0;
    unsigned num_puts      = 0;
    size_t pulled          = 0; /* Of the data, by messages */
    unsigned num_completed = 0;
    ucs_status_t status    = UCS_INPROGRESS;
    std::function<void()> on_complete; /* The program's callback */
};


/* An operation that UCP has not completed */
struct fake_request {
    std::string name; /* As in the list of calls */
    ucp_ep_h ep;
    ucp_send_nbx_callback_t cb;
    void *user_data;
    const void *header; /* Of a message: UCP reads it until it has completed */
    ucp_wimm_emul_hdr_t sent;
    bool completed;
    bool freed;
};


/*
 * UCP as the emulation calls it: it notes each call, and answers what the test wants. The
 * names of calls: "put IMM", "flush", "close", "PROBE", "HELLO SLOTS", "NOTIFY IMM LENGTH",
 * "SLOTS COUNT", "DATA IMM", "FLUSH", "FLUSHED", "BYE"; with " with BYTES at ADDRESS" behind those
 * that carry data; with "1:" before it for endpoint 1.
 */
class fake_ucp {
  public:
    typedef std::function<void(ucp_ep_h, const ucp_wimm_emul_hdr_t &)> am_t;

    fake_ucp();
    ~fake_ucp();

    fake_ucp(const fake_ucp &)            = delete;
    fake_ucp &operator=(const fake_ucp &) = delete;

    /* The next calls whose names begin with a word return these, then UCS_OK.
     * UCS_INPROGRESS: a request. */
    void answer(const std::string &word,
                std::initializer_list<ucs_status_t> statuses);

    /* All from now on, unless answer() says something else */
    void always(const std::string &word, ucs_status_t status);

    /* Complete the oldest request with that name. @return Whether there was one. */
    bool complete(const std::string &name, ucs_status_t status = UCS_OK);

    /* All, from the oldest */
    void complete_all(ucs_status_t status);

    /* The names of those that have not completed, from the oldest */
    std::vector<std::string> pending() const;

    ucs_status_ptr_t call(ucp_ep_h ep, const std::string &name,
                          ucp_send_nbx_callback_t cb, void *user_data,
                          const void *header = nullptr);

    void free(void *request);

    static fake_ucp *current;

    std::vector<std::string> calls;
    am_t on_am; /* Called inside of ucp_am_send_nbx() */
    std::function<std::string(ucp_ep_h)> name_of;
    std::function<void(ucp_ep_h)> on_closed;

  private:
    std::map<std::string, std::deque<ucs_status_t>> m_answers;
    std::map<std::string, ucs_status_t> m_always;
    std::list<fake_request> m_requests;
};


/*
 * The emulation over a worker, and a UCP, that only pretend
 */
class emul_test : public recv_test {
  public:
    typedef std::vector<std::string> strings;

    /* op_create() and op_complete() */
    fake_op *create_op(ucp_ep_h ep);

    void completed(fake_op *op);

    static emul_test *current;

    /* No transport puts: messages carry the data, 10 bytes each, to 1000 */
    bool by_am = false;

    /* Messages arrive inside of a call of the program, and not of progress */
    bool inside_of_a_call = false;

  protected:
    static const unsigned AM_ID = 17;

    void SetUp() override;
    void TearDown() override;

    /* Attach with an am_id; its peers get that many slots */
    ucs_status_t start(unsigned num_slots, unsigned am_id = AM_ID);

    /* A notified put. It completes at once if it is refused. */
    fake_op &put(uint32_t imm, size_t length = 8, unsigned index = 0,
                 unsigned num_puts = 1);

    /* A flush or close that goes through the chain. @return NULL if there is nothing to
     * go behind. */
    fake_op *barrier(ucp_wimm_chain_kind_t kind, unsigned index = 0);

    fake_op *flush(unsigned index = 0)
    {
        return barrier(UCP_WIMM_CHAIN_FLUSH, index);
    }

    fake_op *close(unsigned index = 0)
    {
        return barrier(UCP_WIMM_CHAIN_CLOSE, index);
    }

    /* A message arrives */
    void arrive(ucp_wimm_emul_op_t op, uint32_t imm = 0, uint64_t length = 0,
                unsigned index = 0, uint8_t flags = 0);

    void arrive(ucp_ep_h ep, const ucp_wimm_emul_hdr_t &hdr);

    void arrive(const void *header, size_t header_length, size_t length,
                uint64_t recv_attr, ucp_ep_h ep, void *data = nullptr);

    static ucp_wimm_emul_hdr_t hdr(unsigned op, uint32_t imm = 0,
                                   uint64_t length = 0, uint8_t flags = 0);

    void hello(unsigned slots, unsigned index = 0)
    {
        arrive(UCP_WIMM_EMUL_HELLO, slots, 0, index);
    }

    /* NOTIFYs of these arrive */
    void arrive(std::initializer_list<uint32_t> imms, unsigned index = 0);

    /* An endpoint whose peer has said hello. Nothing of it is in the list of calls. */
    void ready(unsigned slots, unsigned index = 0);

    /* UCP completes an operation */
    void complete(const std::string &name, ucs_status_t status = UCS_OK);

    /* What UCP was called for since it was asked last */
    strings took();

    /* How the operations ended since it was asked last: "IMM STATUS" */
    strings ended();

    static std::string end(uint32_t imm, ucs_status_t status = UCS_OK);

    /* Both sides of an endpoint, or NULL */
    ucp_wimm_emul_t *emul(unsigned index = 0);

    unsigned slots(unsigned index = 0);

    /* Progress until there is nothing to do */
    void settle();

    /* UCP frees an endpoint, which is no event. Its memory stays as it was. */
    void freed_unseen(unsigned index);

    /* As ucp_wimm_detach() does. @return Whether it is parked. */
    int park();

    /* As ucp_wimm_attach() does with one that is parked */
    void resume();

    /* As ucp_wimm_forget() does */
    void forget();

    fake_ucp m_ucp;

  private:
    int index_of(ucp_ep_h ep);

    std::vector<std::unique_ptr<fake_op>> m_ops;
    strings m_ended;
    std::vector<ucp_wimm_ep_t *> m_refs; /* They outlive their emulation */
    bool m_forgotten = false;
};

#endif
