#include "memory/model.h"

#include <Eigen/Cholesky>
#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"

namespace sab {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

constexpr std::size_t most_terms = 512;
/// Relative errors below this are the rounding of allocators, and no reason to keep a term.
constexpr double finest_residual = 1e-5;

struct Problem {
    std::vector<std::vector<uint32_t>> terms;
    /// of each term: its largest absolute value, so that columns are of one size
    std::vector<double> scale;
    Matrix design;          ///< a row a measurement, each divided by its peak: relative errors
    bool is_batch = false;  ///< SAB_MODEL_BATCH: memory must not fall
    /// one sample of the least length measured of each column
    std::vector<double> smallest{};
};

/// Whether a model of batches could fall by term j. The constant may be negative: it moves the
/// whole curve. So may the term of the count, as long as the samples of the shortest length still
/// need memory: a step that works on length - 1 places needs count * length - count.
bool falls_by(const Problem& problem, const Vector& b, Eigen::Index j) {
    if (!problem.is_batch || j == 0 || b[j] >= 0) return false;
    if (j != 1) return true;
    double of_a_sample = 0;
    for (std::size_t i = 0; i < problem.terms.size(); ++i)
        if (problem.terms[i][0] == 1)
            of_a_sample += b[static_cast<Eigen::Index>(i)] / problem.scale[i] *
                           term_value(problem.smallest, problem.terms[i]);
    return of_a_sample <= 0;
}

Problem make_problem(std::span<const double> features, std::size_t feature_count,
                     std::span<const double> peaks, const sab_memory_model_options& options) {
    Problem problem;
    problem.terms = model_terms(options.kind, options.degree, feature_count);
    problem.is_batch = options.kind == SAB_MODEL_BATCH;
    if (problem.is_batch) {
        problem.smallest.assign(features.begin(),
                                features.begin() + static_cast<std::ptrdiff_t>(feature_count));
        for (std::size_t i = 0; i < features.size(); ++i) {
            double& least = problem.smallest[i % feature_count];
            least = std::min(least, features[i]);
        }
        problem.smallest[0] = 1;
    }
    const auto rows = static_cast<Eigen::Index>(peaks.size());
    const auto columns = static_cast<Eigen::Index>(problem.terms.size());
    problem.design.resize(rows, columns);
    for (Eigen::Index j = 0; j < columns; ++j) {
        for (Eigen::Index i = 0; i < rows; ++i)
            problem.design(i, j) =
                term_value(
                    features.subspan(static_cast<std::size_t>(i) * feature_count, feature_count),
                    problem.terms[static_cast<std::size_t>(j)]) /
                peaks[static_cast<std::size_t>(i)];
        const double largest = problem.design.col(j).cwiseAbs().maxCoeff();
        problem.scale.push_back(largest > 0 ? largest : 1);
        problem.design.col(j) /= problem.scale.back();
    }
    return problem;
}

Matrix columns_of(const Matrix& design, const std::vector<Eigen::Index>& kept) {
    Matrix part(design.rows(), static_cast<Eigen::Index>(kept.size()));
    for (std::size_t j = 0; j < kept.size(); ++j)
        part.col(static_cast<Eigen::Index>(j)) = design.col(kept[j]);
    return part;
}

Matrix rows_of(const Matrix& design, const std::vector<Eigen::Index>& kept) {
    Matrix part(static_cast<Eigen::Index>(kept.size()), design.cols());
    for (std::size_t i = 0; i < kept.size(); ++i)
        part.row(static_cast<Eigen::Index>(i)) = design.row(kept[i]);
    return part;
}

Eigen::ColPivHouseholderQR<Matrix> decompose(const Matrix& design) {
    Eigen::ColPivHouseholderQR<Matrix> qr(design.rows(), design.cols());
    qr.setThreshold(1e-9);
    qr.compute(design);
    return qr;
}

/// Least squares to ones, by one reflection after the other. qr.solve() and whole products would
/// bring in what is for large matrices, a tenth of the library.
Vector solve(const Eigen::ColPivHouseholderQR<Matrix>& qr) {
    Vector ones = Vector::Ones(qr.rows()), scratch(1);
    const Eigen::Index pivots = qr.nonzeroPivots();
    for (Eigen::Index k = 0; k < pivots; ++k) {
        const Eigen::Index below = qr.rows() - k;
        ones.tail(below).applyHouseholderOnTheLeft(qr.matrixQR().col(k).tail(below - 1),
                                                   qr.hCoeffs()[k], scratch.data());
    }
    Vector solved = Vector::Zero(qr.cols());
    solved.head(pivots) = qr.matrixR()
                              .topLeftCorner(pivots, pivots)
                              .triangularView<Eigen::Upper>()
                              .solve(ones.head(pivots));
    return qr.colsPermutation() * solved;
}

/// Backward elimination: the term whose loss adds least to the squares goes, as long as that lowers
/// the criterion, or as long as a term is negative that must not be. Leaving out term j adds b_j^2
/// / G_jj to the squares (G the inverse of the normal matrix), and changes the others by a rank-one
/// update.
std::vector<Eigen::Index> select_terms(const Problem& problem, bool by_criterion) {
    const auto n = static_cast<double>(problem.design.rows());
    const auto qr = decompose(problem.design);
    const Eigen::Index size = problem.design.cols();
    const Matrix r = qr.matrixR().topLeftCorner(size, size).triangularView<Eigen::Upper>();
    Matrix r_inverse(size, size);
    for (Eigen::Index j = 0; j < size; ++j)
        r_inverse.col(j) = r.triangularView<Eigen::Upper>().solve(Vector::Unit(size, j));
    Matrix g = qr.colsPermutation() * Matrix(r_inverse.lazyProduct(r_inverse.transpose())) *
               qr.colsPermutation().transpose();
    Vector b = solve(qr);
    double squares = (problem.design * b - Vector::Ones(problem.design.rows())).squaredNorm();

    std::vector<Eigen::Index> kept(static_cast<std::size_t>(size));
    std::iota(kept.begin(), kept.end(), Eigen::Index{0});
    const auto criterion = [&](double rss, double terms) {
        return n * std::log(std::max(rss / n, finest_residual * finest_residual)) +
               terms * std::log(n);
    };
    while (kept.size() > 1) {
        const bool has_negative =
            std::ranges::any_of(kept, [&](Eigen::Index j) { return falls_by(problem, b, j); });
        Eigen::Index worst = -1;
        double least = 0;
        for (const Eigen::Index j : kept) {
            if (j == 0 || (has_negative && !falls_by(problem, b, j))) continue;
            const double added = b[j] * b[j] / g(j, j);
            if (worst < 0 || added < least) worst = j, least = added;
        }
        const auto terms = static_cast<double>(kept.size());
        if (worst < 0 || (!has_negative && (!by_criterion || criterion(squares + least, terms - 1) >
                                                                 criterion(squares, terms))))
            break;
        const Vector column = g.col(worst);
        squares += least;
        b -= column * (b[worst] / column[worst]);
        g -= column * column.transpose() / column[worst];
        b[worst] = 0;
        std::erase(kept, worst);
    }
    return kept;
}

/// Relative residual of a peak of 1: rows are divided by their peaks. A prediction that is not
/// above zero is as wrong as can be told.
double residual(double predicted) {
    return 1 / std::max(predicted, 1e-3) - 1;
}

/// Of each measurement, by the terms `kept` or selected again and fitted without its group.
std::vector<double> held_out_residuals(const Problem& problem,
                                       const std::vector<Eigen::Index>& kept, bool by_criterion) {
    const auto n = static_cast<std::size_t>(problem.design.rows());
    const std::size_t groups = std::min<std::size_t>(n, 50);
    std::vector<double> held_out(n);
    for (std::size_t group = 0; group < groups; ++group) {
        std::vector<Eigen::Index> others;
        for (std::size_t i = 0; i < n; ++i)
            if (i % groups != group) others.push_back(static_cast<Eigen::Index>(i));
        // Terms are selected anew: which ones were kept also depends on the measurement that is
        // held out.
        Problem part{problem.terms, problem.scale, rows_of(problem.design, others),
                     problem.is_batch, problem.smallest};
        std::vector<Eigen::Index> terms = kept;
        if (decompose(part.design).rank() == part.design.cols())
            terms = select_terms(part, by_criterion);
        const Vector without = solve(decompose(columns_of(part.design, terms)));
        const Matrix whole = columns_of(problem.design, terms);
        for (std::size_t i = group; i < n; i += groups)
            held_out[i] = residual(whole.row(static_cast<Eigen::Index>(i)).dot(without));
    }
    return held_out;
}

/// Of a feature of a batch, in messages: count, length, length["source"] or length[1].
std::string feature_name(std::size_t feature, std::span<const std::string> columns) {
    if (feature == 0) return "count";
    const std::string& column = columns[feature - 1];
    if (!column.empty()) return text("length[\"", column, "\"]");
    return columns.size() == 1 ? "length" : text("length[", feature - 1, "]");
}

/// Says what to measure so that the terms can be told apart.
[[noreturn]] void refuse_deficient(const Problem& problem, std::span<const double> features,
                                   std::span<const std::string> columns, std::size_t count,
                                   const sab_memory_model_options& options, Eigen::Index rank) {
    const bool is_batch = options.kind == SAB_MODEL_BATCH;
    const std::size_t feature_count = columns.size() + 1;
    const auto name = [&](std::size_t f) {
        return is_batch ? feature_name(f, columns) : text("feature ", f);
    };
    std::vector<std::set<double>> values(feature_count);
    for (std::size_t i = 0; i < count * feature_count; ++i)
        values[i % feature_count].insert(features[i]);
    for (std::size_t f = 0; f < feature_count; ++f) {
        const std::size_t needed = is_batch && f == 0 ? 2 : options.degree + 1;
        if (values[f].size() >= needed) continue;
        if (values[f].size() == 1)
            refuse_argument("features", no_value, name(f), " is ", *values[f].begin(), " in all ",
                            count, " measurements: measure at least ", needed,
                            " different values of it");
        refuse_argument("features", no_value, name(f), " has only ", values[f].size(),
                        " values, from ", *values[f].begin(), " to ", *values[f].rbegin(),
                        ": degree ", options.degree, " needs at least ", needed,
                        ": measure another one");
    }
    // The point of the grid of least, middle and largest values that is farthest from what was
    // measured.
    std::vector<double> best;
    double farthest = 0;
    if (feature_count <= 6) {
        const Matrix transposed = problem.design.transpose();
        const Eigen::LDLT<Matrix> rows(transposed.lazyProduct(transposed.transpose()) +
                                       1e-12 *
                                           Matrix::Identity(transposed.rows(), transposed.rows()));
        std::size_t points = 1;
        for (std::size_t f = 0; f < feature_count; ++f) points *= 3;
        for (std::size_t point = 0; point < points; ++point) {
            std::vector<double> at(feature_count);
            for (std::size_t f = 0, rest = point; f < feature_count; ++f, rest /= 3) {
                const double low = *values[f].begin(), high = *values[f].rbegin();
                at[f] = rest % 3 == 0 ? low : rest % 3 == 2 ? high : std::round((low + high) / 2);
            }
            Vector row(static_cast<Eigen::Index>(problem.terms.size()));
            for (std::size_t j = 0; j < problem.terms.size(); ++j)
                row[static_cast<Eigen::Index>(j)] =
                    term_value(at, problem.terms[j]) / problem.scale[j];
            row.normalize();
            const double distance = row.dot(rows.solve(row));
            if (distance > farthest) farthest = distance, best = at;
        }
    }
    std::string where;
    for (std::size_t f = 0; f < best.size(); ++f)
        where += text(f == 0 ? ": measure also " : ", ", name(f), " = ", best[f]);
    refuse_argument("features", no_value, count, " measurements determine only ",
                    static_cast<int64_t>(rank), " of ", problem.terms.size(),
                    " terms: the features vary together",
                    where.empty() ? std::string(": vary them independently") : where);
}

void check_data(std::span<const double> features, std::size_t feature_count,
                std::span<const double> peaks, const sab_memory_model_options& options) {
    check(options.kind == SAB_MODEL_BATCH || options.kind == SAB_MODEL_POLYNOMIAL, "options.kind",
          options.kind, "must be SAB_MODEL_BATCH (0) or SAB_MODEL_POLYNOMIAL (1)");
    check(options.degree == 1 || options.degree == 2, "options.degree", options.degree,
          "must be 1 or 2");
    check(options.coverage > 0 && options.coverage < 1, "options.coverage", options.coverage,
          "must be above 0 and below 1");
    check(options.keep_terms == 0 || options.keep_terms == 1, "options.keep_terms",
          options.keep_terms, "must be 0 or 1");
    check(feature_count >= 1, "feature_count", feature_count, "must be at least 1");
    const std::size_t degree = options.degree;
    if (options.kind == SAB_MODEL_BATCH) {
        const std::string why = refused_columns(feature_count - 1, options.degree);
        check(why.empty(), "feature_count", feature_count,
              "must be 1 + the number of columns for SAB_MODEL_BATCH: ", std::string_view(why));
    }
    check(feature_count <= most_terms &&
              (degree == 1 || (feature_count + 1) * (feature_count + 2) / 2 <= most_terms),
          "feature_count", feature_count, "gives a model of degree ", degree, " more than ",
          most_terms, " terms");
    for (std::size_t i = 0; i < features.size(); ++i)
        if (!std::isfinite(features[i]))
            refuse_argument(named("features[", i / feature_count, "][", i % feature_count, "]"),
                            features[i], "must be finite: measure it again");
    for (std::size_t i = 0; i < peaks.size(); ++i)
        if (!(peaks[i] > 0 && std::isfinite(peaks[i])))
            refuse_argument(named("peaks[", i, "]"), peaks[i],
                            "must be finite and above 0: measure it again");
}

/// The names given, checked; "" for each column without any.
std::vector<std::string> read_column_names(const sab_memory_model_options& options,
                                           std::size_t columns) {
    std::vector<std::string> names(columns);
    if (options.column_names == nullptr) return names;
    check(options.kind == SAB_MODEL_BATCH, "options.column_names", "given",
          "goes with SAB_MODEL_BATCH only");
    for (std::size_t j = 0; j < columns; ++j) {
        const std::string argument = text("options.column_names[", j, "]");
        require(options.column_names[j], argument);
        check_column_name(argument, options.column_names[j]);
        names[j] = options.column_names[j];
        check(std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(j), names[j]) ==
                  names.begin() + static_cast<std::ptrdiff_t>(j),
              argument, Quoted{names[j]}, "must not be the name of another column");
    }
    return names;
}

}  // namespace

std::vector<std::vector<uint32_t>> model_terms(sab_memory_model_kind kind, uint32_t degree,
                                               std::size_t feature_count) {
    if (kind == SAB_MODEL_BATCH) {
        // Of the lengths, without the constant; each with and without the count. The count alone is
        // the second term.
        const auto lengths = model_terms(SAB_MODEL_POLYNOMIAL, degree, feature_count - 1);
        std::vector<std::vector<uint32_t>> terms;
        const auto add = [&](uint32_t count_power, std::size_t first, std::size_t end) {
            for (std::size_t i = first; i < end; ++i) {
                terms.push_back({count_power});
                terms.back().insert(terms.back().end(), lengths[i].begin(), lengths[i].end());
            }
        };
        add(0, 0, 1);
        add(1, 0, lengths.size());
        if (degree == 2) add(0, 1, lengths.size());
        return terms;
    }
    std::vector<std::vector<uint32_t>> terms{std::vector<uint32_t>(feature_count, 0)};
    for (std::size_t f = 0; f < feature_count; ++f) {
        terms.push_back(terms[0]);
        terms.back()[f] = 1;
    }
    for (std::size_t f = 0; f < feature_count && degree == 2; ++f)
        for (std::size_t g = f; g < feature_count; ++g) {
            terms.push_back(terms[0]);
            ++terms.back()[f];
            ++terms.back()[g];
        }
    return terms;
}

std::string refused_columns(std::size_t columns, uint32_t degree) {
    if (columns < 1 || columns > SAB_MAX_COLUMNS)
        return text("columns must be from 1 to ", SAB_MAX_COLUMNS);
    const std::size_t terms = model_terms(SAB_MODEL_BATCH, degree, columns + 1).size();
    if (terms <= SAB_MAX_COST_TERMS) return "";
    return text("degree ", degree, " of ", columns, " columns has ", terms, " terms, more than ",
                SAB_MAX_COST_TERMS);
}

double term_value(std::span<const double> features, std::span<const uint32_t> powers) {
    double product = 1;
    for (std::size_t f = 0; f < powers.size(); ++f)
        for (uint32_t i = 0; i < powers[f]; ++i) product *= features[f];
    return product;
}

std::shared_ptr<const MemoryModel> MemoryModel::fit(const double* feature_rows, std::size_t count,
                                                    std::size_t feature_count,
                                                    const double* row_peaks,
                                                    const sab_memory_model_options& options) {
    check(feature_count <= 65536 && count <= std::size_t{1} << 32, "count", count,
          "must be at most 2^32 rows of at most 65536 features");
    const std::span features(feature_rows, count * feature_count), peaks(row_peaks, count);
    check_data(features, feature_count, peaks, options);
    auto model = std::make_shared<MemoryModel>();
    model->columns_ = read_column_names(options, feature_count - 1);
    const std::size_t n = peaks.size();
    const std::size_t term_count = model_terms(options.kind, options.degree, feature_count).size();
    check(n > term_count, "count", n, "a model of degree ", options.degree, " of ", feature_count,
          " features has ", term_count, " terms and needs at least ", term_count + 1,
          " measurements: measure ", n > term_count ? 0 : term_count + 1 - n, " more");
    const Problem problem = make_problem(features, feature_count, peaks, options);
    if (const Eigen::Index rank = decompose(problem.design).rank(); rank < problem.design.cols())
        refuse_deficient(problem, features, model->columns_, n, options, rank);

    const std::vector<Eigen::Index> kept = select_terms(problem, options.keep_terms == 0);
    const Matrix design = columns_of(problem.design, kept);
    const Vector coefficients = solve(decompose(design));

    for (std::size_t j = 0; j < kept.size(); ++j) {
        const auto term = static_cast<std::size_t>(kept[j]);
        double coefficient = coefficients[static_cast<Eigen::Index>(j)] / problem.scale[term];
        if (problem.is_batch && term > 1) coefficient = std::max(coefficient, 0.0);  // rounding
        model->terms_.push_back({coefficient, problem.terms[term]});
    }
    model->finish();
    sab_memory_model_info& info = model->info_;
    info.kind = options.kind;
    info.degree = options.degree;
    info.feature_count = feature_count;
    info.measurements = n;

    double squares = 0;
    const Vector predicted = design * coefficients;
    for (Eigen::Index i = 0; i < predicted.size(); ++i) {
        const double each = residual(predicted[i]);
        squares += each * each;
        info.largest_residual = std::max(info.largest_residual, std::abs(each));
    }
    info.residual = std::sqrt(squares / static_cast<double>(n));

    std::vector<double> held_out = held_out_residuals(problem, kept, options.keep_terms == 0);
    squares = 0;
    for (const double each : held_out) squares += each * each;
    info.held_out_residual = std::sqrt(squares / static_cast<double>(n));
    std::ranges::sort(held_out);
    const auto measured = static_cast<double>(n);
    const double place = std::ceil((measured + 1) * options.coverage);
    info.coverage = place > measured ? measured / (measured + 1) : options.coverage;
    info.margin = std::max(0.0, held_out[static_cast<std::size_t>(std::min(place, measured)) - 1]);
    return model;
}

void MemoryModel::finish() {
    info_.constant = 0;
    for (const Term& term : terms_) {
        if (std::ranges::all_of(term.powers, [](uint32_t power) { return power == 0; }))
            info_.constant += term.coefficient;
        coefficients_.push_back(term.coefficient);
        powers_.insert(powers_.end(), term.powers.begin(), term.powers.end());
    }
    for (const std::string& name : columns_)
        if (!name.empty()) names_.push_back(name.c_str());
    info_.term_count = terms_.size();
    info_.coefficients = coefficients_.data();
    info_.powers = powers_.data();
    info_.column_names = names_.empty() ? nullptr : names_.data();
}

double MemoryModel::predict(std::span<const double> features) const {
    double sum = 0;
    for (const Term& term : terms_) sum += term.coefficient * term_value(features, term.powers);
    return sum;
}

void MemoryModel::predict(const double* features, std::size_t count, double* predicted,
                          double* upper_predicted) const {
    const std::size_t width = info_.feature_count;
    for (std::size_t i = 0; i < count * width; ++i)
        if (!std::isfinite(features[i]))
            refuse_argument(named("features[", i / width, "][", i % width, "]"), features[i],
                            "must be finite");
    for (std::size_t i = 0; i < count; ++i) {
        const double peak = predict({features + i * width, width});
        if (predicted != nullptr) predicted[i] = peak;
        if (upper_predicted != nullptr) upper_predicted[i] = upper(peak);
    }
}

Cost MemoryModel::cost() const {
    if (info_.feature_count < 2 || info_.feature_count > 1 + SAB_MAX_COLUMNS ||
        terms_.size() > SAB_MAX_COST_TERMS)
        refuse_argument("model", no_value, "has ", info_.feature_count, " features and ",
                        terms_.size(), " terms: only one of a count and 1 to ", SAB_MAX_COLUMNS,
                        " padded lengths, with at most ", SAB_MAX_COST_TERMS,
                        " terms, can be the cost of a plan");
    std::vector<CostTerm> terms;
    const double margin = 1 + info_.margin;
    double constant = 0;
    for (const Term& term : terms_) {
        const uint32_t count_power = term.powers[0];
        const std::span<const uint32_t> powers = std::span(term.powers).subspan(1);
        const bool has_lengths =
            std::ranges::any_of(powers, [](uint32_t power) { return power > 0; });
        if (count_power == 0 && !has_lengths) {
            constant += term.coefficient;
            continue;
        }
        if (term.coefficient < 0 && (count_power != 1 || has_lengths)) {
            std::string factors;
            for (std::size_t f = 0; f < term.powers.size(); ++f)
                factors +=
                    text(f == 0 ? "" : " * ", feature_name(f, columns_), "^", term.powers[f]);
            refuse_argument("model", no_value, "its term ", std::string_view(factors),
                            " has the coefficient ", term.coefficient,
                            ": a cost must not fall; fit it as SAB_MODEL_BATCH");
        }
        terms.push_back({term.coefficient * margin, count_power, {}, 0});
        std::ranges::copy(powers, terms.back().length_powers.begin());
    }
    // A negative constant is left out: the cost is a little more than the prediction then.
    terms.insert(terms.begin(), {std::max(constant, 0.0) * margin, 0, {}, 0});
    return {std::move(terms), true};
}

}  // namespace sab
