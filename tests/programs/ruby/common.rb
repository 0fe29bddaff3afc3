# What the job and its workers share: where the server is, and waiting for a condition.

require "uri"
require "redis"

# Sidekiq's calls are as its version makes them.
Redis.silence_deprecations = true

HOST = ENV.fetch("NAGI_HOST")
PORT = Integer(ENV.fetch("NAGI_PORT"))
PATIENCE_SECONDS = 120

# The server's address as libraries take it.
def url(database = 0)
  "redis://#{HOST}:#{PORT}/#{database}"
end

# Where jobs note what they did, apart from what Sidekiq keeps.
NOTES = Redis.new(url: url(1))

# Looks until the block gives something true, and returns that.
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
