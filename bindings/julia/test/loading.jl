# How the library is found, in processes of their own.

function loading(environment...)
    code = "try using SAB; print(SAB.version()) catch error; print(sprint(showerror, error)) end"
    return withenv(() -> read(`$(Base.julia_cmd()) --project=$(dirname(dirname(pathof(SAB)))) --startup-file=no -e $code`, String), environment...)
end

@testset "finding the library" begin
    @test SAB.version() == VersionNumber(unsafe_string(Raw.sab_version_string()))
    @test loading() == string(SAB.version())
    folder = dirname(ENV["SAB_LIBRARY"])
    @test loading("SAB_LIBRARY" => nothing, "LD_LIBRARY_PATH" => join([folder; get(ENV, "LD_LIBRARY_PATH", "")], ":")) == string(SAB.version())
    missed = loading("SAB_LIBRARY" => "/nowhere/libsab.so.0")
    @test occursin("/nowhere/libsab.so.0", missed) && occursin("SAB_LIBRARY", missed) && occursin("Install it", missed)
end

@testset "a library of another binary interface is refused" begin
    words(version) = "$(version ÷ 1000).$(version % 1000)"
    mktempdir() do folder
        for version in SAB.ABI_VERSION .+ (1, -1, 1000)
            source, library = joinpath(folder, "other.c"), joinpath(folder, "libsab.so.0")
            write(source, "unsigned sab_abi_version(void) { return $version; }")
            run(`cc -shared -o $library $source`)
            refused = loading("SAB_LIBRARY" => library)
            @test occursin("$library = $(words(version)): must be $(words(SAB.ABI_VERSION))", refused)
        end
    end
end

@testset "a struct has its size, and else zeros" begin
    types = filter(type -> type isa DataType && type <: Raw.Struct && type !== Raw.Struct, [getfield(Raw, name) for name in names(Raw; all = true)])
    @test length(types) > 50
    for type in types
        value = type()
        bytes = GC.@preserve value unsafe_wrap(Vector{UInt8}, Ptr{UInt8}(pointer_from_objref(value)), sizeof(type)) |> copy
        @test (type, value.struct_size, all(iszero, bytes[sizeof(Csize_t)+1:end])) == (type, sizeof(type), true)
    end
end
