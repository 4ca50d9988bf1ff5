#include "sampler/mixed_sequence.h"

#include <algorithm>
#include <numeric>

namespace sab {

MixedSequence::MixedSequence(const MixedSequence& other)
    : Sequence(other),
      choice_(other.choice_),
      kind_(other.kind_),
      fingerprint_(other.fingerprint_),
      make_(other.make_),
      keeps_order_(other.keeps_order_),
      present_{other.present_.samples, other.present_.sequence->copy(), other.present_.order,
               other.present_.pieces, other.present_.epoch} {}

void MixedSequence::Present::rename(std::span<int64_t> numbers) const {
    if (samples == nullptr) return;
    for (int64_t& number : numbers) number = (*samples)[static_cast<std::size_t>(number)];
}

const MixedSequence::Piece* MixedSequence::piece_at(uint64_t position) const {
    if (present_.pieces == nullptr) return nullptr;
    const uint64_t id = (*present_.order)[position], batches = present_.sequence->batches();
    return id < batches ? nullptr : &(*present_.pieces)[id - batches];
}

uint64_t MixedSequence::place(uint64_t position) const {
    if (const Piece* const piece = piece_at(position)) return piece->of.batch;
    return present_.order ? (*present_.order)[position] : position;
}

std::size_t MixedSequence::skipped(std::span<int64_t> room) const {
    const std::size_t count = present_.sequence->skipped(room);
    present_.rename(room.first(std::min(count, room.size())));
    return count;
}

std::unique_ptr<Sequence::EpochOrder> MixedSequence::make_epoch_order(
    const EpochOptions& epoch_options) const {
    Present made;
    made.epoch = epoch_options.epoch;
    if (present_.sequence != nullptr && choice_->are_alike(present_.epoch, made.epoch)) {
        made.samples = present_.samples;
        made.sequence = present_.sequence->copy();
    } else {
        EpochSequence of_epoch = make_(made.epoch);
        made.samples = std::move(of_epoch.samples);
        made.sequence = std::move(of_epoch.sequence);
    }
    // Batches are moved to keep the dues: those of a step may be of any length.
    EpochOptions of_sequence = epoch_options;
    of_sequence.mix_lengths |= !keeps_order_;
    if (const auto order = made.sequence->make_epoch_order(of_sequence))
        made.sequence->exchange(*order);
    if (!keeps_order_) put_in_order(made, epoch_options);
    return std::make_unique<EpochOrderOf<Present>>(std::move(made));
}

void MixedSequence::exchange(EpochOrder& epoch_order) noexcept {
    std::swap(present_, static_cast<EpochOrderOf<Present>&>(epoch_order).value);
}

void MixedSequence::put_in_order(Present& of, const EpochOptions& epoch_options) const {
    const Sequence& sequence = *of.sequence;
    const uint64_t count = sequence.batches();
    // One read at a random place for each sample is less than two.
    std::span<const uint16_t> source_of = choice_->source_of();
    std::vector<uint16_t> source_of_number;
    if (of.samples) {
        source_of_number.reserve(of.samples->size());
        for (const uint32_t sample : *of.samples) source_of_number.push_back(source_of[sample]);
        source_of = source_of_number;
    }
    SourceAmounts amounts(choice_->sources(), choice_->extremes().second);
    const auto add = [&](const Batch& batch) {
        const int64_t* const numbers = batch.buffer.data();
        if (batch.is_row && batch.columns == 1) {
            const int32_t* const ends = batch.true_cu_seqlens(0).data();
            amounts.add(batch.count, [=](std::size_t i) {
                return SourceAmounts::Part{source_of[static_cast<std::size_t>(numbers[i])],
                                           static_cast<double>(ends[i + 1] - ends[i])};
            });
        } else {
            amounts.add(batch.count, [&](std::size_t i) {
                const auto number = static_cast<std::size_t>(numbers[i]);
                return SourceAmounts::Part{
                    source_of[number],
                    choice_->size_of(of.samples ? (*of.samples)[number] : number)};
            });
        }
    };
    std::vector<uint32_t> batches(count);
    std::iota(batches.begin(), batches.end(), 0u);
    std::vector<double> costs(count);
    std::vector<uint64_t> samples(count);
    Batch batch;
    for (uint64_t position = 0; position < count; ++position) {
        for (uint64_t shard = 0; shard < sequence.shards(); ++shard) {
            sequence.fill_shard(position, shard, batch);
            add(batch);
        }
        amounts.finish();
        samples[position] = sequence.samples(position);
        costs[position] = sequence.cost(position);
    }
    std::vector<Piece> pieces;
    std::vector<uint32_t> order = even_epoch_in_pieces(
        amounts, batches, costs, samples, epoch_options, sequence.plan(),
        [&](const BatchPiece& piece) {
            sequence.fill(piece.batch, piece.first, piece.count, batch);
            add(batch);
            amounts.finish_piece();
            const double cost = costs[piece.batch] * static_cast<double>(piece.count) /
                                static_cast<double>(samples[piece.batch]);
            pieces.push_back({piece, cost, batch.total});
            return cost;
        });
    if (!pieces.empty()) of.pieces = std::make_shared<const std::vector<Piece>>(std::move(pieces));
    of.order = std::make_shared<const std::vector<uint32_t>>(std::move(order));
}

void MixedSequence::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    // A rank without a sample asks for none of any batch.
    const Piece* const piece = piece_at(position);
    present_.sequence->fill(place(position), first + (piece ? piece->of.first : 0), count, batch);
    present_.rename(std::span(batch.buffer).first(batch.count));
}

void MixedSequence::fill_shard(uint64_t position, uint64_t shard, Batch& batch) const {
    present_.sequence->fill_shard(place(position), shard, batch);
    present_.rename(std::span(batch.buffer).first(batch.count));
}

}  // namespace sab
