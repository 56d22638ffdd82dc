/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "tl_test.h"


/* Registration of the transport with UCX's ib component */
class test_tl : public tl_test {};


TEST_F(test_tl, registered_once_in_both_lists)
{
    const size_t tls     = component_tls().size();
    const size_t configs = config_entries().size();

    log_level(UCS_LOG_LEVEL_INFO);
    expect_log(UCS_LOG_LEVEL_INFO, "transport wimm " PACKAGE_VERSION
                                   " is registered (UCX " WIMM_UCX_VERSION);
    ASSERT_OK(uct_wimm_tl_register(&m_abi));

    EXPECT_EQ(1, count(component_tls(), "wimm"));
    EXPECT_EQ(tls + 1, component_tls().size());
    EXPECT_EQ(1, count(config_entries(), "WIMM_"));
    EXPECT_EQ(configs + 1, config_entries().size());
}

TEST_F(test_tl, cleanup_removes_it_from_both_lists)
{
    const std::vector<std::string> tls     = component_tls();
    const std::vector<std::string> configs = config_entries();

    ASSERT_OK(uct_wimm_tl_register(&m_abi));
    uct_wimm_tl_cleanup();
    EXPECT_EQ(tls, component_tls());
    EXPECT_EQ(configs, config_entries());
}

TEST_F(test_tl, cleanup_twice_is_harmless)
{
    const std::vector<std::string> tls = component_tls();

    ASSERT_OK(uct_wimm_tl_register(&m_abi));
    uct_wimm_tl_cleanup();
    uct_wimm_tl_cleanup();
    EXPECT_EQ(tls, component_tls());
}

TEST_F(test_tl, cleanup_without_registration_is_harmless)
{
    const std::vector<std::string> tls = component_tls();

    uct_wimm_tl_cleanup();
    EXPECT_EQ(tls, component_tls());
}

TEST_F(test_tl, registered_again_after_cleanup)
{
    for (int i = 0; i < 3; ++i) {
        ASSERT_OK(uct_wimm_tl_register(&m_abi));
        EXPECT_EQ(1, count(component_tls(), "wimm"));
        uct_wimm_tl_cleanup();
        EXPECT_EQ(0, count(component_tls(), "wimm"));
    }
}

TEST_F(test_tl, wrong_version_warns_once_and_changes_nothing)
{
    const std::vector<std::string> tls     = component_tls();
    const std::vector<std::string> configs = config_entries();

    m_abi.built_version = "1.12.0";
    expect_log(UCS_LOG_LEVEL_WARN, "1.12.0");
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, uct_wimm_tl_register(&m_abi));
    EXPECT_EQ(tls, component_tls());
    EXPECT_EQ(configs, config_entries());

    EXPECT_EQ(1u, logged(UCS_LOG_LEVEL_WARN, "transport wimm is not available")
                          .size());
    uct_wimm_tl_cleanup();
    EXPECT_EQ(tls, component_tls());
}

TEST_F(test_tl, wrong_class_size_warns_once_and_changes_nothing)
{
    const std::vector<std::string> tls = component_tls();
    std::vector<uct_wimm_abi_class_t> classes(m_abi.classes,
                                              m_abi.classes +
                                                      m_abi.num_classes);

    classes[2].built_size += 16;
    m_abi.classes = classes.data();
    expect_log(UCS_LOG_LEVEL_WARN, std::to_string(classes[2].built_size));
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, uct_wimm_tl_register(&m_abi));
    EXPECT_EQ(tls, component_tls());
}

TEST_F(test_tl, name_and_prefix_have_no_others)
{
    /* A second transport of one name, or two tables of one prefix, would each
     * hide the other */
    EXPECT_EQ(0, count(component_tls(), "wimm"));
    EXPECT_EQ(0, count(config_entries(), "WIMM_"));
}
