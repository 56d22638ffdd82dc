/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"
#include "common/pending_req.h"
#include "common/rc_state.h"


/* Puts in several messages, with one notification */
class test_announce : public imm_test {
  protected:
    static ucs_status_t put_zcopy(entity &e, const mapped_buffer &src,
                                  size_t length, size_t offset,
                                  const mapped_buffer &dst, completion *comp)
    {
        const uct_iov_t iov = src.iov(length, offset);

        return uct_ep_put_zcopy(e.ep(), &iov, 1, dst.addr(offset), dst.rkey(),
                                &comp->uct);
    }
};


TEST_F(test_announce, length_comes_with_the_next_notification_only)
{
    open_pair();
    imm_sink sink(receiver());

    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_OK(notify(sender(), 0, 2));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    EXPECT_EQ(1000u, sink.got[0].length);
    EXPECT_EQ(0u, sink.got[1].length);
}

TEST_F(test_announce, is_of_its_endpoint)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    imm_sink sink(receiver());

    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(notify(sender(), 1, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(0u, sink.got[0].length);
    ASSERT_OK(notify(sender(), 0, 2));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 2; }));
    EXPECT_EQ(1000u, sink.got[1].length);
}

TEST_F(test_announce, length_beyond_32_bits)
{
    const size_t length = (5ull << 30) + 1;

    open_pair();
    imm_sink sink(receiver());
    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), length));
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(length, sink.got[0].length);
}

TEST_F(test_announce, fragments_and_last_part)
{
    const size_t part = 20000;

    open_pair();
    mapped_buffer src(3 * part, sender()), dst(3 * part, receiver());
    completion comp(3);
    imm_sink sink(receiver());

    src.fill(7);
    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 3 * part));
    for (size_t offset = 0; offset < (2 * part); offset += part) {
        ASSERT_STATUS(UCS_INPROGRESS,
                      put_zcopy(sender(), src, part, offset, dst, &comp));
    }

    const uct_iov_t iov = src.iov(part, 2 * part);
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_wimm_ep_put_imm_zcopy(sender().ep(), &iov, 1,
                                            dst.addr(2 * part), dst.rkey(), 5,
                                            &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    dst.check(7, 3 * part);
    EXPECT_EQ(3 * part, sink.got[0].length);
    EXPECT_EQ(5u, sink.got[0].imm);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_OK(comp.status());
}

TEST_F(test_announce, waits_for_a_handler_with_its_length)
{
    open_pair();
    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(notify(sender(), 0, 1));
    wait_sent(sender());
    progress_rounds();

    imm_sink sink(receiver());
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(1000u, sink.got[0].length);
}

TEST_F(test_announce, less_than_the_last_message_closes_the_connection)
{
    open_pair();
    mapped_buffer dst(8, receiver());
    imm_sink sink(receiver());
    const uint64_t data = 1;

    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 7));
    ASSERT_OK(put_imm(sender(), 0, &data, 8, dst, 0, 1));
    ASSERT_OK(notify(sender(), 0, 2));
    expect_error("notification of more than was announced");
    allow_error("completion with error");
    allow_error("endpoint failed");
    wait_sent(sender());
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(0u, sink.count());
}

TEST_F(test_announce, twice_closes_the_connection)
{
    open_pair();
    imm_sink sink(receiver());

    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(notify(sender(), 0, 1));
    expect_error("control message, 8 bytes; closing the connection");
    allow_error("completion with error");
    allow_error("endpoint failed");
    wait_sent(sender());
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    progress_rounds();
    EXPECT_EQ(0u, sink.count());
}

TEST_F(test_announce, takes_a_credit_and_no_slot)
{
    open_pair();
    imm_sink sink(receiver());
    const uct_wimm_ep_attr_t before = ep_attr(sender());

    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    EXPECT_EQ(before.credits - 1, ep_attr(sender()).credits);
    EXPECT_EQ(before.slots, ep_attr(sender()).slots);
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
}

TEST_F(test_announce, without_credits_there_is_no_resource)
{
    open_pair();
    imm_sink sink(receiver());

    while (uct_wimm_ep_notify(sender().ep(), 1) == UCS_OK) {
    }
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE,
                  uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(retry([&]() { return uct_wimm_ep_announce(sender().ep(), 10); }));
    ASSERT_OK(retry([&]() { return uct_wimm_ep_notify(sender().ep(), 2); }));
    ASSERT_TRUE(wait_for([&]() {
        return (sink.count() > 0) && (sink.got.back().imm == 2);
    }));
    EXPECT_EQ(10u, sink.got.back().length);
}

TEST_F(test_announce, from_a_pending_callback_nobody_comes_in_between)
{
    const size_t part = 1000;

    open_pair({ { "NUM_SLOTS", "4" } });
    mapped_buffer src(2 * part, sender()), dst(2 * part, receiver());
    completion comp(1);
    imm_sink sink(receiver());
    unsigned step = 0;

    src.fill(3);
    while (uct_wimm_ep_notify(sender().ep(), 1) == UCS_OK) {
    }

    /* One step in each call, as if the next had no resources */
    pending_req put([&]() {
        ucs_status_t status;

        switch (step) {
        case 0:
            status = uct_wimm_ep_announce(sender().ep(), 2 * part);
            break;
        case 1:
            status = put_zcopy(sender(), src, part, 0, dst, &comp);
            break;
        default:
            status = put_imm(sender(), 0, src.ptr(part), 64, dst, part, 2);
            break;
        }
        if ((status != UCS_OK) && (status != UCS_INPROGRESS)) {
            return pending_req::result(status);
        }

        return (++step == 3) ? UCS_OK : UCS_INPROGRESS;
    });
    pending_req other([&]() { return notify(sender(), 0, 3); });
    ASSERT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &put.uct));
    ASSERT_OK(uct_wimm_ep_imm_pending_add(sender().ep(), &other.uct));
    ASSERT_TRUE(wait_for([&]() {
        return (sink.count() > 0) && (sink.got.back().imm == 3);
    }));

    const auto &got = sink.got;
    EXPECT_EQ(2u, got[got.size() - 2].imm);
    EXPECT_EQ(2 * part, got[got.size() - 2].length);
    EXPECT_EQ(0u, got.back().length);
    dst.check(3, part + 64);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
}

TEST_F(test_announce, failure_in_between_delivers_nothing)
{
    open_pair();
    mapped_buffer src(64, sender()), dst(64, receiver());
    completion comp(1);
    imm_sink sink(receiver());
    const uct_iov_t iov = src.iov(64);

    allow_error("completion with error");
    allow_error("endpoint failed");
    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 100));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_put_zcopy(sender().ep(), &iov, 1, 8,
                                                   dst.rkey(), &comp.uct));
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for(
            [&]() { return comp.done() && !sender().errors.empty(); }));
    EXPECT_NE(UCS_OK, notify(sender(), 0, 2));
    EXPECT_NE(UCS_OK, uct_wimm_ep_announce(sender().ep(), 100));
    progress_rounds();
    EXPECT_EQ(0u, sink.count());
}

TEST_F(test_announce, of_nothing_is_refused)
{
    open_pair();
    expect_error("a length of 0 is announced");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_wimm_ep_announce(sender().ep(), 0));
}


/* Who is told what becomes of an endpoint */
class test_ep_user : public imm_test {
  protected:
    struct user {
        uct_wimm_ep_user_t super;
        std::vector<std::pair<uct_pending_purge_callback_t, void *>> purged;
        unsigned destroyed = 0;

        user()
        {
            super.purged    = purged_cb;
            super.destroyed = destroyed_cb;
        }

        static void purged_cb(uct_wimm_ep_user_t *self,
                              uct_pending_purge_callback_t cb, void *arg)
        {
            reinterpret_cast<user *>(self)->purged.push_back({ cb, arg });
        }

        static void destroyed_cb(uct_wimm_ep_user_t *self)
        {
            ++reinterpret_cast<user *>(self)->destroyed;
        }
    };

    static void purge_cb(uct_pending_req_t *, void *)
    {
    }
};


TEST_F(test_ep_user, is_told_of_purge_and_destruction)
{
    open_pair();
    user u;

    EXPECT_EQ(nullptr, uct_wimm_ep_get_user(sender().ep()));
    ASSERT_OK(uct_wimm_ep_set_user(sender().ep(), &u.super));
    EXPECT_EQ(&u.super, uct_wimm_ep_get_user(sender().ep()));
    uct_ep_pending_purge(sender().ep(), purge_cb, this);
    ASSERT_EQ(1u, u.purged.size());
    EXPECT_EQ(purge_cb, u.purged[0].first);
    EXPECT_EQ(this, u.purged[0].second);
    EXPECT_EQ(0u, u.destroyed);
    sender().destroy_ep(0);
    EXPECT_EQ(1u, u.destroyed);
}

TEST_F(test_ep_user, that_was_removed_is_not_told)
{
    open_pair();
    user u;

    ASSERT_OK(uct_wimm_ep_set_user(sender().ep(), &u.super));
    ASSERT_OK(uct_wimm_ep_set_user(sender().ep(), NULL));
    EXPECT_EQ(nullptr, uct_wimm_ep_get_user(sender().ep()));
    uct_ep_pending_purge(sender().ep(), purge_cb, NULL);
    sender().destroy_ep(0);
    EXPECT_EQ(0u, u.purged.size() + u.destroyed);
}

TEST_F(test_ep_user, of_a_failed_endpoint_is_told_once_of_destruction)
{
    open_pair();
    mapped_buffer dst(8, receiver());
    const uint64_t data = 1;
    user u;

    allow_error("completion with error");
    allow_error("endpoint failed");
    ASSERT_OK(uct_wimm_ep_set_user(sender().ep(), &u.super));
    ASSERT_OK(uct_ep_put_short(sender().ep(), &data, sizeof(data), 8,
                               dst.rkey()));
    ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
    EXPECT_EQ(0u, u.destroyed);
    EXPECT_EQ(&u.super, uct_wimm_ep_get_user(sender().ep()));
    sender().destroy_ep(0);
    EXPECT_EQ(1u, u.destroyed);
}

TEST_F(test_ep_user, can_be_got_by_a_handler)
{
    open_pair();
    imm_sink sink(receiver());
    uct_wimm_ep_user_t *got = NULL;
    user u;

    sink.on_imm = [&](const imm_sink::notification &n) {
        got = uct_wimm_ep_get_user(n.ep);
    };
    ASSERT_OK(uct_wimm_ep_set_user(receiver().ep(), &u.super));
    ASSERT_OK(notify(sender(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return sink.count() == 1; }));
    EXPECT_EQ(&u.super, got);
    ASSERT_OK(uct_wimm_ep_set_user(receiver().ep(), NULL));
}

TEST_F(test_ep_user, of_another_transport_is_refused)
{
    entity::open_params params;
    user u;

    params.tl_name = "rc_verbs";
    open({}, params).create_ep(0);
    expect_error("is not of the transport wimm");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_wimm_ep_set_user(sender().ep(), &u.super));
    EXPECT_EQ(nullptr, uct_wimm_ep_get_user(sender().ep()));
}


/* Canceling flushes of an endpoint for which something has arrived */
class test_cancel_rx : public imm_test {
  protected:
    /* More than one poll takes */
    static const unsigned count = 100;

    /* Something that was not completed yet: the queue pair is put into an error */
    void cancel_with_sends(completion &comp)
    {
        ASSERT_OK(notify(receiver(), 0, 1));
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_flush(receiver().ep(), UCT_FLUSH_FLAG_CANCEL,
                                   &comp.uct));
        ASSERT_EQ(IBV_QPS_ERR, rc_state::qp_state(receiver()));
    }
};

const unsigned test_cancel_rx::count;


TEST_F(test_cancel_rx, delivers_before_it_completes)
{
    open_pair();
    const unsigned num = std::min(count, ep_attr(sender()).credits);
    imm_sink sink(receiver());
    completion comp;

    for (uint32_t imm = 0; imm < num; ++imm) {
        ASSERT_OK(notify(sender(), 0, imm));
    }
    wait_sent(sender());

    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(receiver().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &comp.uct));
    EXPECT_EQ(0u, sink.count());
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_EQ(num, sink.count());
    receiver().destroy_ep(0);
}

TEST_F(test_cancel_rx, destroying_ends_it)
{
    open_pair();
    completion comp;

    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(receiver().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &comp.uct));
    receiver().destroy_ep(0);
    EXPECT_EQ(1, comp.called);
    EXPECT_STATUS(UCS_ERR_CANCELED, comp.status());
}

TEST_F(test_cancel_rx, waiting_for_a_handler_does_not_hold_it_up)
{
    open_pair();
    completion comp;

    ASSERT_OK(notify(sender(), 0, 1));
    wait_sent(sender());
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(receiver().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
}

TEST_F(test_cancel_rx, delivers_although_sends_are_canceled)
{
    open_pair();
    const unsigned num = std::min(count, ep_attr(sender()).credits);
    imm_sink sink(receiver());
    completion comp;

    for (uint32_t imm = 0; imm < num; ++imm) {
        ASSERT_OK(notify(sender(), 0, imm));
    }
    wait_sent(sender());
    cancel_with_sends(comp);
    EXPECT_EQ(0u, sink.count());
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    EXPECT_EQ(num, sink.count());
    receiver().destroy_ep(0);
}

TEST_F(test_cancel_rx, delivers_the_length_that_was_announced)
{
    open_pair();
    imm_sink sink(receiver());
    completion comp;

    ASSERT_OK(uct_wimm_ep_announce(sender().ep(), 1000));
    ASSERT_OK(notify(sender(), 0, 1));
    wait_sent(sender());
    cancel_with_sends(comp);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    ASSERT_EQ(1u, sink.count());
    EXPECT_EQ(1000u, sink.got[0].length);
}

TEST_F(test_cancel_rx, does_not_let_a_program_sleep)
{
    open_pair();
    completion comp;

    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_flush(receiver().ep(), UCT_FLUSH_FLAG_CANCEL,
                               &comp.uct));
    EXPECT_STATUS(UCS_ERR_BUSY,
                  uct_iface_event_arm(receiver().iface(), UCT_EVENT_RECV));
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    receiver().arm(UCT_EVENT_RECV);
}


/* Completions of canceling flushes that destroy endpoints */
class test_cancel_rx_destroy : public test_cancel_rx {
  protected:
    struct canceler {
        uct_completion_t uct;
        std::function<void()> func;
        unsigned called     = 0;
        ucs_status_t status = UCS_INPROGRESS; /* When it was called first */

        explicit canceler(std::function<void()> f) : func(std::move(f))
        {
            uct.func   = call;
            uct.count  = 1;
            uct.status = UCS_OK;
        }

        static void call(uct_completion_t *comp)
        {
            canceler *self = reinterpret_cast<canceler *>(comp);

            if (self->called++ == 0) {
                self->status = comp->status;
            }
            self->func();
        }
    };

    ucs_status_t cancel(unsigned index, canceler &c)
    {
        return uct_ep_flush(receiver().ep(index), UCT_FLUSH_FLAG_CANCEL,
                            &c.uct);
    }
};


/* UCX does not let an endpoint be destroyed by a completion of its own */
TEST_F(test_cancel_rx_destroy, of_another_in_the_completion)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    canceler second([]() {});
    canceler first([&]() { receiver().destroy_ep(1); });

    ASSERT_STATUS(UCS_INPROGRESS, cancel(0, first));
    ASSERT_STATUS(UCS_INPROGRESS, cancel(1, second));
    ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
    progress_rounds();
    EXPECT_EQ(1u, first.called);
    EXPECT_EQ(1u, second.called);
    EXPECT_STATUS(UCS_ERR_CANCELED, second.status);
}

TEST_F(test_cancel_rx_destroy, of_another_in_that_of_one_destroyed)
{
    open_pair();
    entity::connect(sender(), 1, receiver(), 1);
    canceler second([]() {});
    canceler first([&]() { receiver().destroy_ep(1); });

    ASSERT_STATUS(UCS_INPROGRESS, cancel(0, first));
    ASSERT_STATUS(UCS_INPROGRESS, cancel(1, second));
    receiver().destroy_ep(0);
    EXPECT_EQ(1u, first.called);
    EXPECT_EQ(1u, second.called);
    EXPECT_STATUS(UCS_ERR_CANCELED, second.status);
    progress_rounds();
}
