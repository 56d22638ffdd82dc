/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "../common/test_base.h"

extern "C" {
#include <uct/api/uct.h>
#include <uct/ib/wimm/wimm.h>
#include <ucs/async/async.h>
}

#include <cstring>


/* Calls of the API with an interface or an endpoint of another transport */
class test_misuse : public test_base {
  protected:
    void SetUp() override
    {
        test_base::SetUp();
        ASSERT_OK(ucs_async_context_create(UCS_ASYNC_MODE_THREAD_SPINLOCK,
                                           &m_async));
        ASSERT_OK(
                uct_worker_create(m_async, UCS_THREAD_MODE_SINGLE, &m_worker));
        open_self();
    }

    void TearDown() override
    {
        if (m_ep != NULL) {
            uct_ep_destroy(m_ep);
        }
        if (m_iface != NULL) {
            uct_iface_close(m_iface);
        }
        if (m_md != NULL) {
            uct_md_close(m_md);
        }
        uct_worker_destroy(m_worker);
        ucs_async_context_destroy(m_async);
        test_base::TearDown();
    }

    uct_iface_h m_iface = NULL;
    uct_ep_h m_ep       = NULL;

  private:
    /* The transport "self" is there on every machine */
    void open_self()
    {
        uct_component_h *components;
        unsigned num_components;

        ASSERT_OK(uct_query_components(&components, &num_components));
        for (unsigned i = 0; i < num_components; ++i) {
            uct_component_attr_t attr;

            attr.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME;
            if ((uct_component_query(components[i], &attr) == UCS_OK) &&
                !strcmp(attr.name, "self")) {
                open_iface(components[i]);
            }
        }
        uct_release_component_list(components);
        ASSERT_TRUE(m_ep != NULL);
    }

    void open_iface(uct_component_h component)
    {
        uct_iface_config_t *config;
        uct_md_config_t *md_config;
        uct_iface_params_t params;
        uct_ep_params_t ep_params;
        uct_iface_attr_t attr;

        ASSERT_OK(uct_md_config_read(component, NULL, NULL, &md_config));
        ASSERT_OK(uct_md_open(component, "memory", md_config, &m_md));
        uct_config_release(md_config);

        memset(&params, 0, sizeof(params));
        params.field_mask = UCT_IFACE_PARAM_FIELD_OPEN_MODE |
                            UCT_IFACE_PARAM_FIELD_DEVICE;
        params.open_mode            = UCT_IFACE_OPEN_MODE_DEVICE;
        params.mode.device.tl_name  = "self";
        params.mode.device.dev_name = "memory";
        ASSERT_OK(uct_md_iface_config_read(m_md, "self", NULL, NULL, &config));
        ASSERT_OK(uct_iface_open(m_md, m_worker, &params, config, &m_iface));
        uct_config_release(config);
        ASSERT_OK(uct_iface_query(m_iface, &attr));

        std::vector<uint8_t> dev_addr(attr.device_addr_len + 1);
        std::vector<uint8_t> iface_addr(attr.iface_addr_len + 1);
        auto *dev = reinterpret_cast<uct_device_addr_t *>(dev_addr.data());
        auto *adr = reinterpret_cast<uct_iface_addr_t *>(iface_addr.data());

        ASSERT_OK(uct_iface_get_device_address(m_iface, dev));
        ASSERT_OK(uct_iface_get_address(m_iface, adr));
        ep_params.field_mask = UCT_EP_PARAM_FIELD_IFACE |
                               UCT_EP_PARAM_FIELD_DEV_ADDR |
                               UCT_EP_PARAM_FIELD_IFACE_ADDR;
        ep_params.iface      = m_iface;
        ep_params.dev_addr   = dev;
        ep_params.iface_addr = adr;
        ASSERT_OK(uct_ep_create(&ep_params, &m_ep));
    }

    ucs_async_context_t *m_async = NULL;
    uct_worker_h m_worker        = NULL;
    uct_md_h m_md                = NULL;
};


static ucs_status_t unused_handler(void *, uct_ep_h, uint32_t, size_t)
{
    ADD_FAILURE() << "handler called";
    return UCS_OK;
}


TEST_F(test_misuse, set_handler_on_another_transport)
{
    expect_error("is not of the transport wimm");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_wimm_iface_set_imm_handler(m_iface, unused_handler,
                                                 NULL));
}

TEST_F(test_misuse, remove_handler_on_another_transport)
{
    expect_error("is not of the transport wimm");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_wimm_iface_set_imm_handler(m_iface, NULL, NULL));
}

TEST_F(test_misuse, put_on_another_transport)
{
    uint64_t data = 1, target = 2;

    expect_error("is not of the transport wimm");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  uct_wimm_ep_put_imm_short(m_ep, &data, sizeof(data),
                                            reinterpret_cast<uintptr_t>(&target),
                                            0, 3));
    EXPECT_EQ(2u, target);
}
