/* SPDX-License-Identifier: MIT */

/* A dead unit's record. */

#include <errno.h>

#include "base/macro.h"
#include "launch/bus.h"
#include "launch/record.h"

typedef struct Record {
        WireFinished *finished;
        bool has_result;
} Record;

static int take_property(sd_bus_message *m, const char *name, void *userdata) {
        Record *record = userdata;
        WireFinished *f = record->finished;
        const struct {
                const char *name;
                const char *type;
                void *value;
        } table[] = {
                { "ExecMainCode", "i", &f->main_code },
                { "ExecMainStatus", "i", &f->main_status },
                { "ExecMainStartTimestampMonotonic", "t", &f->start_monotonic_usec },
                { "ExecMainExitTimestampMonotonic", "t", &f->exit_monotonic_usec },
                { "CPUUsageNSec", "t", &f->cpu_nsec },
                { "MemoryPeak", "t", &f->memory_peak_bytes },
        };
        const char *result;
        int r;

        if (streq(name, "Result")) {
                r = sd_bus_message_read(m, "v", "s", &result);
                if (r < 0)
                        return r;
                f->result = (uint32_t) wire_result_from_string(result);
                record->has_result = true;
                return 0;
        }

        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (streq(table[i].name, name))
                        return sd_bus_message_read(m, "v", table[i].type, table[i].value);

        return sd_bus_message_skip(m, "v");
}

int record_read(sd_bus_message *m, WireFinished *f) {
        Record record = { .finished = f };
        int r;

        assert(m && f);

        r = bus_read_properties(m, take_property, &record);
        if (r < 0)
                return r;
        return record.has_result ? 0 : -EBADMSG;
}
