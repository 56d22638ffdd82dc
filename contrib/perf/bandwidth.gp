#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Streams of large operations

load "style.gp"
eval(heading(is_exact ? "A stream of large operations: what one byte costs" : \
                        "Bandwidth of a stream of large operations"))
eval(sizes)
set tmargin screen 0.85
set bmargin screen 0.12
set lmargin screen 0.10
set rmargin screen 0.80
set ylabel (is_exact ? "instructions per byte (mean, window 64)" : \
                       "MB/s (2^20 bytes, window 64)")
set xrange [50000:11000000]
set offsets graph 0, 0, graph 0.1, graph 0.1
set key at screen 0.995, 0.85 right top Left reverse samplen 3 spacing 1.5
plot for [m in methods] rows(m) \
     using "size":(is_exact ? 1000 * column("mean") / column("size") \
                            : column("bandwidth_mb_s")) \
     lt style(m) title m
