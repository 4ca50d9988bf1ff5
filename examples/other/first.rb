# Batches of at most 64 padded tokens. Run: ruby first.rb
require "fiddle/import"
require "json"

module Sab
  extend Fiddle::Importer
  dlload "libsab.so.0"
  STRUCTS = {}
  JSON.parse(File.read(`pkg-config --variable=description sab`.strip))["headers"].each do |header|
    header.fetch("types", []).each { |each| typealias each["name"], each["type"] }
    header.fetch("callbacks", []).each { |each| typealias each["name"], "void *" }
    header.fetch("structs", []).each { |each| STRUCTS[each["name"]] = each["fields"] }
    header.fetch("functions", []).each do |each|
      parameters = each["parameters"].map { |parameter| parameter["type"] || "void *" }
      extern "#{each["result"]["type"]} #{each["name"]}(#{parameters.join(", ")})"
    end
  end

  # The message belongs to the thread, so nothing may come between.
  def self.check(status) = status.negative? ? raise(sab_last_error_message.to_s) : status

  # A struct that is all zero but its size.
  def self.create(name)
    fields = STRUCTS[name].map do |each|
      "#{each["type"] || "void *"} #{each["name"]}#{"[#{each["extent"]}]" if each["extent"]}"
    end
    made = struct(fields).malloc(Fiddle::RUBY_FREE)
    made.to_ptr[0, made.class.size] = "\0" * made.class.size
    made.struct_size = made.class.size if made.respond_to?(:struct_size)
    made
  end

  # The handle that a constructor gives through its last argument.
  def self.handle(constructor, *arguments)
    place = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
    check(send(constructor, *arguments, place))
    place.ptr
  end
end

lengths = [12, 7, 30, 8, 9, 31, 7, 12, 29, 8].pack("l*") # `sizes` borrows it: keep the variable
budget = Sab.create("sab_budget")
budget.limit = 64
options = Sab.create("sab_plan_options")
options.budgets = budget
options.budget_count = 1
sizes = Sab.handle(:sab_sizes_new, lengths, 10, 3, nil) # 3 is SAB_INT32
plan = Sab.handle(:sab_plan_new, sizes, options)
sampler = Sab.handle(:sab_bucket_sampler_new, plan, nil)
batch = Sab.create("sab_batch")
while Sab.check(Sab.sab_next_batch(sampler, batch)).zero?
  indices = batch.indices[0, 8 * batch["count"]].unpack("q*") # batch.count is Enumerable's
  puts format("padded to %2d: %s", batch.padded_length[0, 8].unpack1("d"), indices.join(" "))
end
Sab.sab_sampler_free(sampler)
Sab.sab_plan_free(plan)
Sab.sab_sizes_free(sizes)
