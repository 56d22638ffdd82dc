#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Compares results with those of rc_verbs: awk -f compare.awk expected.txt REFERENCE RESULTS, the last two as
# results.awk prints them. Prints
#     # TEXT                      a table of the suites
#     ok <TAB> NAME               the test passed
#     not ok <TAB> NAME <TAB> WHY it should not have this result
#     # TEXT                      how many are neither of them
#

BEGIN {
    OFS = "\t"
    status = ""
}

/^#/ || NF == 0 {
    next
}

FILENAME == ARGV[1] {
    reason = $0
    sub(/^[^ ]+ +/, "", reason)
    if (NF < 2)
        wrong("expected.txt", $1 " has no reason")
    reasons[$1] = reason
    next
}

FILENAME == ARGV[2] {
    if ($1 != "ended") {
        reference[$2] = $1
        add($2)
    }
    next
}

$1 == "ended" {
    status = $2
    next
}

{
    # The worse result, should a test have run twice
    if (!($2 in result) || $1 != "passed")
        result[$2] = $1
    add($2)
}

END {
    for (i = 1; i <= count; i++)
        judge(names[i])
    for (name in reasons)
        if (!(name in known))
            wrong(name, "expected.txt lists it, but there is no such test")

    if (status == "")
        wrong("end of the run", "it was cut off")
    else if (status > 1 || (status == 1 && !failures))
        wrong("end of the run", "status " status " after the last test, and " failures + 0 " tests failed")

    printf "# %-36s %7s %7s %7s\n", "suite", "passed", "failed", "skipped"
    for (i = 1; i <= suite_count; i++)
        row(suites[i])
    row("all")
    for (i = 1; i <= verdict_count; i++)
        print verdicts[i]
    printf "# %d skipped and %d failed, as recorded for rc_verbs\n", as_recorded["skipped"], as_recorded["failed"]
}

function add(name,    suite) {
    if (name in known)
        return
    known[name] = 1
    names[++count] = name
    suite = suite_of(name)
    if (!(suite in suite_known)) {
        suite_known[suite] = 1
        suites[++suite_count] = suite
    }
}

function suite_of(name) {
    sub(/\.[^.]*$/, "", name)
    return name
}

function row(suite) {
    printf "# %-36s %7d %7d %7d\n", suite, total[suite, "passed"], total[suite, "failed"], total[suite, "skipped"]
}

function right(name) {
    verdicts[++verdict_count] = "ok" OFS name
}

function wrong(name, why) {
    verdicts[++verdict_count] = "not ok" OFS name OFS why
}

# The rules. What rc_verbs passes has to pass, and no entry in expected.txt changes that.
function judge(name,    got, wanted, column) {
    got = name in result ? result[name] : "missing"
    wanted = name in reference ? reference[name] : "missing"

    if (got != "missing") {
        column = got == "crashed" ? "failed" : got
        total[suite_of(name), column]++
        total["all", column]++
        if (got == "failed")
            failures++
    }

    if (wanted == "missing")
        wrong(name, got ", and there is no result of rc_verbs to compare it with")
    else if (got == "missing")
        wrong(name, "it did not run; rc_verbs: " wanted)
    else if (got == "crashed")
        wrong(name, "it crashed or hung; rc_verbs: " wanted)
    else if (got == "passed" && wanted != "passed" && name in reasons)
        wrong(name, "it passed, but expected.txt lists it: " reasons[name])
    else if (got == "passed" && wanted == "failed")
        wrong(name, "it passed; rc_verbs: failed; expected.txt should know why")
    else if (got == "passed")
        right(name)
    else if (wanted == "passed")
        wrong(name, got ", and rc_verbs passed")
    else if (got == "skipped" && wanted == "skipped")
        as_recorded[got]++
    else if (name in reasons)
        as_recorded[got]++
    else
        wrong(name, got ", and expected.txt does not say why; rc_verbs: " wanted)
}
