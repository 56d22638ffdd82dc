/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

#include <algorithm>


/* Notified puts that fail at the peer, or on the way to it: of each kind, in one
 * packet and in several. docs/testing.md has a table of what the peer gets. */
class test_put_error : public imm_test {
  protected:
    enum kind_t {
        SHORT,
        BCOPY,
        ZCOPY
    };

    struct put_case {
        kind_t kind;
        size_t length;
    };

    /* Where a put goes, and the bytes around it that must stay as they are */
    struct target {
        uint64_t addr;
        uct_rkey_t rkey;
    };

    typedef std::function<target(const mapped_buffer &, size_t)> target_func_t;

    void SetUp() override
    {
        imm_test::SetUp();
        if (IsSkipped()) {
            return;
        }

        /* Memory is registered and deregistered when the test says so. The peer
         * sends nothing, no grant either, by which it could see the failure. */
        scoped_env env("UCX_IB_REG_METHODS", "direct");
        const config_list quick = { { "RC_RETRY_COUNT", "3" },
                                    { "RC_TIMEOUT", "50ms" },
                                    { "RC_FC_ENABLE", "n" } };
        open(quick);
        open(quick);
        entity::connect(sender(), 1, receiver(), 1);
    }

    std::vector<put_case> all_cases() const
    {
        const size_t mtu       = rc_state::path_mtu(sender());
        const size_t max_bcopy = sender().attr().cap.put.max_bcopy;
        std::vector<put_case> cases;

        cases = {
            { SHORT, 8 },       { SHORT, sender().attr().cap.put.max_short },
            { BCOPY, 100 },     { BCOPY, max_bcopy },
            { ZCOPY, 100 },     { ZCOPY, mtu },
            { ZCOPY, mtu + 1 }, { ZCOPY, 5 * mtu }
        };
        EXPECT_GT(max_bcopy, mtu);
        return cases;
    }

    ucs_status_t put(const put_case &c, const mapped_buffer &src,
                     const target &dst, uint32_t imm, completion *comp)
    {
        const uct_iov_t iov = src.iov(c.length);
        pack_arg arg        = { 1, c.length };
        ssize_t ret;

        switch (c.kind) {
        case SHORT:
            return uct_wimm_ep_put_imm_short(sender().ep(), src.ptr(), c.length,
                                             dst.addr, dst.rkey, imm);
        case BCOPY:
            ret = uct_wimm_ep_put_imm_bcopy(sender().ep(), pack_cb, &arg,
                                            dst.addr, dst.rkey, imm);
            return (ret < 0) ? static_cast<ucs_status_t>(ret) : UCS_OK;
        default:
            return uct_wimm_ep_put_imm_zcopy(sender().ep(), &iov, 1, dst.addr,
                                             dst.rkey, imm, &comp->uct);
        }
    }

    /* The sender's endpoint 0 failed, and was told so once */
    void check_failed(ucs_status_t status)
    {
        ASSERT_TRUE(wait_for([&]() { return !sender().errors.empty(); }));
        progress_rounds(50);
        ASSERT_EQ(1u, sender().errors.size());
        EXPECT_EQ(sender().ep(), sender().errors[0].ep);
        EXPECT_STATUS(status, sender().errors[0].status);
        EXPECT_EQ(1u, ep_attr(sender()).counters.failed);
    }

    /* The receiver's endpoint 0 failed, too, or did not */
    void check_receiver(unsigned count)
    {
        ASSERT_EQ(count, receiver().errors.size()) << status_str(
                receiver().errors.empty() ? UCS_OK :
                                            receiver().errors[0].status);
        for (const entity::ep_error &error : receiver().errors) {
            EXPECT_EQ(receiver().ep(), error.ep);
            EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, error.status);
        }
        EXPECT_EQ(count, ep_attr(receiver()).counters.failed);
    }

    /* The other pair of endpoints works in both directions */
    void check_other_works()
    {
        imm_sink left(sender()), right(receiver());

        ASSERT_OK(retry([&]() { return notify(sender(), 1, 1); }));
        ASSERT_OK(retry([&]() { return notify(receiver(), 1, 2); }));
        ASSERT_TRUE(wait_for(
                [&]() { return (left.count() == 1) && (right.count() == 1); }));
        EXPECT_EQ(1, left.got[0].ep_index);
        EXPECT_EQ(1, right.got[0].ep_index);
        EXPECT_EQ(0u, ep_attr(sender(), 1).counters.failed);
        EXPECT_EQ(0u, ep_attr(receiver(), 1).counters.failed);
    }

    void reset()
    {
        sender().destroy_ep(0);
        receiver().destroy_ep(0);
        sender().errors.clear();
        receiver().errors.clear();
    }

    /* A put that the peer refuses */
    void refused(const put_case &c, const target_func_t &func)
    {
        const size_t mtu = rc_state::path_mtu(sender());
        completion comp, flush_comp;

        entity::connect(sender(), 0, receiver(), 0);
        mapped_buffer src(c.length, sender());
        mapped_buffer dst(3 * c.length, receiver(), 0x5a);
        imm_sink sink(receiver());
        src.fill(1);
        const target to = func(dst, c.length);

        ASSERT_OK(notify(sender(), 0, 1));
        ASSERT_STATUS((c.kind == ZCOPY) ? UCS_INPROGRESS : UCS_OK,
                      put(c, src, to, 2, &comp));
        ASSERT_OK(notify(sender(), 0, 3));
        ASSERT_STATUS(UCS_INPROGRESS,
                      uct_ep_flush(sender().ep(), 0, &flush_comp.uct));
        check_failed(UCS_ERR_CONNECTION_RESET);

        /* What was behind it was not tried */
        ASSERT_TRUE(wait_for([&]() { return flush_comp.done(); }));
        EXPECT_STATUS(UCS_ERR_CANCELED, flush_comp.status());
        if (c.kind == ZCOPY) {
            EXPECT_EQ(1, comp.called);
            EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, comp.status());
        }

        /* One before it came, nothing else */
        ASSERT_EQ(1u, sink.count());
        EXPECT_EQ(1u, sink.got[0].imm);
        for (size_t i = 0; i < dst.size(); ++i) {
            ASSERT_EQ(0x5a, *dst.ptr(i));
        }

        if (rc_state::is_soft_roce()) {
            check_receiver((c.length <= mtu) ? 1 : 0);
        } else {
            EXPECT_LE(receiver().errors.size(), 1u);
        }
        EXPECT_STATUS(UCS_ERR_CONNECTION_RESET, notify(sender(), 0, 4));

        sink.pause();
        check_other_works();
        reset();
    }

    void all_refused(const target_func_t &func)
    {
        for (const put_case &c : all_cases()) {
            SCOPED_TRACE("kind " + std::to_string(c.kind) + " of " +
                         std::to_string(c.length) + " bytes");
            refused(c, func);
            if (HasFatalFailure()) {
                return;
            }
        }
        for (const auto &e : m_entities) {
            check_tx_accounting(*e);
        }
        check_rx_accounting();
    }

    /* Memory of the receiver, past UCX, which has all rights in any case */
    struct ibv_mr *reg_mr(void *ptr, size_t length, int access)
    {
        return ibv_reg_mr(
                uct_ib_iface_md(&rc_state::iface(receiver())->super)->pd, ptr,
                length, access);
    }
};


TEST_F(test_put_error, bad_rkey)
{
    all_refused([&](const mapped_buffer &dst, size_t) {
        return target{ dst.addr(), dst.rkey() ^ 0xff };
    });
}

TEST_F(test_put_error, rkey_of_other_memory)
{
    mapped_buffer other(64, receiver());

    all_refused([&](const mapped_buffer &dst, size_t) {
        return target{ dst.addr(), other.rkey() };
    });
}

TEST_F(test_put_error, last_byte_beyond_the_region)
{
    struct ibv_mr *mr = NULL;

    all_refused([&](const mapped_buffer &dst, size_t length) {
        if (mr != NULL) {
            EXPECT_EQ(0, ibv_dereg_mr(mr));
        }
        mr = reg_mr(dst.ptr(), dst.size() - length,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        return target{ dst.addr(dst.size() - (2 * length) + 1), mr->rkey };
    });
    EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(test_put_error, first_byte_before_the_region)
{
    struct ibv_mr *mr = NULL;

    all_refused([&](const mapped_buffer &dst, size_t length) {
        if (mr != NULL) {
            EXPECT_EQ(0, ibv_dereg_mr(mr));
        }
        mr = reg_mr(dst.ptr(length), length,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        return target{ dst.addr(length - 1), mr->rkey };
    });
    EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(test_put_error, region_without_remote_write)
{
    struct ibv_mr *mr = NULL;

    all_refused([&](const mapped_buffer &dst, size_t) {
        if (mr != NULL) {
            EXPECT_EQ(0, ibv_dereg_mr(mr));
        }
        mr = reg_mr(dst.ptr(), dst.size(),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                            IBV_ACCESS_REMOTE_ATOMIC);
        return target{ dst.addr(), mr->rkey };
    });
    EXPECT_EQ(0, ibv_dereg_mr(mr));
}

TEST_F(test_put_error, deregistered_region)
{
    all_refused([&](const mapped_buffer &dst, size_t) {
        uct_md_attr_t attr;
        uct_rkey_bundle_t rkey;
        uct_mem_h memh;

        EXPECT_OK(uct_md_query(receiver().md(), &attr));
        EXPECT_OK(uct_md_mem_reg(receiver().md(), dst.ptr(), dst.size(),
                                 UCT_MD_MEM_ACCESS_ALL, &memh));
        std::vector<uint8_t> packed(attr.rkey_packed_size);
        EXPECT_OK(uct_md_mkey_pack(receiver().md(), memh, packed.data()));
        EXPECT_OK(uct_rkey_unpack(resource::get().component, packed.data(),
                                  &rkey));
        EXPECT_OK(uct_md_mem_dereg(receiver().md(), memh));
        EXPECT_OK(uct_rkey_release(resource::get().component, &rkey));
        return target{ dst.addr(), rkey.rkey };
    });
}

TEST_F(test_put_error, receiver_sees_a_refused_put_when_it_sends)
{
    const put_case c = { ZCOPY, 2 * rc_state::path_mtu(sender()) };
    completion comp;

    /* Of a put of several packets it gets no completion, but its queue pair is
     * in error, too */
    entity::connect(sender(), 0, receiver(), 0);
    mapped_buffer src(c.length, sender());
    ASSERT_STATUS(UCS_INPROGRESS,
                  put(c, src, target{ 0x1000, 0xdeadbeef }, 1, &comp));
    check_failed(UCS_ERR_CONNECTION_RESET);
    if (!receiver().errors.empty()) {
        return; /* Other devices may tell it at once */
    }
    ASSERT_OK(notify(receiver(), 0, 1));
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    check_other_works();
}

TEST_F(test_put_error, queue_pair_of_the_sender_in_error)
{
    for (const put_case &c : all_cases()) {
        entity::connect(sender(), 0, receiver(), 0);
        mapped_buffer src(c.length, sender());
        mapped_buffer dst(c.length, receiver());
        imm_sink sink(receiver());
        completion comp;

        ASSERT_OK(notify(sender(), 0, 1));
        flush(sender());
        rc_state::set_error(sender());
        ASSERT_STATUS((c.kind == ZCOPY) ? UCS_INPROGRESS : UCS_OK,
                      put(c, src, target{ dst.addr(), dst.rkey() }, 2, &comp));
        check_failed(UCS_ERR_CONNECTION_RESET);
        if (c.kind == ZCOPY) {
            EXPECT_EQ(1, comp.called);
            EXPECT_STATUS(UCS_ERR_CANCELED, comp.status());
        }
        ASSERT_TRUE(wait_for([&]() { return sink.count() > 0; }));
        progress_rounds(50);
        ASSERT_EQ(1u, sink.count());
        EXPECT_EQ(1u, sink.got[0].imm);
        check_receiver(0);

        sink.pause();
        check_other_works();
        reset();
    }
    check_rx_accounting();
    check_tx_accounting(sender());
}

TEST_F(test_put_error, queue_pair_of_the_receiver_in_error)
{
    const size_t length = 3 * rc_state::path_mtu(sender());
    completion comps[3];

    entity::connect(sender(), 0, receiver(), 0);
    mapped_buffer src(length, sender());
    mapped_buffer dst(length, receiver());
    imm_sink sink(receiver());

    rc_state::set_error(receiver());
    for (completion &comp : comps) {
        ASSERT_STATUS(UCS_INPROGRESS, put_imm_zcopy(sender(), 0, src, length,
                                                    dst, 0, 1, &comp));
    }
    check_failed(UCS_ERR_ENDPOINT_TIMEOUT);
    ASSERT_TRUE(wait_for([&]() { return comps[2].done(); }));
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, comps[0].status());
    EXPECT_STATUS(UCS_ERR_CANCELED, comps[1].status());
    EXPECT_STATUS(UCS_ERR_CANCELED, comps[2].status());
    EXPECT_EQ(0u, sink.count());
    sink.pause();
    check_other_works();

    /* That side sees it when it sends */
    check_receiver(0);
    ASSERT_OK(notify(receiver(), 0, 2));
    ASSERT_TRUE(wait_for([&]() { return !receiver().errors.empty(); }));
    check_receiver(1);
}

TEST_F(test_put_error, endpoint_of_the_receiver_destroyed)
{
    for (const put_case &c : all_cases()) {
        completion comp;

        entity::connect(sender(), 0, receiver(), 0);
        mapped_buffer src(c.length, sender());
        mapped_buffer dst(c.length, receiver());
        imm_sink sink(receiver());

        receiver().destroy_ep(0);
        check_tx_accounting(receiver()); /* Its queue pair is gone */
        ASSERT_STATUS((c.kind == ZCOPY) ? UCS_INPROGRESS : UCS_OK,
                      put(c, src, target{ dst.addr(), dst.rkey() }, 2, &comp));
        check_failed(UCS_ERR_ENDPOINT_TIMEOUT);
        if (c.kind == ZCOPY) {
            EXPECT_EQ(1, comp.called);
            EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, comp.status());
        }
        EXPECT_EQ(0u, sink.count());
        sink.pause();
        check_other_works();
        sender().destroy_ep(0);
        sender().errors.clear();
    }
}
