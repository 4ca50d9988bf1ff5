// Scenarios in which each allocation fails in turn. A scenario sets up handles, calls functions
// through CALL and its kin, and notes everything that the calls gave. It is played without failures
// first; then again and again, each time with another allocation failing. The failed call must say
// so, change nothing and succeed when it is made again, and the rest must be what it was without
// the failure.
#ifndef ALLOCATIONS_HARNESS_H
#define ALLOCATIONS_HARNESS_H

#include <sab.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

/// What fails while a scenario is played.
enum class Fails {
    nothing,
    one,        ///< an allocation of the calling thread, inside a call
    rest,       ///< that allocation and all others of the calling thread until the call returns
    in_threads  ///< an allocation of a thread that the library started
};

struct Play {
    Fails what = Fails::nothing;
    long at = -1;  ///< the number of the allocation that fails, from 0
    /// the number of the skippable call that is not made, or not made again after it failed
    int left_out = -1;
};

class Run {
public:
    /// The bytes of a result, which a failed call must leave alone. Of a handle also NULL is right.
    struct Out {
        void *data;
        std::size_t size;
        bool is_handle;
    };
    template <class Result>
    static Out out(Result &result) {
        return {&result, sizeof result, std::is_pointer<Result>::value};
    }
    template <class Item>
    static Out out(std::vector<Item> &items) {
        return {items.data(), items.size() * sizeof(Item), false};
    }

    enum class Kind { must, skippable, once, fails };
    /// Makes a call. `text` is its source text, which begins with the function's name.
    template <class Call>
    sab_status call(const char *text, Kind kind, sab_status expected, Call &&body,
                    const std::vector<Out> &outs = {}) {
        if (is_left_out(text, kind)) return left_out;
        const Before before(*this, outs);
        for (int tries = 0; tries < 3; ++tries) {
            enter(text);
            const sab_status status = body();
            leave();
            if (is_done(status, kind, expected, before, outs)) return status;
            if (kind == Kind::once) return status;
            if (gives_up()) return left_out;
        }
        trouble("fails again and again", sab_last_error_message());
        return -1000;
    }

    /// Calls a function without a status: gives what it returns. Also for callbacks.
    template <class Call>
    auto plain(const char *text, Call &&body) {
        struct Entered {
            explicit Entered(const char *text) { enter_plain(text); }
            ~Entered() { leave_plain(); }
        };
        const Entered entered(text);
        return body();
    }

    /// Notes what the library gave.
    void note(const void *data, std::size_t size);
    void note(uint64_t number) { note(&number, sizeof number); }
    void note(double number) { note(&number, sizeof number); }
    void note_text(const char *text) { note(text, std::strlen(text)); }
    void note_batch(const sab_batch &batch);
    void note_rows(const sab_batch &batch, const sab_rows &rows);
    void note_step(const sab_step &step);
    void note_record(const sab_record &record);

    /// A `ctx` whose `release` is counted: must be called exactly once in the run.
    void *context();
    static void release(void *ctx);
    /// Objects that callbacks give away and that must come back.
    static void *object(uint64_t value);
    static uint64_t value_of(const void *object);
    static void release_object(void *ctx, void *object);

    /// Another status that is right when an allocation fails, such as SAB_E_CALLBACK where a
    /// callback uses the library.
    void allow(sab_status status) { allowed_ = status; }
    void trouble(const char *what, const char *detail = "");
    void require(bool condition, const char *what) {
        if (!condition) trouble(what);
    }
    /// false in the runs that show what is usual
    bool can_fail() const { return play_.what != Fails::nothing; }

    static constexpr sab_status left_out = 1000;

private:
    friend class Driver;
    /// Results and releases as they were before a call.
    struct Before {
        Before(const Run &run, const std::vector<Out> &outs);
        std::vector<unsigned char> bytes;
        long releases;
    };
    bool is_left_out(const char *text, Kind kind);
    static void enter_plain(const char *text);
    static void leave_plain();
    void enter(const char *text);
    void leave();
    bool is_done(sab_status status, Kind kind, sab_status expected, const Before &before,
                 const std::vector<Out> &outs);
    bool gives_up() const;

    struct Context {
        Run *run;
        int released;
    };

    const char *scenario_ = "";
    Play play_;
    // all_notes_: with every call made
    std::vector<uint64_t> notes_, *expected_notes_ = nullptr, *all_notes_ = nullptr;
    uint64_t digest_ = 0;
    std::vector<Context *> contexts_;
    sab_status allowed_ = SAB_E_NO_MEMORY;
    const char *text_ = "";
    long troubles_ = 0;
    int skippable_ = 0, current_ = -1;  // skippable calls so far; the number of the call under way
    bool was_left_out_ = false, differs_ = false;
    long acknowledged_ = 0;
    std::vector<std::pair<long, long>> ranges_;  // of each skippable call: its allocations
};

/// A call that must be made, again where it failed.
#define CALL(expression) run.call(#expression, Run::Kind::must, SAB_OK, [&] { return expression; })
/// The same of a call that fills `result`, which must be left alone when it fails.
#define CALL_INTO(result, expression) \
    run.call(#expression, Run::Kind::must, SAB_OK, [&] { return expression; }, {Run::out(result)})
/// A call that may also be left out: after it failed, what follows must be what it would be if it
/// had not been made.
#define CALL_OR_SKIP(expression) \
    run.call(#expression, Run::Kind::skippable, SAB_OK, [&] { return expression; })
/// A call that fails with `status` even when there is memory.
#define CALL_FAILS(status, expression) \
    run.call(#expression, Run::Kind::fails, status, [&] { return expression; })
/// A call that is not made again when it fails.
#define CALL_ONCE(expression) \
    run.call(#expression, Run::Kind::once, SAB_OK, [&] { return expression; })
/// A call of a function without a status, which cannot fail: gives what it returns.
#define CALL_PLAIN(expression) run.plain(#expression, [&] { return expression; })

enum class Threads { none, some };

struct Scenario {
    const char *name;
    std::function<void(Run &run)> play;
    Threads threads;
};
std::vector<Scenario> &scenarios();
struct Registered {
    Registered(const char *name, void (*play)(Run &run), Threads threads) {
        scenarios().push_back({name, play, threads});
    }
};

/// Defines a scenario. `threads` says whether the library starts threads in it, whose allocations
/// then fail, too.
#define SCENARIO(name, threads)                                             \
    static void play_##name(Run &run);                                      \
    static const Registered registered_##name(#name, play_##name, threads); \
    static void play_##name(Run &run)

/// Plays a scenario with every allocation failing in turn, in this process. Gives the number of
/// troubles.
long play_all(const Scenario &scenario, long every);

/// What the process that plays a scenario tells the one that started it, also when it is killed.
struct Shared {
    long points;
    char where[400];
    unsigned char covered[1024];  // by the number of the function in `functions`
};
extern Shared *shared;
extern std::vector<std::string> functions;

/// A folder for files of this run of the test.
extern std::string folder;

#endif
