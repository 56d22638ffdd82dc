/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "ucp_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>


namespace {

void transfer(int fd, void *buffer, size_t length, bool is_write)
{
    char *ptr = static_cast<char *>(buffer);

    while (length > 0) {
        ssize_t ret = is_write ? write(fd, ptr, length) : read(fd, ptr, length);

        if (ret <= 0) {
            _exit(3);
        }
        ptr += ret;
        length -= ret;
    }
}

/* What a process tells of its worker and its memory */
struct peer_info {
    uint32_t address_length, rkey_length;
    uint64_t addr;
    char address[2048], rkey[512];
};

const size_t memory_size = 1 << 16;

} // namespace


/* The other side: answers nothing, and is killed. Started anew by main(). */
int child_main(int argc, char **argv);

int child_main(int argc, char **argv)
{
    if (argc != 1) {
        return 2;
    }

    const int fd = atoi(argv[0]);
    scoped_env env("UCX_UD_VERBS_ETH_DGID_CHECK", "n");
    ucp_entity e({});
    ucp_buffer memory(e, memory_size);
    ucp_address_t *address;
    peer_info info = {};
    size_t length, rkey_length;
    void *rkey;

    if ((ucp_worker_get_address(e.worker(), &address, &length) != UCS_OK) ||
        (ucp_rkey_pack(e.context(), memory.memh(), &rkey, &rkey_length) !=
         UCS_OK)) {
        return 2;
    }
    info.address_length = length;
    info.rkey_length    = rkey_length;
    info.addr           = memory.addr();
    memcpy(info.address, address, length);
    memcpy(info.rkey, rkey, rkey_length);
    transfer(fd, &info, sizeof(info), true);

    /* Says when something has come, and progresses until it is killed */
    bool said = false;
    for (;;) {
        e.progress();
        if (!said && !e.arrivals.empty()) {
            char byte = 1;

            transfer(fd, &byte, 1, true);
            said = true;
        }
    }
}


class test_ucp_kill : public ucp_test {
  protected:
    void start_child()
    {
        ASSERT_EQ(0, pipe(m_pipe));
        m_child = fork();
        if (m_child == 0) {
            const std::string fd = std::to_string(m_pipe[1]);

            execl("/proc/self/exe", "gtest_ucp", "--child", fd.c_str(),
                  static_cast<char *>(nullptr));
            _exit(3);
        }
        ::close(m_pipe[1]);
        transfer(m_pipe[0], &m_info, sizeof(m_info), false);
    }

    void kill_child()
    {
        ASSERT_EQ(0, kill(m_child, SIGKILL));
        ASSERT_EQ(m_child, waitpid(m_child, nullptr, 0));
        m_child = -1;
    }

    void TearDown() override
    {
        if (m_child > 0) {
            kill_child();
        }
        ::close(m_pipe[0]);
        ucp_test::TearDown();
    }

    int m_pipe[2];
    pid_t m_child = -1;
    peer_info m_info;
};


TEST_F(test_ucp_kill, ends_requests_and_waits)
{
    ucp_entity::params p;
    ucp_wimm_counter_h counter;
    ucp_rkey_h rkey;
    unsigned failed = 0;
    char byte;

    p.config = config_that_fails_soon();
    start_child();
    ucp_entity &e = create(p);
    ucp_buffer src(e, memory_size);
    allow_error("completion with error");
    allow_error("endpoint failed");

    ucp_ep_h ep = e.connect_remote(m_info.address);
    ASSERT_OK(ucp_ep_rkey_unpack(ep, m_info.rkey, &rkey));
    ASSERT_OK(ucp_wimm_counter_create(e.wimm(), NULL, &counter));

    /* One that is bound to it, and one that is bound to another endpoint */
    ucp_wimm_counter_params_t params = {};
    ucp_wimm_counter_h bound, other;
    params.field_mask = UCP_WIMM_COUNTER_PARAM_FIELD_EP;
    params.ep         = ep;
    ASSERT_OK(ucp_wimm_counter_create(e.wimm(), &params, &bound));
    params.ep = e.connect_address(e, UCP_ERR_HANDLING_MODE_PEER);
    ASSERT_OK(ucp_wimm_counter_create(e.wimm(), &params, &other));

    std::deque<put_request> requests;
    auto put = [&](size_t length) {
        requests.emplace_back();
        put_request &r            = requests.back();
        ucp_request_param_t param = r.param();

        r.ptr = ucp_wimm_put_nbx(e.wimm(), ep, src.ptr(), length, m_info.addr,
                                 rkey, 1, &param);
    };

    put(8);
    ASSERT_OK(wait(requests.back()));
    while (e.progress()) {
    }
    ASSERT_OK(flush(e));
    transfer(m_pipe[0], &byte, 1, false);
    kill_child();

    for (unsigned i = 0; i < 2000; ++i) {
        put((i % 3) ? 8 : 20000);
    }

    /* The wait tells, once; it can be entered again */
    ucs_status_t status = ucp_wimm_wait_some(e.wimm(), &counter, 1, 60, NULL,
                                             NULL);
    ASSERT_EQ(1u, e.errors.size());
    EXPECT_STATUS(e.errors[0].second, status);
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, status);
    EXPECT_STATUS(UCS_ERR_TIMED_OUT,
                  ucp_wimm_wait_some(e.wimm(), &counter, 1, 0, NULL, NULL));

    for (put_request &r : requests) {
        failed += (wait(r) != UCS_OK);
    }
    EXPECT_GT(failed, 1000u);
    ASSERT_EQ(1u, e.arrivals.size());
    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, e.arrivals[0].status);
    EXPECT_EQ(ep, e.arrivals[0].ep);

    EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, ucp_wimm_counter_test(bound));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(bound));
    EXPECT_STATUS(UCS_INPROGRESS, ucp_wimm_counter_test(other));

    ucp_wimm_counter_destroy(counter);
    ucp_wimm_counter_destroy(bound);
    ucp_wimm_counter_destroy(other);
    ucp_rkey_destroy(rkey);
    close(e, 0, UCP_EP_CLOSE_FLAG_FORCE);
}
