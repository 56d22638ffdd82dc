/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "recv_test.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>


namespace {

std::atomic<unsigned> alloc_count(0);
std::atomic<unsigned> alloc_fail(0);

bool alloc_fails()
{
    return ++alloc_count == alloc_fail;
}

fake_worker *worker_of(ucp_worker_h worker)
{
    return reinterpret_cast<fake_worker *>(worker);
}

fake_ep *ep_of(ucp_ep_h ep)
{
    return reinterpret_cast<fake_ep *>(ep);
}

/* How UCP purges a failed endpoint */
ucs_status_t purge_status;

void purge_cb(uct_pending_req_t *, void *)
{
}

/* Whether this thread has locked it */
bool is_locked(fake_worker *worker)
{
    bool result = false;

    if (worker->lock.try_lock()) {
        result = worker->depth > 0;
        worker->lock.unlock();
    }
    return result;
}

} // namespace


/*
 * What the library calls: in place of its own other half, and of UCP
 */
extern "C" {

void ucp_wimm_native_enter(ucp_worker_h worker)
{
    worker_of(worker)->lock.lock();
    ++worker_of(worker)->depth;
}

void ucp_wimm_native_leave(ucp_worker_h worker)
{
    ASSERT_TRUE(is_locked(worker_of(worker)));
    --worker_of(worker)->depth;
    worker_of(worker)->lock.unlock();
}

int ucp_wimm_native_in_progress(ucp_worker_h worker)
{
    EXPECT_TRUE(is_locked(worker_of(worker)));
    return worker_of(worker)->in_progress;
}

int ucp_wimm_native_ep_is_of(ucp_worker_h worker, ucp_ep_h ep)
{
    const auto &eps = worker_of(worker)->eps;

    return std::find(eps.begin(), eps.end(), ep_of(ep)) != eps.end();
}

int ucp_wimm_native_ep_is_open(ucp_ep_h ep)
{
    return ep_of(ep)->open && !ep_of(ep)->closed;
}

int ucp_wimm_native_ep_is_closed(ucp_ep_h ep)
{
    return ep_of(ep)->closed;
}

int ucp_wimm_native_ep_is_failed(ucp_ep_h ep)
{
    return ep_of(ep)->failed &&
           (ucp_wimm_native_ep_is_open(ep) || ep_of(ep)->told);
}

void ucp_wimm_native_ep_mark(ucp_ep_h ep)
{
    ep_of(ep)->marked = true;
}

int ucp_wimm_native_ep_is_marked(ucp_ep_h ep)
{
    return ep_of(ep)->marked;
}

uint64_t ucp_wimm_native_ep_events(ucp_worker_h handle)
{
    fake_worker *worker = worker_of(handle);

    ++worker->num_updates;
    if (worker->on_update) {
        worker->on_update();
    }
    return worker->events;
}

void ucp_wimm_native_for_each_ep(ucp_worker_h worker,
                                 void (*cb)(ucp_ep_h ep, void *arg), void *arg)
{
    EXPECT_TRUE(is_locked(worker_of(worker)));
    ++worker_of(worker)->num_looks;
    for (fake_ep *ep : worker_of(worker)->eps) {
        cb(ep->handle(), arg);
    }
}

void ucp_wimm_native_ep_info(ucp_wimm_h wimm, ucp_ep_h ep,
                             ucp_wimm_ep_info_t *info)
{
    EXPECT_TRUE(ucp_wimm_native_ep_is_of(wimm->worker, ep));
    ++worker_of(wimm->worker)->num_infos;
    memset(info, 0, sizeof(*info));
    info->has_lane = !ep_of(ep)->no_lane;
    info->uct_ep   = ep_of(ep)->uct_ep;
}

ucs_status_t ucp_wimm_native_purge_status(uct_pending_purge_callback_t cb,
                                          void *)
{
    EXPECT_EQ(purge_cb, cb);
    return purge_status;
}

void ucp_wimm_native_add_progress(ucp_worker_h worker, ucs_callback_t cb,
                                  void *arg, uct_worker_cb_id_t *id_p)
{
    worker_of(worker)->progress_cb  = cb;
    worker_of(worker)->progress_arg = arg;
    *id_p                           = 7;
}

void ucp_wimm_native_remove_progress(ucp_worker_h worker,
                                     uct_worker_cb_id_t *id_p)
{
    EXPECT_EQ(7, *id_p);
    worker_of(worker)->progress_cb = NULL;
    *id_p                          = UCS_CALLBACKQ_ID_NULL;
}

void ucp_wimm_conn_watch(ucp_wimm_h wimm, uct_ep_h uct_ep, ucp_wimm_ep_t *ep)
{
    fake_peer *peer = reinterpret_cast<fake_peer *>(uct_ep);

    EXPECT_EQ(wimm, peer->super.wimm);
    if (peer->super.ep == NULL) {
        peer->super.ep = ep;
        ucp_wimm_ep_add_conn(ep);
    }
}

void ucp_wimm_put_ref(ucp_wimm_h wimm)
{
    --wimm->refcount;
}

unsigned ucp_worker_progress(ucp_worker_h handle)
{
    fake_worker *worker = worker_of(handle);

    EXPECT_FALSE(is_locked(worker));
    ++worker->num_progress;
    if (worker->on_progress) {
        worker->on_progress();
    }
    return 0;
}


/* Calls of the objects that are linked into this program (--wrap of the linker) */
void *__real_malloc(size_t size);
void *__real_realloc(void *ptr, size_t size);
void *__real_ucs_malloc(size_t size, const char *name);
void *__real_ucs_calloc(size_t nmemb, size_t size, const char *name);
ucs_status_t __real_ucs_mpool_chunk_malloc(ucs_mpool_t *mp, size_t *size_p,
                                           void **chunk_p);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *ptr, size_t size);
void *__wrap_ucs_malloc(size_t size, const char *name);
void *__wrap_ucs_calloc(size_t nmemb, size_t size, const char *name);
ucs_status_t __wrap_ucs_mpool_chunk_malloc(ucs_mpool_t *mp, size_t *size_p,
                                           void **chunk_p);

void *__wrap_malloc(size_t size)
{
    return alloc_fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return alloc_fails() ? NULL : __real_realloc(ptr, size);
}

void *__wrap_ucs_malloc(size_t size, const char *name)
{
    return alloc_fails() ? NULL : __real_ucs_malloc(size, name);
}

void *__wrap_ucs_calloc(size_t nmemb, size_t size, const char *name)
{
    return alloc_fails() ? NULL : __real_ucs_calloc(nmemb, size, name);
}

ucs_status_t __wrap_ucs_mpool_chunk_malloc(ucs_mpool_t *mp, size_t *size_p,
                                           void **chunk_p)
{
    return alloc_fails() ? UCS_ERR_NO_MEMORY :
                           __real_ucs_mpool_chunk_malloc(mp, size_p, chunk_p);
}

} // extern "C"


alloc_nth::alloc_nth(unsigned nth)
{
    alloc_count = 0;
    alloc_fail  = nth;
}

alloc_nth::~alloc_nth()
{
    alloc_fail = 0;
}

unsigned alloc_nth::count()
{
    return alloc_count;
}


static void fake_peer_release_slot(ucp_wimm_peer_t *super)
{
    fake_peer *peer = reinterpret_cast<fake_peer *>(super);

    EXPECT_TRUE(is_locked(worker_of(super->wimm->worker)));
    EXPECT_EQ(0u, peer->num_released);
    peer->slots->push_back(peer->id);
}

static void fake_peer_release(ucp_wimm_peer_t *super)
{
    if (super->ep != NULL) {
        ucp_wimm_ep_put(super->ep);
        super->ep = NULL;
    }
    ++reinterpret_cast<fake_peer *>(super)->num_released;
}

fake_peer::fake_peer(ucp_wimm_h wimm, ucp_ep_h ep, int id,
                     std::vector<int> *slots)
    : id(id), slots(slots), num_released(0)
{
    super.wimm         = wimm;
    super.ep           = NULL;
    super.refcount     = 1;
    super.release_slot = fake_peer_release_slot;
    super.release      = fake_peer_release;
    if (ep != NULL) {
        set_ep(ep);
    }
}

fake_peer::~fake_peer()
{
    disconnect();
    EXPECT_EQ(1u, num_released);
}

void fake_peer::set_ep(ucp_ep_h ucp_ep)
{
    super.ep = ucp_wimm_ep_get(super.wimm, ucp_ep);
    ASSERT_NE(nullptr, super.ep);
    ucp_wimm_ep_add_conn(super.ep);
    ucp_wimm_ep_put(super.ep);
}

void fake_peer::purge(ucs_status_t status)
{
    purge_status = status;
    ucp_wimm_ep_conn_purged(super.wimm, super.ep, purge_cb, NULL);
}

void fake_peer::disconnect()
{
    if (m_connected) {
        m_connected = false;
        if (super.ep != NULL) {
            ucp_wimm_ep_remove_conn(super.wimm, super.ep);
        }
        ucp_wimm_peer_put(&super);
    }
}


void recv_test::SetUp()
{
    test_base::SetUp();
    attach();
}

void recv_test::attach()
{
    memset(&m_wimm, 0, sizeof(m_wimm));
    m_wimm.worker      = m_worker.handle();
    m_wimm.is_attached = 1;
    ASSERT_OK(ucp_wimm_stream_init(&m_wimm));
    ucp_wimm_counters_init(&m_wimm);
    ucp_wimm_native_enter(m_worker.handle());
    ucp_wimm_emul_reset(&m_wimm);
    ucp_wimm_eps_init(&m_wimm);
    ucp_wimm_eps_start(&m_wimm);
    ucp_wimm_native_leave(m_worker.handle());
}

void recv_test::TearDown()
{
    detach();
    while (!m_counters.empty()) {
        destroy(m_counters.back());
    }
    EXPECT_EQ(0, m_worker.depth);
    test_base::TearDown();
}

void recv_test::detach()
{
    ucp_worker_h worker = m_wimm.worker;

    if (!m_wimm.is_attached) {
        return;
    }

    ucp_wimm_native_enter(worker);
    ucp_wimm_counters_cleanup(&m_wimm);
    EXPECT_EQ(0u, m_wimm.counter.num_ready);
    EXPECT_TRUE(ucs_list_is_empty(&m_wimm.counter.groups));
    ucp_wimm_stream_cleanup(&m_wimm);
    ucp_wimm_eps_stop(&m_wimm);
    EXPECT_EQ(nullptr, m_worker.progress_cb);
    ucp_wimm_eps_cleanup(&m_wimm);
    m_wimm.is_attached = 0;
    ucp_wimm_native_leave(worker);
}

ucp_ep_h recv_test::ep(unsigned index)
{
    fake_ep *result = &m_eps[index];
    auto &eps       = m_worker.eps;

    if (std::find(eps.begin(), eps.end(), result) == eps.end()) {
        *result = fake_ep();
        eps.push_back(result);
        ++m_worker.events;
    }
    return result->handle();
}

ucs_status_t recv_test::notify(fake_peer &peer, uint32_t imm, size_t length)
{
    ucs_status_t status;

    ucp_wimm_native_enter(m_worker.handle());
    status = ucp_wimm_stream_notify(&m_wimm, &peer.super, imm, length);
    ucp_wimm_native_leave(m_worker.handle());
    return status;
}

std::vector<bool> recv_test::notify(std::initializer_list<uint32_t> imms)
{
    std::vector<bool> consumed;

    ucp_wimm_native_enter(m_worker.handle());
    for (uint32_t imm : imms) {
        consumed.push_back(ucp_wimm_counters_notify(&m_wimm, NULL, imm));
    }
    ucp_wimm_native_leave(m_worker.handle());
    return consumed;
}

void recv_test::fail(ucp_ep_h ucp_ep, ucs_status_t status)
{
    ucp_ep_h last     = (ucp_ep == NULL) ? ep(15) : ucp_ep;
    ucp_wimm_ep_t *ep = ucp_wimm_ep_get(&m_wimm, last);

    ASSERT_NE(nullptr, ep);
    if (ucp_ep == NULL) {
        ep_closed(last);
        ucp_wimm_native_enter(m_worker.handle());
        ucp_wimm_eps_update(&m_wimm);
        ucp_wimm_native_leave(m_worker.handle());
    }

    ep->status = status;
    ucp_wimm_native_enter(m_worker.handle());
    ucp_wimm_stream_fail(&m_wimm, ep);
    ucp_wimm_native_leave(m_worker.handle());
    ucp_wimm_ep_put(ep);
}

void recv_test::ucp_fails(unsigned index)
{
    m_eps[index].failed = true;
    ++m_worker.events;
}

void recv_test::ep_freed(ucp_ep_h ep)
{
    auto &eps = m_worker.eps;

    eps.erase(std::remove(eps.begin(), eps.end(), ep_of(ep)), eps.end());
    *ep_of(ep) = fake_ep();
}

void recv_test::ep_closed(ucp_ep_h ep)
{
    ep_freed(ep);
    ++m_worker.events;
}

unsigned recv_test::progress()
{
    unsigned count = 0;

    ucp_wimm_native_enter(m_worker.handle());
    if (m_worker.progress_cb != NULL) {
        count = m_worker.progress_cb(m_worker.progress_arg);
    }
    ucp_wimm_native_leave(m_worker.handle());
    return count;
}

ucs_status_t recv_test::handler_cb(void *arg,
                                   const ucp_wimm_notification_t *notification)
{
    recv_test *self   = static_cast<recv_test *>(arg);
    handler_t handler = self->m_handler; /* It may set another one */

    EXPECT_TRUE(is_locked(&self->m_worker));
    return handler(*notification);
}

void recv_test::set_handler(const handler_t &handler)
{
    m_handler = handler;
    EXPECT_OK(ucp_wimm_set_handler(&m_wimm, handler ? handler_cb : NULL, this));
}

std::vector<ucp_wimm_notification_t> recv_test::poll(unsigned max)
{
    std::vector<ucp_wimm_notification_t> result(max);
    unsigned count = max + 1;

    EXPECT_OK(ucp_wimm_poll(&m_wimm, result.data(), max, &count));
    EXPECT_LE(count, max);
    result.resize(std::min(count, max));
    return result;
}

std::vector<uint32_t> recv_test::queued()
{
    std::vector<uint32_t> imms;

    for (const auto &n : poll()) {
        imms.push_back(n.imm);
    }
    return imms;
}

ucp_wimm_counter_h recv_test::counter(const ucp_wimm_counter_params_t *params)
{
    ucp_wimm_counter_h result = nullptr;

    EXPECT_OK(ucp_wimm_counter_create(&m_wimm, params, &result));
    m_counters.push_back(result);
    return result;
}

ucp_wimm_counter_h recv_test::match(uint32_t value, uint32_t mask,
                                    uint64_t expected, uint32_t flags)
{
    ucp_wimm_counter_params_t params = {};

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH |
                        UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED |
                        UCP_WIMM_COUNTER_PARAM_FIELD_FLAGS;
    params.match.value = value;
    params.match.mask  = mask;
    params.expected    = expected;
    params.flags       = flags;
    return counter(&params);
}

ucp_wimm_counter_h recv_test::bound(ucp_ep_h ep, uint64_t expected)
{
    ucp_wimm_counter_params_t params = {};

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP |
                        UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED;
    params.ep       = ep;
    params.expected = expected;
    return counter(&params);
}

void recv_test::destroy(ucp_wimm_counter_h counter)
{
    m_counters.erase(std::remove(m_counters.begin(), m_counters.end(), counter),
                     m_counters.end());
    ucp_wimm_counter_destroy(counter);
}

uint64_t recv_test::read(ucp_wimm_counter_h counter)
{
    uint64_t count = 0;

    EXPECT_OK(ucp_wimm_counter_read(counter, &count));
    return count;
}
