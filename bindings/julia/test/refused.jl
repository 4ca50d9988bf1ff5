# The calls of tests/golden/refused/calls.txt: each error names argument and value as Julia's users
# know them. README.md beside that folder explains the columns.

const REFUSED = joinpath(@__DIR__, "..", "..", "..", "tests", "golden", "refused", "calls.txt")

@testset "refused calls name argument and value" begin
    three, plan = [3, 1, 2], SAB.Plan([3, 1, 2]; budget = 3)
    mixture(second = three; given...) = SAB.Mixture((a = three, b = second); given...)
    model(feature, peak, degree) = SAB.MemoryModel(reshape([1, feature, 3, 4, 5], 1, 5), [10, 20, peak, 40, 50]; kind = :polynomial, degree = degree)
    file = tempname()
    write(file, "3\n1\n")
    calls = Dict(
        "plan_negative_budget" => () -> SAB.Plan(three; budget = -1),
        "plan_second_budget" => () -> SAB.Plan(three; budget = [9, NaN]),
        "plan_no_budget" => () -> SAB.Plan(three),
        "plan_padding" => () -> SAB.Plan(three; budget = 9, padding = 1.5),
        "plan_negative_size" => () -> SAB.Plan([1, 2, -3]; budget = 9),
        "plan_nan_size" => () -> SAB.Plan([1, NaN]; batch_size = 2),
        "plan_oversize" => () -> SAB.Plan([1, 99, 2]; budget = 9),
        "plan_none_left" => () -> SAB.Plan(three; boundaries = [10, 20], batch_size = 2, oversize = :skip),
        "plan_tail" => () -> SAB.Plan(three; batch_size = 4, tail = :drop),
        "plan_min_batch_size" => () -> SAB.Plan(three; budget = 9, min_batch_size = 5, max_batch_size = 3),
        "plan_histogram_threads" => () -> SAB.Plan(SAB.Histogram(three); batch_size = 2, threads = 2),
        "plan_file" => () -> read("/no/such/plan", SAB.Plan),
        "plan_file_folder" => () -> read("/", SAB.Plan),
        "plan_file_save" => () -> write("/no/such/folder/plan", plan),
        "sampler_rank" => () -> SAB.BucketSampler(plan; rank = 3, world_size = 2),
        "sampler_world_size" => () -> SAB.BucketSampler(plan; world_size = 1 << 33),
        "sampler_micro_batches" => () -> SAB.BucketSampler(plan; micro_batches = 1 << 21),
        "sampler_steps_per_epoch" => () -> SAB.BucketSampler(plan; steps_per_epoch = 1 << 33),
        "sampler_costliest" => () -> SAB.costliest_batches(plan, 0),
        "sampler_ordered" => () -> SAB.OrderedSampler(three, 0.5),
        "sampler_damaged_state" => () -> SAB.restore!(SAB.BucketSampler(plan), Vector{UInt8}("nothing")),
        "sampler_other_state" => () -> SAB.restore!(SAB.BucketSampler(plan; seed = 5), SAB.state(SAB.BucketSampler(plan))),
        "sizes_callback" => () -> SAB.Sizes(index -> throw(KeyError(index)), 3),
        "sizes_progress" => () -> SAB.Sizes(index -> 1, 3; progress = (done, total) -> false),
        "sizes_columns" => () -> SAB.Sizes((a = three, b = [1])),
        "sizes_file" => () -> SAB.Sizes("/no/such/sizes.npy"),
        "sizes_file_format" => () -> SAB.Sizes(file; format = "word"),
        "sizes_file_missing" => () -> SAB.Sizes(file; format = "text", missing = :skip),
        "cost_transformer" => () -> SAB.Cost(:transformer; hidden = 0, layers = 2),
        "pack_capacity" => () -> SAB.PackedSampler([5, 3], 0),
        "pack_oversize" => () -> SAB.PackedSampler([5, 3], 4),
        "pack_part_of_a_token" => () -> SAB.PackedSampler([3, 2.5], 4),
        "pack_window" => () -> SAB.PackedSampler([5, 3], 9; method = :best_fit, window = 7),
        "pack_tries" => () -> SAB.PackedSampler([5, 3], 9; method = :best_fit, tries = 7),
        "balance_costliest_first" => () -> SAB.BalancedSampler(three; samples = 2, costliest_first = 2),
        "balance_nothing" => () -> SAB.BalancedSampler(three),
        "balance_budget" => () -> SAB.BalancedSampler(three; budget = -1),
        "partition_parts" => () -> SAB.partition([1, 2], 0),
        "partition_cost" => () -> SAB.partition([1, NaN], 2),
        "mixture_repeats" => () -> mixture(; repeat = (b = -1,)),
        "mixture_temperature" => () -> mixture(; temperature = -1),
        "mixture_no_sample" => () -> mixture(Int[]),
        "model_feature" => () -> model(NaN, 30, 1),
        "model_peak" => () -> model(2, 0, 1),
        "model_degree" => () -> model(2, 30, 3),
        "memory_points" => () -> SAB.measurement_points(1, 9, 8; degree = 3, max_count = 64),
        "memory_device" => () -> SAB.Probe("nothing"),
        "stream_none_left" => () -> collect(SAB.readahead_stream(SAB.size_stream(identity, SAB.array_stream([3, 2])); budget = 1, oversize = :skip)),
    )
    for line in filter(line -> !startswith(line, '#'), readlines(REFUSED))
        name, kind, code, _, value, _, _, words = map(strip, split(line, '|'))
        words == "none" && continue
        exception = thrown(calls[name])
        if kind == "CALLBACK"
            @test exception isa KeyError
            continue
        end
        @test (name, exception isa SABError) == (name, true)
        exception isa SABError || continue
        @test (name, exception.status) == (name, getfield(Raw, Symbol("SAB_E_", kind)))
        if kind == "IO"
            @test (exception.code, exception.value) == (parse(Int, code), value)
        elseif words != "-"
            @test (name, first(split(exception.message, ": "))) == (name, words)
            @test join(filter(!isempty, [exception.argument, exception.value]), " = ") == replace(words, '"' => "")
        end
    end
end

@testset "errors of the contents of a file name the file" begin
    file = tempname()
    write(file, "5\nx\n")
    refused = thrown(() -> SAB.Sizes(file; format = "numbers"))
    @test (refused.status, refused.argument, refused.value) == (Raw.SAB_E_FORMAT, "", file)
    @test startswith(refused.rule, "line 2: ") && refused.message == "\"$file\", $(refused.rule)"
    refused = thrown(() -> read(IOBuffer("short"), SAB.Plan))
    @test (refused.argument, refused.value) == ("data", "")
end
