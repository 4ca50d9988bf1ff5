#include "cache/outage.h"

#include <algorithm>

#include "base/log.h"

namespace sab::cache {
namespace {

constexpr auto first_pause = std::chrono::milliseconds(100),
               longest_pause = std::chrono::milliseconds(10000);

}  // namespace

std::optional<Outage::Turn> Outage::turn(std::string& why) {
    const std::scoped_lock lock(mutex_);
    if (!is_out_) return Turn(*this, number_, false);
    if (is_tried_ || Clock::now() < again_) {
        why = why_;
        return std::nullopt;
    }
    is_tried_ = true;
    return Turn(*this, number_, true);
}

void Outage::try_again() {
    const std::scoped_lock lock(mutex_);
    again_ = Clock::now();
}

void Outage::Turn::failed(const std::string& why) {
    if (outage_ == nullptr) return;
    std::string kept = why;  // first, since it may throw
    Outage* const outage = std::exchange(outage_, nullptr);
    {
        const std::scoped_lock lock(outage->mutex_);
        if (!is_trial_ && outage->number_ != number_) return;  // of an outage that is known
        outage->pause_ =
            is_trial_ ? std::min<Clock::duration>(outage->pause_ * 2, longest_pause) : first_pause;
        outage->again_ = Clock::now() + outage->pause_;
        outage->why_.swap(kept);
        outage->is_tried_ = false;
        outage->is_out_ = true;
        if (is_trial_) return;
        ++outage->number_;
    }
    log(SAB_LOG_WARNING,
        text(std::string_view(why), "; left alone for 0.1 s, then for ever longer, up to 10 s"));
}

void Outage::Turn::succeeded() {
    Outage* const outage = std::exchange(outage_, nullptr);
    if (outage == nullptr || !is_trial_) return;
    {
        const std::scoped_lock lock(outage->mutex_);
        outage->is_out_ = outage->is_tried_ = false;
    }
    log(SAB_LOG_INFO, text(std::string_view(outage->what_), ": back"));
}

Outage::Turn::~Turn() {
    if (outage_ == nullptr || !is_trial_) return;
    const std::scoped_lock lock(outage_->mutex_);
    outage_->is_tried_ = false;  // nothing was learnt: the next one may
}

}  // namespace sab::cache
