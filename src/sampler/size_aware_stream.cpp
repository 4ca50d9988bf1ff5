#include "sampler/size_aware_stream.h"

#include <algorithm>

#include "base/callback.h"
#include "base/guard.h"
#include "sizes/sizes.h"

namespace sab {

SizeAwareStream::SizeAwareStream(sab_index_fn source, void* ctx, double max_total_size)
    : source_(source), ctx_(ctx), max_total_size_(max_total_size) {}

SizeAwareStream::~SizeAwareStream() {
    if (release_ != nullptr) release_(ctx_);
}

void SizeAwareStream::set_epoch(uint64_t epoch) {
    epoch_ = epoch;
    step_ = position_ = 0;
    ended_ = false;
    open_.clear();
    open_total_ = open_longest_ = 0;
}

void SizeAwareStream::add(int64_t index, double size) {
    open_.push_back(index);
    open_total_ += size;
    open_longest_ = std::max(open_longest_, size);
}

bool SizeAwareStream::next(PlacedBatch& placed) {
    bool is_next_known = false;
    int64_t next_index = 0;
    double next_size = 0;
    while (!ended_ && !is_next_known) {
        int64_t index = 0;
        double size = 0;
        const int32_t code = called_back("the index source", [&] { return source_(ctx_, epoch_, position_, &index, &size); });
        if (code == SAB_END) {
            ended_ = true;
            break;
        }
        if (code != 0) throw Error(SAB_E_CALLBACK, text("the index source failed with code ", code, " at position ", position_), code);
        size = checked_size(size, position_);
        if (size > max_total_size_) {
            log(SAB_LOG_WARNING, text("skipped sample ", index, ": size ", size, " is over max_total_size = ", max_total_size_, " alone"));
            ++skipped_;
        } else if (!open_.empty() && size + open_total_ > max_total_size_) {
            is_next_known = true;
            next_index = index;
            next_size = size;
        } else {
            add(index, size);
        }
        ++position_;
    }
    if (open_.empty()) return false;
    std::ranges::copy(open_, placed.batch.room(open_.size()).begin());
    placed.batch.longest = placed.batch.padded_length = open_longest_;
    placed.batch.total = open_total_;
    placed.batch.bucket = -1;
    placed.epoch = epoch_;
    placed.step = step_++;
    placed.step_samples = open_.size();
    placed.step_total = open_total_;
    open_.clear();
    open_total_ = open_longest_ = 0;
    if (is_next_known) add(next_index, next_size);
    return true;
}

}  // namespace sab
