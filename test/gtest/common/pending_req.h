/**
 * Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
 *
 * See file LICENSE for terms.
 */

#ifndef WIMM_PENDING_REQ_H_
#define WIMM_PENDING_REQ_H_

#include "test_base.h"

extern "C" {
#include <uct/api/uct.h>
}

#include <functional>
#include <utility>


/* A pending request that calls a function */
struct pending_req {
    typedef std::function<ucs_status_t()> func_t;

    explicit pending_req(func_t f) : func(std::move(f)), called(0)
    {
        uct.func = call;
    }

    pending_req(const pending_req &)            = delete;
    pending_req &operator=(const pending_req &) = delete;

    static pending_req *from(uct_pending_req_t *req)
    {
        return reinterpret_cast<pending_req *>(req);
    }

    /* What a callback returns for a put that had this outcome: UCX takes any
     * error for a lack of resources */
    static ucs_status_t result(ucs_status_t status)
    {
        return ((status == UCS_ERR_NO_RESOURCE) || (status == UCS_INPROGRESS)) ?
                       status :
                       UCS_OK;
    }

    uct_pending_req_t uct; /* First: see from() */
    func_t func;
    unsigned called;

  private:
    static ucs_status_t call(uct_pending_req_t *req)
    {
        pending_req *self = from(req);
        const func_t f    = self->func; /* It may replace itself */

        ++self->called;
        return f();
    }
};

#endif
