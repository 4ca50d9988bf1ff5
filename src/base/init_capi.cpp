// Generated from the public headers by tools/abi.py: do not edit.
// clang-format off
#include "base/guard.h"

extern "C" {

void sab_sizes_options_init(sab_sizes_options *options, size_t struct_size) noexcept {
    static constexpr sab_sizes_options defaults = SAB_SIZES_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_sizes_arrow_options_init(sab_sizes_arrow_options *options, size_t struct_size) noexcept {
    static constexpr sab_sizes_arrow_options defaults = SAB_SIZES_ARROW_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_plan_options_init(sab_plan_options *options, size_t struct_size) noexcept {
    static constexpr sab_plan_options defaults = SAB_PLAN_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_sampler_options_init(sab_sampler_options *options, size_t struct_size) noexcept {
    static constexpr sab_sampler_options defaults = SAB_SAMPLER_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#if SAB_WITH_PACK

void sab_packed_options_init(sab_packed_options *options, size_t struct_size) noexcept {
    static constexpr sab_packed_options defaults = SAB_PACKED_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_MEMORY

void sab_probe_options_init(sab_probe_options *options, size_t struct_size) noexcept {
    static constexpr sab_probe_options defaults = SAB_PROBE_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_probe_callbacks_init(sab_probe_callbacks *callbacks, size_t struct_size) noexcept {
    static constexpr sab_probe_callbacks defaults = SAB_PROBE_CALLBACKS_INIT;
    sab::init_options(callbacks, struct_size, defaults);
}

void sab_collect_peak_options_init(sab_collect_peak_options *options, size_t struct_size) noexcept {
    static constexpr sab_collect_peak_options defaults = SAB_COLLECT_PEAK_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_measurement_options_init(sab_measurement_options *options, size_t struct_size) noexcept {
    static constexpr sab_measurement_options defaults = SAB_MEASUREMENT_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_memory_model_options_init(sab_memory_model_options *options, size_t struct_size) noexcept {
    static constexpr sab_memory_model_options defaults = SAB_MEMORY_MODEL_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_max_batch_options_init(sab_max_batch_options *options, size_t struct_size) noexcept {
    static constexpr sab_max_batch_options defaults = SAB_MAX_BATCH_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_memory_guard_options_init(sab_memory_guard_options *options, size_t struct_size) noexcept {
    static constexpr sab_memory_guard_options defaults = SAB_MEMORY_GUARD_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_COMPAT

void sab_bionemo_options_init(sab_bionemo_options *options, size_t struct_size) noexcept {
    static constexpr sab_bionemo_options defaults = SAB_BIONEMO_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_bagua_options_init(sab_bagua_options *options, size_t struct_size) noexcept {
    static constexpr sab_bagua_options defaults = SAB_BAGUA_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_FILES

void sab_sizes_file_options_init(sab_sizes_file_options *options, size_t struct_size) noexcept {
    static constexpr sab_sizes_file_options defaults = SAB_SIZES_FILE_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_BALANCE

void sab_partition_options_init(sab_partition_options *options, size_t struct_size) noexcept {
    static constexpr sab_partition_options defaults = SAB_PARTITION_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_balanced_options_init(sab_balanced_options *options, size_t struct_size) noexcept {
    static constexpr sab_balanced_options defaults = SAB_BALANCED_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_step_plan_options_init(sab_step_plan_options *options, size_t struct_size) noexcept {
    static constexpr sab_step_plan_options defaults = SAB_STEP_PLAN_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_context_options_init(sab_context_options *options, size_t struct_size) noexcept {
    static constexpr sab_context_options defaults = SAB_CONTEXT_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_MIXTURE

void sab_mixture_options_init(sab_mixture_options *options, size_t struct_size) noexcept {
    static constexpr sab_mixture_options defaults = SAB_MIXTURE_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_STEPS

void sab_step_in_chunks_options_init(sab_step_in_chunks_options *options, size_t struct_size) noexcept {
    static constexpr sab_step_in_chunks_options defaults = SAB_STEP_IN_CHUNKS_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_STREAM

void sab_object_functions_init(sab_object_functions *functions, size_t struct_size) noexcept {
    static constexpr sab_object_functions defaults = SAB_OBJECT_FUNCTIONS_INIT;
    sab::init_options(functions, struct_size, defaults);
}

void sab_list_stream_options_init(sab_list_stream_options *options, size_t struct_size) noexcept {
    static constexpr sab_list_stream_options defaults = SAB_LIST_STREAM_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_source_functions_init(sab_source_functions *functions, size_t struct_size) noexcept {
    static constexpr sab_source_functions defaults = SAB_SOURCE_FUNCTIONS_INIT;
    sab::init_options(functions, struct_size, defaults);
}

void sab_files_stream_options_init(sab_files_stream_options *options, size_t struct_size) noexcept {
    static constexpr sab_files_stream_options defaults = SAB_FILES_STREAM_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_map_stream_options_init(sab_map_stream_options *options, size_t struct_size) noexcept {
    static constexpr sab_map_stream_options defaults = SAB_MAP_STREAM_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_mix_stream_options_init(sab_mix_stream_options *options, size_t struct_size) noexcept {
    static constexpr sab_mix_stream_options defaults = SAB_MIX_STREAM_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_readahead_stream_options_init(sab_readahead_stream_options *options, size_t struct_size) noexcept {
    static constexpr sab_readahead_stream_options defaults = SAB_READAHEAD_STREAM_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_pack_stream_options_init(sab_pack_stream_options *options, size_t struct_size) noexcept {
    static constexpr sab_pack_stream_options defaults = SAB_PACK_STREAM_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_GROUP

void sab_thresholds_options_init(sab_thresholds_options *options, size_t struct_size) noexcept {
    static constexpr sab_thresholds_options defaults = SAB_THRESHOLDS_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}

void sab_pad_options_init(sab_pad_options *options, size_t struct_size) noexcept {
    static constexpr sab_pad_options defaults = SAB_PAD_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif
#if SAB_WITH_CACHE

void sab_cache_options_init(sab_cache_options *options, size_t struct_size) noexcept {
    static constexpr sab_cache_options defaults = SAB_CACHE_OPTIONS_INIT;
    sab::init_options(options, struct_size, defaults);
}
#endif

}  // extern "C"
