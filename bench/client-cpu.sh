#!/usr/bin/env bash
# What a request costs the load tool itself: processor time (user and system) of nagi bench,
# redis-benchmark and valkey-benchmark over the requests they sent, against one server.
# Usage: bench/client-cpu.sh PORT [ROUNDS]   NAGI=path of nagi, PEERS=prefix such as "chroot DIR"
set -euo pipefail
port=$1 rounds=${2:-5}
nagi=${NAGI:-target/quick/nagi}
read -ra peers <<<"${PEERS:-}"
TIMEFORMAT='%U %S'
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# cost TOOL OPERATION PIPELINE REQUESTS COMMAND...: adds a line to the log.
cost() {
    local name="$1 $2 $3" requests=$4 spent
    shift 4
    spent=$({ time "$@" >/dev/null 2>&1; } 2>&1)
    awk -v name="$name" -v n="$requests" '{ print name, ($1 + $2) * 1e6 / n }' <<<"$spent" >>"$log"
}

for ((round = 0; round < rounds; round++)); do
    for pipeline in 1 16; do
        n=$((pipeline == 1 ? 500000 : 4000000))
        shape=(-n "$n" -c 50 -P "$pipeline" -p "$port" -d 32)
        for operation in get set; do
            ratio=$([ "$operation" = get ] && echo 1:0 || echo 0:1)
            cost nagi "$operation" "$pipeline" "$n" \
                "$nagi" bench "${shape[@]}" --ratio "$ratio" --keys 100000 --quiet
            for peer in redis valkey; do
                cost "$peer" "$operation" "$pipeline" "$n" \
                    "${peers[@]}" "$peer-benchmark" "${shape[@]}" -t "$operation" -r 100000 -q
            done
        done
    done
done

# Medians in microseconds with the least and the most of all rounds, and medians over nagi's.
sort -k1,3 -k4n "$log" | awk '
    { key = $2 " " $3; values[$1, key, ++count[$1, key]] = $4; keys[key] }
    function median(tool, key) { return values[tool, key, int((count[tool, key] + 1) / 2)] }
    function spread(tool, key) {
        return sprintf("%.2f (%.2f to %.2f)", median(tool, key), values[tool, key, 1],
            values[tool, key, count[tool, key]])
    }
    END {
        peers["redis"]; peers["valkey"]
        for (key in keys) {
            own = median("nagi", key)
            printf "%s  nagi %s us", key, spread("nagi", key)
            for (tool in peers) {
                other = median(tool, key)
                printf "  %s-benchmark %s x%.2f", tool, spread(tool, key), other / own
            }
            print ""
        }
    }' | sort
