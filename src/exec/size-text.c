/* SPDX-License-Identifier: MIT */

#include "exec/size-text.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/macro.h"

SizeText size_text_bytes(uint64_t bytes) {
        static const struct {
                uint64_t bytes;
                const char *name;
        } units[] = {
                { KIB * MIB, "GiB" },
                { MIB, "MiB" },
                { KIB, "KiB" },
        };
        SizeText t;

        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (bytes >= units[i].bytes && bytes % units[i].bytes == 0) {
                        (void) snprintf(t.text, sizeof(t.text), "%" PRIu64 " %s", bytes / units[i].bytes,
                                        units[i].name);
                        return t;
                }

        (void) snprintf(t.text, sizeof(t.text), "%" PRIu64 " bytes", bytes);
        return t;
}

SizeText size_text_short(uint64_t bytes) {
        static const char letters[] = "BKMGTPE";
        uint64_t unit = 1;
        size_t i = 0;
        SizeText t;

        for (; letters[i + 1] && bytes / unit >= KIB; i++)
                unit *= KIB;
        if (bytes % unit == 0)
                (void) snprintf(t.text, sizeof(t.text), "%" PRIu64 "%c", bytes / unit, letters[i]);
        else
                (void) snprintf(t.text, sizeof(t.text), "%" PRIu64 ".%u%c", bytes / unit,
                                (unsigned) (bytes % unit / (unit / KIB) * 10 / KIB) % 10, letters[i]);
        return t;
}

SizeText size_text_usec(uint64_t usec) {
        uint64_t msec = usec / USEC_PER_MSEC;
        SizeText t;

        if (msec % 1000 == 0)
                (void) snprintf(t.text, sizeof(t.text), "%" PRIu64 " s", msec / 1000);
        else
                (void) snprintf(t.text, sizeof(t.text), "%" PRIu64 ".%03" PRIu64 " s", msec / 1000,
                                msec % 1000);
        return t;
}
