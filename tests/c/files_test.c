/* Sizes in .npy files, and files that are refused. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "helpers.h"

static void write_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(bytes, 1, count, file) == count);
    if (file != NULL) fclose(file);
}

static size_t make_npy(unsigned char *out, int version, const char *dictionary, const void *data,
                       size_t bytes) {
    const size_t header = strlen(dictionary);
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)version;
    out[7] = 0;
    out[8] = (unsigned char)(header & 255);
    out[9] = (unsigned char)(header >> 8);
    size_t start = 10;
    if (version > 1) {
        out[10] = out[11] = 0;
        start = 12;
    }
    memcpy(out + start, dictionary, header);
    memcpy(out + start + header, data, bytes);
    return start + header + bytes;
}

static sab_status read_npy(const char *path, int32_t copy, sab_sizes **sizes) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = "npy";
    options.copy = copy;
    return sab_sizes_file_new(path, &options, sizes);
}

static void Npy_GoodFilesAreMapped_BadOnesRefused(void) {
    unsigned char file[512];
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    const int16_t numbers[] = {5, 6, 7};
    sab_sizes *sizes = NULL;
    double value = 0;
    for (int version = 1; version <= 3; ++version) {
        const size_t size =
            make_npy(file, version, "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }\n",
                     numbers, sizeof numbers);
        write_file(path, file, size);
        EXPECT_OK(read_npy(path, 0, &sizes));
        EXPECT_OK(sab_sizes_get(sizes, 2, 1, &value));
        EXPECT(sab_sizes_count(sizes) == 3 && value == 7);
        sab_sizes_free(sizes);
        EXPECT_OK(read_npy(path, 1, &sizes)); /* a copy: the file may change */
        for (size_t shorter = 0; shorter < size; ++shorter) {
            sab_sizes *other = NULL;
            write_file(path, file, shorter);
            EXPECT(read_npy(path, 0, &other) == SAB_E_FORMAT && other == NULL);
            EXPECT(read_npy(path, 1, &other) == SAB_E_FORMAT && other == NULL);
        }
        EXPECT_OK(sab_sizes_get(sizes, 2, 1, &value));
        EXPECT(sab_sizes_count(sizes) == 3 && value == 7);
        sab_sizes_free(sizes);
    }
    const struct {
        const char *dictionary;
        const char *words;
    } bad[] = {
        {"{'descr': '>i2', 'fortran_order': False, 'shape': (3,), }", "big-endian"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (3, 1), }",
         "has shape (3, 1): must have one dimension"},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (), }", "one dimension"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }", "dtype <f2"},
        {"{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (3,), }",
         "one plain number type"},
        {"{'fortran_order': False, 'shape': (3,), }", "no 'descr'"},
        {"{'descr': '<i2', 'fortran_order': False}", "no 'shape'"},
        {"{'descr': '<i2', 'shape': (99999999999999999999,), }", "one dimension"},
        {"{'descr': '<i2', 'shape': (4,), }", "truncated: 4 sizes are promised, 3 are there"}};
    for (size_t i = 0; i < COUNT(bad); ++i) {
        write_file(path, file, make_npy(file, 1, bad[i].dictionary, numbers, sizeof numbers));
        EXPECT_FAILS(read_npy(path, 0, &sizes), SAB_E_FORMAT, bad[i].words);
    }
    write_file(path, file, make_npy(file, 1, "{'descr': '<i2', 'shape': (0,), }", numbers, 0));
    EXPECT_OK(read_npy(path, 1, &sizes));
    EXPECT(sab_sizes_count(sizes) == 0);
    sab_sizes_free(sizes);
    write_file(path, "no such thing at all", 20);
    EXPECT_FAILS(read_npy(path, 0, &sizes), SAB_E_FORMAT, "is not a .npy file");
    unlink(path);
    EXPECT_FAILS(read_npy(path, 0, &sizes), SAB_E_IO, path);
    EXPECT_FAILS(read_npy("/tmp", 0, &sizes), SAB_E_IO, "regular file");
    EXPECT_FAILS(read_npy(NULL, 0, &sizes), SAB_E_ARGUMENT, "path = NULL");
}

static int write_npy(const char *path, int version, const char *dictionary, size_t header,
                     const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (file == NULL) return 0;
    fwrite("\x93NUMPY", 1, 6, file);
    fputc(version, file);
    fputc(0, file);
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i) fputc((int)(header >> 8 * i & 255), file);
    fprintf(file, "%-*s", (int)header, dictionary);
    fwrite(data, 1, bytes, file);
    return fclose(file) == 0;
}

static void Npy_OfEveryTypeAndHeader_IsMapped(void) {
    char path[] = "/tmp/sab_test_XXXXXX", dictionary[200];
    close(mkstemp(path));
    const struct {
        const char *descr;
        const char *bytes; /* of 1, then 2 */
        size_t size;
    } types[] = {{"|i1", "\1\2", 2},
                 {"|u1", "\1\2", 2},
                 {"<i2", "\1\0\2\0", 4},
                 {"<u2", "\1\0\2\0", 4},
                 {"<i4", "\1\0\0\0\2\0\0\0", 8},
                 {"<u4", "\1\0\0\0\2\0\0\0", 8},
                 {"<f4", "\0\0\x80\x3F\0\0\0\x40", 8},
                 {"<i8", "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16},
                 {"<u8", "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 16},
                 {"<f8", "\0\0\0\0\0\0\xF0\x3F\0\0\0\0\0\0\0\x40", 16}};
    const size_t headers[] = {118, 65535, 70000}; /* the last is too long for version 1 */
    sab_sizes *sizes = NULL;
    double value = 0;
    for (size_t i = 0; i < COUNT(types); ++i)
        for (int version = 1; version <= 3; ++version)
            for (size_t h = 0; h < (version == 1 ? 2u : 3u); ++h) {
                snprintf(dictionary, sizeof dictionary,
                         "{'descr': '%s', 'fortran_order': %s, 'shape': (2,), }", types[i].descr,
                         i % 2 ? "True" : "False");
                EXPECT(write_npy(path, version, dictionary, headers[h], types[i].bytes,
                                 types[i].size));
                EXPECT_OK(read_npy(path, 0, &sizes));
                EXPECT_OK(sab_sizes_get(sizes, 1, 1, &value));
                EXPECT(sab_sizes_count(sizes) == 2 && value == 2);
                sab_sizes_free(sizes);
            }
    EXPECT(
        write_npy(path, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (0,), }", 60, "", 0));
    EXPECT_OK(read_npy(path, 0, &sizes));
    EXPECT(sab_sizes_count(sizes) == 0);
    sab_sizes_free(sizes);
    const char *refused[] = {"'|b1'", "'<c8'", "'|S4'", "'|O'", "'<M8[s]'",
                             "'>f8'", "'<i3'", "''",    "'"};
    for (size_t i = 0; i < COUNT(refused); ++i) {
        snprintf(dictionary, sizeof dictionary,
                 "{'descr': %s, 'fortran_order': False, 'shape': (2,), }", refused[i]);
        EXPECT(write_npy(path, 1, dictionary, 100, "0123456789abcdef", 16));
        EXPECT(read_npy(path, 0, &sizes) == SAB_E_FORMAT && sizes == NULL &&
               strstr(sab_last_error_message(), path) != NULL);
    }
    const int versions[] = {0, 4, 255};
    for (size_t i = 0; i < COUNT(versions); ++i) {
        EXPECT(write_npy(path, versions[i],
                         "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", 100,
                         "01234567", 8));
        EXPECT_FAILS(read_npy(path, 0, &sizes), SAB_E_FORMAT, "is not known");
    }
    unlink(path);
}

/* Contents that are damaged, or of another format: no argument is meant, the value is the name of
 * the file, and name and rule stand in the message. */
static void DamagedFiles_AreNamedInTheParts(void) {
    const struct {
        const char *format, *bytes, *message, *rule;
        size_t size;
    } files[] = {
        {NULL, "PK\3\4", "\"%s\" is a zip", "is a zip", 4},
        {NULL, "5\n\n7\n", "\"%s\", line 2: ", "line 2: is empty", 5},
        {"numbers", "5\nx\n", "\"%s\", line 2: ", "line 2: \"x\" is not a number", 4},
        {"text", "5\0\n", "\"%s\", line 1: ", "line 1: has a NUL", 3},
        {"npy", "\x93NUMPY", "\"%s\": the .npy", "the .npy file ends inside", 6},
        {"npy", "else", "\"%s\": is not a .npy", "is not a .npy", 4},
        {"megatron", "else", "\"%s\": ", "", 4},
        {"numbers", "\x1f\x8b\x08\0", "file \"%s\" is ", "is truncated at byte ", 4},
    };
    char path[] = "/tmp/sab_test_XXXXXX";
    close(mkstemp(path));
    for (size_t i = 0; i < COUNT(files); ++i) {
        write_file(path, files[i].bytes, files[i].size);
        sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
        options.format = files[i].format;
        sab_sizes *sizes = NULL;
        char message[200];
        snprintf(message, sizeof message, files[i].message, path);
        EXPECT_FAILS(sab_sizes_file_new(path, &options, &sizes), SAB_E_FORMAT, message);
        const char *rule = sab_last_error_rule();
        EXPECT(strcmp(sab_last_error_argument(), "") == 0);
        EXPECT(strcmp(sab_last_error_value(), path) == 0);
        EXPECT(*rule != 0 && strncmp(rule, files[i].rule, strlen(files[i].rule)) == 0);
        EXPECT(strstr(sab_last_error_message(), rule) != NULL);
    }
    write_file(path, "short", 5);
    sab_plan *plan = NULL;
    EXPECT_FAILS(sab_plan_file_new(path, &plan), SAB_E_FORMAT, "is not a valid plan: ");
    EXPECT(strcmp(sab_last_error_value(), path) == 0);
    EXPECT_FAILS(sab_plan_bytes_new("short", 5, &plan), SAB_E_FORMAT,
                 "data: is not a valid plan: ");
    EXPECT(strcmp(sab_last_error_argument(), "data") == 0);
    EXPECT(strcmp(sab_last_error_value(), "") == 0);
    unlink(path);
}

int main(void) {
    RUN(DamagedFiles_AreNamedInTheParts);
    RUN(Npy_GoodFilesAreMapped_BadOnesRefused);
    RUN(Npy_OfEveryTypeAndHeader_IsMapped);
    return finish();
}
