/** @file sab.h
 * A small library, to test tools/abi.py.
 */
#ifndef SAB_H
#define SAB_H

#include "sab/base.h"
#include "sab/extra.h"

#endif
