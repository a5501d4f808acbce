-- Token bucket (GCRA): `capacity` tokens at most, refilled continuously. The state
-- is the debt: what is missing until the bucket is full.
--
--   redis-cli EVAL "$(cat lua/token_bucket.lua)" 1 "ratelimit:user123" 10 1 $(date +%s) 1
--
-- KEYS[1]  the bucket, a hash of `debt`, `unit` and `last`
-- ARGV[1]  capacity in tokens, a whole number below 2^53; 0 refuses everything
-- ARGV[2]  refill in tokens per second, fractions allowed
-- ARGV[3]  now in seconds since the epoch, fractions allowed (kept to the microsecond)
-- ARGV[4]  cost in tokens, a whole number; default 1; 0 peeks: answered as
--          1 would be, and nothing is consumed
-- ARGV[5]  `charge` for a cost that was spent already: it counts whether or not there
--          is room; `refund` to take it off what counts now, never below zero. Both
--          are answered as a peek after it would be. A charge leaves a debt of twice the
--          capacity at most
--
-- Answer: allowed (1 or 0), remaining (whole tokens). A refused check and a peek
-- write nothing.
-- Worst case: capacity + refill x T within any T seconds.
-- TTL: until the debt is repaid, and 1 s more for callers that tell whole seconds.

local LARGEST = 9007199254740991 -- 2^53 - 1: whole numbers are exact up to here
local CENTURY = 3155760000000000 -- in microseconds

local function whole(text)
  return text:find('^%d+$') and tonumber(text)
end

local function decimal(text)
  local secs, part = text:match('^(%d*)%.?(%d*)$')
  if secs and secs .. part ~= '' then return secs, part end
end

local function micros(text)
  local secs, part = decimal(text)
  return secs and (tonumber(secs) or 0) * 1000000 + tonumber((part .. '000000'):sub(1, 6))
end

-- A decimal as a whole number and the power of ten it is divided by.
local function fraction(text)
  local secs, part = decimal(text)
  if not secs then return nil end
  part = part:sub(1, 15)
  return tonumber(secs .. part), 10 ^ #part
end

if #KEYS ~= 1 or #ARGV < 3 or #ARGV > 5 then
  return redis.error_reply('ERR usage: 1 key capacity refill_per_s now_s [cost [charge|refund]]')
end
local how = ARGV[5]
local capacity, now, cost = whole(ARGV[1]), micros(ARGV[3]), whole(ARGV[4] or '1')
local repaid, scale = fraction(ARGV[2])
if not capacity or capacity > LARGEST then
  return redis.error_reply('ERR capacity must be a whole number from 0, below 2^53')
elseif not repaid or repaid > LARGEST * scale or (repaid == 0 and capacity > 0) then
  return redis.error_reply('ERR refill must be a number per second, above 0')
elseif not now or now > LARGEST then
  return redis.error_reply('ERR now must be seconds since the epoch')
elseif not cost then
  return redis.error_reply('ERR cost must be a whole number from 0')
elseif how and how ~= 'charge' and how ~= 'refund' then
  return redis.error_reply('ERR the last argument must be charge or refund')
end
if capacity == 0 then return { 0, 0 } end

-- Debt is counted in units so small that a microsecond repays a whole number of
-- them: nothing is rounded and nothing drifts while capacity * unit < 2^53.
local unit = 1000000 * scale
local drain = capacity * unit / repaid
if drain > CENTURY then
  return redis.error_reply('ERR capacity / refill is more than a century')
end

local state = redis.call('HMGET', KEYS[1], 'debt', 'unit', 'last')
local debt, was, last = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
-- A clock that stepped back is read as the newest time seen; a record from more
-- than a drain time ahead is a clock's mistake and counts for nothing.
local at = now
if debt and was and last and last - now <= drain then
  at = math.max(last, now)
  if was ~= unit then debt = debt * unit / was end
  debt = math.max(debt - repaid * (at - last), 0)
else
  debt = 0
end

local allowed = how or debt + math.max(cost, 1) * unit <= capacity * unit
if allowed and cost > 0 then
  if how == 'refund' then
    debt = math.max(debt - cost * unit, 0)
  else
    debt = math.min(debt + cost * unit, math.max(debt, 2 * capacity * unit))
  end
  local ttl = math.ceil((at - now + debt / repaid) / 1000) + 1000
  redis.call('HSET', KEYS[1],
    'debt', string.format('%.17g', debt),
    'unit', string.format('%.17g', unit),
    'last', string.format('%.17g', at))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', ttl))
end
local room = math.max(capacity * unit - debt, 0)
local remaining = math.floor(room / unit)
if how then allowed = remaining > 0 end
return { allowed and 1 or 0, remaining }
