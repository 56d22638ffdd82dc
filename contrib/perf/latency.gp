#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Cost of all methods over size: small ones from 0, and all of them

load "style.gp"
set multiplot
eval(heading("What one notification costs, over its size"))
eval(sizes)
set tmargin screen 0.83
set bmargin screen 0.12
set ylabel cost." (mean, one direction)"

set lmargin screen 0.065
set rmargin screen 0.365
set xrange [6:5500]
set yrange [0:*]
plot for [m in methods] rows(m) \
     using (column("size") <= 4096 ? column("size") : NaN):"mean" lt style(m)

eval(no_heading)
unset ylabel
set lmargin screen 0.43
set rmargin screen 0.81
set xrange [6:12000000]
set yrange [*:*]
set logscale y
set key at screen 0.995, 0.83 right top Left reverse samplen 3 spacing 1.5
plot for [m in methods] rows(m) using "size":"mean" lt style(m) title m
unset multiplot
