/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "tl_test.h"

extern "C" {
#include <uct/ib/base/ib_verbs.h>
}

#include <cstring>


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

TEST_F(test_tl, registered_twice_warns_and_changes_nothing)
{
    ASSERT_OK(uct_wimm_tl_register(&m_abi));
    const std::vector<std::string> tls     = component_tls();
    const std::vector<std::string> configs = config_entries();

    /* As from a second module of another folder */
    expect_log(UCS_LOG_LEVEL_WARN, "registered already");
    EXPECT_STATUS(UCS_ERR_ALREADY_EXISTS, uct_wimm_tl_register(&m_abi));
    EXPECT_EQ(tls, component_tls());
    EXPECT_EQ(configs, config_entries());

    uct_wimm_tl_cleanup();
    EXPECT_EQ(0, count(component_tls(), "wimm"));
    EXPECT_EQ(0, count(config_entries(), "WIMM_"));
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


/* Devices that wimm cannot use, which need not be there for it */
class test_devices : public tl_test {
  protected:
    test_devices()
    {
        memset(&m_device, 0, sizeof(m_device));
        memset(&m_context, 0, sizeof(m_context));
        memset(&m_md, 0, sizeof(m_md));
        strcpy(m_device.name, "fake0");
        m_device.node_type               = IBV_NODE_CA;
        m_device.transport_type          = IBV_TRANSPORT_IB;
        m_context.device                 = &m_device;
        m_md.dev.ibv_context             = &m_context;
        IBV_DEV_ATTR(&m_md.dev, max_srq) = 1;
    }

    void expect_refused(const std::string &reason)
    {
        uct_tl_device_resource_t *devices = NULL;
        unsigned num_devices              = 0;

        log_level(UCS_LOG_LEVEL_DIAG);
        expect_log(UCS_LOG_LEVEL_DIAG, reason);
        EXPECT_STATUS(UCS_ERR_UNSUPPORTED,
                      uct_wimm_tl.query_devices(&m_md.super, &devices,
                                                &num_devices));
        EXPECT_EQ(NULL, devices);
        EXPECT_EQ(0u, num_devices);

        const std::vector<std::string> lines = logged(UCS_LOG_LEVEL_DIAG);

        ASSERT_EQ(1u, lines.size());
        EXPECT_NE(std::string::npos, lines[0].find("fake0")) << lines[0];
    }

    struct ibv_device m_device;
    struct ibv_context m_context;
    uct_ib_md_t m_md;
};


TEST_F(test_devices, iwarp_is_refused)
{
    m_device.transport_type = IBV_TRANSPORT_IWARP;
    expect_refused("is an iWARP device");
}

TEST_F(test_devices, without_shared_receive_queue_is_refused)
{
    IBV_DEV_ATTR(&m_md.dev, max_srq) = 0;
    expect_refused("has no shared receive queue");
}
