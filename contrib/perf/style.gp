#
# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# What the plots share. perf.sh sets terminal and output, and csv, unit and where.

set datafile separator ","
set datafile columnheaders
set termoption noenhanced
set encoding utf8

is_exact = (unit eq "kinstr")
cost = is_exact ? "thousand instructions" : "µs"

# Rows of a method, and of one of its variants. Methods in the order of the file.
methods = system("awk -F, 'NR > 1 && !seen[$1]++ {print $1}' ".csv)
variants = system("awk -F, 'NR > 1 && !seen[$2]++ {print $2}' ".csv)
rows(m) = "< awk -F, 'NR == 1 || $1 == \"".m."\"' ".csv
rows_of(m, v) = "< awk -F, 'NR == 1 || ($1 == \"".m."\" && $2 == \"".v."\")' ".csv
has(m, v) = int(system("awk -F, '$1 == \"".m."\" && $2 == \"".v."\"' ".csv." | wc -l"))

# Colours by Okabe and Ito, which all can tell apart, and a point type for each method.
# What is plain verbs is dashed, what is this project's is thick.
set linetype 1  lc rgb "#000000" lw 1.5 dt (8,5)   pt 4  ps 1.0
set linetype 2  lc rgb "#777777" lw 1.5 dt (8,5)   pt 5  ps 0.9
set linetype 3  lc rgb "#777777" lw 1.5 dt (2,4)   pt 2  ps 1.0
set linetype 4  lc rgb "#56B4E9" lw 3   dt solid   pt 7  ps 1.2
set linetype 5  lc rgb "#009E73" lw 1.5 dt (8,5)   pt 1  ps 1.2
set linetype 6  lc rgb "#0072B2" lw 3   dt solid   pt 7  ps 1.0
set linetype 7  lc rgb "#D55E00" lw 2   dt solid   pt 9  ps 1.3
set linetype 8  lc rgb "#E69F00" lw 1.5 dt solid   pt 8  ps 1.3
set linetype 9  lc rgb "#CC79A7" lw 1.5 dt solid   pt 13 ps 1.3
set linetype 10 lc rgb "#882255" lw 1.5 dt solid   pt 12 ps 1.3
set linetype 11 lc rgb "#009E73" lw 1.5 dt solid   pt 11 ps 1.2
set linetype 12 lc rgb "#B59A00" lw 1.5 dt solid   pt 6  ps 1.1
lt_raw_write_imm     = 1
lt_raw_write_imm_mod = 2
lt_raw_write         = 3
lt_uct_put_imm       = 4
lt_uct_am_short      = 5
lt_ucp_put_imm       = 6
lt_put_fence_am      = 7
lt_put_flush_am      = 8
lt_put_flag          = 9
lt_put_atomic        = 10
lt_am                = 11
lt_put               = 12
style(m) = value("lt_".m)

set border 3 lc rgb "#444444"
set tics nomirror out
set grid lc rgb "#dddddd" lw 1 dt solid
set style data linespoints
set key noautotitle

# Two lines above everything: what is shown, and what it was measured on
heading(title) = sprintf("set label 101 \"%s\" at screen 0.02, 0.96 left font \",15\"; \
    set label 102 \"%s\" at screen 0.02, 0.91 left font \",10\" tc rgb \"#555555\"", \
    title, where)
no_heading = "unset label 101; unset label 102"

# The sizes that are measured, by name
sizes = "set logscale x 2; set xlabel 'size in bytes'; \
    set xtics ('8' 8, '64' 64, '256' 256, '1k' 1024, '4k' 4096, '16k' 16384, \
               '64k' 65536, '256k' 262144, '1M' 1048576, '8M' 8388608)"
counts = "set logscale x 2; \
    set xtics (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)"
