--- libsab through LuaJIT's FFI: the C library as `sab.lib`, with checked arguments and owned
-- handles. pkg-config gives the paths of the library and its declarations.
--
-- - Numbers: counts and indices are 64-bit cdata; tonumber() converts them, exactly up to 2^53.
--   Integers can be whole numbers from -2^53 to 2^53, or int64_t and uint64_t cdata
--   (`9007199254740993ULL`). sab.options() and the functions of sab.lib check them; an assignment
--   to a field (`options.seed = -1`) is not checked.
-- - Handles: sab.new() makes them, the garbage collector frees them. A stage takes its sources
--   over; they cannot be used afterwards. Arrays must have the length that a call states;
--   sab.new() keeps the arrays alive that a handle borrows.
-- - Functions: sab.options(), sab.new() and calls of sab.lib take a Lua function for a callback of
--   C. The call raises its error again. Functions run only in Lua's thread: a stream that calls
--   functions is refused under a stage with threads, and the log takes no function. After the
--   first callback all calls of the library are slower, because they are no longer compiled.
local ffi = require("ffi")

local function installed(variable)
  local pipe = io.popen("pkg-config --variable=" .. variable .. " sab")
  local value = pipe:read("*l")
  pipe:close()
  assert(value and value ~= "", "pkg-config does not find sab: name its folder in PKG_CONFIG_PATH")
  return value
end

local file = assert(io.open(installed("declarations")))
local declarations = file:read("*a"):gsub("/%*.-%*/", "")
file:close()
ffi.cdef(declarations)
local raw = ffi.load(installed("libdir") .. "/libsab.so.0")

-- ---- Declarations ----

local alias, callbacks, structs, functions = {}, {}, {}, {} -- types by name; fields of structs and parameters of functions: {type =, name =}

-- The type and the name of a field or parameter. The type of a function pointer has a name made of
-- those of its owner and its own.
local function declared(owner, text)
  local result, name, parameters = text:match("^%s*([%w_ ]-)%s*%(%*([%w_]+)%)(%(.*%))%s*$")
  if name then
    local kind = owner .. "_" .. name
    ffi.cdef(("typedef %s (*%s)%s;"):format(result, kind, parameters))
    callbacks[kind] = true
    return {type = kind, name = name}
  end
  local kind, length
  kind, name, length = text:match("^%s*(.-)%s*([%w_]+)(%[?%w*%]?)%s*$")
  return {type = kind .. length, name = name}
end

local function split(owner, list)
  local made, depth, first = {}, 0, 1
  for at = 1, #list + 1 do
    local letter = list:sub(at, at)
    depth = depth + (letter == "(" and 1 or letter == ")" and -1 or 0)
    if (letter == "," or letter == "") and depth == 0 then
      made[#made + 1] = declared(owner, list:sub(first, at - 1))
      first = at + 1
    end
  end
  return made
end

for name, target in declarations:gmatch("typedef%s+([%w_]+)%s+([%w_]+);") do alias[target] = name end
for name in declarations:gmatch("typedef%s+[%w_]+%s+%(%*([%w_]+)%)") do callbacks[name] = true end
for body, name in declarations:gmatch("typedef struct [%w_]+ (%b{}) ([%w_]+);") do
  local fields = {}
  for field in body:sub(2, -2):gmatch("[^;]+;") do
    local made = declared(name, (field:sub(1, -2):gsub("%s+", " ")))
    fields[made.name] = made.type
  end
  structs[name] = fields
end
for name, list in declarations:gsub("typedef[^;{]*%b{}[^;]*;", ""):gsub("typedef[^;]*;", ""):gmatch("(sab_[%w_]+)(%b());") do
  functions[name] = list == "(void)" and {} or split(name, (list:sub(2, -2):gsub("%s+", " ")))
end

-- Whether a type is a pointer to a handle.
local function is_handle(kind)
  local name = kind:match("^(sab_[%w_]+) %*$") or kind:match("^const (sab_[%w_]+) %*$")
  return name ~= nil and not structs[name]
end

-- ---- Arguments ----

local exact = 2 ^ 53
local ranges = {int32_t = {-2 ^ 31, 2 ^ 31 - 1}, uint32_t = {0, 2 ^ 32 - 1}, uint16_t = {0, 2 ^ 16 - 1}, int64_t = {-exact, exact}, uint64_t = {0, exact}, size_t = {0, exact}}
local function range_of(kind) return ranges[alias[kind] or kind] end

-- An integer that C's type holds exactly: the FFI would wrap, cut and round others.
local function whole(name, kind, value)
  kind = alias[kind] or kind
  local range = ranges[kind]
  local is_wide = range[2] == exact
  if type(value) == "number" then
    if value >= range[1] and value <= range[2] and value == math.floor(value) then return value end
  elseif ffi.istype("int64_t", value) then
    if is_wide and (range[1] < 0 or value >= 0LL) or not is_wide and value >= range[1] and value <= range[2] then return value end
  elseif ffi.istype("uint64_t", value) then
    if value <= (is_wide and (range[1] < 0 and 0x7fffffffffffffffULL or 0xffffffffffffffffULL) or ffi.cast("uint64_t", range[2])) then return value end
  else
    return value -- the FFI refuses it
  end
  local shown = type(value) == "number" and ("%.17g"):format(value) or tostring(value):gsub("U?LL$", "")
  error(("%s = %s: must be a whole number from %.0f to %.0f%s"):format(name, shown, range[1], range[2], is_wide and ", or an int64_t or uint64_t, such as 1ULL" or ""), 0)
end

local function without_nul(name, value)
  if type(value) == "string" and value:find("%z") then error(("%s = %q: must not contain a NUL character"):format(name, value), 0) end
  return value
end

-- The arrays and callbacks that options point to or a handle borrows, kept alive with these.
local kept = setmetatable({}, {__mode = "k"})

local gone = setmetatable({}, {__mode = "k"}) -- handles that were freed, or taken by a stage
local function alive(name, handle)
  if gone[handle] then error(name .. ": this handle is freed, or was taken by a stage", 0) end
end

-- The caller no longer owns the handle. Only handles of sab.new() are remembered.
local function disown(handle)
  if kept[handle] then gone[handle] = true end
  return ffi.gc(handle, nil)
end

-- ---- Functions that the library calls ----

local thrown -- the error of a function in the innermost call
local depth = 0 -- functions that are running
local freed_later = {} -- frees the handles that they freed, which their calls may still use
local wrappers = {} -- the functions of sab.lib
local has_callbacks = false

local function free_callback(callback) callback:free() end

-- No error may pass through C: it is kept, and raised after the call.
local function guarded(run)
  return function(...)
    local outer = thrown
    thrown, depth = nil, depth + 1
    local is_ok, code = pcall(run, ...)
    depth = depth - 1
    if is_ok and code ~= nil and (type(code) ~= "number" or code ~= math.floor(code)) then
      is_ok, code = false, ("a callback must return a whole number or nothing, not %s"):format(tostring(code))
    end
    thrown = outer or (not is_ok and {code} or nil)
    return is_ok and (code or 0) or -1
  end
end

local sab = {}

--- A callback of a C type, such as "sab_map_fn". It must be kept alive as long as the library uses
-- it; sab.options() and sab.new() do that.
function sab.callback(kind, run)
  if not has_callbacks then -- calls that run a function must not be compiled
    has_callbacks = true
    for _, wrapper in pairs(wrappers) do jit.off(wrapper) end
    jit.flush()
  end
  local made, callback = pcall(ffi.cast, kind, guarded(run))
  if not made then -- the FFI has a limited number; the garbage collector frees unused ones
    collectgarbage()
    callback = ffi.cast(kind, guarded(run))
  end
  return ffi.gc(callback, free_callback)
end
local function callback_of(kind, value) return type(value) == "function" and sab.callback(kind, value) or value end

-- ---- Calls ----

local calling = {} -- addresses of the streams that call functions for a record
local function address(pointer) return tonumber(ffi.cast("uintptr_t", pointer)) end

local stage_functions = {sab_map_stream_new = true, sab_select_stream_new = true, sab_recurrent_stream_new = true, sab_random_map_stream_new = true, sab_callback_stream_new = true}
local refusal = "source: calls functions, which Lua cannot run in threads of the library: put prefetch under the stages that call functions, and leave threads = 0"

local function has_functions(name, options)
  if stage_functions[name] then return true end
  return name:find("readahead") and options ~= nil and (options.batch_size_fn ~= nil or options.boundary_key_fn ~= nil)
end

-- The streams that a call takes.
local function sources_of(parameters, arguments)
  local sources = {}
  for at, parameter in ipairs(parameters) do
    if parameter.type == "sab_stream *" and (parameter.name == "source" or parameter.name == "control") then sources[#sources + 1] = arguments[at] end
    if parameter.name == "sources" then
      for index = 0, tonumber(arguments[at + 1]) - 1 do sources[#sources + 1] = arguments[at][index] end
    end
  end
  return sources
end

-- A constructor of streams: records which of them call functions, and refuses these under stages
-- with threads.
local function stream_constructor(name, parameters, call)
  return function(...)
    local arguments = {...}
    local sources, calls = sources_of(parameters, arguments), has_functions(name, arguments[2])
    for _, source in ipairs(sources) do
      alive("source", source)
      calls = calls or calling[address(source)]
    end
    if calls and (name == "sab_prefetch_stream_new" or name == "sab_map_stream_new" and arguments[2] ~= nil and arguments[2].threads > 0) then error(refusal, 0) end
    local status = call(...)
    if status < 0 then return status end
    for _, source in ipairs(sources) do
      calling[address(source)] = nil
      disown(source)
    end
    local made = arguments[#parameters][0]
    if parameters[#parameters].type == "sab_stream **" then calling[address(made)] = calls or nil end
    return status
  end
end

-- After a call: frees the handles that functions freed during it, and raises the error of one.
local function finish()
  while depth == 0 and freed_later[1] do
    local free = table.remove(freed_later)
    free()
  end
  local it = thrown
  if it ~= nil then
    thrown = nil
    error(it[1], 0)
  end
end

local function destructor(name)
  return function(handle)
    if handle == nil or gone[handle] then return end
    disown(handle)
    if depth > 0 then
      freed_later[#freed_later + 1] = function() raw[name](handle) end
    else
      raw[name](handle)
      finish()
    end
  end
end

-- A function of the library that checks its arguments. It is made as text, so that a call allocates
-- no tables.
local function checked(name, parameters)
  local names, checks = {}, {}
  for at, parameter in ipairs(parameters) do
    local argument, kind = "a" .. at, parameter.type
    names[at] = argument
    if range_of(kind) then
      checks[#checks + 1] = ("%s = whole(%q, %q, %s)"):format(argument, parameter.name, kind, argument)
    elseif callbacks[kind] then
      checks[#checks + 1] = ("%s = callback_of(%q, %s)"):format(argument, kind, argument)
    elseif kind == "const char *" then
      checks[#checks + 1] = ("without_nul(%q, %s)"):format(parameter.name, argument)
    elseif is_handle(kind) then
      checks[#checks + 1] = ("if %s ~= nil then alive(%q, %s) end"):format(argument, parameter.name, argument)
    end
  end
  local list = table.concat(names, ", ")
  local text = [[
    local raw, whole, callback_of, without_nul, alive, finish = ...
    return function(...)
      if select("#", ...) ~= COUNT then error("NAME: takes COUNT arguments, not " .. select("#", ...), 0) end
      ASSIGN
      CHECKS
      local result = raw.NAME(LIST)
      finish()
      return result
    end]]
  local values = {NAME = name, COUNT = tostring(#parameters), LIST = list, CHECKS = table.concat(checks, "\n"), ASSIGN = #names > 0 and "local " .. list .. " = ..." or ""}
  return assert(loadstring(text:gsub("%u%u%u%u+", values), name))(raw, whole, callback_of, without_nul, alive, finish)
end

--- The functions of the library, with checked arguments, and its constants.
sab.lib = setmetatable({}, {__index = function(lib, name)
  local parameters = functions[name]
  if not parameters then
    rawset(lib, name, raw[name]) -- a constant
    return raw[name]
  end
  local call = name:find("_free$") and destructor(name) or checked(name, parameters)
  if has_callbacks then jit.off(call) end
  wrappers[name] = call
  if name:find("_stream_new$") then call = stream_constructor(name, parameters, call) end
  if name == "sab_log_set_callback" then
    call = function(log) assert(log == nil, "callback: must be nil: lines come from threads of the library, where Lua cannot run") end
  end
  rawset(lib, name, call)
  return call
end})

--- Raises the library's message for a failure; returns any other status.
function sab.check(status, level)
  if status < 0 then error(ffi.string(raw.sab_last_error_message()), (level or 1) + 1) end
  return status
end

-- Budgets, each a limit or a table of `cost` and `limit`, as an array of C.
local function budget_array(values)
  local array = ffi.new("sab_budget[?]", #values)
  for at, each in ipairs(values) do
    local given = type(each) == "table" and each or {limit = each}
    if given.cost ~= nil then alive(("budgets[%d].cost"):format(at - 1), given.cost) end
    array[at - 1].cost, array[at - 1].limit = given.cost, given.limit
  end
  return array
end

local function cost_array(values)
  for at, cost in ipairs(values) do alive(("balance[%d]"):format(at - 1), cost) end
  return ffi.new("const sab_cost *[?]", #values, values)
end

-- How tables become the arrays that options point to, by the type of the field.
local arrays = {["const sab_budget *"] = budget_array, ["const sab_cost *const *"] = cost_array}

--- An options struct with its defaults, and with `values`. Budgets and costs to balance can be
-- tables, whose length is set as well: {budgets = {64, {cost = cost, limit = 1000}}}.
function sab.options(kind, values)
  local options, fields, given = ffi.new(kind), structs[kind], {} -- zeros, which are the defaults
  options.struct_size = ffi.sizeof(kind)
  for name, value in pairs(values or {}) do
    local field = fields[name] or error(("%s has no field %s"):format(kind, name), 2)
    if arrays[field] and type(value) == "table" then
      options[name:gsub("s$", "") .. "_count"] = #value
      local array = arrays[field](value)
      given[array], value = value, array
    end
    if range_of(field) then value = whole(name, field, value) end
    if is_handle(field) then alive(name, value) end
    given[name] = callbacks[field] and callback_of(field, value) or without_nul(name, value)
    options[name] = given[name]
  end
  kept[options] = given
  return options
end

--- A new handle: sab.new("sab_plan", "sab_plan_new", sizes, options). It is freed when Lua collects
-- it.
function sab.new(kind, constructor, ...)
  local out, arguments, count = ffi.new(kind .. " *[1]"), {...}, select("#", ...)
  for at, parameter in ipairs(functions[constructor]) do
    if callbacks[parameter.type] then arguments[at] = callback_of(parameter.type, arguments[at]) end
  end
  arguments[count + 1] = out
  sab.check(sab.lib[constructor](unpack(arguments, 1, count + 1)), 2)
  local handle = ffi.gc(out[0], raw[kind .. "_free"])
  kept[handle], gone[handle] = arguments, nil
  return handle
end

--- Begins a pass and returns its batches: `for batch, rows in sab.batches(sampler)`. `batch` is a
-- sab_batch; `rows` is a sab_rows for a batch in one row, otherwise nil. All batches are the same
-- objects with new contents.
function sab.batches(sampler)
  local lib = sab.lib
  sab.check(lib.sab_sampler_begin(sampler))
  local batch = ffi.new("sab_batch", {struct_size = ffi.sizeof("sab_batch")})
  local rows = ffi.new("sab_rows", {struct_size = ffi.sizeof("sab_rows")})
  return function()
    if sab.check(lib.sab_next_batch(sampler, batch)) ~= lib.SAB_OK then return nil end
    if batch.layout ~= lib.SAB_LAYOUT_ROW then return batch end
    sab.check(lib.sab_sampler_get_rows(sampler, rows))
    return batch, rows
  end
end

--- The sab_step of the batch that was shown last: totals over all ranks and micro-batches, for the
-- weights of a loss.
function sab.step(sampler)
  local step = ffi.new("sab_step", {struct_size = ffi.sizeof("sab_step")})
  sab.check(sab.lib.sab_sampler_get_step(sampler, step))
  return step
end

return sab
