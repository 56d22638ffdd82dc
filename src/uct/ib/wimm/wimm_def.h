/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef UCT_WIMM_DEF_H_
#define UCT_WIMM_DEF_H_

#include <ucs/sys/compiler_def.h>
#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>

/* What peers see of each other: addresses and control messages */

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


/* Endpoint address, ahead of that of rc_verbs: 15 bits of initial receive credits
 * (0: flow control is off), 13 bits of notification slots, 4 bits to check */
#define UCT_WIMM_MAX_CREDITS INT16_MAX
#define UCT_WIMM_MAX_SLOTS   8191

#define UCT_WIMM_EP_ADDR_CREDITS_SHIFT 17
#define UCT_WIMM_EP_ADDR_SLOTS_SHIFT   4
#define UCT_WIMM_EP_ADDR_CHECK_MASK    0xfu
#define UCT_WIMM_EP_ADDR_CHECK_SEED    0x5u

typedef struct uct_wimm_ep_addr {
    uint8_t value[sizeof(uint32_t)];
} UCS_S_PACKED uct_wimm_ep_addr_t;


static inline unsigned uct_wimm_ep_addr_check(uint32_t value)
{
    unsigned check = UCT_WIMM_EP_ADDR_CHECK_SEED;

    for (value >>= UCT_WIMM_EP_ADDR_SLOTS_SHIFT; value != 0; value >>= 4) {
        check ^= value & UCT_WIMM_EP_ADDR_CHECK_MASK;
    }

    return check;
}


static inline void uct_wimm_ep_addr_pack(uct_wimm_ep_addr_t *addr,
                                         unsigned credits, unsigned num_slots)
{
    uint32_t value = ((uint32_t)credits << UCT_WIMM_EP_ADDR_CREDITS_SHIFT) |
                     ((uint32_t)num_slots << UCT_WIMM_EP_ADDR_SLOTS_SHIFT);

    value = htonl(value | uct_wimm_ep_addr_check(value));
    memcpy(addr->value, &value, sizeof(value));
}


/* @return Whether this is an address of ours */
static inline int uct_wimm_ep_addr_unpack(const uct_wimm_ep_addr_t *addr,
                                          unsigned *credits_p,
                                          unsigned *num_slots_p)
{
    uint32_t value;
    unsigned num_slots;

    memcpy(&value, addr->value, sizeof(value));
    value     = ntohl(value);
    num_slots = (value >> UCT_WIMM_EP_ADDR_SLOTS_SHIFT) & UCT_WIMM_MAX_SLOTS;
    if (((value & UCT_WIMM_EP_ADDR_CHECK_MASK) !=
         uct_wimm_ep_addr_check(value)) ||
        (num_slots == 0)) {
        return 0;
    }

    *credits_p   = value >> UCT_WIMM_EP_ADDR_CREDITS_SHIFT;
    *num_slots_p = num_slots;
    return 1;
}


/* Control message: a SEND with immediate, which has the operation in its upper 4
 * bits and an amount in the others. It is empty, but for UCT_WIMM_CTRL_LENGTH. */
#define UCT_WIMM_CTRL_OP_SHIFT    28
#define UCT_WIMM_CTRL_AMOUNT_MASK UCS_MASK(UCT_WIMM_CTRL_OP_SHIFT)

/* The two amounts of UCT_WIMM_CTRL_SLOTS */
#define UCT_WIMM_CTRL_SLOTS_MASK  UCT_WIMM_MAX_SLOTS
#define UCT_WIMM_CTRL_GRANT_SHIFT 13

typedef enum {
    /* So many more messages may be sent. Takes no receive credit. */
    UCT_WIMM_CTRL_GRANT = 1,

    /* Give back all credits but so many. Takes no receive credit. */
    UCT_WIMM_CTRL_RECLAIM = 2,

    /* The answer: so many credits, besides the one that it takes */
    UCT_WIMM_CTRL_RETURN = 3,

    /* So many notifications were consumed (lower 13 bits), and so many more messages
     * may be sent (upper 15, may be 0). Takes a receive credit. */
    UCT_WIMM_CTRL_SLOTS = 4,

    /* The next notification is of a put in several messages. The length of all is
     * in the data: 8 bytes, big-endian; the amount is 0. Takes a receive credit. */
    UCT_WIMM_CTRL_LENGTH = 5
} uct_wimm_ctrl_op_t;

#endif
