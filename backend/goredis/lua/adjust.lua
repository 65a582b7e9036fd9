-- adjust.lua, after common.lua and log.lua, changes what granted charges cost.
--
-- KEYS     the buckets, one for each change; the same one may stand twice
-- ARGV[1]  the limits, as in take.lua, one for each change
-- ARGV[2]  the changes, five doubles each: cost, units, when it was granted, the
--          entry, 1 if the charge has a receipt
-- ARGV[3]  now, as in take.lua
--
-- Returns how many keys hold something else and were left alone.

local foreign = ARGV[3] ~= ''
local now
if foreign then
  now = unpack_('<d', ARGV[3])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

-- give_level, give_window take back what of a charge still counts, at most
-- units; they return whether there was anything.
local function give_level(limit, st, level, units, cost, at)
  local full = cost * limit.unit
  local gone, extra = drained(limit, max(now - at, 0), full)
  if extra > 0 then gone = gone + 1 end
  local given = min(units * limit.unit, full - gone, level)
  if given <= 0 then return false end
  st.a, st.shift, st.time = level - given, limit.shift, now
  return true
end

local function give_window(limit, st, units, at, entry)
  local length = limit.length
  if entry ~= length or st.length ~= length then return false end
  local a, b = counts(limit, st, now)
  local ago = floor(now / length) - floor(min(at, now) / length)
  local given = 0
  if ago == 0 then
    given = min(units, a)
    a = a - given
  elseif ago == 1 and limit.kind == SLIDING then
    given = min(units, b)
    b = b - given
  end
  if given <= 0 then return false end
  st.a, st.b, st.time = a, b, now
  return true
end

-- change applies one change to a string's state.
local function change(key, limit, cost, units, at, entry, receipt)
  local held = redis.call('GET', key)
  local st = decode(limit.kind, held, now)
  if not st then return false end
  local level
  if limit.kind == LEVEL then
    level = level_of(limit, st)
    level = level - drained(limit, now - st.time, level)
  end
  local changed = true
  if units > 0 then
    if limit.kind == LEVEL then
      st.a, st.shift = min(level + units * limit.unit, MOST), limit.shift
    else
      st.a, st.b = counts(limit, st, now)
      st.a, st.length = min(st.a + units, MOST), limit.length
    end
    st.time = now
  elseif not receipt then
    changed = false
  elseif limit.kind == LEVEL then
    changed = give_level(limit, st, level, min(-units, cost), cost, at)
  else
    changed = give_window(limit, st, min(-units, cost), at, entry)
  end
  if changed then put(key, limit, st, now, true, foreign) end
  return true
end

local function change_log(key, limit, cost, units, at, entry, receipt)
  local log = log_read(key, limit, now)
  if not log then return false end
  if units > 0 then
    log_add(key, limit, log, now, units, foreign)
  elseif receipt then
    log_give(key, limit, log, now, min(-units, cost), entry, at, foreign)
  end
  return true
end

-- Check every key before the first is written.
local others = 0
local held = {}
for i = 1, #KEYS do
  local kind = redis.call('TYPE', KEYS[i]).ok
  local limit = read_limit(ARGV[1], i - 1)
  local want = limit.kind == LOG and 'list' or 'string'
  held[i] = (kind == 'none' or kind == want) and limit
  if not held[i] then others = others + 1 end
end
for i = 1, #KEYS do
  local limit = held[i]
  if limit and limit.most > 0 then
    local cost, units, at, entry, receipt = unpack_('<ddddd', ARGV[2], (i - 1) * 40 + 1)
    local apply = limit.kind == LOG and change_log or change
    if not apply(KEYS[i], limit, cost, units, at, entry, receipt == 1) then others = others + 1 end
  end
end
return others
