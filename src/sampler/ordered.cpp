#include "sampler/ordered.h"

#include <algorithm>

#include "base/hasher.h"
#include "base/log.h"

namespace sab {
namespace {

class OrderedSequence : public Sequence {
public:
    OrderedSequence(const int64_t* indices, std::size_t count, const Sizes& sizes, double limit)
        : sizes_(sizes.dense()), limit_(limit) {
        check_limit(limit);
        check(indices != nullptr || count <= sizes.count(), "count", count,
              "must be at most the number of sizes, ", sizes.count());
        auto made = std::make_shared<Made>();
        made->indices.assign(indices, indices == nullptr ? nullptr : indices + count);
        Group group{0, 0, 0};
        double smallest = 0;  // of the samples over the limit
        sizes_.visit([&](auto view) {
            for (std::size_t i = 0; i < count; ++i) {
                const int64_t index = made->at(i);
                if (index < 0 || static_cast<uint64_t>(index) >= sizes.count())
                    refuse_argument(named("indices[", i, "]"), index,
                                    "must be from 0 to below the number of sizes, ", sizes.count());
                const double size = checked_size(view[static_cast<std::size_t>(index)],
                                                 static_cast<std::size_t>(index));
                if (size > limit) {
                    smallest = made->skipped.empty() ? size : std::min(smallest, size);
                    made->skipped.push_back(index);
                    continue;
                }
                if (group.count > 0 && size + group.total > limit) {
                    made->groups.push_back(group);
                    group = {i, 0, 0};
                }
                ++group.count;
                group.total += size;
            }
        });
        if (group.count > 0) made->groups.push_back(group);
        if (made->groups.empty() && count > 0)
            refuse_argument("limit", limit, "must leave a batch; all ", count,
                            " samples are over it, also the smallest, ", smallest);
        Hasher hash;
        hash.add(limit);
        hash.add_all(std::span(made->indices));
        hash.add_all(std::span(made->groups));
        fingerprint_ = hash.digest();
        if (!made->skipped.empty())
            log(SAB_LOG_WARNING, "skipped ", made->skipped.size(), " of ", count,
                " samples: each over limit = ", limit, " alone");
        made_ = std::move(made);
    }

    std::unique_ptr<Sequence> copy() const override {
        return std::make_unique<OrderedSequence>(*this);
    }
    SamplerKind kind() const override { return kind_of("sab_ordered_sampler_new"); }
    uint64_t fingerprint() const override { return fingerprint_; }
    std::size_t skipped(std::span<int64_t> room) const override {
        return copy_indices<int64_t>(made_->skipped, room);
    }
    uint64_t batches() const override { return made_->groups.size(); }
    uint64_t samples(uint64_t position) const override { return made_->groups[position].count; }
    double cost(uint64_t position) const override { return made_->groups[position].total; }
    PerColumn total(uint64_t position) const override { return {made_->groups[position].total}; }
    void fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const override {
        sizes_.visit([&](auto view) {
            const uint64_t end = made_->indices.empty() ? sizes_.count() : made_->indices.size();
            uint64_t offset = made_->groups[position].begin, before = first;
            batch.fill(count, [&](uint64_t) {
                for (;;) {
                    if (offset >= end)
                        refuse_argument("sizes", no_value,
                                        "were changed while a sampler used them");
                    const int64_t index = made_->at(offset++);
                    const auto size = static_cast<double>(view[static_cast<std::size_t>(index)]);
                    if (size > limit_) continue;
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
    struct Made {
        std::vector<int64_t> indices;  ///< none: 0, 1, 2, ...
        std::vector<Group> groups;
        std::vector<int64_t> skipped;
        int64_t at(std::size_t i) const {
            return indices.empty() ? static_cast<int64_t>(i) : indices[i];
        }
    };

    DenseSizes sizes_;
    double limit_;
    std::shared_ptr<const Made> made_;
    uint64_t fingerprint_ = 0;
};

}  // namespace

void check_limit(double limit) {
    check(limit >= 0 && std::isfinite(limit), "limit", limit, "must be finite and at least 0");
}

std::unique_ptr<Sequence> make_ordered_sequence(const int64_t* indices, std::size_t count,
                                                const Sizes& sizes, double limit) {
    return std::make_unique<OrderedSequence>(indices, count, sizes, limit);
}

}  // namespace sab
