"""redis-py: asks 1,000 times in one pipeline and prints the replies as JSON."""

import json
import sys

import redis

path, protocol = sys.argv[1:]
# `default` is what a client does that is told nothing.
options = {} if protocol == "default" else {"protocol": int(protocol)}
client = redis.Redis(unix_socket_path=path, **options)
pipeline = client.pipeline(transaction=False)
for n in range(1000):
    rule = "none" if n % 10 == 9 else "orders"
    pipeline.execute_command("TG.CHECK", rule, "alice", n % 3)
replies = pipeline.execute(raise_on_error=False)
print(json.dumps([str(r) if isinstance(r, Exception) else r for r in replies]))
