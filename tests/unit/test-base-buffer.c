/* SPDX-License-Identifier: MIT */

#include "base/buffer.h"
#include "test.h"

TEST(buffer_text_is_always_terminated) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);

        ASSERT_EQ_INT(buffer_append_str(&b, ""), 0);
        ASSERT_EQ_STR(b.data, "");
        ASSERT_EQ_INT(buffer_append(&b, "ab", 2), 0);
        ASSERT_EQ_STR(b.data, "ab");
        ASSERT_EQ_INT(buffer_printf(&b, "-%d-", 42), 0);
        ASSERT_EQ_STR(b.data, "ab-42-");
        buffer_consume(&b, 3);
        ASSERT_EQ_STR(b.data, "42-");
        buffer_consume(&b, 3);
        ASSERT_EQ_STR(b.data, "");
}

TEST(buffer_keeps_nul_bytes) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        _cleanup_free_ char *text = NULL;
        size_t n;

        ASSERT_EQ_INT(buffer_append(&b, "a\0b", 3), 0);
        ASSERT_EQ_INT(buffer_append(&b, "\0", 1), 0);
        ASSERT_EQ_INT(buffer_steal(&b, &text, &n), 0);
        ASSERT_EQ_MEM(text, n, "a\0b\0", 4);
        ASSERT_EQ_INT(text[4], 0);
}

TEST(buffer_refuses_beyond_its_maximum_and_changes_nothing) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(4);
        void *p;

        ASSERT_EQ_INT(buffer_append(&b, "abcd", 4), 0);
        ASSERT_EQ_INT(buffer_append(&b, "e", 1), -EMSGSIZE);
        ASSERT_EQ_INT(buffer_printf(&b, "%s", "e"), -EMSGSIZE);
        ASSERT_EQ_INT(buffer_reserve(&b, 1, &p), -EMSGSIZE);
        ASSERT_EQ_INT(buffer_append(&b, NULL, 0), 0);
        ASSERT_EQ_STR(b.data, "abcd");
        ASSERT_EQ_UINT(b.n_bytes, 4);
        buffer_consume(&b, 2);
        ASSERT_EQ_INT(buffer_append(&b, "ef", 2), 0);
        ASSERT_EQ_STR(b.data, "cdef");
}

TEST(buffer_survives_sizes_that_overflow) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        void *p;

        ASSERT_EQ_INT(buffer_append_str(&b, "x"), 0);
        ASSERT_EQ_INT(buffer_reserve(&b, SIZE_MAX, &p), -ENOMEM);
        ASSERT_EQ_INT(buffer_reserve(&b, SIZE_MAX - 1, &p), -ENOMEM);
        ASSERT_EQ_INT(buffer_reserve(&b, SIZE_MAX - 2, &p), -ENOMEM);
        ASSERT_EQ_STR(b.data, "x");
}

TEST(buffer_steal_of_nothing_gives_an_empty_string) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(7);
        _cleanup_free_ char *text = NULL;

        ASSERT_EQ_INT(buffer_steal(&b, &text, NULL), 0);
        ASSERT_EQ_STR(text, "");
        ASSERT_TRUE(b.data == NULL);
        ASSERT_EQ_UINT(b.max_bytes, 7); /* and it can be used again */
}

TEST(buffer_steal_after_consume_gives_memory_that_free_takes) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        _cleanup_free_ char *text = NULL;
        size_t n;

        ASSERT_EQ_INT(buffer_append_str(&b, "0123456789"), 0);
        buffer_consume(&b, 2);
        ASSERT_EQ_INT(buffer_steal(&b, &text, &n), 0);
        ASSERT_EQ_MEM(text, n, "23456789", 8);
}

TEST(buffer_behaves_like_a_queue_under_any_mix_of_operations) {
        static char model[100000];
        size_t model_start = 0, model_end = 0;
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        uint64_t seed = 1;

        for (int i = 0; i < 20000; i++) {
                uint64_t x = test_random(&seed);
                size_t n = (x >> 8) % 97;
                char bytes[97];
                void *p;

                if (x % 3 == 0) {
                        n = n < b.n_bytes ? n : b.n_bytes;
                        buffer_consume(&b, n);
                        model_start += n;
                } else if (model_end + n > sizeof(model)) {
                        buffer_consume(&b, b.n_bytes);
                        model_start = model_end = 0;
                } else {
                        for (size_t k = 0; k < n; k++)
                                bytes[k] = (char) (test_random(&seed) & 0xff);
                        memcpy(model + model_end, bytes, n);
                        model_end += n;
                        if (x % 3 == 1)
                                ASSERT_EQ_INT(buffer_append(&b, bytes, n), 0);
                        else {
                                ASSERT_EQ_INT(buffer_reserve(&b, n + 5, &p), 0);
                                memcpy(p, bytes, n);
                                buffer_commit(&b, n);
                        }
                }
                ASSERT_EQ_MEM(b.data, b.n_bytes, model + model_start, model_end - model_start);
                if (b.data)
                        ASSERT_EQ_INT(b.data[b.n_bytes], 0);
        }
}

TEST(buffer_takes_many_short_lines_out_of_a_large_content_quickly) {
        _cleanup_buffer_ Buffer b = BUFFER_INIT(0);
        enum { N = 4 << 20 };
        size_t n_moved = 0;
        void *p;

        /* Moving the rest down for each line would copy 8 TiB here, which no test would live to see. */
        ASSERT_EQ_INT(buffer_reserve(&b, N, &p), 0);
        memset(p, 'x', N);
        buffer_commit(&b, N);
        while (b.n_bytes > 0) {
                const char *before = b.data;

                buffer_consume(&b, 2);
                if (b.data != before + 2)
                        n_moved += b.n_bytes;
        }
        ASSERT_TRUE(n_moved <= N);
}
