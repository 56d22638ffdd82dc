# shellcheck shell=bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# What setup.sh, demo.sh and check.sh share: where things are, messages, the
# build, and where commands that need an RDMA device run. To be sourced.

WIMM_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export WIMM_CACHE_DIR=${WIMM_CACHE_DIR:-$WIMM_TOP/.cache}
WIMM_JOBS=$(nproc)

say() {
    printf '== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# An RDMA device of the host with an active port: "rxe0", or nothing
wimm_host_device() {
    local state

    for state in /sys/class/infiniband/*/ports/*/state; do
        if grep -q ACTIVE "$state" 2>/dev/null; then
            state=${state#/sys/class/infiniband/}
            echo "${state%%/*}"
            return 0
        fi
    done
}

# Whether commands that need a device have to run in the VM
wimm_need_vm() {
    [ -z "$(wimm_host_device)" ]
}

# wimm_on_device single|pair SECONDS COMMAND...: on the host's device if there
# is one, in the VM otherwise. A third CPU in the VM keeps the network running
# while two processes poll.
wimm_on_device() {
    local net=$1 seconds=$2

    shift 2
    if wimm_need_vm; then
        "$WIMM_TOP/contrib/vm/wimm-vm" --net "$net" --timeout "$seconds" \
            --cpus 3 --memory "${WIMM_VM_MEMORY:-4096}" -- "$@"
    else
        timeout -k 10 "$seconds" "$@"
    fi
}

# Whether something that configure and the Makefile.in are made of is newer. The
# rebuild rules of automake do it as well, but do not add missing files.
wimm_autotools_changed() {
    [ -n "$(find "$WIMM_TOP/configure.ac" "$WIMM_TOP/autogen.sh" \
                 "$WIMM_TOP"/config/m4/[!l]*.m4 "$WIMM_TOP/Makefile.am" \
                 "$WIMM_TOP/src" "$WIMM_TOP/test" "$WIMM_TOP/examples" \
                 -newer "$WIMM_TOP/configure" \
                 \( -name '*.m4' -o -name '*.am' -o -name configure.ac \
                    -o -name autogen.sh \) -print -quit)" ]
}

# wimm_build FOLDER [CONFIGURE-OPTION...]: build the tree in a folder, which is
# configured anew only when its options or configure itself have changed
wimm_build() {
    local dir=$1 options

    shift
    options="$*"
    if [ ! -x "$WIMM_TOP/configure" ] || wimm_autotools_changed; then
        say "generating configure"
        "$WIMM_TOP/autogen.sh" >"$WIMM_CACHE_DIR/autogen.log" 2>&1 || {
            tail -n 20 "$WIMM_CACHE_DIR/autogen.log" >&2
            return 1
        }
    fi

    mkdir -p "$dir"
    if [ ! -f "$dir/config.status" ] ||
       [ "$WIMM_TOP/configure" -nt "$dir/config.status" ] ||
       [ "$options" != "$(cat "$dir/.wimm-options" 2>/dev/null)" ]; then
        say "configuring $(basename "$dir") $options"
        rm -f "$dir/config.status"
        (cd "$dir" && "$WIMM_TOP/configure" -q "$@" \
            >configure.out 2>&1) || {
            tail -n 5 "$dir/configure.out" >&2
            return 1
        }
        printf '%s\n' "$options" >"$dir/.wimm-options"
        sed -n '/^  wimm/,$p' "$dir/configure.out"
    fi

    say "compiling $(basename "$dir")"
    make -s -C "$dir" -j"$WIMM_JOBS" V=0
}
