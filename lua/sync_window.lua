-- One batch of one node for one hash of window counts.
--
-- KEYS[1]       the hash: field = 16-byte fingerprint -> count, or 'count demand level' near the
--               limit; and one lane field a node boot -> token, with what the batch was granted
-- KEYS[2]       the fleet's seal, if any ask is sealed
-- ARGV[1]       the lane's field
-- ARGV[2..n]    the cells' fields
-- ARGV[n+1]     msgpack {previous token, new token, time to live in ms, open, end of the window
--               in us, the slot's name, channel, deltas, rooms, asks}; for each ask {number of
--               the cell, wanted, portion in millionths, unit, change of demand, total from
--               which on its delta is announced or 0}, all in one row;
--               and if any ask is sealed, {.., the seal as this node knows it, or '' if the window
--               is older, first moment in us at which they are granted anything, numbers of
--               their cells}
-- answer        {stored token or nil, seconds, microseconds, total of each cell, demand and
--               grant of each ask}
--
-- The batch is applied only if the lane's stored token is the previous one (open = 1: only if
-- there is none yet), so a batch may be sent any number of times, and is granted the same each
-- time. Lane and counts share one hash: no loss can part them. Everything is read before
-- anything is written, since an error does not roll back.
--
-- Sealed asks are granted nothing where the store has forgotten, see seal.lua, or may have.
--
-- What stands in a cell and no node has written counts as full: nothing is promised too much,
-- and no other cell of the batch suffers.
--
-- A total is what was used and what is lent. A grant is a node's portion of what is free. Half
-- full and full are announced to all nodes, once each; and a delta that leaves little, if its node says so.
local call, hash, n = redis.call, KEYS[1], #ARGV
local batch = cmsgpack.unpack(ARGV[n])
ARGV[n] = nil
n = n - 1
local found = call('HMGET', hash, unpack(ARGV))
local time = call('TIME')
local stored, before
if found[1] then stored, before = string.match(found[1], '^(%S+) ?(.*)$') end
local deltas, rooms, asks = batch[8], batch[9], batch[10]

-- Beyond 2^53 a number would no longer be exact.
local LARGEST = 9007199254740992

local function read(value, room)
  if not value then return 0, 0, 0 end
  local count, demand, level = tonumber(value), 0, 0
  if not count then
    count, demand, level = string.match(value, '^(%d+) (%d+) ([012])$')
    count, demand, level = tonumber(count), tonumber(demand), tonumber(level)
  end
  if count and count >= 0 and count <= LARGEST and count % 1 == 0 and demand <= LARGEST then
    return count, demand, level
  end
  return room, 0, 0
end

local fits
if batch[4] == 1 then fits = not stored else fits = stored == batch[1] end
if not fits then
  local out = { stored or false, time[1], time[2] }
  local demands = {}
  for i = 2, n do out[i + 2], demands[i] = read(found[i], rooms[i - 1]) end
  local again = stored == batch[2] and before ~= '' and cmsgpack.unpack(before) or {}
  for ask = 1, #asks, 6 do
    out[#out + 1] = demands[asks[ask] + 1]
    out[#out + 1] = again[(ask + 5) / 6] or 0
  end
  return out
end

local now, open = time[1] * 1000000 + time[2], true
if batch[5] > 0 then open = now < batch[5] end
local asked, denied = {}, {}
if batch[11] and (now < batch[12] or call('GET', KEYS[2]) ~= batch[11]) then
  for _, cell in ipairs(batch[13]) do denied[cell] = true end
end
for ask = 1, #asks, 6 do asked[asks[ask]] = ask end
local out, write = { batch[2], time[1], time[2] }, { ARGV[1], batch[2] }
local demands, granted, lent = {}, {}, false
for i = 2, n do
  local delta, room, ask = deltas[i - 1], rooms[i - 1], asked[i - 1]
  local count, demand, level = read(found[i], room)
  count = math.max(0, math.min(count + delta, LARGEST))
  local grant = 0
  if ask then
    demand = math.max(0, math.min(demand + asks[ask + 4], LARGEST))
    if asks[ask + 1] > 0 and open and not denied[i - 1] then
      local free, unit = math.max(0, room - count), asks[ask + 3]
      local part = math.max(unit, math.floor(free * asks[ask + 2] / 1000000 / unit) * unit)
      grant = math.min(asks[ask + 1], part, math.floor(free / unit) * unit)
      count = count + grant
      lent = lent or grant > 0
    end
    demands[#demands + 1], granted[#granted + 1] = demand, grant
  end
  local told, reached = level, count >= room and 2 or count * 2 >= room and 1 or 0
  local large = ask and delta > 0 and asks[ask + 5] > 0 and count >= asks[ask + 5]
  if reached > level or large then
    redis.pcall('PUBLISH', batch[7], cmsgpack.pack(ARGV[i], math.max(1, reached), count, demand, batch[6], time[1] + 0, time[2] + 0))
    level = math.max(level, reached)
  elseif reached == 0 then
    level = 0
  end
  if delta ~= 0 or ask or level ~= told then
    write[#write + 1] = ARGV[i]
    write[#write + 1] = demand + level == 0 and count or string.format('%.0f %.0f %d', count, demand, level)
  end
  out[i + 2] = count
end
for ask = 1, #granted do
  out[#out + 1] = demands[ask]
  out[#out + 1] = granted[ask]
end
if lent then write[2] = batch[2] .. ' ' .. cmsgpack.pack(granted) end
call('HSET', hash, unpack(write))
if not stored then call('PEXPIRE', hash, batch[3]) end
return out
