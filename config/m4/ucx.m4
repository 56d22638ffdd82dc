#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# The installed UCX: its ucx_info, libraries, public headers and the macros
# that it was configured with.
#
AC_DEFUN([WIMM_CHECK_UCX], [
    AC_ARG_WITH([ucx],
        [AS_HELP_STRING([--with-ucx=PREFIX],
                        [The installed UCX (default is the one of ucx_info in PATH)])],
        [], [with_ucx=guess])

    AS_CASE([$with_ucx],
            [no],        [AC_MSG_ERROR([wimm is a module of UCX and cannot be built --without-ucx])],
            [yes|guess], [AC_PATH_PROG([UCX_INFO], [ucx_info])],
            [ucx_prefix=`cd "$with_ucx" 2>/dev/null && pwd`
             AS_IF([test -z "$ucx_prefix"], [ucx_prefix=$with_ucx])
             AC_PATH_PROG([UCX_INFO], [ucx_info], [], [$ucx_prefix/bin])
             AS_IF([test -z "$UCX_INFO"],
                   [AC_MSG_ERROR([$with_ucx/bin/ucx_info was not found: --with-ucx takes the prefix that UCX was installed to])])])
    AS_IF([test -z "$UCX_INFO"],
          [AC_MSG_ERROR([ucx_info was not found: install ucx-utils, or name the prefix of your UCX with --with-ucx=PREFIX])])
    UCX_PREFIX=`dirname "$UCX_INFO"`
    UCX_PREFIX=`dirname "$UCX_PREFIX"`

    AC_MSG_CHECKING([for the version of the installed UCX])
    UCX_VERSION=`"$UCX_INFO" -v 2>/dev/null | sed -n -e 's/^# *Version \(@<:@0-9.@:>@*\).*/\1/p' -e 's/^# *Library version: \(@<:@0-9.@:>@*\).*/\1/p' | head -n 1`
    AS_IF([test -z "$UCX_VERSION"],
          [AC_MSG_RESULT([unknown])
           AC_MSG_ERROR([$UCX_INFO -v does not run or prints no version: repair the installed UCX first])])
    AC_MSG_RESULT([$UCX_VERSION])

    # The macros of its configuration: struct layouts depend on them. What
    # belongs to the package itself is left out, it would clash with our own.
    AC_MSG_CHECKING([for the configuration of the installed UCX])
    "$UCX_INFO" -b 2>/dev/null | sed -n '/^#define /p' | \
        grep -v -E '^#define (PACKAGE|PACKAGE_@<:@A-Z@:>@*|VERSION|LT_OBJDIR|restrict|STDC_HEADERS) ' \
        > ucx_config.h.tmp
    AS_IF([grep '^#define UCX_CONFIG_H' ucx_config.h.tmp >/dev/null], [],
          [rm -f ucx_config.h.tmp
           AC_MSG_RESULT([none])
           AC_MSG_ERROR([$UCX_INFO -b does not print the configuration of UCX: install the ucx-utils that belong to the UCX libraries])])
    AS_IF([cmp -s ucx_config.h.tmp ucx_config.h],
          [rm -f ucx_config.h.tmp],
          [mv -f ucx_config.h.tmp ucx_config.h])
    AC_MSG_RESULT([ucx_config.h])

    # Headers: nothing to add for those in the compiler's own path.
    UCX_CPPFLAGS=
    AS_IF([test "x$UCX_PREFIX" != x/usr && test "x$UCX_PREFIX" != x/],
          [UCX_CPPFLAGS="-isystem $UCX_PREFIX/include"])
    save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $UCX_CPPFLAGS"
    AC_CHECK_HEADER([uct/api/version.h], [],
        [AC_MSG_ERROR([uct/api/version.h was not found: install libucx-dev (ucx-devel)])])
    AC_MSG_CHECKING([whether its headers have the same version])
    AC_COMPUTE_INT([ucx_hdr_major], [UCT_VERNO_MAJOR], [[#include <uct/api/version.h>]], [ucx_hdr_major=0])
    AC_COMPUTE_INT([ucx_hdr_minor], [UCT_VERNO_MINOR], [[#include <uct/api/version.h>]], [ucx_hdr_minor=0])
    AC_COMPUTE_INT([ucx_hdr_patch], [UCT_VERNO_PATCH], [[#include <uct/api/version.h>]], [ucx_hdr_patch=0])
    UCX_HDR_VERSION="$ucx_hdr_major.$ucx_hdr_minor.$ucx_hdr_patch"
    AC_MSG_RESULT([$UCX_HDR_VERSION])
    AS_IF([test "x$UCX_HDR_VERSION" != "x$UCX_VERSION"],
          [AC_MSG_ERROR([the headers are of UCX $UCX_HDR_VERSION but ucx_info is of UCX $UCX_VERSION: install libucx-dev and ucx-utils of one version])])
    CPPFLAGS=$save_CPPFLAGS

    # Libraries. The transport's base classes are in UCX's own ib module.
    AC_MSG_CHECKING([for the libraries of UCX])
    UCX_LIBDIR=
    ucx_multiarch=`$CC -print-multiarch 2>/dev/null`
    for dir in "$UCX_PREFIX/lib/$ucx_multiarch" "$UCX_PREFIX/lib64" "$UCX_PREFIX/lib"; do
        AS_IF([test -z "$UCX_LIBDIR" && test -e "$dir/libuct.so.0"],
              [UCX_LIBDIR=$dir])
    done
    AS_IF([test -z "$UCX_LIBDIR"],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([libuct.so.0 was not found below $UCX_PREFIX: install libucx0 (ucx)])])
    AC_MSG_RESULT([$UCX_LIBDIR])
    AC_MSG_CHECKING([for the ib module of UCX])
    AS_IF([test -e "$UCX_LIBDIR/ucx/libuct_ib.so.0"],
          [AC_MSG_RESULT([$UCX_LIBDIR/ucx/libuct_ib.so.0])],
          [AC_MSG_RESULT([no])
           AC_MSG_ERROR([$UCX_LIBDIR/ucx/libuct_ib.so.0 was not found: this UCX was built without verbs; install libucx0 (ucx-ib)])])
    AS_IF([test -e "$UCX_LIBDIR/libucp.so"], [],
          [AC_MSG_ERROR([$UCX_LIBDIR/libucp.so was not found: install libucx-dev (ucx-devel)])])

    # "-l:" by the soname: the development link of a module may be missing.
    UCX_LDFLAGS="-L$UCX_LIBDIR -L$UCX_LIBDIR/ucx"
    UCX_LIBS="-lucp -luct -lucs"
    UCX_IB_LIBS="-l:libuct_ib.so.0"

    AC_MSG_CHECKING([for rc_verbs in the ib module])
    save_LIBS=$LIBS
    save_LDFLAGS=$LDFLAGS
    LDFLAGS="$LDFLAGS $UCX_LDFLAGS -Wl,-rpath,$UCX_LIBDIR -Wl,-rpath,$UCX_LIBDIR/ucx"
    LIBS="$UCX_IB_LIBS $UCX_LIBS $IBVERBS_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[extern char uct_rc_verbs_tl[], uct_rc_verbs_iface_t_class[], uct_ib_component[];
                                      extern void uct_tl_register(void);]],
                                    [[uct_tl_register();
                                      return uct_rc_verbs_tl == uct_rc_verbs_iface_t_class ||
                                             uct_ib_component == uct_rc_verbs_tl;]])],
                   [AC_MSG_RESULT([yes])],
                   [AC_MSG_RESULT([no])
                    AC_MSG_ERROR([the ib module of UCX $UCX_VERSION does not export rc_verbs, which wimm is derived from: UCX 1.13 or newer with verbs is needed])])
    LIBS=$save_LIBS
    LDFLAGS=$save_LDFLAGS

    AC_MSG_CHECKING([how this UCX loads the module])
    AS_IF([grep PLUGIN_PATH "$UCX_LIBDIR/libucs.so.0" >/dev/null 2>&1 || \
           "$UCX_INFO" -c -f 2>/dev/null | grep '^UCX_PLUGIN_PATH=' >/dev/null],
          [UCX_LOAD=plugin
           UCX_LOAD_DESC="UCX_PLUGIN_PATH (wimm-run sets it), or from $UCX_LIBDIR/ucx"],
          [UCX_LOAD=preload
           UCX_LOAD_DESC="LD_PRELOAD (wimm-run sets it): UCX $UCX_VERSION has no UCX_PLUGIN_PATH"])
    AC_MSG_RESULT([$UCX_LOAD])

    AC_DEFINE_UNQUOTED([WIMM_UCX_VERSION], ["$UCX_VERSION"],
                       [Version of the UCX that wimm is built for])
    AC_SUBST([UCX_INFO])
    AC_SUBST([UCX_VERSION])
    AC_SUBST([UCX_PREFIX])
    AC_SUBST([UCX_LIBDIR])
    AC_SUBST([UCX_CPPFLAGS])
    AC_SUBST([UCX_LDFLAGS])
    AC_SUBST([UCX_LIBS])
    AC_SUBST([UCX_IB_LIBS])
    AC_SUBST([UCX_LOAD])
    AC_CONFIG_COMMANDS_PRE([AS_IF([test -f ucx_config.h], [],
                                  [AC_MSG_ERROR([ucx_config.h was removed while configure ran])])])
])
