/// Values in this process.
#include <mutex>
#include <random>
#include <unordered_map>

#include "cache/store.h"

namespace sab::cache {
namespace {

class MemoryStore : public Store {
public:
    explicit MemoryStore(const StoreOptions& options) : capacity_(options.capacity) {}

    std::vector<std::optional<View>> get(std::span<const std::string_view> keys, Outcome&) override {
        std::vector<std::optional<View>> found(keys.size());
        const std::scoped_lock lock(mutex_);
        for (std::size_t i = 0; i < keys.size(); ++i)
            if (const auto it = places_.find(std::string(keys[i])); it != places_.end()) found[i] = View{entries_[it->second].value, *entries_[it->second].value};
        return found;
    }

    void put(std::span<const Item> items, Outcome& outcome) override {
        const std::scoped_lock lock(mutex_);
        for (const Item& item : items) {
            if (capacity_ > 0 && size(item.key, item.value) > capacity_) {
                ++outcome.dropped;
                continue;
            }
            auto value = std::make_shared<const std::string>(item.value);
            const auto [it, is_new] = places_.try_emplace(std::string(item.key), entries_.size());
            if (is_new) {
                entries_.push_back({it->first, std::move(value)});
            } else {
                Entry& entry = entries_[it->second];
                bytes_ -= size(entry.key, *entry.value);
                entry.value = std::move(value);
            }
            bytes_ += size(item.key, item.value);
            while (capacity_ > 0 && bytes_ > capacity_) {
                std::size_t place = random_() % entries_.size();
                if (entries_[place].key == item.key) place = place + 1 < entries_.size() ? place + 1 : 0;  // not what has just come
                evict(place);
                ++outcome.evictions;
            }
        }
    }

    uint64_t count(Outcome&) override {
        const std::scoped_lock lock(mutex_);
        return entries_.size();
    }

    void clear(Outcome&) override {
        const std::scoped_lock lock(mutex_);
        entries_.clear();
        places_.clear();
        bytes_ = 0;
    }

    std::unique_ptr<Claim> claim(std::string_view, double) override { return std::make_unique<Claim>(); }
    Flights& flights() override { return flights_; }
    std::string url() const override { return "memory:"; }

private:
    struct Entry {
        std::string key;
        std::shared_ptr<const std::string> value;
    };
    static uint64_t size(std::string_view key, std::string_view value) { return key.size() + value.size(); }

    void evict(std::size_t place) {
        bytes_ -= size(entries_[place].key, *entries_[place].value);
        places_.erase(entries_[place].key);
        if (place + 1 < entries_.size()) {
            entries_[place] = std::move(entries_.back());
            places_[entries_[place].key] = place;
        }
        entries_.pop_back();
    }

    const uint64_t capacity_;
    std::mutex mutex_;
    std::vector<Entry> entries_;  // so that one can be drawn at random
    std::unordered_map<std::string, std::size_t> places_;
    uint64_t bytes_ = 0;
    std::mt19937_64 random_{std::random_device{}()};
    Flights flights_;
};

}  // namespace

std::unique_ptr<Store> make_memory_store(const StoreOptions& options) { return std::make_unique<MemoryStore>(options); }

}  // namespace sab::cache
