/* Sizes in files of every format but .npy, whose details are in files_test.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "helpers.h"

/* A file, written again and again. Its name says nothing unless a test gives it an ending. */
static char file_name[64];
static unsigned char bytes[1 << 20];
static size_t used;

static void use_name(const char *ending) {
    if (file_name[0] != '\0') unlink(file_name);
    snprintf(file_name, sizeof file_name, "/tmp/sab_formats_%d%s", (int)getpid(), ending);
}

static void add(const void *more, size_t count) {
    EXPECT(used + count <= sizeof bytes);
    memcpy(bytes + used, more, count);
    used += count;
}
static void add_u64(uint64_t number) {
    for (int i = 0; i < 8; ++i) add(&(unsigned char){(unsigned char)(number >> 8 * i)}, 1);
}
static void add_i32(int32_t number) {
    for (int i = 0; i < 4; ++i)
        add(&(unsigned char){(unsigned char)((uint32_t)number >> 8 * i)}, 1);
}

static void write_bytes(const void *data, size_t count) {
    FILE *file = fopen(file_name, "wb");
    EXPECT(file != NULL && fwrite(data, 1, count, file) == count);
    if (file != NULL) fclose(file);
}
static void write_used(void) {
    write_bytes(bytes, used);
}
static void write_text(const char *text) {
    write_bytes(text, strlen(text));
}

static uint32_t crc_of(const char *text, size_t count) {
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < count; ++i) {
        crc ^= (unsigned char)text[i];
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* A gzip file with stored blocks. */
static void write_gzip(const char *text, size_t count) {
    used = 0;
    add("\x1F\x8B\x08\0\0\0\0\0\0\xFF", 10);
    for (size_t from = 0; from < count;) {
        const size_t block = count - from < 60000 ? count - from : 60000;
        const unsigned char header[] = {from + block == count, block & 255,
                                        (unsigned char)(block >> 8), ~block & 255,
                                        (unsigned char)(~block >> 8)};
        add(header, 5);
        add(text + from, block);
        from += block;
    }
    add_i32((int32_t)crc_of(text, count));
    add_i32((int32_t)count);
    write_used();
}

/* A Zstandard file with raw blocks. */
static void write_zstd(const char *text, size_t count) {
    used = 0;
    add("\x28\xB5\x2F\xFD\0\x58", 6);
    for (size_t from = 0; from < count;) {
        const size_t block = count - from < 60000 ? count - from : 60000;
        const size_t header = (from + block == count) | block << 3;
        const unsigned char header_bytes[] = {header & 255, header >> 8 & 255, header >> 16 & 255};
        add(header_bytes, 3);
        add(text + from, block);
        from += block;
    }
    write_used();
}

static sab_sizes_file_options as(const char *format, const char *column) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = format;
    options.column = column;
    return options;
}

/* The file has these sizes, and is described so. */
static void expect_read(const sab_sizes_file_options *options, size_t count, const double *expected,
                        const char *description) {
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_file_new(file_name, options, &sizes));
    if (sizes == NULL) return;
    EXPECT(sab_sizes_count(sizes) == count);
    for (size_t i = 0; i < count && i < sab_sizes_count(sizes); ++i) {
        double size = -1;
        EXPECT_OK(sab_sizes_get(sizes, i, 1, &size));
        if (size != expected[i]) printf("size %zu is %g, expected %g\n", i, size, expected[i]);
        EXPECT(size == expected[i]);
    }
    if (strcmp(info_of_sizes(sizes).description, description) != 0)
        printf("\"%s\", expected \"%s\"\n", info_of_sizes(sizes).description, description);
    EXPECT(strcmp(info_of_sizes(sizes).description, description) == 0);
    sab_sizes_free(sizes);
}
#define EXPECT_READ(options, description, ...)                                              \
    do {                                                                                    \
        const double expected_[] = {__VA_ARGS__};                                           \
        expect_read(options, sizeof expected_ / sizeof *expected_, expected_, description); \
    } while (0)

static void expect_refused(const sab_sizes_file_options *options, sab_status status,
                           const char *words) {
    sab_sizes *sizes = NULL;
    EXPECT_FAILS(sab_sizes_file_new(file_name, options, &sizes), status, words);
    EXPECT(sizes == NULL);
}

static void make_mapped_index(uint64_t count, const int32_t *lengths, int has_documents,
                              uint64_t documents) {
    used = 0;
    add("MMIDIDX\0\0", 9);
    add_u64(1);
    add("\4", 1);
    add_u64(count);
    if (has_documents) add_u64(documents);
    for (uint64_t i = 0; i < count; ++i) add_i32(lengths[i]);
    for (uint64_t i = 0; i < count; ++i) add_u64(4 * i);
    for (uint64_t i = 0; has_documents && i < documents; ++i) add_u64(i);
}

static void set_u64(size_t offset, uint64_t number) {
    for (int i = 0; i < 8; ++i) bytes[offset + (size_t)i] = (unsigned char)(number >> 8 * i);
}

static void MappedIndexes_AreToldApartBySize(void) {
    const int32_t lengths[] = {5, 0, 2147483647};
    use_name(".idx");
    for (uint64_t documents = 0; documents < 4; ++documents) {
        make_mapped_index(3, lengths, 1, documents);
        write_used();
        EXPECT_READ(NULL, "Megatron .idx: 3 sequences", 5, 0, 2147483647);
        add("\0\1\0", 3); /* modes */
        write_used();
        EXPECT_READ(NULL, "Megatron .idx: 3 sequences", 5, 0, 2147483647);
    }
    make_mapped_index(3, lengths, 0, 0);
    write_used();
    EXPECT_READ(NULL, "fairseq .idx: 3 sequences", 5, 0, 2147483647);
    make_mapped_index(0, lengths, 0, 0);
    write_used();
    expect_read(NULL, 0, NULL, "fairseq .idx: 0 sequences");
    make_mapped_index(1, lengths, 1, 1);
    write_used();
    EXPECT_READ(NULL, "Megatron .idx: 1 sequence", 5);
    sab_sizes_file_options options = as("fairseq", NULL);
    expect_refused(&options, SAB_E_FORMAT, "has a wrong size: 1 sequences take 38 bytes");
}

static void MappedIndex_Damaged_IsRefused(void) {
    const int32_t lengths[] = {5, 6, 7};
    use_name(".idx");
    make_mapped_index(3, lengths, 1, 2);
    const size_t whole = used;
    sab_sizes *sizes = NULL;
    for (size_t count = 0; count < whole; ++count) {
        if (count == 26 + 12 * 3) continue; /* fairseq's, with other lengths */
        write_bytes(bytes, count);
        EXPECT(sab_sizes_file_new(file_name, NULL, &sizes) == SAB_E_FORMAT && sizes == NULL);
    }
    write_bytes(bytes, whole - 1);
    expect_refused(NULL, SAB_E_FORMAT, "is truncated: 3 sequences and 2 documents take 86 bytes");
    add("1234567", 7);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "has a wrong size");
    used = whole;
    const uint64_t large[] = {UINT64_MAX, UINT64_MAX / 12 + 1, UINT64_MAX / 12, 1u << 31};
    for (size_t i = 0; i < COUNT(large); ++i)
        for (size_t offset = 18; offset <= 26; offset += 8) {
            make_mapped_index(3, lengths, 1, 2);
            set_u64(offset, large[i]);
            write_used();
            expect_refused(NULL, SAB_E_FORMAT, "is truncated or damaged");
        }
    make_mapped_index(3, lengths, 1, 2);
    set_u64(9, 2);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "version 2 is not known");
    make_mapped_index(3, (const int32_t[]){5, -1, 7}, 1, 2);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "the length of sequence 1 is -1: must not be negative");
    bytes[0] = 'X';
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "does not begin with \"MMIDIDX\"");
    sab_sizes_file_options options = as("fairseq", NULL);
    expect_refused(&options, SAB_E_FORMAT, "does not begin with \"MMIDIDX\"");
}

/* Offsets of `count` samples whose lengths are 1, 2, ...; each has one size. */
static void make_legacy_index(uint64_t count) {
    used = 0;
    add("TNTIDX\0\0", 8);
    add_u64(1);
    add_u64(4);
    add_u64(4);
    add_u64(count);
    add_u64(count);
    for (uint64_t i = 0; i <= count; ++i) add_u64(i);
    for (uint64_t i = 0; i <= count; ++i) add_u64(i * (i + 1) / 2);
    for (uint64_t i = 0; i < count; ++i) add_u64(i + 1);
}

static void LegacyIndex_IsReadOrRefused(void) {
    use_name("");
    make_legacy_index(4);
    write_used();
    EXPECT_READ(NULL, "fairseq .idx (TNTIDX): 4 sequences", 1, 2, 3, 4);
    const size_t whole = used;
    sab_sizes_file_options options = as("fairseq", NULL);
    sab_sizes *sizes = NULL;
    for (size_t count = 0; count < whole; ++count) {
        write_bytes(bytes, count);
        EXPECT(sab_sizes_file_new(file_name, &options, &sizes) == SAB_E_FORMAT && sizes == NULL);
    }
    expect_refused(NULL, SAB_E_FORMAT, "is truncated: 4 samples and 4 sizes");
    set_u64(48 + 8 * (5 + 2), 0);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT,
                   "data_offsets[2] = 0: must not be less than data_offsets[1]");
    const size_t counts[] = {32, 40};
    for (size_t i = 0; i < COUNT(counts); ++i) {
        make_legacy_index(4);
        set_u64(counts[i], UINT64_MAX / 8);
        write_used();
        expect_refused(NULL, SAB_E_FORMAT, "is truncated or damaged");
    }
    make_legacy_index(0);
    write_used();
    expect_read(NULL, 0, NULL, "fairseq .idx (TNTIDX): 0 sequences");
    set_u64(8, 0);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "version 0 is not known");
}

static void DatatroveIndex_IsReadOrRefused(void) {
    const uint64_t ends[] = {3, 3, 10, UINT64_C(1) << 40};
    use_name(".ds.index");
    used = 0;
    for (size_t i = 0; i < COUNT(ends); ++i) add_u64(ends[i]);
    write_used();
    EXPECT_READ(NULL, "datatrove index: 4 documents", 3, 0, 7, 1099511627766.);
    write_bytes(bytes, used - 1);
    expect_refused(NULL, SAB_E_FORMAT, "has 31 bytes: must be a multiple of 8");
    set_u64(16, 2);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "ends[2] = 2: must not be less than ends[1] = 3");
    set_u64(16, UINT64_MAX);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "ends[2] = -1");
    set_u64(0, UINT64_MAX);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "ends[0] = -1: must be from 0 to 2^53");
    write_text("");
    expect_read(NULL, 0, NULL, "datatrove index: 0 documents");
    use_name("");
    write_used();
    sab_sizes_file_options options = as("datatrove", NULL);
    expect_refused(&options, SAB_E_FORMAT, "ends[0] = -1");
}

static void Numbers_AreSizes(void) {
    use_name(".txt");
    write_text("5\n 6 \r\n0\n4294967295");
    EXPECT_READ(NULL, "lines of numbers: 4 sizes", 5, 6, 0, 4294967295.);
    write_text("5\n4294967296\n1.5\n1e3\n\n\n");
    EXPECT_READ(NULL, "lines of numbers: 4 sizes", 5, 4294967296., 1.5, 1000);
    write_text("9007199254740992\n7\n");
    EXPECT_READ(NULL, "lines of numbers: 2 sizes", 9007199254740992., 7);
    const struct {
        const char *text, *words;
    } bad[] = {{"5\n-6\n", "line 2: -6: must be from 0 to 2^53"},
               {"5\n\n6\n", "line 2: is empty: must be a number"},
               {"5\n9007199254740993\n", "line 2: 9007199254740993: must be"},
               {"5\n1e300\n", "line 2: 1e300: must be"}};
    for (size_t i = 0; i < COUNT(bad); ++i) {
        write_text(bad[i].text);
        expect_refused(NULL, SAB_E_FORMAT, bad[i].words);
    }
    write_text("5\nfive\n6\n");
    expect_refused(NULL, SAB_E_FORMAT, "line 2: \"five\" is not a number");
    write_text("five\n6\n");
    sab_sizes_file_options options = as("numbers", NULL);
    expect_refused(&options, SAB_E_FORMAT, "line 1: \"five\" is not a number");
    write_text("5\nfive\n6\n");
    expect_refused(&options, SAB_E_FORMAT, "line 2: \"five\" is not a number");
    write_text("1.5\n1e400\n");
    expect_refused(&options, SAB_E_FORMAT, "line 2: \"1e400\" is not a number");
}

/* A line behind those that the format is detected by. */
static void Numbers_LaterLineOfText_IsAnErrorWithItsNumber(void) {
    use_name("");
    used = 0;
    for (int i = 0; i < 100000; ++i) add("12345\n", 6);
    add("hello\n", 6);
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "line 100001: \"hello\" is not a number");
}

static void Text_SizesAreBytesOrWords(void) {
    use_name("");
    write_text(
        "ein Wort\n\n gr\xC3\xB6\xC3\x9F"
        "er \tals\r\nvier 4");
    sab_sizes_file_options options = as(NULL, NULL);
    EXPECT_READ(&options, "lines of text, sizes in bytes: 4 lines", 8, 0, 14, 6);
    options.text_unit = SAB_TEXT_WORDS;
    EXPECT_READ(&options, "lines of text, sizes in words: 4 lines", 2, 0, 2, 2);
    write_text("5\n6\n");
    options = as("text", NULL);
    EXPECT_READ(&options, "lines of text, sizes in bytes: 2 lines", 1, 1);
    write_text("");
    expect_read(NULL, 0, NULL, "lines of text, sizes in bytes: 0 lines");
    write_text("a line\nand \xC3( another\n");
    expect_refused(NULL, SAB_E_FORMAT, "line 2: is not valid UTF-8");
    write_bytes("a line\nand\0another\n", 19);
    expect_refused(NULL, SAB_E_FORMAT, "line 2: has a NUL byte");
}

static void Text_LongerThanEveryBuffer_IsReadWhole(void) {
    use_name("");
    used = 0;
    for (int i = 0; i < 700000; ++i) add("x", 1);
    add("\nyy\n", 4);
    write_used();
    EXPECT_READ(NULL, "lines of text, sizes in bytes: 2 lines", 700000, 2);
}

static void Fasta_SizesAreResidues(void) {
    use_name(".fa");
    write_text(">one\nACGT\nAC \r\n>empty\n>three\n\nA\n");
    EXPECT_READ(NULL, "FASTA, sizes in residues: 3 records", 6, 0, 1);
    write_text("\nACGT\n>one\n");
    expect_refused(NULL, SAB_E_FORMAT, "line 2: a FASTA file must begin with \">\"");
    use_name("");
    write_text(">one\nACGT");
    EXPECT_READ(NULL, "FASTA, sizes in residues: 1 record", 4);
    write_text(">one \xFF\nACGT");
    expect_refused(NULL, SAB_E_FORMAT, "line 1: is not valid UTF-8");
}

static void JsonLines_NumberTextOrList(void) {
    use_name("");
    write_text(
        "{\"length\": 5, \"text\": \"a b\", \"ids\": [1, 2], \"audio\": {\"frames\": 7}}\n\n"
        "{\"ids\": [], \"text\": \"\\u00fc\\n\\\"\", \"length\": 2.5, \"audio.frames\": 9}");
    sab_sizes_file_options options = as(NULL, "length");
    EXPECT_READ(&options, "JSON lines, field length: 2 lines", 5, 2.5);
    options.column = "text";
    EXPECT_READ(&options, "JSON lines, field text: 2 lines", 3, 4);
    options.text_unit = SAB_TEXT_WORDS;
    EXPECT_READ(&options, "JSON lines, field text: 2 lines", 2, 2);
    options.column = "ids";
    EXPECT_READ(&options, "JSON lines, field ids: 2 lines", 2, 0);
    options.column = "audio.frames";
    EXPECT_READ(&options, "JSON lines, field audio.frames: 2 lines", 7, 9);
    expect_refused(NULL, SAB_E_ARGUMENT,
                   "options.column = NULL: must name a field of the JSON lines");
    expect_refused(NULL, SAB_E_ARGUMENT, "line 1 has: length, text, ids, audio.frames");
}

static void JsonLines_TextsThatAreNumbers_AreRefusedOrRead(void) {
    use_name("");
    write_text("{\"s\": \"3.25\", \"ids\": [[1, 2]]}\n{\"s\": \"\\u0037\", \"ids\": [[3]]}\n");
    sab_sizes_file_options options = as(NULL, "s");
    expect_refused(&options, SAB_E_ARGUMENT, "options.text_unit = SAB_TEXT_BYTES: all texts of");
    options.text_unit = SAB_TEXT_VALUE;
    EXPECT_READ(&options, "JSON lines, field s: 2 lines", 3.25, 7);
    options.text_unit = SAB_TEXT_ALL_BYTES;
    EXPECT_READ(&options, "JSON lines, field s: 2 lines", 4, 1);
    options.column = "ids";
    expect_refused(&options, SAB_E_ARGUMENT, "each list holds a single list, of the shape (1, le");
    write_text("{\"s\": \"3.25\"}\n{\"s\": \"a\"}\n");
    options = as(NULL, "s");
    EXPECT_READ(&options, "JSON lines, field s: 2 lines", 4, 1);
    options.text_unit = SAB_TEXT_VALUE;
    expect_refused(&options, SAB_E_FORMAT, "line 2: field \"s\" = \"a\": must be a number from 0");
    write_text("3\n 4.5\n");
    options.format = "text";
    options.column = NULL;
    EXPECT_READ(&options, "lines of text, values: 2 lines", 3, 4.5);
    write_text("3\nx\n");
    expect_refused(&options, SAB_E_FORMAT, "line 2: \"x\": must be a number from 0 to 2^53");
}

static void Kaldi_NumbersAfterNames_AreRead(void) {
    use_name("");
    write_text("a 3.25\nb\t7\n");
    const sab_sizes_file_options options = as("kaldi", NULL);
    EXPECT_READ(&options, "a name and a number a line: 2 sizes", 3.25, 7);
    expect_refused(NULL, SAB_E_FORMAT, "is ambiguous: each line has a name and a number; format");
    write_text("a 3\nb\n");
    expect_refused(&options, SAB_E_FORMAT, "line 2: \"b\": must be a name and a number from 0");
}

static void JsonLines_BadLine_IsNamed(void) {
    const struct {
        const char *line, *words;
    } bad[] = {
        {"{\"text\": \"a\", \"m\": {\"n\": 1}}",
         "line 2: has no field \"length\"; line 2 has: text, m.n"},
        {"{}", "line 2: has no field \"length\"; line 2 has no fields"},
        {"{\"length\": null}", "line 2: field \"length\" is null"},
        {"{\"length\": true}", "line 2: field \"length\" is true: must be"},
        {"{\"length\": {}}", "line 2: field \"length\" is an object: must be"},
        {"{\"length\": -1}", "line 2: field \"length\" = -1: must be from 0 to 2^53"},
        {"{\"length\": 1e300}", "= 1e300: must be from 0 to 2^53"},
        {"{\"length\": 18446744073709551615}", "must be from 0 to 2^53"},
        {"{\"length\": 18446744073709551616}", "field \"length\" = 18446744073709551616"},
        {"{\"length\": 007}", "field \"length\" is 007: must be a number"},
        {"{\"length\": NaN}", "field \"length\" is NaN: must be a number"},
        {"{\"length\": \"\\ud800\"}", "an escape in the text is not valid"},
        {"{\"length\": 5",
         "line 2: is not JSON: the object does not end on this line; "
         "JSON lines have one whole object on each line"},
        {"{", "line 2: is not JSON: the object does not end on this line"},
        {"{\"length\": 5} {\"length\": 6}", "byte 14 must be the end of the line"},
        {"{\"length\": 5}}", "line 2: is not JSON: byte 13 must be the end of the line"},
        {"{\"length\": 5},", "line 2: is not JSON: byte 13 must be the end of the line"},
        {"{\"length\": 5 6}", "line 2: is not JSON: byte 13 must be a comma or a brace"},
        {"{\"length\" 5}", "line 2: is not JSON: byte 10 must be a colon"},
        {"{\"length\": }", "line 2: is not JSON: byte 11 must be a value"},
        {"{\"length\": 5, }", "line 2: is not JSON: byte 14 must be the name of a field"},
        {"{5: 5}", "line 2: is not JSON: byte 1 must be the name of a field"},
        {"{\"length\": [1 2]}", "line 2: is not JSON: byte 14 must be a comma or a bracket"},
        {"{\"length\": [1, ]}", "line 2: is not JSON: byte 15 must be a value"},
        {"{\"length\": [1, 2}", "line 2: is not JSON"},
        {"{\"length\": 5, \"a\": \"}", "line 2: is not JSON: "},
        {"{\"length\": \"\xFF\"}", "line 2: is not JSON"},
        {"{\"a\": {}\n, \"length\": 7}", "line 2: is not JSON"},
        {"{\"length\": 7}\n{\"a\": {}}\n", "line 3: has no field"},
        {"[5]", "line 2: must be a JSON object, is a list; JSON lines have one whole object"},
        {"five", "line 2: must be a JSON object, is five"},
        {"5", "line 2: must be a JSON object, is 5"}};
    use_name(".jsonl");
    sab_sizes_file_options options = as(NULL, "length");
    for (size_t i = 0; i < COUNT(bad); ++i) {
        char text[200];
        snprintf(text, sizeof text, "{\"length\": 5}\n%s\n{\"length\": 6}\n", bad[i].line);
        write_text(text);
        expect_refused(&options, SAB_E_FORMAT, bad[i].words);
        text[strlen(text) - strlen("{\"length\": 6}\n")] = '\0'; /* as the last line */
        write_text(text);
        expect_refused(&options, SAB_E_FORMAT, bad[i].words);
    }
}

static void JsonLines_OtherFields_AreSkippedWhateverTheyHave(void) {
    use_name(".jsonl");
    const sab_sizes_file_options options = as(NULL, "length");
    write_text(
        "{\"a\": 18446744073709551616, \"length\": 1}\n"
        "{\"a\": [NaN, -Infinity, {\"length\": 9}], \"length\": 2}\n"
        "{\"a\": {\"length\": 9, \"b\": [[], {}]}, \"length\": 3}\n"
        "{\"a\": \"\\ud800 } \\\" {\", \"length\": 4}\n");
    EXPECT_READ(&options, "JSON lines, field length: 4 lines", 1, 2, 3, 4);
}

static void JsonLines_Names_MatchAsJsonSays(void) {
    use_name(".jsonl");
    sab_sizes_file_options options = as(NULL, "length");
    write_text(
        "{\"length\": 1, \"length\": 9}\n" /* the first one counts */
        "{\"l\\u0065ngth\": 2, \"lengths\": 9}\n");
    EXPECT_READ(&options, "JSON lines, field length: 2 lines", 1, 2);
    options.column = "a.b.c";
    write_text(
        "{\"a\": {\"b\": {\"c\": 1}, \"b.c\": 2}}\n"
        "{\"a\": {\"b\": {\"c\": 3}}, \"a\": 9}\n"
        "{\"a\": {\"b\": {\"c\": 9}}, \"a.b.c\": 4}\n");
    EXPECT_READ(&options, "JSON lines, field a.b.c: 3 lines", 2, 3, 4);
    write_text("{\"a\": {\"b\": 5}}\n");
    expect_refused(&options, SAB_E_FORMAT, "has no field \"a.b.c\"; line 1 has: a.b");
}

static void JsonLines_Null_IsNoMissingField(void) {
    use_name(".jsonl");
    sab_sizes_file_options options = as(NULL, "audio.frames");
    const char *nulls =
        "{\"audio\": {\"frames\": 5}}\n{\"audio\": {\"frames\": null}}\n{\"audio\": null}\n";
    write_text(nulls);
    const char *words =
        "line 2: field \"audio.frames\" is null; options.nulls = SAB_NULLS_ZERO counts nulls as 0";
    expect_refused(&options, SAB_E_FORMAT, words);
    options.missing = SAB_MISSING_SKIP;
    expect_refused(&options, SAB_E_FORMAT, words);
    options.nulls = SAB_NULLS_ZERO;
    EXPECT_READ(&options, "JSON lines, field audio.frames: 3 lines", 5, 0, 0);
    options.missing = SAB_MISSING_REFUSE;
    EXPECT_READ(&options, "JSON lines, field audio.frames: 3 lines", 5, 0, 0);
    write_text("{\"audio\": {}}\n");
    expect_refused(&options, SAB_E_FORMAT, "line 1: has no field \"audio.frames\"");
    options.nulls = 2;
    expect_refused(&options, SAB_E_ARGUMENT, "options.nulls = 2: must be SAB_NULLS_REFUSE (0)");
}

static void JsonLines_BlankAndLongLines_AreReadWhole(void) {
    sab_sizes_file_options options = as("jsonl", "text");
    const char *const endings[] = {"", ".gz"};
    for (size_t k = 0; k < COUNT(endings); ++k) {
        static char text[800000];
        use_name(endings[k]);
        char *to = text + sprintf(text, "\n \r\n {\"text\": \"");
        memset(to, 'x', 700000);
        sprintf(to + 700000, "\"}\r\n\n{\"text\": \"\\n\\u00fc\"}");
        if (k == 0)
            write_text(text);
        else
            write_gzip(text, strlen(text));
        EXPECT_READ(&options, "JSON lines, field text: 2 lines", 700000, 3);
    }
    write_text("\n\n{\"text\": \"a\"}\n\n{\"text\": 5\n");
    expect_refused(&options, SAB_E_FORMAT, "line 5: is not JSON");
    write_text("\n{\"text\": \"a\"}\n\n{\"text\": \"\t\"}\n"); /* a tab must be escaped */
    expect_refused(&options, SAB_E_FORMAT, "line 4: is not JSON");
    write_text("");
    expect_read(&options, 0, NULL, "JSON lines, field text: 0 lines");
    write_text(" \n");
    expect_read(&options, 0, NULL, "JSON lines, field text: 0 lines");
}

static void JsonLines_MissingField_IsSkippedOnRequest(void) {
    use_name(".jsonl.gz");
    sab_sizes_file_options options = as(NULL, "length");
    options.missing = SAB_MISSING_SKIP;
    write_text("{\"length\": 5}\n{\"text\": \"a\"}\n{}\n{\"length\": 6}\n");
    EXPECT_READ(&options, "JSON lines, field length: 2 lines (2 skipped)", 5, 6);
    options.column = "lenght";
    expect_refused(&options, SAB_E_FORMAT, "no line has the field \"lenght\"; line 1 has: length");
    write_text("");
    expect_read(&options, 0, NULL, "JSON lines, field lenght: 0 lines");
}

static void ByteOrderMark_IsNoPartOfTheText(void) {
    const char *mark = "\xEF\xBB\xBF";
    char text[100];
    const sab_sizes_file_options length = as(NULL, "length");
    for (int is_gzip = 0; is_gzip < 2; ++is_gzip) {
        use_name(is_gzip ? ".gz" : "");
#define WRITE_MARKED(rest)                               \
    do {                                                 \
        snprintf(text, sizeof text, "%s%s", mark, rest); \
        if (is_gzip)                                     \
            write_gzip(text, strlen(text));              \
        else                                             \
            write_text(text);                            \
    } while (0)
        WRITE_MARKED("5\n6\n");
        EXPECT_READ(NULL, "lines of numbers: 2 sizes", 5, 6);
        WRITE_MARKED("one\ntwo ");
        EXPECT_READ(NULL, "lines of text, sizes in bytes: 2 lines", 3, 4);
        WRITE_MARKED(">one\nACGT\n");
        EXPECT_READ(NULL, "FASTA, sizes in residues: 1 record", 4);
        WRITE_MARKED("{\"length\": 5}\n{\"length\": 6}\n");
        EXPECT_READ(&length, "JSON lines, field length: 2 lines", 5, 6);
        WRITE_MARKED("");
        expect_read(NULL, 0, NULL, "lines of text, sizes in bytes: 0 lines");
    }
    use_name("");
    write_text("a\xEF\xBB\xBF"); /* not at the beginning */
    EXPECT_READ(NULL, "lines of text, sizes in bytes: 1 line", 4);
    const sab_sizes_file_options as_text = as("text", NULL);
    for (size_t count = 1; count < 3; ++count) {
        write_bytes(mark, count);
        expect_refused(&as_text, SAB_E_FORMAT, "line 1: is not valid UTF-8");
    }
}

static void NoRegularFile_IsRefusedAtOnce(void) {
#ifndef _WIN32
    sab_sizes *sizes = NULL;
    EXPECT_FAILS(sab_sizes_file_new("/tmp", NULL, &sizes), SAB_E_IO, "\"/tmp\": is a directory");
    use_name(".fifo");
    EXPECT(mkfifo(file_name, 0600) == 0); /* which nobody writes to */
    expect_refused(NULL, SAB_E_IO,
                   "is a pipe, must be a regular file; \"-\" reads a pipe from standard input");
    const sab_sizes_file_options as_text = as("text", NULL);
    expect_refused(&as_text, SAB_E_IO, "is a pipe");
    EXPECT_FAILS(sab_sizes_file_new("/dev/null", NULL, &sizes), SAB_E_IO, "is a device");
#endif
}

static void CompressedText_HasTheSameSizes(void) {
    static char text[300000];
    size_t length = 0;
    const double expected[] = {100000, 70001, 3};
    for (size_t i = 0; i < 3; ++i) {
        memset(text + length, 'a' + (int)i, (size_t)expected[i]);
        length += (size_t)expected[i];
        text[length++] = '\n';
    }
    const char *description = "lines of text, sizes in bytes: 3 lines";
    use_name(".gz");
    write_gzip(text, length);
    expect_read(NULL, 3, expected, description);
    write_bytes(bytes, used / 2);
    expect_refused(NULL, SAB_E_FORMAT, "is truncated");
    bytes[used - 8] ^= 1;
    write_used();
    expect_refused(NULL, SAB_E_FORMAT, "the checksum does not match");
    use_name("");
    write_zstd(text, length);
    expect_read(NULL, 3, expected, description);
    write_bytes(bytes, used / 2);
    expect_refused(NULL, SAB_E_FORMAT, "is truncated");
    const char *json = "{\"length\": 5}\n{\"length\": 7}\n", *fasta = ">a\nACGT\n",
               *numbers = "1\n2\n";
    sab_sizes_file_options options = as(NULL, "length");
    for (int is_gzip = 0; is_gzip < 2; ++is_gzip) {
        void (*const write)(const char *, size_t) = is_gzip ? write_gzip : write_zstd;
        write(json, strlen(json));
        EXPECT_READ(&options, "JSON lines, field length: 2 lines", 5, 7);
        write(fasta, strlen(fasta));
        EXPECT_READ(NULL, "FASTA, sizes in residues: 1 record", 4);
        write(numbers, strlen(numbers));
        EXPECT_READ(NULL, "lines of numbers: 2 sizes", 1, 2);
        const sab_sizes_file_options npy = as("npy", NULL);
        expect_refused(&npy, SAB_E_FORMAT, "is compressed");
    }
}

static void Npy_IsDetected(void) {
    static const char header[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }\n";
    used = 0;
    add("\x93NUMPY\1\0\x3A\0", 10);
    add(header, 58);
    add("\5\0\6\0", 4);
    use_name("");
    write_used();
    EXPECT_READ(NULL, "NumPy .npy: 2 sizes", 5, 6);
    write_text("no");
    const sab_sizes_file_options options = as("npy", NULL);
    expect_refused(&options, SAB_E_FORMAT, "is not a .npy file");
}

static void Copied_FileMayBeOverwritten(void) {
    static const char npy[] =
        "\x93NUMPY\1\0\x3A\0"
        "{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }\n"
        "\5\0\6\0";
    sab_sizes_file_options options = as(NULL, NULL);
    options.copy = 1;
    for (int is_npy = 0; is_npy < 2; ++is_npy) {
        use_name(is_npy ? ".npy" : ".idx");
        make_mapped_index(2, (const int32_t[]){5, 6}, 1, 2);
        if (is_npy) {
            used = 0;
            add(npy, sizeof npy - 1);
        }
        write_used();
        sab_sizes *sizes = NULL;
        EXPECT_OK(sab_sizes_file_new(file_name, &options, &sizes));
        memset(bytes, 0, used);
        write_used();
        double first = 0, second = 0;
        EXPECT_OK(sab_sizes_get(sizes, 0, 1, &first));
        EXPECT_OK(sab_sizes_get(sizes, 1, 1, &second));
        EXPECT(first == 5 && second == 6);
        sab_sizes_free(sizes);
    }
    options.copy = 2;
    expect_refused(&options, SAB_E_ARGUMENT, "options.copy = 2: must be 0 or 1");
}

static void OtherFormats_AreRefusedByName(void) {
    const struct {
        const char *ending, *bytes;
        size_t count;
        const char *words;
    } bad[] = {{".npz", "PK\3\4 and more", 13, "is a zip archive"},
               {"", "PK\5\6\0\0", 6, "is an empty zip archive"},
               {"", "PAR1....", 8, "is a Parquet file: read it in Python"},
               {"", "ARROW1\0\0", 8, "is an Arrow IPC file: read it in Python"},
               {"", "\xFF\xFF\xFF\xFF\0\0\0\0", 8, "is an Arrow IPC stream"},
               {".csv", "length\n5\n", 9, "is a table, by its name: read it in Python"},
               {".tsv", "length\n5\n", 9, "(pip install pyarrow)"},
               {"", "BZh91AY", 7, "is compressed by bzip2"},
               {"",
                "\xFD"
                "7zXZ\0",
                6, "is compressed by xz"},
               {"", "\x80\4\x95.", 4, "is not valid UTF-8"},
               {"", "ab\0c", 4, "has a NUL byte"},
               {".npy", "5\n", 2, "is not a .npy file"},
               {".idx", "5\n", 2, "does not begin with \"MMIDIDX\""}};
    for (size_t i = 0; i < COUNT(bad); ++i) {
        use_name(bad[i].ending);
        write_bytes(bad[i].bytes, bad[i].count);
        expect_refused(NULL, SAB_E_FORMAT, bad[i].words);
        expect_refused(NULL, SAB_E_FORMAT, file_name);
    }
}

static void Json_ThatIsNoJsonLines_IsRefusedWhateverItsName(void) {
    const char *const array =
        "is a JSON array, by its beginning: JSON lines have one whole object "
        "on each line; format \"text\"";
    const char *const object = "is JSON whose first line does not end its object: JSON lines have";
    const struct {
        const char *text, *words;
    } bad[] = {{" [1,\n2]", array},
               {"[1, 2]", array},
               {"[5]\n[6]\n", array},
               {"[\n  {\n    \"length\": 5\n  }\n]\n", array},
               {"[\"a\", \"b\"]\n", array},
               {"[[1]]", array},
               {"[]\n", array},
               {"{\n  \"length\": 5\n}\n", object},
               {"{\"length\":\n5}\n", object},
               {"{\"length\": 5},\n{\"length\": 6}\n", object}};
    const char *const endings[] = {"", ".txt", ".json", ".jsonl"};
    const sab_sizes_file_options length = as(NULL, "length");
    for (size_t k = 0; k < COUNT(endings); ++k) {
        use_name(endings[k]);
        for (size_t i = 0; i < COUNT(bad); ++i) {
            write_text(bad[i].text);
            expect_refused(NULL, SAB_E_FORMAT, bad[i].words);
            expect_refused(&length, SAB_E_FORMAT, bad[i].words);
        }
    }
    use_name("");
    const sab_sizes_file_options text = as("text", NULL);
    write_text("[1, 2]");
    EXPECT_READ(&text, "lines of text, sizes in bytes: 1 line", 6);
}

static void Text_ThatBeginsLikeAnotherFormat_IsText(void) {
    use_name("");
    const char *const texts[] = {"[1] Smith et al.",      "[Intro] one",     "{a, b}",
                                 "> quoted text\nNo, it", "> one\n> two\n>", "[5] a\n[6] b",
                                 "{\\rtf1 {x}}"};
    for (size_t i = 0; i < COUNT(texts); ++i) {
        write_text(texts[i]);
        sab_sizes *sizes = NULL;
        EXPECT_OK(sab_sizes_file_new(file_name, NULL, &sizes));
        EXPECT(strstr(info_of_sizes(sizes).description, "lines of text") != NULL);
        sab_sizes_free(sizes);
    }
    write_text("{\"length\": 5}"); /* JSON lines by their first line */
    const sab_sizes_file_options length = as(NULL, "length");
    EXPECT_READ(&length, "JSON lines, field length: 1 line", 5);
    write_text(">a b\nMKV-*\n\n>c\nacgtN\n");
    EXPECT_READ(NULL, "FASTA, sizes in residues: 2 records", 5, 5);
    use_name(".fa");
    write_text(">a\n>b\n");
    EXPECT_READ(NULL, "FASTA, sizes in residues: 2 records", 0, 0);
    used = 0; /* a sequence and an object that are longer than what is looked at */
    add(">a\n", 3);
    for (int i = 0; i < 100000; ++i) add("A", 1);
    use_name("");
    write_used();
    EXPECT_READ(NULL, "FASTA, sizes in residues: 1 record", 100000);
    used = 0;
    add("{\"length\": \"", 12);
    for (int i = 0; i < 100000; ++i) add("A", 1);
    add("\"}\n", 3);
    write_used();
    EXPECT_READ(&length, "JSON lines, field length: 1 line", 100000);
}

static void Options_AreChecked(void) {
    use_name("");
    write_text("5\n");
    sab_sizes_file_options options = as("parquet", NULL);
    expect_refused(&options, SAB_E_ARGUMENT,
                   "options.format = \"parquet\": must be one of npy, megatron, fairseq");
    options = as(NULL, "length");
    expect_refused(&options, SAB_E_ARGUMENT, "options.column = \"length\"");
    options = as(NULL, NULL);
    options.text_unit = 2;
    expect_refused(&options, SAB_E_ARGUMENT, "options.text_unit = 2: must be");
    options = as(NULL, NULL);
    options.missing = -1;
    expect_refused(&options, SAB_E_ARGUMENT, "options.missing = -1: must be");
    unlink(file_name);
    expect_refused(NULL, SAB_E_IO, file_name);
    sab_sizes *sizes = NULL;
    EXPECT_FAILS(sab_sizes_file_new(NULL, NULL, &sizes), SAB_E_ARGUMENT, "path = NULL");
    EXPECT_FAILS(sab_sizes_file_new(file_name, NULL, NULL), SAB_E_ARGUMENT, "sizes = NULL");
}

struct seen {
    uint64_t calls, done, total;
    uint64_t stop_at; /* this call fails; 0: none */
};
static int32_t note(void *ctx, uint64_t done, uint64_t total) {
    struct seen *seen = ctx;
    EXPECT(done >= seen->done || seen->calls == 0);
    seen->done = done;
    seen->total = total;
    return ++seen->calls == seen->stop_at ? 77 : 0;
}

/* Each call of the callback can cancel, and nothing is left then. */
static void expect_progress(const char *format) {
    struct seen seen = {0, 0, 0, 0};
    sab_sizes_file_options options = as(format, NULL);
    options.progress = note;
    options.progress_ctx = &seen;
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_file_new(file_name, &options, &sizes));
    sab_sizes_free(sizes);
    EXPECT(seen.calls > 1 && seen.done == seen.total && seen.total > 0);
    const uint64_t calls = seen.calls;
    for (uint64_t stop = 1; stop <= calls; ++stop) {
        seen = (struct seen){0, 0, 0, stop};
        EXPECT(sab_sizes_file_new(file_name, &options, &sizes) == SAB_E_CANCELLED);
        EXPECT(sizes == NULL && sab_last_error_code() == 77 && seen.calls == stop);
    }
}

static void Progress_IsReportedAndCancels(void) {
    use_name(".idx");
    static int32_t lengths[1000];
    make_mapped_index(1000, lengths, 0, 0);
    write_used();
    expect_progress("fairseq");
    use_name("");
    used = 0;
    for (int i = 0; i < 300000; ++i) add("a\n", 2);
    write_used();
    expect_progress("text");
}

/* A mapped file that another program overwrites: errors, and no crash. */
static void MappedFile_Overwritten_IsCheckedWhenRead(void) {
    const int32_t lengths[] = {5, 6, 7};
    use_name(".idx");
    make_mapped_index(3, lengths, 1, 2);
    write_used();
    sab_sizes *sizes = NULL;
    EXPECT_OK(sab_sizes_file_new(file_name, NULL, &sizes));
    FILE *file = fopen(file_name, "r+b");
    EXPECT(file != NULL && fseek(file, 38, SEEK_SET) == 0 &&
           fwrite("\xFF\xFF\xFF\xFF", 1, 4, file) == 4);
    if (file != NULL) fclose(file);
    double size = 0;
    EXPECT_OK(sab_sizes_get(sizes, 0, 1, &size));
#ifndef _WIN32 /* where files are copied */
    EXPECT_FAILS(sab_sizes_get(sizes, 1, 1, &size), SAB_E_ARGUMENT, "must not be negative");
#endif
    sab_sizes_free(sizes);
}

/* The same as from the file. */
static void expect_from_standard_input(const char *description, double first) {
    const int before = dup(0);
    const int file = open(file_name, O_RDONLY);
    EXPECT(before >= 0 && file >= 0 && dup2(file, 0) == 0);
    close(file);
    sab_sizes *sizes = NULL;
    double size = -1;
    EXPECT_OK(sab_sizes_file_new("-", NULL, &sizes));
    EXPECT_OK(sab_sizes_get(sizes, 0, 1, &size));
    EXPECT(size == first && strcmp(info_of_sizes(sizes).description, description) == 0);
    sab_sizes_free(sizes);
    dup2(before, 0);
    close(before);
}

static void StandardInput_HasEveryFormat(void) {
    use_name("");
    const int32_t lengths[] = {5, 6, 7};
    make_mapped_index(3, lengths, 1, 2);
    write_used();
    expect_from_standard_input("Megatron .idx: 3 sequences", 5);
    write_text("8\n9\n");
    expect_from_standard_input("lines of numbers: 2 sizes", 8);
    write_gzip("8\n9\n", 4);
    expect_from_standard_input("lines of numbers: 2 sizes", 8);
    write_text(
        "\xEF\xBB\xBF"
        "8\n9\n");
    expect_from_standard_input("lines of numbers: 2 sizes", 8);
    used = 0;
    for (int i = 0; i < 500000; ++i) add("a\n", 2);
    write_used();
    expect_from_standard_input("lines of text, sizes in bytes: 500,000 lines", 1);
}

int main(void) {
    RUN(MappedIndexes_AreToldApartBySize);
    RUN(MappedIndex_Damaged_IsRefused);
    RUN(LegacyIndex_IsReadOrRefused);
    RUN(DatatroveIndex_IsReadOrRefused);
    RUN(Numbers_AreSizes);
    RUN(Numbers_LaterLineOfText_IsAnErrorWithItsNumber);
    RUN(Text_SizesAreBytesOrWords);
    RUN(Text_LongerThanEveryBuffer_IsReadWhole);
    RUN(Fasta_SizesAreResidues);
    RUN(JsonLines_NumberTextOrList);
    RUN(JsonLines_TextsThatAreNumbers_AreRefusedOrRead);
    RUN(Kaldi_NumbersAfterNames_AreRead);
    RUN(JsonLines_BadLine_IsNamed);
    RUN(JsonLines_OtherFields_AreSkippedWhateverTheyHave);
    RUN(JsonLines_Names_MatchAsJsonSays);
    RUN(JsonLines_Null_IsNoMissingField);
    RUN(JsonLines_BlankAndLongLines_AreReadWhole);
    RUN(JsonLines_MissingField_IsSkippedOnRequest);
    RUN(ByteOrderMark_IsNoPartOfTheText);
    RUN(NoRegularFile_IsRefusedAtOnce);
    RUN(CompressedText_HasTheSameSizes);
    RUN(Npy_IsDetected);
    RUN(Copied_FileMayBeOverwritten);
    RUN(OtherFormats_AreRefusedByName);
    RUN(Json_ThatIsNoJsonLines_IsRefusedWhateverItsName);
    RUN(Text_ThatBeginsLikeAnotherFormat_IsText);
    RUN(Options_AreChecked);
    RUN(Progress_IsReportedAndCancels);
    RUN(MappedFile_Overwritten_IsCheckedWhenRead);
    RUN(StandardInput_HasEveryFormat);
    unlink(file_name);
    return finish();
}
