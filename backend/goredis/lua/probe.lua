-- probe.lua tries the commands of the other scripts, to name those that the user
-- may not run. An error of another kind, as for a type, says that it may.
--
-- KEYS[1]  a key that nothing else has; it is gone afterwards
--
-- Returns the names of the commands that were refused.

local key, missing = KEYS[1], {}

local function try(name, ...)
  local reply = redis.pcall(name, ...)
  local err = type(reply) == 'table' and reply.err
  if err and (err:find('NOPERM', 1, true) or err:find("can't run", 1, true)) then missing[#missing + 1] = name:lower() end
end

try('TIME')
try('SET', key, 'probe', 'PX', '1000')
try('GET', key)
try('MGET', key)
try('EXISTS', key)
try('PTTL', key)
try('TYPE', key)
try('SETRANGE', key, 0, 'p')
try('RPUSH', key, 'probe')
try('LLEN', key)
try('LINDEX', key, 0)
try('LRANGE', key, 0, 0)
try('LSET', key, 0, 'p')
try('LTRIM', key, 0, 0)
try('RPOP', key)
try('PEXPIRE', key, 0)
return missing
