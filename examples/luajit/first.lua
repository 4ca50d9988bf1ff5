-- Batches of at most 64 padded tokens. Run: luajit first.lua, in this folder.
local ffi = require("ffi")
local sab = require("sab")

local tokens = ffi.new("int32_t[10]", {12, 7, 30, 8, 9, 31, 7, 12, 29, 8})
local sizes = sab.new("sab_sizes", "sab_sizes_new", tokens, 10, sab.lib.SAB_INT32, sab.options("sab_sizes_options", {copy = 1}))
local plan = sab.new("sab_plan", "sab_plan_new", sizes, sab.options("sab_plan_options", {budgets = {64}}))
local sampler = sab.new("sab_sampler", "sab_bucket_sampler_new", plan, nil)

for batch in sab.batches(sampler) do
  local indices = {}
  for i = 0, tonumber(batch.count) - 1 do indices[#indices + 1] = tonumber(batch.indices[i]) end
  print(("padded to %2d: %s"):format(batch.padded_length[0], table.concat(indices, " ")))
end
