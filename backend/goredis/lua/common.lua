-- common.lua stands before each other script of this folder: exact arithmetic,
-- and the states of buckets as docs/algorithms.md has them.
--
-- Every number is a whole one below 2^53, so that a double holds it exactly. A
-- product may be larger: muldiv keeps its two halves. Numbers cross to and from
-- Redis as 8-byte doubles, never as text.
--
-- A script makes its functions anew each time it runs, so there are few of them
-- on the common path; those for logs are made only where there is one.

local floor, min, max = math.floor, math.min, math.max
local pack, unpack_, rep = struct.pack, struct.unpack, string.rep
local MOST = 9007199254740991 -- 2^53 - 1

-- The kinds of limits. The state of a window begins with a byte that is its kind.
local LEVEL, FIXED, SLIDING, LOG = 0, 1, 2, 3

-- A limit is eight numbers, b + 1 to b + 8 of a list:
--   1 kind    2 most    3 steps a unit
--   4 num and 5 den: num/den steps drain in a µs; 6 and 7 are num/den as a whole
--   number and the rest; num may be rounded if it is above MOST
--   8 length of the window, µs

-- muldiv returns the quotient and the rest of (a * b + extra) / c, exactly. The
-- quotient must be below 2^53, extra below c. Products above that are kept as a
-- rounded double and its error (T. J. Dekker, A floating-point technique for
-- extending the available precision, 1971).
local function muldiv(a, b, c, extra)
  local p = a * b
  local q = floor((p + extra) / c)
  if p + extra <= MOST then return q, p + extra - q * c end
  local function err(x, y, product)
    local t = 134217729 * x
    local xh = t - (t - x)
    local xl = x - xh
    t = 134217729 * y
    local yh = t - (t - y)
    local yl = y - yh
    return ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
  end
  local p2 = q * c
  local rest = (p - p2) + (err(a, b, p) - err(q, c, p2)) + extra
  while rest < 0 do q, rest = q - 1, rest + c end
  while rest >= c do q, rest = q + 1, rest - c end
  return q, rest
end

-- drain returns how many of need steps drain in t µs under a limit, and what of
-- a step has drained besides, in parts of den.
local function drain(L, b, t, need)
  local p = t * L[b + 4]
  local den = L[b + 5]
  if p <= MOST then
    local q = floor(p / den)
    if q >= need then return need, 0 end
    return q, p - q * den
  end
  if p / den >= need * 1.000001 + 1 then return need, 0 end
  local q, rest = muldiv(t, L[b + 7], den, 0)
  return min(q + t * L[b + 6], need), rest
end

-- wait returns the fewest µs in which need steps drain, when extra parts of a
-- step have drained already; at most MOST.
local function wait(L, b, need, extra)
  if need <= 0 then return 0 end
  local num, den = L[b + 4], L[b + 5]
  local p = need * den - extra + num
  if p <= MOST then return floor((p - 1) / num) end
  local whole, part = L[b + 6], L[b + 7]
  local t = (need - extra / den) / (whole + part / den) -- right but for a few µs
  if t >= MOST then return MOST end
  t = max(floor(t), 1)
  while t > 1 and muldiv(t - 1, part, den, extra) + (t - 1) * whole >= need do t = t - 1 end
  while muldiv(t, part, den, extra) + t * whole < need do t = t + 1 end
  return min(t, MOST)
end

-- counts returns the counts of the window of a limit that holds now and of the
-- one before, for a state of a and b at time under windows of length.
local function counts(L, b, a, before, time, length, now)
  local size = L[b + 8]
  if L[b + 1] == SLIDING and length ~= size and length > 0 then
    local q, rest = muldiv(before, length - time % length, length, 0)
    if rest > 0 then q = q + 1 end
    a, before = min(a + q, MOST), 0
  end
  local windows = floor(now / size) - floor(time / size)
  if windows == 0 then return a, before end
  if windows == 1 and L[b + 1] == SLIDING then return 0, a end
  return 0, 0
end

-- window_reset returns the µs until nothing of a window's counts is used.
local function window_reset(L, b, a, before, now)
  if a <= 0 and before <= 0 then return 0 end
  local size = L[b + 8]
  local left = size - now % size
  if a > 0 and L[b + 1] == SLIDING then return left + size end
  return left
end

-- expiry_of returns when a key expires of which nothing is used reset µs from now,
-- in s since 1970: then or later, by at most a second or a sixth of reset; and the
-- binary logarithm of the seconds that it is a multiple of. There are at most 15 of
-- these from now on.
local function expiry_of(now, reset)
  local _, e = math.frexp(reset / 13000000)
  e = max(e, 0)
  return (floor((now + reset) / 1000000 / 2 ^ e) + 1) * 2 ^ e, e
end

-- pack_level returns the state of a bucket. The short form is two numbers of 48
-- bits, from the lowest bit on:
--   the time in µs but for its 4 highest bits
--   those; of the expiry the multiple in 4 bits, counted from the last one before
--   the time, and the logarithm in 5; the level in 31, in steps of 2^20; 10 in 4
-- The long form is the shift in a byte, and level, time and expiry as doubles.
local function pack_level(shift, level, now, expiry, e)
  if shift == 20 and level < 2147483648 and now < 4503599627370496 then
    local low = now % 281474976710656
    local m = expiry / 2 ^ e - floor(now / 1000000 / 2 ^ e)
    return pack('<I6I6', low, (now - low) / 281474976710656 + 16 * (m + 16 * e + 512 * (level + 21474836480)))
  end
  return pack('<Bddd', shift, level, now, expiry)
end

-- load_level returns level, shift and time of a bucket, or nil for what is no such
-- state: a string that only has the right length is none of ours.
local function load_level(s)
  if #s == 12 then
    local low, rest = unpack_('<I6I6', s)
    local top = rest % 16
    local level = floor(rest / 8192)
    if level < 21474836480 or level >= 23622320128 then return nil end
    return level - 21474836480, 20, low + top * 281474976710656
  elseif #s == 25 then
    local shift, level, time = unpack_('<Bdd', s)
    if shift == 20 or shift == 10 then return level, shift, time end
  end
end

-- save writes a state, and sees to it that its key expires when nothing of it is
-- used, reset µs from now, or a little later. With a clock that is not this
-- server's, keys stay for two minutes.
--
-- The expiry of a window that is right already is kept, which is cheaper, unless
-- alone is true: then one that was lost is restored.
local function save(key, kind, a, before, length, now, expiry, reset, alone, given)
  local s
  if kind == LEVEL then
    local e
    expiry, e = expiry_of(now, reset)
    s, expiry = pack_level(length, a, now, expiry, e), expiry * 1000
  else
    local empty = floor((now + reset) / 1000) + 1
    local keep = expiry >= empty and expiry <= empty + 1000 and not alone and not given
    if not keep then expiry = empty + 999 end
    if kind == FIXED then
      s = pack('<Bdddd', kind, a, length, now, expiry)
    else
      s = pack('<Bddddd', kind, a, before, length, now, expiry)
    end
    if keep then
      redis.call('SETRANGE', key, 0, s)
      return
    end
  end
  local ttl = expiry - floor(now / 1000)
  if given then ttl = max(ttl, 120000) end
  redis.call('SET', key, s, 'PX', ttl)
end

-- load returns the state of a kind that a string holds: a, before, length or
-- shift, time, and of a window the expiry in ms; those of a bucket that was never
-- used for false, and nil for what is no such state. A time later than now is now.
local function load_(s, kind, now)
  if not s then return 0, 0, 0, now, 0 end
  local a, before, length, time, expiry, first
  if kind == LEVEL then
    a, length, time = load_level(s)
    before, expiry = 0, 0
  elseif kind == FIXED and #s == 33 then
    first, a, length, time, expiry = unpack_('<Bdddd', s)
    before = 0
  elseif kind == SLIDING and #s == 41 then
    first, a, before, length, time, expiry = unpack_('<Bddddd', s)
  end
  if not a or first and first ~= kind then return nil end
  if not (a >= 0 and a <= MOST and before >= 0 and before <= MOST and time >= 0 and time <= MOST and length >= 1 and length <= MOST) then
    return nil
  end
  if time > now then time = now end
  return a, before, length, time, expiry
end

-- in_steps returns a level that was stored with a shift in the steps of a limit.
local function in_steps(unit, shift, level)
  if shift == 0 or 2 ^ shift == unit then return level end
  if unit > 1024 then return min(level * 1024, MOST) end
  return floor((level + 1023) / 1024)
end

-- clock returns now in µs: as given, or by this server.
local function clock(given)
  if given ~= '' then return (unpack_('<d', given)), true end
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2], false
end

-- numbers returns the doubles of a packed list, in slices that Lua's stack holds.
local function numbers(s)
  if #s <= 8000 then return {unpack_('<' .. rep('d', #s / 8), s)} end
  local all, n = {}, 0
  for pos = 1, #s, 8000 do
    local slice = {unpack_('<' .. rep('d', min(1000, (#s - pos + 1) / 8)), s, pos)}
    for i = 1, #slice - 1 do all[n + i] = slice[i] end -- but for where it ends
    n = n + #slice - 1
  end
  return all
end
