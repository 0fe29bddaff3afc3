#!/bin/busybox sh
# The first process of the machine that `cargo xtask bench --status --only emulated` emulates. Each
# line of /plan names a measurement: whether its page is open, the arguments of `nagi bench`, the
# number of requests, and the options of the server. Prints the processor time of all requests in
# nanoseconds, which are instructions there: of the worker, and of all threads of the server.

/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
ip link set lo up
# Log lines of the kernel must not break lines of results.
dmesg -n 1

used_ns() {
    for thread in /proc/"$server"/task/*; do
        case $1:$(cat "$thread"/comm) in
        all:* | worker:"W0 "* | worker:worker-0) cat "$thread"/schedstat ;;
        esac
    done | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

# Without further figures, the bench fails, and shows what was printed.
fail() {
    echo "failed: $1"
    cat /log
    poweroff -f
}

load() {
    nagi bench --quiet --keys 10000 "$@" >/log 2>&1 || fail "nagi bench $*"
}

while read -r look ratio pipeline requests options; do
    # shellcheck disable=SC2086
    nagi serve --workers 1 --memcached-port 0 --save '' $options >/log-server 2>&1 &
    server=$!
    until nagi client --protocol resp --servers 127.0.0.1:6379 set key value >/log 2>&1; do
        sleep 0.1
    done
    load --fill --requests 10000
    readers=
    if [ "$look" = open ]; then
        for page in server-status metrics; do
            while wget -q -O /dev/null "http://127.0.0.1:7379/$page"; do sleep 1; done &
            readers="$readers $!"
        done
        # Connections have begun to record keys by then.
        sleep 3
    fi
    load --ratio "$ratio" --pipeline "$pipeline" --requests "$((requests / 4))"
    worker_ns=$(used_ns worker)
    all_ns=$(used_ns all)
    load --ratio "$ratio" --pipeline "$pipeline" --requests "$requests"
    worker_ns=$(($(used_ns worker) - worker_ns))
    all_ns=$(($(used_ns all) - all_ns))
    # shellcheck disable=SC2086
    kill $readers "$server" || fail "a reader of pages has ended"
    echo "counted $look $ratio $pipeline $worker_ns $all_ns"
    wait "$server"
done </plan
poweroff -f
