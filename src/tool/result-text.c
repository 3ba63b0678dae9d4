/* SPDX-License-Identifier: MIT */

/* Made from the text of the JSON object, whose strings are escaped as they have to be here: so both say the
 * same, whatever bytes a program wrote. */

#include "tool/result-text.h"

#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "json/json.h"

typedef enum Form {
        FORM_SECTION, /* "--- stdout ---" and the string below it; nothing for an empty one */
        FORM_LINE,    /* "--- exit_code: 0 ---" */
        FORM_FLAG,    /* the same, but only when it is true */
        FORM_LIST,    /* a section with an element a line */
} Form;

/* The first five are the predecessor's. */
static const struct {
        const char *name;
        Form form;
} members[] = {
        { "stdout",      FORM_SECTION },
        { "stderr",      FORM_SECTION },
        { "exit_code",   FORM_LINE    },
        { "duration_ms", FORM_LINE    },
        { "timed_out",   FORM_FLAG    },
        { "truncated",   FORM_FLAG    },
        { "status",      FORM_LINE    },
        { "signal",      FORM_LINE    },
        { "message",     FORM_SECTION },
        { "hints",       FORM_LIST    },
        { "files",       FORM_LIST    },
        { "files_note",  FORM_SECTION },
        { "usage",       FORM_LINE    },
        { "next_offset", FORM_LINE    },
        { "run_id",      FORM_LINE    },
};

/* A value as the inside of a string: of a string its own inside, else its JSON. */
static int append_value(const char *raw, size_t n_raw, Buffer *b) {
        _cleanup_buffer_ Buffer quoted = BUFFER_INIT(0);
        JsonWriter w = JSON_WRITER_INIT(&quoted);
        int r;

        if (raw[0] == '"')
                return buffer_append(b, raw + 1, n_raw - 2);
        json_string_n(&w, raw, n_raw);
        r = json_writer_finish(&w);
        return r < 0 ? r : buffer_append(b, quoted.data + 1, quoted.n_bytes - 2);
}

static int append_list(const char *name, const char *raw, size_t n_raw, Buffer *b) {
        const char *element, *separator = "";
        size_t n_element, position = 0;
        int r;

        if (n_raw <= strlen("[]"))
                return 0;
        r = buffer_printf(b, "--- %s ---\\n", name);
        while (r >= 0 && json_raw_next_element(raw, n_raw, &position, &element, &n_element) > 0) {
                r = buffer_append_str(b, separator);
                if (r >= 0)
                        r = append_value(element, n_element, b);
                separator = "\\n";
        }
        return r < 0 ? r : buffer_append_str(b, "\\n");
}

static int append_member(const char *name, Form form, const char *raw, size_t n_raw, Buffer *b) {
        int r;

        if ((form == FORM_FLAG && raw[0] != 't') || strncmp(raw, "{}", 2) == 0)
                return 0;
        switch (form) {
        case FORM_FLAG:
        case FORM_LINE:
                r = buffer_printf(b, "--- %s: ", name);
                if (r >= 0)
                        r = append_value(raw, n_raw, b);
                return r < 0 ? r : buffer_append_str(b, " ---\\n");
        case FORM_SECTION:
                if (n_raw <= strlen("\"\""))
                        return 0;
                r = buffer_printf(b, "--- %s ---\\n", name);
                if (r >= 0)
                        r = append_value(raw, n_raw, b);
                return r < 0 ? r : buffer_append_str(b, "\\n");
        case FORM_LIST:
                return append_list(name, raw, n_raw, b);
        }
        return -EINVAL;
}

int result_text_write(const Buffer *structured, Buffer *b) {
        int r;

        assert(structured && structured->data);
        assert(b);

        r = buffer_append_str(b, "\"");
        for (size_t i = 0; i < ELEMENTSOF(members) && r >= 0; i++) {
                const char *raw;
                size_t n_raw;

                if (json_raw_member(structured->data, structured->n_bytes, members[i].name, &raw, &n_raw) >
                    0)
                        r = append_member(members[i].name, members[i].form, raw, n_raw, b);
        }
        if (r < 0)
                return r;
        /* Every part ends its line, but the text does not. */
        assert(b->n_bytes > 2);
        b->n_bytes -= strlen("\\n");
        return buffer_append_str(b, "\"");
}
