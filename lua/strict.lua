-- One check of exact limits, by the store's own clock: all of them admit it, or none is charged.
-- Or one cost that nobody is asked about: all of them are charged, or refunded.
--
-- KEYS          for each limit the hashes that its cell may lie in, one window or slice after the
--               other; or the log, a sorted set; and last the fleet's seal
-- ARGV[1..n]    for each limit the cell's field, a 16-byte fingerprint
-- ARGV[n+1]     msgpack {cost, or a list with that of each limit, the seal as this node knows it,
--                limit 1 .. limit n}, each limit
--               {kind, its first key, number of keys, window or slice of the first key,
--                time to live in ms, how it is charged, capacity, then
--                for windows and logs: the window in us, and how long before a window begins
--                other nodes are lent of it; and for those of a calendar when the window of each
--                key begins, in us, and the last one ends
--                for buckets: the slice's binary logarithm in ns, and in lowest terms the us in
--                which so many tokens drain: us, tokens}
--                how: 0 if admitted, 1 if refused too; or, for all limits alike, {2, us} to charge
--                and {3, us} to refund without asking, for what was admitted at that time; at 0
--                for what counts now
-- answer        {1 admitted or 0 refused; or not asked: -1, the keys are of another time, -2,
--                the seal is another, or -3, the store has forgotten what counts now, see seal.lua;
--                seconds, microseconds, then for each limit
--                0 admits, 1 refuses or 2 can never admit; remaining; and in us how long to wait
--                for another try, until nothing is used, and before acting (leaky buckets).
--                Of a charge or refund: what a cost of 1 would be told after it, or 3 where it
--                went nowhere, its window being over or, of a refund, nothing being there}
--
-- A charge takes no debt past twice the capacity. A cost of an earlier time that more than
-- 1,000 hits of a log are later than is charged as of now, and not refunded.
--
-- Cells are those of sync_window.lua and sync_bucket.lua; what else stands beside a count or a
-- debt is kept. A cost of 0 is a peek: told what 1 would be. Everything is read before anything
-- is written, since an error does not roll back.
--
-- What stands in a cell and neither they nor this script have written counts as full, and a
-- log that ends so as empty.
--
-- A log holds each admitted hit as the totals before and after it, at its time: the totals'
-- differences are sums of hits, whatever each hit has cost.
local call = redis.call
local LARGEST = 9007199254740992 -- 2^53: whole numbers are exact up to here
local MOST_HITS = 100000
local SLIDING, LOG, TOKENS, LEAKY = 2, 3, 4, 5
local ADMITS, REFUSES, NEVER, NOWHERE = 0, 1, 2, 3
local REFUND = 3
local MOST_REWRITTEN = 1000
-- More than any log has room for, and few enough that its totals do not come to their end.
local MOST_LOGGED = 4294967296
local asked = cmsgpack.unpack(ARGV[#ARGV])
local seal = asked[2]
table.remove(asked, 2)
local costs = asked[1]
-- What the limit that is looked at must have room for.
local wanted
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function cost_of(i)
  return type(costs) == 'table' and costs[i - 1] or costs
end

local function divide(n, d)
  local rest = math.fmod(n, d)
  return (n - rest) / d, rest
end

local function divide_up(n, d)
  local quotient, rest = divide(n, d)
  return rest > 0 and quotient + 1 or quotient
end

-- a * b / c and the rest, exact although a * b may pass 2^53; the quotient does not.
local function scale(a, b, c)
  if a * b < LARGEST then return divide(a * b, c) end
  local whole, part = divide(b, c)
  local base, quotient, rest = a * whole, 0, 0
  for bit = 52, 0, -1 do
    quotient = 2 * quotient
    if rest >= c - rest then
      quotient, rest = quotient + 1, rest - (c - rest)
    else
      rest = 2 * rest
    end
    if a >= 2 ^ bit then
      a = a - 2 ^ bit
      if rest >= c - part then
        quotient, rest = quotient + 1, rest - (c - part)
      else
        rest = rest + part
      end
    end
  end
  return base + quotient, rest
end

-- A hash that has the field already has its time to live.
local function put(key, field, value, ttl, present)
  call('HSET', key, field, value)
  if not present and call('PTTL', key) < 0 then call('PEXPIRE', key, ttl) end
end

-- A count, and what stands beside it.
local function counted(value, capacity)
  local count, beside = (value or '0'):match('^(%d+)(.*)$')
  count = tonumber(count)
  if count and count <= LARGEST and (beside == '' or beside:match('^ %d+ [012]$')) then
    return count, beside
  end
  return capacity, ''
end

-- Where the present window's key is among those of the limit, how long ago the window began,
-- and how long it is.
local function present(limit)
  local starts, place = limit[10], 0
  if not starts then
    local id, into = divide(now, limit[8])
    return id - limit[4] + 1, into, limit[8]
  end
  while starts[place + 1] and starts[place + 1] <= now do place = place + 1 end
  local start = starts[place] or now
  return place, now - start, (starts[place + 1] or now) - start
end

local function window(limit, field, at)
  local ttl, capacity = limit[5], limit[7]
  local _, into, length = present(limit)
  local found = call('HGET', KEYS[at], field)
  local count, beside = counted(found, capacity)
  local before, weighed = 0, 0
  if limit[1] == SLIDING then
    before = counted(call('HGET', KEYS[at - 1], field), capacity)
    local whole, rest = scale(before, length - into, length)
    weighed = rest > 0 and whole + 1 or whole
  end
  local self = {}
  if wanted > capacity then
    self.verdict = NEVER
  elseif count + weighed + wanted <= capacity then
    self.verdict = ADMITS
  else
    self.verdict = REFUSES
    -- How far into a window the count of the one before weighs no more than `room`.
    local function weighs(n, room)
      return n <= room and 0 or length - scale(room, length, n)
    end
    local room = capacity - wanted
    local elapsed = limit[1] == SLIDING and count <= room and weighs(before, room - count) or length
    if elapsed < length then
      self.retry = elapsed - into
    elseif limit[1] == SLIDING then
      self.retry = length - into + weighs(count, room)
    else
      self.retry = length - into
    end
  end
  function self.charge(cost)
    count = math.min(count + cost, LARGEST)
    put(KEYS[at], field, string.format('%.0f', count) .. beside, ttl, found)
  end
  function self.book(cost, refunds, moment)
    local start, behind = now - into, 0
    if moment > 0 and moment < start then behind = moment >= start - length and 1 or 2 end
    if behind > (limit[1] == SLIDING and 1 or 0) then return false end
    local key = KEYS[at - behind]
    local known = call('HGET', key, field)
    local total, rest = counted(known, capacity)
    if refunds and total == 0 then return false end
    total = math.max(math.min(total + (refunds and -cost or cost), LARGEST), 0)
    put(key, field, string.format('%.0f', total) .. rest, ttl, known)
    return true
  end
  function self.figures()
    local reset = 0
    if count > 0 then
      reset = (limit[1] == SLIDING and 2 or 1) * length - into
    elseif before > 0 then
      reset = length - into
    end
    return math.max(capacity - count - weighed, 0), reset
  end
  return self
end

-- A debt in ns, its time, and what stands beside them; nothing if they are none.
local function owed(cell)
  if not cell or (#cell ~= 16 and #cell ~= 32) then return nil, nil, '' end
  local ns, of = struct.unpack('>dd', cell)
  if ns >= 0 and ns < math.huge and of >= 0 and of < LARGEST then return ns, of, cell:sub(17) end
  return nil, nil, ''
end

local function bucket(limit, field, at)
  local ttl, capacity, slice, token, rate = limit[5], limit[7], 2 ^ limit[8] / 1000, limit[9], limit[10]
  local here, after = call('HGET', KEYS[at], field), call('HGET', KEYS[at + 1], field)
  -- What the next slice has already taken over, a node's clock being ahead, holds all of it.
  local cell = after or here or call('HGET', KEYS[at - 1], field)
  -- The debt is in parts of a token of which a microsecond repays whole ones, so nothing is
  -- rounded: the store's nanoseconds find back to them. Those of other modes round up.
  local debt, last = 0, now
  local self, room = {}, (capacity - wanted) * token
  local ns, of = owed(cell)
  if cell and not ns then
    debt, self.spoilt = capacity * token, true
  elseif cell then
    -- A clock that stepped back neither repays nor freezes.
    if of - now <= slice then
      local parts = ns * rate / 1000
      debt = math.floor(parts + 0.5)
      if math.abs(parts - debt) > parts * 2 ^ -50 then debt = math.ceil(parts) end
      last = math.max(of, now)
      debt = math.max(debt - (last - of) * rate, 0)
    end
  end
  local function drained(parts)
    return parts == 0 and 0 or divide_up(parts, rate) + last - now
  end
  if room < 0 then
    self.verdict = NEVER
  elseif debt <= room then
    self.verdict = ADMITS
    self.delay = limit[1] == LEAKY and drained(debt)
  else
    self.verdict = REFUSES
    self.retry = drained(debt - room)
  end
  function self.charge(cost)
    debt = math.max(debt, math.min(debt + cost * token, 2 * capacity * token))
    self.keep()
  end
  function self.book(cost, refunds, moment)
    if not refunds then
      self.charge(cost)
    elseif debt == 0 or (moment > 0 and (now - moment) * rate > capacity * token) then
      return false
    else
      debt = math.max(debt - cost * token, 0)
      self.keep()
    end
    return true
  end
  function self.keep()
    local packed = struct.pack('>dd', debt * 1000 / rate, last)
    put(KEYS[at], field, packed .. select(3, owed(here)), ttl, here)
    if after then put(KEYS[at + 1], field, packed .. select(3, owed(after)), ttl, after) end
  end
  function self.figures()
    return math.max(capacity - divide_up(debt, token), 0), drained(debt)
  end
  return self
end

local function log(limit, at)
  local key, ttl, capacity, length = KEYS[at], limit[5], limit[7], limit[8]
  local function hit(range)
    if not range[1] then return nil end
    local totals = #range[1] == 32 and range[1]:match('^%d+$') or ''
    return { member = range[1], before = tonumber(totals:sub(1, 16)) or 0,
      after = tonumber(totals:sub(17)) or 0, at = tonumber(range[2]) }
  end
  local newest = hit(call('ZREVRANGE', key, 0, 0, 'WITHSCORES'))
  -- A clock that stepped back far, no totals, or such as are at their end: afresh.
  local afresh = newest and (newest.at - now > length or newest.after == 0
    or newest.after > LARGEST - MOST_HITS)
  if afresh then newest = nil end
  local moment = math.max(newest and newest.at or now, now)
  local edge = string.format('%.0f', moment - length)
  local total, used = newest and newest.after or 0, 0
  if newest and newest.at > moment - length then
    local oldest = call('ZRANGEBYSCORE', key, '(' .. edge, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    used = total - hit(oldest).before
  end
  local self = {}
  if wanted > capacity then
    self.verdict = NEVER
  elseif used + wanted <= capacity then
    self.verdict = ADMITS
  else
    self.verdict = REFUSES
    -- The first hit after which the rest leaves room enough, by bisection.
    local room, low, high = capacity - wanted, call('ZCOUNT', key, '-inf', edge), call('ZCARD', key) - 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      local it = hit(call('ZRANGE', key, middle, middle, 'WITHSCORES'))
      if total - it.after > room then low = middle + 1 else high = middle end
    end
    self.retry = hit(call('ZRANGE', key, low, low, 'WITHSCORES')).at + length - now
  end
  function self.charge(cost)
    if afresh then
      call('DEL', key)
    else
      call('ZREMRANGEBYSCORE', key, '-inf', edge)
    end
    local before = total
    if call('ZCARD', key) >= MOST_HITS then
      -- A full log moves its newest hit, which then counts a little longer than it should.
      call('ZREM', key, newest.member)
      before = newest.before
    end
    total, used = total + cost, used + cost
    call('ZADD', key, string.format('%.0f', moment), string.format('%016.0f%016.0f', before, total))
    call('PEXPIRE', key, ttl)
    newest = { at = moment }
  end
  local function add(at, before, after)
    call('ZADD', key, string.format('%.0f', at), string.format('%016.0f%016.0f', before, after))
    call('PEXPIRE', key, ttl)
  end
  -- Takes the cost off the newest hits.
  local function take_back(cost)
    local hits = call('ZREVRANGE', key, 0, MOST_REWRITTEN - 1, 'WITHSCORES')
    local left = cost
    for i = 1, #hits, 2 do
      local it = hit({ hits[i], hits[i + 1] })
      if left <= 0 or it.at <= moment - length then break end
      local part = math.min(left, it.after - it.before)
      left = left - part
      call('ZREM', key, it.member)
      if it.after - part > it.before then add(it.at, it.before, it.after - part) end
    end
    return left < cost
  end
  function self.book(cost, refunds, of)
    cost = math.min(cost, MOST_LOGGED)
    if of == 0 or afresh or not newest then
      if refunds then return newest ~= nil and take_back(cost) end
      self.charge(cost)
      return true
    elseif of <= moment - length then
      return false
    end
    -- The hits from that time on: all later totals move.
    local from = call('ZRANGEBYSCORE', key, string.format('%.0f', of), '+inf',
      'WITHSCORES', 'LIMIT', 0, MOST_REWRITTEN + 1)
    if #from > 2 * MOST_REWRITTEN then
      if refunds then return false end
      self.charge(cost)
      return true
    end
    local later, moved, left = {}, 0, cost
    for i = 1, #from, 2 do later[#later + 1] = hit({ from[i], from[i + 1] }) end
    local base = later[1] and later[1].before or total
    local same = 0
    while later[same + 1] and later[same + 1].at == of do same = same + 1 end
    if refunds and same == 0 then return false end
    for _, it in ipairs(later) do call('ZREM', key, it.member) end
    if not refunds and same == 0 then
      add(of, base, base + cost)
      moved = cost
    end
    for i, it in ipairs(later) do
      local before = it.before + moved
      if i <= same and refunds then
        local part = math.min(left, it.after - it.before)
        left, moved = left - part, moved - part
      elseif i == same then
        moved = cost
      end
      if it.after + moved > before then add(it.at, before, it.after + moved) end
    end
    return true
  end
  function self.figures()
    return math.max(capacity - used, 0), used > 0 and newest.at + length - now or 0
  end
  return self
end

-- Since when the store must remember to decide by this limit.
local function counts_from(limit)
  local kind = limit[1]
  if kind == LOG then return now - limit[8] end
  if kind >= TOKENS then return now - limit[7] * limit[9] / limit[10] end
  local _, into = present(limit)
  return now - into - (kind == SLIDING and limit[8] or limit[9])
end

if call('GET', KEYS[#KEYS]) ~= seal then return { -2, time[1], time[2] } end
local since = tonumber(seal:match(' (%d+) '))
-- What is done cannot be refused, whatever the store has forgotten.
local booking = type(asked[2][6]) == 'table' and asked[2][6]
if booking then since = 0 end

-- Where each limit's cell lies now, with the windows or slices that it reads beside it.
local places = {}
for i = 2, #asked do
  local limit = asked[i]
  local kind, first, place = limit[1], 1, 1
  if kind < LOG then
    place = present(limit)
    if kind == SLIDING then first = 2 end
  elseif kind >= TOKENS then
    place = math.floor(now * 1000 / 2 ^ limit[8]) - limit[4] + 1
    first = 2
  end
  local last = kind >= TOKENS and limit[3] - 1 or limit[3]
  if place < first or place > last then return { -1, time[1], time[2] } end
  if since > 0 and counts_from(limit) < since then return { -3, time[1], time[2] } end
  places[i] = limit[2] + place - 1
end

local function look(i)
  local limit, field = asked[i], ARGV[i - 1]
  wanted = booking and 1 or math.max(cost_of(i), 1)
  if limit[1] < LOG then
    return window(limit, field, places[i])
  elseif limit[1] == LOG then
    return log(limit, places[i])
  end
  return bucket(limit, field, places[i])
end

local checks, admitted = {}, true
for i = 2, #asked do
  checks[i] = look(i)
  admitted = admitted and checks[i].verdict == ADMITS
end

local out = { admitted and 1 or 0, time[1], time[2] }
if booking then
  for i = 2, #asked do
    local counts = checks[i].book(cost_of(i), booking[1] == REFUND, booking[2])
    local told = look(i)
    local remaining, reset = told.figures()
    local verdict = counts and told.verdict or NOWHERE
    for _, figure in ipairs({ verdict, remaining, told.retry or 0, reset, told.delay or 0 }) do
      out[#out + 1] = math.min(figure, 2 ^ 62)
    end
  end
  return out
end
for i = 2, #asked do
  local check = checks[i]
  local charged = admitted or (check.verdict == REFUSES and asked[i][6] == 1)
  local taken = charged and cost_of(i) or 0
  -- What was spoilt is written anew, so that it drains.
  if taken > 0 or check.spoilt then check.charge(taken) end
  local remaining, reset = check.figures()
  for _, figure in ipairs({ check.verdict, remaining, check.retry or 0, reset, check.delay or 0 }) do
    -- What no integer of a reply holds is as good as for ever.
    out[#out + 1] = math.min(figure, 2 ^ 62)
  end
end
return out
