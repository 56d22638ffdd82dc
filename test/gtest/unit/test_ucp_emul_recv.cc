/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "emul_test.h"

#include <cstring>


/* What the emulation receives, and who attaches when */
class test_ucp_emul_recv : public emul_test {
  protected:
    typedef std::vector<uint32_t> imms;

    void expect_no_memory()
    {
        expect_error("Failed to allocate memory pool");
    }
};


/*
 * Attaching
 */

TEST_F(test_ucp_emul_recv, nothing_is_emulated_without_an_id)
{
    ep(0);
    fake(0).no_lane = true;
    put(1);
    EXPECT_EQ(strings({ end(1, UCS_ERR_UNSUPPORTED) }), ended());
    EXPECT_EQ(nullptr, flush());
    EXPECT_EQ(0, park());
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(0u, wimm()->stats.emulated);
}

TEST_F(test_ucp_emul_recv, attach_greets_all_that_are_emulated)
{
    for (unsigned i = 0; i < 5; ++i) {
        ep(i);
        fake(i).no_lane = (i != 2);
    }
    fake(3).failed = true;
    start(12);
    EXPECT_EQ(strings({ "HELLO 12", "1:HELLO 12", "4:HELLO 12" }), took());
    settle();
    EXPECT_EQ(strings(), took());
}

/* An endpoint of the worker to itself answers at once, and others turn up */
TEST_F(test_ucp_emul_recv, attach_greets_while_others_turn_up)
{
    unsigned next = 3;

    for (unsigned i = 0; i < 3; ++i) {
        ep(i);
        fake(i).no_lane = true;
    }
    m_ucp.on_am = [&](ucp_ep_h, const ucp_wimm_emul_hdr_t &h) {
        if (h.imm == hdr(0, 12).imm && (next < 6)) {
            hello(7, next++);
        }
    };
    start(12);
    EXPECT_EQ(strings({ "HELLO 12", "1:HELLO 12", "2:HELLO 12" }), took());
    EXPECT_EQ(6u, next);
    EXPECT_EQ(7u, slots(5));
}

TEST_F(test_ucp_emul_recv, attach_with_what_cannot_be)
{
    struct {
        bool has_am;
        unsigned id, slots;
        ucs_status_t status;
        const char *part;
    } cases[] = {
        { false, 1, 512, UCS_ERR_UNSUPPORTED, "without UCP_FEATURE_AM" },
        { true, 65536, 512, UCS_ERR_INVALID_PARAM, "the largest is 65535" },
        { true, 9, 512, UCS_ERR_INVALID_PARAM, "id 9 already" },
        { true, 1, 0, UCS_ERR_INVALID_PARAM, "NUM_SLOTS is 0" },
        { true, 1, 8192, UCS_ERR_INVALID_PARAM, "it has to be 1 to 8191" }
    };
    ucp_am_recv_callback_t program_cb =
            [](void *, const void *, size_t, void *, size_t,
               const ucp_am_recv_param_t *) -> ucs_status_t { return UCS_OK; };

    m_worker.am_id = 9;
    m_worker.am_cb = program_cb;
    for (const auto &c : cases) {
        m_worker.has_am = c.has_am;
        expect_error(c.part);
        EXPECT_STATUS(c.status, start(c.slots, c.id));
        EXPECT_FALSE(wimm()->emul.is_on);
        EXPECT_EQ(program_cb, m_worker.am_cb);
    }
    EXPECT_OK(start(8191, 65535));
}

TEST_F(test_ucp_emul_recv, detached_without_a_peer)
{
    start(8);
    EXPECT_EQ(0, park());
    EXPECT_EQ(nullptr, m_worker.am_cb);
    EXPECT_EQ(nullptr, m_worker.progress_cb);
}

TEST_F(test_ucp_emul_recv, both_have_the_transport_but_do_not_use_it)
{
    unsigned flags = 0;

    m_worker.has_wimm = true;
    m_ucp.on_am       = [&](ucp_ep_h, const ucp_wimm_emul_hdr_t &h) {
        flags |= h.flags;
    };
    start(8);
    log_level(UCS_LOG_LEVEL_INFO);
    hello(8, 1);
    expect_log(UCS_LOG_LEVEL_INFO, "both sides have the transport", 1);
    arrive(UCP_WIMM_EMUL_PROBE, 0, 0, 0, UCP_WIMM_EMUL_HDR_FLAG_WIMM);
    arrive(UCP_WIMM_EMUL_PROBE, 0, 0, 0, UCP_WIMM_EMUL_HDR_FLAG_WIMM);
    EXPECT_EQ(unsigned(UCP_WIMM_EMUL_HDR_FLAG_WIMM), flags);
}

TEST_F(test_ucp_emul_recv, only_the_peer_has_the_transport)
{
    start(8);
    log_level(UCS_LOG_LEVEL_INFO);
    m_ucp.on_am = [&](ucp_ep_h, const ucp_wimm_emul_hdr_t &h) {
        EXPECT_EQ(0u, h.flags);
    };
    arrive(UCP_WIMM_EMUL_PROBE, 0, 0, 0, UCP_WIMM_EMUL_HDR_FLAG_WIMM);
    EXPECT_EQ(strings({ "HELLO 8" }), took());
    EXPECT_EQ(0u, logged(UCS_LOG_LEVEL_INFO, "both sides").size());
}

/*
 * Messages
 */

TEST_F(test_ucp_emul_recv, each_probe_is_answered)
{
    start(8);
    arrive(UCP_WIMM_EMUL_PROBE);
    arrive(UCP_WIMM_EMUL_PROBE, 0, 0, 1);
    arrive(UCP_WIMM_EMUL_PROBE);
    EXPECT_EQ(strings({ "HELLO 8", "1:HELLO 8", "HELLO 8" }), took());
    EXPECT_EQ(0u, slots()); /* That says nothing about these */
}

TEST_F(test_ucp_emul_recv, no_memory_for_an_answer)
{
    start(8);
    EXPECT_EQ(0u, slots());
    expect_no_memory();
    expect_error("no memory to answer");
    {
        alloc_nth fails(1);
        arrive(UCP_WIMM_EMUL_PROBE);
    }
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_recv, no_memory_for_the_endpoint)
{
    start(8);
    expect_error("a message of notified puts is lost: Out of memory", 2);
    for (unsigned nth = 1; nth <= 2; ++nth) {
        alloc_nth fails(nth);
        arrive({ nth }, nth);
    }
    EXPECT_EQ(records(), to_records(poll()));
    arrive(UCP_WIMM_EMUL_PROBE, 0, 0, 1);
    EXPECT_EQ(strings({ "1:HELLO 8" }), took());
}

TEST_F(test_ucp_emul_recv, malformed_messages_change_nothing)
{
    ucp_wimm_emul_hdr_t good   = hdr(UCP_WIMM_EMUL_HELLO, 100);
    ucp_wimm_emul_hdr_t bad_op = hdr(UCP_WIMM_EMUL_LAST, 100);
    ucp_wimm_emul_hdr_t notify = hdr(UCP_WIMM_EMUL_NOTIFY, 100);
    ucp_wimm_emul_hdr_t data   = hdr(UCP_WIMM_EMUL_DATA, 100);
    char longer[sizeof(good) + 1];

    start(8);
    EXPECT_EQ(0u, slots());
    memset(longer, 0, sizeof(longer));
    memcpy(longer, &good, sizeof(good));
    expect_error("none of notified puts", 8);
    arrive(longer, sizeof(longer), 0, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0));
    arrive(&good, sizeof(good) - 1, 0, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0));
    arrive(NULL, 0, 0, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0));
    arrive(&notify, sizeof(notify), 1, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0));
    arrive(&data, sizeof(data), 1, UCP_AM_RECV_ATTR_FIELD_REPLY_EP, ep(0));
    arrive(&good, sizeof(good), 1,
           UCP_AM_RECV_ATTR_FIELD_REPLY_EP | UCP_AM_RECV_ATTR_FLAG_RNDV, ep(0));
    arrive(&good, sizeof(good), 0, UCP_AM_RECV_ATTR_FLAG_DATA, ep(0));
    arrive(ep(0), bad_op);
    EXPECT_EQ(strings(), took());
    EXPECT_EQ(0u, slots());
    EXPECT_EQ(0u, wimm()->stats.notifications);
    arrive(ep(0), good);
    EXPECT_EQ(100u, slots());
}

TEST_F(test_ucp_emul_recv, counters_then_handler_then_queue)
{
    ucp_wimm_counter_h c;
    records handled;

    start(64);
    c = match(1, 0xff);
    set_handler([&](const ucp_wimm_notification_t &n) {
        handled.push_back(n);
        return (n.imm == 2) ? UCS_OK : UCS_INPROGRESS;
    });
    arrive(UCP_WIMM_EMUL_NOTIFY, 1, 10);
    arrive(UCP_WIMM_EMUL_NOTIFY, 2, 20);
    arrive(UCP_WIMM_EMUL_NOTIFY, 0xfffffffe, 1ull << 40, 1);
    EXPECT_EQ(1u, read(c));
    EXPECT_EQ(records({ { UCS_OK, 2, 20, ep(0) },
                        { UCS_OK, 0xfffffffe, 1ull << 40, ep(1) } }),
              handled);
    EXPECT_EQ(records({ { UCS_OK, 0xfffffffe, 1ull << 40, ep(1) } }),
              to_records(poll()));
}

TEST_F(test_ucp_emul_recv, slots_return_by_the_quarter)
{
    ucp_wimm_counter_h c;

    start(8 + 3);
    c = match(1, 0xff, 100);
    set_handler([](const ucp_wimm_notification_t &n) {
        return (n.imm == 2) ? UCS_OK : UCS_INPROGRESS;
    });
    arrive({ 1 });
    EXPECT_EQ(strings(), took());
    arrive({ 2 });
    EXPECT_EQ(strings({ "SLOTS 2" }), took());
    arrive({ 3, 4, 5 }); /* They keep theirs */
    EXPECT_EQ(strings(), took());
    poll(1);
    EXPECT_EQ(strings(), took());
    poll(1);
    EXPECT_EQ(strings({ "SLOTS 2" }), took());
    arrive({ 1 }, 1); /* Another one's */
    EXPECT_EQ(strings(), took());
    poll(1);
    EXPECT_EQ(strings(), took());
    arrive({ 1 });
    EXPECT_EQ(strings({ "SLOTS 2" }), took());
    EXPECT_EQ(3u, read(c));
}

TEST_F(test_ucp_emul_recv, fewer_than_four_slots_return_one_by_one)
{
    start(3);
    arrive({ 1, 2, 3 });
    EXPECT_EQ(imms({ 1, 2, 3 }), queued());
    EXPECT_EQ(strings({ "SLOTS 1", "SLOTS 1", "SLOTS 1" }), took());
}

TEST_F(test_ucp_emul_recv, no_memory_to_return_slots)
{
    start(8);
    arrive({ 1, 2, 3, 4 });
    expect_no_memory();
    {
        alloc_nth fails(1);
        poll(2);
    }
    EXPECT_EQ(strings(), took());
    poll(1);
    EXPECT_EQ(strings({ "SLOTS 3" }), took());
    poll(1);
    EXPECT_EQ(strings(), took());
}

/* Whoever gets the slots sends the next one at once */
TEST_F(test_ucp_emul_recv, next_one_arrives_inside_of_returning_slots)
{
    uint32_t next = 100;

    start(4);
    m_ucp.on_am = [&](ucp_ep_h, const ucp_wimm_emul_hdr_t &) {
        if (next < 103) {
            arrive({ next++ });
        }
    };
    arrive({ 1 });
    EXPECT_EQ(imms({ 1, 100, 101, 102 }), [this]() {
        imms result;
        for (unsigned i = 0; i < 4; ++i) {
            result.push_back(poll(1).at(0).imm);
        }
        return result;
    }());
    EXPECT_EQ(strings({ "SLOTS 1", "SLOTS 1", "SLOTS 1", "SLOTS 1" }), took());
}

TEST_F(test_ucp_emul_recv, nothing_comes_after_one_that_was_lost)
{
    start(8);
    hello(8, 0);
    hello(8, 1);
    expect_no_memory();
    expect_error("no memory for a notification");
    {
        alloc_nth fails(1);
        arrive({ 1 });
    }
    arrive({ 2, 3 });
    arrive({ 4 }, 1);
    EXPECT_EQ(records({ { UCS_OK, 4, 0, ep(1) } }), to_records(poll()));
    EXPECT_EQ(strings(), took());
    put(1); /* The other direction is as it was */
    EXPECT_EQ(strings({ "1" }), ended());
}

TEST_F(test_ucp_emul_recv, arrives_from_one_that_failed)
{
    start(8);
    hello(8);
    ucp_fails(0);
    settle();
    EXPECT_EQ(1u, poll().size());
    expect_error("a message of notified puts is lost: Connection reset", 2);
    arrive({ 1 });
    arrive(UCP_WIMM_EMUL_PROBE);
    EXPECT_EQ(records(), to_records(poll()));
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_recv, handler_closes_the_endpoint)
{
    start(4);
    set_handler([&](const ucp_wimm_notification_t &n) {
        ep_closed(n.ep);
        return (n.imm == 1) ? UCS_OK : UCS_INPROGRESS;
    });
    put(7);
    arrive({ 1 });
    settle();
    EXPECT_EQ(strings({ end(7, UCS_ERR_CANCELED) }), ended());
    EXPECT_EQ(strings({ "PROBE" }), took());
    arrive({ 2 }); /* From another one at its address */
    EXPECT_EQ(records({ { UCS_OK, 2, 0, NULL } }), to_records(poll()));
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_recv, handler_answers_with_a_put)
{
    start(8);
    set_handler([&](const ucp_wimm_notification_t &n) {
        put(n.imm + 1);
        return UCS_OK;
    });
    hello(8);
    arrive({ 10, 20 });
    EXPECT_EQ(strings({ "put 11", "flush", "NOTIFY 11 8", "put 21", "flush",
                        "NOTIFY 21 8", "SLOTS 2" }),
              took());
}

/*
 * Parked: nobody is attached, but there are peers
 */

TEST_F(test_ucp_emul_recv, parked_keeps_all_in_order)
{
    start(64);
    arrive({ 1 }); /* Nobody takes it, which gives its slot back */
    EXPECT_EQ(1, park());
    EXPECT_EQ(nullptr, m_worker.progress_cb);
    EXPECT_NE(nullptr, m_worker.am_cb);
    arrive({ 2, 3 });
    arrive({ 4 }, 1);
    arrive({ 5 });
    resume();
    arrive({ 6 }); /* Behind those that wait */
    EXPECT_EQ(imms(), queued());
    EXPECT_STATUS(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    EXPECT_EQ(5u, progress());
    EXPECT_EQ(records({ { UCS_OK, 2, 0, ep(0) },
                        { UCS_OK, 3, 0, ep(0) },
                        { UCS_OK, 4, 0, ep(1) },
                        { UCS_OK, 5, 0, ep(0) },
                        { UCS_OK, 6, 0, ep(0) } }),
              to_records(poll()));
    EXPECT_EQ(0u, progress());
    arrive({ 7 });
    EXPECT_EQ(imms({ 7 }), queued());
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_emul_recv, detach_gives_slots_back_that_the_queue_had)
{
    start(8);
    arrive({ 1, 2, 3 });
    EXPECT_EQ(1, park());
    EXPECT_EQ(strings({ "SLOTS 2" }), took());
}

TEST_F(test_ucp_emul_recv, parked_ones_hold_their_slots)
{
    start(8);
    hello(8);
    EXPECT_EQ(1, park());
    arrive({ 1, 2 });
    EXPECT_EQ(strings(), took());
    resume();
    set_handler([](const ucp_wimm_notification_t &) { return UCS_OK; });
    settle();
    EXPECT_EQ(strings({ "SLOTS 2" }), took());
}

/* A handler of what was kept has another one arrive */
TEST_F(test_ucp_emul_recv, arrives_while_kept_ones_are_delivered)
{
    imms handled;

    start(64);
    hello(8);
    park();
    arrive({ 1, 2 });
    resume();
    set_handler([&](const ucp_wimm_notification_t &n) {
        if (n.imm == 1) {
            arrive({ 3 });
        }
        handled.push_back(n.imm);
        return UCS_OK;
    });
    progress();
    EXPECT_EQ(imms({ 1, 2, 3 }), handled);
}

TEST_F(test_ucp_emul_recv, parked_answers_probes)
{
    start(8);
    hello(8);
    park();
    arrive(UCP_WIMM_EMUL_PROBE);
    arrive(UCP_WIMM_EMUL_PROBE, 0, 0, 1);
    EXPECT_EQ(strings({ "HELLO 8", "1:HELLO 8" }), took());
}

TEST_F(test_ucp_emul_recv, operations_go_on_after_detach)
{
    start(8);
    put(1);
    put(2);
    EXPECT_EQ(1, park());
    EXPECT_NE(nullptr, m_worker.progress_cb);
    EXPECT_EQ(0u, progress());
    hello(1);
    EXPECT_EQ(strings({ "1" }), ended());
    EXPECT_EQ(0u, progress());
    EXPECT_NE(nullptr, m_worker.progress_cb);
    arrive(UCP_WIMM_EMUL_SLOTS, 1);
    EXPECT_EQ(strings({ "2" }), ended());
    EXPECT_EQ(0u, progress());
    EXPECT_EQ(nullptr, m_worker.progress_cb);
    EXPECT_EQ(0u, wimm()->emul.num_todo);
    arrive({ 1 });
    resume();
    EXPECT_NE(nullptr, m_worker.progress_cb);
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(imms({ 1 }), queued());
}

TEST_F(test_ucp_emul_recv, attached_again_while_operations_go_on)
{
    start(8);
    put(1);
    park();
    resume();
    EXPECT_EQ(0u, wimm()->emul.num_todo);
    settle();
    EXPECT_NE(nullptr, m_worker.progress_cb);
    hello(8);
    EXPECT_EQ(strings({ "1" }), ended());
    settle();
    EXPECT_NE(nullptr, m_worker.progress_cb);
}

TEST_F(test_ucp_emul_recv, fails_after_detach)
{
    start(8);
    put(1);
    park();
    ucp_fails(0);
    progress();
    EXPECT_EQ(strings({ end(1, UCS_ERR_CONNECTION_RESET) }), ended());
    EXPECT_EQ(nullptr, m_worker.progress_cb);
    resume();
    settle();
    EXPECT_EQ(records(), to_records(poll())); /* Nobody was there */
}

/* What is with UCP comes back later */
TEST_F(test_ucp_emul_recv, detached_with_operations_of_closed_endpoints)
{
    start(8);
    hello(8);
    emul();
    m_ucp.always("put", UCS_INPROGRESS);
    put(1);
    put(2);
    ep_closed(ep(0));
    settle();
    EXPECT_EQ(1, park());
    complete("put 2", UCS_ERR_CANCELED);
    complete("put 1", UCS_ERR_CANCELED);
    EXPECT_EQ(strings({ end(1, UCS_ERR_CANCELED), end(2, UCS_ERR_CANCELED) }),
              ended());
    progress();
    EXPECT_EQ(nullptr, m_worker.progress_cb);
}

TEST_F(test_ucp_emul_recv, flush_waits_for_ucp_after_detach)
{
    start(8);
    hello(8);
    fake(0).queueing = true;
    flush()->imm     = 100;
    park();
    EXPECT_EQ(0u, progress());
    fake(0).queueing = false;
    EXPECT_EQ(1u, progress());
    EXPECT_EQ(strings({ "100" }), ended());
}

TEST_F(test_ucp_emul_recv, kept_of_one_that_failed_meanwhile)
{
    start(8);
    hello(8);
    emul();
    park();
    arrive({ 1, 2 });
    ucp_fails(0);
    resume();
    settle();
    EXPECT_EQ(imms({ 1, 2 }), queued());
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_recv, failure_comes_after_what_was_kept)
{
    start(8);
    hello(8);
    park();
    arrive({ 1, 2 });
    resume();
    ucp_fails(0);
    settle();
    EXPECT_EQ(records({ { UCS_OK, 1, 0, ep(0) },
                        { UCS_OK, 2, 0, ep(0) },
                        { UCS_ERR_CONNECTION_RESET, 0, 0, ep(0) } }),
              to_records(poll()));
    EXPECT_EQ(strings(), took());
}

TEST_F(test_ucp_emul_recv, kept_of_one_that_was_closed_meanwhile)
{
    start(8);
    hello(8);
    emul();
    park();
    arrive({ 1, 2 });
    ep_closed(ep(0));
    resume();
    settle();
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL }, { UCS_OK, 2, 0, NULL } }),
              to_records(poll()));
    EXPECT_EQ(strings(), took());
}

/* And its memory is another one's: before the program is told of the first, or by a
 * handler before it is told of the second */
TEST_F(test_ucp_emul_recv, kept_of_one_that_was_closed_before_progress)
{
    records handled;

    start(64);
    hello(8);
    emul();
    park();
    arrive({ 1 }, 0);
    arrive({ 2, 3 }, 1);
    resume();
    ep_closed(ep(0));
    ep(0);
    set_handler([&](const ucp_wimm_notification_t &n) {
        handled.push_back(n);
        if (n.imm == 2) {
            ep_closed(n.ep);
            ep(1);
        }
        return UCS_OK;
    });
    settle();
    EXPECT_EQ(records({ { UCS_OK, 1, 0, NULL },
                        { UCS_OK, 2, 0, ep(1) },
                        { UCS_OK, 3, 0, NULL } }),
              handled);
}

/* Those before it are not lost */
TEST_F(test_ucp_emul_recv, no_memory_to_keep_one)
{
    imms kept;

    start(512);
    hello(8);
    park();
    arrive({ 0 });
    expect_no_memory();
    expect_error("no memory for a notification");
    for (uint32_t imm = 1; imm < 500; ++imm) {
        alloc_nth fails(1);
        if (logged(UCS_LOG_LEVEL_ERROR).empty()) {
            kept.push_back(imm - 1);
        }
        arrive({ imm });
    }
    EXPECT_LT(kept.size(), 500u - 1);
    arrive({ 6000 }, 1);
    kept.push_back(6000);
    resume();
    arrive({ 5000 });
    settle();
    EXPECT_EQ(kept, queued());
}

TEST_F(test_ucp_emul_recv, no_memory_for_one_of_the_kept)
{
    start(64);
    hello(8);
    park();
    arrive({ 1, 2 }, 0);
    arrive({ 3 }, 1);
    arrive({ 4 }, 0);
    resume();
    expect_no_memory();
    expect_error("no memory for a notification");
    {
        alloc_nth fails(1);
        progress();
    }
    settle();
    EXPECT_EQ(imms({ 3 }), queued());
}

TEST_F(test_ucp_emul_recv, kept_ones_are_forgotten_with_the_worker)
{
    start(8);
    hello(8, 0);
    emul(0);
    emul(1);
    park();
    arrive({ 1, 2 }, 0);
    arrive({ 3 }, 1);
    forget();
}

TEST_F(test_ucp_emul_recv, attached_is_forgotten_with_the_worker)
{
    start(8);
    hello(8, 0);
    emul(0);
    emul(1);
    arrive({ 1, 2 }, 0);
    ep_closed(ep(0));
    arrive({ 3 }, 1);
    forget();
}

/* A put that waited for its connection when the program detached is emulated later */
TEST_F(test_ucp_emul_recv, put_is_emulated_after_detach)
{
    start(8);
    hello(8);
    ++wimm()->refcount; /* As it does */
    EXPECT_EQ(1, park());
    EXPECT_NE(nullptr, m_worker.progress_cb);
    progress();
    m_ucp.always("put", UCS_INPROGRESS);
    for (uint32_t imm = 0; imm <= 8; ++imm) {
        put(imm);
    }
    --wimm()->refcount;
    ucp_fails(0); /* The last one has no slot */
    progress();
    EXPECT_EQ(strings({ end(8, UCS_ERR_CONNECTION_RESET) }), ended());
    m_ucp.complete_all(UCS_ERR_CONNECTION_RESET);
    progress();
    EXPECT_EQ(nullptr, m_worker.progress_cb);
}

/* The program may hold a lock that its handler takes */
TEST_F(test_ucp_emul_recv, arrival_inside_of_a_call_waits_for_progress)
{
    unsigned handled = 0;

    start(8);
    hello(8);
    set_handler([&](const ucp_wimm_notification_t &) {
        ++handled;
        return UCS_OK;
    });
    inside_of_a_call = true;
    arrive({ 1, 2 });
    EXPECT_EQ(0u, handled);
    EXPECT_EQ(UCS_ERR_BUSY, ucp_wimm_arm(wimm()));
    inside_of_a_call = false;
    arrive({ 3 }); /* Behind them */
    EXPECT_EQ(0u, handled);
    settle();
    EXPECT_EQ(3u, handled);
    EXPECT_OK(ucp_wimm_arm(wimm()));
}

TEST_F(test_ucp_emul_recv, flush_of_a_native_endpoint_leaves_nothing)
{
    start(8);
    EXPECT_EQ(nullptr, flush());
    EXPECT_EQ(nullptr, emul());
}
