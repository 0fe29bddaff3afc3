#!/usr/bin/env bash
# What it costs to take the time of requests: instructions that the server spends in timing, of all
# that it spends outside the kernel, by callgrind. Samples are counted apart: callgrind slows the
# server down some twenty times, so that it samples as many times more of its requests.
# Usage: bench/phases.sh   NAGI=path of nagi
set -euo pipefail
nagi=$(realpath "${NAGI:-target/quick/nagi}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# share PIPELINE REQUESTS: prints the shares for SET, one connection after the other served.
share() {
    rm -f out ports
    valgrind --tool=callgrind --callgrind-out-file=out "$nagi" serve --port any \
        --memcached-port 0 --workers 1 --io epoll --ports-file ports >log 2>&1 &
    local server=$! port
    until [ -s ports ] || ! kill -0 "$server"; do sleep 0.1; done
    port=$(grep resp ports | head -1 | sed 's,.*:,,')
    "$nagi" bench -p "$port" --keys 10000 --quiet -P "$1" --ratio 0:1 -n "$2" >/dev/null 2>&1
    kill "$server" && wait "$server" || true
    callgrind_annotate --threshold=100 --auto=no out 2>/dev/null |
        awk -v pipeline="$1" -v requests="$2" '
            /PROGRAM TOTALS/ { next }
            / \([ 0-9.]+%\) / {
                cost = $1; gsub(",", "", cost); all += cost
                if ($0 !~ /timing\.rs|phases\.rs|histogram\.rs|ticks\.rs|statistics\.rs/) next
                if ($0 ~ /keep|see_what|describe|PhaseTally|finish/) samples += cost
                else timing += cost
            }
            END {
                printf "pipeline %2d: %.0f instructions a request, %.0f of them timing (%.1f %%)",
                    pipeline, all / requests, timing / requests, 100 * timing / (all - samples)
                printf "; %.0f more for samples, which real speed makes rare\n", samples / requests
            }'
}

share 1 50000
share 16 200000
