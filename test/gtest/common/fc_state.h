/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_FC_STATE_H_
#define WIMM_FC_STATE_H_

#include "entity.h"

extern "C" {
#include <uct/ib/wimm/wimm_def.h>
}


/* wimm's books of receive credits, which its API does not show */
namespace fc_state {

struct iface_state {
    int shared_used;
    int pool;
    int target;
    unsigned num_eps;

    bool operator==(const iface_state &other) const
    {
        return (shared_used == other.shared_used) && (pool == other.pool) &&
               (target == other.target) && (num_eps == other.num_eps);
    }
};

std::ostream &operator<<(std::ostream &os, const iface_state &state);

iface_state iface(const entity &e);

/* What the peer of an endpoint may still send, as the receiver counts it */
int rx_credits(const entity &e, unsigned index = 0);

/* Slots that are held, wait, or are to be returned */
unsigned rx_slots(const entity &e, unsigned index = 0);

/* Control messages that wait to be sent, as a mask of operations */
unsigned ctrl_waiting(const entity &e, unsigned index = 0);

/* Notifications that wait for a handler: elements allocated, and the most there may be
 * with the endpoints that there are, in whole chunks */
unsigned imm_allocated(const entity &e);
unsigned imm_limit(const entity &e);

/* As if credits had been asked back from the peer, and it had not answered */
void set_reclaiming(const entity &e, unsigned index = 0);

} // namespace fc_state

#endif
