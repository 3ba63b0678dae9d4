/* SPDX-License-Identifier: MIT */

/* Problem: see problem.h. */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "launch/problem.h"

int problem_set(Problem *p, int error, const char *remedy, const char *reason_format, ...) {
        char text[sizeof(p->reason)];
        va_list ap;

        assert(remedy);

        if (p) {
                va_start(ap, reason_format);
                (void) vsnprintf(text, sizeof(text), reason_format, ap); /* may cut: it is for reading */
                va_end(ap);
                wire_set_text(p->reason, sizeof(p->reason), text);
                wire_set_text(p->remedy, sizeof(p->remedy), remedy);
        }

        return -abs(error);
}
