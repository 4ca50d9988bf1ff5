/// Values in this process.
#include <algorithm>
#include <mutex>
#include <random>
#include <unordered_map>

#include "cache/store.h"

namespace sab::cache {
namespace {

class MemoryStore : public Store {
public:
    explicit MemoryStore(const StoreOptions& options) : capacity_(options.capacity) {}

    std::vector<std::optional<View>> get(std::span<const std::string_view> keys,
                                         Outcome&) override {
        std::vector<std::optional<View>> found(keys.size());
        const std::scoped_lock lock(mutex_);
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (const auto it = entries_.find(std::string(keys[i])); it != entries_.end())
                found[i] = View{it->second, *it->second};
        return found;
    }

    /// Everything that may run out of memory comes first, so that a put that fails changes nothing.
    void put(std::span<const Item> items, Outcome& outcome) override {
        std::vector<Node> fresh;
        fresh.reserve(items.size());
        uint64_t too_large = 0;
        for (const Item& item : items) {
            if (capacity_ == 0 || size(item.key, item.value) <= capacity_)
                fresh.push_back(node_of(item));
            else
                ++too_large;
        }
        const std::scoped_lock lock(mutex_);
        make_room_for(fresh.size());
        for (Node& node : fresh) keep(std::move(node), outcome);
        outcome.dropped += too_large;
    }

    uint64_t count(Outcome&) override {
        const std::scoped_lock lock(mutex_);
        return entries_.size();
    }

    void clear(Outcome&) override {
        const std::scoped_lock lock(mutex_);
        entries_.clear();
        drawable_.clear();
        bytes_ = 0;
    }

    std::unique_ptr<Claim> claim(std::string_view, double) override {
        return std::make_unique<Claim>();
    }
    Flights& flights() override { return flights_; }
    std::string url() const override { return "memory:"; }

private:
    using Entries = std::unordered_map<std::string, std::shared_ptr<const std::string>>;
    using Node = Entries::node_type;

    static uint64_t size(std::string_view key, std::string_view value) {
        return key.size() + value.size();
    }

    static Node node_of(const Item& item) {
        Entries one;
        one.try_emplace(std::string(item.key), std::make_shared<const std::string>(item.value));
        return one.extract(one.begin());
    }

    /// At least doubles what it enlarges, since it is called for every put.
    void make_room_for(std::size_t count) {
        const std::size_t needed = entries_.size() + count;
        if (needed > drawable_.capacity())
            drawable_.reserve(std::max(needed, 2 * drawable_.capacity()));
        // `>=`: libstdc++ rehashes on the first insertion even with one bucket.
        if (static_cast<double>(needed) >=
            entries_.max_load_factor() * static_cast<double>(entries_.bucket_count()))
            entries_.reserve(2 * needed);
    }

    /// Needs no memory after make_room_for().
    void keep(Node&& node, Outcome& outcome) noexcept {
        bytes_ += size(node.key(), *node.mapped());
        const auto known = entries_.find(node.key());
        Entries::value_type* latest = nullptr;
        if (known != entries_.end()) {
            bytes_ -= size(known->first, *known->second);
            known->second = std::move(node.mapped());
            latest = &*known;
        } else {
            latest = &*entries_.insert(std::move(node)).position;
            drawable_.push_back(latest);
        }
        while (capacity_ > 0 && bytes_ > capacity_) {
            std::size_t index = random_() % drawable_.size();
            if (drawable_[index] == latest) index = index + 1 < drawable_.size() ? index + 1 : 0;
            evict(index);
            ++outcome.evictions;
        }
    }

    void evict(std::size_t index) noexcept {
        Entries::value_type* const entry = drawable_[index];
        bytes_ -= size(entry->first, *entry->second);
        drawable_[index] = drawable_.back();
        drawable_.pop_back();
        entries_.erase(entries_.find(entry->first));
    }

    const uint64_t capacity_;
    std::mutex mutex_;
    Entries entries_;
    std::vector<Entries::value_type*> drawable_;  // all entries, so that one can be drawn at random
    uint64_t bytes_ = 0;
    std::mt19937_64 random_{std::random_device{}()};
    Flights flights_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store(const StoreOptions& options) {
    return std::make_unique<MemoryStore>(options);
}

}  // namespace sab::cache
