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
-- Returns one string: now as a double; then for each charge two bytes and the state
-- of its bucket. The first byte says of the call that all of its charges have room
-- and were made (+); that one has none, or that they were only judged (-); that a
-- key holds something else (!); or that it was left undecided (?). The second is the
-- form of the state: none (0), short (s), long (l), both as in common.lua, or
-- something else (!), which does not follow. The state is as the charge left it, or
-- as it was if nothing was charged.
--
-- Raises READONLY, OOM and the like before anything is written.

local call, pack, unpack_, frexp = redis.call, struct.pack, struct.unpack, math.frexp
local MOST = 9007199254740991 -- 2^53 - 1
local RECORD = '<ddddddd'
local keys, calls, given, now = KEYS, ARGV[1], ARGV[2] ~= ''
if given then
  now = unpack_('<d', ARGV[2])
else
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
local low = now % 281474976710656 -- 2^48
local high = (now - low) / 281474976710656
local second = (now - now % 1000000) / 1000000

local held = call('MGET', unpack(keys))
for k = 1, #keys do
  -- MGET answers nil for a foreign type too, and SET would overwrite it.
  if not held[k] and call('EXISTS', keys[k]) == 1 then held[k] = '' end
end

local out, n, judged, alone = {pack('<d', now)}, 1, {}, false
local expiries = {} -- of each charged key, in s; below 0 it is the one that it has
local pos, size = 1, #calls
local k, more, units, most, unit, num, den
while pos <= size do
  -- Judge each charge on its level now.
  local first, count, status = pos, 0, '+'
  local level, expiry, exponent -- of a key that holds something else the level is -1
  repeat
    k, more, units, most, unit, num, den, pos = unpack_(RECORD, calls, pos)
    level, expiry, exponent = 0, 0, 0
    local s = held[k]
    if s then
      local time, shift
      if #s == 12 then
        local rest
        time, rest = unpack_('<I6I6', s)
        local code = rest % 8192
        level = (rest - code) / 8192 - 21474836480
        if level >= 0 and level < 2147483648 then
          local m = code % 16
          time = time + m * 281474976710656
          code = (code - m) / 16
          m = code % 16
          expiry = time / 1000000
          if code > m then
            exponent = (code - m) / 16
            local q = 2 ^ exponent
            expiry = expiry - expiry % q + m * q
          else
            expiry = expiry - expiry % 1 + m
          end
          if unit < 2000 then
            level = (level + 1023) / 1024
            level = level - level % 1
          end
        else
          status, level, time = '!', -1, now -- it only has the right length
        end
      elseif #s == 25 then
        shift, level, time, expiry = unpack_('<Bddd', s)
        if (shift ~= 20 and shift ~= 10) or not (level >= 0 and level <= MOST and time >= 0 and time <= MOST) then
          status, level, time = '!', -1, now
        elseif shift == 20 and unit < 2000 then
          level = (level + 1023) / 1024
          level = level - level % 1
        elseif shift == 10 and unit > 2000 then
          level = level * 1024
          if level > MOST then level = MOST end
        end
      else
        status, level, time = '!', -1, now
      end
      if time < now then
        local p = (now - time) * num
        local gone = p / den
        gone = gone - gone % 1
        if p > MOST and gone < level * 2 then status = '?' end
        level = level - gone
        if level < 0 then level = 0 end
      elseif time > now then
        expiry = 0 -- the clock stepped back: of what it is a multiple is another time now
      end
    end
    if (units > most or level + (units - most) * unit > 0 and units > 0 or more > 1) and status == '+' then
      status = '-' -- the sum in this order is below 2^53
    end
    if count > 0 or more % 2 == 1 then -- of several
      judged[3 * count + 1], judged[3 * count + 2], judged[3 * count + 3] = level, expiry, exponent
      count = count + 1
    end
  until more % 2 == 0
  alone = first == 1 and pos > size

  -- Tell what was judged, and store it if every charge has room.
  local at, j = first, 0
  repeat
    if count > 0 then
      k, more, units, most, unit, num, den, at = unpack_(RECORD, calls, at)
      level, expiry, exponent = judged[j + 1], judged[j + 2], judged[j + 3]
      j = j + 3
    else
      at = pos
    end
    local s, mark = held[k]
    if status == '+' and units > 0 then
      level = level + units * unit
      local reset = level * den / num
      if reset > MOST then reset = MOST end
      local empty = (now + reset) / 1000000
      local short = unit > 2000 and level < 2147483648 and now < 4503599627370496
      -- The key expires when it is empty or a little later, as in bucket.lua.
      if expiry < empty or expiry > empty + 1 + reset / 4000000 or #s ~= (short and 12 or 25) or given then
        if reset > 13000000 then
          local _
          _, exponent = frexp(reset / 13000000)
          local q = 2 ^ exponent
          expiry = empty - empty % q + q
        else
          exponent = 0
          expiry = empty - empty % 1 + 1
        end
        expiries[k] = expiry
      elseif not expiries[k] then
        expiries[k] = -expiry
      end
      if short then
        mark = '+s'
        local m = expiry - second
        if exponent > 0 then
          local q = 2 ^ exponent
          m = (m + second % q) / q
        end
        s = pack('<I6I6', low, high + 16 * (m + 16 * exponent + 512 * (level + 21474836480)))
      else
        mark = '+l'
        s = pack('<Bddd', unit > 2000 and 20 or 10, level, now, expiry)
      end
      held[k] = s
    elseif level < 0 then
      mark, s = '!!', nil
    elseif s then
      mark = status .. (#s == 12 and 's' or 'l')
    else
      mark = status .. '0'
    end
    out[n + 1], out[n + 2] = mark, s or ''
    n = n + 2
  until at >= pos
end

for k, expiry in pairs(expiries) do
  -- One that was lost is restored, by a call that is alone.
  if expiry < 0 and alone and call('PTTL', keys[k]) < 0 then expiry = -expiry end
  if expiry < 0 then
    -- Redis writes a number with 17 digits, which takes longer than a text.
    call('SETRANGE', keys[k], '0', held[k])
  else
    local ttl = expiry * 1000 - now / 1000 + 1
    -- With a clock that is not this server's, keys stay for two minutes.
    if given and ttl < 120000 then ttl = 120000 end
    call('SET', keys[k], held[k], 'PX', string.format('%d', ttl))
  end
end
return table.concat(out)
