/// Bytes as shapes, orders and options: what is refused writes nothing, what is padded comes back,
/// and the fast path does as the plain one.
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Input input(data, size);
    const bool is_wild = input.take<uint8_t>() % 8 == 0;
    const auto dimension = [&] {
        return is_wild ? input.take<int64_t>() : input.take<uint8_t>() % 6;
    };
    sab_ragged ragged = SAB_RAGGED_INIT;
    ragged.samples = input.take<uint8_t>() % 9;
    ragged.dimensions = input.take<uint8_t>() % (is_wild ? 20 : 5);
    ragged.element_size = input.take<uint8_t>() % 17;
    sab_pad_options options = SAB_PAD_OPTIONS_INIT;
    options.batch_dim = input.take<uint8_t>() % 6;
    options.padding = input.take<uint8_t>() % 3;
    options.value_dims = input.take<uint8_t>() % 64;
    options.threads = input.take<uint8_t>() % 4;
    std::vector<int64_t> shapes, shape, indices;
    for (uint64_t i = 0; i < ragged.samples * ragged.dimensions; ++i) shapes.push_back(dimension());
    for (uint64_t d = 0; d < ragged.dimensions; ++d) shape.push_back(dimension());
    const bool has_all = input.take<uint8_t>() % 2 == 0;
    for (uint64_t i = 0; i < ragged.samples; ++i)
        indices.push_back(has_all ? static_cast<int64_t>(i) : input.take<int8_t>() % 10);
    ragged.shapes = shapes.data();

    std::vector<int64_t> least(ragged.dimensions + 1, -1);
    if (sab_ragged_get_padded_shape(&ragged, indices.data(), indices.size(), least.data()) !=
        SAB_OK)
        return 0;
    PROMISE(least[ragged.dimensions] == -1);
    if (!is_wild)
        for (uint64_t d = 0; d < ragged.dimensions; ++d) shape[d] += least[d];

    uint64_t elements = 0, places = ragged.samples;
    for (uint64_t i = 0; i < ragged.samples; ++i) {
        uint64_t own = 1;
        for (uint64_t d = 0; d < ragged.dimensions; ++d) {
            const auto length = static_cast<uint64_t>(shapes[i * ragged.dimensions + d]);
            if (length > 1000) return 0;
            own *= length;
        }
        elements += own;
        if (elements > 100000) return 0;
    }
    for (const int64_t length : shape) {
        if (length > 1000) places = 0;
        places *= static_cast<uint64_t>(length);
        if (places > 100000) places = 0;
    }
    std::vector<uint8_t> values(elements * ragged.element_size),
        padded(places * ragged.element_size, 0xAA), value(1 << 20, 0x55);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i);
    ragged.values = values.data();
    options.value = value.data();
    if (places == 0 && is_wild) return 0;  // more than is to be had, or refused: tests/c
    const sab_status status = sab_ragged_pad(&ragged, indices.data(), indices.size(), shape.data(),
                                             &options, padded.data());
    if (status != SAB_OK) {
        PROMISE(status == SAB_E_ARGUMENT);
        for (const uint8_t byte : padded) PROMISE(byte == 0xAA);
        return 0;
    }
    std::vector<int64_t> strides(shapes.size());
    for (uint64_t i = 0; i < ragged.samples; ++i) {
        int64_t stride = 1;
        for (uint64_t d = ragged.dimensions; d-- > 0;) {
            strides[i * ragged.dimensions + d] = stride;
            stride *= shapes[i * ragged.dimensions + d];
        }
    }
    ragged.strides = strides.data();
    std::vector<uint8_t> again(padded.size());
    PROMISE(sab_ragged_pad(&ragged, indices.data(), indices.size(), shape.data(), &options,
                           again.data()) == SAB_OK &&
            again == padded);
    std::vector<uint8_t> back(values.size());
    ragged.values = back.data();
    PROMISE(sab_ragged_unpad(padded.data(), shape.data(), indices.data(), indices.size(), &options,
                             &ragged) == SAB_OK);
    if (has_all) PROMISE(back == values);
    return 0;
}
