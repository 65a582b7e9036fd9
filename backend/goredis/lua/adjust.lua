-- adjust.lua changes what granted charges cost.
--
-- KEYS     the buckets, one for each change; the same one may stand twice
-- ARGV[1]  the limits, one for each change, eight doubles each (common.lua)
-- ARGV[2]  the changes, five doubles each: cost, units, when it was granted, the
--          entry, 1 if the charge has a receipt
-- ARGV[3]  now, as in take.lua
--
-- Returns a byte for each change: 1, or 0 where the key holds something else and
-- was left alone.

local now, given = clock(ARGV[3])
local L, C = numbers(ARGV[1]), numbers(ARGV[2])
local open

-- give_level and give_window return a state after units of a charge were taken
-- back, as far as it still counts, or nil if nothing of it does.
local function give_level(b, used, units, cost, at)
  local unit = L[b + 3]
  local full = cost * unit
  local gone, extra = drain(L, b, max(now - at, 0), full)
  if extra > 0 then gone = gone + 1 end
  local back = min(units * unit, full - gone, used)
  if back > 0 then return used - back, 0 end
end

local function give_window(b, length, a, before, units, at, entry)
  local size = L[b + 8]
  if entry ~= size or length ~= size then return nil end
  local ago = floor(now / size) - floor(min(at, now) / size)
  if ago == 0 and min(units, a) > 0 then return a - min(units, a), before end
  if ago == 1 and L[b + 1] == SLIDING and min(units, before) > 0 then return a, before - min(units, before) end
end

-- change applies one change to a string.
local function change(key, b, cost, units, at, entry, receipt)
  local kind, unit = L[b + 1], L[b + 3]
  local a, before, length, time, expiry = load_(redis.call('GET', key), kind, now)
  if not a then return false end
  if kind == LEVEL then
    a = in_steps(unit, length, a)
    a = a - drain(L, b, now - time, a)
  else
    a, before = counts(L, b, a, before, time, length, now)
  end
  if units > 0 then
    a = min(a + units * (kind == LEVEL and unit or 1), MOST)
  elseif not receipt then
    return true
  elseif kind == LEVEL then
    a, before = give_level(b, a, min(-units, cost), cost, at)
  else
    a, before = give_window(b, length, a, before, min(-units, cost), at, entry)
  end
  if not a then return true end
  local reset
  if kind == LEVEL then
    length, reset = unit > 1024 and 20 or 10, wait(L, b, a, 0)
  else
    length, reset = L[b + 8], window_reset(L, b, a, before, now)
  end
  save(key, kind, a, before, length, now, expiry, reset, true, given)
  return true
end

-- change_log applies one change to a log.
local function change_log(key, b, cost, units, at, entry, receipt)
  open = open or log_functions()
  local log = open.read(key, L[b + 8], now)
  if not log then return false end
  if units > 0 then
    open.add(key, log, now, units, given)
  elseif receipt then
    open.give(key, log, now, min(-units, cost), entry, at, given)
  end
  return true
end

-- Check every key before the first is written.
local right, out = {}, {}
for i = 1, #KEYS do
  local holds = redis.call('TYPE', KEYS[i]).ok
  right[i] = holds == 'none' or holds == (L[8 * i - 7] == LOG and 'list' or 'string')
end
for i = 1, #KEYS do
  local b, c = 8 * (i - 1), 5 * (i - 1)
  if right[i] and L[b + 2] > 0 then
    local apply = L[b + 1] == LOG and change_log or change
    right[i] = apply(KEYS[i], b, C[c + 1], C[c + 2], C[c + 3], C[c + 4], C[c + 5] == 1)
  end
  out[i] = right[i] and '1' or '0'
end
return table.concat(out)
