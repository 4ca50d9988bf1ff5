/** @file sab.h
 * A small library, to test tools/abi.py.
 */
#ifndef SAB_H
#define SAB_H

#include "sab/features.h"
#include "sab/base.h"
#if SAB_WITH_EXTRA
#include "sab/extra.h"
#endif

#endif
