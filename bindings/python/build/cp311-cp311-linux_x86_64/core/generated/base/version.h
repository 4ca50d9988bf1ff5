#pragma once
#define SAB_VERSION "0.1.0"
#define SAB_ABI_MAJOR 0
#define SAB_ABI_MINOR 1
