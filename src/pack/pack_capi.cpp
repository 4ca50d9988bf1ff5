#include "base/guard.h"
#include "pack/packed_sequence.h"
#include "sampler/cursor.h"

extern "C" {

sab_status sab_packed_sampler_new(const sab_sizes* sizes, const sab_packed_options* pack,
                                  const sab_sampler_options* options,
                                  sab_sampler** sampler) noexcept {
    return sab::guard_new(sampler, "sampler", [&] {
        sab::require(sizes, "sizes");
        sab::require(pack, "pack");
        const auto how = sab::read_options(pack, "pack");
        const sab::SamplerOptions given(sab::read_options(options));
        return sab::new_cursor(sab::make_packed_sequence(sizes->impl, how), given);
    });
}

sab_status sab_packed_sampler_get_info(const sab_sampler* sampler, sab_packed_info* info) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        const sab::PackedRows& rows = sab::packed_rows_of(*sampler->impl);
        sab::check_result(info, "info");
        sab::write_result(rows.info(), info);
    });
}

}  // extern "C"
