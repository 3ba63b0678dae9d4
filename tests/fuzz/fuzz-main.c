/* SPDX-License-Identifier: MIT */

/* Runs a fuzzer without libFuzzer: every file of the given directory, then a fixed number of small changes
 * of each. An input that aborts is left in the file named by FUZZ_CRASH_FILE, if that is set. */

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "fuzz.h"

#define CHANGES_PER_FILE 400
#define INPUT_BYTES_MAX ((size_t) 64 * 1024)

static uint8_t input[INPUT_BYTES_MAX + 64];
static size_t n_input;
static uint64_t seed;

static uint64_t next_number(void) {
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

static void on_abort(int signal_number) {
        const char *path = getenv("FUZZ_CRASH_FILE");
        int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;

        (void) signal_number;
        if (fd >= 0) {
                ssize_t n = write(fd, input, n_input);

                (void) n;
        }
}

static void change(void) {
        static const char *const words[] = {
                "\0",
                "\n",
                "\xff",
                "\"",
                "\\",
                "\\u0000",
                "\\ud800",
                "[",
                "]",
                "{",
                "}",
                ":",
                ",",
                "null",
                "-",
                "1e999",
                "=",
                "#",
                "\\\n",
                "\xe2\x82",
                "9223372036854775808",
                "-9223372036854775809",
                "99999999999999999999",
        };
        size_t at = n_input > 0 ? next_number() % n_input : 0, n;
        const char *word;

        switch (next_number() % 6) {
        case 0: /* one bit */
                if (n_input > 0)
                        input[at] ^= (uint8_t) (1u << (next_number() % 8));
                break;
        case 1: /* one byte */
                if (n_input > 0)
                        input[at] = (uint8_t) next_number();
                break;
        case 2: /* cut off */
                n_input = at;
                break;
        case 3: /* take out */
                n = n_input > at ? next_number() % (n_input - at) : 0;
                memmove(input + at, input + at + n, n_input - at - n);
                n_input -= n;
                break;
        case 4: /* put in */
                word = words[next_number() % ELEMENTSOF(words)];
                n = *word ? strlen(word) : 1;
                if (n_input + n <= INPUT_BYTES_MAX) {
                        memmove(input + at + n, input + at, n_input - at);
                        memcpy(input + at, word, n);
                        n_input += n;
                }
                break;
        default: /* repeat a piece */
                n = n_input > at ? next_number() % (n_input - at) : 0;
                if (n_input + n <= INPUT_BYTES_MAX) {
                        memmove(input + at + n, input + at, n_input - at);
                        n_input += n;
                }
        }
}

/* From memory of exactly this size, so that a sanitizer sees any reading beyond. */
static void run_once(void) {
        uint8_t *copy = malloc(n_input > 0 ? n_input : 1);

        FUZZ_CHECK(copy);
        memcpy(copy, input, n_input);
        FUZZ_CHECK(LLVMFuzzerTestOneInput(copy, n_input) == 0);
        free(copy);
}

static void run_file(int directory, const char *name) {
        _cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
        static uint8_t original[INPUT_BYTES_MAX];
        ssize_t n;

        FUZZ_CHECK(fd >= 0);
        n = read(fd, original, sizeof(original));
        FUZZ_CHECK(n >= 0);
        memcpy(input, original, (size_t) n);
        n_input = (size_t) n;
        run_once();

        seed = 1;
        for (int i = 0; i < CHANGES_PER_FILE; i++) {
                if (i % 8 == 0) { /* back to the start now and then, or nothing valid is left */
                        memcpy(input, original, (size_t) n);
                        n_input = (size_t) n;
                }
                change();
                run_once();
        }
}

int main(int argc, char *argv[]) {
        DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
        struct dirent *entry;
        unsigned n_files = 0;

        if (!d) {
                fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
                return 2;
        }
        (void) signal(SIGABRT, on_abort);
        while ((entry = readdir(d)))
                if (entry->d_name[0] != '.') {
                        run_file(dirfd(d), entry->d_name);
                        n_files++;
                }
        (void) closedir(d);
        printf("%u files, %d changes of each\n", n_files, CHANGES_PER_FILE);
        return n_files > 0 ? 0 : 1;
}
