using Logging
using SAB
using SAB: Raw, SABError
using Serialization
using Test

# Sizes by the rule of the golden vectors.
function made_sizes(count, modulus)
    x = UInt64(1)
    return map(1:count) do _
        x = x * 6364136223846793005 + 1442695040888963407
        UInt32(1 + (x >> 33) % UInt64(modulus))
    end
end

# What a call throws; its status when the library refused it.
function thrown(call)
    try
        call()
    catch exception
        return exception
    end
    return nothing
end
status(call) = (exception = thrown(call); exception isa SABError ? exception.status : exception)

# The file image of a plan or memory model.
image(handle) = (io = IOBuffer(); write(io, handle); seekstart(io))

quietly(call) = with_logger(call, NullLogger())

@testset "SAB" begin
    include("golden.jl")
    include("interface.jl")
    include("sizes.jl")
    include("columns.jl")
    include("mixtures.jl")
    include("engine.jl")
    include("arrow.jl")
    include("samplers.jl")
    include("errors.jl")
    include("refused.jl")
    include("callbacks.jl")
    include("memory.jl")
    include("streams.jl")
    include("groups.jl")
    include("contexts.jl")
    include("step_plans.jl")
    include("caches.jl")
    include("threads.jl")
    include("copies.jl")
    include("loading.jl")
end
