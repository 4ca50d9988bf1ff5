#include "memory/probe.h"

namespace sab {

sab_probe_callbacks host_probe() {
    fail(SAB_E_UNSUPPORTED, "device = \"host\": not on Windows");
}

}  // namespace sab
