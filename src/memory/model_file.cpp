/// A model as bytes. docs/internals/formats.md describes the format.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/image.h"
#include "memory/model.h"

namespace sab {
namespace {

constexpr ImageKind model_image{{'S', 'A', 'B', 'M', 'O', 'D', 'E', 'L'}, 2, "memory model"};

/// Terms follow, each a coefficient (float64) and a power (uint32) for each feature. The names of
/// the columns of a batch follow (NameField).
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

/// The name at a place of an image, of column `j`. `names` has those before it.
std::string take_name(const std::byte* at, const std::vector<std::string>& names, std::size_t j,
                      const ImageRefusal& refuse) {
    NameField field;
    std::memcpy(field.data(), at, sizeof field);
    const std::optional<std::string> name = read_name(field);
    const auto end = names.begin() + static_cast<std::ptrdiff_t>(j);
    if (!name || (j > 0 && name->empty() != names[0].empty()) ||
        (!name->empty() && std::find(names.begin(), end, *name) != end))
        refuse("the name of column ", j, " is invalid");
    return *name;
}

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
    if (info_.kind == SAB_MODEL_BATCH)
        for (const std::string& name : columns_) append(name_field(name));
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
    const bool is_batch = header.kind == SAB_MODEL_BATCH;
    if (header.features < 1 || header.features > 512 || header.terms < 1 || header.terms > 512 ||
        left != header.terms * (8 + 4 * header.features) +
                    (is_batch ? (header.features - 1) * sizeof(NameField) : 0))
        refuse("its terms do not fit its length");
    for (const double number : {header.margin, header.coverage, header.residual,
                                header.held_out_residual, header.largest_residual})
        if (!(number >= 0 && std::isfinite(number)))
            refuse("one of its numbers is negative or not finite");
    if (header.kind < SAB_MODEL_BATCH || header.kind > SAB_MODEL_POLYNOMIAL || header.degree < 1 ||
        header.degree > 2 ||
        (is_batch && !refused_columns(header.features - 1, header.degree).empty()))
        refuse("its kind is ", header.kind, " of degree ", header.degree, ", with ",
               header.features, " features");
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
        const bool grows =
            term.powers[0] > 1 || std::any_of(term.powers.begin() + 1, term.powers.end(),
                                              [](uint32_t power) { return power > 0; });
        if (is_batch && term.coefficient < 0 && grows)
            refuse("term ", i, " predicts less memory for larger batches");
        model->terms_.push_back(std::move(term));
    }
    model->columns_.resize(header.features - 1);
    for (std::size_t j = 0; is_batch && j < model->columns_.size(); ++j)
        model->columns_[j] = take_name(at + j * sizeof(NameField), model->columns_, j, refuse);
    model->finish();
    sab_memory_model_info& info = model->info_;
    info.kind = header.kind;
    info.degree = header.degree;
    info.feature_count = header.features;
    info.measurements = header.measurements;
    info.margin = header.margin;
    info.coverage = header.coverage;
    info.residual = header.residual;
    info.held_out_residual = header.held_out_residual;
    info.largest_residual = header.largest_residual;
    return model;
}

}  // namespace sab
