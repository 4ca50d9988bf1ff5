# Sizes from a function. An exception of it comes out of the call. Run: ruby callback.rb
require "fiddle/import"

module Sab
  extend Fiddle::Importer
  dlload "libsab.so.0"
  extern "int32_t sab_sizes_callback_new(size_t, void *, void *, void *, void *)"
  extern "size_t sab_sizes_count(void *)"
  extern "void sab_sizes_free(void *)"
  extern "char *sab_last_error_message()"
end

def sizes_of(samples)
  raised = nil
  size = Fiddle::Closure::BlockCaller.new(Fiddle::TYPE_INT, [Fiddle::TYPE_VOIDP, Fiddle::TYPE_LONG_LONG, Fiddle::TYPE_VOIDP]) do |_, index, result|
    result[0, 8] = [yield(samples[index])].pack("d")
    0
  rescue Exception => error # a raise would jump over the frames of the library
    raised = error
    1 # SAB_E_CALLBACK ends the call
  end
  place = Fiddle::Pointer.malloc(Fiddle::SIZEOF_VOIDP, Fiddle::RUBY_FREE)
  status = Sab.sab_sizes_callback_new(samples.size, size, nil, nil, place) # `size` lives until here, as long as it is called
  raise raised || Sab.sab_last_error_message.to_s if status.negative?
  place.ptr
end

sizes = sizes_of(%w[a list of words], &:length)
puts Sab.sab_sizes_count(sizes)
Sab.sab_sizes_free(sizes)
begin
  sizes_of(["word", nil], &:length)
rescue NoMethodError => error
  puts error.message.lines.first
end
