/* SPDX-License-Identifier: MIT */

#include "base/macro.h"
#include "exec/queue.h"
#include "test.h"

typedef struct Item {
        QueueItem link;
        int number;
} Item;

static void fill(Queue *q, Item *items, const char *principals) {
        for (int i = 0; principals[i]; i++) {
                const char name[2] = { principals[i] };

                items[i] = (Item) { .number = i };
                ASSERT_EQ_INT(queue_push(q, name, &items[i].link), 0);
        }
}

/* The letters of principals in the order in which they are served. */
static void assert_order(Queue *q, const Item *items, const char *principals, const char *expected) {
        char order[32] = {};
        QueueItem *item;

        (void) items;
        for (int n = 0; (item = queue_pop(q)); n++) {
                ASSERT_TRUE(item->line == NULL);
                order[n] = principals[((Item*) item)->number];
        }
        ASSERT_EQ_STR(order, expected);
        ASSERT_EQ_UINT(q->n_items, 0);
        queue_done(q);
}

TEST(queue_is_first_in_first_out_for_one) {
        Queue q = {};
        Item items[3];

        fill(&q, items, "aaa");
        for (int i = 0; i < 3; i++)
                ASSERT_TRUE(queue_pop(&q) == &items[i].link);
        ASSERT_TRUE(queue_pop(&q) == NULL);
        queue_done(&q);
}

TEST(queue_serves_principals_in_turn) {
        static const struct {
                const char *pushed, *served;
        } cases[] = {
                { "aaab", "abaa" },
                { "aabbcc", "abcabc" },
                { "abcccc", "abcccc" },
                { "bbbba", "babbb" },
                { "", "" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Queue q = {};
                Item items[8];

                fill(&q, items, cases[i].pushed);
                assert_order(&q, items, cases[i].pushed, cases[i].served);
        }
}

TEST(queue_turn_survives_newcomers) {
        Queue q = {};
        Item items[3], late[1];

        fill(&q, items, "aab");
        ASSERT_TRUE(queue_pop(&q) == &items[0].link);
        fill(&q, late, "c");
        ASSERT_TRUE(queue_pop(&q) == &items[2].link); /* b was there before a's second turn */
        ASSERT_TRUE(queue_pop(&q) == &items[1].link);
        ASSERT_TRUE(queue_pop(&q) == &late[0].link);
        queue_done(&q);
}

TEST(queue_push_front_is_served_next) {
        Queue q = {};
        Item items[3], again = {};

        fill(&q, items, "aab");
        ASSERT_EQ_INT(queue_push_front(&q, "b", &again.link), 0);
        ASSERT_TRUE(queue_pop(&q) == &again.link);
        ASSERT_EQ_INT(queue_push_front(&q, "new", &again.link), 0);
        ASSERT_TRUE(queue_pop(&q) == &again.link);
        ASSERT_TRUE(queue_pop(&q) == &items[0].link);
        ASSERT_TRUE(queue_pop(&q) == &items[2].link);
        ASSERT_TRUE(queue_pop(&q) == &items[1].link);
        queue_done(&q);
}

TEST(queue_remove_takes_out_any_one) {
        for (int i = 0; i < 4; i++) {
                Queue q = {};
                Item items[4];

                fill(&q, items, "aaab");
                queue_remove(&q, &items[i].link);
                ASSERT_TRUE(items[i].link.line == NULL);
                ASSERT_EQ_UINT(q.n_items, 3);
                for (int k = 0; k < 3; k++) {
                        const QueueItem *item = queue_pop(&q);

                        ASSERT_TRUE(item && item != &items[i].link);
                }
                ASSERT_TRUE(queue_pop(&q) == NULL);
                queue_done(&q);
        }
}

TEST(queue_under_random_use_loses_nobody) {
        Queue q = {};
        Item items[64];
        bool is_in[64] = {};
        uint64_t state = 1;
        size_t n = 0;

        memset(items, 0, sizeof(items));
        for (int step = 0; step < 20000; step++) {
                uint64_t x = test_random(&state);
                size_t i = (x >> 8) % 64;
                char name[2] = { (char) ('a' + (x >> 16) % 5) };

                if (!is_in[i] && x % 3 < 2) {
                        ASSERT_EQ_INT((x & 1 ? queue_push : queue_push_front)(&q, name, &items[i].link), 0);
                        is_in[i] = true;
                        n++;
                } else if (is_in[i]) {
                        queue_remove(&q, &items[i].link);
                        is_in[i] = false;
                        n--;
                } else {
                        Item *item = (Item*) queue_pop(&q);

                        ASSERT_TRUE((item == NULL) == (n == 0));
                        if (item) {
                                ASSERT_TRUE(is_in[item - items]);
                                is_in[item - items] = false;
                                n--;
                        }
                }
                ASSERT_EQ_UINT(q.n_items, n);
        }
        while (queue_pop(&q))
                ;
        queue_done(&q);
}
