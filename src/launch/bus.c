/* SPDX-License-Identifier: MIT */

/* The loop that reads properties. */

#include <string.h>

#include "base/macro.h"
#include "launch/bus.h"

int bus_read_properties(sd_bus_message *m, int (*take)(sd_bus_message *m, const char *name, void *userdata),
                        void *userdata) {
        const char *name;
        int r;

        assert(m && take);

        r = sd_bus_message_enter_container(m, 'a', "{sv}");
        if (r < 0)
                return r;
        while ((r = sd_bus_message_enter_container(m, 'e', "sv")) > 0) {
                r = sd_bus_message_read(m, "s", &name);
                if (r >= 0)
                        r = take(m, name, userdata);
                if (r >= 0)
                        r = sd_bus_message_exit_container(m);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        return sd_bus_message_exit_container(m);
}

char* bus_unknown_property(const sd_bus_error *e) {
        /* "Cannot set property X, or unknown property." */
        static const char before[] = "Cannot set property ";
        const char *start, *end;

        assert(e);

        if (!sd_bus_error_has_name(e, SD_BUS_ERROR_PROPERTY_READ_ONLY) || !e->message)
                return NULL;
        start = strstr(e->message, before);
        end = start ? strchr(start, ',') : NULL;
        if (!end)
                return NULL;
        start += strlen(before);
        return strndup(start, (size_t) (end - start));
}
