#!/bin/sh
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The module as an ELF file: its name, what it exports, what it needs.
#
# Environment (set by make check): WIMM_MODULE, srcdir

. "${srcdir:-.}/../lib/tap.sh"

header=${srcdir:-.}/../../src/uct/ib/wimm/wimm.h

# The functions that the header declares as public
declared=$(awk '/^#define/ { next }
                /UCT_WIMM_API/ { api = 1 }
                api && match($0, /uct_wimm_[a-z0-9_]*\(/) {
                    print substr($0, RSTART, RLENGTH - 1)
                    api = 0
                }' "$header" | LC_ALL=C sort)
tap_has "the header declares the API" "$declared" uct_wimm_iface_set_imm_handler

# Sanitizers add symbols of their own, which begin with underscores
exported=$(nm -D --defined-only "$WIMM_MODULE" |
           awk '$NF !~ /^_/ { print $NF }' | LC_ALL=C sort)
tap_is "exports the API and nothing else" "$exported" "$declared"

tap_is "is called what UCX looks for" \
    "$(readelf -d "$WIMM_MODULE" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" \
    libuct_ib_wimm.so.0

# A host may have loaded UCX in a way that lends no symbols to the module
needed=$(readelf -d "$WIMM_MODULE" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for lib in libuct_ib.so.0 libuct.so.0 libucs.so.0 libucp.so.0 \
           libibverbs.so.1; do
    tap_has "needs $lib itself" "$needed" "$lib"
done
tap_is "has no undefined symbols" \
    "$(ldd -r "$WIMM_MODULE" 2>&1 | grep 'undefined symbol' |
       grep -v -e __asan -e __ubsan -e __lsan -e __tsan)" ""

tap_done
