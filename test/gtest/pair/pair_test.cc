/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "pair_test.h"

#include <stdexcept>


void pair_test::open_devices(const config_list &config)
{
    entity::open_params params;
    std::string reason;

    open(config, params);
    params.device = resource::find_peer(&reason);
    if (params.device == nullptr) {
        throw std::runtime_error(reason);
    }
    open(config, params);
    ASSERT_NE(ip_address(sender()), ip_address(receiver()));
}

uint32_t pair_test::ip_address(const entity &e)
{
    const union ibv_gid &gid = rc_state::iface(e)->super.gid_info.gid;
    uint32_t address;

    /* A RoCE v2 GID of an IPv4 address is that address mapped to IPv6 */
    EXPECT_EQ(htonl(0xffff), reinterpret_cast<const uint32_t *>(gid.raw)[2]);
    memcpy(&address, &gid.raw[12], sizeof(address));
    return ntohl(address);
}
