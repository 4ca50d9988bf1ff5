-- LuaJIT's FFI against the golden vectors, and what goes wrong: luajit test.lua GOLDEN_FILE... Prints "N passed, N failed".
local ffi = require("ffi")
local bit = require("bit")
local sab = require("sab")
local lib = sab.lib

local passed, failed = 0, 0
local function test(name, run)
  local is_ok, message = pcall(run)
  if is_ok then
    passed = passed + 1
  else
    failed = failed + 1
    io.stderr:write("FAILED ", name, ": ", tostring(message), "\n")
  end
end

local function expect_error(words, run, ...)
  local is_ok, message = pcall(run, ...)
  assert(not is_ok and message:find(words, 1, true), ("expected an error with %q, got %s"):format(words, tostring(message)))
end

local function whole(word) return assert(loadstring("return " .. word .. "ULL"))() end

local function array(kind, words, first)
  local made = ffi.new(kind .. "[?]", math.max(1, #words - first + 1))
  for i = first, #words do made[i - first] = tonumber(words[i]) end
  return made, #words - first + 1
end

local function sizes_by_rule(count, modulus)
  local sizes, x = ffi.new("uint32_t[?]", count), 1ULL
  for i = 0, count - 1 do
    x = x * 6364136223846793005ULL + 1442695040888963407ULL
    sizes[i] = tonumber(1 + bit.rshift(x, 33) % modulus)
  end
  return sizes
end

local words_of = {
  cost = {padded = lib.SAB_COST_PADDED, quadratic = lib.SAB_COST_QUADRATIC},
  tail = {keep = lib.SAB_TAIL_KEEP, merge = lib.SAB_TAIL_MERGE, drop = lib.SAB_TAIL_DROP, wrap = lib.SAB_TAIL_WRAP},
  oversize = {skip = lib.SAB_OVERSIZE_SKIP, single = lib.SAB_OVERSIZE_SINGLE},
  last_step = {split = lib.SAB_LAST_STEP_SPLIT, drop = lib.SAB_LAST_STEP_DROP, wrap = lib.SAB_LAST_STEP_WRAP},
  method = {best_fit = lib.SAB_PACK_BEST_FIT, histogram = lib.SAB_PACK_HISTOGRAM, first_fit = lib.SAB_PACK_FIRST_FIT},
}
local integers = {max_batch_size = true, batch_size_multiple = true, max_shapes = true, max_sequences = true, window = true, split = true,
                  seed = true, rank = true, world_size = true, worst_first = true}

local function set(options, lines, kept)
  for _, words in ipairs(lines) do
    local key, value = words[2], words[3]
    if words_of[key] then
      options[key] = assert(words_of[key][value], value)
    elseif key == "batch_size" then
      kept.batch_sizes, options.batch_size_count = array("uint64_t", words, 3)
      options.batch_sizes = kept.batch_sizes
    elseif key == "boundaries" then
      kept.boundaries, options.boundary_count = array("double", words, 3)
      options.boundaries, options.buckets = kept.boundaries, lib.SAB_BUCKETS_BOUNDARIES
    elseif key == "buckets" and value == "optimal" then
      options.buckets, options.bucket_count = lib.SAB_BUCKETS_OPTIMAL, tonumber(words[4])
    elseif key == "buckets" and value == "rank" then
      options.buckets, options.bucket_batches = lib.SAB_BUCKETS_RANK, tonumber(words[4])
    elseif key == "buckets" then
      assert(value == "auto", value)
    elseif integers[key] then
      options[key] = whole(value)
    else
      options[key] = tonumber(value) -- an unknown name is an error of the FFI's
    end
  end
  return options
end

local function sampler_of(case)
  local kept = {}
  local copy = sab.options("sab_sizes_options", {copy = 1})
  local sizes = sab.new("sab_sizes", "sab_sizes_new", case.sizes, case.count, lib.SAB_UINT32, copy)
  local function plan() return sab.new("sab_plan", "sab_plan_new", sizes, set(sab.options("sab_plan_options"), case.plan, kept)) end
  local kind = case.sampler[2]
  if kind == "torch" then
    return sab.new("sab_sampler", "sab_torch_sampler_new", plan(), set(sab.options("sab_torch_sampler_options"), case.option))
  end
  local options = set(sab.options("sab_sampler_options"), case.option)
  if kind == "bucket" then return sab.new("sab_sampler", "sab_bucket_sampler_new", plan(), options) end
  if kind == "sequential" then return sab.new("sab_sampler", "sab_sequential_sampler_new", plan(), options) end
  if kind == "size_aware" then
    return sab.new("sab_sampler", "sab_size_aware_sampler_new", nil, case.count, sizes, tonumber(case.sampler[3]), options)
  end
  assert(kind == "packed", kind)
  return sab.new("sab_sampler", "sab_packed_sampler_new", sizes, set(sab.options("sab_pack_options"), case.pack), options)
end

local function equal(got, count, words)
  assert(count == #words - 1, ("%d numbers, expected %d"):format(tonumber(count), #words - 1))
  for i = 2, #words do assert(got[i - 2] == tonumber(words[i]), ("number %d is %s, expected %s"):format(i - 2, tostring(got[i - 2]), words[i])) end
end

local function check_digest(next_batch, words)
  local digest, steps = 14695981039346656037ULL, 0
  local function add(word)
    for _ = 1, 8 do
      digest = bit.bxor(digest, bit.band(word, 255ULL)) * 1099511628211ULL
      word = bit.rshift(word, 8)
    end
  end
  for batch in next_batch do
    add(batch.count)
    for i = 0, tonumber(batch.count) - 1 do add(ffi.cast("uint64_t", batch.indices[i])) end
    steps = steps + 1
  end
  assert(steps == tonumber(words[2]) and bit.tohex(digest) == words[3], ("%d steps, %s"):format(steps, bit.tohex(digest)))
end

local function check_case(case)
  local sampler = sampler_of(case)
  local next_batch, batch, is_open
  local function expect_end() assert(not is_open or next_batch() == nil, "more batches than recorded") end
  for _, words in ipairs(case.lines) do
    local key = words[1]
    if key == "epoch" then
      expect_end()
      sab.check(lib.sab_sampler_set_epoch(sampler, whole(words[2])))
      next_batch = sab.batches(sampler)
      is_open = false
    elseif key == "batch" then
      batch, is_open = assert(next_batch(), "too few batches"), true
      equal(batch.indices, batch.count, words)
    elseif key == "cu_seqlens" then
      equal(batch.cu_seqlens, batch.count + 1, words)
    elseif key == "starts" then
      equal(batch.starts, batch.count, words)
    else
      assert(key == "digest", key)
      check_digest(next_batch, words)
    end
  end
  expect_end()
end

for _, path in ipairs(arg) do
  local case
  for line in io.lines(path) do
    local words = {}
    for word in line:gmatch("%S+") do words[#words + 1] = word end
    local key = words[1]
    if key == nil or key:sub(1, 1) == "#" then
      -- a comment
    elseif key == "case" then
      case = {name = words[2], plan = {}, pack = {}, option = {}, lines = {}}
    elseif key == "sizes" then
      case.sizes, case.count = array("uint32_t", words, 2)
    elseif key == "sizes_rule" then
      case.count = tonumber(words[2])
      case.sizes = sizes_by_rule(case.count, whole(words[3]))
    elseif key == "sampler" then
      case.sampler = words
    elseif key == "end" then
      local whole_case = case
      test(whole_case.name, function() check_case(whole_case) end)
    elseif case[key] then
      table.insert(case[key], words)
    else
      table.insert(case.lines, words)
    end
  end
end

local lengths = ffi.new("int32_t[4]", {3, 1, 4, 1})
local function some_sizes() return sab.new("sab_sizes", "sab_sizes_new", lengths, 4, lib.SAB_INT32, nil) end

test("a failure is an error with the library's message", function()
  local options = sab.options("sab_plan_options", {budget = -2})
  expect_error("budget = -2", sab.new, "sab_plan", "sab_plan_new", some_sizes(), options)
  expect_error("sizes", sab.new, "sab_plan", "sab_plan_new", nil, sab.options("sab_plan_options", {budget = 2}))
  expect_error("no_such_option", sab.options, "sab_plan_options", {no_such_option = 1})
end)

test("a vector that is wrong is noticed", function()
  local case = {sizes = ffi.new("uint32_t[2]", {3, 1}), count = 2, plan = {{"plan", "batch_size", "2"}}, option = {}, sampler = {"sampler", "sequential"}}
  case.lines = {{"epoch", "0"}, {"batch", "1", "0"}}
  check_case(case)
  case.lines = {{"epoch", "0"}, {"batch", "0", "1"}}
  expect_error("number 0 is 1LL, expected 0", check_case, case)
end)

test("a callback's code comes back", function()
  local function make(size)
    local out = ffi.new("sab_sizes *[1]")
    local callback = ffi.cast("sab_size_fn", size)
    local status = lib.sab_sizes_callback_new(3, callback, nil, nil, nil, out)
    callback:free()
    return status, ffi.gc(out[0], lib.sab_sizes_free)
  end
  jit.off(make)
  local status = make(function(_, index) return index == 1 and 77 or 0 end)
  assert(status == lib.SAB_E_CALLBACK and lib.sab_last_callback_code() == 77)
  local is_ok, sizes = make(function(_, index, size) size[0] = tonumber(index) + 1 return 0 end)
  assert(is_ok == lib.SAB_OK and lib.sab_sizes_count(sizes) == 3)
end)

test("what options point to lives as long as they", function()
  for _ = 1, 100 do
    local options = sab.options("sab_plan_options", {budget = 8, buckets = lib.SAB_BUCKETS_BOUNDARIES, boundaries = ffi.new("double[4]", {0, 2, 4, 5}), boundary_count = 4})
    collectgarbage()
    for _ = 1, 50 do ffi.new("double[4]", {1, 1, 1, 1}) end
    sab.new("sab_plan", "sab_plan_new", some_sizes(), options)
  end
end)

test("handles go in any order, and with the collector", function()
  for _ = 1, 200 do
    local sampler = sab.new("sab_sampler", "sab_bucket_sampler_new", sab.new("sab_plan", "sab_plan_new", some_sizes(), sab.options("sab_plan_options", {budget = 8})), nil)
    collectgarbage()
    local samples = 0
    for batch in sab.batches(sampler) do samples = samples + tonumber(batch.count) end
    assert(samples == 4)
  end
end)

print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
