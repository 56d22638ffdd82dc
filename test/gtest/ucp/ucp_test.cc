/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <dirent.h>
#include <sys/socket.h>

#include <cstdlib>


config_list config_that_fails_soon()
{
    return { { "RC_TIMEOUT", "50ms" },
             { "RC_RETRY_COUNT", "3" },
             { "KEEPALIVE_INTERVAL", "inf" } };
}

ucp_request_param_t put_request::param()
{
    ucp_request_param_t param = {};

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send   = callback;
    param.user_data = this;
    return param;
}

void put_request::callback(void *, ucs_status_t status, void *arg)
{
    put_request *self = static_cast<put_request *>(arg);

    self->status = status;
    ++self->num_callbacks;
    if (self->on_done) {
        self->on_done();
    }
}

void ucp_test::TearDown()
{
    /* Closed by all at once: a peer may have to answer */
    std::vector<ucs_status_ptr_t> requests;
    ucp_request_param_t param = {};

    for (auto &e : m_entities) {
        while (e->num_eps() > 0) {
            requests.push_back(ucp_ep_close_nbx(e->release_ep(), &param));
        }
    }

    for (ucs_status_ptr_t request : requests) {
        wait(request);
    }

    m_entities.clear();
    test_base::TearDown();
}

ucp_entity &ucp_test::create(const ucp_entity::params &p)
{
    m_entities.push_back(std::unique_ptr<ucp_entity>(new ucp_entity(p)));
    return *m_entities.back();
}

connection ucp_test::default_connection() const
{
    const char *name = getenv("WIMM_TEST_CONNECTION");

    for (connection conn : { connection::RDMACM, connection::TCP }) {
        if ((name != nullptr) && (name == ::testing::PrintToString(conn))) {
            return conn;
        }
    }

    return connection::ADDRESS;
}

void ucp_test::create_pair(ucp_entity::params p, ucp_err_handling_mode_t mode,
                           bool two_sided)
{
    const char *peer_device = getenv("WIMM_TEST_PEER_DEVICE");

    if (p.conn == connection::ADDRESS) {
        p.conn = default_connection();
    }

    create(p);
    if (peer_device != nullptr) {
        p.device = peer_device;
    }

    if ((emulated_tls() == nullptr) ||
        (std::string("self") != emulated_tls())) {
        create(p);
    }

    if (p.conn == connection::ADDRESS) {
        sender().connect_address(receiver(), mode);
        if (two_sided) {
            receiver().connect_address(sender(), mode);
        }
        return;
    }

    receiver().listen();
    connect(sender(), receiver(), mode);
}

void ucp_test::connect(ucp_entity &from, ucp_entity &to,
                       ucp_err_handling_mode_t mode)
{
    size_t num_eps = to.num_eps();

    from.connect_listener(to, mode);
    ASSERT_TRUE(wait_for([&] { return to.num_eps() > num_eps; }));
    if (from.wimm() != nullptr) {
        ASSERT_TRUE(wait_way(from, from.num_eps() - 1));
    } else {
        ASSERT_OK(flush(from, from.num_eps() - 1));
    }
}

void ucp_test::progress()
{
    for (auto &e : m_entities) {
        e->progress();
    }
}

bool ucp_test::wait_for(const std::function<bool()> &condition, double seconds)
{
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(seconds);

    while (!condition()) {
        if (std::chrono::steady_clock::now() >= end) {
            ADD_FAILURE() << "did not happen in " << seconds << " s";
            return false;
        }
        progress();
    }

    return true;
}

bool ucp_test::wait_arrivals(ucp_entity &e, size_t count)
{
    return wait_for([&] { return e.arrivals.size() >= count; });
}

ucs_status_t ucp_test::wait(ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }

    wait_for([&] {
        return ucp_request_check_status(request) != UCS_INPROGRESS;
    });
    ucs_status_t status = ucp_request_check_status(request);
    ucp_request_free(request);
    return status;
}

ucs_status_t ucp_test::wait(put_request &r)
{
    ucs_status_t status = wait(r.ptr);

    if (UCS_PTR_IS_PTR(r.ptr)) {
        EXPECT_EQ(1u, r.num_callbacks);
        EXPECT_STATUS(status, r.status);
    }

    r.ptr = UCS_STATUS_PTR(status);
    return status;
}

ucp_wimm_ep_attr_t ucp_test::ep_query(ucp_entity &e, size_t ep_index)
{
    ucp_wimm_ep_attr_t attr;

    attr.field_mask = UCP_WIMM_EP_ATTR_FIELD_WAY |
                      UCP_WIMM_EP_ATTR_FIELD_REASON |
                      UCP_WIMM_EP_ATTR_FIELD_PUTS_COVERED |
                      UCP_WIMM_EP_ATTR_FIELD_FLOW;
    EXPECT_OK(ucp_wimm_ep_query(e.wimm(), e.ep(ep_index), &attr));
    return attr;
}

bool ucp_test::wait_way(ucp_entity &e, size_t ep_index)
{
    const ucp_wimm_way_t way = (emulated_tls() != nullptr) ?
                                       UCP_WIMM_WAY_EMULATED :
                                       UCP_WIMM_WAY_NATIVE;

    return wait_for([&] { return ep_query(e, ep_index).way == way; });
}

ucs_status_t ucp_test::flush(ucp_entity &e, size_t ep_index)
{
    ucp_request_param_t param = {};

    return wait((e.wimm() != nullptr) ?
                        ucp_wimm_flush_nbx(e.wimm(), e.ep(ep_index), &param) :
                        ucp_ep_flush_nbx(e.ep(ep_index), &param));
}

ucs_status_t ucp_test::close(ucp_entity &e, size_t ep_index, unsigned flags)
{
    ucp_request_param_t param = {};

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags        = flags;
    ucp_ep_h ep        = e.release_ep(ep_index);

    return wait((e.wimm() != nullptr) ?
                        ucp_wimm_ep_close_nbx(e.wimm(), ep, &param) :
                        ucp_ep_close_nbx(ep, &param));
}

void ucp_test::close_by_force(ucp_entity &e)
{
    while (e.num_eps() > 0) {
        close(e, 0, UCP_EP_CLOSE_FLAG_FORCE);
    }
}

void ucp_test::allow_failure()
{
    allow_error("completion with error");
    allow_error("endpoint failed");
    allow_log(UCS_LOG_LEVEL_WARN, "was not purged");
}

void ucp_test::expect_failure(ucs_status_t told, ucs_status_t status)
{
    if (emulated_tls() == nullptr) {
        EXPECT_STATUS(told, status);
    } else {
        EXPECT_TRUE(UCS_STATUS_IS_ERR(status)) << status;
    }
}

uint64_t ucp_test::bad_address(const ucp_buffer &dst)
{
    return (emulated_tls() != nullptr) ? dst.addr() : 4096;
}

void ucp_test::cut()
{
    if (emulated_tls() != nullptr) {
        cut_tcp();
    }
}

void ucp_test::cut_tcp()
{
    DIR *dir = opendir("/proc/self/fd");

    for (struct dirent *entry = readdir(dir); entry != nullptr;
         entry                = readdir(dir)) {
        const int fd = atoi(entry->d_name);
        struct sockaddr_storage addr;
        socklen_t length = sizeof(addr), size = sizeof(int);
        int listens = 0;

        if ((getsockname(fd, reinterpret_cast<struct sockaddr *>(&addr),
                         &length) == 0) &&
            (addr.ss_family == AF_INET) &&
            (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0) &&
            !listens) {
            shutdown(fd, SHUT_RDWR);
        }
    }
    closedir(dir);
}

size_t ucp_test::long_put()
{
    return (emulated_tls() != nullptr) ? (1 << 16) :
                                         (2 * query(sender()).cap.max_bcopy);
}

void ucp_test::greet(ucp_entity &from, ucp_entity &to)
{
    const size_t before       = to.arrivals.size();
    ucp_request_param_t param = {};

    ASSERT_OK(wait(ucp_wimm_notify_nbx(from.wimm(), from.ep(), 0, &param)));
    ASSERT_TRUE(wait_arrivals(to, before + 1));
    to.arrivals.pop_back();
}

void ucp_test::fail_endpoint(ucp_entity &from, ucp_entity &to,
                             const ucp_buffer &src, const ucp_buffer &dst)
{
    const size_t num_errors = from.errors.size();
    put_request request;

    ASSERT_OK(flush(from));
    if (emulated_tls() != nullptr) {
        greet(from, to);
    }

    auto rkey                 = dst.unpack(from.ep());
    ucp_request_param_t param = request.param();
    request.ptr = ucp_wimm_put_nbx(from.wimm(), from.ep(), src.ptr(),
                                   src.length(), bad_address(dst), rkey.get(),
                                   1, &param);
    cut();
    EXPECT_NE(UCS_OK, wait(request));
    ASSERT_TRUE(wait_for([&] { return from.errors.size() == num_errors + 1; }));
}

ucp_wimm_attr_t ucp_test::query(ucp_entity &e)
{
    ucp_wimm_attr_t attr;

    attr.field_mask = UCP_WIMM_ATTR_FIELD_CAP | UCP_WIMM_ATTR_FIELD_QUEUE |
                      UCP_WIMM_ATTR_FIELD_COUNTERS;
    EXPECT_OK(ucp_wimm_query(e.wimm(), &attr));
    return attr;
}
