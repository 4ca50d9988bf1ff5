#pragma once
/// A polynomial that predicts peaks.

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/handle.h"
#include "cost/cost.h"
#include "sab/memory.h"

namespace sab {

class MemoryModel {
public:
    struct Term {
        double coefficient;
        std::vector<uint32_t> powers;  ///< one a feature
    };

    /// From `count` rows of `feature_count` features, with a peak for each.
    static std::shared_ptr<const MemoryModel> fit(const double* features, std::size_t count,
                                                  std::size_t feature_count, const double* peaks,
                                                  const sab_memory_model_options& options);
    static std::shared_ptr<const MemoryModel> open(const char* path);
    static std::shared_ptr<const MemoryModel> read(std::span<const std::byte> image,
                                                   std::string_view name);

    const sab_memory_model_info& info() const { return info_; }
    std::span<const Term> terms() const { return terms_; }
    /// Of the features after the first: those of a batch are its columns. "" each without names.
    const std::vector<std::string>& columns() const { return columns_; }
    double predict(std::span<const double> features) const;
    /// Predictions for `count` rows of features. `predicted` and `upper` may be NULL.
    void predict(const double* features, std::size_t count, double* predicted, double* upper) const;
    double upper(double predicted) const {
        return std::max(predicted, predicted * (1 + info_.margin));
    }
    /// The upper prediction.
    Cost cost() const;

    std::vector<std::byte> image() const;
    void save(const char* path) const;

private:
    /// What `info_` has of the columns and the terms, which stay as they are from then on.
    void finish();
    sab_memory_model_info info_ = SAB_MEMORY_MODEL_INFO_INIT;
    std::vector<std::string> columns_;
    std::vector<Term> terms_;
    std::vector<const char*> names_;
    std::vector<double> coefficients_;
    std::vector<uint32_t> powers_;  ///< of all terms, one after the other
};

/// All terms of a kind, degree and number of features, the constant first.
std::vector<std::vector<uint32_t>> model_terms(sab_memory_model_kind kind, uint32_t degree,
                                               std::size_t feature_count);

/// The product of the features' powers.
double term_value(std::span<const double> features, std::span<const uint32_t> powers);

/// Why a batch of these columns has no model of this degree; "" if it has one.
std::string refused_columns(std::size_t columns, uint32_t degree);

/// See sab_measurement_points_find().
void measurement_points(const sab_measurement_options& options, std::span<uint64_t> counts,
                        double* lengths);

}  // namespace sab

struct sab_memory_model {
    sab::Tag<sab_memory_model> tag{};
    std::shared_ptr<const sab::MemoryModel> impl;
};
