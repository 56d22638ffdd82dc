/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "../common/test_base.h"

extern "C" {
#include <uct/ib/wimm/wimm_abi.h>
#include <uct/ib/wimm/wimm_compat.h>
}

#include <cstring>
#include <map>


/* The load-time guard */
class test_abi : public test_base {
  protected:
    test_abi()
    {
        uct_wimm_abi_get(&m_real);
    }

    /* @return The message, or an empty string if it fits */
    static std::string check(const uct_wimm_abi_t &abi)
    {
        char msg[256]       = "";
        ucs_status_t status = uct_wimm_abi_check(&abi, msg, sizeof(msg));

        if (status == UCS_OK) {
            return "";
        }
        EXPECT_STATUS(UCS_ERR_UNSUPPORTED, status);
        EXPECT_GT(strlen(msg), 0u);
        return msg;
    }

    static std::string check_versions(const char *built, const char *loaded)
    {
        const uct_wimm_abi_t abi = { built, loaded, NULL, 0, NULL, NULL };

        return check(abi);
    }

    static bool has(const std::string &text, const std::string &part)
    {
        return text.find(part) != std::string::npos;
    }

    uct_wimm_abi_t m_real;
};


TEST_F(test_abi, module_fits_the_installed_ucx)
{
    EXPECT_EQ("", check(m_real));
    EXPECT_STREQ(WIMM_UCX_VERSION, m_real.built_version);
}

TEST_F(test_abi, table_has_the_classes_that_the_module_derives_from)
{
    const std::map<std::string, size_t> sizes = {
        { "uct_base_iface_t", sizeof(uct_base_iface_t) },
        { "uct_ib_iface_t", sizeof(uct_ib_iface_t) },
        { "uct_rc_iface_t", sizeof(uct_rc_iface_t) },
        { "uct_rc_ep_t", sizeof(uct_rc_ep_t) },
        { "uct_rc_verbs_iface_t", sizeof(uct_rc_verbs_iface_t) },
        { "uct_rc_verbs_ep_t", sizeof(uct_rc_verbs_ep_t) },
        { "uct_rc_verbs_iface_config_t", sizeof(uct_rc_verbs_iface_config_t) }
    };

    std::map<std::string, size_t> found;
    for (unsigned i = 0; i < m_real.num_classes; ++i) {
        found[m_real.classes[i].loaded->name] = m_real.classes[i].built_size;
        EXPECT_EQ(m_real.classes[i].built_size, m_real.classes[i].loaded->size);
    }
    for (const auto &size : sizes) {
        ASSERT_EQ(1u, found.count(size.first)) << size.first;
        EXPECT_EQ(size.second, found[size.first]) << size.first;
    }
    EXPECT_EQ(m_real.num_classes, found.size()); /* None twice */
}

TEST_F(test_abi, size_of_the_configuration_is_that_of_the_loaded_transport)
{
    /* Not our own header's: rc_verbs' entry says what is loaded */
    for (unsigned i = 0; i < m_real.num_classes; ++i) {
        if (!strcmp(m_real.classes[i].loaded->name,
                    "uct_rc_verbs_iface_config_t")) {
            EXPECT_EQ(uct_rc_verbs_tl.config.size,
                      m_real.classes[i].loaded->size);
            return;
        }
    }
    FAIL() << "not in the table";
}

TEST_F(test_abi, each_class_size_is_compared)
{
    for (unsigned i = 0; i < m_real.num_classes; ++i) {
        for (int diff : { -8, 1, 8 }) {
            std::vector<uct_wimm_abi_class_t> classes(
                    m_real.classes, m_real.classes + m_real.num_classes);
            uct_wimm_abi_t abi = m_real;

            classes[i].built_size += diff;
            abi.classes = classes.data();

            const std::string msg = check(abi);

            EXPECT_TRUE(has(msg, classes[i].loaded->name)) << msg;
            EXPECT_TRUE(has(msg, std::to_string(classes[i].built_size))) << msg;
            EXPECT_TRUE(has(msg, std::to_string(classes[i].loaded->size)))
                    << msg;
        }
    }
}

TEST_F(test_abi, message_names_both_versions)
{
    const std::string msg = check_versions("1.13.1", "1.14.0");

    EXPECT_TRUE(has(msg, "1.13.1")) << msg;
    EXPECT_TRUE(has(msg, "1.14.0")) << msg;
}

TEST_F(test_abi, version_that_begins_alike_is_another)
{
    EXPECT_NE("", check_versions("1.13.1", "1.13.10"));
    EXPECT_NE("", check_versions("1.13.10", "1.13.1"));
    EXPECT_NE("", check_versions("1.13.1", "1.1"));
    EXPECT_NE("", check_versions("1.13.1", "11.13.1"));
    EXPECT_NE("", check_versions("1.13.1", ""));
}

TEST_F(test_abi, version_with_suffix_is_the_same)
{
    EXPECT_EQ("", check_versions("1.13.1", "1.13.1"));
    EXPECT_EQ("", check_versions("1.13.1", "1.13.1-rc1"));
    EXPECT_EQ("", check_versions("1.13.1", "1.13.1+ds"));
}

TEST_F(test_abi, libraries_of_two_ucx_are_refused)
{
    uct_wimm_abi_t abi = m_real;

    abi.ucp_file          = "/opt/one/lib/libucp.so.0.0.0";
    abi.uct_file          = "/opt/other/lib/libuct.so.0.0.0";
    const std::string msg = check(abi);
    EXPECT_TRUE(has(msg, abi.ucp_file)) << msg;
    EXPECT_TRUE(has(msg, abi.uct_file)) << msg;

    /* One path is the beginning of the other */
    abi.uct_file = "/opt/one/lib/more/libuct.so.0.0.0";
    EXPECT_NE("", check(abi));
}

TEST_F(test_abi, libraries_of_one_folder_or_unknown_are_accepted)
{
    uct_wimm_abi_t abi = m_real;

    abi.ucp_file = "/opt/one/lib/libucp.so.0.0.0";
    abi.uct_file = "/opt/one/lib/libuct.so.0.0.0";
    EXPECT_EQ("", check(abi));
    abi.ucp_file = NULL;
    EXPECT_EQ("", check(abi));
    abi.uct_file = NULL;
    EXPECT_EQ("", check(abi));
}

TEST_F(test_abi, files_of_the_loaded_ucx_are_known)
{
    ASSERT_TRUE(m_real.ucp_file != NULL);
    ASSERT_TRUE(m_real.uct_file != NULL);
    EXPECT_TRUE(has(m_real.ucp_file, "/libucp.so")) << m_real.ucp_file;
    EXPECT_TRUE(has(m_real.uct_file, "/libuct.so")) << m_real.uct_file;
}

TEST_F(test_abi, message_is_cut_not_overrun)
{
    const uct_wimm_abi_t abi = { "1.13.1", "1.14.0", NULL, 0, NULL, NULL };
    char msg[32];

    memset(msg, 'x', sizeof(msg));
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, uct_wimm_abi_check(&abi, msg, 16));
    EXPECT_EQ(15u, strlen(msg));
    EXPECT_EQ('x', msg[16]);
}
