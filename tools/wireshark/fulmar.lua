-- Wireshark dissector for Fulmar, version 1 (docs/internals/wire.md; section numbers below are its).
--
--   tshark -X lua_script:tools/wireshark/fulmar.lua -r dump.pcap -Y fulmar
--
-- Long headers and Initial packets can always be read. The rest needs the secrets that SSLKEYLOGFILE made a program write:
-- the same variable, or the preference fulmar.keylog, names the file here. Secrets of TLS_AES_128_GCM_SHA256, which both
-- ends prefer, are used; packets under another cipher show their headers only. Wireshark has no ciphers for Lua, so those
-- that are needed stand below; tags are not checked.

local bit = bit or bit32
local band, bxor, rshift, lshift = bit.band, bit.bxor, bit.rshift, bit.lshift
local char, byte, rep, sub = string.char, string.byte, string.rep, string.sub
local unpack = unpack or table.unpack

local VERSION = 0x464c4d01
local SALT = "\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a"
local TAG_BYTES, CONNECTION_ID_BYTES, NUMBER_BYTES = 16, 8, 4

-- SHA-256 (FIPS 180-4), HMAC (RFC 2104), HKDF (RFC 5869) as TLS 1.3 uses it ------------------------------------------

local function u32(x) return x % 0x100000000 end
local function add(...)
  local sum = 0
  for _, x in ipairs({ ... }) do sum = sum + u32(x) end
  return u32(sum)
end
local function ror(x, n) return u32(bit.bor(rshift(x, n), lshift(x, 32 - n))) end

local function fraction(x) return math.floor((x % 1) * 0x100000000) end
local ROUND, START = {}, {}
do
  local candidate = 2
  while #ROUND < 64 do
    local is_prime = true
    for d = 2, math.floor(math.sqrt(candidate)) do if candidate % d == 0 then is_prime = false end end
    if is_prime then
      ROUND[#ROUND + 1] = fraction(candidate ^ (1 / 3))
      if #START < 8 then START[#START + 1] = fraction(math.sqrt(candidate)) end
    end
    candidate = candidate + 1
  end
end

local function sha256(text)
  local bits = #text * 8
  text = text .. "\x80" .. rep("\0", (55 - #text) % 64) .. rep("\0", 4)
    .. char(band(rshift(bits, 24), 255), band(rshift(bits, 16), 255), band(rshift(bits, 8), 255), band(bits, 255))
  local h = { unpack(START) }
  for block = 1, #text, 64 do
    local w = {}
    for i = 0, 15 do
      local a, b, c, d = byte(text, block + 4 * i, block + 4 * i + 3)
      w[i] = ((a * 256 + b) * 256 + c) * 256 + d
    end
    for i = 16, 63 do
      local x, y = w[i - 15], w[i - 2]
      local s0 = bxor(ror(x, 7), ror(x, 18), rshift(x, 3))
      local s1 = bxor(ror(y, 17), ror(y, 19), rshift(y, 10))
      w[i] = add(w[i - 16], s0, w[i - 7], s1)
    end
    local a, b, c, d, e, f, g, k = h[1], h[2], h[3], h[4], h[5], h[6], h[7], h[8]
    for i = 0, 63 do
      local s1 = bxor(ror(e, 6), ror(e, 11), ror(e, 25))
      local choose = bxor(band(e, f), band(bit.bnot(e), g))
      local t1 = add(k, s1, choose, ROUND[i + 1], w[i])
      local s0 = bxor(ror(a, 2), ror(a, 13), ror(a, 22))
      local majority = bxor(band(a, b), band(a, c), band(b, c))
      k, g, f, e, d, c, b, a = g, f, e, add(d, t1), c, b, a, add(t1, s0, majority)
    end
    for i, x in ipairs({ a, b, c, d, e, f, g, k }) do h[i] = add(h[i], x) end
  end
  local out = {}
  for i, x in ipairs(h) do
    out[i] = char(band(rshift(x, 24), 255), band(rshift(x, 16), 255), band(rshift(x, 8), 255), band(x, 255))
  end
  return table.concat(out)
end

local function mask(text, with)
  return (text:gsub(".", function(c) return char(bxor(byte(c), with)) end))
end

local function hmac(key, text)
  key = key .. rep("\0", 64 - #key)
  return sha256(mask(key, 0x5c) .. sha256(mask(key, 0x36) .. text))
end

local function expand(secret, label, length)
  label = "tls13 " .. label
  return sub(hmac(secret, char(0, length, #label) .. label .. "\0\1"), 1, length)
end

-- AES-128 (FIPS 197): a block, and counter mode as GCM uses it (NIST SP 800-38D) -------------------------------------

local SBOX = {}
do
  local p, q = 1, 1
  repeat
    p = band(bxor(p, lshift(p, 1), p >= 128 and 0x11b or 0), 255)
    q = bxor(q, lshift(q, 1)); q = bxor(q, lshift(q, 2)); q = band(bxor(q, lshift(q, 4)), 255)
    if q >= 128 then q = bxor(q, 9) end
    local x = q
    for n = 1, 4 do x = bxor(x, band(bit.bor(lshift(q, n), rshift(q, 8 - n)), 255)) end
    SBOX[p] = bxor(x, 0x63)
  until p == 1
  SBOX[0] = 0x63
end
local DOUBLE = {}
for x = 0, 255 do DOUBLE[x] = band(bxor(lshift(x, 1), x >= 128 and 0x1b or 0), 255) end

local function schedule(key)
  local w, round = { byte(key, 1, 16) }, 1
  for i = 17, 176, 4 do
    local a, b, c, d = w[i - 4], w[i - 3], w[i - 2], w[i - 1]
    if (i - 1) % 16 == 0 then
      a, b, c, d = bxor(SBOX[b], round), SBOX[c], SBOX[d], SBOX[a]
      round = DOUBLE[round]
    end
    w[i], w[i + 1], w[i + 2], w[i + 3] = bxor(w[i - 16], a), bxor(w[i - 15], b), bxor(w[i - 14], c), bxor(w[i - 13], d)
  end
  return w
end

local function encrypt(w, block)
  local s = { byte(block, 1, 16) }
  for i = 1, 16 do s[i] = bxor(s[i], w[i]) end
  for round = 1, 10 do
    local t = {}
    for i = 0, 15 do t[i + 1] = SBOX[s[(i + 4 * (i % 4)) % 16 + 1]] end
    if round < 10 then
      for c = 1, 13, 4 do
        local a, b, d, e = t[c], t[c + 1], t[c + 2], t[c + 3]
        local all = bxor(a, b, d, e)
        t[c], t[c + 1] = bxor(a, all, DOUBLE[bxor(a, b)]), bxor(b, all, DOUBLE[bxor(b, d)])
        t[c + 2], t[c + 3] = bxor(d, all, DOUBLE[bxor(d, e)]), bxor(e, all, DOUBLE[bxor(e, a)])
      end
    end
    for i = 1, 16 do s[i] = bxor(t[i], w[16 * round + i]) end
  end
  return s
end

local function decrypt(w, nonce, text)
  local out = {}
  for at = 1, #text, 16 do
    local n = (at - 1) / 16 + 2
    local counter = char(0, band(rshift(n, 16), 255), band(rshift(n, 8), 255), band(n, 255))
    local stream, piece = encrypt(w, nonce .. counter), {}
    for i = at, math.min(at + 15, #text) do piece[#piece + 1] = char(bxor(byte(text, i), stream[i - at + 1])) end
    out[#out + 1] = table.concat(piece)
  end
  return table.concat(out)
end

local function keys_of(secret)
  return {
    secret = secret,
    key = schedule(expand(secret, "quic key", 16)),
    iv = expand(secret, "quic iv", 12),
    cover = schedule(expand(secret, "quic hp", 16)),
  }
end

-- Fields --------------------------------------------------------------------------------------------------------------

local proto = Proto("fulmar", "Fulmar")
local f = {
  kind = ProtoField.string("fulmar.packet", "Packet"),
  version = ProtoField.uint32("fulmar.version", "Version", base.HEX),
  dcid = ProtoField.bytes("fulmar.dcid", "Destination connection id"),
  scid = ProtoField.bytes("fulmar.scid", "Source connection id"),
  token = ProtoField.bytes("fulmar.token", "Token"),
  length = ProtoField.uint32("fulmar.length", "Length"),
  number = ProtoField.uint32("fulmar.number", "Packet number"),
  phase = ProtoField.uint8("fulmar.key_phase", "Key phase"),
  sealed = ProtoField.bytes("fulmar.sealed", "Encrypted"),
  frame = ProtoField.string("fulmar.frame", "Frame"),
  symbol = ProtoField.uint32("fulmar.symbol", "Symbol id"),
  code = ProtoField.uint8("fulmar.code", "Code"),
  stream = ProtoField.uint32("fulmar.stream", "Stream"),
  offset = ProtoField.uint64("fulmar.stream.offset", "Offset"),
  inner = ProtoField.string("fulmar.symbol.frame", "Frame in the symbol"),
  problem = ProtoField.string("fulmar.problem", "Problem"),
}
local fields = {}
for _, field in pairs(f) do fields[#fields + 1] = field end
proto.fields = fields
proto.prefs.keylog = Pref.string("Key log file", os.getenv("SSLKEYLOGFILE") or "", "As written with SSLKEYLOGFILE")
proto.prefs.port = Pref.uint("UDP port", 4747, "Other ports are recognised by the version in a long header")

local CODES = { [0] = "none", "XOR groups", "Reed-Solomon", "RLC block", "RLC window", "DFCP's Raptor", "RaptorQ" }

-- Connections: by the addresses of both ends, which is what a short header leaves -------------------------------------

local connections, secrets, opened = {}, {}, {}

function proto.init() connections, secrets, opened = {}, {}, {} end

local function unhex(text) return (text:gsub("%x%x", function(h) return char(tonumber(h, 16)) end)) end

local function secret_of(label, random)
  local found = secrets[label .. random]
  if found then return found end
  local file = io.open(proto.prefs.keylog, "r")
  if not file then return nil end
  for line in file:lines() do
    local name, who, secret = line:match("^(%u[%u%d_]+) (%x+) (%x+)%s*$")
    if name then secrets[name .. unhex(who)] = unhex(secret) end
  end
  file:close()
  return secrets[label .. random]
end

local function ends_of(pinfo)
  return tostring(pinfo.src) .. " " .. pinfo.src_port, tostring(pinfo.dst) .. " " .. pinfo.dst_port
end

local function connection_of(pinfo)
  local from, to = ends_of(pinfo)
  local found = connections[from .. " " .. to] or connections[to .. " " .. from]
  if not found then
    found = { client = from, keys = {} }
    connections[from .. " " .. to] = found
  end
  return found, from == found.client
end

local LABELS = {
  Handshake = { [true] = "CLIENT_HANDSHAKE_TRAFFIC_SECRET", [false] = "SERVER_HANDSHAKE_TRAFFIC_SECRET" },
  Short = { [true] = "CLIENT_TRAFFIC_SECRET_0", [false] = "SERVER_TRAFFIC_SECRET_0" },
}

local function keys_for(connection, kind, is_client)
  local name = kind .. tostring(is_client)
  if connection.keys[name] then return connection.keys[name] end
  local secret
  if kind == "Initial" then
    if not connection.dcid then return nil, "its connection's beginning is not in the dump" end
    secret = expand(hmac(SALT, connection.dcid), is_client and "client in" or "server in", 32)
  else
    if not connection.random then return nil, "its connection's beginning is not in the dump" end
    secret = secret_of(LABELS[kind][is_client], connection.random)
    if not secret then return nil, "no secret in the key log" end
    if #secret ~= 32 then return nil, "its cipher is not TLS_AES_128_GCM_SHA256" end
  end
  connection.keys[name] = keys_of(secret)
  connection.keys[name].phase = 0
  return connection.keys[name]
end

-- 3.2: uncovers the header, then decrypts. The result is kept: Wireshark looks at packets in any order afterwards.
local function open(pinfo, bytes, at, number_at, finish, kind)
  local place = pinfo.number .. ":" .. at
  if opened[place] then return opened[place] end
  local connection, is_client = connection_of(pinfo)
  local keys, problem = keys_for(connection, kind, is_client)
  if not keys then return { problem = problem } end
  local cover = encrypt(keys.cover, sub(bytes, number_at + NUMBER_BYTES + 1, number_at + NUMBER_BYTES + 16))
  local first = bxor(byte(bytes, at + 1), band(cover[1], kind == "Short" and 0x1f or 0x0f))
  local number, low = 0, {}
  for i = 1, NUMBER_BYTES do
    low[i] = bxor(byte(bytes, number_at + i), cover[i + 1])
    number = number * 256 + low[i]
  end
  local phase = kind == "Short" and band(rshift(first, 2), 1) or 0
  if phase ~= keys.phase then
    -- 3.3: the next keys; those that cover headers stay.
    local next = keys_of(expand(keys.secret, "quic ku", 32))
    keys.secret, keys.key, keys.iv, keys.phase = next.secret, next.key, next.iv, phase
  end
  local nonce = {}
  for i = 1, 12 do nonce[i] = char(bxor(byte(keys.iv, i), i > 8 and low[i - 8] or 0)) end
  local sealed = sub(bytes, number_at + NUMBER_BYTES + 1, finish - TAG_BYTES)
  opened[place] = { number = number, phase = phase, plain = decrypt(keys.key, table.concat(nonce), sealed) }
  return opened[place]
end

-- Frames --------------------------------------------------------------------------------------------------------------

local Reader = {}
Reader.__index = Reader
local function reader(tvb) return setmetatable({ tvb = tvb, at = 0, start = 0 }, Reader) end
function Reader:left() return self.tvb:len() - self.at end
function Reader:uint(n)
  local x = self.tvb:range(self.at, n):uint()
  self.at = self.at + n
  return x
end
-- A varint (RFC 9000, 16) as a number; above 2^53 it loses its last digits.
function Reader:varint()
  local first = self:uint(1)
  local x = first % 64
  for _ = 2, 2 ^ math.floor(first / 64) do x = x * 256 + self:uint(1) end
  return x
end
function Reader:skip(n)
  if n > self:left() then error("a frame that is cut short") end
  self.at = self.at + n
end

local SYMBOL_FRAMES = {
  [0x04] = function(r) return string.format("RESET_STREAM stream %d, code %d, final size %d", r:varint(), r:varint(), r:varint()) end,
  [0x05] = function(r) return string.format("STOP_SENDING stream %d, code %d", r:varint(), r:varint()) end,
  [0x10] = function(r) return string.format("MAX_DATA %d", r:varint()) end,
  [0x11] = function(r) return string.format("MAX_STREAM_DATA stream %d, %d", r:varint(), r:varint()) end,
  [0x12] = function(r) return string.format("MAX_STREAMS bidirectional %d", r:varint()) end,
  [0x13] = function(r) return string.format("MAX_STREAMS unidirectional %d", r:varint()) end,
  [0x14] = function(r) return string.format("ACK_POLICY %d packets, %d us, %d repetitions", r:varint(), r:varint(), r:varint()) end,
  [0x15] = function(r) return string.format("MAX_RATE %d: %d bytes per second", r:varint(), r:varint()) end,
  [0x18] = function(r)
    local number = r:varint()
    r:varint()
    r:skip(r:uint(1) + 16)
    return string.format("NEW_CONNECTION_ID number %d", number)
  end,
  [0x19] = function(r) return string.format("RETIRE_CONNECTION_ID number %d", r:varint()) end,
}

-- Section 6.
local function dissect_symbol(r, tree)
  while r:left() > 0 do
    local begin = r.at
    local kind = r:uint(1)
    if kind == 0 then return end
    if kind == 0x08 or kind == 0x09 then
      local stream, offset, length = r:varint(), r:varint(), r:varint()
      r:skip(length)
      local text = string.format("STREAM %d, offset %d, %d bytes%s", stream, offset, length, kind == 9 and ", FIN" or "")
      local node = tree:add(f.inner, r.tvb:range(begin, r.at - begin), text)
      node:add(f.stream, stream)
      node:add(f.offset, UInt64.new(offset % 2 ^ 32, math.floor(offset / 2 ^ 32)))
    elseif SYMBOL_FRAMES[kind] then
      local text = SYMBOL_FRAMES[kind](r)
      tree:add(f.inner, r.tvb:range(begin, r.at - begin), text)
    else
      error(string.format("a symbol has no frame %02x", kind))
    end
  end
end

local function ack(r, kind)
  local largest, delay, count = r:varint(), r:varint(), r:varint()
  local low = largest - r:varint()
  local ranges = { low == largest and tostring(low) or low .. "-" .. largest }
  for _ = 1, count do
    local high = low - r:varint() - 2
    low = high - r:varint()
    ranges[#ranges + 1] = low == high and tostring(low) or low .. "-" .. high
  end
  local text = string.format("ACK %s, delay %d us", table.concat(ranges, " "), delay)
  if band(kind, 1) == 1 then text = text .. string.format(", ECT(0) %d, ECT(1) %d, CE %d", r:varint(), r:varint(), r:varint()) end
  if band(kind, 2) == 2 then
    local below, seen, windows = r:varint(), r:varint(), r:varint()
    text = text .. string.format(", decoded below %d, seen %d", below, seen)
    local at = below
    for _ = 1, windows do
      local gap, length, deficit = r:varint(), r:varint(), r:varint()
      text = text .. string.format(", [%d, %d) lacks %d", at + gap, at + gap + length, deficit)
      at = at + gap + length
    end
  end
  return text
end

-- Section 5: each returns what it says, and may add to the tree.
local FRAMES = {
  [0x01] = function() return "PING" end,
  [0x02] = function(r, _, context)
    local offset, length = r:varint(), r:varint()
    -- ClientHello: kind, length (3), version (2), random (32) (RFC 8446, 4.1.2).
    if context.is_client and context.kind == "Initial" and offset == 0 and length >= 38 then
      context.connection.random = r.tvb:range(r.at + 6, 32):bytes():raw()
    end
    r:skip(length)
    return string.format("CRYPTO offset %d, %d bytes", offset, length)
  end,
  [0x10] = function(r, tree)
    local id = r:uint(4)
    return "SOURCE " .. id, function(node)
      node:add(f.symbol, id)
      dissect_symbol(r, node)
      r.at = r.tvb:len()
    end
  end,
  [0x18] = function(r)
    local length = r:varint()
    r:skip(length)
    return string.format("DATAGRAM %d bytes", length)
  end,
  [0x1a] = function(r) r:skip(8) return "PATH_CHALLENGE" end,
  [0x1b] = function(r) r:skip(8) return "PATH_RESPONSE" end,
}
for kind = 0x08, 0x0b do FRAMES[kind] = function(r) return ack(r, kind) end end
for kind = 0x11, 0x12 do
  FRAMES[kind] = function(r)
    local code, first, key, length = r:uint(1), r:uint(4), r:varint(), r:varint()
    local cover = string.format("[%d, %d)", first, first + length)
    if kind == 0x12 then
      local ids, id = { tostring(first) }, first
      for i = 1, length do
        id = id + r:varint() + 1
        ids[i + 1] = tostring(id)
      end
      cover = "{" .. table.concat(ids, " ") .. "}"
    end
    local text = string.format("REPAIR over %s, %s, key %d", cover, CODES[code] or "code " .. code, key)
    r:skip(r:left())
    return text, function(node)
      node:add(f.symbol, first)
      node:add(f.code, code)
    end
  end
end
FRAMES[0x13] = function(r)
  local id, length, offset = r:uint(4), r:varint(), r:varint()
  local text = string.format("SOURCE_PART %d, %d of %d bytes from %d", id, r:left(), length, offset)
  r:skip(r:left())
  return text, function(node) node:add(f.symbol, id) end
end
for kind, who in pairs({ [0x1c] = "transport", [0x1d] = "application" }) do
  FRAMES[kind] = function(r)
    local code, length = r:varint(), r:varint()
    local why = length > 0 and r.tvb:range(r.at, length):string() or ""
    r:skip(length)
    return string.format("CLOSE of the %s, code %x: %s", who, code, why)
  end
end

local function dissect_frames(tvb, tree, context, names)
  local r = reader(tvb)
  while r:left() > 0 do
    local begin = r.at
    local kind = r:uint(1)
    if kind == 0 then
      while r:left() > 0 and tvb:range(r.at, 1):uint() == 0 do r.at = r.at + 1 end
      tree:add(f.frame, tvb:range(begin, r.at - begin), string.format("PADDING %d bytes", r.at - begin))
    else
      local frame = FRAMES[kind]
      if not frame then error(string.format("a packet has no frame %02x", kind)) end
      local text, more = frame(r, tree, context)
      local node = tree:add(f.frame, tvb:range(begin, (more and tvb:len() or r.at) - begin), text)
      names[#names + 1] = text:match("^%S+")
      if more then more(node) end
    end
  end
end

-- Packets -------------------------------------------------------------------------------------------------------------

local KINDS = { [0] = "Initial", [2] = "Handshake", [3] = "Retry" }

local function show(tvb, pinfo, tree, at, number_at, finish, kind, names)
  local result = open(pinfo, tvb:bytes():raw(), at, number_at, finish, kind)
  local body = tvb:range(number_at + NUMBER_BYTES, finish - number_at - NUMBER_BYTES)
  if result.problem then
    tree:add(f.sealed, body)
    tree:add(f.problem, "not decrypted: " .. result.problem):set_generated()
    return
  end
  tree:add(f.number, tvb:range(number_at, NUMBER_BYTES), result.number)
  if kind == "Short" then tree:add(f.phase, tvb:range(at, 1), result.phase) end
  local connection, is_client = connection_of(pinfo)
  local plain = ByteArray.new(result.plain, true):tvb("Decrypted " .. kind)
  local fine, problem = pcall(dissect_frames, plain, tree, { connection = connection, is_client = is_client, kind = kind }, names)
  if not fine then tree:add(f.problem, tostring(problem)) end
end

-- Long header (1.2); returns where the packet ends.
local function dissect_long(tvb, pinfo, root, at, names)
  local r = reader(tvb)
  r.at = at
  local first, version = r:uint(1), r:uint(4)
  local kind = KINDS[band(rshift(first, 4), 3)] or "?"
  local tree = root:add(proto, tvb:range(at), "Fulmar " .. (version == 0 and "version negotiation" or kind))
  tree:add(f.kind, tvb:range(at, 1), version == 0 and "Version negotiation" or kind)
  tree:add(f.version, tvb:range(at + 1, 4))
  local length = r:uint(1)
  tree:add(f.dcid, tvb:range(r.at, length))
  local dcid = length > 0 and tvb:range(r.at, length):bytes():raw() or ""
  r:skip(length)
  length = r:uint(1)
  tree:add(f.scid, tvb:range(r.at, length))
  local own_id_bytes = length
  r:skip(length)
  names[#names + 1] = version == 0 and "Version negotiation" or kind
  if version == 0 or kind == "Retry" or kind == "?" then
    if r:left() > 0 then tree:add(f.token, tvb:range(r.at)) end
    return tvb:len()
  end
  local connection, is_client = connection_of(pinfo)
  -- 1.3.2: all ids of an end have the length of its first.
  connection[is_client and "client_id_bytes" or "server_id_bytes"] = own_id_bytes
  local has_token = false
  if kind == "Initial" then
    length = r:varint()
    has_token = length > 0
    if has_token then tree:add(f.token, tvb:range(r.at, length)) end
    r:skip(length)
  end
  -- 3.1.4: the destination of the client's first Initial packet, or of the first after a Retry.
  if kind == "Initial" and is_client and (not connection.dcid or (has_token and not connection.has_token)) then
    connection.dcid, connection.has_token, connection.keys = dcid, has_token, {}
  end
  length = r:varint()
  tree:add(f.length, length)
  local finish = r.at + length
  if finish > tvb:len() then error("a packet that is cut short") end
  tree:set_len(finish - at)
  show(tvb, pinfo, tree, at, r.at, finish, kind, names)
  return finish
end

local function dissect_short(tvb, pinfo, root, at, names)
  local connection, is_client = connection_of(pinfo)
  local id_bytes = connection[is_client and "server_id_bytes" or "client_id_bytes"] or CONNECTION_ID_BYTES
  local number_at = at + 1 + id_bytes
  if tvb:len() < number_at + NUMBER_BYTES + TAG_BYTES then error("a packet that is cut short") end
  -- Linux captures datagrams that it sends together (UDP GSO) as one: each begins with the same connection id.
  local bytes = tvb:bytes():raw()
  local again = bytes:find(sub(bytes, at + 2, number_at), number_at + 1, true)
  local finish = again and again - 2 or tvb:len()
  local tree = root:add(proto, tvb:range(at, finish - at), "Fulmar packet")
  tree:add(f.kind, tvb:range(at, 1), "Short header")
  tree:add(f.dcid, tvb:range(at + 1, id_bytes))
  show(tvb, pinfo, tree, at, number_at, finish, "Short", names)
  return finish
end

function proto.dissector(tvb, pinfo, root)
  pinfo.cols.protocol = "Fulmar"
  local at, names = 0, {}
  while at < tvb:len() do
    local first = tvb:range(at, 1):uint()
    local dissect = first >= 128 and dissect_long or dissect_short
    local fine, next = pcall(dissect, tvb, pinfo, root, at, names)
    if not fine then
      root:add(proto, tvb:range(at)):add(f.problem, tostring(next))
      break
    end
    at = next
  end
  pinfo.cols.info = table.concat(names, ", ")
  return tvb:len()
end

-- The first datagram of a connection names the version; what follows between the same ports is Fulmar's, too.
local function guess(tvb, pinfo, root)
  local is_known = tvb:len() >= 29 and tvb:range(0, 1):uint() >= 0xc0 and tvb:range(1, 4):uint() == VERSION
  if not is_known then return false end
  pinfo.conversation = proto
  proto.dissector(tvb, pinfo, root)
  return true
end

proto:register_heuristic("udp", guess)
DissectorTable.get("udp.port"):add(proto.prefs.port, proto)
