#include "torch/loader.h"

#include <dlfcn.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <link.h>
#endif
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "base/files.h"

namespace sab {
namespace {

#ifdef __APPLE__
constexpr char file_name[] = "libsab_torch.0.dylib", torch_name[] = "libc10.dylib",
               search_path[] = "DYLD_LIBRARY_PATH";
#else
constexpr char file_name[] = "libsab_torch.so.0", torch_name[] = "libc10.so",
               search_path[] = "LD_LIBRARY_PATH";
#endif

/// File name of a loaded library whose name begins with `name`; empty when there is none.
std::string loaded_library(std::string_view name) {
    const auto is_it = [name](const char* file) {
        const std::string_view path(file);
        return path.substr(path.rfind('/') + 1).starts_with(name);
    };
#ifdef __APPLE__
    for (uint32_t i = 0; i < _dyld_image_count(); ++i)
        if (is_it(_dyld_get_image_name(i))) return _dyld_get_image_name(i);
    return {};
#else
    struct Search {
        decltype(is_it)& is_wanted;
        std::string path;
    } search{is_it, {}};
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* data) {
            auto& wanted = *static_cast<Search*>(data);
            if (!wanted.is_wanted(info->dlpi_name)) return 0;
            wanted.path = info->dlpi_name;
            return 1;
        },
        &search);
    return search.path;
#endif
}

/// Where the library of a function lies.
std::string folder_of(const void* function) {
    Dl_info info{};
    if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
    const char* const slash = std::strrchr(info.dli_fname, '/');
    return slash == nullptr ? std::string() : std::string(info.dli_fname, slash + 1);
}

/// The file that the system's loader finds by the name, as far as that is known without loading it.
std::string found_by_name(const std::string& name) {
    const char* const given = std::getenv(search_path);
    std::string folders = given == nullptr ? "" : given;
    folders += ":/usr/local/lib:" + folder_of(reinterpret_cast<const void*>(&dlopen));
    for (std::size_t begin = 0; begin < folders.size();) {
        const std::size_t end = std::min(folders.find(':', begin), folders.size());
        const std::string file = folders.substr(begin, end - begin) + "/" + name;
        if (end > begin && access(file.c_str(), R_OK) == 0) return file;
        begin = end + 1;
    }
    return name;
}

/// A component that needs another LibTorch than the one loaded must not come near it: the process
/// would end.
void check_needed(const std::string& file) {
    const std::string loaded = loaded_library(torch_name);
    if (loaded.empty() || file.find('/') == std::string::npos) return;
    const auto bytes = map_file(file.c_str());
    const std::string_view image(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    const std::string base = loaded.substr(loaded.rfind('/') + 1);
    // no component at all: told when it is loaded
    if (image.find(SAB_TORCH_COMPONENT_SYMBOL) == std::string_view::npos) return;
    // The names of needed libraries stand in the file, each ended by a zero.
    if (image.find(std::string("\0", 1) + base + std::string("\0", 1)) != std::string_view::npos)
        return;
    std::string_view version = "of another version";
    if (const std::size_t at = image.find(SAB_TORCH_BUILT_FOR); at != std::string_view::npos) {
        version = image.substr(at + sizeof SAB_TORCH_BUILT_FOR - 1);
        version = version.substr(0, version.find('\0'));
    }
    fail_named(SAB_E_MISMATCH, text("\"", file, "\""), " ", "was built for LibTorch ", version,
               ", but this process has loaded another one, \"", loaded, "\"");
}

}  // namespace

const sab_torch_component* load_torch_component(const char* path, std::string& file) {
    const char* const wish = std::getenv("SAB_TORCH_LIBRARY");
    file = path != nullptr ? path
           : wish != nullptr && *wish != '\0'
               ? wish
               : folder_of(reinterpret_cast<const void*>(&sab_torch_open)) + file_name;
    const bool is_given = path != nullptr || (wish != nullptr && *wish != '\0');
    // the system's loader looks
    if (!is_given && access(file.c_str(), R_OK) != 0) file = found_by_name(file_name);
    check_needed(file);
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* const error = dlerror();
        const std::string_view why = error == nullptr ? "unknown error" : error;
        if (why.find("undefined symbol") != why.npos)
            fail_named(SAB_E_MISMATCH, text("\"", file, "\""), " ",
                       "was built for another LibTorch than the one that was found: ", why);
        fail_io(0, "cannot load the LibTorch component", file,
                text(why, is_given ? "" : " (set SAB_TORCH_LIBRARY to its file name)"));
    }
    const auto table_of =
        reinterpret_cast<sab_torch_component_fn>(dlsym(library, SAB_TORCH_COMPONENT_SYMBOL));
    if (table_of == nullptr)
        fail_named(SAB_E_MISMATCH, text("\"", file, "\""), " ",
                   "is no LibTorch component of this version of libsab: it has no ",
                   SAB_TORCH_COMPONENT_SYMBOL);
    const sab_torch_component* const table = table_of();
    if (table->version != SAB_TORCH_COMPONENT_VERSION)
        fail_named(SAB_E_MISMATCH, text("\"", file, "\""), " ", "has component version ",
                   table->version, ", this library works with ", SAB_TORCH_COMPONENT_VERSION);
    if (std::strcmp(table->built_for, table->running()) != 0)
        fail_named(SAB_E_MISMATCH, text("\"", file, "\""), " ", "was built for LibTorch ",
                   std::string_view(table->built_for), ", but LibTorch ",
                   std::string_view(table->running()), " is loaded");
    return table;
}

}  // namespace sab
