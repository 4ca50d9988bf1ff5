/// Bytes as a memory model, with the checksum made right so that the deeper checks are reached.
/// What is accepted predicts, prices a plan, and is written as the same bytes.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "fuzz.h"

static constexpr size_t checksum_at = 16, covered_from = 24;

static std::vector<uint8_t> image_of(const sab_memory_model* model) {
    size_t size = 0, same = 0;
    PROMISE(sab_memory_model_write(model, nullptr, 0, &size) == SAB_OK);
    std::vector<uint8_t> image(size);
    PROMISE(sab_memory_model_write(model, image.data(), size, &same) == SAB_OK && same == size);
    return image;
}

/// A model that fits what a transformer needs: to be damaged.
static std::vector<uint8_t> a_model(sab_memory_model_kind kind, size_t columns) {
    static const char* const names[] = {"source", "target"};
    std::vector<double> features, peaks;
    for (int count = 1; count <= 5; ++count)
        for (int length = 8; length <= 128; length *= 2) {
            const int other = 3 + count * length % 11 * 9;
            features.insert(features.end(),
                            {static_cast<double>(count), static_cast<double>(length)});
            if (columns == 2) features.push_back(other);
            peaks.push_back(1e6 + 1e3 * count + 500 * count * length +
                            (columns == 2 ? 300 * count * other : 0) +
                            (count * 7 + length) % 5 * 1e3);
        }
    sab_memory_model_options options = SAB_MEMORY_MODEL_OPTIONS_INIT;
    options.kind = kind;
    if (columns == 2) options.column_names = names;
    sab_memory_model* model = nullptr;
    PROMISE(sab_memory_model_fit_new(features.data(), peaks.size(), 1 + columns, peaks.data(),
                                     &options, &model) == SAB_OK);
    std::vector<uint8_t> image = image_of(model);
    sab_memory_model_free(model);
    return image;
}

/// A plan that the model prices: no batch of it is predicted to be over the budget.
static void plan_by(const sab_memory_model* model, const sab_cost* cost, double constant,
                    size_t columns) {
    static const std::array<uint8_t, 40> lengths = [] {
        std::array<uint8_t, 40> made{};
        for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<uint8_t>(1 + i * 37 % 50);
        return made;
    }();
    sab_sizes *sizes = nullptr, *column = nullptr;
    sab_plan* plan = nullptr;
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET_OF(options, cost, constant + 1e5);
    PROMISE(sab_sizes_new(lengths.data(), lengths.size(), SAB_UINT8, nullptr, &column) == SAB_OK);
    const std::vector<const sab_sizes*> same(columns, column);
    PROMISE(sab_sizes_columns_new(same.data(), nullptr, columns, &sizes) == SAB_OK);
    sab_sizes_free(column);
    const sab_status status = sab_plan_new(sizes, &options, &plan);
    PROMISE((status == SAB_OK) == (plan != nullptr) &&
            (status == SAB_OK || status == SAB_E_ARGUMENT));
    sab_sampler* sampler = nullptr;
    if (status == SAB_OK) {
        PROMISE(sab_bucket_sampler_new(plan, nullptr, &sampler) == SAB_OK);
        PROMISE(sab_sampler_set_budget(sampler, 0, constant + 5e4) <= SAB_OK);
        sab_batch batch = SAB_BATCH_INIT;
        while (sab_next_batch(sampler, &batch) == SAB_OK) {
            std::vector<double> shape{static_cast<double>(batch.count)};
            shape.insert(shape.end(), batch.padded_length, batch.padded_length + columns);
            double upper = 0;
            PROMISE(sab_memory_model_predict(model, shape.data(), 1, nullptr, &upper) == SAB_OK);
            PROMISE(batch.count == 1 || upper <= options.budgets->limit * (1 + 1e-9));
        }
    }
    sab_sampler_free(sampler);
    sab_plan_free(plan);
    sab_sizes_free(sizes);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // The input is a patch list on a real model: (place, byte) pairs; or, with its first bit set,
    // the raw image.
    static const std::vector<uint8_t> models[3] = {
        a_model(SAB_MODEL_POLYNOMIAL, 1), a_model(SAB_MODEL_BATCH, 1), a_model(SAB_MODEL_BATCH, 2)};
    Input input(data, size);
    std::vector<uint8_t> image;
    const auto mode = input.take<uint8_t>();
    if (mode & 1) {
        image.assign(input.data(), input.data() + input.left());
    } else {
        image = models[(mode >> 1 & 1) + (mode >> 3 & mode >> 1 & 1)];
        while (input.left() > 0) {
            const auto place = input.take<uint8_t>() % image.size();
            image[place] = input.take<uint8_t>();
        }
    }
    if (!(mode & 4) && image.size() > covered_from) {
        const uint64_t checksum =
            XXH3_64bits(image.data() + covered_from, image.size() - covered_from);
        std::memcpy(image.data() + checksum_at, &checksum, sizeof checksum);
    }
    sab_memory_model* model = nullptr;
    const sab_status status = sab_memory_model_bytes_new(image.data(), image.size(), &model);
    PROMISE((status == SAB_OK) == (model != nullptr) &&
            (status == SAB_OK || status == SAB_E_FORMAT));
    if (status != SAB_OK) return 0;

    PROMISE(image_of(model) == image);
    sab_memory_model_info info = SAB_MEMORY_MODEL_INFO_INIT;
    PROMISE(sab_memory_model_get_info(model, &info) == SAB_OK && info.feature_count >= 1 &&
            info.term_count >= 1);
    PROMISE(info.kind != SAB_MODEL_BATCH ||
            (info.feature_count >= 2 && info.feature_count <= 1 + SAB_MAX_COLUMNS));
    const size_t columns = info.feature_count - 1;
    PROMISE(info.margin >= 0 && std::isfinite(info.margin));
    std::vector<double> shapes(4 * info.feature_count);
    for (size_t i = 0; i < shapes.size(); ++i) shapes[i] = static_cast<double>(1 + i * 7 % 50);
    double constant = 0, sum = 0;
    for (size_t i = 0; i < info.term_count; ++i) {
        PROMISE(std::isfinite(info.coefficients[i]));
        sum += std::abs(info.coefficients[i]);
    }
    const bool is_finite = std::isfinite(sum * (1 + info.margin));
    double predicted[4], upper[4];
    PROMISE(sab_memory_model_predict(model, shapes.data(), 4, predicted, upper) == SAB_OK);
    sab_cost* cost = nullptr;
    const sab_status priced = sab_memory_model_cost_new(model, &cost);
    PROMISE(priced == SAB_OK ||
            (priced == SAB_E_ARGUMENT && (info.kind == SAB_MODEL_POLYNOMIAL ||
                                          info.term_count > SAB_MAX_COST_TERMS || !is_finite)));
    if (priced == SAB_OK) {
        constant = std::max(info.constant, 0.0) * (1 + info.margin);
        plan_by(model, cost, constant, columns);
    }
    sab_cost_free(cost);
    sab_memory_model_free(model);
    return 0;
}
