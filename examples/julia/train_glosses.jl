# In the documentation, with arguments: 5000
# Trains a small model to predict the part of speech of a WordNet gloss: one epoch with static
# batches, and one with batches of libsab.
#
# Both have the same glosses, model, seed, optimizer and average number of glosses a step; only the
# batches differ. The model is in plain Julia, with gradients by hand: embeddings of the words,
# their mean with weights of a small attention, a linear layer, softmax. Padding takes computing
# time, as on a device.
#
#     julia --project=bindings/julia examples/julia/train_glosses.jl [NUMBER OF GLOSSES]
#
# The glosses are those of Debian's package wordnet-base.

using LinearAlgebra: BLAS, mul!
using Printf: @printf
using Random: MersenneTwister, randn!, shuffle
using SAB

const PARTS = ("noun", "verb", "adj", "adv")
const WORDS = 1 << 14
const WIDTH = 48

"(gloss, part of speech) of each synset."
function glosses(folder = "/usr/share/wordnet")
    found = Tuple{String,Int}[]
    for (part, name) in enumerate(PARTS), line in eachline(joinpath(folder, "data.$name"))
        # Without the licence at the top.
        startswith(line, "  ") || push!(found, (lowercase(split(line, "| "; limit = 2)[2]), part))
    end
    return found
end

"Numbers of the words, from 2, in the order in which they first appear; 1 is padding."
function numbered(texts)
    ids = Dict{SubString{String},Int32}()
    return [Int32[2 + get!(ids, word, Int32(length(ids))) % (WORDS - 1) for word in split(text)] for text in texts]
end

# ---- The model ----

const Parameters = NamedTuple{(:embedding, :hidden, :attention, :tell, :bias),Tuple{Matrix{Float32},Matrix{Float32},Vector{Float32},Matrix{Float32},Vector{Float32}}}

function new_model(random)
    scaled(scale, size...) = randn!(random, Array{Float32}(undef, size...)) .* Float32(scale)
    return Parameters((scaled(0.1, WIDTH, WORDS), scaled(1 / sqrt(WIDTH), WIDTH, WIDTH), zeros(Float32, WIDTH), scaled(1 / sqrt(WIDTH), length(PARTS), WIDTH), zeros(Float32, length(PARTS))))
end

"Activations of a batch of padded words (a column each); the last are the logits."
function forward(model, words)
    length_, count = size(words)
    seen = model.embedding[:, vec(words)]                      # width × places
    hidden = tanh.(model.hidden * seen)
    scores = reshape(hidden' * model.attention, length_, count)
    weights = ifelse.(words .== 1, 0.0f0, exp.(scores))        # none on padding
    weights ./= sum(weights; dims = 1)
    means = dropdims(sum(reshape(hidden, WIDTH, length_, count) .* reshape(weights, 1, length_, count); dims = 2); dims = 2)
    return seen, hidden, weights, means, model.tell * means .+ model.bias
end

"""
The loss of a batch and its gradients. Those of the embedding are in `places`, a column for each
place of the batch.
"""
function gradients(model, words, parts)
    length_, count = size(words)
    seen, hidden, weights, means, logits = forward(model, words)
    chances = exp.(logits .- maximum(logits; dims = 1))
    chances ./= sum(chances; dims = 1)
    loss = -sum(log(chances[part, column]) for (column, part) in enumerate(parts)) / count
    of_logits = chances ./ count
    for (column, part) in enumerate(parts)
        of_logits[part, column] -= 1.0f0 / count
    end
    of_means = model.tell' * of_logits
    shaped = reshape(hidden, WIDTH, length_, count)
    of_weights = dropdims(sum(shaped .* reshape(of_means, WIDTH, 1, count); dims = 1); dims = 1)
    of_scores = weights .* (of_weights .- sum(weights .* of_weights; dims = 1))
    of_hidden = reshape(reshape(weights, 1, length_, count) .* reshape(of_means, WIDTH, 1, count), WIDTH, :) .+ model.attention .* reshape(of_scores, 1, :)
    of_hidden .*= 1 .- hidden .^ 2
    rest = (hidden = of_hidden * seen', attention = hidden * vec(of_scores), tell = of_logits * means', bias = vec(sum(of_logits; dims = 2)))
    return loss, rest, model.hidden' * of_hidden
end

"AdaGrad: the step of each number depends on its own past gradients."
function step!(model, past, words, rest, places, rate = 0.05f0)
    for name in keys(rest)
        gradient = rest[name]
        past[name] .+= gradient .^ 2
        model[name] .-= rate .* gradient ./ (sqrt.(past[name]) .+ 1.0f-6)
    end
    for (place, word) in enumerate(words)
        word == 1 && continue
        for row in 1:WIDTH
            gradient = places[row, place]
            past.embedding[row, word] += gradient^2
            model.embedding[row, word] -= rate * gradient / (sqrt(past.embedding[row, word]) + 1.0f-6)
        end
    end
end

# ---- Training ----

# [run]
"Trains on pairs of indices and weight. Returns seconds, padding, and accuracy on the test batches."
function run(batches, words, parts, test)
    model = new_model(MersenneTwister(0))
    past = map(zero, model)
    real = padded = 0
    seconds = @elapsed for (indices, weight) in batches
        data = pad(words[indices]; value = Int32(1))
        _, rest, places = gradients(model, data, parts[indices])
        step!(model, past, data, map(gradient -> gradient .* weight, rest), places .* weight)
        real += sum(length, words[indices])
        padded += length(data)
    end
    right = sum(test) do indices
        logits = forward(model, pad(words[indices]; value = Int32(1)))[end]
        count(argmax(logits[:, column]) == parts[index] for (column, index) in enumerate(indices))
    end
    return seconds, 1 - real / padded, right / sum(length, test)
end
# [end]

function main(count)
    BLAS.set_num_threads(2)
    all = shuffle(MersenneTwister(0), glosses())
    chosen = all[1:min(count, length(all))]
    words, parts = numbered(first.(chosen)), last.(chosen)
    sizes = length.(words)
    held_out = length(sizes) ÷ 10
    train = (held_out + 1):length(sizes)
    test = [batch.indices for batch in SequentialSampler(Plan(sizes[1:held_out]; budget = 4096))]

    # [batches]
    static_size = 64
    static = [(indices, 1.0f0) for indices in Iterators.partition(shuffle(MersenneTwister(1), train), static_size)]
    # The budget with the same average number of glosses a step.
    plan = Plan(sizes[train]; budget = static_size * sum(sizes[train]) / length(train) * 1.02)
    ours = [(train[batch.indices], Float32(batch.sample_weight)) for batch in BucketSampler(plan; seed = 0)]
    # [end]

    run(static[1:min(3, end)], words, parts, test[1:1]) # compiles
    println("$(length(train)) glosses to train on, $held_out held out; one epoch each")
    @printf("%-24s%10s%10s%10s%10s\n", "", "batches", "seconds", "padding", "accuracy")
    for (name, batches) in ("static batches of $static_size" => static, "libsab" => ours)
        seconds, padding, accuracy = run(batches, words, parts, test)
        @printf("%-24s%10d%10.1f%9.1f%%%9.1f%%\n", name, length(batches), seconds, 100padding, 100accuracy)
    end
end

main(isempty(ARGS) ? typemax(Int) : parse(Int, ARGS[1]))
