-- call.c from LuaJIT: the raw call (`luajit`), and sab.batches() (`luajit-batches`). Needs examples/luajit in LUA_PATH.
local ffi = require("ffi")
local sab = require("sab")
local lib = sab.lib
ffi.cdef("typedef struct { long seconds, nanoseconds; } bench_time; int clock_gettime(int, bench_time *);")

local CALLS, PASSES = 2000, 500
local time = ffi.new("bench_time")
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.seconds) + 1e-9 * tonumber(time.nanoseconds)
end

local ones = ffi.new("uint8_t[?]", CALLS)
ffi.fill(ones, CALLS, 1)
local sizes = sab.new("sab_sizes", "sab_sizes_new", ones, CALLS, lib.SAB_UINT8, nil)
local plan = sab.new("sab_plan", "sab_plan_new", sizes, sab.options("sab_plan_options", {budgets = {1}}))
local sampler = sab.new("sab_sampler", "sab_sequential_sampler_new", plan, nil)

local function raw()
  local batch = ffi.new("sab_batch", {struct_size = ffi.sizeof("sab_batch")})
  local sum = 0
  while lib.sab_next_batch(sampler, batch) == 0 do sum = sum + tonumber(batch.indices[0]) end
  return sum
end

local function iterating()
  local sum = 0
  for batch in sab.batches(sampler) do sum = sum + tonumber(batch.indices[0]) end
  return sum
end

for _, each in ipairs({{"luajit", raw}, {"luajit-batches", iterating}}) do
  local best = math.huge
  for _ = 1, PASSES do
    sab.check(lib.sab_sampler_set_epoch(sampler, 0))
    local began = now()
    local sum = each[2]()
    best = math.min(best, now() - began)
    assert(sum == CALLS * (CALLS - 1) / 2)
  end
  print(("%s %.1f"):format(each[1], 1e9 * best / CALLS))
end
