#include "sizes/choice.h"

#include <algorithm>

namespace sab {

std::vector<uint32_t> EpochChoice::samples(uint64_t epoch) const {
    const EpochTurns times = turns(epoch);
    const std::span<const uint16_t> source = source_of();
    std::size_t count = 0;
    for (std::size_t i = 0; i < source.size(); ++i) count += times.of(i, source[i]);
    std::vector<uint32_t> samples;
    samples.reserve(count);
    for (std::size_t i = 0; i < source.size(); ++i)
        samples.insert(samples.end(), times.of(i, source[i]), static_cast<uint32_t>(i));
    return samples;
}

std::vector<uint32_t> EpochChoice::possible_samples() const {
    const std::span<const uint16_t> source = source_of();
    const auto first = std::ranges::find_if(source, [&](uint16_t s) { return is_possible(s); });
    std::vector<uint32_t> samples(source.size(), static_cast<uint32_t>(first - source.begin()));
    for (std::size_t i = 0; i < samples.size(); ++i)
        if (is_possible(source[i])) samples[i] = static_cast<uint32_t>(i);
    return samples;
}

}  // namespace sab
