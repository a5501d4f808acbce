-- Fixed window: at most `limit` in each window, aligned to the epoch or of a calendar.
--
--   redis-cli EVAL "$(cat lua/fixed_window.lua)" 1 "ratelimit:fixed:user123" 100 60 $(date +%s) 1
--
-- By the days of the caller's time zone, which TZ=Europe/Berlin before it changes:
--
--   redis-cli EVAL "$(cat lua/fixed_window.lua)" 1 "ratelimit:daily:user123" 100 $(date -d 0:00 +%s)-$(date -d 'tomorrow 0:00' +%s) $(date +%s) 1
--
-- KEYS[1]  the counter, a hash of `count` and `last`
-- ARGV[1]  limit, a whole number below 2^53; 0 refuses everything
-- ARGV[2]  window in seconds, fractions allowed, 1 ms to 3660 days; or when the present one
--          begins and ends, in seconds since the epoch: begin-end
-- ARGV[3]  now in seconds since the epoch, fractions allowed (kept to the microsecond)
-- ARGV[4]  cost, a whole number; default 1; 0 peeks: answered as
--          1 would be, and nothing is consumed
-- ARGV[5]  `charge` for a cost that was spent already: it counts whether or not there
--          is room; `refund` to take it off what counts now, never below zero. Both
--          are answered as a peek after it would be
--
-- Answer: allowed (1 or 0), remaining. A refused check and a peek write nothing.
-- Worst case: 2 x limit around a window's edge, within any span as long as a window.
-- TTL: to the end of the window, and one window more for callers whose clock is
-- behind: the counter must not vanish while one of them is still inside the window.

local LARGEST = 9007199254740991 -- 2^53 - 1: whole numbers are exact up to here

local function whole(text)
  return text:find('^%d+$') and tonumber(text)
end

local function micros(text)
  local secs, part = text:match('^(%d*)%.?(%d*)$')
  if not secs or secs .. part == '' then return nil end
  return (tonumber(secs) or 0) * 1000000 + tonumber((part .. '000000'):sub(1, 6))
end

if #KEYS ~= 1 or #ARGV < 3 or #ARGV > 5 then
  return redis.error_reply('ERR usage: 1 key limit window_s now_s [cost [charge|refund]]')
end
local how = ARGV[5]
local limit, window, now = whole(ARGV[1]), micros(ARGV[2]), micros(ARGV[3])
local from, to = ARGV[2]:match('^(.*)-(.*)$')
if from then
  from, to = micros(from), micros(to)
  window = from and to and to <= LARGEST and to - from
end
local cost = whole(ARGV[4] or '1')
if not limit or limit > LARGEST then
  return redis.error_reply('ERR limit must be a whole number from 0, below 2^53')
elseif not window or window < 1000 or window > 316224000000000 then
  return redis.error_reply('ERR window must be seconds from 0.001 to 316224000, or begin-end')
elseif not now or now > LARGEST then
  return redis.error_reply('ERR now must be seconds since the epoch')
elseif from and (now < from or now >= to) then
  return redis.error_reply('ERR now must be in the window')
elseif not cost then
  return redis.error_reply('ERR cost must be a whole number from 0')
elseif how and how ~= 'charge' and how ~= 'refund' then
  return redis.error_reply('ERR the last argument must be charge or refund')
end

local state = redis.call('HMGET', KEYS[1], 'count', 'last')
local count, last = tonumber(state[1]), tonumber(state[2])
-- A clock that stepped back stays in the newest window; a record from more than
-- a window ahead is a clock's mistake and counts for nothing.
local at = now
if count and last and last - now <= window then
  at = math.max(last, now)
  if from then
    if last < from then count = 0 end
  elseif last - math.fmod(last, window) ~= at - math.fmod(at, window) then
    count = 0
  end
else
  count = 0
end

local allowed = how or count + math.max(cost, 1) <= limit
if allowed and cost > 0 then
  count = how == 'refund' and math.max(count - cost, 0) or math.min(count + cost, LARGEST)
  -- Of a window after the one that is told only the beginning is known.
  local ends = from and (at < to and to or at + window) or at - math.fmod(at, window) + window
  local ttl = math.ceil((ends - now + window) / 1000)
  redis.call('HSET', KEYS[1], 'count', string.format('%.17g', count), 'last', string.format('%.17g', at))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl))
end
if how then allowed = count < limit end
return { allowed and 1 or 0, math.max(limit - count, 0) }
