# shellcheck shell=bash disable=SC2034 # for the scripts that source this file
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The build tree under test: WIMM_BUILD_DIR, the current directory, or build/. Source it after top is set to the source
# tree; it sets build, and run, the wimm-run in it.

build=${WIMM_BUILD_DIR:-}
[ -n "$build" ] || for build in "$PWD" "$top/build"; do [ ! -x "$build/src/tools/wimm-run" ] || break; done
[ -x "$build/src/tools/wimm-run" ] || { echo "Bail out! no build tree: set WIMM_BUILD_DIR"; exit 1; }
build=$(cd "$build" && pwd -P)
run=$build/src/tools/wimm-run
