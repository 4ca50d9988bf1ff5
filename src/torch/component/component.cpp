/// The table of the component, devices, generators.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/csrc/api/include/torch/version.h>

#include <cstring>

#include <mutex>
#include <stdexcept>

#include "torch/component/internal.h"

extern "C" __attribute__((weak)) uint64_t aoti_torch_abi_version();  // LibTorch 2.9 and later

namespace sab_torch {

/// The first line of a text, as far as there is room.
template <std::size_t room>
static void write_line(char (&out)[room], const char* text) {
    std::strncpy(out, text, room - 1);
    out[room - 1] = '\0';
    // LibTorch adds a stack to its own
    if (char* const line = std::strchr(out, '\n'); line != nullptr) *line = '\0';
}

void write_message(sab_torch_message* message, const char* text, const sab::ErrorParts& parts) {
    if (message == nullptr) return;
    write_line(message->text, text);
    write_line(message->argument, parts.argument.c_str());
    write_line(message->value, parts.value.c_str());
    write_line(message->rule, parts.rule.c_str());
}

/// LibTorch's CUDA part may lie beside its CPU part without being loaded.
static void load_cuda() {
    static const bool tried = [] {
        Dl_info info{};
        if (dladdr(reinterpret_cast<const void*>(&at::show_config), &info) != 0 &&
            info.dli_fname != nullptr) {
            const std::string path = info.dli_fname;
            dlopen((path.substr(0, path.rfind('/') + 1) + "libtorch_cuda.so").c_str(),
                   RTLD_NOW | RTLD_LOCAL);
        }
        return true;
    }();
    (void)tried;
}

/// LibTorch keeps for good what it finds when it first asks for its CUDA part, and
/// at::show_config() asks: only where LibTorch (before 2.9) has no other way to tell its version.
static const char* running() {
    static const std::string version = [] {
        if (aoti_torch_abi_version != nullptr) {
            const uint64_t number = aoti_torch_abi_version();
            const auto part = [&](int shift) { return std::to_string(number >> shift & 0xff); };
            return part(56) + "." + part(48) + "." + part(40);
        }
        load_cuda();
        const std::string config = at::show_config();
        const std::string name = "TORCH_VERSION=";
        const std::size_t at = config.find(name);
        if (at == std::string::npos) return std::string(TORCH_VERSION);
        const std::size_t begin = at + name.size();
        return config.substr(begin, config.find_first_of(",\n ", begin) - begin);
    }();
    return version.c_str();
}

int32_t count_devices(c10::DeviceType type) {
    if (type == c10::DeviceType::CUDA && !c10::impl::hasDeviceGuardImpl(type)) load_cuda();
    if (!c10::impl::hasDeviceGuardImpl(type)) return 0;
    return c10::impl::getDeviceGuardImpl(type)->deviceCount();
}

c10::Device parse_device(const char* device) {
    try {
        c10::Device parsed{std::string(device)};
        // The index is a small number and would wrap around; there is one CPU.
        const std::string given(device), read = parsed.str();
        if (parsed.has_index() &&
            (read != given || (parsed.type() == c10::DeviceType::CPU && parsed.index() != 0)))
            throw std::out_of_range(given);
        if (parsed.type() != c10::DeviceType::CPU && !parsed.has_index()) parsed.set_index(0);
        return parsed;
    } catch (const std::exception&) {
        sab::refuse_argument("device", sab::Quoted{device},
                             "must be \"host\", \"cpu\", \"cuda\", \"cuda:N\" or another device of "
                             "LibTorch's");
    }
}

void check_device(c10::Device device) {
    if (device.type() == c10::DeviceType::CPU) return;
    const int32_t count = count_devices(device.type());
    if (device.index() < count) return;
    const std::string name = device.str();
    const bool is_supported = c10::impl::hasDeviceGuardImpl(device.type());
    sab::refuse_argument("device", sab::Quoted{name}, "this LibTorch, ", running(),
                         is_supported ? sab::text(", sees ", count, " such devices")
                                      : ", has no support for such devices");
}

struct Generators::State {
    at::Tensor cpu, device;
};

/// Other threads may draw from the same generator.
static at::Tensor state_of(at::Generator generator) {
    const std::scoped_lock lock(generator.mutex());
    return generator.get_state();
}
static void set_state(at::Generator generator, const at::Tensor& state) {
    const std::scoped_lock lock(generator.mutex());
    generator.set_state(state);
}

Generators::Generators(c10::Device device) : device_(device) {}

Generators::~Generators() {
    const Uncounted uncounted;
    states_.clear();
}

void Generators::save(uint64_t depth) {
    const Uncounted uncounted;
    while (states_.size() <= depth) states_.push_back(std::make_unique<State>());
    states_[depth]->cpu = state_of(at::detail::getDefaultCPUGenerator());
    if (device_.type() != c10::DeviceType::CPU)
        states_[depth]->device = state_of(at::globalContext().defaultGenerator(device_));
}

void Generators::restore(uint64_t depth) {
    const Uncounted uncounted;
    set_state(at::detail::getDefaultCPUGenerator(), states_.at(depth)->cpu);
    if (device_.type() != c10::DeviceType::CPU)
        set_state(at::globalContext().defaultGenerator(device_), states_[depth]->device);
}

static sab_status make_probe(const char* name, int64_t total_bytes, sab_probe_callbacks* callbacks,
                             sab_torch_message* message) {
    return guarded(message, [&] {
        const c10::Device device = parse_device(name);
        if (device.type() == c10::DeviceType::CPU)
            make_cpu_probe(total_bytes, *callbacks);
        else
            make_device_probe(device, total_bytes, *callbacks);
    });
}

int32_t caught_out_of_memory() {
    try {
        throw;
    } catch (const c10::OutOfMemoryError&) {
        return 1;
    } catch (const std::bad_alloc&) {
        return 1;
    } catch (const c10::Error& error) {  // allocators and libraries that have no type for it
        for (const char* words :
             {"out of memory", "can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED"})
            if (std::strstr(error.what(), words) != nullptr) return 1;
        return 0;
    } catch (...) {
        return 0;
    }
}

}  // namespace sab_torch

extern "C" __attribute__((visibility("default"))) const sab_torch_component*
sab_torch_component_1() {
    static const sab_torch_component table{
        SAB_TORCH_COMPONENT_VERSION,
        &(SAB_TORCH_BUILT_FOR TORCH_VERSION)[sizeof SAB_TORCH_BUILT_FOR - 1],
        &sab_torch::running,
        [] {
            try {
                return sab_torch::count_devices(c10::DeviceType::CUDA);
            } catch (...) {
                return 0;
            }
        },
        &sab_torch::make_probe,
        &sab_torch::caught_out_of_memory,
        &sab_torch::copy_indices,
        &sab_torch::new_store,
        &sab_torch::gather_by_store,
        &sab_torch::free_store,
        &sab_torch::new_collection,
        &sab_torch::new_outputs,
        &sab_torch::group_collection,
        &sab_torch::ungroup_collection,
        &sab_torch::collection_lengths,
        &sab_torch::collection_info,
        &sab_torch::collection_tensor,
        &sab_torch::collection_mask,
        &sab_torch::free_collection,
    };
    return &table;
}
