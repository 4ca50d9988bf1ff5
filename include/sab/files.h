/** @file files.h
 * Sizes read from files of known formats: NumPy's `.npy`, the indexes of Megatron, fairseq and
 * datatrove, JSON lines, lines of numbers, lines of text, files of Kaldi, FASTA.
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

/** What is done with a record of JSON lines that does not have the field. */
typedef int32_t sab_missing_rule;
/** refuse the file; the message has the number of the line */
#define SAB_MISSING_REFUSE 0
/** leave the record out; sab_sizes_info.description says how many were left out */
#define SAB_MISSING_SKIP 1

/** How a file is read. */
typedef struct sab_sizes_file_options {
    /** set by SAB_SIZES_FILE_OPTIONS_INIT */
    size_t struct_size;
    /** NULL: by the content, then by the name. Otherwise one of
     *  - "npy"        NumPy's `.npy`, 1.0 to 3.0: one dimension of any sab_dtype, little-endian
     *  - "megatron"   Megatron's `.idx`: the lengths of the sequences
     *  - "fairseq"    fairseq's `.idx`, memory-mapped or of the old kind (`TNTIDX`)
     *  - "datatrove"  datatrove's `.ds.index`: the tokens of the documents
     *  - "jsonl"      JSON lines, with the field `column`
     *  - "numbers"    a size on each line
     *  - "text"       a text on each line
     *  - "kaldi"      a name and a number on each line: `utt2dur` and `utt2num_frames` of Kaldi;
     *                 the first number of a shape such as 325,80: `speech_shape` and `text_shape`
     *                 of ESPnet
     *  - "fasta"      FASTA: the residues of each record */
    const char *format;
    /** the field of JSON lines, "audio.frames" for one in an object. A number is the size. The size
     *  of a text is measured as `text_unit` says; that of a list is its number of items, and lists
     *  that all hold a single list are refused. NULL: none, for the other formats */
    const char *column;
    /** the size of a text: SAB_TEXT_BYTES (default), SAB_TEXT_WORDS, SAB_TEXT_VALUE or
     *  SAB_TEXT_ALL_BYTES. Of a file of neither texts nor JSON lines only the default and
     *  SAB_TEXT_VALUE */
    sab_text_unit text_unit;
    /** JSON lines only: SAB_MISSING_REFUSE (default) or SAB_MISSING_SKIP */
    sab_missing_rule missing;
    /** reports how many bytes were read, of how many (0 if that is not known), and may cancel; NULL
     *  for none */
    sab_progress_fn progress;
    /** passed to `progress` */
    void *progress_ctx;
    /** 1: indexes and `.npy` files are read into memory; 0 (default): they are mapped */
    int32_t copy;
    /** JSON lines only: what becomes of null in the field: SAB_NULLS_REFUSE (default) or
     *  SAB_NULLS_ZERO */
    sab_null_rule nulls;
} sab_sizes_file_options;
#define SAB_SIZES_FILE_OPTIONS_INIT SAB_INIT(sab_sizes_file_options)

/** Reads the sizes of the samples of a file.
 *
 * Indexes and `.npy` files are mapped and used in place unless `copy` is 1. While the handle or a
 * sampler on it lives, do not truncate a mapped file: a read behind its end stops the process with
 * SIGBUS. Do not overwrite it either: plans and samplers then use a mixture of old and new sizes,
 * or fail. To replace it, write a new file and rename it over the old one.
 *
 * The other formats are read once, also from gzip and Zstandard; their sizes take 4 bytes each if
 * all are whole numbers below 2^32, otherwise 8. The handle does not need the file any more.
 *
 * JSON lines have one whole object on each line; empty lines are ignored. Of a name that an object
 * has twice, the first field counts. Only the structure of the other fields is checked: they may
 * have NaN, integers of any length and half surrogate pairs. An object around the field that is
 * null makes the field null.
 *
 * sab_sizes_info.description says how the file was read. Text whose first line is a number holds
 * sizes; a later line that is no number is an error. Text with a name and a number on each line is
 * refused unless the file has a name of Kaldi. Text with a number on each line but the first is
 * refused, too. `format` says how to read them. Files of other formats, and text with NUL bytes or
 * invalid UTF-8, are refused. Messages name the line.
 *
 * @param path     file name, in the system's encoding; "-" is standard input. Pipes and devices are
 *     refused: give them as standard input
 * @param options  NULL: the format is detected
 * @param sizes    the new handle; free with sab_sizes_free()
 * @return SAB_OK; SAB_E_ARGUMENT; SAB_E_IO when the file cannot be read; SAB_E_FORMAT when it is
 *     damaged or of another format; SAB_E_CANCELLED
 */
SAB_API sab_status sab_sizes_file_new(const char *path, const sab_sizes_file_options *options,
                                      sab_sizes **sizes) SAB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
