#pragma once
/// The samples of equal size that lie in several buckets: each epoch exchanges them.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "sampler/permutation.h"
#include "sampler/sequence.h"

namespace sab {

/// The members of a class are numbered in the order of their places. A keyed permutation of each
/// epoch says which of them is at a place.
class Exchange {
public:
    explicit Exchange(const Plan& plan);

    /// Places of a bucket that have the members of a class from `first` on.
    struct Part {
        uint64_t begin, end;
        uint64_t first;
        std::size_t size_class;
    };
    /// In ascending order.
    std::span<const Part> parts(std::size_t bucket) const {
        return std::span(parts_).subspan(first_parts_[bucket],
                                         first_parts_[bucket + 1] - first_parts_[bucket]);
    }
    std::size_t classes() const { return classes_.size(); }
    uint64_t count(std::size_t size_class) const { return classes_[size_class].count; }
    Permutation permutation(std::size_t size_class, const EpochOptions& of) const {
        return {classes_[size_class].count,
                permutation_key(of.seed, of.epoch, Purpose::sizes, size_class)};
    }
    /// Whether all samples of the bucket are of one shared class. Then it needs no permutation of
    /// its own: it has members in a row of that of the class.
    bool is_of_one_class(const Bucket& bucket, std::size_t number) const {
        const std::span<const Part> own = parts(number);
        return own.size() == 1 && own[0].begin == bucket.begin && own[0].end == bucket.end;
    }
    /// The place of a member.
    uint64_t place(std::size_t size_class, uint64_t member) const;

    /// What fill() needs room for.
    struct Room {
        std::vector<uint32_t> part_of, members, where;
        std::vector<std::size_t> ends;
    };
    /// Writes the samples, as places of the order, that the epoch has in the bucket with this
    /// number: those at `first`, `first` + 1, ... of its permutation, which has this key.
    void fill(const Bucket& bucket, std::size_t number, uint64_t key, const EpochOptions& of,
              uint64_t first, std::span<uint32_t> out, Room& room) const;

private:
    struct Run {
        uint64_t first;  ///< member
        uint64_t begin;  ///< place
    };
    struct Class {
        uint64_t count = 0;
        std::size_t first_run = 0, end_run = 0;
    };
    void to_places(std::size_t size_class, std::span<uint32_t> members) const;
    void exchange(std::span<const Part> parts, const EpochOptions& of, std::span<uint32_t> places,
                  Room& room) const;

    std::vector<Class> classes_;
    std::vector<Run> runs_;                 ///< by class, then by place
    std::vector<Part> parts_;               ///< by bucket
    std::vector<std::size_t> first_parts_;  ///< of each bucket; one more: all
};

}  // namespace sab
