-- take.lua decides a batch of calls, one after another: each charges all of its
-- buckets or none. It reads and checks every key before it writes any.
--
-- KEYS     the buckets of the batch, each once: strings, then logs
-- ARGV[1]  the limits, eight doubles each (common.lua)
-- ARGV[2]  doubles: how many of the keys are strings; then for each call how many
--          charges it has, below zero if they are only to be judged, and for each
--          of them its key (1 is the first), where its limit begins in the list (0
--          is the first), and its units
-- ARGV[3]  now in µs since 1970 as a double, or "" for this server's clock
--
-- Returns one string: now as a double; then for each charge a byte, its reason
-- (0 has room, 1 exceeded, 2 never, 3 its key holds something else) plus 4 if the
-- call was charged or 8 if one of its keys holds something else; and four doubles: remaining, retry after in µs (-1 never),
-- reset after in µs, entry.
--
-- Raises READONLY, OOM and the like before anything is written.

local now, given = clock(ARGV[3])
local L, C = numbers(ARGV[1]), numbers(ARGV[2])
local strings, size = C[1], #ARGV[2] / 8

-- The state of each key: see load_. A key without one holds something else.
local A, B, S, T, E = {}, {}, {}, {}, {}
local held = strings > 0 and redis.call('MGET', unpack(KEYS, 1, strings))
local open, logs -- what log.lua has, and the logs
do
  local i = 2
  while i <= size do
    for j = i + 1, i + 3 * math.abs(C[i]), 3 do
      local k, kind = C[j], L[C[j + 1] + 1]
      if kind == LOG then
        open = open or log_functions()
        logs = logs or {}
        logs[k] = logs[k] or open.read(KEYS[k], L[C[j + 1] + 8], now)
      -- MGET answers nil for a foreign type too, and SET would overwrite it.
      elseif not A[k] and (held[k] or redis.call('EXISTS', KEYS[k]) == 0) then
        A[k], B[k], S[k], T[k], E[k] = load_(held[k], kind, now)
      end
    end
    i = i + 3 * math.abs(C[i]) + 1
  end
end

-- judge_level, judge_window and judge_log return what is left of a bucket for a
-- charge; how much of it is too much; the µs to wait for that; and the µs until
-- nothing is used. level and before are what they computed, for charge.
local level, before = {}, {}

local function judge_level(j, k, b, units)
  local most, unit = L[b + 2], L[b + 3]
  local used = in_steps(unit, S[k], A[k])
  local gone, extra = drain(L, b, now - T[k], used)
  used = used - gone
  level[j] = used
  local over, retry = used + (units - most) * unit, 0 -- in this order below 2^53
  if over > 0 and units <= most then retry = wait(L, b, over, extra) end
  return floor((most * unit - used) / unit), over, retry, wait(L, b, used, extra)
end

local function judge_window(j, k, b, units)
  local most, length = L[b + 2], L[b + 8]
  local a, previous = counts(L, b, A[k], B[k], T[k], S[k], now)
  level[j], before[j] = a, previous
  local left, used = length - now % length, a
  if previous > 0 then
    local q, rest = muldiv(previous, left, length, 0)
    used = used + q
    if rest > 0 then used = used + 1 end
  end
  local over, retry = used + (units - most), left -- in this order below 2^53
  if over > 0 and units <= most and L[b + 1] == SLIDING then
    if units + a <= most then
      retry = left - muldiv(most - units - a, length, previous, 0)
    else
      retry = left + max(0, length - muldiv(most - units, length, a, 0))
    end
  end
  return most - used, over, retry, window_reset(L, b, a, previous, now)
end

local function judge_log(_, k, b, units)
  local most, length = L[b + 2], L[b + 8]
  if logs[k].length ~= length then logs[k] = open.read(KEYS[k], length, now) end
  local log = logs[k]
  local over, retry = log.used + (units - most), 0
  if over > 0 and units <= most then retry = open.wait(KEYS[k], log, now, over) end
  return most - log.used, over, retry, open.reset(log, now)
end

-- charge stores a charge that has room, and returns what is left, the µs until
-- nothing is used, and its entry.
local dirty, resets = {}, {} -- what to save: kinds, and µs until nothing is used
local function charge(j, k, b, units, left)
  local kind, unit = L[b + 1], L[b + 3]
  if kind == LOG then
    local entry = open.add(KEYS[k], logs[k], now, units, given)
    return left - units, open.reset(logs[k], now), entry
  end
  local reset
  if kind == LEVEL then
    local used = min(level[j] + units * unit, MOST)
    A[k], S[k] = used, unit > 1024 and 20 or 10
    left, reset = floor((L[b + 2] * unit - used) / unit), wait(L, b, used, 0)
  else
    A[k], B[k], S[k] = min(level[j] + units, MOST), before[j], L[b + 8]
    left, reset = left - units, window_reset(L, b, A[k], B[k], now)
  end
  T[k], dirty[k] = now, kind
  resets[k] = reset
  return left, reset, kind ~= LEVEL and L[b + 8] or 0
end

local out, o, i = {now}, 1, 2
while i <= size do
  local first, last, granted, from = i + 1, i + 3 * math.abs(C[i]), 4, o
  if C[i] < 0 then granted = 0 end
  for j = first, last, 3 do
    local k, b, units = C[j], C[j + 1], C[j + 2]
    local kind, reason, left, over, retry, reset = L[b + 1], 0, 0, 0, 0, 0
    if kind == LOG and not logs[k] or kind ~= LOG and not A[k] then
      granted, reason = 8, 3
    elseif L[b + 2] <= 0 then -- COUNT 0: nothing is read or stored
      over = units
    elseif kind == LEVEL then
      left, over, retry, reset = judge_level(j, k, b, units)
    elseif kind == LOG then
      left, over, retry, reset = judge_log(j, k, b, units)
    else
      left, over, retry, reset = judge_window(j, k, b, units)
    end
    if units <= 0 or over <= 0 then
      retry = 0
    else
      if units > L[b + 2] then reason, retry = 2, -1 else reason = 1 end
      if granted == 4 then granted = 0 end
    end
    out[o + 1], out[o + 2], out[o + 3], out[o + 4], out[o + 5] = reason, max(left, 0), retry, reset, 0
    o = o + 5
  end
  o = from
  for j = first, last, 3 do
    if granted == 4 and C[j + 2] > 0 then
      out[o + 2], out[o + 4], out[o + 5] = charge(j, C[j], C[j + 1], C[j + 2], out[o + 2])
    end
    out[o + 1] = out[o + 1] + granted
    o = o + 5
  end
  i = last + 1
end

local alone = 2 + 3 * math.abs(C[2]) == size -- one call
for k, kind in pairs(dirty) do save(KEYS[k], kind, A[k], B[k], S[k], now, E[k], resets[k], alone, given) end
return pack('<d' .. rep('Bdddd', (o - 1) / 5), unpack(out, 1, o))
