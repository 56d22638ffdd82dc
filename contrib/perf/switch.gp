#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Ways to give the data of a notified put to UCT: what they cost, and where they cross

load "style.gp"
set multiplot
eval(heading("Notified puts of UCT by short, bcopy and zcopy: where to switch"))
set logscale x 2
set xlabel "size in bytes"
set xtics ("8" 8, "32" 32, "128" 128, "512" 512, "2k" 2048, "8k" 8192, "32k" 32768)
set tmargin screen 0.83
set bmargin screen 0.12
lt_short = 6
lt_bcopy = 11
lt_zcopy = 7

# Above what zcopy takes at the same size
to_zcopy(v) = "< awk -F, -v OFS=, -v variant=".v." '\
    NR == 1 {for (i = 1; i <= NF; ++i) c[$i] = i; print \"size\", \"more\"} \
    $2 == \"zcopy\" {base[$c[\"size\"]] = $c[\"mean\"]} \
    $2 == variant {n++; size[n] = $c[\"size\"]; mean[n] = $c[\"mean\"]} \
    END {for (i = 1; i <= n; ++i) if (size[i] in base) \
         print size[i], mean[i] - base[size[i]]}' ".csv

set lmargin screen 0.085
set rmargin screen 0.42
set xrange [6:90000]
set logscale y
set ylabel cost." (mean, one direction)"
plot for [v in variants] rows_of("uct_put_imm", v) using "size":"mean" lt style(v)

eval(no_heading)
set lmargin screen 0.53
set rmargin screen 0.87
unset logscale y
set ylabel cost." more than zcopy takes"
set key at screen 0.995, 0.83 right top Left reverse samplen 3 spacing 1.5
set xzeroaxis lt 7 lw 1
plot for [v in variants] to_zcopy(v) using "size":"more" lt style(v) title v
unset multiplot
