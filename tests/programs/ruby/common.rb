# Shared by the job and its workers: the server's address, and waiting for a condition.

require "uri"
require "redis"

# Sidekiq's calls are as its version makes them.
Redis.silence_deprecations = true

HOST = ENV.fetch("NAGI_HOST")
PORT = Integer(ENV.fetch("NAGI_PORT"))
PATIENCE_SECONDS = 120

# The server's address in the form that libraries expect.
def url(database = 0)
  "redis://#{HOST}:#{PORT}/#{database}"
end

# Where jobs record what they did, apart from Sidekiq's own data.
NOTES = Redis.new(url: url(1))

# Repeats the block until it returns something true, and returns that.
def wait_until(what)
  limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_SECONDS
  loop do
    found = yield
    return found if found
    raise "waited in vain for #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
    sleep 0.01
  end
end

def same(what, got, wanted)
  raise "#{what}: got #{got.inspect}, not #{wanted.inspect}" unless got == wanted
end
