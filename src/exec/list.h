/* SPDX-License-Identifier: MIT */
#pragma once

/* Doubly linked lists through the objects themselves: no allocation to join, constant time to leave.
 * link names the member that holds the two pointers, so that one object can stand in several lists. */

#include <stddef.h>

#define LIST_HEAD(type)        \
        struct {               \
                type *first;   \
                type *last;    \
        }

#define LIST_LINK(type)        \
        struct {               \
                type *prev;    \
                type *next;    \
        }

#define LIST_APPEND(list, link, item)                           \
        do {                                                    \
                (item)->link.next = NULL;                       \
                (item)->link.prev = (list)->last;               \
                if ((list)->last)                               \
                        (list)->last->link.next = (item);       \
                else                                            \
                        (list)->first = (item);                 \
                (list)->last = (item);                          \
        } while (0)

#define LIST_PREPEND(list, link, item)                          \
        do {                                                    \
                (item)->link.prev = NULL;                       \
                (item)->link.next = (list)->first;              \
                if ((list)->first)                              \
                        (list)->first->link.prev = (item);      \
                else                                            \
                        (list)->last = (item);                  \
                (list)->first = (item);                         \
        } while (0)

#define LIST_REMOVE(list, link, item)                                           \
        do {                                                                    \
                if ((item)->link.prev)                                          \
                        (item)->link.prev->link.next = (item)->link.next;       \
                else                                                            \
                        (list)->first = (item)->link.next;                      \
                if ((item)->link.next)                                          \
                        (item)->link.next->link.prev = (item)->link.prev;       \
                else                                                            \
                        (list)->last = (item)->link.prev;                       \
                (item)->link.prev = (item)->link.next = NULL;                   \
        } while (0)
