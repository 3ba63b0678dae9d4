/* SPDX-License-Identifier: MIT */

/* Anything on a program's stderr: the sentences made of it are one line of clean text each, for they go to a
 * model, a terminal and the journal. */

#include "base/strv.h"
#include "base/utf8.h"
#include "exec/hints.h"
#include "fuzz.h"

static void check_sentence(const char *s) {
        FUZZ_CHECK(*s && strlen(s) < 4096 && utf8_is_valid(s, strlen(s)));
        for (; *s; s++)
                FUZZ_CHECK((unsigned char) *s >= 0x20 && *s != 0x7f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
        char numpy[] = "numpy 1.24.2", yaml[] = "PyYAML 6.0";
        char *const packages[] = { numpy, yaml, NULL };
        const HintFacts facts = { .tasks_max = 128, .memory_max_bytes = 512 * MIB, .tmpfs_bytes = 64 * MIB,
                                  .packages = fuzz_byte(&data, &n_bytes) & 1 ? packages : NULL };
        _cleanup_(capture_done) Capture c;
        _cleanup_free_ char *cause = NULL;
        _cleanup_strv_ char **hints = NULL;

        capture_init(&c, 1000);
        FUZZ_CHECK(capture_push(&c, data, n_bytes) == 0);
        FUZZ_CHECK(hints_from_stderr(&c, &facts, &cause, &hints) == 0);
        if (cause)
                check_sentence(cause);
        STRV_FOREACH(hint, hints)
                check_sentence(*hint);
        FUZZ_CHECK(strv_length(hints) <= 16);
        return 0;
}
