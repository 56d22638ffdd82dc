/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/imm_test.h"

extern "C" {
#include <ucs/time/time.h>
}

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <random>


int child_main(int argc, char **argv);


namespace {

/* Each put has a place of its own until its notification is consumed */
const unsigned num_slots  = 16;
const unsigned num_places = 2 * num_slots;
const size_t place_size   = 20000; /* Several packets */

/* A dead peer is noticed within a second */
const config_list config = { { "IB_RX_QUEUE_LEN", "256" },
                             { "NUM_SLOTS", std::to_string(num_slots) },
                             { "RC_RETRY_COUNT", "3" },
                             { "RC_TIMEOUT", "100ms" } };


/* What two processes tell each other to get connected */
struct side_info {
    uint64_t addr;
    uint64_t rkey;
    uint8_t address[128];
};

bool transfer(ssize_t (*func)(int, void *, size_t), int fd, side_info *info)
{
    uint8_t *ptr = reinterpret_cast<uint8_t *>(info);
    size_t done  = 0;

    while (done < sizeof(*info)) {
        const ssize_t ret = func(fd, ptr + done, sizeof(*info) - done);

        if (ret <= 0) {
            return false;
        }
        done += ret;
    }
    return true;
}

/* Endpoint 0 of a side with memory of its own: to a peer in another process */
class stream {
  public:
    stream(entity &e, mapped_buffer &src, mapped_buffer &dst)
        : m_entity(e), m_src(src), m_dst(dst)
    {
    }

    bool connect(int fd)
    {
        const std::vector<uint8_t> address = m_entity.address(0);
        side_info info                     = {};

        EXPECT_LE(address.size(), sizeof(info.address));
        info.addr = m_dst.addr();
        info.rkey = m_dst.rkey();
        memcpy(info.address, address.data(), address.size());
        if (!transfer([](int fd, void *ptr,
                         size_t length) { return write(fd, ptr, length); },
                      fd, &info) ||
            !transfer(read, fd, &info)) {
            return false;
        }

        m_peer = info;
        m_entity.connect_to(0, std::vector<uint8_t>(info.address,
                                                    info.address +
                                                            address.size()));
        return true;
    }

    /* Its content tells which put it was, and that all of it has come */
    ucs_status_t send(uint32_t seq, uct_completion_t *comp)
    {
        const size_t offset = (seq % num_places) * place_size;
        const uct_iov_t iov = m_src.iov(place_size, offset);
        ucs_status_t status;

        *m_src.ptr(offset)                  = seq;
        *m_src.ptr(offset + place_size - 1) = seq;
        status = uct_wimm_ep_put_imm_zcopy(m_entity.ep(0), &iov, 1,
                                           m_peer.addr + offset, m_peer.rkey,
                                           seq, comp);
        return status;
    }

    void check(uint32_t seq) const
    {
        const size_t offset = (seq % num_places) * place_size;

        EXPECT_EQ(static_cast<uint8_t>(seq), *m_dst.ptr(offset));
        EXPECT_EQ(static_cast<uint8_t>(seq),
                  *m_dst.ptr(offset + place_size - 1));
    }

  private:
    entity &m_entity;
    mapped_buffer &m_src;
    mapped_buffer &m_dst;
    side_info m_peer = {};
};

/* This program as another process, which sends until it is killed */
class child_process {
  public:
    child_process()
    {
        int fds[2];

        EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds));
        m_fd  = fds[0];
        m_pid = fork();
        if (m_pid == 0) {
            const int child_fd = dup(fds[1]); /* Stays open */
            const int null_fd  = open("/dev/null", O_WRONLY);

            dup2(null_fd, STDOUT_FILENO);
            execl("/proc/self/exe", "gtest_uct", "--child",
                  std::to_string(child_fd).c_str(), NULL);
            _exit(127);
        }
        close(fds[1]);
    }

    ~child_process()
    {
        kill_now();
        close(m_fd);
    }

    void kill_now()
    {
        int status;

        if (m_pid > 0) {
            EXPECT_EQ(0, kill(m_pid, SIGKILL));
            EXPECT_EQ(m_pid, waitpid(m_pid, &status, 0));
            EXPECT_TRUE(WIFSIGNALED(status)) << status;
            m_pid = -1;
        }
    }

    int fd() const
    {
        return m_fd;
    }

  private:
    int m_fd;
    pid_t m_pid;
};

} // namespace


int child_main(int argc, char **argv)
{
    if (argc != 1) {
        return EXIT_FAILURE;
    }

    alarm(60); /* If the test has gone */
    entity e(config, entity::open_params());
    mapped_buffer src(num_places * place_size, e);
    mapped_buffer dst(num_places * place_size, e);
    stream peer(e, src, dst);
    imm_sink sink(e);
    uint32_t seq = 0;

    sink.on_imm = [&](const imm_sink::notification &) { sink.got.clear(); };
    e.create_ep(0);
    if (!peer.connect(atoi(argv[0]))) {
        return EXIT_FAILURE;
    }
    while (e.errors.empty()) {
        if (peer.send(seq, NULL) == UCS_INPROGRESS) {
            ++seq;
        }
        e.progress();
    }
    return EXIT_FAILURE;
}


/* A peer that is killed in mid-stream */
class test_kill : public imm_test {
  protected:
    void SetUp() override
    {
        imm_test::SetUp();
        if (IsSkipped()) {
            return;
        }
        open(config);
        open(config);
        entity::connect(sender(), 1, receiver(), 1);
        m_src.reset(new mapped_buffer(num_places * place_size, sender()));
        m_dst.reset(new mapped_buffer(num_places * place_size, sender()));
    }

    void TearDown() override
    {
        m_src.reset();
        m_dst.reset();
        imm_test::TearDown();
    }

    /* Kill it after so many notifications have come from it. While it lives, both
     * send; then one side sends until it sees that there is nobody. */
    void kill_after(unsigned count)
    {
        std::vector<std::unique_ptr<completion>> comps;
        child_process child;
        imm_sink sink(sender());
        uint32_t expected = 0;
        bool killed       = false;

        sender().create_ep(0);
        stream peer(sender(), *m_src, *m_dst);
        ASSERT_TRUE(peer.connect(child.fd()));

        /* From it, all in order and complete, but for what was lost at the end */
        sink.on_imm = [&](const imm_sink::notification &n) {
            if (n.ep_index == 0) {
                ASSERT_EQ(expected, n.imm);
                EXPECT_EQ(place_size, n.length);
                peer.check(n.imm);
                ++expected;
            }
        };
        ASSERT_TRUE(wait_for([&]() {
            std::unique_ptr<completion> comp(new completion());

            if (peer.send(comps.size(), &comp->uct) == UCS_INPROGRESS) {
                comps.push_back(std::move(comp));
            }
            if (!killed && (expected >= count)) {
                child.kill_now();
                killed = true;
            }
            return !sender().errors.empty();
        }));
        ASSERT_TRUE(killed);

        progress_rounds();
        ASSERT_EQ(1u, sender().errors.size());
        EXPECT_EQ(sender().ep(0), sender().errors[0].ep);
        EXPECT_STATUS(UCS_ERR_ENDPOINT_TIMEOUT, sender().errors[0].status);
        EXPECT_EQ(1u, ep_attr(sender()).counters.failed);
        check_completions(comps);
        sink.pause();
        check_other_works();

        sender().destroy_ep(0);
        sender().errors.clear();
        check_tx_accounting(sender());
        check_rx_accounting();
    }

    /* Each has ended once: well up to the one that got no answer, if that was not
     * a control message */
    static void check_completions(
            const std::vector<std::unique_ptr<completion>> &comps)
    {
        size_t i = 0;

        for (const auto &comp : comps) {
            ASSERT_EQ(1, comp->called);
        }
        while ((i < comps.size()) && (comps[i]->status() == UCS_OK)) {
            ++i;
        }
        if ((i < comps.size()) &&
            (comps[i]->status() == UCS_ERR_ENDPOINT_TIMEOUT)) {
            ++i;
        }
        for (; i < comps.size(); ++i) {
            ASSERT_STATUS(UCS_ERR_CANCELED, comps[i]->status());
        }
    }

    void check_other_works()
    {
        imm_sink left(sender()), right(receiver());

        for (uint32_t i = 0; i < (3 * num_slots); ++i) {
            ASSERT_OK(retry([&]() { return notify(sender(), 1, i); }));
            ASSERT_OK(retry([&]() { return notify(receiver(), 1, i); }));
        }
        ASSERT_TRUE(wait_for([&]() {
            return (left.count() == (3 * num_slots)) &&
                   (right.count() == left.count());
        }));
    }

    std::unique_ptr<mapped_buffer> m_src;
    std::unique_ptr<mapped_buffer> m_dst;
};


TEST_F(test_kill, peer_killed_in_mid_stream)
{
    std::mt19937 random(ucs_get_time());
    std::uniform_int_distribution<unsigned> count(0, 300);
    const int num_qps = rc_state::device_num_qps();

    for (unsigned round = 0; round < 2; ++round) {
        const unsigned moment = count(random);
        SCOPED_TRACE("killed after " + std::to_string(moment));

        kill_after(moment);
        if (HasFatalFailure()) {
            return;
        }
    }
    EXPECT_EQ(num_qps, rc_state::device_num_qps());
}
