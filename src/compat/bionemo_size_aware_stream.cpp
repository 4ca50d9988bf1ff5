#include "compat/bionemo_size_aware_stream.h"

#include <algorithm>

#include "base/callback.h"
#include "base/log.h"
#include "sampler/ordered.h"
#include "sizes/sizes.h"

namespace sab {

BionemoSizeAwareStream::BionemoSizeAwareStream(sab_index_fn source, void* ctx,
                                               void (*release)(void*), double limit)
    : source_(source), ctx_(ctx, release), limit_(limit) {
    require(reinterpret_cast<const void*>(source), "source");
    check_limit(limit);
}

void BionemoSizeAwareStream::go_to_epoch(uint64_t epoch) {
    epoch_ = epoch;
    position_ = taken_ = 0;
    ended_ = false;
    skipped_.clear();
    ahead_.reset();
    open_.clear();
    open_total_ = open_longest_ = 0;
}

/// Takes the next sample from the source; false at the end. Whatever fails afterwards, the source
/// has given it and does not give it again.
bool BionemoSizeAwareStream::read() {
    if (ahead_) return true;
    if (ended_) return false;
    Sample sample{0, unset_number};
    const int32_t code = called_back("the index source", [&] {
        return source_(ctx_.get(), epoch_, taken_, &sample.index, &sample.size);
    });
    ended_ = code == SAB_END;
    if (ended_) return false;
    if (code != 0)
        throw Error(SAB_E_CALLBACK,
                    text("the index source failed with code ", code, " at position ", taken_),
                    code);
    sample.size = checked_size(sample.size, taken_);
    ++taken_;
    ahead_ = sample;
    return true;
}

bool BionemoSizeAwareStream::take(EpochBatch& placed) {
    for (; read(); ahead_.reset()) {
        if (ahead_->size > limit_) {
            skipped_.push_back(ahead_->index);
            log(SAB_LOG_WARNING, "skipped sample ", ahead_->index, ": size ", ahead_->size,
                " is over limit = ", limit_, " alone");
            continue;
        }
        if (!open_.empty() && ahead_->size + open_total_ > limit_) break;
        open_.push_back(ahead_->index);
        open_total_ += ahead_->size;
        open_longest_ = std::max(open_longest_, ahead_->size);
    }
    if (open_.empty()) return false;
    std::ranges::copy(open_, placed.batch.room(open_.size()).begin());
    placed.batch.longest[0] = placed.batch.padded_length[0] = open_longest_;
    placed.batch.total[0] = open_total_;
    placed.batch.bucket = -1;
    placed.epoch = epoch_;
    placed.position = placed.step = position_++;
    so_far_.weigh(placed);
    open_.clear();
    open_total_ = open_longest_ = 0;
    return true;
}

}  // namespace sab
