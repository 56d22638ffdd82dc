/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "wimm_tl.h"
#include "wimm_abi.h"
#include "wimm_iface.h"

#include <uct/ib/base/ib_device.h>
#include <ucs/debug/log.h>
#include <string.h>


ucs_config_field_t uct_wimm_iface_config_table[] = {
    /* rc_verbs' table is static: uct_wimm_tl_register() takes it from rc_verbs'
     * transport entry. It comes with the prefixes RC_ and IB_ as other names of
     * its keys. */
    { "", "", NULL, ucs_offsetof(uct_wimm_iface_config_t, super),
      UCS_CONFIG_TYPE_TABLE(NULL) },

    { "PREFER", "n",
      "Prefer wimm to other transports of the same device that score the\n"
      "same, rc_verbs above all. Without it, wimm is used only where UCX_TLS\n"
      "leaves no other choice.",
      ucs_offsetof(uct_wimm_iface_config_t, prefer), UCS_CONFIG_TYPE_BOOL },

    { "QP_DRAIN_TIMEOUT", "100ms",
      "Time that the queue pair of a destroyed endpoint is kept while the\n"
      "device does not report that it takes no more receives. Some devices\n"
      "never report that. It goes when nothing of it is left in the completion\n"
      "queues, at the latest after ten times this time.",
      ucs_offsetof(uct_wimm_iface_config_t, qp_drain_timeout),
      UCS_CONFIG_TYPE_TIME },

    { "NUM_SLOTS", "512",
      "Notified puts of one peer that may have arrived here and not be\n"
      "consumed. A peer that has used all of them waits, with its notified\n"
      "puts only. From 1 to 8191.",
      ucs_offsetof(uct_wimm_iface_config_t, num_slots), UCS_CONFIG_TYPE_UINT },

    { "RX_EVENT_MOD_COUNT", "0",
      "Number of receive completions to combine in one event, for receivers\n"
      "that sleep on the event descriptor (0 - each one raises an event). Has\n"
      "no effect on devices that cannot do it.",
      ucs_offsetof(uct_wimm_iface_config_t, rx_event_mod_count),
      UCS_CONFIG_TYPE_UINT },

    { "RX_EVENT_MOD_PERIOD", "0us",
      "Longest time that the device holds back an event for receive\n"
      "completions, to combine it with later ones.",
      ucs_offsetof(uct_wimm_iface_config_t, rx_event_mod_period),
      UCS_CONFIG_TYPE_TIME },

    { "STATS", "n",
      "Print the counters of notified puts when an endpoint or an interface\n"
      "is closed.",
      ucs_offsetof(uct_wimm_iface_config_t, stats), UCS_CONFIG_TYPE_BOOL },

    { .name = NULL }
};


static ucs_status_t uct_wimm_query_tl_devices(
        uct_md_h md, uct_tl_device_resource_t **tl_devices_p,
        unsigned *num_tl_devices_p)
{
    uct_ib_device_t *dev = &ucs_derived_of(md, uct_ib_md_t)->dev;

    if (dev->ibv_context->device->transport_type == IBV_TRANSPORT_IWARP) {
        ucs_diag("%s is an iWARP device, which has no immediate data",
                 uct_ib_device_name(dev));
        return UCS_ERR_UNSUPPORTED;
    }

    if (IBV_DEV_ATTR(dev, max_srq) <= 0) {
        ucs_diag("%s has no shared receive queue, which wimm needs",
                 uct_ib_device_name(dev));
        return UCS_ERR_UNSUPPORTED;
    }

    return uct_rc_verbs_tl.query_devices(md, tl_devices_p, num_tl_devices_p);
}


uct_tl_t uct_wimm_tl = {
    .name          = "wimm",
    .query_devices = uct_wimm_query_tl_devices,
    .iface_open    = UCS_CLASS_NEW_FUNC_NAME(uct_wimm_iface_t),
    .config        = { .name   = "wimm transport",
                       .prefix = "WIMM_",
                       .table  = uct_wimm_iface_config_table,
                       .size   = sizeof(uct_wimm_iface_config_t) }
};


static int uct_wimm_tl_registered = 0;


static int uct_wimm_tl_is_known(void)
{
    uct_tl_t *tl;

    ucs_list_for_each(tl, &uct_ib_component.tl_list, list) {
        if (!strcmp(tl->name, uct_wimm_tl.name)) {
            return 1;
        }
    }

    return 0;
}

ucs_status_t uct_wimm_tl_register(const uct_wimm_abi_t *abi)
{
    char msg[512];
    ucs_status_t status;

    status = uct_wimm_abi_check(abi, msg, sizeof(msg));
    if (status != UCS_OK) {
        ucs_warn("transport wimm is not available: %s", msg);
        return status;
    }

    /* The module may be there twice, from two places */
    if (uct_wimm_tl_is_known()) {
        ucs_warn("transport wimm is registered already: another wimm %s module"
                 " is not used",
                 PACKAGE_VERSION);
        return UCS_ERR_ALREADY_EXISTS;
    }

    uct_wimm_iface_config_table[0].parser.arg = uct_rc_verbs_tl.config.table;
    uct_tl_register(&uct_ib_component, &uct_wimm_tl);
    uct_wimm_tl_registered = 1;
    ucs_info("transport wimm %s is registered (UCX %s)", PACKAGE_VERSION,
             abi->loaded_version);
    return UCS_OK;
}

void uct_wimm_tl_cleanup(void)
{
    if (uct_wimm_tl_registered) {
        uct_wimm_tl_unregister(&uct_wimm_tl);
        uct_wimm_tl_registered = 0;
    }
}
