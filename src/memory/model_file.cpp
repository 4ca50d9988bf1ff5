/// A model as bytes: a header, then its terms. ARCHITECTURE.md describes the format.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/xxhash.h"
#include "memory/model.h"

namespace sab {
namespace {

constexpr char magic[8] = {'S', 'A', 'B', 'M', 'O', 'D', 'E', 'L'};
constexpr uint32_t byte_order = 0x01020304;
constexpr uint32_t version = 1;

/// Terms follow, each a coefficient (float64) and a power (uint32) for each feature.
struct Header {
    char magic[8];
    uint32_t byte_order;  ///< reads as byte_order on a machine of the writer's byte order
    uint32_t version;
    uint64_t checksum;  ///< XXH3 (64 bits) of all that follows it
    uint64_t length;    ///< of the whole image
    int32_t kind;
    uint32_t degree;
    uint64_t features;
    uint64_t terms;
    uint64_t measurements;
    double margin;
    double coverage;
    double residual;
    double held_out_residual;
    double largest_residual;
};
static_assert(sizeof(Header) == 104);

uint64_t checksum_of(std::span<const std::byte> image) {
    const auto covered = image.subspan(offsetof(Header, length));
    return XXH3_64bits(covered.data(), covered.size());
}

}  // namespace

std::vector<std::byte> MemoryModel::image() const {
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.byte_order = byte_order;
    header.version = version;
    header.kind = info_.kind;
    header.degree = info_.degree;
    header.features = info_.feature_count;
    header.terms = terms_.size();
    header.measurements = info_.measurements;
    header.margin = info_.margin;
    header.coverage = info_.coverage;
    header.residual = info_.residual;
    header.held_out_residual = info_.held_out_residual;
    header.largest_residual = info_.largest_residual;
    std::vector<std::byte> image(sizeof header);
    const auto append = [&](const auto& value) {
        const auto bytes = std::as_bytes(std::span(&value, 1));
        image.insert(image.end(), bytes.begin(), bytes.end());
    };
    for (const Term& term : terms_) {
        append(term.coefficient);
        for (const uint32_t power : term.powers) append(power);
    }
    header.length = image.size();
    std::memcpy(image.data(), &header, sizeof header);
    header.checksum = checksum_of(image);
    std::memcpy(image.data(), &header, sizeof header);
    return image;
}

void MemoryModel::save(const char* path) const {
    const std::vector<std::byte> bytes = image();
    const std::span<const std::byte> part = bytes;
    replace_file(path, std::span(&part, 1));
}

std::shared_ptr<const MemoryModel> MemoryModel::open(const char* path) {
    return read(*map_file(path), text("\"", path, "\""));
}

std::shared_ptr<const MemoryModel> MemoryModel::read(std::span<const std::byte> image,
                                                     std::string_view name) {
    const auto refuse = [&](const auto&... why) {
        fail(SAB_E_FORMAT, name, " is not a memory model that can be used: ", why...);
    };
    if (image.size() < sizeof magic || std::memcmp(image.data(), magic, sizeof magic) != 0)
        refuse("it does not begin as one does");
    if (image.size() < sizeof(Header)) refuse("it is truncated inside its header");
    Header header;
    std::memcpy(&header, image.data(), sizeof header);
    if (header.byte_order != byte_order)
        refuse("it was written on a machine of the other byte order");
    if (header.version != version)
        refuse("its format version is ", header.version, ", this library reads ", version);
    if (header.length != image.size()) refuse("it has ", image.size(), " bytes of ", header.length);
    if (header.checksum != checksum_of(image)) refuse("its checksum does not match: it is damaged");

    const std::size_t left = image.size() - sizeof header;
    if (header.features < 1 || header.features > 512 || header.terms < 1 || header.terms > 512 ||
        left != header.terms * (8 + 4 * header.features))
        refuse("its terms do not fit its length");
    for (const double number : {header.margin, header.coverage, header.residual,
                                header.held_out_residual, header.largest_residual})
        if (!(number >= 0 && std::isfinite(number))) refuse("one of its numbers is off");
    if (header.kind < SAB_MODEL_BATCH || header.kind > SAB_MODEL_POLYNOMIAL ||
        (header.kind == SAB_MODEL_BATCH && header.features != 2))
        refuse("its kind is off");
    auto model = std::make_shared<MemoryModel>();
    const std::byte* at = image.data() + sizeof header;
    for (uint64_t i = 0; i < header.terms; ++i) {
        Term term{0, std::vector<uint32_t>(header.features)};
        std::memcpy(&term.coefficient, at, sizeof term.coefficient);
        at += sizeof term.coefficient;
        std::memcpy(term.powers.data(), at, header.features * sizeof(uint32_t));
        at += header.features * sizeof(uint32_t);
        if (!std::isfinite(term.coefficient) ||
            std::ranges::any_of(term.powers, [](uint32_t power) { return power > 2; }))
            refuse("a term is off");
        if (header.kind == SAB_MODEL_BATCH && term.coefficient < 0 &&
            (term.powers[0] > 1 || term.powers[1] > 0))
            refuse("its memory falls");
        model->terms_.push_back(std::move(term));
    }
    model->refresh_constant();
    sab_memory_model_info& info = model->info_;
    info.kind = header.kind;
    info.degree = header.degree;
    info.feature_count = header.features;
    info.term_count = header.terms;
    info.measurements = header.measurements;
    info.margin = header.margin;
    info.coverage = header.coverage;
    info.residual = header.residual;
    info.held_out_residual = header.held_out_residual;
    info.largest_residual = header.largest_residual;
    return model;
}

}  // namespace sab
