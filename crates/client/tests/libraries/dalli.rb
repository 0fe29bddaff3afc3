# Where dalli puts keys. Arguments: a file with one key a line, then servers as HOST:PORT:WEIGHT.
# Prints one byte per key, the server's place.
require 'dalli/ring'

# A server that is never asked anything.
Server = Struct.new(:name, :weight, :place) do
  def alive?
    true
  end
end

servers = ARGV.drop(1).each_with_index.map do |text, place|
  host, port, weight = text.split(':')
  Server.new("#{host}:#{port}", weight.to_i, place)
end
ring = Dalli::Ring.new(servers, { threadsafe: false })
keys = File.binread(ARGV[0]).split("\n")
$stdout.binmode.write(keys.map { |key| ring.server_for_key(key).place }.pack('C*'))
