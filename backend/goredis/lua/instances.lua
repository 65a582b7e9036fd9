-- instances.lua counts the live instances that share a namespace.
--
-- KEYS[1]  sorted set: an instance's name, and when it was last heard, ms since 1970
-- ARGV[1]  the instance that calls
-- ARGV[2]  how long one that is not heard is counted, ms
-- ARGV[3]  1 if the caller lives, 0 if it leaves
--
-- Returns how many live. The key expires with the last of them.

local t = redis.call('TIME')
local now, life = t[1] * 1000 + math.floor(t[2] / 1000), tonumber(ARGV[2])

if ARGV[3] == '1' then
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
-- After the clock stepped back nobody is heard in the future.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - life))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + life), '+inf')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
