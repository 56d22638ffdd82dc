/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "common/fc_test.h"


/* Receive credits: no message arrives without a receive (RNR) */
class test_fc : public fc_test {
  protected:
    /* Both sides send all they can, while one of them or the other stalls */
    void flood_and_stall(unsigned num_eps, traffic kind)
    {
        flow there(sender(), receiver(), num_eps, kind);
        flow back(receiver(), sender(), num_eps, kind);

        back.post_all();
        stall(there, back);
        exchange({ &there, &back });

        /* Windows have to grow from the initial ones */
        exchange({ &there }, there.sent() + max_window());
        stall(there, back);
        exchange({ &there, &back }, back.sent() + max_window());

        there.post_all();
        stall(back, there);
        exchange({ &there, &back });
    }

    /* More messages than any window has */
    unsigned max_window()
    {
        return 2 * fc_state::iface(receiver()).target;
    }
};


struct fc_param {
    unsigned wnd_size;
    unsigned num_eps;
    unsigned rx_queue_len;
};


static std::ostream &operator<<(std::ostream &os, const fc_param &param)
{
    return os << "wnd" << param.wnd_size << "_eps" << param.num_eps << "_rx"
              << param.rx_queue_len;
}


class test_fc_sizes : public test_fc,
                      public ::testing::WithParamInterface<fc_param> {};


TEST_P(test_fc_sizes, no_rnr_whoever_stalls)
{
    const fc_param &param = GetParam();

    open_sides(param.num_eps, param.rx_queue_len, param.wnd_size);
    EXPECT_LE(rx_queue(receiver()).rx_queue.min_length, param.rx_queue_len);
    if (param.num_eps < 64) {
        flood_and_stall(param.num_eps, ONLY_IMM);
        EXPECT_EQ(0u, num_rnr());
    }
    flood_and_stall(param.num_eps, MIXED);
    EXPECT_EQ(0u, num_rnr());
    check_rx_accounting();
}

INSTANTIATE_TEST_SUITE_P(
        sizes, test_fc_sizes,
        ::testing::Values(fc_param{ 1, 1, 256 }, fc_param{ 1, 2, 1024 },
                          fc_param{ 1, 64, 1024 }, fc_param{ 2, 1, 256 },
                          fc_param{ 16, 2, 256 }, fc_param{ 8, 16, 4096 },
                          fc_param{ 512, 1, 256 }, fc_param{ 512, 2, 256 },
                          fc_param{ 512, 64, 256 }, fc_param{ 512, 64, 1024 },
                          fc_param{ 512, 2, 4096 }, fc_param{ 512, 64, 4096 }),
        ::testing::PrintToStringParamName());


TEST_F(test_fc, receiver_stalls_for_seconds)
{
    for (unsigned num_eps : { 1, 2, 64 }) {
        open_sides(num_eps);
        {
            flow there(sender(), receiver(), num_eps, ONLY_IMM);
            flow back(receiver(), sender(), num_eps, ONLY_IMM);

            exchange({ &there }, max_window());
            stall(there, back, 2);
            exchange({ &there });
        }
        EXPECT_EQ(0u, num_rnr()) << num_eps << " endpoints";
        m_entities.clear();
    }
}

TEST_F(test_fc, few_endpoints_with_full_windows_then_64)
{
    const unsigned few = 4, many = 64;

    open_sides(few, 256);
    flow there(sender(), receiver(), few, ONLY_IMM);
    flow back(receiver(), sender(), few, ONLY_IMM);

    for (unsigned i = 0; i < few; ++i) {
        fill_window(there, i);
    }

    /* They are not asked to give anything back before the receiver stalls */
    connect_sides(few, many);
    there.grow(many);
    back.grow(many);
    back.post_all();
    stall(there, back);
    exchange({ &there, &back });
    EXPECT_EQ(0u, num_rnr());
}

TEST_F(test_fc, window_larger_than_the_receive_queue)
{
    open_sides(2, 64, 512);
    flood_and_stall(2, MIXED);
    EXPECT_EQ(0u, num_rnr());
}

TEST_F(test_fc, window_larger_than_the_address_has_bits_for)
{
    open_sides(1, 0, 1000000);
    EXPECT_LE(ep_attr(sender()).credits, unsigned(UCT_WIMM_MAX_CREDITS));
    EXPECT_TRUE(ep_attr(sender()).flow_control);
    flood_and_stall(1, MIXED);
    EXPECT_EQ(0u, num_rnr());
}

TEST_F(test_fc, window_of_zero_is_refused)
{
    expect_error("UCX_WIMM_FC_WND_SIZE is 0");
    EXPECT_THROW(open({ { "RC_FC_WND_SIZE", "0" } }), std::runtime_error);

    /* It has no meaning there */
    open({ { "RC_FC_WND_SIZE", "0" }, { "RC_FC_ENABLE", "n" } });
}

TEST_F(test_fc, flush_with_window_used_up_needs_no_progress_of_the_peer)
{
    open_sides(1);
    flow there(sender(), receiver(), 1, MIXED);
    flow back(receiver(), sender(), 1, MIXED);

    stall(there, back);
    EXPECT_EQ(0u, ep_attr(sender()).credits);
    for (unsigned i = 0; i < 3; ++i) {
        wait_sent(sender());
    }
    exchange({ &there });
}


/* The smallest receive queue */
class test_fc_min_queue : public test_fc,
                          public ::testing::WithParamInterface<unsigned> {
  protected:
    /* For a number of endpoints, as the query tells */
    unsigned min_length(unsigned num_eps)
    {
        entity &e = open();
        unsigned result;

        for (unsigned i = 0; i < num_eps; ++i) {
            e.create_ep(i);
        }
        result = rx_queue(e).rx_queue.min_length;
        close(e);
        return result;
    }
};


TEST_P(test_fc_min_queue, no_rnr)
{
    const unsigned length = min_length(GetParam());

    open_sides(GetParam(), length);
    EXPECT_EQ(length, rx_queue(receiver()).rx_queue.length);
    EXPECT_EQ(length, rx_queue(receiver()).rx_queue.min_length);
    flood_and_stall(GetParam(), MIXED);
    EXPECT_EQ(0u, num_rnr());
    check_rx_accounting();
}

INSTANTIATE_TEST_SUITE_P(endpoints, test_fc_min_queue,
                         ::testing::Values(1, 2, 16, 64));


/* One that is too short for grants beside messages */
class test_fc_short_queue : public test_fc_min_queue {};


TEST_P(test_fc_short_queue, rnr_and_nothing_is_lost)
{
    /* A message and a grant of each endpoint, and not a receive for each */
    const unsigned length = (2 * GetParam()) - 1;

    ASSERT_LT(length, min_length(GetParam()));
    expect_log(UCS_LOG_LEVEL_WARN, "is short for", 2); /* Once on each side */
    open_sides(GetParam(), length);
    flood_and_stall(GetParam(), MIXED);
    EXPECT_GT(num_rnr(), 0u);
    check_rx_accounting();
    EXPECT_TRUE(sender().errors.empty());
    EXPECT_TRUE(receiver().errors.empty());
}

INSTANTIATE_TEST_SUITE_P(endpoints, test_fc_short_queue,
                         ::testing::Values(1, 16));


class test_fc_warning : public test_fc,
                        public ::testing::WithParamInterface<unsigned> {
  protected:
    /* Number of endpoints with which there was a warning */
    unsigned create_until_warning(entity &e, unsigned max)
    {
        for (unsigned i = 0; i < max; ++i) {
            e.create_ep(i);
            if (!logged(UCS_LOG_LEVEL_WARN).empty()) {
                return i + 1;
            }
        }
        return 0;
    }
};


TEST_P(test_fc_warning, once_with_numbers_that_help)
{
    unsigned num_eps, asked_length, asked_eps, asked_min;
    char text[64];

    expect_log(UCS_LOG_LEVEL_WARN, "is short for");
    snprintf(text, sizeof(text), "%u", GetParam());
    entity &e = open({ { "IB_RX_QUEUE_LEN", text } });
    num_eps   = create_until_warning(e, GetParam());

    ASSERT_EQ(1u, logged(UCS_LOG_LEVEL_WARN).size());
    const std::string line = logged(UCS_LOG_LEVEL_WARN)[0];
    ASSERT_EQ(3, sscanf(line.c_str(),
                        "a receive queue of %u is short for %u endpoints on %*s"
                        " senders may have to wait for receives (RNR) unless"
                        " UCX_WIMM_RX_QUEUE_LEN is %u or more",
                        &asked_length, &asked_eps, &asked_min))
            << line;
    EXPECT_NE(std::string::npos, line.find(resource::get().dev_name));
    EXPECT_EQ(GetParam(), asked_length);
    EXPECT_EQ(num_eps, asked_eps);
    EXPECT_EQ(asked_min, rx_queue(e).rx_queue.min_length);
    EXPECT_GT(asked_min, GetParam());

    /* Not again */
    for (unsigned i = 0; i < 5; ++i) {
        e.create_ep(num_eps + i);
    }

    /* Who does as told does not see it */
    snprintf(text, sizeof(text), "%u", asked_min);
    entity &other = open({ { "IB_RX_QUEUE_LEN", text } });
    for (unsigned i = 0; i < num_eps; ++i) {
        other.create_ep(i);
    }
}

/* 63: a longer one has larger batches */
INSTANTIATE_TEST_SUITE_P(lengths, test_fc_warning,
                         ::testing::Values(4, 17, 63, 100));
