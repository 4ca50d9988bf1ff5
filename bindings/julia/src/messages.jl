# Errors of the library in the words of Julia: `budget = -1` for `options.budgets[0].limit = -1`,
# `:drop` for `SAB_TAIL_DROP`. Indices count from 1.

include("names.jl")

# Where the package has other names than the fields of the options.
const KEYWORDS = Dict(
    "padding_target" => "padding",
    "bucket_count" => "buckets",
    "bucket_rule" => "buckets",
    "batch_sizes" => "batch_size",
    "budgets" => "budget",
    "capacities" => "capacity",
    "length_multiples" => "length_multiple",
    "limit" => "budget",
    "parents" => "parent",
    "patience" => "tolerate + 1",
    "repeats" => "repeat",
    "text_unit" => "units",
)
# What keywords that take one number call the first of an array.
const FIRST = ("budgets[0]" => "budget", "capacities[0]" => "capacity", "length_multiples[0]" => "length_multiple", "max_shapes[0]" => "max_shapes")
# What is said of a constant, where that is not its word.
const SAID = Dict("SAB_BUCKETS_BOUNDARIES" => "boundaries", "SAB_BUCKETS_OPTIMAL" => "a number of buckets", "SAB_TEXT_BYTES" => "nothing", "NULL" => "nothing")

begins_name(character) = isletter(character) || character == '_'
in_name(character) = begins_name(character) || isdigit(character)

# The parts of a text: names with their fields and indices, texts in quotes, and single characters.
function tokens(text)
    characters, found, at = collect(text), String[], 1
    while at <= length(characters)
        last = at
        if characters[at] == '"'
            last = something(findnext(==('"'), characters, at + 1), length(characters))
        elseif begins_name(characters[at])
            last = end_of_name(characters, at)
        elseif characters[at] == '['
            last = max(at, end_of_index(characters, at))
        end
        push!(found, String(characters[at:last]))
        at = last + 1
    end
    return found
end

function end_of_name(characters, at)
    while at < length(characters)
        next = characters[at + 1]
        if in_name(next) || (next == '.' && at + 1 < length(characters) && begins_name(characters[at + 2]))
            at += 1
        elseif end_of_index(characters, at + 1) > 0
            at = end_of_index(characters, at + 1)
        else
            break
        end
    end
    return at
end

# The place of the bracket that closes `[number]`; 0 where there is none.
function end_of_index(characters, at)
    characters[at] == '[' || return 0
    last = findnext(==(']'), characters, at)
    return last !== nothing && last > at + 1 && all(isdigit, characters[(at + 1):(last - 1)]) ? last : 0
end

# A text of the library with Julia's names in it.
function translated(text)
    words, said, at = tokens(text), String[], 1
    while at <= length(words)
        word = words[at]
        at += 1
        if haskey(SAID, word) || haskey(CHOICES, word)
            push!(said, get(SAID, word, get(CHOICES, word, word)))
            at = behind_number(words, at)
        elseif startswith(word, "sab_")
            push!(said, function_of(word))
        elseif !startswith(word, '"') && (occursin('[', word) || is_of_options(word))
            push!(said, own_name(word))
        else
            push!(said, word)
        end
    end
    return join(said)
end

# The place behind the ` (2)` that follows a constant.
function behind_number(words, at)
    at + 1 <= length(words) && words[at] == " " && words[at + 1] == "(" || return at
    last = findnext(==(")"), words, at)
    return last !== nothing && tryparse(Int, join(words[(at + 2):(last - 1)])) !== nothing ? last + 1 : at
end

is_of_options(name) = occursin('.', name) && first(split(name, '.')) in OPTIONS

# The name of an argument, or of an option without that of the options.
function own_name(name)
    is_of_options(name) && (name = name[(findfirst('.', name) + 1):end])
    haskey(COUNTED, name) && return "length($(own_name(COUNTED[name])))"
    endswith(name, "].limit") && (name = name[1:(end - length(".limit"))])
    for (first_of_array, own) in FIRST
        startswith(name, first_of_array) && return own * name[(length(first_of_array) + 1):end]
    end
    array, indices = split_at(name, findfirst('[', name))
    return get(KEYWORDS, array, array) * from_1(indices)
end

split_at(text, place) = place === nothing ? (text, "") : (text[1:(place - 1)], text[place:end])

# The indices `[0][3]` as `[1][4]`, with what else is there.
function from_1(text)
    characters, said, at = collect(text), "", 1
    while at <= length(characters)
        last = end_of_index(characters, at)
        if last > 0
            said *= "[$(parse(Int, String(characters[(at + 1):(last - 1)])) + 1)]"
            at = last + 1
        else
            said *= characters[at]
            at += 1
        end
    end
    return said
end

# `sab_bucket_sampler_new` is `BucketSampler`, `sab_sampler_set_budget` is `set_budget!`.
function function_of(name)
    haskey(FUNCTIONS, name) && return FUNCTIONS[name]
    endswith(name, "_sampler_new") || return name
    words = split(name[5:(end - 4)], '_')
    return "SAB." * join(map(uppercasefirst, words))
end
const FUNCTIONS = Dict(
    "sab_histogram_epoch_new" => "SAB.epoch",
    "sab_histogram_packing_new" => "SAB.Packing",
    "sab_histogram_plan_new" => "SAB.Plan",
    "sab_max_batch_find" => "SAB.find_max_batch",
    "sab_next_batch" => "SAB.next_batch!",
    "sab_packing_locate" => "SAB.locate",
    "sab_histogram_plan_locate" => "SAB.locate",
    "sab_sampler_at" => "getindex",
    "sab_sampler_get_budget" => "SAB.budget",
    "sab_sampler_seek" => "seek",
    "sab_sampler_set_budget" => "SAB.set_budget!",
    "sab_sampler_set_epoch" => "SAB.set_epoch!",
    "sab_sampler_state_save_at" => "SAB.state",
    "sab_sampler_state_restore" => "SAB.restore!",
    "sab_sampler_state_save" => "SAB.state",
    "sab_stream_next" => "SAB.next!",
    "sab_stream_rewind" => "seekstart",
    "sab_torch_open" => "SAB.torch_open",
)

# The parts of the last failure of this thread, and its message made of them.
function last_error()
    message, argument, value, rule = map(unsafe_string, (Raw.sab_last_error_message(), Raw.sab_last_error_argument(), Raw.sab_last_error_value(), Raw.sab_last_error_rule()))
    code = Raw.sab_last_error_code()
    isempty(argument) && return (message = translated(message), argument = "", value = value, rule = translated(rule), code = code)
    has_value, is_text = startswith(message, argument * " = "), startswith(message, argument * " = \"")
    own, own_rule, own_value = own_name(argument), translated(rule), is_text ? value : translated(value)
    startswith(argument, "options.parents[") && (own_value = string(parse(Int, value) + 1)) # a node
    shown = is_text ? " = \"$own_value\"" : has_value ? " = $own_value" : ""
    return (message = "$own$shown: $own_rule", argument = own, value = own_value, rule = own_rule, code = code)
end
