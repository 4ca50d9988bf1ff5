# The golden vectors that every binding reads: tests/golden of the repository, whose README.md
# describes the format.

const GOLDEN = joinpath(@__DIR__, "..", "..", "..", "tests", "golden")

numbers(words) = [parse(Int, word) for word in words]
reals(words) = [parse(Float64, word) for word in words]

# Weights of columns as terms.
weight_terms(weights) = [(weight, 1, ntuple(each -> Int(each == column), length(weights))) for (column, weight) in enumerate(weights) if weight > 0]

# The keywords of a plan or packing out of lines such as ["buckets", "optimal", "4"].
function golden_keywords(lines, columns)
    given = Dict{Symbol,Any}()
    budgets = [line for line in lines if line[1] == "budget"]
    for (key, value, more) in map(line -> (line[1], line[2], line[3:end]), lines)
        if key == "boundaries"
            edges = reals([value; more])
            given[:boundaries] = columns == 1 ? edges : [edges[first:first+columns-1] for first in 1:columns:length(edges)]
        elseif key == "budget" && (length(budgets) > 1 || !isempty(more))
            given[:budget] = [Budget(parse(Float64, line[2]); cost = length(line) == 2 ? nothing : weight_terms(reals(line[3:end]))) for line in budgets]
        elseif key in ("length_multiples", "row_multiples")
            given[Symbol(chop(key))] = reals([value; more])
        elseif key in ("separate_by", "capacities", "id_shapes")
            given[Symbol(key)] = numbers([value; more])
        elseif key == "buckets"
            value == "optimal" && (given[:buckets] = parse(Int, more[1]))
        else
            given[Symbol(key)] = something(tryparse(Int, value), tryparse(Float64, value), Symbol(value))
        end
    end
    haskey(given, :id_shapes) && (given[:max_shapes] = Dict(zip(sort(unique(given[:separate_by])), pop!(given, :id_shapes))))
    return given
end

function golden_mixture(sizes, lines)
    given = Dict{Symbol,Any}(:schedule => [])
    by_id(values) = Dict(zip(0:length(values)-1, reals(values)))
    for (key, values) in map(line -> (line[1], line[2:end]), lines)
        key == "sources" && (given[:sources] = reduce(vcat, [fill(id - 1, count) for (id, count) in enumerate(numbers(values))]))
        key == "repeats" && (given[:repeat] = by_id(values))
        key == "schedule" && push!(given[:schedule], parse(Int, values[1]) => by_id(values[2:end]))
        key == "seed" && (given[:seed] = parse(UInt64, values[1]))
    end
    return SAB.Mixture(sizes; given...)
end

function golden_sampler(case)
    kind, columns = case.kind[1], length(case.sizes)
    plain = columns == 1 ? case.sizes[1] : [string(number - 1) => column for (number, column) in enumerate(case.sizes)]
    sizes = isempty(case.mixture) ? plain : golden_mixture(plain, case.mixture)
    walk = Dict(Symbol(key) => something(tryparse(UInt64, value), Symbol(value)) for (key, value) in case.options)
    kind == "balanced" && return SAB.BalancedSampler(sizes; golden_keywords(case.balanced, columns)..., walk...)
    kind == "sharded" && return SAB.ShardedSampler(sizes, mine -> fill(mine, Int(walk[:world_size])); golden_keywords(case.plan, columns)..., walk...)
    if kind == "packed"
        given = golden_keywords(case.pack, columns)
        capacity = pop!(given, columns == 1 ? :capacity : :capacities)
        haskey(given, :split) && (given[:split] = given[:split] == 1)
        return SAB.PackedSampler(sizes, capacity; given..., walk...)
    end
    source = isempty(case.plan) ? sizes : SAB.Plan(sizes; golden_keywords(case.plan, columns)...)
    type = getfield(SAB, Symbol(replace(titlecase(kind), "_" => ""), "Sampler"))
    return type(source, numbers(case.kind[2:end])...; walk...)
end

hash_word(hash, word) = foldl((hash, byte) -> (hash ⊻ byte) * 0x00000100000001b3, reinterpret(UInt8, [htol(UInt64(word))]); init = hash)

function digest(sampler)
    hash, steps = 0xcbf29ce484222325, 0
    for batch in sampler
        hash = hash_word(hash, length(batch))
        for index in parent(batch.indices)
            hash = hash_word(hash, index)
        end
        steps += 1
    end
    return ["$steps", string(hash; base = 16, pad = 16)]
end

new_case(name) = (name = name, sizes = Vector{UInt32}[], mixture = Any[], plan = Any[], pack = Any[], balanced = Any[], options = Any[], kind = String[])

# Checks the vectors of a text; the names of cases that differ, and how many cases there are.
function golden(text)
    differ, cases = String[], 0
    case, sampler, batch, expects_end = new_case(""), nothing, nothing, false
    column = 0 # of the cumulative lengths seen last
    differs() = case.name in differ || push!(differ, case.name)
    for line in eachline(IOBuffer(text))
        words = split(line)
        (isempty(words) || startswith(line, "#")) && continue
        key, values = words[1], words[2:end]
        if expects_end && !(key in ("batch", "padded_length", "cu_seqlens", "cu_seqlens_unpadded", "starts", "step"))
            SAB.next_batch!(sampler) === nothing || differs()
            expects_end = false
        end
        if key == "case"
            case, sampler = new_case(values[1]), nothing
            cases += 1
        elseif key == "sizes"
            push!(case.sizes, numbers(values))
        elseif key == "sizes_rule"
            push!(case.sizes, made_sizes(numbers(values)...))
        elseif key == "mixture"
            push!(case.mixture, values)
        elseif key == "plan"
            push!(case.plan, values)
        elseif key == "pack"
            push!(case.pack, values)
        elseif key == "balanced"
            push!(case.balanced, values)
        elseif key == "option"
            push!(case.options, values)
        elseif key == "sampler"
            append!(case.kind, values)
        elseif key == "epoch"
            sampler === nothing && (sampler = golden_sampler(case))
            SAB.set_epoch!(sampler, parse(UInt64, values[1]))
        elseif key == "batch"
            batch, expects_end, column = SAB.next_batch!(sampler), true, 0
            batch !== nothing && parent(batch.indices) == numbers(values) || differs()
        elseif key == "cu_seqlens"
            column += 1
            (length(case.sizes) == 1 ? batch.cu_seqlens : batch.cu_seqlens[column]) == numbers(values) || differs()
        elseif key == "cu_seqlens_unpadded"
            column += 1
            (length(case.sizes) == 1 ? batch.cu_seqlens_unpadded : batch.cu_seqlens_unpadded[column-length(case.sizes)]) == numbers(values) || differs()
        elseif key == "padded_length"
            [batch.padded_length;] == numbers(values) || differs()
        elseif key == "starts"
            batch.starts == numbers(values) || differs()
        elseif key == "step"
            step = SAB.step(sampler)
            [batch.step; batch.micro_batch; step.micro_batches; step.samples; step.total] == numbers(values) || differs()
        elseif key == "digest"
            digest(sampler) == values || differs()
        elseif key != "end"
            error("$(case.name): unknown line $line")
        end
    end
    return differ, cases
end

@testset "golden vectors" begin
    for file in filter(name -> endswith(name, ".txt"), readdir(GOLDEN))
        differ, cases = quietly(() -> golden(read(joinpath(GOLDEN, file), String)))
        @test differ == []
        @test cases > 0
    end
    # A wrong vector is noticed.
    @test golden("case swapped\nsizes 3 1\nplan batch_size 2\nsampler sequential\nepoch 0\nbatch 0 1\nend\n") == (["swapped"], 1)
end
