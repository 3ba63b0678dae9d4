/* SPDX-License-Identifier: MIT */
#pragma once

/* CheckReport: what `mcp-exec check` found, one line each, with the remedy where one is needed. */

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

typedef enum CheckVerdict {
        CHECK_OK,
        CHECK_WARN, /* works, but less well or less safely than it could */
        CHECK_FAIL,
        _CHECK_MAX,
} CheckVerdict;

typedef struct CheckItem {
        CheckVerdict verdict;
        const char *name; /* static */
        char *detail;
        char *remedy;     /* NULL when there is nothing to do */
} CheckItem;

typedef struct CheckReport {
        CheckItem *items;
        size_t n_items;
        int error; /* negative: for this reason it is not complete, and must not pass for a good one */
} CheckReport;

void check_report_done(CheckReport *r);

/* The detail is formatted. remedy: borrowed, may be NULL. Both may hold names and words of others: they are
 * made fit for one line of a terminal. */
void check_add(CheckReport *r, CheckVerdict verdict, const char *name, const char *remedy,
               const char *format, ...) _printf_(5, 6);

/* The remedy of an item that was added; NULL: none. It lives as long as the report. */
const char* check_remedy_of(const CheckReport *r, const char *name);
void check_set_remedy(CheckReport *r, const char *name, const char *remedy);

/* Something else than what was looked at went wrong, as -errno. The first is what is told. */
void check_report_break(CheckReport *r, int error);

bool check_report_has_failed(const CheckReport *r);

/* Both return 0 or -errno, where not all of it was written. */
int check_report_print_text(const CheckReport *r);
int check_report_print_json(const CheckReport *r);
