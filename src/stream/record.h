#pragma once
/// Records, and what keeps what they point to.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sab/stream.h"

namespace sab {

/// What records point into; goes with the last of them. Counted from any thread.
class Owner {
public:
    Owner() = default;
    virtual ~Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    void keep(uint32_t times) { count_.fetch_add(times, std::memory_order_relaxed); }
    void let_go(uint32_t times) {
        if (count_.fetch_sub(times, std::memory_order_acq_rel) == times) delete this;
    }

private:
    std::atomic<uint32_t> count_{1};
};

/// A share of an owner.
class Kept {
public:
    Kept() = default;
    /// Takes over one count that is there already.
    explicit Kept(Owner* owner) : owner_(owner) {}
    ~Kept() {
        if (owner_ != nullptr) owner_->let_go(1);
    }
    Kept(const Kept& other) : owner_(other.owner_) {
        if (owner_ != nullptr) owner_->keep(1);
    }
    Kept(Kept&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Kept& operator=(Kept other) noexcept {
        std::swap(owner_, other.owner_);
        return *this;
    }
    Owner* get() const { return owner_; }

private:
    Owner* owner_ = nullptr;
};

/// A record as C sees it, alive as long as this is.
struct Record {
    sab_record view{};
    Kept owner;

    bool is_list() const { return view.kind == SAB_RECORD_LIST; }
    std::string_view bytes() const { return {static_cast<const char*>(view.data), view.length}; }
};

/// Memory that fills up with the bytes of many records. Each takes its share without touching the
/// count, which was raised ahead.
class Block : public Owner {
public:
    explicit Block(std::size_t capacity) : capacity_(capacity), bytes_(new char[capacity]) {}
    char* data() { return bytes_.get(); }
    std::size_t capacity() const { return capacity_; }

private:
    std::size_t capacity_;
    std::unique_ptr<char[]> bytes_;
};

/// Hands out shares of a block.
class Shares {
public:
    Shares() = default;
    ~Shares() { drop(); }
    Shares(const Shares&) = delete;
    Shares& operator=(const Shares&) = delete;
    /// Another block, with its one count.
    void take(Block* block) {
        drop();
        block->keep(ahead);
        block_ = block;
        left_ = ahead;
    }
    Kept share() {
        if (left_ == 0) {
            block_->keep(ahead);
            left_ = ahead;
        }
        --left_;
        return Kept(block_);
    }
    Block* block() const { return block_; }
    void drop() {
        if (block_ != nullptr) std::exchange(block_, nullptr)->let_go(left_ + 1);
    }

private:
    static constexpr uint32_t ahead = 1u << 16;
    Block* block_ = nullptr;
    uint32_t left_ = 0;
};

/// The records of a list.
class List : public Owner {
public:
    void reserve(std::size_t count) {
        items.reserve(count);
        owners.reserve(count);
    }
    /// Makes room for one more record, so that add() does not allocate.
    void make_room() {
        if (items.size() == items.capacity() || owners.size() == owners.capacity()) grow();
    }
    void add(Record&& record);
    /// One of them, apart.
    Record at(std::size_t index) const { return {items[index], owners[index]}; }

    std::vector<sab_record> items;
    std::vector<Kept> owners;

private:
    void grow();
};

/// A record of a list, which is given away; its size is the sum.
Record list_record(std::unique_ptr<List> list);
inline const List& list_of(const Record& record) {
    return static_cast<const List&>(*record.owner.get());
}

/// A caller's functions of handles; shared by all that holds a handle.
using ObjectsPtr = std::shared_ptr<const sab_object_functions>;
using ObjectKinds = std::vector<ObjectsPtr>;
/// NULL: none; checked and copied.
ObjectsPtr objects_of(const sab_object_functions* given);

/// Holds a handle.
class Object : public Owner {
public:
    ~Object() override {
        if (functions_ != nullptr && functions_->release != nullptr)
            functions_->release(functions_->ctx, handle_);
    }
    /// Owns the handle from now on.
    void hold(void* handle, const ObjectsPtr& functions) noexcept {
        handle_ = handle;
        functions_ = functions;
    }
    void* handle() const { return handle_; }
    const ObjectsPtr& functions() const { return functions_; }

private:
    void* handle_ = nullptr;
    ObjectsPtr functions_;
};

/// Makes records: copies bytes into blocks, and owns handles. Its reserve functions allocate before
/// a record is taken from a source or a callback, so that the record is not lost when memory runs
/// out.
class Copier {
public:
    Copier();
    ~Copier();
    Record copy(std::string_view bytes, double size);
    /// The next copy() of at most so many bytes, at most `most_reserved`, does not allocate.
    void reserve(std::size_t length);
    static constexpr std::size_t most_reserved = 1 << 14;

    /// A record that owns a handle. Does not allocate after reserve_object().
    Record object(void* handle, double size, const ObjectsPtr& objects);
    void reserve_object() {
        if (spare_ == nullptr) spare_ = std::make_unique<Object>();
    }

private:
    Shares shares_;
    std::size_t used_ = 0;
    std::unique_ptr<Object> spare_;
};

/// The object that a callback gave away, as a record that owns it; no record where it gave bytes,
/// or `before` again. After Copier::reserve_object().
Record given_object(const sab_record& made, const Record& before, const ObjectsPtr& objects,
                    Copier& copier);
/// What a callback filled, checked: bytes are copied, `object` is what given_object() made of it.
/// `before` is what the struct had at first; it is moved on where the struct still has it. Nothing
/// is moved on a failure.
Record taken(std::string_view what, const sab_record& made, Record&& before, Record&& object,
             Copier& copier);
inline Record taken(std::string_view what, const sab_record& made, Record&& before,
                    const ObjectsPtr& objects, Copier& copier) {
    Record object = given_object(made, before, objects, copier);
    return taken(what, made, std::move(before), std::move(object), copier);
}

/// The size of a text, of UTF-8, in characters or words.
double counted_size(std::string_view text, sab_text_unit unit);
/// The size of a text.
inline double size_of(std::string_view text, sab_text_unit unit) {
    return unit == SAB_TEXT_BYTES ? static_cast<double>(text.size()) : counted_size(text, unit);
}
/// Checks a size that a caller gave.
void check_size(std::string_view what, double size);

}  // namespace sab
