/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "transport.h"

#include <uct/ib/wimm/wimm.h>

#include <cstring>
#include <stdexcept>


namespace {

struct pack_arg {
    const void *data;
    size_t length;
};

size_t pack_cb(void *dest, void *arg)
{
    const pack_arg *pack = static_cast<const pack_arg *>(arg);

    memcpy(dest, pack->data, pack->length);
    return pack->length;
}

/* Completion of one zcopy */
struct request {
    uct_completion_t uct;
    transport::done_func_t done;

    static void callback(uct_completion_t *self)
    {
        request *r = ucs_container_of(self, request, uct);

        r->done(self->status, true);
        delete r;
    }
};


class transport_uct : public transport {
  public:
    explicit transport_uct(const std::string &device);
    ~transport_uct() override;

    std::vector<uint8_t> address() override;
    void connect(const std::vector<uint8_t> &address) override;
    ucs_status_t post(unsigned index, size_t number, size_t offset,
                      size_t length, uint32_t imm, bool bad_address,
                      const done_func_t &done) override;
    void progress() override
    {
        m_entity->progress();
    }
    void flush() override;
    void close() override;
    void check() override;
    void deregister_dst() override;
    void register_dst() override;
    std::string leftover() override
    {
        return queues_leftover();
    }

  private:
    /* The address of a side, before those of its endpoints */
    struct memory_info {
        uint64_t addr;
        uint64_t rkey;
    };

    static ucs_status_t arrival_cb(void *arg, uct_ep_h ep, uint32_t imm,
                                   size_t length);
    uct_mem_h register_memory(void *ptr) const;
    ucs_status_t flush_ep(unsigned index, unsigned flags) const;

    std::unique_ptr<entity> m_entity;
    uct_mem_h m_src_memh, m_dst_memh;
    uct_wimm_iface_attr_t m_attr;
    memory_info m_peer;
    bool m_connected;
};

transport_uct::transport_uct(const std::string &device)
    : m_peer(), m_connected(false)
{
    /* Read by what follows, once */
    setenv("WIMM_TEST_DEVICE", device.c_str(), 1);
    m_entity.reset(new entity({}, entity::open_params()));
    m_entity->on_error = [this](uct_ep_h, ucs_status_t status) {
        on_failure(status);
        return UCS_OK;
    };
    m_src_memh        = register_memory(m_src);
    m_dst_memh        = register_memory(m_dst);
    m_attr.field_mask = UCT_WIMM_IFACE_ATTR_FIELD_CAP;
    check_status(uct_wimm_iface_query(m_entity->iface(), &m_attr), "query");
    check_status(uct_wimm_iface_set_imm_handler(m_entity->iface(), arrival_cb,
                                                this),
                 "handler");
    set_interface(m_entity->iface());
}

transport_uct::~transport_uct()
{
    uct_md_mem_dereg(m_entity->md(), m_src_memh);
    deregister_dst();
}

uct_mem_h transport_uct::register_memory(void *ptr) const
{
    uct_mem_h memh;

    check_status(uct_md_mem_reg(m_entity->md(), ptr, memory_size,
                                UCT_MD_MEM_ACCESS_ALL, &memh),
                 "uct_md_mem_reg");
    return memh;
}

void transport_uct::deregister_dst()
{
    if (m_dst_memh != UCT_MEM_HANDLE_NULL) {
        uct_md_mem_dereg(m_entity->md(), m_dst_memh);
        m_dst_memh = UCT_MEM_HANDLE_NULL;
    }
}

void transport_uct::register_dst()
{
    m_dst_memh = register_memory(m_dst);
}

ucs_status_t transport_uct::arrival_cb(void *arg, uct_ep_h, uint32_t imm,
                                       size_t length)
{
    static_cast<transport_uct *>(arg)->on_arrival(imm, length);
    return UCS_OK;
}

std::vector<uint8_t> transport_uct::address()
{
    memory_info info = {};
    uct_rkey_bundle_t bundle;
    uct_md_attr_t md_attr;

    check_status(uct_md_query(m_entity->md(), &md_attr), "uct_md_query");
    std::vector<uint8_t> packed(md_attr.rkey_packed_size);
    check_status(uct_md_mkey_pack(m_entity->md(), m_dst_memh, packed.data()),
                 "uct_md_mkey_pack");
    check_status(uct_rkey_unpack(resource::get().component, packed.data(),
                                 &bundle),
                 "uct_rkey_unpack");
    info.addr = reinterpret_cast<uintptr_t>(m_dst);
    info.rkey = bundle.rkey;
    uct_rkey_release(resource::get().component, &bundle);

    std::vector<uint8_t> result(sizeof(info));
    memcpy(result.data(), &info, sizeof(info));
    for (unsigned i = 0; i < num_eps; ++i) {
        m_entity->create_ep(i);
        const std::vector<uint8_t> address = m_entity->address(i);
        result.insert(result.end(), address.begin(), address.end());
    }
    return result;
}

void transport_uct::connect(const std::vector<uint8_t> &address)
{
    const size_t length = (address.size() - sizeof(m_peer)) / num_eps;

    memcpy(&m_peer, address.data(), sizeof(m_peer));
    for (unsigned i = 0; i < num_eps; ++i) {
        const auto begin = address.begin() + sizeof(m_peer) + (i * length);
        m_entity->connect_to(i, std::vector<uint8_t>(begin, begin + length));
    }
    m_connected = true;
}

/* In each way that takes the length, in turn */
ucs_status_t transport_uct::post(unsigned index, size_t number, size_t offset,
                                 size_t length, uint32_t imm, bool bad_address,
                                 const done_func_t &done)
{
    const uint64_t addr = bad_address ? 0x1000 : (m_peer.addr + offset);
    uct_ep_h ep         = m_entity->ep(index);
    ucs_status_t status;

    if ((length <= m_attr.cap.max_short) && ((number % 3) == 0)) {
        status = uct_wimm_ep_put_imm_short(ep, src(offset), length, addr,
                                           m_peer.rkey, imm);
    } else if ((length <= m_attr.cap.max_bcopy) && ((number % 3) == 1)) {
        pack_arg arg = { src(offset), length };
        ssize_t ret  = uct_wimm_ep_put_imm_bcopy(ep, pack_cb, &arg, addr,
                                                 m_peer.rkey, imm);

        status = (ret < 0) ? static_cast<ucs_status_t>(ret) : UCS_OK;
    } else {
        uct_iov_t iov = {};
        request *r    = new request();

        iov.buffer = src(offset);
        iov.length = length;
        iov.memh   = m_src_memh;
        iov.count  = 1;
        r->uct     = { request::callback, 1, UCS_OK };
        r->done    = done;
        status = uct_wimm_ep_put_imm_zcopy(ep, &iov, 1, addr, m_peer.rkey, imm,
                                           &r->uct);
        if (status == UCS_INPROGRESS) {
            return UCS_OK;
        }
        delete r;
    }

    if (status == UCS_OK) {
        done(UCS_OK, false);
    }
    return status;
}

ucs_status_t transport_uct::flush_ep(unsigned index, unsigned flags) const
{
    uct_completion_t comp = { [](uct_completion_t *) {}, 2, UCS_OK };
    ucs_status_t status;

    do {
        m_entity->progress();
        status = uct_ep_flush(m_entity->ep(index), flags, &comp);
    } while (status == UCS_ERR_NO_RESOURCE);
    if (status != UCS_INPROGRESS) {
        return status;
    }
    while (comp.count == 2) {
        m_entity->progress();
    }
    return comp.status;
}

void transport_uct::flush()
{
    for (unsigned i = 0; i < num_eps; ++i) {
        check_status(flush_ep(i, UCT_FLUSH_FLAG_LOCAL), "flush");
    }
}

void transport_uct::close()
{
    for (unsigned i = 0; m_connected && (i < num_eps); ++i) {
        flush_ep(i, UCT_FLUSH_FLAG_CANCEL);
    }
    m_connected = false;
    m_entity->destroy_eps();
    m_entity->errors.clear();
}

void transport_uct::check()
{
    for (unsigned i = 0; i < num_eps; ++i) {
        /* That it has failed, its handler has said */
        uct_ep_check(m_entity->ep(i), 0, NULL);
    }
}

} // namespace


std::unique_ptr<transport> transport::create_uct(const std::string &device)
{
    return std::unique_ptr<transport>(new transport_uct(device));
}
