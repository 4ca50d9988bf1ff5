-- Tests of the LuaJIT module: the golden vectors, and failures. luajit test.lua GOLDEN_FILE...
-- Prints "N passed, N failed".
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
  tail = {keep = lib.SAB_TAIL_KEEP, drop = lib.SAB_TAIL_DROP, wrap = lib.SAB_TAIL_WRAP},
  shapes = {auto = lib.SAB_SHAPES_AUTO},
  oversize = {skip = lib.SAB_OVERSIZE_SKIP, single = lib.SAB_OVERSIZE_SINGLE},
  last_step = {split = lib.SAB_LAST_STEP_SPLIT, drop = lib.SAB_LAST_STEP_DROP, wrap = lib.SAB_LAST_STEP_WRAP},
  method = {shuffled = lib.SAB_PACK_SHUFFLED, best_fit = lib.SAB_PACK_BEST_FIT, histogram = lib.SAB_PACK_HISTOGRAM, concat = lib.SAB_PACK_CONCAT},
}
local integers = {max_batch_size = true, batch_size_multiple = true, max_sequences = true, window = true, tries = true, split = true,
                  seed = true, rank = true, world_size = true, micro_batches = true, costliest_first = true, mix_lengths = true, steps_per_epoch = true}

local length_powers = {padded = {1}, quadratic = {2}, product = {1, 1}} -- of costs

local function cost_of(word)
  local powers, count = array("uint32_t", assert(length_powers[word]), 1)
  return sab.new("sab_cost", "sab_cost_terms_new", ffi.new("sab_cost_term[1]", {{1, 1, count, powers}}), 1)
end

-- Options that are arrays: the type of their elements, and the option of their length.
local arrays = {
  batch_size = {"uint64_t", "batch_sizes", "batch_size_count"},
  length_multiple = {"double", "length_multiples", "length_multiple_count"},
  length_multiples = {"double", "length_multiples", "length_multiple_count"},
  row_multiple = {"double", "row_multiples", "row_multiple_count"},
  row_multiples = {"double", "row_multiples", "row_multiple_count"},
  separate_by = {"int64_t", "separate_by", "separate_by_count"},
  max_shapes = {"uint64_t", "max_shapes", "max_shape_count"},
  id_shapes = {"uint64_t", "max_shapes", "max_shape_count"},
  capacity = {"uint64_t", "capacities", "capacity_count"},
  capacities = {"uint64_t", "capacities", "capacity_count"},
}

local function set(options, lines, kept, columns)
  for _, words in ipairs(lines) do
    local key, value = words[2], words[3]
    if key == "budget" then
      local cost
      if #words > 3 then
        local weights, count = array("double", words, 4)
        cost = sab.new("sab_cost", "sab_cost_padded_new", weights, count)
      end
      kept.limits = kept.limits or {}
      table.insert(kept.limits, {cost = cost, limit = tonumber(value)})
    elseif key == "cost" then
      kept.cost = cost_of(value)
    elseif key == "balance" then
      kept.balanced_cost = cost_of(value)
      kept.balance = ffi.new("const sab_cost *[1]", {kept.balanced_cost})
      options.balance, options.balance_count = kept.balance, 1
    elseif words_of[key] then
      options[key] = assert(words_of[key][value], value)
    elseif arrays[key] then
      local kind, name, count_name = unpack(arrays[key])
      local numbers, count = array(kind, words, 3)
      kept[key], options[name] = numbers, numbers
      options[count_name] = count
    elseif key == "boundaries" then
      local numbers, count = array("double", words, 3)
      kept.boundaries, options.boundary_count = numbers, count / (columns or 1)
      options.boundaries, options.bucket_rule = kept.boundaries, lib.SAB_BUCKETS_BOUNDARIES
    elseif key == "buckets" and value == "optimal" then
      options.bucket_rule, options.bucket_count = lib.SAB_BUCKETS_OPTIMAL, tonumber(words[4])
    elseif key == "buckets" then
      assert(value == "auto", value)
    elseif integers[key] then
      options[key] = whole(value)
    else
      options[key] = tonumber(value) -- an unknown name is an error of the FFI's
    end
  end
  if kept and kept.limits then
    for _, each in ipairs(kept.limits) do each.cost = each.cost or kept.cost end
    kept.budgets = ffi.new("sab_budget[?]", #kept.limits, kept.limits)
    options.budgets, options.budget_count = kept.budgets, #kept.limits
  end
  return options
end

-- Sizes of a mixture: the first samples are those of source 0, and so on.
local function mixture_of(case, sizes)
  local options, kept, epochs, changes = sab.options("sab_mixture_options"), {}, {"", ""}, {"", ""}
  local ids = ffi.new("int64_t[?]", case.count)
  for _, words in ipairs(case.mixture) do
    local key = words[2]
    if key == "sources" then
      local at = 0
      for source = 3, #words do
        for _ = 1, tonumber(words[source]) do
          ids[at] = source - 3
          at = at + 1
        end
      end
    elseif key == "repeats" then
      kept.repeats, options.repeat_count = array("double", words, 3)
      options.repeats = kept.repeats
    elseif key == "schedule" then
      table.insert(epochs, words[3])
      for i = 4, #words do table.insert(changes, words[i]) end
    else
      assert(key == "seed", key)
      options.seed = whole(words[3])
    end
  end
  if #epochs > 2 then
    kept.epochs, options.schedule_count = array("uint64_t", epochs, 3)
    kept.changes = array("double", changes, 3)
    options.schedule_epochs, options.schedule_repeats = kept.epochs, kept.changes
  end
  options.ids, options.id_count = ids, case.count
  return sab.new("sab_sizes", "sab_mixture_new", ffi.new("const sab_sizes *[1]", {sizes}), 1, options), kept
end

local function sampler_of(case)
  local kept = {}
  local copy = sab.options("sab_sizes_options", {copy = 1})
  local columns = {}
  for index, each in ipairs(case.sizes) do columns[index] = sab.new("sab_sizes", "sab_sizes_new", each, case.count, lib.SAB_UINT32, copy) end
  local sizes = columns[1]
  if #columns > 1 then sizes = sab.new("sab_sizes", "sab_sizes_columns_new", ffi.new("const sab_sizes *[?]", #columns, columns), nil, #columns) end
  if case.mixture and #case.mixture > 0 then sizes, kept.mixture = mixture_of(case, sizes) end
  local function plan() return sab.new("sab_plan", "sab_plan_new", sizes, set(sab.options("sab_plan_options"), case.plan, kept, #columns)) end
  local kind = case.sampler[2]
  if kind == "bionemo" then
    return sab.new("sab_sampler", "sab_bionemo_sampler_new", plan(), set(sab.options("sab_bionemo_options"), case.option))
  end
  local options = set(sab.options("sab_sampler_options"), case.option)
  if kind == "ordered" then
    return sab.new("sab_sampler", "sab_ordered_sampler_new", nil, case.count, sizes, tonumber(case.sampler[3]), options)
  end
  if kind == "packed" then
    return sab.new("sab_sampler", "sab_packed_sampler_new", sizes, set(sab.options("sab_packed_options"), case.pack, kept), options)
  end
  if kind == "balanced" then
    return sab.new("sab_sampler", "sab_balanced_sampler_new", sizes, set(sab.options("sab_balanced_options"), case.balanced, kept), options)
  end
  if kind == "sharded" then -- every rank has these sizes
    local function gather(_, mine, size, all)
      for rank = 0, tonumber(options.world_size) - 1 do ffi.copy(ffi.cast("char *", all) + rank * size, mine, size) end
    end
    return sab.new("sab_sampler", "sab_sharded_sampler_new", sizes, set(sab.options("sab_plan_options"), case.plan, kept), options, gather, nil)
  end
  local arguments = {#case.plan > 0 and plan() or sizes}
  for i = 3, #case.sampler do arguments[#arguments + 1] = tonumber(case.sampler[i]) end
  arguments[#arguments + 1] = options
  return sab.new("sab_sampler", "sab_" .. kind .. "_sampler_new", unpack(arguments))
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
  local next_batch, batch, rows, is_open, column
  local function expect_end() assert(not is_open or next_batch() == nil, "more batches than recorded") end
  for _, words in ipairs(case.lines) do
    local key = words[1]
    if key == "epoch" then
      expect_end()
      sab.check(lib.sab_sampler_set_epoch(sampler, whole(words[2])))
      next_batch = sab.batches(sampler)
      is_open = false
    elseif key == "batch" then
      batch, rows = next_batch()
      assert(batch, "too few batches")
      is_open, column = true, 0
      equal(batch.indices, batch.count, words)
    elseif key == "padded_length" then
      equal(batch.padded_length, batch.columns, words)
    elseif key == "cu_seqlens" or key == "cu_seqlens_unpadded" then
      equal(rows[key][column % #case.sizes], batch.count + 1, words)
      column = column + 1
    elseif key == "starts" then
      equal(rows.starts, batch.count, words)
    elseif key == "step" then
      local step = sab.step(sampler)
      local got = {[0] = batch.step, batch.micro_batch, step.micro_batches, step.samples}
      for index = 0, tonumber(step.columns) - 1 do got[4 + index] = step.totals[index] end
      equal(got, 4 + step.columns, words)
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
      case = {name = words[2], sizes = {}, mixture = {}, plan = {}, pack = {}, balanced = {}, option = {}, lines = {}}
    elseif key == "sizes" then
      local numbers, count = array("uint32_t", words, 2)
      table.insert(case.sizes, numbers)
      case.count = count
    elseif key == "sizes_rule" then
      case.count = tonumber(words[2])
      table.insert(case.sizes, sizes_by_rule(case.count, whole(words[3])))
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
local function some_plan(options) return sab.new("sab_plan", "sab_plan_new", some_sizes(), sab.options("sab_plan_options", options or {budgets = {8}})) end
local function some_sampler() return sab.new("sab_sampler", "sab_bucket_sampler_new", some_plan(), nil) end

test("a failure is an error with the library's message", function()
  expect_error("budgets[0].limit = -2", some_plan, {budgets = {-2}})
  expect_error("sizes", sab.new, "sab_plan", "sab_plan_new", nil, sab.options("sab_plan_options", {budgets = {2}}))
  expect_error("no_such_option", sab.options, "sab_plan_options", {no_such_option = 1})
end)

test("a vector that is wrong is noticed", function()
  local case = {sizes = {ffi.new("uint32_t[2]", {3, 1})}, count = 2, plan = {{"plan", "batch_size", "2"}}, option = {}, sampler = {"sampler", "sequential"}}
  case.lines = {{"epoch", "0"}, {"batch", "1", "0"}}
  check_case(case)
  case.lines = {{"epoch", "0"}, {"batch", "0", "1"}}
  expect_error("number 0 is 1LL, expected 0", check_case, case)
end)

test("integers that C's type does not hold exactly are refused", function()
  local function seed(value) return sab.options("sab_sampler_options", {seed = value}).seed end
  for _, case in ipairs({{-1, "seed = -1: must be a whole number from 0 to 9007199254740992"}, {0.5, "seed = 0.5"}, {2 ^ 53 + 2, "seed = 9007199254740994"}, {-1LL, "seed = -1:"},
                         {0 / 0, "seed = "}, {math.huge, "seed = inf"}}) do
    expect_error(case[2], seed, case[1])
  end
  assert(seed(2 ^ 53) == 9007199254740992ULL and seed(9007199254740993ULL) == 9007199254740993ULL and seed(5LL) == 5 and seed(0xffffffffffffffffULL) == 0xffffffffffffffffULL)
  local sampler = some_sampler()
  expect_error("epoch = -1", lib.sab_sampler_set_epoch, sampler, -1)
  expect_error("position = 1.5", lib.sab_sampler_seek, sampler, 1.5)
  expect_error("dtype = 4294967299", sab.new, "sab_sizes", "sab_sizes_new", lengths, 4, 2 ^ 32 + 3, nil)
  expect_error("dtype = 4294967299", sab.new, "sab_sizes", "sab_sizes_new", lengths, 4, 4294967299ULL, nil)
  expect_error("count = -4", sab.new, "sab_sizes", "sab_sizes_new", lengths, -4, lib.SAB_INT32, nil)
  expect_error("stride = 9.2233720368547758e+18", sab.options, "sab_sizes_options", {stride = 2 ^ 63})
  expect_error("stride = 18446744073709551615", sab.options, "sab_sizes_options", {stride = 0xffffffffffffffffULL})
  assert(sab.options("sab_sizes_options", {stride = -4}).stride == -4)
  expect_error("takes 2 arguments, not 1", lib.sab_sampler_seek, sampler)
  expect_error("path", lib.sab_sizes_file_new, "a.npy\0b", nil, ffi.new("sab_sizes *[1]"))
end)

test("what a function raises comes out of the call", function()
  local function raised(run, ...)
    local is_ok, value = pcall(run, ...)
    assert(not is_ok)
    return value
  end
  local mine, calls = {}, 0
  local function fail() calls = calls + 1 error(mine) end
  assert(raised(sab.new, "sab_sizes", "sab_sizes_callback_new", 3, fail, nil, nil) == mine and calls == 1)
  assert(raised(lib.sab_sizes_callback_new, 3, fail, nil, nil, ffi.new("sab_sizes *[1]")) == mine)
  assert(raised(some_plan, {budgets = {8}, progress = fail}) == mine)
  local cost = sab.new("sab_cost", "sab_cost_callback_new", fail, nil, nil)
  assert(raised(some_plan, {budgets = {{cost = cost, limit = 8}}}) == mine)
  expect_error("a callback must return a whole number or nothing, not three", sab.new, "sab_sizes", "sab_sizes_callback_new", 3, function() return "three" end, nil, nil)
  local failing = sab.new("sab_sampler", "sab_bionemo_size_aware_stream_sampler_new", fail, nil, nil, 10)
  collectgarbage()
  assert(raised(sab.batches(failing)) == mine)
  local function nested() assert(raised(some_plan, {budgets = {8}, progress = fail}) == mine) error("outer", 0) end
  assert(raised(some_plan, {budgets = {8}, progress = nested}) == "outer")
  assert(some_plan({budgets = {8}, progress = function() some_plan() end}) ~= nil)
  expect_error("threads of the library", lib.sab_log_set_callback, fail, nil)
  for _ = 1, 3000 do some_plan({budgets = {8}, progress = function() end}) end -- no more callbacks than the FFI has
end)

test("a handle that a function frees is freed after the call", function()
  local sizes = sab.new("sab_sizes", "sab_sizes_new", ffi.new("int32_t[1000]", 7), 1000, lib.SAB_INT32, sab.options("sab_sizes_options", {copy = 1}))
  local pointer, seen = ffi.cast("sab_sizes *", ffi.cast("uintptr_t", sizes)), ffi.new("double[1]")
  local function progress()
    lib.sab_sizes_free(sizes)
    for _ = 1, 50 do some_sizes() end
    assert(lib.sab_sizes_count(pointer) == 1000) -- the memory is still there
    sab.check(lib.sab_sizes_get(pointer, 999, 1, seen))
  end
  sab.new("sab_plan", "sab_plan_new", sizes, sab.options("sab_plan_options", {budgets = {100}, progress = progress}))
  assert(seen[0] == 7)
  expect_error("sizes: this handle is freed", lib.sab_sizes_count, sizes)
end)

local function list_stream()
  local records = ffi.new("sab_record[3]")
  for i = 0, 2 do records[i].kind, records[i].size, records[i].data, records[i].length = lib.SAB_RECORD_BYTES, 1, ffi.cast("const char *", "a"), 1 end
  return sab.new("sab_stream", "sab_list_stream_new", records, 3, nil)
end
local function count_of(stream)
  local count, record = 0, ffi.new("sab_record")
  while sab.check(lib.sab_stream_next(stream, record)) == lib.SAB_OK do count = count + 1 end
  return count
end
local function stage(...) return sab.new("sab_stream", ...) end

test("a stream that calls functions is refused under a stage with threads", function()
  local calls = 0
  local function mapped(source, values)
    values.map = function() calls = calls + 1 end
    return stage("sab_map_stream_new", source, sab.options("sab_map_stream_options", values))
  end
  local above = stage("sab_batch_stream_new", mapped(list_stream(), {}), 2)
  expect_error("source: calls functions", stage, "sab_prefetch_stream_new", above, 16)
  expect_error("source: calls functions", mapped, above, {threads = 2})
  collectgarbage()
  assert(count_of(above) == 2 and calls == 3) -- refused, not taken
  local out = ffi.new("sab_stream *[1]")
  expect_error("source: calls functions", function()
    sab.check(lib.sab_batch_stream_new(mapped(list_stream(), {}), 2, out)) -- pointers that C gave
    lib.sab_prefetch_stream_new(out[0], 16, out)
  end)
  local fine = mapped(stage("sab_prefetch_stream_new", list_stream(), 16), {})
  calls = 0
  assert(count_of(fine) == 3 and calls == 3)
end)

test("what is freed or taken is not used or freed again", function()
  local sizes = some_sizes()
  lib.sab_sizes_free(sizes)
  lib.sab_sizes_free(sizes)
  expect_error("sizes: this handle is freed", lib.sab_sizes_count, sizes)
  sizes = nil
  collectgarbage()
  for _ = 1, 20 do
    local source = list_stream()
    local batched = stage("sab_batch_stream_new", source, 2)
    expect_error("this handle is freed, or was taken by a stage", count_of, source)
    expect_error("taken by a stage", stage, "sab_batch_stream_new", source, 2)
    lib.sab_stream_free(source)
    source = nil
    collectgarbage()
    assert(count_of(batched) == 2)
    local left = list_stream()
    assert(select(2, pcall(stage, "sab_batch_stream_new", left, 0)):find("batch_size", 1, true))
    assert(count_of(left) == 3) -- a stage that fails takes nothing
  end
end)

test("a callback's code comes back", function()
  local function make(size)
    local out = ffi.new("sab_sizes *[1]")
    local callback = ffi.cast("sab_size_fn", size)
    local status = lib.sab_sizes_callback_new(3, callback, nil, nil, out)
    callback:free()
    return status, ffi.gc(out[0], lib.sab_sizes_free)
  end
  jit.off(make)
  local status = make(function(_, index, size) size[0] = 1 return index == 1 and 77 or 0 end)
  assert(status == lib.SAB_E_CALLBACK and lib.sab_last_error_code() == 77)
  local is_ok, sizes = make(function(_, index, size) size[0] = tonumber(index) + 1 return 0 end)
  assert(is_ok == lib.SAB_OK and lib.sab_sizes_count(sizes) == 3)
  assert(make(function() return 0 end) == lib.SAB_E_ARGUMENT) -- it sets nothing
end)

test("options keep alive what they point to", function()
  for _ = 1, 100 do
    local options = sab.options("sab_plan_options", {budgets = {8}, bucket_rule = lib.SAB_BUCKETS_BOUNDARIES, boundaries = ffi.new("double[4]", {0, 2, 4, 5}), boundary_count = 4})
    collectgarbage()
    for _ = 1, 50 do ffi.new("double[4]", {1, 1, 1, 1}) end
    sab.new("sab_plan", "sab_plan_new", some_sizes(), options)
  end
end)

test("handles go in any order, and with the collector", function()
  for _ = 1, 200 do
    local sampler = some_sampler()
    collectgarbage()
    local samples = 0
    for batch in sab.batches(sampler) do samples = samples + tonumber(batch.count) end
    assert(samples == 4)
  end
end)

-- The table of decision 3.
test("a second loop is the next epoch, or the same one from its start", function()
  local many = ffi.new("int32_t[60]")
  for i = 0, 59 do many[i] = 1 + i * 7 % 30 end
  local sizes = sab.new("sab_sizes", "sab_sizes_new", many, 60, lib.SAB_INT32, nil)
  local plan = sab.new("sab_plan", "sab_plan_new", sizes, sab.options("sab_plan_options", {budgets = {100}}))
  local function fresh(epoch) return sab.new("sab_sampler", "sab_bucket_sampler_new", plan, sab.options("sab_sampler_options", {seed = 3, epoch = epoch or 0})) end
  local function pass(sampler, count)
    local made = {}
    for batch in sab.batches(sampler) do
      made[#made + 1] = ffi.string(batch.indices, 8 * batch.count)
      if #made == count then break end
    end
    return made
  end
  local function same(got, expected, first, last)
    assert(table.concat(got) == table.concat(expected, "", first or 1, last or #expected))
  end
  local function state_of(sampler)
    local size = ffi.new("size_t[1]")
    sab.check(lib.sab_sampler_state_save(sampler, nil, 0, size))
    local state = ffi.new("uint8_t[?]", size[0])
    sab.check(lib.sab_sampler_state_save(sampler, state, size[0], size))
    return {state, size[0]}
  end
  local function restored(state)
    local sampler = fresh()
    sab.check(lib.sab_sampler_state_restore(sampler, state[1], state[2]))
    return sampler
  end
  local first, second = pass(fresh()), pass(fresh(1))
  assert(#first > 4 and table.concat(first) ~= table.concat(second))

  local sampler = fresh() -- nothing was taken; the last pass was finished
  sab.batches(sampler)
  same(pass(sampler), first)
  same(pass(sampler), second)
  sampler = fresh() -- it was broken off
  same(pass(sampler, 2), first, 1, 2)
  local middle = state_of(sampler)
  same(pass(sampler), first)
  local ended = state_of(sampler)
  sampler = restored(middle) -- a state was restored, its end had not been reported
  same(pass(sampler), first, 3)
  same(pass(sampler), second)
  sampler = fresh() -- nothing may be left
  same(pass(sampler, #first), first)
  sampler = restored(state_of(sampler))
  same(pass(sampler), {})
  same(pass(sampler), second)
  same(pass(restored(ended)), second) -- its end had been reported
end)

print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
