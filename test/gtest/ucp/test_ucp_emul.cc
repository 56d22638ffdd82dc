/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"


/* What only emulated puts do. Over UCX's TCP if the environment names nothing else: so it
 * runs with a device, too. */
class test_ucp_emul : public ucp_test {
  protected:
    void SetUp() override
    {
        ucp_test::SetUp();
        m_params.emulate = true;
        if (emulated_tls() == nullptr) {
            m_params.config = { { "TLS", "tcp" }, { "NET_DEVICES", "lo" } };
            m_dgid_check.reset(); /* No key of these */
        }
    }

    /* Two of them; the second one is attached later */
    void create_unattached()
    {
        create(m_params);
        m_params.attach = false;
        create(m_params);
        m_params.attach = true;
        sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
        m_src.reset(new ucp_buffer(sender(), 4096));
        m_dst.reset(new ucp_buffer(receiver(), 4096));
    }

    void TearDown() override
    {
        m_rkey.reset();
        m_src.reset();
        m_dst.reset();
        ucp_test::TearDown();
    }

    put_request &put(uint32_t imm, size_t length)
    {
        m_requests.emplace_back();
        put_request &r            = m_requests.back();
        ucp_request_param_t param = r.param();

        if (!m_rkey) {
            m_rkey.reset(
                    new ucp_buffer::rkey_ptr(m_dst->unpack(sender().ep())));
        }
        r.ptr = ucp_wimm_put_nbx(sender().wimm(), sender().ep(), m_src->ptr(),
                                 length, m_dst->addr(), m_rkey->get(), imm,
                                 &param);
        return r;
    }

    /* What comes from one side has reached the other one: its answer is here */
    void round_trips(unsigned count)
    {
        ucp_request_param_t param = {};
        uint64_t out = 1, in = 0;

        for (unsigned i = 0; i < count; ++i) {
            ucs_status_ptr_t recv = ucp_tag_recv_nbx(receiver().worker(), &in,
                                                     sizeof(in), 1, ~0ul,
                                                     &param);
            ucs_status_ptr_t send = ucp_tag_send_nbx(sender().ep(), &out,
                                                     sizeof(out), 1, &param);
            EXPECT_OK(wait(send));
            EXPECT_OK(wait(recv));
        }
    }

    ucs_status_t attach(ucp_entity &e, unsigned am_id, ucp_wimm_h *wimm_p)
    {
        ucp_wimm_params_t params = {};

        params.field_mask = UCP_WIMM_PARAM_FIELD_AM_ID;
        params.am_id      = am_id;
        return ucp_wimm_attach(e.worker(), &params, wimm_p);
    }

    void expect_refused(ucs_status_t expected, const std::string &sentence,
                        ucp_entity &e, unsigned am_id)
    {
        ucp_wimm_h wimm = nullptr;

        expect_error(sentence);
        EXPECT_STATUS(expected, attach(e, am_id, &wimm));
        EXPECT_EQ(nullptr, wimm);
    }

    ucp_entity::params m_params;
    std::unique_ptr<ucp_buffer> m_src, m_dst;
    std::unique_ptr<ucp_buffer::rkey_ptr> m_rkey;
    std::deque<put_request> m_requests;
};


TEST_F(test_ucp_emul, waits_for_a_peer_that_is_not_attached)
{
    create_unattached();
    m_src->fill(1, 0, 4096);
    /* One question, however many puts and however much time */
    expect_log(UCS_LOG_LEVEL_WARN, "no registered callback", 1);
    for (uint32_t imm = 0; imm < 100; ++imm) {
        put(imm, 4096);
    }
    round_trips(100);
    for (put_request &r : m_requests) {
        EXPECT_FALSE(r.is_done());
    }
    EXPECT_EQ(0u, ep_query(sender()).flow.num_slots);
    EXPECT_EQ(0, m_dst->ptr()[1]); /* Nothing is written, either */

    receiver().attach();
    ASSERT_TRUE(wait_arrivals(receiver(), 100));
    for (put_request &r : m_requests) {
        EXPECT_OK(wait(r));
    }
    for (uint32_t imm = 0; imm < 100; ++imm) {
        EXPECT_EQ(imm, receiver().arrivals[imm].imm);
        EXPECT_EQ(4096u, receiver().arrivals[imm].length);
    }
    EXPECT_EQ(4096u, m_dst->check(1, 0, 4096));
    EXPECT_EQ(100u, query(sender()).counters.emulated);
}

TEST_F(test_ucp_emul, crashes_no_peer_with_large_segments)
{
    scoped_env rx("UCX_TCP_RX_SEG_SIZE", "4m");
    scoped_env tx("UCX_TCP_TX_SEG_SIZE", "4m");

    m_params.config = { { "TLS", "tcp" }, { "NET_DEVICES", "lo" } };
    create_unattached();
    expect_log(UCS_LOG_LEVEL_WARN, "no registered callback", 1);
    put(1, 100);
    round_trips(10);
    receiver().attach();
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_OK(wait(m_requests[0]));
}

TEST_F(test_ucp_emul, attached_peer_is_asked_without_a_word)
{
    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    greet(sender(), receiver());
}

TEST_F(test_ucp_emul, close_ends_what_waits_for_a_peer)
{
    ucp_request_param_t param = {};

    create_unattached();
    allow_log(UCS_LOG_LEVEL_WARN, "no registered callback");
    put(1, 100);
    put(2, 0);
    round_trips(10);
    m_rkey.reset();
    EXPECT_OK(wait(ucp_ep_close_nbx(sender().release_ep(), &param)));
    for (put_request &r : m_requests) {
        EXPECT_STATUS(UCS_ERR_CANCELED, wait(r));
    }
    receiver().attach();
    EXPECT_EQ(0u, receiver().arrivals.size());
}

TEST_F(test_ucp_emul, close_and_flush_wait_until_the_peer_is_attached)
{
    ucp_request_param_t param = {};

    create_unattached();
    allow_log(UCS_LOG_LEVEL_WARN, "no registered callback");
    m_src->fill(1, 0, 4096);
    put(1, 4096);
    m_rkey.reset();
    ucs_status_ptr_t flush = ucp_wimm_flush_nbx(sender().wimm(), sender().ep(),
                                                &param);
    ucs_status_ptr_t close = ucp_wimm_ep_close_nbx(sender().wimm(),
                                                   sender().ep(), &param);
    ASSERT_TRUE(UCS_PTR_IS_PTR(flush));
    ASSERT_TRUE(UCS_PTR_IS_PTR(close));
    round_trips(10);
    EXPECT_STATUS(UCS_INPROGRESS, ucp_request_check_status(flush));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_request_check_status(close));
    receiver().attach();
    EXPECT_OK(wait(flush));
    EXPECT_EQ(4096u, m_dst->check(1, 0, 4096));
    sender().release_ep();
    EXPECT_OK(wait(close));
    EXPECT_OK(wait(m_requests[0]));
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
}

/* The receiver takes what it gets, and closes; then the sender */
TEST_F(test_ucp_emul, close_after_the_peer_has_closed)
{
    for (bool is_told : { true, false }) {
        ucp_request_param_t param = {};
        ucp_entity &a             = create(m_params);
        ucp_entity &b             = create(m_params);

        a.connect_address(b, UCP_ERR_HANDLING_MODE_PEER);
        b.connect_address(a, UCP_ERR_HANDLING_MODE_PEER);
        greet(a, b);
        if (is_told) {
            EXPECT_OK(close(b));
            ASSERT_TRUE(wait_for([&] {
                ucs_status_ptr_t ptr = ucp_wimm_notify_nbx(a.wimm(), a.ep(), 1,
                                                           &param);
                return wait(ptr) == UCS_ERR_NOT_CONNECTED;
            }));
        } else {
            /* UCP's own call tells nobody */
            EXPECT_OK(wait(ucp_ep_close_nbx(b.release_ep(), &param)));
        }
        EXPECT_OK(close(a));
    }
}

TEST_F(test_ucp_emul, never_completes_at_once)
{
    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    greet(sender(), receiver());

    ucp_request_param_t param = {};
    param.op_attr_mask        = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE,
                  UCS_PTR_STATUS(ucp_wimm_notify_nbx(sender().wimm(),
                                                     sender().ep(), 1,
                                                     &param)));

    put_request r;
    param = r.param();
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    r.ptr = ucp_wimm_notify_nbx(sender().wimm(), sender().ep(), 2, &param);
    ASSERT_TRUE(UCS_PTR_IS_PTR(r.ptr));
    EXPECT_OK(wait(r));
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_EQ(2u, receiver().arrivals[0].imm);
}

TEST_F(test_ucp_emul, slots_are_configured_and_come_back)
{
    scoped_env env("UCX_WIMM_NUM_SLOTS", "3");
    ucp_wimm_notification_t n;
    unsigned count;

    m_params.handler = false;
    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    m_src.reset(new ucp_buffer(sender(), 64));
    m_dst.reset(new ucp_buffer(receiver(), 64));
    EXPECT_EQ(3u, query(receiver()).cap.num_slots);
    for (uint32_t imm = 0; imm < 20; ++imm) {
        put(imm, 8);
    }
    for (uint32_t imm = 0; imm < 20; ++imm) {
        const unsigned left = 20 - imm;

        ASSERT_TRUE(wait_for([&] {
            return query(receiver()).queue.length == std::min(left, 3u);
        }));
        round_trips(5);
        EXPECT_EQ(std::min(left, 3u), query(receiver()).queue.length);
        EXPECT_EQ((left > 3) ? 0u : (3 - left), ep_query(sender()).flow.slots);
        ASSERT_OK(ucp_wimm_poll(receiver().wimm(), &n, 1, &count));
        ASSERT_EQ(1u, count);
        EXPECT_EQ(imm, n.imm);
    }
    for (put_request &r : m_requests) {
        EXPECT_OK(wait(r));
    }
}

TEST_F(test_ucp_emul, attach_refuses_what_cannot_be)
{
    m_params.attach = false;
    ucp_entity &e   = create(m_params);

    expect_refused(UCS_ERR_INVALID_PARAM, "65536 is no id of active messages",
                   e, 65536);
    {
        scoped_env env("UCX_WIMM_NUM_SLOTS", "0");

        expect_refused(UCS_ERR_INVALID_PARAM, "UCX_WIMM_NUM_SLOTS is 0", e, 5);
    }
    {
        scoped_env env("UCX_WIMM_NUM_SLOTS", "8192");

        expect_refused(UCS_ERR_INVALID_PARAM, "UCX_WIMM_NUM_SLOTS is 8192", e,
                       5);
    }

    ucp_am_handler_param_t am = {};
    am.field_mask             = UCP_AM_HANDLER_PARAM_FIELD_ID |
                    UCP_AM_HANDLER_PARAM_FIELD_CB;
    am.id = 5;
    am.cb = [](void *, const void *, size_t, void *, size_t,
               const ucp_am_recv_param_t *) { return UCS_OK; };
    ASSERT_OK(ucp_worker_set_am_recv_handler(e.worker(), &am));
    expect_refused(UCS_ERR_INVALID_PARAM,
                   "has a handler for active messages with the id 5", e, 5);

    /* None of these has left anything */
    ucp_wimm_h wimm;
    ASSERT_OK(attach(e, 6, &wimm));
    EXPECT_OK(ucp_wimm_detach(wimm));

    ucp_entity::params p = m_params;
    p.features           = UCP_FEATURE_RMA;
    expect_refused(UCS_ERR_UNSUPPORTED, "made without UCP_FEATURE_AM",
                   create(p), 5);
}

TEST_F(test_ucp_emul, id_stays_that_of_the_peers)
{
    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    greet(sender(), receiver());
    receiver().detach();
    expect_refused(UCS_ERR_INVALID_PARAM, "use the active message id 77",
                   receiver(), 78);
    receiver().attach();
    greet(sender(), receiver());
}

TEST_F(test_ucp_emul, arrivals_between_two_attachments_are_kept)
{
    ucp_request_param_t param = {};

    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    greet(sender(), receiver());
    for (unsigned round = 0; round < 3; ++round) {
        receiver().detach();
        for (uint32_t imm = 0; imm < 200; ++imm) {
            ASSERT_OK(wait(ucp_wimm_notify_nbx(sender().wimm(), sender().ep(),
                                               imm, &param)));
        }
        round_trips(3);
        receiver().attach();
        for (uint32_t imm = 200; imm < 210; ++imm) {
            ASSERT_OK(wait(ucp_wimm_notify_nbx(sender().wimm(), sender().ep(),
                                               imm, &param)));
        }
        ASSERT_TRUE(wait_arrivals(receiver(), 210));
        for (uint32_t imm = 0; imm < 210; ++imm) {
            ASSERT_EQ(imm, receiver().arrivals[imm].imm);
        }
        receiver().arrivals.clear();
    }
}

TEST_F(test_ucp_emul, sender_that_detaches_and_attaches_again)
{
    create_unattached();
    allow_log(UCS_LOG_LEVEL_WARN, "no registered callback");
    put(1, 100);
    sender().detach();
    receiver().attach();
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_OK(wait(m_requests[0]));
    sender().attach();
    EXPECT_OK(wait(put(2, 100)));
    ASSERT_TRUE(wait_arrivals(receiver(), 2));
    EXPECT_EQ(2u, receiver().arrivals[1].imm);
}

TEST_F(test_ucp_emul, to_the_endpoint_of_an_active_message)
{
    struct state {
        ucp_wimm_h wimm;
        ucs_status_ptr_t ptr;
    } state                   = {};
    ucp_request_param_t param = {};
    ucp_am_handler_param_t am = {};

    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    state.wimm    = receiver().wimm();
    am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                    UCP_AM_HANDLER_PARAM_FIELD_CB |
                    UCP_AM_HANDLER_PARAM_FIELD_ARG;
    am.id  = 1;
    am.arg = &state;
    am.cb  = [](void *arg, const void *, size_t, void *, size_t,
               const ucp_am_recv_param_t *p) {
        struct state *s          = static_cast<struct state *>(arg);
        ucp_request_param_t none = {};

        s->ptr = ucp_wimm_notify_nbx(s->wimm, p->reply_ep, 9, &none);
        return UCS_OK;
    };
    ASSERT_OK(ucp_worker_set_am_recv_handler(receiver().worker(), &am));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags        = UCP_AM_SEND_FLAG_REPLY;
    ASSERT_OK(
            wait(ucp_am_send_nbx(sender().ep(), 1, NULL, 0, NULL, 0, &param)));
    ASSERT_TRUE(wait_arrivals(sender(), 1));
    EXPECT_EQ(9u, sender().arrivals[0].imm);
    EXPECT_EQ(sender().ep(), sender().arrivals[0].ep);
    EXPECT_OK(wait(state.ptr));
}

TEST_F(test_ucp_emul, messages_that_are_none_of_ours_are_refused)
{
    char text[24]             = {};
    ucp_request_param_t param = {};

    create(m_params);
    create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    greet(sender(), receiver());
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    auto send          = [&](char op, size_t length, unsigned flags) {
        text[0]     = op;
        param.flags = flags;
        EXPECT_OK(wait(ucp_am_send_nbx(sender().ep(), ucp_entity::am_id, text,
                                                length, NULL, 0, &param)));
    };

    expect_error("is none of notified puts", 4);
    send(2, 23, UCP_AM_SEND_FLAG_REPLY);
    send(2, 0, UCP_AM_SEND_FLAG_REPLY);
    send(2, 24, 0);
    send(127, 24, UCP_AM_SEND_FLAG_REPLY);
    greet(sender(), receiver());
    EXPECT_EQ(0u, receiver().arrivals.size());
}

TEST_F(test_ucp_emul, flush_and_close_refuse_what_cannot_be)
{
    ucp_request_param_t param = {};

    create(m_params);
    create(m_params);
    ucp_entity &third = create(m_params);
    sender().connect_address(receiver(), UCP_ERR_HANDLING_MODE_PEER);
    auto expect = [&](ucp_wimm_h wimm, ucp_ep_h ep,
                      const ucp_request_param_t *p) {
        ucs_status_ptr_t flush = ucp_wimm_flush_nbx(wimm, ep, p);
        ucs_status_ptr_t close = ucp_wimm_ep_close_nbx(wimm, ep, p);

        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, UCS_PTR_STATUS(flush));
        EXPECT_STATUS(UCS_ERR_INVALID_PARAM, UCS_PTR_STATUS(close));
    };

    expect_error("the handle is NULL", 2);
    expect(NULL, sender().ep(), &param);
    expect_error("of a flush or close are NULL", 4);
    expect(sender().wimm(), NULL, &param);
    expect(sender().wimm(), sender().ep(), NULL);
    expect_error("is of another worker", 2);
    expect(third.wimm(), sender().ep(), &param);
}


/* Failures, where UCX tells of them */
class test_ucp_emul_fail : public test_ucp_emul {};


TEST_F(test_ucp_emul_fail, force_close_ends_what_waits_for_a_peer)
{
    create_unattached();
    allow_log(UCS_LOG_LEVEL_WARN, "no registered callback");
    put(1, 100);
    ucp_request_param_t param = {};
    ucs_status_ptr_t graceful = ucp_wimm_ep_close_nbx(sender().wimm(),
                                                      sender().ep(), &param);
    round_trips(10);
    m_rkey.reset();
    EXPECT_OK(close(sender(), 0, UCP_EP_CLOSE_FLAG_FORCE));
    EXPECT_STATUS(UCS_ERR_CANCELED, wait(m_requests[0]));
    EXPECT_STATUS(UCS_ERR_CANCELED, wait(graceful));
}

TEST_F(test_ucp_emul_fail, failure_ends_what_waits_for_a_peer)
{
    create_unattached();
    allow_log(UCS_LOG_LEVEL_WARN, "no registered callback");
    receiver().connect_address(sender(), UCP_ERR_HANDLING_MODE_PEER);
    put(1, 100);
    put(2, 0);
    round_trips(10);
    m_rkey.reset();
    allow_failure();
    cut_tcp();
    for (put_request &r : m_requests) {
        EXPECT_TRUE(UCS_STATUS_IS_ERR(wait(r)));
    }
    ASSERT_TRUE(wait_arrivals(sender(), 1));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(sender().arrivals[0].status));
    EXPECT_EQ(sender().ep(), sender().arrivals[0].ep);
    close_by_force(sender());
    close_by_force(receiver());
}
