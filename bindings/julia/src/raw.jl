# Generated from the public headers by tools/abi.py: do not edit.

"""
The C functions, structs and constants of the headers, by their own names; see `include/sab.h`.

Structs that begin with `struct_size` are mutable and passed as they are. `T()` sets it, and all
other fields to zero, which is their default. The others lie in arrays.
"""
module Raw

using Libdl: dlsym

"A struct that is passed by its address."
abstract type Struct end
Base.cconvert(::Type{Ptr{T}}, value::T) where {T<:Struct} = value
Base.unsafe_convert(::Type{Ptr{T}}, value::T) where {T<:Struct} =
    Ptr{T}(pointer_from_objref(value))
function zeroed(value::T) where {T<:Struct}
    GC.@preserve value begin
        address = pointer_from_objref(value)
        ccall(:memset, Ptr{Cvoid}, (Ptr{Cvoid}, Cint, Csize_t), address, 0, sizeof(T))
    end
    value.struct_size = sizeof(T)
    return value
end

const SAB_OK = 0
const SAB_END = 1
const SAB_E_ARGUMENT = -1
const SAB_E_NO_MEMORY = -2
const SAB_E_CALLBACK = -3
const SAB_E_CANCELLED = -4
const SAB_E_IO = -5
const SAB_E_FORMAT = -6
const SAB_E_MISMATCH = -7
const SAB_E_UNSUPPORTED = -8
const SAB_E_INTERNAL = -9
const SAB_E_DEVICE_MEMORY = -10
const SAB_E_TIMEOUT = -11
const SAB_LOG_WARNING = 1
const SAB_LOG_INFO = 2
const sab_status = Int32
const sab_log_level = Int32

mutable struct sab_progress_options <: Struct
    struct_size::Csize_t
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_progress_options() = zeroed(new())
end

const SAB_MAX_COLUMNS = 8
const SAB_MAX_COLUMN_NAME = 63
const SAB_INT8 = 1
const SAB_INT16 = 2
const SAB_INT32 = 3
const SAB_INT64 = 4
const SAB_UINT8 = 5
const SAB_UINT16 = 6
const SAB_UINT32 = 7
const SAB_UINT64 = 8
const SAB_FLOAT32 = 9
const SAB_FLOAT64 = 10
const SAB_TEXT_BYTES = 0
const SAB_TEXT_WORDS = 1
const SAB_TEXT_CHARACTERS = 2
const SAB_TEXT_VALUE = 3
const SAB_TEXT_ALL_BYTES = 4
const SAB_NULLS_REFUSE = 0
const SAB_NULLS_ZERO = 1
struct sab_sizes end
const sab_dtype = Int32
const sab_text_unit = Int32
const sab_null_rule = Int32

mutable struct sab_sizes_options <: Struct
    struct_size::Csize_t
    stride::Int64
    copy::Int32
    sab_sizes_options() = zeroed(new())
end


mutable struct sab_sizes_info <: Struct
    struct_size::Csize_t
    count::Csize_t
    columns::Csize_t
    column_names::Ptr{Ptr{UInt8}}
    sources::Csize_t
    description::Ptr{UInt8}
    sab_sizes_info() = zeroed(new())
end

const SAB_MAX_COST_TERMS = 64
const SAB_MAX_BUDGETS = 8
struct sab_cost end

struct sab_cost_term
    coefficient::Float64
    count_power::UInt32
    column_count::UInt32
    length_powers::Ptr{UInt32}
    reserved::NTuple{2,UInt64}
end


struct sab_budget
    cost::Ptr{sab_cost}
    limit::Float64
    reserved::NTuple{2,UInt64}
end

const SAB_MAX_PLAN_THREADS = 256
const SAB_BUCKETS_AUTO = 0
const SAB_BUCKETS_BOUNDARIES = 1
const SAB_BUCKETS_OPTIMAL = 2
const SAB_TAIL_KEEP = 0
const SAB_TAIL_DROP = 1
const SAB_TAIL_WRAP = 2
const SAB_OVERSIZE_ERROR = 0
const SAB_OVERSIZE_SKIP = 1
const SAB_OVERSIZE_SINGLE = 2
const SAB_SHAPES_ANY = 0
const SAB_SHAPES_AUTO = 1
struct sab_plan end
const sab_bucket_rule = Int32
const sab_tail = Int32
const sab_oversize = Int32
const sab_shape_rule = Int32

mutable struct sab_plan_options <: Struct
    struct_size::Csize_t
    budgets::Ptr{sab_budget}
    budget_count::Csize_t
    batch_sizes::Ptr{UInt64}
    batch_size_count::Csize_t
    max_batch_size::UInt64
    min_batch_size::UInt64
    length_multiples::Ptr{Float64}
    length_multiple_count::Csize_t
    tail::sab_tail
    oversize::sab_oversize
    bucket_rule::sab_bucket_rule
    shapes::sab_shape_rule
    padding_target::Float64
    bucket_batches::UInt64
    boundaries::Ptr{Float64}
    boundary_count::Csize_t
    bucket_count::Csize_t
    batch_size_multiple::UInt64
    max_shapes::Ptr{UInt64}
    max_shape_count::Csize_t
    separate_by::Ptr{Int64}
    separate_by_count::Csize_t
    threads::UInt64
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_plan_options() = zeroed(new())
end


mutable struct sab_bucket <: Struct
    struct_size::Csize_t
    columns::Csize_t
    lower::Ptr{Float64}
    upper::Ptr{Float64}
    shortest::Ptr{Float64}
    longest::Ptr{Float64}
    padded_length::Ptr{Float64}
    total::Ptr{Float64}
    cost::Float64
    samples::UInt64
    batch_size::UInt64
    batches::UInt64
    id::Int64
    sab_bucket() = zeroed(new())
end


mutable struct sab_shape <: Struct
    struct_size::Csize_t
    count::UInt64
    columns::Csize_t
    padded_length::Ptr{Float64}
    sab_shape() = zeroed(new())
end


mutable struct sab_plan_info <: Struct
    struct_size::Csize_t
    samples::UInt64
    skipped::UInt64
    buckets::UInt64
    batches::UInt64
    lower_bound::UInt64
    fingerprint::UInt64
    total::Float64
    limits::Ptr{Float64}
    budget_count::Csize_t
    columns::Csize_t
    column_names::Ptr{Ptr{UInt8}}
    second_buckets::UInt64
    sab_plan_info() = zeroed(new())
end


mutable struct sab_plan_report <: Struct
    struct_size::Csize_t
    samples::UInt64
    skipped::UInt64
    dropped::UInt64
    repeated::UInt64
    batches::UInt64
    empty_batches::UInt64
    steps::UInt64
    least_step_samples::UInt64
    most_step_samples::UInt64
    step_samples_deviation::Float64
    lower_bound::UInt64
    shapes::UInt64
    total::Float64
    padded_total::Float64
    padding::Float64
    rank_imbalance::Float64
    meet_again::Float64
    partners::Float64
    length_correlation::Float64
    variance_ratio::Float64
    nearest_target::Float64
    target_met::Int32
    columns::Csize_t
    totals::Ptr{Float64}
    padded_totals::Ptr{Float64}
    sab_plan_report() = zeroed(new())
end

struct sab_probe end

mutable struct sab_verification_options <: Struct
    struct_size::Csize_t
    count::UInt64
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_verification_options() = zeroed(new())
end


mutable struct sab_verification <: Struct
    struct_size::Csize_t
    batches::UInt64
    peak::Int64
    total::Int64
    sab_verification() = zeroed(new())
end

const SAB_LAYOUT_PADDED = 0
const SAB_LAYOUT_ROW = 1
const SAB_LAST_STEP_SPLIT = 0
const SAB_LAST_STEP_DROP = 1
const SAB_LAST_STEP_WRAP = 2
const SAB_SAMPLER_BATCH_COUNT = 1
const SAB_SAMPLER_RANDOM_ACCESS = 2
const SAB_SAMPLER_BUDGET = 4
const SAB_SAMPLER_SCHEDULE = 8
struct sab_sampler end
const sab_layout = Int32

mutable struct sab_batch <: Struct
    struct_size::Csize_t
    indices::Ptr{Int64}
    count::Csize_t
    layout::sab_layout
    columns::Csize_t
    longest::Ptr{Float64}
    padded_length::Ptr{Float64}
    total::Ptr{Float64}
    bucket::Int64
    epoch::UInt64
    step::UInt64
    micro_batch::UInt64
    id::Int64
    sample_weight::Float64
    token_weight::Ptr{Float64}
    sab_batch() = zeroed(new())
end


mutable struct sab_rows <: Struct
    struct_size::Csize_t
    columns::Csize_t
    cu_seqlens::Ptr{Ptr{Int32}}
    starts::Ptr{Int64}
    capacity::Ptr{Float64}
    cu_seqlens_unpadded::Ptr{Ptr{Int32}}
    sab_rows() = zeroed(new())
end


mutable struct sab_block <: Struct
    struct_size::Csize_t
    count::Csize_t
    indices::Ptr{Int64}
    offsets::Ptr{UInt64}
    layout::sab_layout
    columns::Csize_t
    longest::Ptr{Float64}
    padded_length::Ptr{Float64}
    total::Ptr{Float64}
    bucket::Ptr{Int64}
    epoch::UInt64
    step::Ptr{UInt64}
    micro_batch::Ptr{UInt64}
    id::Ptr{Int64}
    cu_seqlens::Ptr{Ptr{Int32}}
    starts::Ptr{Int64}
    sample_weight::Ptr{Float64}
    token_weight::Ptr{Float64}
    cu_seqlens_unpadded::Ptr{Ptr{Int32}}
    sab_block() = zeroed(new())
end


mutable struct sab_step <: Struct
    struct_size::Csize_t
    micro_batches::UInt64
    samples::UInt64
    columns::Csize_t
    totals::Ptr{Float64}
    sab_step() = zeroed(new())
end

const sab_last_step = Int32

mutable struct sab_sampler_options <: Struct
    struct_size::Csize_t
    seed::UInt64
    epoch::UInt64
    rank::UInt64
    world_size::UInt64
    micro_batches::UInt64
    last_step::sab_last_step
    costliest_first::UInt64
    mix_lengths::Int32
    balance::Ptr{Ptr{sab_cost}}
    balance_count::Csize_t
    steps_per_epoch::UInt64
    sab_sampler_options() = zeroed(new())
end

struct ArrowSchema end
struct ArrowArray end
struct ArrowArrayStream end

mutable struct sab_sizes_arrow_options <: Struct
    struct_size::Csize_t
    nulls::sab_null_rule
    text_unit::sab_text_unit
    sab_sizes_arrow_options() = zeroed(new())
end

const SAB_PACK_SHUFFLED = 0
const SAB_PACK_BEST_FIT = 1
const SAB_PACK_HISTOGRAM = 2
const SAB_PACK_CONCAT = 3
const sab_pack_method = Int32

mutable struct sab_packed_options <: Struct
    struct_size::Csize_t
    method::sab_pack_method
    capacities::Ptr{UInt64}
    capacity_count::Csize_t
    max_sequences::UInt64
    split::Int32
    oversize::sab_oversize
    window::UInt64
    balance::Ptr{Ptr{sab_cost}}
    balance_count::Csize_t
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    tries::UInt64
    length_multiples::Ptr{Float64}
    length_multiple_count::Csize_t
    row_multiples::Ptr{Float64}
    row_multiple_count::Csize_t
    sab_packed_options() = zeroed(new())
end


mutable struct sab_packed_info <: Struct
    struct_size::Csize_t
    samples::UInt64
    skipped::UInt64
    split::UInt64
    sequences::UInt64
    bins::UInt64
    lower_bound::UInt64
    most_sequences::UInt64
    fingerprint::UInt64
    total::Float64
    fill::Float64
    sab_packed_info() = zeroed(new())
end

const SAB_OUT_OF_MEMORY = 2
const SAB_MODEL_BATCH = 0
const SAB_MODEL_POLYNOMIAL = 1

mutable struct sab_probe_options <: Struct
    struct_size::Csize_t
    total_bytes::Int64
    sab_probe_options() = zeroed(new())
end


mutable struct sab_probe_stats <: Struct
    struct_size::Csize_t
    current::Int64
    peak::Int64
    reserved_peak::Int64
    largest_free::Int64
    total::Int64
    sab_probe_stats() = zeroed(new())
end


mutable struct sab_probe_callbacks <: Struct
    struct_size::Csize_t
    ctx::Ptr{Cvoid}
    reset::Ptr{Cvoid}
    current::Ptr{Cvoid}
    peak::Ptr{Cvoid}
    reserved::Ptr{Cvoid}
    total::Ptr{Cvoid}
    release_cache::Ptr{Cvoid}
    is_out_of_memory::Ptr{Cvoid}
    rng_save::Ptr{Cvoid}
    rng_restore::Ptr{Cvoid}
    release::Ptr{Cvoid}
    sab_probe_callbacks() = zeroed(new())
end

struct sab_peaks end

mutable struct sab_collect_peak_options <: Struct
    struct_size::Csize_t
    item_count::UInt64
    work::Ptr{Cvoid}
    cleanup::Ptr{Cvoid}
    collect_garbage::Ptr{Cvoid}
    ctx::Ptr{Cvoid}
    warm_up::UInt64
    keep_cache::Int32
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_collect_peak_options() = zeroed(new())
end


mutable struct sab_peaks_view <: Struct
    struct_size::Csize_t
    count::Csize_t
    feature_count::Csize_t
    items::Ptr{UInt64}
    features::Ptr{Float64}
    before::Ptr{Int64}
    peaks::Ptr{Int64}
    reserved_peaks::Ptr{Int64}
    largest_free::Ptr{Int64}
    out_of_memory_count::Csize_t
    out_of_memory::Ptr{UInt64}
    sab_peaks_view() = zeroed(new())
end

struct sab_memory_model end

mutable struct sab_measurement_options <: Struct
    struct_size::Csize_t
    shortest::Ptr{Float64}
    longest::Ptr{Float64}
    column_count::Csize_t
    max_count::UInt64
    budget::Ptr{sab_budget}
    degree::UInt32
    sab_measurement_options() = zeroed(new())
end

const sab_memory_model_kind = Int32

mutable struct sab_memory_model_options <: Struct
    struct_size::Csize_t
    kind::sab_memory_model_kind
    degree::UInt32
    coverage::Float64
    keep_terms::Int32
    column_names::Ptr{Ptr{UInt8}}
    sab_memory_model_options() = zeroed(new())
end


mutable struct sab_memory_model_info <: Struct
    struct_size::Csize_t
    kind::sab_memory_model_kind
    degree::UInt32
    feature_count::Csize_t
    column_names::Ptr{Ptr{UInt8}}
    term_count::Csize_t
    coefficients::Ptr{Float64}
    powers::Ptr{UInt32}
    measurements::UInt64
    constant::Float64
    margin::Float64
    coverage::Float64
    residual::Float64
    held_out_residual::Float64
    largest_residual::Float64
    sab_memory_model_info() = zeroed(new())
end

const SAB_BIONEMO_SHUFFLE_ALL = 0
const SAB_BIONEMO_SHUFFLE_NONE = 1
const SAB_BIONEMO_SHUFFLE_BUCKETS = 2
const SAB_BIONEMO_GENERATOR_WORDS = 625
const sab_bionemo_shuffle = Int32

mutable struct sab_bionemo_options <: Struct
    struct_size::Csize_t
    seed::UInt64
    shuffle::sab_bionemo_shuffle
    limit::Float64
    sizes::Ptr{sab_sizes}
    size::Ptr{Cvoid}
    size_ctx::Ptr{Cvoid}
    release::Ptr{Cvoid}
    sab_bionemo_options() = zeroed(new())
end

struct sab_batches end

mutable struct sab_bagua_options <: Struct
    struct_size::Csize_t
    no_shuffle::Int32
    drop_last::Int32
    random_level::Float64
    batch_size::UInt64
    limit::Float64
    make_batches::Ptr{Cvoid}
    make_batches_ctx::Ptr{Cvoid}
    release::Ptr{Cvoid}
    sab_bagua_options() = zeroed(new())
end

const SAB_MISSING_REFUSE = 0
const SAB_MISSING_SKIP = 1
const sab_missing_rule = Int32

mutable struct sab_sizes_file_options <: Struct
    struct_size::Csize_t
    format::Ptr{UInt8}
    column::Ptr{UInt8}
    text_unit::sab_text_unit
    missing::sab_missing_rule
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    copy::Int32
    nulls::sab_null_rule
    sab_sizes_file_options() = zeroed(new())
end

const SAB_MICRO_BATCHES_DESCENDING = 0
const SAB_MICRO_BATCHES_ASCENDING = 1
const SAB_MICRO_BATCHES_BELL = 2
const SAB_LOSS_BY_SAMPLE = 0
const SAB_LOSS_BY_TOKEN = 1
const SAB_LOSS_BY_GROUP = 2
const SAB_CONTEXT_POWERS_OF_TWO = 0
const SAB_CONTEXT_ANY_NUMBER = 1

mutable struct sab_partition_options <: Struct
    struct_size::Csize_t
    equal_counts::Int32
    cost_count::Csize_t
    weights::Ptr{Float64}
    capacities::Ptr{Float64}
    capacity_count::Csize_t
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_partition_options() = zeroed(new())
end


mutable struct sab_balanced_options <: Struct
    struct_size::Csize_t
    samples::UInt64
    budgets::Ptr{sab_budget}
    budget_count::Csize_t
    fill::Float64
    padded::Int32
    balance::Ptr{Ptr{sab_cost}}
    balance_count::Csize_t
    oversize::sab_oversize
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    length_multiples::Ptr{Float64}
    length_multiple_count::Csize_t
    row_multiples::Ptr{Float64}
    row_multiple_count::Csize_t
    sab_balanced_options() = zeroed(new())
end


mutable struct sab_balanced_report <: Struct
    struct_size::Csize_t
    samples::UInt64
    skipped::UInt64
    dropped::UInt64
    steps::UInt64
    least_step_samples::UInt64
    most_step_samples::UInt64
    step_samples_deviation::Float64
    columns::Csize_t
    totals::Ptr{Float64}
    fill::Float64
    balance_count::Csize_t
    rank_imbalance::Ptr{Float64}
    largest_rank_imbalance::Ptr{Float64}
    micro_batch_imbalance::Ptr{Float64}
    time::Ptr{Float64}
    least_time::Ptr{Float64}
    meet_again::Float64
    random_meet_again::Float64
    length_deviation::Float64
    random_length_deviation::Float64
    padded_totals::Ptr{Float64}
    sab_balanced_report() = zeroed(new())
end

const sab_micro_batch_order = Int32

mutable struct sab_step_plan_options <: Struct
    struct_size::Csize_t
    world_size::UInt64
    budgets::Ptr{sab_budget}
    budget_count::Csize_t
    micro_batches::UInt64
    multiple::UInt64
    padded::Int32
    balance::Ptr{Ptr{sab_cost}}
    balance_count::Csize_t
    groups::Ptr{Int64}
    prefix::Ptr{Int64}
    parents::Ptr{Int64}
    whole_groups::Int32
    order::sab_micro_batch_order
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_step_plan_options() = zeroed(new())
end

struct sab_step_plan end

struct sab_step_segment
    node::Int64
    sample::Int64
    parent::Int64
    position::Int64
    offset::Int64
    length::Int64
end


mutable struct sab_step_plan_view <: Struct
    struct_size::Csize_t
    world_size::UInt64
    micro_batches::UInt64
    least_micro_batches::UInt64
    samples::Csize_t
    nodes::Csize_t
    columns::Csize_t
    indices::Ptr{Int64}
    offsets::Ptr{UInt64}
    inverse::Ptr{Int64}
    cu_seqlens::Ptr{Ptr{Int32}}
    segments::Ptr{sab_step_segment}
    segment_offsets::Ptr{UInt64}
    balance_count::Csize_t
    costs::Ptr{Float64}
    rank_imbalance::Ptr{Float64}
    least_rank_imbalance::Ptr{Float64}
    micro_step_imbalance::Ptr{Float64}
    sab_step_plan_view() = zeroed(new())
end

const sab_loss_weighting = Int32
const sab_context_groups = Int32

mutable struct sab_context_options <: Struct
    struct_size::Csize_t
    cost::Ptr{sab_cost}
    overhead::Float64
    groups::sab_context_groups
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_context_options() = zeroed(new())
end


struct sab_context_part
    sample::UInt64
    part::UInt32
    of::UInt32
    head_begin::UInt64
    head_end::UInt64
    tail_begin::UInt64
    tail_end::UInt64
    start::Float64
    end_::Float64
end

struct sab_context_plan end

mutable struct sab_context_plan_view <: Struct
    struct_size::Csize_t
    world_size::UInt64
    samples::UInt64
    offsets::Ptr{UInt64}
    parts::Ptr{sab_context_part}
    makespan::Float64
    lower_bound::Float64
    gap::Float64
    sab_context_plan_view() = zeroed(new())
end

const SAB_MAX_SOURCES = 65535
const SAB_MIXTURE_SAMPLES = 0
const SAB_MIXTURE_SIZE = 1
const sab_mixture_unit = Int32

mutable struct sab_mixture_options <: Struct
    struct_size::Csize_t
    ids::Ptr{Int64}
    id_count::Csize_t
    repeats::Ptr{Float64}
    repeat_count::Csize_t
    proportions::Ptr{Float64}
    proportion_count::Csize_t
    temperature::Float64
    unit::sab_mixture_unit
    names::Ptr{Ptr{UInt8}}
    name_count::Csize_t
    schedule_epochs::Ptr{UInt64}
    schedule_repeats::Ptr{Float64}
    schedule_count::Csize_t
    seed::UInt64
    all_sources::Ptr{Int64}
    all_source_count::Csize_t
    sab_mixture_options() = zeroed(new())
end


mutable struct sab_mixture_source <: Struct
    struct_size::Csize_t
    name::Ptr{UInt8}
    id::Int64
    samples::UInt64
    repeat::Float64
    epoch_samples::UInt64
    sab_mixture_source() = zeroed(new())
end


mutable struct sab_mixture_report <: Struct
    struct_size::Csize_t
    samples::UInt64
    distinct::UInt64
    most::UInt64
    together::UInt64
    total::Float64
    padded_total::Float64
    padding::Float64
    proportion::Float64
    deviation::Float64
    sab_mixture_report() = zeroed(new())
end

struct sab_histogram end

mutable struct sab_histogram_info <: Struct
    struct_size::Csize_t
    samples::UInt64
    entries::UInt64
    total::Float64
    columns::Csize_t
    column_names::Ptr{Ptr{UInt8}}
    sources::Csize_t
    fingerprint::UInt64
    entry_sizes::Ptr{Float64}
    entry_counts::Ptr{UInt64}
    entry_sources::Ptr{UInt32}
    sab_histogram_info() = zeroed(new())
end


mutable struct sab_places <: Struct
    struct_size::Csize_t
    counts::Ptr{Int64}
    ranks::Ptr{Int64}
    batches::Ptr{Int64}
    steps::Ptr{Int64}
    slots::Ptr{Int64}
    batch_count::Ptr{UInt64}
    sab_places() = zeroed(new())
end

struct sab_packing end
const SAB_SEARCH_PREDICT = 0
const SAB_SEARCH_DIFFERENCE = 1
const SAB_SEARCH_BINARY = 2
const SAB_SEARCH_HALVE = 3
const SAB_ROUND_NONE = 0
const SAB_ROUND_POWER_OF_TWO = 1
const SAB_ROUND_MULTIPLE = 2
const sab_search = Int32
const sab_rounding = Int32

mutable struct sab_max_batch_options <: Struct
    struct_size::Csize_t
    search::sab_search
    lengths::Ptr{Float64}
    length_count::Csize_t
    max_batch_size::UInt64
    limit::Int64
    rounding::sab_rounding
    multiple::UInt64
    reduce::Ptr{Cvoid}
    reduce_ctx::Ptr{Cvoid}
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_max_batch_options() = zeroed(new())
end


mutable struct sab_max_batch <: Struct
    struct_size::Csize_t
    batch_size::UInt64
    trials::UInt64
    out_of_memory::UInt64
    peak::Float64
    limit::Int64
    sab_max_batch() = zeroed(new())
end


mutable struct sab_step_in_chunks_options <: Struct
    struct_size::Csize_t
    chunk::Ptr{Cvoid}
    begin_::Ptr{Cvoid}
    ctx::Ptr{Cvoid}
    sample_weights::Ptr{Float64}
    chunk_size::UInt64
    sab_step_in_chunks_options() = zeroed(new())
end

struct sab_memory_guard end

mutable struct sab_memory_guard_options <: Struct
    struct_size::Csize_t
    limit::Int64
    interval::UInt64
    window::UInt64
    reduce::Ptr{Cvoid}
    reduce_ctx::Ptr{Cvoid}
    sab_memory_guard_options() = zeroed(new())
end


mutable struct sab_memory_guard_info <: Struct
    struct_size::Csize_t
    steps::UInt64
    out_of_memory::UInt64
    lowered::UInt64
    limit::Float64
    peak::Int64
    mean_peak::Float64
    creep::Float64
    sab_memory_guard_info() = zeroed(new())
end

const SAB_RECORD_BYTES = 0
const SAB_RECORD_LIST = 1
const SAB_RECORD_OBJECT = 2
const SAB_FRAMING_LINES = 0
const SAB_FRAMING_LENGTH = 1
const SAB_ON_ERROR_STOP = 0
const SAB_ON_ERROR_SKIP = 1
const SAB_MIX_UNTIL_FIRST = 0
const SAB_MIX_UNTIL_ALL = 1
const SAB_SHUFFLE_BLOCKS = 0
const SAB_SHUFFLE_BUFFER = 1
struct sab_stream end
const sab_record_kind = Int32

struct sab_record
    kind::sab_record_kind
    size::Float64
    data::Ptr{Cvoid}
    length::Csize_t
end


mutable struct sab_object_functions <: Struct
    struct_size::Csize_t
    ctx::Ptr{Cvoid}
    release::Ptr{Cvoid}
    save::Ptr{Cvoid}
    load::Ptr{Cvoid}
    sab_object_functions() = zeroed(new())
end


mutable struct sab_list_stream_options <: Struct
    struct_size::Csize_t
    infinite::Int32
    shuffle::Int32
    seed::UInt64
    rank::UInt64
    world_size::UInt64
    sab_list_stream_options() = zeroed(new())
end


mutable struct sab_source_functions <: Struct
    struct_size::Csize_t
    ctx::Ptr{Cvoid}
    next::Ptr{Cvoid}
    rewind::Ptr{Cvoid}
    state_save::Ptr{Cvoid}
    state_restore::Ptr{Cvoid}
    release::Ptr{Cvoid}
    objects::Ptr{sab_object_functions}
    sab_source_functions() = zeroed(new())
end

const sab_framing = Int32
const sab_on_error = Int32

mutable struct sab_files_stream_options <: Struct
    struct_size::Csize_t
    framing::sab_framing
    max_record::UInt64
    on_error::sab_on_error
    readers::UInt64
    sab_files_stream_options() = zeroed(new())
end


mutable struct sab_map_stream_options <: Struct
    struct_size::Csize_t
    map::Ptr{Cvoid}
    ctx::Ptr{Cvoid}
    release::Ptr{Cvoid}
    threads::UInt64
    objects::Ptr{sab_object_functions}
    sab_map_stream_options() = zeroed(new())
end

struct sab_random end
const sab_mix_until = Int32

mutable struct sab_mix_stream_options <: Struct
    struct_size::Csize_t
    proportions::Ptr{Float64}
    proportion_count::Csize_t
    window::UInt64
    until::sab_mix_until
    sab_mix_stream_options() = zeroed(new())
end

const sab_stream_shuffle = Int32

mutable struct sab_readahead_stream_options <: Struct
    struct_size::Csize_t
    read_ahead::UInt64
    batch_size::UInt64
    budgets::Ptr{sab_budget}
    budget_count::Csize_t
    no_shuffle::Int32
    carry_over::Int32
    seed::UInt64
    batch_size_fn::Ptr{Cvoid}
    boundary_key_fn::Ptr{Cvoid}
    ctx::Ptr{Cvoid}
    release::Ptr{Cvoid}
    oversize::sab_oversize
    sizes_fn::Ptr{Cvoid}
    columns::Csize_t
    sab_readahead_stream_options() = zeroed(new())
end


mutable struct sab_pack_stream_options <: Struct
    struct_size::Csize_t
    capacities::Ptr{Float64}
    capacity_count::Csize_t
    max_records::UInt64
    read_ahead::UInt64
    no_shuffle::Int32
    seed::UInt64
    oversize::sab_oversize
    sizes_fn::Ptr{Cvoid}
    ctx::Ptr{Cvoid}
    release::Ptr{Cvoid}
    sab_pack_stream_options() = zeroed(new())
end

const SAB_THRESHOLDS_LEAST_TOTAL = 0
const SAB_THRESHOLDS_LEAST_LARGEST = 1
const SAB_THRESHOLDS_RANDOMISED = 2
const SAB_PADDING_CONSTANT = 0
const SAB_PADDING_REPEAT = 1
const SAB_MASK_ALL = 0
const SAB_MASK_ANY = 1
const sab_thresholds_method = Int32

mutable struct sab_thresholds_options <: Struct
    struct_size::Csize_t
    method::sab_thresholds_method
    cost::Ptr{sab_cost}
    cost_per_sample::Int32
    num_trials::UInt32
    patience::UInt64
    seed::UInt64
    starts::Ptr{UInt64}
    progress::Ptr{Cvoid}
    progress_ctx::Ptr{Cvoid}
    sab_thresholds_options() = zeroed(new())
end


mutable struct sab_thresholds_info <: Struct
    struct_size::Csize_t
    total::Float64
    largest::Float64
    largest_difference::Float64
    even::UInt64
    repeated::UInt64
    not_tolerated::UInt64
    extreme::UInt64
    narrow::UInt64
    sab_thresholds_info() = zeroed(new())
end

struct sab_grouping end

struct sab_grouping_dimension
    lengths::Ptr{sab_sizes}
    thresholds::Ptr{Float64}
    threshold_count::Csize_t
end


mutable struct sab_grouping_view <: Struct
    struct_size::Csize_t
    samples::Csize_t
    groups::Csize_t
    dimensions::Csize_t
    offsets::Ptr{Int64}
    permutation::Ptr{Int64}
    inverse::Ptr{Int64}
    group_of::Ptr{Int64}
    intervals::Ptr{Int64}
    sab_grouping_view() = zeroed(new())
end


mutable struct sab_ragged <: Struct
    struct_size::Csize_t
    samples::Csize_t
    dimensions::Csize_t
    element_size::Csize_t
    shapes::Ptr{Int64}
    strides::Ptr{Int64}
    values::Ptr{Cvoid}
    offsets::Ptr{Int64}
    data::Ptr{Ptr{Cvoid}}
    sab_ragged() = zeroed(new())
end

const sab_pad_rule = Int32

mutable struct sab_pad_options <: Struct
    struct_size::Csize_t
    batch_dim::UInt64
    padding::sab_pad_rule
    value::Ptr{Cvoid}
    value_dims::UInt64
    threads::UInt64
    sab_pad_options() = zeroed(new())
end

const sab_mask_rule = Int32
const SAB_CACHE_DEGRADE = 0
const SAB_CACHE_ERROR = 1
struct sab_cache end
struct sab_cache_value end
const sab_cache_failure = Int32

mutable struct sab_cache_options <: Struct
    struct_size::Csize_t
    dataset_name::Ptr{UInt8}
    writer_buffer_size::UInt64
    flush_interval::Float64
    capacity::UInt64
    on_failure::sab_cache_failure
    timeout::Float64
    load_wait::Float64
    call_timeout::Float64
    file_mode::UInt64
    sab_cache_options() = zeroed(new())
end


struct sab_cache_item
    key::Ptr{Cvoid}
    key_size::Csize_t
    data::Ptr{Cvoid}
    size::Csize_t
end


mutable struct sab_cache_stats <: Struct
    struct_size::Csize_t
    hits::UInt64
    misses::UInt64
    loads::UInt64
    waits::UInt64
    evictions::UInt64
    damaged::UInt64
    failures::UInt64
    dropped::UInt64
    bytes_read::UInt64
    bytes_written::UInt64
    buffered::UInt64
    url::Ptr{UInt8}
    sab_cache_stats() = zeroed(new())
end

struct DLManagedTensor end

mutable struct sab_torch_info <: Struct
    struct_size::Csize_t
    torch_version::Ptr{UInt8}
    component_path::Ptr{UInt8}
    cuda_devices::Int32
    sab_torch_info() = zeroed(new())
end

struct sab_torch_store end
struct sab_torch_collection end
struct sab_torch_tensor end

mutable struct sab_torch_leaf <: Struct
    struct_size::Csize_t
    path::Ptr{UInt8}
    signature::Ptr{UInt8}
    tensors::Ptr{Ptr{sab_torch_tensor}}
    padding::sab_pad_rule
    value::Float64
    value_tensor::Ptr{sab_torch_tensor}
    sab_torch_leaf() = zeroed(new())
end


mutable struct sab_torch_collection_info <: Struct
    struct_size::Csize_t
    samples::UInt64
    groups::UInt64
    leaves::UInt64
    sab_torch_collection_info() = zeroed(new())
end

const _sab_status_name = Ref(C_NULL)
sab_status_name(status) = ccall(_sab_status_name[], Cstring, (sab_status,), status)
const _sab_last_error_message = Ref(C_NULL)
sab_last_error_message() = ccall(_sab_last_error_message[], Cstring, ())
const _sab_last_error_argument = Ref(C_NULL)
sab_last_error_argument() = ccall(_sab_last_error_argument[], Cstring, ())
const _sab_last_error_value = Ref(C_NULL)
sab_last_error_value() = ccall(_sab_last_error_value[], Cstring, ())
const _sab_last_error_rule = Ref(C_NULL)
sab_last_error_rule() = ccall(_sab_last_error_rule[], Cstring, ())
const _sab_last_error_code = Ref(C_NULL)
sab_last_error_code() = ccall(_sab_last_error_code[], Int32, ())
const _sab_abi_version = Ref(C_NULL)
sab_abi_version() = ccall(_sab_abi_version[], UInt32, ())
const _sab_version_string = Ref(C_NULL)
sab_version_string() = ccall(_sab_version_string[], Cstring, ())
const _sab_log_set_callback = Ref(C_NULL)
sab_log_set_callback(callback, ctx) = ccall(_sab_log_set_callback[], Cvoid, (Ptr{Cvoid}, Ptr{Cvoid}), callback, ctx)
const _sab_sizes_new = Ref(C_NULL)
sab_sizes_new(data, count, dtype, options, sizes) = ccall(_sab_sizes_new[], sab_status, (Ptr{Cvoid}, Csize_t, sab_dtype, Ptr{sab_sizes_options}, Ptr{Ptr{sab_sizes}}), data, count, dtype, options, sizes)
const _sab_sizes_callback_new = Ref(C_NULL)
sab_sizes_callback_new(count, size, ctx, options, sizes) = ccall(_sab_sizes_callback_new[], sab_status, (Csize_t, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{sab_progress_options}, Ptr{Ptr{sab_sizes}}), count, size, ctx, options, sizes)
const _sab_sizes_join_new = Ref(C_NULL)
sab_sizes_join_new(parts, count, sizes) = ccall(_sab_sizes_join_new[], sab_status, (Ptr{Ptr{sab_sizes}}, Csize_t, Ptr{Ptr{sab_sizes}}), parts, count, sizes)
const _sab_sizes_locate = Ref(C_NULL)
sab_sizes_locate(sizes, index, part, row) = ccall(_sab_sizes_locate[], sab_status, (Ptr{sab_sizes}, Csize_t, Ptr{Csize_t}, Ptr{Csize_t}), sizes, index, part, row)
const _sab_sizes_columns_new = Ref(C_NULL)
sab_sizes_columns_new(columns, names, count, sizes) = ccall(_sab_sizes_columns_new[], sab_status, (Ptr{Ptr{sab_sizes}}, Ptr{Ptr{UInt8}}, Csize_t, Ptr{Ptr{sab_sizes}}), columns, names, count, sizes)
const _sab_sizes_get_info = Ref(C_NULL)
sab_sizes_get_info(sizes, info) = ccall(_sab_sizes_get_info[], sab_status, (Ptr{sab_sizes}, Ptr{sab_sizes_info}), sizes, info)
const _sab_sizes_count = Ref(C_NULL)
sab_sizes_count(sizes) = ccall(_sab_sizes_count[], Csize_t, (Ptr{sab_sizes},), sizes)
const _sab_sizes_get = Ref(C_NULL)
sab_sizes_get(sizes, first, count, values) = ccall(_sab_sizes_get[], sab_status, (Ptr{sab_sizes}, Csize_t, Csize_t, Ptr{Float64}), sizes, first, count, values)
const _sab_sizes_free = Ref(C_NULL)
sab_sizes_free(sizes) = ccall(_sab_sizes_free[], Cvoid, (Ptr{sab_sizes},), sizes)
const _sab_cost_padded_new = Ref(C_NULL)
sab_cost_padded_new(weights, columns, cost) = ccall(_sab_cost_padded_new[], sab_status, (Ptr{Float64}, Csize_t, Ptr{Ptr{sab_cost}}), weights, columns, cost)
const _sab_cost_terms_new = Ref(C_NULL)
sab_cost_terms_new(terms, count, cost) = ccall(_sab_cost_terms_new[], sab_status, (Ptr{sab_cost_term}, Csize_t, Ptr{Ptr{sab_cost}}), terms, count, cost)
const _sab_cost_transformer_new = Ref(C_NULL)
sab_cost_transformer_new(hidden, layers, cost) = ccall(_sab_cost_transformer_new[], sab_status, (UInt64, UInt64, Ptr{Ptr{sab_cost}}), hidden, layers, cost)
const _sab_cost_callback_new = Ref(C_NULL)
sab_cost_callback_new(fn, ctx, release, cost) = ccall(_sab_cost_callback_new[], sab_status, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Ptr{sab_cost}}), fn, ctx, release, cost)
const _sab_cost_evaluate = Ref(C_NULL)
sab_cost_evaluate(cost, count, lengths, totals, columns, value) = ccall(_sab_cost_evaluate[], sab_status, (Ptr{sab_cost}, UInt64, Ptr{Float64}, Ptr{Float64}, Csize_t, Ptr{Float64}), cost, count, lengths, totals, columns, value)
const _sab_cost_free = Ref(C_NULL)
sab_cost_free(cost) = ccall(_sab_cost_free[], Cvoid, (Ptr{sab_cost},), cost)
const _sab_plan_new = Ref(C_NULL)
sab_plan_new(sizes, options, plan) = ccall(_sab_plan_new[], sab_status, (Ptr{sab_sizes}, Ptr{sab_plan_options}, Ptr{Ptr{sab_plan}}), sizes, options, plan)
const _sab_plan_get_info = Ref(C_NULL)
sab_plan_get_info(plan, info) = ccall(_sab_plan_get_info[], sab_status, (Ptr{sab_plan}, Ptr{sab_plan_info}), plan, info)
const _sab_plan_get_bucket = Ref(C_NULL)
sab_plan_get_bucket(plan, index, bucket) = ccall(_sab_plan_get_bucket[], sab_status, (Ptr{sab_plan}, Csize_t, Ptr{sab_bucket}), plan, index, bucket)
const _sab_plan_get_shape = Ref(C_NULL)
sab_plan_get_shape(plan, index, shape) = ccall(_sab_plan_get_shape[], sab_status, (Ptr{sab_plan}, Csize_t, Ptr{sab_shape}), plan, index, shape)
const _sab_plan_get_shape_padding = Ref(C_NULL)
sab_plan_get_shape_padding(plan, index, shapes, padding) = ccall(_sab_plan_get_shape_padding[], sab_status, (Ptr{sab_plan}, Csize_t, Ptr{UInt64}, Ptr{Float64}), plan, index, shapes, padding)
const _sab_plan_get_skipped = Ref(C_NULL)
sab_plan_get_skipped(plan, indices, capacity, count) = ccall(_sab_plan_get_skipped[], sab_status, (Ptr{sab_plan}, Ptr{Int64}, Csize_t, Ptr{Csize_t}), plan, indices, capacity, count)
const _sab_plan_save = Ref(C_NULL)
sab_plan_save(plan, path) = ccall(_sab_plan_save[], sab_status, (Ptr{sab_plan}, Cstring), plan, path)
const _sab_plan_file_new = Ref(C_NULL)
sab_plan_file_new(path, plan) = ccall(_sab_plan_file_new[], sab_status, (Cstring, Ptr{Ptr{sab_plan}}), path, plan)
const _sab_plan_check = Ref(C_NULL)
sab_plan_check(plan) = ccall(_sab_plan_check[], sab_status, (Ptr{sab_plan},), plan)
const _sab_plan_copy_new = Ref(C_NULL)
sab_plan_copy_new(plan, copy) = ccall(_sab_plan_copy_new[], sab_status, (Ptr{sab_plan}, Ptr{Ptr{sab_plan}}), plan, copy)
const _sab_plan_write = Ref(C_NULL)
sab_plan_write(plan, buffer, capacity, size) = ccall(_sab_plan_write[], sab_status, (Ptr{sab_plan}, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}), plan, buffer, capacity, size)
const _sab_plan_bytes_new = Ref(C_NULL)
sab_plan_bytes_new(data, size, plan) = ccall(_sab_plan_bytes_new[], sab_status, (Ptr{Cvoid}, Csize_t, Ptr{Ptr{sab_plan}}), data, size, plan)
const _sab_plan_free = Ref(C_NULL)
sab_plan_free(plan) = ccall(_sab_plan_free[], Cvoid, (Ptr{sab_plan},), plan)
const _sab_plan_get_report = Ref(C_NULL)
sab_plan_get_report(plan, sampler, options, report) = ccall(_sab_plan_get_report[], sab_status, (Ptr{sab_plan}, Ptr{sab_sampler_options}, Ptr{sab_progress_options}, Ptr{sab_plan_report}), plan, sampler, options, report)
const _sab_plan_verify = Ref(C_NULL)
sab_plan_verify(plan, probe, run, ctx, options, result) = ccall(_sab_plan_verify[], sab_status, (Ptr{sab_plan}, Ptr{sab_probe}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{sab_verification_options}, Ptr{sab_verification}), plan, probe, run, ctx, options, result)
const _sab_bucket_sampler_new = Ref(C_NULL)
sab_bucket_sampler_new(plan, options, sampler) = ccall(_sab_bucket_sampler_new[], sab_status, (Ptr{sab_plan}, Ptr{sab_sampler_options}, Ptr{Ptr{sab_sampler}}), plan, options, sampler)
const _sab_sequential_sampler_new = Ref(C_NULL)
sab_sequential_sampler_new(plan, options, sampler) = ccall(_sab_sequential_sampler_new[], sab_status, (Ptr{sab_plan}, Ptr{sab_sampler_options}, Ptr{Ptr{sab_sampler}}), plan, options, sampler)
const _sab_costliest_sampler_new = Ref(C_NULL)
sab_costliest_sampler_new(plan, count, sampler) = ccall(_sab_costliest_sampler_new[], sab_status, (Ptr{sab_plan}, UInt64, Ptr{Ptr{sab_sampler}}), plan, count, sampler)
const _sab_ordered_sampler_new = Ref(C_NULL)
sab_ordered_sampler_new(indices, count, sizes, limit, options, sampler) = ccall(_sab_ordered_sampler_new[], sab_status, (Ptr{Int64}, Csize_t, Ptr{sab_sizes}, Float64, Ptr{sab_sampler_options}, Ptr{Ptr{sab_sampler}}), indices, count, sizes, limit, options, sampler)
const _sab_sampler_begin = Ref(C_NULL)
sab_sampler_begin(sampler) = ccall(_sab_sampler_begin[], sab_status, (Ptr{sab_sampler},), sampler)
const _sab_next_batch = Ref(C_NULL)
sab_next_batch(sampler, batch) = ccall(_sab_next_batch[], sab_status, (Ptr{sab_sampler}, Ptr{sab_batch}), sampler, batch)
const _sab_sampler_get_rows = Ref(C_NULL)
sab_sampler_get_rows(sampler, rows) = ccall(_sab_sampler_get_rows[], sab_status, (Ptr{sab_sampler}, Ptr{sab_rows}), sampler, rows)
const _sab_sampler_get_step = Ref(C_NULL)
sab_sampler_get_step(sampler, step) = ccall(_sab_sampler_get_step[], sab_status, (Ptr{sab_sampler}, Ptr{sab_step}), sampler, step)
const _sab_next_block = Ref(C_NULL)
sab_next_block(sampler, max_batches, block) = ccall(_sab_next_block[], sab_status, (Ptr{sab_sampler}, Csize_t, Ptr{sab_block}), sampler, max_batches, block)
const _sab_sampler_at = Ref(C_NULL)
sab_sampler_at(sampler, position, batch) = ccall(_sab_sampler_at[], sab_status, (Ptr{sab_sampler}, UInt64, Ptr{sab_batch}), sampler, position, batch)
const _sab_sampler_get_capabilities = Ref(C_NULL)
sab_sampler_get_capabilities(sampler, capabilities) = ccall(_sab_sampler_get_capabilities[], sab_status, (Ptr{sab_sampler}, Ptr{UInt64}), sampler, capabilities)
const _sab_sampler_get_batch_count = Ref(C_NULL)
sab_sampler_get_batch_count(sampler, count) = ccall(_sab_sampler_get_batch_count[], sab_status, (Ptr{sab_sampler}, Ptr{UInt64}), sampler, count)
const _sab_sampler_get_skipped = Ref(C_NULL)
sab_sampler_get_skipped(sampler, indices, capacity, count) = ccall(_sab_sampler_get_skipped[], sab_status, (Ptr{sab_sampler}, Ptr{Int64}, Csize_t, Ptr{Csize_t}), sampler, indices, capacity, count)
const _sab_sampler_get_shape = Ref(C_NULL)
sab_sampler_get_shape(sampler, index, shape) = ccall(_sab_sampler_get_shape[], sab_status, (Ptr{sab_sampler}, Csize_t, Ptr{sab_shape}), sampler, index, shape)
const _sab_sampler_set_epoch = Ref(C_NULL)
sab_sampler_set_epoch(sampler, epoch) = ccall(_sab_sampler_set_epoch[], sab_status, (Ptr{sab_sampler}, UInt64), sampler, epoch)
const _sab_sampler_seek = Ref(C_NULL)
sab_sampler_seek(sampler, position) = ccall(_sab_sampler_seek[], sab_status, (Ptr{sab_sampler}, UInt64), sampler, position)
const _sab_sampler_tell = Ref(C_NULL)
sab_sampler_tell(sampler, epoch, position) = ccall(_sab_sampler_tell[], sab_status, (Ptr{sab_sampler}, Ptr{UInt64}, Ptr{UInt64}), sampler, epoch, position)
const _sab_sampler_set_budget = Ref(C_NULL)
sab_sampler_set_budget(sampler, index, limit) = ccall(_sab_sampler_set_budget[], sab_status, (Ptr{sab_sampler}, Csize_t, Float64), sampler, index, limit)
const _sab_sampler_get_budget = Ref(C_NULL)
sab_sampler_get_budget(sampler, index, limit) = ccall(_sab_sampler_get_budget[], sab_status, (Ptr{sab_sampler}, Csize_t, Ptr{Float64}), sampler, index, limit)
const _sab_sampler_state_save = Ref(C_NULL)
sab_sampler_state_save(sampler, state, capacity, size) = ccall(_sab_sampler_state_save[], sab_status, (Ptr{sab_sampler}, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}), sampler, state, capacity, size)
const _sab_sampler_state_save_at = Ref(C_NULL)
sab_sampler_state_save_at(sampler, position, state, capacity, size) = ccall(_sab_sampler_state_save_at[], sab_status, (Ptr{sab_sampler}, UInt64, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}), sampler, position, state, capacity, size)
const _sab_sampler_state_restore = Ref(C_NULL)
sab_sampler_state_restore(sampler, state, size) = ccall(_sab_sampler_state_restore[], sab_status, (Ptr{sab_sampler}, Ptr{Cvoid}, Csize_t), sampler, state, size)
const _sab_sampler_free = Ref(C_NULL)
sab_sampler_free(sampler) = ccall(_sab_sampler_free[], Cvoid, (Ptr{sab_sampler},), sampler)
const _sab_sizes_arrow_new = Ref(C_NULL)
sab_sizes_arrow_new(array, schema, column, options, sizes) = ccall(_sab_sizes_arrow_new[], sab_status, (Ptr{ArrowArray}, Ptr{ArrowSchema}, Cstring, Ptr{sab_sizes_arrow_options}, Ptr{Ptr{sab_sizes}}), array, schema, column, options, sizes)
const _sab_sizes_arrow_stream_new = Ref(C_NULL)
sab_sizes_arrow_stream_new(stream, column, options, sizes) = ccall(_sab_sizes_arrow_stream_new[], sab_status, (Ptr{ArrowArrayStream}, Cstring, Ptr{sab_sizes_arrow_options}, Ptr{Ptr{sab_sizes}}), stream, column, options, sizes)
const _sab_arrow_schedule_new = Ref(C_NULL)
sab_arrow_schedule_new(sampler, stream) = ccall(_sab_arrow_schedule_new[], sab_status, (Ptr{sab_sampler}, Ptr{ArrowArrayStream}), sampler, stream)
const _sab_ranks_get_from_environment = Ref(C_NULL)
sab_ranks_get_from_environment(rank, world_size) = ccall(_sab_ranks_get_from_environment[], sab_status, (Ptr{UInt64}, Ptr{UInt64}), rank, world_size)
const _sab_ranks_get_from_mesh = Ref(C_NULL)
sab_ranks_get_from_mesh(shape, is_data, axes, rank, data_rank, data_world_size) = ccall(_sab_ranks_get_from_mesh[], sab_status, (Ptr{UInt64}, Ptr{Int32}, Csize_t, UInt64, Ptr{UInt64}, Ptr{UInt64}), shape, is_data, axes, rank, data_rank, data_world_size)
const _sab_ranks_check = Ref(C_NULL)
sab_ranks_check(sampler, rank, world_size, all_gather, ctx) = ccall(_sab_ranks_check[], sab_status, (Ptr{sab_sampler}, UInt64, UInt64, Ptr{Cvoid}, Ptr{Cvoid}), sampler, rank, world_size, all_gather, ctx)
const _sab_sharded_sampler_new = Ref(C_NULL)
sab_sharded_sampler_new(sizes, plan, options, all_gather, ctx, sampler) = ccall(_sab_sharded_sampler_new[], sab_status, (Ptr{sab_sizes}, Ptr{sab_plan_options}, Ptr{sab_sampler_options}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Ptr{sab_sampler}}), sizes, plan, options, all_gather, ctx, sampler)
const _sab_packed_sampler_new = Ref(C_NULL)
sab_packed_sampler_new(sizes, pack, options, sampler) = ccall(_sab_packed_sampler_new[], sab_status, (Ptr{sab_sizes}, Ptr{sab_packed_options}, Ptr{sab_sampler_options}, Ptr{Ptr{sab_sampler}}), sizes, pack, options, sampler)
const _sab_packed_sampler_get_info = Ref(C_NULL)
sab_packed_sampler_get_info(sampler, info) = ccall(_sab_packed_sampler_get_info[], sab_status, (Ptr{sab_sampler}, Ptr{sab_packed_info}), sampler, info)
const _sab_probe_new = Ref(C_NULL)
sab_probe_new(device, options, probe) = ccall(_sab_probe_new[], sab_status, (Cstring, Ptr{sab_probe_options}, Ptr{Ptr{sab_probe}}), device, options, probe)
const _sab_probe_callbacks_new = Ref(C_NULL)
sab_probe_callbacks_new(callbacks, probe) = ccall(_sab_probe_callbacks_new[], sab_status, (Ptr{sab_probe_callbacks}, Ptr{Ptr{sab_probe}}), callbacks, probe)
const _sab_probe_reset = Ref(C_NULL)
sab_probe_reset(probe) = ccall(_sab_probe_reset[], sab_status, (Ptr{sab_probe},), probe)
const _sab_probe_get_stats = Ref(C_NULL)
sab_probe_get_stats(probe, stats) = ccall(_sab_probe_get_stats[], sab_status, (Ptr{sab_probe}, Ptr{sab_probe_stats}), probe, stats)
const _sab_probe_release_cache = Ref(C_NULL)
sab_probe_release_cache(probe) = ccall(_sab_probe_release_cache[], sab_status, (Ptr{sab_probe},), probe)
const _sab_probe_free = Ref(C_NULL)
sab_probe_free(probe) = ccall(_sab_probe_free[], Cvoid, (Ptr{sab_probe},), probe)
const _sab_peaks_new = Ref(C_NULL)
sab_peaks_new(peaks) = ccall(_sab_peaks_new[], sab_status, (Ptr{Ptr{sab_peaks}},), peaks)
const _sab_collect_peak = Ref(C_NULL)
sab_collect_peak(probe, options, peaks) = ccall(_sab_collect_peak[], sab_status, (Ptr{sab_probe}, Ptr{sab_collect_peak_options}, Ptr{sab_peaks}), probe, options, peaks)
const _sab_peaks_get_view = Ref(C_NULL)
sab_peaks_get_view(peaks, view) = ccall(_sab_peaks_get_view[], sab_status, (Ptr{sab_peaks}, Ptr{sab_peaks_view}), peaks, view)
const _sab_peaks_free = Ref(C_NULL)
sab_peaks_free(peaks) = ccall(_sab_peaks_free[], Cvoid, (Ptr{sab_peaks},), peaks)
const _sab_measurement_points_find = Ref(C_NULL)
sab_measurement_points_find(options, points, counts, lengths) = ccall(_sab_measurement_points_find[], sab_status, (Ptr{sab_measurement_options}, Csize_t, Ptr{UInt64}, Ptr{Float64}), options, points, counts, lengths)
const _sab_memory_model_fit_new = Ref(C_NULL)
sab_memory_model_fit_new(features, count, feature_count, peaks, options, model) = ccall(_sab_memory_model_fit_new[], sab_status, (Ptr{Float64}, Csize_t, Csize_t, Ptr{Float64}, Ptr{sab_memory_model_options}, Ptr{Ptr{sab_memory_model}}), features, count, feature_count, peaks, options, model)
const _sab_memory_model_get_info = Ref(C_NULL)
sab_memory_model_get_info(model, info) = ccall(_sab_memory_model_get_info[], sab_status, (Ptr{sab_memory_model}, Ptr{sab_memory_model_info}), model, info)
const _sab_memory_model_predict = Ref(C_NULL)
sab_memory_model_predict(model, features, count, predicted, upper) = ccall(_sab_memory_model_predict[], sab_status, (Ptr{sab_memory_model}, Ptr{Float64}, Csize_t, Ptr{Float64}, Ptr{Float64}), model, features, count, predicted, upper)
const _sab_memory_model_cost_new = Ref(C_NULL)
sab_memory_model_cost_new(model, cost) = ccall(_sab_memory_model_cost_new[], sab_status, (Ptr{sab_memory_model}, Ptr{Ptr{sab_cost}}), model, cost)
const _sab_memory_model_save = Ref(C_NULL)
sab_memory_model_save(model, path) = ccall(_sab_memory_model_save[], sab_status, (Ptr{sab_memory_model}, Cstring), model, path)
const _sab_memory_model_file_new = Ref(C_NULL)
sab_memory_model_file_new(path, model) = ccall(_sab_memory_model_file_new[], sab_status, (Cstring, Ptr{Ptr{sab_memory_model}}), path, model)
const _sab_memory_model_write = Ref(C_NULL)
sab_memory_model_write(model, buffer, capacity, size) = ccall(_sab_memory_model_write[], sab_status, (Ptr{sab_memory_model}, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}), model, buffer, capacity, size)
const _sab_memory_model_bytes_new = Ref(C_NULL)
sab_memory_model_bytes_new(data, size, model) = ccall(_sab_memory_model_bytes_new[], sab_status, (Ptr{Cvoid}, Csize_t, Ptr{Ptr{sab_memory_model}}), data, size, model)
const _sab_memory_model_free = Ref(C_NULL)
sab_memory_model_free(model) = ccall(_sab_memory_model_free[], Cvoid, (Ptr{sab_memory_model},), model)
const _sab_bionemo_create_buckets = Ref(C_NULL)
sab_bionemo_create_buckets(sizes, max_width, min_bucket_count, boundaries, bucket_sizes, capacity, bucket_count) = ccall(_sab_bionemo_create_buckets[], sab_status, (Ptr{sab_sizes}, Int64, Int64, Ptr{Int64}, Ptr{Int64}, Csize_t, Ptr{Csize_t}), sizes, max_width, min_bucket_count, boundaries, bucket_sizes, capacity, bucket_count)
const _sab_bionemo_size_aware_stream_sampler_new = Ref(C_NULL)
sab_bionemo_size_aware_stream_sampler_new(source, ctx, release, limit, sampler) = ccall(_sab_bionemo_size_aware_stream_sampler_new[], sab_status, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Float64, Ptr{Ptr{sab_sampler}}), source, ctx, release, limit, sampler)
const _sab_bionemo_sampler_new = Ref(C_NULL)
sab_bionemo_sampler_new(plan, options, sampler) = ccall(_sab_bionemo_sampler_new[], sab_status, (Ptr{sab_plan}, Ptr{sab_bionemo_options}, Ptr{Ptr{sab_sampler}}), plan, options, sampler)
const _sab_bionemo_sampler_get_generator = Ref(C_NULL)
sab_bionemo_sampler_get_generator(sampler, words) = ccall(_sab_bionemo_sampler_get_generator[], sab_status, (Ptr{sab_sampler}, Ptr{UInt32}), sampler, words)
const _sab_bionemo_sampler_set_generator = Ref(C_NULL)
sab_bionemo_sampler_set_generator(sampler, words) = ccall(_sab_bionemo_sampler_set_generator[], sab_status, (Ptr{sab_sampler}, Ptr{UInt32}), sampler, words)
const _sab_bagua_batches_add = Ref(C_NULL)
sab_bagua_batches_add(batches, indices, count) = ccall(_sab_bagua_batches_add[], sab_status, (Ptr{sab_batches}, Ptr{Int64}, Csize_t), batches, indices, count)
const _sab_bagua_sampler_new = Ref(C_NULL)
sab_bagua_sampler_new(complexity, balancing, options, sampler) = ccall(_sab_bagua_sampler_new[], sab_status, (Ptr{sab_sizes}, Ptr{sab_bagua_options}, Ptr{sab_sampler_options}, Ptr{Ptr{sab_sampler}}), complexity, balancing, options, sampler)
const _sab_sizes_file_new = Ref(C_NULL)
sab_sizes_file_new(path, options, sizes) = ccall(_sab_sizes_file_new[], sab_status, (Cstring, Ptr{sab_sizes_file_options}, Ptr{Ptr{sab_sizes}}), path, options, sizes)
const _sab_items_partition = Ref(C_NULL)
sab_items_partition(costs, count, parts, options, part_of) = ccall(_sab_items_partition[], sab_status, (Ptr{Float64}, Csize_t, UInt64, Ptr{sab_partition_options}, Ptr{UInt32}), costs, count, parts, options, part_of)
const _sab_balanced_sampler_new = Ref(C_NULL)
sab_balanced_sampler_new(sizes, balanced, options, sampler) = ccall(_sab_balanced_sampler_new[], sab_status, (Ptr{sab_sizes}, Ptr{sab_balanced_options}, Ptr{sab_sampler_options}, Ptr{Ptr{sab_sampler}}), sizes, balanced, options, sampler)
const _sab_balanced_sampler_get_report = Ref(C_NULL)
sab_balanced_sampler_get_report(sampler, options, report) = ccall(_sab_balanced_sampler_get_report[], sab_status, (Ptr{sab_sampler}, Ptr{sab_progress_options}, Ptr{sab_balanced_report}), sampler, options, report)
const _sab_step_plan_new = Ref(C_NULL)
sab_step_plan_new(sizes, options, plan) = ccall(_sab_step_plan_new[], sab_status, (Ptr{sab_sizes}, Ptr{sab_step_plan_options}, Ptr{Ptr{sab_step_plan}}), sizes, options, plan)
const _sab_step_plan_get_view = Ref(C_NULL)
sab_step_plan_get_view(plan, view) = ccall(_sab_step_plan_get_view[], sab_status, (Ptr{sab_step_plan}, Ptr{sab_step_plan_view}), plan, view)
const _sab_step_plan_get_loss_weights = Ref(C_NULL)
sab_step_plan_get_loss_weights(plan, weighting, tokens, weights) = ccall(_sab_step_plan_get_loss_weights[], sab_status, (Ptr{sab_step_plan}, sab_loss_weighting, Ptr{Float64}, Ptr{Float64}), plan, weighting, tokens, weights)
const _sab_step_plan_free = Ref(C_NULL)
sab_step_plan_free(plan) = ccall(_sab_step_plan_free[], Cvoid, (Ptr{sab_step_plan},), plan)
const _sab_context_plan_new = Ref(C_NULL)
sab_context_plan_new(lengths, world_size, limit, options, plan) = ccall(_sab_context_plan_new[], sab_status, (Ptr{sab_sizes}, UInt64, UInt64, Ptr{sab_context_options}, Ptr{Ptr{sab_context_plan}}), lengths, world_size, limit, options, plan)
const _sab_context_plan_get_view = Ref(C_NULL)
sab_context_plan_get_view(plan, view) = ccall(_sab_context_plan_get_view[], sab_status, (Ptr{sab_context_plan}, Ptr{sab_context_plan_view}), plan, view)
const _sab_context_plan_free = Ref(C_NULL)
sab_context_plan_free(plan) = ccall(_sab_context_plan_free[], Cvoid, (Ptr{sab_context_plan},), plan)
const _sab_mixture_new = Ref(C_NULL)
sab_mixture_new(sources, count, options, sizes) = ccall(_sab_mixture_new[], sab_status, (Ptr{Ptr{sab_sizes}}, Csize_t, Ptr{sab_mixture_options}, Ptr{Ptr{sab_sizes}}), sources, count, options, sizes)
const _sab_mixture_get_source = Ref(C_NULL)
sab_mixture_get_source(sizes, index, epoch, source) = ccall(_sab_mixture_get_source[], sab_status, (Ptr{sab_sizes}, Csize_t, UInt64, Ptr{sab_mixture_source}), sizes, index, epoch, source)
const _sab_mixture_get_counts = Ref(C_NULL)
sab_mixture_get_counts(sizes, epoch, counts, count) = ccall(_sab_mixture_get_counts[], sab_status, (Ptr{sab_sizes}, UInt64, Ptr{UInt32}, Csize_t), sizes, epoch, counts, count)
const _sab_mixture_get_report = Ref(C_NULL)
sab_mixture_get_report(sampler, options, reports, count) = ccall(_sab_mixture_get_report[], sab_status, (Ptr{sab_sampler}, Ptr{sab_progress_options}, Ptr{sab_mixture_report}, Csize_t), sampler, options, reports, count)
const _sab_histogram_new = Ref(C_NULL)
sab_histogram_new(histogram) = ccall(_sab_histogram_new[], sab_status, (Ptr{Ptr{sab_histogram}},), histogram)
const _sab_histogram_add = Ref(C_NULL)
sab_histogram_add(histogram, sizes, numbers) = ccall(_sab_histogram_add[], sab_status, (Ptr{sab_histogram}, Ptr{sab_sizes}, Ptr{UInt64}), histogram, sizes, numbers)
const _sab_histogram_merge = Ref(C_NULL)
sab_histogram_merge(histogram, other) = ccall(_sab_histogram_merge[], sab_status, (Ptr{sab_histogram}, Ptr{sab_histogram}), histogram, other)
const _sab_histogram_subtract = Ref(C_NULL)
sab_histogram_subtract(histogram, other) = ccall(_sab_histogram_subtract[], sab_status, (Ptr{sab_histogram}, Ptr{sab_histogram}), histogram, other)
const _sab_histogram_get_info = Ref(C_NULL)
sab_histogram_get_info(histogram, info) = ccall(_sab_histogram_get_info[], sab_status, (Ptr{sab_histogram}, Ptr{sab_histogram_info}), histogram, info)
const _sab_histogram_write = Ref(C_NULL)
sab_histogram_write(histogram, buffer, capacity, size) = ccall(_sab_histogram_write[], sab_status, (Ptr{sab_histogram}, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}), histogram, buffer, capacity, size)
const _sab_histogram_bytes_new = Ref(C_NULL)
sab_histogram_bytes_new(data, size, histogram) = ccall(_sab_histogram_bytes_new[], sab_status, (Ptr{Cvoid}, Csize_t, Ptr{Ptr{sab_histogram}}), data, size, histogram)
const _sab_histogram_free = Ref(C_NULL)
sab_histogram_free(histogram) = ccall(_sab_histogram_free[], Cvoid, (Ptr{sab_histogram},), histogram)
const _sab_histogram_epoch_new = Ref(C_NULL)
sab_histogram_epoch_new(histogram, repeats, repeat_count, epoch, seed, of_epoch) = ccall(_sab_histogram_epoch_new[], sab_status, (Ptr{sab_histogram}, Ptr{Float64}, Csize_t, UInt64, UInt64, Ptr{Ptr{sab_histogram}}), histogram, repeats, repeat_count, epoch, seed, of_epoch)
const _sab_histogram_plan_new = Ref(C_NULL)
sab_histogram_plan_new(histogram, options, plan) = ccall(_sab_histogram_plan_new[], sab_status, (Ptr{sab_histogram}, Ptr{sab_plan_options}, Ptr{Ptr{sab_plan}}), histogram, options, plan)
const _sab_histogram_plan_locate = Ref(C_NULL)
sab_histogram_plan_locate(plan, options, sources, sizes, numbers, which, count, places) = ccall(_sab_histogram_plan_locate[], sab_status, (Ptr{sab_plan}, Ptr{sab_sampler_options}, Ptr{UInt32}, Ptr{Float64}, Ptr{UInt64}, Ptr{UInt64}, Csize_t, Ptr{sab_places}), plan, options, sources, sizes, numbers, which, count, places)
const _sab_histogram_packing_new = Ref(C_NULL)
sab_histogram_packing_new(histogram, pack, packing) = ccall(_sab_histogram_packing_new[], sab_status, (Ptr{sab_histogram}, Ptr{sab_packed_options}, Ptr{Ptr{sab_packing}}), histogram, pack, packing)
const _sab_packing_get_info = Ref(C_NULL)
sab_packing_get_info(packing, info) = ccall(_sab_packing_get_info[], sab_status, (Ptr{sab_packing}, Ptr{sab_packed_info}), packing, info)
const _sab_packing_get_patterns = Ref(C_NULL)
sab_packing_get_patterns(packing, count, bins, begins, lengths, sequences) = ccall(_sab_packing_get_patterns[], sab_status, (Ptr{sab_packing}, Ptr{Csize_t}, Ptr{Ptr{UInt64}}, Ptr{Ptr{UInt64}}, Ptr{Ptr{UInt32}}, Ptr{Ptr{UInt32}}), packing, count, bins, begins, lengths, sequences)
const _sab_packing_locate = Ref(C_NULL)
sab_packing_locate(packing, options, sizes, numbers, which, count, places) = ccall(_sab_packing_locate[], sab_status, (Ptr{sab_packing}, Ptr{sab_sampler_options}, Ptr{Float64}, Ptr{UInt64}, Ptr{UInt64}, Csize_t, Ptr{sab_places}), packing, options, sizes, numbers, which, count, places)
const _sab_packing_free = Ref(C_NULL)
sab_packing_free(packing) = ccall(_sab_packing_free[], Cvoid, (Ptr{sab_packing},), packing)
const _sab_max_batch_find = Ref(C_NULL)
sab_max_batch_find(probe, trial, ctx, options, batch_sizes, result) = ccall(_sab_max_batch_find[], sab_status, (Ptr{sab_probe}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{sab_max_batch_options}, Ptr{UInt64}, Ptr{sab_max_batch}), probe, trial, ctx, options, batch_sizes, result)
const _sab_step_run_in_chunks = Ref(C_NULL)
sab_step_run_in_chunks(probe, count, options, chunk_size) = ccall(_sab_step_run_in_chunks[], sab_status, (Ptr{sab_probe}, UInt64, Ptr{sab_step_in_chunks_options}, Ptr{UInt64}), probe, count, options, chunk_size)
const _sab_memory_guard_new = Ref(C_NULL)
sab_memory_guard_new(probe, sampler, options, guard) = ccall(_sab_memory_guard_new[], sab_status, (Ptr{sab_probe}, Ptr{sab_sampler}, Ptr{sab_memory_guard_options}, Ptr{Ptr{sab_memory_guard}}), probe, sampler, options, guard)
const _sab_memory_guard_begin = Ref(C_NULL)
sab_memory_guard_begin(guard) = ccall(_sab_memory_guard_begin[], sab_status, (Ptr{sab_memory_guard},), guard)
const _sab_memory_guard_end = Ref(C_NULL)
sab_memory_guard_end(guard, batch, out_of_memory) = ccall(_sab_memory_guard_end[], sab_status, (Ptr{sab_memory_guard}, Ptr{sab_batch}, Int32), guard, batch, out_of_memory)
const _sab_memory_guard_get_info = Ref(C_NULL)
sab_memory_guard_get_info(guard, info) = ccall(_sab_memory_guard_get_info[], sab_status, (Ptr{sab_memory_guard}, Ptr{sab_memory_guard_info}), guard, info)
const _sab_memory_guard_step = Ref(C_NULL)
sab_memory_guard_step(guard, batch, options) = ccall(_sab_memory_guard_step[], sab_status, (Ptr{sab_memory_guard}, Ptr{sab_batch}, Ptr{sab_step_in_chunks_options}), guard, batch, options)
const _sab_memory_guard_free = Ref(C_NULL)
sab_memory_guard_free(guard) = ccall(_sab_memory_guard_free[], Cvoid, (Ptr{sab_memory_guard},), guard)
const _sab_stream_next = Ref(C_NULL)
sab_stream_next(stream, record) = ccall(_sab_stream_next[], sab_status, (Ptr{sab_stream}, Ptr{sab_record}), stream, record)
const _sab_stream_set_progress = Ref(C_NULL)
sab_stream_set_progress(stream, options) = ccall(_sab_stream_set_progress[], sab_status, (Ptr{sab_stream}, Ptr{sab_progress_options}), stream, options)
const _sab_stream_rewind = Ref(C_NULL)
sab_stream_rewind(stream) = ccall(_sab_stream_rewind[], sab_status, (Ptr{sab_stream},), stream)
const _sab_stream_get_skipped_count = Ref(C_NULL)
sab_stream_get_skipped_count(stream, count) = ccall(_sab_stream_get_skipped_count[], sab_status, (Ptr{sab_stream}, Ptr{UInt64}), stream, count)
const _sab_stream_state_save = Ref(C_NULL)
sab_stream_state_save(stream, buffer, capacity, size) = ccall(_sab_stream_state_save[], sab_status, (Ptr{sab_stream}, Ptr{Cvoid}, Csize_t, Ptr{Csize_t}), stream, buffer, capacity, size)
const _sab_stream_state_restore = Ref(C_NULL)
sab_stream_state_restore(stream, data, size) = ccall(_sab_stream_state_restore[], sab_status, (Ptr{sab_stream}, Ptr{Cvoid}, Csize_t), stream, data, size)
const _sab_stream_free = Ref(C_NULL)
sab_stream_free(stream) = ccall(_sab_stream_free[], Cvoid, (Ptr{sab_stream},), stream)
const _sab_stream_abandon = Ref(C_NULL)
sab_stream_abandon(stream) = ccall(_sab_stream_abandon[], Cvoid, (Ptr{sab_stream},), stream)
const _sab_list_stream_new = Ref(C_NULL)
sab_list_stream_new(records, count, options, stream) = ccall(_sab_list_stream_new[], sab_status, (Ptr{sab_record}, Csize_t, Ptr{sab_list_stream_options}, Ptr{Ptr{sab_stream}}), records, count, options, stream)
const _sab_callback_stream_new = Ref(C_NULL)
sab_callback_stream_new(functions, stream) = ccall(_sab_callback_stream_new[], sab_status, (Ptr{sab_source_functions}, Ptr{Ptr{sab_stream}}), functions, stream)
const _sab_random_stream_new = Ref(C_NULL)
sab_random_stream_new(seed, stream) = ccall(_sab_random_stream_new[], sab_status, (UInt64, Ptr{Ptr{sab_stream}}), seed, stream)
const _sab_files_stream_new = Ref(C_NULL)
sab_files_stream_new(source, options, stream) = ccall(_sab_files_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{sab_files_stream_options}, Ptr{Ptr{sab_stream}}), source, options, stream)
const _sab_map_stream_new = Ref(C_NULL)
sab_map_stream_new(source, options, stream) = ccall(_sab_map_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{sab_map_stream_options}, Ptr{Ptr{sab_stream}}), source, options, stream)
const _sab_text_size_stream_new = Ref(C_NULL)
sab_text_size_stream_new(source, unit, stream) = ccall(_sab_text_size_stream_new[], sab_status, (Ptr{sab_stream}, sab_text_unit, Ptr{Ptr{sab_stream}}), source, unit, stream)
const _sab_select_stream_new = Ref(C_NULL)
sab_select_stream_new(source, select, ctx, release, objects, stream) = ccall(_sab_select_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{sab_object_functions}, Ptr{Ptr{sab_stream}}), source, select, ctx, release, objects, stream)
const _sab_flatten_stream_new = Ref(C_NULL)
sab_flatten_stream_new(source, stream) = ccall(_sab_flatten_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{Ptr{sab_stream}}), source, stream)
const _sab_recurrent_stream_new = Ref(C_NULL)
sab_recurrent_stream_new(source, recur, ctx, release, initial, objects, stream) = ccall(_sab_recurrent_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{sab_record}, Ptr{sab_object_functions}, Ptr{Ptr{sab_stream}}), source, recur, ctx, release, initial, objects, stream)
const _sab_random_draw_real = Ref(C_NULL)
sab_random_draw_real(random) = ccall(_sab_random_draw_real[], Float64, (Ptr{sab_random},), random)
const _sab_random_draw_bits = Ref(C_NULL)
sab_random_draw_bits(random, bits) = ccall(_sab_random_draw_bits[], UInt64, (Ptr{sab_random}, UInt32), random, bits)
const _sab_random_map_stream_new = Ref(C_NULL)
sab_random_map_stream_new(source, map, ctx, release, seed, objects, stream) = ccall(_sab_random_map_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}, UInt64, Ptr{sab_object_functions}, Ptr{Ptr{sab_stream}}), source, map, ctx, release, seed, objects, stream)
const _sab_zip_stream_new = Ref(C_NULL)
sab_zip_stream_new(sources, count, stream) = ccall(_sab_zip_stream_new[], sab_status, (Ptr{Ptr{sab_stream}}, Csize_t, Ptr{Ptr{sab_stream}}), sources, count, stream)
const _sab_multiplex_stream_new = Ref(C_NULL)
sab_multiplex_stream_new(control, sources, count, stream) = ccall(_sab_multiplex_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{Ptr{sab_stream}}, Csize_t, Ptr{Ptr{sab_stream}}), control, sources, count, stream)
const _sab_mix_stream_new = Ref(C_NULL)
sab_mix_stream_new(sources, count, options, stream) = ccall(_sab_mix_stream_new[], sab_status, (Ptr{Ptr{sab_stream}}, Csize_t, Ptr{sab_mix_stream_options}, Ptr{Ptr{sab_stream}}), sources, count, options, stream)
const _sab_shard_stream_new = Ref(C_NULL)
sab_shard_stream_new(source, rank, world_size, stream) = ccall(_sab_shard_stream_new[], sab_status, (Ptr{sab_stream}, UInt64, UInt64, Ptr{Ptr{sab_stream}}), source, rank, world_size, stream)
const _sab_batch_stream_new = Ref(C_NULL)
sab_batch_stream_new(source, batch_size, stream) = ccall(_sab_batch_stream_new[], sab_status, (Ptr{sab_stream}, UInt64, Ptr{Ptr{sab_stream}}), source, batch_size, stream)
const _sab_window_stream_new = Ref(C_NULL)
sab_window_stream_new(source, width, stream) = ccall(_sab_window_stream_new[], sab_status, (Ptr{sab_stream}, UInt64, Ptr{Ptr{sab_stream}}), source, width, stream)
const _sab_shuffle_stream_new = Ref(C_NULL)
sab_shuffle_stream_new(source, shuffle, size, seed, stream) = ccall(_sab_shuffle_stream_new[], sab_status, (Ptr{sab_stream}, sab_stream_shuffle, UInt64, UInt64, Ptr{Ptr{sab_stream}}), source, shuffle, size, seed, stream)
const _sab_readahead_stream_new = Ref(C_NULL)
sab_readahead_stream_new(source, options, stream) = ccall(_sab_readahead_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{sab_readahead_stream_options}, Ptr{Ptr{sab_stream}}), source, options, stream)
const _sab_pack_stream_new = Ref(C_NULL)
sab_pack_stream_new(source, options, stream) = ccall(_sab_pack_stream_new[], sab_status, (Ptr{sab_stream}, Ptr{sab_pack_stream_options}, Ptr{Ptr{sab_stream}}), source, options, stream)
const _sab_prefetch_stream_new = Ref(C_NULL)
sab_prefetch_stream_new(source, buffer_size, stream) = ccall(_sab_prefetch_stream_new[], sab_status, (Ptr{sab_stream}, UInt64, Ptr{Ptr{sab_stream}}), source, buffer_size, stream)
const _sab_thresholds_find = Ref(C_NULL)
sab_thresholds_find(lengths, k, options, thresholds, info) = ccall(_sab_thresholds_find[], sab_status, (Ptr{sab_sizes}, UInt64, Ptr{sab_thresholds_options}, Ptr{Float64}, Ptr{sab_thresholds_info}), lengths, k, options, thresholds, info)
const _sab_grouping_thresholds_new = Ref(C_NULL)
sab_grouping_thresholds_new(dimensions, count, grouping) = ccall(_sab_grouping_thresholds_new[], sab_status, (Ptr{sab_grouping_dimension}, Csize_t, Ptr{Ptr{sab_grouping}}), dimensions, count, grouping)
const _sab_grouping_predefined_new = Ref(C_NULL)
sab_grouping_predefined_new(group_of, samples, groups, grouping) = ccall(_sab_grouping_predefined_new[], sab_status, (Ptr{Int64}, Csize_t, Csize_t, Ptr{Ptr{sab_grouping}}), group_of, samples, groups, grouping)
const _sab_grouping_partition_new = Ref(C_NULL)
sab_grouping_partition_new(indices, counts, groups, grouping) = ccall(_sab_grouping_partition_new[], sab_status, (Ptr{Int64}, Ptr{UInt64}, Csize_t, Ptr{Ptr{sab_grouping}}), indices, counts, groups, grouping)
const _sab_grouping_get_view = Ref(C_NULL)
sab_grouping_get_view(grouping, groups) = ccall(_sab_grouping_get_view[], sab_status, (Ptr{sab_grouping}, Ptr{sab_grouping_view}), grouping, groups)
const _sab_grouping_free = Ref(C_NULL)
sab_grouping_free(grouping) = ccall(_sab_grouping_free[], Cvoid, (Ptr{sab_grouping},), grouping)
const _sab_ragged_get_padded_shape = Ref(C_NULL)
sab_ragged_get_padded_shape(samples, indices, count, shape) = ccall(_sab_ragged_get_padded_shape[], sab_status, (Ptr{sab_ragged}, Ptr{Int64}, Csize_t, Ptr{Int64}), samples, indices, count, shape)
const _sab_ragged_pad = Ref(C_NULL)
sab_ragged_pad(samples, indices, count, shape, options, padded) = ccall(_sab_ragged_pad[], sab_status, (Ptr{sab_ragged}, Ptr{Int64}, Csize_t, Ptr{Int64}, Ptr{sab_pad_options}, Ptr{Cvoid}), samples, indices, count, shape, options, padded)
const _sab_ragged_unpad = Ref(C_NULL)
sab_ragged_unpad(padded, shape, indices, count, options, samples) = ccall(_sab_ragged_unpad[], sab_status, (Ptr{Cvoid}, Ptr{Int64}, Ptr{Int64}, Csize_t, Ptr{sab_pad_options}, Ptr{sab_ragged}), padded, shape, indices, count, options, samples)
const _sab_ragged_mask = Ref(C_NULL)
sab_ragged_mask(lengths, count, shape, dimensions, rule, mask) = ccall(_sab_ragged_mask[], sab_status, (Ptr{Int64}, Csize_t, Ptr{Int64}, Csize_t, sab_mask_rule, Ptr{UInt8}), lengths, count, shape, dimensions, rule, mask)
const _sab_cache_new = Ref(C_NULL)
sab_cache_new(url, options, cache) = ccall(_sab_cache_new[], sab_status, (Cstring, Ptr{sab_cache_options}, Ptr{Ptr{sab_cache}}), url, options, cache)
const _sab_cache_get = Ref(C_NULL)
sab_cache_get(cache, key, key_size, value) = ccall(_sab_cache_get[], sab_status, (Ptr{sab_cache}, Ptr{Cvoid}, Csize_t, Ptr{Ptr{sab_cache_value}}), cache, key, key_size, value)
const _sab_cache_put = Ref(C_NULL)
sab_cache_put(cache, key, key_size, data, size) = ccall(_sab_cache_put[], sab_status, (Ptr{sab_cache}, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}, Csize_t), cache, key, key_size, data, size)
const _sab_cache_get_or_load = Ref(C_NULL)
sab_cache_get_or_load(cache, key, key_size, load, ctx, options, value) = ccall(_sab_cache_get_or_load[], sab_status, (Ptr{sab_cache}, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}, Ptr{Cvoid}, Ptr{sab_progress_options}, Ptr{Ptr{sab_cache_value}}), cache, key, key_size, load, ctx, options, value)
const _sab_cache_get_many = Ref(C_NULL)
sab_cache_get_many(cache, items, count, values) = ccall(_sab_cache_get_many[], sab_status, (Ptr{sab_cache}, Ptr{sab_cache_item}, Csize_t, Ptr{Ptr{sab_cache_value}}), cache, items, count, values)
const _sab_cache_put_many = Ref(C_NULL)
sab_cache_put_many(cache, items, count) = ccall(_sab_cache_put_many[], sab_status, (Ptr{sab_cache}, Ptr{sab_cache_item}, Csize_t), cache, items, count)
const _sab_cache_flush = Ref(C_NULL)
sab_cache_flush(cache) = ccall(_sab_cache_flush[], sab_status, (Ptr{sab_cache},), cache)
const _sab_cache_get_key_count = Ref(C_NULL)
sab_cache_get_key_count(cache, keys) = ccall(_sab_cache_get_key_count[], sab_status, (Ptr{sab_cache}, Ptr{UInt64}), cache, keys)
const _sab_cache_clear = Ref(C_NULL)
sab_cache_clear(cache) = ccall(_sab_cache_clear[], sab_status, (Ptr{sab_cache},), cache)
const _sab_cache_get_stats = Ref(C_NULL)
sab_cache_get_stats(cache, stats) = ccall(_sab_cache_get_stats[], sab_status, (Ptr{sab_cache}, Ptr{sab_cache_stats}), cache, stats)
const _sab_cache_value_data = Ref(C_NULL)
sab_cache_value_data(value, size) = ccall(_sab_cache_value_data[], Ptr{Cvoid}, (Ptr{sab_cache_value}, Ptr{Csize_t}), value, size)
const _sab_cache_value_free = Ref(C_NULL)
sab_cache_value_free(value) = ccall(_sab_cache_value_free[], Cvoid, (Ptr{sab_cache_value},), value)
const _sab_cache_free = Ref(C_NULL)
sab_cache_free(cache) = ccall(_sab_cache_free[], Cvoid, (Ptr{sab_cache},), cache)
const _sab_torch_open = Ref(C_NULL)
sab_torch_open(path, info) = ccall(_sab_torch_open[], sab_status, (Cstring, Ptr{sab_torch_info}), path, info)
const _sab_torch_indices_new = Ref(C_NULL)
sab_torch_indices_new(batch, device, tensor) = ccall(_sab_torch_indices_new[], sab_status, (Ptr{sab_batch}, Cstring, Ptr{Ptr{DLManagedTensor}}), batch, device, tensor)
const _sab_torch_store_new = Ref(C_NULL)
sab_torch_store_new(host, port, rank, world_size, timeout, store) = ccall(_sab_torch_store_new[], sab_status, (Cstring, UInt16, UInt64, UInt64, Float64, Ptr{Ptr{sab_torch_store}}), host, port, rank, world_size, timeout, store)
const _sab_torch_store_all_gather = Ref(C_NULL)
sab_torch_store_all_gather(store, mine, size, all) = ccall(_sab_torch_store_all_gather[], Int32, (Ptr{Cvoid}, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}), store, mine, size, all)
const _sab_torch_store_free = Ref(C_NULL)
sab_torch_store_free(store) = ccall(_sab_torch_store_free[], Cvoid, (Ptr{sab_torch_store},), store)
const _sab_torch_collection_new = Ref(C_NULL)
sab_torch_collection_new(leaves, leaf_count, samples, collection) = ccall(_sab_torch_collection_new[], sab_status, (Ptr{sab_torch_leaf}, Csize_t, Csize_t, Ptr{Ptr{sab_torch_collection}}), leaves, leaf_count, samples, collection)
const _sab_torch_collection_lengths_new = Ref(C_NULL)
sab_torch_collection_lengths_new(collection, name, lengths) = ccall(_sab_torch_collection_lengths_new[], sab_status, (Ptr{sab_torch_collection}, Cstring, Ptr{Ptr{sab_sizes}}), collection, name, lengths)
const _sab_torch_collection_grouped_new = Ref(C_NULL)
sab_torch_collection_grouped_new(collection, grouping, grouped) = ccall(_sab_torch_collection_grouped_new[], sab_status, (Ptr{sab_torch_collection}, Ptr{sab_grouping}, Ptr{Ptr{sab_torch_collection}}), collection, grouping, grouped)
const _sab_torch_collection_ungrouped_new = Ref(C_NULL)
sab_torch_collection_ungrouped_new(collection, samples) = ccall(_sab_torch_collection_ungrouped_new[], sab_status, (Ptr{sab_torch_collection}, Ptr{Ptr{sab_torch_collection}}), collection, samples)
const _sab_torch_collection_outputs_new = Ref(C_NULL)
sab_torch_collection_outputs_new(collection, leaves, leaf_count, outputs) = ccall(_sab_torch_collection_outputs_new[], sab_status, (Ptr{sab_torch_collection}, Ptr{sab_torch_leaf}, Csize_t, Ptr{Ptr{sab_torch_collection}}), collection, leaves, leaf_count, outputs)
const _sab_torch_collection_get_info = Ref(C_NULL)
sab_torch_collection_get_info(collection, info) = ccall(_sab_torch_collection_get_info[], sab_status, (Ptr{sab_torch_collection}, Ptr{sab_torch_collection_info}), collection, info)
const _sab_torch_collection_get_tensor = Ref(C_NULL)
sab_torch_collection_get_tensor(collection, leaf, index, tensor) = ccall(_sab_torch_collection_get_tensor[], sab_status, (Ptr{sab_torch_collection}, Csize_t, Csize_t, Ptr{sab_torch_tensor}), collection, leaf, index, tensor)
const _sab_torch_collection_get_mask = Ref(C_NULL)
sab_torch_collection_get_mask(collection, group, names, leaf, mask) = ccall(_sab_torch_collection_get_mask[], sab_status, (Ptr{sab_torch_collection}, Csize_t, Cstring, Csize_t, Ptr{sab_torch_tensor}), collection, group, names, leaf, mask)
const _sab_torch_collection_free = Ref(C_NULL)
sab_torch_collection_free(collection) = ccall(_sab_torch_collection_free[], Cvoid, (Ptr{sab_torch_collection},), collection)

"""
Finds every function in a library that is loaded. A provisional function may be missing; calling it
is an error then.
"""
function load(library)
    _sab_status_name[] = dlsym(library, :sab_status_name)
    _sab_last_error_message[] = dlsym(library, :sab_last_error_message)
    _sab_last_error_argument[] = dlsym(library, :sab_last_error_argument)
    _sab_last_error_value[] = dlsym(library, :sab_last_error_value)
    _sab_last_error_rule[] = dlsym(library, :sab_last_error_rule)
    _sab_last_error_code[] = dlsym(library, :sab_last_error_code)
    _sab_abi_version[] = dlsym(library, :sab_abi_version)
    _sab_version_string[] = dlsym(library, :sab_version_string)
    _sab_log_set_callback[] = dlsym(library, :sab_log_set_callback)
    _sab_sizes_new[] = dlsym(library, :sab_sizes_new)
    _sab_sizes_callback_new[] = dlsym(library, :sab_sizes_callback_new)
    _sab_sizes_join_new[] = dlsym(library, :sab_sizes_join_new)
    _sab_sizes_locate[] = dlsym(library, :sab_sizes_locate)
    _sab_sizes_columns_new[] = dlsym(library, :sab_sizes_columns_new)
    _sab_sizes_get_info[] = dlsym(library, :sab_sizes_get_info)
    _sab_sizes_count[] = dlsym(library, :sab_sizes_count)
    _sab_sizes_get[] = dlsym(library, :sab_sizes_get)
    _sab_sizes_free[] = dlsym(library, :sab_sizes_free)
    _sab_cost_padded_new[] = dlsym(library, :sab_cost_padded_new)
    _sab_cost_terms_new[] = dlsym(library, :sab_cost_terms_new)
    _sab_cost_transformer_new[] = dlsym(library, :sab_cost_transformer_new)
    _sab_cost_callback_new[] = dlsym(library, :sab_cost_callback_new)
    _sab_cost_evaluate[] = dlsym(library, :sab_cost_evaluate)
    _sab_cost_free[] = dlsym(library, :sab_cost_free)
    _sab_plan_new[] = dlsym(library, :sab_plan_new)
    _sab_plan_get_info[] = dlsym(library, :sab_plan_get_info)
    _sab_plan_get_bucket[] = dlsym(library, :sab_plan_get_bucket)
    _sab_plan_get_shape[] = dlsym(library, :sab_plan_get_shape)
    _sab_plan_get_shape_padding[] = dlsym(library, :sab_plan_get_shape_padding)
    _sab_plan_get_skipped[] = dlsym(library, :sab_plan_get_skipped)
    _sab_plan_save[] = dlsym(library, :sab_plan_save)
    _sab_plan_file_new[] = dlsym(library, :sab_plan_file_new)
    _sab_plan_check[] = dlsym(library, :sab_plan_check)
    _sab_plan_copy_new[] = dlsym(library, :sab_plan_copy_new)
    _sab_plan_write[] = dlsym(library, :sab_plan_write)
    _sab_plan_bytes_new[] = dlsym(library, :sab_plan_bytes_new)
    _sab_plan_free[] = dlsym(library, :sab_plan_free)
    _sab_plan_get_report[] = dlsym(library, :sab_plan_get_report)
    _sab_plan_verify[] = dlsym(library, :sab_plan_verify)
    _sab_bucket_sampler_new[] = dlsym(library, :sab_bucket_sampler_new)
    _sab_sequential_sampler_new[] = dlsym(library, :sab_sequential_sampler_new)
    _sab_costliest_sampler_new[] = dlsym(library, :sab_costliest_sampler_new)
    _sab_ordered_sampler_new[] = dlsym(library, :sab_ordered_sampler_new)
    _sab_sampler_begin[] = dlsym(library, :sab_sampler_begin)
    _sab_next_batch[] = dlsym(library, :sab_next_batch)
    _sab_sampler_get_rows[] = dlsym(library, :sab_sampler_get_rows)
    _sab_sampler_get_step[] = dlsym(library, :sab_sampler_get_step)
    _sab_next_block[] = dlsym(library, :sab_next_block)
    _sab_sampler_at[] = dlsym(library, :sab_sampler_at)
    _sab_sampler_get_capabilities[] = dlsym(library, :sab_sampler_get_capabilities)
    _sab_sampler_get_batch_count[] = dlsym(library, :sab_sampler_get_batch_count)
    _sab_sampler_get_skipped[] = dlsym(library, :sab_sampler_get_skipped)
    _sab_sampler_get_shape[] = dlsym(library, :sab_sampler_get_shape)
    _sab_sampler_set_epoch[] = dlsym(library, :sab_sampler_set_epoch)
    _sab_sampler_seek[] = dlsym(library, :sab_sampler_seek)
    _sab_sampler_tell[] = dlsym(library, :sab_sampler_tell)
    _sab_sampler_set_budget[] = dlsym(library, :sab_sampler_set_budget)
    _sab_sampler_get_budget[] = dlsym(library, :sab_sampler_get_budget)
    _sab_sampler_state_save[] = dlsym(library, :sab_sampler_state_save)
    _sab_sampler_state_save_at[] = dlsym(library, :sab_sampler_state_save_at)
    _sab_sampler_state_restore[] = dlsym(library, :sab_sampler_state_restore)
    _sab_sampler_free[] = dlsym(library, :sab_sampler_free)
    _sab_sizes_arrow_new[] = something(dlsym(library, :sab_sizes_arrow_new; throw_error=false), C_NULL)
    _sab_sizes_arrow_stream_new[] = something(dlsym(library, :sab_sizes_arrow_stream_new; throw_error=false), C_NULL)
    _sab_arrow_schedule_new[] = something(dlsym(library, :sab_arrow_schedule_new; throw_error=false), C_NULL)
    _sab_ranks_get_from_environment[] = dlsym(library, :sab_ranks_get_from_environment)
    _sab_ranks_get_from_mesh[] = dlsym(library, :sab_ranks_get_from_mesh)
    _sab_ranks_check[] = dlsym(library, :sab_ranks_check)
    _sab_sharded_sampler_new[] = dlsym(library, :sab_sharded_sampler_new)
    _sab_packed_sampler_new[] = dlsym(library, :sab_packed_sampler_new)
    _sab_packed_sampler_get_info[] = dlsym(library, :sab_packed_sampler_get_info)
    _sab_probe_new[] = dlsym(library, :sab_probe_new)
    _sab_probe_callbacks_new[] = dlsym(library, :sab_probe_callbacks_new)
    _sab_probe_reset[] = dlsym(library, :sab_probe_reset)
    _sab_probe_get_stats[] = dlsym(library, :sab_probe_get_stats)
    _sab_probe_release_cache[] = dlsym(library, :sab_probe_release_cache)
    _sab_probe_free[] = dlsym(library, :sab_probe_free)
    _sab_peaks_new[] = dlsym(library, :sab_peaks_new)
    _sab_collect_peak[] = dlsym(library, :sab_collect_peak)
    _sab_peaks_get_view[] = dlsym(library, :sab_peaks_get_view)
    _sab_peaks_free[] = dlsym(library, :sab_peaks_free)
    _sab_measurement_points_find[] = dlsym(library, :sab_measurement_points_find)
    _sab_memory_model_fit_new[] = dlsym(library, :sab_memory_model_fit_new)
    _sab_memory_model_get_info[] = dlsym(library, :sab_memory_model_get_info)
    _sab_memory_model_predict[] = dlsym(library, :sab_memory_model_predict)
    _sab_memory_model_cost_new[] = dlsym(library, :sab_memory_model_cost_new)
    _sab_memory_model_save[] = dlsym(library, :sab_memory_model_save)
    _sab_memory_model_file_new[] = dlsym(library, :sab_memory_model_file_new)
    _sab_memory_model_write[] = dlsym(library, :sab_memory_model_write)
    _sab_memory_model_bytes_new[] = dlsym(library, :sab_memory_model_bytes_new)
    _sab_memory_model_free[] = dlsym(library, :sab_memory_model_free)
    _sab_bionemo_create_buckets[] = something(dlsym(library, :sab_bionemo_create_buckets; throw_error=false), C_NULL)
    _sab_bionemo_size_aware_stream_sampler_new[] = something(dlsym(library, :sab_bionemo_size_aware_stream_sampler_new; throw_error=false), C_NULL)
    _sab_bionemo_sampler_new[] = something(dlsym(library, :sab_bionemo_sampler_new; throw_error=false), C_NULL)
    _sab_bionemo_sampler_get_generator[] = something(dlsym(library, :sab_bionemo_sampler_get_generator; throw_error=false), C_NULL)
    _sab_bionemo_sampler_set_generator[] = something(dlsym(library, :sab_bionemo_sampler_set_generator; throw_error=false), C_NULL)
    _sab_bagua_batches_add[] = something(dlsym(library, :sab_bagua_batches_add; throw_error=false), C_NULL)
    _sab_bagua_sampler_new[] = something(dlsym(library, :sab_bagua_sampler_new; throw_error=false), C_NULL)
    _sab_sizes_file_new[] = something(dlsym(library, :sab_sizes_file_new; throw_error=false), C_NULL)
    _sab_items_partition[] = something(dlsym(library, :sab_items_partition; throw_error=false), C_NULL)
    _sab_balanced_sampler_new[] = something(dlsym(library, :sab_balanced_sampler_new; throw_error=false), C_NULL)
    _sab_balanced_sampler_get_report[] = something(dlsym(library, :sab_balanced_sampler_get_report; throw_error=false), C_NULL)
    _sab_step_plan_new[] = something(dlsym(library, :sab_step_plan_new; throw_error=false), C_NULL)
    _sab_step_plan_get_view[] = something(dlsym(library, :sab_step_plan_get_view; throw_error=false), C_NULL)
    _sab_step_plan_get_loss_weights[] = something(dlsym(library, :sab_step_plan_get_loss_weights; throw_error=false), C_NULL)
    _sab_step_plan_free[] = something(dlsym(library, :sab_step_plan_free; throw_error=false), C_NULL)
    _sab_context_plan_new[] = something(dlsym(library, :sab_context_plan_new; throw_error=false), C_NULL)
    _sab_context_plan_get_view[] = something(dlsym(library, :sab_context_plan_get_view; throw_error=false), C_NULL)
    _sab_context_plan_free[] = something(dlsym(library, :sab_context_plan_free; throw_error=false), C_NULL)
    _sab_mixture_new[] = something(dlsym(library, :sab_mixture_new; throw_error=false), C_NULL)
    _sab_mixture_get_source[] = something(dlsym(library, :sab_mixture_get_source; throw_error=false), C_NULL)
    _sab_mixture_get_counts[] = something(dlsym(library, :sab_mixture_get_counts; throw_error=false), C_NULL)
    _sab_mixture_get_report[] = something(dlsym(library, :sab_mixture_get_report; throw_error=false), C_NULL)
    _sab_histogram_new[] = something(dlsym(library, :sab_histogram_new; throw_error=false), C_NULL)
    _sab_histogram_add[] = something(dlsym(library, :sab_histogram_add; throw_error=false), C_NULL)
    _sab_histogram_merge[] = something(dlsym(library, :sab_histogram_merge; throw_error=false), C_NULL)
    _sab_histogram_subtract[] = something(dlsym(library, :sab_histogram_subtract; throw_error=false), C_NULL)
    _sab_histogram_get_info[] = something(dlsym(library, :sab_histogram_get_info; throw_error=false), C_NULL)
    _sab_histogram_write[] = something(dlsym(library, :sab_histogram_write; throw_error=false), C_NULL)
    _sab_histogram_bytes_new[] = something(dlsym(library, :sab_histogram_bytes_new; throw_error=false), C_NULL)
    _sab_histogram_free[] = something(dlsym(library, :sab_histogram_free; throw_error=false), C_NULL)
    _sab_histogram_epoch_new[] = something(dlsym(library, :sab_histogram_epoch_new; throw_error=false), C_NULL)
    _sab_histogram_plan_new[] = something(dlsym(library, :sab_histogram_plan_new; throw_error=false), C_NULL)
    _sab_histogram_plan_locate[] = something(dlsym(library, :sab_histogram_plan_locate; throw_error=false), C_NULL)
    _sab_histogram_packing_new[] = something(dlsym(library, :sab_histogram_packing_new; throw_error=false), C_NULL)
    _sab_packing_get_info[] = something(dlsym(library, :sab_packing_get_info; throw_error=false), C_NULL)
    _sab_packing_get_patterns[] = something(dlsym(library, :sab_packing_get_patterns; throw_error=false), C_NULL)
    _sab_packing_locate[] = something(dlsym(library, :sab_packing_locate; throw_error=false), C_NULL)
    _sab_packing_free[] = something(dlsym(library, :sab_packing_free; throw_error=false), C_NULL)
    _sab_max_batch_find[] = something(dlsym(library, :sab_max_batch_find; throw_error=false), C_NULL)
    _sab_step_run_in_chunks[] = something(dlsym(library, :sab_step_run_in_chunks; throw_error=false), C_NULL)
    _sab_memory_guard_new[] = something(dlsym(library, :sab_memory_guard_new; throw_error=false), C_NULL)
    _sab_memory_guard_begin[] = something(dlsym(library, :sab_memory_guard_begin; throw_error=false), C_NULL)
    _sab_memory_guard_end[] = something(dlsym(library, :sab_memory_guard_end; throw_error=false), C_NULL)
    _sab_memory_guard_get_info[] = something(dlsym(library, :sab_memory_guard_get_info; throw_error=false), C_NULL)
    _sab_memory_guard_step[] = something(dlsym(library, :sab_memory_guard_step; throw_error=false), C_NULL)
    _sab_memory_guard_free[] = something(dlsym(library, :sab_memory_guard_free; throw_error=false), C_NULL)
    _sab_stream_next[] = something(dlsym(library, :sab_stream_next; throw_error=false), C_NULL)
    _sab_stream_set_progress[] = something(dlsym(library, :sab_stream_set_progress; throw_error=false), C_NULL)
    _sab_stream_rewind[] = something(dlsym(library, :sab_stream_rewind; throw_error=false), C_NULL)
    _sab_stream_get_skipped_count[] = something(dlsym(library, :sab_stream_get_skipped_count; throw_error=false), C_NULL)
    _sab_stream_state_save[] = something(dlsym(library, :sab_stream_state_save; throw_error=false), C_NULL)
    _sab_stream_state_restore[] = something(dlsym(library, :sab_stream_state_restore; throw_error=false), C_NULL)
    _sab_stream_free[] = something(dlsym(library, :sab_stream_free; throw_error=false), C_NULL)
    _sab_stream_abandon[] = something(dlsym(library, :sab_stream_abandon; throw_error=false), C_NULL)
    _sab_list_stream_new[] = something(dlsym(library, :sab_list_stream_new; throw_error=false), C_NULL)
    _sab_callback_stream_new[] = something(dlsym(library, :sab_callback_stream_new; throw_error=false), C_NULL)
    _sab_random_stream_new[] = something(dlsym(library, :sab_random_stream_new; throw_error=false), C_NULL)
    _sab_files_stream_new[] = something(dlsym(library, :sab_files_stream_new; throw_error=false), C_NULL)
    _sab_map_stream_new[] = something(dlsym(library, :sab_map_stream_new; throw_error=false), C_NULL)
    _sab_text_size_stream_new[] = something(dlsym(library, :sab_text_size_stream_new; throw_error=false), C_NULL)
    _sab_select_stream_new[] = something(dlsym(library, :sab_select_stream_new; throw_error=false), C_NULL)
    _sab_flatten_stream_new[] = something(dlsym(library, :sab_flatten_stream_new; throw_error=false), C_NULL)
    _sab_recurrent_stream_new[] = something(dlsym(library, :sab_recurrent_stream_new; throw_error=false), C_NULL)
    _sab_random_draw_real[] = something(dlsym(library, :sab_random_draw_real; throw_error=false), C_NULL)
    _sab_random_draw_bits[] = something(dlsym(library, :sab_random_draw_bits; throw_error=false), C_NULL)
    _sab_random_map_stream_new[] = something(dlsym(library, :sab_random_map_stream_new; throw_error=false), C_NULL)
    _sab_zip_stream_new[] = something(dlsym(library, :sab_zip_stream_new; throw_error=false), C_NULL)
    _sab_multiplex_stream_new[] = something(dlsym(library, :sab_multiplex_stream_new; throw_error=false), C_NULL)
    _sab_mix_stream_new[] = something(dlsym(library, :sab_mix_stream_new; throw_error=false), C_NULL)
    _sab_shard_stream_new[] = something(dlsym(library, :sab_shard_stream_new; throw_error=false), C_NULL)
    _sab_batch_stream_new[] = something(dlsym(library, :sab_batch_stream_new; throw_error=false), C_NULL)
    _sab_window_stream_new[] = something(dlsym(library, :sab_window_stream_new; throw_error=false), C_NULL)
    _sab_shuffle_stream_new[] = something(dlsym(library, :sab_shuffle_stream_new; throw_error=false), C_NULL)
    _sab_readahead_stream_new[] = something(dlsym(library, :sab_readahead_stream_new; throw_error=false), C_NULL)
    _sab_pack_stream_new[] = something(dlsym(library, :sab_pack_stream_new; throw_error=false), C_NULL)
    _sab_prefetch_stream_new[] = something(dlsym(library, :sab_prefetch_stream_new; throw_error=false), C_NULL)
    _sab_thresholds_find[] = something(dlsym(library, :sab_thresholds_find; throw_error=false), C_NULL)
    _sab_grouping_thresholds_new[] = something(dlsym(library, :sab_grouping_thresholds_new; throw_error=false), C_NULL)
    _sab_grouping_predefined_new[] = something(dlsym(library, :sab_grouping_predefined_new; throw_error=false), C_NULL)
    _sab_grouping_partition_new[] = something(dlsym(library, :sab_grouping_partition_new; throw_error=false), C_NULL)
    _sab_grouping_get_view[] = something(dlsym(library, :sab_grouping_get_view; throw_error=false), C_NULL)
    _sab_grouping_free[] = something(dlsym(library, :sab_grouping_free; throw_error=false), C_NULL)
    _sab_ragged_get_padded_shape[] = something(dlsym(library, :sab_ragged_get_padded_shape; throw_error=false), C_NULL)
    _sab_ragged_pad[] = something(dlsym(library, :sab_ragged_pad; throw_error=false), C_NULL)
    _sab_ragged_unpad[] = something(dlsym(library, :sab_ragged_unpad; throw_error=false), C_NULL)
    _sab_ragged_mask[] = something(dlsym(library, :sab_ragged_mask; throw_error=false), C_NULL)
    _sab_cache_new[] = something(dlsym(library, :sab_cache_new; throw_error=false), C_NULL)
    _sab_cache_get[] = something(dlsym(library, :sab_cache_get; throw_error=false), C_NULL)
    _sab_cache_put[] = something(dlsym(library, :sab_cache_put; throw_error=false), C_NULL)
    _sab_cache_get_or_load[] = something(dlsym(library, :sab_cache_get_or_load; throw_error=false), C_NULL)
    _sab_cache_get_many[] = something(dlsym(library, :sab_cache_get_many; throw_error=false), C_NULL)
    _sab_cache_put_many[] = something(dlsym(library, :sab_cache_put_many; throw_error=false), C_NULL)
    _sab_cache_flush[] = something(dlsym(library, :sab_cache_flush; throw_error=false), C_NULL)
    _sab_cache_get_key_count[] = something(dlsym(library, :sab_cache_get_key_count; throw_error=false), C_NULL)
    _sab_cache_clear[] = something(dlsym(library, :sab_cache_clear; throw_error=false), C_NULL)
    _sab_cache_get_stats[] = something(dlsym(library, :sab_cache_get_stats; throw_error=false), C_NULL)
    _sab_cache_value_data[] = something(dlsym(library, :sab_cache_value_data; throw_error=false), C_NULL)
    _sab_cache_value_free[] = something(dlsym(library, :sab_cache_value_free; throw_error=false), C_NULL)
    _sab_cache_free[] = something(dlsym(library, :sab_cache_free; throw_error=false), C_NULL)
    _sab_torch_open[] = something(dlsym(library, :sab_torch_open; throw_error=false), C_NULL)
    _sab_torch_indices_new[] = something(dlsym(library, :sab_torch_indices_new; throw_error=false), C_NULL)
    _sab_torch_store_new[] = something(dlsym(library, :sab_torch_store_new; throw_error=false), C_NULL)
    _sab_torch_store_all_gather[] = something(dlsym(library, :sab_torch_store_all_gather; throw_error=false), C_NULL)
    _sab_torch_store_free[] = something(dlsym(library, :sab_torch_store_free; throw_error=false), C_NULL)
    _sab_torch_collection_new[] = something(dlsym(library, :sab_torch_collection_new; throw_error=false), C_NULL)
    _sab_torch_collection_lengths_new[] = something(dlsym(library, :sab_torch_collection_lengths_new; throw_error=false), C_NULL)
    _sab_torch_collection_grouped_new[] = something(dlsym(library, :sab_torch_collection_grouped_new; throw_error=false), C_NULL)
    _sab_torch_collection_ungrouped_new[] = something(dlsym(library, :sab_torch_collection_ungrouped_new; throw_error=false), C_NULL)
    _sab_torch_collection_outputs_new[] = something(dlsym(library, :sab_torch_collection_outputs_new; throw_error=false), C_NULL)
    _sab_torch_collection_get_info[] = something(dlsym(library, :sab_torch_collection_get_info; throw_error=false), C_NULL)
    _sab_torch_collection_get_tensor[] = something(dlsym(library, :sab_torch_collection_get_tensor; throw_error=false), C_NULL)
    _sab_torch_collection_get_mask[] = something(dlsym(library, :sab_torch_collection_get_mask; throw_error=false), C_NULL)
    _sab_torch_collection_free[] = something(dlsym(library, :sab_torch_collection_free; throw_error=false), C_NULL)
end

end # module
