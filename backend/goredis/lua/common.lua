-- common.lua is put before each other script of this folder: exact arithmetic,
-- and the states of buckets as docs/algorithms.md has them.
--
-- Every number is a whole one below 2^53, so that a double holds it exactly. A
-- product may be larger: muldiv keeps its two halves. Numbers cross to and from
-- Redis as 8-byte doubles, never as text.

local floor, min, max = math.floor, math.min, math.max
local pack, unpack_ = struct.pack, struct.unpack
local MOST = 9007199254740991 -- 2^53 - 1

-- kinds of limits: what a limit's first number says
local LEVEL, FIXED, SLIDING, LOG = 0, 1, 2, 3

-- halves returns a * b as the sum of a rounded product and the exact error
-- (T. J. Dekker, A floating-point technique for extending the available
-- precision, 1971).
local function halves(a, b)
  local p = a * b
  local c = 134217729 * a
  local ah = c - (c - a)
  local al = a - ah
  c = 134217729 * b
  local bh = c - (c - b)
  local bl = b - bh
  return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl
end

-- muldiv returns the quotient and the rest of (a * b + extra) / c, exactly. The
-- quotient must be below 2^53, extra below c.
local function muldiv(a, b, c, extra)
  local p = a * b + extra
  local q = floor(p / c)
  if p <= MOST then return q, p - q * c end
  local high, low = halves(a, b)
  local high2, low2 = halves(q, c)
  local rest = (high - high2) + (low - low2) + extra
  while rest < 0 do q = q - 1; rest = rest + c end
  while rest >= c do q = q + 1; rest = rest - c end
  return q, rest
end

-- ceildiv returns a * b / c rounded up.
local function ceildiv(a, b, c)
  local q, rest = muldiv(a, b, c, 0)
  if rest > 0 then q = q + 1 end
  return q
end

-- A limit drains whole + part/den steps a µs.

-- drained returns the steps that drain in t µs, at most level, and what of a
-- step has drained besides, in parts of den.
local function drained(limit, t, level)
  if t <= 0 or limit.num <= 0 then return 0, 0 end
  if t * limit.rate >= level * 1.000001 + 1 then return level, 0 end
  local q, rest = muldiv(t, limit.part, limit.den, 0)
  q = q + t * limit.whole
  return min(q, level), rest
end

-- wait returns the fewest µs in which need more steps drain, when extra parts
-- of a step have drained already; at most MOST.
local function wait(limit, need, extra)
  if need <= 0 then return 0 end
  if limit.num <= 0 then return MOST end
  local whole, part, den = limit.whole, limit.part, limit.den
  local t = (need - extra / den) / limit.rate -- right but for a few µs
  if t >= MOST then return MOST end
  t = max(floor(t), 1)
  while t > 1 and muldiv(t - 1, part, den, extra) + (t - 1) * whole >= need do t = t - 1 end
  while muldiv(t, part, den, extra) + t * whole < need do t = t + 1 end
  return min(t, MOST)
end

-- read_limit reads limit number i of a packed list.
local LIMIT = '<ddddddd'
local function read_limit(list, i)
  local kind, most, shift, whole, part, den, length = unpack_(LIMIT, list, i * 56 + 1)
  return {kind = kind, most = most, shift = shift, unit = 2 ^ shift, whole = whole, part = part, den = den,
    num = whole + part, rate = whole + part / den, length = length}
end

-- The states. Each kind has a string of its own length; the last number is when
-- the key expires, in ms since 1970.
--   LEVEL    shift of the steps (one byte), level, time, expiry
--   FIXED    count, time, length, expiry
--   SLIDING  current, previous, time, length, expiry
-- LOG is a list: lua/log.lua.
local SIZE = {[LEVEL] = 25, [FIXED] = 32, [SLIDING] = 40}

-- decode returns the state that a key's string holds, a fresh one for false,
-- and nil for what is no state of the kind. A time later than now is now.
local function decode(kind, s, now)
  if not s then return {a = 0, b = 0, time = now, length = 0, shift = 20, expiry = 0} end
  if #s ~= SIZE[kind] then return nil end
  local st = {b = 0, length = 0}
  if kind == LEVEL then
    st.shift, st.a, st.time, st.expiry = unpack_('<Bddd', s)
  elseif kind == FIXED then
    st.a, st.time, st.length, st.expiry = unpack_('<dddd', s)
  else
    st.a, st.b, st.time, st.length, st.expiry = unpack_('<ddddd', s)
  end
  if st.time > now then st.time = now end
  return st
end

local function encode(kind, st)
  if kind == LEVEL then return pack('<Bddd', st.shift, st.a, st.time, st.expiry) end
  if kind == FIXED then return pack('<dddd', st.a, st.time, st.length, st.expiry) end
  return pack('<ddddd', st.a, st.b, st.time, st.length, st.expiry)
end

-- level_of returns the level at the stored time in the limit's steps.
local function level_of(limit, st)
  if st.shift == limit.shift then return st.a end
  if st.shift < limit.shift then return min(st.a * 1024, MOST) end
  return floor((st.a + 1023) / 1024)
end

-- counts returns the current and previous counts in the window of the limit
-- that holds now.
local function counts(limit, st, now)
  local length = limit.length
  local a, b = st.a, st.b
  if limit.kind == SLIDING and st.length ~= length and st.length > 0 then
    a = min(a + ceildiv(b, st.length - st.time % st.length, st.length), MOST)
    b = 0
  end
  local windows = floor(now / length) - floor(st.time / length)
  if windows == 0 then return a, b end
  if windows == 1 and limit.kind == SLIDING then return 0, a end
  return 0, 0
end

-- to_empty returns the µs until nothing of a state is used.
local function to_empty(limit, st, now)
  if limit.kind == LEVEL then return wait(limit, st.a, 0) end
  local left = limit.length - now % limit.length
  if st.a > 0 then
    if limit.kind == SLIDING then return left + limit.length end
    return left
  end
  if st.b > 0 then return left end
  return 0
end

-- put writes a state, and sees to it that the key expires when it is empty,
-- rounded up, or up to a second later. An expiry that is right already is kept,
-- which is cheaper, unless alone is true: then a lost one is restored. With a
-- clock that is not this server's, keys stay for two minutes at least.
local function put(key, limit, st, now, alone, foreign)
  local kind = limit.kind
  local empty = floor((now + to_empty(limit, st, now)) / 1000) + 1
  if not alone and st.expiry >= empty and st.expiry <= empty + 1000 and not foreign then
    redis.call('SETRANGE', key, 0, encode(kind, st))
    return
  end
  st.expiry = empty + 999
  local ttl = max(st.expiry - floor(now / 1000), 1)
  if foreign then ttl = max(ttl, 120000) end
  redis.call('SET', key, encode(kind, st), 'PX', string.format('%.0f', ttl))
end
