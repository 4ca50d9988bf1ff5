#include "plan/counted_turns.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/image.h"
#include "plan/plan.h"

namespace sab {
namespace {

constexpr ImageKind turns_image{{'S', 'A', 'B', 'T', 'U', 'R', 'N', '\0'}, 1, "epoch of a mixture"};

struct Header {
    ImageHeader image;
    uint64_t epoch, seed, columns;
    uint64_t entries;  ///< number of; they follow, and then their sizes
};

/// What follows the image of a plan.
std::span<const std::byte> after_plan(std::span<const std::byte> image) {
    ImageHeader header;
    if (image.size() < sizeof header) return {};
    std::memcpy(&header, image.data(), sizeof header);
    return image.subspan(std::min<uint64_t>(header.length, image.size()));
}

}  // namespace

uint64_t CountedTurns::all() const {
    uint64_t sum = 0;
    for (const EntryTurns& entry : entries) sum += entry.turns;
    return sum;
}

bool CountedTurns::is_smaller(std::size_t entry, std::size_t other) const {
    const double *const a = &sizes[entry * columns], *const b = &sizes[other * columns];
    return std::lexicographical_compare(a, a + columns, b, b + columns);
}

std::vector<std::size_t> CountedTurns::by_size() const {
    std::vector<std::size_t> order(entries.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [this](std::size_t entry, std::size_t other) {
        return is_smaller(entry, other) || (entry < other && !is_smaller(other, entry));
    });
    return order;
}

std::vector<std::byte> CountedTurns::write() const {
    Header header{begin_image(turns_image, sizeof header), epoch, seed, columns, entries.size()};
    const ImageParts parts{std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(entries)),
                           std::as_bytes(std::span(sizes))};
    header.image.length = image_size(parts);
    header.image.checksum = image_checksum(parts);
    std::vector<std::byte> image(header.image.length);
    write_image(parts, image);
    return image;
}

std::shared_ptr<const CountedTurns> CountedTurns::read(std::span<const std::byte> image,
                                                       std::string_view name) {
    const ImageRefusal refuse(turns_image, name);
    Header header;
    read_image_header(turns_image, image, refuse, &header, sizeof header);
    const std::span<const std::byte> rest = image.subspan(sizeof header);
    if (header.image.checksum != image_checksum({std::as_bytes(std::span(&header, 1)), rest}))
        refuse("it is damaged: the checksum does not match");
    const uint64_t bytes = sizeof(EntryTurns) + header.columns * sizeof(double);
    if (header.columns < 1 || header.columns > SAB_MAX_COLUMNS ||
        header.entries > rest.size() / bytes || header.entries * bytes != rest.size())
        refuse("its entries do not fit its length");
    auto made = std::make_shared<CountedTurns>();
    made->epoch = header.epoch;
    made->seed = header.seed;
    made->columns = header.columns;
    made->entries.resize(header.entries);
    made->sizes.resize(header.entries * header.columns);
    const std::size_t of_entries = header.entries * sizeof(EntryTurns);
    if (!rest.empty()) {
        std::memcpy(made->entries.data(), rest.data(), of_entries);
        std::memcpy(made->sizes.data(), rest.data() + of_entries, rest.size() - of_entries);
    }
    uint64_t samples = 0, turns = 0;
    for (std::size_t k = 0; k < made->entries.size(); ++k) {
        const EntryTurns& entry = made->entries[k];
        const bool follows =
            k == 0 || made->entries[k - 1].source < entry.source ||
            (made->entries[k - 1].source == entry.source && made->is_smaller(k - 1, k));
        if (!follows || entry.source > UINT16_MAX || entry.samples < 1 ||
            entry.samples > largest_counted_samples - samples ||
            entry.turns > largest_counted_samples - turns || entry.start >= entry.samples)
            refuse("entry ", k, " is out of order or range");
        samples += entry.samples;
        turns += entry.turns;
    }
    return made;
}

bool is_epoch_plan(std::span<const std::byte> image) {
    const std::span<const std::byte> rest = after_plan(image);
    return rest.size() >= sizeof turns_image.magic &&
           std::memcmp(rest.data(), turns_image.magic, sizeof turns_image.magic) == 0;
}

std::unique_ptr<sab_plan> read_epoch_plan(std::span<const std::byte> image, std::string_view name) {
    const std::span<const std::byte> rest = after_plan(image);
    auto plan = Plan::read(image.first(image.size() - rest.size()), name);
    auto turns = CountedTurns::read(rest, name);
    if (!plan->is_counted() || turns->columns != plan->columns() ||
        turns->all() != plan->facts().samples)
        fail_format(name, "the epoch of a mixture does not match the plan before it");
    return std::make_unique<sab_plan>(std::move(plan), nullptr, std::move(turns));
}

}  // namespace sab
