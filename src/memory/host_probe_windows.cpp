#include "memory/probe.h"

namespace sab {

sab_probe_callbacks host_probe() {
    fail_about(SAB_E_UNSUPPORTED, "device", Quoted("host"), "not on Windows");
}

}  // namespace sab
