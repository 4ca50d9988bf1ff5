#include "engine/histogram.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/image.h"
#include "plan/points.h"

namespace sab {
namespace {

constexpr ImageKind histogram_image{
    {'S', 'A', 'B', 'H', 'I', 'S', 'T', '\0'}, 1, "histogram of sizes"};

/// The samples of `sizes` by entry. The order is empty where it was not asked for.
Points sort_entries(const Columns& sizes, bool with_order) {
    if (sizes.choice() != nullptr) {
        const std::span<const uint16_t> sources = sizes.choice()->source_of();
        return sort_points(sizes, std::vector<int64_t>(sources.begin(), sources.end()), Progress());
    }
    if (sizes.size() > 1) return sort_points(sizes, {}, Progress());
    Sorted sorted = sort_by_size(sizes[0], with_order, Progress(), sizes.described(0));
    Points points;
    points.columns = 1;
    points.count = sorted.count;
    points.order = std::move(sorted.order);
    points.first_offsets.assign(sorted.first_offsets.begin(), sorted.first_offsets.end());
    for (uint32_t i = 0; i < sorted.distinct_sizes.size(); ++i) points.codes.push_back(i);
    points.distinct = {std::move(sorted.distinct_sizes)};
    points.ids = {0};
    points.first_points = {0, static_cast<uint32_t>(points.size())};
    return points;
}

constexpr std::uint64_t max_samples = std::uint64_t{1} << 48;

void check_samples(uint64_t samples) {
    check(samples <= max_samples, "histogram.samples", samples, "must be at most 2^48");
}

/// "size 17", or "sizes 17, 3 of source 1".
std::string described(const Histogram& histogram, std::size_t entry) {
    const std::size_t columns = histogram.columns();
    std::string words = columns > 1 ? "sizes " : "size ";
    for (std::size_t j = 0; j < columns; ++j)
        words += text(j > 0 ? ", " : "", histogram.sizes()[entry * columns + j]);
    if (histogram.sources() > 0) words += text(" of source ", histogram.sources_of()[entry]);
    return words;
}

}  // namespace

struct Histogram::Header {
    ImageHeader image;
    uint64_t columns;  ///< number of; their names follow the header
    uint64_t sources;
    uint64_t entries;  ///< then follow their sizes, counts and, of a mixture, sources
};

int Histogram::compare(std::size_t entry, const Histogram& other,
                       std::size_t entry_of_other) const {
    if (source_count_ > 0 && sources_[entry] != other.sources_[entry_of_other])
        return sources_[entry] < other.sources_[entry_of_other] ? -1 : 1;
    const std::size_t columns = names_.size();
    for (std::size_t j = 0; j < columns; ++j) {
        const double mine = sizes_[entry * columns + j],
                     theirs = other.sizes_[entry_of_other * columns + j];
        if (mine != theirs) return mine < theirs ? -1 : 1;
    }
    return 0;
}

/// Refuses the histogram of an epoch, which is neither changed nor saved.
void Histogram::refuse_epoch(std::string_view argument) const {
    if (turns_)
        fail(SAB_E_UNSUPPORTED, argument,
             " is of an epoch of a mixture: must be of all its samples");
}

/// Refuses samples of another kind. Without a kind yet, that of `other` is taken.
void Histogram::take_kind(const Histogram& other, std::string_view argument) {
    refuse_epoch("the histogram");
    other.refuse_epoch(argument);
    if (other.names_.empty()) return;
    if (names_.empty()) {
        names_ = other.names_;
        source_count_ = other.source_count_;
        return;
    }
    if (names_ != other.names_)
        fail(SAB_E_MISMATCH, argument, " has ", std::string_view(columns_listed(other.names_)),
             ": must have those of the histogram, ", std::string_view(columns_listed(names_)));
    if (source_count_ != other.source_count_)
        fail(SAB_E_MISMATCH, argument, " has ", other.source_count_,
             " sources of a mixture: must have as many as the histogram, ", source_count_);
}

void Histogram::append(const Histogram& from, std::size_t entry, uint64_t count) {
    const std::size_t columns = names_.size();
    for (std::size_t j = 0; j < columns; ++j) sizes_.push_back(from.sizes_[entry * columns + j]);
    counts_.push_back(count);
    if (source_count_ > 0) sources_.push_back(from.sources_[entry]);
    samples_ += count;
}

/// The entries of both in order. `both(entry, entry_of_other)` gives the new count of each, where
/// an entry that there is not is the number of entries; those without samples are left out.
template <class Both>
Histogram Histogram::combined(const Histogram& other, Both&& both) const {
    Histogram made;
    made.names_ = names_;
    made.source_count_ = source_count_;
    const std::size_t most = entries() + other.entries();
    made.sizes_.reserve(most * columns());
    made.counts_.reserve(most);
    if (source_count_ > 0) made.sources_.reserve(most);
    for (std::size_t i = 0, k = 0; i < entries() || k < other.entries();) {
        const int order = i == entries() ? 1 : k == other.entries() ? -1 : compare(i, other, k);
        const std::size_t mine = order <= 0 ? i : entries(),
                          theirs = order >= 0 ? k : other.entries();
        if (const uint64_t count = both(mine, theirs); count > 0)
            made.append(order <= 0 ? *this : other, order <= 0 ? i : k, count);
        i += order <= 0;
        k += order >= 0;
    }
    return made;
}

void Histogram::add(const Columns& sizes, std::span<uint64_t> numbers) {
    const Points points = sort_entries(sizes, !numbers.empty());
    Histogram added;
    added.names_ = sizes.names();
    if (sizes.choice() != nullptr) added.source_count_ = sizes.choice()->sources();
    for (std::size_t id = 0; id < points.ids.size(); ++id)
        for (uint32_t p = points.first_points[id]; p < points.first_points[id + 1]; ++p) {
            for (std::size_t j = 0; j < points.columns; ++j)
                added.sizes_.push_back(points.value(p, j));
            added.counts_.push_back(points.first_offsets[p + 1] - points.first_offsets[p]);
            added.samples_ += added.counts_.back();
            if (added.source_count_ > 0)
                added.sources_.push_back(static_cast<uint32_t>(points.ids[id]));
        }
    Histogram all = *this;
    all.take_kind(added, "sizes");
    check_samples(samples_ + added.samples_);
    std::vector<uint64_t> before(numbers.empty() ? 0 : added.entries());
    all = all.combined(added, [&](std::size_t mine, std::size_t theirs) {
        const uint64_t known = mine < entries() ? counts_[mine] : 0;
        if (theirs == added.entries()) return known;
        if (!before.empty()) before[theirs] = known;
        return known + added.counts_[theirs];
    });
    for (std::size_t p = 0; p < before.size(); ++p)
        for (uint64_t k = points.first_offsets[p]; k < points.first_offsets[p + 1]; ++k)
            numbers[points.order[k]] = before[p] + (k - points.first_offsets[p]);
    *this = std::move(all);
}

void Histogram::merge(const Histogram& other) {
    Histogram all = *this;
    all.take_kind(other, "other");
    check_samples(samples_ + other.samples_);
    *this = all.combined(other, [&](std::size_t mine, std::size_t theirs) {
        return (mine < entries() ? counts_[mine] : 0) +
               (theirs < other.entries() ? other.counts_[theirs] : 0);
    });
}

void Histogram::subtract(const Histogram& other) {
    Histogram rest = *this;
    rest.take_kind(other, "other");
    *this = rest.combined(other, [&](std::size_t mine, std::size_t theirs) {
        const uint64_t has = mine < entries() ? counts_[mine] : 0,
                       less = theirs < other.entries() ? other.counts_[theirs] : 0;
        if (less > has)
            refuse_argument("other", no_value, "has ", less, " samples of ",
                            std::string_view(described(other, theirs)), ": must have at most ", has,
                            ", those of the histogram");
        return has - less;
    });
}

std::vector<uint64_t> Histogram::first_places() const {
    std::vector<uint64_t> places{0};
    places.reserve(entries() + 1);
    for (const uint64_t count : counts_) places.push_back(places.back() + count);
    return places;
}

double Histogram::total() const {
    double sum = 0;
    for (std::size_t entry = 0; entry < entries(); ++entry)
        for (std::size_t j = 0; j < columns(); ++j)
            sum += sizes_[entry * columns() + j] * static_cast<double>(counts_[entry]);
    return sum;
}

std::vector<NameField> Histogram::name_fields() const {
    std::vector<NameField> fields;
    fields.reserve(names_.size());
    for (const std::string& name : names_) fields.push_back(name_field(name));
    return fields;
}

/// With its length and checksum.
Histogram::Header Histogram::header() const {
    Header header{begin_image(histogram_image, sizeof header), columns(), sources(), entries()};
    const std::vector<NameField> names = name_fields();
    const ImageParts parts{std::as_bytes(std::span(&header, 1)), std::as_bytes(std::span(names)),
                           std::as_bytes(sizes()), std::as_bytes(counts()),
                           std::as_bytes(sources_of())};
    header.image.length = image_size(parts);
    header.image.checksum = image_checksum(parts);
    return header;
}

uint64_t Histogram::fingerprint() const {
    return header().image.checksum;
}

std::size_t Histogram::write(std::span<std::byte> room) const {
    refuse_epoch("histogram");
    const Header head = header();
    const std::vector<NameField> names = name_fields();
    return write_image(
        {std::as_bytes(std::span(&head, 1)), std::as_bytes(std::span(names)),
         std::as_bytes(sizes()), std::as_bytes(counts()), std::as_bytes(sources_of())},
        room);
}

namespace {

/// Copies the next `count` items of an image.
template <class Item>
std::vector<Item> take(std::span<const std::byte>& rest, uint64_t count,
                       const ImageRefusal& refuse) {
    if (count > rest.size() / sizeof(Item)) refuse("its entries do not fit its length");
    std::vector<Item> items(count);
    if (count > 0) std::memcpy(items.data(), rest.data(), count * sizeof(Item));
    rest = rest.subspan(count * sizeof(Item));
    return items;
}

}  // namespace

Histogram Histogram::read(std::span<const std::byte> bytes) {
    const ImageRefusal refuse(histogram_image, "data");
    Header header{};
    read_image_header(histogram_image, bytes, refuse, &header, sizeof header);
    std::span<const std::byte> rest = bytes.subspan(sizeof header);
    if (header.image.checksum != image_checksum({std::as_bytes(std::span(&header, 1)), rest}))
        refuse("it is damaged: the checksum does not match");
    if (header.columns > SAB_MAX_COLUMNS || header.sources > SAB_MAX_SOURCES ||
        (header.columns == 0 && (header.entries > 0 || header.sources > 0)))
        refuse("it has ", header.columns, " columns and ", header.sources, " sources");
    Histogram made;
    for (const NameField& field : take<NameField>(rest, header.columns, refuse)) {
        const std::optional<std::string> name = read_name(field);
        if (!name)
            refuse("the name of column ", made.names_.size(), " is not UTF-8 followed by zeros");
        made.names_.push_back(*name);
        if (name->empty() != made.names_[0].empty()) refuse("only some columns have names");
    }
    if (header.entries > rest.size()) refuse("its entries do not fit its length");
    made.source_count_ = header.sources;
    made.sizes_ = take<double>(rest, header.entries * header.columns, refuse);
    made.counts_ = take<uint64_t>(rest, header.entries, refuse);
    if (header.sources > 0) made.sources_ = take<uint32_t>(rest, header.entries, refuse);
    if (!rest.empty()) refuse("its entries do not fit its length");
    for (std::size_t entry = 0; entry < made.entries(); ++entry) {
        const auto own = std::span(made.sizes_).subspan(entry * header.columns, header.columns);
        if (!std::ranges::all_of(own, [](double size) { return is_size(size); }) ||
            (header.sources > 0 && made.sources_[entry] >= header.sources) ||
            (entry > 0 && made.compare(entry - 1, made, entry) >= 0))
            refuse("entry ", entry, " is out of order or range");
        const uint64_t count = made.counts_[entry];
        if (count < 1 || count > max_samples - made.samples_)
            refuse("entry ", entry, " has ", count, " samples");
        made.samples_ += count;
    }
    return made;
}

void refuse_mixture(const Histogram& histogram, const char* caller) {
    if (histogram.sources() > 0)
        fail(SAB_E_UNSUPPORTED, caller,
             ": the histogram is of a mixture: must be of one data set, or for a plan of one "
             "epoch, sab_histogram_epoch_new()");
    check(histogram.samples() > 0, "histogram.samples", histogram.samples(), "must be at least 1");
}

}  // namespace sab
