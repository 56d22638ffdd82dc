# shellcheck shell=bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# What setup.sh, demo.sh and check.sh share: where things are, messages, one at a
# time, the build, and where commands that need an RDMA device run. To be sourced.

unset CDPATH
WIMM_TOP=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd -P) ||
    exit 1
WIMM_JOBS=$(nproc)
WIMM_JOB=

say() {
    printf '== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

case $WIMM_TOP in
*[[:space:]]*)
    die "autotools cannot build in '$WIMM_TOP': move it to a path without spaces"
    ;;
esac

WIMM_CACHE_DIR=${WIMM_CACHE_DIR:-$WIMM_TOP/.cache}
if ! mkdir -p "$WIMM_CACHE_DIR" 2>/dev/null || [ ! -w "$WIMM_CACHE_DIR" ]; then
    die "cannot write to $WIMM_CACHE_DIR (WIMM_CACHE_DIR names another folder)"
fi
WIMM_CACHE_DIR=$(cd "$WIMM_CACHE_DIR" && pwd -P)
export WIMM_CACHE_DIR

# wimm_lock: from here on, only one of these scripts at a time works in this tree
wimm_lock() {
    [ -z "${WIMM_LOCKED-}" ] || return 0
    exec 9>"$WIMM_CACHE_DIR/lock"
    if ! flock -n 9; then
        say "waiting for another run in this tree"
        flock 9
    fi
    export WIMM_LOCKED=1
}

wimm_unlock() {
    exec 9>&-
    unset WIMM_LOCKED
}

# wimm_job COMMAND...: a command, or a function, in a process group of its own, so
# that a signal to the script ends all that was started
wimm_job() {
    local status

    set -m
    "$@" &
    set +m
    WIMM_JOB=$!
    wait $WIMM_JOB
    status=$?
    WIMM_JOB=
    return $status
}

# shellcheck disable=SC2317 # called by traps
wimm_on_signal() {
    trap '' INT TERM HUP
    if [ -n "$WIMM_JOB" ]; then
        kill -TERM -- "-$WIMM_JOB" 2>/dev/null
        wait "$WIMM_JOB"
    fi
    exit $((128 + $1))
}
trap 'wimm_on_signal 1' HUP
trap 'wimm_on_signal 2' INT
trap 'wimm_on_signal 15' TERM

# An RDMA device of the host with an active port: "mlx5_0", or nothing
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

# Whether commands that need a device have to run in the VM. WIMM_FORCE_VM=y is for
# hosts whose device has no RC queue pairs.
wimm_need_vm() {
    [ "${WIMM_FORCE_VM-}" = y ] || [ -z "$(wimm_host_device)" ]
}

# wimm_on_device single|pair SECONDS COMMAND...: on the host's device if there
# is one, in the VM otherwise. A third CPU in the VM keeps the network running
# while two processes poll; WIMM_VM_CPUS=1 is much faster for one process alone.
wimm_on_device() {
    local net=$1 seconds=$2

    shift 2
    if wimm_need_vm; then
        "$WIMM_TOP/contrib/vm/wimm-vm" --net "$net" --timeout "$seconds" \
            --cpus "${WIMM_VM_CPUS:-3}" --memory "${WIMM_VM_MEMORY:-4096}" -- "$@"
    else
        timeout -k 10 "$seconds" "$@"
    fi
}

# Whether configure has to be generated: autogen.sh has not come to its end, or
# something that it reads is newer
wimm_autotools_changed() {
    local stamp=$WIMM_TOP/config/aux/autogen.stamp

    [ ! -f "$stamp" ] ||
        [ -n "$(find "$WIMM_TOP/configure.ac" "$WIMM_TOP/autogen.sh" \
                     "$WIMM_TOP"/config/m4/[!l]*.m4 "$WIMM_TOP/Makefile.am" \
                     "$WIMM_TOP/src" "$WIMM_TOP/test" "$WIMM_TOP/examples" \
                     -newer "$stamp" \
                     \( -name '*.m4' -o -name '*.am' -o -name configure.ac \
                        -o -name autogen.sh \) -print -quit)" ]
}

# wimm_build FOLDER [CONFIGURE-OPTION...]: build the tree in a folder, which is
# configured anew only when its options or configure itself have changed.
# WIMM_CONFIGURE_OPTIONS has more of them, --with-ucx=PREFIX for instance. One at a time:
# suites of check.sh that run beside each other may want the same folder.
wimm_build() {
    (
        flock 8
        wimm_build_locked "$@"
    ) 8>"$WIMM_CACHE_DIR/build.lock"
}

wimm_build_locked() {
    local dir=$1 stamp options

    shift
    # shellcheck disable=SC2086
    set -- "$@" ${WIMM_CONFIGURE_OPTIONS-}
    options="$*"
    stamp=$dir/.wimm-options

    if [ -f "$WIMM_TOP/config.status" ]; then
        echo "the source tree itself was configured: run 'make distclean' there," \
             "and build in a folder of its own" >&2
        return 1
    fi

    if wimm_autotools_changed; then
        say "generating configure"
        "$WIMM_TOP/autogen.sh" >"$WIMM_CACHE_DIR/autogen.log" 2>&1 || {
            tail -n 20 "$WIMM_CACHE_DIR/autogen.log" >&2
            return 1
        }
    fi

    mkdir -p "$dir"
    if [ ! -f "$stamp" ] || [ "$WIMM_TOP/configure" -nt "$stamp" ] ||
       [ "$options" != "$(cat "$stamp")" ]; then
        say "configuring $(basename "$dir") $options"
        rm -f "$stamp"
        (cd "$dir" && "$WIMM_TOP/configure" -q "$@" \
            >configure.out 2>&1) || {
            tail -n 5 "$dir/configure.out" >&2
            return 1
        }
        printf '%s\n' "$options" >"$stamp"
        sed -n '/^  wimm/,$p' "$dir/configure.out"
    fi

    say "compiling $(basename "$dir")"
    make -s --no-print-directory -C "$dir" -j"$WIMM_JOBS" V=0
}
