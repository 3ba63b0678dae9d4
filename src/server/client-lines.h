/* SPDX-License-Identifier: MIT */
#pragma once

/* ClientLines: what a client wrote and no server has taken yet. */

#include <stdbool.h>

#include "base/buffer.h"

typedef struct ClientLines {
        Buffer bytes;     /* lines, and the begin of one */
        size_t n_first;   /* bytes of the first line; 0: it is not whole */
        size_t n_scanned; /* private: of which it is known */
        bool is_overlong; /* the first line is no longer kept whole */
        bool is_skipped;  /* private: what comes next belongs to a line that is dropped */
        bool has_ended;   /* nothing more comes: what is left is a line */
} ClientLines;

void client_lines_done(ClientLines *l);

/* Bytes were added behind the n_before that were there. */
void client_lines_added(ClientLines *l, size_t n_before);
void client_lines_end(ClientLines *l);
void client_lines_consume(ClientLines *l, size_t n_bytes);

/* The first line is lost. Where it is not whole, its end is not taken for another. */
void client_lines_skip(ClientLines *l);

/* Lines that come before all others; takes their content. Returns 0 or -ENOMEM. */
int client_lines_put_back(ClientLines *l, Buffer *lines);

/* Whether the first line is of this method, as JSON writes it: in quotes. */
bool client_lines_has_method(const ClientLines *l, const char *quoted);
bool client_lines_is_call(const ClientLines *l);
bool client_lines_is_batch(const ClientLines *l); /* which may call something */
