-- How far back the store remembers what a fleet has counted.
--
-- KEYS[1]       the seal: '<run id of the server> <since, in us> <number>'
-- ARGV[1]       the highest number of a seal that the node has ever been told, 0 if of none
-- answer        the seal as it stands
--
-- A store that was emptied has no seal; one that started again, or took over from another,
-- has the seal of another run: it may lack the last writes. In both it remembers from now on.
-- Only where no node knows better is an empty store taken for that of a new fleet, which has
-- had nothing to forget. Numbers grow, so that a seal older than one that was told is that
-- of a store which had fallen behind.
--
-- What is no seal is replaced; and so is one since a moment that is still to come, which a
-- clock that was ahead has left: nothing would be trusted until then.
local call = redis.call
local LARGEST = 9007199254740992 -- 2^53: whole numbers are exact up to here
local found = redis.pcall('GET', KEYS[1])
if type(found) == 'table' and not string.find(found.err, 'WRONGTYPE') then return found end
local seal = type(found) == 'string' and found or ''
local run, since, number = string.match(seal, '^(%S+) (%d+) (%d+)$')
local here, told = string.match(call('INFO', 'server'), 'run_id:(%w+)'), tonumber(ARGV[1])
since, number = tonumber(since) or LARGEST, tonumber(number) or 0
if number >= LARGEST then run, number = nil, 0 end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local heir = number == told or (number > told and since > 0)
if run == here and since <= now and (told == 0 or heir) then return seal end
since = (found or told > 0) and now or 0
seal = string.format('%s %.0f %.0f', here, since, math.max(now, number + 1, told + 1))
call('SET', KEYS[1], seal)
return seal
