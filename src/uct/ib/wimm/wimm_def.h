/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_DEF_H_
#define UCT_WIMM_DEF_H_

#include <ucs/sys/compiler_def.h>
#include <stdint.h>

/* What peers see of each other: addresses and (later) control messages */

/* Version of the wire protocol, 4 bits. Peers of different versions do not
 * reach each other. */
#define UCT_WIMM_PROTO_VERSION 1

#define UCT_WIMM_PROTO_VERSION_MASK 0xf
#define UCT_WIMM_PROTO_CHECK_SHIFT  4


/* Interface address. rc_verbs has none, and the private data of rdmacm has 56
 * bytes for all addresses: one byte, with the version in the low half and its
 * complement in the high half as a check. */
typedef struct uct_wimm_iface_addr {
    uint8_t version;
} UCS_S_PACKED uct_wimm_iface_addr_t;


static inline void uct_wimm_iface_addr_pack(uct_wimm_iface_addr_t *addr,
                                            unsigned version)
{
    addr->version = version | ((~version & UCT_WIMM_PROTO_VERSION_MASK)
                               << UCT_WIMM_PROTO_CHECK_SHIFT);
}


/* @return The version, or -1 if this is not an address of ours */
static inline int uct_wimm_iface_addr_unpack(const uct_wimm_iface_addr_t *addr)
{
    unsigned version = addr->version & UCT_WIMM_PROTO_VERSION_MASK;
    unsigned check   = addr->version >> UCT_WIMM_PROTO_CHECK_SHIFT;

    return ((version ^ check) == UCT_WIMM_PROTO_VERSION_MASK) ? (int)version :
                                                                -1;
}

#endif
