#!/usr/bin/env bash
# What it costs to take the time of requests: the server's instructions for a request outside the
# kernel, by callgrind, with it on and off. What is subtracted is the way from received bytes to
# the reply that has been sent, since how often the server waits is up to chance. Samples are
# counted apart: callgrind slows the server down some twenty times, so that it samples as many
# times more of its requests.
# Usage: bench/phases.sh   NAGI=path of nagi
set -euo pipefail
nagi=$(realpath "${NAGI:-target/quick/nagi}")
without_auxv=$(realpath "$(dirname "$0")/without-auxv.py")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# count PIPELINE RATIO REQUESTS OPTION...: prints instructions for a request, those for samples,
# and those of the whole process. Options turn timing off.
count() {
    local pipeline=$1 ratio=$2 requests=$3 port
    shift 3
    rm -f out* ports
    "$without_auxv" valgrind --tool=callgrind --callgrind-out-file=out "$nagi" serve --port any \
        --memcached-port 0 --http-port 0 --workers 1 --io epoll --ports-file ports "$@" >log 2>&1 &
    local server=$!
    until [ -s ports ] || ! kill -0 "$server"; do sleep 0.1; done
    port=$(grep resp ports | head -1 | sed 's,.*:,,')
    load() {
        "$nagi" bench -p "$port" --keys 10000 --quiet -P "$pipeline" --ratio "$ratio" -n "$1"
    }
    { load 20000; callgrind_control -z "$server"; load "$requests"; } >/dev/null 2>&1
    callgrind_control -d "$server" >/dev/null 2>&1
    kill "$server" && wait "$server" || true
    callgrind_annotate --threshold=100 --auto=no --inclusive=yes out.1 2>/dev/null |
        awk -v requests="$requests" -v timed=$(($# == 0)) '
            function cost() { gsub(",", "", $1); return $1 }
            /PROGRAM TOTALS/ { program = cost() }
            # A function has one row that ends in the name of the binary, and rows without it for
            # what was inlined into it from other files.
            /:nagi_server::worker::Sessions::feed \[/ { all = cost() }
            /:nagi_server::session::timing::Stopwatch::report \[/ { samples += cost(); told++ }
            /:nagi_server::worker::Sessions::keep_until_sent \[/ { samples += cost(); told++ }
            END {
                if (!all || told != 2 * timed) {
                    print "phases.sh: functions have other names by now" >"/dev/stderr"
                    exit 1
                }
                printf "%.1f %.1f %.0f\n", all / requests, samples / requests, program / requests
            }'
}

for load in "1 0:1 50000" "1 1:0 50000" "16 0:1 200000" "16 1:0 200000"; do
    read -r pipeline ratio requests <<<"$load"
    read -r on samples < <(count "$pipeline" "$ratio" "$requests")
    read -r off _ all < <(count "$pipeline" "$ratio" "$requests" --latency-tracking no \
        --slowlog-log-slower-than -1 --slowlog-total-slower-than -1 \
        --commandlog-request-larger-than -1 --commandlog-reply-larger-than -1)
    awk -v pipeline="$pipeline" -v ratio="$ratio" -v on="$on" -v off="$off" -v samples="$samples" \
        -v all="$all" '
        BEGIN {
            name = ratio == "0:1" ? "SET" : "GET"
            cost = on - samples - off
            printf "%s, pipeline %2d: %.0f instructions a request, %.0f from bytes to reply, ",
                name, pipeline, all, off
            printf "and %.1f for timing (%.1f %%)", cost, 100 * cost / all
            printf "; %.0f more for samples, which real speed makes rare\n", samples
        }'
done
