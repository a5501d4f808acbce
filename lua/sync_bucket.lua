-- One batch of one node for one hash of bucket debts.
--
-- KEYS[1..3]    the hashes of this slice of time, of the one before and of the one after:
--               field = 16-byte fingerprint -> debt and its time, and one lane field a node boot -> token
-- ARGV[1]       the lane's field
-- ARGV[2..n]    the cells' fields
-- ARGV[n+1]     msgpack {previous token, new token, time to live in ms, open, slice in us, delta of each cell}
-- answer        {stored token or nil, seconds, microseconds, debt of each cell}
--
-- A debt is the time in ns that the bucket takes to drain; it drains with the store's clock. A
-- slice is longer than any debt in it, so a cell that is in neither this slice nor the one
-- before is empty. A late batch also reaches a cell that the next slice has already taken over.
-- The batch is applied as in sync_window.lua, at most once.
local call, n = redis.call, #ARGV
local batch = cmsgpack.unpack(ARGV[n])
ARGV[n] = nil
n = n - 1
local found = call('HMGET', KEYS[1], unpack(ARGV))
local lane = found[1]
local fits
if batch[4] == 1 then fits = not lane else fits = lane == batch[1] end
local missing = false
for i = 2, n do missing = missing or not found[i] end
local before = missing and call('HMGET', KEYS[2], unpack(ARGV)) or {}
local after = fits and call('EXISTS', KEYS[3]) == 1 and call('HMGET', KEYS[3], unpack(ARGV)) or {}
local time = call('TIME')
local now, slice = time[1] * 1000000 + time[2], batch[5]

local function aged(cell)
  if not cell then return 0, now end
  local debt, last = struct.unpack('>dd', cell)
  -- A clock that stepped back neither repays nor freezes.
  if last - now > slice then return 0, now end
  if now > last then debt, last = math.max(0, debt - (now - last) * 1000), now end
  return debt, last
end

local out = { fits and batch[2] or lane, time[1], time[2] }
local write, write_after = { ARGV[1], batch[2] }, {}
for i = 2, n do
  local debt, last = aged(found[i] or before[i])
  if fits then
    local delta = batch[i + 4]
    if delta ~= 0 then
      debt = math.max(0, debt + delta)
      write[#write + 1] = ARGV[i]
      write[#write + 1] = struct.pack('>dd', debt, last)
      if after[i] then
        local later, at = aged(after[i])
        write_after[#write_after + 1] = ARGV[i]
        write_after[#write_after + 1] = struct.pack('>dd', math.max(0, later + delta), at)
      end
    end
  end
  -- The largest number below 2^63 that a double can hold.
  out[i + 2] = math.min(math.ceil(debt), 9223372036854774784)
end
if fits then
  call('HSET', KEYS[1], unpack(write))
  if not lane then call('PEXPIRE', KEYS[1], batch[3]) end
  if #write_after > 0 then call('HSET', KEYS[3], unpack(write_after)) end
end
return out
