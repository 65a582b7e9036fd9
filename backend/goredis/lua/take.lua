-- take.lua, after common.lua and log.lua, decides a batch of calls, one after
-- another: each charges all of its buckets or none. It reads and checks every
-- key before it writes any.
--
-- KEYS     the buckets of the batch, each once
-- ARGV[1]  the limits, seven doubles each: kind, most, shift, whole, part, den, length
-- ARGV[2]  the calls: how many charges (16 bits), then for each its key and
--          limit, counted from 0 (16 bits), and its units (double)
-- ARGV[3]  now in µs since 1970 as a double, or "" for this server's clock
--
-- Returns one string: now (double), then for each call a byte: 0 refused, 1
-- granted, 2 a key holds something else; and, but for 2, for each charge a byte
-- (0 has room, 1 exceeded, 2 never) and four doubles: remaining, retry after µs
-- (-1 never), reset after µs, entry.
--
-- Raises READONLY, OOM and the like before anything is written.

local foreign = ARGV[3] ~= ''
local now
if foreign then
  now = unpack_('<d', ARGV[3])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

local limits = {}
for i = 0, #ARGV[1] / 56 - 1 do limits[i] = read_limit(ARGV[1], i) end

-- First: which kind each key is, then all that they hold.
local calls, kinds = {}, {}
do
  local list, pos, n = ARGV[2], 1, 0
  while pos <= #list do
    n, pos = unpack_('<H', list, pos)
    local call = {}
    for i = 1, n do
      local key, limit, units
      key, limit, units, pos = unpack_('<HHd', list, pos)
      call[i] = {key = key + 1, limit = limits[limit], units = units}
      kinds[key + 1] = limits[limit]
    end
    calls[#calls + 1] = call
  end
end
local strings, places = {}, {}
for k = 1, #KEYS do
  if kinds[k].kind ~= LOG then
    strings[#strings + 1] = KEYS[k]
    places[#places + 1] = k
  end
end
local states, dirty = {}, {}
if #strings > 0 then
  local held = redis.call('MGET', unpack(strings))
  for i = 1, #strings do
    local k = places[i]
    -- MGET answers nil for a foreign type too, and SET would overwrite it.
    if held[i] or redis.call('EXISTS', KEYS[k]) == 0 then states[k] = decode(kinds[k].kind, held[i], now) end
  end
end
for k = 1, #KEYS do
  if kinds[k].kind == LOG then states[k] = log_read(KEYS[k], kinds[k], now) end
end

-- judge_level, judge_window and judge_log return how much of a bucket is used
-- now, in units of the limit's most; how many µs a refused charge of units has
-- to wait; and the µs until nothing is used.
local function judge_level(c, st)
  local limit = c.limit
  local level = level_of(limit, st)
  local elapsed = now - st.time
  local gone, extra = drained(limit, elapsed, level)
  c.level = level - gone
  local over = c.level + (c.units - limit.most) * limit.unit -- in this order it stays below 2^53
  local retry = 0
  if over > 0 then retry = wait(limit, over, extra) end
  return max(floor((limit.most * limit.unit - c.level) / limit.unit), 0), over, retry, wait(limit, c.level, extra)
end

local function judge_window(c, st)
  local limit = c.limit
  local length = limit.length
  local a, b = counts(limit, st, now)
  c.current, c.previous = a, b
  local left = length - now % length
  local used = a
  if b > 0 then used = used + ceildiv(b, left, length) end
  local over, retry, reset = used + c.units - limit.most, 0, 0
  if over > 0 then
    local room = limit.most - c.units - a
    if room >= 0 and b > 0 then
      retry = left - muldiv(room, length, b, 0)
    else
      retry = left
      if limit.kind == SLIDING and limit.most >= c.units then
        retry = left + max(0, length - muldiv(limit.most - c.units, length, a, 0))
      end
    end
  end
  if a > 0 then
    reset = left
    if limit.kind == SLIDING then reset = left + length end
  elseif b > 0 then
    reset = left
  end
  return max(limit.most - used, 0), over, retry, reset
end

local function judge_log(c, log)
  local limit = c.limit
  if log.length ~= limit.length then -- another limit of the batch read it
    log = log_read(KEYS[c.key], limit, now)
    states[c.key] = log
  end
  local over, retry = log.used + c.units - limit.most, 0
  if over > 0 and c.units <= limit.most then retry = log_wait(KEYS[c.key], limit, log, now, over) end
  return max(limit.most - log.used, 0), over, retry, log_reset(limit, log, now)
end

local judges = {[LEVEL] = judge_level, [FIXED] = judge_window, [SLIDING] = judge_window, [LOG] = judge_log}

-- judge decides a charge on the state as it is.
local function judge(c)
  local limit = c.limit
  c.reason, c.entry = 0, 0
  if limit.most <= 0 then -- COUNT 0: nothing is read or stored
    c.remaining, c.retry, c.reset = 0, -1, 0
    if c.units > 0 then c.reason = 2 else c.retry = 0 end
    return
  end
  local over
  c.remaining, over, c.retry, c.reset = judges[limit.kind](c, states[c.key])
  if c.units <= 0 or over <= 0 then
    c.retry = 0
  elseif c.units > limit.most then
    c.reason, c.retry = 2, -1
  else
    c.reason = 1
  end
end

-- charge stores a charge that was judged to have room.
local function charge(c)
  local limit, st = c.limit, states[c.key]
  if limit.kind == LOG then
    c.entry = log_add(KEYS[c.key], limit, st, now, c.units, foreign)
    c.remaining = max(limit.most - st.used, 0)
    c.reset = log_reset(limit, st, now)
    return
  end
  if limit.kind == LEVEL then
    st.a, st.shift = min(c.level + c.units * limit.unit, MOST), limit.shift
    c.remaining = max(floor((limit.most * limit.unit - st.a) / limit.unit), 0)
  else
    st.a, st.b, st.length = min(c.current + c.units, MOST), c.previous, limit.length
    c.remaining = max(c.remaining - c.units, 0)
    c.entry = limit.length
  end
  st.time = now
  c.reset = to_empty(limit, st, now)
  dirty[c.key] = limit
end

local out = {pack('<d', now)}
for i = 1, #calls do
  local call, granted = calls[i], 1
  for j = 1, #call do
    local c = call[j]
    if not states[c.key] then granted = 2; break end
    judge(c)
    if c.reason ~= 0 then granted = 0 end
  end
  out[#out + 1] = string.char(granted)
  if granted ~= 2 then
    for j = 1, #call do
      local c = call[j]
      if granted == 1 and c.units > 0 then charge(c) end
      out[#out + 1] = pack('<Bdddd', c.reason, c.remaining, c.retry, c.reset, c.entry)
    end
  end
end

local alone = #KEYS <= 2
for k, limit in pairs(dirty) do put(KEYS[k], limit, states[k], now, alone, foreign) end
return table.concat(out)
