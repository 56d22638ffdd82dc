#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Install what wimm needs on Debian 12, and fetch into the cache what is not
# installed: the source of the UCX version that is, and the VM's kernel.

set -u
# shellcheck source=contrib/common.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/common.sh" || exit 1

usage() {
    cat <<END
usage: contrib/setup.sh [OPTIONS]

Installs the Debian packages that wimm is built and tested with (as root, or
through sudo), unpacks the source of the installed UCX version for its internal
headers, and prepares the Soft-RoCE VM if this machine has no RDMA device. What
is there already is left alone; a second run changes nothing.

Options
  --build-only  only what a build needs: no VM, no tests
  --no-tests    what the demo needs: no second compiler, no test tools
  --perf        also what contrib/perf/perf.sh plots with
  --print       only print the packages that are missing, install nothing
  --help        this text

Nothing is written outside of \${WIMM_CACHE_DIR:-.cache} but by apt. The system's
apt configuration stays as it is: UCX's source comes through one of its own.
END
}

packages_build="gcc g++ make autoconf automake libtool pkg-config xz-utils
    ca-certificates dpkg-dev libc6-dev libucx-dev ucx-utils libibverbs-dev
    librdmacm-dev libnuma-dev libgtest-dev"
packages_run="iproute2 procps ibverbs-providers ibverbs-utils tcpdump"
packages_vm="qemu-system-x86 busybox-static kmod cpio"
packages_perf="gnuplot-nox"
packages_test="clang clang-format git tshark valgrind libc6-dbg openmpi-bin libopenmpi-dev"

# The packages of a list that are not installed
missing_packages() {
    local name

    for name in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" = \
          installed ] || printf '%s ' "$name"
    done
}

install_packages() {
    local log=$WIMM_CACHE_DIR/apt.log sudo=() apt

    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null ||
            die "root has to install these packages, and there is no sudo:" \
                "apt-get install --no-install-recommends $missing"
        sudo=(sudo)
    fi
    apt=("${sudo[@]}" env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get
         -o DPkg::Lock::Timeout=300)

    say "installing with apt-get: $missing"
    "${apt[@]}" update >"$log" 2>&1 ||
        die "apt-get update failed: $(grep -m 1 -E '^(E|W):' "$log")" \
            "(all of it: $log)"
    # What apt says goes to the log; here, a line for each package as it is ready
    # shellcheck disable=SC2086
    "${apt[@]}" install -y --no-install-recommends $missing 2>&1 |
        tee -a "$log" | sed -u -n 's/^Setting up \([^ ]*\).*/   \1/p'
    [ "${PIPESTATUS[0]}" = 0 ] ||
        die "apt-get install failed: $(grep -m 1 '^E:' "$log")" \
            "(all of it: $log)"
}

# The source lines that belong to the system's package lines
write_sources() {
    local file

    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        sed 's/^Types:.*/Types: deb-src/' "$file" >"$1/$(basename "$file")"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$file" ] || continue
        sed -n 's/^deb[[:space:]]/deb-src /p' "$file" \
            >"$1/$(basename "$file" .list)-src.list"
    done
}

fetch_ucx_source() {
    local version debian dir tmp log=$WIMM_CACHE_DIR/ucx-src.log apt

    # Then the user says where the source of another UCX is
    [[ ${WIMM_CONFIGURE_OPTIONS-} != *--with-ucx-src=* ]] || return 0

    version=$(ucx_info -v 2>/dev/null |
              sed -n 's/^# \(Library version:\|Version\) \([0-9.]*\).*/\2/p' |
              head -n 1)
    [ -n "$version" ] || die "ucx_info -v prints no version: is the installed" \
                             "UCX in order?"
    dir=$WIMM_CACHE_DIR/ucx-src/ucx-$version
    [ -f "$dir/configure.ac" ] && return 0

    debian=$(dpkg-query -W -f '${source:Version}' libucx0 2>/dev/null)
    [ "${debian%%-*}" = "$version" ] ||
        die "the UCX in PATH ($version) is not Debian's (${debian:-none}):" \
            "unpack its source, and set WIMM_CONFIGURE_OPTIONS to" \
            "'--with-ucx-src=DIR' (and '--with-ucx=PREFIX' if need be)"

    say "fetching the source of UCX $debian (its internal headers)"
    rm -rf "$WIMM_CACHE_DIR"/ucx-src.tmp.*
    tmp=$(mktemp -d "$WIMM_CACHE_DIR/ucx-src.tmp.XXXXXX")
    mkdir -p "$tmp/sources" "$tmp/lists/partial" "$tmp/apt"
    write_sources "$tmp/sources"
    apt=(env LC_ALL=C apt-get -o Dir::Etc::sourcelist=/dev/null
         -o "Dir::Etc::sourceparts=$tmp/sources" -o "Dir::State::lists=$tmp/lists"
         -o "Dir::Cache=$tmp/apt" -o APT::Sandbox::User="$(id -un)")
    {
        # A source list that has no sources is no reason to stop
        "${apt[@]}" update
        (cd "$tmp" && "${apt[@]}" source --download-only "ucx=$debian" &&
         dpkg-source --no-check -x ./*.dsc "ucx-$version")
    } >"$log" 2>&1 || {
        rm -rf "$tmp"
        die "the source of UCX $debian could not be fetched:" \
            "$(grep -m 1 '^E:' "$log") (all of it: $log)"
    }

    mkdir -p "$WIMM_CACHE_DIR/ucx-src"
    mv -T "$tmp/ucx-$version" "$dir"
    rm -rf "$tmp"
}

build_only=no
no_tests=no
perf=no
print_only=no
while [ $# -gt 0 ]; do
    case $1 in
    --build-only) build_only=yes ;;
    --no-tests)   no_tests=yes ;;
    --perf)       perf=yes ;;
    --print)      print_only=yes ;;
    --help|-h)    usage; exit 0 ;;
    *)            die "unknown option '$1' (see --help)" ;;
    esac
    shift
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    die "this script knows Debian's packages only; README.md says what is" \
        "needed to build by hand"
fi

# shellcheck disable=SC2086
{
    missing=$(missing_packages $packages_build)
    if [ $build_only = no ]; then
        missing+=$(missing_packages $packages_run)
        wimm_need_vm && missing+=$(missing_packages $packages_vm)
        [ $no_tests = yes ] || missing+=$(missing_packages $packages_test)
    fi
    [ $perf = no ] || missing+=$(missing_packages $packages_perf)
}

if [ $print_only = yes ]; then
    printf '%s\n' "${missing:-nothing is missing}"
    exit 0
fi

wimm_lock
[ -z "$missing" ] || install_packages
fetch_ucx_source
if [ $build_only = no ] && wimm_need_vm; then
    "$WIMM_TOP/contrib/vm/wimm-vm" --prepare || exit 1
fi
exit 0
