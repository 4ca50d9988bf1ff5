/// A model as bytes. docs/formats.md describes the format.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/image.h"
#include "memory/model.h"

namespace sab {
namespace {

constexpr ImageKind model_image{{'S', 'A', 'B', 'M', 'O', 'D', 'E', 'L'}, 1, "memory model"};

/// Terms follow, each a coefficient (float64) and a power (uint32) for each feature.
struct Header {
    ImageHeader image;
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

}  // namespace

std::vector<std::byte> MemoryModel::image() const {
    std::vector<std::byte> image(sizeof(Header));
    const auto append = [&](const auto& value) {
        const auto bytes = std::as_bytes(std::span(&value, 1));
        image.insert(image.end(), bytes.begin(), bytes.end());
    };
    for (const Term& term : terms_) {
        append(term.coefficient);
        for (const uint32_t power : term.powers) append(power);
    }
    Header header{begin_image(model_image, image.size()),
                  info_.kind,
                  info_.degree,
                  info_.feature_count,
                  terms_.size(),
                  info_.measurements,
                  info_.margin,
                  info_.coverage,
                  info_.residual,
                  info_.held_out_residual,
                  info_.largest_residual};
    std::memcpy(image.data(), &header, sizeof header);
    header.image.checksum = image_checksum({image});
    std::memcpy(image.data(), &header, sizeof header);
    return image;
}

void MemoryModel::save(const char* path) const {
    const std::vector<std::byte> bytes = image();
    replace_file(path, ImageParts{bytes});
}

std::shared_ptr<const MemoryModel> MemoryModel::open(const char* path) {
    return read(*map_file(path), text("\"", path, "\""));
}

std::shared_ptr<const MemoryModel> MemoryModel::read(std::span<const std::byte> image,
                                                     std::string_view name) {
    const ImageRefusal refuse(model_image, name);
    Header header;
    read_image_header(model_image, image, refuse, &header, sizeof header);
    if (header.image.checksum != image_checksum({image}))
        refuse("its checksum does not match: it is damaged");

    const std::size_t left = image.size() - sizeof header;
    if (header.features < 1 || header.features > 512 || header.terms < 1 || header.terms > 512 ||
        left != header.terms * (8 + 4 * header.features))
        refuse("its terms do not fit its length");
    for (const double number : {header.margin, header.coverage, header.residual,
                                header.held_out_residual, header.largest_residual})
        if (!(number >= 0 && std::isfinite(number)))
            refuse("one of its numbers is negative or not finite");
    if (header.kind < SAB_MODEL_BATCH || header.kind > SAB_MODEL_POLYNOMIAL ||
        (header.kind == SAB_MODEL_BATCH && header.features != 2))
        refuse("its kind is ", header.kind, ", with ", header.features, " features");
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
            refuse("the coefficient or a power of term ", i, " is out of range");
        if (header.kind == SAB_MODEL_BATCH && term.coefficient < 0 &&
            (term.powers[0] > 1 || term.powers[1] > 0))
            refuse("term ", i, " predicts less memory for larger batches");
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
