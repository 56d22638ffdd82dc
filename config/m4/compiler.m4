#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# Before autoconf looks for one, whose own message names no package.
#
AC_DEFUN([WIMM_CHECK_HAVE_CC], [
    wimm_cc=$CC
    for cc in gcc clang cc; do
        AS_IF([test -z "$wimm_cc" && command -v $cc >/dev/null 2>&1],
              [wimm_cc=$cc])
    done
    AS_IF([test -z "$wimm_cc"],
          [AC_MSG_ERROR([no C compiler was found: install gcc, or name one with CC=])])
])

#
# Language and warnings. CFLAGS and CXXFLAGS stay the user's: what the project
# needs is in WIMM_CFLAGS and WIMM_CXXFLAGS.
#
AC_DEFUN([WIMM_CHECK_COMPILER], [
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror],
                        [Take compiler warnings as errors (default is NO)])],
        [], [enable_werror=no])

    WIMM_WARN_FLAGS="-Wall -Wextra"
    AS_IF([test "x$enable_werror" = xyes],
          [WIMM_WARN_FLAGS="$WIMM_WARN_FLAGS -Werror"])

    WIMM_CFLAGS="-std=gnu11 $WIMM_WARN_FLAGS -Wstrict-prototypes"
    WIMM_CFLAGS="$WIMM_CFLAGS -Wmissing-prototypes -fvisibility=hidden"
    WIMM_CXXFLAGS="-std=gnu++14 $WIMM_WARN_FLAGS"

    AC_LANG_PUSH([C])
    save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $WIMM_CFLAGS"
    AC_MSG_CHECKING([whether $CC takes -std=gnu11])
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
                          _Static_assert(sizeof(int) >= 4, "int");
                          extern int unused;]])],
                      [AC_MSG_RESULT([yes])],
                      [AC_MSG_RESULT([no])
                       AC_MSG_ERROR([$CC does not compile C11: install gcc 8 or clang 10, or newer])])
    CFLAGS=$save_CFLAGS
    AC_LANG_POP([C])

    AC_SUBST([WIMM_CFLAGS])
    AC_SUBST([WIMM_CXXFLAGS])
])
