#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# A stream of small operations, over how many of them are in flight

load "style.gp"
eval(heading("A stream of 8-byte operations, over the window of those in flight"))
eval(counts)
set tmargin screen 0.85
set bmargin screen 0.12
set lmargin screen 0.09
set rmargin screen 0.79
set xlabel "operations in flight"
set ylabel (is_exact ? cost." for one operation (mean)" : "million operations per second")
set xrange [0.9:142]
set yrange [0:*]
set key at screen 0.995, 0.85 right top Left reverse samplen 3 spacing 1.5
plot for [m in methods] rows(m) \
     using "window":(is_exact ? column("mean") : column("rate_op_s") / 1e6) \
     lt style(m) title m
