/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <sstream>


/* A rendezvous */
static const size_t big = 200000;

/* What UCP has of its own, on wimm endpoints, without libucp_wimm: shows that the ways
 * to connect, to fail and to close work before notified puts are added */
class test_ucp_fixture : public ucp_conn_test {
  protected:
    void SetUp() override
    {
        ucp_entity::params p = conn_params();

        ucp_test::SetUp();
        p.attach = false;
        p.features |= UCP_FEATURE_AMO64 | UCP_FEATURE_STREAM;
        p.config = config_that_fails_soon();
        m_params = p;
        create_pair(p);
        ASSERT_OK(flush(sender()));
        /* Only a listener makes one at the other side */
        ASSERT_EQ(GetParam() != connection::ADDRESS, receiver().num_eps());
    }

    /* Which transports an endpoint is made of */
    static std::string info(ucp_ep_h ep)
    {
        char *text = nullptr;
        size_t size;
        FILE *stream = open_memstream(&text, &size);

        ucp_ep_print_info(ep, stream);
        fclose(stream);
        std::string result(text);
        free(text);
        return result;
    }

    /* What Soft-RoCE has sent into the sender's network, in bytes: it sends nothing
     * there that stays inside of one device */
    uint64_t sent_bytes()
    {
        std::ifstream file("/sys/class/net/" + sender().netdev() +
                           "/statistics/tx_bytes");
        uint64_t bytes = 0;

        EXPECT_TRUE(bool(file >> bytes)) << sender().netdev();
        return bytes;
    }

    ucs_status_ptr_t put(const ucp_buffer &src, size_t length,
                         const ucp_buffer &dst,
                         const ucp_buffer::rkey_ptr &rkey)
    {
        ucp_request_param_t param = {};

        return ucp_put_nbx(sender().ep(), src.ptr(), length, dst.addr(),
                           rkey.get(), &param);
    }

    /* More than the send queue takes while nobody progresses: the rest waits in UCP.
     * The last one has a place of its own. */
    std::vector<ucs_status_ptr_t> put_many(const ucp_buffer &src,
                                           const ucp_buffer &dst,
                                           const ucp_buffer::rkey_ptr &rkey)
    {
        static const unsigned num = 600;
        ucp_request_param_t param = {};
        std::vector<ucs_status_ptr_t> requests;

        for (unsigned i = 0; i < num; ++i) {
            const size_t offset = (i == (num - 1)) ? length_of_many : 0;

            requests.push_back(ucp_put_nbx(sender().ep(), src.ptr(offset),
                                           length_of_many, dst.addr(offset),
                                           rkey.get(), &param));
            EXPECT_FALSE(UCS_PTR_IS_ERR(requests.back()));
        }
        return requests;
    }

    static const size_t length_of_many = 9000;

    ucp_entity::params m_params;
};

const size_t test_ucp_fixture::length_of_many;


TEST_P(test_ucp_fixture, put_and_flush_over_wimm)
{
    ucp_buffer src(sender(), big), dst(receiver(), big);
    auto rkey     = dst.unpack(sender().ep());
    unsigned seed = 1;

    EXPECT_NE(std::string::npos, info(sender().ep()).find("wimm/"))
            << info(sender().ep());
    for (size_t length : { size_t(1), size_t(8), size_t(1000), big }) {
        src.fill(++seed, 0, length);
        dst.clear();
        EXPECT_OK(wait(put(src, length, dst, rkey)));
        EXPECT_OK(flush(sender()));
        EXPECT_EQ(length, dst.check(seed, 0, length));
    }
}

/* Which transport asks whether the peer of an idle endpoint is there */
TEST_P(test_ucp_fixture, keepalive_is_by_wimm_if_preferred)
{
    for (bool prefer : { false, true }) {
        scoped_env env("UCX_WIMM_PREFER", prefer ? "y" : "n");
        ucp_entity::params p = m_params;

        p.config.push_back({ "KEEPALIVE_INTERVAL", "20s" });
        ucp_entity &from = create(p);
        ucp_entity &to   = create(p);

        if (GetParam() == connection::ADDRESS) {
            from.connect_address(to, UCP_ERR_HANDLING_MODE_PEER);
            ASSERT_OK(flush(from));
        } else {
            to.listen();
            connect(from, to, UCP_ERR_HANDLING_MODE_PEER);
        }

        std::istringstream lines(info(from.ep()));
        std::string line, found;
        while (std::getline(lines, line)) {
            if (line.find(" keepalive") != std::string::npos) {
                found += line;
            }
        }
        EXPECT_NE(std::string::npos, found.find(prefer ? "wimm/" : "ud_verbs/"))
                << info(from.ep());
    }
}

TEST_P(test_ucp_fixture, get_over_wimm)
{
    ucp_buffer local(sender(), big), remote(receiver(), big);
    auto rkey                 = remote.unpack(sender().ep());
    ucp_request_param_t param = {};
    unsigned seed             = 1;

    for (size_t length : { size_t(1), size_t(8), size_t(1000), big }) {
        remote.fill(++seed, 0, length);
        local.clear();
        EXPECT_OK(wait(ucp_get_nbx(sender().ep(), local.ptr(), length,
                                   remote.addr(), rkey.get(), &param)));
        EXPECT_EQ(length, local.check(seed, 0, length));
    }
}

TEST_P(test_ucp_fixture, atomics_fetch_and_post)
{
    ucp_buffer remote(receiver(), sizeof(uint64_t));
    auto rkey                 = remote.unpack(sender().ep());
    uint64_t *const value     = reinterpret_cast<uint64_t *>(remote.ptr());
    ucp_request_param_t param = {};
    const uint64_t add        = 0x100000007;
    uint64_t fetched          = 0;

    *value             = 5;
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
                         UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype     = ucp_dt_make_contig(sizeof(uint64_t));
    param.reply_buffer = &fetched;
    EXPECT_OK(wait(ucp_atomic_op_nbx(sender().ep(), UCP_ATOMIC_OP_ADD, &add, 1,
                                     remote.addr(), rkey.get(), &param)));
    EXPECT_EQ(5u, fetched);

    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    EXPECT_OK(wait(ucp_atomic_op_nbx(sender().ep(), UCP_ATOMIC_OP_ADD, &add, 1,
                                     remote.addr(), rkey.get(), &param)));
    EXPECT_OK(flush(sender()));
    EXPECT_EQ(5 + (2 * add), *value);
}

/* So that the runs that are meant for a wire are known to use it, and others not */
TEST_P(test_ucp_fixture, packets_cross_between_two_devices_only)
{
    const bool is_pair    = getenv("WIMM_TEST_PEER_DEVICE") != nullptr;
    const bool is_in_vm   = getenv("WIMM_VM") != nullptr;
    const uint64_t before = is_in_vm ? sent_bytes() : 0;
    ucp_buffer src(sender(), big), dst(receiver(), big);
    auto rkey = dst.unpack(sender().ep());

    src.fill(5, 0, big);
    EXPECT_OK(wait(put(src, big, dst, rkey)));
    EXPECT_OK(flush(sender()));
    EXPECT_EQ(big, dst.check(5, 0, big));

    /* Other devices do not count in the statistics of a network */
    if (is_in_vm) {
        EXPECT_EQ(is_pair, (sent_bytes() - before) >= big);
    }
}

TEST_P(test_ucp_fixture, active_message)
{
    ucp_am_handler_param_t am = {};
    ucp_request_param_t param = {};
    const std::string text(100, 'x');
    std::string got;

    am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                    UCP_AM_HANDLER_PARAM_FIELD_CB |
                    UCP_AM_HANDLER_PARAM_FIELD_ARG;
    am.id  = 1;
    am.arg = &got;
    am.cb  = [](void *arg, const void *, size_t, void *data, size_t length,
               const ucp_am_recv_param_t *) {
        static_cast<std::string *>(arg)->assign(static_cast<char *>(data),
                                                 length);
        return UCS_OK;
    };
    ASSERT_OK(ucp_worker_set_am_recv_handler(receiver().worker(), &am));
    EXPECT_OK(wait(ucp_am_send_nbx(sender().ep(), 1, NULL, 0, text.data(),
                                   text.size(), &param)));
    ASSERT_TRUE(wait_for([&] { return !got.empty(); }));
    EXPECT_EQ(text, got);
}

TEST_P(test_ucp_fixture, tag_eager_and_rendezvous)
{
    ucp_request_param_t param = {};

    for (size_t length : { size_t(10), big }) {
        const std::string text(length, 'x');
        std::string got(length, ' ');
        ucs_status_ptr_t recv = ucp_tag_recv_nbx(receiver().worker(), &got[0],
                                                 length, 7, ~0ul, &param);
        ucs_status_ptr_t send = ucp_tag_send_nbx(sender().ep(), text.data(),
                                                 length, 7, &param);

        EXPECT_OK(wait(send));
        EXPECT_OK(wait(recv));
        EXPECT_EQ(text, got);
    }
}

TEST_P(test_ucp_fixture, stream_keeps_the_order)
{
    ucp_request_param_t param = {};
    std::vector<char> text(big), got(big);
    size_t received = 0;

    /* Only an endpoint of its own gives a program the data of a stream */
    if (receiver().num_eps() == 0) {
        receiver().connect_address(sender(), UCP_ERR_HANDLING_MODE_PEER);
    }

    std::iota(text.begin(), text.end(), 0);
    EXPECT_OK(
            wait(ucp_stream_send_nbx(sender().ep(), text.data(), 100, &param)));
    EXPECT_OK(wait(ucp_stream_send_nbx(sender().ep(), text.data() + 100,
                                       big - 100, &param)));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags        = UCP_STREAM_RECV_FLAG_WAITALL;
    EXPECT_OK(wait(ucp_stream_recv_nbx(receiver().ep(), got.data(), big,
                                       &received, &param)));
    EXPECT_EQ(text, got);
}

TEST_P(test_ucp_fixture, flush_and_close_wait_for_what_waits)
{
    for (bool is_close : { false, true }) {
        ucp_buffer src(sender(), 2 * length_of_many),
                dst(receiver(), 2 * length_of_many);
        auto rkey = dst.unpack(sender().ep());

        src.fill(3, 0, length_of_many);
        src.fill(4, length_of_many, length_of_many);
        auto requests = put_many(src, dst, rkey);
        rkey.reset();
        EXPECT_OK(is_close ? close(sender()) : flush(sender()));
        EXPECT_EQ(length_of_many, dst.check(3, 0, length_of_many));
        EXPECT_EQ(length_of_many, dst.check(4, length_of_many, length_of_many));
        for (ucs_status_ptr_t request : requests) {
            EXPECT_OK(wait(request));
        }
    }
}

TEST_P(test_ucp_fixture, close_by_force_cancels_what_waits)
{
    ucp_buffer src(sender(), 2 * length_of_many),
            dst(receiver(), 2 * length_of_many);
    auto rkey                 = dst.unpack(sender().ep());
    ucp_request_param_t param = {};
    unsigned num_canceled     = 0;

    allow_failure();
    auto requests = put_many(src, dst, rkey);
    rkey.reset();

    param.op_attr_mask       = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags              = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t closing = ucp_ep_close_nbx(sender().release_ep(), &param);
    for (ucs_status_ptr_t request : requests) {
        ucs_status_t status = UCS_PTR_STATUS(request);

        /* All ended in the call */
        if (UCS_PTR_IS_PTR(request)) {
            status = ucp_request_check_status(request);
            wait(request);
        }
        EXPECT_TRUE((status == UCS_OK) || (status == UCS_ERR_CANCELED))
                << ucs_status_string(status);
        num_canceled += (status == UCS_ERR_CANCELED);
    }
    EXPECT_GT(num_canceled, 0u);
    EXPECT_OK(wait(closing));
    EXPECT_TRUE(sender().errors.empty());
    close_by_force(receiver());
}

/* A peer that goes: for a connection manager by its disconnect, else by retries */
TEST_P(test_ucp_fixture, error_handler_is_told_of_a_peer_that_went)
{
    ucp_buffer src(sender(), big);
    std::unique_ptr<ucp_buffer> dst(new ucp_buffer(receiver(), big));
    auto rkey = dst->unpack(sender().ep());

    allow_failure();
    EXPECT_OK(wait(put(src, big, *dst, rkey)));
    const uint64_t addr = dst->addr();
    dst.reset();
    close_by_force(receiver());
    m_entities.pop_back();

    ucp_request_param_t param = {};
    ucs_status_ptr_t request  = ucp_put_nbx(sender().ep(), src.ptr(), big, addr,
                                            rkey.get(), &param);
    EXPECT_NE(UCS_OK, wait(request));
    ASSERT_TRUE(wait_for([&] { return !sender().errors.empty(); }));
    EXPECT_EQ(1u, sender().errors.size());
    EXPECT_EQ(sender().ep(), sender().errors[0].first);
    rkey.reset();
    close(sender(), 0, UCP_EP_CLOSE_FLAG_FORCE);
}

TEST_P(test_ucp_fixture, a_worker_with_itself)
{
    ucp_entity &e             = create(m_params);
    ucp_request_param_t param = {};

    if (GetParam() == connection::ADDRESS) {
        e.connect_address(e, UCP_ERR_HANDLING_MODE_PEER);
    } else {
        e.listen();
        e.connect_listener(e, UCP_ERR_HANDLING_MODE_PEER);
        ASSERT_TRUE(wait_for([&] { return e.num_eps() == 2; }));
    }
    ASSERT_OK(flush(e)); /* Connected, for the key */

    ucp_buffer src(e, big), dst(e, big);
    auto rkey = dst.unpack(e.ep());
    src.fill(4, 0, big);
    EXPECT_OK(wait(ucp_put_nbx(e.ep(), src.ptr(), big, dst.addr(), rkey.get(),
                               &param)));
    EXPECT_OK(flush(e));
    EXPECT_EQ(big, dst.check(4, 0, big));
}

UCP_CONN_TESTS(test_ucp_fixture);
