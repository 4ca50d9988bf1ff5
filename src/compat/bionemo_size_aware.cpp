#include "compat/bionemo_size_aware.h"

#include <algorithm>

#include "base/hasher.h"
#include "base/log.h"

namespace sab {
namespace {

class BionemoSizeAwareSequence : public Sequence {
public:
    BionemoSizeAwareSequence(const int64_t* indices, std::size_t count, const Sizes& sizes,
                             double budget)
        : sizes_(sizes.dense()),
          indices_(indices, indices == nullptr ? nullptr : indices + count),
          budget_(budget) {
        check_budget(budget);
        check(indices != nullptr || count <= sizes.count(), "count", count,
              "must be at most the number of sizes, ", sizes.count());
        Group group{0, 0, 0};
        sizes_.visit([&](auto view) {
            for (std::size_t i = 0; i < count; ++i) {
                const int64_t index = at(i);
                if (index < 0 || static_cast<uint64_t>(index) >= sizes.count())
                    fail(SAB_E_ARGUMENT, "indices[", i, "] = ", index,
                         ": must be from 0 to below the number of sizes, ", sizes.count());
                const double size = checked_size(view[static_cast<std::size_t>(index)],
                                                 static_cast<std::size_t>(index));
                if (size > budget) {
                    skipped_.push_back(index);
                    continue;
                }
                if (group.count > 0 && size + group.total > budget) {
                    groups_.push_back(group);
                    group = {i, 0, 0};
                }
                ++group.count;
                group.total += size;
            }
        });
        if (group.count > 0) groups_.push_back(group);
        Hasher hash;
        hash.add(budget);
        hash.add_all(std::span(indices_));
        hash.add_all(std::span(groups_));
        fingerprint_ = hash.digest();
        if (!skipped_.empty())
            log(SAB_LOG_WARNING, "skipped ", skipped_.size(), " of ", count,
                " samples: each over budget = ", budget, " alone");
    }

    SamplerKind kind() const override { return kind_of("sab_bionemo_size_aware_sampler_new"); }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices<int64_t>(skipped_, room);
    }
    uint64_t batches() const override { return groups_.size(); }
    uint64_t samples(uint64_t position) const override { return groups_[position].count; }
    double cost(uint64_t position) const override { return groups_[position].total; }
    double total(uint64_t position) const override { return groups_[position].total; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        sizes_.visit([&](auto view) {
            const uint64_t end = indices_.empty() ? sizes_.count() : indices_.size();
            uint64_t offset = groups_[position].begin, before = first;
            batch.fill(count, [&](uint64_t) {
                for (;;) {
                    if (offset >= end)
                        fail(SAB_E_ARGUMENT, "sizes: were changed while a sampler used them");
                    const int64_t index = at(offset++);
                    const auto size = static_cast<double>(view[static_cast<std::size_t>(index)]);
                    if (size > budget_) continue;
                    if (before == 0) return Sample{index, size};
                    --before;
                }
            });
        });
    }

private:
    struct Group {
        uint64_t begin;  ///< offset of its first sample, or of samples skipped before it
        uint64_t count;
        double total;
    };
    int64_t at(std::size_t i) const {
        return indices_.empty() ? static_cast<int64_t>(i) : indices_[i];
    }

    DenseSizes sizes_;
    std::vector<int64_t> indices_;
    double budget_;
    std::vector<Group> groups_;
    std::vector<int64_t> skipped_;
    uint64_t fingerprint_ = 0;
};

}  // namespace

void check_budget(double budget) {
    check(budget >= 0 && std::isfinite(budget), "budget", budget, "must be finite and at least 0");
}

std::unique_ptr<Sequence> make_size_aware_sequence(const int64_t* indices, std::size_t count,
                                                   const Sizes& sizes, double budget) {
    return std::make_unique<BionemoSizeAwareSequence>(indices, count, sizes, budget);
}

}  // namespace sab
