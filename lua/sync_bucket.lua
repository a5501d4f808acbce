-- One batch of one node for one hash of bucket debts.
--
-- KEYS[1..3]    the hashes of this slice of time, of the one before and of the one after:
--               field = 16-byte fingerprint -> debt and its time, with demand and level near the
--               limit; and one lane field a node boot -> token, with what the batch was granted
-- ARGV[1]       the lane's field
-- ARGV[2..n]    the cells' fields
-- ARGV[n+1]     msgpack as in sync_window.lua; the end is 0, and the slice in us comes last
-- answer        as in sync_window.lua, with debts for totals
--
-- A debt is the time in ns that the bucket takes to drain; it drains with the store's clock. A
-- slice is longer than any debt in it, so a cell that is in neither this slice nor the one
-- before is empty. A late batch also reaches a cell that the next slice has already taken over.
-- The batch is applied, and granted, as in sync_window.lua, at most once. What no node has
-- written counts as a full bucket. No cost takes a debt past twice its room.
local call, n = redis.call, #ARGV
local batch = cmsgpack.unpack(ARGV[n])
ARGV[n] = nil
n = n - 1
local found = call('HMGET', KEYS[1], unpack(ARGV))
local stored, known
if found[1] then stored, known = string.match(found[1], '^(%S+) ?(.*)$') end
local deltas, rooms, asks = batch[8], batch[9], batch[10]
local fits
if batch[4] == 1 then fits = not stored else fits = stored == batch[1] end
local missing = false
for i = 2, n do missing = missing or not found[i] end
local before = missing and call('HMGET', KEYS[2], unpack(ARGV)) or {}
local after = fits and call('EXISTS', KEYS[3]) == 1 and call('HMGET', KEYS[3], unpack(ARGV)) or {}
local time = call('TIME')
local now, slice = time[1] * 1000000 + time[2], batch[11]
-- The largest number below 2^63 that a double can hold, and of those that are exact.
local most, LARGEST = 9223372036854774784, 9007199254740992

local function aged(cell, room)
  if not cell then return 0, now, 0, 0 end
  local debt, last, demand, level = -1, now, 0, 0
  if #cell == 32 then
    debt, last, demand, level = struct.unpack('>dddd', cell)
  elseif #cell == 16 then
    debt, last = struct.unpack('>dd', cell)
  end
  local known = debt >= 0 and debt <= most and demand >= 0 and demand <= LARGEST
  if not (known and level >= 0 and level <= 2 and last >= 0) then return room, now, 0, 0 end
  -- A clock that stepped back neither repays nor freezes.
  if last - now > slice then return 0, now, 0, 0 end
  if now > last then debt, last = math.max(0, debt - (now - last) * 1000), now end
  return debt, last, demand, level
end

local function owing(debt, delta, room)
  local most_owed = delta > 0 and math.max(debt, 2 * room) or debt
  return math.max(0, math.min(debt + delta, most_owed, most))
end

local function packed(debt, last, demand, level)
  if demand + level == 0 then return struct.pack('>dd', debt, last) end
  return struct.pack('>dddd', debt, last, demand, level)
end

local asked = {}
for ask = 1, #asks, 6 do asked[asks[ask]] = ask end
local out = { fits and batch[2] or stored or false, time[1], time[2] }
local write, write_after = { ARGV[1], batch[2] }, {}
local demands, granted, lent = {}, {}, false
for i = 2, n do
  local room = rooms[i - 1]
  local debt, last, demand, level = aged(found[i] or before[i], room)
  -- Demand is reported anew in every slice.
  if not found[i] then demand = 0 end
  local ask, grant = asked[i - 1], 0
  if fits then
    local delta = deltas[i - 1]
    debt = owing(debt, delta, room)
    if ask then
      demand = math.max(0, math.min(demand + asks[ask + 4], LARGEST))
      if asks[ask + 1] > 0 then
        local free, unit = math.max(0, room - debt), asks[ask + 3]
        local part = math.max(unit, math.floor(free * asks[ask + 2] / 1000000 / unit) * unit)
        grant = math.min(asks[ask + 1], part, math.floor(free / unit) * unit)
        debt = debt + grant
        lent = lent or grant > 0
      end
      granted[#granted + 1] = grant
    end
    -- A bucket that drains while it fills is never quite full.
    local told, reached = level, debt * 8 >= room * 7 and 2 or debt * 2 >= room and 1 or 0
    local large = ask and delta > 0 and asks[ask + 5] > 0 and debt >= asks[ask + 5]
    if reached > level or large then
      redis.pcall('PUBLISH', batch[7], cmsgpack.pack(ARGV[i], math.max(1, reached), math.min(math.ceil(debt), most), demand, batch[6], time[1] + 0, time[2] + 0))
      level = math.max(level, reached)
    elseif reached == 0 then
      level = 0
    end
    if delta ~= 0 or ask or level ~= told then
      write[#write + 1] = ARGV[i]
      write[#write + 1] = packed(debt, last, demand, level)
      if after[i] and delta + grant ~= 0 then
        local later, at, wish, height = aged(after[i], room)
        write_after[#write_after + 1] = ARGV[i]
        write_after[#write_after + 1] = packed(owing(later, delta + grant, room), at, wish, height)
      end
    end
  end
  if ask then demands[#demands + 1] = demand end
  out[i + 2] = math.min(math.ceil(debt), most)
end
local again = granted
if not fits then
  again = stored == batch[2] and known ~= '' and cmsgpack.unpack(known) or {}
end
for ask = 1, #demands do
  out[#out + 1] = demands[ask]
  out[#out + 1] = again[ask] or 0
end
if fits then
  if lent then write[2] = batch[2] .. ' ' .. cmsgpack.pack(granted) end
  call('HSET', KEYS[1], unpack(write))
  if not stored then call('PEXPIRE', KEYS[1], batch[3]) end
  if #write_after > 0 then call('HSET', KEYS[3], unpack(write_after)) end
end
return out
