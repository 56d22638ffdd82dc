#!/bin/sh
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# libucp_wimm as an ELF file: what it exports, what it needs.
#
# Environment (set by make check): WIMM_UCP_LIB, srcdir

. "${srcdir:-.}/../lib/tap.sh"

header=${srcdir:-.}/../../src/ucp/wimm/ucp_wimm.h

# The functions that the header declares as public
declared=$(awk '/^#define/ { next }
                /UCP_WIMM_API/ { api = 1 }
                api && match($0, /ucp_wimm_[a-z0-9_]*\(/) {
                    print substr($0, RSTART, RLENGTH - 1)
                    api = 0
                }' "$header" | LC_ALL=C sort)
tap_has "the header declares the API" "$declared" ucp_wimm_put_nbx

exported=$(nm -D --defined-only "$WIMM_UCP_LIB" |
           awk '$NF !~ /^_/ { print $NF }' | LC_ALL=C sort)
tap_is "exports the API and nothing else" "$exported" "$declared"

# A program that is linked with it needs no preload
needed=$(readelf -d "$WIMM_UCP_LIB" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for lib in libuct_ib_wimm.so.0 libucp.so.0 libucs.so.0; do
    tap_has "needs $lib itself" "$needed" "$lib"
done
tap_is "has no undefined symbols" \
    "$(ldd -r "$WIMM_UCP_LIB" 2>&1 | grep 'undefined symbol' |
       grep -v -e __asan -e __ubsan -e __lsan -e __tsan)" ""

# UCP's internals are in one source file, with one compat header
tap_is "the other sources include nothing of UCP but its API" \
    "$(cd "$(dirname "$header")" && grep -l '#include <ucp/[^a]' -- *.c *.h)" \
    ucp_wimm_compat.h

tap_done
