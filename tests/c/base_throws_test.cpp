// Callbacks must not throw. What becomes of an exception that leaves one all the same: the call
// fails with its text, and nothing is lost.
#include <new>
#include <stdexcept>
#include <string>

#include "budgets.h"
#include "expect.h"

struct Counter {
    int calls = 0, released = 0;
};

static void Callback_ThatThrows_FailsTheCall() {
    sab_sizes *sizes = nullptr;
    const sab_size_fn throws = [](void *, int64_t index, double *) -> int32_t {
        throw std::runtime_error("no size of " + std::to_string(index));
    };
    EXPECT_FAILS(sab_sizes_callback_new(5, throws, nullptr, nullptr, &sizes), SAB_E_INTERNAL,
                 "no size of 0");
    const sab_size_fn throws_a_number = [](void *, int64_t, double *) -> int32_t { throw 5; };
    EXPECT_FAILS(sab_sizes_callback_new(5, throws_a_number, nullptr, nullptr, &sizes),
                 SAB_E_INTERNAL, "exception");
    const sab_size_fn has_no_memory = [](void *, int64_t, double *) -> int32_t {
        throw std::bad_alloc();
    };
    EXPECT_FAILS(sab_sizes_callback_new(5, has_no_memory, nullptr, nullptr, &sizes),
                 SAB_E_NO_MEMORY, "memory");
    EXPECT(sizes == nullptr);
}

static void Callback_ThatThrowsInAThreadOfTheLibrary_FailsTheCallThatNeedsIt() {
    Counter counter;
    sab_source_functions functions = SAB_SOURCE_FUNCTIONS_INIT;
    functions.ctx = &counter;
    functions.next = [](void *ctx, sab_record *record) -> int32_t {
        if (++static_cast<Counter *>(ctx)->calls == 3) throw std::runtime_error("no third record");
        record->data = "a";
        record->length = 1;
        return 0;
    };
    functions.release = [](void *ctx) { ++static_cast<Counter *>(ctx)->released; };
    sab_stream *stream = nullptr;
    EXPECT_OK(sab_callback_stream_new(&functions, &stream));
    EXPECT_OK(sab_prefetch_stream_new(stream, 100, &stream));
    sab_record record = {};
    EXPECT_OK(sab_stream_next(stream, &record));
    EXPECT_OK(sab_stream_next(stream, &record));
    EXPECT_FAILS(sab_stream_next(stream, &record), SAB_E_CALLBACK, "no third record");
    sab_stream_free(stream);
    EXPECT(counter.released == 1);
}

static void LogCallback_ThatThrows_IsPassedOver() {
    const int32_t tokens[] = {1, 2, 100};
    sab_sizes *sizes = nullptr;
    sab_plan *plan = nullptr;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 10);
    options.oversize = SAB_OVERSIZE_SKIP;
    Counter counter;
    const auto throws = [](void *ctx, sab_log_level, const char *) {
        ++static_cast<Counter *>(ctx)->calls;
        throw std::runtime_error("no log");
    };
    sab_log_set_callback(throws, &counter);
    EXPECT_OK(sab_sizes_new(tokens, 3, SAB_INT32, nullptr, &sizes));
    EXPECT_OK(sab_plan_new(sizes, &options, &plan));
    sab_log_set_callback(nullptr, nullptr);
    EXPECT(counter.calls == 1);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

int main() {
    RUN(Callback_ThatThrows_FailsTheCall);
    RUN(Callback_ThatThrowsInAThreadOfTheLibrary_FailsTheCallThatNeedsIt);
    RUN(LogCallback_ThatThrows_IsPassedOver);
    return finish();
}
