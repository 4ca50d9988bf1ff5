#include "stream/record.h"

#include <cmath>
#include <cstring>

#include "base/guard.h"

namespace sab {

Record Copier::copy(std::string_view bytes, double size) {
    constexpr std::size_t usual = 1 << 16;
    if (shares_.block() == nullptr || used_ + bytes.size() > shares_.block()->capacity()) {
        if (bytes.size() > usual / 4) {  // its own, so that the rest of this one is not lost
            Shares own;
            own.take(new Block(bytes.size()));
            std::memcpy(own.block()->data(), bytes.data(), bytes.size());
            return {{SAB_RECORD_BYTES, size, own.block()->data(), bytes.size()}, own.share()};
        }
        shares_.take(new Block(usual));
        used_ = 0;
    }
    char* const place = shares_.block()->data() + used_;
    if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
    used_ += bytes.size();
    return {{SAB_RECORD_BYTES, size, place, bytes.size()}, shares_.share()};
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
    const auto functions = read_options(given, sab_object_functions SAB_OBJECT_FUNCTIONS_INIT);
    if ((functions.save == nullptr) != (functions.load == nullptr))
        fail(SAB_E_ARGUMENT, "objects.", functions.save == nullptr ? "save" : "load", " = NULL: save and load must be given together");
    return std::make_shared<const sab_object_functions>(functions);
}

Record object_record(void* handle, double size, const ObjectsPtr& objects) {
    return {{SAB_RECORD_OBJECT, size, handle, 0}, Kept(new Object(handle, objects))};
}

void check_size(std::string_view what, double size) {
    if (!(size >= 0 && std::isfinite(size))) fail(SAB_E_ARGUMENT, what, ".size = ", size, ": must be finite and not negative");
}

Record taken(std::string_view what, const sab_record& made, Record&& before, const ObjectsPtr& objects, Copier& copier) {
    const sab_record& old = before.view;
    const bool is_same = made.kind == old.kind && made.data == old.data && made.length == old.length;
    if (made.kind == SAB_RECORD_OBJECT && !(is_same && before.owner.get() != nullptr)) {
        Record record = object_record(const_cast<void*>(made.data), 0, objects);  // taken first: it goes with a failure, too
        check_size(what, made.size);
        record.view.size = made.size;
        return record;
    }
    check_size(what, made.size);
    if (is_same && before.owner.get() != nullptr) {
        Record record = std::move(before);
        record.view.size = made.size;
        return record;
    }
    if (made.kind != SAB_RECORD_BYTES) fail(SAB_E_ARGUMENT, what, ".kind = ", made.kind, ": must be SAB_RECORD_BYTES (0) or SAB_RECORD_OBJECT (2)");
    if (made.length > 0 && made.data == nullptr) fail(SAB_E_ARGUMENT, what, ".data = NULL: must be given");
    return copier.copy({static_cast<const char*>(made.data), made.length}, made.size);
}

}  // namespace sab
