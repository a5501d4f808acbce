-- Sliding window counter: this window's count, and the previous one's weighted by
-- how much of it the trailing window still covers, rounded up.
--
--   redis-cli EVAL "$(cat lua/sliding_window.lua)" 1 "ratelimit:sliding:user123" 100 60 $(date +%s) 1
--
-- KEYS[1]  the counters, a hash of `current`, `previous` and `last`
-- ARGV[1]  limit, a whole number below 2^53; 0 refuses everything
-- ARGV[2]  window in seconds, fractions allowed, 1 ms to 3660 days
-- ARGV[3]  now in seconds since the epoch, fractions allowed (kept to the microsecond)
-- ARGV[4]  cost, a whole number; default 1; 0 peeks: answered as
--          1 would be, and nothing is consumed
-- ARGV[5]  `charge` for a cost that was spent already: it counts whether or not there
--          is room; `refund` to take it off what counts now, never below zero. Both
--          are answered as a peek after it would be
--
-- Answer: allowed (1 or 0), remaining. A refused check and a peek write nothing.
-- Worst case: just under 2 x limit within one trailing window, when a full count
-- fell at the very end of the previous window and is weighed as if it were even.
-- TTL: to the end of the next window, until which these counts are read, and 1 s
-- more for callers that tell whole seconds.

local LARGEST = 9007199254740991 -- 2^53 - 1: whole numbers are exact up to here

local function whole(text)
  return text:find('^%d+$') and tonumber(text)
end

local function micros(text)
  local secs, part = text:match('^(%d*)%.?(%d*)$')
  if not secs or secs .. part == '' then return nil end
  return (tonumber(secs) or 0) * 1000000 + tonumber((part .. '000000'):sub(1, 6))
end

-- count * left / window, rounded up. Bit by bit, as the product may pass 2^53.
local function weighed(count, left, window)
  local quotient, rest = 0, 0
  for bit = 52, 0, -1 do
    quotient, rest = 2 * quotient, 2 * rest
    if count >= 2 ^ bit then
      count, rest = count - 2 ^ bit, rest + left
    end
    while rest >= window do
      quotient, rest = quotient + 1, rest - window
    end
  end
  return rest > 0 and quotient + 1 or quotient
end

if #KEYS ~= 1 or #ARGV < 3 or #ARGV > 5 then
  return redis.error_reply('ERR usage: 1 key limit window_s now_s [cost [charge|refund]]')
end
local how = ARGV[5]
local limit, window, now = whole(ARGV[1]), micros(ARGV[2]), micros(ARGV[3])
local cost = whole(ARGV[4] or '1')
if not limit or limit > LARGEST then
  return redis.error_reply('ERR limit must be a whole number from 0, below 2^53')
elseif not window or window < 1000 or window > 316224000000000 then
  return redis.error_reply('ERR window must be seconds from 0.001 to 316224000')
elseif not now or now > LARGEST then
  return redis.error_reply('ERR now must be seconds since the epoch')
elseif not cost then
  return redis.error_reply('ERR cost must be a whole number from 0')
elseif how and how ~= 'charge' and how ~= 'refund' then
  return redis.error_reply('ERR the last argument must be charge or refund')
end

local state = redis.call('HMGET', KEYS[1], 'current', 'previous', 'last')
local current, previous, last = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
-- A clock that stepped back is read as the newest time seen; a record from more
-- than a window ahead is a clock's mistake and counts for nothing.
local at = now
if current and previous and last and last - now <= window then
  at = math.max(last, now)
  local passed = (at - math.fmod(at, window) - last + math.fmod(last, window)) / window
  if passed == 1 then
    current, previous = 0, current
  elseif passed > 1 then
    current, previous = 0, 0
  end
else
  current, previous = 0, 0
end

local left = window - math.fmod(at, window)
local used = current + weighed(previous, left, window)
local allowed = how or used + math.max(cost, 1) <= limit
if allowed and cost > 0 then
  local before = current
  current = how == 'refund' and math.max(current - cost, 0) or math.min(current + cost, LARGEST)
  used = used - before + current
  local ttl = math.ceil((at - now + left + window) / 1000) + 1000
  redis.call('HSET', KEYS[1],
    'current', string.format('%.17g', current),
    'previous', string.format('%.17g', previous),
    'last', string.format('%.17g', at))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl))
end
if how then allowed = used < limit end
return { allowed and 1 or 0, math.max(limit - used, 0) }
