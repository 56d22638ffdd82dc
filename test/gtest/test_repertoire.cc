/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/kinds_test.h"
#include "common/pending_req.h"


static const uint32_t count  = 100;
static const unsigned slots  = 8;
static const size_t max_size = 16384;


/* Much in one test, for tools that make tests slow: test/valgrind */
class test_repertoire : public kinds_test {
  protected:
    test_repertoire()
        : m_req([this]() {
              const ucs_status_t status = post_next();

              m_queued = (status == UCS_ERR_NO_RESOURCE);
              return pending_req::result(status);
          })
    {
    }

    void TearDown() override
    {
        for (const auto &e : m_entities) {
            e->destroy_eps();
        }
        m_src.reset();
        m_dst.reset();
        kinds_test::TearDown();
    }

    /* Post the next one. The kind and the size follow from its number. */
    ucs_status_t post_next()
    {
        const size_t length            = m_sizes[m_posted % m_sizes.size()];
        const std::vector<kind_t> ways = kinds(length);
        const kind_t kind  = ways[(m_posted / m_sizes.size()) % ways.size()];
        const size_t place = element(m_posted);
        ucs_status_t status;

        memset(m_src->ptr(place), m_posted + 1, length);
        m_comps.emplace_back(new completion());
        status = post(sender(), 0, kind, m_src->iov(length, place), *m_dst,
                      place, m_posted, m_comps.back().get());
        if (status != UCS_OK) {
            m_comps.pop_back();
            return status;
        }

        m_num_zcopy += (kind == ZCOPY);
        ++m_posted;
        return UCS_OK;
    }

    /* Post all that can be posted, and queue the next one */
    void post_or_queue()
    {
        ucs_status_t status = UCS_OK;

        while (!m_queued && (m_posted < count) && !HasFailure()) {
            status = post_next();
            if (status == UCS_ERR_NO_RESOURCE) {
                status = uct_wimm_ep_imm_pending_add(sender().ep(), &m_req.uct);
                m_queued = (status == UCS_OK);
            }
            if (status != UCS_ERR_BUSY) {
                EXPECT_OK(status);
            }
        }
    }

    unsigned num_completed() const
    {
        unsigned result = 0;

        for (const auto &comp : m_comps) {
            result += comp->called;
        }
        return result;
    }

    size_t element(uint32_t number) const
    {
        return number * m_sizes.back();
    }

    std::vector<size_t> m_sizes;
    std::unique_ptr<mapped_buffer> m_src, m_dst;
    pending_req m_req;
    bool m_queued = false;
    std::vector<std::unique_ptr<completion>> m_comps;
    uint32_t m_posted    = 0;
    unsigned m_num_zcopy = 0;
};


TEST_F(test_repertoire, all_kinds_with_few_credits_and_slots)
{
    unsigned held = 0;

    open_pair({ { "RC_FC_WND_SIZE", "16" },
                { "NUM_SLOTS", std::to_string(slots) } });
    m_sizes = sizes(max_size);
    m_src.reset(new mapped_buffer(element(count), sender()));
    m_dst.reset(new mapped_buffer(element(count), receiver()));
    imm_sink sink(receiver(), false);

    /* Some keep their slots for a while */
    sink.on_imm = [&](const imm_sink::notification &n) {
        EXPECT_EQ(sink.count() - 1, n.imm);
        EXPECT_EQ(m_sizes[n.imm % m_sizes.size()], n.length);
        EXPECT_EQ(0, memcmp(m_src->ptr(element(n.imm)),
                            m_dst->ptr(element(n.imm)), n.length));
        sink.result = ((n.imm % 3) == 0) ? UCS_INPROGRESS : UCS_OK;
        held += (sink.result == UCS_INPROGRESS);
        if (held == (slots / 2)) {
            EXPECT_OK(uct_wimm_ep_slot_release(n.ep, held));
            held = 0;
        }
    };

    /* The first ones wait for the handler, and one waits for a slot */
    post_or_queue();
    EXPECT_TRUE(m_queued);
    EXPECT_EQ(slots, m_posted);
    progress_rounds();
    EXPECT_EQ(0u, sink.count());

    sink.start();
    ASSERT_TRUE(wait_for([&]() {
        post_or_queue();
        return (sink.count() == count) || HasFailure();
    }));
    flush(sender());
    EXPECT_EQ(m_num_zcopy, num_completed());
    EXPECT_LT(0u, m_num_zcopy);
    EXPECT_LT(0u, counters(sender()).slot_stalls);
    EXPECT_LT(0u, counters(receiver()).grants);
    check_rx_accounting();
    check_tx_accounting(receiver());

    /* Some are on their way when all is destroyed */
    sink.pause();
    for (uint32_t i = 0; i < (slots / 2); ++i) {
        EXPECT_OK(retry([&]() { return notify(sender(), 0, i); }));
    }
}
