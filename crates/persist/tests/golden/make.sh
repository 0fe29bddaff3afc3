#!/bin/sh
# Creates the files of a real server: `make.sh NAME PORT COMMAND...`, where COMMAND starts it, as in
#   make.sh redis-7.0.15 7911 redis-server
#   make.sh valkey-9.1 7912 chroot .peers/sid valkey-server
# Writes NAME.rdb, and what the server reports of each key to NAME.txt; with the policies LFU and
# LRU NAME-lfu.rdb and NAME-lru.rdb, and without compression and checksum NAME-plain.rdb. Needs
# redis-cli.
set -eu

name=$1 port=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
# A server in its own root directory has another /tmp.
case $1 in chroot) seen=$2/tmp/golden.$$; dir=/tmp/golden.$$; mkdir -p "$seen" ;;
*) seen=$folder; dir=$folder ;; esac

"$@" --port "$port" --bind 127.0.0.1 --dir "$dir" --save "" --databases 16 \
    --daemonize no --enable-debug-command yes > "$folder/log" 2>&1 &
server=$!
trap 'kill $server; wait $server 2> "$folder/end" || true; rm -rf "$folder" "$seen"' EXIT
cli() { redis-cli -p "$port" "$@"; }
until cli PING > "$folder/pong" 2>&1; do :; done

words() { printf "$1%.0s" $(seq "$2"); }
numbers() { seq "$1" "$2"; }

{
    echo "SET int8 -7"
    echo "SET int16 -300"
    echo "SET int32 70000"
    echo "SET int64 5000000000"
    echo "SET short \"\\x00\\xff binary\""
    echo "SET empty \"\""
    echo "SET 12345 \"a key that is an integer\""
    echo "SET words \"$(words 'and so on, ' 30)\""
    echo "SET chunks \"\""
    echo "SETRANGE chunks 140000 end"
    echo "SET expires in-2100 PXAT 4102444800123"
    echo "RPUSH list:small a 1 -70000 5000000000 $(words x 100)"
    echo "RPUSH list:large $(words "$(words y 500) " 40)"
    echo "DEBUG QUICKLIST-PACKED-THRESHOLD 100b"
    echo "RPUSH list:plain first $(words z 300) last"
    echo "DEBUG QUICKLIST-PACKED-THRESHOLD 0"
    echo "SADD set:integers 1 2 3 70000 5000000000"
    echo "SADD set:small a b c"
    echo "SADD set:large $(numbers 1 200 | tr '\n' ' ') word"
    echo "ZADD zset:small 1 a 2.5 b -inf c"
    echo "ZADD zset:large $(for i in $(numbers 1 150); do printf '%s m%s ' "$i" "$i"; done)"
    echo "HSET hash:small a 1 b two"
    echo "HSET hash:large $(for i in $(numbers 1 600); do printf 'f%s v ' "$i"; done)"
    for i in $(numbers 1 120); do echo "XADD stream 1-$i field value$i"; done
    echo "XDEL stream 1-3 1-120"
    echo "XGROUP CREATE stream group 0"
    echo "XREADGROUP GROUP group alice COUNT 5 STREAMS stream >"
    echo "XREADGROUP GROUP group bob COUNT 5 STREAMS stream >"
    echo "XACK stream group 1-1"
    echo "HSET hash:expiring a 1 b 2 c 3"
    echo "HPEXPIREAT hash:expiring 4102444800123 FIELDS 1 b"
    echo "HSET hash:expiring:large $(for i in $(numbers 1 600); do printf 'f%s v ' "$i"; done)"
    echo "HPEXPIREAT hash:expiring:large 4102444800123 FIELDS 1 f7"
    printf '%s\n' "FUNCTION LOAD \"#!lua name=golden\\nredis.register_function('f', \
function() return 1 end)\""
    echo "SELECT 9"
    echo "SET other database"
} | cli > "$folder/replies"

# What the server reports of each key.
for database in 0 9; do
    for key in $(cli -n $database KEYS '*' | sort); do
        type=$(cli -n $database TYPE "$key")
        case $type in
        string) count=1 ;;
        list) count=$(cli -n $database LLEN "$key") ;;
        set) count=$(cli -n $database SCARD "$key") ;;
        zset) count=$(cli -n $database ZCARD "$key") ;;
        hash) count=$(cli -n $database HLEN "$key") ;;
        stream) count=$(cli -n $database XLEN "$key") ;;
        esac
        echo "$database $key $type $count $(cli -n $database PEXPIRETIME "$key")"
    done
done > "$here/$name.txt"

save() {
    cli SAVE > "$folder/saved"
    cp "$seen/dump.rdb" "$here/$1.rdb"
}
save "$name"
for policy in lfu lru; do
    cli FLUSHALL > "$folder/flushed"
    cli FUNCTION FLUSH > "$folder/flushed"
    cli CONFIG SET maxmemory-policy allkeys-$policy > "$folder/set"
    cli SET key value > "$folder/set"
    save "$name-$policy"
done
cli CONFIG SET rdbcompression no > "$folder/set"
cli SET words "$(words 'and so on, ' 30)" > "$folder/set"
cli SHUTDOWN NOSAVE > "$folder/bye" 2>&1 || true
wait $server || true
"$@" --port "$port" --bind 127.0.0.1 --dir "$dir" --dbfilename plain.rdb --save "" \
    --rdbcompression no --rdbchecksum no > "$folder/log" 2>&1 &
server=$!
until cli PING > "$folder/pong" 2>&1; do :; done
cli SET words "$(words 'and so on, ' 30)" > "$folder/set"
cli SAVE > "$folder/saved"
cp "$seen/plain.rdb" "$here/$name-plain.rdb"
