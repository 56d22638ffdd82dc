/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <algorithm>


/* What a request of a notified put can do, and its parameters */
class test_ucp_request : public ucp_test {
  protected:
    static const size_t size = 1 << 20;

    void SetUp() override
    {
        ucp_test::SetUp();
        create_pair();
        m_src.reset(new ucp_buffer(sender(), size));
        m_dst.reset(new ucp_buffer(receiver(), size));
        m_rkey = m_dst->unpack(sender().ep()).release();
    }

    void TearDown() override
    {
        ucp_rkey_destroy(m_rkey);
        m_src.reset();
        m_dst.reset();
        ucp_test::TearDown();
    }

    ucs_status_ptr_t put(const void *buffer, size_t count,
                         const ucp_request_param_t &param, uint32_t imm = 1)
    {
        return ucp_wimm_put_nbx(sender().wimm(), sender().ep(), buffer, count,
                                m_dst->addr(), m_rkey, imm, &param);
    }

    void expect_refused(ucs_status_t expected, ucs_status_ptr_t ptr)
    {
        ASSERT_FALSE(UCS_PTR_IS_PTR(ptr));
        EXPECT_STATUS(expected, UCS_PTR_STATUS(ptr));
    }

    std::unique_ptr<ucp_buffer> m_src, m_dst;
    ucp_rkey_h m_rkey;
};

const size_t test_ucp_request::size;


TEST_F(test_ucp_request, short_put_needs_none)
{
    ucp_request_param_t param = {};

    ASSERT_OK(flush(sender()));
    EXPECT_EQ(nullptr, put(m_src->ptr(), 8, param));
    EXPECT_EQ(nullptr,
              ucp_wimm_notify_nbx(sender().wimm(), sender().ep(), 2, &param));
    ASSERT_TRUE(wait_arrivals(receiver(), 2));
    EXPECT_EQ(2u, query(sender()).counters.puts);
    EXPECT_EQ(0u, query(sender()).counters.requests);
}

TEST_F(test_ucp_request, no_imm_cmpl_gives_one_that_is_complete)
{
    put_request r;
    ucp_request_param_t param = r.param();

    ASSERT_OK(flush(sender()));
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    r.ptr = put(m_src->ptr(), 8, param);
    ASSERT_TRUE(UCS_PTR_IS_PTR(r.ptr));
    EXPECT_EQ(1u, r.num_callbacks);
    EXPECT_OK(ucp_request_check_status(r.ptr));
    EXPECT_TRUE(ucp_request_is_completed(r.ptr));
    ucp_request_free(r.ptr);
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
}

TEST_F(test_ucp_request, force_imm_cmpl_refuses_what_does_not_complete)
{
    ucp_request_param_t param = {};

    ASSERT_OK(flush(sender()));
    param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    EXPECT_EQ(nullptr, put(m_src->ptr(), 8, param));
    expect_refused(UCS_ERR_NO_RESOURCE, put(m_src->ptr(), size, param));
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_EQ(1u, receiver().arrivals.size());
}

TEST_F(test_ucp_request, in_memory_of_the_program)
{
    ucp_context_attr_t attr;

    attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
    ASSERT_OK(ucp_context_query(sender().context(), &attr));

    std::vector<char> memory(attr.request_size + 64);
    put_request r;
    ucp_request_param_t param = r.param();

    m_src->fill(3, 0, size);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
    param.request        = memory.data() + attr.request_size;
    ucs_status_ptr_t ptr = put(m_src->ptr(), size, param);
    ASSERT_EQ(param.request, ptr);
    ASSERT_TRUE(wait_for([&] { return r.num_callbacks > 0; }));
    EXPECT_OK(r.status);
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_EQ(size, m_dst->check(3, 0, size));
}

TEST_F(test_ucp_request, freed_while_in_progress)
{
    ucp_request_param_t param = {};
    ucs_status_ptr_t ptr      = put(m_src->ptr(), size, param);

    ASSERT_TRUE(UCS_PTR_IS_PTR(ptr));
    ucp_request_free(ptr);
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_OK(flush(sender()));
}

TEST_F(test_ucp_request, datatype_with_elements)
{
    ucp_request_param_t param = {};

    m_src->fill(1, 0, 24 * 1000);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype     = ucp_dt_make_contig(24);
    EXPECT_OK(wait(put(m_src->ptr(), 1000, param)));
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_EQ(24000u, receiver().arrivals[0].length);
    EXPECT_EQ(24000u, m_dst->check(1, 0, 24000));
}

TEST_F(test_ucp_request, iov_of_all_shapes)
{
    struct shape {
        size_t count, length;
    };
    static const shape shapes[] = { { 1, 8 },     { 2, 0 },     { 3, 100 },
                                    { 8, 5000 },  { 9, 5000 },  { 12, 40 },
                                    { 12, 5000 }, { 50, 2000 }, { 64, 16000 },
                                    { 3000, 3 },  { 2000, 300 } };
    uint32_t imm                = 0;

    for (const shape &s : shapes) {
        const size_t total = s.count * s.length;
        std::vector<ucp_dt_iov_t> iov;
        ucp_request_param_t param = {};

        m_src->fill(imm, 0, total);
        m_dst->clear();
        for (size_t i = 0; i < s.count; ++i) {
            iov.push_back({ m_src->ptr(i * s.length), s.length });
            if ((i % 3) == 0) {
                iov.push_back({ nullptr, 0 }); /* Holes are legal */
            }
        }

        param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype     = UCP_DATATYPE_IOV;
        EXPECT_OK(wait(put(iov.data(), iov.size(), param, imm)));
        ASSERT_TRUE(wait_arrivals(receiver(), imm + 1));
        EXPECT_EQ(total, receiver().arrivals[imm].length) << s.count;
        EXPECT_EQ(imm, receiver().arrivals[imm].imm);
        EXPECT_EQ(total, m_dst->check(imm, 0, total)) << s.count;
        ++imm;
    }
}

TEST_F(test_ucp_request, what_cannot_be_used_is_refused)
{
    ucp_request_param_t none = {}, iov = {}, memh = {}, generic = {};
    ucp_buffer other(sender(), 64);
    ucp_entity &third = create({});
    ucp_wimm_h wimm   = sender().wimm();
    ucp_ep_h ep       = sender().ep();
    const size_t n    = 2000;

    expect_error("the handle is NULL", 2);
    expect_refused(UCS_ERR_INVALID_PARAM,
                   ucp_wimm_put_nbx(NULL, ep, m_src->ptr(), 8, m_dst->addr(),
                                    m_rkey, 1, &none));
    expect_refused(UCS_ERR_INVALID_PARAM,
                   ucp_wimm_notify_nbx(NULL, ep, 1, &none));
    expect_error("are NULL", 2);
    expect_refused(UCS_ERR_INVALID_PARAM,
                   ucp_wimm_notify_nbx(wimm, NULL, 1, &none));
    expect_refused(UCS_ERR_INVALID_PARAM,
                   ucp_wimm_notify_nbx(wimm, ep, 1, NULL));
    expect_error("is of another worker");
    expect_refused(UCS_ERR_INVALID_PARAM,
                   ucp_wimm_notify_nbx(third.wimm(), ep, 1, &none));

    expect_error("the buffer of a notified put is NULL", 3);
    expect_error("the remote key of a notified put is NULL", 2);
    for (size_t length : { size_t(8), n }) {
        expect_refused(UCS_ERR_INVALID_PARAM, put(NULL, length, none));
        expect_refused(UCS_ERR_INVALID_PARAM,
                       ucp_wimm_put_nbx(wimm, ep, m_src->ptr(), length,
                                        m_dst->addr(), NULL, 1, &none));
    }

    memh.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH;
    memh.memh         = other.memh();
    expect_error("does not cover");
    expect_refused(UCS_ERR_INVALID_PARAM, put(other.ptr(), 65, memh));
    memh.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    memh.memory_type = UCS_MEMORY_TYPE_CUDA;
    expect_error("is for host memory, but the put is of cuda memory");
    expect_refused(UCS_ERR_INVALID_PARAM, put(other.ptr(), 64, memh));

    iov.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    iov.datatype     = UCP_DATATYPE_IOV;
    expect_refused(UCS_ERR_INVALID_PARAM, put(NULL, 1, iov));
    generic.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    generic.datatype     = UCP_DATATYPE_GENERIC;
    expect_refused(UCS_ERR_UNSUPPORTED, put(m_src->ptr(), 1, generic));

    /* Nothing of all that was sent */
    ASSERT_OK(wait(put(m_src->ptr(), 8, none, 7)));
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_EQ(7u, receiver().arrivals[0].imm);
}

TEST_F(test_ucp_request, key_of_another_endpoint_is_refused)
{
    ucp_request_param_t param = {};
    ucp_entity &third         = create({});
    ucp_buffer dst(third, 64);

    ucp_ep_h other = sender().connect_address(third,
                                              UCP_ERR_HANDLING_MODE_PEER);
    auto rkey      = dst.unpack(other);
    expect_error("was unpacked on another endpoint");
    expect_refused(UCS_ERR_INVALID_PARAM,
                   ucp_wimm_put_nbx(sender().wimm(), sender().ep(),
                                    m_src->ptr(), 8, dst.addr(), rkey.get(), 1,
                                    &param));
}

TEST_F(test_ucp_request, put_from_one_buffer_registers_it_once)
{
    ucp_request_param_t param = {};
    std::vector<char> memory(256 << 10);

    /* Each registration takes a key from the device */
    auto num_mrs = [] { return command_lines("rdma resource show mr").size(); };

    EXPECT_OK(wait(put(memory.data(), memory.size(), param)));
    const size_t before = num_mrs();
    for (unsigned i = 0; i < 20; ++i) {
        EXPECT_OK(wait(put(memory.data(), memory.size(), param)));
    }
    EXPECT_EQ(before, num_mrs());
    EXPECT_GT(before, 0u);
}

TEST_F(test_ucp_request, queries)
{
    ucp_wimm_ep_attr_t attr = ep_query(sender());

    if (default_connection() == connection::ADDRESS) {
        EXPECT_EQ((emulated_tls() != nullptr) ? UCP_WIMM_WAY_EMULATED :
                                                UCP_WIMM_WAY_QUEUED,
                  attr.way);
        EXPECT_EQ(0u, attr.flow.num_slots);
    }
    greet(sender(), receiver());

    attr = ep_query(sender());
    EXPECT_EQ(query(receiver()).cap.num_slots, attr.flow.num_slots);
    const ucp_wimm_attr_t a = query(sender());
    EXPECT_EQ(32u, a.cap.imm_bits);
    EXPECT_EQ(0u, a.queue.length);
    if (emulated_tls() != nullptr) {
        EXPECT_EQ(UCP_WIMM_WAY_EMULATED, attr.way);
        EXPECT_EQ(UCP_WIMM_REASON_NO_TRANSPORT, attr.reason);
        EXPECT_FALSE(attr.puts_covered);
        EXPECT_EQ(0u, attr.flow.credits);
        EXPECT_EQ(attr.flow.num_slots - 1, attr.flow.slots);
        EXPECT_EQ(0u, a.cap.num_ifaces);
        EXPECT_EQ(0u, a.cap.max_message);
        EXPECT_EQ(1u, a.counters.emulated);
        return;
    }

    EXPECT_EQ(UCP_WIMM_WAY_NATIVE, attr.way);
    EXPECT_EQ(UCP_WIMM_REASON_NONE, attr.reason);
    EXPECT_TRUE(attr.puts_covered);
    EXPECT_GT(attr.flow.credits, 0u);
    EXPECT_EQ(1u, a.cap.num_ifaces);
    EXPECT_GT(a.cap.max_short, 0u);
    EXPECT_GT(a.cap.max_bcopy, a.cap.max_short);
    EXPECT_GT(a.cap.max_message, a.cap.max_bcopy);
    EXPECT_EQ(0u, a.counters.emulated);
}

TEST_F(test_ucp_request, without_the_transport_there_is_a_reason)
{
    ucp_entity::params p;
    ucp_request_param_t param = {};
    ucp_wimm_ep_attr_t attr;

    if (emulated_tls() == nullptr) {
        p.config = { { "TLS", "rc_verbs,ud_verbs:aux" } };
    }
    p.emulate       = false;
    ucp_entity &a   = create(p);
    ucp_entity &b   = create(p);
    ucp_ep_h ep     = a.connect_address(b, UCP_ERR_HANDLING_MODE_PEER);
    attr.field_mask = UCP_WIMM_EP_ATTR_FIELD_WAY |
                      UCP_WIMM_EP_ATTR_FIELD_REASON;
    ASSERT_OK(ucp_wimm_ep_query(a.wimm(), ep, &attr));
    EXPECT_EQ(UCP_WIMM_WAY_NONE, attr.way);
    EXPECT_EQ(UCP_WIMM_REASON_NO_TRANSPORT, attr.reason);
    EXPECT_EQ(0u, query(a).cap.num_ifaces);
    expect_refused(UCS_ERR_UNSUPPORTED,
                   ucp_wimm_notify_nbx(a.wimm(), ep, 1, &param));
}

TEST_F(test_ucp_request, another_lane_is_a_reason)
{
    ucp_entity::params p;
    ucp_wimm_ep_attr_t attr;

    p.config        = { { "TLS", "wimm,rc_verbs,ud_verbs:aux" } };
    ucp_entity &a   = create(p);
    ucp_entity &b   = create(p);
    ucp_ep_h ep     = a.connect_address(b, UCP_ERR_HANDLING_MODE_PEER);
    attr.field_mask = UCP_WIMM_EP_ATTR_FIELD_WAY |
                      UCP_WIMM_EP_ATTR_FIELD_REASON;
    ASSERT_OK(ucp_wimm_ep_query(a.wimm(), ep, &attr));
    EXPECT_EQ(UCP_WIMM_WAY_NONE, attr.way);
    EXPECT_EQ(UCP_WIMM_REASON_OTHER_LANE, attr.reason);
}
