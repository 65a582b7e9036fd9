-- buckets.lua is take.lua for what nearly all calls are: charges on token and
-- leaky buckets, with numbers whose products are below 2^53. It has no functions,
-- few tables and few calls (x - x % 1 is floor without one), which is what makes a
-- short script cheap; and it answers with states, not with what follows from them.
-- A call whose products are larger is left undecided, for take.lua.
--
-- KEYS     the buckets of the batch, each once
-- ARGV[1]  for each charge seven doubles: its key (1 is the first), 1 if another
--          charge of the call follows, plus 2 if the call is only to be judged, its
--          units; and of its limit: most, steps a unit, num and den, which drain in
--          a µs
-- ARGV[2]  now in µs since 1970 as a double, or "" for this server's clock
--
-- Returns one string: now as a double; then for each call a byte, + if all charges
-- have room and were charged, - if not or if they were only judged, ! if a key
-- holds something else, ? if it was left undecided; and for each of its charges a
-- byte, the form of its bucket's state, and the state: as this charge stored it, or
-- as it was before if nothing was charged. The forms are 0 for none, s for short, l
-- for long (common.lua has both), ! for something else.
--
-- Raises READONLY, OOM and the like before anything is written.

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
local low = now % 281474976710656 -- 2^48
local high = (now - low) / 281474976710656
local second = (now - now % 1000000) / 1000000

local held -- the state of each key, as it is stored
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

local out, n = {pack('<d', now)}, 1
local expiries = {} -- of each charged key the one to write, in s, or false to keep its own
local judged = {}
local pos, size = 1, #calls
local k, units, most, unit, num, den
while pos <= size do
  -- Judge each charge on its level now; exponent is that of its expiry.
  local first, status, more, count = pos, '+', 1, 0
  local level, expiry, exponent
  while more == 1 or more == 3 do
    k, more, units, most, unit, num, den, pos = unpack_(RECORD, calls, pos)
    if more > 1 and status == '+' then status = '-' end
    level, expiry, exponent = 0, 0, 0
    local s, shift, time = held[k], 20, now
    if s then
      if #s == 12 then
        local rest, code
        time, rest = unpack_('<I6I6', s)
        code = rest % 16
        time = time + code * 281474976710656
        rest = (rest - code) / 16
        code = rest % 512
        rest = (rest - code) / 512
        level = rest % 2147483648
        if rest - level ~= 21474836480 then shift = 0 end
        local m = code % 16
        exponent = (code - m) / 16
        local q = 2 ^ exponent
        expiry = (time - time % 1000000) / 1000000
        expiry = expiry - expiry % q + m * q
      elseif #s == 25 then
        shift, level, time, expiry = unpack_('<Bddd', s)
        if not (level >= 0 and level <= MOST and time >= 0 and time <= MOST) then shift = 0 end
      else
        shift = 0
      end
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
        if p > MOST and gone < level * 2 then status = '?' end
        level = level - gone
        if level < 0 then level = 0 end
      end
    end
    -- A string that only has the right length is none of ours.
    if shift ~= 20 and shift ~= 10 then
      status, level = '!', -1
    elseif (units > most or units > 0 and level + (units - most) * unit > 0) and status == '+' then
      status = '-' -- the sum in this order is below 2^53
    end
    if count > 0 or more == 1 or more == 3 then -- of several
      judged[3 * count + 1], judged[3 * count + 2], judged[3 * count + 3] = level, expiry, exponent
    end
    count = count + 1
  end

  -- Tell what was judged, and store it if every charge has room.
  local alone, at = first == 1 and pos > size, first
  n = n + 1
  out[n] = status
  for j = 0, count - 1 do
    if count > 1 then
      k, more, units, most, unit, num, den, at = unpack_(RECORD, calls, at)
      level, expiry, exponent = judged[3 * j + 1], judged[3 * j + 2], judged[3 * j + 3]
    end
    local s, form = held[k], '0'
    if level < 0 then
      form, s = '!', nil
    elseif status == '+' and units > 0 then
      level = level + units * unit
      local reset = level * den / num
      if reset > MOST then reset = MOST end
      local empty = (now + reset) / 1000000
      local short = unit > 2000 and level < 2147483648 and now < 4503599627370496
      -- The key expires when it is empty or a little later (common.lua). An expiry
      -- that is right already is kept, which is cheaper, but for a call alone: that
      -- restores one that was lost.
      if
        alone or given or not s or #s ~= (short and 12 or 25)
        or expiry < empty or expiry > empty + 1 + reset / 4000000
      then
        local _, e = math.frexp(reset / 13000000)
        exponent = e > 0 and e or 0
        local q = 2 ^ exponent
        expiry = empty - empty % q + q
        expiries[k] = expiry
      elseif expiries[k] == nil then
        expiries[k] = false
      end
      if short then
        form = 's'
        local q = 2 ^ exponent
        local m = (expiry - second + second % q) / q
        s = pack('<I6I6', low, high + 16 * (m + 16 * exponent + 512 * (level + 21474836480)))
      else
        form = 'l'
        s = pack('<Bddd', unit > 2000 and 20 or 10, level, now, expiry)
      end
      held[k] = s
    elseif s then
      form = #s == 12 and 's' or 'l'
    end
    out[n + 1], out[n + 2] = form, s or ''
    n = n + 2
  end
end

for k, expiry in pairs(expiries) do
  if not expiry then
    -- Redis writes a number with 17 digits, which takes longer than a text.
    redis.call('SETRANGE', KEYS[k], '0', held[k])
  else
    local ttl = expiry * 1000 - (now - now % 1000) / 1000
    -- With a clock that is not this server's, keys stay for two minutes.
    if given and ttl < 120000 then ttl = 120000 end
    redis.call('SET', KEYS[k], held[k], 'PX', string.format('%d', ttl))
  end
end
return table.concat(out)
