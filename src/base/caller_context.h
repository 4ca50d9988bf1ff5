#pragma once
/// The context of a caller's callback.

namespace sab {

/// A caller's context. It is released with the object that holds it, but only once own() was
/// called: while a constructor can fail it is the caller's.
class CallerContext {
public:
    CallerContext(void* pointer, void (*release)(void*)) : pointer_(pointer), release_(release) {}
    ~CallerContext() {
        if (is_owned_ && release_ != nullptr) release_(pointer_);
    }
    CallerContext(const CallerContext&) = delete;
    CallerContext& operator=(const CallerContext&) = delete;
    void own() noexcept { is_owned_ = true; }
    void* get() const { return pointer_; }

private:
    void* pointer_;
    void (*release_)(void*);
    bool is_owned_ = false;
};

}  // namespace sab
