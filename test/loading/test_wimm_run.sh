#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# wimm-run, as far as it needs no RDMA device. Other UCX installations are imitated in a temporary folder: stubs, where
# the version alone matters, and copies of the installed libraries where the module has to load.
# shellcheck disable=SC2016 # $ is for the shells that are started

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"
# shellcheck source=test/lib/build_tree.sh
. "$top/test/lib/build_tree.sh"
module_dir=$build/src/uct/ib/wimm/.libs
module=$module_dir/libuct_ib_wimm.so.0
cc=${CC:-cc}
! grep -q '^WIMM_SANITIZE_FLAGS = .*address' "$build/Makefile" ||
    tap_skip_all "this build has the address sanitizer, which wimm-run preloads, too"

# The caller's settings are not what is tested
unset "${!UCX_@}" "${!WIMM_@}" LD_PRELOAD LD_LIBRARY_PATH
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
export HOME=$tmp

version=$("$run" --version | sed -n 's/.*for UCX \(.*\))$/\1/p')
libucp=$(ldd "$(command -v ucx_info)" | sed -n 's/^\tlibucp.so.0 => \(.*\) (.*/\1/p')
libdir=$(dirname "$libucp")
built_libdir=$(sed -n 's/^UCX_LIBDIR = //p' "$build/Makefile")

# Runs a command: its output goes to $out, messages to $err, exit status to $status
try() {
    out=$("$@" 2>"$tmp/err" </dev/null)
    status=$?
    err=$(cat "$tmp/err")
}

# NAME STATUS SENTENCE-PART...: what the last try ended with. One line of error, no usage text or debris.
refused() {
    local name=$1 expected=$2 part
    shift 2
    if [ "$status" -ne "$expected" ] || [ "$(printf '%s\n' "$err" | wc -l)" -ne 1 ] || [ -n "$out" ]; then
        tap_not_ok "$name" "status $status (expected $expected), stdout: $out
stderr: $err"
        return
    fi
    for part in 'wimm-run: ' "$@"; do
        case $err in
        *"$part"*) ;;
        *)         tap_not_ok "$name" "got: $err
which lacks: $part"
                   return ;;
        esac
    done
    tap_ok "$name"
}

# NAME TEXT PART
lacks() {
    case $2 in
    *"$3"*) tap_not_ok "$1" "got: $2
which has: $3" ;;
    *)      tap_ok "$1" ;;
    esac
}

setting() { # NAME: its value in the last try's output
    printf '%s\n' "$out" | sed -n "s/^$1=//p"
}

# ---------------------------------------------------------------- --print

try "$run" --print ucx_info
tap_is "--print of a program linked with UCX: status" "$status$err" 0
tap_is "--print: LD_PRELOAD" "$(setting LD_PRELOAD)" "$module"
tap_is "--print: UCX_TLS" "$(setting UCX_TLS)" wimm,ud_verbs:aux
tap_is "--print: UCX_WIMM_PREFER" "$(setting UCX_WIMM_PREFER)" y
tap_has "--print says whose UCX it is" "$out" "ucx_info is linked with UCX"
tap_has "--print names the UCX" "$out" "# UCX $version: $libucp"
tap_has "--print says why it is LD_PRELOAD" "$out" "libucs.so.0 does not know UCX_PLUGIN_PATH"
tap_is "--print prints only comments and assignments" \
    "$(printf '%s\n' "$out" | grep -v -E '^(# .+|[A-Z_]+=[^ ]+)$')" ""

try "$run" --print
tap_is "--print without a command" "$status:$(setting LD_PRELOAD)" "0:$module"

try "$run" --print sh -c "touch $tmp/was-run"
tap_run "--print does not run the command" test ! -e "$tmp/was-run"
tap_has "a program that may load UCX later: the loader's default" "$out" "sh is not linked with UCX"

printf '#!/bin/sh\necho ran "$@"\n' > "$tmp/script"
chmod +x "$tmp/script"
try "$run" --print "$tmp/script"
tap_has "a script: the loader's default" "$out" "$tmp/script is a script"
tap_has "a script: UCX is found" "$out" "# UCX $version: "
try "$run" "$tmp/script" a b
tap_is "a script is run" "$status:$out" "0:ran a b"

try "$run" --print ucx_info
printed=$out
try "$run" env
tap_is "what is printed is what is set" \
    "$(printf '%s\n' "$out" | grep -E '^(LD_PRELOAD|UCX_[A-Z_]*)=' | sort)" \
    "$(printf '%s\n' "$printed" | grep -v '^#' | sort)"

try env LD_PRELOAD=libm.so.6 UCX_WEIRD="it's a b" "$run" --print --force "$tmp/script"
tap_is "printed values can be read by a shell" \
    "$(eval "$out"; printf '%s' "$LD_PRELOAD")" "libm.so.6:$module"

# ---------------------------------------------------------------- the module is there

try env UCX_LOG_LEVEL=info "$run" ucx_info -v
tap_has "the module is loaded into a stock program" "$out" "transport wimm"
tap_has "the module is registered" "$out" "is registered (UCX $version)"
try env UCX_LOG_LEVEL=info ucx_info -v
lacks "without wimm-run it is not" "$out" "transport wimm"

mkdir "$tmp/bin"
ln -s "$run" "$tmp/bin/wimm-run"
try env PATH="$tmp/bin:$PATH" wimm-run --print
tap_is "started through a symbolic link" "$(setting LD_PRELOAD)" "$module"

# ---------------------------------------------------------------- what the user has set is kept

try env UCX_TLS=tcp "$run" sh -c 'echo "$UCX_TLS"'
tap_is "UCX_TLS of the user" "$status:$out" 0:tcp
try env UCX_TLS=tcp "$run" --print
tap_is "UCX_TLS of the user is not printed as a setting" "$(setting UCX_TLS)" ""
tap_has "--print says that UCX_TLS is the user's" "$out" "# UCX_TLS is set and left as it is: tcp"
try env UCX_TLS= "$run" sh -c 'echo "${UCX_TLS-unset}"'
tap_is "an empty UCX_TLS of the user" "$status:$out" 0:
mkdir "$tmp/conf"
echo 'UCX_TLS = rc' > "$tmp/conf/ucx.conf"
try env UCX_CONFIG_DIR="$tmp/conf" "$run" --print
tap_is "UCX_TLS in the user's ucx.conf" "$status:$(setting UCX_TLS)" 0:
tap_has "--print names the ucx.conf" "$out" "# UCX_TLS is set by $tmp/conf/ucx.conf"
echo '#UCX_TLS = rc' > "$tmp/conf/ucx.conf"
try env UCX_CONFIG_DIR="$tmp/conf" "$run" --print
tap_is "UCX_TLS in a comment of ucx.conf does not count" "$(setting UCX_TLS)" wimm,ud_verbs:aux

# LD_PRELOAD: two small libraries of our own
for name in one two; do
    echo "int wimm_test_$name;" | "$cc" -shared -fPIC -o "$tmp/lib$name.so" -x c - || tap_comment "$cc failed"
done
try env LD_PRELOAD="$tmp/libone.so" "$run" --print
tap_is "LD_PRELOAD is appended to" "$(setting LD_PRELOAD)" "$tmp/libone.so:$module"
try env LD_PRELOAD="$tmp/libone.so $tmp/libtwo.so" "$run" cat /proc/self/maps
tap_is "all that is preloaded is in the program" \
    "$(printf '%s\n' "$out" | grep -o -E 'lib(one|two|uct_ib_wimm)\.so' | sort -u | xargs)" \
    "libone.so libtwo.so libuct_ib_wimm.so"
try "$run" "$run" "$run" sh -c 'echo "$LD_PRELOAD"'
tap_is "wimm-run in wimm-run adds nothing" "$status:$out" "0:$module"
try env LD_PRELOAD="$tmp/libone.so" "$run" "$run" sh -c 'echo "$LD_PRELOAD"'
tap_is "wimm-run in wimm-run keeps LD_PRELOAD" "$status:$out" "0:$tmp/libone.so:$module"

try env LD_PRELOAD="$module" "$run" "$run" sh -c 'echo "$LD_PRELOAD"'
tap_is "the module in LD_PRELOAD already" "$status:$out" "0:$module"
mkdir "$tmp/other"
cp "$module" "$tmp/other"
try env LD_PRELOAD="$tmp/other/libuct_ib_wimm.so.0" "$run" true
refused "another wimm module in LD_PRELOAD" 1 "$tmp/other/libuct_ib_wimm.so.0" "LD_PRELOAD"

# ---------------------------------------------------------------- the program is on its own

try "$run" sh -c 'printf "<%s>" "$@"' sh 'a b' '' "it's" '$HOME' '*' $'two\nlines' -- --print
tap_is "arguments" "$out" $'<a b><><it\'s><$HOME><*><two\nlines><--><--print>'
for code in 0 3 125; do
    try "$run" sh -c "exit $code"
    tap_is "exit status $code" "$status" "$code"
done
tap_is "standard input" "$(echo hello | "$run" cat)" hello
try "$run" sh -c 'echo out; echo err >&2'
tap_is "standard output and error" "$out $err" "out err"
tap_is "ended by a signal" "$( ("$run" sh -c 'kill -TERM $$'; echo $?) 2>/dev/null)" 143

mkfifo "$tmp/fifo"
"$run" sh -c 'echo $$; read line' > "$tmp/fifo" &
child=$!
read -r pid < "$tmp/fifo"
tap_is "the program has wimm-run's process id" "$pid" "$child"
wait "$child"

# Names that the script uses itself, and one that no shell can have
common=(PATH="$PATH" HOME="$tmp" version=1 module=2 command=3 program=4 ucp=5 force=6 name=7 odd.name=8 others=9)
env -i "${common[@]}" "$run" env | grep -v -E '^(_|SHLVL|PWD|OLDPWD|LD_PRELOAD|UCX_[A-Z_]*)=' | sort > "$tmp/env"
tap_is "the rest of the environment" "$(cat "$tmp/env")" "$(printf '%s\n' "${common[@]}" | sort)"

# ---------------------------------------------------------------- wrong usage, and what cannot be run

try "$run"
refused "no command" 2 "no command" "--help"
try "$run" ''
refused "an empty command" 2 "no command"
try "$run" --frobnicate true
refused "an unknown option" 2 "'--frobnicate'" "--help"
try "$run" --module-dir
refused "--module-dir without a folder" 2 "--module-dir needs"
try "$run" no-such-command-here
refused "a command that is not in PATH" 127 "no-such-command-here was not found"
try "$run" "$tmp/no/such/file" 
refused "a path that does not exist" 127 "$tmp/no/such/file was not found"
try "$run" "$tmp"
refused "a folder" 126 "$tmp cannot be run"
echo data > "$tmp/data"
try "$run" "$tmp/data"
refused "a file that is not executable" 126 "$tmp/data cannot be run"
try "$run" -- "$tmp/script" x
tap_is "-- ends the options" "$status:$out" "0:ran x"
try "$run" --help
tap_is "--help" "$status$err" 0
for word in --print --module-dir --force 126 127 UCX_PLUGIN_PATH LD_PRELOAD UCX_TLS UCX_UD_VERBS_ETH_DGID_CHECK; do
    tap_has "--help explains $word" "$out" "$word"
done
try "$run" --version
tap_is "--version" "$status:$(printf '%s\n' "$out" | grep -c -E '^wimm-run [0-9.]+ \(for UCX [0-9.]+\)$')" 0:1

# ---------------------------------------------------------------- the module's folder

try "$run" --module-dir "$tmp/no-folder" true
refused "a module folder that does not exist" 1 "module folder $tmp/no-folder does not exist"
mkdir "$tmp/empty"
try "$run" --module-dir="$tmp/empty" true
refused "a folder without the module" 1 "$tmp/empty/libuct_ib_wimm.so.0 does not exist"
try env WIMM_MODULE_DIR="$tmp/empty" "$run" true
refused "WIMM_MODULE_DIR without the module" 1 "$tmp/empty/libuct_ib_wimm.so.0 does not exist"
try env WIMM_MODULE_DIR="$tmp/other" "$run" --print
tap_is "WIMM_MODULE_DIR" "$(setting LD_PRELOAD)" "$tmp/other/libuct_ib_wimm.so.0"
try env WIMM_MODULE_DIR="$tmp/empty" "$run" --module-dir "$tmp/other" --print
tap_is "--module-dir before WIMM_MODULE_DIR" "$(setting LD_PRELOAD)" "$tmp/other/libuct_ib_wimm.so.0"
(
    cd "$tmp" || exit
    export CDPATH=/
    try "$run" --module-dir other --print
    setting LD_PRELOAD
) > "$tmp/relative"
tap_is "a relative folder becomes absolute" "$(cat "$tmp/relative")" "$tmp/other/libuct_ib_wimm.so.0"

mkdir "$tmp/broken" "$tmp/with space"
seq 1000 > "$tmp/broken/libuct_ib_wimm.so.0"
try "$run" --module-dir "$tmp/broken" true
refused "a module that does not load, with the loader's words" 1 "does not load into UCX $version" "invalid ELF header"
cp "$module" "$tmp/with space"
try "$run" --module-dir "$tmp/with space" true
refused "a folder that LD_PRELOAD cannot name" 1 "LD_PRELOAD cannot name $tmp/with space/"

mkdir "$tmp/misfit"
"$cc" -shared -fPIC -o "$tmp/misfit/libuct_ib_wimm.so.0" -x c - <<'CODE'
#include <stdio.h>
__attribute__((constructor)) static void init(void)
{
    puts("[0.0] [x:1:0] wimm_tl.c:1 UCX  WARN  transport wimm is not available: uct_ep_t has 1 byte, not 2");
}
CODE
try "$run" --module-dir "$tmp/misfit" true
refused "a module that refuses to register, with its words" 1 "does not fit UCX $version" "uct_ep_t has 1 byte, not 2"

# ---------------------------------------------------------------- programs that use another UCX

# Three stubs that only know a version
mkdir "$tmp/stub"
stub() { # NAME CODE [ARG...]
    local name=$1 code=$2
    shift 2
    echo "$code" | "$cc" -shared -fPIC -Wl,-soname,"$name.so.0" -o "$tmp/stub/$name.so.0" -x c - -x none "$@" ||
        tap_comment "$cc failed"
}
stub libucs 'int ucs_stub;'
stub libuct 'extern int ucs_stub; int uct_stub(void); int uct_stub(void) { return ucs_stub; }' "$tmp/stub/libucs.so.0"
stub libucp 'int uct_stub(void); int ucp_stub(void); int ucp_stub(void) { return uct_stub(); }
             const char *ucp_get_version_string(void) { return "1.99.0"; }' -L"$tmp/stub" "$tmp/stub/libuct.so.0" \
             -Wl,-rpath-link,"$tmp/stub"

for program in ucx_info "$tmp/script" sh; do
    try env LD_LIBRARY_PATH="$tmp/stub" "$run" "$program" -c true
    refused "another version for ${program##*/}" 1 "built for UCX $version ($built_libdir/libucp.so.0)" \
        "UCX 1.99.0 ($tmp/stub/libucp.so.0)" "$module" "$program uses"
done
try env LD_LIBRARY_PATH="$tmp/stub" "$run" --print
refused "another version, --print without a command" 1 "UCX 1.99.0"
try env LD_LIBRARY_PATH="$tmp/stub" "$run" --force --print
tap_is "another version, --force: the module is set" "$status:$(setting LD_PRELOAD)" "0:$module"
tap_has "another version, --force --print says so" "$out" "UCX 1.99.0 ($tmp/stub/libucp.so.0): build wimm for that UCX (--force)"
cp -r "$tmp/stub" "$tmp/stub-plugin" # one that the module need not be preloaded for: the stubs lack all it needs
printf 'PLUGIN_PATH\0' >> "$tmp/stub-plugin/libucs.so.0"
try env LD_LIBRARY_PATH="$tmp/stub-plugin" "$run" --force sh -c 'echo "$UCX_PLUGIN_PATH"; exit 5'
tap_is "another version, --force: the program is run" "$out:$status" "$module_dir:5"

# The program's own search path, and not the loader's default, decides
echo 'int ucp_stub(void); int main(void) { return ucp_stub(); }' > "$tmp/program.c"
"$cc" -o "$tmp/program" "$tmp/program.c" "$tmp/stub/libucp.so.0" -Wl,-rpath,"$tmp/stub" \
    -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined || tap_comment "$cc failed"
try "$run" "$tmp/program"
refused "another version by the program's RPATH" 1 "UCX 1.99.0 ($tmp/stub/libucp.so.0)"

# A library of UCX that nobody has
sed 's/ucp_stub/wimm_test_nobody/g' "$tmp/program.c" > "$tmp/orphan.c"
mkdir "$tmp/gone"
echo 'int wimm_test_nobody(void); int wimm_test_nobody(void) { return 0; }' |
    "$cc" -shared -fPIC -Wl,-soname,libucp.so.9 -o "$tmp/gone/libucp.so.9" -x c -
"$cc" -o "$tmp/orphan" "$tmp/orphan.c" "$tmp/gone/libucp.so.9" || tap_comment "$cc failed"
rm -r "$tmp/gone"
try "$run" "$tmp/orphan"
refused "a program whose UCX is not there" 1 "does not find libucp.so.9" "LD_LIBRARY_PATH"

# No UCX in the loader's default: imitated for the one who asks
"$cc" -shared -fPIC -o "$tmp/libnoucx.so" -x c - <<'CODE'
#include <stddef.h>
void *dlopen(const char *file, int mode);
char *dlerror(void);
void *dlopen(const char *file, int mode) { (void)file; (void)mode; return NULL; }
char *dlerror(void) { return "libucp.so.0: cannot open shared object file: No such file or directory"; }
CODE
try env LD_PRELOAD="$tmp/libnoucx.so" "$run" sh
refused "no UCX at all" 1 "no UCX was found for sh" "UCX $version in $built_libdir" "LD_LIBRARY_PATH"

echo 'int main(void) { return 0; }' > "$tmp/plain.c"
if "$cc" -static -o "$tmp/static" "$tmp/plain.c" 2>/dev/null; then
    try "$run" "$tmp/static"
    refused "a static program" 1 "$tmp/static is linked statically"
else
    tap_skip "a static program" "$cc -static does not link"
fi
"$cc" -o "$tmp/setuid" "$tmp/plain.c" && chmod u+s "$tmp/setuid"
try "$run" "$tmp/setuid"
refused "a set-user-id program" 1 "$tmp/setuid runs with another user's"

# ---------------------------------------------------------------- copies of the installed UCX

copy_ucx() { # FOLDER
    mkdir -p "$1/ucx"
    cp "$libdir"/libuc[mstp].so.0 "$1"
    cp "$libdir/ucx/libuct_ib.so.0" "$1/ucx"
}
copy_ucx "$tmp/copy"
copy=$(cd "$tmp/copy" && pwd -P)
try env LD_LIBRARY_PATH="$copy" "$run" --print ucx_info
tap_is "the same version elsewhere: with its own ib module" "$(setting LD_PRELOAD)" "$copy/ucx/libuct_ib.so.0:$module"
try env LD_LIBRARY_PATH="$copy" "$run" env LD_DEBUG=files LD_DEBUG_OUTPUT="$tmp/debug" ucx_info -d
tap_is "and only that one is loaded" \
    "$status:$(cat "$tmp"/debug.* | sed -n 's|.*calling init: \(.*/libuct_ib\.so.*\)|\1|p' | sort -u | xargs)" \
    "0:$copy/ucx/libuct_ib.so.0"
try env LD_LIBRARY_PATH="$copy" "$run" "$run" sh -c 'echo "$LD_PRELOAD"'
tap_is "the same version elsewhere, wimm-run in wimm-run" "$status:$out" "0:$copy/ucx/libuct_ib.so.0:$module"

rm "$copy/ucx/libuct_ib.so.0"
try env LD_LIBRARY_PATH="$copy" "$run" ucx_info -v
refused "a UCX without its ib module" 1 "$copy/ucx/libuct_ib.so.0" "no module for RDMA devices"

# One that knows UCX_PLUGIN_PATH, as wimm-run can see it
copy_ucx "$tmp/plugin"
printf 'PLUGIN_PATH\0' >> "$tmp/plugin/libucs.so.0"
try env LD_LIBRARY_PATH="$tmp/plugin" "$run" --print ucx_info
tap_is "UCX_PLUGIN_PATH where UCX knows it" "$(setting UCX_PLUGIN_PATH)" "$module_dir"
tap_is "and no LD_PRELOAD then" "$status:$(setting LD_PRELOAD)" 0:
tap_has "--print says why it is UCX_PLUGIN_PATH" "$out" "libucs.so.0 knows UCX_PLUGIN_PATH"
try env LD_LIBRARY_PATH="$tmp/plugin" UCX_PLUGIN_PATH=/a:/b "$run" --print ucx_info
tap_is "UCX_PLUGIN_PATH is appended to" "$(setting UCX_PLUGIN_PATH)" "/a:/b:$module_dir"
try env LD_LIBRARY_PATH="$tmp/plugin" UCX_PLUGIN_PATH=/a LD_PRELOAD="$tmp/libone.so" "$run" "$run" \
    sh -c 'echo "$UCX_PLUGIN_PATH $LD_PRELOAD"'
tap_is "UCX_PLUGIN_PATH, wimm-run in wimm-run, and LD_PRELOAD left alone" "$status:$out" \
    "0:/a:$module_dir $tmp/libone.so"
try env LD_LIBRARY_PATH="$tmp/plugin" "$run" --module-dir "$tmp/with space" --print ucx_info
tap_is "UCX_PLUGIN_PATH with a space, quoted" "$(eval "$out"; printf '%s' "$UCX_PLUGIN_PATH")" "$tmp/with space"

# ---------------------------------------------------------------- Soft-RoCE

expected=''
for device in /sys/class/infiniband/rxe*; do
    [ ! -e "$device" ] || expected=n
done
try "$run" --print
tap_is "UCX_UD_VERBS_ETH_DGID_CHECK only where there is Soft-RoCE${expected:+, as here}" \
    "$(setting UCX_UD_VERBS_ETH_DGID_CHECK)" "$expected"
try env UCX_UD_VERBS_ETH_DGID_CHECK=y "$run" sh -c 'echo $UCX_UD_VERBS_ETH_DGID_CHECK'
tap_is "UCX_UD_VERBS_ETH_DGID_CHECK of the user" "$out" y

tap_done
