-- bucket.lua is buckets.lua for one charge, which is what a batch is where calls are
-- few: it has no tables. A change of how a state is read or written is one of three:
-- here, there and in common.lua.
--
-- KEYS[1]  the bucket
-- ARGV[1]  doubles: units; of the limit most, steps a unit, num and den; and now, in
--          µs since 1970, or nothing for this server's clock
--
-- Returns a string: the state that the charge left, if it had room (12 bytes in the
-- short form, 25 in the long one); else now as a double, and the state that is there,
-- if there is one (8, 20 or 33 bytes); "!" if the key holds something else; "?" if the
-- charge was left undecided.
--
-- Raises READONLY, OOM and the like before anything is written.

local call, unpack_ = redis.call, struct.unpack
local MOST = 9007199254740991 -- 2^53 - 1
local units, most, unit, num, den = unpack_('<ddddd', ARGV[1])
local now
if #ARGV[1] == 48 then
  now = unpack_('<d', ARGV[1], 41)
else
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end

local s = redis.pcall('GET', KEYS[1])
local level, expiry, exponent, size = 0, 0, 0, 0
if s then
  size = #s
  local time, shift
  if size == 12 then
    local rest
    time, rest = unpack_('<I6I6', s)
    local code = rest % 8192
    level = (rest - code) / 8192 - 21474836480
    if level < 0 or level >= 2147483648 then return '!' end -- it only has the right length
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
    shift = 20
  elseif size == 25 then
    shift, level, time, expiry = unpack_('<Bddd', s)
    if shift ~= 20 and shift ~= 10 or not (level >= 0 and level <= MOST and time >= 0 and time <= MOST) then return '!' end
  elseif type(s) == 'table' and not string.find(s.err, '^WRONGTYPE') then
    return s
  else
    return '!'
  end
  if shift == 20 then
    if unit < 2000 then
      level = (level + 1023) / 1024
      level = level - level % 1
    end
  elseif unit > 2000 then
    level = level * 1024
    if level > MOST then level = MOST end
  end
  if time < now then
    local p = (now - time) * num
    local gone = p / den
    gone = gone - gone % 1
    if p > MOST and gone < level * 2 then return '?' end
    level = level - gone
    if level < 0 then level = 0 end
  elseif time > now then
    expiry = 0 -- the clock stepped back: of what it is a multiple is another time now
  end
end

if units > most or level + (units - most) * unit > 0 or units == 0 then
  return struct.pack('<d', now) .. (s or '')
end

level = level + units * unit
local reset = level * den / num
if reset > MOST then reset = MOST end
local empty = (now + reset) / 1000000
local short = unit > 2000 and level < 2147483648 and now < 4503599627370496
-- The key expires when it is empty or a little later (common.lua). An expiry that is
-- right already, later by at most a second and a quarter of the time until then, is
-- kept, which is cheaper, if the key has it.
local keep = expiry >= empty and expiry <= empty + 1 + reset / 4000000 and size == (short and 12 or 25)
  and #ARGV[1] == 40 and call('PTTL', KEYS[1]) * 1000 >= reset
if not keep then
  if reset > 13000000 then
    local _, e = math.frexp(reset / 13000000)
    exponent = e
    local q = 2 ^ e
    expiry = empty - empty % q + q
  else
    exponent = 0
    expiry = empty - empty % 1 + 1
  end
end
if short then
  local low = now % 281474976710656
  local m = now / 1000000
  if exponent > 0 then
    local q = 2 ^ exponent
    m = (expiry - m + m % q) / q
  else
    m = expiry - m + m % 1
  end
  s = struct.pack('<I6I6', low, (now - low) / 281474976710656 + 16 * (m + 16 * exponent + 512 * (level + 21474836480)))
else
  s = struct.pack('<Bddd', unit > 2000 and 20 or 10, level, now, expiry)
end
if keep then
  call('SETRANGE', KEYS[1], '0', s)
else
  -- With a clock that is not this server's, keys stay for two minutes. Redis writes a
  -- number with 17 digits, which takes longer than a text.
  local ttl = expiry * 1000 - now / 1000 + 1
  if #ARGV[1] == 48 and ttl < 120000 then ttl = 120000 end
  call('SET', KEYS[1], s, 'PX', string.format('%d', ttl))
end
return s
