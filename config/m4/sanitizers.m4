#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# --enable-asan, --enable-ubsan, --enable-tsan: for the whole tree, libraries and tests.
#
AC_DEFUN([WIMM_CHECK_SANITIZERS], [
    AC_ARG_ENABLE([asan],
        [AS_HELP_STRING([--enable-asan],
                        [Build with the address sanitizer (default is NO)])],
        [], [enable_asan=no])
    AC_ARG_ENABLE([ubsan],
        [AS_HELP_STRING([--enable-ubsan],
                        [Build with the undefined behavior sanitizer (default is NO)])],
        [], [enable_ubsan=no])
    AC_ARG_ENABLE([tsan],
        [AS_HELP_STRING([--enable-tsan],
                        [Build with the thread sanitizer (default is NO)])],
        [], [enable_tsan=no])
    AS_IF([test "x$enable_asan$enable_tsan" = xyesyes],
          [AC_MSG_ERROR([--enable-asan and --enable-tsan exclude each other])])

    WIMM_SANITIZERS=
    WIMM_SANITIZE_FLAGS=
    AS_IF([test "x$enable_asan" = xyes],
          [WIMM_SANITIZERS="address"])
    AS_IF([test "x$enable_tsan" = xyes],
          [WIMM_SANITIZERS="thread"])
    AS_IF([test "x$enable_ubsan" = xyes],
          [WIMM_SANITIZERS="${WIMM_SANITIZERS:+$WIMM_SANITIZERS,}undefined"])

    AS_IF([test -n "$WIMM_SANITIZERS"],
          [WIMM_SANITIZE_FLAGS="-fsanitize=$WIMM_SANITIZERS -fno-omit-frame-pointer"
           AS_IF([test "x$enable_ubsan" = xyes],
                 [# UCX's memory pools hand out elements that are not aligned
                  WIMM_SANITIZE_FLAGS="$WIMM_SANITIZE_FLAGS -fno-sanitize-recover=undefined -fno-sanitize=alignment"])
           save_CFLAGS=$CFLAGS
           CFLAGS="$CFLAGS $WIMM_SANITIZE_FLAGS"
           AC_MSG_CHECKING([whether $CC links with -fsanitize=$WIMM_SANITIZERS])
           AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
                          [AC_MSG_RESULT([yes])],
                          [AC_MSG_RESULT([no])
                           AC_MSG_ERROR([a sanitizer was asked for but $CC cannot link it: install libasan, libubsan and libtsan of the compiler (gcc has them, clang needs libclang-rt-14-dev)])])
           CFLAGS=$save_CFLAGS])

    # Shared libraries resolve all their symbols, but for the sanitizer's own
    AS_IF([test -n "$WIMM_SANITIZERS"],
          [WIMM_NO_UNDEFINED=],
          [WIMM_NO_UNDEFINED="-Wl,-z,defs"])

    AC_SUBST([WIMM_SANITIZE_FLAGS])
    AC_SUBST([WIMM_NO_UNDEFINED])
    AM_CONDITIONAL([ENABLE_SANITIZERS], [test -n "$WIMM_SANITIZERS"])
])
