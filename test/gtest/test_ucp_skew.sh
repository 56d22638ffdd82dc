#!/bin/sh
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# ucp_wimm_attach() refuses a UCX that the library was not built for, with both numbers.
#
# Environment (set by make check): UCX_VERSION, srcdir

. "${srcdir:-.}/../lib/tap.sh"

UCX_TLS=self
export UCX_TLS

output=$(./test_ucp_skew_version 2>&1)
tap_has "other version: refused" "$output" "Unsupported operation, output unchanged"
tap_has "other version: both numbers" "$output" \
    "was built for UCX 0.9.1, but UCX $UCX_VERSION"

output=$(./test_ucp_skew_size 2>&1)
size=$(echo "$output" | sed -n 's/.*request size \([0-9]*\)$/\1/p')
tap_has "other request size: refused" "$output" "Unsupported operation, output unchanged"
tap_has "other request size: both numbers" "$output" \
    "whose requests have 8 bytes, in the UCX that is loaded they have $size"

tap_done
