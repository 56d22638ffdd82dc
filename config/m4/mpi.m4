#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#

#
# Open MPI, and its OpenSHMEM, for tests of wimm under them only: without it these are not built.
# Its compiler wrappers say what the compiler needs, so that it may be any compiler.
#
AC_DEFUN([WIMM_CHECK_MPI], [
    AC_ARG_WITH([mpi],
        [AS_HELP_STRING([--without-mpi],
                        [Do not build the tests with Open MPI (default is to build them where it is installed)])],
        [], [with_mpi=check])

    have_mpi=no
    have_shmem=no
    MPI_DESC="not used (--without-mpi)"
    AS_IF([test "x$with_mpi" != xno],
          [AC_CHECK_PROGS([MPICC], [mpicc.openmpi mpicc])
           AC_CHECK_PROGS([OSHCC], [oshcc])
           WIMM_CHECK_WRAPPER([MPI], [$MPICC], [mpi.h], [MPI_Finalize()], [have_mpi])
           WIMM_CHECK_WRAPPER([SHMEM], [$OSHCC], [shmem.h], [shmem_finalize()], [have_shmem])
           MPI_DESC="MPI $have_mpi, OpenSHMEM $have_shmem"])
    AM_CONDITIONAL([HAVE_MPI], [test "x$have_mpi" = xyes])
    AM_CONDITIONAL([HAVE_SHMEM], [test "x$have_shmem" = xyes])
])

# WIMM_CHECK_WRAPPER(NAME, WRAPPER, HEADER, CALL, VARIABLE): NAME_CFLAGS and NAME_LIBS; sets VARIABLE to yes
AC_DEFUN([WIMM_CHECK_WRAPPER], [
    $1_CFLAGS=
    $1_LIBS=
    AS_IF([test -n "$2" && $1_CFLAGS=`$2 --showme:compile 2>/dev/null` && $1_LIBS=`$2 --showme:link 2>/dev/null`],
          [save_CPPFLAGS=$CPPFLAGS
           save_LIBS=$LIBS
           CPPFLAGS="$CPPFLAGS $$1_CFLAGS"
           LIBS="$$1_LIBS $LIBS"
           AC_MSG_CHECKING([for Open MPI's $3])
           AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$3>]], [[$4;]])], [$5=yes])
           AC_MSG_RESULT([$$5])
           CPPFLAGS=$save_CPPFLAGS
           LIBS=$save_LIBS])
    AC_SUBST([$1_CFLAGS])
    AC_SUBST([$1_LIBS])
])
