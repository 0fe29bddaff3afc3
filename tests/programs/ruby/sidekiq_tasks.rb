# Jobs of Sidekiq for sidekiq_job.rb, and the settings of both sides.

require "digest"
require "json"
require "sidekiq"
require "sidekiq/api"
require_relative "common"

# Only one job of a class and its arguments is queued or runs at a time. As in many programs of
# Sidekiq's users, the scripts make the names of their keys themselves and declare none.
module Unique
  LOCK = <<~LUA
    local key = 'unique:' .. ARGV[1]
    if redis.call('SET', key, ARGV[2], 'NX', 'EX', 3600) then
      redis.call('HINCRBY', 'unique:counts', 'taken', 1)
      return 1
    end
    redis.call('HINCRBY', 'unique:counts', 'refused', 1)
    return redis.call('GET', key) == ARGV[2] and 1 or 0
  LUA
  UNLOCK = <<~LUA
    local key = 'unique:' .. ARGV[1]
    if redis.call('GET', key) == ARGV[2] then
      redis.call('HINCRBY', 'unique:counts', 'given back', 1)
      return redis.call('DEL', key)
    end
    return 0
  LUA

  def self.digest(job)
    Digest::SHA1.hexdigest(JSON.generate([job["class"], job["args"]]))
  end

  def self.run(script, job)
    arguments = [0, digest(job), job["jid"]]
    Sidekiq.redis do |redis|
      redis.call("EVALSHA", Digest::SHA1.hexdigest(script), *arguments)
    rescue Redis::CommandError => error
      raise unless error.message.start_with?("NOSCRIPT")
      redis.call("EVAL", script, *arguments)
    end
  end

  class Client
    def call(_class, job, _queue, _pool)
      yield if !job["unique"] || Unique.run(LOCK, job) == 1
    end
  end

  class Server
    def call(_worker, job, _queue)
      yield
      Unique.run(UNLOCK, job) if job["unique"]
    end
  end
end

Sidekiq.configure_client do |config|
  config.redis = { url: url }
  config.client_middleware { |chain| chain.add Unique::Client }
end

Sidekiq.configure_server do |config|
  config.redis = { url: url }
  config.client_middleware { |chain| chain.add Unique::Client }
  config.server_middleware { |chain| chain.add Unique::Server }
  Sidekiq.options[:poll_interval_average] = 0.5
  Sidekiq.logger.level = Logger::FATAL
end

# Two processes share these jobs: one process alone does none. Every twentieth fails at first.
class Square
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 1 }

  def perform(number)
    NOTES.hincrby("processes", Process.pid, 1)
    wait_until("the other process") { NOTES.hlen("processes") == 2 }
    raise "the first attempt" if (number % 20).zero? && NOTES.sadd?("failed", number)
    NOTES.rpush("squares", "#{number} #{number * number}")
  end
end

class Note
  include Sidekiq::Worker

  def perform(key, text)
    NOTES.rpush(key, text)
  end
end

class Fails
  include Sidekiq::Worker
  sidekiq_options retry: 2
  sidekiq_retry_in { 1 }

  def perform(key)
    raise "attempt #{NOTES.incr(key)}"
  end
end

class Once
  include Sidekiq::Worker
  sidekiq_options unique: true

  def perform(text)
    NOTES.rpush("once", text)
    wait_until("its release") { NOTES.exists?("once:#{text}") }
  end
end

# Continues once it is released.
class Held
  include Sidekiq::Worker

  def perform(key, number)
    NOTES.rpush("#{key}:begun", number)
    wait_until("its release") { NOTES.exists?("#{key}:free") }
    NOTES.rpush("#{key}:done", "#{number} #{Process.pid}")
  end
end
