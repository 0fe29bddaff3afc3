// go-redis: a queue whose consumers are killed and return, a leaderboard, sessions, and messages to
// many subscribers.
package main

import (
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	. "programs/common"
)

const (
	consumers = 4
	kills     = 10
	batch     = 100
	players   = 1000
	rounds    = 10
	sessions  = 50
	visitors  = 4
	visits    = 5
	messages  = 200
)

var (
	ctx         = context.Background()
	jobs        = size("NAGI_JOBS", 5000)
	subscribers = size("NAGI_SUBSCRIBERS", 100)
)

func size(name string, usual int) int {
	if text := os.Getenv(name); text != "" {
		return Must(strconv.Atoi(text))
	}
	return usual
}

func connect() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: Address(), PoolSize: 16})
}

// Jobs stay in the consumer's list until they are done: its successor finds them there.
func consume(name string) {
	client, own := connect(), "work:"+name
	end := func(job string) {
		var removed *redis.IntCmd
		Must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			removed = pipe.LRem(ctx, own, 1, job)
			if job != "end" {
				pipe.RPush(ctx, "done", job)
			}
			return nil
		}))
		Equal("removed", removed.Val(), 1)
	}
	for {
		for _, job := range Must(client.LRange(ctx, own, 0, -1).Result()) {
			end(job)
		}
		for {
			job, err := client.BLMove(ctx, "jobs", own, "LEFT", "RIGHT", time.Second).Result()
			if err == redis.Nil {
				break
			}
			Check(err)
			end(job)
			if job == "end" {
				return
			}
		}
	}
}

func start(name int) *exec.Cmd {
	command := exec.Command(Must(os.Executable()), strconv.Itoa(name))
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	Check(command.Start())
	return command
}

func queue(client *redis.Client) {
	done := func(wanted int) func() bool {
		return func() bool { return Must(client.LLen(ctx, "done").Result()) >= int64(wanted) }
	}
	var working [consumers]*exec.Cmd
	for i := range working {
		working[i] = start(i)
	}
	part := jobs / kills
	for kill := range kills {
		for first := kill * part; first < (kill+1)*part; first += batch {
			var some []any
			for i := range batch {
				some = append(some, first+i)
			}
			Check(client.RPush(ctx, "jobs", some...).Err())
		}
		// Consumers are killed in turn at work and in BLMOVE.
		if kill%2 == 0 {
			Until("jobs", done(kill*part+part/2))
		} else {
			Until("jobs", done((kill+1)*part))
		}
		victim := &working[kill%consumers]
		Check((*victim).Process.Kill())
		Says((*victim).Wait(), "killed")
		*victim = start(kill % consumers)
	}
	Until("all jobs", done(jobs))
	for range consumers {
		Check(client.RPush(ctx, "jobs", "end").Err())
	}
	for _, consumer := range working {
		Check(consumer.Wait())
	}
	numbers := make([]bool, jobs)
	all := Must(client.LRange(ctx, "done", 0, -1).Result())
	for _, job := range all {
		number := Must(strconv.Atoi(job))
		Equal("done before", numbers[number], false)
		numbers[number] = true
	}
	Equal("jobs", len(all), jobs)
	// Neither a job waits nor does a consumer have one.
	Equal("deleted", Must(client.Del(ctx, "done").Result()), 1)
	Equal("keys", Must(client.DBSize(ctx).Result()), 0)
}

// A player with points.
type entry = redis.Z

func leaderboard(client *redis.Client) {
	random := rand.New(rand.NewSource(17))
	model := map[string]float64{}
	var best []entry
	for range rounds {
		var expected []string
		replies := Must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range players {
				player := fmt.Sprintf("p%04d", random.Intn(players))
				points := float64(random.Intn(1200) - 200)
				before, known := model[player]
				if random.Intn(10) > 0 {
					model[player] = before + points
					pipe.ZIncrBy(ctx, "board", points, player)
					expected = append(expected, fmt.Sprint(before+points))
				} else {
					model[player] = points
					pipe.ZAdd(ctx, "board", entry{Score: points, Member: player})
					expected = append(expected, map[bool]string{true: "0", false: "1"}[known])
				}
			}
			return nil
		}))
		for i, reply := range replies {
			text := reply.String()
			Equal("a reply", text[strings.LastIndex(text, " ")+1:], expected[i])
		}
		best = ranking(model)
		compare(client, best)
	}
	removed := Must(client.ZRemRangeByRank(ctx, "board", 0, -101).Result())
	Equal("removed", removed, int64(len(best)-100))
	left := Must(client.ZRevRangeWithScores(ctx, "board", 0, -1).Result())
	Equal("the best", slices.Equal(left, best[:100]), true)
	Equal("deleted", Must(client.Del(ctx, "board").Result()), 1)
}

// The players and their points, the best first.
func ranking(model map[string]float64) []entry {
	var best []entry
	for player, score := range model {
		best = append(best, entry{Score: score, Member: player})
	}
	slices.SortFunc(best, func(a, b entry) int {
		if a.Score != b.Score {
			return int(b.Score - a.Score)
		}
		return strings.Compare(b.Member.(string), a.Member.(string))
	})
	return best
}

func compare(client *redis.Client, best []entry) {
	shown := Must(client.ZRevRangeWithScores(ctx, "board", 0, -1).Result())
	Equal("the same board", slices.Equal(shown, best), true)
	for rank := 0; rank < len(best); rank += 50 {
		player := best[rank].Member.(string)
		Equal("a rank", Must(client.ZRevRank(ctx, "board", player).Result()), int64(rank))
		Equal("a rank", Must(client.ZRank(ctx, "board", player).Result()), int64(len(best)-1-rank))
	}
	good := 0
	for _, one := range best {
		if one.Score >= 500 {
			good++
		}
	}
	Equal("the good", Must(client.ZCount(ctx, "board", "500", "+inf").Result()), int64(good))
}

func visit(client *redis.Client, key string) {
	raise := func(tx *redis.Tx) error {
		number := Must(tx.HGet(ctx, key, "visits").Int())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.HSet(ctx, key, "visits", number+1)
			pipe.Expire(ctx, key, 1800*time.Second)
			return nil
		})
		return err
	}
	for {
		err := client.Watch(ctx, raise, key)
		if err == nil {
			return
		}
		Is(err, redis.TxFailedErr)
	}
}

func sessionStore(client *redis.Client) {
	var keys []string
	Must(client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range sessions {
			key := fmt.Sprint("session:", i)
			keys = append(keys, key)
			pipe.HSet(ctx, key, "user", fmt.Sprint("user ", i), "visits", 0)
			pipe.Expire(ctx, key, time.Hour)
		}
		return nil
	}))
	var all sync.WaitGroup
	for range visitors {
		all.Go(func() {
			for range visits {
				for _, key := range keys {
					visit(client, key)
				}
			}
		})
	}
	all.Wait()
	for i, key := range keys {
		session := Must(client.HGetAll(ctx, key).Result())
		wanted := fmt.Sprintf("map[user:user %d visits:%d]", i, visitors*visits)
		Equal("a session", fmt.Sprint(session), wanted)
		left := Must(client.TTL(ctx, key).Result())
		Equal("its time", left > 1700*time.Second && left <= 1800*time.Second, true)
	}
	for i := 0; i < sessions; i += 2 {
		Check(client.PExpire(ctx, keys[i], time.Second).Err())
	}
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		Until("the end of half of them", func() bool {
			return Must(client.Exists(ctx, keys...).Result()) == sessions/2
		})
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.HSet(ctx, keys[0], "visits", 1).Err()
		})
		return err
	}, keys[0])
	// The session has expired, so it must not come back without its user.
	Is(err, redis.TxFailedErr)
	Equal("fields", len(Must(client.HGetAll(ctx, keys[0]).Result())), 0)
	Equal("time", Must(client.TTL(ctx, keys[0]).Result()), -2)
	Equal("deleted", Must(client.Del(ctx, keys...).Result()), sessions/2)
}

func fanOut(client *redis.Client) {
	var listeners []*redis.PubSub
	for range subscribers {
		listener := client.Subscribe(ctx, "news")
		Must(listener.Receive(ctx))
		listeners = append(listeners, listener)
	}
	var all sync.WaitGroup
	for _, listener := range listeners {
		all.Go(func() {
			for i := range messages {
				Equal("a message", Must(listener.ReceiveMessage(ctx)).Payload, strconv.Itoa(i))
			}
			Check(listener.Close())
		})
	}
	for i := range messages {
		Equal("receivers", Must(client.Publish(ctx, "news", i).Result()), int64(subscribers))
	}
	all.Wait()
	Until("nobody to listen", func() bool {
		return Must(client.Publish(ctx, "news", "last").Result()) == 0
	})
}

func main() {
	if len(os.Args) > 1 {
		consume(os.Args[1])
		return
	}
	client := connect()
	var times []string
	for _, part := range []struct {
		name string
		run  func(*redis.Client)
	}{
		{"queue", queue},
		{"leaderboard", leaderboard},
		{"sessions", sessionStore},
		{"fan-out", fanOut},
	} {
		begun := time.Now()
		part.run(client)
		times = append(times, fmt.Sprintf("%s %.1f s", part.name, time.Since(begun).Seconds()))
	}
	Equal("keys left", Must(client.DBSize(ctx).Result()), 0)
	fmt.Println(strings.Join(times, ", "))
	fmt.Printf("%d jobs by %d consumers of which %d were killed, a leaderboard of %d, %d sessions, "+
		"%d messages to %d subscribers\n",
		jobs, consumers, kills, players, sessions, messages, subscribers)
}
