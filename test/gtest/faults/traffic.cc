/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "traffic.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>

extern "C" {
#include <ucs/time/time.h>
}


namespace {

/* Most are small, as most messages are; some have several packets, one in 24 has no data */
size_t length_of(uint64_t number)
{
    static const size_t lengths[] = { 8,    64,    8,     200, 1000, 8,
                                      4096, 20000, 8,     100, 5000, 32,
                                      8,    12,    8000,  1,   256,  8,
                                      64,   8,     12288, 500, 8,    0 };

    return lengths[(number * 7) % (sizeof(lengths) / sizeof(lengths[0]))];
}

uint32_t imm_of(uint32_t generation, unsigned side, unsigned index,
                uint64_t number)
{
    const uint32_t low = number & ((1u << number_bits) - 1);

    return (generation << (32 - generation_bits)) | (side << 23) |
           (index << number_bits) | low;
}

size_t place_of(unsigned index, uint64_t number)
{
    return ((index * num_places) + (number % num_places)) * place_size;
}

/* Words that follow from the immediate and their place */
uint64_t first_word(uint32_t imm)
{
    return (imm + 1ull) * 0x9e3779b97f4a7c15ull;
}

void make_data(uint8_t *data, size_t length, uint32_t imm)
{
    uint64_t word = first_word(imm);

    for (size_t i = 0; i < length; i += sizeof(word)) {
        memcpy(&data[i], &word, std::min(sizeof(word), length - i));
        word += 0x0101010101010101ull;
    }
}

bool check_data(const uint8_t *data, size_t length, uint32_t imm)
{
    uint64_t word = first_word(imm);

    for (size_t i = 0; i < length; i += sizeof(word)) {
        if (memcmp(&data[i], &word, std::min(sizeof(word), length - i)) != 0) {
            return false;
        }
        word += 0x0101010101010101ull;
    }
    return true;
}

/* UCX reads it when it is opened */
void set_config(const char *config)
{
    std::istringstream words(config);
    std::string word;

    while (words >> word) {
        const size_t eq       = word.find('=');
        const std::string key = word.substr(0, eq);
        const char *prefix    = (key.compare(0, 4, "UCX_") == 0) ? "" :
                                                                   "UCX_WIMM_";

        setenv((prefix + key).c_str(), word.substr(eq + 1).c_str(), 1);
    }
}

void *map_memory(size_t size)
{
    void *ptr = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (ptr == MAP_FAILED) {
        throw std::runtime_error("mmap() failed");
    }
    return ptr;
}

} // namespace


const size_t transport::memory_size;

transport::transport()
    : m_src(static_cast<uint8_t *>(map_memory(memory_size))),
      m_dst(static_cast<uint8_t *>(map_memory(memory_size))), m_iface(nullptr),
      m_queues()
{
}

void transport::set_interface(uct_iface_h iface)
{
    if (iface == nullptr) {
        throw std::runtime_error("there is no interface of wimm");
    }
    m_iface  = iface;
    m_queues = rc_state::queues_of(iface);
}

std::string transport::queues_leftover()
{
    const ucs_time_t end = ucs_get_time() + ucs_time_from_sec(30);

    do {
        progress();
        if (rc_state::queues_of(m_iface) == m_queues) {
            return "";
        }
    } while (ucs_get_time() < end);

    return rc_state::queues_of(m_iface).str() + ", not " + m_queues.str();
}


void transport::check_status(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(what) + ": " + status_str(status));
    }
}


traffic *traffic::m_current = nullptr;

traffic::traffic(ledger *shared, unsigned side)
    : m_shared(shared), m_side(side), m_connected(false), m_paused(false),
      m_in_open(false), m_refused(num_eps, false),
      m_busy(num_eps, std::vector<bool>(num_places, false))
{
    m_current = this;
}

ucs_log_func_rc_t traffic::log_handler(const char *file, unsigned line,
                                       const char *, ucs_log_level_t level,
                                       const ucs_log_component_config_t *,
                                       const char *message, va_list ap)
{
    if (level > UCS_LOG_LEVEL_WARN) {
        return UCS_LOG_FUNC_RC_CONTINUE;
    }

    const std::string text = log_text(message, ap);
    if (m_current->m_in_open) {
        side_state &my = m_current->my();

        /* The first line says why, those after it that there is no worker */
        if (my.refused[0] == '\0') {
            snprintf(my.refused, sizeof(my.refused), "%s", text.c_str());
        }
        return UCS_LOG_FUNC_RC_STOP;
    }

    for (unsigned i = 0; i < max_allowed; ++i) {
        const char *part = m_current->m_shared->allowed[i];

        if ((part[0] != '\0') && (text.find(part) != std::string::npos)) {
            ++m_current->my().num_logged[i];
            return UCS_LOG_FUNC_RC_STOP;
        }
    }

    m_current->complain("logged: " + text + " [" + file + ":" +
                        std::to_string(line) + "]");
    return UCS_LOG_FUNC_RC_CONTINUE;
}

void traffic::complain(const std::string &text) const
{
    if (my().complaint[0] == '\0') {
        snprintf(my().complaint, sizeof(my().complaint), "%s", text.c_str());
    }
}

void traffic::open()
{
    const char *device = getenv((m_side == 0) ? "WIMM_TEST_DEVICE" :
                                                "WIMM_TEST_PEER_DEVICE");

    set_config(m_shared->config);
    m_in_open   = true;
    m_transport = (strcmp(m_shared->api, "uct") == 0) ?
                          transport::create_uct(device) :
                          transport::create_ucp(device);
    m_in_open   = false;
    if (::testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed()) {
        throw std::runtime_error("an assertion failed");
    }
    if (my().refused[0] != '\0') {
        complain(std::string("logged: ") + my().refused);
    }

    m_transport->on_arrival = [this](uint32_t imm, size_t length) {
        arrived(imm, length);
    };
    m_transport->on_failure = [this](ucs_status_t status) {
        if (my().num_failed == 0) {
            my().status = status;
        }
        ++my().num_failed;
        if (!m_shared->failure_expected) {
            complain("an endpoint failed: " + status_str(status));
        }
    };
}

void traffic::publish()
{
    const std::vector<uint8_t> address = m_transport->address();

    if (address.size() > sizeof(my().address)) {
        throw std::runtime_error("the address is too long");
    }
    memcpy(my().address, address.data(), address.size());
    my().address_length = address.size();
    my().num_failed     = 0;
}

void traffic::connect()
{
    const side_state &peer = m_shared->sides[1 - m_side];

    m_refused.assign(num_eps, false);
    m_busy.assign(num_eps, std::vector<bool>(num_places, false));
    m_transport->connect(
            std::vector<uint8_t>(peer.address,
                                 peer.address + peer.address_length));
    m_connected = true;
}

/* Nothing is posted meanwhile */
void traffic::flush()
{
    m_transport->flush();
    for (unsigned i = 0; i < num_eps; ++i) {
        stream_counts &s = m_shared->current(m_side, i);

        s.acked = s.posted.load();
    }
}

bool traffic::all_ended() const
{
    for (unsigned i = 0; i < num_eps; ++i) {
        const stream_counts &s = m_shared->current(m_side, i);

        if (s.ended != s.posted) {
            return false;
        }
    }
    return true;
}

void traffic::end()
{
    const ucs_time_t end = ucs_get_time() + ucs_time_from_sec(30);

    m_connected = false;
    m_transport->close();

    /* UCP closes before queue pairs have given back what they had */
    while (!all_ended() && (ucs_get_time() < end)) {
        m_transport->progress();
    }
    for (unsigned i = 0; i < num_eps; ++i) {
        const stream_counts &s = m_shared->current(m_side, i);
        const uint64_t busy    = std::count(m_busy[i].begin(), m_busy[i].end(),
                                            true);

        if ((s.ended != s.posted) || (busy != 0)) {
            complain("endpoint " + std::to_string(i) + ": of " +
                     std::to_string(s.posted) + " puts " +
                     std::to_string(s.ended) + " have ended");
        }
    }

    const std::string left = m_transport->leftover();
    if (!left.empty()) {
        complain("left: " + left);
    }
}

bool traffic::obey()
{
    const uint32_t command = my().command;

    if (command == my().done) {
        return true;
    }

    switch (command & 0xff) {
    case COMMAND_ADDRESS:
        publish();
        break;
    case COMMAND_CONNECT:
        connect();
        break;
    case COMMAND_PAUSE:
    case COMMAND_RESUME:
        m_paused = (command & 0xff) == COMMAND_PAUSE;
        break;
    case COMMAND_DEREGISTER:
        m_transport->deregister_dst();
        break;
    case COMMAND_REGISTER:
        m_transport->register_dst();
        break;
    case COMMAND_FLUSH:
        if (my().num_failed == 0) {
            flush();
        }
        break;
    case COMMAND_CLOSE:
        end();
        break;
    case COMMAND_CHECK:
        m_transport->check();
        break;
    case COMMAND_BAD_PUT:
        post_bad();
        break;
    default:
        break;
    }

    my().done = command;
    return (command & 0xff) != COMMAND_QUIT;
}

void traffic::post_some(unsigned index)
{
    stream_counts &s = m_shared->current(m_side, index);
    ucs_status_t status;

    while (!m_refused[index] && (s.posted < m_shared->goal) &&
           ((s.posted - s.delivered) < num_places) &&
           !m_busy[index][s.posted % num_places]) {
        const uint64_t number = s.posted;
        const size_t place    = number % num_places;
        const size_t offset   = place_of(index, number);
        const size_t length   = length_of(number);
        const uint32_t imm    = imm_of(m_shared->generation, m_side, index,
                                       number);

        if (s.attempted == number) {
            make_data(m_transport->src(offset), length, imm);
            s.attempted = number + 1;
        }

        m_busy[index][place] = true;
        status = m_transport->post(index, number, offset, length, imm, false,
                                   [this, &s, index,
                                    number](ucs_status_t status, bool acked) {
                                       ended(s, index, number, status, acked);
                                   });
        if (status != UCS_OK) {
            m_busy[index][place] = false;
            m_refused[index]     = status != UCS_ERR_NO_RESOURCE;
            return;
        }
        s.posted = number + 1;
    }
}

void traffic::ended(stream_counts &s, unsigned index, uint64_t number,
                    ucs_status_t status, bool acked)
{
    m_busy[index][number % num_places] = false;
    ++s.ended;
    if (status == UCS_OK) {
        if (acked) {
            s.acked = std::max<uint64_t>(s.acked, number + 1);
        }
    } else if (!m_shared->failure_expected) {
        complain("a put ended: " + status_str(status));
    }
}

/* What it writes is never there, and nobody is told */
void traffic::post_bad()
{
    for (unsigned i = 0; i < num_eps; ++i) {
        ucs_status_t status;

        do {
            m_transport->progress();
            status = m_transport->post(i, 0, 0, place_size, ~0u, true,
                                       [](ucs_status_t, bool) {});
        } while (status == UCS_ERR_NO_RESOURCE);
        m_refused[i] = true;
    }
}

/* Those of a connection that was closed may be told afterwards. Their data may have gone: its
 * place belongs to the next connection. */
void traffic::arrived(uint32_t imm, size_t length)
{
    const uint32_t mask       = (1u << number_bits) - 1;
    const uint32_t generation = imm >> (32 - generation_bits);
    const unsigned index      = (imm >> number_bits) % num_eps;
    stream_counts &s      = m_shared->streams[generation][1 - m_side][index];
    const uint64_t next   = s.delivered;
    const uint64_t number = next + static_cast<int32_t>(((imm - next) & mask)
                                                        << (32 - number_bits)) /
                                           (1 << (32 - number_bits));

    if ((imm != imm_of(generation, 1 - m_side, index, number)) ||
        (generation > m_shared->generation) ||
        (static_cast<int64_t>(number) < 0) || (number >= s.attempted)) {
        ++s.unknown;
    } else if (number < next) {
        ++s.duplicates;
    } else if (number > next) {
        ++s.disorder;
        s.delivered = number + 1;
    } else {
        if ((length != length_of(number)) ||
            ((generation == m_shared->generation) &&
             !check_data(m_transport->dst(place_of(index, number)), length,
                         imm))) {
            ++s.corrupt;
        }
        s.delivered = number + 1;
    }
}

int traffic::run()
{
    ucs_log_push_handler(log_handler);
    try {
        open();
    } catch (const std::exception &e) {
        std::string text = e.what();

        if (my().refused[0] != '\0') {
            text += std::string(": ") + my().refused;
        }
        snprintf(my().refused, sizeof(my().refused), "%s", text.c_str());
        return EXIT_FAILURE;
    }

    my().opened = 1;
    try {
        while (obey()) {
            if (m_paused) {
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
                continue;
            }
            for (unsigned i = 0; m_connected && (i < num_eps); ++i) {
                post_some(i);
            }
            m_transport->progress();
        }
        m_transport.reset();
    } catch (const std::exception &e) {
        complain(e.what());
        return EXIT_FAILURE;
    }
    ucs_log_pop_handler();
    return EXIT_SUCCESS;
}
