#pragma once
// Generated from the public headers by tools/abi.py: do not edit.
// clang-format off
/// The size of each struct of the ABI when it was first released: up to the end of its last field
/// of that release. A field that was appended later has `@since` in its comment. It begins behind
/// any padding at the old end, because callers leave that padding unset.

#include <cstddef>

#include <sab.h>

namespace sab {

template <class Struct>
extern const std::size_t first_size;  // a struct without a row does not link

#define SAB_FIRST_RELEASED(type, last) \
    template <> \
    inline constexpr std::size_t first_size<type> = \
        (offsetof(type, last) + sizeof(type::last) + alignof(type) - 1) / alignof(type) * \
        alignof(type);

// NOLINTBEGIN(bugprone-sizeof-expression): some of the fields are pointers
SAB_FIRST_RELEASED(sab_progress_options, progress_ctx)
SAB_FIRST_RELEASED(sab_sizes_options, copy)
SAB_FIRST_RELEASED(sab_sizes_info, description)
SAB_FIRST_RELEASED(sab_plan_options, progress_ctx)
SAB_FIRST_RELEASED(sab_bucket, id)
SAB_FIRST_RELEASED(sab_shape, padded_length)
SAB_FIRST_RELEASED(sab_plan_info, second_buckets)
SAB_FIRST_RELEASED(sab_plan_report, padded_totals)
SAB_FIRST_RELEASED(sab_verification_options, progress_ctx)
SAB_FIRST_RELEASED(sab_verification, total)
SAB_FIRST_RELEASED(sab_batch, token_weight)
SAB_FIRST_RELEASED(sab_rows, cu_seqlens_unpadded)
SAB_FIRST_RELEASED(sab_block, cu_seqlens_unpadded)
SAB_FIRST_RELEASED(sab_step, totals)
SAB_FIRST_RELEASED(sab_sampler_options, steps_per_epoch)
SAB_FIRST_RELEASED(sab_sizes_arrow_options, text_unit)
#if SAB_WITH_PACK
SAB_FIRST_RELEASED(sab_packed_options, row_multiple_count)
SAB_FIRST_RELEASED(sab_packed_info, fill)
#endif
#if SAB_WITH_MEMORY
SAB_FIRST_RELEASED(sab_probe_options, total_bytes)
SAB_FIRST_RELEASED(sab_probe_stats, total)
SAB_FIRST_RELEASED(sab_probe_callbacks, release)
SAB_FIRST_RELEASED(sab_collect_peak_options, progress_ctx)
SAB_FIRST_RELEASED(sab_peaks_view, out_of_memory)
SAB_FIRST_RELEASED(sab_measurement_options, degree)
SAB_FIRST_RELEASED(sab_memory_model_options, column_names)
SAB_FIRST_RELEASED(sab_memory_model_info, largest_residual)
#endif
#if SAB_WITH_COMPAT
SAB_FIRST_RELEASED(sab_bionemo_options, release)
SAB_FIRST_RELEASED(sab_bagua_options, release)
#endif
#if SAB_WITH_FILES
SAB_FIRST_RELEASED(sab_sizes_file_options, nulls)
#endif
#if SAB_WITH_BALANCE
SAB_FIRST_RELEASED(sab_partition_options, progress_ctx)
SAB_FIRST_RELEASED(sab_balanced_options, row_multiple_count)
SAB_FIRST_RELEASED(sab_balanced_report, padded_totals)
SAB_FIRST_RELEASED(sab_step_plan_options, progress_ctx)
SAB_FIRST_RELEASED(sab_step_plan_view, micro_step_imbalance)
SAB_FIRST_RELEASED(sab_context_options, progress_ctx)
SAB_FIRST_RELEASED(sab_context_plan_view, gap)
#endif
#if SAB_WITH_MIXTURE
SAB_FIRST_RELEASED(sab_mixture_options, all_source_count)
SAB_FIRST_RELEASED(sab_mixture_source, epoch_samples)
SAB_FIRST_RELEASED(sab_mixture_report, deviation)
#endif
#if SAB_WITH_ENGINE
SAB_FIRST_RELEASED(sab_histogram_info, entry_sources)
SAB_FIRST_RELEASED(sab_places, batch_count)
#endif
#if SAB_WITH_STEPS
SAB_FIRST_RELEASED(sab_max_batch_options, progress_ctx)
SAB_FIRST_RELEASED(sab_max_batch, limit)
SAB_FIRST_RELEASED(sab_step_in_chunks_options, chunk_size)
SAB_FIRST_RELEASED(sab_memory_guard_options, reduce_ctx)
SAB_FIRST_RELEASED(sab_memory_guard_info, creep)
#endif
#if SAB_WITH_STREAM
SAB_FIRST_RELEASED(sab_object_functions, load)
SAB_FIRST_RELEASED(sab_list_stream_options, world_size)
SAB_FIRST_RELEASED(sab_source_functions, objects)
SAB_FIRST_RELEASED(sab_files_stream_options, readers)
SAB_FIRST_RELEASED(sab_map_stream_options, objects)
SAB_FIRST_RELEASED(sab_mix_stream_options, until)
SAB_FIRST_RELEASED(sab_readahead_stream_options, columns)
SAB_FIRST_RELEASED(sab_pack_stream_options, release)
#endif
#if SAB_WITH_GROUP
SAB_FIRST_RELEASED(sab_thresholds_options, progress_ctx)
SAB_FIRST_RELEASED(sab_thresholds_info, narrow)
SAB_FIRST_RELEASED(sab_grouping_view, intervals)
SAB_FIRST_RELEASED(sab_ragged, data)
SAB_FIRST_RELEASED(sab_pad_options, threads)
#endif
#if SAB_WITH_CACHE
SAB_FIRST_RELEASED(sab_cache_options, file_mode)
SAB_FIRST_RELEASED(sab_cache_stats, url)
#endif
#if SAB_WITH_TORCH
SAB_FIRST_RELEASED(sab_torch_info, cuda_devices)
SAB_FIRST_RELEASED(sab_torch_leaf, value_tensor)
SAB_FIRST_RELEASED(sab_torch_collection_info, leaves)
#endif
// NOLINTEND(bugprone-sizeof-expression)

#undef SAB_FIRST_RELEASED

}  // namespace sab
