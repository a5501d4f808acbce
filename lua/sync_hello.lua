-- A node says that it is alive, and learns whether it may take part.
--
-- KEYS[1]       hash: what the fleet must agree on
-- KEYS[2]       sorted set: name and boot number of each live node -> time of its last hello in ms
-- ARGV[1..2]    this node's number of partitions and check value of its key secret
-- ARGV[3]       its name and boot number
-- ARGV[4]       how long it counts as alive without another hello, in ms; 0: it leaves
-- answer        {partitions, check value, seconds, microseconds, live nodes}
--
-- The first node of a fleet sets what the others must agree on.
local call = redis.call
local agreed = call('HMGET', KEYS[1], 'partitions', 'secret')
local time = call('TIME')
local now, alive = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[4])
if not agreed[1] then
  agreed = { ARGV[1], ARGV[2] }
  call('HSET', KEYS[1], 'partitions', ARGV[1], 'secret', ARGV[2])
end
if alive == 0 then
  call('ZREM', KEYS[2], ARGV[3])
elseif agreed[1] == ARGV[1] and agreed[2] == ARGV[2] then
  call('PEXPIRE', KEYS[1], 86400000)
  call('ZADD', KEYS[2], now, ARGV[3])
  call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - alive)
  call('PEXPIRE', KEYS[2], 86400000)
end
return { agreed[1], agreed[2], time[1], time[2], call('ZCARD', KEYS[2]) }
