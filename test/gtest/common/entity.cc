/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "entity.h"

extern "C" {
#include <ucs/time/time.h>
}

#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>


std::string resource::wanted_tl()
{
    const char *tl = getenv("WIMM_TEST_TL");

    return (tl == nullptr) ? "wimm" : tl;
}

static bool find_in_md(uct_component_h component, const char *md_name,
                       const char *device, resource *found)
{
    uct_tl_resource_desc_t *tls = nullptr;
    uct_md_config_t *md_config;
    unsigned num_tls = 0;
    bool result      = false;
    uct_md_h md;

    if (uct_md_config_read(component, NULL, NULL, &md_config) != UCS_OK) {
        return false;
    }

    if (uct_md_open(component, md_name, md_config, &md) == UCS_OK) {
        if (uct_md_query_tl_resources(md, &tls, &num_tls) == UCS_OK) {
            for (unsigned i = 0; (i < num_tls) && !result; ++i) {
                const std::string dev = tls[i].dev_name;

                if ((resource::wanted_tl() == tls[i].tl_name) &&
                    ((device == nullptr) || (dev == device) ||
                     (dev == std::string(device) + ":1"))) {
                    *found = { component, md_name, tls[i].tl_name, dev };
                    result = true;
                }
            }
            uct_release_tl_resource_list(tls);
        }
        uct_md_close(md);
    }

    uct_config_release(md_config);
    return result;
}

static bool find_resource(const char *device, resource *found)
{
    bool result = false;
    uct_component_h *components;
    unsigned num_components;

    if (uct_query_components(&components, &num_components) != UCS_OK) {
        return false;
    }

    for (unsigned i = 0; (i < num_components) && !result; ++i) {
        uct_component_attr_t attr;

        attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                          UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
        if ((uct_component_query(components[i], &attr) != UCS_OK) ||
            strcmp(attr.name, "ib")) {
            continue;
        }

        std::vector<uct_md_resource_desc_t> mds(attr.md_resource_count);

        attr.field_mask   = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
        attr.md_resources = mds.data();
        if (uct_component_query(components[i], &attr) == UCS_OK) {
            for (const uct_md_resource_desc_t &md : mds) {
                result = result ||
                         find_in_md(components[i], md.md_name, device, found);
            }
        }
    }

    uct_release_component_list(components);
    return result;
}

const resource *resource::find(std::string *reason)
{
    static resource found;
    const char *device   = getenv("WIMM_TEST_DEVICE");
    static bool is_found = find_resource(device, &found);

    if (!is_found) {
        *reason = "no active RDMA device" +
                  ((device == nullptr) ? std::string() :
                                         std::string(" ") + device) +
                  " with the transport " + wanted_tl() +
                  " was found: this program needs one (contrib/vm/wimm-vm runs"
                  " it on Soft-RoCE)";
        return nullptr;
    }

    return &found;
}

const resource &resource::get()
{
    std::string reason;

    return *find(&reason);
}

const resource *resource::find_peer(std::string *reason)
{
    static resource found;
    const char *device   = getenv("WIMM_TEST_PEER_DEVICE");
    static bool is_found = (device != nullptr) && find_resource(device, &found);

    if (!is_found) {
        *reason = "WIMM_TEST_PEER_DEVICE is to name a second device with an"
                  " active port, which can be reached from the first";
        return nullptr;
    }

    return &found;
}


entity::entity(const config_list &config, const open_params &params)
    : m_async(nullptr), m_worker(nullptr), m_md(nullptr), m_iface(nullptr)
{
    const resource &res = *params.device;
    uct_md_config_t *md_config;

    EXPECT_OK(
            ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK, &m_async));
    EXPECT_OK(uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker));

    EXPECT_OK(uct_md_config_read(res.component, NULL, NULL, &md_config));
    EXPECT_OK(
            uct_md_open(res.component, res.md_name.c_str(), md_config, &m_md));
    uct_config_release(md_config);
    if (params.on_md_open) {
        params.on_md_open(m_md);
    }

    ucs_status_t status = open_iface(config, params, &m_iface);
    if (status != UCS_OK) {
        cleanup();
        throw std::runtime_error("uct_iface_open() failed: " +
                                 status_str(status));
    }

    EXPECT_OK(uct_iface_query(m_iface, &m_attr));
    if (params.progress) {
        uct_iface_progress_enable(m_iface,
                                  UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    }
}

ucs_status_t entity::open_iface(const config_list &config,
                                const open_params &params, uct_iface_h *iface_p)
{
    const uct_iface_params_t tl_open = iface_params(params);
    uct_iface_config_t *iface_config;

    EXPECT_OK(uct_md_iface_config_read(m_md, params.tl_name.c_str(), NULL, NULL,
                                       &iface_config));
    for (const auto &key : config) {
        EXPECT_OK(uct_config_modify(iface_config, key.first.c_str(),
                                    key.second.c_str()))
                << key.first << "=" << key.second;
    }

    ucs_status_t status = uct_iface_open(m_md, m_worker, &tl_open, iface_config,
                                         iface_p);
    uct_config_release(iface_config);
    return status;
}

uct_iface_params_t entity::iface_params(const open_params &params)
{
    uct_iface_params_t result;

    memset(&result, 0, sizeof(result));
    result.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                        UCT_IFACE_PARAM_FIELD_DEVICE |
                        UCT_IFACE_PARAM_FIELD_RX_HEADROOM;
    result.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
    result.mode.device.tl_name  = params.tl_name.c_str();
    result.mode.device.dev_name = params.device->dev_name.c_str();
    result.rx_headroom          = 0;
    if (params.handle_errors) {
        result.field_mask |= UCT_IFACE_PARAM_FIELD_ERR_HANDLER |
                             UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG |
                             UCT_IFACE_PARAM_FIELD_ERR_HANDLER_FLAGS;
        result.err_handler       = error_cb;
        result.err_handler_arg   = this;
        result.err_handler_flags = 0;
    }
    if (params.am_alignment != 0) {
        result.field_mask |= UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT |
                             UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;
        result.am_alignment    = params.am_alignment;
        result.am_align_offset = 0;
    }
    return result;
}

entity::~entity()
{
    cleanup();
}

void entity::cleanup()
{
    destroy_eps();
    if (m_iface != nullptr) {
        uct_iface_close(m_iface);
    }
    if (m_md != nullptr) {
        uct_md_close(m_md);
    }
    uct_worker_destroy(m_worker);
    ucs_async_context_destroy(m_async);
}

uct_ep_h entity::ep(unsigned index) const
{
    return m_eps.at(index);
}

int entity::ep_index(uct_ep_h ep) const
{
    for (const auto &entry : m_eps) {
        if (entry.second == ep) {
            return entry.first;
        }
    }
    return -1;
}

void entity::create_ep(unsigned index)
{
    uct_ep_params_t params;
    uct_ep_h ep;

    ASSERT_EQ(0u, m_eps.count(index));

    params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    params.iface      = m_iface;
    ASSERT_OK(uct_ep_create(&params, &ep));
    m_eps[index] = ep;
}

void entity::destroy_ep(unsigned index)
{
    uct_ep_h ep = m_eps.at(index);

    m_eps.erase(index);
    uct_ep_destroy(ep);
}

void entity::destroy_eps()
{
    while (!m_eps.empty()) {
        destroy_ep(m_eps.begin()->first);
    }
}

std::vector<uint8_t> entity::address(unsigned index) const
{
    std::vector<uint8_t> result(m_attr.device_addr_len + m_attr.ep_addr_len);

    EXPECT_OK(uct_iface_get_device_address(
            m_iface, reinterpret_cast<uct_device_addr_t *>(result.data())));
    EXPECT_OK(uct_ep_get_address(ep(index), reinterpret_cast<uct_ep_addr_t *>(
                                                    result.data() +
                                                    m_attr.device_addr_len)));
    return result;
}

void entity::connect_to(unsigned index, const std::vector<uint8_t> &address)
{
    ASSERT_OK(uct_ep_connect_to_ep(
            ep(index),
            reinterpret_cast<const uct_device_addr_t *>(address.data()),
            reinterpret_cast<const uct_ep_addr_t *>(address.data() +
                                                    m_attr.device_addr_len)));
}

void entity::connect_to(unsigned index, const entity &other,
                        unsigned other_index)
{
    connect_to(index, other.address(other_index));
}

void entity::connect(entity &a, unsigned a_index, entity &b, unsigned b_index)
{
    a.create_ep(a_index);
    b.create_ep(b_index);
    a.connect_to(a_index, b, b_index);
    b.connect_to(b_index, a, a_index);
}

int entity::event_fd() const
{
    int fd = -1;

    EXPECT_OK(uct_iface_event_fd_get(m_iface, &fd));
    return fd;
}

void entity::arm(unsigned events)
{
    const ucs_time_t deadline = ucs_get_time() + ucs_time_from_sec(30);
    ucs_status_t status;

    do {
        while (progress() != 0) {
        }
        status = uct_iface_event_arm(m_iface, events);
    } while ((status == UCS_ERR_BUSY) && (ucs_get_time() < deadline));
    ASSERT_OK(status);
}

bool entity::wakes(int timeout_ms) const
{
    struct pollfd pfd = { event_fd(), POLLIN, 0 };

    return poll(&pfd, 1, timeout_ms) == 1;
}

ucs_status_t entity::error_cb(void *arg, uct_ep_h ep, ucs_status_t status)
{
    entity *self = static_cast<entity *>(arg);

    self->errors.push_back({ ep, status });
    return self->on_error ? self->on_error(ep, status) : UCS_OK;
}

ucs_status_t entity::am_cb(void *arg, void *data, size_t length, unsigned flags)
{
    return (*static_cast<am_func_t *>(arg))(data, length, flags);
}

void entity::set_am_handler(uint8_t id, am_func_t func)
{
    std::unique_ptr<am_func_t> func_p(new am_func_t(std::move(func)));

    ASSERT_OK(uct_iface_set_am_handler(m_iface, id, am_cb, func_p.get(), 0));
    m_am_funcs[id] = std::move(func_p);
}

void entity::remove_am_handler(uint8_t id)
{
    ASSERT_OK(uct_iface_set_am_handler(m_iface, id, NULL, NULL, 0));
    m_am_funcs.erase(id);
}


mapped_buffer::mapped_buffer(size_t size, const entity &owner, int fill,
                             unsigned access)
    : m_ptr(nullptr), m_size(size), m_md(owner.md())
{
    uct_md_attr_t md_attr;

    EXPECT_EQ(0, posix_memalign(&m_ptr, 4096, std::max<size_t>(size, 64)));
    memset(m_ptr, fill, std::max<size_t>(size, 64));
    EXPECT_OK(uct_md_mem_reg(m_md, m_ptr, std::max<size_t>(size, 64), access,
                             &m_memh));
    EXPECT_OK(uct_md_query(m_md, &md_attr));

    std::vector<uint8_t> packed(md_attr.rkey_packed_size);

    EXPECT_OK(uct_md_mkey_pack(m_md, m_memh, packed.data()));
    EXPECT_OK(
            uct_rkey_unpack(resource::get().component, packed.data(), &m_rkey));
}

mapped_buffer::~mapped_buffer()
{
    EXPECT_OK(uct_rkey_release(resource::get().component, &m_rkey));
    EXPECT_OK(uct_md_mem_dereg(m_md, m_memh));
    free(m_ptr);
}

uint8_t pattern_byte(uint64_t seed, size_t index)
{
    return static_cast<uint8_t>((seed * 31) + (index * 7) + (index >> 8) + 1);
}

std::vector<uint8_t> pattern(uint64_t seed, size_t length)
{
    std::vector<uint8_t> result(length);

    for (size_t i = 0; i < length; ++i) {
        result[i] = pattern_byte(seed, i);
    }
    return result;
}

void mapped_buffer::fill(uint64_t seed) const
{
    for (size_t i = 0; i < m_size; ++i) {
        ptr()[i] = pattern_byte(seed, i);
    }
}

void mapped_buffer::check(uint64_t seed, size_t length, size_t offset) const
{
    for (size_t i = 0; i < length; ++i) {
        ASSERT_EQ(pattern_byte(seed, i), ptr(offset)[i])
                << "byte " << i << " of " << length << " at offset " << offset;
    }
}

uct_iov_t mapped_buffer::iov(size_t length, size_t offset) const
{
    uct_iov_t result;

    result.buffer = ptr(offset);
    result.length = length;
    result.memh   = m_memh;
    result.stride = 0;
    result.count  = 1;
    return result;
}


static void completion_cb(uct_completion_t *self)
{
    completion *comp = reinterpret_cast<completion *>(
            reinterpret_cast<char *>(self) - offsetof(completion, uct));

    ++comp->called;
}

completion::completion(int count) : called(0)
{
    uct.func   = completion_cb;
    uct.count  = count;
    uct.status = UCS_OK;
}
