#include "harness.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <new>

// ---- Memory that runs out ----

#if defined(MALLOC_OF_SANITIZER)
#define REAL(function) __interceptor_##function
#else
#define REAL(function) __libc_##function
#endif
extern "C" {
void *REAL(malloc)(size_t);
void *REAL(calloc)(size_t, size_t);
void *REAL(realloc)(void *, size_t);
void REAL(free)(void *);
void *REAL(memalign)(size_t, size_t);
}

namespace {

thread_local bool is_caller = false;  // the thread that plays
thread_local int in_call = 0;         // calls under way, one in a callback of another
std::atomic<Fails> what_fails{Fails::nothing};
std::atomic<long> counted{0};  // allocations so far that may fail in this mode
std::atomic<long> fails_at{-1};
std::atomic<long> failures{0};
std::atomic<long> live{0};  // blocks
std::atomic<long> releases{0};
std::atomic<long> objects{0};

#if defined(MALLOC_OF_SANITIZER)
// the sanitizer allocates by malloc() where it begins a thread, and ends the program when that
// fails
constexpr bool only_new_fails_in_threads = true;
#else
constexpr bool only_new_fails_in_threads = false;
#endif

bool fails(bool is_new = false) {
    const Fails what = what_fails.load();
    const bool counts = what == Fails::in_threads
                            ? !is_caller && (is_new || !only_new_fails_in_threads)
                            : in_call > 0;
    if (!counts) return false;
    const long number = counted.fetch_add(1), at = fails_at.load();
    if (at < 0 || number < at || (number > at && what != Fails::rest)) return false;
    failures.fetch_add(1);
    errno = ENOMEM;
    return true;
}

void *counted_block(void *block) {
    if (block != nullptr) live.fetch_add(1);
    return block;
}

}  // namespace

extern "C" {
void *malloc(size_t size) noexcept {
    return fails() ? nullptr : counted_block(REAL(malloc)(size));
}
void *calloc(size_t count, size_t size) noexcept {
    return fails() ? nullptr : counted_block(REAL(calloc)(count, size));
}
void *realloc(void *block, size_t size) noexcept {
    if (fails()) return nullptr;
    void *const moved = REAL(realloc)(block, size);
    if (block == nullptr && moved != nullptr) live.fetch_add(1);
    if (block != nullptr && moved == nullptr && size == 0) live.fetch_sub(1);
    return moved;
}
void free(void *block) noexcept {
    if (block == nullptr) return;
    live.fetch_sub(1);
    REAL(free)(block);
}
void *memalign(size_t alignment, size_t size) noexcept {
    return fails() ? nullptr : counted_block(REAL(memalign)(alignment, size));
}
void *aligned_alloc(size_t alignment, size_t size) noexcept {
    return memalign(alignment, size);
}
int posix_memalign(void **block, size_t alignment, size_t size) noexcept {
    void *const made = memalign(alignment, size);
    if (made == nullptr) return ENOMEM;
    *block = made;
    return 0;
}
}

// The address sanitizer's operator new does not call malloc.
void *operator new(std::size_t size, const std::nothrow_t &) noexcept {
    return fails(true) ? nullptr : counted_block(REAL(malloc)(size == 0 ? 1 : size));
}
void *operator new(std::size_t size) {
    if (void *const block = operator new(size, std::nothrow)) return block;
    throw std::bad_alloc();
}
void *operator new(std::size_t size, std::align_val_t alignment) {
    if (!fails(true))
        if (void *const block = counted_block(
                REAL(memalign)(static_cast<std::size_t>(alignment), size == 0 ? 1 : size)))
            return block;
    throw std::bad_alloc();
}
void *operator new[](std::size_t size) {
    return operator new(size);
}
void *operator new[](std::size_t size, const std::nothrow_t &none) noexcept {
    return operator new(size, none);
}
void *operator new[](std::size_t size, std::align_val_t alignment) {
    return operator new(size, alignment);
}
void operator delete(void *block) noexcept {
    free(block);
}
void operator delete(void *block, std::size_t) noexcept {
    free(block);
}
void operator delete(void *block, std::align_val_t) noexcept {
    free(block);
}
void operator delete(void *block, std::size_t, std::align_val_t) noexcept {
    free(block);
}
void operator delete(void *block, const std::nothrow_t &) noexcept {
    free(block);
}
void operator delete[](void *block) noexcept {
    free(block);
}
void operator delete[](void *block, std::size_t) noexcept {
    free(block);
}
void operator delete[](void *block, std::align_val_t) noexcept {
    free(block);
}
void operator delete[](void *block, std::size_t, std::align_val_t) noexcept {
    free(block);
}
void operator delete[](void *block, const std::nothrow_t &) noexcept {
    free(block);
}

// ---- Calls ----

Shared *shared;
std::vector<std::string> functions;
std::string folder;

std::vector<Scenario> &scenarios() {
    static std::vector<Scenario> all;
    return all;
}

namespace {

const char *name_of(Fails what) {
    switch (what) {
        case Fails::one: return "one";
        case Fails::rest: return "all from";
        case Fails::in_threads: return "in a thread";
        default: return "none";
    }
}

void mark_covered(const char *text) {
    const std::size_t size = std::strcspn(text, "( ");
    const auto found =
        std::find_if(functions.begin(), functions.end(), [&](const std::string &each) {
            return each.size() == size && std::strncmp(each.c_str(), text, size) == 0;
        });
    if (found != functions.end()) shared->covered[found - functions.begin()] = 1;
}

int open_files() {
    int count = 0;
    DIR *const all = opendir("/proc/self/fd");
    while (all != nullptr && readdir(all) != nullptr) ++count;
    if (all != nullptr) closedir(all);
    return count;
}

}  // namespace

Run::Before::Before(const Run &, const std::vector<Out> &outs) : releases(::releases) {
    for (const Out &out : outs) {
        const auto *data = static_cast<const unsigned char *>(out.data);
        bytes.insert(bytes.end(), data, data + out.size);
    }
}

bool Run::is_left_out(const char *text, Kind kind) {
    text_ = text;
    if (expected_notes_ == nullptr) mark_covered(text);
    current_ = kind == Kind::skippable ? skippable_++ : -1;
    if (current_ >= 0) ranges_.push_back({counted, counted});
    const bool leaves = current_ >= 0 && current_ == play_.left_out && play_.what == Fails::nothing;
    return leaves;
}

void Run::enter(const char *text) {
    std::snprintf(shared->where, sizeof shared->where, "%s, allocation %ld fails (%s), in %.200s",
                  scenario_, play_.at, name_of(play_.what), text);
    ++in_call;
}

void Run::enter_plain(const char *text) {
    mark_covered(text);
    ++in_call;
}

void Run::leave_plain() {
    --in_call;
}

void Run::leave() {
    --in_call;
    if (current_ >= 0) ranges_.back().second = counted;
    if (play_.what == Fails::rest && failures > 0) what_fails = Fails::nothing;
}

bool Run::is_done(sab_status status, Kind kind, sab_status expected, const Before &before,
                  const std::vector<Out> &outs) {
    const bool has_new_failure = failures > acknowledged_;
    // what failed in a thread may be reported by a later call
    if (play_.what != Fails::in_threads || status < 0) acknowledged_ = failures;
    if (status >= 0 && kind != Kind::fails) {
        // The call to be left out succeeded, without the memory or with allocations numbered
        // otherwise: what follows is that of the play with every call made.
        if (current_ >= 0 && current_ == play_.left_out) expected_notes_ = all_notes_;
        return true;
    }
    if (kind == Kind::fails && status == expected) return true;
    if (!has_new_failure) {
        trouble("fails although memory was there", sab_last_error_message());
        return true;
    }
    if (status != SAB_E_NO_MEMORY && status != allowed_)
        trouble(sab_status_name(status), sab_last_error_message());
    if (sab_last_error_message()[0] == '\0') trouble("has no message");
    if (releases != before.releases) trouble("calls release although it failed");
    std::size_t first = 0;
    for (const Out &out : outs) {
        static const void *const none = nullptr;
        const bool is_null = out.is_handle && std::memcmp(out.data, &none, sizeof none) == 0;
        if (!is_null && std::memcmp(out.data, before.bytes.data() + first, out.size) != 0)
            trouble("changes its result although it failed");
        first += out.size;
    }
    was_left_out_ = current_ >= 0 && current_ == play_.left_out;
    return false;
}

bool Run::gives_up() const {
    return was_left_out_ && current_ == play_.left_out;
}

void Run::trouble(const char *what, const char *detail) {
    if (++troubles_ <= 4)
        std::fprintf(stderr, "%s: allocation %ld fails (%s%s): %.160s: %s%s%s\n", scenario_,
                     play_.at, name_of(play_.what),
                     play_.left_out >= 0 ? ", call not repeated" : "", text_, what,
                     detail[0] == '\0' ? "" : ": ", detail);
}

// ---- What the library gave ----

void Run::note(const void *data, std::size_t size) {
    const auto *bytes = static_cast<const unsigned char *>(data);
    for (std::size_t i = 0; i < size; ++i) digest_ = (digest_ ^ bytes[i]) * 1099511628211u;
    if (expected_notes_ == nullptr) {
        notes_.push_back(digest_);
        return;
    }
    const std::size_t number = notes_.size();
    notes_.push_back(digest_);
    if (!differs_ && (number >= expected_notes_->size() || (*expected_notes_)[number] != digest_)) {
        differs_ = true;
        trouble("gives something else than without the failure");
    }
}

void Run::note_batch(const sab_batch &batch) {
    note(batch.indices, batch.count * sizeof *batch.indices);
    for (const double *numbers : {batch.longest, batch.total, batch.padded_length})
        note(numbers, batch.columns * sizeof *numbers);
    for (const uint64_t number :
         {uint64_t{batch.count}, static_cast<uint64_t>(batch.layout),
          static_cast<uint64_t>(batch.bucket), batch.epoch, batch.step, batch.micro_batch})
        note(number);
}

void Run::note_rows(const sab_batch &batch, const sab_rows &rows) {
    if (rows.cu_seqlens != nullptr)
        note(rows.cu_seqlens[0], (batch.count + 1) * sizeof rows.cu_seqlens[0][0]);
    if (rows.starts != nullptr) note(rows.starts, batch.count * sizeof *rows.starts);
    note(*rows.capacity);
}

void Run::note_step(const sab_step &step) {
    note(step.micro_batches);
    note(step.samples);
    note(*step.totals);
}

void Run::note_record(const sab_record &record) {
    note(static_cast<uint64_t>(record.kind));
    note(record.size);
    note(static_cast<uint64_t>(record.length));
    if (record.kind == SAB_RECORD_OBJECT) return note(value_of(record.data));
    if (record.kind == SAB_RECORD_BYTES) return note(record.data, record.length);
    for (std::size_t i = 0; i < record.length; ++i)
        note_record(static_cast<const sab_record *>(record.data)[i]);
}

void *Run::context() {
    contexts_.push_back(new Context{this, 0});
    return contexts_.back();
}

void Run::release(void *ctx) {
    ++static_cast<Context *>(ctx)->released;
    ++releases;
}

// Objects are counted, not allocated: a callback of the test must not run out of memory itself.
void *Run::object(uint64_t value) {
    ++objects;
    return reinterpret_cast<void *>(value * 8 + 8);
}
uint64_t Run::value_of(const void *object) {
    return reinterpret_cast<uint64_t>(object) / 8 - 1;
}
void Run::release_object(void *, void *) {
    --objects;
}

// ---- Every allocation in turn ----

class Driver {
public:
    Driver(const Scenario &scenario, long every) : scenario_(scenario), every_(every) {}

    long play_all() {
        is_caller = true;
        play({});
        const Result twice[] = {play({}), play({})};
        const Result &base = twice[1];
        if (twice[0].notes != base.notes) return complain("does not give the same twice");
        expected_ = all_ = base.notes;
        for (const Fails what : {Fails::one, Fails::rest})
            fail_each({what, 0, -1}, base.allocations);
        for (std::size_t call = 0; call < base.ranges.size(); ++call) {
            expected_.clear();
            Play without;
            without.left_out = static_cast<int>(call);
            expected_ = play(without).notes;
            fail_each({Fails::one, base.ranges[call].first, static_cast<int>(call)},
                      base.ranges[call].second);
        }
        expected_ = base.notes;
        if (scenario_.threads == Threads::some) fail_each({Fails::in_threads, 0, -1}, unknown);
        return troubles_;
    }

private:
    static constexpr long most_points = 100;  // of a scenario, where not every allocation fails
    static constexpr long unknown = 1000000;  // number of allocations

    struct Result {
        std::vector<uint64_t> notes;
        std::vector<std::pair<long, long>> ranges;
        long allocations, grown;
        bool has_failed;
    };

    long complain(const char *what) {
        std::fprintf(stderr, "%s: %s\n", scenario_.name, what);
        return ++troubles_;
    }

    void fail_each(Play play_, long end) {
        // Threads take turns as they like: it is over when no allocation has failed some times in a
        // row.
        const int patience = scenario_.threads == Threads::some ? 3 : 1;
        // Long scenarios make the same calls many times.
        const long step = every_ == 1 || end == unknown
                              ? every_
                              : std::max(every_, (end - play_.at) / most_points);
        int misses = 0;
        for (; play_.at < end && misses < patience && troubles_ < 8; play_.at += step) {
            const Result got = play(play_);
            misses = got.has_failed ? 0 : misses + 1;
            shared->points += got.has_failed;
            // What stays after one failure only may be kept by the system for its next thread; what
            // stays after each is lost.
            int times = got.grown > 0;
            for (int i = 0; i < 3 && times == i + 1; ++i) times += play(play_).grown > 0;
            if (times == 4) {
                std::fprintf(stderr, "%s: allocation %ld fails (%s): %ld blocks are never freed\n",
                             scenario_.name, play_.at, name_of(play_.what), got.grown);
                ++troubles_;
            }
        }
    }

    Result play(const Play &play) {
        alarm(10);  // a call that hangs
        const int files = open_files();
        const long live_before = live, objects_before = objects;
        Result result{};
        long run_troubles = 0;
        {
            Run run;
            run.scenario_ = scenario_.name;
            run.play_ = play;
            run.expected_notes_ = expected_.empty() ? nullptr : &expected_;
            run.all_notes_ = &all_;
            what_fails = play.what;
            fails_at = play.at;
            counted = failures = 0;
            scenario_.play(run);
            what_fails = Fails::nothing;
            run.text_ = "at the end";
            if (run.expected_notes_ != nullptr && !run.differs_ &&
                run.notes_.size() != run.expected_notes_->size())
                run.trouble("gives less than without the failure");
            for (Run::Context *const context : run.contexts_) {
                if (context->released != 1) run.trouble("a ctx was not released exactly once");
                delete context;
            }
            if (objects != objects_before) run.trouble("objects were not released exactly once");
            if (open_files() != files) run.trouble("files stay open");
            result.has_failed = failures > 0;
            result.allocations = counted;
            run_troubles = run.troubles_;
            if (play.what == Fails::nothing) {
                result.notes = std::move(run.notes_);
                result.ranges = std::move(run.ranges_);
            }
        }
        objects = objects_before;
        troubles_ += run_troubles;
        result.grown = run_troubles > 0 || play.what == Fails::nothing ? 0 : live - live_before;
        return result;
    }

    const Scenario &scenario_;
    long every_;
    long troubles_ = 0;
    std::vector<uint64_t> expected_, all_;
};

long play_all(const Scenario &scenario, long every) {
    return Driver(scenario, every).play_all();
}
