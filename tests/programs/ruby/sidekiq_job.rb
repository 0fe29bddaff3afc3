# Sidekiq: jobs by two processes with retries, priorities, dead jobs, jobs for later, unique jobs by
# scripts that declare no key, its pages, and the jobs of processes that are stopped or killed.

require_relative "sidekiq_tasks"
require_relative "sidekiq_pages"

JOBS = 200
FAILURES = JOBS / 20
HELD = 4
LEFT = 6

# A process of Sidekiq that takes jobs from these queues, in this order, with `threads` threads.
def start_worker(*queues, threads: HELD)
  queues = queues.flat_map { |name| ["-q", name] }
  starts = "require 'sidekiq/cli'; cli = Sidekiq::CLI.instance; cli.parse; cli.run"
  spawn(RbConfig.ruby, "-e", starts, "--", "-r", "./sidekiq_tasks.rb", "-c", threads.to_s, "-t", "1", *queues)
end

def stop(process)
  Process.kill("TERM", process)
  ended(process)
end

def ended(process)
  _, status = Process.wait2(process)
  same("a process's end", status.exitstatus, 0)
end

# What a process has reported about itself.
def told_by(process)
  Sidekiq::ProcessSet.new.find { |told| told["pid"] == process }
end

# Before any process runs: jobs of the first queue are done first.
def priorities
  10.times do |i|
    Note.set(queue: "low").perform_async("order", "low #{i}")
    Note.set(queue: "high").perform_async("order", "high #{i}")
  end
  same("queues", Sidekiq::Queue.all.map { |queue| [queue.name, queue.size] },
       [["high", 10], ["low", 10]])
  worker = start_worker("high", "low", threads: 1)
  wait_until("the order") { NOTES.llen("order") == 20 }
  same("the order", NOTES.lrange("order", 0, -1),
       %w[high low].flat_map { |queue| 10.times.map { |i| "#{queue} #{i}" } })
  stop(worker)
end

# Sidekiq without its commercial extensions removes a job from its queue before it begins: jobs that
# a process is running when it is killed are lost, by design. No others are.
def killed
  first = start_worker("mortal")
  numbers = (0...HELD + LEFT).to_a
  Sidekiq::Client.push_bulk("class" => Held, "queue" => "mortal", "args" => numbers.map { |i| ["killed", i] })
  wait_until("work") { NOTES.llen("killed:begun") == HELD }
  wait_until("news of it") { told_by(first)&.[]("busy") == HELD }
  same("work", Sidekiq::WorkSet.new.map { |_, _, work| work["payload"]["args"].last }.sort, numbers.first(HELD))
  Process.kill("KILL", first)
  Process.wait2(first)
  same("left", Sidekiq::Queue.new("mortal").map { |job| job.args.last }.sort, numbers.last(LEFT))
  NOTES.set("killed:free", 1)
  second = start_worker("mortal")
  wait_until("its end") { NOTES.llen("killed:done") == LEFT }
  stop(second)
  same("done", NOTES.lrange("killed:done", 0, -1).sort, numbers.last(LEFT).map { |i| "#{i} #{second}" })
end

def many(workers)
  before = Sidekiq::Stats.new
  Sidekiq::Client.push_bulk("class" => Square, "args" => (0...JOBS / 2).map { |i| [i] })
  (JOBS / 2...JOBS).each { |i| Square.perform_async(i) }
  wait_until("all jobs") { NOTES.llen("squares") >= JOBS && Sidekiq::Queue.new.size.zero? }
  noted = NOTES.lrange("squares", 0, -1).map { |text| text.split.map(&:to_i) }
  same("squares", noted.sort, (0...JOBS).map { |i| [i, i * i] })
  same("failures", NOTES.scard("failed"), FAILURES)
  counts = NOTES.hgetall("processes")
  same("processes", counts.keys.map(&:to_i).sort, workers.sort)
  same("attempts of both", counts.values.sum(&:to_i), JOBS + FAILURES)
  same("retries left", Sidekiq::RetrySet.new.size, 0)
  # Processes report every five seconds what they have done.
  wait_until("statistics") do
    now = Sidekiq::Stats.new
    [now.processed - before.processed, now.failed - before.failed] == [JOBS + FAILURES, FAILURES]
  end
end

def retries
  bad = Fails.perform_async("bad")
  dead = wait_until("a dead job") do
    Sidekiq::RetrySet.new.each(&:add_to_queue)
    Sidekiq::DeadSet.new.find_job(bad)
  end
  same("the last error", dead["error_message"], "attempt 3")
  same("attempts", NOTES.get("bad"), "3")
  dead.delete
  same("dead jobs", Sidekiq::DeadSet.new.size, 0)
  same("retries left", Sidekiq::RetrySet.new.size, 0)
end

def later
  seconds = [1.5, 0.5, 1.0]
  start = Time.now.to_f
  Sidekiq::Client.push_bulk("class" => Note, "args" => seconds.map { |after| ["later", after.to_s] },
                            "at" => seconds.map { |after| start + after })
  far = Note.perform_in(3600, "later", "never")
  wait_until("jobs for later") { NOTES.llen("later") == seconds.size }
  waited = Time.now.to_f - start
  raise "they ran after #{waited}" if waited < seconds.max
  same("times", NOTES.lrange("later", 0, -1).sort, seconds.map(&:to_s).sort)
  set = Sidekiq::ScheduledSet.new
  same("scheduled", set.size, 1)
  set.find_job(far).delete
  same("scheduled", set.size, 0)
end

def unique
  first = Once.perform_async("a")
  wait_until("the first") { NOTES.lrange("once", 0, -1) == ["a"] }
  same("others while it runs", 20.times.map { Once.perform_async("a") }.compact, [])
  other = Once.perform_async("b")
  raise "no job" unless first && other
  NOTES.mset("once:a", 1, "once:b", 1)
  wait_until("another one") { Once.perform_async("a") }
  wait_until("the last") { NOTES.llen("once") == 3 }
  counts = lambda do
    Sidekiq.redis { |redis| redis.call("HMGET", "unique:counts", "taken", "given back") }
  end
  wait_until("the locks to be given back") { counts.call == %w[3 3] }
  same("locks left", Sidekiq.redis { |redis| redis.call("KEYS", "unique:*") }, ["unique:counts"])
end

# Through the server, processes are instructed to take no more jobs, and to end.
def told_to_end(workers)
  workers.each { |worker| told_by(worker).quiet! }
  wait_until("quiet") { workers.all? { |worker| told_by(worker).stopping? } }
  Note.perform_async("quiet", "kept")
  workers.each { |worker| told_by(worker).stop! }
  workers.each { |worker| ended(worker) }
  same("kept", Sidekiq::Queue.new.map(&:args), [["quiet", "kept"]])
  Sidekiq::Queue.new.clear
end

# Jobs that a process is running when it is stopped return to their queue, once.
def stopped
  first = start_worker("fragile")
  HELD.times { |i| Held.set(queue: "fragile").perform_async("stopped", i) }
  wait_until("work") { NOTES.llen("stopped:begun") == HELD }
  stop(first)
  same("back in the queue", Sidekiq::Queue.new("fragile").map { |job| job.args.last }.sort, (0...HELD).to_a)
  second = start_worker("fragile")
  wait_until("work again") { NOTES.llen("stopped:begun") == 2 * HELD }
  NOTES.set("stopped:free", 1)
  wait_until("its end") { NOTES.llen("stopped:done") == HELD }
  same("done", NOTES.lrange("stopped:done", 0, -1).sort, (0...HELD).map { |i| "#{i} #{second}" })
  stop(second)
end

# Statistics and the names of queues stay; data about processes expires after a minute.
def drained
  same("left in queues", Sidekiq::Queue.all.map(&:size).sum, 0)
  wait_until("processes to be forgotten") do
    Sidekiq::ProcessSet.new.size.zero? &&
      Sidekiq.redis { |redis| redis.call("KEYS", "*") }.grep_v(/\A(queues|stat:.*|unique:counts)\z/).empty?
  end
end

priorities
killed
workers = 2.times.map { start_worker("default") }
many(workers)
retries
later
unique
pages
told_to_end(workers)
stopped
drained
puts "Sidekiq #{Sidekiq::VERSION}: #{JOBS} jobs with #{FAILURES} retries by two processes, #{HELD} of one that was " \
     "stopped done by another, once; of one that was killed #{LEFT} done and the #{HELD} begun lost, by design"
