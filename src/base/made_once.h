#pragma once
/// A value that is made when it is needed first.

#include <atomic>
#include <memory>

namespace sab {

/// Threads may share it. Where several need it first, each makes the value, and one of them is
/// kept.
template <class Value>
class MadeOnce {
public:
    MadeOnce() = default;
    ~MadeOnce() { delete made_.load(); }
    MadeOnce(const MadeOnce&) = delete;
    MadeOnce& operator=(const MadeOnce&) = delete;

    /// NULL before it is made.
    [[gnu::always_inline]] const Value* known() const {
        return made_.load(std::memory_order_acquire);
    }
    /// The value, which `make` returns as a unique pointer. If it throws, the next call tries
    /// again.
    template <class Make>
    [[gnu::noinline]] const Value& get(const Make& make) const {
        if (const Value* made = known()) return *made;
        std::unique_ptr<const Value> made = make();
        const Value* expected = nullptr;
        return made_.compare_exchange_strong(expected, made.get()) ? *made.release() : *expected;
    }

private:
    mutable std::atomic<const Value*> made_{nullptr};
};

}  // namespace sab
