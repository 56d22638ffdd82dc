/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_TL_TEST_H_
#define WIMM_TL_TEST_H_

#include "../common/test_base.h"

extern "C" {
#include <uct/ib/wimm/wimm_abi.h>
#include <uct/ib/wimm/wimm_tl.h>
#include <uct/ib/base/ib_md.h>
#include <ucs/config/parser.h>
}

#include <algorithm>
#include <string>
#include <vector>


/* Fixture that leaves the transport unregistered, as it found it */
class tl_test : public test_base {
  protected:
    tl_test()
    {
        uct_wimm_abi_get(&m_abi);
    }

    void TearDown() override
    {
        uct_wimm_tl_cleanup();
        test_base::TearDown();
    }

    /* Names of the transports of the ib component, in order */
    static std::vector<std::string> component_tls()
    {
        std::vector<std::string> result;
        uct_tl_t *tl;

        ucs_list_for_each(tl, &uct_ib_component.tl_list, list) {
            result.push_back(tl->name);
        }
        return result;
    }

    /* Prefixes of all configuration tables, in order */
    static std::vector<std::string> config_entries()
    {
        std::vector<std::string> result;
        ucs_config_global_list_entry_t *entry;

        ucs_list_for_each(entry, &ucs_config_global_list, list) {
            result.push_back((entry->prefix == NULL) ? "" : entry->prefix);
        }
        return result;
    }

    static int count(const std::vector<std::string> &list,
                     const std::string &name)
    {
        return std::count(list.begin(), list.end(), name);
    }

    uct_wimm_abi_t m_abi;
};

#endif
