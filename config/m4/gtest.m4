#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# googletest, for the tests only.
#
AC_DEFUN([WIMM_CHECK_GTEST], [
    AC_ARG_ENABLE([gtest],
        [AS_HELP_STRING([--disable-gtest],
                        [Do not build the tests (default is to build them)])],
        [], [enable_gtest=yes])

    GTEST_DESC="not used (--disable-gtest)"
    AS_IF([test "x$enable_gtest" != xno],
          [AC_LANG_PUSH([C++])
           save_CXXFLAGS=$CXXFLAGS
           save_LIBS=$LIBS
           CXXFLAGS="$CXXFLAGS -std=gnu++14"
           LIBS="-lgtest -lpthread $LIBS"
           AC_MSG_CHECKING([whether the C++ compiler works])
           AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
                             [AC_MSG_RESULT([yes])],
                             [AC_MSG_RESULT([no])
                              AC_MSG_ERROR([the C++ compiler '$CXX' does not work, googletest needs one: install g++, or configure with --disable-gtest])])
           AC_MSG_CHECKING([for googletest])
           AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <gtest/gtest.h>]],
                                           [[int argc = 0; testing::InitGoogleTest(&argc, (char**)0);]])],
                          [AC_MSG_RESULT([yes])
                           GTEST_DESC=yes],
                          [AC_MSG_RESULT([no])
                           AC_MSG_ERROR([googletest was not found: install libgtest-dev, or configure with --disable-gtest])])
           CXXFLAGS=$save_CXXFLAGS
           LIBS=$save_LIBS
           AC_LANG_POP([C++])])
    AC_SUBST([GTEST_LIBS], ["-lgtest -lpthread"])
    AM_CONDITIONAL([ENABLE_GTEST], [test "x$enable_gtest" != xno])
])
