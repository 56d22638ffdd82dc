/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_entity.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>


std::ostream &operator<<(std::ostream &os, connection conn)
{
    switch (conn) {
    case connection::ADDRESS:
        return os << "address";
    case connection::RDMACM:
        return os << "rdmacm";
    default:
        return os << "tcp";
    }
}

const char *emulated_tls()
{
    return getenv("WIMM_TEST_TLS");
}

bool has_peer_failure()
{
    return (emulated_tls() == nullptr) ||
           (std::string("tcp") == emulated_tls());
}

bool has_listener()
{
    return has_peer_failure();
}

std::vector<connection> all_connections()
{
    if (emulated_tls() == nullptr) {
        return { connection::ADDRESS, connection::RDMACM, connection::TCP };
    } else if (has_listener()) {
        return { connection::ADDRESS, connection::TCP };
    } else {
        return { connection::ADDRESS };
    }
}

static void check(ucs_status_t status, const std::string &what)
{
    if (status != UCS_OK) {
        throw std::runtime_error(what + ": " + ucs_status_string(status));
    }
}

/* The only active device, or the one that the environment names */
static std::string device_of(const ucp_entity::params &p)
{
    const char *device = getenv("WIMM_TEST_DEVICE");

    return !p.device.empty() ? p.device : (device == nullptr) ? "rxe0" : device;
}

static std::string netdev_of(const std::string &device)
{
    std::ifstream file("/sys/class/infiniband/" + device +
                       "/ports/1/gid_attrs/ndevs/0");
    std::string name;

    file >> name;
    return name;
}

static struct sockaddr_in address_of(const std::string &netdev)
{
    struct sockaddr_in result = {};
    struct ifaddrs *list, *item;

    if (getifaddrs(&list) != 0) {
        throw std::runtime_error("getifaddrs() failed");
    }

    for (item = list; item != nullptr; item = item->ifa_next) {
        if ((item->ifa_addr != nullptr) && (netdev == item->ifa_name) &&
            (item->ifa_addr->sa_family == AF_INET)) {
            memcpy(&result, item->ifa_addr, sizeof(result));
        }
    }
    freeifaddrs(list);

    if (result.sin_family != AF_INET) {
        throw std::runtime_error("no IPv4 address on '" + netdev + "'");
    }

    result.sin_port = 0;
    return result;
}

/* UCX would complain of the keys of a transport that is not there */
static void drop_unused(config_list &config)
{
    std::string tls;

    for (const auto &key : config) {
        tls = (key.first == "TLS") ? key.second : tls;
    }

    if ((tls.find("wimm") != std::string::npos) ||
        (tls.find("verbs") != std::string::npos)) {
        return;
    }

    config.erase(std::remove_if(config.begin(), config.end(),
                                [](const config_list::value_type &key) {
                                    return (key.first.compare(0, 3, "RC_") ==
                                            0) ||
                                           (key.first.compare(0, 3, "IB_") ==
                                            0);
                                }),
                 config.end());
}

ucp_entity::ucp_entity(const params &p)
    : m_params(p),
      m_netdev((emulated_tls() != nullptr) ? "lo" : netdev_of(device_of(p))),
      m_context(nullptr), m_worker(nullptr), m_wimm(nullptr),
      m_listener(nullptr), m_addr()
{
    const std::string device = device_of(p);
    const bool is_tcp        = p.conn == connection::TCP;
    config_list config       = {
              { "TLS", is_tcp ? "wimm,ud_verbs:aux,tcp" : "wimm,ud_verbs:aux" },
              { "NET_DEVICES", device + ":1" + (is_tcp ? "," + m_netdev : "") },
              { "SOCKADDR_TLS_PRIORITY", is_tcp ? "tcp" : "rdmacm" }
    };
    ucp_params_t ucp_params     = {};
    ucp_worker_params_t wparams = {};
    ucp_config_t *ucp_config;

    if (emulated_tls() != nullptr) {
        config = { { "TLS", emulated_tls() },
                   { "NET_DEVICES", m_netdev },
                   { "SOCKADDR_TLS_PRIORITY", "tcp" } };
    }

    /* Of all transports, and before what the environment has for one */
    if (getenv("UCX_WIMM_RX_QUEUE_LEN") == nullptr) {
        config.push_back({ "IB_RX_QUEUE_LEN", "256" });
    }

    config.insert(config.end(), p.config.begin(), p.config.end());
    drop_unused(config);
    check(ucp_config_read(nullptr, nullptr, &ucp_config), "ucp_config_read");
    for (const auto &key : config) {
        check(ucp_config_modify(ucp_config, key.first.c_str(),
                                key.second.c_str()),
              key.first);
    }

    ucp_params.field_mask = UCP_PARAM_FIELD_FEATURES;
    ucp_params.features   = p.features;
    if ((emulated_tls() != nullptr) &&
        (std::string("self") == emulated_tls())) {
        /* Nothing there could wake anybody */
        ucp_params.features &= ~UCP_FEATURE_WAKEUP;
    }
    ucs_status_t status = ucp_init(&ucp_params, ucp_config, &m_context);
    ucp_config_release(ucp_config);
    check(status, "ucp_init");

    wparams.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    wparams.thread_mode = p.mode;
    check(ucp_worker_create(m_context, &wparams, &m_worker),
          "ucp_worker_create");

    if (p.conn != connection::ADDRESS) {
        m_addr = address_of(m_netdev);
    }

    if (p.attach) {
        attach(p.handler);
    }
}

ucp_entity::~ucp_entity()
{
    if (m_wimm != nullptr) {
        detach();
    }

    if (m_listener != nullptr) {
        ucp_listener_destroy(m_listener);
    }

    ucp_worker_destroy(m_worker);
    ucp_cleanup(m_context);
}

void ucp_entity::attach(bool with_handler)
{
    ucp_wimm_params_t params = {};

    if (with_handler) {
        params.field_mask |= UCP_WIMM_PARAM_FIELD_HANDLER;
        params.handler.cb  = arrival_cb;
        params.handler.arg = this;
    }

    if (m_params.emulate) {
        params.field_mask |= UCP_WIMM_PARAM_FIELD_AM_ID;
        params.am_id = am_id;
    }

    check(ucp_wimm_attach(m_worker, &params, &m_wimm), "ucp_wimm_attach");
}

void ucp_entity::detach()
{
    check(ucp_wimm_detach(m_wimm), "ucp_wimm_detach");
    m_wimm = nullptr;
}

unsigned ucp_entity::progress()
{
    return ucp_worker_progress(m_worker);
}

void ucp_entity::error_cb(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    static_cast<ucp_entity *>(arg)->errors.push_back({ ep, status });
}

ucs_status_t ucp_entity::arrival_cb(void *arg, const ucp_wimm_notification_t *n)
{
    ucp_entity *self = static_cast<ucp_entity *>(arg);

    self->arrivals.push_back({ n->status, n->imm, n->length, n->ep });
    return self->on_arrival ? self->on_arrival(*n) : UCS_OK;
}

ucp_ep_params_t ucp_entity::ep_params(ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = {};

    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = has_peer_failure() ? mode : UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler.cb  = error_cb;
    params.err_handler.arg = this;
    return params;
}

ucp_ep_h ucp_entity::create_ep(const ucp_ep_params_t &params)
{
    ucp_ep_h ep;

    check(ucp_ep_create(m_worker, &params, &ep), "ucp_ep_create");
    m_eps.push_back(ep);
    return ep;
}

ucp_ep_h ucp_entity::connect_address(const ucp_entity &peer,
                                     ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params = ep_params(mode);
    ucp_address_t *address;
    size_t length;

    check(ucp_worker_get_address(peer.m_worker, &address, &length),
          "ucp_worker_get_address");
    params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = address;
    ucp_ep_h ep    = create_ep(params);
    ucp_worker_release_address(peer.m_worker, address);
    return ep;
}

ucp_ep_h ucp_entity::connect_remote(const void *address)
{
    ucp_ep_params_t params = ep_params(UCP_ERR_HANDLING_MODE_PEER);

    params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = static_cast<const ucp_address_t *>(address);
    return create_ep(params);
}

void ucp_entity::accept_cb(ucp_conn_request_h request, void *arg)
{
    ucp_entity *self       = static_cast<ucp_entity *>(arg);
    ucp_ep_params_t params = self->ep_params(UCP_ERR_HANDLING_MODE_PEER);

    /* The client says how errors are handled */
    params.field_mask &= ~UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    params.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    self->create_ep(params);
}

void ucp_entity::listen()
{
    ucp_listener_params_t params = {};
    ucp_listener_attr_t attr     = {};

    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                        UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr    = reinterpret_cast<struct sockaddr *>(&m_addr);
    params.sockaddr.addrlen = sizeof(m_addr);
    params.conn_handler.cb  = accept_cb;
    params.conn_handler.arg = this;
    check(ucp_listener_create(m_worker, &params, &m_listener),
          "ucp_listener_create");

    attr.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    check(ucp_listener_query(m_listener, &attr), "ucp_listener_query");
    memcpy(&m_addr, &attr.sockaddr, sizeof(m_addr));
}

ucp_ep_h ucp_entity::connect_listener(const ucp_entity &peer,
                                      ucp_err_handling_mode_t mode)
{
    ucp_ep_params_t params   = ep_params(mode);
    struct sockaddr_in local = m_addr;

    local.sin_port = 0;
    params.field_mask |= UCP_EP_PARAM_FIELD_FLAGS |
                         UCP_EP_PARAM_FIELD_SOCK_ADDR |
                         UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR;
    params.flags         = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = reinterpret_cast<const struct sockaddr *>(
            &peer.m_addr);
    params.sockaddr.addrlen    = sizeof(peer.m_addr);
    params.local_sockaddr.addr = reinterpret_cast<const struct sockaddr *>(
            &local);
    params.local_sockaddr.addrlen = sizeof(local);
    return create_ep(params);
}

ucp_ep_h ucp_entity::release_ep(size_t index)
{
    ucp_ep_h ep = m_eps.at(index);

    m_eps.erase(m_eps.begin() + index);
    return ep;
}

ucp_buffer::ucp_buffer(ucp_entity &e, size_t length, ucs_memory_type_t mem_type)
    : m_entity(e), m_length(length)
{
    ucp_mem_map_params_t params = {};
    void *ptr                   = mmap(nullptr, std::max<size_t>(length, 1),
                                       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                       0);

    if (ptr == MAP_FAILED) {
        throw std::runtime_error("mmap() failed");
    }

    m_ptr             = static_cast<char *>(ptr);
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                        UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                        UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
    params.address     = ptr;
    params.length      = length;
    params.memory_type = mem_type;
    ::check(ucp_mem_map(e.context(), &params, &m_memh), "ucp_mem_map");
}

ucp_buffer::~ucp_buffer()
{
    ucp_mem_unmap(m_entity.context(), m_memh);
    munmap(m_ptr, std::max<size_t>(m_length, 1));
}

static char pattern(unsigned seed, size_t index)
{
    return static_cast<char>((seed * 131) + (index * 7) + (index >> 8));
}

void ucp_buffer::fill(unsigned seed, size_t offset, size_t length)
{
    for (size_t i = 0; i < length; ++i) {
        m_ptr[offset + i] = pattern(seed, i);
    }
}

void ucp_buffer::clear()
{
    memset(m_ptr, 0, m_length);
}

size_t ucp_buffer::check(unsigned seed, size_t offset, size_t length) const
{
    for (size_t i = 0; i < length; ++i) {
        if (m_ptr[offset + i] != pattern(seed, i)) {
            return i;
        }
    }

    return length;
}

ucp_buffer::rkey_ptr ucp_buffer::unpack(ucp_ep_h ep) const
{
    ucp_rkey_h rkey;
    void *buffer;
    size_t size;

    ::check(ucp_rkey_pack(m_entity.context(), m_memh, &buffer, &size),
            "ucp_rkey_pack");
    ucs_status_t status = ucp_ep_rkey_unpack(ep, buffer, &rkey);
    ucp_rkey_buffer_release(buffer);
    ::check(status, "ucp_ep_rkey_unpack");
    return rkey_ptr(rkey, ucp_rkey_destroy);
}
