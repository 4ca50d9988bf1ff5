#include "stream/record.h"

#include <cmath>
#include <cstring>

#include "base/guard.h"
#include "sizes/sizes.h"

namespace sab {

void List::grow() {
    const std::size_t room = std::max<std::size_t>(8, 2 * items.size());
    items.reserve(room);
    owners.reserve(room);
}

void List::add(Record&& record) {
    make_room();
    owners.push_back(std::move(record.owner));
    items.push_back(record.view);
}

Copier::Copier() = default;
Copier::~Copier() = default;

void Copier::reserve(std::size_t length) {
    constexpr std::size_t usual = 1 << 16;
    if (shares_.block() != nullptr && used_ + length <= shares_.block()->capacity()) return;
    shares_.take(new Block(usual));
    used_ = 0;
}

Record Copier::copy(std::string_view bytes, double size) {
    if (bytes.size() > most_reserved &&
        (shares_.block() == nullptr || used_ + bytes.size() > shares_.block()->capacity())) {
        Shares own;  // a block of its own, so that the rest of the shared one is not lost
        own.take(new Block(bytes.size()));
        std::memcpy(own.block()->data(), bytes.data(), bytes.size());
        return {{SAB_RECORD_BYTES, size, own.block()->data(), bytes.size()}, own.share()};
    }
    reserve(bytes.size());
    char* const to = shares_.block()->data() + used_;
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    used_ += bytes.size();
    return {{SAB_RECORD_BYTES, size, to, bytes.size()}, shares_.share()};
}

Record Copier::object(void* handle, double size, const ObjectsPtr& objects) {
    reserve_object();
    spare_->hold(handle, objects);
    return {{SAB_RECORD_OBJECT, size, handle, 0}, Kept(spare_.release())};
}

Record list_record(std::unique_ptr<List> list) {
    Record record;
    record.view.kind = SAB_RECORD_LIST;
    for (const sab_record& item : list->items) record.view.size += item.size;
    record.view.data = list->items.data();
    record.view.length = list->items.size();
    record.owner = Kept(list.release());
    return record;
}

ObjectsPtr objects_of(const sab_object_functions* given) {
    if (given == nullptr) return nullptr;
    const auto functions = read_options(given);
    if ((functions.save == nullptr) != (functions.load == nullptr))
        refuse_argument(named("objects.", functions.save == nullptr ? "save" : "load"), "NULL",
                        "save and load must be given together");
    return std::make_shared<const sab_object_functions>(functions);
}

/// Those of UTF-8: all bytes but those that continue a character, which begin with the bits 10.
/// Eight at a time: each byte of `sums` counts those at one of eight places.
static std::size_t characters_in(std::string_view text) {
    constexpr uint64_t ones = 0x0101010101010101;
    constexpr std::size_t most = 255 * sizeof(uint64_t);  // that a byte can count
    std::size_t continued = 0, at = 0;
    while (text.size() - at >= sizeof(uint64_t)) {
        uint64_t sums = 0;
        const std::size_t end = at + std::min(most, (text.size() - at) & ~std::size_t{7});
        for (; at < end; at += sizeof(uint64_t)) {
            uint64_t bytes = 0;
            std::memcpy(&bytes, text.data() + at, sizeof bytes);
            sums += (bytes >> 7) & ~(bytes >> 6) & ones;
        }
        constexpr uint64_t pairs = 0x00FF00FF00FF00FF;
        continued += (((sums & pairs) + (sums >> 8 & pairs)) * 0x0001000100010001) >> 48;
    }
    for (; at < text.size(); ++at) continued += (text[at] & 0xC0) == 0x80;
    return text.size() - continued;
}

double counted_size(std::string_view text, sab_text_unit unit) {
    return static_cast<double>(unit == SAB_TEXT_WORDS ? words_in(text) : characters_in(text));
}

void check_size(std::string_view what, double size) {
    if (!(size >= 0 && std::isfinite(size)))
        refuse_argument(named(what, ".size"), size, "must be finite and not negative");
}

static bool is_same(const sab_record& made, const Record& before) {
    return before.owner.get() != nullptr && made.kind == before.view.kind &&
           made.data == before.view.data && made.length == before.view.length;
}

Record given_object(const sab_record& made, const Record& before, const ObjectsPtr& objects,
                    Copier& copier) {
    if (made.kind != SAB_RECORD_OBJECT || is_same(made, before)) return {};
    return copier.object(const_cast<void*>(made.data), 0, objects);
}

Record taken(std::string_view what, const sab_record& made, Record&& before, Record&& object,
             Copier& copier) {
    check_size(what, made.size);
    if (object.owner.get() != nullptr || is_same(made, before)) {
        Record record = object.owner.get() != nullptr ? std::move(object) : std::move(before);
        record.view.size = made.size;
        return record;
    }
    if (made.kind != SAB_RECORD_BYTES)
        refuse_argument(named(what, ".kind"), made.kind,
                        "must be SAB_RECORD_BYTES (0) or SAB_RECORD_OBJECT (2)");
    if (made.length > 0 && made.data == nullptr)
        refuse_argument(named(what, ".data"), "NULL", "must be given");
    return copier.copy({static_cast<const char*>(made.data), made.length}, made.size);
}

}  // namespace sab
