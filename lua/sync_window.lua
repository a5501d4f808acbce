-- One batch of one node for one hash of window counts.
--
-- KEYS[1]       the hash: field = 16-byte fingerprint -> count, and one lane field a node boot -> token
-- ARGV[1]       the lane's field
-- ARGV[2..n]    the cells' fields
-- ARGV[n+1]     msgpack {previous token, new token, time to live in ms, open, delta of each cell}
-- answer        {stored token or nil, seconds, microseconds, total of each cell}
--
-- The batch is applied only if the lane's stored token is the previous one (open = 1: only if
-- there is none yet), so a batch may be sent any number of times. Lane and counts share one
-- hash: no loss can part them. Everything is read before anything is written, since an error
-- does not roll back.
local call, hash, n = redis.call, KEYS[1], #ARGV
local batch = cmsgpack.unpack(ARGV[n])
ARGV[n] = nil
n = n - 1
local found = call('HMGET', hash, unpack(ARGV))
local time = call('TIME')
local lane = found[1]
local fits
if batch[4] == 1 then fits = not lane else fits = lane == batch[1] end
if not fits then
  local out = { lane, time[1], time[2] }
  for i = 2, n do out[i + 2] = tonumber(found[i]) or 0 end
  return out
end
local out, write = { batch[2], time[1], time[2] }, { ARGV[1], batch[2] }
for i = 2, n do
  local delta = batch[i + 3]
  local count = tonumber(found[i]) or 0
  if delta ~= 0 then
    -- Beyond 2^53 a count would no longer be exact.
    count = math.max(0, math.min(count + delta, 9007199254740992))
    write[#write + 1] = ARGV[i]
    write[#write + 1] = count
  end
  out[i + 2] = count
end
call('HSET', hash, unpack(write))
if not lane then call('PEXPIRE', hash, batch[3]) end
return out
