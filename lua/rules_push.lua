-- Puts the fleet's rules into the store, if they are still those that their author has seen.
--
-- KEYS[1]   hash: version, hash and body of the rules; without it the version is 0
-- ARGV[1]   the version that must be there
-- ARGV[2]   hash of the body
-- ARGV[3]   the body
-- answer    {1 done or 0 not, the version that is there now}
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
if version ~= tonumber(ARGV[1]) then return { 0, version } end
redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version + 1), 'hash', ARGV[2], 'body', ARGV[3])
return { 1, version + 1 }
