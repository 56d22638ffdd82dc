#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# A stream of small operations, over the number of endpoints that are used in turn

load "style.gp"
eval(heading("A stream of 8-byte operations, over the number of endpoints used in turn"))
eval(counts)
set tmargin screen 0.85
set bmargin screen 0.12
set lmargin screen 0.09
set rmargin screen 0.71
set xlabel "endpoints (window 64)"
set ylabel cost." for one operation (mean)"
set xrange [0.9:300]
set offsets graph 0, 0, graph 0.1, graph 0.1
set key at screen 0.995, 0.85 right top Left reverse samplen 3 spacing 1.5

# Thin and dashed: with a longer receive queue
width(v) = (v eq "default") ? 2.5 : 1.2
dash(v) = (v eq "default") ? 1 : 2
name(m, v) = (m eq "raw_write_imm") ? m : (v eq "default") ? m : m.", ".v." receives"
plot for [v in variants] for [m in methods] rows_of(m, v) using "endpoints":"mean" \
     lt style(m) lw width(v) dt dash(v) \
     title has(m, v) ? name(m, v) : ""
