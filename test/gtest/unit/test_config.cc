/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "tl_test.h"

extern "C" {
#include <uct/ib/wimm/wimm_iface.h>
}

#include <cstring>


/* The configuration of the transport */
class test_config : public tl_test {
  protected:
    void SetUp() override
    {
        tl_test::SetUp();
        memset(&m_config, 0, sizeof(m_config));
        ASSERT_OK(uct_wimm_tl_register(&m_abi));
    }

    void TearDown() override
    {
        if (m_filled) {
            ucs_config_parser_release_opts(&m_config, uct_wimm_tl.config.table);
        }
        tl_test::TearDown();
    }

    /* As UCX reads it for uct_iface_open() */
    ucs_status_t read()
    {
        ucs_status_t status = ucs_config_parser_fill_opts(
                &m_config, uct_wimm_tl.config.table, UCS_DEFAULT_ENV_PREFIX,
                uct_wimm_tl.config.prefix, 0);

        m_filled = (status == UCS_OK);
        return status;
    }

    uct_ib_iface_config_t &ib()
    {
        return rc().super;
    }

    uct_rc_iface_common_config_t &rc()
    {
        return m_config.super.super.super;
    }

    std::string get(const char *name)
    {
        char value[256] = "";

        EXPECT_OK(ucs_config_parser_get_value(&m_config,
                                              uct_wimm_tl.config.table, name,
                                              value, sizeof(value)));
        return value;
    }

    uct_wimm_iface_config_t m_config;
    bool m_filled = false;
};


TEST_F(test_config, size_is_that_of_the_structure)
{
    EXPECT_EQ(sizeof(uct_wimm_iface_config_t), uct_wimm_tl.config.size);
}

TEST_F(test_config, defaults)
{
    ASSERT_OK(read());
    EXPECT_EQ(0, m_config.prefer);
    EXPECT_DOUBLE_EQ(0.1, m_config.qp_drain_timeout);
}

TEST_F(test_config, defaults_of_the_base_are_those_of_rc_verbs)
{
    ASSERT_OK(read());

    uct_rc_verbs_iface_config_t base;
    memset(&base, 0, sizeof(base));
    ASSERT_OK(ucs_config_parser_fill_opts(&base, uct_rc_verbs_tl.config.table,
                                          UCS_DEFAULT_ENV_PREFIX,
                                          uct_rc_verbs_tl.config.prefix, 0));

    EXPECT_EQ(base.super.super.super.rx.queue_len, ib().rx.queue_len);
    EXPECT_EQ(base.super.super.super.seg_size, ib().seg_size);
    EXPECT_EQ(base.super.super.fc.wnd_size, rc().fc.wnd_size);
    EXPECT_EQ(base.super.super.tx.retry_count, rc().tx.retry_count);
    EXPECT_EQ(base.super.tx_cq_len, m_config.super.super.tx_cq_len);
    EXPECT_EQ(base.max_am_hdr, m_config.super.max_am_hdr);
    EXPECT_EQ(base.tx_max_wr, m_config.super.tx_max_wr);
    ucs_config_parser_release_opts(&base, uct_rc_verbs_tl.config.table);
}

TEST_F(test_config, own_keys_from_environment)
{
    scoped_env prefer("UCX_WIMM_PREFER", "y");
    scoped_env timeout("UCX_WIMM_QP_DRAIN_TIMEOUT", "7ms");

    ASSERT_OK(read());
    EXPECT_EQ(1, m_config.prefer);
    EXPECT_DOUBLE_EQ(0.007, m_config.qp_drain_timeout);
}

TEST_F(test_config, rc_keys_apply)
{
    scoped_env wnd("UCX_RC_FC_WND_SIZE", "77");
    scoped_env len("UCX_RC_TX_CQ_LEN", "99");

    ASSERT_OK(read());
    EXPECT_EQ(77u, rc().fc.wnd_size);
    EXPECT_EQ(99u, m_config.super.super.tx_cq_len);
}

TEST_F(test_config, ib_keys_apply)
{
    scoped_env len("UCX_IB_RX_QUEUE_LEN", "123");

    ASSERT_OK(read());
    EXPECT_EQ(123u, ib().rx.queue_len);
}

TEST_F(test_config, wimm_keys_override_rc_keys)
{
    scoped_env rc_wnd("UCX_RC_FC_WND_SIZE", "77");
    scoped_env wimm_wnd("UCX_WIMM_FC_WND_SIZE", "78");
    scoped_env rc_retry("UCX_RC_RETRY_COUNT", "3");

    ASSERT_OK(read());
    EXPECT_EQ(78u, rc().fc.wnd_size);
    EXPECT_EQ(3u, rc().tx.retry_count);
}

TEST_F(test_config, wimm_keys_override_ib_keys)
{
    scoped_env ib_len("UCX_IB_RX_QUEUE_LEN", "123");
    scoped_env wimm_len("UCX_WIMM_RX_QUEUE_LEN", "124");

    ASSERT_OK(read());
    EXPECT_EQ(124u, ib().rx.queue_len);
}

TEST_F(test_config, rc_verbs_keys_do_not_apply)
{
    scoped_env wnd("UCX_RC_VERBS_FC_WND_SIZE", "79");

    ASSERT_OK(read());
    EXPECT_NE(79u, rc().fc.wnd_size);
}

TEST_F(test_config, wimm_keys_leave_rc_verbs_alone)
{
    scoped_env wnd("UCX_WIMM_FC_WND_SIZE", "79");
    uct_rc_verbs_iface_config_t base;

    memset(&base, 0, sizeof(base));
    ASSERT_OK(ucs_config_parser_fill_opts(&base, uct_rc_verbs_tl.config.table,
                                          UCS_DEFAULT_ENV_PREFIX,
                                          uct_rc_verbs_tl.config.prefix, 0));
    EXPECT_NE(79u, base.super.super.fc.wnd_size);
    ucs_config_parser_release_opts(&base, uct_rc_verbs_tl.config.table);
}

TEST_F(test_config, bad_bool_is_an_error)
{
    scoped_env prefer("UCX_WIMM_PREFER", "perhaps");

    expect_error("Invalid value for PREFER: 'perhaps'");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, read());
}

TEST_F(test_config, bad_time_is_an_error)
{
    scoped_env timeout("UCX_WIMM_QP_DRAIN_TIMEOUT", "soon");

    expect_error("Invalid value for QP_DRAIN_TIMEOUT: 'soon'");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, read());
}

TEST_F(test_config, values_print_and_set_by_name)
{
    ASSERT_OK(read());
    EXPECT_EQ("n", get("PREFER"));
    EXPECT_EQ("100000.00us", get("QP_DRAIN_TIMEOUT"));
    ASSERT_OK(ucs_config_parser_set_value(&m_config, uct_wimm_tl.config.table,
                                          "PREFER", "y"));
    EXPECT_EQ("y", get("PREFER"));
}

TEST_F(test_config, each_own_key_has_a_description)
{
    for (const ucs_config_field_t *field = uct_wimm_tl.config.table + 1;
         field->name != NULL; ++field) {
        ASSERT_TRUE(field->doc != NULL) << field->name;
        EXPECT_GT(strlen(field->doc), 40u) << field->name;
    }
}
