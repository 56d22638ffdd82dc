#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Cost of notified puts, to that of the device's own operation

load "style.gp"
eval(heading("Cost of a notified put to that of a plain libibverbs write with immediate"))
eval(sizes)
set tmargin screen 0.85
set bmargin screen 0.12
set lmargin screen 0.1
set rmargin screen 0.80
set ylabel "ratio of means"
set xrange [6:12000000]
set key at screen 0.995, 0.85 right top Left reverse samplen 3 spacing 1.5
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 1
plot for [m in methods] rows(m) using "size":"ratio" lt style(m) title m, \
     NaN lt 1 with lines title "raw_write_imm"
