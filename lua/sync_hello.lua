-- A node says that it is alive, or that it leaves, and learns whether it may take part.
--
-- KEYS[1]       hash: what the fleet must agree on
-- KEYS[2]       sorted set: name and boot number of each live node -> time of its last hello in ms
-- ARGV[1..2]    this node's number of partitions and check value of its key secret
-- ARGV[3]       its name and boot number
-- ARGV[4]       how long a node counts as alive without another hello, in ms
-- ARGV[5]       'alive' or 'leaving'
-- answer        {partitions, check value, seconds, microseconds, live nodes}
--
-- What the fleet agrees on is set by the first node alive, and is open again when none is.
local call = redis.call
local agreed = call('HMGET', KEYS[1], 'partitions', 'secret')
local time = call('TIME')
local now, lifetime = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[4])
local alive = call('ZCOUNT', KEYS[2], now - lifetime, '+inf')
local leaving = ARGV[5] == 'leaving'
if not leaving and (not agreed[1] or alive == 0) then
  agreed = { ARGV[1], ARGV[2] }
  call('HSET', KEYS[1], 'partitions', ARGV[1], 'secret', ARGV[2])
end
call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - lifetime)
if leaving then
  call('ZREM', KEYS[2], ARGV[3])
elseif agreed[1] == ARGV[1] and agreed[2] == ARGV[2] then
  -- Nobody says hello in the future: the store's clock has stepped back.
  call('ZREMRANGEBYSCORE', KEYS[2], now + lifetime + 1, '+inf')
  call('ZADD', KEYS[2], now, ARGV[3])
  call('PEXPIRE', KEYS[1], lifetime * 12)
  call('PEXPIRE', KEYS[2], lifetime * 12)
end
return { agreed[1] or ARGV[1], agreed[2] or ARGV[2], time[1], time[2], call('ZCARD', KEYS[2]) }
