/** @file files.h
 * Sizes read from files of known formats. Today: NumPy's `.npy`.
 *
 * Tier: provisional. Functions and structs here may change or be removed in a minor release.
 */
#ifndef SAB_FILES_H
#define SAB_FILES_H

#include "sab/base.h"
#include "sab/sizes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Maps a NumPy `.npy` file (format 1.0 to 3.0, one dimension, any dtype above, little-endian or
 * one byte wide).
 *
 * The file is mapped, not read. While the handle or a sampler on it lives, do not truncate the
 * file: a read behind its end stops the process with SIGBUS. Do not overwrite it either: plans and
 * samplers then use a mixture of old and new sizes, or fail. To replace it, write a new file and
 * rename it over the old one. sab_sizes_npy_read() copies instead. Big-endian files are refused
 * with a message that says how to convert them.
 *
 * @param path   file name, in the system's encoding
 * @param sizes  the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_IO when the file cannot be opened or mapped; SAB_E_FORMAT when it is
 *     truncated or not such a file
 */
SAB_API sab_status sab_sizes_npy_new(const char *path, sab_sizes **sizes) SAB_NOEXCEPT;

/** Takes sizes from the bytes of a `.npy` file, as sab_sizes_npy_new() does from the file. The
 * sizes are copied.
 *
 * @param data   the bytes of the file
 * @param size   number of bytes
 * @param sizes  the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_FORMAT when the bytes are truncated or not such a file
 */
SAB_API sab_status sab_sizes_npy_read(const void *data, size_t size, sab_sizes **sizes)
    SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
