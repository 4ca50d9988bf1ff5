/// Ranks that meet through c10d's store, a few bytes at a time.
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <cstring>
#include <thread>

#include "torch/component/internal.h"

namespace sab_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class Store {
public:
    Store(const char* host, uint16_t port, uint64_t rank, uint64_t world_size, milliseconds timeout)
        : where_(std::string("the store at ") + host + ":" + std::to_string(port)), rank_(rank), world_size_(world_size), timeout_(timeout) {
        c10d::TCPStoreOptions options;
        options.port = port;
        options.isServer = rank == 0;
        options.waitWorkers = false;
        const auto end = Clock::now() + timeout;
        for (;;) {
            const auto left = std::max(end - Clock::now(), Clock::duration(std::chrono::seconds(1)));
            options.timeout = std::chrono::ceil<std::chrono::seconds>(left);  // it counts whole ones
            try {
                store_ = std::make_unique<c10d::TCPStore>(host, options);
                return;
            } catch (const std::exception& error) {
                // Rank 0 may be a little late, and c10d gives up a second before the end.
                if (rank == 0 || Clock::now() + milliseconds(50) >= end)
                    throw Refusal(SAB_E_IO, where_ + (rank == 0 ? " cannot be opened: " : " cannot be reached: ") + first_line(error));
                std::this_thread::sleep_for(milliseconds(50));
            }
        }
    }

    void all_gather(const void* mine, std::size_t size, void* all) {
        const std::string round = "sab/" + std::to_string(rounds_++) + "/";
        const auto end = Clock::now() + timeout_;
        const auto* const bytes = static_cast<const uint8_t*>(mine);
        try {
            store_->set(round + std::to_string(rank_), std::vector<uint8_t>(bytes, bytes + size));
            for (uint64_t rank = 0; rank < world_size_; ++rank) {
                const std::string key = round + std::to_string(rank);
                if (!wait(key, end)) refuse_missing(round, rank);
                const std::vector<uint8_t> value = store_->get(key);
                if (value.size() != size)
                    throw Refusal(SAB_E_MISMATCH, "rank " + std::to_string(rank) + " gave " + std::to_string(value.size()) + " bytes, rank " + std::to_string(rank_) + " " +
                                                      std::to_string(size) + ": they do not call the same");
                if (size > 0) std::memcpy(static_cast<uint8_t*>(all) + rank * size, value.data(), size);
            }
            // The store is in rank 0, which must not go before all have read.
            const std::string done = round + "done";
            if (store_->add(round + "read", 1) == static_cast<int64_t>(world_size_)) store_->set(done, {1});
            if (rank_ == 0) wait(done, end);
        } catch (const Refusal&) {
            throw;
        } catch (const std::exception& error) {
            throw Refusal(SAB_E_IO, where_ + " failed: " + first_line(error));
        }
    }

private:
    static std::string first_line(const std::exception& error) {
        const std::string what = error.what();
        return what.substr(0, what.find('\n'));
    }

    /// False when the time is over. Asks again and again: after a wait() that timed out older stores take its late answer for that of the next question.
    bool wait(const std::string& key, Clock::time_point end) {
        for (milliseconds pause(1); !store_->check({key}); pause = std::min(2 * pause, milliseconds(50))) {
            if (Clock::now() >= end) return false;
            std::this_thread::sleep_for(pause);
        }
        return true;
    }

    [[noreturn]] void refuse_missing(const std::string& round, uint64_t first) {
        uint64_t more = 0;
        for (uint64_t rank = first + 1; rank < world_size_; ++rank) more += store_->check({round + std::to_string(rank)}) ? 0 : 1;
        throw Refusal(SAB_E_TIMEOUT, "rank " + std::to_string(first) + (more > 0 ? " and " + std::to_string(more) + " more" : "") + " of " + std::to_string(world_size_) +
                                         " did not come within " + std::to_string(timeout_.count()) + " ms");
    }

    const std::string where_;
    const uint64_t rank_, world_size_;
    const milliseconds timeout_;
    uint64_t rounds_ = 0;
    std::unique_ptr<c10d::TCPStore> store_;
};

}  // namespace

sab_status new_store(const char* host, uint16_t port, uint64_t rank, uint64_t world_size, uint64_t milliseconds_, void** store, sab_torch_message* message) {
    return guarded(message, [&] { *store = new Store(host, port, rank, world_size, milliseconds(milliseconds_)); });
}

sab_status gather_by_store(void* store, const void* mine, std::size_t size, void* all, sab_torch_message* message) {
    return guarded(message, [&] { static_cast<Store*>(store)->all_gather(mine, size, all); });
}

void free_store(void* store) {
    try {
        delete static_cast<Store*>(store);
    } catch (...) {  // the other end is gone
    }
}

}  // namespace sab_torch
