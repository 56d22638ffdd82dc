/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_internal.h"
#include "ucp_test.h"

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>


/* The receiving side, over each way to connect */
class test_ucp_recv : public ucp_conn_test {
  protected:
    ucs_status_ptr_t notify(uint32_t imm, size_t ep_index = 0)
    {
        ucp_request_param_t param = {};

        return ucp_wimm_notify_nbx(sender().wimm(), sender().ep(ep_index), imm,
                                   &param);
    }

    void notify_all(uint32_t first, uint32_t count)
    {
        for (uint32_t imm = first; imm < (first + count); ++imm) {
            ucs_status_ptr_t ptr = notify(imm);
            ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
            if (UCS_PTR_IS_PTR(ptr)) {
                ucp_request_free(ptr);
            }
        }
    }

    std::vector<ucp_wimm_notification_t> poll_queue(unsigned max)
    {
        std::vector<ucp_wimm_notification_t> result(max);
        unsigned count;

        EXPECT_OK(ucp_wimm_poll(receiver().wimm(), result.data(), max, &count));
        result.resize(count);
        return result;
    }

    ucp_wimm_counter_h counter(const ucp_wimm_counter_params_t &params)
    {
        ucp_wimm_counter_h c = nullptr;

        EXPECT_OK(ucp_wimm_counter_create(receiver().wimm(), &params, &c));
        return c;
    }
};


TEST_P(test_ucp_recv, queue_keeps_the_order_and_is_bounded_by_slots)
{
    const uint32_t slots = query(receiver()).cap.num_slots;
    const uint32_t total = 2 * slots;
    uint32_t next        = 0;

    ASSERT_OK(ucp_wimm_set_handler(receiver().wimm(), NULL, NULL));
    notify_all(0, total);
    ASSERT_TRUE(
            wait_for([&] { return query(receiver()).queue.length == slots; }));
    for (unsigned i = 0; i < 1000; ++i) {
        progress();
    }
    EXPECT_EQ(slots, query(receiver()).queue.length);
    EXPECT_EQ(0u, poll_queue(0).size());

    ASSERT_TRUE(wait_for([&] {
        for (const auto &n : poll_queue(7)) {
            EXPECT_EQ(next, n.imm);
            EXPECT_OK(n.status);
            EXPECT_EQ(0u, n.length);
            ++next;
        }
        return next == total;
    }));
}

TEST_P(test_ucp_recv, before_attach_is_kept_in_order)
{
    receiver().detach();
    if (emulated_tls() != nullptr) {
        /* By UCX of the peer, once: it is asked whether it is there */
        allow_log(UCS_LOG_LEVEL_WARN, "no registered callback");
    }
    notify_all(0, 100);
    for (unsigned i = 0; i < 1000; ++i) {
        progress();
    }
    receiver().attach();
    ASSERT_TRUE(wait_arrivals(receiver(), 100));
    for (uint32_t i = 0; i < 100; ++i) {
        EXPECT_EQ(i, receiver().arrivals[i].imm);
    }
}

TEST_P(test_ucp_recv, a_full_queue_stops_nothing_else)
{
    static const size_t big   = 200000;
    ucp_request_param_t param = {};
    std::string text(big, 'x'), got(big, ' ');
    ucp_ep_h to               = sender().ep();
    unsigned num_ams          = 0;
    ucp_am_handler_param_t am = {};

    ASSERT_OK(ucp_wimm_set_handler(receiver().wimm(), NULL, NULL));
    notify_all(0, 2 * query(receiver()).cap.num_slots);

    am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                    UCP_AM_HANDLER_PARAM_FIELD_CB |
                    UCP_AM_HANDLER_PARAM_FIELD_ARG;
    am.id  = 1;
    am.arg = &num_ams;
    am.cb  = [](void *arg, const void *, size_t, void *, size_t,
               const ucp_am_recv_param_t *) {
        ++*static_cast<unsigned *>(arg);
        return UCS_OK;
    };
    ASSERT_OK(ucp_worker_set_am_recv_handler(receiver().worker(), &am));

    for (unsigned i = 0; i < 50; ++i) {
        ASSERT_OK(wait(
                ucp_am_send_nbx(to, 1, NULL, 0, text.data(), 100, &param)));
    }

    /* A rendezvous, whose answer comes from the peer */
    ucs_status_ptr_t recv = ucp_tag_recv_nbx(receiver().worker(), &got[0], big,
                                             7, ~0ul, &param);
    ucs_status_ptr_t send = ucp_tag_send_nbx(to, text.data(), big, 7, &param);
    EXPECT_OK(wait(send));
    EXPECT_OK(wait(recv));
    EXPECT_EQ(text, got);
    ASSERT_TRUE(wait_for([&] { return num_ams == 50; }));
    ASSERT_TRUE(wait_for([&] {
        return query(receiver()).queue.length ==
               query(receiver()).cap.num_slots;
    }));
    while (!poll_queue(100).empty()) {
        progress();
    }
}

TEST_P(test_ucp_recv, endpoint_is_the_programs_or_none)
{
    notify_all(0, 1);
    ASSERT_TRUE(wait_arrivals(receiver(), 1));

    /* A listener has made one, a worker address has not */
    if (GetParam() == connection::ADDRESS) {
        EXPECT_EQ(nullptr, receiver().arrivals[0].ep);
        receiver().connect_address(sender(), UCP_ERR_HANDLING_MODE_PEER);
    } else {
        EXPECT_EQ(receiver().ep(), receiver().arrivals[0].ep);
    }

    notify_all(1, 1);
    ASSERT_TRUE(wait_arrivals(receiver(), 2));
    EXPECT_EQ(receiver().ep(), receiver().arrivals[1].ep);
}

TEST_P(test_ucp_recv, counters_count_and_the_rest_is_handled)
{
    ucp_wimm_counter_params_t params = {};
    unsigned ready[2], count;
    uint64_t value;

    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH |
                        UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED;
    params.match    = { 0x80000000, 0x80000000 };
    params.expected = 50;
    ucp_wimm_counter_h c[2];
    c[0] = counter(params);
    params.field_mask |= UCP_WIMM_COUNTER_PARAM_FIELD_ADD;
    params.match    = { 0x40000000, 0xc0000000 };
    params.add      = { 0, 16 };
    params.expected = 1275;
    c[1]            = counter(params);

    for (uint32_t i = 1; i <= 50; ++i) {
        notify_all(i, 1);
        notify_all(0x80000000 + i, 1);
        notify_all(0x40000000 + i, 1);
    }

    /* The other side needs no progress of its own: it is flushed by ours */
    bool done = false;
    ASSERT_TRUE(wait_for([&] {
        ucs_status_t status = ucp_wimm_wait_some(receiver().wimm(), c, 2, 0,
                                                 ready, &count);
        if (status == UCS_OK) {
            done = count == 2;
        } else {
            EXPECT_STATUS(UCS_ERR_TIMED_OUT, status);
        }
        return done;
    }));
    EXPECT_EQ(0u, ready[0]);
    EXPECT_EQ(1u, ready[1]);
    EXPECT_OK(ucp_wimm_counter_read(c[0], &value));
    EXPECT_EQ(50u, value);
    EXPECT_OK(ucp_wimm_counter_reset(c[1], 1, &value));
    EXPECT_EQ(1275u, value);
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c[1]));
    ASSERT_TRUE(wait_arrivals(receiver(), 50));
    for (uint32_t i = 0; i < 50; ++i) {
        EXPECT_EQ(i + 1, receiver().arrivals[i].imm);
    }
    EXPECT_EQ(100u, query(receiver()).counters.counted);
    ucp_wimm_counter_destroy(c[0]);
    ucp_wimm_counter_destroy(c[1]);
}

TEST_P(test_ucp_recv, sleeps_and_wakes)
{
    ucp_worker_h worker = receiver().worker();
    unsigned wakeups    = 0;
    int fd;

    ASSERT_OK(ucp_wimm_set_handler(receiver().wimm(), NULL, NULL));
    ASSERT_OK(ucp_worker_get_efd(worker, &fd));
    ASSERT_OK(flush(sender()));
    for (uint32_t round = 0; round < 20; ++round) {
        /* The loop of the documentation */
        for (;;) {
            while (receiver().progress()) {
            }
            while (!poll_queue(16).empty()) {
            }
            if ((ucp_wimm_arm(receiver().wimm()) == UCS_OK) &&
                (ucp_worker_arm(worker) == UCS_OK)) {
                break;
            }
        }

        notify_all(round, 1);
        for (unsigned i = 0; i < 10; ++i) {
            sender().progress();
        }

        struct pollfd pfd = { fd, POLLIN, 0 };
        ASSERT_EQ(1, poll(&pfd, 1, 20000)) << round;
        ++wakeups;
        ASSERT_TRUE(
                wait_for([&] { return query(receiver()).queue.length > 0; }));
        EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(receiver().wimm()));
        EXPECT_EQ(round, poll_queue(16).at(0).imm);
    }
    EXPECT_EQ(20u, wakeups);
}

UCP_CONN_TESTS(test_ucp_recv);


/* Failures of endpoints with error handling */
class test_ucp_fail : public ucp_conn_test {
  protected:
    void SetUp() override
    {
        ucp_entity::params p = conn_params();

        ucp_test::SetUp();
        p.config = config_that_fails_soon();
        create_pair(p, UCP_ERR_HANDLING_MODE_PEER, true);
        allow_failure();
    }
};


TEST_P(test_ucp_fail, put_that_fails_ends_in_an_error_and_notifies_nobody)
{
    const size_t length = long_put();
    ucp_buffer src(sender(), length), dst(receiver(), length);
    auto rkey = dst.unpack(sender().ep());
    std::deque<put_request> requests(20);
    ucp_wimm_counter_params_t params = {};
    ucp_wimm_counter_h c;
    unsigned ok = 0;

    ASSERT_OK(ucp_wimm_counter_create(sender().wimm(), &params, &c));
    ASSERT_OK(flush(sender()));
    greet(sender(), receiver());
    for (put_request &r : requests) {
        ucp_request_param_t param = r.param();

        r.ptr = ucp_wimm_put_nbx(sender().wimm(), sender().ep(), src.ptr(),
                                 length, bad_address(dst), rkey.get(), 1,
                                 &param);
    }
    cut();
    for (put_request &r : requests) {
        ok += (wait(r) == UCS_OK);
    }
    EXPECT_EQ(0u, ok);
    ASSERT_TRUE(wait_for([&] { return !sender().errors.empty(); }));
    for (const arrival &a : receiver().arrivals) {
        EXPECT_NE(UCS_OK, a.status); /* Its own endpoint may fail */
    }

    /* Told once to the counter of the worker, and by a record of the stream */
    ucs_status_t status = UCS_INPROGRESS;
    ASSERT_TRUE(wait_for([&] {
        status = ucp_wimm_counter_test(c);
        return status != UCS_INPROGRESS;
    }));
    expect_failure(sender().errors[0].second, status);
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    ASSERT_EQ(1u, sender().arrivals.size());
    EXPECT_STATUS(status, sender().arrivals[0].status);
    EXPECT_EQ(sender().ep(), sender().arrivals[0].ep);
    ucp_wimm_counter_destroy(c);

    /* A further one is refused, in whatever way */
    put_request late;
    ucp_request_param_t param = late.param();
    late.ptr = ucp_wimm_notify_nbx(sender().wimm(), sender().ep(), 2, &param);
    EXPECT_NE(UCS_OK, wait(late));
    rkey.reset();
    close(sender(), 0, UCP_EP_CLOSE_FLAG_FORCE);
    close_by_force(receiver());
}

TEST_P(test_ucp_fail, closing_peer_loses_nothing_that_had_arrived)
{
    const uint32_t count      = 400;
    ucp_request_param_t param = {};

    for (uint32_t imm = 0; imm < count; ++imm) {
        ucs_status_ptr_t ptr = ucp_wimm_notify_nbx(sender().wimm(),
                                                   sender().ep(), imm, &param);
        ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
        if (UCS_PTR_IS_PTR(ptr)) {
            ucp_request_free(ptr);
        }
    }
    EXPECT_OK(close(sender()));
    ASSERT_TRUE(wait_for([&] {
        return std::count_if(receiver().arrivals.begin(),
                             receiver().arrivals.end(), [](const arrival &a) {
                                 return a.status == UCS_OK;
                             }) == count;
    }));
    for (uint32_t i = 0; i < count; ++i) {
        ASSERT_EQ(i, receiver().arrivals[i].imm);
    }
    if (GetParam() != connection::ADDRESS) {
        /* The connection manager tells, after all that */
        ASSERT_TRUE(wait_arrivals(receiver(), count + 1));
        EXPECT_NE(UCS_OK, receiver().arrivals[count].status);
        close(receiver(), 0, UCP_EP_CLOSE_FLAG_FORCE);
    }
}

TEST_P(test_ucp_fail, counter_of_an_endpoint_that_is_closed)
{
    ucp_wimm_counter_params_t params = {};
    ucp_wimm_counter_h c;
    uint64_t value;

    ASSERT_EQ(1u, receiver().num_eps());
    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP |
                        UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED;
    params.ep       = receiver().ep();
    params.expected = 2;
    ASSERT_OK(ucp_wimm_counter_create(receiver().wimm(), &params, &c));

    ucp_request_param_t param = {};
    ucs_status_ptr_t ptr = ucp_wimm_notify_nbx(sender().wimm(), sender().ep(),
                                               1, &param);
    ASSERT_OK(wait(ptr));
    ASSERT_TRUE(wait_for([&] {
        EXPECT_OK(ucp_wimm_counter_read(c, &value));
        return value == 1;
    }));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(c));
    close(receiver());
    ucs_status_t status = UCS_INPROGRESS;
    ASSERT_TRUE(wait_for([&] {
        status = ucp_wimm_counter_test(c);
        return status != UCS_INPROGRESS;
    }));
    EXPECT_STATUS(UCS_ERR_NOT_CONNECTED, status);
    EXPECT_OK(ucp_wimm_counter_read(c, &value));
    EXPECT_EQ(1u, value);
    ucp_wimm_counter_destroy(c);
    close(sender(), 0, UCP_EP_CLOSE_FLAG_FORCE);
}

UCP_CONN_TESTS(test_ucp_fail);


/* Several endpoints and workers */
class test_ucp_many : public ucp_test {};


TEST_F(test_ucp_many, with_itself)
{
    ucp_entity &e             = create({});
    ucp_request_param_t param = {};

    e.connect_address(e, UCP_ERR_HANDLING_MODE_PEER);
    ucp_buffer src(e, 5000), dst(e, 5000);
    auto rkey = dst.unpack(e.ep());
    src.fill(1, 0, 5000);
    EXPECT_OK(wait(ucp_wimm_put_nbx(e.wimm(), e.ep(), src.ptr(), 5000,
                                    dst.addr(), rkey.get(), 5, &param)));
    ASSERT_TRUE(wait_arrivals(e, 1));
    EXPECT_EQ(5000u, dst.check(1, 0, 5000));
    EXPECT_EQ(e.ep(), e.arrivals[0].ep);
}

TEST_F(test_ucp_many, sixty_four_endpoints)
{
    static const unsigned num = 64;
    ucp_entity::params p;
    ucp_request_param_t param = {};

    p.config        = { { "IB_RX_QUEUE_LEN", "1024" } };
    ucp_entity &hub = create(p);
    std::vector<ucp_entity *> others;
    for (unsigned i = 0; i < 4; ++i) {
        others.push_back(&create(p));
    }

    /* UCP has one endpoint for one worker: each of the four has 16 of its own */
    for (unsigned i = 0; i < num; ++i) {
        others[i % 4]->connect_address(hub, UCP_ERR_HANDLING_MODE_PEER);
    }
    for (uint32_t round = 0; round < 5; ++round) {
        for (unsigned i = 0; i < num; ++i) {
            ucp_entity &e        = *others[i % 4];
            ucs_status_ptr_t ptr = ucp_wimm_notify_nbx(e.wimm(), e.ep(i / 4),
                                                       (i << 16) | round,
                                                       &param);
            ASSERT_FALSE(UCS_PTR_IS_ERR(ptr));
            if (UCS_PTR_IS_PTR(ptr)) {
                ucp_request_free(ptr);
            }
        }
    }
    ASSERT_TRUE(wait_arrivals(hub, 5 * num));
    std::vector<uint32_t> next(num);
    for (const arrival &a : hub.arrivals) {
        EXPECT_EQ(next[a.imm >> 16]++, a.imm & 0xffff);
    }
}

/* UCX has some of its own, where there is memory of other types */
TEST_F(test_ucp_many, endpoints_without_a_peer)
{
    ucp_entity::params p;

    m_dgid_check.reset();
    p.config      = { { "TLS", "self" }, { "NET_DEVICES", "lo" } };
    p.features    = UCP_FEATURE_RMA | UCP_FEATURE_AM;
    p.attach      = false;
    p.emulate     = true;
    ucp_entity &e = create(p);
    ASSERT_OK(create_internal_ep(e.worker()));
    e.attach();
    e.connect_address(e, UCP_ERR_HANDLING_MODE_NONE);
    greet(e, e);
}

TEST_F(test_ucp_many, attach_misuse)
{
    ucp_entity &e = create({});
    ucp_wimm_h wimm, stale;
    ucp_wimm_notification_t n;
    unsigned count;

    expect_error("ucp_wimm_attach() got a NULL", 2);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_attach(NULL, NULL, &wimm));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_attach(e.worker(), NULL, NULL));
    expect_error("is attached already");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  ucp_wimm_attach(e.worker(), NULL, &wimm));
    stale = e.wimm();
    e.detach();
    expect_error("the handle is detached", 3);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_poll(stale, &n, 1, &count));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_arm(stale));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, ucp_wimm_detach(stale));
    e.attach();
}

TEST_F(test_ucp_many, worker_destroyed_without_detaching)
{
    /* UCX tells the program */
    expect_log(UCS_LOG_LEVEL_WARN, "callbacks remain in the queue", 5);
    allow_log(UCS_LOG_LEVEL_WARN, "fast");

    /* Counters that cannot be destroyed without their worker; LSAN looks here */
    static ucp_wimm_counter_h counters[5];

    /* The next one may be at the same address */
    for (ucp_wimm_counter_h &c : counters) {
        ucp_entity::params p;
        ucp_request_param_t param = {};

        p.handler     = false;
        ucp_entity &e = create(p);
        e.connect_address(e, UCP_ERR_HANDLING_MODE_PEER);
        ASSERT_OK(wait(ucp_wimm_notify_nbx(e.wimm(), e.ep(), 1, &param)));
        ASSERT_TRUE(wait_for([&] { return query(e).queue.length == 1; }));
        ASSERT_OK(ucp_wimm_counter_create(e.wimm(), NULL, &c));
        EXPECT_OK(close(e));
        e.forget_wimm();
        m_entities.clear();
    }
}

TEST_F(test_ucp_many, attach_needs_rma)
{
    ucp_entity::params p;
    ucp_wimm_h wimm;

    p.features    = UCP_FEATURE_TAG;
    p.attach      = false;
    ucp_entity &e = create(p);
    expect_error("made without UCP_FEATURE_RMA");
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                  ucp_wimm_attach(e.worker(), NULL, &wimm));
}

TEST_F(test_ucp_many, handler_must_not_wait_or_detach)
{
    create_pair();
    ucp_wimm_counter_h c;
    ucp_request_param_t param = {};
    ucs_status_t waited = UCS_OK, detached = UCS_OK;

    ASSERT_OK(ucp_wimm_counter_create(receiver().wimm(), NULL, &c));
    ucp_wimm_counter_destroy(c);
    ucp_wimm_counter_params_t params = {};
    params.field_mask                = UCP_WIMM_COUNTER_PARAM_FIELD_MATCH;
    params.match                     = { 2, ~0u };
    ASSERT_OK(ucp_wimm_counter_create(receiver().wimm(), &params, &c));
    receiver().on_arrival = [&](const ucp_wimm_notification_t &) {
        waited   = ucp_wimm_wait_some(receiver().wimm(), &c, 1, 0, NULL, NULL);
        detached = ucp_wimm_detach(receiver().wimm());
        return UCS_OK;
    };
    expect_error("ucp_wimm_wait_some() was called inside of");
    expect_error("was called from a handler, or inside of");
    EXPECT_OK(wait(
            ucp_wimm_notify_nbx(sender().wimm(), sender().ep(), 1, &param)));
    ASSERT_TRUE(wait_arrivals(receiver(), 1));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, waited);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, detached);
    ucp_wimm_counter_destroy(c);
}
