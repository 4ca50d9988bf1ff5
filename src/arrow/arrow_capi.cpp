#include "arrow/arrow_sizes.h"
#include "arrow/schedule.h"
#include "base/guard.h"
#include "sampler/capabilities.h"
#include "sizes/columns.h"

namespace {

/// Makes a handle, and then takes over what it reads: nothing can fail any more.
template <class Interface, class Read>
sab_sizes* taken_over(Interface& source, Read&& read) {
    const auto owner = std::make_shared<sab::Owned<Interface>>();
    auto* const made = new sab_sizes{{}, read(owner)};
    owner->take(source);
    return made;
}

}  // namespace

extern "C" {

sab_status sab_sizes_arrow_new(struct ArrowArray* array, const struct ArrowSchema* schema,
                               const char* column, const sab_sizes_arrow_options* options,
                               sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(array, "array");
        sab::require(schema, "schema");
        const auto given = sab::read_options(options);
        return taken_over(*array, [&](const auto& owner) {
            return sab::read_arrow(*array, *schema, column, given, owner);
        });
    });
}

sab_status sab_sizes_arrow_stream_new(struct ArrowArrayStream* stream, const char* column,
                                      const sab_sizes_arrow_options* options,
                                      sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        sab::require(stream, "stream");
        const auto given = sab::read_options(options);
        return taken_over(*stream, [&](const auto& owner) {
            return sab::read_arrow_stream(*stream, column, given, owner);
        });
    });
}

sab_status sab_arrow_schedule_new(const sab_sampler* sampler,
                                  struct ArrowArrayStream* stream) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        sab::require(stream, "stream");
        sab::make_schedule(sab::need_all_ranks(*sampler->impl, "sab_arrow_schedule_new").copy(),
                           *stream);
    });
}

}  // extern "C"
