/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "transport.h"

#include "../ucp/ucp_entity.h"
#include "../ucp/ucp_internal.h"

#include <cstring>
#include <stdexcept>


namespace {


class transport_ucp : public transport {
  public:
    explicit transport_ucp(const std::string &device);
    ~transport_ucp() override;

    std::vector<uint8_t> address() override;
    void connect(const std::vector<uint8_t> &address) override;
    ucs_status_t post(unsigned index, size_t number, size_t offset,
                      size_t length, uint32_t imm, bool bad_address,
                      const done_func_t &done) override;
    void progress() override;
    void flush() override;
    void close() override;
    void deregister_dst() override;
    void register_dst() override;
    std::string leftover() override;

  private:
    struct info {
        uint64_t addr;
        uint32_t address_length, rkey_length;
    };

    struct request {
        done_func_t done;
    };

    static void request_cb(void *ptr, ucs_status_t status, void *arg);
    ucp_mem_h register_memory(void *ptr) const;
    ucs_status_t wait(ucs_status_ptr_t request);

    std::unique_ptr<ucp_entity> m_entity;
    ucp_mem_h m_src_memh, m_dst_memh;
    uint64_t m_peer_addr;
    size_t m_num_errors;
    std::vector<ucp_rkey_h> m_rkeys;
};

transport_ucp::transport_ucp(const std::string &device)
    : m_peer_addr(0), m_num_errors(0)
{
    ucp_entity::params open;

    open.device   = device;
    open.features = UCP_FEATURE_RMA;
    open.emulate  = false;
    m_entity.reset(new ucp_entity(open));
    m_entity->on_arrival = [this](const ucp_wimm_notification_t &n) {
        if (n.status == UCS_OK) {
            on_arrival(n.imm, n.length);
        }
        m_entity->arrivals.clear();
        return UCS_OK;
    };
    m_src_memh = register_memory(m_src);
    m_dst_memh = register_memory(m_dst);
    set_interface(find_iface(m_entity->worker(), "wimm"));
}

transport_ucp::~transport_ucp()
{
    ucp_mem_unmap(m_entity->context(), m_src_memh);
    deregister_dst();
}

ucp_mem_h transport_ucp::register_memory(void *ptr) const
{
    ucp_mem_map_params_t params = {};
    ucp_mem_h memh;

    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                        UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = ptr;
    params.length  = memory_size;
    check_status(ucp_mem_map(m_entity->context(), &params, &memh),
                 "ucp_mem_map");
    return memh;
}

void transport_ucp::deregister_dst()
{
    if (m_dst_memh != nullptr) {
        ucp_mem_unmap(m_entity->context(), m_dst_memh);
        m_dst_memh = nullptr;
    }
}

void transport_ucp::register_dst()
{
    m_dst_memh = register_memory(m_dst);
}

std::vector<uint8_t> transport_ucp::address()
{
    ucp_address_t *address;
    info i = {};
    size_t address_length, rkey_length;
    void *rkey;

    check_status(ucp_worker_get_address(m_entity->worker(), &address,
                                        &address_length),
                 "ucp_worker_get_address");
    check_status(ucp_rkey_pack(m_entity->context(), m_dst_memh, &rkey,
                               &rkey_length),
                 "ucp_rkey_pack");
    i.addr           = reinterpret_cast<uintptr_t>(m_dst);
    i.address_length = address_length;
    i.rkey_length    = rkey_length;

    std::vector<uint8_t> result(sizeof(i) + address_length + rkey_length);
    memcpy(result.data(), &i, sizeof(i));
    memcpy(&result[sizeof(i)], address, address_length);
    memcpy(&result[sizeof(i) + address_length], rkey, rkey_length);
    ucp_worker_release_address(m_entity->worker(), address);
    ucp_rkey_buffer_release(rkey);
    return result;
}

void transport_ucp::connect(const std::vector<uint8_t> &address)
{
    info i;

    memcpy(&i, address.data(), sizeof(i));
    m_peer_addr = i.addr;
    m_rkeys.clear();
    for (unsigned k = 0; k < num_eps; ++k) {
        ucp_ep_h ep = m_entity->connect_remote(&address[sizeof(i)]);
        ucp_rkey_h rkey;

        check_status(ucp_ep_rkey_unpack(ep,
                                        &address[sizeof(i) + i.address_length],
                                        &rkey),
                     "ucp_ep_rkey_unpack");
        m_rkeys.push_back(rkey);
    }
}

void transport_ucp::request_cb(void *ptr, ucs_status_t status, void *arg)
{
    request *r = static_cast<request *>(arg);

    r->done(status, false);
    delete r;
    ucp_request_free(ptr);
}

ucs_status_t transport_ucp::post(unsigned index, size_t, size_t offset,
                                 size_t length, uint32_t imm, bool bad_address,
                                 const done_func_t &done)
{
    const uint64_t addr       = bad_address ? 0x1000 : (m_peer_addr + offset);
    request *r                = new request{ done };
    ucp_request_param_t param = {};
    ucs_status_ptr_t ptr;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                         UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send   = request_cb;
    param.user_data = r;
    ptr = ucp_wimm_put_nbx(m_entity->wimm(), m_entity->ep(index), src(offset),
                           length, addr, m_rkeys.at(index), imm, &param);
    if (UCS_PTR_IS_PTR(ptr)) {
        return UCS_OK;
    }

    const ucs_status_t status = UCS_PTR_STATUS(ptr);
    if (status == UCS_OK) {
        done(UCS_OK, false);
    }
    delete r;
    return status;
}

void transport_ucp::progress()
{
    m_entity->progress();
    while (m_entity->errors.size() > m_num_errors) {
        on_failure(m_entity->errors[m_num_errors++].second);
    }
}

ucs_status_t transport_ucp::wait(ucs_status_ptr_t request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        m_entity->progress();
    }
    ucp_request_free(request);
    return status;
}

void transport_ucp::flush()
{
    ucp_request_param_t param = {};

    for (unsigned i = 0; i < num_eps; ++i) {
        check_status(wait(ucp_wimm_flush_nbx(m_entity->wimm(), m_entity->ep(i),
                                             &param)),
                     "flush");
    }
}

/* By force: UCP keeps endpoints until the worker goes if their peer has connected, too */
void transport_ucp::close()
{
    ucp_request_param_t param = {};
    std::vector<ucs_status_ptr_t> requests;

    for (ucp_rkey_h rkey : m_rkeys) {
        ucp_rkey_destroy(rkey);
    }
    m_rkeys.clear();

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags        = UCP_EP_CLOSE_FLAG_FORCE;
    while (m_entity->num_eps() > 0) {
        requests.push_back(ucp_wimm_ep_close_nbx(m_entity->wimm(),
                                                 m_entity->release_ep(),
                                                 &param));
    }
    for (ucs_status_ptr_t request : requests) {
        wait(request);
    }
    m_entity->errors.clear();
    m_num_errors = 0;
}

std::string transport_ucp::leftover()
{
    ucp_wimm_attr_t attr;

    attr.field_mask = UCP_WIMM_ATTR_FIELD_QUEUE;
    check_status(ucp_wimm_query(m_entity->wimm(), &attr), "query");
    return (attr.queue.length == 0) ?
                   queues_leftover() :
                   ("records " + std::to_string(attr.queue.length));
}

} // namespace


std::unique_ptr<transport> transport::create_ucp(const std::string &device)
{
    return std::unique_ptr<transport>(new transport_ucp(device));
}
