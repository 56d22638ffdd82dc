/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <endian.h>


namespace {

/* UCX_WIMM_NUM_SLOTS */
unsigned config_num_slots;

fake_worker *worker_of(ucp_worker_h worker)
{
    return reinterpret_cast<fake_worker *>(worker);
}

fake_ep *ep_of(ucp_ep_h ep)
{
    return reinterpret_cast<fake_ep *>(ep);
}

fake_op *op_of(uct_pending_req_t *req)
{
    return reinterpret_cast<fake_op *>(req);
}

std::string message_name(const ucp_wimm_emul_hdr_t &hdr)
{
    std::string imm = std::to_string(ntohl(hdr.imm));

    switch (hdr.op) {
    case UCP_WIMM_EMUL_PROBE:
        return "PROBE";
    case UCP_WIMM_EMUL_HELLO:
        return "HELLO " + imm;
    case UCP_WIMM_EMUL_NOTIFY:
        return "NOTIFY " + imm + " " + std::to_string(be64toh(hdr.length));
    case UCP_WIMM_EMUL_SLOTS:
        return "SLOTS " + imm;
    case UCP_WIMM_EMUL_DATA:
        return "DATA " + imm;
    case UCP_WIMM_EMUL_FLUSH:
        return "FLUSH";
    case UCP_WIMM_EMUL_FLUSHED:
        return "FLUSHED";
    case UCP_WIMM_EMUL_BYE:
        return "BYE";
    default:
        return "message " + std::to_string(hdr.op);
    }
}

ucs_status_ptr_t call(ucp_ep_h ep, const std::string &name,
                      const ucp_request_param_t *param,
                      const void *header = nullptr)
{
    EXPECT_TRUE(param->op_attr_mask & UCP_OP_ATTR_FIELD_CALLBACK);
    EXPECT_TRUE(param->op_attr_mask & UCP_OP_ATTR_FIELD_USER_DATA);
    return fake_ucp::current->call(ep, name, param->cb.send, param->user_data,
                                   header);
}

} // namespace


/*
 * What the library calls: in place of its own other half, and of UCP
 */
extern "C" {

int ucp_wimm_native_has_am(ucp_worker_h worker)
{
    return worker_of(worker)->has_am;
}

int ucp_wimm_native_has_am_handler(ucp_worker_h worker, unsigned id)
{
    EXPECT_LE(id, unsigned(UINT16_MAX));
    return (worker_of(worker)->am_cb != NULL) &&
           (worker_of(worker)->am_id == id);
}

ucs_status_t ucp_wimm_native_read_config(void *config,
                                         ucs_config_field_t *table)
{
    EXPECT_STREQ("NUM_SLOTS", table->name);
    *reinterpret_cast<unsigned *>(static_cast<char *>(config) +
                                  table->offset) = config_num_slots;
    return UCS_OK;
}

void ucp_wimm_native_for_each_iface(ucp_worker_h worker,
                                    void (*cb)(uct_iface_h, void *), void *arg)
{
    if (worker_of(worker)->has_wimm) {
        cb(NULL, arg);
    }
}

int ucp_wimm_native_ep_is_emulated(ucp_wimm_h, ucp_ep_h ep)
{
    return ep_of(ep)->no_lane && !ep_of(ep)->closed && !ep_of(ep)->failed;
}

int ucp_wimm_native_ep_is_queueing(ucp_wimm_h wimm, ucp_ep_h ep)
{
    /* It looks into the endpoint */
    EXPECT_TRUE(ucp_wimm_native_ep_is_of(wimm->worker, ep));
    return ep_of(ep)->queueing;
}

uct_pending_req_t *ucp_wimm_native_op_create(ucp_wimm_h wimm, ucp_ep_h ep,
                                             const ucp_request_param_t *param)
{
    if (param == NULL) {
        return NULL; /* A test wants it */
    }

    ++wimm->refcount;
    return &emul_test::current->create_op(ep)->req;
}

ucs_status_ptr_t ucp_wimm_native_op_return(uct_pending_req_t *req,
                                           const ucp_request_param_t *)
{
    return req;
}

void ucp_wimm_native_op_get(uct_pending_req_t *req, uint32_t *imm_p,
                            size_t *length_p)
{
    *imm_p    = op_of(req)->imm;
    *length_p = op_of(req)->length;
}

size_t ucp_wimm_native_ep_max_am(ucp_ep_h)
{
    return 8192;
}

int ucp_wimm_native_ep_has_puts(ucp_ep_h)
{
    return !emul_test::current->by_am;
}

int ucp_wimm_native_op_is_by_am(uct_pending_req_t *)
{
    return emul_test::current->by_am;
}

int ucp_wimm_native_op_pull(uct_pending_req_t *req, size_t max,
                            const void **ptr_p, size_t *length_p,
                            uint64_t *remote_addr_p)
{
    static const char bytes[256] = {};
    fake_op *op                  = op_of(req);

    EXPECT_TRUE(emul_test::current->by_am);
    EXPECT_EQ(UCP_WIMM_EMUL_MAX_DATA, max);
    *ptr_p         = &bytes[op->pulled];
    *length_p      = std::min<size_t>(op->length - op->pulled, 10);
    *remote_addr_p = 1000 + op->pulled;
    op->pulled += *length_p;
    return op->pulled == op->length;
}

size_t ucp_wimm_native_op_num_puts(uct_pending_req_t *req)
{
    return op_of(req)->num_puts;
}

ucs_status_ptr_t ucp_wimm_native_op_put(uct_pending_req_t *req, size_t index,
                                        ucp_send_nbx_callback_t cb)
{
    fake_op *op      = op_of(req);
    std::string name = "put " + std::to_string(op->imm);

    EXPECT_LT(index, op->num_puts);
    if (op->num_puts > 1) {
        name += "." + std::to_string(index);
    }
    return fake_ucp::current->call(op->ep, name, cb, req);
}

void ucp_wimm_native_op_complete(uct_pending_req_t *req, ucs_status_t status)
{
    fake_op *op = op_of(req);

    ++op->num_completed;
    op->status = status;
    emul_test::current->completed(op);
    ucp_wimm_put_ref(op->wimm);
}

ucs_status_ptr_t ucp_am_send_nbx(ucp_ep_h ep, unsigned, const void *header,
                                 size_t header_length, const void *buffer,
                                 size_t count, const ucp_request_param_t *param)
{
    const auto *hdr = static_cast<const ucp_wimm_emul_hdr_t *>(header);
    ucp_wimm_emul_hdr_t sent;
    ucs_status_ptr_t ret;

    EXPECT_EQ(sizeof(*hdr), header_length);
    std::string name = message_name(*hdr);
    if ((hdr->op == UCP_WIMM_EMUL_NOTIFY) || (hdr->op == UCP_WIMM_EMUL_DATA)) {
        if (count > 0) {
            EXPECT_NE(nullptr, buffer);
            name += " with " + std::to_string(count) + " at " +
                    std::to_string(be64toh(hdr->addr));
        }
    } else if ((hdr->op != UCP_WIMM_EMUL_PROBE) &&
               (hdr->op != UCP_WIMM_EMUL_HELLO)) {
        EXPECT_EQ(nullptr, buffer);
        EXPECT_EQ(0u, count);
    }
    EXPECT_TRUE(param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS);
    EXPECT_TRUE(param->flags & UCP_AM_SEND_FLAG_REPLY);
    sent = *hdr;
    ret  = call(ep, name, param, header);
    if (fake_ucp::current->on_am && !UCS_PTR_IS_ERR(ret)) {
        fake_ucp::current->on_am(ep, sent);
    }
    return ret;
}

ucs_status_ptr_t ucp_ep_flush_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    return call(ep, "flush", param);
}

ucs_status_ptr_t ucp_ep_close_nbx(ucp_ep_h ep, const ucp_request_param_t *param)
{
    ucs_status_ptr_t ret = call(ep, "close", param);

    fake_ucp::current->on_closed(ep);
    return ret;
}

void ucp_request_free(void *request)
{
    fake_ucp::current->free(request);
}

ucs_status_t ucp_worker_set_am_recv_handler(ucp_worker_h handle,
                                            const ucp_am_handler_param_t *param)
{
    fake_worker *worker = worker_of(handle);

    EXPECT_TRUE(param->field_mask & UCP_AM_HANDLER_PARAM_FIELD_FLAGS);
    EXPECT_EQ(uint32_t(UCP_AM_FLAG_WHOLE_MSG), param->flags);
    worker->am_id  = param->id;
    worker->am_cb  = param->cb;
    worker->am_arg = param->arg;
    return UCS_OK;
}

} // extern "C"


fake_ucp *fake_ucp::current;
emul_test *emul_test::current;

fake_ucp::fake_ucp()
{
    current = this;
}

fake_ucp::~fake_ucp()
{
    for (const fake_request &request : m_requests) {
        EXPECT_TRUE(request.completed && request.freed) << request.name;
    }
    current = nullptr;
}

void fake_ucp::answer(const std::string &word,
                      std::initializer_list<ucs_status_t> statuses)
{
    m_answers[word].insert(m_answers[word].end(), statuses);
}

void fake_ucp::always(const std::string &word, ucs_status_t status)
{
    m_always[word] = status;
}

ucs_status_ptr_t fake_ucp::call(ucp_ep_h ep, const std::string &name,
                                ucp_send_nbx_callback_t cb, void *user_data,
                                const void *header)
{
    std::string word    = name.substr(0, name.find(' '));
    ucs_status_t status = m_always.count(word) ? m_always[word] : UCS_OK;

    calls.push_back(name_of(ep) + name);
    if (!m_answers[word].empty()) {
        status = m_answers[word].front();
        m_answers[word].pop_front();
    }

    if (status != UCS_INPROGRESS) {
        return UCS_STATUS_PTR(status);
    }

    m_requests.push_back(fake_request{ name_of(ep) + name, ep, cb, user_data,
                                       header, ucp_wimm_emul_hdr_t(), false,
                                       false });
    if (header != nullptr) {
        memcpy(&m_requests.back().sent, header, sizeof(ucp_wimm_emul_hdr_t));
    }
    return &m_requests.back();
}

bool fake_ucp::complete(const std::string &name, ucs_status_t status)
{
    for (fake_request &request : m_requests) {
        if (request.completed || (request.name != name)) {
            continue;
        }

        request.completed = true;
        if (request.header != nullptr) {
            EXPECT_EQ(0, memcmp(request.header, &request.sent,
                                sizeof(request.sent)))
                    << name;
        }
        request.cb(&request, status, request.user_data);
        EXPECT_TRUE(request.freed) << name;
        return true;
    }
    return false;
}

void fake_ucp::complete_all(ucs_status_t status)
{
    /* Callbacks add others */
    for (fake_request &request : m_requests) {
        if (!request.completed) {
            complete(request.name, status);
        }
    }
}

std::vector<std::string> fake_ucp::pending() const
{
    std::vector<std::string> names;

    for (const fake_request &request : m_requests) {
        if (!request.completed) {
            names.push_back(request.name);
        }
    }
    return names;
}

void fake_ucp::free(void *ptr)
{
    fake_request *request = static_cast<fake_request *>(ptr);

    EXPECT_TRUE(request->completed) << request->name;
    EXPECT_FALSE(request->freed) << request->name;
    request->freed = true;
}


void emul_test::SetUp()
{
    current = this;
    recv_test::SetUp();
    wimm()->refcount = 1;

    m_ucp.name_of = [this](ucp_ep_h ep) {
        EXPECT_TRUE(ucp_wimm_native_ep_is_of(m_worker.handle(), ep));
        EXPECT_FALSE(ep_of(ep)->closed);
        return (ep == fake(0).handle()) ? std::string() :
                                          std::to_string(index_of(ep)) + ":";
    };
    m_ucp.on_closed = [this](ucp_ep_h ep) {
        ep_of(ep)->closed = true;
        ++m_worker.events;
    };
}

/* Everything has to end once its endpoints are closed */
void emul_test::TearDown()
{
    while (!m_worker.eps.empty()) {
        ep_closed(m_worker.eps.back()->handle());
    }

    if (wimm()->is_parked) {
        resume();
    }

    if (wimm()->is_attached) {
        m_ucp.always("put", UCS_OK);
        m_ucp.on_am = nullptr;
        settle();
        ucp_wimm_native_enter(m_worker.handle());
        m_ucp.complete_all(UCS_ERR_CANCELED);
        ucp_wimm_native_leave(m_worker.handle());
        EXPECT_EQ(0, park());
    }

    if (!m_forgotten) {
        for (const auto &op : m_ops) {
            EXPECT_EQ(1u, op->num_completed) << op->imm;
        }
        EXPECT_EQ(0u, wimm()->emul.num_todo);
    }

    EXPECT_EQ(1u, wimm()->refcount);
    EXPECT_EQ(strings(), m_ucp.pending());
    if (wimm()->emul.has_mp) {
        ucs_mpool_cleanup(&wimm()->emul.mp, 1); /* Warns if there is a leak */
        wimm()->emul.has_mp = 0;
    }

    while (!m_refs.empty()) {
        EXPECT_EQ(1u, m_refs.back()->refcount);
        ucp_wimm_ep_put(m_refs.back());
        m_refs.pop_back();
    }

    recv_test::TearDown();
    current = nullptr;
}

ucs_status_t emul_test::start(unsigned num_slots, unsigned am_id)
{
    ucs_status_t status;

    config_num_slots = num_slots;
    ucp_wimm_native_enter(m_worker.handle());
    status = ucp_wimm_emul_init(wimm(), am_id);
    ucp_wimm_native_leave(m_worker.handle());
    if (status == UCS_OK) {
        EXPECT_EQ(am_id, m_worker.am_id);
    }
    return status;
}

int emul_test::index_of(ucp_ep_h ep)
{
    return ep_of(ep) - &fake(0);
}

fake_op *emul_test::create_op(ucp_ep_h ep)
{
    fake_op *op = new fake_op();

    m_ops.emplace_back(op);
    op->wimm = wimm();
    op->ep   = ep;
    return op;
}

void emul_test::completed(fake_op *op)
{
    m_ended.push_back(end(op->imm, op->status));
    if (op->on_complete) {
        op->on_complete();
    }
}

fake_op &emul_test::put(uint32_t imm, size_t length, unsigned index,
                        unsigned num_puts)
{
    fake_op *op = create_op(ep(index));
    ucp_wimm_emul_t *emul;
    ucs_status_t status;

    op->imm      = imm;
    op->length   = length;
    op->num_puts = (length == 0) ? 0 : num_puts;
    ucp_wimm_native_enter(m_worker.handle());
    ++wimm()->refcount;
    status = ucp_wimm_emul_push(wimm(), op->ep, &op->req, UCP_WIMM_CHAIN_PUT,
                                &emul);
    if (status == UCS_OK) {
        ucp_wimm_chain_go(emul);
    } else {
        ucp_wimm_native_op_complete(&op->req, status);
    }
    ucp_wimm_native_leave(m_worker.handle());
    return *op;
}

fake_op *emul_test::barrier(ucp_wimm_chain_kind_t kind, unsigned index)
{
    ucp_request_param_t param = {};
    ucs_status_ptr_t ret      = NULL;

    ucp_wimm_native_enter(m_worker.handle());
    ucp_wimm_emul_barrier(wimm(), ep(index), kind, &param, &ret);
    ucp_wimm_native_leave(m_worker.handle());
    return static_cast<fake_op *>(ret);
}

ucp_wimm_emul_hdr_t emul_test::hdr(unsigned op, uint32_t imm, uint64_t length,
                                   uint8_t flags)
{
    ucp_wimm_emul_hdr_t hdr = {};

    hdr.op     = op;
    hdr.flags  = flags;
    hdr.imm    = htonl(imm);
    hdr.length = htobe64(length);
    return hdr;
}

void emul_test::arrive(const void *header, size_t header_length, size_t length,
                       uint64_t recv_attr, ucp_ep_h ep, void *data)
{
    const bool before         = m_worker.in_progress;
    ucp_am_recv_param_t param = {};

    param.recv_attr      = recv_attr;
    param.reply_ep       = ep;
    m_worker.in_progress = !inside_of_a_call;
    ASSERT_NE(nullptr, m_worker.am_cb);
    ucp_wimm_native_enter(m_worker.handle());
    EXPECT_OK(m_worker.am_cb(m_worker.am_arg, header, header_length, data,
                             length, &param));
    ucp_wimm_native_leave(m_worker.handle());
    m_worker.in_progress = before;
}

void emul_test::arrive(ucp_ep_h ep, const ucp_wimm_emul_hdr_t &hdr)
{
    arrive(&hdr, sizeof(hdr), 0, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep);
}

void emul_test::arrive(ucp_wimm_emul_op_t op, uint32_t imm, uint64_t length,
                       unsigned index, uint8_t flags)
{
    arrive(ep(index), hdr(op, imm, length, flags));
}

void emul_test::arrive(std::initializer_list<uint32_t> imms, unsigned index)
{
    for (uint32_t imm : imms) {
        arrive(UCP_WIMM_EMUL_NOTIFY, imm, 0, index);
    }
}

void emul_test::ready(unsigned slots, unsigned index)
{
    hello(slots, index);
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(slots, this->slots(index));
}

void emul_test::complete(const std::string &name, ucs_status_t status)
{
    ucp_wimm_native_enter(m_worker.handle());
    EXPECT_TRUE(m_ucp.complete(name, status)) << name;
    ucp_wimm_native_leave(m_worker.handle());
}

emul_test::strings emul_test::took()
{
    strings calls;

    calls.swap(m_ucp.calls);
    return calls;
}

emul_test::strings emul_test::ended()
{
    strings result;

    result.swap(m_ended);
    return result;
}

std::string emul_test::end(uint32_t imm, ucs_status_t status)
{
    return std::to_string(imm) +
           ((status == UCS_OK) ? "" : " " + status_str(status));
}

ucp_wimm_emul_t *emul_test::emul(unsigned index)
{
    ucp_wimm_ep_t *ep = ucp_wimm_ep_get(wimm(), this->ep(index));

    if (std::find(m_refs.begin(), m_refs.end(), ep) == m_refs.end()) {
        m_refs.push_back(ep);
    } else {
        ucp_wimm_ep_put(ep);
    }
    return ep->emul;
}

unsigned emul_test::slots(unsigned index)
{
    unsigned slots = 0, num_slots = 0;

    emul(index); /* So that it is watched */
    ucp_wimm_emul_query(wimm(), ep(index), &slots, &num_slots);
    EXPECT_LE(slots, num_slots);
    return slots;
}

void emul_test::settle()
{
    unsigned count = 0;

    /* What one finds out the next one does */
    for (unsigned idle = 0; idle < 2; ++idle) {
        if (progress() > 0) {
            idle = 0;
        }
        ASSERT_LT(++count, 100u);
    }
}

void emul_test::freed_unseen(unsigned index)
{
    auto &eps = m_worker.eps;

    fake(index).open = false;
    eps.erase(std::remove(eps.begin(), eps.end(), &fake(index)), eps.end());
}

int emul_test::park()
{
    ucp_wimm_native_enter(m_worker.handle());
    ucp_wimm_counters_cleanup(wimm());
    ucp_wimm_stream_cleanup(wimm());
    wimm()->is_attached = 0;
    wimm()->is_parked   = ucp_wimm_emul_park(wimm());
    if (!wimm()->is_parked) {
        ucp_wimm_emul_stop(wimm());
        ucp_wimm_eps_stop(wimm());
        ucp_wimm_eps_cleanup(wimm());
        EXPECT_FALSE((m_worker.am_cb != NULL) && (m_worker.am_arg == wimm()));
    }
    ucp_wimm_native_leave(m_worker.handle());
    return wimm()->is_parked;
}

void emul_test::resume()
{
    ucp_wimm_native_enter(m_worker.handle());
    EXPECT_OK(ucp_wimm_stream_init(wimm()));
    ucp_wimm_counters_init(wimm());
    ucp_wimm_eps_start(wimm());
    wimm()->is_attached = 1;
    ucp_wimm_emul_resume(wimm());
    wimm()->is_parked = 0;
    ucp_wimm_native_leave(m_worker.handle());
}

void emul_test::forget()
{
    ucp_wimm_native_enter(m_worker.handle());
    ucp_wimm_emul_forget(wimm());
    ucp_wimm_eps_cleanup(wimm());
    if (wimm()->is_attached) {
        ucp_wimm_counters_cleanup(wimm());
        ucp_wimm_stream_cleanup(wimm());
    }
    wimm()->is_attached = 0;
    wimm()->is_parked   = 0;
    m_worker.eps.clear();
    m_forgotten = true;
    ucp_wimm_native_leave(m_worker.handle());
}
