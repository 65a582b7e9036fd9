-- buckets.lua is take.lua for what nearly all calls are: charges on token and
-- leaky buckets, with numbers whose products are below 2^53. It has no functions,
-- few tables and few calls (x - x % 1 is floor without one), which is what makes a
-- short script cheap. A call whose products are larger is left undecided, for
-- take.lua.
--
-- KEYS     the buckets of the batch, each once
-- ARGV[1]  for each charge seven doubles: its key (1 is the first), 1 if another
--          charge of the call follows, plus 2 if the call is only to be judged, its
--          units; and of its limit: most, steps a unit, num and den, which drain in
--          a µs
-- ARGV[2]  now in µs since 1970 as a double, or "" for this server's clock
--
-- Returns what take.lua does; the byte has 16 if the call was left undecided.

local pack, unpack_ = struct.pack, struct.unpack
local MOST = 9007199254740991 -- 2^53 - 1
local RECORD = '<ddddddd'
local calls, given, now = ARGV[1], ARGV[2] ~= ''
if given then
  now = unpack_('<d', ARGV[2])
else
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
end

-- held[k] is the state of key k, as it is stored: shift of the steps (a byte),
-- level, time, expiry in ms.
local held
if KEYS[2] then
  held = redis.call('MGET', unpack(KEYS))
  for k = 1, #KEYS do
    -- MGET answers nil for a foreign type too, and SET would overwrite it.
    if not held[k] and redis.call('EXISTS', KEYS[k]) == 1 then held[k] = '' end
  end
else
  local s = redis.pcall('GET', KEYS[1])
  if type(s) == 'table' then
    if not string.find(s.err, '^WRONGTYPE') then return s end
    s = ''
  end
  held = {s}
end

local ms, out, ttls, judged = (now - now % 1000) / 1000, {}, {}, {}
local pos, n, size = 1, 0, #calls
local k, units, most, unit, num, den, level, extra, expiry, reason, retry
while pos <= size do
  -- Judge each charge on its level now; extra is what has drained of a step more.
  local first, status, i, more = pos, 4, 0, 1
  while more == 1 or more == 3 do
    k, more, units, most, unit, num, den, pos = unpack_(RECORD, calls, pos)
    if more > 1 and status == 4 then status = 0 end
    local s = held[k]
    level, extra, expiry = 0, 0, 0
    local shift, time = 0, 0
    if s and #s == 25 then shift, level, time, expiry = unpack_('<Bddd', s) end
    -- A string that only has the right length is none of ours.
    if (shift == 20 or shift == 10) and level >= 0 and level <= MOST and time >= 0 and time <= MOST then
      if shift == 20 and unit < 2000 then
        level = (level + 1023) / 1024
        level = level - level % 1
      elseif shift == 10 and unit > 2000 then
        level = level * 1024
        if level > MOST then level = MOST end
      end
      if time < now then
        local p = (now - time) * num
        local gone = p / den
        gone = gone - gone % 1
        extra = p - gone * den
        if p > MOST and gone < level * 2 then status = 16 end
        level = level - gone
        if level <= 0 then level, extra = 0, 0 end
      end
    elseif s then
      status, level, expiry = 8, 0, 0
    end
    local over = level + (units - most) * unit -- in this order below 2^53
    local after = level
    reason, retry = 0, 0
    if units > most then
      reason, retry = 2, -1
    elseif over > 0 and units > 0 then
      reason, retry = 1, (over * den - extra + num - 1) / num
      retry = retry - retry % 1
    else
      after = level + units * unit
    end
    if reason > 0 and status == 4 then status = 0 end
    if after * den + num > MOST then status = 16 end
    if i > 0 or more == 1 or more == 3 then -- of several
      judged[i + 1], judged[i + 2], judged[i + 3], judged[i + 4], judged[i + 5] = reason, retry, level, extra, expiry
    end
    i = i + 5
  end

  -- Tell what was judged, and store it if every charge has room.
  local alone, several, at = first == 1 and pos > size, i > 5, first
  i = 0
  repeat
    if several then
      k, more, units, most, unit, num, den, at = unpack_(RECORD, calls, at)
      reason, retry, level, extra, expiry = judged[i + 1], judged[i + 2], judged[i + 3], judged[i + 4], judged[i + 5]
      i = i + 5
    end
    local charged = status == 4 and units > 0
    if charged then level, extra = level + units * unit, 0 end
    local reset = 0
    if level > 0 then
      reset = (level * den - extra + num - 1) / num
      reset = reset - reset % 1
    end
    if charged then
      -- The key expires when it is empty, or up to a second later. An expiry that
      -- is right already is kept, which is cheaper, but for a call alone: that
      -- restores one that was lost.
      local empty = now + reset
      empty = (empty - empty % 1000) / 1000 + 1
      if alone or given or ttls[k] or expiry < empty or expiry > empty + 1000 then
        expiry = empty + 999
        ttls[k] = expiry - ms
      else
        ttls[k] = false
      end
      held[k] = pack('<Bddd', unit > 2000 and 20 or 10, level, now, expiry)
    end
    local left = (most * unit - level) / unit
    left = left - left % 1
    out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] = reason + status, left > 0 and left or 0, retry, reset, 0
    n = n + 5
  until not several or at >= pos
end

for k, ttl in pairs(ttls) do
  if not ttl then
    -- Redis writes a number with 17 digits, which takes longer than a text.
    redis.call('SETRANGE', KEYS[k], '0', held[k])
  else
    -- With a clock that is not this server's, keys stay for two minutes.
    if given and ttl < 120000 then ttl = 120000 end
    redis.call('SET', KEYS[k], held[k], 'PX', string.format('%d', ttl))
  end
end
return pack('<d' .. string.rep('Bdddd', n / 5), now, unpack(out, 1, n))
