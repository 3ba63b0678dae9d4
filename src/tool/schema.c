/* SPDX-License-Identifier: MIT */

#include "tool/schema.h"

static void write_property(JsonWriter *w, const SchemaProperty *p) {
        json_key(w, p->name);
        json_begin_object(w);
        json_key(w, "type");
        json_string(w, p->type);
        json_key(w, "description");
        json_string(w, p->description);
        if (p->more) /* whole members are raw JSON between the same commas */
                json_raw(w, p->more, strlen(p->more));
        json_end_object(w);
}

void schema_write(JsonWriter *w, const SchemaProperty *properties, size_t n_properties, bool is_closed) {
        assert(w);
        assert(properties || n_properties == 0);

        json_begin_object(w);
        json_key(w, "type");
        json_string(w, "object");
        json_key(w, "properties");
        json_begin_object(w);
        for (size_t i = 0; i < n_properties; i++)
                write_property(w, properties + i);
        json_end_object(w);
        json_key(w, "required");
        json_begin_array(w);
        for (size_t i = 0; i < n_properties; i++)
                if (properties[i].is_required)
                        json_string(w, properties[i].name);
        json_end_array(w);
        if (is_closed) {
                json_key(w, "additionalProperties");
                json_boolean(w, false);
        }
        json_end_object(w);
}
