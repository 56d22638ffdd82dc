#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# UCX's source tree: its internal headers are not installed by anybody. It has
# to be of the version that is installed.
#
AC_DEFUN([WIMM_CHECK_UCX_SRC], [
    AC_ARG_WITH([ucx-src],
        [AS_HELP_STRING([--with-ucx-src=DIR],
                        [Source tree of the installed UCX version (default is the one that contrib/setup.sh unpacked)])],
        [], [with_ucx_src=guess])

    ucx_src_hint="run contrib/setup.sh, or unpack the source of UCX $UCX_VERSION (apt-get source ucx) and name it with --with-ucx-src=DIR"

    AC_MSG_CHECKING([for the source tree of UCX $UCX_VERSION])
    AS_CASE([$with_ucx_src],
            [no],
            [AC_MSG_RESULT([no])
             AC_MSG_ERROR([wimm cannot be built --without-ucx-src: UCX installs none of its internal headers])],
            [yes|guess],
            [UCX_SRC=`cd "$srcdir" && pwd`/.cache/ucx-src/ucx-$UCX_VERSION
             AS_IF([test -n "$WIMM_CACHE_DIR"],
                   [UCX_SRC=$WIMM_CACHE_DIR/ucx-src/ucx-$UCX_VERSION])
             AS_IF([test -f "$UCX_SRC/configure.ac"], [],
                   [AC_MSG_RESULT([no])
                    AC_MSG_ERROR([no source tree of UCX $UCX_VERSION was found: $ucx_src_hint])])],
            [UCX_SRC=`cd "$with_ucx_src" 2>/dev/null && pwd`
             AS_IF([test -z "$UCX_SRC"],
                   [AC_MSG_RESULT([no])
                    AC_MSG_ERROR([--with-ucx-src=$with_ucx_src is not a folder: $ucx_src_hint])])])

    AS_IF([test -f "$UCX_SRC/src/uct/ib/rc/verbs/rc_verbs.h" && \
           test -f "$UCX_SRC/configure.ac"], [],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([$UCX_SRC is not a source tree of UCX (src/uct/ib/rc/verbs/rc_verbs.h is missing): $ucx_src_hint])])
    AC_MSG_RESULT([$UCX_SRC])

    AC_MSG_CHECKING([for its version])
    UCX_SRC_VERSION=
    for part in major minor patch; do
        num=`sed -n "s/.*ucx_ver_$part@<:@^0-9@:>@*\(@<:@0-9@:>@@<:@0-9@:>@*\)).*/\1/p" "$UCX_SRC/configure.ac" | head -n 1`
        UCX_SRC_VERSION="${UCX_SRC_VERSION:+$UCX_SRC_VERSION.}$num"
    done
    AC_MSG_RESULT([$UCX_SRC_VERSION])
    AS_IF([test "x$UCX_SRC_VERSION" != "x$UCX_VERSION"],
          [AC_MSG_ERROR([the source tree $UCX_SRC is of UCX $UCX_SRC_VERSION but UCX $UCX_VERSION is installed: $ucx_src_hint])])

    # UCX's headers are not free of warnings.
    UCX_SRC_CPPFLAGS="-isystem $UCX_SRC/src"

    # What those headers include in turn
    AS_IF([grep '^#define HAVE_NUMA @<:@ @:>@*1' ucx_config.h >/dev/null],
          [AC_CHECK_HEADER([numaif.h], [],
               [AC_MSG_ERROR([numaif.h was not found, this UCX uses it: install libnuma-dev (numactl-devel)])])])

    # The base classes of this version with the configuration of the installed
    # build: what does not compile here would not compile later either.
    AC_MSG_CHECKING([whether its internal headers compile])
    save_CPPFLAGS=$CPPFLAGS
    save_CFLAGS=$CFLAGS
    AS_MKDIR_P([conftest.ucx])
    cp ucx_config.h conftest.ucx/config.h
    CPPFLAGS="$CPPFLAGS -Iconftest.ucx $UCX_SRC_CPPFLAGS $UCX_CPPFLAGS"
    CFLAGS="$CFLAGS -std=gnu11"
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
            #include "config.h"
            #include <uct/ib/rc/verbs/rc_verbs.h>
            _Static_assert(sizeof(uct_rc_verbs_iface_t) > 0, "");]])],
        [AC_MSG_RESULT([yes])],
        [AC_MSG_RESULT([no])
         AC_MSG_ERROR([the internal headers in $UCX_SRC do not compile (see config.log): is the tree complete and of the same build as UCX $UCX_VERSION?])])
    CPPFLAGS=$save_CPPFLAGS
    CFLAGS=$save_CFLAGS
    rm -rf conftest.ucx

    AC_SUBST([UCX_SRC])
    AC_SUBST([UCX_SRC_CPPFLAGS])
])
