# Copyright (c) The wimm authors, 2026. ALL RIGHTS RESERVED.
#
# See file LICENSE for terms.
#
# Compares what gtest_pair says with what was captured, see test_wire.sh. Reads the output of
# the program, then the packets as fields that are separated by "|". Prints "ok NAME" or
# "not ok NAME # DETAIL" for each thing that is compared.

function check(condition, name, detail) {
    print (condition ? "ok " name : "not ok " name " # " detail)
}

# Something about a put of this kind and length is wrong; the first is told
function wrong(put, detail) {
    if (!(put in fault)) fault[put] = detail
}

function packets(n) {
    return (n == 0) ? 1 : int((n + mtu - 1) / mtu)
}

function begin(key) {
    count[key] = sum[key] = 0
    reth[key]  = $9
}

# A packet with data of the message that is open on this queue pair
function data(key, len, last,    n, put) {
    n   = done[key] + 1
    put = "a put that was not posted"
    if ((key, n) in length_of) put = kind_of[key, n] " of " length_of[key, n] " bytes"
    ++count[key]; sum[key] += len; ++data_packets
    if (!last && len != mtu) wrong(put, "a packet that is not the last has " len " bytes")
    open[key] = !last
    if (!last) return
    if (count[key] != packets(length_of[key, n])) wrong(put, count[key] " packets")
    if (sum[key] != length_of[key, n]) wrong(put, sum[key] " bytes of data")
    if (reth[key] != length_of[key, n]) wrong(put, "RETH says " reth[key] " bytes")
    if ($10 != imm_of[key, n]) wrong(put, "ImmDt is " $10 ", not " imm_of[key, n])
    ++seen[put]; done[key] = n
}

FNR == 1 { ++file }

# What the program says
file == 1 && $1 != "wire:" { next }
file == 1 && $2 == "mtu"   { mtu = $3; next }
file == 1 && $2 == "ctrl"  { ctrl_of[$3] = $4; ctrl_sum += $4; next }
file == 1 && $2 == "put" {
    n = ++posted[$3]
    kind_of[$3, n] = $4; length_of[$3, n] = $5; imm_of[$3, n] = $6
    put = $4 " of " $5 " bytes"
    if (!(put in wanted)) { order[++num_puts] = put; size_of[put] = $5 }
    ++wanted[put]
    next
}

# What was captured, until the packet to the discard port. The kernel announces its IPv6
# addresses.
ended || $1 ~ /:icmpv6$/ { next }
$3 == 9                  { ended = 1; next }

# Without the headers of UDP, BTH, ICRC, and the padding
{ ++total; key = $2 "/" $6; len = $4 - 8 - 12 - 4 - $8 }
$5 == ""                 { ++other; what = $1; next }
!(key in ctrl_of)        { ++other; what = "to queue pair " key; next }

# Acknowledge
$5 == 17 {
    ++acks
    if ($11 != 0) { ++naks; what_nak = "syndrome " $11 " to " key }
    next
}

# Requests are numbered one by one
(key in psn) && $7 != (psn[key] + 1) % 16777216 {
    ++again; what_again = "number " $7 " after " psn[key] " to " key
}
{ psn[key] = $7 }

# SEND only with ImmDt
$5 == 5 && !open[key] && len == 4 { ++ctrl[key]; ++ctrl_seen; next }
# WRITE first, middle, last with ImmDt, only with ImmDt. RETH has 16 bytes, ImmDt 4.
$5 == 6 && !open[key]  { begin(key); data(key, len - 16, 0); next }
$5 == 7 && open[key]   { data(key, len, 0); next }
$5 == 9 && open[key]   { data(key, len - 4, 1); next }
$5 == 11 && !open[key] { begin(key); data(key, len - 16 - 4, 1); next }
{ ++other; what = "opcode " $5 " with " len " bytes to " key }

END {
    for (i = 1; i <= num_puts; ++i) {
        put = order[i]
        n   = packets(size_of[put])
        if (seen[put] != wanted[put]) wrong(put, seen[put] + 0 " of " wanted[put] " were seen")
        check(!(put in fault),
              wanted[put] " x " put ": " n (n == 1 ? " packet" : " packets") \
              ", RETH first, ImmDt last", fault[put])
    }
    put = "a put that was not posted"
    check(!(put in seen), "no put that was not posted", seen[put] " were seen")
    for (key in ctrl_of)
        check(ctrl[key] + 0 == ctrl_of[key], "control messages to " key ": " ctrl_of[key],
              ctrl[key] + 0 " were seen")
    check(ctrl_sum > 0, "there were control messages", "")
    check(!again, "no packet was sent twice", again ": " what_again)
    check(acks && !naks, "acknowledgements are positive",
          acks + 0 " of them, " naks + 0 " negative: " what_nak)
    check(ended && !other && total == data_packets + ctrl_seen + acks,
          "nothing else was sent: " total " packets are " data_packets " with data, " ctrl_seen \
          " control messages, " acks " acknowledgements", other + 0 " others: " what)
}
