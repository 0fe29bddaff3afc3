"""Where pymemcache puts keys. Arguments: a file with one key a line, then servers as HOST:PORT.
Prints one byte per key, the server's place."""

import sys

from pymemcache.client.rendezvous import RendezvousHash

servers = sys.argv[2:]
place = {server: number for number, server in enumerate(servers)}
ring = RendezvousHash(servers)
with open(sys.argv[1], encoding="utf-8") as file:
    keys = file.read().splitlines()
sys.stdout.buffer.write(bytes(place[ring.get_node(key)] for key in keys))
