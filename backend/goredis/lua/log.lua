-- log.lua is the body of a function, log_functions of common.lua's successors:
-- the state of SLIDING_LOG, made only where there is one.
--
-- A log is a list. Its first element is the head: the sum of the costs of the
-- entries, and the number of the next entry. The others are the entries, the
-- oldest first: time, cost, number. An entry of cost 0 was given back; the last
-- one has a cost.

local CHUNK = 64 -- entries read at once

-- walk calls visit with the time and cost of each entry from one place of the
-- list on, until visit returns true.
local function walk(key, from, visit)
  while true do
    local list = redis.call('LRANGE', key, from, from + CHUNK - 1)
    for i = 1, #list do
      if visit(unpack_('<dd', list[i])) then return end
    end
    if #list < CHUNK then return end
    from = from + CHUNK
  end
end

-- read returns what of a log is used at now under windows of length, and how
-- many entries are gone; or nil where the key holds something else.
local function read(key, length, now)
  local head = redis.pcall('LRANGE', key, 0, 0)
  if head.err then return nil end
  local log = {used = 0, next = 1, gone = 0, newest = 0, there = false, length = length}
  if not head[1] then return log end
  if #head[1] ~= 16 then return nil end
  log.there = true
  log.used, log.next = unpack_('<dd', head[1])
  walk(key, 1, function(time, cost)
    if now - time < length then return true end
    log.gone, log.used = log.gone + 1, log.used - cost
  end)
  local last = redis.call('LINDEX', key, -1)
  if #last == 24 then log.newest = min(unpack_('<d', last), now) end
  return log
end

-- wait_for returns the µs until need units of the oldest entries are gone.
local function wait_for(key, log, now, need)
  local t = 1
  walk(key, log.gone + 1, function(time, cost)
    need = need - cost
    t = max(min(time, now) + log.length - now, 1)
    return need <= 0
  end)
  return t
end

-- reset returns the µs until the newest entry is gone.
local function reset(log, now)
  if log.used <= 0 then return 0 end
  return log.newest + log.length - now
end

-- trim drops what is gone, stores as now a time later than now, and leaves a
-- list whose head is still to be written.
local function trim(key, log, now)
  if log.gone > 0 then
    redis.call('LTRIM', key, log.gone, -1) -- the last one gone is where the head goes
    log.gone = 0
  end
  local i = -1
  while log.there do
    local s = redis.call('LINDEX', key, i)
    if not s or #s ~= 24 then break end
    local time, cost, number = unpack_('<ddd', s)
    if time <= now then break end
    redis.call('LSET', key, i, pack('<ddd', now, cost, number))
    i = i - 1
  end
end

-- finish writes the head, and has the key expire with its newest entry, up to a
-- second later.
local function finish(key, log, now, given)
  redis.call('LSET', key, 0, pack('<dd', log.used, log.next))
  local ttl = floor(reset(log, now) / 1000) + 1000
  if given then ttl = max(ttl, 120000) end
  redis.call('PEXPIRE', key, ttl)
end

-- add charges units and returns the number of their entry.
local function add(key, log, now, units, given)
  trim(key, log, now)
  units = min(units, MOST - log.used)
  local number = log.next
  if not log.there then
    redis.call('RPUSH', key, '') -- the head
    log.there = true
  end
  if units > 0 then
    redis.call('RPUSH', key, pack('<ddd', now, units, number))
    log.used, log.next, log.newest = log.used + units, number + 1, now
  end
  finish(key, log, now, given)
  return number
end

-- find returns the place in the list of the entry with a number, its time and its
-- cost, or nil.
local function find(key, log, number)
  local low, high = log.gone + 1, redis.call('LLEN', key) - 1
  while low <= high do
    local middle = floor((low + high) / 2)
    local time, cost, n = unpack_('<ddd', redis.call('LINDEX', key, middle))
    if n == number then return middle, time, cost end
    if n < number then low = middle + 1 else high = middle - 1 end
  end
end

-- give takes units back from the entry with a number, if it was made at a time
-- or, since the clock stepped back, is said to have been made before it: after
-- the key expired, numbers begin again.
local function give(key, log, now, units, number, at, given)
  if not log.there then return end
  local place, time, cost = find(key, log, number)
  if not place or time > at or cost <= 0 then return end
  units = min(units, cost)
  redis.call('LSET', key, place, pack('<ddd', time, cost - units, number))
  log.used = log.used - units
  trim(key, log, now)
  while true do
    if redis.call('LLEN', key) == 1 then log.newest = 0; break end
    time, cost = unpack_('<dd', redis.call('LINDEX', key, -1))
    if cost > 0 then log.newest = time; break end
    redis.call('RPOP', key)
  end
  finish(key, log, now, given)
end

return {read = read, wait = wait_for, reset = reset, add = add, give = give}
