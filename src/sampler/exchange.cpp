#include "sampler/exchange.h"

#include <algorithm>
#include <utility>

namespace sab {

Exchange::Exchange(const Plan& plan) {
    const std::span<const SharedRun> shared = plan.shared_runs();
    std::vector<uint64_t> firsts;  // of each shared run its first member
    for (const SharedRun& run : shared) {
        if (run.size_class == classes_.size()) classes_.emplace_back();
        Class& of = classes_[run.size_class];
        firsts.push_back(of.count);
        of.count += run.end - run.begin;
        ++of.end_run;
    }
    for (std::size_t k = 0; Class& of : classes_) {
        of.first_run = k;
        k += std::exchange(of.end_run, k);
    }
    runs_.resize(shared.size());
    for (std::size_t i = 0; i < shared.size(); ++i)
        runs_[classes_[shared[i].size_class].end_run++] = {firsts[i], shared[i].begin};
    first_parts_.push_back(0);
    for (const Bucket& bucket : plan.buckets()) {
        auto run = std::ranges::upper_bound(shared, bucket.begin, {}, &SharedRun::end);
        for (; run != shared.end() && run->begin < bucket.end; ++run) {
            const uint64_t begin = std::max(bucket.begin, run->begin),
                           end = std::min(bucket.end, run->end),
                           first = firsts[static_cast<std::size_t>(run - shared.begin())];
            if (begin < end)
                parts_.push_back({begin, end, first + (begin - run->begin), run->size_class});
        }
        first_parts_.push_back(parts_.size());
    }
}

uint64_t Exchange::place(std::size_t size_class, uint64_t member) const {
    const Class& of = classes_[size_class];
    const auto runs = std::span(runs_).subspan(of.first_run, of.end_run - of.first_run);
    const Run& own = *std::prev(std::ranges::upper_bound(runs, member, {}, &Run::first));
    return own.begin + (member - own.first);
}

void Exchange::to_places(std::size_t size_class, std::span<uint32_t> members) const {
    const Class& of = classes_[size_class];
    if (of.end_run - of.first_run == 1) {
        const auto begin = static_cast<uint32_t>(runs_[of.first_run].begin);
        for (uint32_t& member : members) member += begin;
    } else {
        for (uint32_t& member : members) member = static_cast<uint32_t>(place(size_class, member));
    }
}

/// Exchanges the places that are in parts, of which several may be of one class.
void Exchange::exchange(std::span<const Part> parts, const EpochOptions& of,
                        std::span<uint32_t> places, Room& room) const {
    const auto count = static_cast<uint32_t>(places.size());
    room.part_of.resize(count);
    room.members.resize(count);
    room.where.resize(count);
    room.ends.assign(parts.size() + 2, 0);  // the last one has the places in no part
    for (uint32_t i = 0; i < count; ++i) {
        const auto after = std::ranges::upper_bound(parts, places[i], {}, &Part::begin);
        auto part = static_cast<uint32_t>(after - parts.begin()) - 1;
        if (after == parts.begin() || places[i] >= parts[part].end)
            part = static_cast<uint32_t>(parts.size());
        room.part_of[i] = part;
        ++room.ends[part + 1];
    }
    for (std::size_t k = 1; k < room.ends.size(); ++k) room.ends[k] += room.ends[k - 1];
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t part = room.part_of[i];
        if (part == parts.size()) continue;
        const std::size_t k = room.ends[part]++;
        room.where[k] = i;
        room.members[k] =
            static_cast<uint32_t>(parts[part].first + (places[i] - parts[part].begin));
    }
    for (std::size_t part = 0, first = 0; part < parts.size(); first = room.ends[part++]) {
        const auto own = std::span(room.members).subspan(first, room.ends[part] - first);
        if (own.empty()) continue;
        permutation(parts[part].size_class, of).map({0, ~uint32_t{0}, 0, 0}, own);
        to_places(parts[part].size_class, own);
        for (std::size_t k = 0; k < own.size(); ++k) places[room.where[first + k]] = own[k];
    }
}

void Exchange::fill(const Bucket& bucket, std::size_t number, uint64_t key, const EpochOptions& of,
                    uint64_t first, std::span<uint32_t> out, Room& room) const {
    const std::span<const Part> own = parts(number);
    if (is_of_one_class(bucket, number)) {
        permutation(own[0].size_class, of).fill(own[0].first + first, out);
        to_places(own[0].size_class, out);
        return;
    }
    Permutation(bucket.samples(), key).fill(first, out);
    const auto begin = static_cast<uint32_t>(bucket.begin);
    for (uint32_t& place : out) place += begin;
    const auto is_simple = [&](const Part& part) {
        return classes_[part.size_class].end_run - classes_[part.size_class].first_run == 1;
    };
    if (own.size() > 2 || !std::ranges::all_of(own, is_simple)) return exchange(own, of, out, room);
    // The order is by size, so no two parts are of one class.
    for (const Part& part : own) {
        const Permutation::Range range{
            static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end - part.begin),
            static_cast<uint32_t>(part.first),
            static_cast<uint32_t>(runs_[classes_[part.size_class].first_run].begin)};
        permutation(part.size_class, of).map(range, out);
    }
}

}  // namespace sab
