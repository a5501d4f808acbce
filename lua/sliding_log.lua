-- Sliding log: at most `limit` in any trailing window, exactly. Every admitted hit
-- is remembered until it leaves the window, about 100 bytes each.
--
--   redis-cli EVAL "$(cat lua/sliding_log.lua)" 1 "ratelimit:log:user123" $(date +%s%3N) 60 100
--
-- KEYS[1]  the log, a sorted set of admitted hits scored by their time in ms
-- ARGV[1]  now in milliseconds since the epoch, a whole number
-- ARGV[2]  window in seconds, fractions allowed (kept to the millisecond), 1 ms to 3660 days
-- ARGV[3]  limit, a whole number up to 100000; 0 refuses everything
-- ARGV[4]  cost, a whole number; default 1; 0 peeks: answered as
--          1 would be, and nothing is consumed
-- ARGV[5]  `charge` for a cost that was spent already: it counts whether or not there
--          is room; `refund` to take it off what counts now, never below zero. Both
--          are answered as a peek after it would be
--
-- Answer: allowed (1 or 0). A refused check and a peek write nothing.
-- Worst case: exact, never more than `limit`. A hit leaves the window exactly one
-- window after it was admitted.
-- TTL: until the newest hit has left the window, and 1 s more for callers that
-- tell whole seconds.

local function whole(text)
  return text:find('^%d+$') and tonumber(text)
end

local function millis(text)
  local secs, part = text:match('^(%d*)%.?(%d*)$')
  if not secs or secs .. part == '' then return nil end
  return (tonumber(secs) or 0) * 1000 + tonumber((part .. '000'):sub(1, 3))
end

if #KEYS ~= 1 or #ARGV < 3 or #ARGV > 5 then
  return redis.error_reply('ERR usage: 1 key now_ms window_s limit [cost [charge|refund]]')
end
local how = ARGV[5]
local now, window, limit = whole(ARGV[1]), millis(ARGV[2]), whole(ARGV[3])
local cost = whole(ARGV[4] or '1')
if not now or now > 9007199254740991 then
  return redis.error_reply('ERR now must be whole milliseconds since the epoch')
elseif not window or window < 1 or window > 316224000000 then
  return redis.error_reply('ERR window must be seconds from 0.001 to 316224000')
elseif not limit or limit > 100000 then
  return redis.error_reply('ERR limit must be a whole number from 0 to 100000')
elseif not cost then
  return redis.error_reply('ERR cost must be a whole number from 0')
elseif how and how ~= 'charge' and how ~= 'refund' then
  return redis.error_reply('ERR the last argument must be charge or refund')
end

-- A clock that stepped back is read as the newest time seen; a log from more than
-- a window ahead is a clock's mistake and counts for nothing.
local newest = tonumber(redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
local afresh = newest and newest - now > window
local at = (newest and not afresh) and math.max(newest, now) or now
local stamp = string.format('%.0f', at)
local edge = string.format('%.0f', at - window)
local used, same = 0, 0
if newest and not afresh then
  used = redis.call('ZCOUNT', KEYS[1], '(' .. edge, '+inf')
  same = redis.call('ZCOUNT', KEYS[1], stamp, stamp)
end

if how == 'refund' then
  local left = math.min(cost, used)
  used = used - left
  while left > 0 do
    local score = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
    local hits = redis.call('ZCOUNT', KEYS[1], score, score)
    local rest = math.max(hits - left, 0)
    for hit = rest, hits - 1 do
      redis.call('ZREM', KEYS[1], string.format('%.0f:%d', score, hit))
    end
    left = left - (hits - rest)
  end
  return used < limit and 1 or 0
elseif how then
  -- As many as the limit close it for as long as any more would.
  cost = math.min(cost, limit)
elseif used + math.max(cost, 1) > limit then
  return 0
end
if cost == 0 then return used < limit and 1 or 0 end

if afresh then
  redis.call('DEL', KEYS[1])
else
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', edge)
end
-- Hits of one instant are numbered. They also leave together, so that a number
-- is never given twice.
local batch = {}
for hit = same, same + cost - 1 do
  batch[#batch + 1] = stamp
  batch[#batch + 1] = string.format('%s:%d', stamp, hit)
  if #batch == 2000 or hit == same + cost - 1 then
    redis.call('ZADD', KEYS[1], unpack(batch))
    batch = {}
  end
end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', at - now + window + 1000))
return how and (used + cost < limit and 1 or 0) or 1
