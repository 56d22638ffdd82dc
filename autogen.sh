#!/bin/sh
#
# Generate configure and its companions. Needs autoconf, automake and libtool.
#
set -e
cd "$(dirname "$0")"

for tool in autoreconf:autoconf automake:automake libtoolize:libtool; do
    if ! command -v "${tool%%:*}" >/dev/null 2>&1; then
        echo "autogen.sh: ${tool%%:*} was not found: install the package" \
             "'${tool##*:}', or run contrib/setup.sh, which installs all" >&2
        exit 1
    fi
done

mkdir -p config/aux
rm -f config/aux/autogen.stamp
autoreconf --force --install
touch config/aux/autogen.stamp
