#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Builds what wimm-vm boots and puts it into a cache directory:
#
#   build-image.sh CACHE TEMP
#
# CACHE/linux-image-*.deb   the distribution's kernel package, fetched only when there is none yet
# CACHE/image-*/            vmlinux (ELF: boots without a boot loader), initrd, vm-tool; named after what went into it
# CACHE/image               link to the current one
#
# TEMP is a directory inside CACHE to build in, named tmp.*; the caller removes it if this script does not get to.
# Everything appears by rename, so a build that was killed leaves no half image, and the next one starts afresh.
set -uo pipefail
export LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cache=$1
temp=$2

# Modules, each with what it depends on. crc32_generic is asked for by name in rdma_rxe, not by dependency.
base_modules=(virtio_mmio virtio_console 9p 9pnet_virtio overlay)
rdma_modules=(crc32_generic ib_uverbs rdma_rxe rdma_ucm ib_umad)
single_modules=(dummy)
pair_modules=(veth sch_netem)
applets=(sh cat cp cut dmesg env hostname insmod kill ln mkdir mkfifo mount reboot setsid sleep switch_root sync)

die() {
    printf 'wimm-vm: %s\n' "$*" >&2
    exit 1
}

newest_package() {
    local debs=("$cache"/linux-image-*.deb)
    [[ -e ${debs[0]} ]] && printf '%s\n' "${debs[@]}" | sort -V | tail -n 1
}

fetch_package() {
    local name deb
    command -v apt-get >/dev/null || die "there is no apt-get to fetch the Debian kernel package with"
    name=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *|\?Depends: \(linux-image-[0-9].*\)/\1/p' |
           head -n 1)
    [[ -n $name ]] || die "apt does not know the package linux-image-amd64: run 'apt-get update' as root first"
    mkdir "$temp/deb"
    (cd "$temp/deb" && apt-get -qq -o APT::Sandbox::User=root download "$name") >"$temp/apt.log" 2>&1 || {
        cat "$temp/apt.log" >&2
        die "cannot fetch the package $name: run 'apt-get update' as root, then try again"
    }
    deb=$(echo "$temp"/deb/linux-image-*.deb)
    mv "$deb" "$cache/" || die "cannot write to $cache"
}

# bzImage FILE: the header says where the compressed ELF kernel is
extract_vmlinux() {
    local setup offset length magic unpack
    setup=$(od -An -tu1 -j $((0x1f1)) -N 1 "$1")
    read -r offset length < <(od -An -tu4 -j $((0x248)) -N 8 "$1")
    offset=$(((setup + 1) * 512 + offset))
    magic=$(od -An -tx1 -j "$offset" -N 4 "$1" | tr -d ' ')
    case $magic in
    fd377a58) unpack="xz -dc --single-stream" ;;
    28b52ffd) unpack="zstd -dcq" ;;
    1f8b*)    unpack="gzip -dc" ;;
    *)        die "the kernel in $deb is packed in a way that is not known here (magic $magic)" ;;
    esac
    command -v "${unpack%% *}" >/dev/null || die "needs ${unpack%% *} to unpack the kernel: install its package"
    # The size of the unpacked kernel follows the compressed stream: tools may warn about these four bytes
    tail -c +$((offset + 1)) "$1" | head -c "$length" | $unpack 2>/dev/null > "$temp/image/vmlinux"
    [[ $(head -c 4 "$temp/image/vmlinux") == $'\177ELF' ]] || die "cannot unpack the kernel in $deb"
}

# Paths of modules in the order in which they are to be loaded
module_paths() {
    local module
    for module; do
        modprobe -d "$tree" -S "$version" --show-depends "$module" 2>&1 || return
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

# LIST MODULE...: copies the modules and writes the list that guest-init reads
add_modules() {
    local list=$1 path file
    shift
    module_paths "$@" > "$temp/paths" || die "the kernel in $deb lacks one of the modules $*"
    while read -r path; do
        file=${path##*/}
        case $file in
        *.xz)  file=${file%.xz};  xz -dc "$path" > "$root/modules/$file" ;;
        *.zst) file=${file%.zst}; zstd -dcq "$path" > "$root/modules/$file" ;;
        *)     cp "$path" "$root/modules/$file" ;;
        esac || die "cannot unpack $path"
        [[ $file != dummy.ko ]] || file+=" numdummies=0"
        printf '%s\n' "$file" >> "$root/modules/$list.list"
    done < "$temp/paths"
}

build_initrd() {
    local applet
    mkdir -p "$root"/{bin,proc,sys,dev,modules,ctl,lower,layer,new}
    cp "$busybox" "$root/bin/busybox"
    for applet in "${applets[@]}"; do
        ln -s busybox "$root/bin/$applet"
    done
    add_modules base "${base_modules[@]}"
    add_modules rdma "${rdma_modules[@]}"
    add_modules single "${single_modules[@]}"
    add_modules pair "${pair_modules[@]}"
    install -m 755 "$here/guest-init" "$root/init"
    install -m 644 "$here/guest-run" "$root/guest-run"
    (cd "$root" && find . | cpio -o -H newc --quiet) > "$temp/image/initrd" || die "cannot write the initrd"
}

image_name() {
    { cat "$here"/{build-image.sh,guest-init,guest-run,vm-tool.c} "$busybox"; basename "$deb"; } | sha256sum |
        cut -c 1-16 | sed 's/^/image-/'
}

is_current() {
    deb=$(newest_package) && image=$(image_name) && [[ $(readlink "$cache/image") == "$image" && -e $cache/image/vmlinux ]]
}

busybox=$(command -v busybox) || die "there is no busybox: install the package busybox-static"
is_current && exit 0

# One build at a time. Whoever waited finds the result of the other.
{ exec {lock}> "$cache/lock"; } 2>/dev/null || die "cannot write to $cache"
flock "$lock"
is_current && exit 0
printf 'wimm-vm: building the image of the VM in %s: once, some seconds\n' "$cache" >&2

rm -rf "$cache"/tmp.*
trap 'rm -rf "$temp"' EXIT
mkdir "$temp" || die "cannot write to $cache"
if [[ -z $deb ]]; then
    fetch_package
    deb=$(newest_package)
    image=$(image_name)
fi

tree=$temp/tree root=$temp/root
mkdir -p "$temp/image"
dpkg -x "$deb" "$tree" || die "cannot unpack $deb: remove it, then try again"
version=$(basename "$tree"/lib/modules/*)
depmod -b "$tree" "$version" || die "depmod failed for $deb"
extract_vmlinux "$tree/boot/vmlinuz-$version"
build_initrd
cc -O2 -Wall -o "$temp/image/vm-tool" "$here/vm-tool.c" || die "cannot compile vm-tool.c"

rm -rf "${cache:?}/$image"
mv "$temp/image" "$cache/$image"
ln -sfn "$image" "$temp/link"
mv -T "$temp/link" "$cache/image"
for old in "$cache"/image-*; do
    [[ $old == "$cache/$image" ]] || rm -rf "$old"
done
