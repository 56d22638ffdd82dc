/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "faults_test.h"
#include "traffic.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <thread>


int child_main(int argc, char **argv);


static const char *device_of(unsigned side)
{
    return getenv((side == 0) ? "WIMM_TEST_DEVICE" : "WIMM_TEST_PEER_DEVICE");
}

static ledger *map_ledger(int fd)
{
    void *ptr = mmap(nullptr, sizeof(ledger), PROT_READ | PROT_WRITE,
                     MAP_SHARED, fd, 0);

    if (ptr == MAP_FAILED) {
        throw std::runtime_error("mmap() failed");
    }
    return static_cast<ledger *>(ptr);
}

/* The process of one side */
int child_main(int argc, char **argv)
{
    if (argc != 2) {
        return EXIT_FAILURE;
    }
    return traffic(map_ledger(atoi(argv[1])), atoi(argv[0])).run();
}


tally &tally::operator+=(const tally &other)
{
    posted += other.posted;
    delivered += other.delivered;
    duplicates += other.duplicates;
    disorder += other.disorder;
    corrupt += other.corrupt;
    unknown += other.unknown;
    leaked += other.leaked;
    aborted += other.aborted;
    return *this;
}

std::string tally::str() const
{
    std::ostringstream out;

    out << posted << " posted, " << delivered << " delivered, " << duplicates
        << " duplicates, " << disorder << " out of order, " << corrupt
        << " corrupt, " << unknown << " false, " << leaked << " leaked, "
        << aborted << " aborted";
    return out.str();
}


/* Sum over all tests, printed in the end */
class tally_environment : public ::testing::Environment {
  public:
    static tally total;
    static unsigned num_runs;

    void TearDown() override
    {
        printf("faults: %u runs: %s\n", num_runs, total.str().c_str());
    }
};

tally tally_environment::total;
unsigned tally_environment::num_runs = 0;

static ::testing::Environment *const environment =
        ::testing::AddGlobalTestEnvironment(new tally_environment());


bool faults_test::is_ucp() const
{
    return strcmp(GetParam(), "ucp") == 0;
}

uint64_t faults_test::count() const
{
    const char *text     = getenv("WIMM_FAULTS_COUNT");
    const uint64_t total = (text == nullptr) ? 100000 : atol(text);
    const unsigned tests =
            ::testing::UnitTest::GetInstance()->total_test_count();

    return std::max<uint64_t>(total / tests, 1000);
}

void faults_test::SetUp()
{
    ASSERT_NE(nullptr, device_of(LEFT));
    ASSERT_NE(nullptr, device_of(RIGHT));
    m_fd = memfd_create("ledger", 0);
    ASSERT_GE(m_fd, 0);
    ASSERT_EQ(0, ftruncate(m_fd, sizeof(ledger)));
    m_ledger = map_ledger(m_fd);
    for (unsigned i = 0; i < num_sides; ++i) {
        m_pids[i]    = -1;
        m_num_qps[i] = -1;
    }
    snprintf(m_ledger->api, sizeof(m_ledger->api), "%s", GetParam());
    m_random.seed(std::random_device()());
}

void faults_test::TearDown()
{
    for (unsigned i = 0; i < num_sides; ++i) {
        if (m_pids[i] > 0) {
            kill_side(i, SIGKILL);
        }
    }
    add_counts();
    if (m_has_netem) {
        netem("");
    }

    const ::testing::TestInfo *info =
            ::testing::UnitTest::GetInstance()->current_test_info();
    printf("faults: %s: %s%s%s\n", info->name(), m_tally.str().c_str(),
           m_note.empty() ? "" : "; ", m_note.c_str());
    EXPECT_EQ(0u, m_tally.duplicates + m_tally.disorder + m_tally.corrupt +
                          m_tally.unknown + m_tally.leaked + m_tally.aborted);
    tally_environment::total += m_tally;
    ++tally_environment::num_runs;
    munmap(m_ledger, sizeof(*m_ledger));
    close(m_fd);
}

double faults_test::now()
{
    return std::chrono::duration<double>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
}

bool faults_test::wait_for(const std::string &what,
                           const std::function<bool()> &cond, double seconds)
{
    const double end = now() + seconds;

    while (!cond()) {
        check_alive();
        if (HasFatalFailure() || (now() > end)) {
            ADD_FAILURE() << what << ": not within " << seconds << " s";
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/* A side that ends by itself is what must not happen */
void faults_test::check_alive()
{
    int status;

    for (unsigned i = 0; i < num_sides; ++i) {
        if ((m_pids[i] > 0) &&
            (waitpid(m_pids[i], &status, WNOHANG) == m_pids[i])) {
            m_pids[i] = -1;
            ++m_tally.aborted;
            FAIL() << "side " << i << " ended with status " << status << ": "
                   << side(i).complaint << side(i).refused;
        }
    }
}

void faults_test::spawn(unsigned index)
{
    side_state &s = m_ledger->sides[index];

    new (&s) side_state();
    m_pids[index] = fork();
    if (m_pids[index] == 0) {
        execl("/proc/self/exe", "gtest_faults", "--child",
              std::to_string(index).c_str(), std::to_string(m_fd).c_str(),
              static_cast<char *>(nullptr));
        _exit(127);
    }
    ASSERT_GT(m_pids[index], 0);
}

void faults_test::start(const std::string &config)
{
    ASSERT_LT(config.size(), sizeof(m_ledger->config));
    strcpy(m_ledger->config, config.c_str());
    spawn(LEFT);
    spawn(RIGHT);
}

unsigned faults_test::allow(const std::string &part)
{
    unsigned i = 0;

    while ((i < max_allowed) && (m_ledger->allowed[i][0] != '\0')) {
        ++i;
    }
    if ((i == max_allowed) || (part.size() >= sizeof(m_ledger->allowed[i]))) {
        throw std::runtime_error("no room for: " + part);
    }
    strcpy(m_ledger->allowed[i], part.c_str());
    return i;
}

void faults_test::allow_failure()
{
    for (const char *part :
         { "completion with error", "endpoint failed", "was not purged" }) {
        allow(part);
    }
    m_ledger->failure_expected = 1;
}

void faults_test::post_command(unsigned index, command_t command)
{
    ++m_num_commands;
    m_ledger->sides[index].command = (m_num_commands << 8) | command;
}

void faults_test::wait_command(unsigned index)
{
    const side_state &s = side(index);

    wait_for("command " + std::to_string(s.command & 0xff),
             [&]() { return s.done == s.command; });
}

void faults_test::command(unsigned index, command_t command)
{
    post_command(index, command);
    wait_command(index);
}

void faults_test::command_all(command_t command)
{
    for (unsigned i = 0; i < num_sides; ++i) {
        if (m_pids[i] > 0) {
            post_command(i, command);
        }
    }
    for (unsigned i = 0; i < num_sides; ++i) {
        if (m_pids[i] > 0) {
            wait_command(i);
        }
    }
}

/* Those that the process has, by number of its queue pairs without endpoints */
int faults_test::num_qps(unsigned index) const
{
    const std::string pid = " pid " + std::to_string(m_pids[index]) + " ";
    int result            = 0;

    for (const std::string &line : command_lines("rdma resource show qp")) {
        result += line.find(pid) != std::string::npos;
    }
    return result;
}

void faults_test::wait_no_qps(unsigned index)
{
    const double end = now() + 30;
    int count;

    do {
        count = num_qps(index);
        if (count == m_num_qps[index]) {
            return;
        }
    } while (now() < end);

    m_tally.leaked += std::abs(count - m_num_qps[index]);
    ADD_FAILURE() << "side " << index << " has " << count
                  << " queue pairs instead of " << m_num_qps[index];
}

void faults_test::connect()
{
    connect(UINT64_MAX);
}

void faults_test::connect(uint64_t count)
{
    for (unsigned i = 0; i < num_sides; ++i) {
        ASSERT_TRUE(wait_for("open", [&]() { return side(i).opened == 1; }));
        if (m_num_qps[i] < 0) {
            m_num_qps[i] = num_qps(i);
        }
    }

    m_ledger->generation = m_ledger->generation + 1;
    ASSERT_LT(m_ledger->generation, max_generations);
    m_ledger->goal = (count == UINT64_MAX) ?
                             count :
                             ((count - 1) / (num_sides * num_eps)) + 1;
    for (command_t command : { COMMAND_ADDRESS, COMMAND_CONNECT }) {
        command_all(command);
    }
    if (m_ledger->generation == 1) {
        EXPECT_GT(num_qps(LEFT), 0) << "queue pairs cannot be counted";
    }
}

void faults_test::finish(uint64_t count)
{
    uint64_t most = 0;

    for (const auto &side : m_ledger->streams[m_ledger->generation]) {
        for (const stream_counts &s : side) {
            most = std::max<uint64_t>(most, s.posted);
        }
    }
    /* Who posts meanwhile is not beyond the goal: it has no more than its window */
    m_ledger->goal = most + num_places + (count / (num_sides * num_eps));
    wait_all_delivered();
}

unsigned faults_test::num_failed() const
{
    return side(LEFT).num_failed + side(RIGHT).num_failed;
}

void faults_test::disconnect(bool flush)
{
    for (command_t command : { COMMAND_FLUSH, COMMAND_CLOSE }) {
        if ((command == COMMAND_FLUSH) && (!flush || (num_failed() > 0))) {
            continue;
        }
        command_all(command);
    }
    for (unsigned i = 0; i < num_sides; ++i) {
        if (m_pids[i] > 0) {
            if (strstr(side(i).complaint, "left: ") != nullptr) {
                ++m_tally.leaked;
            }
            EXPECT_STREQ("", side(i).complaint) << "side " << i;
            check_acked(1 - i);
        }
    }
}

/* What UCX said had arrived, at a receiver that lives, has: it has taken all that its device had */
void faults_test::check_acked(unsigned sender) const
{
    for (const stream_counts &s :
         m_ledger->streams[m_ledger->generation][sender]) {
        EXPECT_LE(s.acked, s.delivered) << "sender " << sender;
    }
}

void faults_test::quit()
{
    for (unsigned i = 0; i < num_sides; ++i) {
        int status = 0;

        if (m_pids[i] < 0) {
            continue;
        }
        /* Of all connections that it had */
        wait_no_qps(i);
        post_command(i, COMMAND_QUIT);
        EXPECT_EQ(m_pids[i], waitpid(m_pids[i], &status, 0));
        m_pids[i] = -1;
        EXPECT_STREQ("", side(i).complaint) << "side " << i;
        /* UCX looks as it destroys its pools */
        m_tally.leaked += strstr(side(i).complaint, "not returned") != nullptr;
        if (status != 0) {
            ++m_tally.aborted;
            ADD_FAILURE() << "side " << i << " ended with status " << status;
        }
    }
}

void faults_test::kill_side(unsigned index, int signal)
{
    int status;

    /* One that has ended by itself: -1 would be all processes */
    ASSERT_GT(m_pids[index], 0);
    ASSERT_EQ(0, kill(m_pids[index], signal));
    if (signal == SIGKILL) {
        ASSERT_EQ(m_pids[index], waitpid(m_pids[index], &status, 0));
        m_pids[index]    = -1;
        m_num_qps[index] = -1;
    }
}

void faults_test::add_counts()
{
    for (const auto &generation : m_ledger->streams) {
        for (const auto &side : generation) {
            for (const stream_counts &s : side) {
                /* Who was killed may not have counted its last one */
                m_tally.posted += std::max<uint64_t>(s.posted, s.delivered);
                m_tally.delivered += s.delivered - s.disorder;
                m_tally.duplicates += s.duplicates;
                m_tally.disorder += s.disorder;
                m_tally.corrupt += s.corrupt;
                m_tally.unknown += s.unknown;
            }
        }
    }
}

/* Of this connection */
uint64_t faults_test::sum(std::atomic<uint64_t> stream_counts::*count) const
{
    uint64_t result = 0;

    for (const auto &side : m_ledger->streams[m_ledger->generation]) {
        for (const stream_counts &s : side) {
            result += s.*count;
        }
    }
    return result;
}

uint64_t faults_test::delivered() const
{
    return sum(&stream_counts::delivered);
}

uint64_t faults_test::num_posted() const
{
    return sum(&stream_counts::posted);
}

void faults_test::wait_delivered(uint64_t count)
{
    const uint64_t wanted = delivered() + count;

    wait_for(std::to_string(count) + " more puts delivered",
             [&]() { return delivered() >= wanted; });
}

void faults_test::wait_all_delivered(double seconds)
{
    wait_for(
            "all puts delivered",
            [&]() {
                for (const auto &side :
                     m_ledger->streams[m_ledger->generation]) {
                    for (const stream_counts &s : side) {
                        if (s.delivered < m_ledger->goal) {
                            return false;
                        }
                    }
                }
                return true;
            },
            seconds);
    EXPECT_EQ(0u, num_failed());
}

void faults_test::wait_failed(unsigned index, double seconds)
{
    double next = now();

    wait_for(
            "endpoints of side " + std::to_string(index) + " failed",
            [&]() {
                if (side(index).num_failed == num_eps) {
                    return true;
                }
                if (!is_ucp() && (now() >= next) &&
                    (side(index).done == side(index).command)) {
                    post_command(index, COMMAND_CHECK);
                    next = now() + keepalive_interval;
                }
                return false;
            },
            seconds);
    wait_command(index);
}

void faults_test::run(const std::string &command)
{
    ASSERT_EQ(0, system(command.c_str())) << command;
}

static const char *const netdevs[] = { "veth0", "veth1" };

void faults_test::netem(const std::string &args)
{
    for (const char *dev : netdevs) {
        if (!args.empty()) {
            run(std::string("tc qdisc replace dev ") + dev +
                " root netem limit 10000 " + args);
        } else if (m_has_netem) {
            run(std::string("tc qdisc del dev ") + dev + " root");
        }
    }
    m_has_netem = !args.empty();
}

uint64_t faults_test::netem_dropped(unsigned index)
{
    const std::string command = std::string("tc -s qdisc show dev ") +
                                netdevs[index] + " root";
    unsigned long long value = 0;
    bool is_found            = false;

    for (const std::string &line : command_lines(command)) {
        is_found |= sscanf(line.c_str(),
                           " Sent %*u bytes %*u pkt (dropped %llu",
                           &value) == 1;
    }
    EXPECT_TRUE(is_found) << command;
    return value;
}

uint64_t faults_test::device_counter(const std::vector<std::string> &names)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < num_sides; ++i) {
        for (const std::string &name : names) {
            const std::string path = std::string("/sys/class/infiniband/") +
                                     device_of(i) + "/ports/1/hw_counters/" +
                                     name;
            std::ifstream file(path);
            uint64_t value;

            if (!(file >> value)) {
                ADD_FAILURE() << "no " << path;
                return 0;
            }
            sum += value;
        }
    }
    return sum;
}

unsigned faults_test::random(unsigned min, unsigned max)
{
    return std::uniform_int_distribution<unsigned>(min, max)(m_random);
}
