// go-redis, over RESP2 and RESP3: pipelines, transactions, a queue with blocking consumers, publish
// and subscribe, scripts, streams, scans, and closed connections; over RESP3 its
// client-side cache.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	. "programs/common"
)

const (
	jobs      = 3000
	consumers = 8
	messages  = 2000
)

var ctx = context.Background()

func connect(protocol int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: Address(), Protocol: protocol, PoolSize: 16})
}

func pipelines(client *redis.Client) {
	replies := Must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 1000 {
			key := fmt.Sprint("p:", i)
			pipe.Set(ctx, key, i, time.Hour)
			pipe.IncrBy(ctx, key, 1)
		}
		return nil
	}))
	Equal("replies", len(replies), 2000)
	for i, reply := range replies {
		if i%2 == 1 {
			Equal("a sum", reply.(*redis.IntCmd).Val(), int64(i/2+1))
		}
	}
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprint("p:", i))
	}
	for i, value := range Must(client.MGet(ctx, keys...).Result()) {
		Equal("a value", value.(string), strconv.Itoa(i+1))
	}
	// An error in the middle affects only that command.
	pipe := client.Pipeline()
	pipe.Set(ctx, "word", "one", 0)
	wrong, right := pipe.Incr(ctx, "word"), pipe.Get(ctx, "word")
	_, err := pipe.Exec(ctx)
	Says(err, "ERR value is not an integer")
	Says(wrong.Err(), "ERR value is not an integer")
	Equal("the value", right.Val(), "one")
	Equal("deleted", Must(client.Unlink(ctx, append(keys, "word")...).Result()), 1001)
}

func transactions(client *redis.Client) {
	var counter *redis.IntCmd
	Must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "t", 40, 0)
		counter = pipe.IncrBy(ctx, "t", 2)
		pipe.Expire(ctx, "t", time.Hour)
		return nil
	}))
	Equal("the counter", counter.Val(), 42)
	// Sixteen goroutines that read, compute and write: each increase is counted once.
	raise := func(tx *redis.Tx) error {
		number := Must(tx.Get(ctx, "t").Int())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "t", number+1, 0)
			return nil
		})
		return err
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 25 {
				for {
					err := client.Watch(ctx, raise, "t")
					if err == nil {
						break
					}
					Is(err, redis.TxFailedErr)
				}
			}
		})
	}
	all.Wait()
	Equal("the sum", Must(client.Get(ctx, "t").Int()), 42+16*25)
	Equal("deleted", Must(client.Del(ctx, "t").Result()), 1)
}

func queue(client *redis.Client) {
	var seen sync.Map
	var work sync.WaitGroup
	for range consumers {
		work.Go(func() {
			for {
				job := Must(client.BLMove(ctx, "jobs", "work", "LEFT", "RIGHT", 0).Result())
				if job == "end" {
					return
				}
				if _, twice := seen.LoadOrStore(job, true); twice {
					Fail("job %s came twice", job)
				}
				Equal("removed", Must(client.LRem(ctx, "work", 1, job).Result()), 1)
			}
		})
	}
	for i := range jobs {
		Check(client.RPush(ctx, "jobs", i).Err())
	}
	Until("all jobs", func() bool {
		count := 0
		seen.Range(func(any, any) bool { count++; return true })
		return count == jobs
	})
	for range consumers {
		Check(client.RPush(ctx, "jobs", "end").Err())
	}
	work.Wait()
	Equal("left", Must(client.LRem(ctx, "work", 0, "end").Result()), consumers)
	Is(client.BLPop(ctx, 10*time.Millisecond, "jobs").Err(), redis.Nil)
}

func subscriptions(client *redis.Client) {
	exact, pattern := client.Subscribe(ctx, "news"), client.PSubscribe(ctx, "n?ws", "other*")
	Must(exact.Receive(ctx))
	Must(pattern.Receive(ctx))
	Must(pattern.Receive(ctx))
	heard := [2]<-chan *redis.Message{
		exact.Channel(redis.WithChannelSize(messages)),
		pattern.Channel(redis.WithChannelSize(messages)),
	}
	for i := range messages {
		Equal("receivers", Must(client.Publish(ctx, "news", i).Result()), 2)
	}
	for _, channel := range heard {
		for i := range messages {
			Equal("a message", (<-channel).Payload, strconv.Itoa(i))
		}
	}
	Equal("subscribers", Must(client.PubSubNumSub(ctx, "news").Result())["news"], 1)
	Check(exact.Ping(ctx))
	Check(exact.Close())
	Check(pattern.Close())
	Until("nobody to listen", func() bool {
		return Must(client.PubSubNumSub(ctx, "news").Result())["news"] == 0 &&
			Must(client.PubSubNumPat(ctx).Result()) == 0
	})
}

func scripts(client *redis.Client) {
	raise := redis.NewScript(`return redis.call("INCRBY", KEYS[1], ARGV[1])`)
	Check(client.ScriptFlush(ctx).Err())
	for i := range 100 {
		Equal("a sum", Must(raise.Run(ctx, client, []string{"raised"}, 2).Int()), 2*(i+1))
	}
	Equal("known", Must(client.ScriptExists(ctx, raise.Hash()).Result())[0], true)
	table := Must(client.Eval(ctx, `return {1, "two", {3, false}, redis.status_reply("fine")}`, nil).Slice())
	Equal("a table", fmt.Sprint(table), "[1 two [3 <nil>] fine]")
	Says(client.Eval(ctx, `return redis.call("LPUSH", "raised", 1)`, nil).Err(), "WRONGTYPE")
	library := "#!lua name=own\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)"
	Check(client.FunctionLoad(ctx, library).Err())
	Equal("a function", Must(client.FCall(ctx, "twice", nil, 21).Int()), 42)
	Check(client.FunctionFlush(ctx).Err())
	Check(client.Del(ctx, "raised").Err())
}

func streams(client *redis.Client) {
	Check(client.XGroupCreateMkStream(ctx, "events", "readers", "$").Err())
	for i := range 500 {
		Check(client.XAdd(ctx, &redis.XAddArgs{Stream: "events", Values: []any{"number", i}}).Err())
	}
	read := func(consumer string, count int64) []redis.XMessage {
		arguments := redis.XReadGroupArgs{
			Group: "readers", Consumer: consumer, Streams: []string{"events", ">"}, Count: count,
			Block: time.Second,
		}
		return Must(client.XReadGroup(ctx, &arguments).Result())[0].Messages
	}
	// One consumer takes entries and disappears.
	lost := read("lost", 50)
	numbers := map[string]bool{}
	done := func(entries []redis.XMessage) {
		for _, entry := range entries {
			number := entry.Values["number"].(string)
			Equal("came before", numbers[number], false)
			numbers[number] = true
			Equal("acknowledged", Must(client.XAck(ctx, "events", "readers", entry.ID).Result()), 1)
		}
	}
	for len(numbers) < 450 {
		done(read("one", 64))
	}
	pending := Must(client.XPending(ctx, "events", "readers").Result())
	Equal("pending", pending.Consumers["lost"], 50)
	start := "0-0"
	for {
		arguments := redis.XAutoClaimArgs{
			Stream: "events", Group: "readers", Consumer: "one", Start: start, Count: 20,
		}
		entries, next, err := client.XAutoClaim(ctx, &arguments).Result()
		Check(err)
		done(entries)
		if start = next; start == "0-0" {
			break
		}
	}
	Equal("numbers", len(numbers), 500)
	information := Must(client.XInfoStream(ctx, "events").Result())
	Equal("entries", information.Length, 500)
	Equal("the first", information.FirstEntry.ID, lost[0].ID)
	groups := Must(client.XInfoGroups(ctx, "events").Result())
	Equal("lag", groups[0].Lag, 0)
	Equal("trimmed", Must(client.XTrimMaxLen(ctx, "events", 0).Result()), 500)
	Equal("deleted", Must(client.Del(ctx, "events").Result()), 1)
}

func scans(client *redis.Client) {
	values := map[string]any{}
	for i := range 3000 {
		values[fmt.Sprint("scan:", i)] = i
	}
	Check(client.MSet(ctx, values).Err())
	Check(client.HSet(ctx, "hash", values).Err())
	found := map[string]bool{}
	for walk := client.Scan(ctx, 0, "scan:*", 100).Iterator(); walk.Next(ctx); {
		found[walk.Val()] = true
	}
	Equal("keys", len(found), 3000)
	fields := map[string]string{}
	walk := client.HScan(ctx, "hash", 0, "*", 100).Iterator()
	for walk.Next(ctx) {
		field := walk.Val()
		walk.Next(ctx)
		fields[field] = walk.Val()
	}
	Equal("fields", len(fields), 3000)
	Equal("a field", fields["scan:77"], "77")
	Check(client.FlushDB(ctx).Err())
}

// Every connection of the pool and that of a subscriber are closed by the server.
func reconnects(client *redis.Client) {
	listener := client.Subscribe(ctx, "again")
	Must(listener.Receive(ctx))
	heard := listener.Channel()
	other := connect(2)
	own := Must(other.ClientID(ctx).Result())
	for line := range strings.Lines(Must(other.ClientList(ctx).Result())) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if id != strconv.FormatInt(own, 10) {
			Check(other.ClientKillByFilter(ctx, "ID", id).Err())
		}
	}
	for i := range 50 {
		Equal("a counter", Must(client.Incr(ctx, "after").Result()), int64(i+1))
	}
	Until("the subscription again", func() bool {
		return Must(client.Publish(ctx, "again", "hello").Result()) == 1
	})
	Equal("a message", (<-heard).Payload, "hello")
	Check(listener.Close())
	Check(other.Close())
	Check(client.Del(ctx, "after").Err())
}

// How often the server has executed GET.
func lookups(client *redis.Client) int {
	for line := range strings.Lines(Must(client.Info(ctx, "commandstats").Result())) {
		if calls, found := strings.CutPrefix(line, "cmdstat_get:calls="); found {
			count, _, _ := strings.Cut(calls, ",")
			return Must(strconv.Atoi(count))
		}
	}
	return 0
}

// Values come from the client's own memory until another client changes them.
func cached() {
	reader := redis.NewClient(&redis.Options{
		Addr: Address(), Protocol: 3,
		ClientSideCacheConfig: &redis.ClientSideCacheConfig{MaxEntries: 1000},
	})
	writer := connect(3)
	for i := range 100 {
		Check(writer.Set(ctx, fmt.Sprint("c:", i), 0, 0).Err())
	}
	read := func(i int) string { return Must(reader.Get(ctx, fmt.Sprint("c:", i)).Result()) }
	for i := range 100 {
		read(i)
	}
	before := lookups(writer)
	for range 10 {
		for i := range 100 {
			Equal("a value", read(i), "0")
		}
	}
	Equal("lookups at the server", lookups(writer)-before, 0)
	for i := range 100 {
		Check(writer.Set(ctx, fmt.Sprint("c:", i), 1, 0).Err())
	}
	for i := range 100 {
		Until("the new value", func() bool { return read(i) == "1" })
	}
	Check(writer.FlushDB(ctx).Err())
	for i := range 100 {
		Until("no value", func() bool { return reader.Get(ctx, fmt.Sprint("c:", i)).Err() == redis.Nil })
	}
	Check(reader.Close())
	Check(writer.Close())
}

func main() {
	for _, protocol := range []int{2, 3} {
		client := connect(protocol)
		for _, part := range []func(*redis.Client){
			pipelines, transactions, queue, subscriptions, scripts, streams, scans, reconnects,
		} {
			part(client)
		}
		Equal("keys left", Must(client.DBSize(ctx).Result()), 0)
		Check(client.Close())
	}
	cached()
	fmt.Printf("over RESP2 and RESP3 %d jobs by %d consumers, %d messages; over RESP3 a cache of its own\n",
		jobs, consumers, messages)
}
