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
local call = redis.call
local seal = call('GET', KEYS[1])
local run, since, number = string.match(seal or '', '^(%S+) (%d+) (%d+)$')
local here, told = string.match(call('INFO', 'server'), 'run_id:(%w+)'), tonumber(ARGV[1])
number = tonumber(number) or 0
local heir = number == told or (number > told and since ~= '0')
if run == here and (told == 0 or heir) then return seal end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
since = (seal or told > 0) and now or 0
seal = string.format('%s %.0f %.0f', here, since, math.max(now, number + 1, told + 1))
call('SET', KEYS[1], seal)
return seal
