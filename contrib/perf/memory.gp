#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Memory of an endpoint

load "style.gp"
eval(heading("Memory that an endpoint takes, in bytes (malloc, one side)"))
eval(counts)
set tmargin screen 0.85
set bmargin screen 0.12
set lmargin screen 0.09
set rmargin screen 0.79
set xlabel "endpoints"
set ylabel "bytes per endpoint"
set xrange [3:340]
set yrange [0:*]
set key at screen 0.995, 0.85 right top Left reverse samplen 3 spacing 1.5
plot for [m in methods] rows_of(m, "default") using "endpoints":"endpoint_bytes" \
     lt style(m) title m
