#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Builds UCX's UCT tests, of the source that the build tree was configured with, for one transport: build.sh wimm,
# build.sh rc_verbs. The program is conformance/gtest_TRANSPORT in the build tree. Compiles what has changed; the module
# is that of the build tree whenever the program starts.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"

case $#,${1-} in
1,wimm)     module=$build/src/uct/ib/wimm/.libs/libuct_ib_wimm.so.0 ;;
1,rc_verbs) module='' ;;
*)          echo "usage: build.sh wimm|rc_verbs" >&2; exit 2 ;;
esac
transport=$1

configured() { # VARIABLE: what configure has found
    sed -n "s/^$1 = //p" "$build/Makefile"
}

source=$(configured UCX_SRC)
libdir=$(configured UCX_LIBDIR)
if [ ! -f "$source/test/gtest/uct/uct_test.h" ]; then
    echo "build.sh: there are no tests in UCX's source tree '$source'" >&2
    exit 1
fi

dir=$build/conformance
mkdir -p "$dir" || exit 1
# Its configuration, by the name that its tests include
cmp -s "$build/ucx_config.h" "$dir/config.h" || cp "$build/ucx_config.h" "$dir/config.h" || exit 1

exec make -s --no-print-directory -C "$dir" -f "$here/build.mk" -j"$(nproc)" CXX="$(configured CXX)" \
    TRANSPORT="$transport" HERE="$here" MODULE="$module" UCX_SRC="$source" UCX_LDFLAGS="$(configured UCX_LDFLAGS)" \
    UCX_LIBS="$(configured UCX_IB_LIBS) $(configured UCX_LIBS) -lucm" UCX_RPATH="$libdir $libdir/ucx"
