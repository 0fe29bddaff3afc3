# Sidekiq's pages: what they show about the server and about jobs, and their actions on jobs.

require "rack/mock"
require "sidekiq/web"

# A browser with a session.
class Browser
  def initialize
    @pages = Rack::MockRequest.new(Sidekiq::Web)
    @session = {}
  end

  def get(path)
    response = @pages.get(path, "rack.session" => @session)
    same(path, response.status, 200)
    response.body
  end

  def post(path, fields)
    fields = fields.merge("authenticity_token" => @session[:csrf])
    response = @pages.post(path, "rack.session" => @session, params: fields)
    same(path, response.status, 302)
  end
end

# The name of a job of a sorted set on the pages.
def place(job)
  "#{job.score}-#{job.jid}"
end

def pages
  browser = Browser.new
  ["/", "/busy", "/queues", "/retries", "/scheduled", "/morgue"].each { |path| browser.get(path) }
  statistics(browser)
  scheduled_page(browser)
  retries_and_dead_pages(browser)
  queue_page(browser)
end

def statistics(browser)
  told = JSON.parse(browser.get("/stats"))
  known = Sidekiq::Stats.new
  same("statistics", told["sidekiq"].values_at("processed", "failed", "enqueued", "scheduled", "retries", "dead"),
       [known.processed, known.failed, 0, 0, 0, 0])
  same("of the server", told["redis"].keys.sort,
       %w[connected_clients redis_version uptime_in_days used_memory_human used_memory_peak_human])
  days = Sidekiq::Stats::History.new(2)
  same("by days", [days.processed.values.sum, days.failed.values.sum], [known.processed, known.failed])
end

def scheduled_page(browser)
  sooner = Note.perform_in(3600, "page", "sooner")
  never = Note.perform_in(7200, "page", "never")
  found = Sidekiq::ScheduledSet.new.to_h { |job| [job.jid, job] }
  shown = browser.get("/scheduled")
  [sooner, never].each { |job| raise "#{job} is not shown" unless shown.include?(place(found[job])) }
  browser.post("/scheduled", "key" => [place(found[sooner])], "add_to_queue" => "1")
  browser.post("/scheduled", "key" => [place(found[never])], "delete" => "1")
  wait_until("a job of the page") { NOTES.lrange("page", 0, -1) == ["sooner"] }
  same("scheduled", Sidekiq::ScheduledSet.new.size, 0)
end

# A job that fails is declared dead early, retried once more, and given up.
def retries_and_dead_pages(browser)
  bad = Fails.set(retry: 5).perform_async("bad on pages")
  # A retry that has just been put into its queue fails again.
  wait_until("a dead job") do
    job = Sidekiq::RetrySet.new.find_job(bad)
    browser.post("/retries/#{place(job)}", "kill" => "1") if job
    Sidekiq::DeadSet.new.find_job(bad)
  end
  before = NOTES.get("bad on pages").to_i
  dead = Sidekiq::DeadSet.new.find_job(bad)
  raise "its error is not shown" unless browser.get("/morgue/#{place(dead)}").include?("attempt #{before}")
  browser.post("/morgue/#{place(dead)}", "retry" => "1")
  wait_until("another attempt") { NOTES.get("bad on pages").to_i > before }
  wait_until("its end") do
    job = Sidekiq::RetrySet.new.find_job(bad)
    browser.post("/retries/#{place(job)}", "delete" => "1") if job
    job
  end
  same("left", [Sidekiq::RetrySet.new.size, Sidekiq::DeadSet.new.size], [0, 0])
end

# No process takes from this queue.
def queue_page(browser)
  60.times { |i| Note.set(queue: "shown").perform_async("shown", "number #{i}") }
  same("lengths", JSON.parse(browser.get("/stats/queues"))["shown"], 60)
  page = browser.get("/queues/shown?page=2")
  same("numbers on the page", page.scan(/number (\d+)/).flatten.map(&:to_i).uniq, (10..34).to_a.reverse)
  job = Sidekiq::Queue.new("shown").first
  browser.post("/queues/shown/delete", "key_val" => job.value)
  same("left", Sidekiq::Queue.new("shown").size, 59)
  browser.post("/queues/shown", {})
  same("left", Sidekiq::Queue.new("shown").size, 0)
end
