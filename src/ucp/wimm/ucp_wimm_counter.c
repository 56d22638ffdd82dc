/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifdef HAVE_CONFIG_H
#  include "config.h"
#endif

#include "ucp_wimm_int.h"

#include <ucs/datastruct/khash.h>
#include <ucs/debug/memtrack_int.h>
#include <ucs/sys/math.h>
#include <ucs/time/time.h>
#include <math.h>


/* Statuses of failures that a counter has not told yet. The number of failures is not
 * bounded, and there may be no memory when one comes: what is beyond these is told with
 * the status of the last. */
#define UCP_WIMM_COUNTER_MAX_STATUSES 8


/* Counters with one mask */
typedef struct ucp_wimm_counter_group ucp_wimm_counter_group_t;


struct ucp_wimm_counter {
    ucp_wimm_h wimm; /* NULL if that is detached */
    ucp_wimm_counter_group_t *group;
    ucs_list_link_t list;       /* Of all */
    ucs_list_link_t match_list; /* Of those with the same value */

    uint64_t count;
    uint64_t expected;
    uint32_t value;
    uint32_t add_mask; /* Adds (imm >> add_shift) & add_mask, or 1 if it is 0 */
    uint8_t add_shift;
    uint8_t flags;
    uint8_t is_bound; /* To an endpoint */
    uint8_t overflow;
    uint8_t is_ready; /* Something was not looked at */
    ucp_wimm_ep_t *ep;

    unsigned num_failures;
    ucs_status_t statuses[UCP_WIMM_COUNTER_MAX_STATUSES];
};


KHASH_MAP_INIT_INT(ucp_wimm_counters, ucs_list_link_t *)

struct ucp_wimm_counter_group {
    ucs_list_link_t list;
    uint32_t mask;
    khash_t(ucp_wimm_counters) values; /* To the lists of counters */
};


void ucp_wimm_counters_init(ucp_wimm_h wimm)
{
    ucs_list_head_init(&wimm->counter.all);
    ucs_list_head_init(&wimm->counter.groups);
    wimm->counter.num_ready = 0;
}

static void ucp_wimm_counter_set_ready(ucp_wimm_counter_h counter, int is_ready)
{
    if (counter->wimm != NULL) {
        counter->wimm->counter.num_ready += is_ready - counter->is_ready;
    }

    counter->is_ready = is_ready;
}

static int ucp_wimm_counter_is_there(ucp_wimm_counter_h counter)
{
    return (counter->count >= counter->expected) || counter->overflow;
}

static void ucp_wimm_counter_add(ucp_wimm_counter_h counter, uint64_t amount)
{
    uint64_t count = counter->count + amount;

    if (ucs_unlikely(count < counter->count)) {
        count             = UINT64_MAX;
        counter->overflow = 1;
    }

    counter->count = count;
    if (ucp_wimm_counter_is_there(counter)) {
        ucp_wimm_counter_set_ready(counter, 1);
    }
}

int ucp_wimm_counters_notify(ucp_wimm_h wimm, const ucp_wimm_ep_t *ep,
                             uint32_t imm)
{
    int consumed = 0;
    ucp_wimm_counter_group_t *group;
    ucp_wimm_counter_h counter;
    khiter_t iter;

    ucs_list_for_each(group, &wimm->counter.groups, list) {
        iter = kh_get(ucp_wimm_counters, &group->values, imm & group->mask);
        if (iter == kh_end(&group->values)) {
            continue;
        }

        ucs_list_for_each(counter, kh_val(&group->values, iter), match_list) {
            if (counter->is_bound && (counter->ep != ep)) {
                continue;
            }

            ucp_wimm_counter_add(counter, (counter->add_mask == 0) ?
                                                  1 :
                                                  ((imm >> counter->add_shift) &
                                                   counter->add_mask));
            consumed |= !(counter->flags & UCP_WIMM_COUNTER_FLAG_PASS);
        }
    }

    return consumed;
}

static void ucp_wimm_counter_fail(ucp_wimm_counter_h counter,
                                  ucs_status_t status)
{
    unsigned index = ucs_min(counter->num_failures,
                             UCP_WIMM_COUNTER_MAX_STATUSES - 1);

    counter->statuses[index] = status;
    ++counter->num_failures;
    ucp_wimm_counter_set_ready(counter, 1);
}

void ucp_wimm_counters_fail(ucp_wimm_h wimm, const ucp_wimm_ep_t *ep)
{
    ucp_wimm_counter_h counter;

    ucs_list_for_each(counter, &wimm->counter.all, list) {
        if (!counter->is_bound || (counter->ep == ep)) {
            ucp_wimm_counter_fail(counter, ep->status);
        }
    }
}

/* Nothing can come for it */
static int ucp_wimm_counter_is_closed(ucp_wimm_counter_h counter)
{
    return counter->is_bound && (ucp_wimm_ep_handle(counter->ep) == NULL);
}

/* The next failure that was not told yet */
static ucs_status_t ucp_wimm_counter_pull_failure(ucp_wimm_counter_h counter)
{
    ucs_status_t status = counter->statuses[0];
    unsigned i;

    /* The last place stands for all that are beyond it */
    --counter->num_failures;
    for (i = 1;
         (i < UCP_WIMM_COUNTER_MAX_STATUSES) && (i <= counter->num_failures);
         ++i) {
        counter->statuses[i - 1] = counter->statuses[i];
    }

    return status;
}

/* What ucp_wimm_counter_test() returns. The worker is locked. */
static ucs_status_t ucp_wimm_counter_look(ucp_wimm_counter_h counter)
{
    ucs_status_t status;

    if (counter->num_failures > 0) {
        /* Whether the count is reached is not told by this */
        status = ucp_wimm_counter_pull_failure(counter);
        ucp_wimm_counter_set_ready(counter,
                                   (counter->num_failures > 0) ||
                                           ucp_wimm_counter_is_there(counter));
        return status;
    }

    if (counter->overflow) {
        status = UCS_ERR_EXCEEDS_LIMIT;
    } else if (ucp_wimm_counter_is_there(counter)) {
        status = UCS_OK;
    } else if (ucp_wimm_counter_is_closed(counter)) {
        status = UCS_ERR_NOT_CONNECTED;
    } else {
        status = UCS_INPROGRESS;
    }

    ucp_wimm_counter_set_ready(counter, 0);
    return status;
}

static ucp_wimm_counter_group_t *ucp_wimm_counter_get_group(ucp_wimm_h wimm,
                                                            uint32_t mask)
{
    ucp_wimm_counter_group_t *group;

    ucs_list_for_each(group, &wimm->counter.groups, list) {
        if (group->mask == mask) {
            return group;
        }
    }

    group = ucs_malloc(sizeof(*group), "ucp_wimm_counter_group");
    if (group == NULL) {
        return NULL;
    }

    group->mask = mask;
    kh_init_inplace(ucp_wimm_counters, &group->values);
    ucs_list_add_tail(&wimm->counter.groups, &group->list);
    return group;
}

static void ucp_wimm_counter_put_group(ucp_wimm_counter_group_t *group)
{
    if (kh_size(&group->values) == 0) {
        ucs_list_del(&group->list);
        kh_destroy_inplace(ucp_wimm_counters, &group->values);
        ucs_free(group);
    }
}

static ucs_status_t ucp_wimm_counter_link(ucp_wimm_h wimm,
                                          ucp_wimm_counter_h counter,
                                          uint32_t mask)
{
    ucp_wimm_counter_group_t *group;
    ucs_list_link_t *head;
    khiter_t iter;
    int ret;

    group = ucp_wimm_counter_get_group(wimm, mask);
    if (group == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    iter = kh_get(ucp_wimm_counters, &group->values, counter->value);
    if (iter == kh_end(&group->values)) {
        head = ucs_malloc(sizeof(*head), "ucp_wimm_counter_list");
        if (head == NULL) {
            goto err;
        }

        iter = kh_put(ucp_wimm_counters, &group->values, counter->value, &ret);
        if (ret == UCS_KH_PUT_FAILED) {
            ucs_free(head);
            goto err;
        }

        ucs_list_head_init(head);
        kh_val(&group->values, iter) = head;
    }

    counter->wimm  = wimm;
    counter->group = group;
    ucs_list_add_tail(kh_val(&group->values, iter), &counter->match_list);
    ucs_list_add_tail(&wimm->counter.all, &counter->list);
    return UCS_OK;

err:
    ucp_wimm_counter_put_group(group);
    return UCS_ERR_NO_MEMORY;
}

static void ucp_wimm_counter_unlink(ucp_wimm_counter_h counter)
{
    ucp_wimm_counter_group_t *group = counter->group;
    ucs_list_link_t *head;
    khiter_t iter;

    ucp_wimm_counter_set_ready(counter, 0);
    ucs_list_del(&counter->list);
    ucs_list_del(&counter->match_list);
    iter = kh_get(ucp_wimm_counters, &group->values, counter->value);
    head = kh_val(&group->values, iter);
    if (ucs_list_is_empty(head)) {
        ucs_free(head);
        kh_del(ucp_wimm_counters, &group->values, iter);
        ucp_wimm_counter_put_group(group);
    }

    if (counter->ep != NULL) {
        ucp_wimm_ep_put(counter->ep);
        counter->ep = NULL;
    }

    counter->wimm = NULL;
}

static ucs_status_t ucp_wimm_counter_bind(ucp_wimm_counter_h counter,
                                          ucp_ep_h ucp_ep)
{
    counter->ep = ucp_wimm_ep_get(counter->wimm, ucp_ep);
    if (counter->ep == NULL) {
        return UCS_ERR_NO_MEMORY;
    }

    if (counter->ep->is_reported) {
        /* It has failed, and the counter was not there to be told */
        ucp_wimm_counter_fail(counter, counter->ep->status);
    }

    return UCS_OK;
}

void ucp_wimm_counters_cleanup(ucp_wimm_h wimm)
{
    ucp_wimm_counter_h counter, tmp;

    ucs_list_for_each_safe(counter, tmp, &wimm->counter.all, list) {
        ucp_wimm_counter_unlink(counter);
    }
}

static ucs_status_t ucp_wimm_counter_init(
        ucp_wimm_counter_h counter, ucp_wimm_h wimm,
        const ucp_wimm_counter_params_t *params, uint32_t *mask_p)
{
    uint64_t field_mask = (params == NULL) ? 0 : params->field_mask;

    counter->count        = 0;
    counter->expected     = 1;
    counter->value        = 0;
    counter->add_mask     = 0;
    counter->add_shift    = 0;
    counter->flags        = 0;
    counter->is_bound     = 0;
    counter->overflow     = 0;
    counter->is_ready     = 0;
    counter->ep           = NULL;
    counter->num_failures = 0;
    *mask_p               = 0;

    if (field_mask & UCP_WIMM_COUNTER_PARAM_FIELD_MATCH) {
        UCP_WIMM_CHECK_PARAM(
                !(params->match.value & ~params->match.mask),
                UCS_ERR_INVALID_PARAM,
                "the value 0x%x of a counter has bits outside of its"
                " mask 0x%x: nothing could match",
                params->match.value, params->match.mask);
        counter->value = params->match.value;
        *mask_p        = params->match.mask;
    }

    if (field_mask & UCP_WIMM_COUNTER_PARAM_FIELD_ADD) {
        UCP_WIMM_CHECK_PARAM((params->add.bits >= 1) &&
                                     (params->add.bits <= 32) &&
                                     (params->add.shift <=
                                      (32 - params->add.bits)),
                             UCS_ERR_INVALID_PARAM,
                             "an immediate has no %u bits from bit %u on",
                             params->add.bits, params->add.shift);
        counter->add_mask  = UCS_MASK(params->add.bits);
        counter->add_shift = params->add.shift;
    }

    if (field_mask & UCP_WIMM_COUNTER_PARAM_FIELD_EXPECTED) {
        counter->expected = params->expected;
    }

    if (field_mask & UCP_WIMM_COUNTER_PARAM_FIELD_EP) {
        UCP_WIMM_CHECK_PARAM((params->ep != NULL) &&
                                     ucp_wimm_native_ep_is_of(wimm->worker,
                                                              params->ep),
                             UCS_ERR_INVALID_PARAM,
                             "the endpoint %p of a counter is not one of the"
                             " worker",
                             params->ep);
        counter->is_bound = 1;
    }

    if (field_mask & UCP_WIMM_COUNTER_PARAM_FIELD_FLAGS) {
        UCP_WIMM_CHECK_PARAM(!(params->flags &
                               ~(uint32_t)UCP_WIMM_COUNTER_FLAG_PASS),
                             UCS_ERR_INVALID_PARAM,
                             "a counter has no flags 0x%x", params->flags);
        counter->flags = params->flags;
    }

    if (field_mask & UCP_WIMM_COUNTER_PARAM_FIELD_INITIAL) {
        counter->count = params->initial;
    }

    return UCS_OK;
}

ucs_status_t ucp_wimm_counter_create(ucp_wimm_h wimm,
                                     const ucp_wimm_counter_params_t *params,
                                     ucp_wimm_counter_h *counter_p)
{
    ucp_wimm_counter_h counter;
    ucs_status_t status;
    uint32_t mask;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);
    UCP_WIMM_CHECK_PARAM(counter_p != NULL, UCS_ERR_INVALID_PARAM,
                         "ucp_wimm_counter_create() has nowhere to write to");

    counter = ucs_malloc(sizeof(*counter), "ucp_wimm_counter");
    if (counter == NULL) {
        ucs_error("failed to allocate memory for a counter");
        return UCS_ERR_NO_MEMORY;
    }

    status = ucp_wimm_counter_init(counter, wimm, params, &mask);
    if (status != UCS_OK) {
        goto err;
    }

    ucp_wimm_native_enter(wimm->worker);
    status = ucp_wimm_counter_link(wimm, counter, mask);
    if ((status == UCS_OK) && counter->is_bound) {
        status = ucp_wimm_counter_bind(counter, params->ep);
        if (status != UCS_OK) {
            ucp_wimm_counter_unlink(counter);
        }
    }
    ucp_wimm_native_leave(wimm->worker);
    if (status != UCS_OK) {
        ucs_error("failed to allocate memory for a counter");
        goto err;
    }

    *counter_p = counter;
    return UCS_OK;

err:
    ucs_free(counter);
    return status;
}

void ucp_wimm_counter_destroy(ucp_wimm_counter_h counter)
{
    ucp_worker_h worker;

    if (counter == NULL) {
        return;
    }

    if (counter->wimm != NULL) {
        worker = counter->wimm->worker;
        ucp_wimm_native_enter(worker);
        ucp_wimm_counter_unlink(counter);
        ucp_wimm_native_leave(worker);
    }

    ucs_free(counter);
}

/* Of a handle that is attached */
#define UCP_WIMM_CHECK_COUNTER(_counter)                                     \
  UCP_WIMM_CHECK_PARAM(((_counter) != NULL) && ((_counter)->wimm != NULL),   \
                       UCS_ERR_INVALID_PARAM, "%s: %s", __func__,            \
                       ((_counter) == NULL) ? "the counter is NULL" :        \
                                              "the handle of the counter is" \
                                              " detached")

ucs_status_t ucp_wimm_counter_test(ucp_wimm_counter_h counter)
{
    ucs_status_t status;

    UCP_WIMM_CHECK_COUNTER(counter);

    ucp_wimm_native_enter(counter->wimm->worker);
    ucp_wimm_eps_update(counter->wimm);
    status = ucp_wimm_counter_look(counter);
    ucp_wimm_native_leave(counter->wimm->worker);
    return status;
}

ucs_status_t ucp_wimm_counter_read(ucp_wimm_counter_h counter,
                                   uint64_t *count_p)
{
    ucp_worker_h worker;

    UCP_WIMM_CHECK_PARAM((counter != NULL) && (count_p != NULL),
                         UCS_ERR_INVALID_PARAM,
                         "ucp_wimm_counter_read() got a NULL");

    if (counter->wimm == NULL) {
        *count_p = counter->count;
        return UCS_OK;
    }

    worker = counter->wimm->worker;
    ucp_wimm_native_enter(worker);
    *count_p = counter->count;
    ucp_wimm_counter_set_ready(counter, counter->num_failures > 0);
    ucp_wimm_native_leave(worker);
    return UCS_OK;
}

ucs_status_t ucp_wimm_counter_take(ucp_wimm_counter_h counter, uint64_t amount)
{
    ucs_status_t status = UCS_OK;

    UCP_WIMM_CHECK_COUNTER(counter);

    ucp_wimm_native_enter(counter->wimm->worker);
    if (counter->overflow) {
        status = UCS_ERR_EXCEEDS_LIMIT;
    } else if (counter->count < amount) {
        status = UCS_INPROGRESS;
    } else {
        counter->count -= amount;
    }

    ucp_wimm_counter_set_ready(counter, counter->num_failures > 0);
    ucp_wimm_native_leave(counter->wimm->worker);
    return status;
}

ucs_status_t ucp_wimm_counter_reset(ucp_wimm_counter_h counter,
                                    uint64_t expected, uint64_t *count_p)
{
    UCP_WIMM_CHECK_COUNTER(counter);

    ucp_wimm_native_enter(counter->wimm->worker);
    if (count_p != NULL) {
        *count_p = counter->count;
    }

    counter->count    = 0;
    counter->overflow = 0;
    counter->expected = expected;
    ucp_wimm_counter_set_ready(counter, counter->num_failures > 0);
    ucp_wimm_native_leave(counter->wimm->worker);
    return UCS_OK;
}

/* The first with something that must not be missed, or @a num */
static unsigned ucp_wimm_wait_find_error(const ucp_wimm_counter_h *counters,
                                         unsigned num)
{
    unsigned i;

    for (i = 0; i < num; ++i) {
        if ((counters[i]->num_failures > 0) || counters[i]->overflow) {
            break;
        }
    }

    return i;
}

/* The first that nothing can come for, or @a num */
static unsigned ucp_wimm_wait_find_closed(const ucp_wimm_counter_h *counters,
                                          unsigned num)
{
    unsigned i;

    for (i = 0; i < num; ++i) {
        if (ucp_wimm_counter_is_closed(counters[i])) {
            break;
        }
    }

    return i;
}

/* @return UCS_INPROGRESS if none is there and none has an error */
static ucs_status_t ucp_wimm_wait_look(ucp_wimm_h wimm,
                                       const ucp_wimm_counter_h *counters,
                                       unsigned num, unsigned *ready,
                                       unsigned *count_p)
{
    ucs_status_t status = UCS_INPROGRESS;
    unsigned count      = 0;
    unsigned i;

    ucp_wimm_native_enter(wimm->worker);
    ucp_wimm_eps_update(wimm);
    i = ucp_wimm_wait_find_error(counters, num);
    if (i == num) {
        for (i = 0; i < num; ++i) {
            if (ucp_wimm_counter_look(counters[i]) == UCS_OK) {
                if (ready != NULL) {
                    ready[count] = i;
                }

                ++count;
            }
        }

        i = (count > 0) ? num : ucp_wimm_wait_find_closed(counters, num);
    }

    if (count > 0) {
        status = UCS_OK;
    } else if (i < num) {
        status = ucp_wimm_counter_look(counters[i]);
        count  = 1;
        if (ready != NULL) {
            ready[0] = i;
        }
    }
    ucp_wimm_native_leave(wimm->worker);

    if (count_p != NULL) {
        *count_p = count;
    }

    return status;
}

ucs_status_t ucp_wimm_wait_some(ucp_wimm_h wimm,
                                const ucp_wimm_counter_h *counters,
                                unsigned num, double timeout, unsigned *ready,
                                unsigned *count_p)
{
    ucs_status_t status;
    ucs_time_t deadline;
    int in_progress;
    unsigned i;

    UCP_WIMM_CHECK_HANDLE(wimm, UCS_ERR_INVALID_PARAM);
    UCP_WIMM_CHECK_PARAM((counters != NULL) && (num > 0), UCS_ERR_INVALID_PARAM,
                         "there is no counter to wait for");
    UCP_WIMM_CHECK_PARAM(!isnan(timeout), UCS_ERR_INVALID_PARAM,
                         "the timeout is not a number");
    for (i = 0; i < num; ++i) {
        UCP_WIMM_CHECK_PARAM((counters[i] != NULL) &&
                                     (counters[i]->wimm == wimm),
                             UCS_ERR_INVALID_PARAM,
                             "counter %u to wait for is not one of the handle",
                             i);
    }

    ucp_wimm_native_enter(wimm->worker);
    in_progress = ucp_wimm_native_in_progress(wimm->worker) ||
                  (wimm->stream.in_handler > 0);
    ucp_wimm_native_leave(wimm->worker);
    UCP_WIMM_CHECK_PARAM(!in_progress, UCS_ERR_INVALID_PARAM,
                         "ucp_wimm_wait_some() was called inside of"
                         " ucp_worker_progress()");

    status = ucp_wimm_wait_look(wimm, counters, num, ready, count_p);
    if (status != UCS_INPROGRESS) {
        return status;
    }

    /* Times that a clock of 64 bits cannot reach are no limit */
    deadline = 0;
    if ((timeout > 0) &&
        (timeout < (double)(UINT64_MAX / 2) / ucs_time_from_sec(1.0))) {
        deadline = ucs_get_time() + ucs_time_from_sec(timeout);
    }

    for (;;) {
        ucp_worker_progress(wimm->worker);
        UCP_WIMM_CHECK_PARAM(wimm->is_attached, UCS_ERR_INVALID_PARAM,
                             "the handle was detached while"
                             " ucp_wimm_wait_some() was waiting");
        status = ucp_wimm_wait_look(wimm, counters, num, ready, count_p);
        if (status != UCS_INPROGRESS) {
            return status;
        }

        if ((timeout == 0) ||
            ((deadline != 0) && (ucs_get_time() >= deadline))) {
            return UCS_ERR_TIMED_OUT;
        }
    }
}
