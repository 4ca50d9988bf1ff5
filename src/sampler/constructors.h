#pragma once
// Generated from the public headers by tools/abi.py: do not edit.
// clang-format off

namespace sab {

/// Constructors of samplers, by which saved states name the kind.
constexpr const char* sampler_constructors[] = {
    "sab_bucket_sampler_new",
    "sab_sequential_sampler_new",
    "sab_costliest_sampler_new",
    "sab_ordered_sampler_new",
    "sab_sharded_sampler_new",
    "sab_packed_sampler_new",
    "sab_bionemo_size_aware_stream_sampler_new",
    "sab_bionemo_sampler_new",
    "sab_bagua_sampler_new",
    "sab_balanced_sampler_new",
};

}  // namespace sab
