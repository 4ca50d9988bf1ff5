/** @file features.h
 * Which optional parts this build has.
 *
 * Tier: stable.
 */
#ifndef SAB_FEATURES_H
#define SAB_FEATURES_H

/** 1 if sab/extra.h is included */
#ifndef SAB_WITH_EXTRA
#define SAB_WITH_EXTRA 1
#endif

#endif
