# The interface of the module: names, fields, iterators, finalizers.

# The names that the package defines, without the raw layer's.
own_names() = filter(name -> !startswith(string(name), r"[#_]") && isdefined(SAB, name), names(SAB; all = true))

@testset "every export has a docstring, and none is a name of Base" begin
    exported = filter(!=(:SAB), names(SAB))
    @test length(exported) > 70
    documented = Set(binding.var for binding in keys(Base.Docs.meta(SAB)) if binding.mod === SAB)
    @test setdiff(exported, documented) == []
    @test intersect(exported, names(Base)) == []
    @test all(name in documented for name in (:report, :buckets, :info, :skipped, :state, :budget, :budgets, :epoch, :stats, :url, :terms, :ranks, :generator, :partition, :version))
end

# A type whose values are stored without a box, such as a vector, or a small union of such types.
is_stored(type) = type isa Union ? is_stored(type.a) && is_stored(type.b) : isconcretetype(type) || type <: Vector

@testset "fields are concrete for concrete parameters" begin
    types = [getfield(SAB, name) for name in own_names() if getfield(SAB, name) isa Type && isstructtype(Base.unwrap_unionall(getfield(SAB, name)))]
    @test length(types) > 25
    for type in types, field in fieldtypes(Base.unwrap_unionall(type))
        @test (type, field isa TypeVar || is_stored(field)) == (type, true)
    end
    for name in names(Raw; all = true)
        type = getfield(Raw, name)
        type isa DataType && isstructtype(type) || continue
        @test (type, all(isconcretetype, fieldtypes(type))) == (type, true)
    end
    plan = SAB.Plan([1, 2]; budget = 5, cost = (count, length) -> count * length)
    for handle in (plan, SAB.BucketSampler(plan), SAB.Sizes([1]), SAB.Probe("host"), SAB.BionemoSizeAwareStream((epoch, position) -> nothing, 3), SAB.map_stream(identity, SAB.array_stream([1])))
        @test isconcretetype(typeof(handle))
    end
end

@testset "no keyword hides Base.size" begin
    methods_of(value) = value isa Function || value isa Type ? methods(value) : ()
    found = [method for name in own_names() for method in methods_of(getfield(SAB, name)) if method.module === SAB && :size in Base.kwarg_decl(method)]
    @test found == []
end

# One of each kind of sampler, and of stream.
function every_sampler()
    sizes = made_sizes(300, 50)
    plan = SAB.Plan(sizes; budget = 256)
    bounded = SAB.Plan(sizes; boundaries = [0, 20, 51], batch_size = 4)
    made = (
        OrderedSampler = () -> SAB.OrderedSampler(sizes, 100), BionemoSampler = () -> SAB.BionemoSampler(bounded), PackedSampler = () -> SAB.PackedSampler(sizes, 64),
        BionemoSizeAwareStream = () -> SAB.BionemoSizeAwareStream((epoch, position) -> position < 9 ? (position, 1.0) : nothing, 2),
        BalancedSampler = () -> SAB.BalancedSampler(sizes; samples = 20), ShardedSampler = () -> SAB.ShardedSampler(sizes, bytes -> [bytes]; rank = 0, world_size = 1, budget = 256),
        BaguaSampler = () -> SAB.BaguaSampler(sizes), BaguaBatchSampler = () -> SAB.BaguaBatchSampler(sizes; budget = 200)
    )
    kinds = filter(name -> getfield(SAB, name) isa Type && getfield(SAB, name) <: SAB.Sampler && !(name in (:Sampler, :CostliestSampler)), own_names())
    return [get(made, name, () -> getfield(SAB, name)(plan))() for name in kinds] # the others are of a plan
end
function every_stream()
    numbers() = SAB.array_stream(1:20)
    return [
        SAB.list_stream(["a", "b"]), numbers(), SAB.iterable_stream(1:5), SAB.map_stream(identity, numbers()), SAB.size_stream(identity, numbers()), SAB.select_stream(x -> 1:x, numbers()),
        SAB.flatten_stream(SAB.batch_stream(numbers(), 2)), SAB.recurrent_stream((sum, x) -> (sum + x, sum), numbers(), 0), SAB.random_map_stream((random, x) -> x, numbers()),
        SAB.zip_stream(numbers(), numbers()), SAB.multiplex_stream(SAB.size_stream(x -> 0, numbers()), numbers()), SAB.mix_stream(numbers(), numbers(); proportions = [2, 1]), SAB.shard_stream(numbers(), 0, 2), SAB.batch_stream(numbers(), 3),
        SAB.window_stream(numbers(), 3), SAB.block_shuffle_stream(numbers(), 4), SAB.buffered_shuffle_stream(numbers(), 4), SAB.readahead_stream(numbers(); batch_size = 4),
        SAB.pack_stream(SAB.size_stream(identity, numbers()), 30), SAB.prefetch_stream(numbers())
    ]
end

@testset "IteratorSize agrees with length" begin
    samplers, streams = every_sampler(), every_stream()
    @test length(samplers) >= 10
    for iterator in [samplers; streams]
        @test Base.IteratorSize(iterator) === Base.SizeUnknown()
        @test !applicable(length, iterator)
        items = collect(iterator)
        @test length(items) > 0 && items isa Vector{eltype(iterator)}
    end
    grouping = SAB.Grouping([1, 9, 3] => [5])
    @test Base.IteratorSize(grouping) === Base.HasLength() && length(grouping) == length(collect(grouping)) == 2
    @test length(SAB.Sizes([4, 5, 6])) == 3
    # Why samplers have no length: what is left of an epoch, and a lowered budget.
    sampler = SAB.BucketSampler(SAB.Plan(made_sizes(300, 50); budget = 256))
    count = batch_count(sampler)
    @test length(collect(seek(sampler, 3))) == count - 3
    steps = [(step == 3 && SAB.set_budget!(sampler, 64); step) for (step, batch) in enumerate(sampler)]
    @test steps == 1:length(steps) && length(steps) > count
    @test [batch_count(sampler) for sampler in every_sampler() if sampler isa BucketSampler] == [count]
end

# A handle that cannot be freed, here and in a process of its own.
const BROKEN = """
    struct NeverFreed end
    mutable struct Broken <: SAB.Handle{NeverFreed}
        pointer::Ptr{NeverFreed}
        Broken() = finalizer(SAB.finish, new(Ptr{NeverFreed}(8)))
    end
    SAB.free(::Ptr{NeverFreed}) = error("cannot be freed")
    """
include_string(@__MODULE__, BROKEN)

@testset "finalizers never throw" begin
    @test SAB.finish(Broken()) === nothing
    @test_throws ErrorException SAB.release(Broken())
    wrong = Ref(1) # not what the library was given
    @test GC.@preserve wrong SAB.release_made(C_NULL, Base.pointer_from_objref(wrong)) === nothing
    # Julia prints what a finalizer throws; the library may be closed before the last handle is.
    code = """
        using SAB
        $BROKEN
        plan = Plan([1, 2, 3]; budget = 5)
        kept = Any[plan, BucketSampler(plan), map_stream(x -> [x], array_stream(1:9)), SAB.Cache("memory:"), Broken()]
        library = SAB.Libdl.dlopen(ENV["SAB_LIBRARY"])
        foreach(_ -> SAB.Libdl.dlclose(library), 1:2) # also that of the package
        finalize(kept[1])
        finalize(kept[end])
        print("finalized")
    """
    output = read(pipeline(`$(Base.julia_cmd()) --project=$(dirname(dirname(pathof(SAB)))) --startup-file=no -e $code`; stderr = stdout), String)
    @test output == "finalized"
end
