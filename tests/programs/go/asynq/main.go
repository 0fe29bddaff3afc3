// asynq: tasks by two processes, retries, tasks for later, unique and periodic tasks, groups,
// results, priorities, and the tasks of a process that is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	. "programs/common"
)

const tasks = 200

var (
	ctx    = context.Background()
	server = asynq.RedisClientOpt{Addr: Address()}
	// Where tasks record what they did, apart from asynq's own data.
	notes     = redis.NewClient(&redis.Options{Addr: Address(), DB: 1})
	client    = asynq.NewClient(server)
	inspector = asynq.NewInspector(server)
)

// note adds a record of a task of this kind.
func note(kind string) asynq.HandlerFunc {
	return func(_ context.Context, task *asynq.Task) error {
		return notes.RPush(ctx, kind, task.Payload()).Err()
	}
}

func square(_ context.Context, task *asynq.Task) error {
	number := Must(strconv.Atoi(string(task.Payload())))
	Must(task.ResultWriter().Write([]byte(strconv.Itoa(number * number))))
	return notes.HIncrBy(ctx, "square", strconv.Itoa(os.Getpid()), 1).Err()
}

// failsAtFirst fails as often as its payload says.
func failsAtFirst(_ context.Context, task *asynq.Task) error {
	id := task.ResultWriter().TaskID()
	failures := Must(strconv.ParseInt(string(task.Payload()), 10, 64))
	if attempt := Must(notes.Incr(ctx, "attempts:"+id).Result()); attempt <= failures {
		return fmt.Errorf("attempt %d", attempt)
	}
	return nil
}

// held continues once it is released.
func held(context.Context, *asynq.Task) error {
	Check(notes.RPush(ctx, "held", os.Getpid()).Err())
	Until("its release", func() bool { return Must(notes.Exists(ctx, "released").Result()) == 1 })
	return notes.RPush(ctx, "done", os.Getpid()).Err()
}

// worker is what a process with the word `worker` and the names of its queues does.
func worker(queues []string) {
	priorities := map[string]int{}
	for i, name := range queues {
		priorities[name] = len(queues) - i
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("square", square)
	mux.HandleFunc("fails", failsAtFirst)
	mux.HandleFunc("held", held)
	for _, kind := range []string{"order", "later", "unique", "periodic", "together"} {
		mux.HandleFunc(kind, note(kind))
	}
	Check(asynq.NewServer(server, asynq.Config{
		Concurrency:              4,
		Queues:                   priorities,
		StrictPriority:           true,
		TaskCheckInterval:        100 * time.Millisecond,
		DelayedTaskCheckInterval: 100 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration {
			return 100 * time.Millisecond
		},
		GroupGracePeriod: time.Second,
		GroupAggregator: asynq.GroupAggregatorFunc(func(group string, parts []*asynq.Task) *asynq.Task {
			return asynq.NewTask("together", []byte(fmt.Sprint(group, " ", len(parts))))
		}),
		LogLevel: asynq.FatalLevel,
	}).Run(mux))
}

func startWorker(queues ...string) *exec.Cmd {
	process := exec.Command(Must(os.Executable()), append([]string{"worker"}, queues...)...)
	process.Stdout, process.Stderr = os.Stdout, os.Stderr
	Check(process.Start())
	return process
}

func stop(process *exec.Cmd) {
	Check(process.Process.Signal(syscall.SIGTERM))
	Check(process.Wait())
}

func enqueue(kind, payload string, options ...asynq.Option) *asynq.TaskInfo {
	return Must(client.Enqueue(asynq.NewTask(kind, []byte(payload)), options...))
}

func await(task *asynq.TaskInfo, state asynq.TaskState) *asynq.TaskInfo {
	var info *asynq.TaskInfo
	Until(fmt.Sprint(task.Type, " to be ", state), func() bool {
		found, err := inspector.GetTaskInfo(task.Queue, task.ID)
		info = found
		return err == nil && found.State == state
	})
	return info
}

// Before any worker runs: the first queue is processed first.
func priorities() {
	for i := range 5 {
		enqueue("order", fmt.Sprint("low ", i), asynq.Queue("low"))
		enqueue("order", fmt.Sprint("high ", i), asynq.Queue("high"))
	}
	process := startWorker("high", "low")
	Until("the order", func() bool { return Must(notes.LLen(ctx, "order").Result()) == 10 })
	stop(process)
	counts := map[string]int{}
	for i, noted := range Must(notes.LRange(ctx, "order", 0, -1).Result()) {
		counts[noted]++
		// Four are done at the same time.
		if kind := noted[:3]; (i < 2 && kind != "hig") || (i > 7 && kind != "low") {
			Fail("%s came at place %d", noted, i)
		}
	}
	Equal("tasks", len(counts), 10)
}

func many() {
	var queued []*asynq.TaskInfo
	for i := range tasks {
		queued = append(queued, enqueue("square", strconv.Itoa(i), asynq.Retention(time.Hour)))
	}
	for i, task := range queued {
		info := await(task, asynq.TaskStateCompleted)
		Equal("a result", string(info.Result), strconv.Itoa(i*i))
	}
	sum := 0
	for _, count := range Must(notes.HVals(ctx, "square").Result()) {
		sum += Must(strconv.Atoi(count))
	}
	Equal("runs", sum, tasks)
	Equal("processes", len(Must(inspector.Servers())), 2)
	queue := Must(inspector.GetQueueInfo("default"))
	Equal("processed", queue.Processed, tasks)
	Equal("completed", queue.Completed, tasks)
	Equal("deleted", Must(inspector.DeleteAllCompletedTasks("default")), tasks)
}

func retries() {
	good := enqueue("fails", "3", asynq.MaxRetry(5), asynq.Retention(time.Hour))
	Equal("retries", await(good, asynq.TaskStateCompleted).Retried, 3)
	bad := enqueue("fails", "4", asynq.MaxRetry(2))
	info := await(bad, asynq.TaskStateArchived)
	Equal("the last error", info.LastErr, "attempt 3")
	Check(inspector.RunTask("default", bad.ID))
	Until("the fourth attempt", func() bool {
		return Must(notes.Get(ctx, "attempts:"+bad.ID).Int()) == 4
	})
	await(bad, asynq.TaskStateArchived)
	Equal("deleted", Must(inspector.DeleteAllArchivedTasks("default")), 1)
	Equal("deleted", Must(inspector.DeleteAllCompletedTasks("default")), 1)
}

func later() {
	start := time.Now()
	for _, after := range []int{900, 300, 600} {
		enqueue("later", strconv.Itoa(after), asynq.ProcessIn(time.Duration(after)*time.Millisecond))
	}
	far := enqueue("later", "never", asynq.ProcessIn(time.Hour))
	Equal("the state", far.State, asynq.TaskStateScheduled)
	Until("tasks for later", func() bool { return Must(notes.LLen(ctx, "later").Result()) == 3 })
	// Times are kept in whole seconds.
	if waited := time.Since(start); waited < 300*time.Millisecond {
		Fail("they ran after %v", waited)
	}
	Check(inspector.DeleteTask("default", far.ID))
}

func unique() {
	once := asynq.Unique(time.Hour)
	first := enqueue("unique", "a", once, asynq.ProcessIn(time.Hour))
	_, err := client.Enqueue(asynq.NewTask("unique", []byte("a")), once)
	Is(err, asynq.ErrDuplicateTask)
	enqueue("unique", "b", once, asynq.TaskID("own"), asynq.ProcessIn(time.Hour))
	_, err = client.Enqueue(asynq.NewTask("unique", []byte("c")), asynq.TaskID("own"))
	Is(err, asynq.ErrTaskIDConflict)
	Equal("run", Must(inspector.RunAllScheduledTasks("default")), 2)
	Until("both", func() bool { return Must(notes.LLen(ctx, "unique").Result()) == 2 })
	// A task that is done does not block others any longer.
	Until("the lock to go", func() bool {
		_, err := client.Enqueue(asynq.NewTask("unique", []byte("a")), once)
		return err == nil
	})
	Until("the third", func() bool { return Must(notes.LLen(ctx, "unique").Result()) == 3 })
	_, err = inspector.GetTaskInfo("default", first.ID)
	Is(err, asynq.ErrTaskNotFound)
}

func groups() {
	for i := range 30 {
		enqueue("part", strconv.Itoa(i), asynq.Group("all"))
	}
	Until("the group", func() bool { return Must(notes.LLen(ctx, "together").Result()) > 0 })
	sum := 0
	Until("all of the group", func() bool {
		sum = 0
		for _, noted := range Must(notes.LRange(ctx, "together", 0, -1).Result()) {
			var count int
			Must(fmt.Sscanf(noted, "all %d", &count))
			sum += count
		}
		return sum >= 30
	})
	Equal("tasks of the group", sum, 30)
}

func periodic() {
	scheduler := asynq.NewScheduler(server, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
	entry := Must(scheduler.Register("@every 1s", asynq.NewTask("periodic", []byte("tick"))))
	Check(scheduler.Start())
	Until("two ticks", func() bool { return Must(notes.LLen(ctx, "periodic").Result()) >= 2 })
	// Schedulers report their entries every five seconds.
	Until("its entry", func() bool { return len(Must(inspector.SchedulerEntries())) == 1 })
	Equal("the entry", Must(inspector.SchedulerEntries())[0].ID, entry)
	if events := Must(inspector.ListSchedulerEnqueueEvents(entry)); len(events) < 2 {
		Fail("%d events", len(events))
	}
	scheduler.Shutdown()
	Equal("entries left", len(Must(inspector.SchedulerEntries())), 0)
}

func paused() {
	Check(inspector.PauseQueue("default"))
	task := enqueue("square", "7", asynq.Retention(time.Hour))
	Equal("paused", Must(inspector.GetQueueInfo("default")).Paused, true)
	Equal("the state", await(task, asynq.TaskStatePending).State, asynq.TaskStatePending)
	Check(inspector.UnpauseQueue("default"))
	await(task, asynq.TaskStateCompleted)
	Equal("deleted", Must(inspector.DeleteAllCompletedTasks("default")), 1)
}

// Tasks of a process that was killed are given to another one when their lease has ended.
func killed() {
	victim := startWorker("fragile")
	task := enqueue("held", "", asynq.Queue("fragile"), asynq.Retention(time.Hour), asynq.MaxRetry(3))
	Until("work", func() bool { return Must(notes.LLen(ctx, "held").Result()) == 1 })
	Check(victim.Process.Kill())
	if err := victim.Wait(); err == nil {
		Fail("it was not killed")
	}
	Check(notes.Set(ctx, "released", 1, 0).Err())
	rescuer := startWorker("fragile")
	await(task, asynq.TaskStateCompleted)
	done := Must(notes.LRange(ctx, "done", 0, -1).Result())
	Equal("by", fmt.Sprint(done), fmt.Sprintf("[%d]", rescuer.Process.Pid))
	stop(rescuer)
}

func drain() {
	for _, name := range Must(inspector.Queues()) {
		queue := Must(inspector.GetQueueInfo(name))
		Equal("left in "+name, queue.Pending+queue.Active+queue.Scheduled+queue.Retry+queue.Archived, 0)
		if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			Check(err)
		}
	}
	Equal("processes left", len(Must(inspector.Servers())), 0)
	Check(notes.FlushDB(ctx).Err())
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		worker(os.Args[2:])
		return
	}
	priorities()
	processes := []*exec.Cmd{startWorker("default"), startWorker("default")}
	for _, part := range []func(){many, retries, later, unique, groups, periodic, paused} {
		part()
	}
	for _, process := range processes {
		stop(process)
	}
	killed()
	drain()
	fmt.Printf("%d tasks by two processes, retries, tasks for later, and one of a process that was killed\n", tasks)
}
