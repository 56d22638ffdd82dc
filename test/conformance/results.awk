#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# The output of run.sh as one line for each test, "passed NAME", "failed NAME", "skipped NAME" or "crashed NAME", and a
# last one, "ended STATUS", if the run came to its end. Only the tests of one transport, -v transport=wimm: UCX puts its
# name before theirs, and here it is left out.
#

function found(result) {
    if (index(name, transport "/") == 1)
        print result, substr(name, length(transport) + 2)
    name = ""
}

# A test may have printed half a line. UCX says here which transport it takes.
/\[ RUN      \] / {
    sub(/.*\[ RUN      \] /, "")
    name = index($2, "<" transport "/") == 1 ? $1 : ""
    skipped = 0
}

# UCX's way to skip a test: it ends as OK then
/^\[     SKIP \]/ {
    skipped = 1
}

name != "" && /\[       OK \] .* \([0-9]+ ms\)$/ {
    found(skipped ? "skipped" : "passed")
}

name != "" && /\[  FAILED  \] .* \([0-9]+ ms\)$/ {
    found("failed")
}

name != "" && /\[  SKIPPED \] .* \([0-9]+ ms\)$/ {
    found("skipped")
}

/^\[ CRASHED  \] / {
    name = $4
    sub(/:$/, "", name)
    found("crashed")
}

/^\[ ENDED    \] status / {
    print "ended", $5
}
