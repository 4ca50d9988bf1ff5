// Batches of at most 64 padded tokens. Run: java --enable-native-access=ALL-UNNAMED First.java
import static java.lang.foreign.ValueLayout.*;
import java.lang.foreign.*;
import java.lang.invoke.MethodHandle;

class First {
    static final Arena arena = Arena.ofShared(); // keeps what is allocated from it at its address
    static final SymbolLookup library = SymbolLookup.libraryLookup("libsab.so.0", arena);

    static MethodHandle function(String name, MemoryLayout... parameters) { // that returns a sab_status
        return Linker.nativeLinker().downcallHandle(library.find(name).get(), FunctionDescriptor.of(JAVA_INT, parameters));
    }

    static int check(Object status) throws Throwable { // the message belongs to the thread
        if ((int)status >= 0) return (int)status;
        var message = Linker.nativeLinker().downcallHandle(library.find("sab_last_error_message").get(), FunctionDescriptor.of(ADDRESS));
        throw new RuntimeException(((MemorySegment)message.invoke()).reinterpret(1024).getString(0));
    }

    static MemorySegment struct(long size) { // all zero but its size
        var made = arena.allocate(size, 8);
        made.set(JAVA_LONG, 0, size);
        return made;
    }

    static void free(String name, MemorySegment handle) throws Throwable {
        Linker.nativeLinker().downcallHandle(library.find(name).get(), FunctionDescriptor.ofVoid(ADDRESS)).invoke(handle.get(ADDRESS, 0));
    }

    public static void main(String[] arguments) throws Throwable {
        var lengths = arena.allocateFrom(JAVA_INT, 12, 7, 30, 8, 9, 31, 7, 12, 29, 8);
        // Sizes and offsets are those of sab_abi.json.
        var budget = arena.allocate(32 /* sab_budget */, 8);
        budget.set(JAVA_DOUBLE, 8 /* sab_budget.limit */, 64);
        var options = struct(192 /* sab_plan_options */);
        options.set(ADDRESS, 8 /* sab_plan_options.budgets */, budget);
        options.set(JAVA_LONG, 16 /* sab_plan_options.budget_count */, 1);

        MemorySegment sizes = arena.allocate(ADDRESS), plan = arena.allocate(ADDRESS), sampler = arena.allocate(ADDRESS);
        check(function("sab_sizes_new", ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, ADDRESS)
            .invoke(lengths, 10L, 3 /* SAB_INT32 */, MemorySegment.NULL, sizes));
        check(function("sab_plan_new", ADDRESS, ADDRESS, ADDRESS).invoke(sizes.get(ADDRESS, 0), options, plan));
        check(function("sab_bucket_sampler_new", ADDRESS, ADDRESS, ADDRESS)
            .invoke(plan.get(ADDRESS, 0), MemorySegment.NULL, sampler));
        var batch = struct(120 /* sab_batch */);
        var next = function("sab_next_batch", ADDRESS, ADDRESS);
        while (check(next.invoke(sampler.get(ADDRESS, 0), batch)) == 0) {
            var padded = batch.get(ADDRESS, 48 /* sab_batch.padded_length */).reinterpret(8).get(JAVA_DOUBLE, 0);
            var count = batch.get(JAVA_LONG, 16 /* sab_batch.count */);
            var indices = batch.get(ADDRESS, 8 /* sab_batch.indices */).reinterpret(8 * count).toArray(JAVA_LONG);
            System.out.printf("padded to %2.0f:", padded);
            for (var index : indices) System.out.printf(" %d", index);
            System.out.println();
        }
        free("sab_sampler_free", sampler);
        free("sab_plan_free", plan);
        free("sab_sizes_free", sizes);
    }
}
