/* SPDX-License-Identifier: MIT */
#pragma once

/* JSON: the only room that includes cJSON.h.
 *
 * Reading: cJSON behind limits, typed getters whose errors name the path ("arguments.timeout_s"), and a
 * raw scanner for what cJSON cannot keep: the exact bytes of an id, NUL inside strings, numbers beyond
 * 2^53, lone surrogates. Writing: straight into a Buffer with our own escaper, for big strings without a
 * copy. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/macro.h"

typedef struct cJSON JsonValue;

#define JSON_DEPTH_MAX 64
#define JSON_BYTES_MAX (16 * MIB) /* of one message; a transport may be stricter */
#define JSON_VALUES_MAX 65536     /* cJSON takes some 80 bytes for each, even for the 2 bytes of "0," */
#define JSON_NUMBER_CHARS_MAX 62  /* cJSON reads numbers through a buffer of 64 */

enum {
        _JSON_E_SUCCESS,
        JSON_E_SYNTAX,    /* not JSON, or not UTF-8 */
        JSON_E_DEPTH,     /* nested deeper than JSON_DEPTH_MAX */
        JSON_E_SIZE,      /* beyond JSON_BYTES_MAX, JSON_VALUES_MAX or JSON_NUMBER_CHARS_MAX */
        JSON_E_TEXT,      /* valid, but "\u0000" or a lone surrogate in a string cannot be kept */
        JSON_E_DUPLICATE, /* one object has a key twice: two readers could disagree on what was asked */
};

/* The whole text must be one value. Returns 0, a positive code above or -ENOMEM. With JSON_E_TEXT *ret is
 * set all the same, with U+FFFD for what cannot be carried: enough to learn which request must be
 * refused, never to be obeyed. */
int json_parse(const char *text, size_t n_bytes, JsonValue **ret);

/* The same verdict without building anything (and without JSON_E_DUPLICATE). */
int json_check(const char *text, size_t n_bytes);
JsonValue* json_free(JsonValue *v);
DEFINE_CLEANUP(JsonValue*, json_free);
#define _cleanup_json_ _cleanup_(json_freep)

const char* json_error_to_string(int code);

/* The member of the top-level object with this name, as the exact bytes of its value (no white space
 * around), found by the raw scanner even where json_parse() refuses the text (as far as it is readable).
 * Returns 1 and the span, or 0. */
int json_raw_member(const char *text, size_t n_bytes, const char *name, const char **ret,
                    size_t *ret_bytes);

/* Splits a top-level array into the raw bytes of its elements, one call each; *pos starts at 0.
 * Returns 1 with an element, 0 at the end, -EBADMSG when the text is no array. */
int json_raw_next_element(const char *text, size_t n_bytes, size_t *pos, const char **ret,
                          size_t *ret_bytes);

typedef enum JsonType { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } JsonType;
JsonType json_type(const JsonValue *v);
const char* json_type_to_string(JsonType t);

/* Members and elements, borrowed; NULL when absent (v may be NULL or no object). Names are compared
 * exactly. */
const JsonValue* json_member(const JsonValue *v, const char *name);
const JsonValue* json_element(const JsonValue *v, size_t i);
size_t json_length(const JsonValue *v);
const char* json_member_name(const JsonValue *object, size_t i);

/* Exact type or failure. The string is borrowed and NUL-terminated; n_bytes is its length. Integers must
 * be integral ("5" and 1.5 are not; 5.0 is) and within ±2^53. Return true on success. */
bool json_get_string(const JsonValue *v, const char **ret, size_t *ret_bytes);
bool json_get_integer(const JsonValue *v, int64_t *ret);
bool json_get_bool(const JsonValue *v, bool *ret);

/* A table-driven reader of an object's members. */
typedef struct JsonField {
        const char *name;
        JsonType type;           /* JSON_NUMBER means an integer */
        bool is_required;
        bool accepts_null;       /* null counts as absent */
        void *ret;               /* const JsonValue** receiving the member, or NULL when absent */
} JsonField;

/* Fills the fields; unknown members, wrong types and missing ones give -EBADMSG and one sentence naming
 * the argument, what was expected and what came (shape only, never the value): `argument "timeout_s" must
 * be an integer, not a string`. path prefixes nested names. */
int json_read_object(const JsonValue *object, const char *path, const JsonField *fields, size_t n_fields,
                     char **reterr_message);

/* Writer. Commas are its business; balance of begin and end is the caller's (asserted). All return 0,
 * -ENOMEM or -EMSGSIZE (the buffer's maximum); the first error sticks, so only json_writer_finish() need
 * be checked. */
typedef struct JsonWriter {
        Buffer *buffer;
        int error;
        unsigned depth;
        bool needs_comma;
} JsonWriter;

#define JSON_WRITER_INIT(b) ((JsonWriter) { .buffer = (b) })

void json_begin_object(JsonWriter *w);
void json_end_object(JsonWriter *w);
void json_begin_array(JsonWriter *w);
void json_end_array(JsonWriter *w);
void json_key(JsonWriter *w, const char *key);
void json_string(JsonWriter *w, const char *s);               /* NULL writes null */
void json_string_n(JsonWriter *w, const char *s, size_t n_bytes); /* valid UTF-8, NUL allowed */
void json_integer(JsonWriter *w, int64_t i);
void json_unsigned(JsonWriter *w, uint64_t i);
void json_boolean(JsonWriter *w, bool b);
void json_null(JsonWriter *w);
void json_raw(JsonWriter *w, const char *text, size_t n_bytes); /* one JSON value, inserted unchanged */
void json_value(JsonWriter *w, const JsonValue *v);           /* re-serialised */
int json_writer_finish(const JsonWriter *w);
