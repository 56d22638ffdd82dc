/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_pending_test.h"


/* Requests that wait for a slot: what their callbacks may do, and what they may
 * lack when it is their turn */
class test_imm_pending_cb : public imm_pending_test {
  protected:
    /* A request of notified puts from a registered buffer of the interface */
    pending_req &queue_bcopy(const mapped_buffer &dst, uint32_t imm)
    {
        pending_req &req = request([this, &dst, imm]() {
            const ssize_t ret = post_bcopy(dst, imm);

            return (ret < 0) ?
                           pending_req::result(static_cast<ucs_status_t>(ret)) :
                           UCS_OK;
        });

        add(req);
        return req;
    }

    ssize_t post_bcopy(const mapped_buffer &dst, uint32_t imm)
    {
        m_imm = imm;
        return uct_wimm_ep_put_imm_bcopy(sender().ep(), pack, this,
                                         dst.addr(imm * sizeof(uint64_t)),
                                         dst.rkey(), imm);
    }

    static size_t pack(void *dest, void *arg)
    {
        test_imm_pending_cb *self = static_cast<test_imm_pending_cb *>(arg);
        const uint64_t data       = value(self->m_imm);

        ++self->m_packed;
        memcpy(dest, &data, sizeof(data));
        return sizeof(data);
    }

    static uint64_t value(uint32_t imm)
    {
        return 0x100000001ul * (imm + 1);
    }

    /* A flush of another endpoint that waits for a request, which waits for a slot */
    void flush_behind_slots(unsigned index, completion &comp)
    {
        while (notify(sender(), index, 0) == UCS_OK) {
        }
        ASSERT_TRUE(wait_arrived(slots));
        m_sink->got.clear();
        ASSERT_OK(uct_wimm_ep_imm_pending_add(
                sender().ep(index), &request([]() { return UCS_OK; }).uct));
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_flush(sender().ep(index), 0, &comp.uct));
    }

    /* A request that posts, and uses its memory for another one before it
     * returns, as a program may whose allocator gives it out again */
    pending_req &reusing(uint32_t imm, uint32_t next,
                         const std::function<ucs_status_t(pending_req &)> &add)
    {
        pending_req &req = request(nullptr);

        req.func = [this, &req, imm, next, add]() {
            const ucs_status_t status = notify(sender(), 0, imm);

            if (status != UCS_OK) {
                return pending_req::result(status);
            }

            req.func = [this, next]() {
                return pending_req::result(notify(sender(), 0, next));
            };
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, next));
            EXPECT_OK(add(req));
            return UCS_OK;
        };
        return req;
    }

    uint32_t m_imm    = 0;
    unsigned m_packed = 0;
};


/* A completion that calls a function */
struct func_completion {
    explicit func_completion(std::function<void()> f) : func(std::move(f))
    {
        uct.func   = call;
        uct.count  = 1;
        uct.status = UCS_OK;
    }

    static void call(uct_completion_t *self)
    {
        reinterpret_cast<func_completion *>(self)->func();
    }

    uct_completion_t uct;
    std::function<void()> func;
};


TEST_F(test_imm_pending_cb, posts_until_there_are_no_resources)
{
    const uint32_t count = 3 * slots;
    uint32_t next        = 1;

    open_without_slots();
    pending_req &req = request([&]() {
        for (; next <= count; ++next) {
            const ucs_status_t status = notify(sender(), 0, next);

            if (status != UCS_OK) {
                return pending_req::result(status);
            }
        }
        return UCS_OK;
    });
    add(req);
    queue(count + 1);
    m_sink->result = UCS_OK;
    release(slots);
    ASSERT_TRUE(wait_arrived(count + 1));
    EXPECT_EQ(sequence(1, count + 1), arrived());
    check_works(count + 2);
}

TEST_F(test_imm_pending_cb, posts_several_active_messages_go_on)
{
    uint32_t next = 1;

    /* Nothing but slots is missing, whatever the callback returns */
    open_without_slots();
    add(request([&]() {
        while (next <= slots) {
            const ucs_status_t status = notify(sender(), 0, next);

            if (status != UCS_OK) {
                return pending_req::result(status);
            }
            ++next;
        }
        return UCS_OK;
    }));
    for (unsigned i = 1; i <= slots; ++i) {
        tx_hold hold(sender());

        release(1);
        ASSERT_TRUE(wait_for([&]() { return next == (i + 1); }));
        ASSERT_OK(am(i));
        ASSERT_TRUE(wait_for([&]() { return m_ams.size() == i; }));
    }
    ASSERT_TRUE(wait_arrived(slots));
    EXPECT_EQ(sequence(1, slots), arrived());
}

TEST_F(test_imm_pending_cb, returns_in_progress_and_is_called_again)
{
    const uint32_t count = 3 * slots;
    uint32_t next        = 1;

    open_without_slots();
    pending_req &req = request([&]() {
        const ucs_status_t status = notify(sender(), 0, next);

        if (status != UCS_OK) {
            return pending_req::result(status);
        }
        return (++next <= count) ? UCS_INPROGRESS : UCS_OK;
    });
    add(req);
    queue(count + 1);
    for (uint32_t i = 1; i <= (count + 1); ++i) {
        release(1);
        ASSERT_TRUE(wait_arrived(i));
        progress_rounds(50);
    }
    EXPECT_EQ(sequence(1, count + 1), arrived());
    EXPECT_EQ(count, req.called);
}

TEST_F(test_imm_pending_cb, queues_itself_again_behind_the_others)
{
    const unsigned rounds = 6;
    uint32_t sent[2]      = { 0, 0 };
    values expected;

    open_without_slots();
    for (unsigned i = 0; i < 2; ++i) {
        pending_req &req = request(nullptr);

        req.func = [&, i]() {
            const ucs_status_t status = notify(sender(), 0, 100 * i + sent[i]);

            if (status != UCS_OK) {
                return pending_req::result(status);
            }
            if (++sent[i] < rounds) {
                add(req);
            }
            return UCS_OK;
        };
        add(req);
    }
    for (unsigned i = 0; i < rounds; ++i) {
        expected.push_back(i);
        expected.push_back(100 + i);
    }
    m_sink->result = UCS_OK;
    release(slots);
    ASSERT_TRUE(wait_arrived(expected.size()));
    EXPECT_EQ(expected, arrived());
    check_works(1);
}

TEST_F(test_imm_pending_cb, memory_of_a_request_in_the_list_used_again)
{
    open_without_slots();
    add(reusing(1, 3, [&](pending_req &req) {
        return uct_wimm_ep_imm_pending_add(sender().ep(), &req.uct);
    }));
    queue(2);
    release(slots);
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
}

TEST_F(test_imm_pending_cb, memory_of_a_request_in_the_group_used_again)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "8" } });
    receive();
    /* All slots are there, the send queue is full */
    {
        tx_hold hold(sender());

        fill_unsignaled();
        add(reusing(1, 3, [&](pending_req &req) {
            return uct_ep_pending_add(sender().ep(), &req.uct, 0);
        }));
        queue(2);
        progress_rounds();
    }
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
    check_works(4);
}

TEST_F(test_imm_pending_cb, memory_used_again_while_the_list_is_in_the_group)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "8" } });
    pending_req &first = reusing(1, 4, [&](pending_req &req) {
        return uct_wimm_ep_imm_pending_add(sender().ep(), &req.uct);
    });
    add(first);
    queue(2);
    {
        tx_hold hold(sender());

        fill_unsignaled();
        release(slots);
        ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
        queue(3);
        progress_rounds();
    }
    ASSERT_TRUE(wait_arrived(4));
    EXPECT_EQ(sequence(1, 4), arrived());
}

TEST_F(test_imm_pending_cb, request_of_a_message_posts_beyond_it)
{
    open_pair({ { "IB_TX_QUEUE_LEN", "8" } });
    receive();
    /* As UCP, when a message is sent from the queue and the program, which is
     * called then, posts again */
    {
        tx_hold hold(sender());

        fill_unsignaled();
        pending_req &req = request([&]() {
            const ucs_status_t status = am(1);

            if (status == UCS_OK) {
                EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 2));
                queue(2);
            }
            return status;
        });
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &req.uct, 0));
        queue(1);
    }
    ASSERT_TRUE(wait_arrived(2));
    EXPECT_EQ(sequence(1, 2), arrived());
    EXPECT_EQ(1u, m_ams.back());
}

TEST_F(test_imm_pending_cb, request_of_a_message_flushes_beyond_it)
{
    bool refused = false;
    bool done    = false;

    open_pair({ { "IB_TX_QUEUE_LEN", "8" } });
    receive();
    /* What the flush has to cover is still queued */
    func_completion comp([&]() {
        EXPECT_GE(ep_attr(sender()).counters.posted, 2u);
        done = true;
    });
    pending_req &flusher = request([&]() {
        const ucs_status_t status = uct_ep_flush(sender().ep(), 0, &comp.uct);

        if (status != UCS_ERR_NO_RESOURCE) {
            EXPECT_STATUS(UCS_INPROGRESS, status);
            return UCS_OK;
        }
        return status;
    });
    {
        tx_hold hold(sender());

        fill_unsignaled();
        pending_req &req = request([&]() {
            const ucs_status_t status = am(1);

            if (status == UCS_OK) {
                refused = uct_ep_flush(sender().ep(), 0, &comp.uct) ==
                          UCS_ERR_NO_RESOURCE;
            }
            if (refused) {
                EXPECT_OK(uct_ep_pending_add(sender().ep(), &flusher.uct, 0));
                queue(3);
            }
            return status;
        });
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &req.uct, 0));
        queue(1);
        queue(2);
    }

    ASSERT_TRUE(wait_arrived(2));
    ASSERT_TRUE(refused);

    /* When it is the turn of the flush itself, it does not wait for what is behind
     * it */
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
    ASSERT_TRUE(wait_for([&]() { return done; }));
    check_works(4);
}

TEST_F(test_imm_pending_cb, completion_of_a_flush_in_the_list_posts)
{
    bool done = false;

    /* The flush has nothing to wait for but the request ahead of it, which
     * posts nothing: its completion comes while the list is being called */
    open_without_slots();
    func_completion comp([&]() {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 3));
        queue(3);
        done = true;
    });
    add(request([]() { return UCS_OK; }));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(sender().ep(), 0, &comp.uct));
    m_reqs.reserve(8);
    queue(1);
    queue(2);
    release(slots);
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
    EXPECT_TRUE(done);
}

TEST_F(test_imm_pending_cb, completion_of_a_flush_in_the_group_posts)
{
    const size_t get_bytes = 4096;

    /* What is missing is the interface's: the flush has nothing to wait for when it
     * is its turn */
    open_pair({ { "RC_TX_NUM_GET_BYTES", std::to_string(get_bytes) } });
    entity::connect(sender(), 1, receiver(), 1);
    receive();
    mapped_buffer src(get_bytes, receiver());
    mapped_buffer dst(get_bytes, sender());
    const uct_iov_t iov = dst.iov(get_bytes);
    completion got, flushed;

    pending_req &flusher = request([&]() {
        const ucs_status_t status = flush_start(flushed);

        if (status != UCS_ERR_NO_RESOURCE) {
            EXPECT_OK(status);
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 2));
            queue(2);
        }
        return status;
    });
    {
        tx_hold hold(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_get_zcopy(sender().ep(1), &iov, 1, src.addr(),
                                       src.rkey(), &got.uct));
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &flusher.uct, 0));
        queue(1);
    }
    ASSERT_TRUE(wait_arrived(2));
    EXPECT_EQ(sequence(1, 2), arrived());
    EXPECT_EQ(0, flushed.called);
    check_works(3);
}

TEST_F(test_imm_pending_cb, completion_of_a_put_posts_while_others_wait)
{
    open_without_slots();
    mapped_buffer src(64, sender());
    mapped_buffer dst(64, receiver());
    const uct_iov_t iov = src.iov(64);
    bool done           = false;

    func_completion comp([&]() {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 2));
        queue(2);
        done = true;
    });
    queue(1);
    ASSERT_STATUS(UCS_INPROGRESS,
                  uct_ep_put_zcopy(sender().ep(), &iov, 1, dst.addr(),
                                   dst.rkey(), &comp.uct));
    ASSERT_TRUE(wait_for([&]() { return done; }));
    release(slots);
    ASSERT_TRUE(wait_arrived(2));
    EXPECT_EQ(sequence(1, 2), arrived());
}

TEST_F(test_imm_pending_cb, posts_on_another_endpoint)
{
    open_without_slots(config_list(), 2);

    /* That is nothing special there, and no excuse here */
    add(request([&]() {
        EXPECT_OK(notify(sender(), 1, 11));
        EXPECT_OK(notify(sender(), 1, 12));
        return pending_req::result(notify(sender(), 0, 1));
    }));
    queue(2);
    m_sink->result = UCS_OK;
    release(slots);
    ASSERT_TRUE(wait_arrived(4));
    EXPECT_EQ(1u, m_reqs[0]->called);
}

/* What else may be missing */

TEST_F(test_imm_pending_cb, lack_of_a_slot_is_found_in_the_group)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());

    /* By either function: the send queue is full, nobody asks for slots yet */
    pending_req &first = notifier(1);
    {
        tx_hold hold(sender());

        fill(dst);
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &first.uct, 0));
        queue_am(10);
        queue(2);
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &notifier(3).uct, 0));
        queue_am(11);
    }

    /* What is behind them does not wait for slots */
    ASSERT_TRUE(wait_for([&]() { return m_ams.size() == 2; }));
    EXPECT_EQ(10u, m_ams[0]);
    EXPECT_EQ(11u, m_ams[1]);
    EXPECT_EQ(1u, first.called);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 4));
    queue(4);
    progress_rounds();
    EXPECT_EQ(1u, first.called);
    EXPECT_EQ(0u, m_sink->count());

    release(slots);
    ASSERT_TRUE(wait_arrived(4));
    EXPECT_EQ(sequence(1, 4), arrived());
}

TEST_F(test_imm_pending_cb, purges_another_endpoint_that_waits_with_a_flush)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } }, 2);
    mapped_buffer dst(8, receiver());
    completion flushed;

    flush_behind_slots(1, flushed);

    /* The end of the flush is called by the dispatcher, inside of this one */
    pending_req &first = request(nullptr);
    first.func         = [&]() {
        const ucs_status_t status = notify(sender(), 0, 1);

        uct_ep_pending_purge(sender().ep(1), NULL, NULL);
        return pending_req::result(status);
    };
    {
        tx_hold hold(sender());

        fill(dst);
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &first.uct, 0));
        queue_am(10);
    }
    ASSERT_TRUE(wait_for([&]() { return m_ams.size() == 1; }));
    EXPECT_EQ(1u, first.called);
    ASSERT_TRUE(wait_for([&]() { return flushed.done(); }));
    EXPECT_OK(flushed.status());

    release(slots);
    ASSERT_TRUE(wait_arrived(1));
    EXPECT_EQ(sequence(1, 1), arrived());
}

TEST_F(test_imm_pending_cb, sends_after_it_purged_another_endpoint)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } }, 2);
    mapped_buffer dst(8, receiver());
    completion flushed;

    flush_behind_slots(1, flushed);

    /* The dispatcher calls the flush inside of this one, which is called still: UCX
     * asserts that nothing else sends while something is queued */
    pending_req &first = request([&]() {
        uct_ep_pending_purge(sender().ep(1), NULL, NULL);
        return am(10);
    });
    {
        tx_hold hold(sender());

        fill(dst);
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &first.uct, 0));
        queue_am(11);
    }
    ASSERT_TRUE(wait_for([&]() { return m_ams.size() == 2; }));
    EXPECT_EQ(10u, m_ams[0]);
    EXPECT_EQ(11u, m_ams[1]);
    EXPECT_EQ(1u, first.called);
    ASSERT_TRUE(wait_for([&]() { return flushed.done(); }));
    EXPECT_OK(flushed.status());
}

TEST_F(test_imm_pending_cb, queues_itself_again_for_want_of_a_slot)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());

    /* As a program may, which does not use NO_RESOURCE for that: it keeps its
     * place before what is in the group */
    pending_req &first = request(nullptr);
    first.func         = [&]() {
        const ucs_status_t status = notify(sender(), 0, 1);

        if (status == UCS_ERR_NO_RESOURCE) {
            add(first);
            return UCS_OK;
        }
        return pending_req::result(status);
    };
    {
        tx_hold hold(sender());

        fill(dst);
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &first.uct, 0));
        ASSERT_OK(uct_ep_pending_add(sender().ep(), &notifier(2).uct, 0));
        queue(3);
    }
    progress_rounds();
    release(slots);
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
}

TEST_F(test_imm_pending_cb, send_queue_full_when_slots_come_back)
{
    open_without_slots({ { "IB_TX_QUEUE_LEN", "16" } });
    mapped_buffer dst(8, receiver());
    completion comp;

    pending_req &first = queue(1);
    queue(2);
    {
        tx_hold hold(sender());

        fill(dst);
        release(slots);
        ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 3));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, flush_start(comp));
        queue(3);
        queue_am(10);
        progress_rounds();
        EXPECT_EQ(0u, m_sink->count());
    }
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
    ASSERT_TRUE(wait_for([&]() { return m_ams.size() == 1; }));
    flush(sender());
    check_tx_accounting(sender());
}

TEST_F(test_imm_pending_cb, completion_queue_full_when_slots_come_back)
{
    open_without_slots({ { "RC_TX_CQ_LEN", "64" } }, 2);
    mapped_buffer dst(8, receiver());

    pending_req &first = queue(1);
    queue(2);
    flush(sender(), 1);
    {
        tx_hold hold(sender());

        fill(dst, 1);
        EXPECT_GT(rc_state::sq_available(sender()), 0);
        release(slots);
        ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 3));
        queue(3);
        progress_rounds();
        EXPECT_EQ(0u, m_sink->count());
    }
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
}

TEST_F(test_imm_pending_cb, bytes_of_gets_exhausted_when_slots_come_back)
{
    open_without_slots({ { "RC_TX_NUM_GET_BYTES", "4096" } });
    mapped_buffer src(4096, receiver());
    mapped_buffer dst(4096, sender());
    const uct_iov_t iov = dst.iov(4096);
    completion comp;

    pending_req &first = queue(1);
    queue(2);
    {
        tx_hold hold(sender());

        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_get_zcopy(sender().ep(), &iov, 1, src.addr(),
                                       src.rkey(), &comp.uct));
        release(slots);
        ASSERT_TRUE(wait_for([&]() { return first.called > 0; }));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 3));
        queue(3);
        progress_rounds();
        EXPECT_EQ(0u, m_sink->count());
    }
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
    EXPECT_EQ(1, comp.called);
}

TEST_F(test_imm_pending_cb, no_credits_when_slots_come_back)
{
    const unsigned ams = 60;
    std::vector<ucs_status_t> with_slots;

    open_without_slots({ { "FC_WND_SIZE", "2" } });
    ASSERT_TRUE(ep_attr(sender()).flow_control);

    /* The queue takes each grant before the slots arrive */
    add(request([&]() {
        const bool has_slots      = ep_attr(sender()).slots > 0;
        const ucs_status_t status = notify(sender(), 0, 1);

        if (has_slots) {
            with_slots.push_back(status);
        }
        return pending_req::result(status);
    }));
    queue(2);
    while (am(0) == UCS_OK) {
    }
    for (uint64_t i = 1; i <= ams; ++i) {
        queue_am(i);
    }
    release(slots);
    queue(3);
    ASSERT_TRUE(wait_for([&]() {
        return !m_ams.empty() && (m_ams.back() == ams) &&
               (m_sink->count() == 3);
    }));
    EXPECT_EQ(sequence(1, 3), arrived());
    ASSERT_GT(with_slots.size(), 1u);
    EXPECT_STATUS(UCS_ERR_NO_RESOURCE, with_slots[0]);
    EXPECT_OK(with_slots.back());
}

TEST_F(test_imm_pending_cb, buffers_exhausted_in_the_group)
{
    const uint32_t buffers = 4, count = 20;

    open_pair(few_buffers(buffers));
    receive();
    mapped_buffer dst((count + 1) * sizeof(uint64_t), receiver());
    uint32_t sent = 0;

    while (post_bcopy(dst, sent) >= 0) {
        ++sent;
    }
    EXPECT_EQ(buffers, sent);
    while (sent < count) {
        queue_bcopy(dst, sent++);
    }
    ASSERT_TRUE(wait_arrived(count));
    EXPECT_EQ(sequence(0, count), arrived());
    EXPECT_EQ(count, m_packed);
    for (uint32_t i = 0; i < count; ++i) {
        EXPECT_EQ(value(i), dst.u64(i));
    }
    check_works(count);
}

TEST_F(test_imm_pending_cb, buffers_exhausted_in_the_list)
{
    const uint32_t count = 2 * slots;

    open_without_slots(few_buffers(2));
    mapped_buffer dst((count + 1) * sizeof(uint64_t), receiver());
    completion comp;

    for (uint32_t i = 0; i < count; ++i) {
        queue_bcopy(dst, i);
    }
    ASSERT_STATUS(UCS_INPROGRESS, flush_start(comp));
    m_sink->result = UCS_OK;
    release(slots);
    ASSERT_TRUE(wait_arrived(count));
    EXPECT_EQ(sequence(0, count), arrived());
    EXPECT_EQ(count, m_packed);
    ASSERT_TRUE(wait_for([&]() { return comp.done(); }));
    check_works(count);
}

TEST_F(test_imm_pending_cb, buffers_exhausted_others_do_not_overtake)
{
    open_without_slots(few_buffers(2));
    mapped_buffer dst(8 * sizeof(uint64_t), receiver());
    uint64_t data = 1;

    /* A callback that can post a put without a buffer, needs one for the next,
     * which it queues, and then tries one without again */
    add(request([&]() {
        EXPECT_OK(notify(sender(), 0, 1));
        EXPECT_EQ(UCS_ERR_NO_RESOURCE, post_bcopy(dst, 2));
        queue_bcopy(dst, 2);
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, notify(sender(), 0, 3));
        queue(3);
        return UCS_OK;
    }));
    {
        tx_hold hold(sender());
        pack_arg arg = { 1, sizeof(data) };

        while (uct_ep_put_bcopy(sender().ep(), pack_cb, &arg, dst.addr(),
                                dst.rkey()) >= 0) {
        }
        release(slots);
        ASSERT_TRUE(wait_arrived(1));
    }
    ASSERT_TRUE(wait_arrived(3));
    EXPECT_EQ(sequence(1, 3), arrived());
}

TEST_F(test_imm_pending_cb, buffers_exhausted_active_messages_go_ahead)
{
    open_without_slots(few_buffers(2));
    mapped_buffer dst(8, receiver());
    pack_arg arg = { 1, 8 };
    tx_hold hold(sender());

    /* The put that waits needs none of these buffers, but a slot */
    while (uct_ep_put_bcopy(sender().ep(), pack_cb, &arg, dst.addr(),
                            dst.rkey()) >= 0) {
    }
    queue(1);
    ASSERT_OK(am(1));
    ASSERT_TRUE(wait_for([&]() { return m_ams.size() == 1; }));
    release(1);
    ASSERT_TRUE(wait_arrived(1));
}
