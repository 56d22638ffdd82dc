#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# configure: what is missing or does not fit is said in one sentence. Then a build outside the source tree, make install,
# uninstall and dist. Needs no device. UCX is the one that WIMM_BUILD_DIR was configured with.
# shellcheck disable=SC2016 # $ is for the scripts that are written

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"

build=${WIMM_BUILD_DIR:-}
[ -n "$build" ] || for build in "$PWD" "$top/build"; do [ ! -f "$build/config.status" ] || break; done
[ -f "$build/Makefile" ] || { echo "Bail out! no build tree: set WIMM_BUILD_DIR"; exit 1; }
[ -x "$top/configure" ] || { echo "Bail out! there is no configure: run autogen.sh"; exit 1; }
[ ! -f "$top/config.status" ] || tap_skip_all "the source tree is configured itself: make distclean there"

makefile() { # NAME: its value in the build tree's Makefile
    sed -n "s/^$1 = //p" "$build/Makefile"
}
ucx_src=$(makefile UCX_SRC)
ucx_prefix=$(makefile UCX_PREFIX)
ucx_libdir=$(makefile UCX_LIBDIR)
ucx_version=$(makefile UCX_VERSION)

unset "${!WIMM_@}" "${!UCX_@}" CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS MAKEFLAGS MAKELEVEL MFLAGS DESTDIR
export WIMM_CACHE_DIR=/nonexistent # no tree of UCX but those named here
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
: > "$tmp/cache"

# FOLDER OPTION...: runs configure there, with the results of the first run but for those that match $forget. Output goes
# to $out, the exit status to $status. $tools comes first in PATH.
tools='' forget='no such thing'
run_configure() {
    local dir=$tmp/$1
    shift
    mkdir -p "$dir"
    grep -v -E "$forget" "$tmp/cache" > "$dir/config.cache"
    out=$(cd "$dir" && PATH=${tools:+$tools:}$PATH "$top/configure" -C --with-ucx="$ucx_prefix" --with-ucx-src="$ucx_src" "$@" 2>&1)
    status=$?
    tools='' forget='no such thing'
}

count=0
# NAME PART OPTION...: configure has to refuse these with one sentence that contains PART
refused() {
    local name=$1 part=$2
    shift 2
    count=$((count + 1))
    run_configure "bad$count" "$@"
    if [ "$status" -ne 0 ] && [ "$(printf '%s\n' "$out" | grep -c 'error:')" -eq 1 ] &&
            [[ $(printf '%s\n' "$out" | grep 'error:') == "configure: error: "*"$part"* ]]; then
        tap_ok "$name"
    else
        tap_not_ok "$name" "status $status, expected: $part
got: $(printf '%s\n' "$out" | tail -n 5)"
    fi
    rm -rf "${tmp:?}/bad$count"
}

# ---------------------------------------------------------------- a good run, whose results the others use

run_configure good --prefix="$tmp/prefix" --libdir="$tmp/prefix/lib" --disable-gtest
cp "$tmp/good/config.cache" "$tmp/cache"
if [ $status -ne 0 ]; then
    tap_not_ok "configure, out of the source tree" "$(printf '%s\n' "$out" | tail -n 5)"
    tap_done
fi
tap_ok "configure, out of the source tree"
tap_has "configure ends with the UCX that was found" "$(printf '%s\n' "$out" | tail -n 9)" "UCX                  $ucx_version in $ucx_libdir"
tap_has "configure ends with the way the module is loaded" "$(printf '%s\n' "$out" | tail -n 9)" "module is loaded by  "

# ---------------------------------------------------------------- UCX

refused "--without-ucx" "cannot be built --without-ucx" --without-ucx
forget=UCX_INFO
refused "--with-ucx that does not exist" "$tmp/none/bin/ucx_info was not found: --with-ucx takes the prefix" --with-ucx="$tmp/none"

# All commands but one
mkdir "$tmp/commands"
(IFS=:; for dir in $PATH; do [ ! -d "$dir" ] || cp -rsn "$dir/." "$tmp/commands" 2>/dev/null; done)
rm -f "$tmp/commands/ucx_info"
forget=UCX_INFO
saved_path=$PATH
# shellcheck disable=SC2123 # it is meant
PATH=$tmp/commands
refused "no ucx_info in PATH" "ucx_info was not found: install ucx-utils" --with-ucx=yes
PATH=$saved_path
rm -r "$tmp/commands"

# Prefixes whose ucx_info says what it is told to
prefix() { # NAME VERSION-COMMAND BUILD-COMMAND
    mkdir -p "$tmp/$1/bin" "$tmp/$1/lib/ucx"
    printf '#!/bin/sh\ncase $1 in\n-v) %s ;;\n-b) %s ;;\nesac\n' "$2" "$3" > "$tmp/$1/bin/ucx_info"
    chmod +x "$tmp/$1/bin/ucx_info"
}
real=$ucx_prefix/bin/ucx_info
forget=UCX_INFO
prefix broken 'exit 1' 'exit 1'
refused "ucx_info that does not run" "$tmp/broken/bin/ucx_info -v does not run or prints no version" --with-ucx="$tmp/broken"
prefix nobuild "$real -v" true
forget=UCX_INFO
refused "ucx_info without the configuration" "$tmp/nobuild/bin/ucx_info -b does not print the configuration" --with-ucx="$tmp/nobuild"
prefix other 'echo "# Version 1.99.0"' "$real -b"
forget=UCX_INFO
refused "headers of another version" "the headers are of UCX $ucx_version but ucx_info is of UCX 1.99.0" --with-ucx="$tmp/other"
prefix partial "$real -v" "$real -b"
forget=UCX_INFO
refused "a prefix without libraries" "libuct.so.0 was not found below $tmp/partial" --with-ucx="$tmp/partial"
for lib in ucp uct ucs; do
    ln -s "$ucx_libdir/lib$lib.so.0" "$tmp/partial/lib/lib$lib.so.0"
done
forget=UCX_INFO
refused "a UCX without the ib module" "$tmp/partial/lib/ucx/libuct_ib.so.0 was not found: this UCX was built without verbs" --with-ucx="$tmp/partial"
echo 'int nothing_of_verbs;' | cc -shared -fPIC -Wl,-soname,libuct_ib.so.0 -o "$tmp/partial/lib/ucx/libuct_ib.so.0" -x c -
forget=UCX_INFO
refused "a UCX without its development package" "$tmp/partial/lib/libucp.so was not found: install libucx-dev" --with-ucx="$tmp/partial"
for lib in ucp uct ucs; do
    ln -s "lib$lib.so.0" "$tmp/partial/lib/lib$lib.so"
done
forget=UCX_INFO
refused "an ib module without rc_verbs" "the ib module of UCX $ucx_version does not export rc_verbs" --with-ucx="$tmp/partial"

# One that knows UCX_PLUGIN_PATH, as far as configure can see
ln -sf "$ucx_libdir/ucx/libuct_ib.so.0" "$tmp/partial/lib/ucx/libuct_ib.so.0"
rm "$tmp/partial/lib/libucs.so.0"
cp "$ucx_libdir/libucs.so.0" "$tmp/partial/lib/libucs.so.0"
printf 'PLUGIN_PATH\0' >> "$tmp/partial/lib/libucs.so.0"
forget=UCX_INFO
run_configure plugin --with-ucx="$tmp/partial" --disable-gtest
tap_has "a UCX that knows UCX_PLUGIN_PATH: said at the end" "$(printf '%s\n' "$out" | tail -n 9)" "module is loaded by  UCX_PLUGIN_PATH"
tap_is "and handed to make" "$status $(sed -n 's/^UCX_LOAD = //p' "$tmp/plugin/Makefile")" "0 plugin"

# ---------------------------------------------------------------- UCX's source

refused "--with-ucx-src that is no folder" "--with-ucx-src=$tmp/none is not a folder: run contrib/setup.sh" --with-ucx-src="$tmp/none"
mkdir "$tmp/empty"
refused "--with-ucx-src that is not UCX" "$tmp/empty is not a source tree of UCX" --with-ucx-src="$tmp/empty"
refused "no source tree at all" "no source tree of UCX $ucx_version was found: run contrib/setup.sh" --with-ucx-src=yes
mkdir -p "$tmp/src/src/uct/ib/rc/verbs"
echo '#error stub' > "$tmp/src/src/uct/ib/rc/verbs/rc_verbs.h"
sed 's/\(ucx_ver_minor[^0-9]*\)[0-9][0-9]*/\199/' "$ucx_src/configure.ac" > "$tmp/src/configure.ac"
refused "a source tree of another version" "the source tree $tmp/src is of UCX ${ucx_version%%.*}.99.${ucx_version##*.} but UCX $ucx_version is installed" --with-ucx-src="$tmp/src"
cp "$ucx_src/configure.ac" "$tmp/src/configure.ac"
refused "a source tree that does not compile" "the internal headers in $tmp/src do not compile" --with-ucx-src="$tmp/src"

# ---------------------------------------------------------------- what else has to be installed: compilers that lack it

mkdir "$tmp/poison" "$tmp/bin"
lacking() { # HEADER: compilers that do not find it, in $tmp/bin
    local compiler
    rm -rf "${tmp:?}/poison" "${tmp:?}/bin"
    mkdir -p "$tmp/poison/$(dirname "$1")" "$tmp/bin"
    echo '#error not installed' > "$tmp/poison/$1"
    for compiler in gcc g++; do
        printf '#!/bin/sh\nexec %s -I%s "$@"\n' "$(command -v $compiler)" "$tmp/poison" > "$tmp/bin/$compiler"
        chmod +x "$tmp/bin/$compiler"
    done
    tools=$tmp/bin
}
failing() { # PATTERN: compilers that do not take an argument that begins so
    rm -rf "${tmp:?}/bin"
    mkdir "$tmp/bin"
    printf '#!/bin/sh\nfor arg; do\n    case $arg in %s*) echo "$arg?" >&2; exit 1 ;; esac\ndone\nexec %s "$@"\n' \
        "$1" "$(command -v gcc)" > "$tmp/bin/gcc"
    chmod +x "$tmp/bin/gcc"
    tools=$tmp/bin
}

lacking gtest/gtest.h
refused "no googletest" "googletest was not found: install libgtest-dev, or configure with --disable-gtest"
forget=verbs_h
lacking infiniband/verbs.h
refused "no infiniband/verbs.h" "infiniband/verbs.h was not found: install libibverbs-dev" --disable-gtest
forget=uct_api
lacking uct/api/version.h
refused "no headers of UCX" "uct/api/version.h was not found: install libucx-dev" --disable-gtest
if grep -q '^#define HAVE_NUMA  *1' "$tmp/good/ucx_config.h"; then
    forget=numaif
    lacking numaif.h
    refused "no numaif.h" "numaif.h was not found, this UCX uses it: install libnuma-dev" --disable-gtest
else
    tap_skip "no numaif.h" "this UCX does not use it"
fi
forget=lib_ibverbs
failing -libverbs
refused "no libibverbs" "libibverbs does not link: install libibverbs-dev" --disable-gtest
failing -std=gnu11
refused "a compiler without C11" "gcc does not compile C11" --disable-gtest
failing -fsanitize
refused "no address sanitizer" "a sanitizer was asked for but gcc cannot link it" --disable-gtest --enable-asan
failing -nothing
refused "two sanitizers that exclude each other" "--enable-asan and --enable-tsan exclude each other" \
    --disable-gtest --enable-asan --enable-tsan

# ---------------------------------------------------------------- make, install, uninstall

cd "$tmp/good" || exit 1
tap_run "make" make -s -j2 V=0
tap_run "make install DESTDIR=" make -s install DESTDIR="$tmp/dest"
cat > "$tmp/expected" <<'LINES'
bin/wimm-run
bin/wimm_perftest
include/ucp_wimm.h
include/uct/ib/wimm/wimm.h
lib/libucp_wimm.la
lib/libucp_wimm.so
lib/libucp_wimm.so.0
lib/libucp_wimm.so.0.0.0
lib/pkgconfig/ucx-ib-wimm.pc
lib/pkgconfig/ucx-wimm.pc
lib/ucx/libuct_ib_wimm.la
lib/ucx/libuct_ib_wimm.so
lib/ucx/libuct_ib_wimm.so.0
lib/ucx/libuct_ib_wimm.so.0.0.0
libexec/wimm/wimm-ucx-version
LINES
tap_is "exactly these files are installed" \
    "$(cd "$tmp/dest$tmp/prefix" && find . ! -type d | sed 's|^\./||' | LC_ALL=C sort)" "$(LC_ALL=C sort "$tmp/expected")"
tap_is "nothing else below DESTDIR" "$(find "$tmp/dest" ! -type d ! -path "$tmp/dest$tmp/prefix/*")" ""
tap_run "nothing outside DESTDIR" test ! -e "$tmp/prefix"

installed=$tmp/dest$tmp/prefix
output=$(WIMM_MODULE_DIR=$installed/lib/ucx "$installed/bin/wimm-run" --print ucx_info 2>&1)
case $output in
*"$installed/lib/ucx"*UCX_TLS=*) tap_ok "the installed wimm-run, below DESTDIR with WIMM_MODULE_DIR" ;;
*)                               tap_not_ok "the installed wimm-run, below DESTDIR with WIMM_MODULE_DIR" "$output" ;;
esac
output=$("$installed/bin/wimm-run" --print ucx_info 2>&1)
tap_has "the installed wimm-run finds its module below DESTDIR by itself" "$output" "$installed/lib/ucx"
output=$(UCX_LOG_LEVEL=info "$installed/bin/wimm-run" ucx_info -v 2>&1)
tap_has "the installed module loads" "$output" "is registered"
tap_is "what is installed does not refer to the build tree" \
    "$(readelf -d "$installed"/lib/*.so.0.0.0 "$installed"/lib/ucx/*.so.0.0.0 "$installed"/libexec/wimm/* | grep -F "$tmp/good"
       grep -F "$tmp/good" "$installed"/bin/* "$installed"/lib/pkgconfig/*)" ""
printf '#include <uct/ib/wimm/wimm.h>\nint main(void) { return 0; }\n' > "$tmp/user.c"
tap_run "the installed header compiles alone" cc -Wall -Werror -I"$installed/include" \
    ${ucx_prefix:+-isystem "$ucx_prefix/include"} -c -o "$tmp/user.o" "$tmp/user.c"

# Needs no preload: the library brings the module. Below DESTDIR the module is not where it says.
tap_run "a program of the installed library compiles" cc -Wall -Wextra -Werror -std=c99 -pedantic \
    -I"$installed/include" ${ucx_prefix:+-isystem "$ucx_prefix/include"} "$top/test/build/user.c" -o "$tmp/user" \
    -L"$installed/lib" -Wl,-rpath-link,"$installed/lib/ucx" -lucp_wimm -L"$ucx_libdir" -Wl,-rpath,"$ucx_libdir" -lucp
tap_run "and as C++" c++ -Wall -Wextra -Werror -std=c++11 -pedantic -x c++ -I"$installed/include" \
    ${ucx_prefix:+-isystem "$ucx_prefix/include"} -c "$top/test/build/user.c" -o "$tmp/user.o"
output=$(LD_LIBRARY_PATH=$installed/lib:$installed/lib/ucx UCX_TLS=self "$tmp/user" 2>&1)
tap_is "it runs, and attaches" "$output" "attached, 32 bits"

# The program of README.md, as it is printed there
awk '/^<!-- .*test_configure.sh compiles and runs this/ {found = 1; next}
     found && /^```$/ {exit} inside {print} found && /^```c$/ {inside = 1}' \
    "$top/README.md" >"$tmp/readme.c"
tap_is "README's program has 30 lines" "$(wc -l <"$tmp/readme.c")" 30
tap_run "it compiles as printed" cc -Wall -Wextra -Werror -I"$installed/include" \
    ${ucx_prefix:+-isystem "$ucx_prefix/include"} "$tmp/readme.c" -o "$tmp/readme" \
    -L"$installed/lib" -Wl,-rpath-link,"$installed/lib/ucx" -lucp_wimm \
    -L"$ucx_libdir" -Wl,-rpath,"$ucx_libdir" -lucp
for tls in self tcp sm; do
    output=$(LD_LIBRARY_PATH=$installed/lib:$installed/lib/ucx UCX_TLS=$tls timeout 60 "$tmp/readme" 2>&1)
    tap_is "it runs over $tls" "$output" "42: notified"
done

tap_run "make uninstall" make -s uninstall DESTDIR="$tmp/dest"
tap_is "uninstall leaves nothing" "$(find "$tmp/dest" ! -type d)" ""

# ---------------------------------------------------------------- make dist

tap_run "make dist" make -s dist
tap_run "the tarball unpacks" tar -xzf "$(echo wimm-*.tar.gz)" -C "$tmp"
unpacked=$(echo "$tmp"/wimm-*/)
tap_is "the tarball has no build products" \
    "$(find "$unpacked" -name '*.o' -o -name '*.lo' -o -name config.status -o -name '*.rej' -o -name '*.orig')" ""
mkdir "$tmp/from-dist"
cp "$tmp/cache" "$tmp/from-dist/config.cache"
tap_run "the tarball configures" sh -c "cd '$tmp/from-dist' && '$unpacked/configure' -C --disable-gtest \
    --with-ucx='$ucx_prefix' --with-ucx-src='$ucx_src'"
tap_run "the tarball builds" make -s -j2 -C "$tmp/from-dist"
tap_run "wimm-run of the tarball's build works" "$tmp/from-dist/src/tools/wimm-run" --print ucx_info

cd / && tap_done
