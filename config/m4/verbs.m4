#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# libibverbs of rdma-core.
#
AC_DEFUN([WIMM_CHECK_VERBS], [
    AC_LANG_PUSH([C])
    save_LIBS=$LIBS
    AC_CHECK_HEADER([infiniband/verbs.h], [],
        [AC_MSG_ERROR([infiniband/verbs.h was not found: install libibverbs-dev (rdma-core-devel)])])
    AC_CHECK_LIB([ibverbs], [ibv_get_device_list], [],
        [AC_MSG_ERROR([libibverbs does not link: install libibverbs-dev (rdma-core-devel)])])
    AC_CHECK_DECL([IBV_WR_RDMA_WRITE_WITH_IMM], [],
        [AC_MSG_ERROR([infiniband/verbs.h has no IBV_WR_RDMA_WRITE_WITH_IMM: install libibverbs-dev 1.1 or newer])],
        [[#include <infiniband/verbs.h>]])
    LIBS=$save_LIBS
    AC_LANG_POP([C])
    AC_SUBST([IBVERBS_LIBS], [-libverbs])
])
