#!/usr/bin/env bash
# What a request costs the load tool itself: processor time (user and system) of nagi bench,
# redis-benchmark and valkey-benchmark over the requests they sent, against one server.
# Usage: bench/client-cpu.sh PORT [ROUNDS]   NAGI=path of nagi, PEERS=prefix such as "chroot DIR"
set -euo pipefail
port=$1 rounds=${2:-5}
nagi=${NAGI:-target/quick/nagi}
read -ra peers <<<"${PEERS:-}"
TIMEFORMAT='%U %S'
log=$(mktemp) errors=$(mktemp)
trap 'rm -f "$log" "$errors"' EXIT

# cost TOOL OPERATION PIPELINE REQUESTS COMMAND...: adds a line to the log.
cost() {
    local name="$1 $2 $3" requests=$4 spent
    shift 4
    if ! spent=$({ time "$@" >/dev/null 2>"$errors"; } 2>&1); then
        echo "client-cpu.sh: $* failed:" >&2
        cat "$errors" >&2
        exit 1
    fi
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

# Rows of the table in docs/load.md: medians in microseconds with the least and the most of all
# rounds, and the multiple of nagi's median.
sort -k1,3 -k4n "$log" | awk '
    { key = $2 " " $3; values[$1, key, ++count[$1, key]] = $4; keys[key] }
    function median(tool, key) { return values[tool, key, int((count[tool, key] + 1) / 2)] }
    function spread(tool, key) {
        return sprintf("%.2f us [%.2f to %.2f]", median(tool, key), values[tool, key, 1],
            values[tool, key, count[tool, key]])
    }
    function multiple(tool, key) {
        return sprintf("%s (%.1f x)", spread(tool, key), median(tool, key) / median("nagi", key))
    }
    END {
        for (key in keys) {
            split(key, words)
            printf "| %s | %s | %s | %s | %s |\n", toupper(words[1]), words[2],
                spread("nagi", key), multiple("redis", key), multiple("valkey", key)
        }
    }' | sort -t'|' -k3,3n -k2,2
