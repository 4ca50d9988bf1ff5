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
        : where_(sab::text(host, ":", port)),
          rank_(rank),
          world_size_(world_size),
          timeout_(timeout) {
        c10d::TCPStoreOptions options;
        options.port = port;
        options.isServer = rank == 0;
        options.waitWorkers = false;
        const auto end = Clock::now() + timeout;
        for (;;) {
            const auto left =
                std::max(end - Clock::now(), Clock::duration(std::chrono::seconds(1)));
            // it counts whole ones
            options.timeout = std::chrono::ceil<std::chrono::seconds>(left);
            try {
                store_ = std::make_unique<c10d::TCPStore>(host, options);
                return;
            } catch (const std::exception& error) {
                // Rank 0 may be a little late, and c10d gives up a second before the end.
                if (rank == 0 || Clock::now() + milliseconds(50) >= end)
                    sab::fail_io(
                        0, rank == 0 ? "cannot open the store at" : "cannot reach the store at",
                        where_, first_line(error));
                std::this_thread::sleep_for(milliseconds(50));
            }
        }
    }

    /// Rank 0 collects, and tells all what it has got, or who is missing: so all hear the same.
    void all_gather(const void* mine, std::size_t size, void* all) {
        const std::string round = "sab/" + std::to_string(rounds_++) + "/";
        const auto* const bytes = static_cast<const uint8_t*>(mine);
        std::vector<uint8_t> told;
        try {
            store_->set(round + std::to_string(rank_), std::vector<uint8_t>(bytes, bytes + size));
            told = rank_ == 0 ? collect(round, size) : hear(round);
        } catch (const sab::Error&) {
            throw;
        } catch (const std::exception& error) {
            sab::fail_io(0, "cannot use the store at", where_, first_line(error));
        }
        if (told.at(0) != fine)
            sab::fail(told[0] == missing ? SAB_E_TIMEOUT : SAB_E_MISMATCH,
                      std::string(told.begin() + 1, told.end()));
        if (told.size() != 1 + world_size_ * size)
            sab::fail(SAB_E_MISMATCH, "rank ", rank_, " gave ", size,
                      " bytes, others did not: they do not call the same");
        if (size > 0) std::memcpy(all, told.data() + 1, told.size() - 1);
    }

private:
    /// first byte of what rank 0 tells
    static constexpr uint8_t fine = 0, missing = 1, unlike = 2;
    /// that rank 0 stays for others to hear it
    static constexpr milliseconds grace{10000};

    std::vector<uint8_t> collect(const std::string& round, std::size_t size) {
        const auto end = Clock::now() + timeout_;
        std::vector<uint8_t> told{fine};
        std::string problem;
        std::vector<uint64_t> absent;
        for (uint64_t rank = 0; rank < world_size_; ++rank) {
            const std::string key = round + std::to_string(rank);
            if (!wait(key, end)) {
                absent.push_back(rank);
                continue;
            }
            const std::vector<uint8_t> value = store_->get(key);
            if (value.size() != size && problem.empty())
                problem = "rank " + std::to_string(rank) + " gave " + std::to_string(value.size()) +
                          " bytes, rank 0 " + std::to_string(size) + ": they do not call the same";
            told.insert(told.end(), value.begin(), value.end());
        }
        if (!absent.empty()) problem = not_come(absent);
        if (!problem.empty()) {
            told.assign(1, absent.empty() ? unlike : missing);
            told.insert(told.end(), problem.begin(), problem.end());
        }
        store_->set(round + "all", told);
        // The store is in this process, which must not go before those that came have heard.
        const auto heard_by = Clock::now() + grace;
        const auto came = static_cast<int64_t>(world_size_ - absent.size());
        while (store_->add(round + "heard", 0) < came - 1 && Clock::now() < heard_by)
            std::this_thread::sleep_for(milliseconds(2));
        if (absent.empty()) {
            for (uint64_t rank = 0; rank < world_size_; ++rank)
                store_->deleteKey(round + std::to_string(rank));
            store_->deleteKey(round + "all");
        }
        return told;
    }

    std::vector<uint8_t> hear(const std::string& round) {
        const auto begin = Clock::now();
        // Where rank 0 is there, its time counts, which began at most as much later.
        if (!wait(round + "all", begin + timeout_) &&
            (!store_->check({round + "0"}) || !wait(round + "all", begin + 2 * timeout_ + grace)))
            sab::fail(SAB_E_TIMEOUT, not_come({0}));
        const std::vector<uint8_t> told = store_->get(round + "all");
        store_->add(round + "heard", 1);
        return told;
    }

    static std::string first_line(const std::exception& error) {
        const std::string what = error.what();
        return what.substr(0, what.find('\n'));
    }

    std::string not_come(const std::vector<uint64_t>& ranks) const {
        constexpr std::size_t shown = 8;
        std::string names;
        for (std::size_t i = 0; i < ranks.size() && i < shown; ++i)
            names += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
        if (ranks.size() > shown) names += " and " + std::to_string(ranks.size() - shown) + " more";
        const auto time = timeout_.count() % 1000 == 0
                              ? std::to_string(timeout_.count() / 1000) + " s"
                              : std::to_string(timeout_.count()) + " ms";
        return std::string(ranks.size() > 1 ? "ranks " : "rank ") + names + " of " +
               std::to_string(world_size_) + " did not come within " + time;
    }

    /// False when the time is over. Asks again and again: after a wait() that timed out older
    /// stores take its late answer for that of the next question.
    bool wait(const std::string& key, Clock::time_point end) {
        for (milliseconds pause(1); !store_->check({key});
             pause = std::min(2 * pause, milliseconds(50))) {
            if (Clock::now() >= end) return false;
            std::this_thread::sleep_for(pause);
        }
        return true;
    }

    const std::string where_;
    const uint64_t rank_, world_size_;
    const milliseconds timeout_;
    uint64_t rounds_ = 0;
    std::unique_ptr<c10d::TCPStore> store_;
};

}  // namespace

sab_status new_store(const char* host, uint16_t port, uint64_t rank, uint64_t world_size,
                     uint64_t milliseconds_, void** store, sab_torch_message* message) {
    return guarded(message, [&] {
        *store = new Store(host, port, rank, world_size, milliseconds(milliseconds_));
    });
}

sab_status gather_by_store(void* store, const void* mine, std::size_t size, void* all,
                           sab_torch_message* message) {
    return guarded(message, [&] { static_cast<Store*>(store)->all_gather(mine, size, all); });
}

void free_store(void* store) {
    try {
        delete static_cast<Store*>(store);
    } catch (...) {  // the other end is gone
    }
}

}  // namespace sab_torch
