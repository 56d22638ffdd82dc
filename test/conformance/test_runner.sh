#!/bin/bash
#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# run.sh and compare.sh notice what they have to, with a program in place of UCX's tests that does what it is told. Needs
# neither UCX nor a device.

set -u

here=$(cd "$(dirname "$0")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
# shellcheck source=test/lib/tap.sh
. "$top/test/lib/tap.sh"

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# A program like UCX's: the lines of "plan" say which test does what
cat > "$tmp/gtest" <<'PROGRAM'
#!/bin/bash
here=$(dirname "$0")
filter=${!#}
excluded=:${filter#'--gtest_filter=wimm/*'}
excluded=${excluded/:-/:}
echo "$filter" >> "$here/filters"
status=0
while read -r name what; do
    [[ $excluded != *":$name:"* ]] || continue
    echo "[ RUN      ] $name <${runs_on:-wimm}/rxe0:1>"
    case $what in
    passed)  echo "[       OK ] $name (3 ms)" ;;
    half)    printf 'half a line'; echo "[       OK ] $name (3 ms)" ;;
    skipped) printf '[     SKIP ] (why)\n[       OK ] %s (3 ms)\n' "$name" ;;
    gskip)   printf 'x.cc:1: Skipped\nwhy\n\n[  SKIPPED ] %s (3 ms)\n' "$name" ;;
    failed)  printf 'x.cc:1: Failure\n[  FAILED  ] %s, where GetParam() = wimm/rxe0:1 (3 ms)\n' "$name"; status=1 ;;
    crashed) kill -ABRT $$ ;;
    gone)    exit 0 ;;
    esac
done < "$here/plan"
[ $status = 0 ] || printf '[  FAILED  ] 1 test, listed below:\n[  FAILED  ] wimm/a.b/0, where GetParam() = wimm/rxe0:1\n'
[ ! -e "$here/status" ] || status=$(cat "$here/status")
exit $status
PROGRAM
chmod +x "$tmp/gtest"

cat > "$tmp/reference" <<'END'
passed suite_a.one/0
passed suite_a.two/0
skipped suite_b.one/0
failed suite_b.two/0
passed suite_b.three/1
ended 1
END
echo "suite_b.two/0 the device cannot" > "$tmp/expected"

# WHAT-WAS-ONE WHAT-WAS-TWO ...: runs the five tests with these results, and sets output and status
run() {
    local name
    : > "$tmp/plan"
    rm -f "$tmp/filters"
    for name in suite_a.one/0 suite_a.two/0 suite_b.one/0 suite_b.two/0 suite_b.three/1; do
        [ "$1" = none ] || echo "wimm/$name $1" >> "$tmp/plan"
        shift
    done
    for name; do
        echo "$name passed" >> "$tmp/plan"
    done
    "$here/run.sh" wimm "$tmp/gtest" "$tmp/log" 2> "$tmp/err"
    compare
}

compare() {
    output=$("$here/compare.sh" wimm "$tmp/log" "$tmp/reference" "$tmp/expected" 2>&1)
    status=$?
}

# NAME SENTENCE...: the sentences are the only complaints
complains() {
    local name=$1 complaints
    shift
    complaints=$(sed -n 's/^not ok [0-9]* - wimm: //p' <<< "$output")
    if [ "$complaints" = "$(printf '%s\n' "$@")" ] && [ $status = 1 ]; then
        tap_ok "$name"
    else
        tap_not_ok "$name" "exit status $status, complaints:
$complaints
instead of:
$(printf '%s\n' "$@")"
    fi
}

run passed passed skipped failed passed
tap_is "all as it should be: exit status" $status 0
tap_is "all as it should be: nothing but what passed is counted" "$(grep -E '^(not )?ok|^1\.\.' <<< "$output")" \
    "ok 1 - wimm: suite_a.one/0
ok 2 - wimm: suite_a.two/0
ok 3 - wimm: suite_b.three/1
1..3"
tap_is "the table" "$(grep '^#' <<< "$output" | tr -s ' ')" "# suite passed failed skipped
# suite_a 2 0 0
# suite_b 1 1 1
# all 3 1 1
# 1 skipped and 1 failed, as recorded for rc_verbs"
tap_is "the tests of the transport are run, once" "$(cat "$tmp/filters")" '--gtest_filter=wimm/*'

run half passed gskip failed half
tap_is "half a line of a test and googletest's own skipping: exit status" $status 0

run failed passed skipped failed passed
complains "a test failed" "suite_a.one/0: failed, and rc_verbs passed"
tap_has "it is in the table" "$(tr -s ' ' <<< "$output")" "# suite_a 1 1 0"

run passed skipped skipped failed passed
complains "skipped is not passed" "suite_a.two/0: skipped, and rc_verbs passed"

run passed passed failed failed passed
complains "rc_verbs skips it, that is no excuse" \
    "suite_b.one/0: failed, and expected.txt does not say why; rc_verbs: skipped"

run passed passed passed failed passed
tap_is "it passed, and rc_verbs skips it: exit status" $status 0

run passed passed skipped passed passed
complains "it passed, but was not to" "suite_b.two/0: it passed, but expected.txt lists it: the device cannot"

run passed passed skipped failed none
complains "a test did not run" "suite_b.three/1: it did not run; rc_verbs: passed"

run none none none none none
complains "no test ran" "suite_a.one/0: it did not run; rc_verbs: passed" "suite_a.two/0: it did not run; rc_verbs: passed" \
    "suite_b.one/0: it did not run; rc_verbs: skipped" "suite_b.two/0: it did not run; rc_verbs: failed" \
    "suite_b.three/1: it did not run; rc_verbs: passed"

run passed passed skipped failed passed wimm/suite_c.one/0
complains "a test that nobody knows" \
    "suite_c.one/0: passed, and there is no result of rc_verbs to compare it with"

run passed passed skipped failed passed rc_verbs/suite_a.one/0
tap_is "a test of another transport does not count: exit status" $status 0
sed -i 's|wimm/|rc_verbs/|' "$tmp/log"
compare
tap_is "nor does a whole run of it: complaints" "$(grep -c '^not ok .*did not run' <<< "$output")" 5
runs_on=rc_verbs run passed passed skipped failed passed
tap_is "nor does its name alone: complaints" "$(grep -c '^not ok .*did not run' <<< "$output")" 5

run passed crashed skipped failed passed
complains "a crash takes no other test with it" "suite_a.two/0: it crashed or hung; rc_verbs: passed"
tap_is "they are run, and none of them twice" "$(sed -n 's/.*-wimm/wimm/p' "$tmp/filters")" "wimm/suite_a.one/0:wimm/suite_a.two/0:"

run crashed passed skipped failed crashed
complains "two crashes" "suite_a.one/0: it crashed or hung; rc_verbs: passed" \
    "suite_b.three/1: it crashed or hung; rc_verbs: passed"

run passed passed skipped crashed passed
complains "to crash is not to fail" "suite_b.two/0: it crashed or hung; rc_verbs: failed"

run passed gone skipped failed passed
complains "a test that ends the program is a crash" "suite_a.two/0: it crashed or hung; rc_verbs: passed"

run passed passed skipped failed passed
head -n 8 "$tmp/log" > "$tmp/cut"
mv "$tmp/cut" "$tmp/log"
compare
complains "the run was cut off" "suite_b.two/0: it did not run; rc_verbs: failed" \
    "suite_b.three/1: it did not run; rc_verbs: passed" "end of the run: it was cut off"

echo 139 > "$tmp/status"
run passed passed skipped failed passed
complains "a crash after the last test" "end of the run: status 139 after the last test, and 1 tests failed"
rm "$tmp/status"

cp "$tmp/expected" "$tmp/good"
echo "suite_a.one/0 a lame excuse" >> "$tmp/expected"
run failed passed skipped failed passed
complains "expected.txt cannot excuse what rc_verbs passes" "suite_a.one/0: failed, and rc_verbs passed"
{ cat "$tmp/good"; echo "suite_a.none/0 renamed"; echo "suite_b.one/0"; } > "$tmp/expected"
run passed passed skipped failed passed
complains "expected.txt has an entry without a reason, and one without a test" \
    "expected.txt: suite_b.one/0 has no reason" "suite_a.none/0: expected.txt lists it, but there is no such test"

output=$("$here/compare.sh" wimm "$tmp/none" 2>&1)
tap_is "there is no log: exit status" $? 2

# ---------------------------------------------------------------- the files that it reads in earnest

tap_is "rc_verbs.txt: each test has a result, and only one" \
    "$(grep -v '^#' "$here/rc_verbs.txt" | awk '!/^(passed|failed|skipped) [^ ]+\/[0-9]+$/ && !/^ended 1$/ || seen[$2]++')" ""
tap_is "expected.txt lists what rc_verbs fails or skips, and nothing else" \
    "$(awk '/^#/ || !NF {next} FNR == NR {result[$2] = $1; next} result[$1] !~ /^(failed|skipped)$/ {print $1}' \
       "$here/rc_verbs.txt" "$here/expected.txt")" ""

tap_done
