--- libsab through LuaJIT's FFI: the raw library, and the little that makes it safe. Where things lie is asked of pkg-config.
--
-- Counts and indices are 64-bit cdata: tonumber() turns them into Lua's numbers, exactly up to 2^53.
-- A function that runs one of the library's callbacks must not be compiled: jit.off(function). A callback must not raise; it gives back a code.
local ffi = require("ffi")

local function installed(variable)
  local pipe = io.popen("pkg-config --variable=" .. variable .. " sab")
  local value = pipe:read("*l")
  pipe:close()
  assert(value and value ~= "", "pkg-config does not find sab: name its folder in PKG_CONFIG_PATH")
  return value
end

local declarations = assert(io.open(installed("declarations")))
ffi.cdef(declarations:read("*a"))
declarations:close()

local sab = {lib = ffi.load(installed("libdir") .. "/libsab.so.0")}

--- Raises the library's message for a failure; gives other statuses back.
function sab.check(status)
  if status < 0 then error(ffi.string(sab.lib.sab_last_error_message()), 2) end
  return status
end

-- What options point to, and what a handle may borrow: arrays live as long as what was made of them.
local kept = setmetatable({}, {__mode = "k"})

--- An options struct with its defaults, and with `values`.
function sab.options(kind, values)
  local options = ffi.new(kind)
  sab.lib[kind .. "_init"](options, ffi.sizeof(kind))
  for name, value in pairs(values or {}) do options[name] = value end
  kept[options] = values
  return options
end

--- A handle of a constructor: sab.new("sab_plan", "sab_plan_new", sizes, options). The library frees it when Lua collects it.
function sab.new(kind, constructor, ...)
  local out, arguments, count = ffi.new(kind .. " *[1]"), {...}, select("#", ...)
  arguments[count + 1] = out
  local status = sab.lib[constructor](unpack(arguments, 1, count + 1))
  if status < 0 then error(ffi.string(sab.lib.sab_last_error_message()), 2) end
  local handle = ffi.gc(out[0], sab.lib[kind .. "_free"])
  kept[handle] = arguments
  return handle
end

--- The batches of an epoch from where the sampler stands: `for batch in sab.batches(sampler)`. It is one and the same batch, with new contents.
function sab.batches(sampler)
  local batch = ffi.new("sab_batch", {struct_size = ffi.sizeof("sab_batch")})
  return function() return sab.check(sab.lib.sab_next_batch(sampler, batch)) == sab.lib.SAB_OK and batch or nil end
end

return sab
