/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#include "fc_state.h"

extern "C" {
#include <uct/ib/wimm/wimm_ep.h>
}


static uct_wimm_iface_t *wimm_iface(const entity &e)
{
    return reinterpret_cast<uct_wimm_iface_t *>(e.iface());
}

static uct_wimm_ep_t *wimm_ep(const entity &e, unsigned index)
{
    return reinterpret_cast<uct_wimm_ep_t *>(e.ep(index));
}

std::ostream &fc_state::operator<<(std::ostream &os, const iface_state &state)
{
    return os << state.num_eps << " endpoints, target " << state.target << ", "
              << state.shared_used << " of " << state.pool
              << " shared receives used";
}

fc_state::iface_state fc_state::iface(const entity &e)
{
    const auto &fc = wimm_iface(e)->fc;

    return { fc.shared_used, fc.pool, fc.target, fc.num_eps };
}

int fc_state::rx_credits(const entity &e, unsigned index)
{
    return wimm_ep(e, index)->rx_credits;
}

unsigned fc_state::rx_slots(const entity &e, unsigned index)
{
    return wimm_ep(e, index)->rx_slots;
}

unsigned fc_state::ctrl_waiting(const entity &e, unsigned index)
{
    return wimm_ep(e, index)->ctrl;
}

unsigned fc_state::imm_allocated(const entity &e)
{
    unsigned count = 0;

    for (const ucs_mpool_chunk_t *chunk = wimm_iface(e)->imm.mp.data->chunks;
         chunk != nullptr; chunk        = chunk->next) {
        count += chunk->num_elems;
    }
    return count;
}

unsigned fc_state::imm_limit(const entity &e)
{
    const uct_wimm_iface_t *iface = wimm_iface(e);

    return (iface->config.num_slots * iface->fc.num_eps) +
           iface->imm.mp.data->elems_per_chunk;
}

void fc_state::set_reclaiming(const entity &e, unsigned index)
{
    wimm_ep(e, index)->flags |= UCT_WIMM_EP_FLAG_RECLAIMING;
}
