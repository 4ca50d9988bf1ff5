#include "sampler/sampler.h"

#include <algorithm>

#include "sampler/capabilities.h"

namespace sab {

BatchSums BatchOrder::sums() const {
    BatchSums sums;
    for (uint64_t position = 0; position < batches(); ++position) sums.add(sums_at(position));
    return sums;
}

/// An empty batch weighs nothing. Where all totals are 0, they are as large as their mean.
void EpochBatch::weigh(const BatchMean& mean) {
    if (batch.count == 0) {
        sample_weight = 0;
        token_weight = {};
        return;
    }
    const auto& [samples, total] = mean.sums;
    sample_weight = static_cast<double>(batch.count) * mean.batches / samples;
    for (std::size_t j = 0; j < batch.columns; ++j)
        token_weight[j] = total[j] > 0 ? batch.total[j] * mean.batches / total[j] : 1;
}

void MeanSoFar::weigh(EpochBatch& batch) {
    if (batch.position == 0) sums_ = {};
    sums_.add({static_cast<double>(batch.batch.count), batch.batch.total});
    batch.weigh({sums_, static_cast<double>(batch.position + 1)});
}

sab_sampler* new_handle(std::unique_ptr<Sampler> sampler) {
    auto* const handle = new sab_sampler{{}, std::move(sampler), {}};
    handle->impl->own();
    return handle;
}

static void need_shown(const sab_sampler& sampler) {
    if (sampler.shown.changes != sampler.impl->changes())
        refuse_argument("sampler", no_value,
                        "shows no batch: the last call must be a successful sab_next_batch() or "
                        "sab_sampler_at()");
}

sab_rows shown_rows(sab_sampler& sampler) {
    need_shown(sampler);
    const Batch& batch = sampler.shown.batch;
    if (!batch.is_row) fail(SAB_E_UNSUPPORTED, "sab_sampler_get_rows: the batch is padded");
    const auto shown = [](const auto& of_columns, auto& pointers) -> const int32_t* const* {
        std::ranges::transform(of_columns, pointers.begin(),
                               [](const auto& of_column) { return of_column.data(); });
        return of_columns.empty() ? nullptr : pointers.data();
    };
    return {sizeof(sab_rows),
            batch.columns,
            shown(batch.cu_seqlens, sampler.cu_seqlens),
            batch.starts.empty() ? nullptr : batch.starts.data(),
            batch.capacity.data(),
            shown(batch.cu_seqlens_unpadded, sampler.cu_seqlens_unpadded)};
}

const std::vector<Shape>& shown_shapes(sab_sampler& sampler) {
    const Cursor& cursor = need_plan(*sampler.impl, "sab_sampler_get_shape");
    const std::pair now(sampler.impl->changes(), cursor.epoch());
    if (sampler.shapes_of != now) {
        sampler.shapes_of = {EpochBatch::nothing_shown, 0};
        sampler.shapes = cursor.shapes();
        sampler.shapes_of = now;
    }
    return sampler.shapes;
}

sab_step shown_step(sab_sampler& sampler) {
    need_shown(sampler);
    const StepTotals totals = sampler.impl->step_of(sampler.shown);
    sampler.step_totals = totals.total;
    return {sizeof(sab_step), totals.micro_batches, totals.samples, sampler.shown.batch.columns,
            sampler.step_totals.data()};
}

std::optional<sab_block> next_block(sab_sampler& sampler, std::size_t most) {
    if (RandomAccess* const own = sampler.impl->random_access()) {
        if (!own->next_block(sampler.shown, most, sampler.block)) return std::nullopt;
        return sampler.block.shown();
    }
    // One batch: a second one that fails could not be taken back.
    EpochBatch& placed = sampler.shown;
    placed.changes = EpochBatch::nothing_shown;
    if (!sampler.impl->next(placed)) return std::nullopt;
    const Batch& batch = placed.batch;
    sampler.offsets = {0, batch.count};
    return sab_block{sizeof(sab_block),
                     1,
                     batch.buffer.data(),
                     sampler.offsets.data(),
                     SAB_LAYOUT_PADDED,
                     batch.columns,
                     batch.longest.data(),
                     batch.padded_length.data(),
                     batch.total.data(),
                     &batch.bucket,
                     placed.epoch,
                     &placed.step,
                     &placed.micro_batch,
                     &batch.id,
                     nullptr,
                     nullptr,
                     &placed.sample_weight,
                     placed.token_weight.data(),
                     nullptr};
}

void BatchArrays::clear() {
    offsets_.assign(1, 0);
    for (auto* const numbers : {&step_, &micro_batch_}) numbers->clear();
    for (auto* const numbers : {&indices_, &bucket_, &id_, &starts_}) numbers->clear();
    for (auto* const numbers :
         {&longest_, &padded_length_, &total_, &sample_weight_, &token_weight_})
        numbers->clear();
    for (auto* const columns : {&cu_seqlens_, &cu_seqlens_unpadded_})
        for (auto& of_column : *columns) of_column.clear();
}

bool BatchArrays::has_arrays_of(const Batch& batch) const {
    return is_row_ == batch.is_row && has_cu_seqlens_ == !batch.cu_seqlens.empty() &&
           has_cu_seqlens_unpadded_ == !batch.cu_seqlens_unpadded.empty() &&
           has_starts_ == !batch.starts.empty();
}

bool BatchArrays::add(const EpochBatch& placed) {
    const Batch& batch = placed.batch;
    if (count() == 0) {
        columns_ = batch.columns;
        epoch_ = placed.epoch;
        is_row_ = batch.is_row;
        has_cu_seqlens_ = !batch.cu_seqlens.empty();
        has_cu_seqlens_unpadded_ = !batch.cu_seqlens_unpadded.empty();
        has_starts_ = !batch.starts.empty();
        starts_.reserve(1);  // NULL would say that there are none
    } else if (!has_arrays_of(batch)) {
        return false;
    }
    const auto append = [](auto& to, const auto& from, std::size_t n) {
        to.insert(to.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
    };
    append(indices_, batch.buffer, batch.count);
    append(longest_, batch.longest, columns_);
    append(padded_length_, batch.padded_length, columns_);
    append(total_, batch.total, columns_);
    append(token_weight_, placed.token_weight, columns_);
    sample_weight_.push_back(placed.sample_weight);
    bucket_.push_back(batch.bucket);
    step_.push_back(placed.step);
    micro_batch_.push_back(placed.micro_batch);
    id_.push_back(batch.id);
    for (std::size_t j = 0; has_cu_seqlens_ && j < columns_; ++j)
        append(cu_seqlens_[j], batch.cu_seqlens[j], batch.count + 1);
    for (std::size_t j = 0; has_cu_seqlens_unpadded_ && j < columns_; ++j)
        append(cu_seqlens_unpadded_[j], batch.cu_seqlens_unpadded[j], batch.count + 1);
    if (has_starts_) append(starts_, batch.starts, batch.count);
    offsets_.push_back(offsets_.back() + batch.count);
    return true;
}

void BatchArrays::place(uint64_t epoch, uint64_t step, uint64_t batch, uint64_t micro_batches) {
    epoch_ = epoch;
    for (std::size_t i = 0; i < count(); ++i) {
        step_[i] = step + (batch + i) / micro_batches;
        micro_batch_[i] = (batch + i) % micro_batches;
    }
}

sab_block BatchArrays::shown() {
    const auto data = [](const auto& of_column) { return of_column.data(); };
    std::ranges::transform(cu_seqlens_, cu_seqlens_data_.begin(), data);
    std::ranges::transform(cu_seqlens_unpadded_, cu_seqlens_unpadded_data_.begin(), data);
    return {sizeof(sab_block),
            count(),
            indices_.data(),
            offsets_.data(),
            is_row_ ? SAB_LAYOUT_ROW : SAB_LAYOUT_PADDED,
            columns_,
            longest_.data(),
            padded_length_.data(),
            total_.data(),
            bucket_.data(),
            epoch_,
            step_.data(),
            micro_batch_.data(),
            id_.data(),
            has_cu_seqlens_ ? cu_seqlens_data_.data() : nullptr,
            has_starts_ ? starts_.data() : nullptr,
            sample_weight_.data(),
            token_weight_.data(),
            has_cu_seqlens_unpadded_ ? cu_seqlens_unpadded_data_.data() : nullptr};
}

void Sampler::begin() {
    if (pass_ == Pass::ended)
        set_epoch(epoch() + 1);
    else if (pass_ == Pass::running)
        set_epoch(epoch());
}

bool Sampler::next(EpochBatch& batch) {
    if (!take(batch)) {
        pass_ = Pass::ended;
        return false;
    }
    pass_ = Pass::running;
    batch.changes = changes_;
    return true;
}

void Sampler::set_epoch(uint64_t epoch) {
    go_to_epoch(epoch);
    pass_ = Pass::ready;
    ++changes_;
}

}  // namespace sab
