#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Cost of all methods, to that of what people do today

load "style.gp"
eval(heading("Cost of a notification to that of put + fence + active message"))
eval(sizes)
set tmargin screen 0.85
set bmargin screen 0.12
set lmargin screen 0.075
set rmargin screen 0.80
set ylabel "ratio of means"
set xrange [6:12000000]
set yrange [0.4:*]
set key at screen 0.995, 0.85 right top Left reverse samplen 3 spacing 1.5
plot for [m in methods] rows(m) using "size":"ratio" lt style(m) title m
